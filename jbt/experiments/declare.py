"""Declare an experiment: one class, whose fields are its options and whose methods are its work,
its table and its figure. `jbt.experiments.run` runs it.

    @dataclass(frozen=True, kw_only=True)
    class Sharpness(Sweep):
        '''Benefit of correction against the judge's discrimination.'''

        name = "sharpness"
        columns = ("discrimination",)
        presets = {"smoke": {"pools": 64}, "paper": {"pools": 30}}

        bias: Annotated[float, check_positive] = 1.0
        '''True bias c* (logits per unit of the covariate).'''

        def groups(self): ...  # the work
        def table(self, ds, t): ...  # rows from its results
        def panels(self, table): ...  # of the figure

A field's check is a function of its name and value, written beside its type; what needs several
fields stands in `check`. The types of a sweep's methods are those of `Sweep`, and that of the
experiment of one pool is `jbt.simulation.simulate.Experiment`: a sweep does not repeat them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from jbt.experiments.paper import PaperNumber, read_paper
from jbt.simulation.simulate import Experiment
from jbt.types import LARGEST_COUNT, check_count

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.plots import Panel
    from jbt.experiments.table import Table

PRESETS = ("smoke", "paper", "full")

S = TypeVar("S", bound="Sweep")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """An experiment. Every one has the options below; a subclass adds its own as fields, and its
    docstring is its sentence in `--help`."""

    name: ClassVar[str]
    """Name of the sweep, of its module in `sweeps` and of its folder."""
    columns: ClassVar[tuple[str, ...]]
    """Columns of the table that name a row's setting."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """smoke, paper, full -> the fields that differ from their defaults; full is there in any
    case."""
    units: ClassVar[Mapping[str, str]] = {}
    """Unit of each coordinate and metric that `units.UNITS` does not know, or has otherwise."""
    index: ClassVar[str | None] = None
    """Label whose values differ between all conditions, used as their dimension in the results;
    default "condition"."""
    shown: ClassVar[Sequence[str]] = ()
    """Quantities whose rows are printed at the end, beside those with a number of the paper; by
    default all rows."""
    panel_size: ClassVar[Mapping[str, Any]] = {}
    """Of a panel of the figure: width, height (inches); and `below`, options of a legend below all;
    see `plots.draw`."""

    preset: Literal["smoke", "paper", "full"] = "full"
    """Sets the defaults of all other options. smoke is small, for a trial; paper has the paper's
    sizes; full has as many pools as a clear answer takes."""
    pools: int = 4096
    """Number of pools simulated at every condition, at most 2^32."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of the simulation."""
    out: Path = Path("results")
    """Folder for the results, made if need be. The sweep writes into a folder of its own name
    there."""
    overwrite: bool = False
    """Start afresh: first remove all that any run of this sweep, finished or not, has written into
    the folder."""
    part: str | None = None
    """Compute only one part of the pools, written I/N: part I of N, with I from 0 to N - 1. All
    parts go into one folder. The same command without --part then computes what is missing, and
    makes table and figure."""
    executor: str | None = None
    """Where pools are computed: dask://HOST:PORT for the workers of a Dask scheduler, or
    slurm:NAME=VALUE,... for jobs of SLURM, with jobs=COUNT and submitit's parameters. By default
    in this process."""
    store: str | None = None
    """Write the results to this URL, such as s3://BUCKET/NAME.zarr, where fsspec can write. By
    default results.zarr in the sweep's folder."""
    chunk: int | None = None
    """Number of pools computed and saved together, rounded up to fill every device's batches. The
    default depends on the size of the problem. Use fewer where memory is short."""
    devices: int | None = None
    """Number of local devices to use, where CPU cores count as devices. By default all."""

    @classmethod
    def at(cls: type[S], preset: str = "full", **changes: Any) -> S:
        """The sweep at a preset, with some fields changed.

        Raises:
          ValueError: no such preset or field.
        """
        presets = {**cls.presets, "full": cls.presets.get("full", {})}
        if preset not in presets:
            raise ValueError(f"{cls.name} has no preset {preset}, only {', '.join(presets)}")
        fields = {**presets[preset], **changes, "preset": preset}
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := fields.keys() - known:
            raise ValueError(f"{cls.name} has no setting {', '.join(sorted(unknown))}")
        return cls(**fields)

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> int:
        """The command line; see `run.main`."""
        from jbt.experiments.run import main

        return main(cls, argv)

    @classmethod
    def description(cls) -> str:
        """One sentence for `--help`."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())

    def decided(self: S) -> S:
        """The same with a number for every default that depends on other fields, as a run's
        configuration stores them."""
        return self

    def check(self) -> None:
        """Check all fields, before anything runs.

        Raises:
          ValueError: an option makes no sense, in one line.
        """
        check_fields(self)
        for name, kind in typing.get_type_hints(type(self), include_extras=True).items():
            for check in getattr(kind, "__metadata__", ()):
                check(name, getattr(self, name))

    def digests(self) -> dict[str, str]:
        """Digests of further inputs that decide the numbers, input -> digest."""
        return {}

    def groups(self) -> list[Group]:
        """The work. All groups have the same metrics and labels."""
        raise NotImplementedError

    def table(self, ds: xr.Dataset, t: Table) -> None:
        """Add the rows of the results to the table."""
        raise NotImplementedError

    def panels(self, table: pd.DataFrame) -> list[Panel]:
        """What the figure shows, a panel each."""
        raise NotImplementedError

    def figure(self, table: pd.DataFrame) -> Figure:
        """The figure; by default the panels side by side. Titles say what the default settings
        show, and a figure of others says so."""
        from jbt.experiments import plots

        figure = plots.draw(self.panels(table), table, **self.panel_size)
        usual = type(self).at("full").decided()
        free = {*NOT_CONFIGURATION, "pools", "seed", "dtype"}
        if any(value != getattr(usual, n) for n, value in vars(self).items() if n not in free):
            note = "Titles were written for the default settings; these differ."
            figure.suptitle(note, fontsize=7)
        return figure

    def answer(self, table: pd.DataFrame) -> str:
        """What came out, in a sentence, printed above the table; by default nothing."""
        return ""

    def headline(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows printed at the end, by default those of `shown`."""
        if not self.shown:
            return table
        return table[table.quantity.isin(self.shown) | table.paper.notna()]

    @classmethod
    def paper(cls) -> list[PaperNumber]:
        """The paper's numbers: those in paper.csv beside the module or package, if there is one."""
        home = cls.home()
        return [] if home is None else read_paper(home / "paper.csv", cls.name)

    @classmethod
    def home(cls) -> Path | None:
        """The folder that the module or package is in; None where it has no file, as in a
        notebook."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if file is None:
            return None
        path = Path(file).resolve()
        return path.parents[1] if path.name == "__init__.py" else path.parent


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordedSweep(Sweep):
    """A sweep over verdicts that were recorded, not simulated."""

    data_name: ClassVar[str]
    """Name of the data: their folder below that of the variable JBT_DATA."""
    files: ClassVar[tuple[str, ...]] = ("verdicts.csv", "items.csv", "anchors.csv")
    """The tables that the sweep reads."""

    pools: int = 4096
    """Number of pools to take, evenly spaced over the table; all, if there are no more."""
    dtype: Literal["float64"] = "float64"
    """Precision of the fits."""
    data: Path | None = None
    """Folder of the tables. By default the data's folder below the one that the environment
    variable JBT_DATA names. The configuration keeps digests of the tables, not the path."""

    def file(self, name: str) -> Path:
        """Path of one of the tables.

        Raises:
          ValueError: the table does not exist.
        """
        folder = self.data or Path(os.environ.get("JBT_DATA", ""), self.data_name)
        if not (folder / name).is_file():
            raise ValueError(
                f"no data: {folder / name} does not exist; give --data DIR, a folder with "
                f"{', '.join(self.files)}, or set JBT_DATA to a folder with these in "
                f"{self.data_name}/"
            )
        return folder / name

    def digests(self) -> dict[str, str]:
        tables = {name: self.file(name).read_bytes() for name in self.files}
        return {name: hashlib.sha256(data).hexdigest()[:16] for name, data in tables.items()}


N_IDS = 2**32
"""Number of pool ids."""

NOT_CONFIGURATION = (
    *("preset", "data", "out", "overwrite", "chunk", "devices"),
    *("part", "executor", "store"),
)
"""Fields that cannot change the numbers beyond rounding; they are not compared on resume."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Conditions that share shapes and rules, hence one compiled kernel."""

    name: str
    experiment: Experiment
    conditions: Mapping[str, Any]
    """Traced numbers of each condition, name -> [C], or a number that is common to all and not
    batched. Groups with one experiment and one `data` (the same objects), as many pools, and
    conditions of the same names, shapes and types share a program."""
    labels: Mapping[str, Sequence[Any] | np.ndarray]
    """Coordinates of each condition in the results, name -> [C]."""
    n_items: int
    """Items of a pool; they set the default chunk."""
    pools: int
    """Pools to simulate: ids 0..pools-1."""
    axes: Mapping[str, Mapping[str, Sequence[Any]]] = dataclasses.field(default_factory=dict)
    """Metrics that are arrays for each pool and condition: name -> {dimension: coordinates}, the
    same in all groups."""
    fits: int = 1
    """Fits for a pool and condition; they set the default chunk."""
    data: Any = None
    """Recorded pools: arrays [pools, ...] in any structure; the experiment gets its pool's row as a
    third argument. None where pools are drawn."""
    pool_labels: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    """Coordinates of each pool in the results, name -> [pools], the same in all groups."""

    @property
    def n_conditions(self) -> int:
        """C."""
        return max(len(values) for values in self.conditions.values() if np.ndim(values))

    @property
    def fits_a_pool(self) -> float:
        """Work of a pool in fits of 30 items: a fit's cost grows with the cube of them."""
        return max(1.0, self.n_items / 30) ** 3 * self.fits * self.n_conditions


