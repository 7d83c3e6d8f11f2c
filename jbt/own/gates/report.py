"""`jbt gate` in words, as a table and as a figure."""

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
    "pairs": "pairs of the pool drawn at random",
    "disputed": "pairs drawn at random of those that the two rankings order differently",
    "swaps": "pairs drawn at random, of one content that each top k has alone",
    "members": "contents drawn at random of those that one top k has alone",
}
"""What labels of a kind are taken for."""

POPULATION = (
    "for one decision, not again as labels come, on pools drawn at random from a population where"
)
"""Over which pools betting is bounded."""

SWAP = "a content swapped in is good no more often than the one swapped out"
"""When members do not favour the correction."""


@dataclass(frozen=True, eq=False)
class Gate:
    """What `jbt gate` reports."""

    pools: list[Decision]
    """Every pool with every judge in turn."""
    judges: list[Decision]
    """Over all pools of each judge."""
    labels: str
    """Their kind, of `jbt.gate.LABELS`."""
    rule: Rule
    k: int
    tie_breaks: bool
    n_unanswered: int
    """Anchors left out as they have no answer (count)."""
    batch: Batch
    """What was fitted."""

    def report(self, title: str, lead: Sequence[str], *, per_pool: bool = False) -> Report:
        """In words; `per_pool`: list the pools with a discordant label, however many there are."""
        lines = [*_fitted(self, self.batch), *(f"{_name(d)}: {d.reason}" for d in self.judges)]
        sections = [Section("Over all pools of a judge", lines, _judges(self))]
        if any(d.held_out is not None for d in self.judges):
            what = "Held out: share of the labels that a ranking has right, a tie being a half"
            if self.labels == "members":
                what = "Held out: share of the labelled of each top k that are truly among the best"
            sections.append(Section(what, (), _held(self)))
        counts = [_count(name, decisions) for name, decisions in _by_judge(self.pools)]
        few = len(self.pools) <= LISTED * len(self.judges)
        listed = [d for d in self.pools if d.n_discordant and (per_pool or few)]
        sections.append(Section("Pool by pool", counts, _pools(listed, self) if listed else None))
        guarantee = list(_guarantee(self))
        sections.append(Section("What is guaranteed, and what is not", guarantee))
        return Report(title, lead, sections)

    def to_frame(self) -> pd.DataFrame:
        """A row a decision; without a pool: over all pools of a judge."""
        rows = [{name: getattr(d, name) for name in COLUMNS} for d in (*self.judges, *self.pools)]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "pools": [decision.record() for decision in self.pools],
            "judges": [decision.record() for decision in self.judges],
            "n_unanswered": self.n_unanswered,
        }

    def figure(self) -> Figure:
        """The discordant labels of each judge, by whom they favour."""
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


def _name(of: Decision) -> str:
    return of.judge or "all verdicts"


def _by_judge(decisions: list[Decision]) -> Iterator[tuple[str, list[Decision]]]:
    for judge in dict.fromkeys(d.judge for d in decisions):
        of = [d for d in decisions if d.judge == judge]
        yield _name(of[0]), of


def _fitted(found: Gate, batch: Batch) -> Iterator[str]:
    rule = found.rule
    level = f" at alpha = {rule.alpha:g}" if rule.name.startswith("sign") else ""
    level = f" of {rule.margin}" if rule.name == "margin" else level
    if rule.name == "census":
        yield "rule: census, on labels taken for certain; over pools, all of those with a label"
    else:
        one = "one of each, drawn at random"
        if rule.name == "sign_sequential":
            one = "the first of each, pools in a random order"
        yield (
            f"rule: {rule.name}{level}, on labels taken for {DRAWN[found.labels]}; over pools "
            f"{one}, as labels of one pool go together"
        )
    if len(batch.tables.pools) < len(found.pools) // len(found.judges):
        chosen = {n for pool in batch.pools if pool.n_verdicts for n in pool.prior_selected}
        names = " and ".join(batch.covariates)
        why = f"the prior chose it, which takes quality to be uncorrelated with {names} over pools"
        yield "one c a judge, over merged pools" + f"; {why}" * ("c" in chosen)
    elif len(batch.tables.pools) > 1:
        yield "tested: a c for each pool and judge, as in jbt fit; a leaderboard's: --merge-pools"


def _judges(found: Gate) -> pd.DataFrame:
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
        for d in found.judges
    ]
    return _table(rows, found)


def _pools(decisions: list[Decision], found: Gate) -> pd.DataFrame:
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
    return _table(rows, found)


