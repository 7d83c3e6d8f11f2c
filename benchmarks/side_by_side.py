"""Compare the speed of another revision of jbt with this one, in turn, on one core.

    python -m benchmarks.side_by_side REVISION [ROUNDS]

Each round measures both revisions, one after the other, each in a process of its own: the
bias-aware fit of the default scenario in both precisions, the crossing experiment (a pool under one
of 19 correlations: verdicts, two fits, recall), and runs of the active loop (Eq. acq, 120 verdicts,
R = 8) with each revision's own defaults; then SciPy's L-BFGS and a NumPy loop. It prints medians
and ranges over the rounds, also of the ratios within a round: machines drift, ratios less.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
FITS, POOLS, RUNS = 4096, 96, 512


def measure() -> dict[str, float]:
    """Microseconds a problem with the imported jbt, and the largest error of a float32 fit in
    posterior standard deviations."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from jbt import estimators, runtime
    from jbt.acquisition import Loop, Task, run
    from jbt.kernel import laplace, metrics, model
    from jbt.simulation import judges, pools
    from jbt.simulation.simulate import stream
    from jbt.types import Comparisons, Judge, Prior

    n, prior = 30, Prior(1.0, 0.1)
    shown = 1 - np.eye(n)

    def timed(f: Callable[..., Any], count: int, *arguments: Any) -> tuple[float, Any]:
        compiled = jax.jit(f).lower(*arguments).compile()
        jax.block_until_ready(compiled(*arguments))
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            out = jax.block_until_ready(compiled(*arguments))
            best = min(best, time.perf_counter() - begin)
        return best / count * 1e6, out

    def drawn(key: Any, rho: Any) -> tuple[Any, Any]:
        pool = pools.gaussian(stream(key, "pool"), n, sd=1.2, rho=rho)
        judge = Judge(jnp.ones(1), 0.0)
        return pool, judges.frozen_draw(stream(key, "verdicts"), pool, judge)

    def crossing(i: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0), i)

        def recalls(rho: Any) -> Any:
            pool, oracle = drawn(key, rho)
            comparisons = judges.reveal(oracle, jnp.asarray(shown, jnp.float32))
            out = []
            for estimator in (estimators.naive, estimators.bias_aware):
                fit = estimator(comparisons, pool.design, prior)
                theta = fit.parameters.theta
                out += [metrics.top_k_recall(theta, pool.quality, 5), fit.status]
                out += [metrics.pairwise_agreement(theta, pool.quality)]
            return out

        return jax.vmap(recalls)(0.05 * jnp.arange(19))

    def active_run(i: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0), i)
        pool, oracle = drawn(key, jnp.asarray(0.0))
        trace = run(stream(key, "run"), Task.build(pool, oracle), Loop("top_k_aware"), 120)
        return trace.recall[-1], trace.status

    results: dict[str, float] = {}
    fitted = {}
    with runtime.precision("float32"):
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(FITS))
        same = jax.device_get(jax.jit(jax.vmap(lambda key: drawn(key, jnp.asarray(0.3))))(keys))
    for dtype in ("float32", "float64"):
        with runtime.precision(dtype):
            pool, oracle = jax.tree.map(
                lambda v, to=dtype: jnp.asarray(v, to if v.dtype == np.float32 else v.dtype), same
            )
            every = jnp.asarray(shown, dtype)

            def fit(wins: Any, design: Any, every: Any = every) -> Any:
                comparisons = Comparisons(every, every * wins)
                mode = estimators.bias_aware(comparisons, design, prior).parameters
                return mode.flat(), mode

            def spread(wins: Any, design: Any, mode: Any, every: Any = every) -> Any:
                variant = model.variant("bias_aware", design)
                comparisons = Comparisons(every, every * wins)
                at = laplace.laplace(mode, comparisons, design, prior, variant)
                return jnp.sqrt(jnp.diag(at.covariance()))

            batches = lambda f: lambda *a: jax.lax.map(lambda x: f(*x), a, batch_size=128)  # noqa: E731
            name = f"fit, {dtype}"
            only = batches(lambda w, d: fit(w, d)[0])
            results[name], fitted[dtype] = timed(only, FITS, oracle, pool.design)
            if dtype == "float64":
                mode = jax.jit(batches(fit))(oracle, pool.design)[1]
                sd = jax.jit(batches(spread))(oracle, pool.design, mode)
    error = np.abs(np.asarray(fitted["float32"], float) - np.asarray(fitted["float64"]))
    results["error"] = float((error / np.asarray(sd)).max())
    with runtime.precision("float32"):
        results["crossing experiment"], _ = timed(
            lambda ids: jax.lax.map(crossing, ids, batch_size=6), 19 * POOLS, jnp.arange(POOLS)
        )
        results["active run"], _ = timed(
            lambda ids: jax.lax.map(active_run, ids, batch_size=128), RUNS, jnp.arange(RUNS)
        )
    return results


