"""The work of a sweep: chunks of pools, which any `concurrent.futures.Executor` computes.

A worker gets the sweep's settings and the numbers of chunks, and builds groups and programs itself;
what it returns depends on nothing else. Only the process that was started writes results.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jbt import runtime
from jbt.experiments import provenance
from jbt.experiments.declare import Group, Sweep
from jbt.experiments.store import Chunk, Shapes
from jbt.simulation.simulate import Simulation

CALL_PROBLEMS = 16_384
"""Fits of 30 items a call on a CPU, a second or two. More would not be faster there, and a call is
a step of the progress bar and a chunk, which a killed run loses."""

MOST_CHUNKS = 1_000
"""A run with more calls than this has several in a chunk: a chunk takes some files."""

ATTEMPTS = 4
"""How often a chunk is given to workers that die of it."""


class Computed(NamedTuple):
    """A chunk's results."""

    chunk: Chunk
    numbers: dict[str, np.ndarray]
    """Metric -> [conditions, axes, pools of the chunk]."""
    seconds: float
    device: str


class Work:
    """The groups of a sweep, and their programs once they are needed."""

    def __init__(self, sweep: Sweep) -> None:
        """
        Raises:
          ValueError: two groups have one name; a group has no conditions.
        """
        self.sweep = sweep
        groups = sweep.groups()
        self.groups = {group.name: group for group in groups}
        if len(self.groups) < len(groups):
            raise ValueError(f"two groups have one name: {', '.join(g.name for g in groups)}")
        if empty := [group.name for group in groups if not group.n_conditions]:
            raise ValueError(f"group {empty[0]} has no conditions: an option lists nothing")
        self._simulations: dict[str, Simulation] = {}

    def simulation(self, name: str) -> Simulation:
        """The program of a group."""
        if name not in self._simulations:
            group, sweep = self.groups[name], self.sweep
            chunk = sweep.chunk
            if chunk is None and jax.default_backend() == "cpu":
                chunk = max(1, int(CALL_PROBLEMS / group.fits_a_pool))
            smoke = sweep.preset == "smoke"
            simulation = Simulation(
                group.experiment,
                group.conditions,
                range(group.pools),
                data=group.data,
                seed=sweep.seed,
                dtype=sweep.dtype,
                chunk=chunk,
                devices=sweep.devices,
                # It simulates next to nothing. The batch depends on nothing but the group.
                **({"optimise": False, "batch": -(-group.pools // 2)} if smoke else {}),
            )
            for other, of_other in self.groups.items():
                if program_of(of_other) == program_of(group):
                    self._simulations[other] = simulation.under(of_other.conditions)
        return self._simulations[name]

    def sizes(self) -> dict[str, int]:
        """Group -> pools of a chunk (count): whole calls, so that a pool has the same place in a
        call, and hence the same rounding, whoever computes it."""
        calls = {name: self.simulation(name).size for name in self.groups}
        return {
            name: call * math.ceil(self.groups[name].pools / MOST_CHUNKS / call)
            for name, call in calls.items()
        }

    def shapes(self) -> Shapes:
        """The metrics, which are the same in all groups; nothing is computed."""
        metrics = self.simulation(next(iter(self.groups))).metrics()
        return {name: (shape, _kept(dtype)) for name, (shape, dtype) in metrics.items()}

    @runtime.defaults()
    def compute(self, chunk: Chunk) -> Computed:
        """Compute a chunk."""
        begin = time.perf_counter()
        names, simulation = list(self.groups), self.simulation(chunk.group)
        for name in names[: names.index(chunk.group)]:  # they are done with, and take memory
            self._simulations.pop(name, None)
        calls = [out for _, out in simulation.of(chunk.ids).chunks()]
        numbers = {}
        for name in calls[0]:
            values = np.concatenate([out[name] for out in calls])
            dtype = _kept(values.dtype)
            if dtype.kind == "i" and (values.astype(dtype) != values).any():
                raise ValueError(
                    f"metric {name} holds integers beyond int32, the type they are saved in"
                )
            numbers[name] = np.moveaxis(values.astype(dtype), 0, -1)
        return Computed(chunk, numbers, time.perf_counter() - begin, runtime.device_name())


def program_of(group: Group) -> tuple[Any, ...]:
    """What the program of a group depends on."""
    kinds = {(n, np.shape(v), np.asarray(v).dtype) for n, v in group.conditions.items()}
    return id(group.experiment), id(group.data), group.pools, frozenset(kinds)


def _kept(dtype: np.dtype) -> np.dtype:
    """The type in which numbers are saved."""
    return dtype if np.issubdtype(dtype, np.floating) else np.dtype(np.int32)


def code_of(sweep: Sweep) -> dict[str, str]:
    """The code that this process runs, and its version of jax."""
    return {"jax": jax.__version__, **provenance.code_of(type(sweep))}


def compute_elsewhere(
    sweep: Sweep, code: Mapping[str, str], chunks: Sequence[Chunk]
) -> list[Computed]:
    """Compute some chunks in a process that knows nothing of the sweep.

    Raises:
      ValueError: it runs other code than the process that asks.
    """
    runtime.start()
    own = code_of(sweep)  # but jax and jbt, nothing of a script, which comes with its classes
    if differ := [name for name, digest in code.items() if own.get(name, digest) != digest]:
        raise ValueError(
            f"a worker runs other code than this process ({', '.join(differ)}); start it again"
        )
    work = _work(sweep)
    return [work.compute(chunk) for chunk in chunks]


_work = functools.lru_cache(maxsize=1)(Work)


# --- who computes


class Slurm(ThreadPoolExecutor):
    """Computes in jobs of SLURM: each thread waits for one."""

    def __init__(self, slurm: Any, jobs: int) -> None:
        """
        Args:
          slurm: an executor of submitit.
        """
        super().__init__(jobs)
        self._slurm, self._jobs = slurm, []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        job = self._slurm.submit(fn, *args, **kwargs)
        self._jobs.append(job)
        return super().submit(job.result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for job in self._jobs:
            if not job.done():
                job.cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)


@contextmanager
def executor_of(text: str | None, folder: Path) -> Iterator[tuple[Executor | None, int | None]]:
    """The executor that an option names: None, dask://HOST:PORT, slurm or slurm:NAME=VALUE,...

    Args:
      folder: for files of jobs.

    Yields:
      The executor, None for this process; and of how many tasks the work is to consist (None for a
      task a chunk).

    Raises:
      ValueError: another text, a package that is not installed, or nobody answers.
    """
    if text is None:
        yield None, None
        return
    try:
        opened = _dask(text) if text.startswith("dask://") else _slurm(text, folder)
    except (ImportError, OSError, RuntimeError, NameError, TypeError, ValueError) as error:
        raise ValueError(f"cannot use {text}: {error}") from None
    context, *how = opened
    with context:
        yield tuple(how)


def _dask(text: str) -> Any:
    from distributed import Client

    client = Client(text.replace("dask", "tcp", 1), timeout=30)
    return client, client.get_executor(pure=False), None


def _slurm(text: str, folder: Path) -> Any:
    kind, _, rest = text.partition(":")
    if kind != "slurm":
        raise ValueError("an executor is dask://HOST:PORT or slurm")
    options: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        name, _, value = pair.partition("=")
        options[name] = int(value) if value.isdecimal() else value
    jobs = options.pop("jobs", 16)
    # Else it closes all handlers of logs that are there, and their streams with them.
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")
    import submitit

    slurm = submitit.AutoExecutor(folder, cluster=options.pop("cluster", "slurm"))
    slurm.update_parameters(**options)
    executor = Slurm(slurm, jobs)
    return executor, executor, jobs


def computed(
    work: Work, chunks: Sequence[Chunk], executor: Executor | None, tasks: int | None
) -> Iterator[Computed]:
    """Compute chunks, in any order.

    Args:
      executor, tasks: see `executor_of`.

    Raises:
      ValueError: a chunk cannot be computed, or `ATTEMPTS` workers have died of it.
    """
    if executor is None:
        yield from map(work.compute, chunks)
        return
    compute = functools.partial(compute_elsewhere, work.sweep, code_of(work.sweep))
    share = math.ceil(len(chunks) / tasks) if tasks else 1
    shares = [chunks[i : i + share] for i in range(0, len(chunks), share)]
    running = {executor.submit(compute, some): (some, 1) for some in shares}
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            some, attempt = running.pop(future)
            try:
                yield from future.result()
            except ValueError:
                raise
            except Exception as error:
                if attempt == ATTEMPTS:
                    raise ValueError(
                        f"workers failed {attempt} times at chunk {some[0].number} of "
                        f"{some[0].group}, the last time with: {error}"
                    ) from error
                print(
                    f"a worker failed ({error!r}); its chunks are given out again", file=sys.stderr
                )
                running[executor.submit(compute, some)] = (some, attempt + 1)
