"""`jbt status`: the plausible ranks of contents, after verdicts that a rule chose."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.calibration import Cell
from jbt import runtime
from jbt.acquisition import Loop, Task, run
from jbt.acquisition.runs import bought
from jbt.kernel.laplace import laplace
from jbt.own.studies.report import plausible_ranks
from jbt.simulation import judges, pools
from jbt.simulation.simulate import stream
from jbt.types import Judge, Prior, Variant

INTERVAL = "`jbt status`: plausible rank of a content"
SDS = (0.4, 1.0, 2.5)
BUDGETS = (60, 180)
KAPPA, BIAS = 0.3, 1.0
DRAWS = 4096
MOST = 200
"""Studies of a setting; all contents of a pool count."""

CASES: tuple[tuple[str, int, float, float, bool], ...] = (
    ("20 contents, no covariate", 0, 0.0, 0.0, False),
    ("10 contents rendered twice", 10, 0.0, 0.0, True),
    ("10 contents rendered twice, corr .8", 10, 0.8, 0.0, True),
    ("10 contents, 3 of them rendered twice, corr .8", 3, 0.8, 0.0, True),
    ("10 contents rendered twice, bias growing with quality by .5", 10, 0.0, 0.5, True),
)
"""In words; contents rendered twice; correlation of quality and covariate; interaction; whether c
is fitted."""


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n_studies = min(studies, MOST)
    for aware, budget in itertools.product((False, True), BUDGETS):
        with runtime.precision("float64"):
            program = _program(n_studies, seed, aware, budget)
            for case, sd in itertools.product(CASES, SDS):
                words, twice, rho, interaction, fitted = case
                if fitted != aware:
                    continue
                simulated = program(sd, twice, rho, interaction)
                ranges = [_range(*study) for study in zip(*map(np.asarray, simulated), strict=True)]
                inside, width = (np.concatenate(v) for v in zip(*ranges, strict=True))
                yield Cell(
                    INTERVAL,
                    f"{words}, sd {sd:g}, {budget} verdicts",
                    studies=len(inside),
                    printed=len(inside),
                    covered=int(inside.sum()),
                    one_sided=True,
                    median_width=float(np.median(width)),
                    note="no verdict shows it" if interaction else "",
                    may_miss=interaction != 0,
                )


def _program(n: int, seed: int, aware: bool, budget: int) -> Any:
    """A function of sd, contents rendered twice, rho and interaction: theta [n, M], root of the
    posterior [n, P, P] and true quality [n, M] after a run on each pool."""
    m = 10 if aware else 20

    def one(number: Any, sd: Any, twice: Any, rho: Any, interaction: Any) -> tuple[Any, Any, Any]:
        key = jax.random.fold_in(jax.random.key(seed), number)
        drawn = stream(key, "pool")
        if aware:
            pool = pools.paired(drawn, m, n_twice=twice, sd=sd, rho=rho, spread=1.0)
        else:
            pool = pools.gaussian(drawn, m, sd=sd)
        judge = Judge(jnp.full(1, BIAS * aware), KAPPA, interaction=jnp.full(1, interaction))
        answers = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        variant = Variant(jnp.full(1, aware), jnp.array(True))
        task = Task.build(pool, answers, variant=variant)
        trace = run(stream(key, "run"), task, Loop("entropy_reduction_fresh", k=3), budget)
        counts = bought(trace.queries, jnp.arange(budget) < budget, task)
        posterior = laplace(trace.parameters, counts, pool.design, Prior(), variant)
        return trace.parameters.theta, posterior.root, pool.quality

    @jax.jit
    def program(*condition: Any) -> Any:
        return jax.lax.map(lambda i: one(i, *condition), jnp.arange(n), batch_size=100)

    return program


def _range(
    theta: np.ndarray, root: np.ndarray, quality: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the range of each content holds its true rank, and its width."""
    z = np.random.default_rng(0).standard_normal((DRAWS, len(root)))
    best, worst = plausible_ranks(theta + z @ root[:, : len(theta)])
    rank = 1 + (quality[:, None] < quality).sum(1)
    return (best <= rank) & (rank <= worst), worst - best
