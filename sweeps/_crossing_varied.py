"""What moves the crossing of `sweeps.crossing`: other answers to one question at a time.

`crossing_choices`: what the paper leaves open: whether the covariate is continuous, binary, or
binary with rho the correlation of its latent; the standard deviation of quality, which the paper
gives as 1.2 and as 1.25; the judge's position bias; its link; verdicts that were not collected; and
the spacing of rho. Beside each are the results of studies with the paper's 30 runs a point, and
whether the benefit falls at every step.

`crossing_factors`: the paper's table of factors. Beside its numbers stand the scatter of studies of
30 runs a point, which shows whether a number of the paper is within its own noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from jbt import stats
from jbt.experiments.declare import Group, Sweep, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import RHO_LABEL, Line, Panel
from jbt.simulation import pools

from ._shared.scenario import VaryingBias
from .crossing import BINARY_GRID, CONTINUOUS_GRID, Crossing

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


Covariate = Literal["continuous", "binary", "binary_latent"]
STYLE: dict[Covariate, tuple[str, str]] = {
    "continuous": ("continuous", "blue"),
    "binary": ("binary", "orange"),
    "binary_latent": (r"binary, $\rho$ of its latent", "green"),
}
"""Covariate -> label and colour."""


class Cell(NamedTuple):
    """One crossing to find."""

    columns: dict[str, Any]
    """Columns of its rows."""
    labels: dict[str, Any]
    """Labels of its conditions."""
    rho: tuple[float, ...]
    """Correlations as the sweep names them; the scenario has the covariate's own."""
    scenario: Crossing
    every: int = 1
    """The crossing is read from every n-th correlation (count)."""

    def benefit(self, ds: xr.Dataset) -> xr.DataArray:
        """Benefit in each pool [rho, pool]."""
        part = where(ds, **self.labels)
        benefit = part["bias_aware_recall"] - part["naive_recall"]
        return benefit.swap_dims(condition="rho").isel(rho=slice(None, None, self.every))


class Varied(Sweep):
    """Crossings under several scenarios."""

    covariate: tuple[Covariate, ...]
    rho: tuple[float, ...]

    def cells(self) -> list[Cell]:
        """Crossings to find, in the order of the table."""
        raise NotImplementedError

    def check(self):
        super().check()
        for cell in self.cells():
            cell.scenario.check()

    def groups(self):
        # One kernel a shape; conditions of several cells are simulated once.
        together: dict[str, list[Cell]] = {}
        for cell in self.cells():
            s = cell.scenario
            once = cell._replace(columns={}, every=1)
            cells = together.setdefault(f"{s.covariate}-{s.link}-{s.n_items}", [])
            if once not in cells:
                cells.append(once)
        groups = []
        for name, cells in together.items():
            parts = [cell.scenario.conditions() for cell in cells]
            conditions = {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}
            rows = [{**cell.labels, "rho": r} for cell in cells for r in cell.rho]
            labels = {n: [row[n] for row in rows] for n in rows[0]}
            s = cells[0].scenario
            groups.append(Group(name, s.experiment, conditions, labels, s.n_items, self.pools))
        return groups

    def reached(self, covariate: pools.CovariateKind) -> tuple[float, ...]:
        """Those of the correlations that lie on a covariate's default grid.

        Raises:
          ValueError: there are none.
        """
        most = 1.0 if covariate == "continuous" else BINARY_GRID[-1]
        reached = tuple(r for r in self.rho if r <= most)
        if not reached:
            raise ValueError(f"rho must include some up to {most:g} for {covariate}")
        return reached

    def crossings(self, table: pd.DataFrame, names: Sequence[str], title: str) -> Panel:
        """Crossings one below the other, each covariate's a little apart, and the paper's.

        Args:
          names: of the rows with a crossing; rows of one name have one place.
        """
        rows = where(table, quantity="crossing").assign(name=names)
        lines = [Line({"covariate": kind}, *STYLE[kind]) for kind in self.covariate]
        labels = (r"crossing $\rho$ (95 % over pools)", "", title)
        return Panel("name", {}, lines, labels, names=list(dict.fromkeys(names)), table=rows)


# --- what the paper leaves open

CHOICES: dict[str, tuple[Any, ...]] = {
    "sd": (1.2, 1.25),
    "position": (0.0, 1.0),
    "link": ("logit", "probit"),
    "completeness": (1.0, 0.8),
    "every": (1, 2, 4),
}
"""Choice, beside the covariate -> its value in the baseline, then others, which are tried with all
else as in the baseline: standard deviation of quality and position bias (logits), link of the
judge, probability that an ordered pair's verdict was collected, and n where the crossing is read
from every n-th correlation."""
BASELINE = {name: values[0] for name, values in CHOICES.items()}


