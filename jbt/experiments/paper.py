"""The paper's numbers for a sweep, read from paper.csv."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jbt.experiments.labelled_arrays import plain

SETTINGS = "settings."
"""Prefix of a name in paper.csv that is looked up in the settings although it is a column too."""


@dataclasses.dataclass(frozen=True)
class PaperNumber:
    """A number of the paper, with the setting and the size of its study."""

    quantity: str
    setting: dict[str, str]
    """Column, or field of the settings -> its value."""
    value: float
    pools: int
    """Pools (runs, oracles) behind it, count."""
    seeds: int | None
    """Acquisition seeds a pool, count; None where there are none."""
    rounding: float
    """Largest distance of the exact number from the printed one: half a unit of its last digit, or
    what the file says for a number derived from several."""
    role: str
    """reported, derived from reported numbers, or calibrated: an input of ours."""

    def verdict(self, low: float, high: float) -> str | None:
        """Whether the number, to its printed digits, lies within low..high; None where studies too
        often find no number. See `jbt.experiments.table`."""
        if self.role == "calibrated":
            return "calibrated"
        if math.isnan(low) or math.isnan(high):
            return None
        return "yes" if low - self.rounding <= self.value <= high + self.rounding else "no"

    def stands_beside(self, row: Mapping[Any, Any], settings: Any) -> bool:
        """Whether a row of a run with these settings has this number's setting."""
        return all(
            _same(
                row[name] if name in row else getattr(settings, name.removeprefix(SETTINGS)), wanted
            )
            for name, wanted in self.setting.items()
        )


def _same(value: Any, wanted: str) -> bool:
    if isinstance(value, tuple):
        return set(value) == set(wanted.split(";"))
    if isinstance(value, str):
        return value == wanted
    if plain(value) is None or not wanted:
        return plain(value) is None and not wanted
    return math.isclose(value, float(wanted), rel_tol=1e-6)


def read_paper(path: Path, sweep: str) -> list[PaperNumber]:
    """Read the paper's numbers for one sweep; none where there is no file.

    The file has the columns sweep, quantity, setting, paper, rounding, pools, seeds, source, role.
    `setting` lists name=value pairs, separated by spaces; names of a list are separated by
    semicolons, in any order. A row without a quantity gives settings of all numbers of its sweep
    below it. `rounding` may be empty: half a unit of the last digit.

    Raises:
      ValueError: a row of another form; the message names file and line.
    """
    if not path.is_file():
        return []
    common: dict[str, str] = {}
    numbers = []
    rows = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines())
    for line, row in enumerate(rows, start=2):
        try:
            if row["sweep"] != sweep:
                continue
            setting = dict(pair.split("=", 1) for pair in row["setting"].split())
            if not row["quantity"]:
                common = setting
                continue
            half = 0.5 * 10.0 ** -len(row["paper"].partition(".")[2])
            number = PaperNumber(
                row["quantity"],
                common | setting,
                float(row["paper"]),
                int(row["pools"]),
                int(row["seeds"]) if row["seeds"] else None,
                float(row["rounding"] or half),
                row["role"],
            )
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
        numbers.append(number)
    return numbers
