"""A bias that grows with quality: one more coefficient for each covariate.

    phi_i = theta_a(i) + (c + gamma theta_a(i)) . x_i,    theta about its mean

This is `Judge.interaction` as a model. gamma multiplies a parameter, so the likelihood is concave
in (theta, c, kappa) at fixed gamma and in (c, gamma, kappa) at fixed theta, but not in all of them:
there may be several optima, and this is the one that Newton's method reaches from 0.

Where every item is its own content, nothing but the prior tells gamma from the qualities: any phi
is that of theta_i = (phi_i - c . x_i) / (1 + gamma . x_i). Two renderings of one content tell its
c + gamma theta_a; renderings of contents of unlike quality tell c and gamma apart.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jbt.kernel import model
from jbt.types import Comparisons, Design, Fit, Parameters, Prior, Status, container

MAX_STEPS = 100
"""Step limit, refused steps included."""


@container
class InteractionFit:
    """The maximum a posteriori with a bias that grows with quality."""

    fit: Fit
    """theta, c and kappa: c is the bias of a content of average quality. Status FLAT where the
    comparisons made do not identify c and gamma, so that the prior chooses them."""
    interaction: Float[Array, " D"]
    """gamma, logits per unit of the covariate and logit of quality."""


def interaction(comparisons: Comparisons, design: Design, prior: Prior) -> Fit:
    """Quality, c and kappa where the bias may grow with quality; gamma is left out of the result.
    As `fit_interaction`."""
    return fit_interaction(comparisons, design, prior).fit


def fit_interaction(comparisons: Comparisons, design: Design, prior: Prior) -> InteractionFit:
    """The optimum that Newton's method reaches from 0; where the objective is not convex, steps are
    those of Fisher scoring. Steps that do not lower the objective are shortened; the last is at
    most 1e-3 posterior standard deviations in float32, 1e-8 in float64.

    Args:
      comparisons: counts of one judge.
      design: the covariates as given, not centred: gamma is the bias that quality adds to an item
        at x = 1 beyond one at x = 0.
      prior: gamma has that of c.

    Raises:
      ValueError: a panel, or rows.
    """
    if not isinstance(comparisons, Comparisons):
        kind = type(comparisons).__name__
        raise ValueError(f"an interaction needs the counts of one judge, got {kind}")
    tolerance = 1e-3 if design.dtype == jnp.float32 else 1e-8
    m, usual = design.n_contents, model.prior_precision(design, prior)
    precision = jnp.concatenate([usual, usual[m:-1]])

    def objective(beta: Float[Array, " Z"]) -> Float[Array, ""]:
        phi = _apparent(beta, design)
        likelihood = model.log_likelihood(phi, _alone(design), comparisons)
        return (precision * beta**2).sum() / 2 - likelihood

    def step(s: tuple) -> tuple:
        beta, length, _, steps = s
        before, gradient = jax.value_and_grad(objective)(beta)
        expected = _information(beta, comparisons, design) + jnp.diag(precision)
        exact = jax.hessian(objective)(beta)
        convex = jnp.isfinite(jnp.linalg.cholesky(exact)).all()
        change = jnp.linalg.solve(jnp.where(convex, exact, expected), -gradient)
        new = beta + length * change
        rounding = 10 * jnp.finfo(before.dtype).eps * jnp.abs(before)
        better = objective(new) <= before + rounding
        done = better & (-change @ gradient <= tolerance**2)
        length = jnp.where(better, jnp.minimum(4 * length, 1), length / 4)
        return jnp.where(better, new, beta), length, done, steps + 1

    def going(s: tuple) -> Bool[Array, ""]:
        return ~s[2] & (s[3] < MAX_STEPS)

    first = jnp.zeros_like(precision), jnp.ones((), design.dtype), jnp.array(False), jnp.array(0)
    beta, _, done, steps = jax.lax.while_loop(going, step, first)
    value, gradient = jax.value_and_grad(objective)(beta)
    parameters, gamma = _split(beta, design)
    of_c, of_gamma, _ = bias_variances(
        parameters, gamma, comparisons, design, design.content_mask()
    )
    identified = jnp.isfinite(of_c).all() & jnp.isfinite(of_gamma).all()
    status = jnp.where(identified, Status.CONVERGED, Status.FLAT)
    status = jnp.where(done, status, Status.NOT_CONVERGED)
    finite = jnp.isfinite(value) & (precision > 0).all()
    status = jnp.where(finite, status, Status.NOT_FINITE)
    return InteractionFit(Fit(parameters, status, steps, jnp.linalg.norm(gradient), value), gamma)


def bias_variances(
    parameters: Parameters,
    gamma: Float[Array, " D"],
    comparisons: Comparisons,
    design: Design,
    contents: Bool[Array, " M"],
) -> tuple[Float[Array, " D"], Float[Array, " D"], Float[Array, " D"]]:
    """Variances of estimates of c, gamma and the mean bias c + gamma theta of some contents, by the
    Fisher information at these parameters, all being unknown and without a prior.

    Args:
      parameters, gamma: theta about its mean (logits), c and gamma per unit of the covariate.
      comparisons: only the number of times each pair was shown matters; it may be a fraction.
      design: the covariates as given.
      contents: those whose mean bias is estimated.

    Returns:
      Variances [D] of c, of gamma and of the mean bias, in squared units of each; infinite for what
      the comparisons do not identify.
    """

    def biases(beta: Float[Array, " Z"]) -> Float[Array, "3 D"]:
        parameters, gamma = _split(beta, design)
        mean = parameters.theta.mean(where=contents)
        return jnp.stack([parameters.c, gamma, parameters.c + gamma * mean])

    beta, m, d = jnp.concatenate([parameters.flat(), gamma]), design.n_contents, len(gamma)
    information = _information(beta, comparisons, design)
    scale = jnp.sqrt(jnp.diag(information))
    # For gamma as for c: at qualities of 0 there is no information about it.
    scale = scale.at[m + d + 1 :].set(scale[m : m + d])
    scale = jnp.where(scale > 0, scale, 1)
    values, vectors = jnp.linalg.eigh(information / scale[:, None] / scale)
    rounding = jnp.finfo(values.dtype).eps
    known = values > rounding**0.7 * values.max()
    parts = (jax.jacobian(biases)(beta) / scale) @ vectors
    lost = jnp.abs(parts * ~known).max(-1) > rounding**0.3 * jnp.abs(parts).max(-1)
    variances = (parts**2 * known / jnp.where(known, values, 1)).sum(-1)
    of_c, of_gamma, of_mean = jnp.where(lost, jnp.inf, variances)
    return of_c, of_gamma, of_mean


def _split(beta: Float[Array, " Z"], design: Design) -> tuple[Parameters, Float[Array, " D"]]:
    """The parameters (theta, c, kappa, gamma), theta about its mean and 0 for padding."""
    contents, end = design.content_mask(), len(beta) - design.n_covariates
    parameters = Parameters.unflat(beta[:end], design.n_contents)
    theta = parameters.theta - parameters.theta.mean(where=contents)
    return dataclasses.replace(parameters, theta=jnp.where(contents, theta, 0)), beta[end:]


def _apparent(beta: Float[Array, " Z"], design: Design) -> Parameters:
    """phi of the items, and kappa, as the parameters of `_alone`."""
    parameters, gamma = _split(beta, design)
    quality = design.of_items(parameters.theta)
    phi = quality + design.covariates @ parameters.c + quality * (design.covariates @ gamma)
    return Parameters(phi, jnp.zeros(0, phi.dtype), parameters.kappa)


def _alone(design: Design) -> Design:
    """The items with qualities of their own and without covariates."""
    n = design.n_items
    return Design(jnp.zeros((n, 0), design.dtype), None, design.item_mask, n)


def _information(
    beta: Float[Array, " Z"], comparisons: Comparisons, design: Design
) -> Float[Array, "Z Z"]:
    """The Fisher information about (theta, c, kappa, gamma)."""
    phi, chain = _apparent(beta, design), jax.jacobian(lambda b: _apparent(b, design).flat())(beta)
    _, of_items = model.score_and_information(phi, _alone(design), comparisons)
    return chain.T @ of_items @ chain
