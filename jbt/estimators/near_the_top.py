"""Quality near the top from the verdicts near the top, where the bias may be another."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jbt.estimators.baselines import bias_aware
from jbt.types import Comparisons, Design, Fit, Prior, Status

NEAR = 20
"""Contents that are compared again, by default; of 30 in the paper's pools."""


def local(comparisons: Comparisons, design: Design, prior: Prior, *, near: int = NEAR) -> Fit:
    """The bias-aware fit of the verdicts among the `near` contents that it ranks first from all.

    Where the bias grows with quality, these verdicts alone know the bias of the best; where it does
    not, it throws verdicts away. So it needs a reason. On pools like the paper's recall rises from
    .73 to .86 if the bias grows as fast as quality, and falls from .89 to .85 if it is constant;
    where quality goes with the covariate, it falls in either case (`sweeps.varying_bias`).

    The other contents keep their order from all verdicts, below: their qualities are moved down
    together until the best of them is just below the last of the near ones.

    Args:
      comparisons: counts of one judge.
      near: contents that are compared again, at least 2; a tie at the last place adds to them.

    Returns:
      A `Fit`; c and kappa are those of the near contents. The status is the first fit's if that did
      not converge.
    """
    first = bias_aware(comparisons, design, prior)
    theta, contents = first.parameters.theta, design.content_mask()
    better = (theta > theta[:, None]) & contents
    kept = contents & (better.sum(1) < near)
    items = design.of_items(kept.astype(design.dtype)) > 0
    both = (items[:, None] & items).astype(design.dtype)
    among = Comparisons(comparisons.shown * both, comparisons.wins * both)
    second = bias_aware(among, design, prior)
    again = second.parameters.theta
    lowest = jnp.where(kept, again, jnp.inf).min()
    others = jnp.where(contents & ~kept, theta, -jnp.inf).max()
    gap = jnp.finfo(design.dtype).eps ** 0.5
    lower = theta - jnp.maximum(others - lowest + gap, 0)
    lower = jnp.where(jnp.isfinite(lower), lower, theta)
    quality = jnp.where(kept, again, jnp.where(contents, lower, 0))
    parameters = dataclasses.replace(second.parameters, theta=quality)
    status = jnp.where(first.status == Status.CONVERGED, second.status, first.status)
    return dataclasses.replace(second, parameters=parameters, status=status)
