"""The turn of axes: a problem that is vmapped, however deeply, is worked on with the batch last.

A step on one pool of thirty items is too small for vector units, LAPACK or a GPU; the same step
on a hundred pools is plain elementwise work if the pool is the last axis of every array. `vmap`
puts it first, so what is to run fast is written with the axes of one problem in front, letting any
that follow pass through, and decorated with `batch_last`. Its callers see one problem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

CPU_PROBLEMS = 128
"""Problems worked on together on a CPU: enough to fill the vector units, small enough for the
counts to stay in cache, and few to wait for the slowest. Up to twice as many go together, as a
group that is hardly filled costs as much as a full one. On a GPU, all."""


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, given all vmapped axes as one last axis.

    Args:
      function: of pytrees of arrays with one axis more than the caller's, which comes last: of
        length B, the number of problems, or of length 1 where all problems share the value.
        Returns a pytree of arrays with a last axis of length B or 1.

    Returns:
      The function of one problem, to be called and vmapped like any other. Forward-mode
      derivatives only.
    """

    def whole(*arguments: Any) -> Any:
        return _of_each(function(*arguments), _count(arguments))

    @custom_vmap
    def gathered(*arguments: Any) -> Any:
        if _count(arguments) <= 2 * CPU_PROBLEMS:
            return whole(*arguments)
        return jax.lax.platform_dependent(*arguments, cpu=partial(_in_groups, whole), default=whole)

    @gathered.def_vmap
    def turn(axis_size: int, is_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        problems = _count(arguments)

        def merge(leaf: Any, batched: bool) -> Any:
            """[A, ..., b] to [..., B A]: the new axis becomes the last, behind those gathered."""
            if batched:
                leaf = jnp.moveaxis(leaf, 0, -1)
            elif leaf.shape[-1] == 1:  # shared by all
                return leaf
            else:
                leaf = leaf[..., None]
            shape = leaf.shape[:-2]
            leaf = jnp.broadcast_to(leaf, (*shape, problems, axis_size))
            return leaf.reshape(*shape, problems * axis_size)

        def split(leaf: Any) -> Any:
            leaf = _of_each(leaf, problems * axis_size)  # where none had the new axis
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], problems, axis_size), -1, 0)

        out = jax.tree.map(split, gathered(*jax.tree.map(merge, arguments, tuple(is_batched))))
        return out, jax.tree.map(lambda _: True, out)

    def of_one(*arguments: Any) -> Any:
        arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], arguments)
        return jax.tree.map(lambda leaf: leaf[..., 0], gathered(*arguments))

    return of_one


def _count(arguments: Any) -> int:
    """How many problems; what they share has a last axis of 1."""
    return max(leaf.shape[-1] for leaf in jax.tree.leaves(arguments))


def _of_each(out: Any, problems: int) -> Any:
    """What all problems share, given to each."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], problems)), out)


def _in_groups(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function`, one group of problems after the other."""
    leaves, structure = jax.tree.flatten(arguments)
    problems = _count(arguments)
    groups = -(-problems // CPU_PROBLEMS)
    fill = groups * CPU_PROBLEMS - problems

    def group(leaf: Any) -> Any:
        """[..., B] to [groups, ..., CPU_PROBLEMS], the last problem repeated."""
        widths = [(0, 0)] * (leaf.ndim - 1) + [(0, fill)]
        leaf = jnp.pad(leaf, widths, mode="edge")
        return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], groups, CPU_PROBLEMS), -2, 0)

    own = [leaf.shape[-1] > 1 for leaf in leaves]

    def run(grouped: list[Any]) -> Any:
        rest = iter(grouped)
        each = [next(rest) if is_own else leaf for leaf, is_own in zip(leaves, own, strict=True)]
        return function(*jax.tree.unflatten(structure, each))

    out = jax.lax.map(
        run, [group(leaf) for leaf, is_own in zip(leaves, own, strict=True) if is_own]
    )

    def join(leaf: Any) -> Any:
        leaf = jnp.moveaxis(leaf, 0, -2)
        return leaf.reshape(*leaf.shape[:-2], groups * CPU_PROBLEMS)[..., :problems]

    return jax.tree.map(join, out)
