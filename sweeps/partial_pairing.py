"""Some contents rendered twice, a budget of verdicts, a choice of comparisons: how precisely the
bias is then estimated, and the recall gained by it. Beyond the paper.

The judge draws a fresh verdict at every query, so that a repeated pair adds information and any
budget can be spent on any choice. `jbt plan pairing` asks each ordered pair at most once by
default.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability, planning, stats
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, Judge, Pool, Prior, Status, check_positive

from ._shared.scenario import VaryingBias
from .paired import COLUMNS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

LAM, LAM_B = 1.0, 0.1
RECALL_COMPARISONS = ("all", "mixed")
"""Choices of comparisons whose recall is reported."""
MODELS = ("naive", "bias_aware", "measured")
"""measured: c by maximum likelihood, or by MAP where none exists, then quality given that c."""
SURE = 0.95
"""Share of pools in which the MLE of c must exist for a design to count as identifying c."""


@dataclass(frozen=True, kw_only=True)
class Settings(VaryingBias, declare.Sweep):
    pools: int = 200
    dtype: str = "float64"
    """Precision; the profile likelihood needs float64."""
    n_contents: int = 30
    """Contents of a pool of which only some are rendered twice (count)."""
    n_twice: tuple[int, ...] = (1, 3, 6, 10, 15, 20, 30)
    """Contents rendered twice, for the interval of c (count); an empty list skips this part."""
    comparisons: tuple[str, ...] = tuple(pairs.WITHIN_SHARE)
    """Choices of comparisons for the interval of c."""
    budget: tuple[int, ...] = (870, 3480)
    """Verdicts spent on a pool (count), each a fresh draw: pairs may be asked again."""
    recall_n_twice: tuple[int, ...] = (3, 12, 30)
    """Contents rendered twice, for recall (count), beside none; an empty list skips this part."""
    rho: tuple[float, ...] = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Correlations of quality and covariate, for recall; increasing."""
    bias: float = 1.0
    """True bias c* (logits per unit)."""
    position: float = 0.0
    """True position bias kappa* (logits)."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    k: int = 5
    """Size of the top set (count)."""
    half_width: float = 0.2
    """Wanted half-width of the interval of c (logits per unit)."""


PRESETS = {
    "smoke": Settings(
        pools=8, n_contents=8, k=2, n_twice=(), budget=(240,), recall_n_twice=(8,), rho=(0.0, 0.8)
    ),
    "paper": Settings(pools=6),  # as its paired study; it has no such part
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for prior-free estimates, got {s.dtype}")
    if s.n_contents < 2:
        raise ValueError(f"n_contents must be at least 2, got {s.n_contents}")
    if not s.n_twice and not s.recall_n_twice:
        raise ValueError("n_twice and recall_n_twice are both empty: nothing to do")
    for name in ("n_twice", "recall_n_twice"):
        declare.check_increasing(name, getattr(s, name), least=1, most=s.n_contents, length=0)
    declare.check_listed("comparisons", s.comparisons, list(pairs.WITHIN_SHARE))
    declare.check_increasing("budget", s.budget, least=1)
    pools.check_rho(s.rho, "continuous")
    declare.check_increasing("rho", s.rho, length=2)
    declare.check_top(s.k, s.n_contents)
    check_positive("sd", s.sd)
    check_positive("half_width", s.half_width)


def judged(
    s: Settings, key: Key[Array, ""], condition: Condition
) -> tuple[Pool, Judge, Comparisons]:
    """A pool with some contents rendered twice, and the verdicts bought."""
    pool = pools.paired(
        stream(key, "pool"),
        s.n_contents,
        n_twice=condition["n_twice"],
        sd=s.sd,
        rho=condition["rho"],
        spread=1.0,
    )
    judge = Judge(jnp.full(1, s.bias), s.position, interaction=s.interaction)
    share = condition["within_share"]
    shown = pairs.choose(stream(key, "comparisons"), pool, condition["budget"], share)
    probability = judges.verdict_probability(pool, judge)
    return pool, judge, judges.fresh_comparisons(stream(key, "verdicts"), probability, shown)


def experiment(s: Settings) -> Experiment:
    """Experiment: the prior-free interval of c, and recall of the contents by each of MODELS."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool, judge, comparisons = judged(s, key, condition)
        estimate = identifiability.estimate_bias(comparisons, pool.design)
        shown = pairs.expected(pool, condition["budget"], condition["within_share"], jnp.inf)
        prior = Prior(LAM, LAM_B)
        known = jax.tree.map(lambda leaf: leaf[None], estimate)
        fits = (
            estimators.naive(comparisons, pool.design, prior),
            estimators.bias_aware(comparisons, pool.design, prior),
            estimators.measured(comparisons, pool.design, prior, known),
        )
        recall = [metrics.top_k_recall(f.parameters.theta, pool.quality, s.k) for f in fits]
        return {
            "mle": estimate.status,
            "c_interval_width": estimate.high - estimate.low,
            "c_interval_width_wald": estimate.wald_high - estimate.wald_low,
            "c_interval_width_planned": 2 * planning.expected_half_width(pool, judge, shown),
            "curvature": estimate.curvature,
            "covered": (estimate.low <= s.bias) & (s.bias <= estimate.high),
            "recall": jnp.stack(recall),
            "status": jnp.stack([f.status for f in fits]).max(),
        }

    return one


