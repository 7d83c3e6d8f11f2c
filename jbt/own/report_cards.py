"""A judge's report card: how often it is right, agrees with others and with itself, and what it
prefers, counted from the verdicts without any model.

All verdicts of a judge on a pair of items count as one, by their mean. A graded verdict counts for
the item that it favours, a tie for half. A share is that of a pair drawn from all pairs of prompts
like these, so that prompts with more pairs weigh more; or that of a pair of a prompt drawn from all
prompts, so that each weighs the same. The two differ where prompts with more pairs are harder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt import stats
from jbt.border import files
from jbt.border.report import Report, Section, percent
from jbt.own.choices import check_names
from jbt.own.tables import lengths
from jbt.own.tables.pairs import PAIR, both_orders, pairs, trusted_pairs
from jbt.own.tables.tables import Tables
from jbt.types import check_word

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_OTHERS = 5
"""Most other judges with whom the agreement is given one by one."""

MOST_TABLES = 6
"""Most judges with a table each on screen; of more, only the table of all judges is shown."""

MOST_NAMED = 4
"""Most judges named in one line."""

ALL_OTHERS = "all others"

WORDS = {
    "accuracy": "right",
    "accuracy_both_orders": "right in both orders",
    "accuracy_if_larger": "right where the better is {larger}",
    "accuracy_if_smaller": "right where the better is {smaller}",
    "consistency": "same winner in both orders",
    "agreement": "agrees with {of}",
    "first_won": "first shown wins",
    "larger_won": "{larger} wins",
    "gold_larger": "gold prefers {larger}",
    "ties": "ties among all verdicts",
    "errors": "errors among all verdicts",
}
"""What a share counts: the judge prefers the better of a labelled pair; in both orders; of the
pairs whose better item has the larger, or the smaller, covariate; the same winner in both orders, a
half where one verdict is a tie; the same winner as another judge, of the pairs that both decide;
the item shown first wins; the item with the larger covariate wins; it is the better one; ties and
errors, of all verdicts."""

COINS = {
    "accuracy_both_orders": lambda tied: ((1 - tied) / 2) ** 2,
    "consistency": lambda tied: (1 + tied**2) / 2,
}
"""The share that a coin would reach which ties this share of verdicts; of other measures a half."""

ESTIMANDS = {
    "pair": (
        "a share is an average over the pairs of prompts like these, so that prompts with more "
        "pairs weigh more (with --unit prompt each prompt weighs the same); intervals allow for "
        "dependence between the pairs of a prompt"
    ),
    "prompt": (
        "a share is an average over prompts like these, each by the mean over its pairs, so that "
        "each prompt weighs the same"
    ),
}
"""What a share estimates, by unit."""

COLUMNS = dict.fromkeys(("judge", "what", "of"), object)
COLUMNS |= dict.fromkeys(("share", "low", "high", "coin"), float) | {"n": int, "n_pools": int}
"""Of `ReportCards.table`."""


def report_card(
    tables: Tables, covariates: Sequence[str] = (), *, unit: str = "pair"
) -> ReportCards:
    """Count each judge's report card.

    Args:
      tables: from `read`.
      covariates: columns of `tables.items` that may bias the judges, as they are in the table.
      unit: what counts once: a pair, or a prompt by the mean over its pairs. Ties and errors are
        shares of verdicts either way.

    Raises:
      ValueError: a covariate that was not read, another unit.
    """
    check_names(covariates)
    check_word("unit", unit, tuple(ESTIMANDS))
    for name in covariates:
        if name not in tables.items:
            raise ValueError(f"no covariate {name!r} was read: read the tables with it")
    # A row for each judge and pair; a measure is NaN where a pair does not count.
    table, keys = pairs(tables), ["judge", *PAIR]
    frame = table.groupby([*keys, "source"], as_index=False)["won"].mean()
    both = both_orders(table).set_index(keys)
    shown = table[table["shown"]]
    first = shown.assign(first=shown["won"].where(shown["low_first"], 1 - shown["won"]))
    orders = ["won_first", "won_second", "ties_first", "ties_second"]
    for columns in (both[orders], first.groupby(keys)["first"].mean()):
        frame = frame.join(columns, on=keys)
    frame = frame.join(trusted_pairs(tables), on=PAIR)
    judge, won, gold = frame["judge"], frame["won"], frame["low_better"]
    won_first, won_second = frame["won_first"], frame["won_second"]
    low, high = (frame[side].to_numpy() for side in PAIR)
    values = {name: tables.items[name].to_numpy(float) for name in covariates}
    # 1 where the item `low` has the larger covariate, 0 where the smaller, else a half.
    larger = {
        name: pd.Series((np.sign(x[low] - x[high]) + 1) / 2, frame.index)
        for name, x in values.items()
    }

    right, decided = _agrees(won, gold), np.sign(won - 0.5).replace(0, np.nan)
    measures = dict[tuple[str, str | None], pd.Series]()
    measures["accuracy", None] = right
    right_both = _agrees(won_first, gold).clip(upper=_agrees(won_second, gold))
    measures["accuracy_both_orders", None] = right_both // 1
    for name, x in larger.items():
        measures["accuracy_if_larger", name] = right.where(_agrees(gold, x) == 1)
        measures["accuracy_if_smaller", name] = right.where(_agrees(gold, x) == 0)
    measures["consistency", None] = 1 - (won_first - won_second).abs()
    pair, weights = [frame[side] for side in PAIR], {}
    if len(tables.judges) > 2:
        key = "agreement", ALL_OTHERS
        measures[key] = decided.groupby([*pair, decided]).transform("count") - 1
        weights[key] = (decided.groupby(pair).transform("count") - 1).where(decided.notna(), 0)
    if len(tables.judges) - 1 <= MOST_OTHERS:
        for other, name in enumerate(tables.judges):
            theirs = (
                frame[judge == other].set_index(PAIR).assign(theirs=decided[judge == other].array)
            )
            beside = frame.join(theirs["theirs"], on=PAIR)["theirs"]
            counts = decided.notna() & beside.notna() & (judge != other)
            measures["agreement", name] = (decided == beside).astype(float).where(counts)
    # Where a judge saw pairs in both orders, only these are not confounded with who came first.
    in_one_order = won_first.isna() & judge.isin(both.index.get_level_values("judge"))
    measures["first_won", None] = frame["first"].mask(in_one_order)
    for name, x in larger.items():
        measures["larger_won", name] = _agrees(won, x).where(x != 0.5)
        measures["gold_larger", name] = _agrees(gold, x).where(x != 0.5)

    frame["tied"] = (frame["ties_first"] + frame["ties_second"]) / 2
    tallies = {}
    for key, value in measures.items():
        n = weights.get(key, value.notna())
        cells = frame[["judge", "source", "tied"]].assign(value=value, n=n)[n > 0]
        tallies[key] = cells.groupby(["judge", "source"]).sum()
    counts = tables.counts.set_index(["judge", "pool"])
    n = counts["n_verdicts"]
    if not (tables.verdicts["p_first"] == 0.5).any():
        n = n + counts["n_ties"]  # they were dropped
    for what, total in (("ties", n), ("errors", n + counts["n_errors"])):
        tally = pd.DataFrame({"value": counts[f"n_{what}"], "n": total, "tied": np.nan})
        some = tally.groupby("judge")["value"].transform("sum") > 0
        tallies[what, None] = tally[some & (total > 0)]

    rows = []
    for (what, of), tally in tallies.items():
        for number, pools in tally.groupby(level="judge"):
            value, n = (pools[name].to_numpy(float) for name in ("value", "n"))
            alike = value / n, np.ones(len(n))
            interval: Any = stats.clustered_share(*(alike if unit == "prompt" else (value, n)))
            coin = COINS.get(what, lambda tied: 0.5)(pools["tied"].sum() / n.sum())
            if what in ("ties", "errors"):
                interval, coin = (value.sum() / n.sum(), np.nan, np.nan), np.nan
            rows.append((number, what, of, *interval, coin, int(n.sum()), len(pools)))
    rows.sort(key=lambda row: row[0])  # stable
    result = pd.DataFrame(rows, columns=pd.Index(list(COLUMNS)), dtype=object)
    result["judge"] = [tables.judges[number] for number in result["judge"]]
    return ReportCards(result.astype(COLUMNS), tables.judges, unit)


def _agrees(a: pd.Series, b: pd.Series) -> pd.Series:
    """The expected agreement of two shares: 1 for the same side, 0 for opposite, else between."""
    return a * b + (1 - a) * (1 - b)


@dataclass(frozen=True, eq=False)
class ReportCards:
    """The result of `jbt judge`."""

    table: pd.DataFrame
    """A row for each judge and measure: judge, what (of `WORDS`) and of (the covariate, or the
    other judge), share with its 95 % interval, low to high (NaN with too few pools, see
    `stats.clustered_share`, and for ties and errors), coin, the share that a fair coin would reach,
    which ties as often as the judge where ties count (NaN where a coin means nothing), n pairs (or
    verdicts, for ties and errors) and n_pools."""
    judges: list[str | None]
    unit: str
    """What counts once in a share."""

    def to_frame(self) -> pd.DataFrame:
        return self.table

    def cards(self) -> Iterator[tuple[str | None, pd.DataFrame]]:
        """Each judge with its rows."""
        for judge in self.judges:
            yield judge, self.table[_equals(self.table["judge"], judge)]

    def measure(self, what: str, of: str | None = None) -> pd.DataFrame:
        """The rows of one measure, of every judge that has it."""
        return self.table[(self.table["what"] == what) & _equals(self.table["of"], of)]

    def record(self) -> dict[str, Any]:
        """The content of the JSON file: for each judge its measures; undefined is null."""
        measures = {name: rows.drop(columns="judge") for name, rows in self.cards()}
        cards = [
            {"judge": judge, "measures": rows.to_dict("records")}
            for judge, rows in measures.items()
        ]
        return {"unit": self.unit, "judges": files.plain(cards)}

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A table of all judges, and one for each of few; the conventions come last."""
        several, few = len(self.judges) > 1, len(self.judges) <= MOST_TABLES
        share = f"averages over {self.unit}s"
        sections = [Section(f"All judges: {share}", [], self._side_by_side())] if several else []
        for judge, rows in self.cards() if few else ():
            columns = {
                "": _kinds(rows),
                share: rows["share"].map(percent),
                "95 %": [_interval(row) for row in rows.itertuples()],
                "a coin": rows["coin"].map(percent),
                "pairs": rows["n"],
                "prompts": rows["n_pools"],
            }
            sections.append(Section(judge or "The judge", [], pd.DataFrame(columns), several))
        how = [
            "a pair counts once, by the mean of a judge's verdicts on it; a tie is half a win",
            "right: the judge prefers the better item of a labelled pair; agrees: of the pairs "
            "that both judges decide",
            ESTIMANDS[self.unit],
        ]
        if (self.table["low"].isna() & self.table["coin"].notna()).any():
            how.append(
                f"-: seen on too few prompts (< {stats.FEWEST_CLUSTERS}) for an interval; prompts "
                "are the pools of the file"
            )
        sections.append(Section("How to read this", how, detail=True))
        return Report(title, lead, sections, answer=[self._right(), self._preferred()])

    def _side_by_side(self) -> pd.DataFrame:
        agreements = self.table["what"] == "agreement"
        table = self.table[~agreements | (self.table["of"] == ALL_OTHERS)]
        kinds = _kinds(table)
        cells = pd.Series(_percents(table), [kinds, table["judge"]]).unstack(fill_value="")
        cells = cells.reindex(columns=self.judges, fill_value="").loc[list(dict.fromkeys(kinds))]
        cells.columns = [judge or "" for judge in self.judges]
        few = len(self.judges) <= MOST_TABLES
        return (cells if few else cells.T).reset_index(names="" if few else "judge")

    def _right(self) -> str:
        """How often the judges are right, in a line."""
        rated = self.measure("accuracy").sort_values("share", ascending=False, kind="stable")
        if rated.empty:
            same = _named(self.measure("consistency"), "; same winner in both orders: ")
            return (
                f"How often a judge is right is not known without labelled pairs (--anchors){same}"
            )
        named = _judges(rated, _percents(rated))
        if len(named) > MOST_NAMED:
            named[MOST_NAMED - 1 : -1] = ["..."]
        n = " to ".join(map(str, sorted({rated["n"].min(), rated["n"].max()})))
        how = ", each prompt counted once" * (self.unit == "prompt")
        return f"Right on labelled pairs: {', '.join(named)} ({n} pairs{how}; a coin: 50 %)"

    def first_shown(self) -> str:
        """How often the first shown won, in a line; empty where the order is not known."""
        return _named(self.measure("first_won"), "The first shown won: ")

    def _preferred(self) -> str:
        """What the judges prefer, in a line."""
        covariates = self.table.loc[self.table["what"] == "larger_won", "of"]
        if covariates.empty:
            return self.first_shown() or (
                "Which answer is longer is not known: --items FILE --covariates words"
            )
        name = covariates.iloc[0]
        won = _named(self.measure("larger_won", name), f"{lengths.larger(name)} won: ")
        gold = self.measure("gold_larger", name)["share"][:1].map(percent)
        beside = [f"; gold prefers it in {share} of labelled pairs" for share in gold]
        return won[0].upper() + won[1:] + "".join(beside)

    def figure(self) -> Figure:
        """Every share with its interval, a colour for each of the first judges, beside a coin."""
        from jbt.border import plots

        table = self.table[self.table["coin"].notna()]
        kinds = list(dict.fromkeys(_kinds(table)))
        drawn, ax = plots.new_figure(width=8.0, height=1.2 + 0.45 * max(len(kinds), 1))
        series = []
        for (judge, rows), colour in zip(self.cards(), plots.CYCLE, strict=False):
            shares = rows.set_index(pd.Index(_kinds(rows)))[["share", "low", "high"]]
            columns = 100 * shares.reindex(kinds).to_numpy(float).T
            series.append((judge or "the judge", colour, *columns))
        plots.forest(ax, kinds, series)
        at = pd.Index(kinds).get_indexer(pd.Index(_kinds(table)))
        ax.vlines(100 * table["coin"], at - 0.4, at + 0.4, color="grey", ls=":", lw=1)
        ax.set_xlim(0, 100)
        ax.set_xlabel(f"share by {self.unit} (%); lines: 95 % intervals; dotted: a coin")
        ax.set_title("An interval across its dotted line is compatible with a coin")
        return plots.legend_below(drawn, fontsize=8, ncols=3)


