"""The speed of the kernels on this device, and the fraction of the device's limits they reach.

    python -m benchmarks.device [--seconds 240] [--out benchmarks/RESULTS.md]

First come bandwidth and matrix rate, the cost of a scan step, and SciPy on one core; then fits,
factorisations, memberships and runs of the active loop in both precisions, for a thousand to a
million problems. Each gets its part of the time and prints as it goes; what fails, or would take
too long, is reported and left out. A GPU begins with the most problems, a CPU with the fewest. The
results are appended to their file as one section. jax, numpy, scipy and the core of jbt suffice.

The fraction of the roofline is the time that the work would take at the measured rates, arithmetic
or traffic, whichever takes longer, over the time it took. Work is counted by hand (`COUNTED`), as
if no cache kept anything from one step to the next, so that few problems may exceed 1.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy loads it: SciPy is measured on one core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import dataclasses
import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import timing
from benchmarks.problems import (
    PRIOR,
    N,
    R,
    draw,
    draw_tasks,
    in_batches,
    newton_step_work,
    scipy_lbfgs,
    scipy_problems,
)
from benchmarks.roofline import Rates, measure_rates, scan_step
from jbt import runtime
from jbt.acquisition import Loop, run
from jbt.experiments import provenance
from jbt.kernel import cholesky, model
from jbt.kernel.batching import CPU_PROBLEMS, batch_last
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import gaussian
from jbt.kernel.membership import DRAWS, membership, sobol_normals
from jbt.simulation import memory, simulate
from jbt.types import Comparisons, Design, Parameters, Posterior

T = TypeVar("T")

P, K, BUDGET = N + 2, 5, 120
SIZES = (1_000, 10_000, 100_000, 1_000_000)
CHUNK = 100_000
"""Most problems a call, as a simulation has at most `simulate.MOST_PROBLEMS`; a larger size is
several calls of the same problems."""

COUNTED = {
    "fit": "a Newton step: P^3/3 + 2 P^2 + 20 N^2 operations, 2 N^2 + 4 P^2 numbers moved",
    "factorisation": "P^3/3 + 2 P^2 operations, 2 P^2 numbers moved",
    "membership": "S (4 M P + 2 M k) operations, 2 P^2 numbers moved",
    "run": "not counted",
}
"""The work of one problem."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function to measure in several sizes."""

    name: str
    dtype: str
    function: Callable[..., Any]
    """One problem -> its result."""
    arguments: Callable[[int], tuple[Any, ...]]
    """Count -> that many problems, [count, ...]."""
    note: Callable[[Any], str]
    """Results -> a note printed beside the time."""
    work: Callable[[Any], tuple[float, float]] | None = None
    """Results -> mean operations and numbers moved, as in `COUNTED`."""
    sizes: tuple[int, ...] = SIZES[:3]
    batch: int = CPU_PROBLEMS
    """Problems at a time on a CPU."""


COLUMNS = {
    "what": 13,
    "precision": 9,
    "problems": 9,
    "us each": 9,
    "problems/s": 11,
    "GFLOP/s": 9,
    "GB/s": 9,
    "of roofline": 11,
    "limit": 10,
    "compile": 8,
    "beside": 0,
}
"""Columns of the table and their widths on the screen."""


def kernels() -> list[Kernel]:
    """All kernels in both precisions."""
    return [
        make(dtype)
        for make in (fits, factorisations, memberships, runs)
        for dtype in ("float32", "float64")  # adjacent, so that both are measured in time
    ]


def fits(dtype: str) -> Kernel:
    """Bias-aware MAP of the default scenario, started at the win rates."""

    def fit(comparisons: Comparisons, design: Design) -> Any:
        result = fit_map(comparisons, design, PRIOR, model.variant("bias_aware", design))
        return result.parameters.flat(), result.status, result.steps

    def work(results: Any) -> tuple[float, float]:
        operations, numbers = newton_step_work(N, P)
        steps = float(results[2].mean())
        return steps * operations, steps * numbers

    def note(results: Any) -> str:
        _, status, steps = results
        failed = int((status != 0).sum())
        return f"{steps.mean():.1f} steps, most {steps.max()}; {failed} not converged"

    return Kernel("fit", dtype, fit, lambda count: draw(count, dtype), note, work, SIZES)


def factorise(matrix: jax.Array) -> jax.Array:
    """Factor one positive definite matrix [P, P] and solve for its first row, as a Newton step
    does: pools on the last axis, the transposition included."""
    solution, _ = batch_last(cholesky.solve)(matrix, matrix[0])
    return solution


