"""When to stop asking: the top set is sure enough, or the verdicts left would change little.

Both are functions of the view at a refit, which holds the posterior and the pairs that may be
asked. A posterior probability may be looked at after every verdict: over pools drawn from the
prior, if the model is right, the sets that were called sure at p are right in at least a share p of
studies, whatever rule chose the verdicts and whenever one looked. That is an average over the
prior, which has few near ties: where the k-th and the next content are nearly equal, a sure set is
right less often; with a zone of indifference, where they differ by little more than it. Where the
model is wrong, or the prior decides, it promises nothing; `sweeps.stopping` measures both, and
`benchmarks.calibration stops` near ties.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Bool, Float

from jbt.acquisition.rules import entropy_reduction
from jbt.acquisition.views import PanelView, View
from jbt.kernel import metrics
from jbt.kernel.membership import set_probability, sobol_normals
from jbt.types import ScalarLike

DRAWS = 256
"""Sobol draws behind a certainty (count). Its rms error between .9 and .97 is .005 for one content
of 10 and .009 for three of 10, half of that of 64 draws; some .003 of it are alike in all runs,
which share the draws."""


def certainty(view: View | PanelView, zone: ScalarLike = 0.0) -> Float[Array, ""]:
    """P(the estimated top k is the true one, up to contents that are better by less than `zone`,
    logits) under the posterior of the last refit. Ties of the estimate are broken by the view's
    priority; NaN for a posterior that is not finite."""
    posterior, one = view.posterior, _first(view)
    normals = sobol_normals(DRAWS, posterior.root.shape[0], posterior.root.dtype, seed=1)
    return set_probability(posterior, top_set(view), one.design.content_mask(), normals, zone=zone)


def top_set(view: View | PanelView) -> Bool[Array, " M"]:
    """The k contents of highest estimated quality, exactly k: `View.is_top` breaks ties pair by
    pair, so that of estimates each tied with the next it may find fewer or more."""
    one, theta = _first(view), view.posterior.mean.theta
    # Whole numbers, because equality of these is transitive.
    cell = jnp.where(one.design.content_mask(), jnp.round(theta / metrics.tie_of(theta)), -jnp.inf)
    tied = (cell == cell[:, None]) & (one.priority > one.priority[:, None])
    above = (cell > cell[:, None]) | tied
    return (above.sum(1) < one.k) & one.design.content_mask()


def doubt(view: View | PanelView) -> Float[Array, ""]:
    """Sum of the entropies of the memberships (natural logarithm)."""
    p = _first(view).membership
    return (-xlogy(p, p) - xlogy(1 - p, 1 - p)).sum()


def best_gain(view: View | PanelView) -> Float[Array, ""]:
    """Largest expected fall of `doubt` by one available verdict (`rules.entropy_reduction`);
    with several judges, the largest per unit of price. 0 where nothing is available."""
    key = jax.random.key(0)  # the score draws nothing

    def of_judge(view: View) -> Float[Array, "N N"]:
        return jnp.where(view.available, entropy_reduction(view, key), 0)

    if isinstance(view, PanelView):
        return (view.each(of_judge) / view.price).max()
    return of_judge(view).max()


def attainable(view: View | PanelView, left: Float[Array, ""] | float) -> Float[Array, ""]:
    """Share of `doubt` that the rest of the budget can remove, if every verdict were worth as much
    as the best one now: an upper bound to first order, since gains shrink as verdicts come in.

    Args:
      left: the rest of the budget, in verdicts; with several judges in the unit of the prices.

    Returns:
      0 where nothing is in doubt.
    """
    total = doubt(view)
    return jnp.where(total > 0, best_gain(view) * left / jnp.where(total > 0, total, 1), 0)


def _first(view: View | PanelView) -> View:
    """The view itself, or the first judge's: what all judges have in common is the same there."""
    return view.of(0) if isinstance(view, PanelView) else view
