"""Milliseconds a run of the active loop: jbt against NumPy and SciPy, part by part, and in N.

    python -m benchmarks.acquisition

One core. A run is Eq. acq on a frozen judge (bias 1.5, position 0.35, binary covariate, sd 1.25),
R = 8, k = N / 6. The recalls beside the times show that both loops do the same work, except for the
membership: NumPy counts 1,500 draws, new at each refit; jbt averages chances given 64 draws from
one table (the last row: new at each refit). The error of each membership is printed with its time.
"""

from __future__ import annotations

from benchmarks import timing

if __name__ == "__main__":
    timing.use_one_core()

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.numpy_loop import numpy_loop
from benchmarks.problems import LAM, LAM_B, R, draw_tasks, in_batches
from jbt import runtime
from jbt.acquisition import Loop, State, Task, init, run, step
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.kernel.membership import (
    DRAWS,
    antithetic_normals,
    counted,
    kth_largest,
    membership,
    sobol_normals,
)
from jbt.simulation import judges
from jbt.types import Posterior

BATCH = 32
"""Runs in one vmapped loop."""


def against_numpy(budgets: tuple[int, ...] = (120, 600), count: int = 512, one_by_one: int = 40):
    packages = ("jax", "jaxlib", "numpy", "scipy")
    print(timing.header("Active loop: 30 items, D = 1, R = 8, k = 5", packages))
    line = "{:12s} {:>7s} {:>7s} {:>10s} {:>9s}  {}"
    print("\n" + line.format("loop", "B", "runs", "ms a run", "x NumPy", "recall; compile"))
    settings = Loop("top_k_aware", 5, R)
    for budget in budgets:
        keys, tasks = draw_tasks(count, 30)
        host = jax.device_get(tasks)
        runs = max(4, one_by_one * 120 // budget)
        inputs = [
            (host.answers[i], host.quality[i], host.design.covariates[i, :, 0].astype(float), i)
            for i in range(runs)
        ]
        options = {
            "k": 5,
            "refit_every": R,
            "n_samples": DRAWS["counted"],
            "lam": LAM,
            "lam_b": LAM_B,
        }
        slow, recalls = timing.time_each(
            lambda a, b=budget, o=options: numpy_loop(a[0], a[1], a[2], b, **o, seed=a[3]), inputs
        )
        report = f"{np.mean(recalls):.3f} +- {np.std(recalls) / len(recalls) ** 0.5:.3f}"
        row = ("NumPy, SciPy", str(budget), str(runs), f"{slow * 1e3:.2f}", "1", report)
        print(line.format(*row), flush=True)

        for name, fresh in (("jbt", False), ("jbt, anew", True)):
            loop = dataclasses.replace(settings, fresh_normals=fresh)

            def jbt(key: Any, task: Task, budget: int = budget, loop: Loop = loop) -> Any:
                return run(key, task, loop, budget).recall[-1]

            compiling, seconds, recall = timing.compile_and_time(
                in_batches(jbt, BATCH), keys, tasks, repeats=3
            )
            fast = seconds / count
            report = f"{recall.mean():.3f} +- {recall.std() / count**0.5:.3f}; {compiling:.0f} s"
            row = (name, str(budget), str(count), f"{fast * 1e3:.2f}", f"{slow / fast:.1f}", report)
            print(line.format(*row), flush=True)


def states_before(task_count: int, n: int, settings: Loop, blocks: int) -> tuple[Any, Any, Any]:
    """Tasks, states after some blocks, and after one more."""
    keys, tasks = draw_tasks(task_count, n)

    def advance(state: State, task: Task) -> State:
        return step(state, task, settings)[0]

    start = jax.jit(jax.vmap(lambda key, task: init(key, task, settings)))
    forward = jax.jit(jax.vmap(advance))
    states = start(keys, tasks)
    for _ in range(blocks):
        states = forward(states, tasks)
    return tasks, states, forward(states, tasks)


def breakdown(n: int, count: int, batch: int, blocks: int = 8) -> None:
    """Microseconds of each part of a block, and of the block as a whole."""
    k = max(1, n // 6)
    settings = Loop("top_k_aware", k, R)
    tasks, states, after = states_before(count, n, settings, blocks)

    def timed(f: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        _, seconds, result = timing.compile_and_time(in_batches(f, batch), *arguments, repeats=5)
        return seconds / count * 1e6, result

    def refit(task: Task, before: State, comparisons: Any) -> Any:
        result = fit_map(
            comparisons, task.design, task.prior, task.variant, start=before.parameters
        )
        return result.parameters, result.status, result.steps

    def posterior_of(task: Task, s: State) -> Any:
        return laplace(s.parameters, s.comparisons, task.design, task.prior, task.variant)

    draws = DRAWS["conditional"]
    normals = sobol_normals(draws, n + 2, "float32")
    fitting, (_, _, steps) = timed(refit, tasks, states, after.comparisons)
    laplacing, posteriors = timed(posterior_of, tasks, states)
    covariances, _ = timed(lambda p: p.covariance(), posteriors)
    counting, _ = timed(lambda p: membership(p, k, jnp.ones(n, bool), normals), posteriors)

    # The time of a block is the slope in the number of blocks: a block alone would also pass its
    # state in and out.
    keys = draw_tasks(count, n)[0]
    short, long = (
        timed(lambda key, t, b=b: run(key, t, settings, b * R).recall[-1], keys, tasks)[0]
        for b in (blocks, 2 * blocks)
    )
    whole = (long - short) / blocks
    print(f"\nN = {n}, k = {k}: a block of {R} verdicts, {whole:.0f} us, of which")
    parts = [
        (f"refit ({np.mean(steps):.1f} Newton steps, warm)", fitting),
        ("Hessian, Cholesky, inverse factor", laplacing),
        ("covariance", covariances),
        (f"membership ({draws} draws, {counting / draws * 1e3:.0f} ns each)", counting),
    ]
    for name, microseconds in parts:
        print(f"  {name:48s} {microseconds:10.1f} us  {microseconds / whole:5.0%}")
    rest = whole - sum(t for _, t in parts)
    print(f"  {'the rest: scores, picks, verdicts, counts, recall':48s} {rest:10.1f} us")


def posteriors_of_runs(n: int, count: int, after: tuple[int, ...]) -> Posterior:
    """Posteriors [runs, ...] of `count` runs after each number of verdicts in `after`."""
    settings = Loop("top_k_aware", max(1, n // 6), R)
    keys, tasks = draw_tasks(count, n)
    states = jax.jit(jax.vmap(lambda key, task: init(key, task, settings)))(keys, tasks)
    forward = jax.jit(jax.vmap(lambda state, task: step(state, task, settings)[0]))

    @jax.jit
    @jax.vmap
    def posterior_of(task: Task, s: State) -> Posterior:
        return laplace(s.parameters, s.comparisons, task.design, task.prior, task.variant)

    posteriors = []
    for asked in range(0, max(after) + 1, R):
        if asked in after:
            posteriors.append(posterior_of(tasks, states))
        states = forward(states, tasks)
    return jax.tree.map(lambda *v: jnp.concatenate(v), *posteriors)


def errors(n: int = 30, count: int = 64) -> None:
    """Print the membership's time and its rms error over items and posteriors, against 16,384 draws
    of the better estimate."""
    after = (8, 16, 32, 64, 120, 240, 480)
    posteriors = posteriors_of_runs(n, count, after)
    k, total, p = n // 6, count * len(after), n + 2
    mask = jnp.ones(n, bool)
    # Every run arranges the table in its own way.
    rng = np.random.default_rng(1)
    shuffles = jnp.asarray(rng.permuted(np.tile(np.arange(p), (total, 1)), axis=1))
    signs = jnp.asarray(rng.choice([-1, 1], (total, p)), "float32")

    def with_table(estimate: Callable[..., Any], table: Callable[..., Any], draws: int, seed: int):
        normals = table(draws, p, "float32", seed=seed)

        def one(posterior: Posterior, shuffle: Any, sign: Any) -> Any:
            def arrange(rows: Any) -> Any:
                return rows[shuffle] * sign[:, None]

            return estimate(posterior, k, mask, normals, arrange)

        _, seconds, result = timing.compile_and_time(
            in_batches(one, 64), posteriors, shuffles, signs, repeats=5
        )
        return seconds / total, np.asarray(result)

    exact = with_table(membership, sobol_normals, 2**14, 1)[1]
    print(f"\nMembership of {n} items, k = {k}: {total} posteriors after {after[0]} to {after[-1]}")
    print(f"{'estimate':12s} {'S':>5s} {'us':>8s} {'ns a draw':>10s} {'rms error':>10s}")
    for name, estimate, table, draws in (
        ("conditional", membership, sobol_normals, DRAWS["conditional"]),
        ("conditional", membership, sobol_normals, 2 * DRAWS["conditional"]),
        ("counted", counted, antithetic_normals, DRAWS["counted"]),
    ):
        seconds, chances = with_table(estimate, table, draws, 0)
        error = np.sqrt(((chances - exact) ** 2).mean())
        row = f"{name:12s} {draws:5d} {seconds * 1e6:8.1f} {seconds / draws * 1e9:10.0f}"
        print(f"{row} {error:10.4f}", flush=True)


def selection() -> None:
    """Time the k-th largest of each column alone, on draws from posteriors of runs."""
    draws = DRAWS["conditional"]
    print(f"\nThe k-th largest alone, {draws} draws of each posterior\n    N    k  ns a draw")
    for n, count in ((30, 128), (100, 32), (300, 8)):
        posteriors = posteriors_of_runs(n, count, (8 * R,))
        z = sobol_normals(draws, n + 2, "float32")[0]
        values = jax.vmap(lambda p, z=z, n=n: p.mean.theta[:, None] + p.root[:, :n].T @ z)(
            posteriors
        )
        find = jax.vmap(lambda v, k=n // 6: kth_largest(v, k))
        _, seconds, _ = timing.compile_and_time(find, values, repeats=20)
        print(f"{n:5d} {n // 6:4d} {seconds / count / draws * 1e9:10.0f}", flush=True)


def scale() -> None:
    """Print time and memory of whole runs as the pool grows."""
    print("\nB = 120 runs, memory beside the inputs as XLA plans it")
    print(f"{'N':>5s} {'k':>4s} {'batch':>6s} {'ms a run':>10s} {'MB a run':>9s} {'compile':>8s}")
    for n, count, batch in ((30, 512, BATCH), (100, 32, 8), (300, 4, 2)):
        settings = Loop("top_k_aware", max(1, n // 6), R)
        keys, tasks = draw_tasks(count, n)
        f = jax.jit(in_batches(lambda key, t, s=settings: run(key, t, s, 120).recall[-1], batch))
        begin = time.perf_counter()
        compiled = f.lower(keys, tasks).compile()
        compiling = time.perf_counter() - begin
        jax.block_until_ready(compiled(keys, tasks))
        begin = time.perf_counter()
        jax.block_until_ready(compiled(keys, tasks))
        seconds = (time.perf_counter() - begin) / count
        planned = compiled.memory_analysis()
        megabytes = float("nan") if planned is None else planned.temp_size_in_bytes / batch / 1e6
        k = settings.k
        row = f"{n:5d} {k:4d} {batch:6d} {seconds * 1e3:10.2f} {megabytes:9.2f}"
        print(f"{row} {compiling:6.0f} s", flush=True)


def large(n: int = 1000) -> None:
    """Time one fit of all ordered pairs and one membership, where a loop would take minutes."""
    tasks = draw_tasks(1, n)[1]
    task = jax.tree.map(lambda v: v[0], tasks)
    shown = 1 - jnp.eye(n)
    comparisons = judges.reveal(task.answers > 0.5, shown)

    def fit(c: Any) -> Any:
        return fit_map(c, task.design, task.prior, task.variant)

    _, fitting, result = timing.compile_and_time(fit, comparisons, repeats=2)
    _, laplacing, posterior = timing.compile_and_time(
        lambda c, p: laplace(p, c, task.design, task.prior, task.variant),
        comparisons,
        result.parameters,
        repeats=2,
    )
    normals = sobol_normals(DRAWS["conditional"], n + 2, "float32")
    k = n // 10
    _, counting, p = timing.compile_and_time(
        lambda q: membership(q, k, jnp.ones(n, bool), normals), posterior, repeats=2
    )
    print(f"\nN = {n}, {n * (n - 1):,} verdicts, k = {k}, one pool")
    print(f"  fit {fitting:.2f} s ({int(result.steps)} steps, status {int(result.status)})")
    print(f"  posterior {laplacing:.2f} s, membership {counting:.2f} s (sums to {p.sum():.2f})")


if __name__ == "__main__":
    with runtime.precision("float32"):
        against_numpy()
        breakdown(30, 512, BATCH)
        errors()
        selection()
        scale()
        breakdown(100, 32, 8)
        breakdown(300, 4, 2, blocks=4)
        large()
