"""What a journal adds up to: which pairs were asked, what was answered, which may be asked now."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from jbt.own.studies.settings import StudyItems
from jbt.own.tables.outcomes import OUTCOMES, WORDS, names_that_are_words, read_winner
from jbt.own.tables.tables import ANCHORS

LONGEST_LEASE = 30 * 86_400.0
"""Longest that a query may be held for (seconds)."""

CLOCKS_APART = 300.0
"""Difference between the clocks of machines that share a study (seconds)."""

ANSWERED = ("winner", "p_first", "error")
"""Of which an answer has one."""

RESERVED = ("event", "id", "pool", "first", "second", "judge", "time", "line", "crc32")
"""Names in a record of the journal that further facts about a verdict cannot have."""

MOST_COST = 1e15
"""Largest cost of one answer, so that their sum stays finite."""

At = tuple[int, int, int, int]
"""Number of the pool, places in it of the item shown first and of the second, number of the judge
among `StudyItems.judges`."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A verdict to be asked for."""

    id: int
    """For `Study.tell`."""
    pool: str
    first: str
    """The item to show first."""
    second: str
    judge: str | None
    """The judge to ask; None where the study names none."""
    attempt: int
    """1 at first, one more after each error on this pair in this order."""
    first_row: Mapping[str, str] = field(repr=False)
    """The row of the items table with the item shown first, as given; second_row likewise."""
    second_row: Mapping[str, str] = field(repr=False)
    text: str = field(default="text", repr=False)
    """The column with the texts."""
    at: At = field(repr=False)
    """The same by numbers."""

    @property
    def texts(self) -> tuple[str, str]:
        """The texts in the order to show.

        Raises:
          ValueError: the items table has no column of texts.
        """
        if self.text not in self.first_row:
            known = ", ".join(self.first_row)
            raise ValueError(f"the items have no column {self.text!r} of texts: there are {known}")
        return self.first_row[self.text], self.second_row[self.text]


