"""A whole fit as one Pallas kernel, a pool a block of threads: nothing but the answer is written.

On a GPU it says what `jbt.kernel` could gain by leaving plain JAX. It is no part of jbt: it fits
one covariate from a start at zero by six full Newton steps.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from benchmarks.speed import problems
from benchmarks.speed.ours import on_device
from benchmarks.speed.peers import Run
from benchmarks.speed.problems import LAM, LAM_B, N

P = 32
"""Parameters, theta of 30 items with c and kappa, and so also the places of an item's arrays."""
C, KAPPA = N, N + 1


def _only(here: Any, values: Any) -> Any:
    """The values here, and 0 elsewhere."""
    return jnp.where(here, values, 0)


def _newton(beta: Any, shown: Any, wins: Any, x: Any) -> Any:
    """One step from beta [P] on the counts [P, P], zero in the places that hold no item."""
    place = jax.lax.broadcasted_iota(jnp.int32, (P,), 0)
    item, is_c, is_kappa = place < N, place == C, place == KAPPA

    a = jnp.where(item, jnp.exp(beta + x * _only(is_c, beta).sum()), 1)
    first = a * jnp.exp(_only(is_kappa, beta).sum())
    p = first[:, None] / (first[:, None] + a)
    residual, weight = wins - shown * p, shown * p * (1 - p)
    g = residual.sum(1) - residual.sum(0)
    both = weight + weight.T
    degree, border = both.sum(1), weight.sum(1) - weight.sum(0)
    along = degree * x - (both * x).sum(1)  # the Laplacian times x
    total = degree.sum() / 2
    precision = jnp.where(item, LAM, LAM_B)
    gradient = g + _only(is_c, (x * g).sum()) + _only(is_kappa, residual.sum())
    gradient = gradient - precision * beta

    # The constant of theta is fixed, as in jbt.kernel.newton.
    gauge = _only(item[:, None] & item, (LAM + 2 * total / N) / N)
    diagonal = place[:, None] == place
    of_c = along + _only(is_c, (x * along).sum() / 2)
    of_c = of_c + _only(is_kappa, (x * border).sum())
    of_kappa = border + _only(is_kappa, total / 2)
    hessian = gauge - both + _only(diagonal, (degree + precision)[:, None])
    for column, here in ((of_c, is_c), (of_kappa, is_kappa)):
        hessian = hessian + _only(here, column[:, None])
        hessian = hessian + _only(here[:, None], column)

    def eliminate(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """Gauss and Jordan: each step is the same work, and none is left for a substitution."""
        matrix, right = state
        here = jnp.equal(place, j)
        column = _only(here, matrix).sum(1)
        row = _only(here[:, None], matrix).sum(0)
        factor = _only(~here, column) / _only(here, column).sum()
        return matrix - factor[:, None] * row, right - factor * _only(here, right).sum()

    hessian, right = jax.lax.fori_loop(0, P, eliminate, (hessian, gradient))
    beta = beta + right / _only(diagonal, hessian).sum(1)
    return jnp.where(item, beta - _only(item, beta).sum() / N, beta)


def fit(count: int, dtype: str = "float32", interpret: bool = False) -> Run:
    """MAP of pools as `ours.fit` has it; interpreted it runs, slowly, on any device."""
    square = pl.BlockSpec((1, P, P), lambda pool: (pool, 0, 0))
    vector = pl.BlockSpec((1, P), lambda pool: (pool, 0))
    options: dict[str, Any] = {"interpret": interpret, "grid": (count,)}
    if not interpret:
        from jax.experimental.pallas import triton

        options["compiler_params"] = triton.CompilerParams(num_warps=1)

    def kernel(shown: Any, wins: Any, x: Any, out: Any) -> None:
        step = functools.partial(_newton, shown=shown[0], wins=wins[0], x=x[0])
        start = jnp.zeros(P, out.dtype)
        out[0] = jax.lax.fori_loop(0, 6, lambda _, beta: step(beta), start)

    def run(shown: Any, wins: Any, x: Any) -> Any:
        """The MAP [pools, P] by the counts [pools, P, P] and the centred covariate [pools, P], all
        zero in the places that hold no item."""
        specs = {"in_specs": [square, square, vector], "out_specs": vector}
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=shape, **specs, **options)(shown, wins, x)

    pools = problems.pools(count)
    x = pools.x - pools.x.mean(1, keepdims=True)
    padded = [(0, 0), (0, P - N)]
    shown = np.pad(1.0 - np.eye(N), padded[1:] * 2)
    arrays = np.broadcast_to(shown, (count, P, P)), np.pad(pools.wins, [*padded, padded[1]])
    return on_device(run, *arrays, np.pad(x, padded), dtype=dtype)
