"""Read a table of the user's own: a verdict a row, in columns named by options or called as usual
(`usual_names`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from jbt.own.formats import texts, usual_names
from jbt.own.formats.known.alpaca_eval import digest
from jbt.own.formats.known.chatbot_arena import one_hot
from jbt.own.formats.records import (
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_name,
    as_number,
    brief,
)
from jbt.own.tables.outcomes import CODES, PAIRS, SIDES, Outcomes, read_winner
from jbt.own.tables.verdicts import ALL, ORDERS, check_distinct
from jbt.types import check_word

ONE_LINE = 40
"""Most characters of a prompt that names its pool; a longer one is named by a digest."""

SwappedCodes = Literal["shown", "columns"]


@dataclass(frozen=True)
class GenericColumns:
    """Columns of the user's table; None: the usual name, if the table has it."""

    first: str | None = None
    second: str | None = None
    winner: tuple[str, ...] = ()
    """One column; or two or three, marked 1 where the first won, the second won, they tied."""
    pool: str | None = None
    judge: str | None = None
    texts: tuple[str, str] | None = None
    """Columns of the two answers' texts."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Covariates already counted: a name, and the columns of the first and second answer."""
    outcomes: Outcomes | None = None
    """What the winner's codes mean, in place of the usual words."""
    scores: tuple[str, str] | None = None
    """Columns of two scores, of which the higher wins."""
    swapped: str | None = None
    """Column with the winner where the second was shown first."""
    swapped_codes: SwappedCodes | None = None
    """Whether a code such as `A` in that column is about the order shown, or about the columns."""

    def given(self) -> bool:
        """Whether the user named any column."""
        return self != USUAL

    def check(self) -> None:
        """Raise `ValueError` for columns that cannot belong to one table."""
        if (self.first is None) != (self.second is None):
            raise ValueError("--first and --second go together")
        if len(self.winner) > 3:
            raise ValueError(f"--winner takes up to 3 columns, got {len(self.winner)}")
        if self.swapped_codes is not None:
            check_word("swapped_codes", self.swapped_codes, get_args(SwappedCodes))
        if self.scores is not None and (self.winner or self.outcomes is not None):
            raise ValueError("--scores are in place of --winner, --map and --scale")
        if self.outcomes is not None and len(self.winner) > 1:
            raise ValueError(f"{self.outcomes.option} needs one column of winners")
        used = [self.first, self.second, *self.winner, self.pool, self.judge, self.swapped]
        check_distinct([name for name in used if name is not None])
        counted = [name for name, _, _ in self.counts]
        if len(set(counted)) < len(counted) or {"pool", "item", "content"} & set(counted):
            raise ValueError(f"--counts names {', '.join(counted)}: each must be a name of its own")


USUAL = GenericColumns()
"""No option given."""


def generic(columns: GenericColumns) -> Format:
    """Return the format of a table with these columns."""
    return Format(
        name="generic",
        title="Table of your own",
        recognises=_recognises,
        records=lambda row: _records(row, columns),
        order="unknown",
    )


def _recognises(values: Mapping[str, Any]) -> bool:
    """Whether two items, or their texts, and a winner or two scores have columns with usual
    names."""
    if set(usual_names.CHOSEN) <= values.keys():
        return True
    named = usual_names.models(values) or usual_names.texts(values)
    decided = "p_first" in values or usual_names.winner(values) or usual_names.scores(values)
    return bool(named and decided)


def _records(row: Row, columns: GenericColumns) -> Iterator[Record]:
    first, second = _items(row, columns)
    if first.name == second.name:
        raise Refused(f"first and second are the same item, {brief(first.name)}")
    pool, judge = _pool(row, columns), _judge(row, columns)
    outcome = _Outcome(row, columns, first.name, second.name)
    swapped = outcome.swapped_column()
    shown = swapped is not None or _shown(row)
    more: dict[str, Any] = {"count": _count(row), "numbered": outcome.numbered()}
    yield Verdict(pool, first, second, outcome.p_first(), judge, shown=shown, **more)
    if swapped is not None:
        turned = outcome.p_first_swapped(swapped)
        yield Verdict(pool, second, first, turned, judge, shown=True, **more)


def _pool(row: Row, columns: GenericColumns) -> str:
    """The pool's name: of the column named, or a usual one; else the prompt; else, as answers given
    with their row form a pool of their own, the row."""
    if columns.pool is not None:
        return row.name("pool", columns.pool)
    if (column := next(iter(usual_names.single(row.values, usual_names.POOLS)), None)) is not None:
        return row.name("pool", column)
    prompts = usual_names.single(row.values, usual_names.PROMPTS)
    if (column := usual_names.only("prompt", "--pool", prompts)) is not None:
        prompt = row.need("pool", column)
        if isinstance(prompt, str) and len(prompt) <= ONE_LINE:
            return row.name("pool", column)
        return digest(prompt)
    by_row = columns.texts or columns.counts or _texts(row, columns)
    return row.numbered() if by_row else ALL


