"""The figure of `gate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jbt.experiments import plots
from jbt.gate import LABELS

from .pool import ALL, HARMED, Settings, decisions, scenarios

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR: dict[str, str] = dict(zip(LABELS, ("blue", "orange", "green", "vermilion"), strict=True))


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (rates, recall, harm, power) = plots.facets(4, 2, height=4.0)
    draw_rates(rates, table, s)
    draw_recall(recall, table, s)
    draw_harm(harm, table, s)
    draw_power(power, ds, s)
    return fig


def select(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows with these values, with true labels unless another noise is named."""
    rows = table[table.noise_kind.isna()] if "noise_kind" not in where else table
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return rows


def middle(values: tuple[int, ...]) -> int:
    return values[len(values) // 2]


def along_rho(ax: Axes, rows: pd.DataFrame, s: Settings, **style: Any) -> Axes:
    """Draw rows against the correlation; as points where that of 0 is another covariate's."""
    ax.set_xlabel(plots.RHO_LABEL)
    if s.legitimate == "correlation":
        return plots.line(ax, rows, "rho", **style)
    ax.set_xlabel(plots.RHO_LABEL + "; 0: the judge's own")
    marker = {"-": "o", "--": "s", ":": "^"}[style.pop("linestyle", "-")]
    return plots.points(ax, rows, rows.rho.astype(float), fmt=marker, **style)


def name_series(ax: Axes, s: Settings) -> None:
    """Name what `along_rho` drew: lines at their ends, points in a legend."""
    if s.legitimate == "correlation":
        plots.label_ends(ax)
    else:
        ax.legend(fontsize=7)


def draw_rates(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    n = middle(s.n_anchors)
    where = {"quantity": "enable_rate", "judge": ALL, "pool_class": "all", "n_anchors": n}
    for labels in LABELS:
        rows = select(table, **where, labels=labels, rule="sign", alpha=s.alpha[0])
        along_rho(ax, rows, s, colour=COLOUR[labels], label=f"sign, {labels}")
    rows = select(table, **where, labels="pairs", rule="at_least")
    along_rho(ax, rows, s, colour="black", label="at least as well, pairs", linestyle="--")
    ax.set_ylabel("share of pools enabled")
    ax.set_title(f"How often the correction is switched on, K = {n}")
    name_series(ax, s)
    return ax


def draw_power(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    """Draw enable rates in helped pools against labels bought, at the least correlation."""
    curve = enumerate(scenarios(s))
    at = [i for i, c in curve if c["noise_kind"] == "none" and c["rho"] == s.rho[0]]
    part = ds.isel(condition=at)
    helped = part["bias_aware_recall"] > part["naive_recall"] + 1e-6
    names = decisions(s.rules)
    over = ("condition", "pool")
    for rule, line in (("sign", "-"), ("sign_sequential", ":")):
        decision = names.index(f"{rule}@{s.alpha[0]:g}")
        for labels in LABELS:
            x, y = [], []
            for prefix in ("", "many_") if s.many else ("",):
                for name, to in (("labels_used", x), ("enable_rate", y)):
                    curve = part[prefix + name].sel(labels=labels).isel(decision=decision)
                    to += curve.where(helped).mean(over).values.tolist()
            label = labels if rule == "sign" else None
            colour = plots.COLOURS[COLOUR[labels]]
            ax.plot(x, y, color=colour, linestyle=line, marker=".", label=label)
    ax.axhline(s.power, color="black", linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_xlabel("trusted labels bought (mean)")
    ax.set_ylabel("share of helped pools enabled")
    ax.set_title(rf"Labels it takes at $\rho$ = {s.rho[0]:g} (dotted: one at a time)")
    plots.label_ends(ax)
    return ax


def draw_harm(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw the largest rate over correlations in harmed pools, against K."""
    where = {"quantity": "enable_rate", "judge": ALL}
    series = [
        ("sign", "pairs", HARMED[0], "-"),
        ("sign", "disputed", HARMED[0], "-"),
        ("sign", "members", HARMED[1], "-"),
        ("sign", "disputed", HARMED[1], ":"),
        ("sign", "swaps", HARMED[1], ":"),
        ("at_least", "pairs", HARMED[0], "--"),
    ]
    for rule, labels, name, line in series:
        rows = select(table, **where, rule=rule, labels=labels, pool_class=name)
        if rule == "sign":
            rows = rows[rows.alpha == s.alpha[0]]
        if rows.empty:
            continue
        rows = rows.loc[rows.groupby("n_anchors").estimate.idxmax()]
        shown = "at least as well" if rule == "at_least" else rule
        label = f"{shown}, {labels}: {name.replace('_', ' ')}"
        plots.line(ax, rows, "n_anchors", colour=COLOUR[labels], label=label, linestyle=line)
    ax.axhline(s.alpha[0], color="black", linewidth=0.8)
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set_ylim(0, 1.5)
    ax.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    ax.set_xlabel("K, trusted labels (members: draws)")
    ax.set_ylabel("largest share of harmed pools enabled,\nalong " + r"$\rho$")
    ax.set_title(rf"Switched on where it harms (solid: bounded by {s.alpha[0]:g})")
    plots.label_ends(ax)
    return ax


def draw_recall(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    where = {"judge": ALL, "pool_class": "all"}
    for name, colour, line in (
        ("naive_recall", "black", ":"),
        ("bias_aware_recall", "black", "--"),
        ("best_recall", "purple", "-"),
    ):
        label = name.removesuffix("_recall").replace("_", "-")
        rows = select(table, **where, quantity=name)
        along_rho(ax, rows, s, colour=colour, label=label, linestyle=line)
    n = middle(s.n_anchors)
    where |= {"quantity": "gated_recall", "rule": "sign", "alpha": s.alpha[0], "n_anchors": n}
    for labels in LABELS:
        rows = select(table, **where, labels=labels)
        along_rho(ax, rows, s, colour=COLOUR[labels], label=f"sign, {labels}")
    ax.set_ylabel(f"top-{s.k} recall")
    ax.set_title(f"Recall behind the gate, K = {n}")
    name_series(ax, s)
    return ax
