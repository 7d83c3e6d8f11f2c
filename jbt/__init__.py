"""jbt: when can you debias an LLM judge? A batched simulator of bias-aware Bradley-Terry.

Everything is written for one pool and vmapped over thousands; see `jbt.simulate`.
Importing jbt changes no global setting of JAX and loads no other package: each name below is
imported when it is first asked for.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if os.environ.get("JBT_CACHE", "").lower() != "off":
    # When XLA loads a kept program it takes its own tuning flags for features that the machine
    # lacks, and prints errors about nothing. It reads this once, when JAX is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from jbt import _moved

if TYPE_CHECKING:
    from jbt import acquisition, estimators, gate, identifiability, own
    from jbt import runtime as runtime
    from jbt.estimators import bias_aware, naive
    from jbt.identifiability import estimate_bias, null_space, profile
    from jbt.kernel.fit import fit_map, fit_mle
    from jbt.kernel.laplace import laplace
    from jbt.kernel.membership import membership
    from jbt.kernel.model import variant
    from jbt.simulation import judges, pairs, pools
    from jbt.simulation.simulate import simulate, stream
    from jbt.types import (
        Comparisons,
        Design,
        Fit,
        Judge,
        Panel,
        Parameters,
        Pool,
        Posterior,
        Prior,
        Status,
        Variant,
    )

_moved.install()
_moved.keep_functions("jbt", "laplace", "membership", "simulate")

__version__ = "0.1.0"
__all__ = [
    "Comparisons",
    "Design",
    "Fit",
    "Judge",
    "Panel",
    "Parameters",
    "Pool",
    "Posterior",
    "Prior",
    "Status",
    "Variant",
    "acquisition",
    "bias_aware",
    "estimate_bias",
    "estimators",
    "fit_map",
    "fit_mle",
    "gate",
    "identifiability",
    "judges",
    "laplace",
    "membership",
    "naive",
    "null_space",
    "own",
    "pairs",
    "pools",
    "profile",
    "simulate",
    "stream",
    "variant",
]

_HOMES = {
    "jbt.estimators": ("bias_aware", "naive"),
    "jbt.identifiability": ("estimate_bias", "null_space", "profile"),
    "jbt.kernel.fit": ("fit_map", "fit_mle"),
    "jbt.kernel.laplace": ("laplace",),
    "jbt.kernel.membership": ("membership",),
    "jbt.kernel.model": ("variant",),
    "jbt.simulation.simulate": ("simulate", "stream"),
    "jbt.types": tuple(name for name in __all__ if name[0].isupper()),
}
"""Module -> its names at the top of jbt; the other names of `__all__` are modules."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        globals()[name] = value = getattr(importlib.import_module(_HOME[name]), name)
        return value
    if not name.startswith("_"):
        module = f"jbt.{name}"  # also of an old path, see `_moved`
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    raise AttributeError(f"module 'jbt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
