"""What moves the crossing: the paper's table, one factor at a time, with its own noise.

Beside the paper's numbers stand the scatter of studies of 30 runs a point, which shows whether a
number of the paper is within its own noise, and the collapse of the crossings of many (c*, sd)
pairs onto the crossing law as pools grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jbt import stats
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.simulation import pools, theory

from . import crossing
from ._shared.scenario import PoolKind, VaryingBias

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

FACTORS = ("bias", "n_items", "sd", "lam", "lam_b", "k")
COLLAPSE = "collapse"
SCENARIO_LABELS = ("covariate", "n_items", "bias", "sd", "lam", "lam_b", "k")


@dataclass(frozen=True, kw_only=True)
class Settings(PoolKind, VaryingBias, declare.Sweep):
    covariate: tuple[pools.CovariateKind, ...] = ("continuous", "binary")
    """Kinds of covariate: continuous (variance 1), binary (median split, in {0, 1}, whose
    correlation with quality cannot exceed 0.798)."""
    rho: tuple[float, ...] = crossing.CONTINUOUS_GRID
    """Population correlations, increasing; the binary covariate takes those up to 0.75."""
    bias: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0)
    """True biases c* (logits per unit), with every other factor at its default."""
    n_items: tuple[int, ...] = (15, 30, 60)
    """Pool sizes (count)."""
    sd: tuple[float, ...] = (0.6, 1.2, 2.5)
    """Standard deviations of quality (logits)."""
    lam: tuple[float, ...] = (0.2, 1.0, 5.0)
    """Prior precisions of quality (1/logit^2)."""
    lam_b: tuple[float, ...] = (0.01, 0.1, 1.0)
    """Prior precisions of c and kappa (1/logit^2)."""
    k: tuple[int, ...] = (2, 5, 10)
    """Sizes of the top set (count)."""
    runs: int = 30
    """Pools a point of the small studies whose crossings are counted (count)."""
    collapse_bias: tuple[float, ...] = (0.5, 1.0, 2.0)
    """True biases of the collapse figure (logits per unit), crossed with its sd."""
    collapse_sd: tuple[float, ...] = (0.6, 1.2, 2.5)
    """Standard deviations of quality of the collapse figure (logits)."""
    collapse_n_items: tuple[int, ...] = (30, 60, 120)
    """Pool sizes of the collapse figure (count); a sixth of each is its top set."""
    large_pools: int = 256
    """Pools at sizes above 60 items, where a fit takes long (count)."""


PRESETS = {
    "smoke": Settings(
        pools=32,
        rho=(0.0, 0.3, 0.6),
        covariate=("continuous",),
        n_items=(15, 30),
        collapse_bias=(1.0,),
        collapse_n_items=(30,),
    ),
    "paper": Settings(pools=30, large_pools=30),
    "full": Settings(pools=2048),
}


@dataclass(frozen=True)
class Cell:
    """One crossing to find: a row of the table."""

    covariate: pools.CovariateKind
    factor: str
    value: float
    """NaN for the baseline; r = c* sd_x / sd for the collapse."""
    scenario: crossing.Crossing


def cells(s: Settings) -> list[Cell]:
    """Crossings of the table: baseline and factors for each covariate, then the collapse.

    Raises:
      ValueError: a scenario that makes no sense.
    """
    same = ("pool", "max_correlation", "interaction")
    common = crossing.Crossing(**{name: getattr(s, name) for name in same})
    out = []
    for covariate in s.covariate:
        base = replace(common, covariate=covariate, pools=s.pools)
        out.append(Cell(covariate, "baseline", float("nan"), base))
        for factor in FACTORS:
            for value in getattr(s, factor):
                n_pools = s.large_pools if factor == "n_items" and value > 60 else s.pools
                scenario = replace(base, **{factor: value}, pools=n_pools)
                out.append(Cell(covariate, factor, value, scenario))
    for n in s.collapse_n_items:
        n_pools = s.pools if n <= 60 else s.large_pools
        for bias in s.collapse_bias:
            for sd in s.collapse_sd:
                k = max(1, n // 6)
                scenario = replace(common, n_items=n, k=k, bias=bias, sd=sd, pools=n_pools)
                name = f"{COLLAPSE} n_items={n} bias={bias:g} sd={sd:g}"
                out.append(Cell("continuous", name, scenario.ratio, scenario))
    for cell in out:
        cell.scenario.check()
    return out


def rho_of(s: Settings, covariate: pools.CovariateKind) -> tuple[float, ...]:
    rho = crossing.reached(s.rho, covariate)
    scenario = crossing.Crossing(covariate=covariate, rho=rho)
    scenario.check()
    return scenario.grid


def groups(s: Settings) -> list[declare.Group]:
    if s.runs < 1:
        raise ValueError(f"runs must be at least 1, got {s.runs}")
    # One kernel a shape; the baseline, a value of every factor, is simulated once.
    together: dict[tuple[pools.CovariateKind, int], dict[crossing.Crossing, None]] = {}
    for cell in cells(s):
        c = cell.scenario
        together.setdefault((c.covariate, c.n_items), {})[c] = None
    out = []
    for (covariate, n_items), scenarios in together.items():
        rho = rho_of(s, covariate)
        first = next(iter(scenarios))
        first.check_balance(rho, covariate)
        parts = [replace(c, rho=rho).conditions() for c in scenarios]
        labels = {f: [getattr(c, f) for c in scenarios for _ in rho] for f in SCENARIO_LABELS}
        (n_pools,) = {c.pools for c in scenarios}
        out.append(
            declare.Group(
                f"{covariate}-{n_items}",
                first.experiment,
                {name: np.concatenate([p[name] for p in parts]) for name in parts[0]},
                {**labels, "rho": list(rho) * len(scenarios)},
                n_items,
                n_pools,
            )
        )
    return out


def benefit_of(ds: xr.Dataset, scenario: crossing.Crossing) -> xr.DataArray:
    """Benefit in each of a scenario's pools [rho, pool]."""
    labels = {name: getattr(scenario, name) for name in SCENARIO_LABELS}
    return crossing.benefit_where(ds.isel(pool=slice(scenario.pools)), labels)


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    for cell in cells(s):
        benefit = benefit_of(ds, cell.scenario)
        where = {"covariate": cell.covariate, "factor": cell.factor, "value": cell.value}
        small = not cell.factor.startswith(COLLAPSE)
        t.crossing(benefit, runs=s.runs if small else None, **where)
        t.add("crossing_limit", cell.scenario.crossing_limit(), **where)
        if small:
            means = stats.study_means(benefit.values, seed=s.seed, size=s.runs)
            none = ~np.isfinite(stats.first_crossing(benefit["rho"].values, means))
            several = stats.sign_changes(means) > 1
            t.add("small_studies_without_crossing", none.mean(), **where)
            t.add("small_studies_with_several_changes", several.mean(), **where)


