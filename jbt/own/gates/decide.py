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

Over the pools of a judge:

- for pairs, the promise is about the disputed untied pairs of these pools, all together: it holds
  if the bias-aware ranking is right on at most half of them, however unlike the pools are. Labels
  drawn at random from the disputed pairs of all pools (`disputed`, `swaps`) are a draw from one
  urn, to which the proof for a pool applies. Labels drawn within each pool (`pairs`) are discarded
  at random until a pair of each pool has the same chance to count, that of the pool with the
  smallest share of its pairs labelled; the pools are those with labels. These indicators are
  strongly Rayleigh, so that the numbers of right and wrong labels vary less than the Poisson
  variables of the urn's limit (Braenden and Jonasson, 2012, Scandinavian Journal of Statistics 39);
  that they keep the level is simulated (benchmarks/calibration), not proved. Nothing is promised
  about other pools: to them the labels of one pool are not independent.
- for members, one match of each pool counts, drawn at random from all, discordant or not. If the
  pools are drawn at random from a population in which swapping one content for another gains
  nothing in the mean, each pool counting once, discordant matches favour the bias-aware side with a
  chance of at most 1/2. With one content a side in every pool, as at k = 1, this gain is that in
  mean recall.

Betting (`sign_sequential`) takes labels for certain: wealth is infinite once more than half of the
population is right. Within a pool it takes labels, and matches members, in the order of their
table, so that more labels do not change earlier bets. Over pools so it does with labels drawn from
all pools. Labels drawn within pools come in a random order, and members in a random order of pools
that depends on their names and the seed; a pool labelled later may come anywhere in it, so that
these bounds are for one decision, not at every stop.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from jbt import quick_compilation, runtime
from jbt.gate import LABELS, betting, check_alpha, p_value
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
      prior: default `Prior()`.
      seed: seed of every draw.

    Raises:
      TableError: no anchors, or not of this kind.
      ValueError: an argument out of range; k not smaller than the number of contents of some pool
        that has several.
    """
    check_word("rule", rule, RULES)
    check_alpha(alpha)
    check_seed(seed)
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
    elif rule == "census":
        raise ValueError("the rule census needs labels of members")
    rankings = Rankings.of(tables, batch, k, prior)
    alone = len(batch.tables.pools) == len(tables.pools)
    decided = decide(rankings, rule, alpha, labels, seed, fitted_alone=alone)
    return Gate(*decided, labels, rule, alpha, k, tables.n_unanswered, batch)


def pairs_alone(tables: Tables) -> bool:
    """Whether no pool has more than two items. Then no covariate can change a pool's order: in a
    fit of the pool alone, c explains less than the whole apparent difference of the two."""
    return bool((tables.items["pool"].value_counts() <= 2).all())


def decide(
    rankings: Rankings,
    rule: str,
    alpha: float,
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
    tables, members = rankings.tables, labels == "members"
    if members:
        outcomes, counts = of_members(rankings, seed, in_order=rule == "sign_sequential")
    else:
        outcomes, counts = of_pairs(rankings, labels, seed)
    counts["status"] = rankings.status[:, [members[0] for members in rankings.pools()]]
    if fitted_alone:
        a, b = rankings.pairs()
        changed = rankings.by_pool(np.not_equal(*rankings.orders(a, b)), rankings.pool[a])
        two = np.bincount(tables.items["pool"], minlength=len(tables.pools)) <= 2
        reason = "two items, fitted alone: no covariate can change their order"
        counts["settled"] = np.where(two & (changed == 0), reason, counts["settled"])

    shape = n_judges, n_pools = len(tables.judges), len(tables.pools)
    cells = pd.DataFrame(
        {name: np.broadcast_to(v, shape).T.ravel() for name, v in counts.items()},
        index=pd.MultiIndex.from_product(
            [range(n_pools), range(n_judges)], names=["pool", "judge"]
        ),
    )
    cells[["n_discordant", "n_right"]] = _tally(outcomes, cells.index)
    pools = _decided(cells, outcomes.sort_values("at", kind="stable"), rule, alpha)
    pools["pool"], pools["judge"] = (
        np.asarray(names, object)[cells.index.get_level_values(level)]
        for level, names in (("pool", tables.pools), ("judge", tables.judges))
    )
    if n_pools == 1:
        judges = pools.assign(pool=None)
    else:
        some = (cells["n_labels"] > 0) | (labels in ("disputed", "swaps"))
        sums = cells[some].groupby("judge").sum(numeric_only=True)
        sums = sums.reindex(range(n_judges), fill_value=0)
        ranked = np.isfinite(rankings.aware).any(1)
        sums["status"] = np.where(ranked, Status.CONVERGED, rankings.status[:, 0])
        sums = sums.assign(settled="")
        if members:
            sums, which = sums.assign(population=np.inf), " (one a pool)"
            drawn = one_a_pool(outcomes, rankings, seed)
        else:
            drawn = at_one_rate(outcomes, cells["rate"])
            which = " ({0.n_used} of {0.n_discordant} count)" * (len(drawn) < len(outcomes))
        judges = _decided(sums, drawn, rule, alpha, which=which)
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
      which: which labels these are, in words that are formatted with the row.
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
    by = list(population.index.names)
    turn = used.groupby(by).cumcount()
    bets = used.set_index([*(used[name] for name in by), turn])["right"].unstack()
    if bets.empty:
        return np.ones(len(population))
    with runtime.precision("float64"):
        wealth = _wealth(bets.fillna(TIE).to_numpy(), population[bets.index].to_numpy())
    largest = pd.Series(np.where(bets.notna(), wealth, 1).max(1), bets.index)
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
        ties = f", though {cell.n_ties} are on pairs that one ranking ties" * bool(cell.n_ties)
        return KEEP_OFF, f"no discordant label{ties}"
    enable = cell.p_value <= alpha
    reason = f"{cell.n_used_right} of {cell.n_used} discordant labels favour the correction"
    reason += f"{which.format(cell)}, p = {cell.p_value:.2g} {'<=' if enable else '>'} {alpha:g}"
    if rule == "sign" and cell.n_used < needed(alpha):
        reason += f"; at least {needed(alpha)} are needed"
    return ENABLE if enable else KEEP_OFF, reason


# --- which ranking each label favours


def of_pairs(
    rankings: Rankings, labels: str, seed: int
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Compare labels of pairs with the two rankings of each judge.

    Args:
      rankings: rankings of tables with such anchors.
      labels: as in `gate`.
      seed: seed of every draw.

    Returns:
      A row for each label on which the rankings of a judge differ: judge, pool (numbers), at (row
      of the anchors), draw (number in [0, 1), see `at_one_rate`; in the order of the table if
      labels are drawn from all pools), right (1 where the label agrees with the bias-aware ranking,
      0 where it agrees with the naive one). And counts, [J, pools] or what broadcasts to it:
      n_labels; n_ties, labels on pairs that only one ranking ties, which are not discordant;
      n_disputed, the pairs that the rankings order oppositely; population, those from which the
      discordant ones are drawn; rate, the share of them that counts in decisions over pools, see
      `at_one_rate`; settled, why nothing needs a test.
    """
    pair = rankings.owner[rankings.tables.anchors[["better", "worse"]].to_numpy().T]
    key = rankings.key(pair)
    again, both = repeated(key, pair[0])
    at = np.flatnonzero(~again & ~both & (pair[0] != pair[1]))
    at = at[np.argsort(key[at])]  # by name, so that the draws depend on no order of rows
    pool = rankings.pool[pair[0, at]]
    draw = rankings.drawn(pool, seed, "pairs")[0] if labels == "pairs" else at / (at + 1)
    naive, aware = rankings.orders(*pair[:, at])
    judge, label = np.nonzero(naive * aware < 0)
    outcomes = {
        "judge": judge,
        "pool": pool[label],
        "at": at[label],
        "draw": draw[label],
        "right": (aware[judge, label] > 0).astype(float),
    }
    tied = (naive != aware) & (naive * aware == 0)
    # Labels are drawn without replacement, so the number of pairs they are drawn from sets the odds
    # of a bet. Odds that are too short are safe, as a bet is placed only while right is not behind:
    # so the number may include pairs labelled a tie, and for swaps has no bound.
    a, b = rankings.pairs()
    disputed = rankings.by_pool(np.prod(rankings.orders(a, b), 0) < 0, rankings.pool[a])
    n_labels, rate = np.bincount(pool, minlength=len(rankings.tables.pools)), np.array(1.0)
    if labels == "pairs":
        listed = rankings.owner[rankings.tables.listed.T]
        listed = listed[:, listed[0] != listed[1]]
        once = np.unique(rankings.key(listed), return_index=True)[1]
        asked, every = (
            np.bincount(rankings.pool[i], minlength=len(n_labels)) for i in (listed[0, once], a)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where((n_labels > 0) & (disputed > 0), asked / every, np.inf)
            rate = share.min(1, keepdims=True) / share
    counts = {
        "n_labels": n_labels,
        "n_ties": rankings.by_pool(tied, pool),
        "n_disputed": disputed,
        "population": np.array(np.inf) if labels == "swaps" else disputed.astype(float),
        "rate": rate,
        "settled": np.array(""),
    }
    return pd.DataFrame(outcomes), counts


def of_members(
    rankings: Rankings, seed: int, in_order: bool = False
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Compare labels of members with the two top k of each judge.

    Args:
      rankings, seed: as in `of_pairs`.
      in_order: let the order of the table, instead of chance, say which match represents its pool,
        so that more labels do not change what the first rows gave.

    Returns:
      A row for each matched pair of labels, as from `of_pairs`; right is 1/2 where it favours
      neither ranking, and the match with the smallest draw represents its pool. And counts, besides
      those of `of_pairs` but for rate: [J, pools] n_disputed, contents in only one top k;
      n_labelled, those that are labelled; gain, members among the labelled contents of the
      bias-aware top alone less those among the naive one's.
    """
    members, (ins, outs) = rankings.tables.members, rankings.swapped(seed)
    every = np.arange(len(rankings.pool))
    owner = rankings.owner[members["item"].to_numpy()]
    # Whether each content is labelled a member, 1 or 0; NaN if it is not labelled, or both ways.
    share = members["member"].astype(float).groupby(owner).mean()
    good = share.where(share.isin((0, 1))).reindex(every).to_numpy()
    first = pd.Series(np.arange(len(owner))).groupby(owner).min()
    place, known = first.reindex(every, fill_value=0).to_numpy(), np.isfinite(good)
    matches = []
    for p, contents in enumerate(rankings.pools()):
        labelled = contents[known[contents]]
        for j in range(len(ins)):
            rng = seeded(seed, "members", rankings.tables.pools[p])
            a, b = (rng.permutation(labelled[side[j, labelled]]) for side in (ins, outs))
            if in_order:
                a, b = (side[np.argsort(place[side])] for side in (a, b))
            matches += [(j, p, i, o, n) for n, (i, o) in enumerate(zip(a, b, strict=False))]
    judge, pool, i, o, draw = np.array(matches, int).reshape(-1, 5).T
    outcomes = {
        "judge": judge,
        "pool": pool,
        "at": np.maximum(place[i], place[o]),
        "draw": draw,
        "right": TIE + (good[i] - good[o]) / 2,
    }
    n_disputed = rankings.by_pool(ins | outs, rankings.pool)
    gained = (ins.astype(int) - outs) * np.where(known, good, 0)
    counts = {
        "n_labels": np.bincount(rankings.pool[known], minlength=len(rankings.tables.pools)),
        "n_ties": np.array(0),
        "population": n_disputed / 2,
        "settled": np.where(n_disputed, "", "both rankings have the same top k"),
        "n_disputed": n_disputed,
        "n_labelled": rankings.by_pool((ins | outs) & known, rankings.pool),
        "gain": rankings.by_pool(gained, rankings.pool),
    }
    return pd.DataFrame(outcomes), counts


def at_one_rate(outcomes: pd.DataFrame, rate: pd.Series) -> pd.DataFrame:
    """The labels of pairs that count over pools, in the order of the bets: those whose draw is
    below the rate of their pool and judge. Every disputed pair of a pool with labels then has the
    same chance to count."""
    at = pd.MultiIndex.from_frame(outcomes[list(rate.index.names)])
    turn = outcomes["draw"] / rate.reindex(at).to_numpy()
    return outcomes[turn < 1].loc[turn[turn < 1].sort_values(kind="stable").index]


def one_a_pool(outcomes: pd.DataFrame, rankings: Rankings, seed: int) -> pd.DataFrame:
    """One outcome for each judge and pool, the pools in a random order that depends on their names
    and the seed only: neither on what is labelled nor on the order of any table."""
    drawn = outcomes.sort_values("draw", kind="stable").drop_duplicates(["judge", "pool"])
    turn = rankings.drawn(np.arange(len(rankings.tables.pools)), seed, "turn")[0]
    return drawn.iloc[np.lexsort((drawn["pool"], turn[drawn["pool"]]))]
