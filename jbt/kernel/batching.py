"""Moves the batch axis of vmapped problems, however deeply nested, to the end.

A step on one pool of thirty items is too small for vector units, LAPACK or a GPU; the same step on
a hundred pools is plain elementwise work if the pool is the last axis of every array. `vmap` puts
it first. So fast code is written with the axes of one problem in front, lets further axes pass
through, and is decorated with `batch_last`. Its callers see one problem.

For JAX such a function is one primitive operation, which `vmap` turns into the same operation on
more problems. Python runs the function twice, however deep the vmaps: for the shapes of one
problem's results, and when the program is lowered, with all problems.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

CPU_PROBLEMS = 128
"""Problems solved together on a CPU: enough to fill the vector units, few enough for the counts to
stay in cache and not to wait long for the slowest. Up to twice as many go together, as a nearly
empty group costs as much as a full one. On a GPU, all."""


def batch_last(function: Callable[..., Any], **options: Hashable) -> Callable[..., Any]:
    """Make a function of one problem from `function`, which sees all vmapped axes as one last axis.

    Args:
      function: takes pytrees of arrays with one more axis than the caller's, which comes last. Its
        length is B, the number of problems, or 1 where all problems share the value. Returns a
        pytree of arrays with a last axis of length B or 1.
      options: further arguments, the same for all problems.

    Returns:
      The function of one problem, to be called, jitted and vmapped like any other. It has no
      derivatives.
    """

    def single(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        call = _Call(function, tuple((k, type(v), v) for k, v in options.items()), structure)
        traced = any(isinstance(leaf, Tracer) for leaf in leaves)
        arrays = [jnp.asarray(leaf) for leaf in leaves]
        return (_one_problem if traced else _one_problem_jitted)(call, *arrays)

    return single


@dataclasses.dataclass(frozen=True)
class _Call:
    """A function with everything but its arrays. Equal calls share compiled programs."""

    function: Callable[..., Any]
    options: tuple[tuple[str, type, Hashable], ...]
    """Name, type and value: 1 and 1.0 are equal, but not the same."""
    structure: Any
    """Of the arguments, a `jax.tree_util.PyTreeDef`."""

    def __call__(self, *leaves: Any) -> list[Any]:
        """The results for all problems, flat."""
        out = self.function(*jax.tree.unflatten(self.structure, leaves), **self.named())
        return _for_each(jax.tree.leaves(out), _count(leaves))

    def named(self) -> dict[str, Hashable]:
        return {name: value for name, _, value in self.options}

    def outputs(self, inputs: tuple[Any, ...]) -> tuple[Any, list[jax.ShapeDtypeStruct]]:
        """Structure of the results, and one problem's; the inputs' shapes are one problem's."""
        return _outputs(self, inputs, jax.config.values["jax_enable_x64"])


@functools.lru_cache(maxsize=1024)
def _outputs(
    call: _Call, inputs: tuple[Any, ...], _precision: bool
) -> tuple[Any, list[jax.ShapeDtypeStruct]]:
    leaves = [jax.ShapeDtypeStruct((*shape, 1), dtype) for shape, dtype in inputs]
    arguments = jax.tree.unflatten(call.structure, leaves)
    function = functools.partial(call.function, **call.named())
    out, structure = jax.tree.flatten(jax.eval_shape(function, *arguments))
    return structure, [jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype) for leaf in out]


_batched = Primitive("batch_last")
_batched.multiple_results = True


def _one_problem(call: _Call, *leaves: Any) -> Any:
    leaves = tuple(lax.convert_element_type(v, v.dtype) for v in leaves)  # not weakly typed
    out = _batched.bind(*(lax.expand_dims(v, [v.ndim]) for v in leaves), call=call)
    structure, _ = call.outputs(tuple((v.shape, v.dtype) for v in leaves))
    return jax.tree.unflatten(structure, [lax.squeeze(v, [v.ndim - 1]) for v in out])


_one_problem_jitted = jax.jit(_one_problem, static_argnums=0)


@functools.partial(jax.jit, static_argnums=0)
def _run(call: _Call, *leaves: Any) -> list[Any]:
    return _batched.bind(*leaves, call=call)


