"""jbt: when can you debias an LLM judge? A batched simulator of bias-aware Bradley-Terry.

Everything is written for one pool and vmapped over thousands; see `jbt.simulate`.
Importing jbt changes no global setting of JAX and loads jax, numpy and jaxtyping alone.
"""

import os

if "JBT_CACHE" in os.environ:
    # When XLA loads a kept program it takes its own tuning flags for features that the machine
    # lacks, and prints errors about nothing. It reads this once, when JAX is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from jbt import (
    acquisition,
    estimators,
    fit,
    identifiability,
    judges,
    laplace,
    membership,
    metrics,
    model,
    pairs,
    pools,
    priors,
    simulate,
    theory,
    types,
)

__version__ = "0.1.0"
__all__ = [
    "acquisition",
    "estimators",
    "fit",
    "identifiability",
    "judges",
    "laplace",
    "membership",
    "metrics",
    "model",
    "pairs",
    "pools",
    "priors",
    "simulate",
    "theory",
    "types",
]
