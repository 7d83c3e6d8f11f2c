"""The bias-aware Bradley-Terry model of Eq. 1, for one pool.

    phi_i = theta[content_i] + x_i . c                      apparent quality
    P(first wins | i first, j second) = sigmoid(phi_i - phi_j + kappa)

Counts are the data: `shown[i, j]` comparisons with i first, `wins[i, j]` of them won by i.
The matrix of design vectors z_ij (one row a verdict) is never built; its products are
written out on the N x N counts, and in `jbt.kernel.rows` on the rows of sparse verdicts.

Written for one pool. Further axes, if any, come last (`...`); so sums name their axis, counted from
the front.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt.kernel import panel, rows
from jbt.types import (
    Comparisons,
    Design,
    Panel,
    Parameters,
    Prior,
    Rows,
    Variant,
    Verdicts,
    flat,
)

VARIANTS = {
    "naive": (False, False),
    "covariates": (True, False),
    "position": (False, True),
    "bias_aware": (True, True),
}
"""Model name -> (c is free, kappa is free)."""


def variant(name: str, design: Design, n_judges: int | None = None) -> Variant:
    """The mask of a named model, the same for all judges of a panel (`n_judges`, J).

    Raises:
      ValueError: unknown name.
    """
    if name not in VARIANTS:
        raise ValueError(f"unknown model {name!r}: one of {', '.join(VARIANTS)}")
    free_c, free_kappa = VARIANTS[name]
    judges = () if n_judges is None else (n_judges,)
    c, kappa = np.full((design.n_covariates, *judges), free_c), np.full(judges, free_kappa)
    return Variant(jnp.asarray(c), jnp.asarray(kappa))  # from NumPy: compiles nothing


def free_mask(v: Variant, design: Design) -> Bool[Array, "P ..."]:
    """Which flat parameters are free: contents shown by a real item, and the variant's."""
    return flat(design.content_mask(), v.c, v.kappa)


def apparent_quality(parameters: Parameters, design: Design) -> Float[Array, "N ..."]:
    """phi_i = theta[content_i] + x_i . c, logits."""
    return design.of_items(parameters.theta) + (design.covariates * parameters.c).sum(1)


def logits(parameters: Parameters, design: Design) -> Float[Array, "N N ..."]:
    """Log-odds that the first shown wins, for every ordered pair [Eq. 1]."""
    phi = apparent_quality(parameters, design)
    return phi[:, None] - phi[None, :] + parameters.kappa


def logits_of(
    parameters: Parameters, design: Design, comparisons: Verdicts
) -> Float[Array, "N N ..."] | Float[Array, "R ..."]:
    """Log-odds that the first wins, for every ordered pair, or row; for a panel with the judge as
    last axis."""
    if isinstance(comparisons, Panel):
        return logits_of(*_each_judge(parameters, design, comparisons))
    if isinstance(comparisons, Rows):
        return rows.logits(parameters, comparisons)
    return logits(parameters, design)


def _each_judge(
    parameters: Parameters, design: Design, comparisons: Panel
) -> tuple[Parameters, Design, Comparisons | Rows]:
    """The model of each judge of a panel, with the judge as an axis after those of one problem."""
    models = panel.each_judge(parameters, comparisons)
    return models, panel.for_judges(design), comparisons.verdicts


def log_likelihood(
    parameters: Parameters, design: Design, comparisons: Verdicts
) -> Float[Array, "..."]:
    """Log-likelihood of the verdicts, without the binomial coefficients."""
    if isinstance(comparisons, Panel):
        return log_likelihood(*_each_judge(parameters, design, comparisons)).sum(0)
    z = logits_of(parameters, design, comparisons)
    terms = comparisons.wins * z - comparisons.shown * jax.nn.softplus(z)
    return terms.sum(0) if isinstance(comparisons, Rows) else terms.sum((0, 1))


def log_prior(parameters: Parameters, prior: Prior) -> Float[Array, ""]:
    """Log-density of the Gaussian prior, without its normalising constant [Eq. S1]."""
    bias = jnp.concatenate([parameters.c, parameters.kappa[None]])
    precision = bias_precision(prior, bias.shape, bias.dtype)
    return -0.5 * ((prior.lam * parameters.theta**2).sum() + (precision * bias**2).sum())