@dataclass(frozen=True, kw_only=True)
class Choices(Varied):
    """What the paper leaves open about the crossing: each choice, and what it moves."""

    name = "crossing_choices"
    columns = ("covariate", *CHOICES, "rho")
    presets = {
        "smoke": {"pools": 64, "rho": (0.0, 0.2, 0.4, 0.6), "covariate": ("binary_latent",)},
        "paper": {"pools": 30},
    }
    panel_size = {"height": 4.6}

    covariate: tuple[Covariate, ...] = tuple(STYLE)
    """continuous: rho is its correlation with quality. binary: a median split whose own correlation
    is rho. binary_latent: the same where rho is the correlation of its latent, so that its own
    is 0.798 rho."""
    rho: tuple[float, ...] = CONTINUOUS_GRID
    """Population correlations, increasing; the binary covariate takes those up to 0.75. The
    crossing is also read from every second and every fourth, if these are two or more."""

    def check(self):
        check_listed("covariate", self.covariate, list(STYLE))
        super().check()

    def cells(self) -> list[Cell]:
        """The baseline of each covariate and its choices, one at a time."""
        changed = [BASELINE | {name: v} for name in CHOICES for v in CHOICES[name]]
        choices = [choice for i, choice in enumerate(changed) if choice not in changed[:i]]
        cells = [self.cell(kind, **choice) for kind in self.covariate for choice in choices]
        return [cell for cell in cells if cell.every == 1 or len(cell.rho) > cell.every]

    def cell(self, covariate: Any, *, every: int, **choice: Any) -> Cell:
        """The crossing under one choice."""
        latent = covariate == "binary_latent"
        rho = self.reached("continuous" if latent else covariate)
        scale = pools.BINARY_RHO_MAX if latent else 1.0
        crossing = Crossing(
            covariate="binary" if latent else covariate,
            rho=tuple(scale * r for r in rho),
            **choice,
        )
        labels = {"covariate": covariate, **choice}
        return Cell({**labels, "every": every}, labels, rho, crossing, every)

    def table(self, ds, t):
        for cell in self.cells():
            benefit, at = cell.benefit(ds), cell.columns
            t.means("benefit", benefit, **at)
            t.crossing(benefit, **at)
            largest, *interval = stats.largest_increase(benefit.values, seed=t.seed)
            t.add("largest_increase", largest, interval, benefit.sizes["pool"], **at)

    def headline(self, table):
        """All but the benefits."""
        return table[table.quantity != "benefit"]

    def panels(self, table):
        names = []
        for row in where(table, quantity="crossing").to_dict("records"):
            changed = [f"{n} {row[n]}" for n, value in BASELINE.items() if row[n] != value]
            names.append(", ".join(changed) or "baseline")
        return [
            Panel(
                "rho",
                {"quantity": "benefit", **BASELINE},
                [Line({"covariate": k}, *STYLE[k]) for k in self.covariate],
                (
                    RHO_LABEL,
                    "share of the true top 5 found: with correction\n"
                    "minus without (bands: 95 % over pools)",
                    "With a binary covariate\ncorrection hurts earlier",
                ),
                level=0.0,
            ),
            self.crossings(table, names, "The other open choices\nhardly move the crossing"),
        ]


# --- the paper's factors

FACTORS: dict[str, tuple[Any, ...]] = {
    "bias": (0.5, 1.0, 2.0, 3.0),
    "n_items": (15, 30, 60),
    "sd": (0.6, 1.2, 2.5),
    "lam": (0.2, 1.0, 5.0),
    "lam_b": (0.01, 0.1, 1.0),
    "k": (2, 5, 10),
}
"""Factor -> its values, each with every other factor at its default: true bias c*, pool size,
standard deviation of quality, prior precisions of quality and of c and kappa, size of the top
set."""


@dataclass(frozen=True, kw_only=True)
class Factors(VaryingBias, Varied):
    """The crossing as bias, pool size, quality spread, priors and k vary, one factor at a time."""

    name = "crossing_factors"
    columns = ("covariate", "factor", "value")
    presets = {
        "smoke": {"pools": 32, "rho": (0.0, 0.3, 0.6), "covariate": ("continuous",)},
        "paper": {"pools": 30},
        "full": {"pools": 2048},
    }
    panel_size = {"height": 5.6, "width": 7.0}

    covariate: tuple[pools.CovariateKind, ...] = ("continuous", "binary")
    """Kinds of covariate: continuous (variance 1), binary (median split, in {0, 1}, whose
    correlation with quality cannot exceed 0.798)."""
    rho: tuple[float, ...] = CONTINUOUS_GRID
    """Population correlations, increasing; the binary covariate takes those up to 0.75."""

    def cells(self) -> list[Cell]:
        """Baseline and factors for each covariate."""
        cells = []
        for kind in self.covariate:
            base = Crossing(covariate=kind, rho=self.reached(kind), interaction=self.interaction)
            cells.append(self.cell("baseline", np.nan, base))
            for factor, values in FACTORS.items():
                cells += [self.cell(factor, v, replace(base, **{factor: v})) for v in values]
        return cells

    def cell(self, factor: str, value: float, s: Crossing) -> Cell:
        """A scenario's crossing; the value is NaN for the baseline."""
        columns = {"covariate": s.covariate, "factor": factor, "value": value}
        return Cell(columns, {n: getattr(s, n) for n in ("covariate", *FACTORS)}, s.grid, s)

    def table(self, ds, t):
        for cell in self.cells():
            t.crossing(cell.benefit(ds), **cell.columns)

    def panels(self, table):
        rows = where(table, quantity="crossing")
        names = [f"{row.factor} {row.value:g}".removesuffix(" nan") for row in rows.itertuples()]
        return [self.crossings(table, names, "Bias and spread of quality\nmove the crossing most")]
