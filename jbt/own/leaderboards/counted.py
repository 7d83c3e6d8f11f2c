"""Which of two models is better by their counted wins, where their difference has no interval
because one of them won (nearly) every verdict.

Take models a and b, of equal quality or b better. Then a wins a verdict on b with a chance of at
most 1/2; where bias favours a, of at most sigmoid(bias), at the end of the interval of c and kappa.
A prompt counts as won if a won all its verdicts on b, which is no likelier than the least likely of
them. As prompts are independent, many prompts are won with no larger a chance than by a binomial
number with the mean of these bounds (Hoeffding 1956). Without bias this is the sign test over
prompts: 30 of 30 is clear, 2 of 2 is not.

Verdicts of a on another model d also count, if the difference of b and d has an interval: a beats d
with a chance of at most sigmoid(its upper end). And where a is above d and d is above b, a is above
b: were it not, one of the two would be wrong.
"""

from __future__ import annotations

import numpy as np

from jbt.kernel.listed import Listed


def better_by_counts(
    rows: Listed,
    cluster: np.ndarray,
    open_pairs: np.ndarray,
    upper: np.ndarray,
    ends: np.ndarray,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Compare the models of pairs without an interval.

    Args:
      rows: the verdicts.
      cluster: [R] prompt of each row.
      open_pairs: [M, M] pairs to compare.
      upper: [M, M] upper end of the interval of model j less model i, logits; infinite where there
        is none, 0 on the diagonal.
      ends: [2, K] lower and upper ends of c and kappa, infinite where there is none.
      level: of each one-sided test.

    Returns:
      [M, M] whether model j is significantly better than model i, and whether any verdict counts.
    """
    shown, wins, first, second = rows.shown, rows.wins, rows.first, rows.second
    used = (shown > 0) & (first != second)
    better, counted = np.zeros_like(open_pairs), np.zeros_like(open_pairs)
    for a in np.flatnonzero(open_pairs.any(1)).tolist():
        at = np.flatnonzero(used & ((first == a) | (second == a)))
        is_first = first[at] == a
        other = np.where(is_first, second[at], first[at])
        won = np.where(is_first, wins[at], shown[at] - wins[at])
        own = np.where(is_first, 1, -1)[:, None] * rows.columns[at]
        facts = np.stack([cluster[at], other, won == shown[at], won == 0])
        (prompt, other, all_won, all_lost), own = _with_means(facts, own)
        starts = np.unique(prompt, return_index=True)[1]
        for_a, against_a = _largest(own, ends)
        b = np.flatnonzero(open_pairs[a])
        p, n = _tail(upper[other][:, b].T + for_a, all_won > 0, starts)
        better[b, a] |= p <= level
        counted[b, a] |= n > 0
        p, n = _tail(upper[b][:, other] + against_a, all_lost > 0, starts)
        better[a, b] |= p <= level
        counted[a, b] |= n > 0
    return better, counted | counted.T


def _with_means(facts: np.ndarray, loadings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The verdicts of a model, by prompt, with one more for each prompt and other model: all of
    theirs, whose loadings are the mean. The least of several log-odds is at most their mean, in
    which the position of a pair shown in both orders has no part.

    Args:
      facts: [4, R] prompt, other model, whether the verdict is won and whether it is lost.
      loadings: [R, D + 1]
    """
    _, start, group, size = np.unique(
        facts[:2], axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    joint = facts[:, start]
    group = group.ravel()
    np.minimum.at(joint[2], group, facts[2])
    np.minimum.at(joint[3], group, facts[3])
    means = np.zeros((len(start), loadings.shape[1]))
    np.add.at(means, group, loadings)
    facts = np.concatenate([facts, joint], axis=1)
    by_prompt = np.argsort(facts[0], kind="stable")
    return facts[:, by_prompt], np.concatenate([loadings, means / size[:, None]])[by_prompt]


def _largest(loadings: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """[2, R] the largest bias for a model and against it, given its loadings [R, D + 1]."""
    with np.errstate(invalid="ignore"):
        products = loadings[None] * ends[:, None]
    products = np.where(loadings == 0, 0, products)
    return np.stack([products.max(0).sum(1), (-products).max(0).sum(1)])


def _tail(logit: np.ndarray, won: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[B] the largest chance that so many prompts are won, and the number of prompts.

    Args:
      logit: [B, R] bounds of the log-odds of each verdict, by prompt; infinite where there is none.
      won: [R]
      starts: first verdict of each prompt.
    """
    from scipy.special import bdtrc, expit

    chance = np.minimum.reduceat(np.maximum(0.5, expit(logit)), starts, axis=1)
    lost = np.logical_or.reduceat(np.isfinite(logit) & ~won, starts, axis=1)
    bounded = chance < 1
    n, n_won = bounded.sum(1), (bounded & ~lost).sum(1)
    mean = np.where(bounded, chance, 0).sum(1) / np.maximum(n, 1)
    enough = n_won >= n * mean + 1
    tail = bdtrc(np.maximum(n_won - 1, 0), np.maximum(n, 1), mean)
    return np.where(enough, tail, 1.0), n


def through_others(better: np.ndarray) -> np.ndarray:
    """[M, M] whether a chain of models leads from j down to i, each better than the next."""
    reached = better
    while True:
        longer = reached | (reached.astype(float) @ reached.astype(float) > 0)
        if (longer == reached).all():
            return reached
        reached = longer
