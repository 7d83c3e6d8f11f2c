"""What the paper leaves open about its crossing, each choice with both answers.

The crossing of `sweeps.crossing`, one choice at a time: whether the covariate is continuous,
binary, or binary with rho the correlation of its latent; the standard deviation of quality, which
the paper gives as 1.2 and as 1.25; the judge's position bias; its link; verdicts that were not
collected; and the spacing of rho. Beside each are the results of studies with the paper's 30 runs a
point, and whether the benefit falls at every step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jbt import stats
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.simulation import pools

from . import crossing
from ._shared.scenario import PoolKind

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

COVARIATES = ("continuous", "binary", "binary_latent")
CHOICES = ("sd", "position", "link", "completeness")
"""Choices that are simulated, beside the covariate; `every` only thins the grid."""
RUNS = 30
"""Pools a point of the paper's figure and table (count)."""


@dataclass(frozen=True, kw_only=True)
class Settings(PoolKind, declare.Sweep):
    covariate: tuple[Literal["continuous", "binary", "binary_latent"], ...] = COVARIATES
    """continuous: rho is its correlation with quality. binary: a median split whose own correlation
    is rho. binary_latent: the same where rho is the correlation of its latent, so that its own
    is 0.798 rho."""
    rho: tuple[float, ...] = crossing.CONTINUOUS_GRID
    """Population correlations, increasing; the binary covariate takes those up to 0.75."""
    sd: tuple[float, ...] = (1.2, 1.25)
    """Standard deviations of quality (logits). The first value of this and of each list below is
    the baseline's; the others are tried with all else at the baseline."""
    position: tuple[float, ...] = (0.0, 1.0)
    """True position biases (logits in favour of the first shown)."""
    link: tuple[str, ...] = ("logit", "probit")
    """Links of the judge, some of `jbt.simulation.judges.LINKS`; fits always use the logit."""
    completeness: tuple[float, ...] = (1.0, 0.8)
    """Probabilities that an ordered pair's verdict was collected, in (0, 1]."""
    every: tuple[int, ...] = (1, 2, 4)
    """n of the thinned grids: the crossing is also read from every n-th correlation (count)."""


PRESETS = {
    "smoke": Settings(
        pools=64, rho=(0.0, 0.2, 0.4, 0.6), covariate=("binary_latent",), every=(1, 2)
    ),
    "paper": Settings(pools=RUNS),
    "full": Settings(pools=4096),
}


@dataclass(frozen=True)
class Cell:
    """One crossing to find."""

    covariate: str
    rho: tuple[float, ...]
    """Correlations as the sweep names them; the scenario has the covariate's own."""
    scenario: crossing.Crossing
    every: int

    def where(self) -> dict[str, Any]:
        """Columns of its rows."""
        choices = {name: getattr(self.scenario, name) for name in CHOICES}
        return {"covariate": self.covariate, **choices, "every": self.every}


def cells(s: Settings) -> list[Cell]:
    """Crossings to find: the baseline of each covariate and its choices, one at a time.

    Raises:
      ValueError: a scenario that makes no sense, an empty list.
    """
    declare.check_listed("covariate", s.covariate, COVARIATES)
    for name in (*CHOICES, "every"):
        if not getattr(s, name):
            raise ValueError(f"{name} must list at least one value")
    if min(s.every) < 1:
        raise ValueError(f"every must be at least 1, got {min(s.every)}")
    out: dict[Cell, None] = {}
    for covariate in s.covariate:
        rho = crossing.reached(s.rho, "binary" if covariate == "binary" else "continuous")
        scale = pools.BINARY_RHO_MAX if covariate == "binary_latent" else 1.0
        base = crossing.Crossing(
            pool=s.pool,
            max_correlation=s.max_correlation,
            covariate="continuous" if covariate == "continuous" else "binary",
            rho=tuple(scale * r for r in rho),
            pools=s.pools,
            **{name: getattr(s, name)[0] for name in CHOICES},
        )
        varied = [replace(base, **{c: v}) for c in CHOICES for v in getattr(s, c)]
        choices = [(c, s.every[0]) for c in [base, *varied]] + [(base, every) for every in s.every]
        out |= dict.fromkeys(Cell(covariate, rho, *choice) for choice in choices)
    for cell in out:
        cell.scenario.check()
        if len(cell.rho[:: cell.every]) < 2:
            raise ValueError(f"every {cell.every} leaves fewer than 2 correlations of rho")
    return list(out)


