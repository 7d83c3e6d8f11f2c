"""What moves the crossing of `sweeps.crossing`: other answers to one question at a time.

`crossing_choices`: what the paper leaves open: whether the covariate is continuous, binary, or
binary with rho the correlation of its latent; the standard deviation of quality, which the paper
gives as 1.2 and as 1.25; the judge's position bias; its link; verdicts that were not collected; and
the spacing of rho. Beside each are the results of studies with the paper's 30 runs a point, and
whether the benefit falls at every step.

`crossing_factors`: the paper's table of factors. Beside its numbers stand the scatter of studies of
30 runs a point, which shows whether a number of the paper is within its own noise, and the collapse
of the crossings of many (c*, sd) pairs onto the crossing law as pools grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from jbt import stats
from jbt.experiments.declare import Group, Sweep, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import COLOURS, CYCLE, RHO_LABEL, Line, Panel, points, reference
from jbt.simulation import pools, theory
from jbt.types import check_count

from ._shared.scenario import PoolKind, VaryingBias
from .crossing import BINARY_GRID, CONTINUOUS_GRID, Crossing

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


RUNS = 30
"""Pools a point of the paper's figure and table (count)."""
Covariate = Literal["continuous", "binary", "binary_latent"]
BARS = (
    r"crossing $\rho$ (marks: 95 % over pools;"
    f"\nwide bars: 95 % of studies of {RUNS} pools a point)"
)
"""Label of the axis of `Varied.forest`."""
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
        part = where(ds.isel(pool=slice(self.scenario.pools)), **self.labels)
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
            if len(cell.rho[:: cell.every]) < 2:
                raise ValueError(f"every {cell.every} leaves fewer than 2 correlations of rho")

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
            groups.append(Group(name, s.experiment, conditions, labels, s.n_items, s.pools))
        return groups

    def reached(self, covariate: pools.CovariateKind) -> tuple[float, ...]:
        """Those of the correlations that lie on a covariate's default grid.

        Raises:
          ValueError: correlations are asked for, and none of them does.
        """
        most = 1.0 if covariate == "continuous" else BINARY_GRID[-1]
        possible = tuple(r for r in self.rho if r <= most)
        if self.rho and not possible:
            few = f"rho must include some up to {most:g} for {covariate}, got {self.rho[0]:g}"
            raise ValueError(few)
        return possible

    def forest(
        self,
        rows: pd.DataFrame,
        names: list[str],
        offsets: Sequence[float],
        width: int,
        title: str,
        *lines: Line,
        **options: Any,
    ) -> Panel:
        """Crossings one below the other, each covariate's a little apart, above wide bars that hold
        95 % of studies of the paper's size.

        Args:
          names: of the rows; rows of one name have one place.
          lines: beside those of the covariates.
          options: of the panel.
        """
        rows, order = rows.assign(name=names), list(dict.fromkeys(names))
        ends = {cell.columns["covariate"]: cell.rho for cell in self.cells()}
        crossings = [
            Line({"covariate": kind}, *STYLE[kind], joined=False, shift=offset)
            for kind, offset in zip(self.covariate, offsets, strict=False)
        ]

        def bars(ax):
            for line, kind in zip(crossings, self.covariate, strict=True):
                once = where(rows, **line.where).drop_duplicates("name")
                # An open end is one where studies of this size need not cross on the grid.
                low = once.replicate_low.fillna(ends[kind][0])
                high = once.replicate_high.fillna(ends[kind][-1])
                y, colour = once["name"].map(order.index) + line.shift, COLOURS[line.colour]
                ax.hlines(y, low, high, colors=colour, alpha=0.25, lw=width)

        at = {"names": order, "down": True, "before": bars, "table": rows}
        return Panel("name", lines=[*crossings, *lines], labels=(BARS, "", title), **at, **options)


# --- what the paper leaves open

SIGNS = {
    "sd": "sd of quality {:g}",
    "position": "first shown preferred by {:g} logit",
    "link": "{} link of the judge",
    "completeness": "share of verdicts collected {:g}",
    "every": r"grid of $\rho$ {:g} times as coarse",
}
"""Choice, beside the covariate -> name of a value. All but `every`, which only thins the grid, are
simulated."""


