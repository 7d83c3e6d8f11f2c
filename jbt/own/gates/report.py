"""The result of `jbt gate` as a report, a table and a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.border.report import Report, Section
from jbt.own.fits.batch import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENABLE, KEEP_OFF = "enable", "keep off"

LISTED = 20
"""Most pools of a judge that a report lists."""

FEW = 4
"""The report says so where half of the disputed pairs lie in fewer than one in so many pools."""

HEADINGS = {
    "n_disputed": "disputed",
    "n_labels": "labels",
    "n_discordant": "discordant",
    "n_right": "for correction",
    "n_used": "tested",
    "n_used_right": "tested for correction",
    "p_value": "p",
}
"""What a report calls a column."""

COLUMNS = ("pool", "judge", "decision", *HEADINGS, "reason")
"""Columns of decisions."""

DRAWN = {
    "pairs": "pairs drawn at random within {each} pool",
    "disputed": "pairs drawn at random from all that the two rankings order differently",
    "swaps": "pairs drawn at random from all of one content from each top k that the other lacks",
    "members": "contents drawn at random from those in only one top k",
}
"""How labels of each kind are assumed to be drawn."""

POPULATION = {
    "pairs": (
        "Each decision is about the {pairs} that the two rankings order in opposite ways, in "
        "{these}. If the correction is right on at most half of these pairs, the test enables it "
        "with probability at most {alpha:g}"
    ),
    "members": (
        "Each decision is about pools like these {n_pools}, in which both rankings have labelled "
        "contents in their top {k}; each pool counts once. If a content that the correction puts "
        "into the top {k} is good no more often than the one that it replaces, the test enables "
        "the correction with probability at most {alpha:g}"
    ),
    "members of a pool": (
        "Each decision is about {these}: if the correction would not raise its recall of the top "
        "{k}, it is enabled with probability at most {alpha:g}"
    ),
    "census": (
        "Each decision is about {these}: if the labels are true, enabling the correction in a pool "
        "raises its recall of the top {k}, and enabling it over pools raises their mean recall"
    ),
    "census of a pool": (
        "Each decision is about {these}: if the labels are true, enabling the correction raises "
        "its recall of the top {k}"
    ),
}
"""What the decision of a judge is about, and what it promises."""

OF_MANY = ": of many pools that the correction does not help, a share of alpha may be enabled"

GUARANTEES = (
    (
        "pairs several test",
        "a decision about one pool keeps the same bound for the {pairs} of that pool",
    ),
    (
        "pairs several test",
        "nothing is promised about other pools like these: a correction that is right in some "
        "pools and wrong in others may be enabled or not by which pools were drawn",
    ),
    (
        "members several test",
        "in a pool whose top-{k} recall the correction would not raise, it is enabled with "
        "probability at most {alpha:g}",
    ),
    (
        "pairs sign",
        "wrong labels keep this bound if errors are independent and have one probability, below "
        "one half, whichever ranking is right; the bound is not proved if one annotator labels a "
        "whole pool, because a misjudged content is wrong in all its pairs; it fails if errors "
        "depend on a covariate",
    ),
    (
        "members sign",
        "wrong labels keep this bound if errors are independent and have one probability for good "
        "contents and one for others, both below one half and the same in either top k; it fails "
        "if errors depend on a covariate",
    ),
    (
        "pairs test",
        "this bounds agreement on pairs, not the recall of the top {k}, which falls at a lower "
        "correlation than agreement; labels of members bound recall",
    ),
    (
        "sign_sequential once several",
        "over pools the bound is for a single decision, not repeated as labels come",
    ),
    (
        "members sign",
        "in one pool sign needs at least {n} discordant matches ({twice} members): at k below {n} "
        "it never enables, and at {n} hardly ever; if the labels are true use census{or_else}",
    ),
    (
        "sign_sequential",
        "the bound of {one} holds whenever labelling stops, if labels come in the order of the "
        "file; it assumes labels without errors: a wrong one may break it",
    ),
    (
        "test unanswered",
        "anchors without an answer (left out): {n_unanswered}; if the hard ones are left without "
        "an answer, the bounds hold only for {kind} that can be answered",
    ),
    (
        "test",
        "the bounds assume labels drawn at random, as jbt plan labels draws them, and hold for "
        "each decision separately{of_many}",
    ),
)
"""What is guaranteed, and when: for which kind of labels, by which rule (test: all but the census),
and whether some labels have no answer."""


@dataclass(frozen=True, eq=False)
class Gate:
    """The result of `jbt gate`."""

    pools: pd.DataFrame
    """A row for each pool and judge, judges varying fastest: pool, judge (missing where the
    table names none), decision (`ENABLE`, `KEEP_OFF`, or missing where nothing can be decided),
    n_disputed, pairs that the rankings order oppositely (for members: contents in only one top k);
    n_labels; n_discordant, labels on which the rankings differ (for members: matched pairs of
    labels), of which n_right favour the bias-aware ranking; n_used and n_used_right, those that
    decide: in a pool all, over several pools see `jbt.own.gates.decide`; p_value of the test on
    these (for `sign_sequential` the inverse of the largest wealth; NaN for `census`); reason."""
    judges: pd.DataFrame
    """A row for each judge, over its pools that the promise is about: the same columns, pool is
    missing."""
    labels: str
    """Kind of the labels, one of `jbt.gate.LABELS`."""
    rule: str
    alpha: float
    k: int
    n_unanswered: int
    """Anchors left out because they have no answer (count)."""
    batch: Batch
    """The fitted batch."""

    def report(self, title: str, lead: Sequence[str], *, per_pool: bool = False) -> Report:
        """The report; `per_pool` lists all pools with a discordant label, however many, and is no
        detail."""
        unnamed = {"judge": "all verdicts", "decision": ""}
        judges, pools = self.judges.fillna(unnamed), self.pools.fillna(unnamed)
        few = len(pools) <= LISTED * len(judges)
        listed = pools[(pools["n_discordant"] > 0) & (per_pool or few)]
        listed = listed.assign(p_value=[f"{p:.2g}" for p in listed["p_value"]])
        numbers = [name for name in HEADINGS if name != "p_value" or self.rule != "census"]
        in_a_pool = [name for name in numbers if "used" not in name]  # in a pool all are used
        overall = judges[["judge", *numbers, "decision"]].rename(columns=HEADINGS)
        listed = listed[["judge", "pool", *in_a_pool, "decision", "reason"]]
        by_pool = listed.rename(columns=HEADINGS) if len(listed) else None
        counts = [_count(str(name), rows) for name, rows in pools.groupby("judge", sort=False)]
        name = "Over all pools of a judge" if self._several else "The decision"
        sections = [Section(name, list(self._fitted()), overall)]
        if self._several:
            sections.append(Section("Pool by pool", counts, by_pool, detail=not per_pool))
        if guarantee := self.guarantee():
            heading = "What is guaranteed, and what is not"
            sections.append(Section(heading, guarantee, detail=True))
        answer = [*self.decided(), self.promise(), *self._concentrated()]
        return Report(title, lead, sections, answer=answer)

    def decided(self) -> list[str]:
        """The decision of each judge over all pools, with its reason."""
        judges = self.judges.fillna({"judge": "all verdicts", "decision": "undecided"})
        return [f"{d.judge}: {d.decision}: {d.reason}" for d in judges.itertuples()]

    def _fitted(self) -> Iterator[str]:
        """Which rule decided, and which fits it compared."""
        batch = self.batch
        if self.rule == "census":
            over = "; over pools, all pools with a label count" * self._several
            yield f"rule: census, for labels without errors{over}"
        else:
            over = "one match of each pool, drawn at random, counts"
            if self.labels != "members":
                over = "every discordant label counts"
                if (self.judges["n_used"] < self.judges["n_discordant"]).any():
                    over = (
                        "as many discordant labels count as give every pair the same chance: to "
                        "use more, label more pairs of the pools with the smallest share labelled"
                    )
            drawn = DRAWN[self.labels].format(each="each" if self._several else "the")
            over = f"; over pools {over}" * self._several
            yield f"rule: {self.rule} at alpha = {self.alpha:g}, for labels that are {drawn}{over}"
        if len(batch.tables.pools) < len(self.pools) // len(self.judges):
            chosen = {n for pool in batch.pools if pool.n_verdicts for n in pool.prior_selected}
            names = " and ".join(batch.covariates)
            why = f"the prior chose it, assuming that quality is uncorrelated with {names} over "
            why = f"; {why}pools" if "c" in chosen else ""
            yield f"tested: one c for each judge, fitted to all pools merged{why}"
        elif len(batch.tables.pools) > 1:
            yield (
                "tested: one c for each pool and judge, as in jbt fit; to test the c of a "
                "leaderboard, use --merge-pools"
            )

    def promise(self) -> str:
        """What the decision over pools is about, and what it promises, in a sentence."""
        kind = "census" if self.rule == "census" else self._kind
        if kind != "pairs" and not self._several:
            kind += " of a pool"
        return POPULATION[kind].format(**self._values())

    def _concentrated(self) -> Iterator[str]:
        """Which judges' disputed pairs lie mostly in few pools, which then decide."""
        for judge, pools in self._asked().fillna({"judge": "all verdicts"}).groupby("judge"):
            sizes = np.sort(pools["n_disputed"].to_numpy())[::-1]
            n, most = (sizes > 0).sum(), 1 + np.searchsorted(2 * sizes.cumsum(), sizes.sum())
            if self._kind == "pairs" and most <= n / FEW:
                yield (
                    f"{judge}: half of these pairs lie in {most} of {n} pools, and the decision "
                    "depends mostly on them"
                )

    @property
    def _kind(self) -> str:
        return "members" if self.labels == "members" else "pairs"

    @property
    def _several(self) -> bool:
        """Whether the file has several pools."""
        return self.pools["pool"].nunique() > 1

    def _asked(self) -> pd.DataFrame:
        """The rows of `pools` that the promise is about."""
        every = self.labels in ("disputed", "swaps")
        return self.pools[(self.pools["n_labels"] > 0) | every]

    def _values(self) -> dict[str, Any]:
        """What sentences are filled with."""
        n, several = self._asked()["pool"].nunique(), self._several
        these = "this pool"
        if several:
            with_labels = " with labels" * (self.labels in ("pairs", "members"))
            these = f"the {n} pools{with_labels}" if n > 1 else f"the one pool{with_labels}"
        drawn = self.labels in ("disputed", "swaps")
        return vars(self) | {
            "n": needed(self.alpha),
            "twice": 2 * needed(self.alpha),
            "kind": self._kind,
            "pairs": "swapped pairs" if self.labels == "swaps" else "untied pairs",
            "these": these,
            "n_pools": n,
            "one": these if not several else "a pool, and over pools," if drawn else "a pool",
            "or_else": ", else the decision over pools" * several,
            "of_many": OF_MANY * several,
        }

    def guarantee(self) -> list[str]:
        """What the decisions keep, and under which conditions, in sentences."""
        case = {self._kind, self.rule, "unanswered" if self.n_unanswered else ""}
        case.add("" if self.rule == "census" else "test")
        case.add("several" if self._several else "")
        case.add("" if self.labels in ("disputed", "swaps") else "once")
        values = self._values()
        return [text.format(**values) for when, text in GUARANTEES if case.issuperset(when.split())]

    def to_frame(self) -> pd.DataFrame:
        """A row for each decision; one over all pools of a judge has no pool."""
        rows = pd.concat([self.judges, self.pools], ignore_index=True)
        return rows[["judge", "pool", *COLUMNS[2:]]]

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        pools, judges = (rows.to_dict("records") for rows in (self.pools, self.judges))
        return files.plain({"pools": pools, "judges": judges, "n_unanswered": self.n_unanswered})

    def figure(self) -> Figure:
        """Draw the discordant labels of each judge, by the ranking that they favour."""
        from jbt.experiments import plots

        drawn, ax = plots.new_figure(height=2.4)
        unnamed = {"judge": "all verdicts", "decision": "nothing to decide"}
        judges = self.judges[::-1].fillna(unnamed)
        right, at = judges["n_right"], np.arange(len(judges))
        bars = ax.barh(at, right, color=plots.COLOURS["blue"])
        ax.barh(at, right - judges["n_discordant"], color=plots.COLOURS["orange"])
        ax.bar_label(bars, judges["decision"], padding=3)
        ax.axvline(0, color="grey", linewidth=0.8)
        ax.set_yticks(at, judges["judge"].to_list())
        ax.use_sticky_edges = False
        ax.margins(x=0.2)
        ax.set_ylim(-0.5, len(judges))
        ax.set_xlabel("labels on which the two rankings differ (right: for correction)")
        enabled = (judges["decision"] == ENABLE).sum()
        ax.set_title(f"Labels enable the correction for {enabled} of {len(judges)} judges")
        return drawn


def needed(alpha: float) -> int:
    """Smallest number of discordant labels with which the sign test can enable."""
    return math.ceil(-math.log2(alpha))


def _count(judge: str, decisions: pd.DataFrame) -> str:
    """How many pools of a judge have each decision."""
    decided, reason = decisions["decision"], decisions["reason"]
    parts = [f"{(decided == decision).sum()} {decision}" for decision in (ENABLE, KEEP_OFF)]
    why = reason[decided == ""].str.split(":").str[0].value_counts(sort=False)
    parts += [f"{n} undecided ({reason})" for reason, n in why.items()]
    largest = decisions["n_discordant"].max()
    most = f"; most discordant labels in a pool: {largest}" if largest else ""
    return f"{judge}: decisions in {len(decisions)} pools: {', '.join(parts)}{most}"
