"""jbt: when can you debias an LLM judge? A batched simulator of bias-aware Bradley-Terry.

Everything is written for one pool and vmapped over thousands; see `jbt.simulate`.
Importing jbt changes no global setting and loads jax, numpy and jaxtyping alone.
"""

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
