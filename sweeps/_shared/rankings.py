"""The two rankings of a pool: the cheap judge's verdicts, analysed without the correction and
with it."""

from __future__ import annotations

from jaxtyping import Array

from jbt.estimators import ESTIMATORS
from jbt.estimators.reference import Rankings
from jbt.types import Comparisons, Pool, Prior


def both_rankings(
    pool: Pool, comparisons: Comparisons, prior: Prior, k: int
) -> tuple[Rankings, dict[str, Array]]:
    """The naive and the bias-aware ranking, and the status of each registered estimator."""
    fits = {name: fit(comparisons, pool.design, prior) for name, fit in ESTIMATORS.items()}
    naive, bias_aware = (fits[name].parameters.theta for name in ("naive", "bias_aware"))
    statuses = {f"status_{name}": fit.status for name, fit in fits.items()}
    return Rankings(pool, naive, bias_aware, k), statuses
