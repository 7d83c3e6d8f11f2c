"""Ratings of single answers and rankings of several, which become pairs within a prompt."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jbt.own.formats.columns import NAMES, STEMS, Keys, NoVerdicts, plain
from jbt.own.formats.given import GenericColumns
from jbt.own.formats.records import (
    Item,
    Rating,
    Record,
    Refused,
    Row,
    Verdict,
    as_name,
    as_number,
    brief,
    joined,
    outside,
)

FAILED = -1
"""The score of a failed rating, where no other is negative (FastChat)."""

BY_SCORE, BY_RANK = (1, " (the higher is better)"), (-1, " (rank: 1 is best)")
"""The sign of a score, and how it is read."""

NUMBERED = re.compile(r"|id|index|idx|row|rows|no|nr|number|unnamed.*", re.IGNORECASE)
"""Names of columns that number the rows."""

OF_ITEM = re.compile(r"^(rank|score|rating)[_ ]|[_ ](rank|score|rating)$", re.IGNORECASE)
"""What the name of an item's column has beside the item's."""

Scores = Mapping[str, list[float | None]]
"""For each item of a prompt its scores by one judge."""

Found = tuple[str, str | None, float | None, str | None]
"""An item, its text, its score, and the judge where a row has several."""


def as_rating(row: Row, key: str, columns: GenericColumns, how: str) -> float | None:
    """Read a score; None for a failure.

    Raises:
      Refused: no number.
    """
    value = row.need("winner", key, how)
    if columns.verdict_in_text and isinstance(value, str):
        value = last_bracketed(value)
        value = value and value.strip("[]")
    if value is None:
        return None
    code = f"{value:g}" if isinstance(value, float) else str(value)
    if columns.outcomes is not None:
        try:
            return columns.outcomes.share(code)
        except KeyError:
            if columns.outcomes.is_scale:
                what = f"not covered by {columns.outcomes.option}"
                raise Refused(f"{key} is {brief(value)}, {what}") from None
            # A map says what some codes mean; others are numbers as they stand.
    number = float(value) if isinstance(value, bool) else as_number(value)
    if number != number:
        hint = " (--verdict-in-text reads the last [[X]] in it)" * (
            last_bracketed(value) is not None
        )
        raise outside(key, value, f"numbers, empty{hint}")
    return number


def direction(columns: GenericColumns, usual: str) -> str:
    """How scores are read: as usual, or as a scale says."""
    outcomes = columns.outcomes
    return usual if outcomes is None or not outcomes.is_scale else f" (by {outcomes.option})"


def last_bracketed(value: Any) -> str | None:
    """The last `[[X]]` in a text; None without any."""
    found = re.findall(r"\[\[[^\[\]]+\]\]", value) if isinstance(value, str) else []
    return found[-1] if found else None


def pairs(pool: str, judge: str | None, scores: Scores) -> Iterator[Verdict]:
    """Each two of m rated answers as a verdict that counts 2/m: together m - 1 verdicts, as many as
    it takes to link m answers. Any two items of a Plackett-Luce ranking follow Bradley-Terry, but
    neighbours in the ranking do not: so all pairs, and not m - 1 of them.

    A pair with a failed rating is a failed verdict. Several scores of an item count as their mean.
    """
    means = {}
    for name, values in scores.items():
        if known := [value for value in values if value is not None]:
            means[name] = sum(known) / len(known)
    for first, second in itertools.combinations(scores, 2):
        p_first = higher(means.get(first), means.get(second))
        size = len(scores if p_first is None else means)
        yield Verdict(pool, first, second, p_first, judge, False, 2 / size)


def higher(one: float | None, other: float | None) -> float | None:
    """The share that the first of two scores wins, the higher; None if either failed."""
    return None if one is None or other is None else (float(one > other) + (one >= other)) / 2


@dataclass(frozen=True)
class Ratings:
    """Where a row has the rating of an answer, or ratings or ranks of several."""

    pool: Callable[[Row], str]
    judge: str | None
    read: Callable[[Row], Iterable[Found]]
    is_ranking: bool
    """Whether answers of other rows are not compared with those of the row."""
    guessed: Sequence[str] = ()
    """Columns of items that are ranked, if the values are ranks."""

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether the first record is as the names of the columns suggest."""
        return not self.guessed or _are_ranks([as_number(values[key]) for key in self.guessed])

    def records(self, row: Row) -> Iterator[Record]:
        """Read one row."""
        pool, by = self.pool(row), self.judge and row.name("judge", self.judge)
        ranking = row.numbered() if self.is_ranking else ""
        for name, text, score, judge in self.read(row):
            judge = joined(by, judge)
            item = Item(row.apart(pool, name, text), name, text)
            yield Rating(pool, item, score, judge, ranking)