def _equals(column: pd.Series, value: str | None) -> pd.Series:
    return column.isna() if value is None else column == value


def _kinds(table: pd.DataFrame) -> list[str]:
    """What each row counts, in words."""
    return [
        WORDS[what].format(
            of=of, larger=lengths.larger(of or ""), smaller=lengths.smaller(of or "")
        )
        for what, of in zip(table["what"], table["of"], strict=True)
    ]


def _interval(row: Any) -> str:
    if np.isnan(row.low):
        return "" if np.isnan(row.coin) else "-"
    return f"{100 * row.low:.0f} to {100 * row.high:.0f}"


def _percents(rows: pd.DataFrame) -> list[str]:
    return [percent(row.share, row.low, row.high) for row in rows.itertuples()]


def _judges(rows: pd.DataFrame, texts: Iterable[str]) -> list[str]:
    """Each judge, if it has a name, with a text."""
    named = zip(rows["judge"], texts, strict=True)
    return [f"{judge} {text}" if judge else text for judge, text in named]


def _named(rows: pd.DataFrame, before: str) -> str:
    """The first judges with their shares; nothing without any."""
    named = _judges(rows, rows["share"].map(percent))
    if len(named) > MOST_NAMED:
        named[MOST_NAMED:] = ["..."]
    return before + ", ".join(named) if named else ""
