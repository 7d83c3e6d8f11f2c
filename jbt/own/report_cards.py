"""A judge's report card: how often it is right, agrees with others and with itself, and what it
prefers, counted from the verdicts without any model.

The unit is a pair of items: all verdicts of a judge on a pair count as one, by their mean. A graded
verdict counts for the item that it favours, a tie for half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt import stats
from jbt.border.report import Report, Section, percent
from jbt.own.tables import lengths
from jbt.own.tables.pairs import PAIR, both_orders, pairs, trusted_pairs
from jbt.own.tables.tables import Tables, check_names

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
    "ties": "ties",
    "errors": "errors",
}
"""What a share counts: the judge prefers the better of a labelled pair; in both orders; of the
pairs whose better item has the larger, or the smaller, covariate; the same winner in both orders, a
half where one verdict is a tie; the same winner as another judge, of the pairs that both decide;
the item shown first wins; the item with the larger covariate wins; it is the better one; ties and
errors, of all verdicts."""

COLUMNS = dict.fromkeys(("judge", "what", "of"), object)
COLUMNS |= dict.fromkeys(("share", "low", "high", "coin"), float) | {"n": int, "n_pools": int}
"""Of `ReportCards.table`."""


def report_card(tables: Tables, covariates: Sequence[str] = ()) -> ReportCards:
    """Count each judge's report card.

    Args:
      tables: from `read`.
      covariates: columns of `tables.items` that may bias the judges, as they are in the table.

    Raises:
      ValueError: a covariate that was not read.
    """
    check_names(covariates)
    for name in covariates:
        if name not in tables.items:
            raise ValueError(f"no covariate {name!r} was read: read the tables with it")
    table = pairs(tables)
    rows = [
        (judge, *row)
        for number, judge in enumerate(tables.judges)
        for row in _card(tables, table, number, covariates)
    ]
    frame = pd.DataFrame(rows, columns=pd.Index(list(COLUMNS)), dtype=object)
    return ReportCards(frame.astype(COLUMNS), tables.judges)


def _card(
    tables: Tables, table: pd.DataFrame, judge: int, covariates: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """A judge's rows of `ReportCards.table`, of measures for which there is a pair."""

    def mean(what: str, of: str | None, rows: pd.DataFrame, value: pd.Series, coin: float) -> Any:
        """The mean of a value over these rows; its values of other rows are ignored."""
        if len(rows):
            by_pool = value.loc[rows.index].astype(float).groupby(rows["source"].to_numpy())
            sums, sizes = by_pool.sum().to_numpy(), by_pool.size().to_numpy(float)
            interval = stats.clustered_share(sums, sizes)
            yield what, of, *interval, coin, len(rows), by_pool.ngroups

    def larger(rows: pd.DataFrame, name: str) -> pd.Series:
        """1 where the item `low` has the larger covariate, 0 where the smaller, else a half."""
        x = tables.items[name].to_numpy(float)
        return pd.Series(
            (np.sign(x[rows["low"].to_numpy()] - x[rows["high"].to_numpy()]) + 1) / 2, rows.index
        )

    is_judge, gold = table["judge"] == judge, trusted_pairs(tables)
    own, others = table[is_judge], table[~is_judge]
    each = own.groupby([*PAIR, "source"])["won"].mean().reset_index()
    both = both_orders(own)
    tied = (both["ties_first"] + both["ties_second"]) / 2
    labelled, twice = (rows.join(gold, on=PAIR, how="inner") for rows in (each, both))
    right = _agrees(labelled["won"], labelled["low_better"])
    yield from mean("accuracy", None, labelled, right, 0.5)
    right_both = np.minimum(
        _agrees(twice["won_first"], twice["low_better"]),
        _agrees(twice["won_second"], twice["low_better"]),
    )
    coin = ((1 - _mean(tied[twice.index])) / 2) ** 2
    yield from mean("accuracy_both_orders", None, twice, right_both == 1, coin)
    for name in covariates:
        better_larger = _agrees(labelled["low_better"], larger(labelled, name))
        yield from mean("accuracy_if_larger", name, labelled[better_larger == 1], right, 0.5)
        yield from mean("accuracy_if_smaller", name, labelled[better_larger == 0], right, 0.5)
    same = 1 - (both["won_first"] - both["won_second"]).abs()
    yield from mean("consistency", None, both, same, (1 + _mean(tied) ** 2) / 2)

    others = others.groupby(["judge", *PAIR])["won"].mean().reset_index()
    shared = each.merge(others, on=PAIR, suffixes=("", "_other"))
    shared = shared[(shared["won"] != 0.5) & (shared["won_other"] != 0.5)]
    same = (shared["won"] > 0.5) == (shared["won_other"] > 0.5)
    if len(tables.judges) > 2:
        yield from mean("agreement", ALL_OTHERS, shared, same, 0.5)
    if len(tables.judges) - 1 <= MOST_OTHERS:
        for other, name in enumerate(tables.judges):
            yield from mean("agreement", name, shared[shared["judge"] == other], same, 0.5)

    first = own[own["shown"]]
    first = first.assign(first=first["won"].where(first["low_first"], 1 - first["won"]))
    if len(both):  # only these are not confounded with which item was shown first
        first = first.merge(both[PAIR], on=PAIR)
    first = first.groupby([*PAIR, "source"])["first"].mean().reset_index()
    yield from mean("first_won", None, first, first["first"], 0.5)
    for name in covariates:
        for what, rows, side in (
            ("larger_won", each, "won"),
            ("gold_larger", labelled, "low_better"),
        ):
            x = larger(rows, name)
            yield from mean(what, name, rows[x != 0.5], _agrees(rows[side], x), 0.5)

    counts = tables.counts[tables.counts["judge"] == judge]
    n, ties, errors = (counts[f"n_{what}"].to_numpy() for what in ("verdicts", "ties", "errors"))
    if not (tables.verdicts["p_first"] == 0.5).any():
        n = n + ties  # they were dropped
    for what, count, total in (("ties", ties, n), ("errors", errors, n + errors)):
        if count.sum():
            share, pools = count.sum() / total.sum(), (total > 0).sum()
            yield what, None, share, np.nan, np.nan, np.nan, total.sum(), pools


