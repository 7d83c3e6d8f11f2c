"""Queries and answers of a study as files: CSV, or JSON lines by the name `.jsonl`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.border.inputs import noted, read_bytes
from jbt.own.studies.book import ANSWERED, Query
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
        names = [name for name in ASKED if name != "judge" or query.judge is not None]
        row = {name: getattr(query, name) for name in ("id", *names)}
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
            rows = list(_rows(path, study))
        for _, answer, query, mismatch in rows:
            if query is None or mismatch:
                return False
            if answer.keys() - {"id"}:
                result, facts = study.book.checked(answer, query)
                told = study.book.answers.get(query.id, {})
                if "cost" not in answer:
                    del result["cost"]
                if any(told.get(name) != value for name, value in (result | facts).items()):
                    return False
    except ValueError:
        return False
    return True


def read_answers(path: Path, study: Study) -> list[dict[str, Any]]:
    """Read answers, for `Study.tell_all`: the rows of `text_of` with winner, p_first or
    error, optional cost and further facts. Empty cells say nothing. A row without a winner, a share
    or an error is not answered yet, and is left out.

    Raises:
      ValueError: a file that cannot be read, or has no column for an answer; a row whose pool,
        items or judge are not those of its query, a line for each.
    """
    answers, problems = [], []
    for line, answer, _, mismatch in _rows(path, study, ANSWERED):
        if answer.keys().isdisjoint(ANSWERED):
            continue
        if "id" not in answer:
            mismatch = "no id of a query"
        if mismatch:  # an id of no query is named by `tell_all`
            problems.append(f"{path}, line {line}: {mismatch}")
        answers.append(answer)
    if problems:
        raise ValueError("\n".join(problems[:20]))
    return answers


def _rows(
    path: Path, study: Study, needed: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any], Query | None, str]]:
    """Yield of each row its line, its id and what it says beside the query, the query of this id,
    and what it says about that which is not so.

    Args:
      needed: columns of which the file has one.
    """
    lines = _json_lines(path) if is_lines(path) else _table(path)
    columns = dict.fromkeys(name for row in lines.values() for name in row)
    if lines and needed and columns.keys().isdisjoint(needed):
        have = ", ".join(map(repr, columns))
        raise ValueError(f"{path}: needs a column winner, p_first or error; columns are {have}")
    cells = set(study.items.rows.columns) - {"item", "pool"}
    of_query = {*ASKED, *(f"{side}_{name}" for side in ("first", "second") for name in cells)}
    for line, row in lines.items():
        said = {k: v for k, v in row.items() if v is not None and v != ""}
        query = study.book.query(said.get("id"))
        asked = {name: getattr(query, name, said.get(name)) for name in ASKED[:-1] if name in said}
        mismatches = [
            f"{name} of query {said['id']} was {value!r}, and the row has {said[name]!r}"
            for name, value in asked.items()
            if str(value) != str(said[name])
        ]
        answer = {k: v for k, v in said.items() if k not in of_query}
        yield line, answer, query, "".join(mismatches[:1])


def _table(path: Path) -> dict[int, Mapping[str, Any]]:
    return dict(enumerate(read_cells(path, ["id"]).to_dict("records"), start=2))  # type: ignore[arg-type]


def _json_lines(path: Path) -> dict[int, Mapping[str, Any]]:
    """The objects of a file by line."""
    line, rows = 0, {}
    try:
        for line, text in enumerate(io.StringIO(decode(read_bytes(path))), start=1):
            if text.strip():
                rows[line] = row = json.loads(text, object_pairs_hook=_without_repeats)
                if not isinstance(row, dict):
                    raise ValueError(f"needs an object, got {text.strip()[:40]}")
                json.dumps(row, ensure_ascii=False).encode()  # half a pair of surrogates is no text
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        line = error.line if isinstance(error, Damaged) else line
        where = f", line {line}" if line else ""
        raise ValueError(f"{path}{where}: {error}") from None
    return rows


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which each key may be given once."""
    row: dict[str, Any] = {}
    for name, value in pairs:
        if name in row:
            raise ValueError(f"{name!r} is given twice")
        row[name] = value
    return row
