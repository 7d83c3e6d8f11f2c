"""Cholesky factorisations of many small matrices at once: axes [row, column, problem].

Up to `UNROLLED` parameters the factorisation is written out column by column, left-looking: each
step is elementwise over the problems, which fills the vector units of a CPU, is plain arithmetic on
a GPU, and needs no library. It takes longer to compile, so larger matrices, and single ones, go to
the library (LAPACK, one problem after the other; on a GPU cuSOLVER).

Rows appended below the matrix come out multiplied by the inverse transposed factor: the forward
substitution at no extra cost. Only the lower triangle of the matrix is read. Where the matrix is
not positive definite, the results of that problem alone are NaN or infinite.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

UNROLLED = 48
"""Most parameters for which the factorisation is written out."""


def solve(
    matrix: Float[Array, "P P B"], right: Float[Array, "P B"]
) -> tuple[Float[Array, "P B"], Float[Array, "P B"]]:
    """matrix^-1 right, and L^-1 right, whose square is right' matrix^-1 right."""
    p = len(matrix)
    if not _is_unrolled(matrix):
        chol = _library_factor(matrix)
        half = _triangular_solve(chol, _first(right)[..., None])
        x = _triangular_solve(chol, half, transpose_a=True)
        return _last(x[..., 0]), _last(half[..., 0])
    rows = jnp.concatenate([matrix, right[None]])
    columns = jnp.zeros_like(rows)
    for j in range(p):
        columns = _put_column(columns, rows[j:, j], j, slice(j, p + 1))
    half = columns[p]
    rest, x = half, []
    for j in reversed(range(p)):
        x.append(rest[j] / columns[j, j])
        rest = rest[:j] - columns[j, :j] * x[-1]
    return jnp.stack(x[::-1]), half


def factor(
    matrix: Float[Array, "P P B"],
) -> tuple[Float[Array, "P P B"], Float[Array, "P P B"]]:
    """L and L^-1 of matrix = L L', lower triangular."""
    p = len(matrix)
    if not _is_unrolled(matrix):
        eye = jnp.eye(p, dtype=matrix.dtype)
        chol = _library_factor(matrix)
        return _last(chol), _last(_triangular_solve(chol, jnp.broadcast_to(eye, chol.shape)))
    eye = jnp.broadcast_to(jnp.eye(p, dtype=matrix.dtype)[:, :, None], matrix.shape)
    rows = jnp.concatenate([matrix, eye])
    columns = jnp.zeros_like(rows)
    for j in range(p):  # appended rows from j + 1 on are still zero here
        columns = _put_column(columns, rows[j : p + j + 1, j], j, slice(j, p + j + 1))
    return columns[:p], jnp.swapaxes(columns[p:], 0, 1)


def _put_column(
    columns: Float[Array, "R P B"], column: Float[Array, "r B"], j: int, rows: slice
) -> Float[Array, "R P B"]:
    """The factor with its column j, computed from the matrix's column and those on its left."""
    column = column - (columns[rows, :j] * columns[j, :j]).sum(1)
    column = column * jax.lax.rsqrt(column[0])
    # An update of a slice, as `.at[].set` would be a scatter on a GPU.
    return jax.lax.dynamic_update_slice(columns, column[:, None], (j, j, 0))


def _is_unrolled(matrix: Float[Array, "P P B"]) -> bool:
    p, _, problems = matrix.shape
    return p <= UNROLLED and problems > 1


def _first(values: Array) -> Array:
    return jnp.moveaxis(values, -1, 0)


def _last(values: Array) -> Array:
    return jnp.moveaxis(values, 0, -1)


def _library_factor(matrix: Float[Array, "P P B"]) -> Float[Array, "B P P"]:
    return jax.lax.linalg.cholesky(_first(matrix), symmetrize_input=False)


def _triangular_solve(chol: Array, right: Array, **options: bool) -> Array:
    return jax.lax.linalg.triangular_solve(chol, right, left_side=True, lower=True, **options)
