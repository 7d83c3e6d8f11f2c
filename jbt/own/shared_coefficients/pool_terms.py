"""One pool's part of the fit of the parameters that pools share (`marginal_fit`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.types import Design, Fit, Panel, Parameters, Prior, Verdicts, n_judges


def pool_model(
    comparisons: Verdicts, loadings: Float[Array, "biases shared"], point: Float[Array, " K"]
) -> tuple[Verdicts, Float[Array, " biases"], Float[Array, ""]]:
    """One pool's own model, given the shared parameters: its verdicts with the discriminations, its
    (c, kappa), and lam."""
    n, lam = loadings.shape[1], jnp.exp(-2 * point[-1])
    biases = loadings @ point[:n]
    if not isinstance(comparisons, Panel):
        return comparisons, biases, lam
    s = point[n:-1]
    by_judge = biases.reshape(-1, len(s))
    d = len(by_judge) // 2  # covariates, as many means of theirs, kappa
    by_judge = by_judge.at[d : 2 * d].multiply(s)
    return dataclasses.replace(comparisons, discrimination=s), by_judge.reshape(-1), lam


class Conditional(NamedTuple):
    """One pool's qualities given the shared parameters."""

    fit: Fit
    precision: Float[Array, "M M"]
    """H, of the qualities."""
    follows: Float[Array, "M K"]
    """Derivative of their mode in the shared parameters."""
    gradient: Float[Array, " K"]
    """The pool's term of the gradient of the log-posterior."""
    information: Float[Array, "K K"]
    """The pool's term of minus its Hessian; for log sd the expected one, without a border."""


def conditional(
    comparisons: Verdicts,
    design: Design,
    loadings: Float[Array, "biases shared"],
    point: Float[Array, " K"],
    theta: Float[Array, " M"],
) -> Conditional:
    """Fit one pool given the shared parameters, starting at theta."""
    m, middle = design.n_contents, design.centred()

    def density(theta: Float[Array, " M"], point: Float[Array, " K"]) -> Float[Array, ""]:
        verdicts, biases, lam = pool_model(comparisons, loadings, point)
        fits = model.log_likelihood(_parameters(theta, biases, verdicts), middle, verdicts)
        return fits - lam * (theta**2).sum() / 2 + m * jnp.log(lam) / 2

    def precision(theta: Float[Array, " M"], point: Float[Array, " K"]) -> Float[Array, "M M"]:
        verdicts, biases, lam = pool_model(comparisons, loadings, point)
        parameters = _parameters(theta, biases, verdicts)
        information = model.score_and_information(parameters, middle, verdicts)[1]
        return information[:m, :m] + lam * jnp.eye(m, dtype=theta.dtype)

    fit = fit_given(comparisons, design, loadings, point, theta)
    lam = jnp.full(m, jnp.exp(-2 * point[-1]))
    return Conditional(fit, *marginal_terms(density, precision, fit.parameters.theta, point, lam))


def marginal_terms(
    density: Callable[[Array, Array], Array],
    precision: Callable[[Array, Array], Array],
    theta: Float[Array, " M"],
    point: Float[Array, " K"],
    lam: Float[Array, " M"],
) -> tuple[Array, Array, Array, Array]:
    """One pool's fields of `Conditional` after its fit.

    Args:
      density: log-posterior of (theta, point), the qualities not integrated out.
      precision: minus its Hessian in theta.
      theta: its maximum at this point.
      lam: the prior's precision of each quality there.
    """
    gradients = jax.grad(density, (0, 1))
    score = gradients(theta, point)[1]
    border, corner = jax.jacfwd(gradients, 1)(theta, point)
    hessian = precision(theta, point)
    inverse = jnp.linalg.inv(hessian)
    response = inverse @ border

    def log_det_change(theta_change: Float[Array, " M"], change: Float[Array, " K"]) -> Array:
        _, change_of_precision = jax.jvp(precision, (theta, point), (theta_change, change))
        return (inverse * change_of_precision).sum()

    ones = jnp.eye(len(point), dtype=theta.dtype)
    gradient = score - jax.vmap(log_det_change)(response.T, ones) / 2
    # Share of the data in each direction.
    known = jnp.eye(len(theta), dtype=theta.dtype) - lam[:, None] * inverse
    marginal = (-corner - border.T @ response).at[-1].set(0).at[:, -1].set(0)
    information = marginal.at[-1, -1].set(2 * (known * known.T).sum())
    return hessian, response, gradient, information


@quick_compilation.jit
def linear_terms(
    comparisons: Verdicts, design: Design, loadings: Array, point: Array, theta: Array
) -> tuple[Array, Array, Array, Array]:
    """Fit every pool given the shared parameters, starting at theta: qualities, terms of the
    gradient and of the information, and status."""

    def one_pool(*pool_arguments: Any) -> tuple[Array, Array, Array, Array]:
        pool = conditional(*pool_arguments)
        return pool.fit.parameters.theta, pool.gradient, pool.information, pool.fit.status

    return jax.vmap(one_pool)(comparisons, design, loadings, point, theta)


def fit_given(
    comparisons: Verdicts,
    design: Design,
    loadings: Float[Array, "biases shared"],
    point: Float[Array, " K"],
    theta: Float[Array, " M"],
) -> Fit:
    """The MAP of one pool's qualities given the shared parameters, starting at theta."""
    verdicts, biases, lam = pool_model(comparisons, loadings, point)
    fixed = model.variant("naive", design, n_judges(verdicts))
    return fit_map(verdicts, design, Prior(lam), fixed, start=_parameters(theta, biases, verdicts))


def _parameters(theta: Array, biases: Array, comparisons: Verdicts) -> Parameters:
    return Parameters.unflat(jnp.concatenate([theta, biases]), len(theta), n_judges(comparisons))
