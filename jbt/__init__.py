"""jbt: when can you debias an LLM judge? A batched simulator of bias-aware Bradley-Terry.

Everything is written for one pool and vmapped over thousands; see `jbt.simulate`.
Importing jbt changes no global setting of JAX and loads no other package: each name below is
imported when it is first asked for.
"""

import os
from typing import TYPE_CHECKING

if os.environ.get("JBT_CACHE", "").lower() != "off":
    # When XLA loads a kept program it takes its own tuning flags for features that the machine
    # lacks, and prints errors about nothing. It reads this once, when JAX is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from jbt import _lazy

if TYPE_CHECKING:
    from jbt import acquisition, estimators, gate, identifiability, own
    from jbt import runtime as runtime
    from jbt.estimators import bias_aware, naive
    from jbt.identifiability import estimate_bias, null_space, profile
    from jbt.kernel.fit import fit_map
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

__getattr__ = _lazy.getter("jbt", __file__)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