NAMES = {
    "baseline": "baseline",
    "bias": "c* = {:g}",
    "n_items": "N = {:g}",
    "sd": "sd = {:g}",
    "lam": r"$\lambda$ = {:g}",
    "lam_b": r"$\lambda_b$ = {:g}",
    "k": "k = {:g}",
}


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (left, right) = plots.new_figure(2, height=6.4)
    crossings = table[table.quantity == "crossing"]
    is_collapse = crossings.factor.str.startswith(COLLAPSE)
    draw_factors(left, crossings.loc[~is_collapse], s)
    sizes = [c.scenario.n_items for c in cells(s) if c.factor.startswith(COLLAPSE)]
    draw_collapse(right, crossings.loc[is_collapse], np.array(sizes))
    return fig


def draw_factors(ax: Axes, rows: pd.DataFrame, s: Settings) -> Axes:
    keys = list(dict.fromkeys(zip(rows.factor, rows.value.fillna(-1), strict=True)))
    colours = {"continuous": "blue", "binary": "orange"}
    for j, kind in enumerate(s.covariate):
        crossings = rows[rows.covariate == kind].drop_duplicates(["factor", "value"])
        y = [
            keys.index(key)
            for key in zip(crossings.factor, crossings.value.fillna(-1), strict=True)
        ]
        y = np.array(y) + (0.18 if j else -0.18)
        label = f"{kind}, studies of {s.runs} fresh pools a point (95 %)"
        # An open end is one where studies of this size need not cross on the grid.
        rho = rho_of(s, kind)
        low, high = crossings.replicate_low.fillna(rho[0]), crossings.replicate_high.fillna(rho[-1])
        ax.hlines(y, low, high, colors=plots.COLOURS[colours[kind]], alpha=0.25, lw=6, label=label)
        label = f"{kind}, {s.pools:,} pools (95 %)"
        plots.points(ax, crossings, y, colour=colours[kind], label=label, horizontal=True)
    y = [keys.index(key) for key in zip(rows.factor, rows.value.fillna(-1), strict=True)]
    ax.plot(rows.paper, y, "x", color=plots.COLOURS["vermilion"], label="paper")
    ax.set_yticks(range(len(keys)), [NAMES[f].format(v) for f, v in keys])
    ax.invert_yaxis()
    ax.set_xlabel("crossing: " + plots.RHO_LABEL)
    ax.set_title("One factor at a time")
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
    return ax


def draw_collapse(ax: Axes, rows: pd.DataFrame, sizes: np.ndarray) -> Axes:
    r = np.geomspace(rows.value.min() / 1.5, rows.value.max() * 1.5, 200)
    law = [theory.crossing_law(v) for v in r]
    ax.plot(r, law, color="black", label=r"law: $2r\rho^3 + (2r^2+1)\rho^2 = r^2$")
    ax.axhline(2**-0.5, color="black", linestyle=":", linewidth=0.8, label=r"$1/\sqrt{2}$")
    for i, (colour, n) in enumerate(zip(plots.CYCLE, np.unique(sizes), strict=False)):
        crossings = rows[sizes == n]
        aside = 1 + 0.03 * (i - 1)  # pools of one r, side by side
        plots.points(ax, crossings, crossings.value * aside, colour=colour, label=f"N = {n}")
    ax.set_xscale("log")
    plots.ticks(ax, x=(0.2, 0.5, 1, 2, 4))
    ax.set_xlabel(r"$r = c^* \, sd_x / sd$ (bias in units of the quality spread)")
    ax.set_ylabel("crossing: " + plots.RHO_LABEL)
    ax.set_title("Continuous: crossings approach the law as N grows")
    ax.legend(fontsize=8)
    return ax


SWEEP = declare.legacy(
    "crossing_factors",
    "The crossing as bias, pool size, quality spread, priors and k vary, one factor at a time.",
    PRESETS,
    groups,
    ("covariate", "factor", "value"),
    table,
    figure,
    units={
        **crossing.SWEEP.units,
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
