"""Problems of the benchmarks: pools to fit, tasks for the active loop, SciPy's fit of a pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from jbt import runtime
from jbt.acquisition import Task
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.simulation import judges, pairs, pools, simulate
from jbt.types import Comparisons, Design, Judge, Prior

N = 30
LAM, LAM_B = 1.0, 0.1
PRIOR = Prior(LAM, LAM_B)
R = 8
"""Verdicts between refits of the active loop."""


def draw(count: int, dtype: str) -> tuple[Comparisons, Design]:
    """Pools of the default scenario, [count]."""

    def one(key: Any) -> tuple[Comparisons, Design]:
        pool = pools.gaussian(simulate.stream(key, "pool"), N, rho=jnp.asarray(0.3))
        judge = Judge(jnp.ones(1), 0.0)
        oracle = judges.frozen_draw(simulate.stream(key, "verdicts"), pool, judge)
        return judges.reveal(oracle, pairs.every_pair(pool)), pool.design

    with runtime.precision("float32"):  # the same verdicts in both precisions
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(count))
        drawn = jax.device_get(jax.jit(jax.vmap(one))(keys))

    def cast(v: np.ndarray) -> jax.Array:
        return jnp.asarray(v, dtype if v.dtype == np.float32 else v.dtype)

    return jax.tree.map(cast, drawn)


def draw_tasks(count: int, n: int) -> tuple[Any, Task]:
    """Keys and tasks of the active loop, [count]: frozen judges of bias 1.5 and position 0.35."""

    def one(key: Any) -> Task:
        pool = pools.gaussian(
            simulate.stream(key, "pool"), n, sd=1.25, rho=jnp.zeros(()), covariate="binary"
        )
        judge = Judge(jnp.full(1, 1.5), 0.35)
        return Task.build(pool, judges.frozen_draw(simulate.stream(key, "verdicts"), pool, judge))

    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(count))
    tasks = jax.jit(jax.vmap(one))(keys)
    return jax.vmap(lambda key: simulate.stream(key, "acquisition"))(keys), tasks


def in_batches(f: Callable[..., Any], batch: int = CPU_PROBLEMS) -> Callable[..., Any]:
    """Make a function of one problem one of many, as `jbt.simulation.simulate` runs them on one
    device: `batch` at a time on a CPU, elsewhere all at once."""

    def run(*arguments: Any) -> Any:
        count = jax.tree.leaves(arguments)[0].shape[0]
        size = min(count, batch) if jax.default_backend() == "cpu" else count
        return jax.lax.map(lambda a: f(*a), arguments, batch_size=size)

    return run


def scipy_problems(count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The first pools of `draw` one by one: shown, wins, covariates."""
    comparisons, design = jax.device_get(draw(count, "float32"))
    arrays = (comparisons.shown, comparisons.wins, design.covariates)
    return list(zip(*(np.asarray(v, float) for v in arrays), strict=True))


def scipy_lbfgs(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """The MAP (theta, c, kappa) of one pool."""
    shown, wins, x = problem
    precision = np.r_[np.full(N, LAM), LAM_B, LAM_B]

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        phi = b[:N] + x[:, 0] * b[N]
        z = phi[:, None] - phi + b[N + 1]
        r = wins - shown * expit(z)
        g = r.sum(1) - r.sum(0)
        value = (shown * np.logaddexp(0, z) - wins * z).sum() + (precision * b * b).sum() / 2
        return value, precision * b - np.r_[g, x[:, 0] @ g, r.sum()]

    return minimize(objective, np.zeros(N + 2), jac=True, method="L-BFGS-B").x


def newton_step_work(n: int, p: int) -> tuple[float, float]:
    """Work of a Newton step, counted by hand: operations, and numbers read or written.

    Operations: factorisation P^3 / 3, two solves 2 P^2, 20 on each of the N^2 ordered pairs.
    Numbers: the counts read, 2 N^2; the Hessian and its factor each written once and read once,
    4 P^2. Smaller terms are left out.
    """
    return p**3 / 3 + 2 * p**2 + 20 * n**2, 2 * n**2 + 4 * p**2
