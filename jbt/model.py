"""The bias-aware Bradley-Terry model of Eq. 1, for one pool.

    phi_i = theta[content_i] + x_i . c                      apparent quality
    P(first wins | i first, j second) = sigmoid(phi_i - phi_j + kappa)

Counts are the data: `shown[i, j]` comparisons with i first, `wins[i, j]` of them won by i.
The matrix of design vectors z_ij (one row a verdict) is never built; its products are
written out on the N x N counts.

Sums name their axis, counted from the front, so that axes which follow pass through (`...`).
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


def free_mask(v: Variant, design: Design) -> Bool[Array, "P ..."]:
    """Which entries of the flat parameter vector are free: contents shown, and the variant's."""
    return jnp.concatenate([design.content_mask(), v.c, v.kappa[None]])


def apparent_quality(parameters: Parameters, design: Design) -> Float[Array, "N ..."]:
    """phi_i = theta[content_i] + x_i . c, logits."""
    return design.of_items(parameters.theta) + (design.covariates * parameters.c).sum(1)


def logits(parameters: Parameters, design: Design) -> Float[Array, "N N ..."]:
    """Log-odds that the first shown wins, for every ordered pair [Eq. 1]."""
    phi = apparent_quality(parameters, design)
    return phi[:, None] - phi[None, :] + parameters.kappa


def log_likelihood(
    parameters: Parameters, design: Design, comparisons: Comparisons
) -> Float[Array, "..."]:
    """Log-likelihood of the counts, nats, without the binomial coefficients."""
    z = logits(parameters, design)
    return (comparisons.wins * z - comparisons.shown * jax.nn.softplus(z)).sum((0, 1))


def log_prior(parameters: Parameters, prior: Prior) -> Float[Array, ""]:
    """Log-density of the Gaussian prior, nats, without its normalising constant [Eq. S1]."""
    bias = jnp.append(parameters.c, parameters.kappa)
    return -0.5 * (prior.lam * (parameters.theta**2).sum() + (prior.lam_b * bias**2).sum())


def prior_precision(design: Design, prior: Prior) -> Float[Array, " P"]:
    """Diagonal of the prior's precision, in the order (theta, c, kappa)."""
    lam = jnp.full(design.n_contents, prior.lam, design.dtype)
    lam_b = jnp.broadcast_to(jnp.asarray(prior.lam_b, design.dtype), design.n_covariates + 1)
    return jnp.concatenate([lam, lam_b])


def score(
    parameters: Parameters, design: Design, comparisons: Comparisons
) -> Float[Array, "P ..."]:
    """Gradient of the log-likelihood in (theta, c, kappa)."""
    residual, _ = _residual_and_weight(logits(parameters, design), comparisons)
    return _score(residual, design)


def score_and_information(
    parameters: Parameters, design: Design, comparisons: Comparisons
) -> tuple[Float[Array, "P ..."], Float[Array, "P P ..."]]:
    """Gradient of the log-likelihood and the Fisher information (its negative Hessian).

    With W = shown p(1-p), the information about phi is the Laplacian
    diag(W1 + W'1) - W - W' of the comparison graph, its border with kappa W1 - W'1, and
    in kappa the sum of W. Both are chained through the design to theta and c.
    """
    residual, weight = _residual_and_weight(logits(parameters, design), comparisons)
    return _score(residual, design), _information(weight, design)


def _residual_and_weight(
    z: Float[Array, "N N ..."], comparisons: Comparisons
) -> tuple[Float[Array, "N N ..."], Float[Array, "N N ..."]]:
    """wins - shown p and shown p (1 - p), p = sigmoid(z), without the cancellation of either where
    p is near 0 or 1. Both end with the division, after which XLA on a CPU keeps them: what looks
    cheaper it would compute again for each sum taken of them."""
    won, lost = comparisons.wins, comparisons.shown - comparisons.wins
    odds = jnp.exp(-jnp.abs(z))
    residual = jnp.where(z > 0, won * odds - lost, won - lost * odds) / (1 + odds)
    return residual, comparisons.shown * odds / (1 + odds) ** 2


def _score(r: Float[Array, "N N ..."], design: Design) -> Float[Array, "P ..."]:
    row, col = r.sum(1), r.sum(0)
    g_phi = row - col
    g_theta = g_phi if design.content is None else sum_by_content(g_phi, design)
    g_c = (design.covariates * g_phi[:, None]).sum(0)
    return jnp.concatenate([g_theta, g_c, _half_sum(row, col)[None]])


def _information(w: Float[Array, "N N ..."], design: Design) -> Float[Array, "P P ..."]:
    x = design.covariates
    row, col = w.sum(1), w.sum(0)
    degree, border = row + col, row - col
    # The Laplacian times x, without waiting for the Laplacian.
    lx = degree[:, None] * x - (w[:, :, None] * x).sum(1) - (w[:, :, None] * x[:, None]).sum(0)
    tt, tc, tk = diagonal(degree) - w - jnp.swapaxes(w, 0, 1), lx, border
    if design.content is not None:
        tt = sum_by_content(jnp.swapaxes(sum_by_content(tt, design), 0, 1), design)
        tc, tk = sum_by_content(lx, design), sum_by_content(border, design)
    cc, ck = (x[:, :, None] * lx[:, None]).sum(0), (border[:, None] * x).sum(0)
    return jnp.concatenate(
        [
            jnp.concatenate([tt, tc, tk[:, None]], 1),
            jnp.concatenate([jnp.swapaxes(tc, 0, 1), cc, ck[:, None]], 1),
            jnp.concatenate([tk, ck, _half_sum(row, col)[None]])[None],
        ]
    )


def _half_sum(row: Float[Array, "N ..."], col: Float[Array, "N ..."]) -> Float[Array, "..."]:
    """The sum of a matrix from its sums by row and by column. From one of them alone XLA on a CPU
    would make a sum over the whole matrix again."""
    return (row + col).sum(0) / 2


def sum_by_content(per_item: Float[Array, "N ..."], design: Design) -> Float[Array, "M ..."]:
    """Sums over the items that show each content; items of padding must hold zeros."""
    content = design.content
    assert content is not None
    shows = jax.nn.one_hot(content, design.n_contents, dtype=design.dtype, axis=1)
    if content.size == len(content):  # one for all problems
        return jnp.tensordot(shows.reshape(len(content), -1), per_item, (0, 0))
    between = (1,) * (per_item.ndim - content.ndim)
    shows = shows.reshape(*shows.shape[:2], *between, *shows.shape[2:])
    return (shows * per_item[:, None]).sum(0)


def diagonal(values: Float[Array, "N ..."]) -> Float[Array, "N N ..."]:
    """Matrices with these diagonals."""
    eye = jnp.eye(len(values), dtype=values.dtype)
    return eye.reshape(*eye.shape, *(1,) * (values.ndim - 1)) * values


def design_matrix(design: Design) -> Float[Array, "N N P"]:
    """The design vector z_ij = (e_a(i) - e_a(j), x_i - x_j, 1) of every ordered pair.

    Explicit and large: for tests and rank checks, not for fits.
    """
    owner, x = design.ownership(), design.covariates
    n = design.n_items
    return jnp.concatenate(
        [owner[:, None] - owner[None, :], x[:, None] - x[None, :], jnp.ones((n, n, 1), x.dtype)], -1
    )
