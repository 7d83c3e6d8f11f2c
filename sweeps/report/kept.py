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

from .documents import ROOT, Results, renew
from .runs import Run, is_finished, read

KEPT = ROOT / "docs" / "results"
FIGURES = ROOT / "notebooks" / "figures"
PROVENANCE = "provenance.json"

WHOLE_ROWS = 700
"""A longer table is kept without the rows that neither a page nor a number of the paper needs."""


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


def read_provenance() -> dict[str, dict[str, Any]]:
    """Name of kept results -> how they were made."""
    path = KEPT / PROVENANCE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def collect(folder: Path, only: Sequence[str] = (), variant: str = "") -> list[str]:
    """Make the documents anew from finished runs and, for the rest, what is kept; then keep the
    runs' figures and tables, but for long tables that no page needs.

    Args:
      folder: of results, `NAME/results.zarr` and `NAME/table.csv` in it.
      only: names of sweeps; default all that are finished there.
      variant: kept as NAME-VARIANT; needed for other settings than those of `full`.

    Returns:
      The results kept and the pages that changed.

    Raises:
      ValueError: a sweep that is not there, or of another preset without `variant`; a page that
        cannot be made. Then nothing is written.
    """
    there = [path.name for path in sorted(folder.glob("*")) if is_finished(path)]
    if absent := [name for name in only or there or ["results"] if name not in there]:
        raise ValueError(f"{folder} has no finished {', '.join(absent)}")
    runs = {}
    for name in only or there:
        run = Run.read(name, folder / name)
        if not variant and run.record["command"] != f"python -m sweeps.{name}":
            raise ValueError(f"{run.folder} is of {run.record['command']}: name it with --variant")
        runs[f"{name}-{variant}" if variant else name] = run
    results = Results(lambda name: runs[name].table if name in runs else table(name))
    changed, records = renew(results), read_provenance()
    for name, run in runs.items():
        (FIGURES / f"{name}.svg").write_text(run.figure(), encoding="utf-8")
        if curves := run.figure_of_curves():
            (FIGURES / f"{name}-curves.svg").write_text(curves, encoding="utf-8")
        rows, file = run.table, KEPT / f"{name}.csv"
        if len(rows) > WHOLE_ROWS:
            rows = rows[(rows.paper != "") | rows.index.isin(results.used[name])]
        rows.to_csv(file, index=False)
        records[name] = run.record
        if rows.empty:
            file.unlink()
            del records[name]
    text = json.dumps(dict(sorted(records.items())), indent=1, ensure_ascii=False)
    (KEPT / PROVENANCE).write_text(text + "\n", encoding="utf-8")
    return [*(name for name in runs if name in records), *changed]
