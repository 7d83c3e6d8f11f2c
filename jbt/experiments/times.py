"""About how long a sweep takes, as measured once: said before the bar has anything to say."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence

from jbt.experiments.declare import Group, Sweep

FITTED_ITEMS = 30
"""A fit of this many items is the unit of work."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds that a sweep's presets took on the two CPU cores on which `times.csv` was made
    (`python -m benchmarks.times`)."""

    compile_seconds: float
    """Of compiling all programs of `full`."""
    run_seconds: float
    """Of the rest of `full`."""
    fits: float
    """Work of `full`; see `fits`."""
    smoke_seconds: float
    """Of the whole of `smoke`."""

    def said(self, preset: str, work: float) -> str:
        """How long a preset takes, or as much of it as `work` fits are."""
        if preset == "smoke":
            return f"about {duration(self.smoke_seconds)} on two CPU cores, mostly compiling"
        run = self.run_seconds * work / self.fits
        return (
            f"on two CPU cores about {duration(self.compile_seconds)} of compiling, unless kept "
            f"from an earlier run, and {duration(run)} of simulation"
        )


def fits_a_pool(group: Group) -> float:
    """Work of one pool of a group: fits of 30 items, a fit's cost growing with the cube of them."""
    cost = max(1.0, group.n_items / FITTED_ITEMS) ** 3
    return cost * group.fits * group.n_conditions


def fits(groups: Sequence[Group]) -> float:
    """Work of all pools of some groups, in fits of 30 items."""
    return sum(group.pools * fits_a_pool(group) for group in groups)


def times_of(sweep: type[Sweep]) -> Times | None:
    """A sweep's row of the file times.csv beside its module or package; None without one."""
    file = sweep.beside("times.csv")
    if file is None:
        return None
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row.pop("sweep") == sweep.name:
                return Times(**{name: float(value) for name, value in row.items()})
    return None


def duration(seconds: float) -> str:
    """Seconds as people say them: 1 s, 40 s, 3 min, 1.5 h."""
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 3570:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