Cell = tuple[int, str, int, float]
"""(n_twice, comparisons, budget, rho) of a design."""


def interval_cells(s: Settings) -> list[Cell]:
    return [*itertools.product(s.n_twice, s.comparisons, s.budget, s.rho[:1])]


def recall_cells(s: Settings) -> list[Cell]:
    if not s.recall_n_twice:
        return []
    none = itertools.product([0], ["all"], s.budget, s.rho)
    return [*none, *itertools.product(s.recall_n_twice, RECALL_COMPARISONS, s.budget, s.rho)]


def cells(s: Settings) -> list[Cell]:
    """Designs in the order of the conditions."""
    return [*dict.fromkeys(interval_cells(s) + recall_cells(s))]


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    n_twice, comparisons, budget, rho = (list(v) for v in zip(*cells(s), strict=True))
    return [
        declare.Group(
            "designs",
            experiment(s),
            {
                "n_twice": np.array(n_twice),
                "within_share": np.array([pairs.WITHIN_SHARE[c] for c in comparisons]),
                "budget": np.array(budget, float),
                "rho": np.array(rho, float),
            },
            {"n_twice": n_twice, "comparisons": comparisons, "budget": budget, "rho": rho},
            2 * s.n_contents,
            s.pools,
            axes={"recall": {"model": list(MODELS)}},
            fits=8,
        )
    ]


# --- from the saved results


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    if s.n_twice:
        interval_rows(ds, s, t)
    if s.recall_n_twice:
        recall_rows(ds, s, t)


def part_of(ds: xr.Dataset, s: Settings, wanted: Sequence[Cell]) -> xr.Dataset:
    """Conditions of these designs, in their order."""
    every = cells(s)
    return ds.isel(condition=[every.index(cell) for cell in wanted])


def common(s: Settings, design: str) -> dict[str, Any]:
    """Columns shared by many rows."""
    of_all = {"judge": "default", "n_contents": s.n_contents, "protocol": "stochastic"}
    return {**of_all, "design": design}


