"""What is measured of jbt.

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
from jbt.kernel import metrics, model
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.kernel.fit import fit_map
from jbt.kernel.listed import Listed
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


def or_nan(values: Any, status: Any) -> Any:
    """The values of a fit, NaN unless it has converged."""
    return jnp.where(status == 0, values, jnp.nan)


# --- a fit


def fit(count: int, n: int = N, dtype: str = "float32") -> Run:
    """MAP of pools: theta, c and kappa."""
    pools = problems.pools(count, n)

    def one(wins: Any, x: Any) -> Any:
        design, shown = design_of(x), 1 - jnp.eye(n, dtype=x.dtype)
        variant = model.variant("bias_aware", design)
        result = fit_map(Comparisons(shown, wins), design, PRIOR, variant)
        return or_nan(result.parameters.flat(), result.status)

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
    protocol: str = "frozen",
) -> Run:
    """Active runs, on a frozen judge by Eq. acq unless others are named: recall of the top k."""
    loop = Loop(rule, K, REFIT, protocol)

    def one(quality: Any, x: Any, wins: Any, number: Any) -> Any:
        task = Task.build(Pool(quality, design_of(x)), wins, prior=PRIOR)
        key = jax.random.fold_in(jax.random.key(0), number)
        trace = acquisition.run(key, task, loop, budget)
        return or_nan(trace.recall[-1], trace.status.max())

    return batched(one, *problems.tasks(count), np.arange(count), dtype=dtype, batch=32)


# --- a leaderboard


def leaderboard(rows: int) -> Run:
    """theta and c of a leaderboard."""
    data, models = problems.leaderboard(rows), problems.MODELS
    first, second = (data[side].astype(np.intp) for side in ("first", "second"))
    columns = np.asfortranarray(data["difference"])
    precision = np.repeat([LAM, LAM_B], [models, columns.shape[1]])
    given = Listed(models, first, second, columns, np.ones(rows), data["won"].astype(float))

    def run() -> Any:
        verdicts = dataclasses.replace(given)  # without what was kept
        top = verdicts.top(np.ones(len(precision), bool), precision)
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