# --- conditions and their labels


def cases(
    cells: Sequence[Any], **traced: Callable[[Any], Any]
) -> dict[Literal["conditions", "labels"], dict[str, Any]]:
    """Conditions and labels of a group, `Group(name, experiment, **cases(cells), ...)`.

    Args:
      cells: conditions, as NamedTuples of one kind. Their fields are labels of the results; those
        that are numbers are traced too.
      traced: further conditions, functions of a cell, or conditions in place of a field's numbers.
    """
    labels = {name: [getattr(cell, name) for cell in cells] for name in cells[0]._fields}
    numbers = {n: np.array(v) for n, v in labels.items() if not isinstance(v[0], str)}
    numbers |= {name: np.array([of(cell) for cell in cells]) for name, of in traced.items()}
    return {"conditions": numbers, "labels": labels}


# --- checks that sweeps share: each raises a `ValueError` of one line


LARGEST_NUMBER = 1e6
"""More logits, dollars or units of precision must be a mistake, and float32 squares the number."""


def check_fields(settings: Any) -> None:
    """Check every number among the fields of a sweep's settings, or of a plan's options, before any
    work: it is defined, and not so large that it must be a mistake; see `check_number`."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        for v in value if isinstance(value, tuple) else (value,):
            if isinstance(v, float):
                check_number(field.name, v)
            elif isinstance(v, int) and field.name not in ("seed", "chunk"):
                pools = "pools" in field.name
                most = N_IDS if pools else LARGEST_COUNT
                check_count(field.name, v, least=1 if pools else -math.inf, most=most)


def check_number(name: str, value: float) -> None:
    """Check that a field of this name can have this value: a correlation lies within -1..1, a
    standard deviation and a precision above 0."""
    most = 1.0 if name.endswith("rho") else LARGEST_NUMBER
    least = 1 / most if name in ("sd", "lam", "lam_b") else -most
    if not least <= value <= most:
        raise ValueError(f"{name} must lie within {least:g}..{most:g}, got {value:g}")


def check_listed(name: str, values: Sequence[str], known: Sequence[str]) -> None:
    """Check that all values are known names, each listed once."""
    if not values or len(set(values)) < len(values) or not set(values) <= set(known):
        listed = " ".join(values) or "nothing"
        raise ValueError(f"{name} must list some of {', '.join(known)}, each once, got {listed}")


def check_increasing(
    name: str,
    values: Sequence[float] | Sequence[int],
    *,
    least: float | int = -math.inf,
    most: float | int = math.inf,
    length: int = 1,
    needed: float | None = None,
) -> None:
    """Check for at least `length` values that increase within least..most and include `needed`."""
    listed = " ".join(f"{v:g}" for v in values) or "nothing"
    increasing = len(values) >= length and list(values) == sorted(set(values))
    if not increasing or not all(least <= v <= most for v in values):
        count = f"list at least {length} values that increase" if length > 1 else "increase"
        low = f" from at least {least:g}" if math.isfinite(least) else ""
        high = f" up to {most:g}" if math.isfinite(most) else ""
        bounds = f" within {least:g}..{most:g}" if low and high else low + high
        raise ValueError(f"{name} must {count}{bounds}, got {listed}")
    if needed is not None and needed not in values:
        raise ValueError(f"{name} must include {needed:g}, got {listed}")


def check_top(k: int, n: int) -> None:
    """Check that k of n contents can be a top set."""
    if not 1 <= k < n:
        raise ValueError(f"k must lie in 1..{n - 1}, got {k}")