def _agrees(a: pd.Series, b: pd.Series) -> pd.Series:
    """The expected agreement of two shares: 1 for the same side, 0 for opposite, else between."""
    return a * b + (1 - a) * (1 - b)


def _mean(values: pd.Series) -> float:
    return values.mean() if len(values) else 0.0


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
        return {
            "judges": [
                {
                    "judge": judge,
                    "measures": [
                        {name: None if pd.isna(v) else v for name, v in row.items()}
                        for row in rows.drop(columns="judge").to_dict("records")
                    ],
                }
                for judge, rows in self.cards()
            ]
        }

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A table of all judges, and one for each of few; the conventions come last."""
        several, few = len(self.judges) > 1, len(self.judges) <= MOST_TABLES
        sections = [Section("All judges", [], self._side_by_side())] if several else []
        for judge, rows in self.cards() if few else ():
            columns = {
                "": _kinds(rows),
                "share": rows["share"].map(percent),
                "95 %": [_interval(row) for row in rows.itertuples()],
                "a coin": rows["coin"].map(percent),
                "pairs": rows["n"],
                "prompts": rows["n_pools"],
            }
            sections.append(Section(judge or "The judge", [], pd.DataFrame(columns), several))
        how = [
            "a pair counts once, by the mean of a judge's verdicts on it; a tie is half a win; of "
            "ties and errors the share of verdicts is given",
            "right: the judge prefers the better item of a labelled pair; agrees: of the pairs "
            "that both judges decide",
            "intervals take a prompt's pairs as dependent",
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
        cells = pd.Series(
            [percent(row.share, row.low, row.high) for row in table.itertuples()],
            [kinds, table["judge"]],
        )
        cells = cells.unstack(fill_value="")[self.judges].loc[list(dict.fromkeys(kinds))]
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
        named = [_name(row, percent(row.share, row.low, row.high)) for row in rated.itertuples()]
        if len(named) > MOST_NAMED:
            named[MOST_NAMED - 1 : -1] = ["..."]
        fewest, most = rated["n"].min(), rated["n"].max()
        n = f"{most}" if fewest == most else f"{fewest} to {most}"
        return f"Right on labelled pairs: {', '.join(named)} ({n} pairs; a coin: 50 %)"

    def _preferred(self) -> str:
        """What the judges prefer, in a line."""
        covariates = self.table.loc[self.table["what"] == "larger_won", "of"]
        if covariates.empty:
            return _named(self.measure("first_won"), "The first shown won: ") or (
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
        for at, kind in enumerate(kinds):
            coins = 100 * table["coin"][[k == kind for k in _kinds(table)]]
            ax.vlines(coins, at - 0.4, at + 0.4, color="grey", ls=":", lw=1)
        ax.set_xlim(0, 100)
        ax.set_xlabel("share of pairs (%), 95 % intervals; dotted: a coin")
        if len(self.judges) > 1:
            ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        return drawn


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


def _name(row: Any, text: str) -> str:
    return f"{row.judge} {text}" if row.judge else text


def _named(rows: pd.DataFrame, before: str) -> str:
    """The first judges with their shares; nothing without any."""
    named = [_name(row, percent(row.share)) for row in rows.itertuples()]
    if len(named) > MOST_NAMED:
        named[MOST_NAMED:] = ["..."]
    return before + ", ".join(named) if named else ""
