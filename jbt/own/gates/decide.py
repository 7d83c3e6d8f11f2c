"""Decide from trusted labels whether to switch the correction on for real judges.

A label counts where the rankings of a judge differ, and is used at most once. For pairs, every
discordant label is one outcome. Labels of members are matched into pairs: a content that only the
bias-aware top k has, with one that only the naive top k has, at random or in order.

Within one pool, the labels are assumed to be a random draw of its disputed pairs or disputed
members. The sign test then enables with probability at most alpha

- for pairs: if the bias-aware ranking is right on at most half of the untied pairs of the pool that
  the two rankings order oppositely (see `jbt.gate.rules.sign`);
- for members: if recall would not rise. Match the m contents of either side at random: the number
  of matched pairs that favour the bias-aware side, minus the number that favour the naive side, is
  k times the gain in recall. If that is not positive, at most half of the discordant pairs favour
  the bias-aware side, and the labelled pairs are a draw of these without replacement, as above.
  Noise in the labels keeps the bound if labels err independently, with chances below one half that
  may depend on whether the content is good, but not on the side it is on.

Labels of one pool are not independent. Over the pools of a judge the sign test therefore uses one
label of each, drawn at random:

- for pairs: from the pool's discordant labels. Which pools have any does not depend on the answers.
  The number right is thus a sum of independent draws; their chances have a mean of at most 1/2 over
  the n pools if the bias-aware ranking is right, in the mean over these pools, on at most half of a
  pool's disputed pairs. From n/2 + 1 on, its tail is then at most the binomial's (Hoeffding, 1956,
  Annals of Mathematical Statistics 27, theorem 4), and at alpha below 1/2 only this tail enables.
- for members: from all matched pairs, discordant or not. If the pools are drawn at random from a
  population in which swapping one content for another gains nothing in the mean, discordant pairs
  favour the bias-aware side with a chance of at most 1/2. With one content a side in every pool,
  as at k = 1, this gain is that in mean recall.

Betting (`sign_sequential`) takes labels for certain: wealth is infinite once more than half of the
population is right. Within a pool it takes labels, and matches members, in the order of their
table, so that more labels do not change earlier bets. Over pools, a bet needs a mean of at most 1/2
given the labels before it, which a mean over unlike pools in an arbitrary order does not give. So
the first label of each pool is taken, and the pools in a random order that depends only on their
names and the seed: for pools drawn at random from a population whose mean is at most 1/2, these
labels are independent and identically distributed. A pool labelled later may come anywhere in that
order, so the bound holds for one decision, not at every stop.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from jbt import quick_compilation, runtime
from jbt.gate import LABELS, betting, check_alpha, p_value
from jbt.kernel import padding
from jbt.own.fits.batch import Batch
from jbt.own.fits.pools import usable
from jbt.own.gates.rankings import Rankings, seeded
from jbt.own.gates.report import COLUMNS, ENABLE, KEEP_OFF, Gate, needed
from jbt.own.tables.anchors import TIE, repeated
from jbt.own.tables.sheets import TableError
from jbt.own.tables.tables import Tables
from jbt.simulation.simulate import check_seed
from jbt.types import Prior, Status, check_word

RULES = ("sign", "sign_sequential", "census")
"""Rules that bound how often they enable a correction that does not help."""


def gate(
    tables: Tables,
    batch: Batch,
    *,
    rule: str = "sign",
    alpha: float = 0.05,
    k: int = 1,
    labels: str | None = None,
    prior: Prior | None = None,
    seed: int = 0,
) -> Gate:
    """Decide for every pool and judge, and for every judge over all pools.

    Args:
      tables: tables with anchors; pools not merged.
      batch: batch of these tables, or of the same with their pools merged: one c a judge.
      rule: one of `RULES`: the sign test, betting, or labels of all disputed members.
      alpha: level of the tests, above 0 and below 1/2.
      k: size of the top set (count of contents).
      labels: the population of pairs from which the anchors were drawn (`jbt.gate.LABELS`);
        default: all pairs, or members if they are labels of members.
      prior: default: `Prior()`.
      seed: seed of every draw.

    Raises:
      TableError: no anchors, or not of this kind.
      ValueError: an argument out of range; k not smaller than the number of contents of some pool
        that has several.
    """
    check_word("rule", rule, RULES)
    check_alpha(alpha)
    labels = _kind(tables, labels, rule, k)
    check_seed(seed)
    rankings = Rankings.of(tables, batch, prior)
    rankings.check_k(k)
    alone = len(batch.tables.pools) == len(tables.pools)
    pools, judges = decide(rankings, rule, alpha, k, labels, seed, fitted_alone=alone)
    return Gate(pools, judges, labels, rule, alpha, k, tables.n_unanswered, batch)


def pairs_alone(tables: Tables) -> bool:
    """Whether no pool has more than two items. Then no covariate can change a pool's order: in a
    fit of the pool alone, c explains less than the whole apparent difference of the two."""
    return bool((tables.items["pool"].value_counts() <= 2).all())


def _kind(tables: Tables, labels: str | None, rule: str, k: int) -> str:
    """Check the kind of the labels, or infer it."""
    if tables.anchors.empty and tables.members.empty:
        why = f": {'; '.join(tables.left_out)}" if tables.left_out else ""
        raise TableError(f"a gate needs trusted labels (--anchors), and there are none{why}")
    kind = "pairs" if tables.members.empty else "members"
    labels = kind if labels is None else labels
    check_word("labels", labels, LABELS)
    if (labels == "members") != (kind == "members"):
        raise TableError(f"labels must be {labels}, but the anchors are labels of {kind}")
    if labels == "members":
        tables.check_members_of(k)
    if rule == "census" and labels != "members":
        raise ValueError("the rule census needs labels of members")
    return labels


def decide(
    rankings: Rankings,
    rule: str,
    alpha: float,
    k: int,
    labels: str,
    seed: int,
    *,
    fitted_alone: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decide from the labels in the tables of these rankings; the arguments as in `gate`.

    Args:
      fitted_alone: whether each pool was fitted by itself.

    Returns:
      The decisions for each pool and judge, and for each judge over all pools: `Gate.pools` and
      `Gate.judges`.
    """
    tables, in_order = rankings.tables, rule == "sign_sequential"
    if labels == "members":
        outcomes, counts = of_members(rankings, k, seed, in_order)
    else:
        outcomes, counts = of_pairs(rankings, seed, in_order)
    a, b = rankings.pairs()
    naive, aware = rankings.orders(a, b)
    # Labels are drawn without replacement, so the number of pairs they are drawn from sets the odds
    # of a bet. Odds that are too short are safe, as a bet is placed only while right is not behind:
    # so the numbers may include pairs labelled a tie, and for swaps have no bound.
    population = rankings.by_pool(naive * aware < 0, rankings.pool[a]).astype(float)
    if labels == "members":
        population = counts["n_disputed"] / 2
    elif labels == "swaps":
        population[:] = np.inf
    settled = np.full(population.shape, "", object)
    if labels == "members":
        settled[counts["n_disputed"] == 0] = "both rankings have the same top k"
    changed = rankings.by_pool(naive != aware, rankings.pool[a]) > 0
    if fitted_alone:
        two = np.bincount(tables.items["pool"], minlength=len(tables.pools)) <= 2
        settled[~changed & two] = "two items, fitted alone: no covariate can change their order"
    first = [members[0] for members in rankings.pools()]
    counts |= {"status": rankings.status[:, first], "population": population, "settled": settled}

    pool, judge = np.divmod(np.arange(population.size), len(tables.judges))
    cells = pd.DataFrame(
        {name: np.broadcast_to(v, population.shape)[judge, pool] for name, v in counts.items()},
        index=pd.MultiIndex.from_arrays([pool, judge], names=["pool", "judge"]),
    )
    cells[["n_discordant", "n_right"]] = _tally(outcomes, cells.index)
    pools = _decided(cells, outcomes.sort_values("at", kind="stable"), rule, alpha)
    pools["pool"] = np.asarray(tables.pools, object)[pool]
    pools["judge"] = np.asarray(tables.judges, object)[judge]
    if len(tables.pools) == 1:
        judges = pools.assign(pool=None)
    else:
        drawn = one_a_pool(outcomes, tables, seed)
        sums = cells[cells["n_labels"] > 0].drop(columns=["status", "population", "settled"])
        sums = sums.groupby("judge").sum().reindex(range(len(tables.judges)), fill_value=0)
        ranked = np.isfinite(rankings.aware).any(1)
        sums["status"] = np.where(ranked, Status.CONVERGED, rankings.status[:, 0])
        sums = sums.assign(population=np.inf, settled="")
        judges = _decided(sums, drawn, rule, alpha, which=" (one a pool)")
        judges = judges.assign(pool=None, judge=np.asarray(tables.judges, object))
    columns = list(COLUMNS)
    return pools[columns].reset_index(drop=True), judges[columns].reset_index(drop=True)