def _judge(row: Row, columns: GenericColumns) -> str | None:
    if columns.judge is not None:
        return row.name("judge", columns.judge)
    candidates = usual_names.single(row.values, usual_names.JUDGES)
    column = usual_names.only("judge", "--judge-column", candidates)
    return None if column is None else row.name("judge", column)


def _texts(row: Row, columns: GenericColumns) -> tuple[str, str] | None:
    """The columns of the two texts."""
    if columns.texts is not None:
        return columns.texts
    return usual_names.CHOSEN if _is_chosen(row, columns) else usual_names.texts(row.values)


def _is_chosen(row: Row, columns: GenericColumns) -> bool:
    """Whether the row has a text that was chosen and one that was not, and no other winner."""
    has = set(usual_names.CHOSEN) <= row.values.keys()
    return has and not (columns.winner or columns.scores or columns.texts)


def _items(row: Row, columns: GenericColumns) -> tuple[Item, Item]:
    names, by_place = _names(row, columns)
    answers: list[str | None] = [None, None]
    if (pair := _texts(row, columns)) is not None:
        answers = [_text(row.need("texts", column), column) for column in pair]
    counts = columns.counts
    if not counts and pair is None:
        found = [(stem, usual_names.pairs(row.values, [stem])) for stem in usual_names.COUNTS]
        counts = tuple((stem, *sides[0]) for stem, sides in found if len(sides) == 1)
    measures: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for name, *sides in counts:
        for side, column in enumerate(sides):
            measures[side][name] = texts.as_count(row.need(name, column), column)
    first, second = (
        Item(name, text=text, measures=measure, by_place=by_place)
        for name, text, measure in zip(names, answers, measures, strict=True)
    )
    return first, second


def _text(value: Any, column: str) -> str | None:
    """A text; of a conversation, its answers."""
    if isinstance(value, list):
        return "\n".join(texts.answers(value, column))
    if value is not None and not isinstance(value, str):
        raise Refused(f"{column} is {brief(value)}, allowed: a text")
    return value


def _names(row: Row, columns: GenericColumns) -> tuple[tuple[str, str], bool]:
    """Names of the two items, and whether they are only the names of the columns of their texts."""
    if columns.first is not None and columns.second is not None:
        pair = columns.first, columns.second
    else:
        pair = usual_names.models(row.values)
    if pair is not None:
        return (row.name("first", pair[0]), row.name("second", pair[1])), False
    for there, missing in usual_names.halves(row.values, usual_names.MODELS):
        raise Refused(f"{there} without {missing}: name the items' columns (--first --second)")
    if (pair := _texts(row, columns)) is not None:
        first, second = pair
        return (as_name(first, "the column"), as_name(second, "the column")), True
    keys = ", ".join(map(repr, list(row.values)[:12]))
    raise Refused(f"no items here, name their columns (--first --second); columns are {keys}")