@_batched.def_impl
def _impl(*leaves: Any, call: _Call) -> list[Any]:  # vmapped, but not within a program
    by_operation = jax.config.values["jax_disable_jit"] or jax.config.values["jax_debug_nans"]
    return call(*leaves) if by_operation else _run(call, *leaves)


@_batched.def_abstract_eval
def _abstract(*leaves: Any, call: _Call) -> list[Any]:
    _, out = call.outputs(tuple((leaf.shape[:-1], leaf.dtype) for leaf in leaves))
    return [ShapedArray((*leaf.shape, _count(leaves)), leaf.dtype) for leaf in out]


def _vmapped(
    leaves: Sequence[Any], axes: Sequence[int | None], *, call: _Call
) -> tuple[list[Any], list[int]]:
    """The same call on B A problems, for a new axis of length A."""
    new = next(v.shape[a] for v, a in zip(leaves, axes, strict=True) if a is not None)
    # [..., b, A], or [..., b, 1] where the new axis shares the value
    leaves = [
        lax.expand_dims(v, [v.ndim]) if a is None else jnp.moveaxis(v, a, -1)
        for v, a in zip(leaves, axes, strict=True)
    ]
    problems = max(leaf.shape[-2] for leaf in leaves)

    def merged(leaf: Any) -> Any:
        """[..., b, A] to [..., B A]: the new axis becomes the last, after those gathered."""
        shared = leaf.shape[-2:] == (1, 1)  # by all
        shape = (*leaf.shape[:-2], *((1, 1) if shared else (problems, new)))
        return lax.reshape(jnp.broadcast_to(leaf, shape), (*shape[:-2], shape[-2] * shape[-1]))

    out = _batched.bind(*map(merged, leaves), call=call)
    out = _for_each(out, problems * new)  # where no argument had the new axis
    out = [lax.reshape(leaf, (*leaf.shape[:-1], problems, new)) for leaf in out]
    return out, [leaf.ndim - 1 for leaf in out]


batching.primitive_batchers[_batched] = _vmapped


def _on_cpu(*leaves: Any, call: _Call) -> list[Any]:
    return call(*leaves) if _count(leaves) <= 2 * CPU_PROBLEMS else _in_groups(call, leaves)


def _on_accelerator(*leaves: Any, call: _Call) -> list[Any]:
    return call(*leaves)


mlir.register_lowering(_batched, mlir.lower_fun(_on_accelerator, multiple_results=True))
mlir.register_lowering(_batched, mlir.lower_fun(_on_cpu, multiple_results=True), platform="cpu")


def _count(leaves: Sequence[Any]) -> int:
    """Number of problems; shared values have a last axis of 1."""
    return max(leaf.shape[-1] for leaf in leaves)


def _for_each(leaves: list[Any], problems: int) -> list[Any]:
    """Results with shared values repeated for each problem."""
    return [jnp.broadcast_to(leaf, (*leaf.shape[:-1], problems)) for leaf in leaves]


def _in_groups(call: _Call, leaves: Sequence[Any]) -> list[Any]:
    """The same, one group of problems after the other."""
    problems = _count(leaves)
    groups = -(-problems // CPU_PROBLEMS)
    fill = groups * CPU_PROBLEMS - problems
    batched = [leaf.shape[-1] > 1 for leaf in leaves]

    def group(leaf: Any) -> Any:
        """[..., B] to [groups, ..., CPU_PROBLEMS], the last problem repeated."""
        widths = [(0, 0)] * (leaf.ndim - 1) + [(0, fill)]
        leaf = jnp.pad(leaf, widths, mode="edge")
        return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], groups, CPU_PROBLEMS), -2, 0)

    def run(of_group: list[Any]) -> Any:
        rest = iter(of_group)
        return call(*(next(rest) if b else v for v, b in zip(leaves, batched, strict=True)))

    def join(leaf: Any) -> Any:
        leaf = jnp.moveaxis(leaf, 0, -2)
        return leaf.reshape(*leaf.shape[:-2], groups * CPU_PROBLEMS)[..., :problems]

    groups_of_leaves = [group(v) for v, b in zip(leaves, batched, strict=True) if b]
    return [join(leaf) for leaf in jax.lax.map(run, groups_of_leaves)]