def groups(s: Settings) -> list[declare.Group]:
    # One kernel a covariate and link; what differs by `every` alone is simulated once.
    together: dict[tuple[pools.CovariateKind, str], dict[Cell, None]] = {}
    for cell in cells(s):
        key = (cell.scenario.covariate, cell.scenario.link)
        together.setdefault(key, {})[replace(cell, every=1)] = None
    out = []
    for (covariate, link), scenarios in together.items():
        first = next(iter(scenarios)).scenario
        first.check_balance([r for cell in scenarios for r in cell.scenario.rho], covariate)
        parts = [c.scenario.conditions() for c in scenarios]
        labels = {
            name: [c.where()[name] for c in scenarios for _ in c.rho]
            for name in ("covariate", *CHOICES)
        }
        out.append(
            declare.Group(
                f"{covariate}-{link}",
                first.experiment,
                {name: np.concatenate([p[name] for p in parts]) for name in parts[0]},
                labels | {"rho": [r for c in scenarios for r in c.rho]},
                first.n_items,
                s.pools,
            )
        )
    return out


def benefit_of(ds: xr.Dataset, cell: Cell) -> xr.DataArray:
    """Benefit in each pool [rho, pool] of a cell."""
    labels = {name: value for name, value in cell.where().items() if name != "every"}
    return crossing.benefit_where(ds, labels).isel(rho=slice(None, None, cell.every))


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    baselines: dict[str, xr.DataArray] = {}
    for cell in cells(s):
        benefit, where = benefit_of(ds, cell), cell.where()
        base = baselines.setdefault(cell.covariate, benefit)
        t.means("benefit", benefit, **where)
        t.crossing(benefit, runs=RUNS, **where)
        difference_rows(benefit, base, where, t)
        largest, *interval = stats.largest_increase(benefit.values, seed=t.seed)
        t.add("largest_increase", largest, interval, benefit.sizes["pool"], **where)
        for quantity, same in (("", False), ("_same_pools", True)):
            means = stats.study_means(benefit.values, seed=t.seed, size=RUNS, same_pools=same)
            falls = (np.diff(means, axis=1) <= 0).all(1)
            t.add(f"small_studies_falling_throughout{quantity}", falls.mean(), **where)
        range_row(benefit, where, t)


def range_row(benefit: xr.DataArray, where: dict[str, Any], t: Table) -> None:
    """Add the largest minus the smallest crossing of three studies of one scenario, each with its
    own pools: the effect of noise alone on the three values of a factor. Median, and range of 95
    %."""
    rho = benefit["rho"].values
    three = [
        stats.first_crossing(rho, stats.study_means(benefit.values, seed=t.seed + i, size=RUNS))
        for i in range(3)
    ]
    with np.errstate(invalid="ignore"):  # all three beyond the grid
        ranges = np.ptp(three, axis=0)
    median = np.median(ranges[np.isfinite(ranges)]) if np.isfinite(ranges).any() else np.nan
    t.add("small_studies_range_of_3", median, studies=lambda *_: ranges, runs=RUNS, **where)


