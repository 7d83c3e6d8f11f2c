"""Write what was read from a source as three tables; count it, and list what the source lacks."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jbt.border import files
from jbt.own.formats import texts
from jbt.own.formats.records import Format, Item, Refused, brief
from jbt.own.tables.outcomes import OUTCOMES, names_that_are_words

TABLES = ("verdicts.csv", "items.csv", "anchors.csv")

MANY = 20
"""Number of judges above which they are probably people who voted."""

GivenOrder = Literal["shown", "unknown"] | None


class VerdictRow(NamedTuple):
    """A verdict, without the texts of its items: see `records.Verdict`."""

    pool: str
    judge: str | None
    first: str
    second: str
    p_first: float | None
    count: int
    shown: bool
    numbered: bool = False


@dataclass
class KnownItem:
    """What the records read so far say about an item."""

    content: str | None = None
    text: int | None = None
    """Hash of its text."""
    measures: dict[str, float] = field(default_factory=dict)
    by_place: bool = False

    def learn(self, item: Item) -> None:
        """Add what one more record says.

        Raises:
          Refused: it contradicts an earlier record.
        """
        again = f"item {brief(item.name)} again in one pool, with another"
        if None not in (self.content, item.content) and self.content != item.content:
            raise Refused(f"{again} content")
        for name in self.measures.keys() & item.measures.keys():
            if self.measures[name] != item.measures[name]:
                raise Refused(f"{again} {name}")
        if item.text is not None and self.text != (text := hash(item.text)):
            if self.text is not None:
                raise Refused(f"{again} text")
            self.text = text
            self.measures = {**texts.measures(item.text), **self.measures}
        self.content = self.content or item.content
        self.by_place = self.by_place or item.by_place
        self.measures = {**self.measures, **item.measures}


@dataclass(frozen=True, eq=False)
class Imported:
    """Verdicts, items and anchors of one or more files of one format."""

    format: Format
    verdicts: list[VerdictRow]
    items: dict[str, dict[str, KnownItem]]
    """By pool and name."""
    anchors: dict[tuple[str, frozenset[str]], str]
    """Name of the better of two items of a pool."""
    given_order: GivenOrder
    """The order of every verdict according to the user; None: according to the source."""
    mapping: Mapping[str, tuple[str, ...]]
    """For each thing written, the keys of the source that it came from."""
    unused: tuple[str, ...]
    """Keys of the files' first records that were not used."""
    n_records: int
    n_unjudged: int
    """Answers left out because no verdict compares them."""

    @cached_property
    def pattern(self) -> str | None:
        """A pattern in the two columns, which suggests that they are not in the order shown."""
        for side in ("first", "second"):
            names = {getattr(v, side) for v in self.verdicts}
            if len(names) == 1:
                return f"{side} is always {brief(*names)}"
        pairs = [(v.first.casefold(), v.second.casefold()) for v in self.verdicts]
        if all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs):
            return "first and second are in alphabetical order"
        return None

    def order(self, verdict: VerdictRow) -> Literal["shown", "unknown"]:
        """Whether the first is known to have been shown first."""
        if self.given_order is not None:
            return self.given_order
        doubtful = self.format.order == "columns" and self.pattern is not None
        return "shown" if verdict.shown and not doubtful else "unknown"

    @cached_property
    def judges(self) -> list[str]:
        """Names of the judges, in the order of the verdicts."""
        return [judge for judge in dict.fromkeys(v.judge for v in self.verdicts) if judge]

    @cached_property
    def measures(self) -> list[str]:
        """Covariates that at least one item has."""
        return list(dict.fromkeys(name for item in self._items() for name in item.measures))

    @cached_property
    def contents(self) -> list[str]:
        """Who wrote the items, where the source says so."""
        return [c for c in dict.fromkeys(item.content for item in self._items()) if c]

    @property
    def _by_place(self) -> bool:
        return any(item.by_place for item in self._items())

    def _items(self) -> Iterator[KnownItem]:
        return (item for items in self.items.values() for item in items.values())

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of each thing; a verdict is counted once whatever its `count`."""
        shown = sum(self.order(v) == "shown" for v in self.verdicts)
        n_measures = max(len(self.measures), 1)
        return {
            "records": self.n_records,
            "verdicts": len(self.verdicts),
            "ties": sum(v.p_first == 0.5 for v in self.verdicts),
            "errors": sum(v.p_first is None for v in self.verdicts),
            "order_shown": shown,
            "order_unknown": len(self.verdicts) - shown,
            "pools": len(self.items),
            "judges": len(self.judges),
            "items": sum(map(len, self.items.values())),
            "contents": len(self.contents),
            "items_without_lengths": sum(len(i.measures) < n_measures for i in self._items()),
            "answers_without_verdict": self.n_unjudged,
            "anchors": len(self.anchors),
        }

    def notes(self) -> list[str]:
        """Warnings, in sentences."""
        notes = []
        if len(self.judges) > MANY:
            notes.append(
                f"{len(self.judges)} judges; if they are one crowd, --judge NAME makes them one"
            )
        if self.given_order == "shown" and self.format.order != "recorded" and self.pattern:
            notes.append(f"order is shown, as you say, though {self.pattern}")
        if any(v.numbered for v in self.verdicts):
            notes.append(
                "winners 1 and 2 are read as first and second; if they are steps of a longer "
                "scale, say which: --scale 1:7"
            )
        if self.n_unjudged:
            notes.append(f"{self.n_unjudged} answers that no verdict compares are left out")
        return notes

    def not_known(self) -> list[str]:
        """What the source does not say, in sentences."""
        gaps, counts = [], self.counts
        if unknown := counts["order_unknown"]:
            gaps.append(f"order shown of {unknown} of {counts['verdicts']} verdicts: {self._why()}")
        if not self.judges:
            gaps.append("judge: all verdicts are taken for one judge's (--judge NAME)")
        if missing := counts["items_without_lengths"]:
            gaps.append(f"lengths of {missing} of {counts['items']} items: no texts in these files")
        if not self.contents:
            default = "; each is its own, pool/item" * self._by_place
            gaps.append(f"content: which items are of one model{default}")
        if not self.anchors:
            gaps.append("anchors: no gold labels")
        return gaps

    def _why(self) -> str:
        if self.given_order is not None:
            return "as you say"
        if self.format.order == "columns":
            return f"{self.pattern}, so it may not be the order shown (--order shown if it is)"
        if self.format.name == "generic":
            return "the table does not record it (--order shown if first was shown first)"
        return f"{self.format.title} do not record it"

    def write(self, out: Path | str, overwrite: bool = False) -> list[Path]:
        """Write the tables into a folder: all of them or none.

        Returns:
          The files written; `anchors.csv` only where the source has labels.

        Raises:
          ValueError: a table exists and may not be overwritten, or cannot be written.
        """
        out = Path(out)
        check_folder(out, overwrite)
        tables = dict(
            zip(TABLES, (self._verdicts(), self._item_rows(), self._anchors()), strict=True)
        )
        if not self.anchors:
            del tables["anchors.csv"]
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cannot write {out}: {error.strerror}") from None
        writes = {out / name: _writer(rows) for name, rows in tables.items()}
        files.write_together(writes, overwrite=overwrite)
        for name in set(TABLES) - set(tables):
            (out / name).unlink(missing_ok=True)  # of another import
        return [out / name for name in tables]

    def _verdicts(self) -> Iterator[list[Any]]:
        graded = self.format.graded or any(v.p_first not in OUTCOMES for v in self.verdicts)
        names = (name for items in self.items.values() for name in items)
        graded = graded or bool(names_that_are_words(names))  # "first" might be either
        judges, counted = bool(self.judges), any(v.count != 1 for v in self.verdicts)
        yield [
            "pool",
            *(["judge"] if judges else []),
            "first",
            "second",
            "p_first" if graded else "winner",
            *(["count"] if counted else []),
            "order",
        ]
        for v in self.verdicts:
            yield [
                v.pool,
                *([v.judge or "unknown"] if judges else []),
                v.first,
                v.second,
                v.p_first if graded else OUTCOMES[v.p_first],
                *([v.count] if counted else []),
                self.order(v),
            ]

    def _item_rows(self) -> Iterator[list[Any]]:
        content, measures = bool(self.contents) or self._by_place, self.measures
        yield ["pool", "item", *(["content"] if content else []), *measures]
        for pool, items in self.items.items():
            for name, item in items.items():
                values = [item.measures.get(m) for m in measures]
                counts = [int(v) if v is not None and v.is_integer() else v for v in values]
                # The same place in another pool holds an answer of another model.
                owner = item.content or (f"{pool}/{name}" if item.by_place else name)
                yield [pool, name, *([owner] if content else []), *counts]

    def _anchors(self) -> Iterator[list[Any]]:
        yield ["pool", "better", "worse"]
        for (pool, pair), better in self.anchors.items():
            yield [pool, better, *(pair - {better})]


def _writer(rows: Iterable[list[Any]]):
    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)

    return write


def check_folder(out: Path, overwrite: bool) -> None:
    """Raise `ValueError` unless the tables may be written into this folder."""
    files.check_folder(out, TABLES, overwrite=overwrite)
