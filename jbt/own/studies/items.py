"""The items of a study: its tables, their copies in the folder, and the design of every pool."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.own.fits.pools import check_sizes
from jbt.own.studies.settings import StudySettings
from jbt.own.tables import tables as own_tables
from jbt.own.tables.names import by_name
from jbt.own.tables.places import Layout
from jbt.own.tables.sheets import Table, read_cells, source_of
from jbt.own.tables.tables import Tables
from jbt.own.tables.verdicts import ALL

ITEMS, ANCHORS = "items.csv", "anchors.csv"
"""Copies of the tables in a study's folder."""


@dataclass(frozen=True, eq=False)
class StudyItems:
    """The tables that a study began with."""

    given: pd.DataFrame
    """The items table as given, every cell as text; a row for each item."""
    rows: pd.DataFrame
    """The same, each pool's items in the order of their names: what is drawn for an item does not
    depend on the order of the table."""
    anchors: pd.DataFrame | None
    tables: Tables
    """Checked, without a verdict; rows of `tables.items` are those of `rows`."""
    layout: Layout
    """`layout.x` [rows, D] are the covariates as the model uses them."""
    covariates: list[str]
    """Name of each covariate, with its transformation."""
    units: str
    pairs: np.ndarray
    """[anchors, 2] rows of the better and the worse item of each trusted pair."""

    @classmethod
    def of(cls, items: Table, anchors: Table | None, settings: StudySettings) -> StudyItems:
        """Read and check the tables.

        Raises:
          TableError: a wrong table.
          ValueError: k out of range.
        """
        given = read_cells(source_of(items, "items"), ["item"])
        labels = None if anchors is None else read_cells(source_of(anchors, "anchors"), [])
        nothing = _no_verdicts(given, settings.judges)
        tables = _read(nothing, given, labels, settings)
        pool = tables.items["pool"].to_numpy()
        in_order = by_name(tables.items["item"].to_numpy())
        in_order = in_order[np.argsort(pool[in_order], kind="stable")]
        rows = given.iloc[in_order].reset_index(drop=True)
        if not np.array_equal(in_order, np.arange(len(given))):  # the messages are of those given
            tables = _read(nothing, rows, labels, settings)
        if not tables.members.empty:
            raise ValueError("anchors of a study must be pairs: pool, better, worse")
        x, names, units = own_tables.covariate_values(
            tables, settings.covariates, settings.transform, settings.standardise
        )
        layout = Layout.of(tables, x)
        check_sizes(dict(zip(tables.pools, map(len, layout.contents), strict=True)), settings.k)
        small = [p for p, c in zip(tables.pools, layout.contents, strict=True) if len(c) < 2]
        if small:
            raise ValueError(f"pool {small[0]!r} has one content: there is nothing to rank")
        pairs = tables.anchors[["better", "worse"]].to_numpy().reshape(-1, 2)
        return cls(given, rows, labels, tables, layout, names, units, pairs)

    def digest(self) -> dict[str, str | None]:
        """SHA-256 of each table, whatever file or frame it came from."""
        return {"items": _digest(self.given), "anchors": _digest(self.anchors)}

    def write(self, folder: Path) -> None:
        """Write the copies."""
        for name, frame in ((ITEMS, self.given), (ANCHORS, self.anchors)):
            if frame is not None:
                files.write_whole(folder / name, lambda p, f=frame: f.to_csv(p, index=False))

    def with_verdicts(self, verdicts: pd.DataFrame, settings: StudySettings) -> Tables:
        """The study's tables with these verdicts."""
        if verdicts.empty:
            return self.tables
        return _read(verdicts, self.rows, self.anchors, settings)

    def difference(self, other: StudyItems) -> str:
        """How another table of items differs from this one, in words."""
        mine, theirs = (
            {
                (tables.pools[pool], item)
                for pool, item in tables.items[["pool", "item"]].itertuples(index=False)
            }
            for tables in (self.tables, other.tables)
        )
        for what, items in (("vanished", mine - theirs), ("is new", theirs - mine)):
            if items:
                pool, item = min(items)
                return f"item {item!r} of pool {pool!r} {what}"
        return "a cell has changed"

    def row(self, pool: int, item: int) -> dict[str, str]:
        """The cells of the row of an item, by its place in its pool."""
        (row,) = np.flatnonzero((self.layout.pool == pool) & (self.layout.place == item))
        return {str(k): str(v) for k, v in self.rows.iloc[int(row)].items()}


def _read(
    verdicts: pd.DataFrame,
    rows: pd.DataFrame,
    anchors: pd.DataFrame | None,
    settings: StudySettings,
) -> Tables:
    return own_tables.read(
        verdicts,
        rows,
        anchors,
        covariates=settings.covariates,
        content=None if settings.content.lower() == "none" else settings.content,
    )


def _no_verdicts(rows: pd.DataFrame, judges: Sequence[str]) -> pd.DataFrame:
    """A table of verdicts with no verdict but failed ones, from which the tables can be read."""
    pool = rows["pool"] if "pool" in rows else pd.Series([ALL] * len(rows))
    item = rows["item"][pool == pool.iloc[0]]
    verdicts = [  # without p_first, failed
        {"first": item.iloc[0], "second": item.iloc[-1], "p_first": "", "judge": judge}
        for judge in (judges or [""])
    ]
    table = pd.DataFrame(verdicts)
    if "pool" in rows:
        table["pool"] = pool.iloc[0]
    return table if judges else table.drop(columns="judge")


def _digest(frame: pd.DataFrame | None) -> str | None:
    if frame is None:
        return None
    content: Mapping[str, Any] = {str(c): frame[c].tolist() for c in frame.columns}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
