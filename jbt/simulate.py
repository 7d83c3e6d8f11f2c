"""One pool to thousands: vmap over pools and conditions, chunks, devices.

The only module of the simulation with a pool axis. An *experiment* is a function of one pool's
key and one condition that returns named numbers:

    def experiment(key, condition):            # condition: dict of traced scalars
        pool = pools.gaussian(stream(key, "pool"), 30, rho=condition["rho"])
        ...
        return {"recall": recall, "status": fit.status}

Pool number i uses `fold_in(key(seed), i)` and nothing else, so its numbers depend on the seed
and on i alone, and every condition sees the same pools. Draws that do not depend on the
condition are made once a pool, as `vmap` leaves them alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Key

from jbt import runtime

Condition = dict[str, Any]
Experiment = Callable[[Key[Array, ""], Condition], dict[str, Array]]

CPU_BATCH = 128
"""Fits in one vmapped loop on a CPU core: enough to fill the vector units, small enough for
the counts to stay in cache, and few to wait for the slowest."""

CPU_CHUNK = 16_384
GPU_CHUNK = 131_072
"""Problems (pool x condition) a call; batched GPU libraries stop at a few hundred thousand."""


def stream(key: Key[Array, ""], name: str) -> Key[Array, ""]:
    """The pool's own key for one purpose: `stream(key, "verdicts")`. Adding a stream to an
    experiment leaves the draws of the others as they were."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


class Simulation:
    """An experiment ready to be run for some pools and conditions, a chunk of pools at a time.

    Compiled when first run, for one padded shape: numbers depend neither on the chunk size, beyond
    rounding, nor on the order of the ids.
    """

    def __init__(
        self,
        experiment: Experiment,
        conditions: Mapping[str, Any],
        pool_ids: Sequence[int] | np.ndarray,
        *,
        seed: int = 0,
        dtype: str = "float32",
        chunk: int | None = None,
        devices: int | None = None,
    ) -> None:
        """
        Args:
          experiment: one pool, one condition; see the module's docstring.
          conditions: name -> [C] numbers, traced. Floats become `dtype`, integers stay integers.
          pool_ids: which pools, integers >= 0, in any order.
          seed: root of every draw.
          dtype: "float32" or "float64", for building, tracing and running.
          chunk: pools a call, rounded up to fill every device's batches; default about 16,384 (CPU)
            or 131,072 (GPU) problems.
          devices: how many local devices to spread a chunk over, default all.

        Raises:
          ValueError: conditions of different length, no pools, ids or seed outside 0..2^32-1,
            chunk or devices that cannot be had.
        """
        self.pool_ids = np.asarray(pool_ids, np.int64)
        if not self.pool_ids.size:
            raise ValueError("no pool ids")
        if self.pool_ids.min() < 0 or self.pool_ids.max() >= 2**32:
            raise ValueError("pool ids must lie in 0..2^32-1")
        check_seed(seed)
        lengths = {name: len(np.atleast_1d(v)) for name, v in conditions.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"conditions must have one length, got {lengths}")
        n_conditions = next(iter(lengths.values()))
        check_chunking(chunk, devices)
        local = jax.local_devices()
        n_devices = devices or len(local)
        on_cpu = local[0].platform == "cpu"
        size = chunk or max(1, (CPU_CHUNK if on_cpu else GPU_CHUNK) // n_conditions)
        # The inner batch does not depend on the chunk size, hence neither do the numbers.
        batch = max(1, CPU_BATCH // n_conditions) if on_cpu else -(-size // n_devices)
        unit = n_devices * batch
        self._size = -(-min(size, len(self.pool_ids)) // unit) * unit
        self._dtype = dtype
        with runtime.precision(dtype) as precision:
            self._conditions = {k: _condition(v, precision) for k, v in conditions.items()}
            self._root = jax.random.key(seed)
            self._call = _kernel(experiment, Mesh(np.array(local[:n_devices]), ("pools",)), batch)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every metric of one pool and condition, without computing any. What is traced
        for it need not be traced again to run."""
        padded = np.zeros(self._size, np.uint32)
        with runtime.precision(self._dtype):
            out = self._call.eval_shape(self._root, padded, self._conditions)
        return {name: v.shape[2:] for name, v in out.items()}

    def chunks(self) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """(ids [n], name -> array [n, C, ...]) a chunk."""
        for begin in range(0, len(self.pool_ids), self._size):
            part = self.pool_ids[begin : begin + self._size]
            fill = np.repeat(part[-1:], self._size - len(part))
            padded = np.concatenate([part, fill]).astype(np.uint32)
            with runtime.precision(self._dtype):
                out = self._call(self._root, padded, self._conditions)
            yield part, {k: np.asarray(v)[: len(part)] for k, v in out.items()}


def check_seed(seed: int) -> None:
    """Raise `ValueError` unless 0 <= seed < 2^32, where no two seeds are the same key."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in 0..2^32-1, got {seed}")


def check_chunking(chunk: int | None, devices: int | None) -> None:
    """Raise `ValueError` for a chunk or a number of devices that cannot be had; None passes."""
    n_local = jax.local_device_count()
    if devices is not None and not 1 <= devices <= n_local:
        raise ValueError(f"devices must lie in 1..{n_local}, got {devices}")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")


def simulate(
    experiment: Experiment,
    conditions: Mapping[str, Any],
    pool_ids: Sequence[int] | np.ndarray,
    **options: Any,
) -> dict[str, np.ndarray]:
    """An experiment for every pool and condition: name -> array [pools, C, ...] in the order of the
    ids. Arguments and errors are those of `Simulation`."""
    chunks = [out for _, out in Simulation(experiment, conditions, pool_ids, **options).chunks()]
    return {k: np.concatenate([c[k] for c in chunks]) for k in chunks[0]}


def _condition(value: Any, dtype: np.dtype) -> jax.Array:
    v = np.atleast_1d(np.asarray(value))
    return jnp.asarray(v, dtype if np.issubdtype(v.dtype, np.floating) else np.int32)


def _kernel(experiment: Experiment, mesh: Mesh, batch: int) -> Any:
    """(root key, ids [chunk], conditions [C]) -> results [chunk, C], jitted."""

    def one_pool(root: Key[Array, ""], conditions: Condition, pool_id: Array) -> dict[str, Array]:
        key = jax.random.fold_in(root, pool_id)
        return jax.vmap(lambda condition: experiment(key, condition))(conditions)

    def one_device(root: Any, ids: Array, conditions: Condition) -> dict[str, Array]:
        return jax.lax.map(lambda i: one_pool(root, conditions, i), ids, batch_size=batch)

    pools, whole = PartitionSpec("pools"), PartitionSpec()
    return jax.jit(
        jax.shard_map(
            one_device,
            mesh=mesh,
            in_specs=(whole, pools, whole),
            out_specs=pools,
            check_vma=False,  # the fit's loop starts from constants, which vary over no device
        )
    )
