"""Plans how many more prompts until one model is significantly above another.

From G prompts the difference of two models is d with variance V and df degrees of freedom. With n
more prompts like these, K = (G + n) / G, it is d', with variance V / K and K df degrees of freedom,
and the first is significantly above where d' > t_q sqrt(V / K), q the quantile asked for. Today's
prompts stay among them: for a true difference delta,

    d' ~ N((d + (K - 1) delta) / K, (V / K) (1 - 1 / K)),

and with delta unknown, delta ~ N(d, V), d' ~ N(d, V (1 - 1 / K)). This is the conditional and the
predictive power of a trial halfway (Spiegelhalter, Freedman & Blackburn 1986); as V is an estimate,
both have Student's t in place of the normal distribution.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from jbt.types import check_count

MOST_COPIES = 100
"""Largest multiple of today's prompts that is looked at."""


def power(
    more: np.ndarray | int,
    truth: np.ndarray | float,
    difference: np.ndarray | float,
    variance: np.ndarray | float,
    df: np.ndarray | float,
    n_prompts: int,
    quantile: float,
) -> np.ndarray:
    """Chance that the difference is significant with `more` prompts; arrays that broadcast.

    Args:
      more: prompts to add (count).
      truth: delta, logits; NaN for a delta as uncertain as today's prompts leave it.
      difference, variance, df: d, V and its degrees of freedom, from `n_prompts` prompts.
      quantile: of Student's t that a significant difference exceeds, 0.975 for a 95 % interval.
    """
    from scipy import special

    copies = 1 + np.asarray(more) / n_prompts
    known = np.isfinite(truth)
    mean = np.where(known, (difference + (copies - 1) * truth) / copies, difference)
    spread = variance * (1 - 1 / copies) * np.where(known, 1 / copies, 1)
    bound = special.stdtrit(df * copies, quantile) * np.sqrt(variance / copies)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = special.stdtr(df, (mean - bound) / np.sqrt(spread))
    return np.where(spread > 0, chance, mean > bound)


def more_prompts(
    truth: float,
    difference: float,
    variance: float,
    df: float,
    n_prompts: int,
    *,
    quantile: float = 0.975,
    wanted: float = 0.8,
) -> float:
    """The fewest prompts to add with which the difference is significant with a chance of `wanted`;
    infinite where `MOST_COPIES` times as many are not enough. Arguments as in `power`.

    Raises:
      ValueError: fewer than 2 prompts.
    """
    check_count("n_prompts", n_prompts, least=2)

    def chance(more: int) -> float:
        return float(power(more, truth, difference, variance, df, n_prompts, quantile))

    if chance(0) >= wanted:
        return 0.0
    low, high, most = 0, 1, MOST_COPIES * n_prompts
    while chance(high) < wanted:
        if high == most:
            return np.inf
        low, high = high, min(2 * high, most)
    numbers = range(low + 1, high + 1)
    return float(numbers[bisect_left(numbers, wanted, hi=len(numbers) - 1, key=chance)])
