"""From comparisons to quality: what a practitioner would run.

An estimator is a function (comparisons, design, prior) -> Fit.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jbt import identifiability
from jbt.identifiability import BiasEstimate
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.types import Comparisons, Design, Fit, Parameters, Prior, Status, Verdicts, n_judges


def naive(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Bradley-Terry without biases, c = kappa = 0: what counting wins amounts to. Its
    quality, `fit.parameters.theta` [M] in logits, estimates theta + x . c* (Prop. 1)."""
    return fit_map(
        comparisons, design, prior, model.variant("naive", design, n_judges(comparisons))
    )


def bias_aware(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Eq. 1 with c and kappa free. In an unpaired design the prior, not the comparisons,
    splits apparent quality into `fit.parameters.theta` and `x . c` (Prop. 2, Eq. 3)."""
    return fit_map(
        comparisons, design, prior, model.variant("bias_aware", design, n_judges(comparisons))
    )


ESTIMATORS = {"naive": naive, "bias_aware": bias_aware}
"""Those that are one MAP, in either precision, of one judge or of a panel. `measured` needs float64
and one judge."""


def with_bias(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    c: Float[Array, " D"] | Float[Array, ""] | float,
) -> Fit:
    """Quality and position by MAP, the bias coefficients being known from elsewhere: from
    `identifiability.estimate_bias`, say, or from another pool of the same judge.

    Args:
      c: [D] logits per unit of each covariate, or a number if there is one.

    Raises:
      ValueError: not one for each covariate.
    """
    c = jnp.atleast_1d(jnp.asarray(c, design.dtype))
    if c.shape != (design.n_covariates,):
        raise ValueError(f"c must be one for each of {design.n_covariates} covariates, got {c}")
    known = dataclasses.replace(Parameters.zeros(design), c=c)
    return fit_map(comparisons, design, prior, model.variant("position", design), start=known)


def measured(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    estimates: BiasEstimate | None = None,
) -> Fit:
    """c measured first, then quality: each coefficient of c by maximum likelihood
    (`identifiability.estimate_bias`), quality and position by MAP given these (`with_bias`). Where
    the comparisons give no estimate of a coefficient, it is the bias-aware MAP's.

    A prior on c shrinks it, and so leaves a part of the bias in the qualities; where the
    comparisons tell c, this does not.

    Args:
      comparisons, design: one pool, float64.
      prior: of quality and position; of c where it has no estimate.
      estimates: of every covariate, leaves with a leading axis D, if they are known already.

    Raises:
      ValueError: float32; not one estimate for each covariate.
    """
    d = design.n_covariates
    if estimates is None:

        def estimate(covariate: Int[Array, ""]) -> BiasEstimate:
            return identifiability.estimate_bias(comparisons, design, covariate=covariate)

        estimates = jax.vmap(estimate)(jnp.arange(d))
    if estimates.c.shape != (d,):
        raise ValueError(f"one estimate for each of {d} covariates, got {estimates.c.shape}")
    mode = bias_aware(comparisons, design, prior).parameters
    exists = estimates.status == Status.CONVERGED
    return with_bias(comparisons, design, prior, jnp.where(exists, estimates.c, mode.c))


TIES = ("half", "dropped")
"""What a pair whose verdicts are split evenly counts for: half a win for each, or nothing."""


def majority(comparisons: Comparisons, *, ties: str = "half") -> Comparisons:
    """The verdicts of each unordered pair, whichever was shown first, replaced by what most of them
    say. A pair counts for as many verdicts as it has, half of them in either order.

    Args:
      ties: what an even split counts for: "half" a win each, or "dropped".

    Raises:
      ValueError: an unknown `ties`.
    """
    if ties not in TIES:
        raise ValueError(f"unknown ties {ties!r}: one of {', '.join(TIES)}")
    shown, wins = comparisons.shown, comparisons.wins
    n = shown + shown.T
    won = wins + (shown - wins).T
    even = 2 * won == n
    counted = jnp.where(even, 0, n) if ties == "dropped" else n
    share = jnp.where(even, 0.5, 2 * won > n)
    return Comparisons(counted / 2, share * counted / 2)


def order_swap(
    comparisons: Comparisons, design: Design, prior: Prior, *, ties: str = "half"
) -> Fit:
    """Order swap and majority vote, the standard remedy against position bias: both orders of a
    pair are asked, the pair goes to whom most verdicts name (`majority`), and wins are counted
    (`naive`).

    With one verdict in either order, or in one order alone, and ties as halves this is the naive
    estimate itself. At c = kappa = 0 the likelihood of a pair is, with d = theta_i - theta_j,

        won log sigmoid(d) + (n - won) log sigmoid(-d),

    where n counts its verdicts and `won` those for i, in whatever order they were asked. Of two
    verdicts `won` is 0, 1 or 2; the majority's, n times 0, 1/2 or 1, is the same number. So 0.61
    for both, as in the paper's table of baselines, is what ties as halves give by algebra.
    Majorities of more than two verdicts, and ties that are dropped, make a difference; a bias that
    a pair has in both orders stays in either way.

    Args:
      comparisons: counts of one judge.
      ties: "half" or "dropped", see `majority`.

    Raises:
      ValueError: an unknown `ties`.
    """
    return naive(majority(comparisons, ties=ties), design, prior)


def residualised(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Length residualisation: the naive estimate less its least-squares regression on the
    covariates (with a constant). `parameters.theta` [M] are the residuals plus the mean of the
    naive estimate, `parameters.c` [D] the slopes.

    It nearly equals the bias-aware fit. That one's quality is a residual too (Eq. 3): of apparent
    quality phi regressed on x by ridge regression of penalty lambda_b / lambda,

        c_hat = (N S_xx + (lambda_b / lambda) I)^-1 N S_xphi,    theta = phi - x . c_hat,

    which for N S_xx = 7.5, a balanced binary x of 30 items, and lambda_b / lambda = 0.1 is 1.3 %
    short of least squares. What else differs is phi itself. With (theta, c) profiled out the
    bias-aware penalty on a centred phi is

        lambda/2 [|phi|^2 - phi' x (x'x + (lambda_b / lambda) I)^-1 x' phi],

    so that the prior draws only the part across x towards 0, while the naive one,
    lambda/2 |phi|^2, draws all; both vanish beside the likelihood as verdicts accumulate. And
    kappa is left out of the naive fit, which scales it down, as a logit averaged over both orders
    is flatter: a factor that hardly changes ranks. The covariate's part of the naive phi is wrong
    by a factor of its own then, but least squares removes all of it.

    Args:
      comparisons: of one judge.

    Raises:
      ValueError: contents with several renderings, whose quality has no covariate of its own; a
        panel.
    """
    if n_judges(comparisons) is not None:
        raise ValueError("residualised needs one judge's verdicts, got a Panel")
    if design.content is not None:
        raise ValueError("residualised needs every item to be its own content")
    fit = naive(comparisons, design, prior)
    theta, m = fit.parameters.theta, design.item_mask
    n = m.sum()
    x = jnp.where(m[:, None], design.covariates, 0)
    x = jnp.where(m[:, None], x - x.sum(0) / n, 0)
    slopes = jnp.linalg.pinv(x.T @ x, hermitian=True) @ (x.T @ theta)
    parameters = dataclasses.replace(fit.parameters, theta=theta - x @ slopes, c=slopes)
    return dataclasses.replace(fit, parameters=parameters)