@dataclass(frozen=True)
class _Outcome:
    """Who won a row."""

    row: Row
    columns: GenericColumns
    first: str
    second: str
    """Names of the items."""

    def p_first(self) -> float | None:
        """The share that the first won; None for a failed judgment.

        Raises:
          Refused: nothing says who won, or a value that is not known.
        """
        row, columns = self.row, self.columns
        if len(columns.winner) > 1:
            return one_hot(row, dict(zip(columns.winner, (1.0, 0.0, 0.5), strict=False)))
        if columns.scores is not None:
            return self._by_score(columns.scores)
        column = self._column()
        if column is not None:
            value = row.need("winner", column)
            return self._coded(column, value, self.first, self.second)
        if "p_first" in row.values:
            return _share(row.need("p_first", "p_first"))
        if (scores := usual_names.scores(row.values)) is not None:
            return self._by_score(scores)
        if _is_chosen(row, columns):
            return 1.0
        keys = ", ".join(map(repr, list(row.values)[:12]))
        raise Refused(f"nothing says who won, name the column (--winner); columns are {keys}")

    def numbered(self) -> bool:
        """Whether the winner is a bare 1 or 2 whose meaning nobody gave."""
        columns = self.columns
        if columns.outcomes is not None or columns.scores is not None or len(columns.winner) > 1:
            return False
        column = self._column()
        value = None if column is None else self.row.values.get(column)
        return str(value).strip() in ("1", "2", "1.0", "2.0")

    def _column(self) -> str | None:
        if self.columns.winner:
            return self.columns.winner[0]
        return None if "p_first" in self.row.values else usual_names.winner(self.row.values)

    def swapped_column(self) -> str | None:
        """The column with the winner where the second was shown first."""
        column = self._column()
        if self.columns.swapped is not None or column is None:
            return self.columns.swapped
        return usual_names.swapped(self.row.values, column)

    def p_first_swapped(self, column: str) -> float | None:
        """The share that the item shown first, here the second, won in the other order.

        Raises:
          Refused: a code of which it is not said whether it is about the order shown.
        """
        value = self.row.need("winner", column)
        given = self.columns.swapped_codes
        meanings = get_args(SwappedCodes) if given is None else (given,)
        shares = {self._swapped(meaning, column, value) for meaning in meanings}
        if len(shares) > 1:
            raise Refused(
                f"{column} is {brief(value)}: of the order shown then, or of the columns? "
                "(--swapped-codes shown | columns)"
            )
        return shares.pop()

    def _swapped(self, meaning: SwappedCodes, column: str, value: Any) -> float | None:
        """The same, for codes of this meaning."""
        if meaning == "shown":
            return self._coded(column, value, self.second, self.first)
        share = self._coded(column, value, self.first, self.second)
        return None if share is None else 1 - share

    def _pairs(self) -> list[tuple[str, str]]:
        """The columns of the items' names, and those of their texts, in lower case."""
        columns = self.columns
        named = columns.first, columns.second
        pairs = [
            usual_names.models(self.row.values) if columns.first is None else named,
            _texts(self.row, columns),
        ]
        return [(str(a).casefold(), str(b).casefold()) for a, b in filter(None, pairs)]

    def _coded(self, column: str, value: Any, first: str, second: str) -> float | None:
        """The share that the item `first` won."""
        if value is None:
            return None  # no answer was read
        outcomes = self.columns.outcomes
        if outcomes is not None:
            code = f"{value:g}" if isinstance(value, float) else str(value)
            try:
                return outcomes.share(code)
            except KeyError:
                option = outcomes.option
                raise Refused(f"{column} is {brief(value)}, not covered by {option}") from None
        code, pairs = as_name(value, column), self._pairs()
        words: dict[str, float | None] = {}
        for pair in pairs:  # the name of a column is a word for its side
            words |= dict(zip(pair, (1.0, 0.0), strict=True))
        words |= CODES
        if crossed := _crossed(pairs):
            words = {word: share for word, share in words.items() if share not in (0, 1)}
        try:
            return read_winner(code, first, second, words)
        except ValueError as error:
            raise Refused(f"{column} is {error}") from None
        except KeyError:
            allowed, option = f"{first}, {second}, {', '.join(SIDES)}, A>>B", "--map your words"
            if as_number(value) == as_number(value):
                codes = '--map "0=first,1=tie,2=second"'
                option = f"{codes} or --scale BEST:WORST says what a number means"
            if crossed:
                allowed = f"{first}, {second}, {', '.join(words)}"
                option = f"--map says what a code means where {' is first, '.join(crossed)} second"
            raise Refused(f"{column} is {brief(code)}, allowed: {allowed} ({option})") from None

    def _by_score(self, pair: tuple[str, str]) -> float | None:
        first, second = (self.row.need("winner", column) for column in pair)
        if first is None or second is None:
            return None
        one, other = as_number(first), as_number(second)
        if one != one or other != other:
            given = f"{brief(first)} and {brief(second)}"
            raise Refused(f"{' and '.join(pair)} are {given}, allowed: numbers")
        return 0.5 if one == other else float(one > other)


def _crossed(pairs: list[tuple[str, str]]) -> tuple[str, str] | None:
    """A pair of columns whose names say the opposite of their places: first `model_b`, second
    `model_a`."""
    for first, second in pairs:
        if any(first.endswith(b) and second.endswith(a) for a, b in PAIRS):
            return first, second
    return None


def _share(value: Any) -> float | None:
    if value is None:
        return None
    share = as_number(value)
    if not 0 <= share <= 1:
        raise Refused(f"p_first is {brief(value)}, allowed: 0 to 1, empty")
    return share


def _shown(row: Row) -> bool:
    """Whether the order is known to be the one shown; only a column `order` can say so."""
    if "order" not in row.values:
        return False
    order = row.need("order", "order")
    if order not in ORDERS:
        raise Refused(f"order is {brief(order)}, allowed: {', '.join(ORDERS)}")
    return order == "shown"


def _count(row: Row) -> int:
    if "count" not in row.values:
        return 1
    count = texts.as_count(row.need("count", "count"), "count")
    if not count.is_integer():
        raise Refused(f"count is {brief(row.values['count'])}, allowed: whole numbers from 0")
    return int(count)