def difference_rows(
    benefit: xr.DataArray, base: xr.DataArray, where: dict[str, Any], t: Table
) -> None:
    """Add how far a choice moves the crossing, on the same pools, and how often a study of the
    choice and one of the baseline, of the paper's size and with pools of their own, differ by at
    least 0.05."""

    def crossings(array: xr.DataArray, means: np.ndarray) -> np.ndarray:
        return stats.first_crossing(array["rho"].values, means)

    if benefit is not base:
        pair = (benefit, base)
        means = [crossings(b, b.mean("pool").values) for b in pair]
        resampled = [crossings(b, stats.bootstrap_means(b.values, seed=t.seed)) for b in pair]
        with np.errstate(invalid="ignore"):  # both beyond the grid
            moved, samples = means[0] - means[1], resampled[0] - resampled[1]
        samples = np.where(np.isnan(samples), 0, samples)
        interval = stats.crossing_interval(samples, n_units=benefit.sizes["pool"])
        t.add("crossing_minus_baseline", moved, interval, benefit.sizes["pool"], **where)
    crossings_here, crossings_base = (
        crossings(b, stats.study_means(b.values, seed=t.seed + i, size=RUNS))
        for i, b in enumerate((benefit, base))
    )
    with np.errstate(invalid="ignore"):
        apart = abs(crossings_here - crossings_base) >= 0.05
    t.add("small_studies_0.05_from_baseline", apart.mean(), **where)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: without the benefit beyond rho = 0."""
    return table[(table.quantity != "benefit") | (table.rho == s.rho[0])]


def name_of(row: pd.Series, s: Settings) -> str:
    """Name of the choice in which a row differs from the baseline."""
    signs = {"sd": "sd", "position": r"$\kappa^*$", "link": "link", "completeness": "collected"}
    signs["every"] = r"$\rho$ thinned, every"
    changed = [name for name in signs if row[name] != getattr(s, name)[0]]
    if not changed:
        return "baseline"
    value = row[changed[0]]
    return f"{signs[changed[0]]} = {value if isinstance(value, str) else f'{value:g}'}"


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (left, right) = plots.new_figure(2, height=5.2)
    draw_curves(left, table, s)
    draw_crossings(right, table[table.quantity == "crossing"], s)
    return fig


STYLE = {
    "continuous": ("blue", "continuous"),
    "binary": ("orange", "binary"),
    "binary_latent": ("green", r"binary, $\rho$ of its latent"),
}


def draw_curves(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    rows = table[table.quantity == "benefit"]
    for name in (*CHOICES, "every"):
        rows = rows[rows[name] == getattr(s, name)[0]]
    ax.axhline(0, color="black", linewidth=0.8)
    for covariate in s.covariate:
        colour, label = STYLE[covariate]
        plots.line(ax, rows[rows.covariate == covariate], "rho", colour=colour, label=label)
    paper_lines(ax, table)
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel("benefit: top-5 recall, bias-aware minus naive")
    ax.set_title("The baseline, by what the covariate is")
    ax.legend(fontsize=8)
    return ax


def draw_crossings(ax: Axes, rows: pd.DataFrame, s: Settings) -> Axes:
    rows = rows.assign(choice=[name_of(row, s) for _, row in rows.iterrows()])
    choices = list(dict.fromkeys(rows.choice))
    ends = {cell.covariate: cell.rho for cell in cells(s)}
    for j, covariate in enumerate(s.covariate):
        crossings = rows[rows.covariate == covariate].drop_duplicates("choice")
        y = np.array([choices.index(c) for c in crossings.choice]) + 0.22 * (j - 1)
        colour, label = STYLE[covariate]
        # An open end is one where studies of this size need not cross on the grid.
        low, high = crossings.replicate_low.fillna(ends[covariate][0]), crossings.replicate_high
        high = high.fillna(ends[covariate][-1])
        ax.hlines(y, low, high, colors=plots.COLOURS[colour], alpha=0.25, lw=5)
        plots.points(ax, crossings, y, colour=colour, label=label, horizontal=True)
    paper_lines(ax, rows)
    ax.set_yticks(range(len(choices)), choices)
    ax.invert_yaxis()
    ax.set_xlabel(r"crossing $\rho$ (wide bars: 95 % of studies of 30 fresh runs)")
    ax.set_title("One choice at a time")
    return ax


def paper_lines(ax: Axes, table: pd.DataFrame) -> None:
    for value in sorted(table[table.quantity == "crossing"].paper.dropna().unique()):
        colour, label = plots.COLOURS["vermilion"], f"paper, {value:g}"
        ax.axvline(value, color=colour, linestyle=":", label=label)


SWEEP = declare.legacy(
    "crossing_choices",
    "What the paper leaves open about the crossing: each choice, and what it moves.",
    PRESETS,
    groups,
    ("covariate", *CHOICES, "every", "rho"),
    table,
    figure,
    units={
        **crossing.SWEEP.units,
        "link": "of the judge",
        "completeness": "1 (probability that a verdict was collected)",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
