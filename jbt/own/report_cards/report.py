"""Report cards as a report, as a table and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt import stats
from jbt.border.report import Report, Section
from jbt.own.report_cards.measures import ALL_OTHERS, Measure, ReportCard, What
from jbt.own.tables import lengths

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TABLES = 6
"""Most judges with a table each on screen; of more, only the table of all judges is shown."""

MOST_NAMED = 4
"""Most judges named in one line."""


class ReportCards(list[ReportCard]):
    """The result of `jbt judge`: a card for each judge."""

    def _answer(self) -> list[str]:
        """How often the judges are right, and what they prefer, in a line each."""
        return [*self._right(), *self._preferred()]

    def _right(self) -> Iterator[str]:
        rated = [(card, m) for card in self if (m := card.get("accuracy"))]
        if not rated:
            yield (
                "How often a judge is right is not known without labelled pairs (--anchors)"
                + _listed("; same winner in both orders: ", self._named("consistency"))
            )
            return
        rated.sort(key=lambda pair: -pair[1].share)
        named = [_named(card.judge, _percent(m)) for card, m in rated]
        if len(named) > MOST_NAMED:
            named = [*named[: MOST_NAMED - 1], "...", named[-1]]
        fewest, most = (f(m.n for _, m in rated) for f in (min, max))
        pairs = f"{most}" if fewest == most else f"{fewest} to {most}"
        yield f"Right on labelled pairs: {', '.join(named)} ({pairs} pairs; a coin: 50 %)"

    def _preferred(self) -> Iterator[str]:
        covariates = list(
            dict.fromkeys(
                m.of for card in self for m in card.measures if m.what == "larger_won" and m.of
            )
        )
        for name in covariates[:1]:
            won = _listed(f"{lengths.larger(name)} won: ", self._named("larger_won", name))
            gold = next((m for card in self if (m := card.get("gold_larger", name))), None)
            beside = f"; gold prefers it in {_share(gold)} of labelled pairs" if gold else ""
            yield won[0].upper() + won[1:] + beside
        if not covariates:
            yield _listed("The first shown won: ", self._named("first_won")) or (
                "Which answer is longer is not known: --items FILE --covariates words"
            )

    def _named(self, what: Any, of: str | None = None) -> list[str]:
        named = [_named(c.judge, _share(m)) for c in self if (m := c.get(what, of))]
        return named if len(named) <= MOST_NAMED else [*named[:MOST_NAMED], "..."]

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A table of all judges, and one for each of few; the conventions come last."""
        sections = []
        if len(self) > 1:
            sections.append(Section("All judges", [], self._side_by_side()))
        if len(self) <= MOST_TABLES:
            for card in self:
                name = card.judge or "The judge"
                sections.append(Section(name, [], _table(card), detail=len(self) > 1))
        return Report(title, lead, [*sections, _how_to_read(self)], answer=self._answer())

    def _kinds(self) -> list[tuple[What, str | None]]:
        """Every measure that a card has: what it counts, and of what."""
        return list(dict.fromkeys((m.what, m.of) for card in self for m in card.measures))

    def _side_by_side(self) -> pd.DataFrame:
        kinds = [k for k in self._kinds() if k[0] != "agreement" or k[1] == ALL_OTHERS]
        names = [card.judge or "" for card in self]
        rows = []
        for what, of in kinds:
            cells = [_percent(m) if (m := card.get(what, of)) else "" for card in self]
            rows.append([_in_words(what, of), *cells])
        if len(self) <= MOST_TABLES:
            return pd.DataFrame(rows, columns=pd.Index(["", *names]))
        turned = [[name, *(row[i + 1] for row in rows)] for i, name in enumerate(names)]
        return pd.DataFrame(turned, columns=pd.Index(["judge", *(row[0] for row in rows)]))

    def to_frame(self) -> pd.DataFrame:
        """A row for each judge and measure: judge and the fields of `Measure`."""
        rows = [{"judge": card.judge, **asdict(m)} for card in self for m in card.measures]
        return pd.DataFrame(rows)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file: for each judge its measures; undefined is null."""
        return {
            "judges": [
                {"judge": card.judge, "measures": [_plain(asdict(m)) for m in card.measures]}
                for card in self
            ]
        }

    def figure(self) -> Figure:
        """Every share with its interval, a colour for each of the first judges, beside a coin."""
        from jbt.border import plots

        counted = ("ties", "errors")
        kinds = [kind for kind in self._kinds() if kind[0] not in counted]
        drawn, ax = plots.new_figure(width=8.0, height=1.2 + 0.45 * max(len(kinds), 1))
        series = []
        for card, colour in zip(self, plots.CYCLE, strict=False):
            found = [card.get(*kind) for kind in kinds]
            columns = [
                np.array([np.nan if m is None else 100 * getattr(m, side) for m in found])
                for side in ("share", "low", "high")
            ]
            series.append((card.judge or "the judge", colour, *columns))
        plots.forest(ax, [_in_words(*kind) for kind in kinds], series)
        for at, kind in enumerate(kinds):
            coins = [100 * m.coin for card in self if (m := card.get(*kind))]
            ax.vlines(coins, at - 0.4, at + 0.4, color="grey", ls=":", lw=1)
        ax.set_xlim(0, 100)
        ax.set_xlabel("share of pairs (%), 95 % intervals; dotted: a coin")
        if len(self) > 1:
            ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        return drawn


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in record.items()}


def _named(judge: str | None, text: str) -> str:
    return text if judge is None else f"{judge} {text}"


def _listed(before: str, parts: Sequence[str]) -> str:
    return before + ", ".join(parts) if parts else ""


def _share(measure: Measure) -> str:
    return f"{100 * measure.share:.0f} %"


def _percent(measure: Measure) -> str:
    if np.isnan(measure.low):
        return _share(measure)
    return f"{_share(measure)} [{100 * measure.low:.0f}, {100 * measure.high:.0f}]"


def _interval(measure: Measure) -> str:
    if np.isnan(measure.coin):
        return ""
    if np.isnan(measure.low):
        return "-"
    return f"{100 * measure.low:.0f} to {100 * measure.high:.0f}"


def _in_words(what: str, of: str | None) -> str:
    larger = lengths.larger(of) if of is not None else ""
    return {
        "accuracy": "right",
        "accuracy_both_orders": "right in both orders",
        "accuracy_if_larger": f"right where the better is {larger}",
        "accuracy_if_smaller": f"right where the better is {lengths.smaller(of)}" if of else "",
        "consistency": "same winner in both orders",
        "agreement": f"agrees with {of}",
        "first_won": "first shown wins",
        "larger_won": f"{larger} wins",
        "gold_larger": f"gold prefers {larger}",
        "ties": "ties",
        "errors": "errors",
    }[what]


def _table(card: ReportCard) -> pd.DataFrame:
    rows = [
        [
            _in_words(m.what, m.of),
            _share(m),
            _interval(m),
            "" if np.isnan(m.coin) else f"{100 * m.coin:.0f} %",
            m.n,
            m.n_pools,
        ]
        for m in card.measures
    ]
    columns = ["", "share", "95 %", "a coin", "pairs", "prompts"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def _how_to_read(cards: ReportCards) -> Section:
    few = any(_interval(m) == "-" for card in cards for m in card.measures)
    lines = [
        "a pair counts once, by the mean of a judge's verdicts on it; a tie is half a win; of ties "
        "and errors the share of verdicts is given",
        "right: the judge prefers the better item of a labelled pair; agrees: of the pairs that "
        "both judges decide",
        "intervals take a prompt's pairs as dependent",
    ]
    if few:
        lines.append(
            f"-: seen on too few prompts (< {stats.FEWEST_CLUSTERS}) for an interval; prompts are "
            "the pools of the file"
        )
    return Section("How to read this", lines, detail=True)
