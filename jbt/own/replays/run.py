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
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float

from jbt import quick_compilation, runtime
from jbt.acquisition import Loop, Task, reports, run
from jbt.acquisition.loop import refit
from jbt.acquisition.panel_rules import alike, one_of
from jbt.acquisition.rules import resolve
from jbt.kernel import metrics
from jbt.kernel.batching import CPU_PROBLEMS
from jbt.own.choices import FEW_RULES, Fitted
from jbt.own.fits.batch import LARGEST_COUNTS, Batch
from jbt.own.fits.pools import check_k
from jbt.own.replays.report import SCORED_BY, Replay, summaries
from jbt.own.tables import limits
from jbt.own.tables.outcomes import ALL
from jbt.own.tables.places import count_within, in_order_of_names
from jbt.own.tables.sheets import TableError, location
from jbt.own.tables.tables import Tables
from jbt.simulation.simulate import check_seed
from jbt.types import Comparisons, Design, Parameters, Prior, Variant, check_count, check_word

LARGEST_ITEMS = 4 * LARGEST_COUNTS
"""Most items of a pool: a run holds several numbers for each ordered pair of them."""

NUMBERS = 2**24
"""About how many membership draws and pair scores the runs of one batch hold (count)."""

UNITS = 16
"""Most batches of runs that each device makes in a call (count)."""