def prior_precision(
    design: Design, prior: Prior, n_judges: int | None = None
) -> Float[Array, " P"]:
    """Diagonal of the prior's precision, in the order (theta, c, kappa). `n_judges` is J of a
    panel, whose judges have the same prior unless `lam_b` has one for each."""
    lam = jnp.full(design.n_contents, prior.lam, design.dtype)
    judges = () if n_judges is None else (n_judges,)
    lam_b = bias_precision(prior, (design.n_covariates + 1, *judges), design.dtype)
    return jnp.concatenate([lam, lam_b.reshape(-1)])


def bias_precision(prior: Prior, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Prior precision of each of (c, kappa); for a panel, of each set of coefficients."""
    lam_b = jnp.asarray(prior.lam_b, dtype)
    return jnp.broadcast_to(lam_b[:, None] if len(shape) > lam_b.ndim == 1 else lam_b, shape)


def score(parameters: Parameters, design: Design, comparisons: Verdicts) -> Float[Array, "P ..."]:
    """Gradient of the log-likelihood in (theta, c, kappa)."""
    if isinstance(comparisons, Panel):
        scores = score(*_each_judge(parameters, design, comparisons))
        return panel.joint_score(scores, comparisons, design.n_contents)
    residual, _ = _residual_and_weight(parameters, design, comparisons)
    return _score(residual, design, comparisons, chain_of(design))


def score_and_information(
    parameters: Parameters,
    design: Design,
    comparisons: Verdicts,
    chain: Float[Array, "Q own_P ..."] | None = None,
) -> tuple[Float[Array, "P ..."], Float[Array, "P P ..."]]:
    """Gradient of the log-likelihood and the Fisher information (its negative Hessian).

    `chain` is `chain_of(design)`, if known already; for a panel its P is that of one judge.
    """
    chain = chain_of(design) if chain is None else chain
    if isinstance(comparisons, Panel):
        models = _each_judge(parameters, design, comparisons)
        scores, informations = score_and_information(*models, _for_judges(chain))
        return (
            panel.joint_score(scores, comparisons, design.n_contents),
            panel.joint_information(informations, comparisons, design.n_contents),
        )
    residual, weight = _residual_and_weight(parameters, design, comparisons)
    return (
        _score(residual, design, comparisons, chain),
        information(weight, design, comparisons, chain),
    )


def information_at_even_odds(comparisons: Verdicts, design: Design) -> Float[Array, "P P ..."]:
    """The information if every verdict were a coin flip: Z'Z / 4 for the design matrix Z of the
    comparisons made, one row a verdict."""
    return information(comparisons.shown / 4, design, comparisons)


def information(
    weight: Float[Array, "N N ..."] | Float[Array, "R ..."],
    design: Design,
    comparisons: Verdicts,
    chain: Float[Array, "Q own_P ..."] | None = None,
) -> Float[Array, "P P ..."]:
    """Fisher information in (theta, c, kappa).

    On counts, with W the weights, the information about phi is the Laplacian
    diag(W1 + W'1) - W - W' of the comparison graph, its border with kappa is W1 - W'1, and the
    information about kappa is the sum of W. All are chained through the design.

    Args:
      weight: shown p (1 - p) of every ordered pair, or row; for a panel of each judge.
      comparisons: the verdicts that the weights belong to.
      chain: `chain_of(design)`, if known already.
    """
    if isinstance(comparisons, Rows):
        return rows.information(weight, comparisons, design.n_contents)
    chain = chain_of(design) if chain is None else chain
    if isinstance(comparisons, Panel):
        judges = panel.for_judges(design), comparisons.verdicts, _for_judges(chain)
        informations = information(weight, *judges)
        return panel.joint_information(informations, comparisons, design.n_contents)
    by_item = _item_information(weight, design)
    if chain is None:
        return by_item
    # Matrix products are faster with their two axes last.
    chain, by_item = (jnp.moveaxis(v, (0, 1), (-2, -1)) for v in (chain, by_item))
    return jnp.moveaxis(jnp.swapaxes(chain, -1, -2) @ by_item @ chain, (-2, -1), (0, 1))


def _for_judges(chain: Float[Array, "Q P ..."] | None) -> Float[Array, "Q P 1 ..."] | None:
    return None if chain is None else chain[:, :, None]


FARTHEST = {4: 30.0, 8: 300.0}
"""Bytes of a float -> the largest exponent (logits) that `_residual_and_weight` takes of an item;
its square, times a count of 10^12 or, in float64, more, stays finite."""


def _residual_and_weight(
    parameters: Parameters, design: Design, comparisons: Comparisons | Rows
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """wins - shown p and shown p (1 - p) of every ordered pair, or row, without cancellation where
    p is near 0 or 1. All end with a division, after which XLA on a CPU stores them; a form that
    looks cheaper would be recomputed for each sum."""
    won, lost = comparisons.wins, comparisons.shown - comparisons.wins

    def by_pair(z: Array) -> tuple[Array, Array]:
        odds = jnp.exp(-jnp.abs(z))
        residual = jnp.where(z > 0, won * odds - lost, won - lost * odds) / (1 + odds)
        return residual, comparisons.shown * odds / (1 + odds) ** 2

    if isinstance(comparisons, Rows):
        return by_pair(rows.logits(parameters, comparisons))
    phi, half = apparent_quality(parameters, design), parameters.kappa / 2
    phi = phi - (phi.max(0) + phi.min(0)) / 2

    def by_item() -> tuple[Array, Array]:
        # p = a / (a + b): exponentials of items in place of those of pairs.
        a, b = jnp.exp(phi + half)[:, None], jnp.exp(phi - half)[None]
        return (won * b - lost * a) / (a + b), comparisons.shown * a * b / (a + b) ** 2

    near = (jnp.abs(phi).max() + jnp.abs(half).max()) <= FARTHEST[phi.dtype.itemsize]
    return jax.lax.cond(near, by_item, lambda: by_pair(logits(parameters, design)))


def _score(
    r: Float[Array, "N N ..."] | Float[Array, "R ..."],
    design: Design,
    comparisons: Verdicts,
    chain: Float[Array, "Q P ..."] | None,
) -> Float[Array, "P ..."]:
    if isinstance(comparisons, Rows):
        return rows.score(r, comparisons, design.n_contents)
    row, col = r.sum(1), r.sum(0)
    g_phi = row - col
    g_c = (design.covariates * g_phi[:, None]).sum(0)
    by_item = jnp.concatenate([g_phi, g_c, _half_sum(row, col)[None]])
    return by_item if chain is None else (chain * by_item[:, None]).sum(0)


def _item_information(w: Float[Array, "N N ..."], design: Design) -> Float[Array, "Q Q ..."]:
    """Information in (phi, c, kappa), with a phi for each item."""
    x = design.covariates
    row, col = w.sum(1), w.sum(0)
    degree, border = row + col, row - col
    laplacian = diagonal(degree) - w - jnp.swapaxes(w, 0, 1)
    # The Laplacian times x, computed without the Laplacian.
    lx = degree[:, None] * x - (w[:, :, None] * x).sum(1) - (w[:, :, None] * x[:, None]).sum(0)
    cc, ck = (x[:, :, None] * lx[:, None]).sum(0), (border[:, None] * x).sum(0)
    return jnp.concatenate(
        [
            jnp.concatenate([laplacian, lx, border[:, None]], 1),
            jnp.concatenate([jnp.swapaxes(lx, 0, 1), cc, ck[:, None]], 1),
            jnp.concatenate([border, ck, _half_sum(row, col)[None]])[None],
        ]
    )


def chain_of(design: Design) -> Float[Array, "Q P ..."] | None:
    """Linear map from (theta, c, kappa) to the items' (phi, c, kappa): the ownership, and ones for
    c and kappa. None where every item is its own content and the map is the identity."""
    if design.content is None:
        return None
    n, m, rest = design.n_items, design.n_contents, design.n_covariates + 1
    shows = design.ownership()
    after = (1,) * (shows.ndim - 2)
    identity = jnp.eye(n + rest, m + rest, m - n, dtype=shows.dtype) * (jnp.arange(m + rest) >= m)
    widths = [(0, rest), (0, rest), *((0, 0) for _ in after)]
    return jnp.pad(shows, widths) + identity.reshape(*identity.shape, *after)


def _half_sum(row: Float[Array, "N ..."], col: Float[Array, "N ..."]) -> Float[Array, "..."]:
    """The sum of a matrix from its sums by row and by column. Given only one of them, XLA on a CPU
    would sum over the whole matrix again."""
    return (row + col).sum(0) / 2


def diagonal(values: Float[Array, "N ..."]) -> Float[Array, "N N ..."]:
    """Matrices with these diagonals."""
    eye = jnp.eye(len(values), dtype=values.dtype)
    return eye.reshape(*eye.shape, *(1,) * (values.ndim - 1)) * values
