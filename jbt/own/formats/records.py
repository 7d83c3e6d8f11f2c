"""What each source is read into: verdicts, separate answers and gold labels."""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jbt.own.formats.given import USUAL, GenericColumns
from jbt.own.tables.outcomes import NUMBER


class Refused(ValueError):
    """A record that cannot be used; the message says what was found and what is allowed."""


@dataclass(frozen=True)
class Item:
    """An answer: its name, unique in its pool, and what the record says about it."""

    name: str
    content: str | None = None
    """Who wrote it, where the source says so."""
    text: str | int | None = None
    """Its text; of what earlier records say, the hash of it."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """What the source counted itself, beside what is counted in `text`."""
    by_place: bool = False
    """Whether it is named after its place in the record, and not after who wrote it."""


class Verdict(NamedTuple):
    """What a judge said about two answers."""

    pool: str
    first: Any
    """An `Item`; of what was read already, its name."""
    second: Any
    p_first: float | None
    """Share that the first won: 0.5 for a tie, any share if graded; None if the judgment failed."""
    judge: str | None
    shown: bool
    """Whether the judge is known to have seen `first` before `second`."""
    count: float = 1
    numbered: bool = False
    """Whether the winner is a bare 1 or 2, which may also be two steps of a longer scale."""
    scores: tuple[float | None, ...] = ()
    """The scores of both, where the higher wins."""
    kept: tuple[Any, ...] = ()
    """What the record says beside, see `Imported.keep`."""


class Rating(NamedTuple):
    """A score of one answer; the ratings of a pool by one judge become pairs (`Imported.pair`)."""

    pool: str
    item: Item
    score: float | None
    """The higher is better; None for a failed judgment."""
    judge: str | None
    ranking: str = ""
    """Only answers of one ranking are compared."""


class Answer(NamedTuple):
    """An answer that the source lists apart from its verdicts."""

    pool: str
    item: Item


class Anchor(NamedTuple):
    """A gold label: names of the better and the worse item of a pool."""

    pool: str
    better: str
    worse: str


Record = Verdict | Rating | Answer | Anchor

Codes = Mapping[Any, float | None]
"""The share that the first won for each code; None for a failed judgment."""


@dataclass(frozen=True)
class Row:
    """One record of a file: `values` by key, and where they stand. Every key that is looked up is
    noted in `used`."""

    file: Path
    source: str
    """Unique name of the file."""
    number: int
    """Number of the record in its file, from 0."""
    line: int
    """Line of the file, from 1; row number in Parquet."""
    values: Mapping[str, Any]
    used: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)
    """For each thing written (pool, judge, …) the keys it came from, and the place within each."""
    columns: GenericColumns = USUAL
    """Of a table of the user's own."""
    strong_weight: int = 1
    """How often a verdict `>>` of Arena-Hard counts (count); Arena-Hard itself takes 3."""
    baseline: str | None = None
    """The model that Arena-Hard compares with, where its judgments do not name it."""
    answers: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    """Names of a model's answers in a pool, by the hash of their texts."""

    def note(self, role: str, key: str, within: str = "") -> None:
        """Note that a key, or the part of it at `within`, was used for this role."""
        self.used.setdefault(role, {})[key, within] = None

    def keys(self) -> str:
        """Some keys of the record, for messages."""
        return ", ".join(map(repr, list(self.values)[:12]))

    def find(self, role: str, *keys: str) -> Any:
        """The value of the first of these keys that is present; None if none is."""
        for key in keys:
            if self.values.get(key) is not None:
                self.note(role, key)
                return self.values[key]
        return None

    def need(self, role: str, key: str, within: str = "") -> Any:
        """The value of a key, which may be null.

        Raises:
          Refused: the record has no such key.
        """
        if key not in self.values:
            raise Refused(f"no {key!r} here; keys are {self.keys()}")
        self.note(role, key, within)
        return self.values[key]

    def name(self, role: str, *keys: str) -> str:
        """A name, from the first of these keys that is present.

        Raises:
          Refused: none is present, or the value is not a name.
        """
        if (name := self.optional_name(role, *keys)) is None:
            self.need(role, keys[0])
            raise Refused(f"{keys[0]} is null, allowed: a name")
        return name

    def optional_name(self, role: str, *keys: str) -> str | None:
        """A name, or None if none of these keys is present.

        Raises:
          Refused: the value is not a name.
        """
        value = self.find(role, *keys)
        return None if value is None else as_name(value, *keys)

    def name_or_number(self, *keys: str) -> str:
        """The pool's name; else each record is one."""
        return self.optional_name("pool", *keys) or self.numbered()

    def code(self, key: str, codes: Codes, role: str = "winner") -> float | None:
        """The share that the first won, by the code in a key; see `as_code`."""
        return as_code(self.need(role, key), codes, key)

    def text(self, key: str, role: str = "texts") -> str | None:
        """A text, or None if the key is not present.

        Raises:
          Refused: the value is not a text.
        """
        value = self.find(role, key)
        if value is not None and not isinstance(value, str):
            raise outside(key, value, "a text")
        return value

    def apart(self, pool: str, model: str, text: str | None) -> str:
        """The name of a model's answer: the model's; of a second text in one pool `MODEL (2)`."""
        names = self.answers.setdefault((pool, model), {})
        return names.setdefault(hash(text), f"{model} ({len(names) + 1})" if names else model)

    def numbered(self) -> str:
        """A name for a pool that the source does not name: the file's name and the record's number.

        Raises:
          Refused: the file's name cannot name a pool.
        """
        return f"{as_name(self.source, 'the file')}/{self.number:06d}"


