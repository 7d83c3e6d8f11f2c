"""The bias-aware Bradley-Terry model of Eq. 1, for one pool.

    phi_i = theta[content_i] + x_i . c                      apparent quality
    P(first wins | i first, j second) = sigmoid(phi_i - phi_j + kappa)

Counts are the data: `shown[i, j]` comparisons with i first, `wins[i, j]` of them won by i.
The matrix of design vectors z_ij (one row a verdict) is never built; its products are
written out on the N x N counts.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jbt.types import Comparisons, Design, Parameters, Prior, Variant

VARIANTS = {
    "naive": (False, False),
    "covariates": (True, False),
    "position": (False, True),
    "bias_aware": (True, True),
}
"""Model name -> (c is free, kappa is free)."""


def variant(name: str, design: Design) -> Variant:
    """The mask of a named model.

    Raises:
      ValueError: unknown name.
    """
    if name not in VARIANTS:
        raise ValueError(f"unknown model {name!r}: one of {', '.join(VARIANTS)}")
    free_c, free_kappa = VARIANTS[name]
    return Variant(jnp.full(design.n_covariates, free_c), jnp.asarray(free_kappa))


def free_mask(v: Variant, design: Design) -> Bool[Array, " P"]:
    """Which entries of the flat parameter vector are free: contents shown, and the variant's."""
    return jnp.concatenate([design.content_mask(), v.c, v.kappa[None]])


def apparent_quality(parameters: Parameters, design: Design) -> Float[Array, " N"]:
    """phi_i = theta[content_i] + x_i . c, logits."""
    return design.of_items(parameters.theta) + (design.covariates * parameters.c).sum(-1)


def logits(parameters: Parameters, design: Design) -> Float[Array, "N N"]:
    """Log-odds that the first shown wins, for every ordered pair [Eq. 1]."""
    phi = apparent_quality(parameters, design)
    return phi[:, None] - phi[None, :] + parameters.kappa


def log_likelihood(
    parameters: Parameters, design: Design, comparisons: Comparisons
) -> Float[Array, ""]:
    """Log-likelihood of the counts, nats, without the binomial coefficients."""
    z = logits(parameters, design)
    return (comparisons.wins * z - comparisons.shown * jax.nn.softplus(z)).sum()


def log_prior(parameters: Parameters, prior: Prior) -> Float[Array, ""]:
    """Log-density of the Gaussian prior, nats, without its normalising constant [Eq. S1]."""
    bias = jnp.append(parameters.c, parameters.kappa)
    return -0.5 * (prior.lam * (parameters.theta**2).sum() + (prior.lam_b * bias**2).sum())


def prior_precision(design: Design, prior: Prior) -> Float[Array, " P"]:
    """Diagonal of the prior's precision, in the order (theta, c, kappa)."""
    lam = jnp.full(design.n_contents, prior.lam, design.dtype)
    lam_b = jnp.broadcast_to(jnp.asarray(prior.lam_b, design.dtype), design.n_covariates + 1)
    return jnp.concatenate([lam, lam_b])


def score(parameters: Parameters, design: Design, comparisons: Comparisons) -> Float[Array, " P"]:
    """Gradient of the log-likelihood in (theta, c, kappa)."""
    p = jax.nn.sigmoid(logits(parameters, design))
    r = comparisons.wins - comparisons.shown * p
    return _chain_score(r.sum(1) - r.sum(0), r.sum(), design)


def score_and_information(
    parameters: Parameters, design: Design, comparisons: Comparisons
) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
    """Gradient of the log-likelihood and the Fisher information (its negative Hessian).

    With W = shown p(1-p), the information about phi is the Laplacian
    diag(W1 + W'1) - W - W' of the comparison graph, its border with kappa W1 - W'1, and
    in kappa the sum of W. Both are chained through the design to theta and c.
    """
    p = jax.nn.sigmoid(logits(parameters, design))
    r = comparisons.wins - comparisons.shown * p
    w = comparisons.shown * p * (1 - p)
    row, col = w.sum(1), w.sum(0)
    laplacian = jnp.diag(row + col) - w - w.T
    return (
        _chain_score(r.sum(1) - r.sum(0), r.sum(), design),
        _chain_information(laplacian, row - col, row.sum(), design),
    )


def _chain_score(
    g_phi: Float[Array, " N"], g_kappa: Float[Array, ""], design: Design
) -> Float[Array, " P"]:
    g_theta = g_phi if design.content is None else g_phi @ design.ownership()
    return Parameters(g_theta, (design.covariates * g_phi[:, None]).sum(0), g_kappa).flat()


def _chain_information(
    laplacian: Float[Array, "N N"],
    border: Float[Array, " N"],
    corner: Float[Array, ""],
    design: Design,
) -> Float[Array, "P P"]:
    x = design.covariates
    lx = (laplacian[:, :, None] * x).sum(1)
    tt, tc, tk = laplacian, lx, border
    if design.content is not None:
        a = design.ownership()
        tt, tc, tk = a.T @ laplacian @ a, a.T @ lx, border @ a
    cc, ck = (x[:, :, None] * lx[:, None, :]).sum(0), (border[:, None] * x).sum(0)
    return jnp.block(
        [
            [tt, tc, tk[:, None]],
            [tc.T, cc, ck[:, None]],
            [tk[None, :], ck[None, :], corner[None, None]],
        ]
    )


def design_matrix(design: Design) -> Float[Array, "N N P"]:
    """The design vector z_ij = (e_a(i) - e_a(j), x_i - x_j, 1) of every ordered pair.

    Explicit and large: for tests and rank checks, not for fits.
    """
    owner, x = design.ownership(), design.covariates
    n = design.n_items
    return jnp.concatenate(
        [owner[:, None] - owner[None, :], x[:, None] - x[None, :], jnp.ones((n, n, 1), x.dtype)], -1
    )
