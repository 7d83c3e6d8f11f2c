"""What a journal says, by numbers: which pairs were asked, and what was answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from jbt.own.studies.answers import share_of
from jbt.own.studies.items import StudyItems
from jbt.own.studies.query import Query
from jbt.own.studies.settings import StudySettings
from jbt.own.studies.state import LONGEST_LEASE, Asked, PoolState, StudyState
from jbt.own.tables.outcomes import names_that_are_words

At = tuple[int, int, int]
"""Place of the item shown first, of the second, and number of the judge."""


class Book:
    """The records of a journal, counted."""

    def __init__(self, items: StudyItems, settings: StudySettings) -> None:
        self.items, self.settings = items, settings
        sizes, n_judges = items.layout.sizes, max(len(settings.judges), 1)
        n = int(sizes.max())
        self.state = StudyState([PoolState(n, n_judges, settings.refit_every) for _ in sizes])
        self._pools = {name: i for i, name in enumerate(items.tables.pools)}
        self._places = [{name: i for i, name in enumerate(names)} for names in items.layout.names]
        self._judges = {name: g for g, name in enumerate(settings.judges)}

    def apply(self, line: int, record: Mapping[str, Any]) -> None:
        """Count a record of the journal.

        Raises:
          ValueError: it is none, or contradicts those before.
        """
        try:
            event = record["event"]
            if event == "ask":
                pool, at = self._numbered(record)
                attempt = int(self.state.pools[pool].errors[at]) + 1
                lease = _lease(record)
                asked = Asked(int(record["id"]), pool, *at, *lease, attempt)
                self.state.ask(asked, bool(record["picked"]))
            elif event == "lease":
                asked = self.state.asked[int(record["id"])]
                asked.until, asked.lease = _lease(record)
            elif event == "tell":
                won, cost = share_of(record), float(record["cost"])
                self.state.tell(int(record["id"]), won, cost, {**record, "line": line})
            else:
                raise ValueError(f"unknown event {event!r}")
        except KeyError as error:
            raise ValueError(f"line {line} lacks or does not know {error}") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"line {line}: {error}") from None

    def named(self, pool: int, at: At) -> dict[str, Any]:
        """A pair by its names, as the journal has it."""
        first, second, judge = at
        names = self.items.layout.names[pool]
        out = {
            "pool": self.items.tables.pools[pool],
            "first": names[first],
            "second": names[second],
        }
        return out | ({"judge": self.settings.judges[judge]} if self.settings.judges else {})

    def _numbered(self, record: Mapping[str, Any]) -> tuple[int, At]:
        pool = self._pools[record["pool"]]
        places = self._places[pool]
        judge = self._judges[record["judge"]] if self._judges else 0
        return pool, (places[record["first"]], places[record["second"]], judge)

    def query(self, number: int) -> Query:
        """The query of this number."""
        asked = self.state.asked[number]
        named = self.named(asked.pool, asked.at)
        first, second = (self.items.row(asked.pool, p) for p in (asked.first, asked.second))
        return Query(
            id=number,
            pool=named["pool"],
            first=named["first"],
            second=named["second"],
            judge=named.get("judge"),
            attempt=asked.attempt,
            first_row=first,
            second_row=second,
            text=self.settings.text,
        )

    def answers(self) -> list[Asked]:
        """Everything answered, errors among it, in the order told."""
        told = [asked for asked in self.state.asked.values() if asked.told is not None]
        return sorted(told, key=lambda asked: asked.told["line"])  # type: ignore[index]

    def verdicts(self) -> pd.DataFrame:
        """Everything answered as a verdicts table, with all that was told."""
        rows, answers = [], self.answers()
        for asked in answers:
            row = {k: v for k, v in (asked.told or {}).items() if k not in ("event", "line")}
            row["winner"] = "error" if "error" in row else row.get("winner", "")
            rows.append(row)
        table = pd.DataFrame(rows)
        names = (name for names in self.items.layout.names for name in names)
        if rows and ("p_first" in table or names_that_are_words(names)):
            # One way of saying who won for all rows, which is never the name of an item.
            table["p_first"] = np.array([share_of(asked.told or {}) for asked in answers], float)
            table = table.drop(columns="winner")
        return table


def _lease(record: Mapping[str, Any]) -> tuple[float, float]:
    """When the lease of a record ends (seconds since 1970), and how long it is (seconds); old
    records do not say that."""
    return float(record["until"]), float(record.get("lease", LONGEST_LEASE))
