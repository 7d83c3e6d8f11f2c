"""How few of the recorded verdicts would have been enough: acquisition rules on a frozen judge.

The verdicts of a real judge on a pool form a matrix with one answer for each ordered pair that was
judged: the share won by the item shown first, averaged where the pair was judged more than once. An
acquisition rule may ask for each answer once, in the direction in which it was recorded; a pair
without a verdict is never asked. The rule's top k after some verdicts is compared with the top k by
all verdicts, and with that by trusted labels where there are some.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Key

from jbt import quick_compilation, runtime
from jbt.acquisition import RULES, Loop, Rule, Task, View, reports, run
from jbt.acquisition.rules import DEFAULT_RULES, resolve
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.own.fits.batch import Batch
from jbt.own.replays.oracle import Model, Oracle, oracles
from jbt.own.replays.report import SCORED_BY, Replay, summaries
from jbt.own.tables import limits
from jbt.own.tables.tables import Tables
from jbt.own.tables.verdicts import ALL
from jbt.simulation.simulate import check_seed
from jbt.types import Prior, check_count

NUMBERS = 2**24
"""About how many membership draws and pair scores the runs of one batch hold (count)."""

UNITS = 16
"""Most batches of runs that each device makes in a call (count)."""


def replay(
    tables: Tables,
    batch: Batch,
    *,
    k: int = 1,
    model: Model = "bias_aware",
    rules: Sequence[str] = DEFAULT_RULES,
    seeds: int = 20,
    refit_every: int | None = None,
    budgets: Sequence[int] = (),
    target: float = 0.9,
    prior: Prior | None = None,
    seed: int = 0,
    progress: Callable[[list[Any]], Iterable[Any]] = iter,
) -> Replay:
    """Run acquisition rules against recorded verdicts, over many seeds (float64).

    Args:
      tables: tables as read, with trusted labels if there are some.
      batch: batch of these tables, with the covariates of the model.
      k: size of the top set (count of contents).
      model: the model inside the loop and of the fit to all verdicts. bias_aware frees c, and kappa
        where `Batch` does and the order of all the pool's verdicts is known.
      rules: names in `acquisition.RULES`.
      seeds: runs of each rule on each pool (count), with different ties and draws of the rule.
      refit_every: R, verdicts between refits; default a twentieth of the ordered pairs with a
        verdict in the pool that has most, from 1 to 8.
      budgets: verdicts of a pool; default every R up to all there are. A pool with fewer verdicts
        counts with all it has.
      target: recall of the top k by all verdicts for `Replay.needed`, above 0 and at most 1.
      prior: default `Prior()`.
      seed: root of every draw.
      progress: wraps the list of runs, as tqdm does.

    Raises:
      ValueError: an argument out of range, an unknown rule, no pool with verdicts of several
        contents, k not below the contents of such a pool, a pool called `all` among others.
    """
    _check(rules, seeds, target, budgets)
    check_count("refit_every", 1 if refit_every is None else refit_every)
    check_seed(seed)
    if len(tables.pools) > 1 and ALL in tables.pools:
        raise ValueError(f"a pool is called {ALL!r}, which stands for the mean over pools")
    with runtime.precision("float64"):
        prior = Prior() if prior is None else prior
        judges, notes = oracles(tables, batch, k, model, prior)
        largest = max(int(judge.n_verdicts.max()) for judge in judges)
        chosen = min([max(1, min(8, largest // 20)), *budgets])
        period = chosen if refit_every is None else refit_every
        grid = np.minimum(np.unique(budgets or reports(largest, min(period, largest))), largest)
        grid = np.unique(grid)
        loop = Loop(k=k, refit_every=period)
        jobs = [job for judge in judges for job in _jobs(judge, rules, loop, grid, seeds, seed)]
        size = len(rules), len(batch.pools), seeds, len(SCORED_BY), len(grid)
        counts = f"{len(rules)} rules x {size[1]} pools of a judge x {seeds} seeds"
        remedy = "--judge NAME, fewer --rules, --seeds or --budgets"
        what = f"recalls of {counts} x {len(grid)} budgets"
        limits.check(8 * math.prod(size), what, remedy)
        recall = np.full(size, np.nan)
        failed = 0
        for rule, fit, run_, call in progress(jobs):
            recalls, status = jax.device_get(call())
            recall[rule, fit, run_] = recalls[: len(fit)]
            failed += int((status[: len(fit)] > 0).sum())
    if failed:
        notes.append(f"{failed} runs had a fit that did not converge")
    verdicts = np.zeros(len(batch.pools), int)
    for judge in judges:
        verdicts[judge.fits] = judge.n_verdicts
    table, needed, spent = summaries(batch.pools, rules, recall, grid, verdicts, target)
    return Replay(table, needed, spent, k, target, seeds, period, notes)


def _check(rules: Sequence[str], seeds: int, target: float, budgets: Sequence[int]) -> None:
    for rule in rules:
        resolve(rule)
    if not rules or len(set(rules)) < len(rules):
        raise ValueError(
            f"rules must list at least one rule, and none twice, got {' '.join(rules) or 'nothing'}"
        )
    check_count("seeds", seeds)
    for budget in budgets:
        check_count("budgets", budget, most=10**9)
    if not 0 < target <= 1:
        raise ValueError(f"target must be above 0 and at most 1, got {target:g}")


# --- the runs


def _jobs(
    oracle: Oracle, rules: Sequence[str], loop: Loop, grid: np.ndarray, seeds: int, seed: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray, Callable[[], Any]]]:
    """Yield every rule and seed on every pool, in calls that take some seconds: number of the rule;
    [n] index into `Batch.pools`; [n] number of the run; and a function that returns recall
    [n or more, scored_by, budgets] and the worst status [n or more]."""
    largest = int(oracle.n_verdicts.max())
    loop = dataclasses.replace(loop, refit_every=min(loop.refit_every, largest))
    at_most = np.minimum(grid, largest)
    budgets = np.union1d(at_most, largest).tolist()
    at = np.searchsorted(reports(budgets, loop.refit_every), at_most)
    n_fits, n_items = oracle.tasks.answers.shape[:2]
    problems, n_devices = n_fits * seeds, jax.local_device_count()
    batch = max(1, min(CPU_PROBLEMS, NUMBERS // (64 * n_items**2), -(-problems // n_devices)))
    unit = batch * n_devices
    calls = -(-problems // (UNITS * unit))
    size = -(-problems // (calls * unit)) * unit
    root = jax.random.key(seed)
    # As in `simulate.stream`, a pool's draws depend on its name, not on the other pools.
    of_pool = jnp.asarray([zlib.crc32(name.encode()) for name in oracle.names], jnp.uint32)
    key_of = jax.vmap(lambda pool, run: jax.random.fold_in(jax.random.fold_in(root, pool), run))
    fit, run_ = (v.ravel() for v in np.mgrid[:n_fits, :seeds])
    for fresh in (False, True):
        # With a refit after every pick, `fresh` makes no difference.
        names = [n for n in rules if (resolve(n).fresh and loop.refit_every > 1) == fresh]
        if not names:
            continue
        few = problems * len(names) * n_items**2 <= quick_compilation.FEW
        program = _program(names, fresh, loop, budgets, at, batch, few)
        for number, name in enumerate(names):
            for begin in range(0, problems, size):
                chunk = slice(begin, begin + size)
                at_fit, of_run = np.resize(fit[chunk], size), np.resize(run_[chunk], size)
                keys = key_of(of_pool[at_fit], jnp.asarray(of_run))
                problem = jax.tree.map(lambda v, rows=at_fit: v[rows], (oracle.tasks, oracle.tops))
                call = partial(program, number, keys, *problem)
                yield list(rules).index(name), oracle.fits[fit[chunk]], run_[chunk], call


def _program(
    names: Sequence[str],
    fresh: bool,
    settings: Loop,
    budgets: list[int],
    at: np.ndarray,
    batch: int,
    few: bool,
) -> Callable[..., Any]:
    """Build (number of a rule, keys [n], tasks [n], top sets [n, scored_by, M]) -> recall
    [n, scored_by, budgets] and status [n]: one compilation for all rules, spread over the devices,
    `batch` runs together. It is a quick one for `few` runs."""
    scores = [RULES[name].score for name in names]

    def one(number: Array, key: Key[Array, ""], task: Task, tops: Float[Array, "Q M"]):
        def chosen(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
            return jax.lax.switch(number, scores, view, key)

        rule = Rule(chosen, fresh, tried=True)
        loop = dataclasses.replace(settings, rule=rule)

        def scored(top: Float[Array, " M"]) -> tuple[Array, Array]:
            trace = run(key, dataclasses.replace(task, quality=top), loop, budgets)
            recall = jnp.where(jnp.isnan(top).any(), jnp.nan, trace.recall[at])
            return recall, trace.status.max()

        # The pairs asked do not depend on the top set, so the run is made only once.
        return jax.vmap(scored, out_axes=(0, None))(tops)

    def device(number: Array, *problems: Any) -> Any:
        return jax.lax.map(lambda problem: one(number, *problem), problems, batch_size=batch)

    mesh, spread = Mesh(np.array(jax.local_devices()), ("runs",)), PartitionSpec("runs")
    return jax.jit(
        jax.shard_map(
            device,
            mesh=mesh,
            in_specs=(PartitionSpec(), spread, spread, spread),
            out_specs=spread,
            check_vma=False,  # the fit's loop starts from constants, which vary over no device
        ),
        compiler_options=quick_compilation.options() if few else None,
    )