def interval_rows(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """Add widths of the interval of c in each design, and the contents rendered twice that a width
    takes. Widths and coverage are means over the pools in which an estimate exists."""
    for comparisons, budget in itertools.product(s.comparisons, s.budget):
        part = part_of(ds, s, [(m, comparisons, budget, s.rho[0]) for m in s.n_twice])
        exists = part["mle"] == Status.CONVERGED
        where = common(s, "paired")
        for name in ("c_interval_width", "c_interval_width_wald", "c_interval_width_planned"):
            t.means(name, part[name], **where)
        t.shares("c_interval_coverage", part["covered"].where(exists), **where)
        t.means("curvature", part["curvature"], **where)
        t.shares("mle_exists", exists.astype(float), **where)
        width = part["c_interval_width"]
        sure = width.where(exists.mean("pool") >= SURE).values
        at, *interval = needed(np.array(s.n_twice), sure, 2 * s.half_width, s.seed)
        known = int(np.isfinite(width.values).sum(1).min())
        where |= {"comparisons": comparisons, "budget": budget, "rho": s.rho[0]}
        t.add("n_twice_needed", at, interval, known, **where)


def needed(n_twice: np.ndarray, width: np.ndarray, wanted: float, seed: int) -> list[float]:
    """The n_twice, interpolated, at which the mean width [n_twice, pools] falls to `wanted`, with
    its interval; NaN beyond the largest n_twice, the smallest if that suffices."""

    def solve(mean: np.ndarray) -> np.ndarray:
        excess = np.nan_to_num(mean, nan=np.inf) - wanted
        enough = excess <= 0
        first = enough.argmax(-1)
        # Widths fall like a power of n_twice: interpolated on logarithms.
        low = np.maximum(first - 1, 0)
        y0, y1 = (np.log(np.take_along_axis(mean, i[..., None], -1)[..., 0]) for i in (low, first))
        x0, x1 = np.log(n_twice[low]), np.log(n_twice[first])
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(first > low, (y0 - np.log(wanted)) / (y0 - y1), 1.0)
        share = np.where(np.isfinite(share), share, 1.0)
        return np.where(enough.any(-1), np.exp(x0 + share * (x1 - x0)), np.inf)

    mean = np.array([w[np.isfinite(w)].mean() if np.isfinite(w).any() else np.nan for w in width])
    samples = solve(stats.bootstrap_means(width, seed=seed))
    at = stats.finite_or_nan(solve(mean))
    return [at, *stats.crossing_interval(samples, n_units=width.shape[-1])]


def recall_rows(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """Add recall by model, its gain over counting wins with no content rendered twice and the same
    budget, and the correlation at which the gain ends."""
    designs = [(0, "all"), *itertools.product(s.recall_n_twice, RECALL_COMPARISONS)]
    for budget in s.budget:
        counting = None
        for m, comparisons in designs:
            part = part_of(ds, s, [(m, comparisons, budget, p) for p in s.rho])
            recall = part["recall"].swap_dims(condition="rho")
            counting = recall.sel(model="naive").values if counting is None else counting
            where = common(s, "paired" if m else "unpaired") | {"lam": LAM, "lam_b": LAM_B}
            for model in MODELS:
                if model == "measured" and m == 0:
                    continue  # c is not identified
                recalls = recall.sel(model=model)
                t.means("recall", recalls, **where)
                if (m, model) != (0, "naive"):
                    t.means("benefit", recalls - counting, **where)
                if model != "naive":
                    of_all = {"n_twice": m, "comparisons": comparisons, "budget": budget}
                    t.crossing(recalls - counting, **where, **of_all)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: the contents needed and the crossings."""
    return table[table.quantity.isin(["n_twice_needed", "crossing"])]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    drawings = {draw_widths: s.n_twice, draw_benefit: s.recall_n_twice}
    parts = [draw for draw, designs in drawings.items() if designs]
    fig, axes = plots.facets(len(parts), height=4.0)
    for ax, draw in zip(axes, parts, strict=True):
        draw(ax, table, s)
    return fig


COLOUR = {"all": "blue", "across": "green", "within": "orange", "mixed": "vermilion"}


def draw_widths(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw half-widths of the interval of c against the number of contents rendered twice."""
    rows = table[(table.quantity == "c_interval_width")]
    for comparisons, budget in itertools.product(s.comparisons, s.budget):
        line_rows = rows[(rows.comparisons == comparisons) & (rows.budget == budget)]
        line = "-" if budget == max(s.budget) else "--"
        label = f"{comparisons}, {budget:,} verdicts"
        colour = COLOUR[comparisons]
        plots.line(ax, line_rows, "n_twice", colour=colour, label=label, scale=0.5, ls=line)
    ax.axhline(s.half_width, color="black", linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_yscale("log")
    plots.ticks(ax, x=s.n_twice, y=(0.05, 0.1, 0.2, 0.5, 1.0))
    ax.set_xlabel(f"contents rendered twice, of {s.n_contents}")
    ax.set_ylabel("half-width of the 95 % interval of c\n(logits per unit of the covariate)")
    ax.set_title("How many must be rendered twice?")
    plots.label_ends(ax)
    return ax


def draw_benefit(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw recall gained over counting wins against the correlation."""
    budget = max(s.budget)
    rows = table[(table.quantity == "benefit") & (table.budget == budget)]
    ax.axhline(0, color="black", linewidth=0.8)
    line_rows = rows[(rows.n_twice == 0) & (rows.model == "bias_aware")]
    plots.line(ax, line_rows, "rho", colour="black", label="none twice: the prior's choice")
    for m, colour in zip(s.recall_n_twice, plots.CYCLE, strict=False):
        for model, line in (("measured", "-"), ("bias_aware", "--")):
            at = (rows.n_twice == m) & (rows.comparisons == "all") & (rows.model == model)
            line_rows = rows[at]
            what = "c measured" if model == "measured" else "c by MAP"
            plots.line(ax, line_rows, "rho", colour=colour, label=f"{m} twice, {what}", ls=line)
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel(f"top-{s.k} recall gained over\ncounting wins, none twice")
    ax.set_title(f"{budget:,} verdicts, all pairs alike")
    plots.label_ends(ax)
    return ax


SWEEP = declare.legacy(
    "partial_pairing",
    "How well the bias is known when some contents are rendered twice, and what that is worth.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "c_interval_width_planned": "logits per unit of the covariate (95 %, from the truth)",
        "covered": "1 if the interval holds c*",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
