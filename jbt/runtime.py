"""Start JAX for sweeps (devices, threads, kept programs) and set the precision: the only place that
touches JAX's global state, and only when called.

Importing jbt changes nothing; a program that wants both cores calls `start` first.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import jax
import numpy as np

from jbt import program_cache


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start(*, cpu_devices: int | None = None, cache: Path | None = None) -> None:
    """Prepare JAX for a sweep: one CPU device a core, one BLAS thread each, and compiled programs
    kept on disk.

    Call it before JAX's first computation; later it cannot change the number of devices.

    Args:
      cpu_devices: host devices, default one per core this process may use, unless an earlier call
        or XLA_FLAGS has set them.
      cache: folder for compiled programs, see `program_cache.keep`.
    """
    chosen = jax.config.values["jax_num_cpu_devices"] > 0 or "device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if cpu_devices is not None or not chosen:
        # RuntimeError: JAX is running already, and keeps its devices.
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", cpu_devices or available_cores())
    _one_blas_thread()
    program_cache.keep(cache)


def _one_blas_thread() -> None:
    """JAX solves on the CPU with SciPy's OpenBLAS, whose threads wait for one another when several
    devices call it at once: two cores were slower than one. So do NumPy's in small products."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when SciPy's library is loaded
    with suppress(ImportError):  # a bare JAX environment
        from threadpoolctl import threadpool_limits

        threadpool_limits(1, user_api="blas")


DEFAULTS = {
    "default_prng_impl": "threefry2x32",
    "threefry_partitionable": True,
    "random_seed_offset": 0,
    "high_dynamic_range_gumbel": False,
    "numpy_dtype_promotion": "standard",
    "numpy_rank_promotion": "allow",
}
"""Settings of JAX that change draws, or that jbt's code relies on."""


@contextmanager
def defaults() -> Iterator[None]:
    """A scope in which draws are those of JAX's defaults, whatever its settings and environment
    say, as these are not part of a configuration.

    Raises:
      ValueError: a setting has another value, and cannot be set for a scope.
    """
    with ExitStack() as scope:
        for name, default in DEFAULTS.items():
            if hasattr(jax, name):
                scope.enter_context(getattr(jax, name)(default))
            elif (value := jax.config.values.get(f"jax_{name}", default)) != default:
                raise ValueError(
                    f"JAX_{name.upper()} is {value}, which changes draws: only its default, "
                    f"{default}, is allowed"
                )
        yield


@contextmanager
def precision(dtype: str) -> Iterator[np.dtype]:
    """A scope in which new arrays are float32 or float64, matrix products at full precision, and
    JAX otherwise has its `defaults`.

    Build, trace and call inside it; both precisions live in one process.

    Raises:
      ValueError: another dtype; see `defaults`.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    with defaults(), jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        yield np.dtype(dtype)


def device_name() -> str:
    """The devices in words: number, kind and machine."""
    devices = jax.local_devices()
    return f"{len(devices)} x {devices[0].device_kind} ({platform.machine()})"
