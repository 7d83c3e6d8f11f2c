"""Start JAX for sweeps (devices, threads, kept programs), set the precision, join processes: the
only place that touches JAX's global state, and only when called.

Importing jbt changes nothing; a program that wants both cores calls `start` first.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import jax
import numpy as np


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
      cache: folder for compiled programs, default `$JBT_CACHE`; none if that is unset.
    """
    chosen = jax.config.values["jax_num_cpu_devices"] > 0 or "device_count" in os.environ.get(
        "XLA_FLAGS", ""
    )
    if cpu_devices is not None or not chosen:
        # RuntimeError: JAX is running already, and keeps its devices.
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", cpu_devices or available_cores())
    _one_blas_thread()
    folder = cache or os.environ.get("JBT_CACHE")
    if folder:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        # The defaults keep only programs that took a second to compile, and large ones.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


JOIN_SECONDS = 600
"""How long `join` waits for the other processes: the nodes of a job do not start together."""
HEARTBEAT_SECONDS = 100
"""A process that is not heard from for so long counts as dead, and the others are ended."""
LEAVE_SECONDS = 30 * 86_400
"""How long `leave` waits for the other processes: as long as any job may take."""


def join(coordinator: str | None = None, process: tuple[int, int] | None = None) -> tuple[int, int]:
    """Join JAX's distributed runtime, with every local device that this process sees.

    Call it after `start` and before JAX's first computation. From then on JAX ends this process
    when another process of the job dies.

    Args:
      coordinator: ADDRESS:PORT at which process 0 listens, default as JAX detects it under SLURM,
        Open MPI and Kubernetes, or `$JAX_COORDINATOR_ADDRESS`.
      process: the number of this process, from 0, and the number of processes; default as JAX
        detects them.

    Returns:
      The number of this process, and the number of processes.

    Raises:
      ValueError: JAX cannot detect these, the port is taken, or JAX is running already. If the
        others do not join within `JOIN_SECONDS`, JAX ends the process.
    """
    number, count = process or (None, None)
    if coordinator and number == 0:
        _check_port(int(coordinator.rpartition(":")[2]))
    # All computation stays on a process's own devices, so there are no collectives to connect.
    jax.config.update("jax_cpu_collectives_implementation", None)
    # The service would catch SIGTERM, by which schedulers end a job, and leave handling it to us.
    jax.config.update("jax_enable_preemption_service", False)
    # Under SLURM and Open MPI, None would be one device a process.
    local_devices = None if "JAX_LOCAL_DEVICE_IDS" in os.environ else ()
    try:
        jax.distributed.initialize(
            coordinator,
            count,
            number,
            local_devices,
            initialization_timeout=JOIN_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=LEAVE_SECONDS,
        )
    except ValueError as error:
        missing = "--coordinator ADDRESS:PORT and --part I/N"
        if coordinator:
            missing = "--part I/N, the number of this process and how many there are"
        raise ValueError(
            f"no SLURM, Open MPI or Kubernetes job is found ({str(error).rstrip('.')}); "
            f"give {missing}"
        ) from None
    except RuntimeError as error:
        raise ValueError(f"cannot join the other processes: {str(error).splitlines()[0]}") from None
    return jax.process_index(), jax.process_count()


def _check_port(port: int) -> None:
    """Raise `ValueError` unless process 0 can listen at a port; jaxlib would end in a segmentation
    fault."""
    try:
        socket.create_server(("", port)).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen at port {port}: {error}") from None


def leave() -> None:
    """Leave JAX's distributed runtime: wait until every process has called this. Later deaths of a
    process do not affect the others."""
    jax.distributed.shutdown()


def _one_blas_thread() -> None:
    """JAX solves on the CPU with SciPy's OpenBLAS, whose threads wait for one another when several
    devices call it at once: two cores were slower than one."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when the library is loaded
    if "scipy.linalg" in sys.modules:
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
