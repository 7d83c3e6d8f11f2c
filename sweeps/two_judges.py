"""A cheap judge on every pair, and a few verdicts of a reference with better discrimination and
little bias: what remains of the crossing when both are fitted with one quality. Beyond the paper,
which names this as its next step.

    joint       both judges, one quality, the cheap one's biases free, the reference's zero
    correlated  the same, with a prior that lets quality correlate with the covariate
                (`jbt.estimators.reference.correlated`)
    mixed       all verdicts taken for one judge's, with one bias
    naive, bias_aware   the cheap judge alone
    perfect_gate   the better of these two in each pool, as an oracle would choose

The reference answers each ordered pair at most once. Where it is biased itself, `joint` still
assumes that it is not.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats
from jbt.estimators.reference import PLACEMENTS
from jbt.experiments import declare, plots
from jbt.experiments.run import main

from ._shared.reference import (
    ALONE,
    DEFAULT,
    FACTORS,
    FITTED,
    JOINT,
    PRESETS,
    Settings,
    check,
    experiment,
    scenarios,
)

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    cells = [(scenario, rho) for scenario, grid in scenarios(s) for rho in grid]
    conditions = {name: np.array([scenario[name] for scenario, _ in cells]) for name in FACTORS}
    conditions["rho"] = np.array([rho for _, rho in cells])
    names = list(PLACEMENTS)
    conditions["placement_index"] = np.array([names.index(c["placement"]) for c, _ in cells])
    labels: dict[str, Any] = {name: conditions[name].tolist() for name in (*FACTORS, "rho")}
    labels["placement"] = [scenario["placement"] for scenario, _ in cells]
    by_number = {"n_reference": list(s.n_reference)}
    several = ["asked"]
    several += [f"{name}_c_{what}" for name in JOINT for what in ("width", "covered")]
    several += [f"status_{name}" for name in FITTED]
    several += [f"{name}_{what}" for name in FITTED for what in ("recall", "c")]
    return [
        declare.Group(
            "two_judges",
            experiment(s),
            conditions,
            labels,
            s.n_items,
            s.pools,
            axes=dict.fromkeys(several, by_number),
            fits=2 + 3 * len(s.n_reference),
        )
    ]


COLUMNS = (
    "rho",
    "model",
    "placement",
    "n_reference",
    "reference_bias",
    "reference_position",
    "reference_discrimination",
    "noise",
    "assumed_discrimination",
)


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    n_cheap = s.n_items * (s.n_items - 1)
    begin = 0
    for i, (_, grid) in enumerate(scenarios(s)):
        part = ds.isel(condition=slice(begin, begin + len(grid))).swap_dims(condition="rho")
        begin += len(grid)
        naive, aware = part["naive_recall"], part["bias_aware_recall"]
        if i == 0:
            alone(naive, aware, n_cheap, t)
        for model in FITTED:
            recall = part[f"{model}_recall"]
            t.means("recall", recall, model=model)
            t.means("benefit", recall - naive, model=model)
            t.means("benefit_over_bias_aware", recall - aware, model=model)
            t.means("c_hat", part[f"{model}_c"], model=model)
            if model in JOINT:
                # From the Laplace posterior, so the prior contributes.
                t.means("c_interval_width", part[f"{model}_c_width"], model=model)
                t.shares("c_covered", part[f"{model}_c_covered"].astype(float), model=model)
            for n in s.n_reference:
                benefit = (recall - naive).sel(n_reference=n)
                t.crossing(benefit.drop_vars([*FACTORS, "placement"]), **setting(part), model=model)
                margin(recall.sel(n_reference=n), naive, aware, t, **setting(part), model=model)
        t.means("asked", part["asked"])
        t.means("cost", n_cheap + s.price * part["asked"])
        nothing = (part["asked"].isel(n_reference=slice(1, None)) == 0).astype(float)
        t.shares("nothing_asked", nothing)


def alone(naive: xr.DataArray, aware: xr.DataArray, n_cheap: int, t: Table) -> None:
    """Add rows of the cheap judge alone, which do not depend on the reference."""
    models = {"naive": naive, "bias_aware": aware}
    gate = np.maximum(naive, aware)
    for model, recall in {**models, "perfect_gate": gate}.items():
        recall = recall.drop_vars([*FACTORS, "placement"])
        t.means("recall", recall, model=model, n_reference=0)
        if model != "naive":
            benefit = recall - naive.drop_vars([*FACTORS, "placement"])
            t.means("benefit", benefit, model=model, n_reference=0)
            if model == "bias_aware":
                t.crossing(benefit, model=model, n_reference=0)
    for model in models:
        t.add("cost", n_cheap, model=model, n_reference=0)


def setting(part: xr.Dataset) -> dict[str, Any]:
    """Columns of one scenario that describe the reference."""
    return {name: part[name].values[0] for name in (*FACTORS, "placement")}


def margin(
    recall: xr.DataArray, naive: xr.DataArray, aware: xr.DataArray, t: Table, **where: Any
) -> None:
    """Add `worst_margin`, the least mean advantage along rho over the better of naive and
    bias-aware; above 0 if both are beaten at every correlation."""
    ahead = np.stack([recall - naive, recall - aware])  # [2, rho, pool]
    worst = stats.bootstrap_means(ahead, seed=t.seed).min((1, 2))
    interval = stats.percentiles(worst, n_units=ahead.shape[-1])
    n = int(recall["n_reference"])
    least = float(ahead.mean(-1).min())
    t.add("worst_margin", least, interval, ahead.shape[-1], n_reference=n, **where)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: recall of the default reference, its crossings, and all worst margins."""
    default = np.ones(len(table), bool)
    for name in FACTORS:
        default &= table[name].isna() | (table[name] == DEFAULT[name])
    numbers = table.n_reference.isin([0, 30, 60]) | table.n_reference.isna()
    at = table.rho.isin([s.rho[0], 0.3, 0.5, 0.7, s.rho[-1]])
    recall = table.quantity.isin(["recall"]) & default & numbers & at
    summaries = table.quantity.isin(["worst_margin"]) | (table.quantity == "crossing") & default
    return table[recall | (summaries & numbers)]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (benefit, margin, references, c) = plots.facets(4, 2, height=4.0)
    draw_benefit(benefit, table, s, JOINT[-1])
    draw_margin(margin, table, s)
    draw_references(references, table, s, JOINT[-1])
    draw_c(c, table, s)
    return fig


