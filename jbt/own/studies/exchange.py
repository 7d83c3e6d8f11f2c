"""Queries and answers of a study as files: CSV, or JSON lines by the name `.jsonl`."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.border.inputs import noted, read_bytes
from jbt.own.studies.book import ANSWERED, Query, number_of
from jbt.own.studies.study import Study
from jbt.own.tables.decoding import Damaged, decode
from jbt.own.tables.sheets import read_cells

ASKED = ("pool", "first", "second", "judge", "attempt")
"""Columns of a query beside its id, which are no part of an answer."""


def is_lines(path: Path) -> bool:
    """Whether a file is one of JSON lines, by its name."""
    return path.suffix in (".jsonl", ".ndjson")


def text_of(queries: Sequence[Query], path: Path | None = None) -> str:
    """The queries as CSV, or for a file of that name as JSON lines: id, pool, items, judge and
    attempt, then every other column of the items table, of both items: `first_text`,
    `second_text`."""
    rows = []
    for query in queries:
        row = {name: getattr(query, name) for name in ("id", *ASKED)}
        if query.judge is None:
            del row["judge"]
        for side, cells in (("first", query.first_row), ("second", query.second_row)):
            row |= {f"{side}_{k}": v for k, v in cells.items() if k not in ("item", "pool")}
        rows.append(row)
    if path is not None and is_lines(path):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    columns = pd.Index(rows[0] if rows else ["id", *ASKED])
    return pd.DataFrame(rows, columns=columns).to_csv(index=False, lineterminator="\n")


def is_done(path: Path, study: Study) -> bool:
    """Whether a file holds queries of the study and nothing that the study does not know: what was
    added to a row was told."""
    try:
        with noted():  # of its own: the file is not one that the command reads
            rows = _rows(path)
    except ValueError:
        return False
    known = {"id", *_query_columns(study)}
    for _, row in rows:
        query = _query(row, study)
        if query is None or _mismatch(row, query):
            return False
        added = {k: v for k, v in row.items() if k not in known and v not in ("", None)}
        told = study.book.answers.get(query.id, {})
        if not all(_is_told(name, cell, told, query) for name, cell in added.items()):
            return False
    return True


def _is_told(name: str, cell: Any, told: Mapping[str, Any], query: Query) -> bool:
    """Whether a cell that was added to a query is in the record of its answer."""
    if name == "winner":
        cell = {query.first: "first", query.second: "second"}.get(cell, str(cell).strip().lower())
        if cell == "error":
            return "error" in told
    if name not in told:
        return False
    try:
        return float(cell) == float(told[name])
    except (TypeError, ValueError):
        return str(cell) == str(told[name])


def read_answers(path: Path, study: Study) -> list[dict[str, Any]]:
    """Read answers, for `Study.tell_all`: the rows of `text_of` with winner, p_first or
    error, optional cost and further facts. Empty cells say nothing. A row without a winner, a share
    or an error is not answered yet, and is left out.

    Raises:
      ValueError: a file that cannot be read, or has no column for an answer; a row whose pool,
        items or judge are not those of its query, a line for each.
    """
    query_columns = _query_columns(study)
    answers, problems = [], []
    rows = _rows(path)
    columns = dict.fromkeys(name for _, row in rows for name in row)
    if rows and columns.keys().isdisjoint(ANSWERED):
        have = ", ".join(map(repr, columns))
        raise ValueError(f"{path}: needs a column winner, p_first or error; columns are {have}")
    for line, row in rows:
        said = {k: v for k, v in row.items() if v is not None and v != ""}
        answer = {k: v for k, v in said.items() if k not in query_columns}
        if answer.keys().isdisjoint(ANSWERED):
            continue
        if "id" not in said:
            problems.append(f"{path}, line {line}: no id of a query")
            continue
        query = _query(row, study)  # where there is none, `tell_all` says so
        if query is not None and (mismatch := _mismatch(said, query)):
            problems.append(f"{path}, line {line}: {mismatch}")
        answers.append(answer)
    if problems:
        raise ValueError("\n".join(problems[:20]))
    return answers


def _query_columns(study: Study) -> set[str]:
    """The columns of a query beside its id."""
    cells = set(study.items.rows.columns) - {"item", "pool"}
    return {*ASKED, *(f"{side}_{name}" for side in ("first", "second") for name in cells)}


def _rows(path: Path) -> list[tuple[int, Mapping[str, Any]]]:
    if not is_lines(path):
        return list(enumerate(read_cells(path, ["id"]).to_dict("records"), start=2))  # type: ignore[arg-type]
    try:
        lines = decode(read_bytes(path))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None
    except Damaged as error:
        line = f", line {error.line}" if error.line else ""
        raise ValueError(f"{path}{line}: {error}") from None
    rows = []
    for number, line in enumerate(io.StringIO(lines), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_without_repeats)
            json.dumps(row, ensure_ascii=False).encode()  # half a pair of surrogates is no text
        except RecursionError:
            raise ValueError(f"{path}, line {number}: too many brackets") from None
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: needs an object, got {line.strip()[:40]}")
        rows.append((number, row))
    return rows


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which each key may be given once."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return row


def _query(row: Mapping[str, Any], study: Study) -> Query | None:
    number = number_of(row.get("id"))
    return None if number is None else study.book.queries.get(number)


def _mismatch(said: Mapping[str, Any], query: Query) -> str | None:
    """What a row says about its query that is not so; None where all is."""
    for name in ASKED[:-1]:
        asked = getattr(query, name)
        if name in said and str(said[name]) != str(asked):
            return f"{name} of query {query.id} was {asked!r}, and the row has {said[name]!r}"
    return None