def _decided(
    cells: pd.DataFrame, used: pd.DataFrame, rule: str, alpha: float, *, which: str = ""
) -> pd.DataFrame:
    """Add the columns that a rule fills.

    Args:
      cells: counts, a row for each thing to decide, with what `used` calls it as its index.
      used: the outcomes that decide, in the order of the bets.
      which: which labels these are, in words.
    """
    n_used, right = _tally(used, cells.index).T
    p = np.full(len(cells), np.nan)
    if rule == "sign":
        p = p_value(right, n_used - right)
    elif rule == "sign_sequential":
        p = _p_by_betting(used, cells["population"])
    cells = cells.assign(n_used=n_used, n_used_right=right, p_value=p)
    decisions = [_decision(cell, rule, alpha, which) for cell in cells.itertuples()]
    decision, reason = np.array(decisions, object).T
    return cells.assign(decision=decision, reason=reason)


def _tally(outcomes: pd.DataFrame, index: pd.Index) -> np.ndarray:
    """[index, 2] number of outcomes that favour one ranking, and of those that favour the
    bias-aware one."""
    sure = outcomes[outcomes["right"] != TIE]
    counts = sure.groupby(index.names)["right"].agg(["size", "sum"])
    return counts.reindex(index, fill_value=0).to_numpy(int)


