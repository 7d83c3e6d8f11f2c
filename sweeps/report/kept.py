"""The results that the documents quote, kept beside them.

`docs/results/NAME.csv` is the table of a sweep's `full` preset, `NAME-VARIANT.csv` that of other
settings; `provenance.json` says how each was made. Cells have all digits of `table.csv`: rounded
here and again in a page, one number in twenty would end in another digit.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.experiments import plots, store

from .documents import ROOT, renew
from .runs import read, record_of, sweep_of

KEPT = ROOT / "docs" / "results"
FIGURES = ROOT / "notebooks" / "figures"
PROVENANCE = "provenance.json"


@functools.cache
def table(name: str) -> pd.DataFrame:
    """The table that is kept beside the documents."""
    return read(KEPT / f"{name}.csv")


def read_provenance() -> dict[str, dict[str, Any]]:
    """Name of kept results -> how they were made."""
    return json.loads((KEPT / PROVENANCE).read_text(encoding="utf-8"))


def collect(folder: Path, only: Sequence[str] = (), variant: str = "") -> list[str]:
    """Make the documents anew from finished runs and, for the rest, what is kept; then keep the
    runs' figures and tables.

    Args:
      folder: of results, `NAME/results.zarr` and `NAME/table.csv` in it.
      only: names of sweeps; default all that are finished there.
      variant: kept as NAME-VARIANT; needed for other settings than those of `full`.

    Returns:
      The results kept and the pages that changed.

    Raises:
      ValueError: a run of other settings without `variant`; a page that cannot be made. Then
        nothing is written.
    """
    there = [file.parent.name for file in sorted(folder.glob(f"*/{store.TABLE}"))]
    records, tables = {}, {}
    for name in only or there:
        record = record_of(name, folder / name)
        if not variant and record["command"] != f"python -m sweeps.{name}":
            raise ValueError(f"{folder / name} is of {record['command']}: name it with --variant")
        keep_as = f"{name}-{variant}" if variant else name
        records[keep_as], tables[keep_as] = record, read(folder / name / store.TABLE)
    changed = renew(lambda name: tables[name] if name in tables else table(name))
    for name, rows in tables.items():
        if (FIGURES / f"{name}.svg").exists():  # a page shows it
            draw(name, folder / name.partition("-")[0])
        rows.to_csv(KEPT / f"{name}.csv", index=False)
    every = dict(sorted((read_provenance() | records).items()))
    text = json.dumps(every, indent=1, ensure_ascii=False)
    (KEPT / PROVENANCE).write_text(text + "\n", encoding="utf-8")
    return [*tables, *changed]


def draw(name: str, folder: Path) -> None:
    """Draw a run's figure, as SVG beside the notebooks."""
    attrs, kind = store.Store(folder / store.RESULTS).attrs, sweep_of(folder.name)
    fields = {field.name for field in dataclasses.fields(kind)}
    saved = {k: v for k, v in json.loads(attrs["config"]).items() if k in fields}
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()}
    figure = kind.at(attrs["preset"], **tuples).figure(pd.read_csv(folder / store.TABLE))
    buffer = BytesIO()
    plots.save(figure, buffer, literal=False, kind="svg")
    # Coordinates with two decimals (points).
    text = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", buffer.getvalue().decode())
    (FIGURES / f"{name}.svg").write_text(text, encoding="utf-8")