class Book:
    """Counts [pools, N, N, J], index [p, i, j, g]: judge g, item i of pool p shown first, j second;
    N is that of the largest pool."""

    def __init__(self, items: StudyItems) -> None:
        self.items, self.settings = items, items.settings
        sizes, n = items.layout.sizes, int(items.layout.sizes.max())
        shape = len(sizes), n, n, len(items.judges)
        self.told, self.wins = np.zeros((2, *shape))
        """Verdicts, and what of them the first won."""
        self.fitted = np.zeros((2, *shape))
        """Both at the last refit: after the last multiple of R verdicts of a pool."""
        self.pending = np.zeros(shape)
        """Asked and not answered yet."""
        self.errors = np.zeros(shape)
        self.n_told = np.zeros(len(sizes), int)
        """[pools] verdicts."""
        self.picks = np.zeros(len(sizes), int)
        """[pools] pairs that the rule has picked."""
        self.queries: dict[int, Query] = {}
        self.waiting: dict[int, tuple[float, float]] = {}
        """Queries without an answer, in the order of their numbers: when the lease ends (seconds
        since 1970), and how long it is (seconds)."""
        self.answers: dict[int, Mapping[str, Any]] = {}
        """Records of the answers, errors among them, in the order told."""
        self.cost = 0.0
        """Sum of the costs told."""
        # Rows of the items stand in the order of pools and, within each, of places.
        cells: Any = iter(items.rows.to_dict("records"))
        self._items = {
            name: (pool, {item: (i, next(cells)) for i, item in enumerate(items_of_pool)})
            for pool, (name, items_of_pool) in enumerate(
                zip(items.tables.pools, items.layout.names, strict=True)
            )
        }
        self._judges = {name: g for g, name in enumerate(items.judges) if name != ANCHORS}

    # --- records of the journal

    def apply(self, record: Mapping[str, Any]) -> None:
        """Count a record of the journal.

        Raises:
          KeyError, TypeError, ValueError, OverflowError: it is none, or contradicts those before.
        """
        event = record["event"]
        if event == "ask":
            query = self._query(record)
            self.waiting[query.id] = _lease(record)
            self.picks[query.at[0]] += bool(record["picked"])
            self.pending[query.at] += 1
            self.queries[query.id] = query
        elif event == "lease":
            query = self.queries[int(record["id"])]
            if query.id in self.waiting:
                self.waiting[query.id] = _lease(record)
        elif event == "tell":
            share, cost, number = share_of(record), float(record["cost"]), int(record["id"])
            del self.waiting[number]
            self.answers[number] = record
            self.cost += cost
            at = self.queries[number].at
            self.pending[at] -= 1
            if share is None:
                self.errors[at] += 1
                return
            pool = at[0]
            self.told[at] += 1
            self.wins[at] += share
            self.n_told[pool] += 1
            if self.n_told[pool] % self.settings.refit_every == 0:
                self.fitted[:, pool] = self.told[pool], self.wins[pool]
        else:
            raise ValueError(f"unknown event {event!r}")

    def _query(self, record: Mapping[str, Any]) -> Query:
        pool, items = self._items[record["pool"]]
        sides = "first", "second"
        (first, first_row), (second, second_row) = (items[record[side]] for side in sides)
        judge = record["judge"] if self.settings.judges else None
        at = pool, first, second, self._judges[judge]
        return Query(
            id=int(record["id"]),
            **{name: record[name] for name in ("pool", *sides)},
            judge=judge,
            attempt=int(self.errors[at]) + 1,
            first_row=first_row,
            second_row=second_row,
            text=self.settings.text,
            at=at,
        )

    def named(self, at: At) -> dict[str, Any]:
        """A pair by its names, as the journal has it."""
        pool, first, second, judge = at
        names = self.items.layout.names[pool]
        pair = {"first": names[first], "second": names[second]}
        judge = {"judge": self.items.judges[judge]} if self.settings.judges else {}
        return {"pool": self.items.tables.pools[pool], **pair, **judge}

    def answer(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The journal's record of an answer, checked.

        Raises:
          ValueError: see `Study.tell`.
        """
        number = number_of(answer.get("id"))
        if number is None or number not in self.queries:
            raise ValueError(f"unknown id {answer.get('id')!r}: no such query was asked")
        if number in self.answers:
            raise ValueError(f"query {number} was told before")
        named = self.named(self.queries[number].at)
        try:
            result, facts = _answer(answer, named, self.items.prices[self.queries[number].at[3]])
        except ValueError as error:
            raise ValueError(f"query {number}: {error}") from None
        head = {"event": "tell", "id": number, **named, **result}
        return head | {"time": round(time.time(), 3)} | facts

    def verdicts(self) -> pd.DataFrame:
        """Everything answered as a verdicts table, with all that was told."""
        rows = []
        for record in self.answers.values():
            row = {k: v for k, v in record.items() if k != "event"}
            row["winner"] = "error" if "error" in row else row.get("winner", "")
            rows.append(row)
        table = pd.DataFrame(rows)
        names = (name for names in self.items.layout.names for name in names)
        if rows and ("p_first" in table or names_that_are_words(names)):
            # One way of saying who won for all rows, which is never the name of an item.
            table["p_first"] = np.array(list(map(share_of, self.answers.values())), float)
            table = table.drop(columns="winner")
        return table

    # --- what may be asked

    def closed(self, pool: int) -> np.ndarray:
        """[N, N, J] ordered pairs that the rule cannot pick now."""
        s = self.settings
        closed = (self.pending[pool] > 0) | (self.errors[pool] >= s.attempts)
        if s.repeats == "never":
            closed |= self.told[pool] > 0
        if s.orders != "rule":
            closed = closed | closed.swapaxes(0, 1)
        real = np.arange(len(closed)) < self.items.layout.sizes[pool]
        closed |= ~(real[:, None] & real & ~np.eye(len(real), dtype=bool))[:, :, None]
        return closed | ~self.affordable()

    def owed(self, pool: int) -> list[At]:
        """The orders that are missing of pairs that were shown in the other order."""
        s, shown = self.settings, self.told[pool] + self.pending[pool]
        if s.orders != "both":
            return []
        missing = (shown.swapaxes(0, 1) > shown) & (self.errors[pool] < s.attempts)
        return [(pool, i, j, g) for i, j, g in np.argwhere(missing).tolist()]

    def affordable(self) -> np.ndarray:
        """[J] whether one more verdict of each judge can be paid, those awaited included."""
        purse, prices = self.settings.purse, self.items.prices
        askable = np.array([judge != ANCHORS for judge in self.items.judges])
        if purse is None:
            return askable
        awaited = self.pending.sum((0, 1, 2)) @ prices
        return askable & (self.cost + awaited + prices <= purse * (1 + 1e-12))

    def room(self) -> int:
        """How many more verdicts the budget allows, those awaited included."""
        budget = self.settings.budget
        return 2**31 if budget is None else budget - int(self.n_told.sum()) - len(self.waiting)

    def left(self, pool: int) -> float:
        """The rest of the budget, in verdicts, with several judges in the unit of the prices: what
        all open pairs of the pool would cost, if the budget allows; infinite where pairs may be
        asked again and there is no budget."""
        s, prices = self.settings, self.items.prices
        unit = prices if s.judges else np.ones(len(prices))
        left = math.inf
        if s.repeats == "never":
            left = float(((~self.closed(pool)).sum((0, 1)) * unit).sum())
        if s.purse is not None:
            left = min(left, max(s.purse - self.cost, 0.0) / prices[0] * unit[0])
        if s.budget is not None:
            left = min(left, max(s.budget - int(self.n_told.sum()), 0) * unit.max())
        return left

    def expired(self) -> list[int]:
        """Queries whose lease has ended, the oldest first; or whose lease was given by a clock that
        ran ahead: it then ends later than any lease given now, but for a difference of clocks
        between machines."""
        now, leases = time.time(), self.waiting.items()
        return [
            number
            for number, (until, lease) in leases
            if not now < until <= now + lease + CLOCKS_APART
        ]

    def draft(self) -> Book:
        """A copy in which further pairs can be counted as asked."""
        draft = copy.copy(self)
        draft.pending, draft.picks = self.pending.copy(), self.picks.copy()
        return draft


def share_of(record: Mapping[str, Any]) -> float | None:
    """Share of the verdict that the first won, of a record; None for an error.

    Raises:
      KeyError, ValueError: it is no record of an answer.
    """
    if "error" in record:
        return None
    share = float(record["p_first"]) if "p_first" in record else WORDS[record["winner"]]
    if share is None or not 0 <= share <= 1:
        raise ValueError(f"p_first is {share}, allowed 0 to 1")
    return share


def number_of(value: Any) -> int | None:
    """The number of a query, also from a cell of a table; None for anything else."""
    try:
        return int(value) if not isinstance(value, bool) and float(value) == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _answer(
    answer: Mapping[str, Any], named: Mapping[str, Any], price: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who won, or why nobody, and the cost; and the further facts."""
    said = {name: answer[name] for name in ANSWERED if answer.get(name) is not None}
    if "winner" in said:
        said["winner"] = _winner(said["winner"], named)
        if said["winner"] == "error":
            said["error"] = said.get("error") or said["winner"]
            del said["winner"]
    if len(said) != 1:
        raise ValueError("give one of winner, p_first and error")
    ((name, value),) = said.items()
    if name == "p_first" and not 0 <= _number(value) <= 1:
        raise ValueError(f"p_first must lie in 0 to 1, got {value!r}")
    cost = answer.get("cost")
    if cost is None:
        cost = 0.0 if name == "error" else price
    elif _number(cost) < 0:
        raise ValueError(f"cost must be at least 0 and finite, got {str(cost)[:40]!r}")
    elif _number(cost) > MOST_COST:
        raise ValueError(f"cost must be at most {MOST_COST:g}, got {str(cost)[:40]}")
    facts = {k: v for k, v in answer.items() if k not in ("id", "cost", *ANSWERED)}
    for fact, v in facts.items():
        if fact in RESERVED:
            raise ValueError(f"{fact} is the study's own, and cannot be told")
        if not isinstance(v, str | int | float | None) or v in (math.inf, -math.inf):
            raise ValueError(f"{fact} must be text or a number, got {v!r}")
    result = {name: float(value) if name == "p_first" else str(value), "cost": float(cost)}
    return result, {k: None if v != v else v for k, v in facts.items()}


def _winner(winner: Any, named: Mapping[str, Any]) -> str:
    """One of `WORDS`, from a winner that is a word or a name."""
    word, first, second = str(winner).strip(), named["first"], named["second"]
    try:
        share = read_winner(word, first, second, by_name=True, way_out="tell p_first, 1 or 0")
    except KeyError:
        allowed = f"{', '.join(WORDS)}, {first!r} or {second!r}"
        raise ValueError(f"winner is {word!r}, allowed: {allowed}") from None
    except ValueError as error:
        raise ValueError(f"winner is {error}") from None
    return OUTCOMES[share]


def _number(value: Any) -> float:
    """A finite number, also from a cell of a table; anything else is -1."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return -1.0
    return number if math.isfinite(number) and not isinstance(value, bool) else -1.0


def _lease(record: Mapping[str, Any]) -> tuple[float, float]:
    """When the lease of a record ends (seconds since 1970), and how long it is (seconds); old
    records do not say that."""
    return float(record["until"]), float(record.get("lease", LONGEST_LEASE))
