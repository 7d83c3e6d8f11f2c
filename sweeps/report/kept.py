"""The results that the documents quote, kept beside them.

`docs/results/NAME.csv` is the table of a sweep's `full` preset, `NAME-VARIANT.csv` that of other
settings; `provenance.json` says how each was made. Cells have all digits of `table.csv`: rounded
here and again in a page, one number in twenty would end in another digit.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.experiments import folder as store

from . import figures
from .documents import ROOT, choices
from .runs import Run, read, record_of

KEPT = ROOT / "docs" / "results"
PROVENANCE = "provenance.json"

WHOLE_BYTES = 60_000
"""A larger table is kept without the rows that neither a page nor a number of the paper needs."""


def table(name: str) -> pd.DataFrame:
    """The table that is kept beside the documents.

    Raises:
      ValueError: there is none.
    """
    path = KEPT / f"{name}.csv"
    if not path.is_file():
        raise ValueError(f"no results {name}: python -m sweeps.report --collect RESULTS keeps them")
    return _read_once(path)


_read_once = functools.cache(read)


def collect(folder: Path, only: Sequence[str] = (), variant: str = "") -> list[str]:
    """Keep tables of finished runs beside the documents, but large ones that no page needs, and
    their figures in notebooks/figures.

    Args:
      folder: of results, `NAME/results.nc` and `NAME/table.csv` in it.
      only: names of sweeps; default all that are finished there.
      variant: kept as NAME-VARIANT; needed for other settings than those of `full`.

    Returns:
      The names under which they are kept.

    Raises:
      ValueError: a sweep that is not there, or of another preset without `variant`.
    """
    finished = [path.parent for path in sorted(folder.glob(f"*/{store.RESULTS}"))]
    runs = {run.name: run for run in finished if (run / store.TABLE).is_file()}
    if absent := [name for name in only if name not in runs] or ([] if runs else ["results"]):
        raise ValueError(f"{folder} has no finished {', '.join(absent)}")
    records = read_provenance()
    made = []
    for name in only or runs:
        record = record_of(name, runs[name])
        if not variant and record["command"] != f"python -m sweeps.{name}":
            raise ValueError(f"{runs[name]} is of {record['command']}: name it with --variant")
        key = f"{name}-{variant}" if variant else name
        figures.keep(Run.read(name, runs[name]), key)
        table = _needed(key, runs[name] / store.TABLE)
        if table.empty:
            records.pop(key, None)
            (KEPT / f"{key}.csv").unlink(missing_ok=True)
            continue
        KEPT.mkdir(exist_ok=True)
        table.to_csv(KEPT / f"{key}.csv", index=False)
        records[key] = record
        made.append(key)
    text = json.dumps(dict(sorted(records.items())), indent=1, ensure_ascii=False)
    (KEPT / PROVENANCE).write_text(text + "\n", encoding="utf-8")
    return made


def read_provenance() -> dict[str, dict[str, Any]]:
    """Name of kept results -> how they were made."""
    path = KEPT / PROVENANCE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _needed(name: str, path: Path) -> pd.DataFrame:
    """The whole table, or of a large one the rows that pages choose and those beside a number of
    the paper."""
    table = read(path)
    if path.stat().st_size <= WHOLE_BYTES:
        return table
    needed = table.paper != ""
    for choice in choices(name):
        needed[choice.rows(table).index] = True
    return table[needed]
