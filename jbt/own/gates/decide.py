"""Decide from trusted labels whether to switch the correction on for real judges.

Within one pool, the labels are assumed to be a random draw of its disputed pairs or disputed
members; none is used twice. The sign test then enables with probability at most alpha

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

import dataclasses
from typing import Any

import numpy as np

from jbt.gate import LABELS, RULES
from jbt.own.fits.batch import Batch
from jbt.own.gates.decision import ENABLE, KEEP_OFF, Decision, Held
from jbt.own.gates.outcomes import Census, Outcomes, outcomes, split
from jbt.own.gates.rankings import Rankings
from jbt.own.gates.report import Gate
from jbt.own.gates.rule import Rule
from jbt.own.tables.sheets import TableError
from jbt.own.tables.tables import Tables
from jbt.simulation.simulate import check_seed
from jbt.types import Prior, Status, check_word


def gate(
    tables: Tables,
    batch: Batch,
    *,
    rule: Rule | None = None,
    k: int = 1,
    labels: str | None = None,
    hold_out: float = 0.0,
    tie_breaks: bool = False,
    prior: Prior | None = None,
    seed: int = 0,
) -> Gate:
    """Decide for every pool and judge, and for every judge over all pools.

    Args:
      tables: tables with anchors; pools not merged.
      batch: batch of these tables, or of the same with their pools merged: one c a judge.
      rule: default: the sign test at 0.05.
      k: size of the top set (count of contents).
      labels: the population of pairs from which the anchors were drawn (`jbt.gate.LABELS`);
        default: all pairs, or members if they are labels of members.
      hold_out: share of the anchors that do not decide, but test the decisions (whole pools, or
        labels where there is one pool).
      tie_breaks: whether a pair that only one ranking ties is discordant, too.
      prior: default: `Prior()`.
      seed: seed of every draw.

    Raises:
      TableError: no anchors, or not of this kind.
      ValueError: an argument out of range; k not smaller than the number of contents of some pool
        that has several.
    """
    rule = Rule() if rule is None else rule
    check_word("tie_breaks", tie_breaks, (True, False))
    labels = _kind(tables, labels, rule.name, k)
    check_seed(seed)
    if not 0 <= hold_out < 1:
        raise ValueError(f"hold_out must lie in [0, 1), got {hold_out:g}")
    kept, held = split(tables, hold_out, seed) if hold_out else (tables, None)
    rankings = Rankings.of(tables, batch, prior)
    rankings.check_k(k)
    options = {"tie_breaks": tie_breaks, "in_order": rule.name == "sign_sequential"}
    compared = outcomes(kept, rankings, k, seed, **options)
    alone = len(batch.tables.pools) == len(tables.pools)
    pools = _of_pools(tables, rankings, compared, rule, labels, alone & _of_two(tables))
    judges = [dataclasses.replace(decision, pool=None) for decision in pools]
    if len(tables.pools) > 1:
        judges = _of_judges(tables, rankings, compared, rule)
    if held is not None:
        test = outcomes(held, rankings, k, seed, **options)
        judges = [dataclasses.replace(d, held_out=_held(test, j, d)) for j, d in enumerate(judges)]
    return Gate(pools, judges, labels, rule, k, tie_breaks, tables.n_unanswered, batch)


def pairs_alone(tables: Tables) -> bool:
    """Whether no pool has more than two items. Then no covariate can change a pool's order: in a
    fit of the pool alone, c explains less than the whole apparent difference of the two."""
    return bool(_of_two(tables).all())


def _of_two(tables: Tables) -> np.ndarray:
    """[pools] whether each has no more than two items."""
    return np.bincount(tables.items["pool"], minlength=len(tables.pools)) <= 2


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


def _of_pools(
    tables: Tables,
    rankings: Rankings,
    compared: Outcomes,
    rule: Rule,
    labels: str,
    alone: np.ndarray,
) -> list[Decision]:
    """Decide for each pool and judge; `alone` [pools]: has two items and was fitted alone."""
    counts, census = compared.counts(), compared.census
    if rule.name == "sign_sequential":
        enable, p = _by_betting(rankings, compared, rule, labels)
    else:
        gain = None if census is None else census.gain
        enable, p = _by_counts(rule, *counts, compared.n_labels, gain)
    first = np.array([members[0] for members in rankings.pools()])
    same = alone & (rankings.n_disputed(tie_breaks=True) == 0)
    decisions = []
    for g, pool in enumerate(tables.pools):
        for j, judge in enumerate(tables.judges):
            settled, used = "", (int(counts[0][j, g]), int(counts[1][j, g]))
            if same[j, g]:
                settled = "two items, fitted alone: no covariate can change their order"
            elif census is not None and not census.n_disputed[j, g]:
                settled = "both rankings have the same top k"
            decisions.append(
                _decision(
                    rule,
                    compared,
                    np.s_[j, g],
                    (pool, judge),
                    Status(int(rankings.status[j, first[g]])),
                    used,
                    used,
                    bool(enable[j, g]),
                    float(p[j, g]),
                    settled=settled,
                )
            )
    return decisions


def _of_judges(
    tables: Tables, rankings: Rankings, compared: Outcomes, rule: Rule
) -> list[Decision]:
    """Decide for each judge over the pools that have a label."""
    drawn, judges = compared.one_a_pool(), range(len(tables.judges))
    sequences = [drawn.loc[drawn["judge"] == j, "right"].to_numpy() for j in judges]
    right, wrong = (np.array([(labels == v).sum() for labels in sequences]) for v in (1, 0))
    counts, labelled = [n.sum(1) for n in compared.counts()], compared.n_labels > 0
    if rule.name == "sign_sequential":
        enable, p = rule.of_sequences(sequences, np.full(len(sequences), np.inf))
    else:
        gain = None if compared.census is None else compared.census.gain[:, labelled].sum(1)
        enable, p = _by_counts(rule, right, wrong, labelled.sum(), gain)
    decisions = []
    for j, judge in enumerate(tables.judges):
        ranked = np.isfinite(rankings.aware[j]).any()
        decisions.append(
            _decision(
                rule,
                compared,
                np.s_[j, labelled],
                (None, judge),
                Status.CONVERGED if ranked else Status(int(rankings.status[j, 0])),
                (int(counts[0][j]), int(counts[1][j])),
                (int(right[j]), int(wrong[j])),
                bool(enable[j]),
                float(p[j]),
                which="one a pool",
            )
        )
    return decisions


def _by_counts(
    rule: Rule,
    right: np.ndarray,
    wrong: np.ndarray,
    bought: np.ndarray | np.integer,
    gain: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Whether a rule other than betting enables, and its p-value, for arrays of one shape."""
    if rule.name != "census":
        return rule.of_counts(right, wrong, bought)
    assert gain is not None
    return gain > 0, np.full(gain.shape, np.nan)


