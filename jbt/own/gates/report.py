"""The result of `jbt gate` as a report, a table and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section
from jbt.own.fits.batch import Batch
from jbt.own.gates.decision import ENABLE, KEEP_OFF, Decision
from jbt.own.gates.rule import Rule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTED = 20
"""Most pools of a judge that a report lists."""

COLUMNS = (
    *("judge", "pool", "decision"),
    *("n_labels", "n_discordant", "n_right", "n_used", "n_used_right"),
    *("p_value", "reason"),
)

DRAWN = {
    "pairs": "pairs drawn at random from the pool",
    "disputed": "pairs drawn at random from those that the two rankings order differently",
    "swaps": "pairs drawn at random, of one content from each top k that the other lacks",
    "members": "contents drawn at random from those in only one top k",
}
"""How labels of each kind are assumed to be drawn."""

POPULATION = (
    "for a single decision, not repeated as labels come, on pools drawn at random from a "
    "population where"
)
"""Condition of the bound for betting over pools."""

SWAP = "a content swapped in is good no more often than the one swapped out"
"""The null hypothesis for labels of members over pools."""


@dataclass(frozen=True, eq=False)
class Gate:
    """The result of `jbt gate`."""

    pools: list[Decision]
    """One for each pool and judge, judges varying fastest."""
    judges: list[Decision]
    """One for each judge, over all its pools."""
    labels: str
    """Kind of the labels, one of `jbt.gate.LABELS`."""
    rule: Rule
    k: int
    tie_breaks: bool
    n_unanswered: int
    """Anchors left out because they have no answer (count)."""
    batch: Batch
    """The fitted batch."""

    def report(self, title: str, lead: Sequence[str], *, per_pool: bool = False) -> Report:
        """The report; `per_pool` lists all pools with a discordant label, however many."""
        lines = list(_fitted(self, self.batch))
        sections = [Section("Over all pools of a judge", lines, _judges(self))]
        if any(d.held_out is not None for d in self.judges):
            heading = "Held out: share of labels that a ranking has right (a tie counts half)"
            if self.labels == "members":
                heading = "Held out: share of the labelled contents of each top k that belong there"
            sections.append(Section(heading, (), _held_out(self)))
        counts = [_count(name, decisions) for name, decisions in _by_judge(self.pools)]
        few = len(self.pools) <= LISTED * len(self.judges)
        listed = [d for d in self.pools if d.n_discordant and (per_pool or few)]
        sections.append(Section("Pool by pool", counts, _pools(listed, self) if listed else None))
        guarantee = list(_guarantee(self))
        sections.append(Section("What is guaranteed, and what is not", guarantee))
        return Report(title, lead, sections, answer=[_answer(d) for d in self.judges])

    def to_frame(self) -> pd.DataFrame:
        """A row for each decision; one over all pools of a judge has no pool."""
        rows = [{name: getattr(d, name) for name in COLUMNS} for d in (*self.judges, *self.pools)]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        return {
            "pools": [decision.record() for decision in self.pools],
            "judges": [decision.record() for decision in self.judges],
            "n_unanswered": self.n_unanswered,
        }

    def figure(self) -> Figure:
        """Draw the discordant labels of each judge, by the ranking that they favour."""
        from jbt.border import plots

        drawn, ax = plots.new_figure(height=2.4)
        for at, d in enumerate(reversed(self.judges)):
            wrong = d.n_discordant - d.n_right
            ax.barh(at, d.n_right, color=plots.COLOURS["blue"])
            ax.barh(at, -wrong, color=plots.COLOURS["orange"])
            ax.text(d.n_right, at, f" {d.decision or 'nothing to decide'}", va="center")
        ax.axvline(0, color="grey", linewidth=0.8)
        ax.set_yticks(range(len(self.judges)), [_name(d) for d in reversed(self.judges)])
        ax.margins(x=0.2)
        ax.set_xlabel(
            "discordant labels in favour of naive (left) and of bias-aware (right), count"
        )
        return drawn


def _name(decision: Decision) -> str:
    return decision.judge or "all verdicts"


def _answer(decision: Decision) -> str:
    return f"{_name(decision)}: {decision.decision or 'undecided'}: {decision.reason}"


def _by_judge(decisions: list[Decision]) -> Iterator[tuple[str, list[Decision]]]:
    for judge in dict.fromkeys(d.judge for d in decisions):
        of_judge = [d for d in decisions if d.judge == judge]
        yield _name(of_judge[0]), of_judge


def _fitted(gate: Gate, batch: Batch) -> Iterator[str]:
    rule = gate.rule
    level = f" at alpha = {rule.alpha:g}" if rule.name.startswith("sign") else ""
    leads = {"margin": f" of {rule.margin}", "margin_share": f" of {rule.margin_share:g}"}
    level = leads.get(rule.name, level)
    if rule.name == "census":
        yield "rule: census, for labels without errors; over pools, all pools with a label count"
    else:
        used = "one label of each pool, drawn at random,"
        if rule.name == "sign_sequential":
            used = "the first label of each pool, in a random order of pools,"
        yield (
            f"rule: {rule.name}{level}, for labels that are {DRAWN[gate.labels]}; over pools "
            f"{used} counts, because labels of one pool are correlated"
        )
    if len(batch.tables.pools) < len(gate.pools) // len(gate.judges):
        chosen = {n for pool in batch.pools if pool.n_verdicts for n in pool.prior_selected}
        names = " and ".join(batch.covariates)
        why = f"the prior chose it, assuming that quality is uncorrelated with {names} over pools"
        yield "tested: one c for each judge, from all pools merged" + f"; {why}" * ("c" in chosen)
    elif len(batch.tables.pools) > 1:
        yield (
            "tested: one c for each pool and judge, as in jbt fit; to test the c of a "
            "leaderboard, use --merge-pools"
        )


def _judges(gate: Gate) -> pd.DataFrame:
    rows = [
        {
            "judge": _name(d),
            "labels": d.n_labels,
            "discordant": d.n_discordant,
            "right": d.n_right,
            "used": d.n_used,
            "used right": d.n_used_right,
            "p": d.p_value,
            "decision": d.decision or "",
        }
        for d in gate.judges
    ]
    return _table(rows, gate)


def _pools(decisions: list[Decision], gate: Gate) -> pd.DataFrame:
    rows = [
        {
            "judge": _name(d),
            "pool": d.pool,
            "labels": d.n_labels,
            "discordant": d.n_discordant,
            "right": d.n_right,
            "p": f"{d.p_value:.2g}" if np.isfinite(d.p_value) else "",
            "decision": d.decision or "",
            "reason": d.reason,
        }
        for d in decisions
    ]
    return _table(rows, gate)


def _table(rows: list[dict[str, object]], gate: Gate) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    return table.drop(columns="p") if gate.rule.name == "census" else table


def _held_out(gate: Gate) -> pd.DataFrame:
    rows = []
    for d in gate.judges:
        if (held := d.held_out) is not None:
            rows.append(
                {
                    "judge": _name(d),
                    "labels": held.n_labels,
                    "naive": held.naive,
                    "bias-aware": held.bias_aware,
                    "gated": held.gated,
                    "discordant": held.n_discordant,
                    "right": held.n_right,
                }
            )
    return pd.DataFrame(rows)


def _count(name: str, decisions: list[Decision]) -> str:
    counts = Counter(d.decision for d in decisions)
    parts = [f"{counts[ENABLE]} {ENABLE}", f"{counts[KEEP_OFF]} {KEEP_OFF}"]
    undecided = Counter(d.reason.partition(":")[0] for d in decisions if d.decision is None)
    parts += [f"{n} undecided ({why})" for why, n in undecided.items()]
    largest = max((d.n_discordant for d in decisions), default=0)
    most = f"; at most {largest} discordant labels in a pool" if largest else ""
    return f"{name}: of {len(decisions)} pools, {', '.join(parts)}{most}"


def _guarantee(gate: Gate) -> Iterator[str]:
    rule, members = gate.rule, gate.labels == "members"
    if rule.name == "census":
        yield (
            "census: if the labels are true, enabling it in a pool raises its recall of the top k, "
            "and enabling it over pools raises their mean recall"
        )
    elif not rule.name.startswith("sign"):
        yield (
            f"{rule.name}: nothing bounds how often it enables a correction that does not "
            "help; sign, sign_sequential and census are bounded"
        )
    else:
        yield from _of_members(gate) if members else _of_pairs(gate)
        if rule.name == "sign_sequential":
            yield (
                "the bound of a pool holds whenever labelling stops, if labels come in the order "
                "of the file, without --hold-out; it assumes labels without errors: a wrong one "
                "may break it"
            )
        if gate.n_unanswered:
            yield (
                f"anchors without an answer (left out): {gate.n_unanswered}; if the hard ones are "
                "left without an answer, the bounds hold only for "
                f"{'members' if members else 'pairs'} that can be answered"
            )
        yield (
            "the bounds assume labels drawn at random, as jbt plan labels draws them, and hold for "
            "each decision separately: of many pools that the correction does not help, a share "
            "of alpha may be enabled"
        )


def _of_pairs(gate: Gate) -> Iterator[str]:
    pairs = "swapped pairs" if gate.labels == "swaps" else "untied pairs"
    where = "that the two rankings order oppositely"
    where = f"{where}, or that only one of them orders" if gate.tie_breaks else where
    yield (
        f"in a pool where the bias-aware ranking is right on at most half of the {pairs} "
        f"{where}, the correction is enabled with probability at most {gate.rule.alpha:g}"
    )
    if gate.tie_breaks:
        yield (
            "on a pair that one ranking ties, the other is right if it agrees with the label, "
            "and the tie is right if it does not"
        )
    if gate.rule.name == "sign":
        yield (
            "wrong labels keep this bound if errors are independent and have one probability, "
            "below one half, whichever ranking is right; the bound is not proved if one annotator "
            "labels a whole pool, because a misjudged content is wrong in all its pairs; it fails "
            "if errors depend on a covariate"
        )
        yield (
            "over pools: the same bound where the mean of that share over pools with such a label "
            "is at most half"
        )
    else:
        yield (
            f"over pools: the same bound {POPULATION} the mean of that share over pools with such "
            "a pair is at most half"
        )
    yield (
        f"this bounds agreement on pairs, not the recall of the top {gate.k}, which falls at a "
        "lower correlation than agreement does; labels of members bound recall"
    )


def _of_members(gate: Gate) -> Iterator[str]:
    rule = gate.rule
    yield (
        f"in a pool whose top-{gate.k} recall the correction would not raise, it is enabled "
        f"with probability at most {rule.alpha:g}"
    )
    if rule.name == "sign":
        yield (
            "wrong labels keep this bound if errors are independent and have one probability for "
            "good contents and one for others, both below one half and the same in either top k; "
            "it fails if errors depend on a covariate"
        )
    where = f"where, in the mean over pools like these, {SWAP}"
    if rule.name == "sign_sequential":
        where = f"{POPULATION}, in the mean over its pools, {SWAP}"
    yield f"over pools: with probability at most {rule.alpha:g} {where}"
    if rule.name == "sign":
        n = rule.needed
        yield (
            f"in one pool sign needs at least {n} discordant matches ({2 * n} members): at k below "
            f"{n} it never enables, and at {n} hardly ever; if the labels are true use census, "
            "else the decision over pools"
        )
