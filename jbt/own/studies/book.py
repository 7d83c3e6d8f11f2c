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

INFINITE = math.inf, -math.inf
"""Numbers that JSON does not have."""

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
        self.pending, self.errors = np.zeros((2, *shape))
        """Asked and not answered yet; failed."""
        self.n_told, self.picks = np.zeros((2, len(sizes)), int)
        """[pools] verdicts; pairs that the rule has picked."""
        self.records: list[Mapping[str, Any]] = []
        """All that were counted."""
        self.queries: dict[int, Query] = {}
        self.waiting: dict[int, tuple[float, float]] = {}
        """Queries without an answer, in the order of their numbers: when the lease ends (seconds
        since 1970), and how long it is (seconds)."""
        self.answers: dict[int, Mapping[str, Any]] = {}
        """Records of the answers, errors among them, in the order told."""
        self.cost = 0.0
        """Sum of the costs told."""
        self._cells: Any = items.rows.to_dict("records")
        pools = np.array(items.tables.pools, object)[items.layout.pool]
        names = zip(pools, items.tables.items["item"], strict=True)
        self._row = {name: row for row, name in enumerate(names)}

    # --- records of the journal

    def apply(self, record: Mapping[str, Any]) -> int:
        """Count a record of the journal; returns the number of its pool.

        Raises:
          KeyError, TypeError, ValueError, OverflowError: it is none, or contradicts those before.
        """
        event, number = record["event"], int(record["id"])
        if event not in ("ask", "lease", "tell"):
            raise ValueError(f"unknown event {event!r}")
        query = self._query(number, record) if event == "ask" else self.queries[number]
        at, pool = query.at, query.at[0]
        if event == "tell":
            share, cost = share_of(record), float(record["cost"])
            del self.waiting[number]
            self.answers[number] = record
            self.cost += cost
            self.pending[at] -= 1
            if share is None:
                self.errors[at] += 1
            else:
                self.told[at] += 1
                self.wins[at] += share
                self.n_told[pool] += 1
                if self.settings.repeats == "fresh":
                    self.errors[at] = 0
                if self.n_told[pool] % self.settings.refit_every == 0:
                    self.fitted[:, pool] = self.told[pool], self.wins[pool]
        elif number not in self.answers:
            # Old records do not say how long the lease is.
            until, lease = record["until"], record.get("lease", LONGEST_LEASE)
            self.waiting[number] = float(until), float(lease)
        if event == "ask":
            self.picks[pool] += bool(record["picked"])
            self.pending[at] += 1
            self.queries[number] = query
        self.records.append(record)
        return pool

    def _query(self, number: int, record: Mapping[str, Any]) -> Query:
        layout = self.items.layout
        first, second = (self._row[record["pool"], record[side]] for side in ("first", "second"))
        judge = record["judge"] if self.settings.judges else None
        places = layout.place[[first, second]].tolist()
        at = int(layout.pool[first]), *places, self.items.judges.index(judge)
        return Query(
            id=number,
            pool=record["pool"],
            first=record["first"],
            second=record["second"],
            judge=judge,
            attempt=int(self.errors[at]) + 1,
            first_row=self._cells[first],
            second_row=self._cells[second],
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

    def query(self, number: Any) -> Query | None:
        """The query of a number, also from a cell of a table; None if there is none."""
        return self.queries.get(_number(number))  # type: ignore[call-overload]

    def answer(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The journal's record of an answer, checked.

        Raises:
          ValueError: see `Study.tell`.
        """
        query = self.query(answer.get("id"))
        if query is None:
            raise ValueError(f"unknown id {answer.get('id')!r}: no such query was asked")
        if query.id in self.answers:
            raise ValueError(f"query {query.id} was told before")
        result, facts = self.checked(answer, query)
        head = {"event": "tell", "id": query.id, **self.named(query.at), **result}
        return head | {"time": round(time.time(), 3)} | facts

    def checked(
        self, answer: Mapping[str, Any], query: Query
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the journal keeps of an answer: who won, or why nobody, and the cost; and further
        facts. Raises `ValueError` as `answer`."""
        said = {name: answer[name] for name in ANSWERED if answer.get(name) is not None}
        facts = {k: v for k, v in answer.items() if k not in ("id", "cost", *ANSWERED)}
        try:
            if "winner" in said:
                word = _winner(str(said.pop("winner")).strip(), query)
                said = {"error" if word == "error" else "winner": word} | said
            if len(said) != 1:
                raise ValueError("give one of winner, p_first and error")
            ((name, value),) = said.items()
            if (cost := answer.get("cost")) is None:
                cost = 0.0 if name == "error" else self.items.prices[query.at[3]]
            graded = {"p_first": (value, 1)} if name == "p_first" else {}
            if graded and self.settings.stop == "anytime" and _number(value) not in (0, 0.5, 1):
                raise ValueError(f"stop = anytime needs a p_first of 0, 0.5 or 1, got {value!r}")
            for what, (number, most) in {**graded, "cost": (cost, MOST_COST)}.items():
                if not 0 <= _number(number) <= most:
                    raise ValueError(f"{what} must lie in 0 to {most:g}, got {number!r:.40}")
            for fact, content in facts.items():
                if fact in RESERVED:
                    raise ValueError(f"{fact} is the study's own, and cannot be told")
                if not isinstance(content, str | int | float | None) or content in INFINITE:
                    raise ValueError(f"{fact} must be text or a number, got {content!r}")
        except ValueError as error:
            raise ValueError(f"query {query.id}: {error}") from None
        result = {name: float(value) if graded else str(value), "cost": float(cost)}
        return result, {k: None if v != v else v for k, v in facts.items()}

    def verdicts(self) -> pd.DataFrame:
        """Everything answered as a verdicts table, with all that was told."""
        table = pd.DataFrame([*self.answers.values()]).drop(columns="event", errors="ignore")
        shares = [*map(share_of, self.answers.values())]
        if "p_first" in table or names_that_are_words(self.items.tables.items["item"]):
            # One way of saying who won for all rows, which is never the name of an item.
            table = table.drop(columns="winner", errors="ignore")
            return table.assign(p_first=np.array(shares, float))
        return table.assign(winner=[OUTCOMES[share] for share in shares])

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
        pairs = real[:, None] & real & ~np.eye(len(real), dtype=bool)
        return closed | ~pairs[:, :, None] | ~self.affordable()

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
        unit, left = prices if s.judges else np.ones(len(prices)), [math.inf]
        if s.repeats == "never":
            left.append(float(((~self.closed(pool)).sum((0, 1)) * unit).sum()))
        if s.purse is not None:
            left.append(max(s.purse - self.cost, 0.0) / prices[0] * unit[0])
        if s.budget is not None:
            left.append(max(s.budget - self.n_told.sum(), 0) * unit.max())
        return min(left)

    def expired(self) -> list[int]:
        """Queries whose lease has ended, the oldest first; or whose lease was given by a clock that
        ran ahead: it then ends later than any lease given now, but for a difference of clocks
        between machines."""
        now = time.time()
        return [
            number
            for number, (until, lease) in self.waiting.items()
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


def _winner(word: str, query: Query) -> str:
    """One of `WORDS`, from a winner that is a word or a name."""
    sides = query.first, query.second
    try:
        share = read_winner(word, *sides, by_name=True, way_out="tell p_first, 1 or 0")
    except KeyError:
        allowed = f"{', '.join(WORDS)}, {sides[0]!r} or {sides[1]!r}"
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
