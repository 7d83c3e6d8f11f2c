"""A few verdicts of a reference, a judge or person whose biases are known to be small, beside a
cheap judge's: which pairs to show it, and the joint fit.

The reference shares the items with the cheap judge, and so their qualities. Its comparisons of
items with different covariates identify which part of apparent quality is bias; the cheap judge's
verdicts cannot (`jbt.identifiability`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jbt.kernel import metrics, model
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.simulation import pairs
from jbt.types import (
    Comparisons,
    Design,
    Fit,
    Panel,
    Parameters,
    Pool,
    Prior,
    ScalarLike,
    Variant,
    container,
)

NEAR = 3
"""Places on either side of the boundary that `boundary` shows, in either ranking."""


@container
class Rankings:
    """A pool before the reference is asked, with the cheap judge's verdicts analysed twice."""

    pool: Pool
    naive: Float[Array, " M"]
    """Quality under the naive model, logits."""
    bias_aware: Float[Array, " M"]
    """Quality under the bias-aware model, logits."""
    k: int = dataclasses.field(metadata={"static": True})
    """Size of the top set."""


def random(r: Rankings) -> Float[Array, "N N"]:
    """All pairs of two contents."""
    return pairs.across_contents(r.pool)


def boundary(r: Rankings) -> Float[Array, "N N"]:
    """Pairs of contents that are both within `NEAR` places of the boundary between the k-th and the
    next, in one of the rankings."""
    mask = r.pool.design.content_mask()
    near = [metrics.boundary_distance(v, r.k, mask) < NEAR for v in (r.naive, r.bias_aware)]
    items = r.pool.design.of_items(near[0] | near[1])
    return pairs.across_contents(r.pool) * (items[:, None] & items)


def disputed(r: Rankings) -> Float[Array, "N N"]:
    """Pairs that the two rankings order differently; on the others both are right or both wrong.
    Pairs tied in either are not disputed."""
    estimates = [r.pool.design.of_items(v) for v in (r.naive, r.bias_aware)]
    lead = [v[:, None] - v for v in estimates]
    tie = metrics.tie_of(r.naive)
    opposed = (lead[0] * lead[1] < 0) & (jnp.abs(lead[0]) > tie) & (jnp.abs(lead[1]) > tie)
    return pairs.across_contents(r.pool) * opposed


PLACEMENTS: Mapping[str, Callable[[Rankings], Float[Array, "N N"]]] = {
    "boundary": boundary,
    "disputed": disputed,
    "random": random,
}
"""Which ordered pairs the reference may be shown: name -> 1 where allowed, else 0."""


def asked(
    key: Key[Array, ""], allowed: Float[Array, "N N"], n_reference: ScalarLike
) -> Float[Array, "N N"]:
    """The ordered pairs shown to the reference: `n_reference` random ones of those allowed, none
    twice; all if there are no more. With the same key a smaller number gives a subset of a larger.

    Args:
      key: PRNG key, consumed.
      allowed: [N, N] above 0 for pairs that may be shown.
      n_reference: verdicts; may be traced.
    """
    return jnp.minimum(pairs.spread_evenly(key, allowed, n_reference), 1)


def beside(cheap: Comparisons, reference: Comparisons, discrimination: ScalarLike = 1.0) -> Panel:
    """The panel of both judges, the reference last.

    Args:
      cheap, reference: counts over the same items.
      discrimination: the reference's, as a factor on the cheap judge's, above 0; may be traced.
    """
    dtype = cheap.shown.dtype
    s = jnp.stack([jnp.ones((), dtype), jnp.asarray(discrimination, dtype)])
    verdicts = jax.tree.map(lambda *v: jnp.stack(v, -1), cheap, reference)
    return Panel(verdicts, s, jnp.eye(2, dtype=dtype))


def joint(panel: Panel, design: Design, prior: Prior) -> Fit:
    """MAP of all judges with shared qualities. Each has its own biases, but the last, the
    reference, has none."""
    return fit_map(panel, design, prior, joint_variant(panel, design))


def joint_variant(panel: Panel, design: Design) -> Variant:
    """The mask of `joint`."""
    judges = len(panel.discrimination)
    free = jnp.arange(judges) < judges - 1
    return Variant(jnp.broadcast_to(free, (design.n_covariates, judges)), free)


def correlated(panel: Panel, design: Design, prior: Prior) -> tuple[Fit, Float[Array, "P P"]]:
    """As `joint`, but quality may correlate with the covariates: theta = x . b + residual, where
    the residual has the prior of quality, and b ~ N(0, 1 / (lam Var x)).

    The prior of `joint` says that quality is uncorrelated with the covariates. If it is correlated,
    that prior moves the part along x out of quality and into c, against the reference, whose few
    verdicts are outvoted. Here b is shrunk no harder than a residual, and the reference's verdicts
    soon decide it; very few of them make theta noisier where b is 0. In panel data this is known as
    correlated random effects (Mundlak 1978).

    As the reference has no bias, the coefficient of x in its verdicts is s b, and in another
    judge's verdicts s_g b + c_g: the panel's model with this sharing.

    Args:
      panel: at least two judges, each with its own biases (the sharing is taken to be the
        identity); the last is the reference, without biases.
      design: one content an item.
      prior: for the residual and for the biases.

    Returns:
      The fit, in terms of quality and of true biases; and the covariance of its parameters in the
      order of `Parameters.flat`, by Laplace's approximation.

    Raises:
      ValueError: items that share a content, whose renderings may differ in x.
    """
    if design.content is not None:
        raise ValueError("quality can go with a covariate only where every item is its own content")
    judges, d, m = len(panel.discrimination), design.n_covariates, design.n_contents
    design, last = design.centred(), judges - 1
    s = panel.discrimination / panel.discrimination[last]
    # The part x . b of quality acts on every judge's verdicts: s_g b beside c_g.
    panel = dataclasses.replace(
        panel, sharing=jnp.eye(judges, dtype=design.dtype).at[:, last].set(s)
    )
    lam_b = model.bias_precision(prior, (d + 1, judges), design.dtype)
    precision = prior.lam * design.spread() ** 2 / panel.discrimination[last] ** 2
    # A covariate that does not vary has no b, and any prior serves.
    lam_b = lam_b.at[:d, last].set(jnp.where(precision > 0, precision, 1))
    known, prior = joint_variant(panel, design), Prior(prior.lam, lam_b)
    variant = Variant(jnp.ones_like(known.c), known.kappa)
    fit = fit_map(panel, design, prior, variant)
    # A linear map: theta + x . b, with the reference's coefficients set to 0 again.
    b_index = m + jnp.arange(d) * judges + last
    to_quality = jnp.eye(m + (d + 1) * judges, dtype=design.dtype)
    to_quality = to_quality.at[b_index, b_index].set(0)
    covariates = design.covariates / panel.discrimination[last]
    to_quality = to_quality.at[:m, b_index].set(covariates)
    parameters = Parameters.unflat(to_quality @ fit.parameters.flat(), m, judges)
    root = laplace(fit.parameters, panel, design, prior, variant).root @ to_quality.T
    return dataclasses.replace(fit, parameters=parameters), root.T @ root


def mixed(cheap: Comparisons, reference: Comparisons) -> Comparisons:
    """The verdicts of both as if from one judge: the data of a single-bias model."""
    return jax.tree.map(jnp.add, cheap, reference)
