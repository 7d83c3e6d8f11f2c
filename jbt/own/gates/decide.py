"""Whether to switch the correction on for real judges, decided from trusted labels.

In one pool the labels are taken for a random draw of its disputed pairs, or disputed members,
none of which is used twice. Then the sign test enables with probability at most alpha

- of pairs, where the bias-aware ranking is right on at most half of the untied pairs of the pool
  that the two rankings order oppositely (see `jbt.gate.rules.sign`);
- of members, where recall would not rise. For with m contents a side, matched at random, the pairs
  that favour either side differ in number by what recall would gain times k, so that at most half
  of the discordant ones favour the bias-aware side; and the labelled ones are a draw of these
  without replacement, as above. Every label is used once, so stored noise keeps it: labels that
  err independently, with chances that depend on whether the content is good, below one half, and
  not on the side it is on.

Labels of one pool go together. Over the pools of a judge the sign test uses one label of each,
drawn at random:

- of pairs, from the pool's discordant labels. Which pools have any does not hang on what the labels
  say, so that the number right is a sum of independent draws whose chances, of n pools, have a mean
  of at most 1/2 if the bias-aware ranking is right on at most half of a pool's disputed pairs in
  the mean over these pools. Its tail from n/2 + 1 on is then at most the binomial's (Hoeffding,
  1956, Annals of Mathematical Statistics 27, theorem 4), and at alpha below 1/2 nothing else
  enables.
- of members, from all matched pairs, discordant or not. For pools drawn at random of a population
  in which a swap of one content for another gains nothing in the mean, the discordant ones favour
  the bias-aware side with a chance of at most 1/2. With one content a side in every pool, as at
  k = 1, that is mean recall.

Betting (`sign_sequential`) takes labels for certain: wealth is infinite once more than half of the
population is right. In a pool it takes them in the order of their table, members matched as they
come, so that what was said stays as more labels come. Over pools a bet needs a mean of at most 1/2
given the labels before it, and a mean over unlike pools in some order of theirs does not give it.
So the first label of each is taken, pools in a random order that their names and the seed alone
set: for pools drawn at random of a population whose mean is at most 1/2, these are draws alike and
independent. A pool that is labelled later may fall anywhere in that order, so that it bounds one
decision, not one at every stop.
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
from jbt.own.tables.reading import TableError
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
      tables: with anchors; pools not merged.
      batch: of these tables, or of the same with their pools merged: one c a judge.
      rule: default the sign test at 0.05.
      k: size of the top set (count of contents).
      labels: of which pairs the anchors were drawn (`jbt.gate.LABELS`); default all pairs, or
        members where they are labels of members.
      hold_out: share of the anchors that do not decide (pools, or labels of one pool); the
        decisions are tried on them.
      tie_breaks: whether a pair that one ranking ties and the other does not is discordant, too.
      prior: default `Prior()`.
      seed: of every draw.

    Raises:
      TableError: no anchors, or not of this kind.
      ValueError: an argument out of range, k among them where it is not below the contents of
        some pool that has several.
    """
    rule = Rule() if rule is None else rule
    check_word("tie_breaks", tie_breaks, (True, False))
    labels = _kind(tables, labels, rule.name)
    check_seed(seed)
    if not 0 <= hold_out < 1:
        raise ValueError(f"hold_out must lie in [0, 1), got {hold_out:g}")
    kept, held = split(tables, hold_out, seed) if hold_out else (tables, None)
    rankings = Rankings.of(tables, batch, prior)
    rankings.check_k(k)
    how = {"tie_breaks": tie_breaks, "in_order": rule.name == "sign_sequential"}
    found = outcomes(kept, rankings, k, seed, **how)
    alone = len(batch.tables.pools) == len(tables.pools)
    pools = _of_pools(tables, rankings, found, rule, labels, alone & _of_two(tables))
    judges = [dataclasses.replace(of, pool=None) for of in pools]
    if len(tables.pools) > 1:
        judges = _of_judges(tables, rankings, found, rule)
    if held is not None:
        tried = outcomes(held, rankings, k, seed, **how)
        judges = [dataclasses.replace(d, held_out=_held(tried, j, d)) for j, d in enumerate(judges)]
    return Gate(pools, judges, labels, rule, k, tie_breaks, tables.n_unanswered, batch)


def pairs_alone(tables: Tables) -> bool:
    """Whether no pool has more than two items, so that a covariate can change no pool's order:
    fitted alone, a pool's c takes from the apparent difference of the two less than all of it."""
    return bool(_of_two(tables).all())


def _of_two(tables: Tables) -> np.ndarray:
    """[pools] which have no more than two items."""
    return np.bincount(tables.items["pool"], minlength=len(tables.pools)) <= 2


def _kind(tables: Tables, labels: str | None, rule: str) -> str:
    """The kind of the labels."""
    if tables.anchors.empty and tables.members.empty:
        why = f": {'; '.join(tables.left_out)}" if tables.left_out else ""
        raise TableError(f"a gate needs trusted labels (--anchors), and there are none{why}")
    there = "pairs" if tables.members.empty else "members"
    labels = there if labels is None else labels
    check_word("labels", labels, LABELS)
    if (labels == "members") != (there == "members"):
        raise TableError(f"labels are to be {labels}, but the anchors are labels of {there}")
    if rule == "census" and labels != "members":
        raise ValueError("the rule census needs labels of members")
    return labels


