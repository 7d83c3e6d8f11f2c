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
from jbt.kernel import metrics, model
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pairs
from jbt.simulation.pools import gaussian
from jbt.simulation.simulate import Simulation, stream
from jbt.types import Comparisons, Design, Judge, Pool, Prior

PRIOR = Prior(LAM, LAM_B)


def batched(f: Callable[..., Any], *arrays: Any, dtype: str, batch: int = CPU_PROBLEMS) -> Run:
    """A compiled function of one problem for all of them: `batch` at a time on a CPU, elsewhere at
    once.

    Args:
      f: one problem -> its answers.
      arrays: [count, ...] the problems; floats and truth values become `dtype`, integers stay.
    """
    count = len(arrays[0])
    size = min(count, batch) if jax.default_backend() == "cpu" else count
    with runtime.precision(dtype):
        given = [jnp.asarray(v, None if v.dtype.kind == "i" else dtype) for v in arrays]
        solve = jax.jit(lambda *a: jax.lax.map(lambda one: f(*one), a, batch_size=size))
        program = solve.lower(*given).compile()
    return lambda: jax.block_until_ready(program(*given))


def design_of(x: Any) -> Design:
    """The design of items with one covariate [N], also of traced values."""
    return Design(x[:, None], None, jnp.ones(len(x), bool), len(x))


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
    **drawn: Any,
) -> Run:
    """MAP of pools: theta, c and kappa; if `naive`, theta alone.

    Args:
      lam: prior precision of quality.
      solver: newton, or lbfgs (jaxopt's).
      drawn: further arguments of `problems.pools`.
    """
    pools, prior = problems.pools(count, n, **drawn), Prior(lam, LAM_B)

    def one(wins: Any, x: Any) -> Any:
        design, shown = design_of(x), 1 - jnp.eye(n, dtype=x.dtype)
        variant = model.variant("naive" if naive else "bias_aware", design)
        result = fit_map(Comparisons(shown, wins), design, prior, variant, solver=solver)
        beta = result.parameters.theta if naive else result.parameters.flat()
        return or_nan(beta, result.status)

    return batched(one, pools.wins, pools.x, dtype=dtype)


# --- the crossing experiment and the active loop


def crossing(count: int) -> Run:
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

    simulation = Simulation(experiment, {"rho": rho}, range(count // len(rho)))
    return lambda: np.concatenate([out["gain"] for _, out in simulation.chunks()]).ravel()


def active(
    count: int,
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

    return batched(one, *problems.tasks(count), np.arange(count), dtype=dtype, batch=32)


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


def study(verdicts: int, n: int) -> Run:
    """A live study, refitted after each answer: `verdicts` asked for one by one, and told."""
    import pandas as pd

    from jbt import own

    rng, folder = np.random.default_rng(0), tempfile.mkdtemp()
    items = pd.DataFrame({"item": [f"m{i}" for i in range(n)], "words": rng.integers(20, 400, n)})
    live = own.Study.open(
        folder, items, k=K, covariates=["words"], budget=10**6, repeats="fresh", level=1.0
    )

    def run() -> None:
        for _ in range(verdicts):
            for query in live.ask():
                live.tell(query.id, "first" if rng.random() < 0.5 else "second")

    return run


def command(words: str, kept: bool = False) -> Run:
    """A command or sweep in a process of its own.

    Args:
      words: of the command; TABLES stands for a folder with the tables of `jbt example`, NEW for an
        empty folder.
      kept: whether compiled programs are kept from a first run.
    """
    folder = Path(tempfile.mkdtemp())
    options: Any = {"check": True, "cwd": folder, "capture_output": True}
    subprocess.run([sys.executable, "-m", "jbt", "example", "tables"], **options)

    def run() -> None:
        given = words.replace("TABLES", "tables").replace("NEW", tempfile.mkdtemp(dir=folder))
        programs = folder / "programs" if kept else tempfile.mkdtemp(dir=folder)
        environment = os.environ | {"JBT_CACHE": str(programs)}
        subprocess.run([sys.executable, "-m", *given.split()], **options, env=environment)

    if kept:
        run()
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