def _decision(
    rule: Rule,
    compared: Outcomes,
    at: Any,
    names: tuple[str | None, str | None],
    status: Status,
    labels: tuple[int, int],
    used: tuple[int, int],
    enable: bool,
    p: float,
    *,
    settled: str = "",
    which: str = "",
) -> Decision:
    """Make one decision.

    Args:
      at: index into arrays [J, pools] of what it is about.
      names: of the pool and of the judge.
      labels: numbers of discordant labels, right and wrong; used: of those that decide.
      settled: why there is nothing to switch on whatever the labels are, or empty.
      which: which labels were used, in words.
    """
    n_labels, n_ties = int(compared.n_labels[at[1]].sum()), int(compared.n_ties[at].sum())
    decision = ENABLE if enable else KEEP_OFF
    if reason := _nothing(status, n_labels):
        decision = None
    elif settled:
        reason, decision = settled, KEEP_OFF
    elif rule.name == "census":
        assert compared.census is not None
        reason, complete = _of_census(compared.census, at)
        decision = decision if complete else None
    else:
        reason = _reason(rule, used[0], sum(used), p, enable, n_ties, which)
    return Decision(
        pool=names[0],
        judge=names[1],
        decision=decision,
        n_labels=n_labels,
        n_discordant=sum(labels),
        n_right=labels[0],
        n_used=sum(used),
        n_used_right=used[0],
        p_value=p,
        reason=reason,
    )


def _nothing(status: Status, n_labels: int) -> str:
    """Why there is nothing to decide from; empty if there is."""
    if status not in (Status.CONVERGED, Status.COVARIATE_CONSTANT):
        return f"no rankings to compare: {status.name.lower()}"
    return "" if n_labels else "no labels"


def _reason(
    rule: Rule, right: int, n: int, p: float, enable: bool, n_ties: int, which: str = ""
) -> str:
    """The reason of a decision by a rule other than `census`."""
    if not n:
        ties = f", though {n_ties} on pairs that one ranking ties, which --tie-breaks counts"
        return "no discordant label" + ties * bool(n_ties)
    reason = f"{right} of {n} discordant labels right" + f" ({which})" * bool(which)
    if rule.name in ("sign", "sign_sequential"):
        reason += f", p = {p:.2g} {'<=' if enable else '>'} {rule.alpha:g}"
        if rule.name == "sign" and n < rule.needed:
            reason += f"; at least {rule.needed} are needed"
        return reason
    return f"{reason}; {rule.name} needs {RULES[rule.name]}"


def _of_census(census: Census, at: Any) -> tuple[str, bool]:
    """The reason of a decision by `census`, and whether the labels are complete."""
    n, m = (int(counts[at].sum()) for counts in (census.n_labelled, census.n_disputed))
    if n < m:
        return f"{n} of {m} disputed members labelled, census needs all", False
    gain = int(census.gain[at].sum())
    return f"all {m} disputed members labelled: {gain:+d} of the truly best are gained", True


def _held(test: Outcomes, j: int, decision: Decision) -> Held:
    right, wrong = (int(counts[j].sum()) for counts in test.counts())
    naive, aware = (float(share) for share in test.agreement[:, j])
    return Held(
        n_labels=int(test.n_labels.sum()),
        naive=naive,
        bias_aware=aware,
        gated=aware if decision.decision == ENABLE else naive,
        n_discordant=right + wrong,
        n_right=right,
    )


def _by_betting(
    rankings: Rankings, compared: Outcomes, rule: Rule, labels: str
) -> tuple[np.ndarray, np.ndarray]:
    """[J, pools] whether betting enables, and its p-value, on labels in the order of their table.

    Labels are drawn without replacement, so the number of pairs they are drawn from sets the odds.
    Pairs labelled a tie are not among the labels. A population that counts them gives odds that are
    too short, which is safe: a bet is placed only while right is not behind.
    """
    shape = compared.counts()[0].shape
    if compared.census is not None:
        population = compared.census.n_disputed / 2
    elif labels == "swaps":  # odds that are too short, likewise
        population = np.full(shape, np.inf)
    else:
        population = rankings.n_disputed(tie_breaks=compared.tie_breaks).astype(float)
    enable, p = np.zeros(shape, bool), np.ones(shape)
    groups = list(compared.discordant.sort_values("at", kind="stable").groupby(["judge", "pool"]))
    at = tuple(np.array([key for key, _ in groups], int).reshape(-1, 2).T)
    sequences = [group["right"].to_numpy() for _, group in groups]
    enable[at], p[at] = rule.of_sequences(sequences, population[at])
    return enable, p
