"""jbt: when can you debias an LLM judge? A batched simulator of bias-aware Bradley-Terry.

Everything is written for one pool and vmapped over thousands; see `simulate`.
Importing jbt changes no global setting of JAX and loads jax, numpy and jaxtyping alone; `jbt.own`,
which needs pandas, is loaded when it is first asked for.
"""

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING

if "JBT_CACHE" in os.environ:
    # When XLA loads a kept program it takes its own tuning flags for features that the machine
    # lacks, and prints errors about nothing. It reads this once, when JAX is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from jbt import _moved, acquisition, estimators, gate, identifiability
from jbt.estimators.baselines import bias_aware, naive
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

if TYPE_CHECKING:
    from jbt import own

_moved.install()
for _name in ("laplace", "membership", "simulate"):
    _moved.keep_function("jbt", _name)
del _name

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


def __getattr__(name: str) -> ModuleType:
    if name == "own" or f"jbt.{name}" in _moved.MOVED:
        return importlib.import_module(f"jbt.{name}")
    raise AttributeError(f"module 'jbt' has no attribute {name!r}")
