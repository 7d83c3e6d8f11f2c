"""Moves the batch axis of vmapped problems, however deeply nested, to the end.

A step on one pool of thirty items is too small for vector units, LAPACK or a GPU; the same step on
a hundred pools is plain elementwise work if the pool is the last axis of every array. `vmap` puts
it first. So fast code is written with the axes of one problem in front, lets further axes pass
through, and is decorated with `batch_last`. Its callers see one problem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

CPU_PROBLEMS = 128
"""Problems solved together on a CPU: enough to fill the vector units, few enough for the counts to
stay in cache and not to wait long for the slowest. Up to twice as many go together, as a nearly
empty group costs as much as a full one. On a GPU, all."""


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one problem from `function`, which sees all vmapped axes as one last axis.

    Args:
      function: takes pytrees of arrays with one more axis than the caller's, which comes last. Its
        length is B, the number of problems, or 1 where all problems share the value. Returns a
        pytree of arrays with a last axis of length B or 1.

    Returns:
      The function of one problem, to be called and vmapped like any other. Forward-mode
      derivatives only.
    """

    def batch(*arguments: Any) -> Any:
        return _for_each(function(*arguments), _count(arguments))

    @custom_vmap
    def gathered(*arguments: Any) -> Any:
        if _count(arguments) <= 2 * CPU_PROBLEMS:
            return batch(*arguments)
        return jax.lax.platform_dependent(*arguments, cpu=partial(_in_groups, batch), default=batch)

    @gathered.def_vmap
    def turn(axis_size: int, is_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        problems = _count(arguments)

        def merge(leaf: Any, batched: bool) -> Any:
            """[A, ..., b] to [..., B A]: the new axis becomes the last, after those gathered."""
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
            leaf = _for_each(leaf, problems * axis_size)  # where no argument had the new axis
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], problems, axis_size), -1, 0)

        out = jax.tree.map(split, gathered(*jax.tree.map(merge, arguments, tuple(is_batched))))
        return out, jax.tree.map(lambda _: True, out)

    def single(*arguments: Any) -> Any:
        arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], arguments)
        return jax.tree.map(lambda leaf: leaf[..., 0], gathered(*arguments))

    return single


def _count(arguments: Any) -> int:
    """Number of problems; shared values have a last axis of 1."""
    return max(leaf.shape[-1] for leaf in jax.tree.leaves(arguments))


def _for_each(out: Any, problems: int) -> Any:
    """Results with shared values repeated for each problem."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], problems)), out)


def _in_groups(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply `function` to one group of problems after the other."""
    leaves, structure = jax.tree.flatten(arguments)
    problems = _count(arguments)
    groups = -(-problems // CPU_PROBLEMS)
    fill = groups * CPU_PROBLEMS - problems

    def group(leaf: Any) -> Any:
        """[..., B] to [groups, ..., CPU_PROBLEMS], the last problem repeated."""
        widths = [(0, 0)] * (leaf.ndim - 1) + [(0, fill)]
        leaf = jnp.pad(leaf, widths, mode="edge")
        return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], groups, CPU_PROBLEMS), -2, 0)

    batched = [leaf.shape[-1] > 1 for leaf in leaves]

    def run(batched_leaves: list[Any]) -> Any:
        rest = iter(batched_leaves)
        group_leaves = [next(rest) if b else leaf for leaf, b in zip(leaves, batched, strict=True)]
        return function(*jax.tree.unflatten(structure, group_leaves))

    out = jax.lax.map(run, [group(leaf) for leaf, b in zip(leaves, batched, strict=True) if b])

    def join(leaf: Any) -> Any:
        leaf = jnp.moveaxis(leaf, 0, -2)
        return leaf.reshape(*leaf.shape[:-2], groups * CPU_PROBLEMS)[..., :problems]

    return jax.tree.map(join, out)