def _p_by_betting(used: pd.DataFrame, population: pd.Series) -> np.ndarray:
    """The inverse of the largest wealth that betting reaches on the outcomes of each entry of
    `population`, the number of pairs they were drawn from: a p-value whenever labelling stops, if
    under the null hypothesis each has a mean of at most 1/2 given those before it."""
    by = [str(name) for name in population.index.names]
    groups = used.groupby(by)
    at = groups.ngroup().to_numpy(), groups.cumcount().to_numpy()
    outcomes = np.full([padding.size(int(number.max(initial=0)) + 1) for number in at], TIE)
    odds = np.full(len(outcomes), np.inf)
    outcomes[at] = used["right"]
    odds[at[0]] = used.join(population, on=by)["population"]
    with runtime.precision("float64"):
        wealth = jax.device_get(_wealth(outcomes, odds))
    largest = used.assign(wealth=wealth[at]).groupby(by)["wealth"].max()
    return 1 / largest.reindex(population.index, fill_value=1).clip(lower=1).to_numpy()


@quick_compilation.jit
def _wealth(outcomes: Array, population: Array) -> Float[Array, "sequences n"]:
    return jax.vmap(betting.wealth)(outcomes, population)


def _decision(cell: Any, rule: str, alpha: float, which: str) -> tuple[str | None, str]:
    """The decision from one row of counts, None if nothing can be decided, and its reason."""
    if not usable(Status(cell.status)):
        return None, f"no rankings to compare: {Status(cell.status).name.lower()}"
    if not cell.n_labels:
        return None, "no labels"
    if cell.settled:
        return KEEP_OFF, cell.settled
    if rule == "census":
        n, m = cell.n_labelled, cell.n_disputed
        if n < m:
            return None, f"{n} of {m} disputed members labelled, census needs all"
        reason = f"all {m} disputed members labelled: {cell.gain:+d} of the truly best are gained"
        return ENABLE if cell.gain > 0 else KEEP_OFF, reason
    if not cell.n_used:
        ties = f", though {cell.n_ties} on pairs that one ranking ties" * bool(cell.n_ties)
        return KEEP_OFF, f"no discordant label{ties}"
    enable = cell.p_value <= alpha
    reason = f"{cell.n_used_right} of {cell.n_used} discordant labels right{which}"
    reason += f", p = {cell.p_value:.2g} {'<=' if enable else '>'} {alpha:g}"
    if rule == "sign" and cell.n_used < needed(alpha):
        reason += f"; at least {needed(alpha)} are needed"
    return ENABLE if enable else KEEP_OFF, reason


# --- which ranking each label favours


