"""Programs that run a few times: compiled several times faster, into code that runs some times
slower.

XLA spends most of a compilation on LLVM's optimisations and, on a CPU, on its own code for fused
operations. Both pay in simulations of many pools, and change no result beyond rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

import jax
from jax.core import Tracer

FEW = 50_000
"""Most numbers among the arguments of a program that `jit` compiles quickly: some 500 pools of 6
items, or 25 of 30 items, which take no longer than is saved."""

_LEVEL: dict[str, Any] = {"xla_backend_optimization_level": 0}
_LEVEL_AND_FUSIONS: dict[str, Any] = {**_LEVEL, "xla_cpu_use_fusion_emitters": False}


@cache
def options() -> dict[str, Any] | None:
    """Options for `jax.jit` and `jax.stages.Lowered.compile`; None where the device is no CPU."""
    if jax.default_backend() != "cpu":
        return None
    for chosen in (_LEVEL_AND_FUSIONS, _LEVEL):
        try:
            jax.jit(lambda: 0).lower().compile(chosen)
        except jax.errors.JaxRuntimeError:  # an option that this jaxlib does not have
            continue
        return chosen
    return None


def jit(function: Callable[..., Any], *, static_argnames: Sequence[str] = ()) -> Callable[..., Any]:
    """`jax.jit` for a function that is called a few times, by a user who waits for it: compiled
    quickly where its arguments hold at most `FEW` numbers, else with all optimisations."""
    optimised = jax.jit(function, static_argnames=static_argnames)

    @cache
    def quick() -> Callable[..., Any]:
        return jax.jit(function, static_argnames=static_argnames, compiler_options=options())

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        leaves = jax.tree.leaves((arguments, named))
        few = sum(getattr(leaf, "size", 1) for leaf in leaves) <= FEW
        return (quick() if few and not _tracing(leaves) else optimised)(*arguments, **named)

    def clear_cache() -> None:
        """Forget the compiled programs, as `jax.jit`'s method of this name does."""
        for program in (optimised, quick()):
            program.clear_cache()  # type: ignore[attr-defined]

    call.clear_cache = clear_cache  # type: ignore[attr-defined]
    return call


def _tracing(leaves: Sequence[Any]) -> bool:
    """Whether this is within another program, whose options hold, whatever the arguments."""
    return any(isinstance(leaf, Tracer) for leaf in (*leaves, jax.lax.full((), 0)))