def replay(
    tables: Tables,
    batch: Batch,
    *,
    k: int = 1,
    model: Fitted = "bias_aware",
    rules: Sequence[str] = FEW_RULES,
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
    check_count("refit_every", 1 if refit_every is None else refit_every)
    check_seed(seed)
    if len(tables.pools) > 1 and ALL in tables.pools:
        raise ValueError(f"a pool is called {ALL!r}, which stands for the mean over pools")
    with runtime.precision("float64"):
        prior = Prior() if prior is None else prior
        judges, n_verdicts, notes = oracles(tables, batch, k, model, prior)
        largest = int(n_verdicts.max())
        period = min([max(1, min(8, largest // 20)), *budgets])
        period = period if refit_every is None else refit_every
        grid = np.minimum(np.unique(budgets or reports(largest, min(period, largest))), largest)
        grid = np.unique(grid)
        loop = Loop(k=k, refit_every=period)
        n_judges, n_pools = len(tables.judges), len(tables.pools)
        counts = f"{len(rules)} rules x {n_judges * n_pools} pools of a judge x {seeds} seeds"
        remedy = "--judge NAME, fewer --rules, --seeds or --budgets"
        what = f"recalls of {counts} x {len(grid)} budgets"
        size = n_judges, len(SCORED_BY), len(rules), n_pools, len(grid), seeds
        limits.check(8 * math.prod(size), what, remedy)
        recall, failed = np.full(size, np.nan), np.zeros((len(rules), len(batch.pools), seeds))
        jobs = [job for judge in judges for job in _jobs(judge, rules, loop, grid, seeds, seed)]
        for rule, fits, runs, call in progress(jobs):
            recalls, status = jax.device_get(call())
            pool, judge = np.divmod(fits, n_judges)
            recall[judge, :, rule, pool, :, runs] = recalls
            failed[rule, fits, runs] = status > 0
    if failed.any():
        notes.append(f"{int(failed.sum())} runs had a fit that did not converge")
    by_judge = n_verdicts.reshape(n_pools, n_judges).T
    tabled = summaries(tables.judges, tables.pools, rules, recall, grid, by_judge, target)
    return Replay(*tabled, k, target, seeds, period, notes)


# --- the frozen judges


@dataclasses.dataclass(frozen=True, eq=False)
class Oracle:
    """Pools of similar size, each with the verdicts of one judge, [F], padded to one shape."""

    fits: np.ndarray
    """[F] index into `Batch.pools`."""
    names: np.ndarray
    """[F] a number for the name of the pool, from which its random draws come."""
    tasks: Task
    """Leaves [F, ...]. `answers` hold the mean share won by the item shown first, NaN without a
    verdict."""
    tops: np.ndarray
    """[F, scored_by, M] 1 for contents in the top k, else 0; NaN where it is undefined."""


def oracles(
    tables: Tables, batch: Batch, k: int, model: Fitted, prior: Prior
) -> tuple[list[Oracle], np.ndarray, list[str]]:
    """Make judges that can be asked from the verdicts of a batch, pools of similar size together.

    Args:
      k: size of the top set (count of contents).
      model: the model fitted; its fit to all verdicts gives the top k of `full_data`.

    Returns:
      The judges; for each of `Batch.pools` its ordered pairs with a verdict, 0 where there is
      nothing to ask; and notes, in sentences.

    Raises:
      ValueError: k out of range, a pool with too many items, nothing to ask.
    """
    check_word("model", model, get_args(Fitted))
    check_count("k", k)
    for noun, most in {"contents": LARGEST_COUNTS, "items": LARGEST_ITEMS}.items():
        largest = max(batch.pools, key=lambda pool: len(getattr(pool, noun)))
        if (n := len(getattr(largest, noun))) > most:
            raise ValueError(f"pool {largest.pool!r} has {n} {noun}; at most {most} are allowed")
    check_k(batch, k)
    n_judges, n_fits = len(tables.judges), len(batch.pools)
    # By name, so that the random draws of a run do not depend on the order of the rows.
    pool = tables.items["pool"].to_numpy()
    place = in_order_of_names(pool, tables.items["item"])[1]
    names = map(tables.contents.__getitem__, tables.items["content"])
    sharing = [g.index // n_judges for g in batch.groups if g.items.content is not None]
    shared = np.isin(pool, np.concatenate([[-1], *sharing]))
    owner = np.where(shared, in_order_of_names(pool, names)[1], place)
    trusted = trusted_tops(tables, owner, k)
    # The row of the items table at each place. Padding is the row -1, whose place is the last.
    row_at = np.full((len(tables.pools), place.max() + 1), -1)
    row_at[pool, place] = np.arange(len(pool))
    place_in_batch, content = np.append(count_within(pool), -1), np.append(owner, 0)

    verdicts = tables.verdicts
    verdicts = verdicts.assign(
        fit=verdicts["pool"] * n_judges + verdicts["judge"],
        first=place[verdicts["first"]],
        second=place[verdicts["second"]],
        won=verdicts["p_first"] * verdicts["count"],
    )
    asked = verdicts.groupby(["fit", "first", "second"], as_index=False)[["count", "won"]].sum()
    unknown = np.isin(np.arange(n_fits), verdicts["fit"][~verdicts["shown"]])
    repeated = np.isin(np.arange(n_fits), asked["fit"][asked["count"] > 1])
    several = np.array([len(pool.contents) > 1 for pool in batch.pools])
    n_verdicts = np.where(several, np.bincount(asked["fit"], minlength=n_fits), 0)
    if not n_verdicts.any():
        raise ValueError("there is nothing to ask: no pool has verdicts on more than one content")
    judges, tied = [], 0
    for group in batch.groups:
        kept = np.flatnonzero(n_verdicts[group.index])
        if not len(kept):
            continue
        fits = group.index[kept]
        items = jax.tree.map(lambda v, at=kept: v[at], group.items)
        n = items.item_mask.shape[1]
        row = row_at[fits // n_judges, :n]
        covariates = jnp.take_along_axis(items.covariates, place_in_batch[row][..., None], 1)
        shared_by = None if items.content is None else jnp.asarray(content[row])
        items = dataclasses.replace(items, covariates=covariates, content=shared_by)
        rows = asked[asked["fit"].isin(fits)]
        answers = np.full((len(fits), n, n), np.nan)
        at = np.searchsorted(fits, rows["fit"]), rows["first"], rows["second"]
        answers[at] = rows["won"] / rows["count"]
        aware = model == "bias_aware"
        kappa = aware & np.asarray(group.variant.kappa)[kept] & ~unknown[fits]
        tasks, top = _tasks(items, jnp.asarray(answers), jnp.asarray(aware), kappa, prior, k)
        tops = np.asarray(top, float)[:, None]
        tied += int((tops.sum((1, 2)) > k).sum())
        tops = np.concatenate([tops, trusted[fits // n_judges, :, : tops.shape[2]]], 1)
        # As in `simulate.stream`, a pool's draws depend on its name, not on the other pools.
        names = [zlib.crc32(batch.pools[i].pool.encode()) for i in fits]
        judges.append(Oracle(fits, np.array(names, np.uint32), tasks, tops))
    noun = "pools" if n_judges == 1 else "pools of a judge"
    asked_of = n_verdicts > 0
    pools = asked_of.reshape(-1, n_judges).any(1)
    by_quality, by_anchors = (~np.isnan(trusted[pools, :, 0])).sum(0)
    notes = {
        "{} {} left out: no verdict, or only one content": (~asked_of).sum(),
        "ordered pairs judged more than once (in {} {}) have the mean of their verdicts as their "
        "answer, which counts as one verdict": (repeated & asked_of).sum(),
        "{} {} have verdicts of unknown order, which are asked in the recorded direction; kappa is "
        "fixed at 0 there": (unknown & asked_of).sum(),
        f"all verdicts leave a tie at the boundary of the top {k} in {{}} {{}}: any of the tied "
        "contents counts": tied,
    }
    said = [text.format(n, noun) for text, n in notes.items() if n]
    if tables.items["quality"].notna().any():
        said.append(f"quality defines the top {k} in {by_quality} of {pools.sum()} pools")
    if len(tables.anchors) + len(tables.members):
        said.append(f"anchors define the top {k} in {by_anchors} of {pools.sum()} pools")
    return judges, n_verdicts, said


@partial(quick_compilation.jit, static_argnames="k")
def _tasks(
    design: Design, answers: Array, aware: Array, kappa: Array, prior: Prior, k: int
) -> tuple[Task, Array]:
    """Build the tasks, and fit each to all its verdicts for the top k."""

    def one(design: Design, answers: Array, kappa: Array) -> tuple[Task, Array]:
        variant = Variant(jnp.full(design.n_covariates, aware), kappa)
        prior_ = Prior(*(jnp.asarray(v, design.dtype) for v in (prior.lam, prior.lam_b)))
        task = Task(jnp.zeros(design.n_contents), design, answers, prior_, variant)
        known = ~jnp.isnan(answers)
        comparisons = Comparisons(known.astype(design.dtype), jnp.where(known, answers, 0))
        parameters, _ = refit(comparisons, Parameters.zeros(design), task)
        return task, metrics.top_set(parameters.theta, k, design.content_mask())

    return jax.vmap(one)(design, answers, kappa)


def trusted_tops(tables: Tables, owner: np.ndarray, k: int) -> np.ndarray:
    """The top k by trusted quality, and by anchors.

    By quality they are the contents of highest quality in the table, with all that tie with the
    k-th place, where every item has one. Anchors of pairs are chained: if a is better than b and b
    better than c, a is better than c. They define the top k of a pool if each of k contents is
    better than each of the others, and none the other way round; the order within the two sets does
    not matter. Labels of members define it where k contents are labelled yes, or all but k no; a
    content whose items are labelled both ways counts as unlabelled.

    Args:
      owner: [rows of items] content of each item, numbered within its pool.
      k: size of the top set.

    Returns:
      [pools, 2, M] 1 for the top set, else 0; all NaN where it is not defined; M is the number of
      contents of the largest pool.

    Raises:
      TableError: two items of one content have different qualities.
    """
    items, pool = tables.items, tables.items["pool"].to_numpy()
    last = items.groupby(["pool", "content"])["quality"].transform("last")
    for row in np.flatnonzero(items["quality"].notna() & (items["quality"] != last))[:1]:
        content, name = tables.contents[items["content"].iloc[row]], tables.pools[pool[row]]
        where = location(tables.items_path, int(tables.item_lines[row]))
        raise TableError(f"{where}: content {content!r} of pool {name!r} has different qualities")
    size = pd.Series(owner).groupby(pool).max().to_numpy() + 1
    exists = np.arange(size.max()) < size[:, None]
    given = np.where(exists, 0.0, -np.inf)
    given[pool, owner] = items["quality"]
    by_quality = (given >= -np.sort(-given, axis=1)[:, k - 1 : k]).astype(float)
    by_quality[pool[items["quality"].isna()]] = np.nan

    anchors, members = tables.anchors, tables.members
    inside = np.zeros(exists.shape, bool)
    if members.empty:
        for p in anchors["pool"].unique().tolist():
            pairs, m = anchors[anchors["pool"] == p], int(size[p])
            reaches = np.zeros((m, m), bool)
            reaches[owner[pairs["better"]], owner[pairs["worse"]]] = True
            for _ in range(m.bit_length()):  # doubles the length of the chains
                reaches |= reaches @ reaches
            strict = reaches & ~reaches.T
            # A content of the set is above at least m - k others, one outside above fewer.
            top = strict.sum(1) >= m - k
            inside[p, :m] = top & strict[np.ix_(top, ~top)].all()
    else:
        labelled = np.zeros((2, *exists.shape), bool)
        labelled[members["member"].astype(int), members["pool"], owner[members["item"]]] = True
        no, yes = labelled & ~labelled[::-1]
        inside = np.where(yes.sum(1, keepdims=True) == k, yes, exists & ~no)
    by_anchors = np.where(inside.sum(1, keepdims=True) == k, inside, np.nan)
    return np.stack([by_quality, by_anchors], 1)


# --- the runs


def _jobs(
    oracle: Oracle, rules: Sequence[str], loop: Loop, grid: np.ndarray, seeds: int, seed: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray, Callable[[], Any]]]:
    """Yield every rule and seed on every pool, in calls that take some seconds: number of the rule;
    [n] index into `Batch.pools`; [n] number of the run; and a function that returns recall
    [n, scored_by, budgets] and the worst status [n]. Some runs come twice, to fill the calls."""
    largest = int((~jnp.isnan(oracle.tasks.answers)).sum((1, 2)).max())
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
    mesh, each, spread = (
        Mesh(np.array(jax.local_devices()), ("runs",)),
        PartitionSpec(),
        PartitionSpec("runs"),
    )
    pools = oracle.names, oracle.tasks, oracle.tops
    for names in alike(rules):
        one = _run_of(names, loop, budgets, at, seed)

        def device(number: Array, pools: Any, *problems: Array, one: Any = one) -> Any:
            run_one = partial(one, number, pools)
            return jax.lax.map(lambda problem: run_one(*problem), problems, batch_size=batch)

        few = problems * len(names) * n_items**2 <= quick_compilation.FEW
        program = jax.jit(
            jax.shard_map(
                device,
                mesh=mesh,
                in_specs=(each, each, spread, spread),
                out_specs=spread,
                check_vma=False,  # the fit's loop starts from constants, which vary over no device
            ),
            compiler_options=quick_compilation.options() if few else None,
        )
        for number, name in enumerate(names):
            for chunk in np.resize(np.arange(problems), (calls, size)):
                fit, runs = np.divmod(chunk, seeds)
                call = partial(program, number, pools, fit, runs)
                yield list(rules).index(name), oracle.fits[fit], runs, call


def _run_of(
    rules: Sequence[str], settings: Loop, budgets: list[int], at: np.ndarray, seed: int
) -> Callable[..., tuple[Array, Array]]:
    """(number of a rule, pools as in `Oracle`, fit, run) -> recall [scored_by, budgets] and status:
    one program for all rules."""

    def one(number: Array, pools: Any, fit: Array, run_: Array) -> tuple[Array, Array]:
        name, task, tops = jax.tree.map(lambda v: v[fit], pools)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), name), run_)
        loop = dataclasses.replace(settings, rule=one_of(rules, number))

        def scored(top: Float[Array, " M"]) -> tuple[Array, Array]:
            trace = run(key, dataclasses.replace(task, quality=top), loop, budgets)
            recall = jnp.where(jnp.isnan(top).any(), jnp.nan, trace.recall[at])
            return recall, trace.status.max()

        # The pairs asked do not depend on the top set, so the run is made only once.
        return jax.vmap(scored, out_axes=(0, None))(tops)

    return one