def _of_pools(
    tables: Tables, rankings: Rankings, found: Outcomes, rule: Rule, labels: str, alone: np.ndarray
) -> list[Decision]:
    """Each pool with every judge; `alone` [pools] are those of two items that were fitted alone."""
    counts = found.counts()
    if rule.name == "sign_sequential":
        enable, p = _by_betting(rankings, found, rule, labels)
    else:
        enable, p = _by_counts(rule, *counts, None if found.census is None else found.census.gain)
    first = np.array([members[0] for members in rankings.pools()])
    same = alone & (rankings.n_disputed(tie_breaks=True) == 0)
    decisions = []
    for g, pool in enumerate(tables.pools):
        for j, judge in enumerate(tables.judges):
            settled, used = "", (int(counts[0][j, g]), int(counts[1][j, g]))
            if same[j, g]:
                settled = "two items, fitted alone: no covariate can change their order"
            elif found.census is not None and not found.census.n_disputed[j, g]:
                settled = "both rankings have the same top k"
            decisions.append(
                _decision(
                    rule,
                    found,
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


def _of_judges(tables: Tables, rankings: Rankings, found: Outcomes, rule: Rule) -> list[Decision]:
    """Every judge over the pools that have a label."""
    drawn = found.one_a_pool()
    each = [drawn.loc[drawn["judge"] == j, "right"].to_numpy() for j in range(len(tables.judges))]
    right, wrong = (np.array([(of == v).sum() for of in each]) for v in (1, 0))
    counts, labelled = [of.sum(1) for of in found.counts()], found.n_labels > 0
    if rule.name == "sign_sequential":
        enable, p = rule.of_sequences(each, np.full(len(each), np.inf))
    else:
        gain = None if found.census is None else found.census.gain[:, labelled].sum(1)
        enable, p = _by_counts(rule, right, wrong, gain)
    decisions = []
    for j, judge in enumerate(tables.judges):
        ranked = np.isfinite(rankings.aware[j]).any()
        decisions.append(
            _decision(
                rule,
                found,
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
    rule: Rule, right: np.ndarray, wrong: np.ndarray, gain: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Whether a rule other than betting enables, and the p-value, of counts of any one shape."""
    if rule.name != "census":
        return rule.of_counts(right, wrong)
    assert gain is not None
    return gain > 0, np.full(gain.shape, np.nan)


def _decision(
    rule: Rule,
    found: Outcomes,
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
    """One decision.

    Args:
      at: of what, an index of arrays [J, pools].
      names: of the pool and of the judge.
      labels: that are discordant (count), right and wrong; used: of these, that decide.
      settled: why there is nothing to switch on, whatever the labels are; else empty.
      which: labels were used, in words.
    """
    n_labels, n_ties = int(found.n_labels[at[1]].sum()), int(found.n_ties[at].sum())
    decision = ENABLE if enable else KEEP_OFF
    if reason := _nothing(status, n_labels):
        decision = None
    elif settled:
        reason, decision = settled, KEEP_OFF
    elif rule.name == "census":
        assert found.census is not None
        reason, complete = _of_census(found.census, at)
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
    """Why there is nothing to decide; empty where there is."""
    if status not in (Status.CONVERGED, Status.COVARIATE_CONSTANT):
        return f"no rankings to compare: {status.name.lower()}"
    return "" if n_labels else "no labels"


def _reason(
    rule: Rule, right: int, n: int, p: float, enable: bool, n_ties: int, which: str = ""
) -> str:
    """Why a rule other than `census` decides as it does."""
    if not n:
        ties = f", though {n_ties} on pairs that one ranking ties, which --tie-breaks counts"
        return "no discordant label" + ties * bool(n_ties)
    said = f"{right} of {n} discordant labels right" + f" ({which})" * bool(which)
    if rule.name in ("sign", "sign_sequential"):
        said += f", p = {p:.2g} {'<=' if enable else '>'} {rule.alpha:g}"
        if rule.name == "sign" and n < rule.needed:
            said += f"; at least {rule.needed} are needed"
        return said
    return f"{said}; {rule.name} asks for {RULES[rule.name]}"


def _of_census(census: Census, at: Any) -> tuple[str, bool]:
    """The reason of `census`, and whether all labels are there."""
    n, m = (int(of[at].sum()) for of in (census.n_labelled, census.n_disputed))
    if n < m:
        return f"{n} of {m} disputed members labelled, census needs all", False
    gain = int(census.gain[at].sum())
    return f"all {m} disputed members labelled: {gain:+d} of the truly best are gained", True


def _held(tried: Outcomes, j: int, decision: Decision) -> Held:
    right, wrong = (int(of[j].sum()) for of in tried.counts())
    naive, aware = (float(of) for of in tried.agreement[:, j])
    return Held(
        n_labels=int(tried.n_labels.sum()),
        naive=naive,
        bias_aware=aware,
        gated=aware if decision.decision == ENABLE else naive,
        n_discordant=right + wrong,
        n_right=right,
    )


def _by_betting(
    rankings: Rankings, found: Outcomes, rule: Rule, labels: str
) -> tuple[np.ndarray, np.ndarray]:
    """[J, pools] whether betting enables, and its p-value, of labels in the order of their table.

    Labels are drawn without replacement, so that the number of pairs they are drawn from sets the
    odds. Pairs labelled a tie are not among the labels: a population that counts them makes odds
    that are too short whenever there is a bet, as it is placed only while right is not behind.
    """
    shape = found.counts()[0].shape
    if found.census is not None:
        population = found.census.n_disputed / 2
    elif labels == "swaps":  # short odds, too
        population = np.full(shape, np.inf)
    else:
        population = rankings.n_disputed(tie_breaks=found.tie_breaks).astype(float)
    enable, p = np.zeros(shape, bool), np.ones(shape)
    groups = list(found.table.sort_values("at", kind="stable").groupby(["judge", "pool"]))
    at = tuple(np.array([key for key, _ in groups], int).reshape(-1, 2).T)
    sequences = [of["right"].to_numpy() for _, of in groups]
    enable[at], p[at] = rule.of_sequences(sequences, population[at])
    return enable, p