@dataclass(frozen=True, kw_only=True)
class Choices(PoolKind, Varied):
    """What the paper leaves open about the crossing: each choice, and what it moves."""

    name = "crossing_choices"
    columns = ("covariate", *SIGNS, "rho")
    presets = {
        "smoke": {
            "pools": 64,
            "rho": (0.0, 0.2, 0.4, 0.6),
            "covariate": ("binary_latent",),
            "every": (1, 2),
        },
        "paper": {"pools": RUNS},
    }
    panel_size = {"height": 4.6}

    covariate: tuple[Covariate, ...] = tuple(STYLE)
    """continuous: rho is its correlation with quality. binary: a median split whose own correlation
    is rho. binary_latent: the same where rho is the correlation of its latent, so that its own
    is 0.798 rho."""
    rho: tuple[float, ...] = CONTINUOUS_GRID
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

    def check(self):
        check_listed("covariate", self.covariate, list(STYLE))
        for name in SIGNS:
            if not getattr(self, name):
                raise ValueError(f"{name} must list at least one value")
        check_count("every", min(self.every))
        super().check()

    @property
    def baseline(self) -> dict[str, Any]:
        """The first value of every choice."""
        return {name: getattr(self, name)[0] for name in SIGNS}

    def cells(self) -> list[Cell]:
        """The baseline of each covariate and its choices, one at a time."""
        changed = [self.baseline | {name: v} for name in SIGNS for v in getattr(self, name)]
        choices = [choice for i, choice in enumerate(changed) if choice not in changed[:i]]
        return [self.cell(kind, **choice) for kind in self.covariate for choice in choices]

    def cell(self, covariate: Any, *, every: int, **choice: Any) -> Cell:
        """The crossing under one choice."""
        latent = covariate == "binary_latent"
        rho = self.reached("continuous" if latent else covariate)
        scale = pools.BINARY_RHO_MAX if latent else 1.0
        crossing = Crossing(
            pool=self.pool,
            max_correlation=self.max_correlation,
            covariate="binary" if latent else covariate,
            rho=tuple(scale * r for r in rho),
            pools=self.pools,
            **choice,
        )
        labels = {"covariate": covariate, **choice}
        return Cell({**labels, "every": every}, labels, rho, crossing, every)

    def table(self, ds, t):
        for cell in self.cells():
            benefit, at = cell.benefit(ds), cell.columns
            t.means("benefit", benefit, **at)
            t.crossing(benefit, runs=RUNS, **at)
            largest, *interval = stats.largest_increase(benefit.values, seed=t.seed)
            t.add("largest_increase", largest, interval, benefit.sizes["pool"], **at)

    def headline(self, table):
        """Rows to print: without the benefit beyond rho = 0."""
        return table[(table.quantity != "benefit") | (table.rho == self.rho[0])]

    def named(self, row: Any) -> str:
        """Name of the choice in which a row differs from the baseline."""
        for name, value in self.baseline.items():
            if row[name] != value:
                return SIGNS[name].format(row[name])
        return "baseline"

    def panels(self, table):
        crossings = where(table, quantity="crossing")

        def papers(ax):
            for value in sorted(crossings.paper.dropna().unique()):
                reference(ax, value, f"the paper, {value:g}", colour="purple")

        curves = (
            RHO_LABEL,
            "share of the true top 5 found: with correction\n"
            "minus without (bands: 95 % over pools)",
            "With a binary covariate\ncorrection hurts earlier",
        )
        lines = [Line({"covariate": k}, *STYLE[k]) for k in self.covariate]
        of_baseline = {"quantity": "benefit", **self.baseline}
        names = [self.named(row) for _, row in crossings.iterrows()]
        title = "The other open choices\nhardly move the crossing"
        apart = (-0.22, 0.0, 0.22)
        return [
            Panel(
                "rho",
                of_baseline,
                lines,
                curves,
                legend=8,
                after=papers,
                level=0.0,
                sides=("helps", "hurts"),
                sides_end="left",
            ),
            self.forest(crossings, names, apart, 5, title, legend=0, after=papers),
        ]


# --- the paper's factors

FACTORS: dict[Any, str] = {
    "bias": "bias c* {:g} logits",
    "n_items": "{:g} items",
    "sd": "sd of quality {:g} logits",
    "lam": r"prior of quality, $\lambda$ {:g}",
    "lam_b": r"prior of bias, $\lambda_b$ {:g}",
    "k": "top {:g} wanted",
}
"""Factor -> name of a value."""
COLLAPSE = "collapse"