def of_pairs(
    rankings: Rankings, seed: int, in_order: bool = False
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Compare labels of pairs with the two rankings of each judge.

    Args:
      rankings: rankings of tables with such anchors.
      seed: seed of every draw.
      in_order: let the order of the table, instead of chance, say which label represents its pool,
        so that more labels do not change what the first rows gave.

    Returns:
      A row for each label on which the rankings of a judge differ: judge, pool (numbers), at (row
      of the anchors), draw (number; in decisions over pools the label with the smallest one
      represents its pool), right (1 where the label agrees with the bias-aware ranking, 0 where it
      agrees with the naive one). And counts: n_labels [pools]; n_ties [J, pools], labels on pairs
      that only one ranking ties, which are not discordant.
    """
    tables = rankings.tables
    better, worse = (
        rankings.owner[tables.anchors[side].to_numpy()] for side in ("better", "worse")
    )
    low, high = np.minimum(better, worse), np.maximum(better, worse)
    again, both = repeated(low * len(rankings.pool) + high, better)
    at = np.flatnonzero(~again & ~both & (better != worse))
    pool = tables.anchors["pool"].to_numpy()[at]
    draw = at.astype(float)
    by_name = np.lexsort((high[at], low[at]))
    for p in () if in_order else np.unique(pool).tolist():
        rows = by_name[pool[by_name] == p]
        draw[rows] = seeded(seed, "pairs", tables.pools[p]).random(len(rows))
    naive, aware = rankings.orders(better[at], worse[at])
    judge, label = np.nonzero(naive * aware < 0)
    outcomes = {
        "judge": judge,
        "pool": pool[label],
        "at": at[label],
        "draw": draw[label],
        "right": np.where(aware[judge, label] > 0, 1.0, 0.0),
    }
    tied = (naive != aware) & (naive * aware == 0)
    n_labels = np.bincount(pool, minlength=len(tables.pools))
    return pd.DataFrame(outcomes), {"n_labels": n_labels, "n_ties": rankings.by_pool(tied, pool)}


def of_members(
    rankings: Rankings, k: int, seed: int, in_order: bool = False
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Compare labels of members with the two top k of each judge.

    Args: as `of_pairs`.

    Returns:
      A row for each matched pair of labels, as from `of_pairs`; right is 1/2 where it favours
      neither ranking. And counts: n_labels [pools]; [J, pools] n_disputed, contents in only one
      top k; n_labelled, those that are labelled; gain, members among the labelled contents of the
      bias-aware top alone less those among the naive one's.
    """
    tables, (ins, outs) = rankings.tables, rankings.swapped(k, seed)
    good, place = content_labels(rankings)
    known = np.isfinite(good)
    rows = []
    for p, contents in enumerate(rankings.pools()):
        labelled = contents[known[contents]]
        for j in range(len(ins)):
            rng = seeded(seed, "members", tables.pools[p])
            a, b = (rng.permutation(labelled[side[j, labelled]]) for side in (ins, outs))
            if in_order:
                a, b = (side[np.argsort(place[side])] for side in (a, b))
            for draw, (i, o) in enumerate(zip(a, b, strict=False)):
                right = TIE + (good[i] - good[o]) / 2
                rows.append((j, p, max(place[i], place[o]), draw, right))
    columns = {"judge": int, "pool": int, "at": int, "draw": int, "right": float}
    outcomes = pd.DataFrame(rows, columns=list(columns)).astype(columns)
    value = np.where(known, good, 0)
    counts = {
        "n_labels": np.bincount(rankings.pool[known], minlength=len(tables.pools)),
        "n_ties": np.zeros(1, int),
        "n_disputed": rankings.by_pool(ins | outs, rankings.pool),
        "n_labelled": rankings.by_pool((ins | outs) & known, rankings.pool),
        "gain": rankings.by_pool(ins * value - outs * value, rankings.pool),
    }
    return outcomes, counts


def content_labels(rankings: Rankings) -> tuple[np.ndarray, np.ndarray]:
    """[E] whether each content is labelled a member, 1 or 0, or NaN if it is not labelled or its
    items are labelled both ways; and [E] the row of its first label."""
    members = rankings.tables.members
    owner = rankings.owner[members["item"].to_numpy()]
    labelled = np.zeros((2, len(rankings.pool)), bool)
    labelled[members["member"].to_numpy().astype(int), owner] = True
    place = np.zeros(len(rankings.pool), int)
    place[owner[::-1]] = np.arange(len(owner))[::-1]
    return np.where(labelled[0] ^ labelled[1], labelled[1], np.nan), place


def one_a_pool(outcomes: pd.DataFrame, tables: Tables, seed: int) -> pd.DataFrame:
    """One outcome for each judge and pool, the pools in a random order that depends on their names
    and the seed only: neither on what is labelled nor on the order of any table."""
    drawn = outcomes.sort_values("draw", kind="stable").drop_duplicates(["judge", "pool"])
    turn = np.array([seeded(seed, "turn", name).random() for name in tables.pools])
    return drawn.iloc[np.lexsort((drawn["pool"], turn[drawn["pool"]]))]
