"""The turn of axes: a problem that is vmapped, however deeply, is worked on with the batch last.

A step on one pool of thirty items is too small for vector units, LAPACK or a GPU; the same step
on a hundred pools is plain elementwise work if the pool is the last axis of every array. `vmap`
puts it first, so what is to run fast is written with the axes of one problem in front, letting any
that follow pass through, and decorated with `batch_last`. Its callers see one problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, given all vmapped axes as one last axis.

    Args:
      function: of pytrees of arrays with one axis more than the caller's, which comes last: of
        length B, the number of problems, or of length 1 where all problems share the value.
        Returns a pytree of arrays with a last axis of length B or 1.

    Returns:
      The function of one problem, to be called and vmapped like any other. Not differentiable.
    """

    @custom_vmap
    def gathered(*arguments: Any) -> Any:
        return function(*arguments)

    @gathered.def_vmap
    def turn(axis_size: int, is_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        problems = max(leaf.shape[-1] for leaf in jax.tree.leaves(arguments))

        def merge(leaf: Any, batched: bool) -> Any:
            """[A, ..., b] to [..., B A]: the new axis becomes the last, behind those gathered."""
            if batched:
                leaf = jnp.moveaxis(leaf, 0, -1)
            elif leaf.shape[-1] == 1:  # shared by all
                return leaf
            else:
                leaf = leaf[..., None]
            shape = leaf.shape[:-2]
            return jnp.broadcast_to(leaf, (*shape, problems, axis_size)).reshape(*shape, -1)

        def split(leaf: Any) -> Any:
            leaf = jnp.broadcast_to(leaf, (*leaf.shape[:-1], problems * axis_size))
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], problems, axis_size), -1, 0)

        out = jax.tree.map(split, gathered(*jax.tree.map(merge, arguments, tuple(is_batched))))
        return out, jax.tree.map(lambda _: True, out)

    def of_one(*arguments: Any) -> Any:
        arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], arguments)
        return jax.tree.map(lambda leaf: leaf[..., 0], gathered(*arguments))

    return of_one