class Game(NamedTuple):
    """A judgment of the two answers of a record."""

    p_first: float | None
    """Share won by the answer shown first; None for a failure."""
    swapped: bool = False
    """Whether the second answer of the record was shown first."""
    shown: bool = True
    """Whether the order is known."""
    count: float = 1
    numbered: bool = False
    """See `Verdict`."""
    scores: tuple[float | None, ...] = ()
    """See `Verdict`."""
    judge: str | None = None
    """Where a record has games of several judges."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a record has what."""

    pool: Callable[[Row], str]
    keys: Sequence[str]
    """Of the names of the two answers."""
    games: Callable[[Row, Sequence[str]], Iterable[Game]]
    """Reads the judgments; given the names."""
    by_place: bool = False
    """Whether the answers are named after these keys, and not after what stands there."""
    of_models: bool = True
    """Whether the names are of the models that wrote the answers."""
    several: bool = False
    """Whether a model may have given several answers to one prompt."""
    apart: Sequence[str] = ()
    """What tells the answers apart if they have one name."""
    texts: Sequence[str] = ()
    """Keys of the texts of the two answers."""
    read: Callable[[Row, str], str | None] = Row.text
    """Reads the text of an answer at its key."""
    counts: Callable[[Row, int], Mapping[str, float]] = lambda row, side: {}
    """What the source counted in it."""
    judge: Callable[[Row], str | None] = lambda row: row.optional_name("judge", "judge")
    gold: Callable[[Row, Sequence[str]], float | None] | None = None
    """Reads the share that the first wins by a trusted label; given the names."""

    def records(self, row: Row) -> Iterator[Record]:
        """Read one record.

        Raises:
          Refused: it has another form.
        """
        names = []
        for role, key in zip(("first", "second"), self.keys, strict=True):
            if self.by_place:
                row.note(role, key)
            names.append(as_name(key, "the key") if self.by_place else row.name(role, key))
        own = list(names)
        if names[0] == names[1]:
            if not self.apart:
                both = f"{' and '.join(self.keys)} are both {brief(names[0])}"
                raise Refused(f"{both}, allowed: two items")
            own = [f"{name} ({end})" for name, end in zip(names, self.apart, strict=True)]
        contents = names if self.of_models and not self.by_place else [None, None]
        pool, judge = self.pool(row), self.judge(row)
        written = [self.read(row, key) for key in self.texts] or [None, None]
        if self.several:
            own = [row.apart(pool, *answer) for answer in zip(own, written, strict=True)]
        items = [
            Item(own[i], contents[i], written[i], self.counts(row, i), self.by_place)
            for i in (0, 1)
        ]
        if self.gold is not None and (gold := self.gold(row, names)) in (0, 1):
            yield Anchor(pool, *(own if gold == 1 else own[::-1]))
        for game in self.games(row, names):
            first, second = items[::-1] if game.swapped else items
            by = joined(judge, game.judge)
            facts = game.count, game.numbered, game.scores
            yield Verdict(pool, first, second, game.p_first, by, game.shown, *facts)


