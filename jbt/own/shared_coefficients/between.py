"""Covariates within contents and between them.

A prior under which quality is unrelated to the covariates would decide between c and quality, and
outweigh a few paired renderings or trusted verdicts. So quality has a slope b in the covariates,
common to all pools,

    theta ~ N(mean over its items of x . b, 1/lam),     b ~ N(0, 1/lam_b),

the within-between form of a mixed model (Mundlak, 1978). Differences between contents then identify
c + b; renderings of one content, or judges known to be unbiased, identify c itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jbt.types import Design, Panel, Rows, Verdicts


def content_means(items: Design) -> np.ndarray:
    """[F, M, D] mean of each covariate over the items of a content, less its mean over the pool's
    contents; 0 at padding."""
    x, mask = np.asarray(items.covariates), np.asarray(items.item_mask)
    n_pools, n, d = x.shape
    owner = np.tile(np.arange(n), (n_pools, 1))
    owner = owner if items.content is None else np.asarray(items.content)
    total, count = (np.zeros((n_pools, items.n_contents, e)) for e in (d, 1))
    pool, item = np.nonzero(mask)
    np.add.at(total, (pool, owner[pool, item]), x[pool, item])
    np.add.at(count, (pool, owner[pool, item]), 1)
    mean, real = total / count.clip(1), count > 0
    centre = np.where(real, mean, 0).sum(1, keepdims=True) / real.sum(1, keepdims=True)
    return np.where(real, mean - centre, 0)


def with_means(design: Design, verdicts: Verdicts, means: np.ndarray) -> tuple[Design, Any]:
    """Pools with the covariates of `means` appended to their own.

    Args:
      design, verdicts: counts, rows or panels of either, leaves with a leading axis of F pools; the
        last axis of the verdicts may be judges.
      means: [F, M, D] from `content_means`.
    """
    if isinstance(verdicts, Panel):
        design, of_judges = with_means(design, verdicts.verdicts, means)
        return design, jax.vmap(Panel)(of_judges, verdicts.discrimination, verdicts.sharing)
    pool, x = np.arange(len(means))[:, None], np.asarray(design.covariates)
    if isinstance(verdicts, Rows):
        sides = verdicts.first, verdicts.second
        indices = [np.asarray(v) for v in sides]
        places = pool.reshape(-1, *[1] * (indices[0].ndim - 1))
        difference = np.moveaxis(means[places, indices[0]] - means[places, indices[1]], -1, 2)
        difference = jnp.concatenate([verdicts.difference, jnp.asarray(difference)], 2)
        counts = verdicts.ordered, verdicts.shown, verdicts.wins
        verdicts = jax.vmap(Rows)(*sides, difference, *counts)
        x = np.concatenate([x, np.zeros_like(x)], 2)
    else:
        owner = np.arange(x.shape[1])[None] if design.content is None else design.content
        x = np.concatenate([x, means[pool, np.asarray(owner)]], 2)
    # vmap, as a container's own shapes are those of one pool.
    build = jax.vmap(partial(Design, n_contents=design.n_contents))
    return build(jnp.asarray(x), design.content, design.item_mask), verdicts
