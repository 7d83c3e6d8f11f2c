"""Collect the records of files of one format, check them against each other, and write them as
three tables; count them, and list what the source lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.own.formats import ratings, sources, texts
from jbt.own.formats.given import USUAL, GenericColumns, GivenOrder, refuse
from jbt.own.formats.known import FORMATS, Name, recognise
from jbt.own.formats.ratings import FAILED
from jbt.own.formats.records import (
    Anchor,
    Answer,
    Format,
    Item,
    Rating,
    Refused,
    Row,
    Verdict,
    as_name,
    brief,
)
from jbt.own.tables.decoding import Damaged
from jbt.own.tables.folder import SETTINGS, as_toml
from jbt.own.tables.outcomes import OUTCOMES, names_that_are_words
from jbt.own.tables.sheets import Problems, TableError
from jbt.types import check_word

TABLES = ("verdicts.csv", "items.csv", "anchors.csv", SETTINGS)

WRITTEN = {"pool", "judge", "first", "second", "winner", "p_first", "count", "order"}
"""Columns of the verdicts."""

MANY = 20
"""Number of judges above which they are probably people who voted."""


def collect(
    paths: Sequence[Path | str],
    *,
    format: Name = "auto",
    order: GivenOrder = None,
    judges: Sequence[str] = (),
    columns: GenericColumns = USUAL,
    strong_weight: int = 1,
    baseline: str | None = None,
    keep: Sequence[str] = (),
) -> Imported:
    """Read files of one format.

    Args:
      format: `auto` recognises it by the keys of each file's first record.
      order: overrides what the source says about every verdict.
      judges: the judge, or one for each file, instead of the source's; needed for several files
        that name none.
      columns: columns of a generic table; naming any makes `auto` mean `generic`.
      strong_weight: how often a verdict `>>` of Arena-Hard counts (count, from 1).
      baseline: the model that Arena-Hard v0.1 compares with, which its judgments do not name.
      keep: keys of the records that become columns of the verdicts, such as the language.

    Raises:
      TableError: a file that cannot be read, is of no known format, or has records outside its
        format: a line each for the first twenty, then a count.
      ValueError: arguments that do not go together.
    """
    columns.check()
    judges = [as_name(judge, "--judge") for judge in judges]
    paths = [Path(path) for path in paths]
    real = [path.resolve() for path in paths]
    twice = [path for i, path in enumerate(paths) if real[i] in real[:i]]
    is_own = columns != USUAL
    refuse(
        {
            "no file to import": not paths,
            f"{[*twice, None][0]} is given twice": twice,
            f"{len(judges)} judges for {len(paths)} files: give one, or one a file": (
                len(judges) not in (0, 1, len(paths))
            ),
            f"columns are named for a generic table, not for {format}": (
                is_own and format not in ("auto", "generic")
            ),
            "--judges are columns of judges, so --judge cannot name them": (
                columns.judges and judges
            ),
            f"strong weight {strong_weight}: a whole number from 1": strong_weight < 1,
            f"--keep {' '.join(keep)}: each key once, and none of {sorted(WRITTEN)}": (
                {*keep} & WRITTEN or len({*keep}) < len(keep)
            ),
        }
    )
    check_word("format", format, ("auto", *FORMATS))
    is_auto = format == "auto" and not is_own
    imported = Imported(FORMATS["generic" if format == "auto" else format], order, list(keep))
    problems, stems, answers = Problems(), Counter(), {}
    for i, path in enumerate(paths):
        stem = re.sub(r"(\.(jsonl?|csv|tsv|txt|parquet))?(\.gz)?$", "", path.name)
        stems[stem] += 1
        source = stem if stems[stem] == 1 else f"{stem} ({stems[stem]})"
        judge = judges[i % len(judges)] if judges else None
        number = -1
        try:
            for number, (line, values) in enumerate(sources.read(path)):
                more = columns, strong_weight, baseline, answers
                row = Row(path, source, number, line, values, imported.used, *more)
                try:
                    if number == 0:
                        imported.begin(row, is_auto)
                    imported.add(row, judge)
                except Refused as refused:
                    problems.add(path, str(refused), line)
        except Damaged as damaged:
            problems.add(path, str(damaged), damaged.line)
            continue
        if number < 0:
            problems.add(path, "no records")
    problems.check()
    imported.pair(columns)
    if not imported.verdicts:
        lone = ": no prompt has two rated answers" * bool(imported.scores)
        raise TableError(f"{paths[0]}: no verdicts{lone}")
    name, unnamed = imported.format.name, list(imported.unnamed)
    is_other = name != "arena_hard"
    refuse(
        {
            f"strong weight {strong_weight}: {name} has no `>>`": is_other and strong_weight != 1,
            f"--baseline {baseline}: for Arena-Hard, not for {name}": is_other and baseline,
            f"{len(unnamed)} files do not name their judge, {[*unnamed, None][0]} among them: "
            f"--judge needs {len(paths)} names, one a file, or a single name for one judge": (
                len(unnamed) > 1
            ),
        }
    )
    return imported


@dataclass(eq=False)
class Imported:
    """Verdicts, items and anchors of one or more files of one format."""

    format: Format
    given_order: GivenOrder
    """The order of every verdict according to the user; None: according to the source."""
    keep: list[str] = field(default_factory=list)
    """Keys of the records that become columns of the verdicts."""
    verdicts: list[Verdict] = field(default_factory=list)
    """Their items are names."""
    answers: dict[tuple[str, str], Item] = field(default_factory=dict)
    """By pool and name, also those that no verdict compares."""
    anchors: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)
    """Name of the better of two items of a pool."""
    scores: dict[tuple[str, str | None, str], dict[str, list[float | None]]] = field(
        default_factory=dict
    )
    """Ratings by pool, judge and ranking, and item."""
    n_failed: int = 0
    """Scores of -1 that are read as failed."""
    used: dict[str, dict[tuple[str, str], None]] = field(default_factory=dict)
    """See `Row.used`."""
    keys: dict[str, None] = field(default_factory=dict)
    """Of the files' first records."""
    unnamed: dict[Path, None] = field(default_factory=dict)
    """Files with verdicts of an unnamed judge."""
    n_records: int = 0

    def begin(self, row: Row, is_auto: bool) -> None:
        """Begin a file with its first record, whose keys show the format if `is_auto`.

        Raises:
          Damaged: it is of no known format, or of another one than the files before.
        """
        is_first = not self.keys
        self.keys |= dict.fromkeys(row.values)
        if not is_auto:
            return
        try:
            format = recognise(row.values)
        except Refused as refused:
            raise Damaged(str(refused), row.line) from None
        if not is_first and format != self.format:
            what = f"this is {format.name}, but {self.format.name} came before it"
            raise Damaged(what, row.line)
        self.format = format

    def add(self, row: Row, judge: str | None) -> None:
        """Add one record of the source; a judge given by the user replaces its own.

        Raises:
          Refused: it is outside the format, or contradicts earlier records.
        """
        self.n_records += 1
        for record in self.format.records(row):
            if isinstance(record, Anchor):
                pair = record.pool, frozenset((record.better, record.worse))
                if self.anchors.setdefault(pair, record.better) != record.better:
                    raise Refused(f"the label of pool {brief(record.pool)} again, and another one")
                continue
            for item in record[1:3] if isinstance(record, Verdict) else record[1:2]:
                place = record.pool, item.name
                known = self.answers.get(place)
                if known is not None or item.text is not None:
                    item = _merged(known or Item(item.name), item)
                self.answers[place] = item
            if isinstance(record, Answer):
                continue
            by = judge or record.judge
            if by is None:
                self.unnamed[row.file] = None
            if isinstance(record, Rating):
                of_judge = self.scores.setdefault((record.pool, by, record.ranking), {})
                of_judge.setdefault(record.item.name, []).append(record.score)
                continue
            first, second = record.first.name, record.second.name
            kept = tuple(_plain(row.need("kept", key), key) for key in self.keep)
            self.verdicts.append(record._replace(first=first, second=second, judge=by, kept=kept))

    def pair(self, columns: GenericColumns) -> None:
        """Make verdicts of the ratings. Scores of -1 failed where no other score of a table of the
        user's own is negative and some are above 1, unless the user says what codes mean.

        Raises:
          ValueError: the order is said to be shown, though answers were rated one by one.
        """
        refuse(
            {
                "--keep: a verdict from two ratings has no record of its own": (
                    self.scores and self.keep
                ),
                "--order shown: ratings and rankings have no first and second answer": (
                    self.scores and self.given_order == "shown"
                ),
            }
        )
        rated = [scores for of_judge in self.scores.values() for scores in of_judge.values()]
        lists = [*rated, *(v.scores for v in self.verdicts)] * (self.format.name == "generic")
        known = {score for scores in lists for score in scores if score is not None}
        is_failure = {score for score in known if score < 0} == {FAILED} and max(known) > 1
        if columns.outcomes is None and is_failure:
            self.n_failed = sum(scores.count(FAILED) for scores in lists)
            self.verdicts = [
                v._replace(p_first=None) if FAILED in v.scores else v for v in self.verdicts
            ]
            for scores in rated:
                scores[:] = [None if v == FAILED else v for v in scores]
        for (pool, judge, _), scores in self.scores.items():
            self.verdicts += ratings.pairs(pool, judge, scores)

    @property
    def mapping(self) -> dict[str, tuple[str, ...]]:
        """For each thing written, the keys of the source that it came from."""
        return {role: tuple(map("".join, keys)) for role, keys in self.used.items()}

    @property
    def unused(self) -> tuple[str, ...]:
        """Keys of the files' first records that were not used."""
        used = {key for keys in self.used.values() for key, _ in keys}
        return tuple(key for key in self.keys if key not in used)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The fields of each verdict."""
        return pd.DataFrame(self.verdicts, columns=list(Verdict._fields), dtype=object)

    @cached_property
    def pattern(self) -> str | None:
        """A pattern in the two columns, which suggests that they are not in the order shown."""
        sides = [self.table[side] for side in ("first", "second")]
        for names in sides:
            if names.nunique() == 1:
                return f"{names.name} is always {brief(names[0])}"
        first, second = (names.str.casefold() for names in sides)
        if (first <= second).all() or (first >= second).all():
            return "first and second are in alphabetical order"
        return None

    @cached_property
    def shown(self) -> pd.Series:
        """[verdicts] whether the first is known to have been shown first."""
        shown = self.table["shown"].astype(bool)
        if self.given_order is not None:
            return shown.map(lambda _: self.given_order == "shown")
        return shown & (self.format.order != "columns" or self.pattern is None)

    @cached_property
    def items(self) -> pd.DataFrame:
        """A row for each item that some verdict compares: pool, item, content (who wrote it, None
        if the source does not say), by_place, and what was counted."""
        judged = {(v.pool, name) for v in self.verdicts for name in (v.first, v.second)}
        rows = [
            {
                **{"pool": pool, "item": name, "content": item.content},
                "by_place": item.by_place,
                **item.measures,
            }
            for (pool, name), item in self.answers.items()
            if (pool, name) in judged
        ]
        items = pd.DataFrame(rows, dtype=object)
        for name in list(items)[4:]:
            items[name] = _whole(items[name])
        pools = pd.Index(self.table["pool"].unique())
        # Within a pool by name: the order of a table must not look like the order shown.
        return items.iloc[np.lexsort([items["item"], pools.get_indexer(pd.Index(items["pool"]))])]

    @cached_property
    def judges(self) -> list[str]:
        """Names of the judges, in the order of the verdicts."""
        return self.table["judge"].dropna().unique().tolist()

    @cached_property
    def measures(self) -> list[str]:
        """Covariates that at least one item has."""
        return [str(name) for name in self.items][4:]

    @cached_property
    def contents(self) -> list[str]:
        """Who wrote the items, where the source says so."""
        return self.items["content"].dropna().unique().tolist()

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of each thing; a verdict is counted once whatever its `count`."""
        share, items = self.table["p_first"], self.items
        counted = items[self.measures].notna().all(axis=1) & bool(self.measures)
        counts = {
            "records": self.n_records,
            "verdicts": len(share),
            "ties": (share == 0.5).sum(),
            "errors": share.isna().sum(),
            "order_shown": self.shown.sum(),
            "order_unknown": (~self.shown).sum(),
            "pools": items["pool"].nunique(),
            "judges": len(self.judges),
            "items": len(items),
            "contents": len(self.contents),
            "items_without_lengths": (~counted).sum(),
            "answers_without_verdict": len(self.answers) - len(items),
            "anchors": len(self.anchors),
        }
        return {name: int(n) for name, n in counts.items()}

    def notes(self) -> list[str]:
        """Warnings, in sentences."""
        n_judges, n_unjudged = len(self.judges), self.counts["answers_without_verdict"]
        against = self.given_order == "shown" and self.format.order != "recorded" and self.pattern
        largest = max(map(len, self.scores.values()), default=0)
        agree = bool(self.anchors) and self.format.name == "generic" and self._all_as_labelled()
        notes = {
            f"{n_judges} judges; if they are one crowd, --judge NAME makes them one": (
                n_judges > MANY
            ),
            f"order is shown, as you say, though {self.pattern}": against,
            "winners 1 and 2 are read as first and second; if they are steps of a longer scale, "
            "say which: --scale 1:7": self.table["numbered"].any(),
            f"{n_unjudged} answers that no verdict compares are left out": n_unjudged,
            f"scores of -1 ({self.n_failed}) are read as failed: no other is negative": (
                self.n_failed
            ),
            "each pair of m answers that a judge rated or ranked on a prompt counts 2/m, so that a "
            "prompt counts as m - 1 verdicts; these depend on each other, which intervals over "
            "prompts allow for (jbt leaderboard) and others do not": largest > 2,
            "every verdict agrees with its label: labels made of the verdicts are no gold": agree,
        }
        return [note for note, holds in notes.items() if holds]

    def _all_as_labelled(self) -> bool:
        labelled = [
            (v, self.anchors[pair])
            for v in self.verdicts
            if (pair := (v.pool, frozenset(v[1:3]))) in self.anchors
        ]
        return len(labelled) > 1 and all(v.p_first == (label == v.first) for v, label in labelled)

    def not_known(self) -> list[str]:
        """What the source does not say, in sentences."""
        counts = self.counts
        unknown, missing = counts["order_unknown"], counts["items_without_lengths"]
        if self.given_order is not None:
            why = "as you say"
        elif self.scores:
            why = "answers that are rated or ranked are not shown in pairs"
        elif self.format.order == "columns":
            why = f"{self.pattern}, so it may not be the order shown (--order shown if it is)"
        elif self.format.name == "generic":
            why = "the table does not record it (--order shown if first was shown first)"
        else:
            why = f"{self.format.title} do not record it"
        default = "; each is its own, pool/item" * bool(self.items["by_place"].any())
        no_prompts = self.format.name == "generic" and "pool" not in self.used
        gaps = {
            "prompt: no column names it, so each row is one of its own (--pool COLUMN)": (
                no_prompts and counts["pools"] > 1
            ),
            f"order shown of {unknown} of {counts['verdicts']} verdicts: {why}": unknown,
            "judge: all verdicts are taken for one judge's (--judge NAME)": not self.judges,
            f"lengths of {missing} of {counts['items']} items: no texts in these files": missing,
            f"content: which items are of one model{default}": not self.contents,
            "anchors: no gold labels": not self.anchors,
        }
        return [gap for gap, holds in gaps.items() if holds]

    def write(
        self, out: Path | str, overwrite: bool = False, **settings: str | list[str]
    ) -> list[Path]:
        """Write the tables into a folder, and `jbt.toml`, by which commands read them: all of them
        or none.

        Args:
          settings: more of `jbt.toml`.

        Returns:
          The tables written; `anchors.csv` only where the source has labels.

        Raises:
          ValueError: a table exists and may not be overwritten, or cannot be written.
        """
        out = Path(out)
        check_folder(out, overwrite)
        anchors = [
            (pool, better, *pair - {better}) for (pool, pair), better in self.anchors.items()
        ]
        tables = {
            "verdicts": self._verdict_rows(),
            "items": self._item_rows(),
            "anchors": pd.DataFrame(anchors, columns=["pool", "better", "worse"]),
        }
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cannot write {out}: {error.strerror}") from None
        written = {name: f"{name}.csv" for name, rows in tables.items() if len(rows)}
        named: dict[str, Any] = dict(written)
        if varying := [name for name in self.measures if self.items[name].nunique() > 1]:
            named |= {"covariates": varying[:1], "transform": "log1p"}
        contents = {SETTINGS: as_toml(named | settings).encode()}
        for name, file in written.items():
            contents[file] = tables[name].to_csv(index=False, lineterminator="\n").encode()
        contents[SETTINGS] += files.mark(contents, SETTINGS).encode()
        together = {out / file: content for file, content in contents.items()}
        files.write_together(together, overwrite=overwrite)
        for name in tables.keys() - written.keys():
            (out / f"{name}.csv").unlink(missing_ok=True)  # of another import
        return [out / file for file in written.values()]

    def _verdict_rows(self) -> pd.DataFrame:
        table = self.table
        rows = table.assign(
            judge=table["judge"].fillna("unknown"),
            winner=pd.Series([OUTCOMES.get(share) for share in table["p_first"]], dtype=object),
            order=np.where(self.shown, "shown", "unknown"),
            count=_whole(table["count"]),
        )
        graded = self.format.graded or not table["p_first"].isin(list(OUTCOMES)).all()
        graded = graded or names_that_are_words(self.items["item"])  # "first" might be either
        judge, count = ["judge"] * bool(self.judges), ["count"] * bool((rows["count"] != 1).any())
        won = "p_first" if graded else "winner"
        kept = pd.DataFrame(table["kept"].tolist(), rows.index, columns=self.keep, dtype=object)
        return rows[["pool", *judge, "first", "second", won, *count, "order"]].join(kept)

    def _item_rows(self) -> pd.DataFrame:
        items = self.items.drop(columns="by_place")
        if not self.contents and not self.items["by_place"].any():
            return items.drop(columns="content")
        # The same place in another pool holds an answer of another model.
        place = items["pool"] + "/" + items["item"]
        owner = items["item"].mask(self.items["by_place"].astype(bool), place)
        return items.assign(content=items["content"].fillna(owner))