def layout(given: GenericColumns, columns: Keys) -> Ratings:
    """Find the columns of ratings or rankings.

    Raises:
      NoVerdicts: there are none with usual names.
    """
    ranking = given.ranking or (not given.of_ratings and columns.first("ranking")) or None
    judge = given.judge_column or columns.one("judge")

    def plan(
        read: Callable[[Row], Iterable[Found]], is_ranking: bool, guessed: Sequence[str] = ()
    ) -> Ratings:
        pool = columns.pool(given)
        if pool is None and not is_ranking:
            what = f"name the column of the prompt (--pool); columns are {columns.shown}"
            raise NoVerdicts(f"ratings of what? {what}")
        return Ratings(pool or Row.numbered, judge, read, is_ranking, guessed)

    if ranking is not None:
        return plan(lambda row: _listed(row, ranking), True)
    scored = given.rating or given.ranks
    item = given.item or (None if len(scored) > 1 else columns.first("item"))
    if item is not None:
        found = scored or given.judges or columns.usual(*NAMES["rating"], *NAMES["ranks"])[:1]
        if not found:
            what = f"name the column (--rating); columns are {columns.shown}"
            raise NoVerdicts(f"no rating here, {what}")
        is_rank = given.ranks or plain(found[0]) in NAMES["ranks"]
        sign, how = BY_RANK if is_rank and not given.rating else BY_SCORE
        how = direction(given, how)
        text = next(iter(columns.usual(*STEMS["texts"])), None)

        def read_one(row: Row) -> Iterator[Found]:
            name, answer = row.name("item", item), text and row.text(text)
            for key in found:
                score = as_rating(row, key, given, how)
                by = key if len(found) > 1 else None
                yield name, answer, score if score is None else sign * score, by

        return plan(read_one, False)
    others = [given.pool, judge, *columns.usual(*itertools.chain(*NAMES.values()), "order")]
    guessed = tuple(
        key for key in columns.keys if key not in others and not NUMBERED.fullmatch(key.strip())
    )
    guessed = () if set(given.named()) - {given.pool, judge} else guessed
    names = scored or guessed
    if len(names) < 3 - bool(scored):
        what = f"name their columns (--first --second, or --item); columns are {columns.shown}"
        raise NoVerdicts(f"no items here, {what}")
    sign, how = BY_SCORE if given.rating else BY_RANK

    def read_wide(row: Row) -> Iterator[Found]:
        values = {name: as_rating(row, name, given, how) for name in names}
        known = [value for value in values.values() if value is not None]
        if sign < 0 and not _are_ranks(known, distinct=False):
            what = "say what they are: --ranks COLUMN COLUMN ... or --rating COLUMN COLUMN ..."
            what = "allowed: 1 for the best, then 2, ..." if given.ranks else what
            raise Refused(f"{', '.join(names)} are {brief(known)}: no ranks, {what}")
        for name, value in values.items():
            row.note("item", name)
            yield as_name(OF_ITEM.sub("", name), name), None, value and sign * value, None

    return plan(read_wide, True, () if scored else guessed)


def _are_ranks(values: Sequence[float], *, distinct: bool = True) -> bool:
    """Whether these are places from 1; tied ones share a place, all of them only if not
    `distinct`."""
    places = sorted(values)
    shared = [1 + places.index(value) for value in places]
    dense = [1 + len({v for v in places if v < value}) for value in places]
    means = [(1 + 2 * places.index(v) + places.count(v)) / 2 for v in places]
    return len(set(places)) > distinct and places in (shared, dense, means)


def _listed(row: Row, key: str) -> Iterator[Found]:
    """Read a list of items, the best first; or a text such as `a > b = c`. A list within it holds
    tied items."""
    value = row.need("winner", key, " (the best first)")
    row.note("item", key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = [part.split("=") for part in value.split(">" if ">" in value else ",")]
    if value is None:
        return
    if not isinstance(value, list) or not value:
        raise outside(key, value, "a list of items, the best first")
    seen: set[str] = set()
    for place, tied in enumerate(value):
        for name in tied if isinstance(tied, list) else [tied]:
            name = as_name(name, key)
            if name in seen:
                raise Refused(f"{key} has {brief(name)} twice")
            seen.add(name)
            yield name, None, -float(place), None
