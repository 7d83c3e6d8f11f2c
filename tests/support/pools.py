"""Simulated verdicts on pools in which some contents have several versions."""

import itertools

import numpy as np
import pandas as pd
from numpy.random import default_rng
from scipy.special import expit


def frame(columns, rows):
    return pd.DataFrame(rows, columns=columns.split(","))


def longer(*c):
    """A judge who pays c for the covariate, in turn over the pools if there are several."""
    return lambda pool, x, quality: quality + c[pool % len(c)] * x


def simulated(
    n_pools,
    judges,
    content=(0, 1, 2, 3, 0, 1),
    *,
    slope=0.0,
    apart=0.0,
    kappa=0.0,
    repeats=1,
    seed=0,
):
    """Verdicts on every ordered pair, items, and one trusted pair a pool. Quality goes with the
    covariate of a content's first item by `slope`.

    Args:
      judges: name -> apparent quality, of (pool, covariate, quality).
      content: of each item.
      apart: standard deviation of a version's quality about its content's.
    """
    rng, content = default_rng(seed), np.array(content)
    items, verdicts, anchors = [], [], []
    copies = np.r_[0, np.maximum.accumulate(content)[:-1]]
    for pool in range(n_pools):
        base = rng.normal(size=content.max() + 1)
        quality = (slope * base + rng.normal(size=len(base)))[content]
        if apart:
            quality = quality + apart * rng.normal(size=len(content))
        is_copy = (np.arange(len(content)) > 0) & (content <= copies)
        x = base[content] + np.where(is_copy, rng.normal(size=len(content)), 0)
        items += [(pool, i, content[i], x[i]) for i in range(len(content))]
        for name, judge in judges.items():
            phi = judge(pool, x, quality)
            for i, j in [*itertools.permutations(range(len(content)), 2)] * repeats:
                won = rng.random() < expit(phi[i] - phi[j] + kappa)
                verdicts.append((pool, name, i, j, "first" if won else "second"))
        i, j = rng.permutation(len(content))[:2]
        right = rng.random() < expit(quality[i] - quality[j])
        anchors.append((pool, i, j) if right else (pool, j, i))
    return (
        frame("pool,judge,first,second,winner", verdicts),
        frame("pool,item,content,words", items),
        frame("pool,better,worse", anchors),
    )
