"""What is measured of jbt. With `--old` another checkout's jbt is imported here.

Each function prepares `count` problems and returns a function that solves them; its answers are an
array with a row a problem, NaN where jbt reports that it failed.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import problems
from benchmarks.speed.peers import Run
from benchmarks.speed.problems import BUDGET, LAM, LAM_B, REFIT, K, N
from jbt import acquisition, estimators, runtime
from jbt.acquisition import Loop, Task
from jbt.acquisition.loop import look
from jbt.kernel import cholesky, metrics, model
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pairs
from jbt.simulation.pools import gaussian
from jbt.simulation.simulate import Simulation, stream
from jbt.types import Comparisons, Design, Judge, Pool, Prior

PRIOR = Prior(LAM, LAM_B)
MOST_ON_CPU = 20_000
"""Problems; more are for a GPU."""


def on_device(f: Callable[..., Any], *arrays: Any, dtype: str) -> Run:
    """A compiled function with its arguments on the device; floats and truth values of these
    become `dtype`, integers stay."""
    with runtime.precision(dtype):
        given = [jnp.asarray(v, None if v.dtype.kind == "i" else dtype) for v in arrays]
        program = jax.jit(f).lower(*given).compile()
    return lambda: jax.block_until_ready(program(*given))


def batched(f: Callable[..., Any], *arrays: Any, dtype: str, batch: int = CPU_PROBLEMS) -> Run:
    """A function of one problem for all of them: `batch` at a time on a CPU, elsewhere at once.

    Args:
      f: one problem -> its answers.
      arrays: [count, ...] the problems.

    Raises:
      ValueError: more problems than a CPU can solve in acceptable time.
    """
    count, on_cpu = len(arrays[0]), jax.default_backend() == "cpu"
    if on_cpu and count > MOST_ON_CPU:
        raise ValueError("left out on a CPU")
    size = min(count, batch) if on_cpu else count
    return on_device(
        lambda *a: jax.lax.map(lambda one: f(*one), a, batch_size=size), *arrays, dtype=dtype
    )


def design_of(x: Any) -> Design:
    """The design of items with one covariate [N], or several [N, D], also of traced values."""
    return Design(x.reshape(len(x), -1), None, jnp.ones(len(x), bool), len(x))


def key_of(number: Any) -> Any:
    """The key of a run."""
    return jax.random.fold_in(jax.random.key(0), number)


def or_nan(values: Any, status: Any) -> Any:
    """The values of a fit, NaN unless it has converged."""
    return jnp.where(status == 0, values, jnp.nan)


# --- a fit


def fit(
    count: int,
    n: int = N,
    *,
    dtype: str = "float32",
    naive: bool = False,
    lam: float = LAM,
    solver: str = "newton",
    covariates: int = 1,
    unrolled: int = cholesky.UNROLLED,
    **drawn: Any,
) -> Run:
    """MAP of pools: theta, c and kappa; if `naive`, theta alone.

    Args:
      lam: prior precision of quality.
      solver: newton, or lbfgs (jaxopt's).
      covariates: D; those beyond the first are noise.
      unrolled: most parameters whose factorisation is no library's.
      drawn: further arguments of `problems.pools`.
    """
    cholesky.UNROLLED = unrolled
    pools, prior = problems.pools(count, n, **drawn), Prior(lam, LAM_B)
    noise = np.random.default_rng(1).normal(size=(count, n, covariates - 1))
    columns = np.concatenate([pools.x[..., None], noise], -1)

    def one(wins: Any, x: Any) -> Any:
        design, shown = design_of(x), 1 - jnp.eye(n, dtype=x.dtype)
        variant = model.variant("naive" if naive else "bias_aware", design)
        result = fit_map(Comparisons(shown, wins), design, prior, variant, solver=solver)
        beta = result.parameters.theta if naive else result.parameters.flat()
        return or_nan(beta, result.status)

    return batched(one, pools.wins, columns, dtype=dtype)


# --- the crossing experiment and the active loop


def crossing(count: int, chunk: int | None = None) -> Run:
    """The crossing experiment, in pools under each of 19 correlations: the gain in recall by the
    bias-aware fit over the naive one."""
    rho = 0.05 * np.arange(19)

    def experiment(key: Any, condition: Any) -> dict[str, Any]:
        pool = gaussian(stream(key, "pool"), N, rho=condition["rho"])
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, Judge(jnp.ones(1), 0.0))
        comparisons, recalls = judges.reveal(oracle, pairs.every_pair(pool)), []
        for estimator in (estimators.bias_aware, estimators.naive):
            result = estimator(comparisons, pool.design, PRIOR)
            recall = metrics.top_k_recall(result.parameters.theta, pool.quality, K)
            recalls.append(or_nan(recall, result.status))
        return {"gain": recalls[0] - recalls[1]}

    simulation = Simulation(experiment, {"rho": rho}, range(count // len(rho)), chunk=chunk)
    return lambda: np.concatenate([out["gain"] for _, out in simulation.chunks()]).ravel()


def active(
    count: int,
    n: int = N,
    *,
    budget: int = BUDGET,
    dtype: str = "float32",
    rule: str = "top_k_aware",
    **options: Any,
) -> Run:
    """Active runs on a frozen judge, by Eq. acq unless another rule is named: recall of the top k.
    `options` are a `Loop`'s."""
    loop = Loop(rule, K, REFIT, **options)

    def one(quality: Any, x: Any, wins: Any, number: Any) -> Any:
        task = Task.build(Pool(quality, design_of(x)), wins, prior=PRIOR)
        trace = acquisition.run(key_of(number), task, loop, budget)
        return or_nan(trace.recall[-1], trace.status.max())

    tasks = problems.tasks(count, n)
    batch = max(2, 32 * N // n)
    return batched(one, *tasks, np.arange(count), dtype=dtype, batch=batch)


def refit(count: int, dtype: str = "float32", **options: Any) -> Run:
    """A fit and the top-k memberships of its posterior, as the active loop makes them: of pools
    with 8 to 480 verdicts, drawn at random. `options` are a `Loop`'s."""
    loop = Loop("top_k_aware", K, REFIT, **options)
    shares = np.geomspace(8, 480, count)[:, None, None] / (N * (N - 1))
    shown = np.random.default_rng(1).random((count, N, N)) < shares

    def one(quality: Any, x: Any, wins: Any, shown: Any, number: Any) -> Any:
        task = Task.build(Pool(quality, design_of(x)), wins, prior=PRIOR)
        start = acquisition.init(key_of(number), task, loop)
        shown = shown * (1 - jnp.eye(N, dtype=x.dtype))
        verdicts = Comparisons(shown, shown * wins)
        mode = estimators.bias_aware(verdicts, task.design, PRIOR).parameters
        state = dataclasses.replace(start, comparisons=verdicts, parameters=mode)
        view: Any = look(state, task, loop)
        return view.membership

    return batched(one, *problems.tasks(count), shown, np.arange(count), dtype=dtype, batch=64)


# --- a leaderboard


def leaderboard(rows: int, lam: float = LAM, lam_b: float = LAM_B, robust: bool = False) -> Run:
    """theta and c of a leaderboard; if `robust`, the time is that of a fit and its jackknife over
    prompts."""
    from jbt.kernel.listed import Listed
    from jbt.stats.row_jackknife import Groups, jackknife

    data, models = problems.leaderboard(rows), problems.MODELS
    first, second = (data[side].astype(np.intp) for side in ("first", "second"))
    columns = np.asfortranarray(data["difference"])
    precision = np.repeat([float(lam), float(lam_b)], [models, columns.shape[1]])
    free = np.ones(len(precision), bool)
    given = Listed(models, first, second, columns, np.ones(rows), data["won"].astype(float))

    def run() -> Any:
        verdicts = dataclasses.replace(given)  # without what was kept
        top = verdicts.top(free, precision)
        if robust:
            inverse = verdicts.inverse_hessian(top.beta, precision, free)
            jackknife(inverse, top.beta, verdicts, Groups.of(verdicts, data["prompt"]))
        return np.where(top.status == 0, top.beta, np.nan)[None]

    return run


# --- a user's own verdicts


def study(verdicts: int, n: int, batch: int = 1) -> Run:
    """A live study, refitted after each answer: `verdicts` asked for, `batch` at a time, and
    told."""
    import pandas as pd

    from jbt import own

    rng, folder = np.random.default_rng(0), tempfile.mkdtemp()
    items = pd.DataFrame({"item": [f"m{i}" for i in range(n)], "words": rng.integers(20, 400, n)})
    live = own.Study.open(
        folder, items, k=K, covariates=["words"], budget=10**6, repeats="fresh", level=1.0
    )

    def run() -> None:
        for _ in range(verdicts // batch):
            for query in live.ask(batch):
                live.tell(query.id, "first" if rng.random() < 0.5 else "second")

    return run


def command(words: str, kept: bool = False, prompts: int = 12) -> Run:
    """A command or sweep in a process of its own.

    Args:
      words: of the command; TABLES stands for the options for the tables of `jbt example`, NEW for
        an empty folder.
      kept: whether compiled programs are kept from a first run, with all tables.
      prompts: how many of the tables' prompts are kept.
    """
    import pandas as pd

    folder = Path(tempfile.mkdtemp())
    files = {name: folder / f"{name}.csv" for name in ("verdicts", "items", "anchors")}
    tables = " ".join(f"--{name} {file}" for name, file in files.items())
    tables += " --covariates words --transform log"

    def run() -> None:
        cache = folder / "programs" if kept else tempfile.mkdtemp()
        given = words.replace("TABLES", tables).replace("NEW", tempfile.mkdtemp()).split()
        environment = os.environ | {"JBT_CACHE": str(cache)}
        subprocess.run([sys.executable, "-m", *given], env=environment, check=True)

    subprocess.run([sys.executable, "-m", "jbt", "example", str(folder)], check=True)
    if kept:
        run()
    for file in files.values():
        table = pd.read_csv(file)
        table[table["pool"] <= f"q{prompts}"].to_csv(file, index=False)
    return run


# --- compiling


def programs(name: str, preset: str) -> Run:
    """Every program of a sweep's preset, traced and compiled."""
    from jbt.experiments.work import Work
    from sweeps.report.runs import sweep_of

    def run() -> None:
        work = Work(sweep_of(name).at(preset).decided())
        for group in work.groups:
            work.simulation(group).compile()  # once where groups share a program

    return run


# --- what a device can do


def triad(count: float, dtype: str = "float32") -> Run:
    """a + 3 b for long arrays: `count` gigabytes are moved."""
    size = int(count * 1e9 / 3 / np.dtype(dtype).itemsize)
    return on_device(lambda a, b: a + 3 * b, *np.ones((2, size)), dtype=dtype)


def product(count: float, dtype: str = "float32") -> Run:
    """A product of square matrices: `count` times 10^12 operations."""
    side = int((count * 1e12 / 2) ** (1 / 3))
    return on_device(jnp.matmul, *np.ones((2, side, side)), dtype=dtype)
