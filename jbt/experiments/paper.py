"""The paper's numbers for a sweep, read from paper.csv."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

SETTINGS = "settings."
"""Prefix of a name in paper.csv that is looked up in the settings although it is a column too."""
ROLES = ("reported", "calibrated", "derived")
COLUMNS = ("sweep", "quantity", "setting", "paper", "rounding", "pools", "seeds", "source", "role")


@dataclasses.dataclass(frozen=True)
class PaperNumber:
    """A number of the paper, with the setting and the size of its study."""

    quantity: str
    setting: dict[str, str]
    """Column, or field of the settings -> its value."""
    printed: str
    """The number as the paper prints it."""
    pools: int
    """Pools (runs, oracles) behind it, count."""
    seeds: int | None
    """Acquisition seeds a pool, count; None where there are none."""
    rounding: float
    """Largest distance of the exact number from the printed one: half a unit of its last digit, or
    what the file says for a number derived from several."""
    role: str
    """reported, derived from reported numbers, or calibrated: an input of ours."""
    source: str = ""
    """Where in the paper it stands."""

    @property
    def value(self) -> float:
        return float(self.printed)

    def verdict(self, low: float, high: float) -> str | None:
        """Whether the number, to its printed digits, lies within low..high; None where studies too
        often find no number. See `jbt.experiments.table`."""
        if self.role == "calibrated":
            return "calibrated"
        if math.isnan(low) or math.isnan(high):
            return None
        return "yes" if low - self.rounding <= self.value <= high + self.rounding else "no"

    def is_of(self, columns: Collection[str], settings: Any) -> bool:
        """Whether these settings have its values in all fields that it names and that are not
        columns of the table."""
        of_columns = {n: v for n, v in self.setting.items() if n in columns}
        return self.stands_beside(of_columns, settings)

    def stands_beside(self, row: Mapping[Any, Any], settings: Any) -> bool:
        """Whether a row of a run with these settings has this number's setting."""
        return all(
            _same(
                row[name] if name in row else getattr(settings, name.removeprefix(SETTINGS)), wanted
            )
            for name, wanted in self.setting.items()
        )


def _same(value: Any, wanted: str) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return wanted == ""
    if isinstance(value, tuple | list):
        parts = wanted.split(";")
        return len(value) == len(parts) and all(any(_same(v, p) for v in value) for p in parts)
    if isinstance(value, str):
        return value == wanted
    try:
        return math.isclose(value, float(wanted), rel_tol=1e-6)
    except ValueError:
        return False


def read_paper(path: Path, sweep: str) -> list[PaperNumber]:
    """Read the paper's numbers for one sweep.

    The file has the columns sweep, quantity, setting, paper, rounding, pools, seeds, source, role.
    `setting` lists name=value pairs, separated by spaces; values of a list are separated by
    semicolons, in any order. A row without a quantity gives settings of all numbers of its sweep.
    `rounding` may be empty: half a unit of the last digit.

    Raises:
      ValueError: a row of another form (the message names file and line), or missing columns.
    """
    common: dict[str, str] = {}
    numbers = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a table: needs CSV in UTF-8") from None
    reader = csv.DictReader(text.splitlines())
    if missing := [c for c in COLUMNS if c not in (reader.fieldnames or ())]:
        raise ValueError(f"{path}: no column {', '.join(missing)}")
    for line, row in enumerate(reader, start=2):
        if row["sweep"] != sweep:
            continue
        try:
            if None in row or None in row.values():
                raise ValueError(f"needs {len(COLUMNS)} fields; a comma in one needs quotes")
            parts = row["setting"].split()
            if odd := [part for part in parts if "=" not in part]:
                raise ValueError(f"setting must be name=value pairs, got {odd[0]!r}")
            setting = dict(part.split("=", 1) for part in parts)
            if row["quantity"]:
                numbers.append(_number(row, setting))
            else:
                common = setting
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
    return [dataclasses.replace(n, setting={**common, **n.setting}) for n in numbers]


def _number(row: dict[str, str], setting: dict[str, str]) -> PaperNumber:
    if row["role"] not in ROLES:
        raise ValueError(f"role must be one of {', '.join(ROLES)}, got {row['role']!r}")
    _finite("paper", row["paper"])
    decimals = len(row["paper"].partition(".")[2])
    rounding = _finite("rounding", row["rounding"] or str(0.5 * 10.0**-decimals))
    if rounding < 0:
        raise ValueError(f"rounding must be at least 0, got {row['rounding']}")
    return PaperNumber(
        row["quantity"],
        setting,
        row["paper"],
        _count("pools", row["pools"]),
        _count("seeds", row["seeds"]) if row["seeds"] else None,
        rounding,
        row["role"],
        row["source"],
    )


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"{name} must be a whole number from 1, got {text!r}")
    return int(text)


def _finite(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a number, got {text!r}")
    return value