def others() -> dict[str, float]:
    """Microseconds of SciPy's fit and of a run of the NumPy loop."""
    import jax
    import numpy as np

    from benchmarks import problems, timing
    from benchmarks.numpy_loop import numpy_loop

    comparisons, design = problems.draw(100, "float32")
    columns = (comparisons.shown, comparisons.wins, design.covariates)
    arrays = list(zip(*(np.asarray(v, float) for v in columns), strict=True))
    seconds, _ = timing.time_each(problems.scipy_lbfgs, arrays)
    results = {"SciPy L-BFGS": seconds * 1e6}
    host = jax.device_get(problems.draw_tasks(20, 30)[1])

    def loop(i: int) -> float:
        return numpy_loop(
            host.answers[i],
            host.quality[i],
            host.design.covariates[i, :, 0].astype(float),
            budget=120,
            k=5,
            refit_every=problems.R,
            n_samples=1500,
            lam=problems.LAM,
            lam_b=problems.LAM_B,
            seed=i,
        )

    results["NumPy loop"] = timing.time_each(loop, list(range(20)))[0] * 1e6
    return results


@contextlib.contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A temporary folder with another revision of this repository."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "jbt"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(root), revision], check=True)
        try:
            yield root
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


def in_process(root: Path, what: str) -> dict[str, float]:
    """Run a function of this file with the jbt of a folder."""
    run = [sys.executable, __file__, what]
    paths = os.pathsep.join([str(root), str(HERE)])  # this revision's benchmarks for both
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(run, env=environment, cwd=root, check=True, capture_output=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(revision: str, rounds: int) -> None:
    import numpy as np

    from benchmarks import timing

    print(timing.header(f"{revision} against this checkout", ("jax", "numpy", "scipy")))
    old, new, beside = [], [], []
    with checkout(revision) as root:
        for number in range(rounds):
            old.append(in_process(root, "measure"))
            new.append(in_process(HERE, "measure"))
            beside.append(in_process(HERE, "others"))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)

    def row(name: str, a: list[float], b: list[float]) -> str:
        def shown(values: Any, digits: int) -> str:
            low, middle, high = (round(float(v), digits) for v in np.quantile(values, (0, 0.5, 1)))
            return f"{middle:g} ({low:g} to {high:g})"

        ratios = np.array(a) / np.array(b)
        return f"{name:36s} {shown(a, 1):>28s} {shown(b, 1):>28s} {shown(ratios, 2):>24s}"

    print(f"\n{'us a problem: median (range)':36s} {revision:>28s} {'here':>28s} {'ratio':>24s}")
    for name in new[0]:
        if name != "error":
            print(row(name, [r[name] for r in old], [r[name] for r in new]))
    for name, ours in (("SciPy L-BFGS", "fit, float32"), ("NumPy loop", "active run")):
        print(row(f"{name} | {ours}", [r[name] for r in beside], [r[ours] for r in new]))
    error = [max(r["error"] for r in results) for results in (old, new)]
    print(f"largest error of a float32 fit, posterior sd: {error[0]:.1e}, here {error[1]:.1e}")


if __name__ == "__main__":
    if sys.argv[1] in ("measure", "others"):
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(globals()[sys.argv[1]]()))
    else:
        compare(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
