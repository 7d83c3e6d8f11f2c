"""Runs one-pool experiments on thousands of pools: vmap over pools and conditions, chunks, devices.

This is the only module of the simulation with a pool axis. An *experiment* is a function of one
pool's key and one condition that returns named numbers:

    def experiment(key, condition):            # condition: dict of traced scalars
        pool = pools.gaussian(stream(key, "pool"), 30, rho=condition["rho"])
        ...
        return {"recall": recall, "status": fit.status}

Pool number i uses `fold_in(key(seed), i)` and nothing else, so its numbers depend on the seed
and on i alone, and every condition sees the same pools. Draws that do not depend on the
condition are made once a pool, as `vmap` leaves them alone.

Where pools are recorded instead of drawn, `data` holds them, and the experiment takes its pool's
row as a third argument: `experiment(key, condition, recorded)`.
"""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Key

from jbt import quick_compilation, runtime
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.simulation import memory

Condition = dict[str, Any]
Experiment = Callable[..., dict[str, Array]]

MOST_PROBLEMS = 131_072
"""Most problems (pool x condition) in a call; batched GPU libraries stop at a few hundred thousand.
"""

SHARE = 0.8
"""Share of the available memory that a call may take; the rest is for the results of the previous
call, and for other programs."""


def stream(key: Key[Array, ""], name: str) -> Key[Array, ""]:
    """The pool's key for one purpose: `stream(key, "verdicts")`. Adding a stream to an experiment
    does not change the draws of other streams."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


class Simulation:
    """An experiment ready to run on pools and conditions, a chunk of pools at a time.

    It is compiled when first run, for one padded shape: numbers depend neither on the chunk size,
    beyond rounding, nor on the order of the ids. A chunk has the requested size if the compiled
    program fits in `SHARE` of the available memory, else the largest size that fits.
    """

    def __init__(
        self,
        experiment: Experiment,
        conditions: Mapping[str, Any],
        pool_ids: Sequence[int] | np.ndarray,
        *,
        data: Any = None,
        seed: int = 0,
        dtype: str = "float32",
        chunk: int | None = None,
        devices: int | None = None,
        optimise: bool = True,
        batch: int | None = None,
    ) -> None:
        """
        Args:
          experiment: one pool, one condition; see the module's docstring.
          conditions: name -> [C] numbers, traced. Floats become `dtype`, integers stay integers. A
            number in place of C is common to all: it is traced, but not batched, so that
            `lax.switch` on it computes one branch alone.
          pool_ids: integers >= 0, in any order.
          data: arrays, in any structure, whose row i belongs to pool i; floats become `dtype`.
          seed: root of every draw.
          dtype: "float32" or "float64", for building, tracing and running.
          chunk: pools a call, rounded up to fill every device's batches; default 131,072 problems.
            Fewer where memory is short.
          devices: number of local devices to spread a chunk over, default all.
          optimise: False compiles faster on a CPU, into programs that run some times slower: for a
            few pools; see `jbt.quick_compilation`.
          batch: most pools computed together on a CPU; default as many as fill its vector units, to
            which fewer are filled up. Another batch rounds differently.

        Raises:
          ValueError: no conditions, or of different length; no pools; ids or seed that are not
            integers in 0..2^32-1; ids without a row of the data; conditions or data that are not
            numbers, or that their dtype cannot hold; chunk or devices out of range.
        """
        self.pool_ids = _pool_ids(pool_ids)
        check_seed(seed)
        with runtime.precision(dtype) as precision:
            self._conditions = _conditions(conditions, precision)
            self._data = jax.tree_util.tree_map_with_path(
                lambda path, leaf: _array(f"data{jax.tree_util.keystr(path)}", leaf, precision),
                data,
            )
            self._root = jax.random.key(seed)
        for leaf in jax.tree.leaves(self._data):
            if not leaf.ndim:
                raise ValueError("data must be arrays with a row for every pool, got a number")
            if len(leaf) <= self.pool_ids.max():
                raise ValueError(f"no data for pool {self.pool_ids.max()}: there are {len(leaf)}")
        lengths = {name: len(v) for name, v in self._conditions.items() if v.ndim}
        if len({*lengths.values()}) != 1 or not (n_conditions := max(lengths.values())):
            raise ValueError(f"conditions must have one length, at least 1, got {lengths}")
        check_chunking(chunk, devices)
        self.n_conditions = n_conditions
        local = jax.local_devices()
        n_devices = devices or len(local)
        on_cpu = local[0].platform == "cpu"
        size = chunk or max(1, MOST_PROBLEMS // n_conditions)
        # On a CPU the inner batch does not depend on the chunk size, hence neither do the numbers.
        self._batch = max(1, CPU_PROBLEMS // n_conditions) if on_cpu else None
        if self._batch and batch is not None:
            self._batch = min(self._batch, batch)
        self._unit = n_devices * (self._batch or 1)
        self._size = _round_up(min(size, len(self.pool_ids)), self._unit)
        self._experiment = experiment
        self._mesh = Mesh(np.array(local[:n_devices]), ("pools",))
        self._dtype = dtype
        self._compiler_options = None if optimise else quick_compilation.options()
        self._program: dict[str, Any] = {}
        """The program, once it is traced and compiled; copies share it."""

    @property
    def size(self) -> int:
        """Pools of a call (count), unless they do not fit in memory."""
        return self._size

    def metrics(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of every metric of one pool and condition, from tracing alone. Running
        reuses the trace.

        Raises:
          ValueError: the experiment does not return a dictionary of arrays of real numbers.
        """
        metrics = self._traced.out_info
        if not isinstance(metrics, dict) or not metrics:
            kind = "an empty one" if metrics == {} else f"a {type(metrics).__name__}"
            raise ValueError(f"an experiment must return a dictionary of arrays, got {kind}")
        for name, v in metrics.items():
            kind = str(getattr(v, "dtype", type(v).__name__))
            if not re.fullmatch(r"bool|u?int\d+|float(16|32|64)", kind):
                raise ValueError(f"metric {name} must be an array of real numbers, got a {kind}")
        return {name: (v.shape[2:], v.dtype) for name, v in metrics.items()}

    def compile(self) -> None:
        """Compile now what the first chunk would compile."""
        _ = self._compiled

    def chunks(self) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Run the chunks, yielding (ids [n], name -> array [n, C, ...]) for each.

        Raises:
          ValueError: the smallest chunk does not fit in memory; see `metrics`.
        """
        self.metrics()
        call, size = self._compiled
        for begin in range(0, len(self.pool_ids), size):
            part = self.pool_ids[begin : begin + size]
            fill = np.repeat(part[-1:], size - len(part))
            padded = np.concatenate([part, fill]).astype(np.uint32)
            with runtime.precision(self._dtype):
                out = call(self._root, padded, self._conditions, self._data)
            yield part, {k: np.asarray(v)[: len(part)] for k, v in out.items()}

    def under(self, conditions: Mapping[str, Any]) -> Simulation:
        """The same pools under other conditions, by the same program.

        Raises:
          ValueError: other names, kinds of numbers, or another number of conditions.
        """
        with runtime.precision(self._dtype) as precision:
            new = _conditions(conditions, precision)
        for name in new.keys() | self._conditions.keys():
            values = self._conditions.get(name), new.get(name)
            kinds = [None if v is None else (v.shape, str(v.dtype)) for v in values]
            if kinds[0] != kinds[1]:
                raise ValueError(f"condition {name} had {kinds[0]}, now has {kinds[1]}")
        simulation = copy.copy(self)
        simulation._conditions = new
        return simulation

    def of(self, pool_ids: Sequence[int] | np.ndarray) -> Simulation:
        """Other pools, by the same program; ids as in the constructor, with a row of the data
        each."""
        simulation = copy.copy(self)
        simulation.pool_ids = _pool_ids(pool_ids)
        return simulation

    @property
    def _traced(self) -> jax.stages.Traced:
        if "traced" not in self._program:
            self._program["traced"] = self._trace(self._size)
        return self._program["traced"]

    def _trace(self, size: int) -> jax.stages.Traced:
        batch = self._batch or size // self._mesh.size
        with runtime.precision(self._dtype):
            call = kernel(self._experiment, self._mesh, batch)
            ids = np.zeros(size, np.uint32)
            return call.trace(self._root, ids, self._conditions, self._data)

    @property
    def _compiled(self) -> tuple[jax.stages.Compiled, int]:
        """The program, and its number of pools a call: the requested number or, if that does not
        fit in memory, a smaller one, for which it is compiled again."""
        if "compiled" not in self._program:
            self._program["compiled"] = self._compile()
        return self._program["compiled"]

    def _compile(self) -> tuple[jax.stages.Compiled, int]:
        traced, size = self._traced, self._size
        device = self._mesh.devices.flat[0]
        available = memory.there_is(device)
        sharing = self._mesh.size if device.platform == "cpu" else 1
        while True:
            with runtime.precision(self._dtype):
                compiled = traced.lower().compile(self._compiler_options)
            needed = sharing * memory.needed(compiled)
            if available is None or needed <= SHARE * available:
                return compiled, size
            if size == self._unit:
                raise ValueError(
                    f"{size} pools x {self.n_conditions} conditions, the smallest chunk, take "
                    f"{needed / 1e9:,.1f} GB of memory, more than {SHARE:.0%} of the "
                    f"{available / 1e9:,.1f} GB available; use fewer items, conditions or devices"
                )
            # At most half, so that the loop ends even if memory does not shrink with the chunk.
            fitting = min(size // 2, int(size * SHARE * available / needed))
            size = max(fitting // self._unit, 1) * self._unit
            traced = self._trace(size)


def check_seed(seed: int) -> None:
    """Raise `ValueError` unless `seed` is an integer, 0 <= seed < 2^32, where different seeds give
    different keys."""
    if not _whole(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in 0..2^32-1, got {seed}")


def check_chunking(chunk: int | None, devices: int | None) -> None:
    """Raise `ValueError` for a chunk or a number of devices out of range; None passes."""
    n_local = jax.local_device_count()
    if devices is not None and not (_whole(devices) and 1 <= devices <= n_local):
        raise ValueError(f"devices must lie in 1..{n_local}, got {devices}")
    if chunk is not None and not (_whole(chunk) and chunk >= 1):
        raise ValueError(f"chunk must be a whole number, at least 1, got {chunk}")


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def simulate(
    experiment: Experiment,
    conditions: Mapping[str, Any],
    pool_ids: Sequence[int] | np.ndarray,
    *,
    progress: Callable[[int], Any] | None = None,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Run an experiment on every pool and condition: name -> array [pools, C, ...] in the order of
    the ids. Other arguments and errors as in `Simulation`.

    Args:
      progress: called with 0 at the start and after each chunk with the number of its pools; chunks
        are then at most a twentieth of the pools, where that costs nothing.
      options: further arguments of `Simulation`.
    """
    if progress is not None:
        options.setdefault("chunk", -(-len(pool_ids) // 20))
    simulation, chunks = Simulation(experiment, conditions, pool_ids, **options), []
    if progress is not None:
        progress(0)
    for ids, out in simulation.chunks():
        chunks.append(out)
        if progress is not None:
            progress(len(ids))
    return {k: np.concatenate([c[k] for c in chunks]) for k in chunks[0]}


def _pool_ids(given: Any) -> np.ndarray:
    ids = np.asarray(given)
    if not ids.size:
        raise ValueError("no pool ids")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"pool ids must be a list of integers, got {ids.dtype} {list(ids.shape)}")
    if ids.min() < 0 or ids.max() >= 2**32:
        raise ValueError("pool ids must lie in 0..2^32-1")
    return ids.astype(np.int64)


def _conditions(given: Mapping[str, Any], dtype: np.dtype) -> Condition:
    arrays = {name: _array(f"condition {name}", value, dtype) for name, value in given.items()}
    if any(value.ndim for value in arrays.values()):
        return arrays
    return {name: jnp.atleast_1d(value) for name, value in arrays.items()}


def _array(name: str, value: Any, dtype: np.dtype) -> jax.Array:
    """Floats as `dtype`, integers as int32, booleans as they are.

    Raises:
      ValueError: other values, or numbers that these types cannot hold.
    """
    try:
        v = np.asarray(value)
    except (TypeError, ValueError):  # rows of unequal length, keys
        v = np.asarray(None)
    if v.dtype.kind not in "fiub":
        plain = v.dtype == object and not isinstance(value, np.ndarray)
        given = type(value).__name__ if plain else str(v.dtype)
        raise ValueError(f"{name} must be numbers, got {given}")
    kind = {"f": dtype, "b": np.dtype(bool)}.get(v.dtype.kind, np.dtype(np.int32))
    with np.errstate(over="ignore", invalid="ignore"):
        cast = v.astype(kind)
    lost = np.isinf(cast) & np.isfinite(v) if kind.kind == "f" else cast != v
    if lost.any():
        raise ValueError(f"{name} holds {v[lost].flat[0]}, which {kind} does not")
    return jnp.asarray(cast)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def kernel(experiment: Experiment, mesh: Mesh, batch: int) -> Any:
    """The jitted function of a simulation: (root key, ids [chunk], conditions [C], data of every
    pool or None) -> results [chunk, C].

    Args:
      mesh: devices, on one axis "pools", over which a chunk is spread.
      batch: pools vmapped together on a device, batch after batch; on a GPU the device's whole
        share of a chunk.
    """

    def one_pool(
        root: Key[Array, ""], conditions: Condition, data: Any, pool_id: Array
    ) -> dict[str, Array]:
        key = jax.random.fold_in(root, pool_id)
        row = () if data is None else (jax.tree.map(lambda leaf: leaf[pool_id], data),)
        batched = {name: 0 if value.ndim else None for name, value in conditions.items()}
        one = jax.vmap(lambda condition: experiment(key, condition, *row), in_axes=(batched,))
        return one(conditions)

    def one_device(root: Any, ids: Array, conditions: Condition, data: Any) -> dict[str, Array]:
        return jax.lax.map(lambda i: one_pool(root, conditions, data, i), ids, batch_size=batch)

    pools, replicated = PartitionSpec("pools"), PartitionSpec()
    return jax.jit(
        jax.shard_map(
            one_device,
            mesh=mesh,
            in_specs=(replicated, pools, replicated, replicated),
            out_specs=pools,
            check_vma=False,  # the fit's loop starts from constants, which vary over no device
        )
    )
