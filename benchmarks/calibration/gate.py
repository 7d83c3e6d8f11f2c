"""Rate at which the sign test of `jbt gate` enables a correction that is right on exactly half of
the disputed pairs, by the errors of the labels.

Pools have 30 contents with quality of sd 1.2; the apparent quality has a bias of 1 logit times a
covariate, and noise. Naive ranks by it, bias-aware by its residual after regression on the
covariate, which removes quality too: the correlation of quality and covariate is 0.6. Among the
disputed pairs, equal numbers are kept that bias-aware and naive have right: the hardest case of the
guarantee. Labels are drawn without replacement, at most one a pool where one decision covers many
pools.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.calibration import Cell
from jbt.gate import critical_values

N, SD, RHO, NOISE = 30, 1.2, 0.6, 0.3
LABELS = 40
"""Labels of one decision (count)."""
ALPHA = 0.05
BLOCK = 200
"""Pools drawn together."""

ERRORS = {
    "true labels": {},
    "each wrong with chance 0.1": {"rates": (0.1, 0.1)},
    "each wrong with chance 0.3": {"rates": (0.3, 0.3)},
    "wrong with chance 0.05 where bias-aware is right, 0.35 where naive is": {
        "rates": (0.05, 0.35)
    },
    "one annotator, who misjudges contents by sd 0.3": {"contents": 0.3},
    "one annotator, who misjudges contents by sd 0.6": {"contents": 0.6},
    "one annotator, who misjudges contents by sd 1.2": {"contents": 1.2},
    "an annotator a label, who misjudge contents by sd 0.6": {"contents": 0.6, "per_label": True},
    "one annotator, who adds 0.3 times minus the covariate": {"covariate": -0.3},
}

"""How labels err: the error rates on pairs that bias-aware and naive have right; the standard
deviation of an annotator's error about the quality of a content (logits), drawn once or for each
label; an annotator's error for each unit of the covariate (logits)."""

PROVED = tuple(name for name in ERRORS if name.startswith(("true", "each wrong")))
"""Errors for which the bound is proved: independent ones, with one rate below one half."""

BROKEN = (
    "jbt gate: the bound holds for labels that are wrong independently of one another, with one "
    "rate below one half; one annotator's error about a content affects all its pairs"
)


def pools(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """n pools: quality and covariate [n, N], and which pairs [n, pairs] only bias-aware, and only
    naive, has right."""
    quality = SD * rng.normal(size=(n, N))
    x = RHO * quality / SD + np.sqrt(1 - RHO**2) * rng.normal(size=(n, N))
    naive = quality + x + NOISE * rng.normal(size=(n, N))
    centred = x - x.mean(1, keepdims=True)
    slope = (centred * naive).sum(1, keepdims=True) / (centred**2).sum(1, keepdims=True)
    truth, by_naive, by_aware = (ahead(v) > 0 for v in (quality, naive, naive - slope * x))
    differ = by_naive != by_aware
    return quality, x, differ & (by_aware == truth), differ & (by_naive == truth)


def ahead(values: np.ndarray) -> np.ndarray:
    """[..., pairs] lead of the first of each pair over the second."""
    i, j = np.triu_indices(N, 1)
    return values[..., i] - values[..., j]


def thinned(rng: np.random.Generator, which: np.ndarray, size: np.ndarray) -> np.ndarray:
    """A random choice of `size` [n] of the pairs in `which` [n, pairs]."""
    order = np.where(which, rng.random(which.shape), 2.0).argsort(1).argsort(1)
    return which & (order < size[:, None])


def right_and_disputed(
    rng: np.random.Generator,
    n: int,
    *,
    rates: tuple[float, float] = (0.0, 0.0),
    contents: float = 0.0,
    per_label: bool = False,
    covariate: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """For n pools, the disputed pairs that bias-aware has right by the labels, and all disputed
    pairs: counts [n] each. With an annotator for each label (`per_label`), a pair has one error."""
    labelled, disputed = [], []
    for begin in range(0, n, BLOCK):
        quality, x, right, wrong = pools(rng, min(BLOCK, n - begin))
        size = np.minimum(right.sum(1), wrong.sum(1))
        right, wrong = (thinned(rng, v, size) for v in (right, wrong))
        lead = ahead(quality)
        if per_label:
            error = np.sqrt(2) * contents * rng.normal(size=lead.shape)
        else:
            error = ahead(contents * rng.normal(size=quality.shape) + covariate * x)
        flipped = (lead > 0) != (lead + error > 0)
        flipped ^= rng.random(lead.shape) < np.where(right, *rates)
        labelled.append(((right & ~flipped) | (wrong & flipped)).sum(1))
        disputed.append(2 * size)
    return np.concatenate(labelled), np.concatenate(disputed)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    from scipy.stats import hypergeom

    critical = critical_values(ALPHA, LABELS)
    for name, errors in ERRORS.items():
        rng = np.random.default_rng([seed, 1])
        labelled, disputed = right_and_disputed(rng, studies, **errors)
        n = np.minimum(LABELS, disputed)
        rate = hypergeom(np.maximum(disputed, 1), labelled, n).sf(critical[n] - 1)
        kept = rng.random(studies) >= rate
        above = f"{(rate > ALPHA + 1e-9).mean():.0%} of pools have a rate above {ALPHA:g}"
        yield Cell(
            f"jbt gate --rule sign, false enables in a pool, {LABELS} disputed pairs",
            name,
            studies,
            studies,
            int(kept.sum()),
            nominal=1 - ALPHA,
            one_sided=True,
            note=above + f"; {BROKEN}" * bool(rate.mean() > ALPHA),
            may_miss=name not in PROVED,
        )
    for name, errors in ERRORS.items():
        rng = np.random.default_rng([seed, 2])
        families = min(studies, 1000)
        labelled, disputed = right_and_disputed(rng, families * LABELS, **errors)
        right = rng.random(len(labelled)) * disputed < labelled
        right = (right & (disputed > 0)).reshape(families, LABELS).sum(1)
        n = (disputed > 0).reshape(families, LABELS).sum(1)
        kept = right < critical[n]
        yield Cell(
            f"jbt gate --rule sign, false enables over {LABELS} pools, one disputed pair of each",
            name,
            families,
            families,
            int(kept.sum()),
            nominal=1 - ALPHA,
            one_sided=True,
            note=BROKEN * bool(kept.mean() < 1 - ALPHA),
            may_miss=name not in PROVED,
        )
