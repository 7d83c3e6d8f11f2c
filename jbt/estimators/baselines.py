"""Estimators of quality from comparisons that a practitioner would run.

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
    quality, `fit.parameters.theta` [M] in logits, estimates theta + x . c*, centred (Prop. 1).

    That is its limit with ever more comparisons of a logistic judge at kappa* = 0, discrimination
    1. With a position bias and both orders judged equally often, the win rate of a pair is the mean
    of sigmoid(d + kappa) and sigmoid(d - kappa), a flatter function of the difference d: the limit
    has smaller differences and, if every pair is judged equally often, the same order.
    """
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
"""Estimators that are a single MAP, in either precision, of one judge or of a panel. `measured`
needs float64 and one judge."""


def with_bias(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    c: Float[Array, " D"] | Float[Array, ""] | float,
) -> Fit:
    """Quality and position by MAP, with bias coefficients known from elsewhere, for example from
    `identifiability.estimate_bias` or from another pool of the same judge.

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
    """Measure c first, then quality: each coefficient of c by maximum likelihood
    (`identifiability.estimate_bias`), quality and position by MAP given these (`with_bias`). Where
    the comparisons give no estimate of a coefficient, the bias-aware MAP's is used.

    A prior on c shrinks it, and so leaves part of the bias in the qualities; where the comparisons
    identify c, this estimator does not.

    Args:
      comparisons, design: one pool, float64.
      prior: for quality and position; for c where it has no estimate.
      estimates: estimates for every covariate, leaves with a leading axis D, if known already.

    Raises:
      ValueError: float32.
    """
    if estimates is None:

        def estimate(covariate: Int[Array, ""]) -> BiasEstimate:
            return identifiability.estimate_bias(comparisons, design, covariate=covariate)

        estimates = jax.vmap(estimate)(jnp.arange(design.n_covariates))
    mode = bias_aware(comparisons, design, prior).parameters
    exists = estimates.status == Status.CONVERGED
    return with_bias(comparisons, design, prior, jnp.where(exists, estimates.c, mode.c))


def majority(comparisons: Comparisons, *, drop_ties: bool = False) -> Comparisons:
    """Replace the verdicts of each unordered pair, in either order, by their majority. A pair keeps
    its number of verdicts, half of them in either order. An even split counts as half a win each,
    or is dropped.
    """
    shown, wins = comparisons.shown, comparisons.wins
    n = shown + shown.T
    won = wins + (shown - wins).T
    even = 2 * won == n
    counted = jnp.where(even, 0, n) if drop_ties else n
    share = jnp.where(even, 0.5, 2 * won > n)
    return Comparisons(counted / 2, share * counted / 2)


def order_swap(
    comparisons: Comparisons, design: Design, prior: Prior, *, drop_ties: bool = False
) -> Fit:
    """Order swap and majority vote, the standard remedy against position bias: the judge sees both
    orders of a pair, the majority wins it (`majority`), and wins are counted (`naive`).

    With one verdict in either order, or in one order alone, and ties as halves this is the naive
    estimate itself. At c = kappa = 0 the likelihood of a pair is, with d = theta_i - theta_j,

        won log sigmoid(d) + (n - won) log sigmoid(-d),

    where n counts its verdicts and `won` those for i, in either order. With two verdicts `won` is
    0, 1 or 2; the majority's, n times 0, 1/2 or 1, is the same number. So ties as halves give 0.61
    for both estimators, as in the paper's table of baselines, by algebra. Majorities of more than
    two verdicts, and ties that are dropped, make a difference; a bias that acts in both orders of a
    pair stays either way.

    Args:
      comparisons: counts of one judge.
      drop_ties: see `majority`.
    """
    return naive(majority(comparisons, drop_ties=drop_ties), design, prior)


def residualised(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Length residualisation: the naive estimate less its least-squares regression on the
    covariates (with a constant). `parameters.theta` [M] are the residuals plus the mean of the
    naive estimate, `parameters.c` [D] the slopes.

    It nearly equals the bias-aware fit, whose quality is a residual too (Eq. 3): of a ridge
    regression of apparent quality phi on x with penalty lambda_b / lambda,

        c_hat = (N S_xx + (lambda_b / lambda) I)^-1 N S_xphi,    theta = phi - x . c_hat,

    which for N S_xx = 7.5, a balanced binary x of 30 items, and lambda_b / lambda = 0.1 is 1.3 %
    short of least squares. The other difference is phi itself. With (theta, c) profiled out the
    bias-aware penalty on a centred phi is

        lambda/2 [|phi|^2 - phi' x (x'x + (lambda_b / lambda) I)^-1 x' phi],

    so that the prior shrinks only the part of phi orthogonal to x, while the naive penalty,
    lambda/2 |phi|^2, shrinks all of it; both vanish beside the likelihood as verdicts accumulate.
    And the naive fit leaves out kappa, which scales phi down, as a logit averaged over both orders
    is flatter: a factor that hardly changes ranks. The covariate's part of the naive phi is then
    wrong by another factor, but least squares removes all of it.

    Args:
      comparisons: verdicts of one judge.

    Raises:
      ValueError: contents with several renderings, whose quality has no single covariate; a panel.
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