def factorisations(dtype: str) -> Kernel:
    """Factorisation and solution of one system, as in a Newton step."""

    def matrices(count: int) -> tuple[jax.Array]:
        a = jax.random.normal(jax.random.key(1), (count, P, P), dtype)
        return (a + a.mT + 4 * P**0.5 * jnp.eye(P, dtype=dtype),)  # eigenvalues above 0

    def note(solutions: Any) -> str:
        return f"{int(jnp.isnan(solutions[:, 0]).sum())} failed"

    def work(_: Any) -> tuple[float, float]:
        return P**3 / 3 + 2 * P**2, 2 * P**2

    return Kernel("factorisation", dtype, factorise, matrices, note, work)


def memberships(dtype: str) -> Kernel:
    """Membership, of posteriors as wide as after a few hundred verdicts."""
    draws = DRAWS["conditional"]
    with runtime.precision(dtype):
        normals = sobol_normals(draws, P, dtype)

    def posterior_of(theta: jax.Array, biases: jax.Array, precision: jax.Array) -> Posterior:
        mean = Parameters(theta, biases[:1], biases[1])
        return gaussian(mean, precision, jnp.ones(P, bool))

    def posteriors(count: int) -> tuple[Posterior]:
        keys = jax.random.split(jax.random.key(2), 3)
        theta = jax.random.normal(keys[0], (count, N), dtype)
        a = 0.1 * jax.random.normal(keys[1], (count, P, P), dtype)
        precision = a + a.mT + 6 * jnp.eye(P, dtype=dtype)  # eigenvalues above 0
        biases = jax.random.normal(keys[2], (count, 2), dtype)
        return (jax.jit(jax.vmap(posterior_of))(theta, biases, precision),)

    def chances(posterior: Posterior) -> jax.Array:
        return membership(posterior, K, jnp.ones(N, bool), normals)

    def work(_: Any) -> tuple[float, float]:
        return draws * (4 * N * P + 2 * N * K), 2 * P**2

    return Kernel("membership", dtype, chances, posteriors, lambda _: f"S = {draws}", work)


def runs(dtype: str) -> Kernel:
    """Runs of the active loop with Eq. acq on a frozen judge."""
    loop = Loop("top_k_aware", K, R)

    def recall(key: Any, task: Any) -> Any:
        trace = run(key, task, loop, BUDGET)
        return trace.recall[-1], trace.status.max()

    def note(results: Any) -> str:
        recalls, status = results
        failed = int((status != 0).sum())
        return f"B = {BUDGET}, R = {R}; recall {recalls.mean():.3f}; {failed} not converged"

    return Kernel("run", dtype, recall, lambda n: draw_tasks(n, N), note, batch=32)


