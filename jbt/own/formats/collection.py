"""Collect the records of several files of one format, and check them against each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jbt.own.formats import sources
from jbt.own.formats.generic import USUAL, GenericColumns
from jbt.own.formats.imported import GivenOrder, Imported, KnownItem, VerdictRow
from jbt.own.formats.records import (
    Anchor,
    Answer,
    Format,
    Item,
    Refused,
    RefusedFile,
    Row,
    Used,
    Verdict,
    as_name,
    brief,
)
from jbt.own.formats.registry import Name, known_formats, recognise
from jbt.own.tables.decoding import Damaged
from jbt.own.tables.sheets import Problems, TableError
from jbt.types import check_word


def collect(
    paths: Sequence[Path | str],
    *,
    format: Name = "auto",
    order: GivenOrder = None,
    judges: Sequence[str] = (),
    columns: GenericColumns = USUAL,
    strong_weight: int = 1,
) -> Imported:
    """Read files of one format.

    Args:
      format: `auto` recognises it by the keys of each file's first record.
      order: overrides what the source says about every verdict.
      judges: the judge, or one for each file, instead of the source's; needed for several files
        that name none.
      columns: columns of a generic table; naming any makes `auto` mean `generic`.
      strong_weight: how often a verdict `>>` of Arena-Hard counts (count, from 1).

    Raises:
      TableError: a file that cannot be read, is of no known format, or has records outside its
        format: a line each for the first twenty, then a count.
      ValueError: arguments that do not go together.
    """
    columns.check()
    judges = [as_name(judge, "--judge") for judge in judges]
    paths = [Path(path) for path in paths]
    _check(paths, format, judges, columns, strong_weight)
    formats = known_formats(columns, strong_weight)
    check_word("format", format, ("auto", *formats))
    collection = _Collection("generic" if columns.given() else format, formats)
    problems = Problems()
    for i, path in enumerate(paths):
        collection.read(path, judges[i % len(judges)] if judges else None, problems)
    problems.check()
    if collection.format is None or not collection.verdicts:
        raise TableError(f"{paths[0]}: no verdicts")
    if strong_weight != 1 and collection.format.name != "arena_hard":
        raise ValueError(f"strong weight {strong_weight}: {collection.format.name} has no `>>`")
    if (unnamed := list(collection.unnamed))[1:]:
        raise ValueError(
            f"{len(unnamed)} files do not name their judge, {unnamed[0]} among them: --judge needs "
            f"{len(paths)} names, one a file, or a single name for one judge"
        )
    return collection.imported(order)


def _check(
    paths: Sequence[Path],
    format: Name,
    judges: Sequence[str],
    columns: GenericColumns,
    strong_weight: int,
) -> None:
    if not paths:
        raise ValueError("no file to import")
    real = [path.resolve() for path in paths]
    twice = [path for i, path in enumerate(paths) if real[i] in real[:i]]
    if twice:
        raise ValueError(f"{twice[0]} is given twice")
    if len(judges) not in (0, 1, len(paths)):
        raise ValueError(f"{len(judges)} judges for {len(paths)} files: give one, or one a file")
    if columns.given() and format not in ("auto", "generic"):
        raise ValueError(f"columns are named for a generic table, not for {format}")
    if strong_weight < 1:
        raise ValueError(f"strong weight {strong_weight}: a whole number from 1")


class _Collection:
    """All records read so far."""

    def __init__(self, name: str, formats: Mapping[str, Format]):
        self.formats = formats
        self.format = formats.get(name)  # None: to be recognised
        self.verdicts: list[VerdictRow] = []
        self.items: dict[str, dict[str, KnownItem]] = {}
        self.anchors: dict[tuple[str, frozenset[str]], str] = {}
        self.used = Used()
        self.keys: dict[str, None] = {}
        self.sources: dict[str, int] = {}
        self.unnamed: dict[Path, None] = {}
        """Files with verdicts of an unnamed judge."""
        self.n_records = 0
        self.recognising = self.format is None

    def read(self, path: Path, judge: str | None, problems: Problems) -> None:
        """Read a file; what is wrong with it goes to `problems`."""
        source = self._name(path)
        number = -1
        try:
            for number, (line, values) in enumerate(sources.read(path)):
                try:
                    if number == 0:
                        self._recognise(values)
                    self._add(Row(path, source, number, line, values, self.used, judge))
                except Refused as refused:
                    problems.add(path, str(refused), line)
                    if isinstance(refused, RefusedFile):
                        return
        except Damaged as damaged:
            problems.add(path, str(damaged), damaged.line)
            return
        if number < 0:
            problems.add(path, "no records")

    def _name(self, path: Path) -> str:
        """Name the file; the name is unique among the files."""
        stem = re.sub(r"(\.(jsonl?|csv|tsv|txt|parquet))?(\.gz)?$", "", path.name)
        self.sources[stem] = self.sources.get(stem, 0) + 1
        return stem if self.sources[stem] == 1 else f"{stem} ({self.sources[stem]})"

    def _recognise(self, values: Mapping[str, Any]) -> None:
        """Recognise a file's format by its first record; all files must have the same."""
        self.keys |= dict.fromkeys(values)
        if self.recognising:
            format = recognise(values, self.formats)
            if self.format not in (None, format):
                raise RefusedFile(f"this is {format.name}, but {self.format.name} came before it")
            self.format = format

    def _add(self, row: Row) -> None:
        """Add one record of the source; a judge given by the user replaces its own.

        Raises:
          Refused: it is outside the format, or contradicts earlier records.
        """
        assert self.format is not None
        self.n_records += 1
        for record in self.format.records(row):
            if isinstance(record, Verdict):
                v, judge = record, row.judge or record.judge
                if judge is None:
                    self.unnamed[row.file] = None
                first, second = self._add_item(v.pool, v.first), self._add_item(v.pool, v.second)
                outcome = v.p_first, v.count, v.shown, v.numbered
                self.verdicts.append(VerdictRow(v.pool, judge, first, second, *outcome))
            elif isinstance(record, Answer):
                self._add_item(record.pool, record.item)
            else:
                self._add_anchor(record)

    def _add_anchor(self, anchor: Anchor) -> None:
        pair = anchor.pool, frozenset((anchor.better, anchor.worse))
        if self.anchors.setdefault(pair, anchor.better) != anchor.better:
            raise Refused(f"the label of pool {brief(anchor.pool)} again, and another one")

    def _add_item(self, pool: str, item: Item) -> str:
        self.items.setdefault(pool, {}).setdefault(item.name, KnownItem()).learn(item)
        return item.name

    def imported(self, order: GivenOrder) -> Imported:
        """Return all records, without answers that no verdict compares."""
        assert self.format is not None
        judged: dict[str, set[str]] = {}
        for v in self.verdicts:
            judged.setdefault(v.pool, set()).update((v.first, v.second))
        items = {
            pool: {name: item for name, item in self.items[pool].items() if name in names}
            for pool, names in judged.items()
        }
        return Imported(
            format=self.format,
            verdicts=self.verdicts,
            items=items,
            anchors=self.anchors,
            given_order=order,
            mapping={role: tuple(keys) for role, keys in self.used.mapping.items()},
            unused=tuple(key for key in self.keys if key not in self.used.keys),
            n_records=self.n_records,
            n_unjudged=sum(map(len, self.items.values())) - sum(map(len, items.values())),
        )