Order = Literal["recorded", "columns", "unknown"]

UNWRITABLE = re.compile("[\n\r\0\ud800-\udfff]")


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    name: str
    title: str
    recognises: Callable[[Mapping[str, Any]], bool]
    """Whether a file whose first record has these values is of this kind."""
    records: Callable[[Row], Iterator[Record]]
    """Reads one record; raises `Refused` for a record outside the format."""
    order: Order = "unknown"
    """Whether the source records for each verdict which answer was shown first, implies it only by
    the order of its two columns, or does not say."""
    graded: bool = False
    """Whether a verdict is a share, written as `p_first`; else a `winner`."""


def brief(value: object) -> str:
    """Abbreviate a value for a message."""
    return reprlib.repr(value)


def outside(key: str, value: object, allowed: str) -> Refused:
    """The error for a value that a format does not have there, and what it may have."""
    return Refused(f"{key} is {brief(value)}, allowed: {allowed}")


def joined(*names: str | None) -> str | None:
    """The name of a judge in parts, of which some may be missing."""
    return "/".join(filter(None, names)) or None


def as_word(value: object) -> str:
    """A text, a whole number or a truth value (in lower case) as text; empty for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else ""


def as_name(value: object, *keys: str) -> str:
    """Check a name, the value of one of these keys: text that is not empty, or a whole number.

    Raises:
      Refused: it is something else.
    """
    name = as_word(value)
    if not name or isinstance(value, bool) or not is_name(name):
        raise outside(" or ".join(keys), value, "a name on one line")
    return name


def is_name(value: str) -> bool:
    """Whether a table can hold a name: no line break, no NUL, no half of a surrogate pair."""
    return not UNWRITABLE.search(value)


def as_number(value: object) -> float:
    """Convert a number, or text in the decimal notation of tables; NaN for anything else."""
    if isinstance(value, str):
        return float(value) if NUMBER.fullmatch(value := value.strip()) else math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def as_code(value: object, codes: Codes, key: str) -> float | None:
    """Translate a code into the share that the first won.

    Args:
      codes: the share for each code, None for a failed judgment; for `null` only if it is there.

    Raises:
      Refused: it is another code; nothing is guessed.
    """
    code = None if value is None else as_word(value)
    if code not in codes:
        raise outside(key, value, ", ".join(filter(None, codes)))
    return codes[code]


TRUTH = {
    **dict.fromkeys(("1", "true", "yes", "1.0"), True),
    **dict.fromkeys(("0", "false", "no", "0.0"), False),
}
"""What may say whether something holds, in lower case."""


def as_truth(value: object, key: str) -> bool:
    """Read a truth value.

    Raises:
      Refused: it is no truth value.
    """
    code = str(value).strip().casefold()
    if code not in TRUTH:
        raise outside(key, value, "1, 0, true, false, yes, no")
    return TRUTH[code]


def digest(*parts: Any) -> str:
    """Make a short name for a text, the same in every file.

    Raises:
      Refused: it is not a text.
    """
    if not all(isinstance(part, str) for part in parts):
        raise Refused(f"{', '.join(map(brief, parts))}, allowed: texts")
    whole = "\0".join(parts).encode("utf-8", "surrogatepass")
    return f"q{hashlib.sha256(whole).hexdigest()[:12]}"


def one_hot(row: Row, columns: Mapping[str, float]) -> float:
    """The share that the first won, of a verdict whose outcomes have a column each, marked 1 or 0.

    Raises:
      Refused: another mark, or not exactly one column marked.
    """
    marked = [column for column in columns if as_truth(row.need("winner", column), column)]
    if len(marked) != 1:
        names = " and ".join(marked) or "none"
        raise Refused(f"{names} of {', '.join(columns)} marked, allowed: one")
    return columns[marked[0]]