@dataclass(frozen=True, kw_only=True)
class Factors(PoolKind, VaryingBias, Varied):
    """The crossing as bias, pool size, quality spread, priors and k vary, one factor at a time."""

    name = "crossing_factors"
    columns = ("covariate", "factor", "value")
    presets = {
        "smoke": {
            "pools": 32,
            "rho": (0.0, 0.3, 0.6),
            "covariate": ("continuous",),
            "n_items": (15, 30),
            "collapse_bias": (1.0,),
            "collapse_n_items": (30,),
        },
        "paper": {"pools": RUNS, "large_pools": RUNS},
        "full": {"pools": 2048},
    }
    panel_size = {"height": 5.6, "below": {"ncols": 4, "fontsize": 9}}

    covariate: tuple[pools.CovariateKind, ...] = ("continuous", "binary")
    """Kinds of covariate: continuous (variance 1), binary (median split, in {0, 1}, whose
    correlation with quality cannot exceed 0.798)."""
    rho: tuple[float, ...] = CONTINUOUS_GRID
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
    collapse_bias: tuple[float, ...] = (0.5, 1.0, 2.0)
    """True biases of the collapse figure (logits per unit), crossed with its sd."""
    collapse_sd: tuple[float, ...] = (0.6, 1.2, 2.5)
    """Standard deviations of quality of the collapse figure (logits)."""
    collapse_n_items: tuple[int, ...] = (30, 60, 120)
    """Pool sizes of the collapse figure (count); a sixth of each is its top set."""
    large_pools: int = 256
    """Pools at sizes above 60 items, where a fit takes long (count)."""

    def cells(self) -> list[Cell]:
        """Baseline and factors for each covariate, then the collapse."""
        same = ("pool", "max_correlation", "interaction")
        common = Crossing(**{name: getattr(self, name) for name in same})
        cells = []
        for kind in self.covariate:
            base = replace(common, covariate=kind)
            cells.append(self.cell("baseline", np.nan, base))
            for factor in FACTORS:
                for value in getattr(self, factor):
                    cells.append(self.cell(factor, value, replace(base, **{factor: value})))
        collapsed = product(self.collapse_n_items, self.collapse_bias, self.collapse_sd)
        for n, bias, sd in collapsed:
            s = replace(common, n_items=n, k=max(1, n // 6), bias=bias, sd=sd)
            name = f"{COLLAPSE} n_items={n} bias={bias:g} sd={sd:g}"
            cells.append(self.cell(name, s.ratio, s))
        return cells

    def cell(self, factor: str, value: float, s: Crossing) -> Cell:
        """A scenario's crossing over the correlations that its covariate reaches. The value is NaN
        for the baseline, r = c* sd_x / sd for the collapse."""
        n_pools = self.pools if s.n_items <= 60 else self.large_pools
        s = replace(s, pools=n_pools, rho=self.reached(s.covariate))
        columns = {"covariate": s.covariate, "factor": factor, "value": value}
        return Cell(columns, {n: getattr(s, n) for n in ("covariate", *FACTORS)}, s.grid, s)

    def table(self, ds, t):
        for cell in self.cells():
            benefit, at = cell.benefit(ds), cell.columns
            small = not at["factor"].startswith(COLLAPSE)
            t.crossing(benefit, runs=RUNS if small else None, **at)

    def panels(self, table):
        crossings = where(table, quantity="crossing")
        is_collapse = crossings.factor.str.startswith(COLLAPSE)
        factors, collapse = crossings[~is_collapse], crossings[is_collapse]
        usual = factors.factor.map(lambda name: getattr(Crossing, name, np.nan))
        factors = factors[factors.value != usual]
        values = zip(factors.factor, factors.value, strict=True)
        names = [str(FACTORS.get(factor, factor)).format(value) for factor, value in values]

        def law(ax):
            r = np.geomspace(collapse.value.min() / 1.5, collapse.value.max() * 1.5, 200)
            label = "law of large pools without noise"
            ax.plot(r, [theory.crossing_law(v) for v in r], color="black", label=label)
            sizes = sorted(set(self.collapse_n_items))
            for i, (colour, n) in enumerate(zip(CYCLE[2:], sizes, strict=False)):
                rows = collapse[collapse.factor.str.startswith(f"{COLLAPSE} n_items={n} ")]
                aside = 1 + 0.03 * (i - 1)  # pools of one r, side by side
                points(ax, rows, rows.value * aside, colour=colour, label=f"{n} items")

        title = "Bias and spread of quality\nmove the crossing most"
        paper = Line({}, "the paper", "black", marker="x")
        spread = "bias in units of the spread of quality\n" r"$r = c^* \, sd_x / sd$"
        many = (
            spread,
            r"crossing $\rho$ (95 % over pools)",
            "The larger the pools, the nearer the\ncrossing is to its law",
        )
        shown = {"log": "x", "ticks": {"x": (0.2, 0.5, 1, 2, 4)}}
        return [
            self.forest(factors, names, (-0.18, 0.18), 6, title, paper),
            Panel(labels=many, after=law, **shown),
        ]
