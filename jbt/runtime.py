"""The only place that touches JAX's global state, and only when called.

Importing jbt changes nothing; a program that wants both cores calls `start` first.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
import numpy as np


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start(*, cpu_devices: int | None = None, cache: Path | None = None) -> None:
    """Prepare JAX for a sweep: one CPU device a core, one BLAS thread each, and compiled programs
    kept on disk.

    Call it before JAX's first computation; it has no effect on the number of devices after.

    Args:
      cpu_devices: host devices, default one per core this process may use, unless an earlier
        call or XLA_FLAGS has chosen.
      cache: folder for compiled programs, default `$JBT_CACHE`; none if that is unset.
    """
    chosen = jax.config.values["jax_num_cpu_devices"] > 0 or "device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if cpu_devices is not None or not chosen:
        # RuntimeError: JAX runs already, and keeps the devices it has.
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", cpu_devices or available_cores())
    _one_blas_thread()
    folder = cache or os.environ.get("JBT_CACHE")
    if folder:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        # The defaults keep only programs that took a second to compile, and large ones.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _one_blas_thread() -> None:
    """JAX solves on the CPU with SciPy's OpenBLAS, whose threads wait for one another when several
    devices call it at once: two cores were slower than one."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when the library is loaded
    if "scipy.linalg" in sys.modules:
        with suppress(ImportError):  # a bare JAX environment
            from threadpoolctl import threadpool_limits

            threadpool_limits(1, user_api="blas")


@contextmanager
def precision(dtype: str) -> Iterator[np.dtype]:
    """A scope in which new arrays are float32 or float64, matrix products at full precision.

    Build, trace and call inside it; both precisions live in one process.

    Raises:
      ValueError: another dtype.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        yield np.dtype(dtype)


def device_name() -> str:
    """The devices in words: how many, which, on what machine."""
    devices = jax.local_devices()
    return f"{len(devices)} x {devices[0].device_kind} ({platform.machine()})"
