"""Measure a device's limits: bandwidth, arithmetic, and the cost of a step of a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import timing
from jbt import runtime


@dataclasses.dataclass(frozen=True)
class Rates:
    """The device's rates in one precision."""

    bandwidth: float
    """Bytes/s."""
    arithmetic: float
    """Operations/s."""

    def roofline(self, operations: float, traffic: float) -> tuple[float, str]:
        """Fewest seconds for work (operations, bytes), and what limits it."""
        computing, moving = operations / self.arithmetic, traffic / self.bandwidth
        return max(computing, moving), "arithmetic" if computing > moving else "bandwidth"


def measure_rates(dtype: str) -> Rates:
    """Bandwidth of a + 3 b, and the rate of a product of square matrices at full precision."""
    on_cpu = jax.default_backend() == "cpu"
    itemsize = np.dtype(dtype).itemsize
    with runtime.precision(dtype):
        long = jnp.ones((2**26 if on_cpu else 2**29) // itemsize, dtype)
        square = jnp.ones((2048 if on_cpu else 8192,) * 2, dtype)
        triad = timing.compile_for(lambda a, b: a + 3 * b, long, long + 1)[1]
        product = timing.compile_for(jnp.matmul, square, square)[1]
        addend = jax.block_until_ready(long + 1)

        def four(f: Callable[[], Any]) -> Callable[[], Any]:
            """Four calls at once, so that the time to start one does not count."""
            return lambda: [f() for _ in range(4)]

        moving = timing.fastest(four(lambda: triad(long, addend)), 5, 5.0) / 4
        computing = timing.fastest(four(lambda: product(square, square)), 5, 5.0) / 4
    return Rates(3 * long.nbytes / moving, 2 * len(square) ** 3 / computing)


def scan_step() -> float:
    """Seconds of a step of `lax.scan` with almost no work."""
    x = jnp.ones(1024, jnp.float32)

    def seconds(length: int) -> float:
        def f(x: jax.Array) -> jax.Array:
            return jax.lax.scan(lambda c, _: (0.5 * c + 1, None), x, length=length)[0]

        return timing.compile_and_time(f, x)[1]

    return (seconds(20_000) - seconds(10_000)) / 10_000
