"""Products with the design matrix Z of verdicts given as rows, where counts would be mostly zeros.

A row compares content f with content s, with difference d in the covariates; the order shown is the
order given (o = 1) or unknown (o = 0). Its design vector is z = (e_f - e_s, d, o). Z has one row a
verdict, and is never built: only 2 + D + 1 entries of a row are not zero.

The rows are the first axis; further axes pass through, as in `jbt.kernel.model`.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jbt.types import Parameters, Rows


def logits(parameters: Parameters, rows: Rows) -> Float[Array, "R ..."]:
    """Z beta: the log-odds that the first of each row wins [Eq. 1]."""
    theta = _take(parameters.theta, rows.first) - _take(parameters.theta, rows.second)
    return theta + (rows.difference * parameters.c).sum(1) + rows.ordered * parameters.kappa


def score(residual: Float[Array, "R ..."], rows: Rows, n_contents: int) -> Float[Array, "P ..."]:
    """Z'r: the gradient of the log-likelihood in (theta, c, kappa) if r is wins - shown p."""
    theta = _sums(residual, rows.first, n_contents) - _sums(residual, rows.second, n_contents)
    c = (rows.difference * residual[:, None]).sum(0)
    return jnp.concatenate([theta, c, (rows.ordered * residual).sum(0)[None]])


def information(
    weight: Float[Array, "R ..."], rows: Rows, n_contents: int
) -> Float[Array, "P P ..."]:
    """Z'WZ: the Fisher information in (theta, c, kappa) if W is shown p (1 - p)."""
    m, n_biases = n_contents, rows.difference.shape[1] + 1
    pairs = _sums(weight, rows.first * m + rows.second, m * m)
    pairs = pairs.reshape(m, m, *pairs.shape[1:])
    between = pairs + jnp.swapaxes(pairs, 0, 1)
    laplacian = jnp.eye(m, dtype=between.dtype).reshape(m, m, *(1,) * (between.ndim - 2))
    laplacian = laplacian * between.sum(1) - between
    # Column by column: sums of vectors over rows are ten times as fast as sums of short rows.
    x = [rows.difference[:, d] for d in range(n_biases - 1)] + [rows.ordered]
    weighted = [weight * v for v in x]
    border = [_sums(v, rows.first, m) - _sums(v, rows.second, m) for v in weighted]
    border = jnp.stack(border, 1)
    corner = jnp.stack([jnp.stack([(v * u).sum(0) for u in x]) for v in weighted])
    # Several problems may share some leaves.
    axes = jnp.broadcast_shapes(*(v.shape[2:] for v in (laplacian, border, corner)))
    laplacian, border, corner = (
        jnp.broadcast_to(v, (*v.shape[:2], *axes)) for v in (laplacian, border, corner)
    )
    return jnp.concatenate(
        [
            jnp.concatenate([laplacian, border], 1),
            jnp.concatenate([jnp.swapaxes(border, 0, 1), corner], 1),
        ]
    )


def won_and_asked(
    rows: Rows, n_contents: int
) -> tuple[Float[Array, "M ..."], Float[Array, "M ..."]]:
    """Wins and verdicts of each content."""
    lost = rows.shown - rows.wins
    won = _sums(rows.wins, rows.first, n_contents) + _sums(lost, rows.second, n_contents)
    asked = [_sums(rows.shown, side, n_contents) for side in (rows.first, rows.second)]
    return won, asked[0] + asked[1]


def _take(values: Float[Array, "M ..."], index: Int[Array, "R ..."]) -> Float[Array, "R ..."]:
    if index.size == len(index):  # shared by all problems
        return values[index.reshape(-1)]
    return jnp.take_along_axis(values, index, axis=0)


def _sums(
    values: Float[Array, "R ..."], index: Int[Array, "R ..."], n: int
) -> Float[Array, "n ..."]:
    """The sum of the values at each index, 0..n-1."""
    if index.size == len(index):  # shared by all problems
        return jax.ops.segment_sum(values, index.reshape(-1), n)
    values, index = jnp.broadcast_arrays(values, index)
    segment_sum = partial(jax.ops.segment_sum, num_segments=n)
    for _ in index.shape[1:]:
        segment_sum = jax.vmap(segment_sum, in_axes=-1, out_axes=-1)
    return segment_sum(values, index)