class Bench:
    """A kernel with its problems and its compiled programs."""

    def __init__(self, kernel: Kernel, rates: Rates | None) -> None:
        self.kernel, self.rates = kernel, rates
        self.pace = 0.0
        """Seconds a problem, when last measured."""
        self._arguments: Any = None
        self._programs: dict[int, Any] = {}

    def row(self, count: int, seconds: float) -> list[str]:
        """A row of the table, measured in about this time (compiling not counted)."""
        size = min(count, CHUNK)
        with runtime.precision(self.kernel.dtype):
            arguments = self._problems(size)
            if size not in self._programs:
                f = in_batches(self.kernel.function, self.kernel.batch)
                self._programs[size] = timing.compile_for(f, *arguments)
            compiling, program = self._programs[size]
            check_memory(program)
            results = jax.block_until_ready(program(*arguments))

            def calls() -> Any:
                for _ in range(count // size):
                    out = program(*arguments)
                return out

            self.pace = timing.fastest(calls, 5, seconds / 2) / count
            return cells(self.kernel, count, self.pace, compiling, results, self.rates)

    def _problems(self, count: int) -> Any:
        if self._arguments is None or len(jax.tree.leaves(self._arguments)[0]) < count:
            self._arguments = self.kernel.arguments(count)
        return jax.tree.map(lambda v: v[:count], self._arguments)


def measure(
    benches: Sequence[Bench],
    sizes: Sequence[int],
    seconds: float,
    say: Callable[[str], None] = print,
) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Measure all kernels in one size, then in the next, each with an equal part of the time left
    for that size.

    Yields:
      The numbers of kernel and size, and the row of the table. `say` is called with what is left
      out or fails.
    """
    end = time.perf_counter() + seconds
    for round, count in enumerate(sizes):
        waiting = [b for b in benches if count in b.kernel.sizes]
        for number, bench in enumerate(waiting):
            name = f"{bench.kernel.name}, {bench.kernel.dtype}, {count:,}"
            part = (end - time.perf_counter()) / (len(waiting) - number)
            needed = 2 * bench.pace * count
            if part <= needed:
                why = f"would take {needed:.2g} s, has {part:.2g} s" if part > 0 else "no time left"
                say(f"{name}: left out, {why}")
            elif row := attempt(name, lambda b=bench, c=count, p=part: b.row(c, p), say):
                yield (benches.index(bench), round), row


def check_memory(program: jax.stages.Compiled) -> None:
    """Raise `MemoryError` before the system ends this process."""
    needed, available = memory.needed(program), memory.there_is(jax.devices()[0])
    if available is not None and needed > simulate.SHARE * available:
        raise MemoryError(f"{needed / 1e9:.3g} GB needed, {available / 1e9:.3g} GB available")


def cells(
    kernel: Kernel, count: int, pace: float, compiling: float, results: Any, rates: Rates | None
) -> list[str]:
    """A row of the table; `pace` is seconds a problem."""
    rate = ["-"] * 4
    if kernel.work is not None:
        operations, numbers = kernel.work(results)
        traffic = numbers * np.dtype(kernel.dtype).itemsize
        rate[:2] = f"{operations / pace / 1e9:,.1f}", f"{traffic / pace / 1e9:,.1f}"
        if rates is not None:
            least, limit = rates.roofline(operations, traffic)
            rate[2:] = f"{least / pace:.1%}", limit
    return [
        kernel.name,
        kernel.dtype,
        f"{count:,}",
        f"{pace * 1e6:.4g}",
        f"{1 / pace:,.0f}",
        *rate,
        f"{compiling:.1f} s",
        kernel.note(results),
    ]


def attempt(name: str, f: Callable[[], T], say: Callable[[str], None] = print) -> T | None:
    """What f returns; None if it fails, and the failure is reported."""
    try:
        return f()
    except Exception as error:
        lines = str(error).splitlines() or [""]
        say(f"{name}: failed: {type(error).__name__}: {lines[0][:200]}")
        return None


def section(facts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The measurements as a section of the results' file."""
    table = [list(COLUMNS), ["---"] * len(COLUMNS), *rows]
    counted = [f"- counted of {name}: {what}" for name, what in COUNTED.items()]
    return "\n".join(
        [
            f"\n## {jax.devices()[0].device_kind}, {datetime.date.today()}\n",
            *(f"- {fact}" for fact in facts),
            *counted,
            "",
            *(f"| {' | '.join(row)} |" for row in table),
            "",
        ]
    )


TITLE = """# Measured by `python -m benchmarks.device`

A section a run; docs/benchmarks.md says how to read it.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=240.0, help="time to spend, about")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("RESULTS.md"))
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    facts: list[str] = []

    def say(fact: str) -> None:
        facts.append(fact)
        print(fact, flush=True)

    for line in timing.header("", ("jax", "jaxlib", "numpy", "scipy")).splitlines()[1:]:
        say(line)
    say(f"XLA_FLAGS: {os.environ.get('XLA_FLAGS') or 'none'}")
    say(f"revision {provenance.git_revision()}; N = M = {N}, P = {P}, k = {K}")
    rates = {
        dtype: attempt(f"rates, {dtype}", lambda d=dtype: measure_rates(d), say)
        for dtype in ("float32", "float64")
    }
    for dtype, rate in rates.items():
        if rate is not None:
            say(
                f"{dtype}: {rate.bandwidth / 1e9:,.1f} GB/s (a + 3 b), "
                f"{rate.arithmetic / 1e9:,.1f} GFLOP/s (matrix product)"
            )
    if (step := attempt("scan", scan_step, say)) is not None:
        say(f"a step of lax.scan: {step * 1e6:.2f} us")
    one_core = attempt("SciPy", lambda: timing.time_each(scipy_lbfgs, scipy_problems(100))[0], say)
    if one_core is not None:
        say(f"SciPy L-BFGS-B, one core, float64: {one_core * 1e6:,.0f} us a fit")
    for name, what in COUNTED.items():
        print(f"counted of {name}: {what}")

    def show(row: Sequence[str]) -> None:
        print("  ".join(v.rjust(w) for v, w in zip(row, COLUMNS.values(), strict=True)), flush=True)

    print()
    show(list(COLUMNS))
    sizes = SIZES if jax.default_backend() == "cpu" else SIZES[::-1]
    rows = {}
    benches = [Bench(kernel, rates[kernel.dtype]) for kernel in kernels()]
    for place, row in measure(benches, sizes, end - time.perf_counter(), say):
        rows[place] = row
        show(row)
    if not rows:
        raise SystemExit("nothing could be measured")
    before = options.out.read_text() if options.out.exists() else TITLE
    options.out.write_text(before + section(facts, [rows[place] for place in sorted(rows)]))
    print(f"\nappended to {options.out}")


if __name__ == "__main__":
    main()