def _table(rows: list[dict[str, object]], found: Gate) -> pd.DataFrame:
    of = pd.DataFrame(rows)
    return of.drop(columns="p") if found.rule.name == "census" else of


def _held(found: Gate) -> pd.DataFrame:
    rows = []
    for d in found.judges:
        if (of := d.held_out) is not None:
            rows.append(
                {
                    "judge": _name(d),
                    "labels": of.n_labels,
                    "naive": of.naive,
                    "bias-aware": of.bias_aware,
                    "gated": of.gated,
                    "discordant": of.n_discordant,
                    "right": of.n_right,
                }
            )
    return pd.DataFrame(rows)


def _count(name: str, decisions: list[Decision]) -> str:
    told = Counter(d.decision for d in decisions)
    parts = [f"{told[ENABLE]} {ENABLE}", f"{told[KEEP_OFF]} {KEEP_OFF}"]
    without = Counter(d.reason.partition(":")[0] for d in decisions if d.decision is None)
    parts += [f"{n} undecided ({why})" for why, n in without.items()]
    some = [d.n_discordant for d in decisions if d.n_discordant]
    most = f"; at most {max(some)} discordant labels in one" if some else ""
    return f"{name}: of {len(decisions)} pools {', '.join(parts)}{most}"


def _guarantee(found: Gate) -> Iterator[str]:
    rule, members = found.rule, found.labels == "members"
    if rule.name == "census":
        yield (
            "census: if the labels are true, recall of the top k rises in every pool in which it "
            "enables, and over pools in their mean"
        )
    elif not rule.name.startswith("sign"):
        yield (
            f"{rule.name}: nothing bounds how often it enables a correction that does not "
            "help; sign, sign_sequential and census are bounded"
        )
    else:
        yield from _of_members(found) if members else _of_pairs(found)
        if rule.name == "sign_sequential":
            yield (
                "the bound of a pool holds whenever labelling stops, of labels that come in the "
                "order of the file, without --hold-out; they are taken for certain: a wrong one "
                "may break it"
            )
        if found.n_unanswered:
            yield (
                f"anchors without an answer: {found.n_unanswered}, left out; whether there is one "
                "may depend on how hard it is to give, so that all this holds only of "
                f"{'members' if members else 'pairs'} that can be answered"
            )
        yield (
            "this takes labels drawn at random, as jbt plan labels draws them, and is of each "
            "decision alone: of many pools with a correction that does not help, a share of "
            "alpha may enable"
        )


def _of_pairs(found: Gate) -> Iterator[str]:
    what = "swapped pairs" if found.labels == "swaps" else "untied pairs"
    where = "that the two order oppositely"
    where = f"{where}, or only one of them at all" if found.tie_breaks else where
    yield (
        f"in a pool where the bias-aware ranking is right on at most half of the {what} "
        f"{where}, the correction is enabled with probability at most {found.rule.alpha:g}"
    )
    if found.tie_breaks:
        yield "right on a pair that one ranking ties is whichever the other does not contradict"
    if found.rule.name == "sign":
        yield (
            "wrong labels keep this bound if they are wrong independently of one another and with "
            "one chance, below one half, whichever ranking is right; if one annotator gives a "
            "pool's labels, a misjudged content is wrong in all its pairs, and the bound is not "
            "proved; if errors go with a covariate, it fails"
        )
        yield "over pools: likewise where it is in the mean over the pools with such a label"
    else:
        yield f"over pools: likewise {POPULATION} it is in the mean over its pools with such a pair"
    yield (
        f"that is agreement on pairs: nothing is said of the recall of the top {found.k}, "
        "which falls at a lower correlation than agreement does; labels of members bound it"
    )


def _of_members(found: Gate) -> Iterator[str]:
    rule = found.rule
    yield (
        f"in a pool whose top-{found.k} recall the correction would not raise, it is enabled "
        f"with probability at most {rule.alpha:g}"
    )
    if rule.name == "sign":
        yield (
            "wrong labels keep this bound if they are wrong independently of one another, with one "
            "chance for good contents and one for others, below one half, in either top k; if "
            "errors go with a covariate, it fails"
        )
    where = f"where, in the mean over pools as these, {SWAP}"
    if rule.name == "sign_sequential":
        where = f"{POPULATION}, in the mean over its pools, {SWAP}"
    yield f"over pools: with probability at most {rule.alpha:g} {where}"
    if rule.name == "sign":
        n = rule.needed
        yield (
            f"in one pool sign needs {n} discordant matches or more, which are {2 * n} members: at "
            f"k below {n} it enables in none, and hardly ever at {n}; census does, if the labels "
            "are true, or take the decision over pools"
        )