def _whole(numbers: pd.Series) -> pd.Series:
    """Numbers, the whole ones without a decimal point."""
    whole = [int(n) if n % 1 == 0 else n for n in numbers.tolist()]
    return pd.Series(whole, numbers.index, dtype=object)


def _plain(value: Any, key: str) -> Any:
    """A value that fits into a cell.

    Raises:
      Refused: it does not.
    """
    if isinstance(value, list | dict):
        raise Refused(f"{key} is {brief(value)}: --keep takes text, numbers and true or false")
    return value


def _merged(known: Item, item: Item) -> Item:
    """What is known of an item once one more record is read.

    Raises:
      Refused: it contradicts an earlier record.
    """
    measures = known.measures
    others = [name for name, n in measures.items() if item.measures.get(name, n) != n]
    if None not in (known.content, item.content) and known.content != item.content:
        others.insert(0, "content")
    if None not in (known.text, item.text) and known.text != hash(item.text):
        others.append("text")
    if others:
        raise Refused(f"item {brief(item.name)} again in one pool, with another {others[0]}")
    text = known.text
    if text is None and item.text is not None:
        text, measures = hash(item.text), {**texts.measures(str(item.text)), **measures}
    return Item(
        item.name,
        known.content or item.content,
        text,
        {**measures, **item.measures},
        known.by_place or item.by_place,
    )


def check_folder(out: Path, overwrite: bool) -> None:
    """Raise `ValueError` unless the tables may be written into this folder."""
    files.check_folder(out, TABLES, overwrite=overwrite)