def of_default(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows of the default reference with these values."""
    rows = table
    for name, value in {**DEFAULT, **where}.items():
        if name not in where:
            rows = rows[rows[name].isna() | (rows[name] == value)]
        else:
            rows = rows[rows[name] == value]
    return rows


def draw_benefit(ax: Axes, table: pd.DataFrame, s: Settings, model: str) -> Axes:
    placement = s.placement[0]
    where = {"quantity": "benefit", "placement": placement, "model": model}
    ax.axhline(0, color="black", linewidth=0.8)
    numbers = [n for n in s.n_reference if n]
    for i, n in enumerate(numbers):
        shade = 0.85 - 0.75 * (i + 1) / len(numbers)
        rows = of_default(table, n_reference=n, **where)
        plots.line(ax, rows, "rho", colour=str(shade), label=f"{n} reference verdicts")
    alone = table[(table.quantity == "benefit") & (table.n_reference == 0)]
    for name, label, colour, line in (
        ("bias_aware", "bias-aware, no reference", "blue", "-"),
        ("perfect_gate", "perfect gate", "green", "--"),
    ):
        rows = alone[alone.model == name]
        plots.line(ax, rows, "rho", colour=colour, label=label, linestyle=line)
    rows = of_default(table, n_reference=numbers[-1], **(where | {"model": "mixed"}))
    plots.line(ax, rows, "rho", colour="orange", label=f"mixed as one judge, {numbers[-1]}")
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel(f"benefit: top-{s.k} recall minus naive")
    ax.set_title(f"Fit with {model} quality, asked at the {placement}")
    plots.label_ends(ax)
    return ax


def draw_margin(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    ax.axhline(0, color="black", linewidth=0.8)
    for model, line in zip(JOINT, ("--", "-"), strict=True):
        for placement, colour in zip(s.placement, plots.CYCLE, strict=False):
            where = {"quantity": "worst_margin", "placement": placement, "model": model}
            rows = of_default(table, **where)
            label = f"{model}, {placement}"
            plots.line(ax, rows, "n_reference", colour=colour, label=label, linestyle=line)
    ax.set_xlabel("verdicts of the reference asked for")
    ax.set_ylabel("least advantage over the better of\nnaive and bias-aware, along " + r"$\rho$")
    ax.set_title("Verdicts until no crossing is left (above 0)")
    plots.label_ends(ax)
    return ax


LABELS = {
    "reference_bias": "bias {:g}",
    "reference_position": "position {:g}",
    "reference_discrimination": "discrimination {:g}",
    "noise": "{:.0%} turned around",
    "assumed_discrimination": "taken for discrimination {:g}",
}


def draw_references(ax: Axes, table: pd.DataFrame, s: Settings, model: str) -> Axes:
    """Draw recall with each reference at the middle of the grid, for two numbers of verdicts."""
    rho = s.factor_rho[len(s.factor_rho) // 2]
    n = [v for v in s.n_reference if v][-2:]
    names, chosen = (
        ["unbiased, discrimination 2"],
        [of_default(table, placement=s.factor_placement)],
    )
    for name, value in itertools.chain.from_iterable(
        ((f, v) for v in getattr(s, f) if v != DEFAULT[f]) for f in FACTORS
    ):
        changes = {name: value, "placement": s.factor_placement}
        if name == "reference_discrimination":
            changes["assumed_discrimination"] = value
        names.append(LABELS[name].format(value))
        chosen.append(of_default(table, **changes))
    series = []
    for number, colour in zip(n, ("sky", "blue"), strict=False):
        rows = [c[(c.rho == rho) & (c.model == model) & (c.quantity == "recall")] for c in chosen]
        rows = [r[r.n_reference == number].iloc[0] for r in rows]
        ends = (np.array([r[c] for r in rows]) for c in ("estimate", "ci_low", "ci_high"))
        series.append((f"{number} reference verdicts", colour, *ends))
    plots.forest(ax, names, series)
    alone = table[(table.quantity == "recall") & (table.n_reference == 0) & (table.rho == rho)]
    for name, line in (("naive", ":"), ("bias_aware", "--")):
        value = alone[alone.model == name].estimate.iloc[0]
        ax.axvline(value, color="black", linestyle=line, lw=1, label=f"{name}, no reference")
    ax.set_xlabel(f"top-{s.k} recall at " + rf"$\rho$ = {rho:g}")
    ax.set_title(f"References of other kinds ({model} quality)")
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    return ax


def draw_c(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw the cheap judge's estimated bias, which without a reference follows the correlation."""
    where = {"quantity": "c_hat", "placement": s.placement[0]}
    rows = of_default(table, n_reference=0, model="joint", **where)
    plots.line(ax, rows, "rho", colour="blue", label="no reference")
    numbers = [n for n in s.n_reference if n]
    shown = list(dict.fromkeys([numbers[len(numbers) // 3], numbers[-1]]))
    for model, colour in zip(JOINT, ("orange", "green"), strict=True):
        for n, line in zip(shown, ("--", "-"), strict=False):
            rows = of_default(table, n_reference=n, model=model, **where)
            label = f"{model}, {n} verdicts"
            plots.line(ax, rows, "rho", colour=colour, label=label, linestyle=line)
    ax.axhline(s.bias, color="black", linestyle=":", label="true")
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel("bias of the cheap judge, MAP\n(logits per unit of the covariate)")
    ax.set_title("What is learned of the cheap judge's bias")
    plots.label_ends(ax)
    return ax


SWEEP = declare.legacy(
    "two_judges",
    "A few verdicts of a trusted reference beside a cheap judge's: recall, crossings, cost.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "reference_bias": "logits per unit of the covariate",
        "reference_position": "logits",
        "reference_discrimination": "factor",
        "assumed_discrimination": "factor",
        "noise": "share of verdicts",
        "n_reference": "verdicts",
        **{f"{m}_recall": "1 (share of k)" for m in (*ALONE, *FITTED)},
        **{f"{m}_c": "logits per unit of the covariate" for m in FITTED},
        **{f"{m}_c_width": "logits per unit of the covariate" for m in JOINT},
        **{f"{m}_c_covered": "1 if the 95 % interval holds the true bias" for m in JOINT},
        **{f"status_{m}": "jbt.types.Status" for m in (*ALONE, *FITTED)},
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
