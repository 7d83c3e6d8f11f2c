"""The trusted-anchor gate: switch the correction on or not, from a few trusted labels. The paper's
table for every rule and every kind of label, its guarantees, and the labels that power takes.

    pairs      any two contents, the paper's labels
    disputed   pairs that the naive and the bias-aware ranking order differently
    swaps      of these, a content of the one top k alone and one of the other alone
    members    the contents of swaps, each alone: is it one of the truly best k?

Of its legitimate pools the paper does not say how they are made. Here pools are classed by what the
correction does to them: `agreement_harmed` where bias-aware is right on at most half of the untied
pairs that the two rankings order differently, `recall_harmed` where recall is not higher with it,
`helped` where it is. Classes overlap: recall may be unchanged and pairs ordered better.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats, study, sweep
from jbt.gate import LABELS
from sweeps._gate import (
    PRESETS,
    Settings,
    decisions,
    exact_size,
    families,
    groups,
    rho_index,
    scenarios,
)

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.tables import Table

COLUMNS = (
    "rule",
    "labels",
    "alpha",
    "n_anchors",
    "judge",
    "rho",
    "pool_class",
    "noise_kind",
    "noise",
    "n_sharing",
    "drift",
)
HARMED = ("agreement_harmed", "recall_harmed")
CLASSES = (*HARMED, "helped", "all")
TESTS = ("sign", "sign_sequential")
ALL = "all"

PRICE, CHEAP = 0.14 / 40, 0.014
"""Dollars a trusted label, and for a pool's comparisons by the cheap judge (the paper's)."""
SHARING = (1, 10, 100)
"""Pools that reuse one decision (the paper's)."""
FAMILY = (5, 10, 20, 40, 60)
"""Pools of a family that takes one decision on one label of each."""


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    true = [i for i, c in enumerate(scenarios(s)) if c["noise_kind"] == "none"]
    grid = {}  # [judge, rho, pool, ...]
    for name, of in ds.drop_vars("half_enable_rate").data_vars.items():
        values = of.transpose("condition", "pool", ...).values[true]
        grid[str(name)] = values.reshape(len(s.judge), len(s.rho), *values.shape[1:])
    recalls(grid, s, t)
    rates(grid, s, t)
    by_judge(grid, s, t)
    one_half(ds, s, t)
    power(grid, s, t)
    wrong_labels(ds, s, t)
    of_families(grid, s, t)


def classes(of: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Which pools are of each class, 0 or 1."""
    rises = of["bias_aware_recall"] > of["naive_recall"] + 1e-6
    found = {
        "agreement_harmed": of["right"] <= of["wrong"],
        "recall_harmed": ~rises,
        "helped": rises,
        "all": np.ones_like(rises),
    }
    return {name: found[name].astype(float) for name in CLASSES}


def rows_of(s: Settings) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
    """Places along (labels, decision, K), and the row's columns."""
    for i, labels in enumerate(LABELS):
        for j, (rule, alpha) in enumerate(s.rules.names):
            for k, n in enumerate(s.n_anchors):
                yield (i, j, k), {"labels": labels, "rule": rule, "alpha": alpha, "n_anchors": n}


def recalls(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Recall of both models and of perfect choices between them, mean over judges."""
    naive, aware = grid["naive_recall"], grid["bias_aware_recall"]
    raised = (aware - naive).mean(-1, keepdims=True) > 0
    found = {
        "naive_recall": naive,
        "bias_aware_recall": aware,
        # The correction at every judge and correlation where it raises the mean, and at no other.
        "oracle_recall": np.where(raised, aware, naive),
        "best_recall": np.maximum(naive, aware),
    }
    for quantity, values in found.items():
        for r, rho in enumerate(s.rho):
            of_pool = values[:, r].mean(0)
            add_means(t, quantity, of_pool[None], [{"judge": ALL, "rho": rho, "pool_class": "all"}])


def rates(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """How often each rule enables, over all judges at each correlation, and what comes of it."""
    places, rows = zip(*rows_of(s), strict=True)
    index = tuple(np.array(places).T)
    gain = grid["bias_aware_recall"] - grid["naive_recall"]
    for r, rho in enumerate(s.rho):
        of = {name: values[:, r] for name, values in grid.items()}
        enable = of["enable_rate"][:, :, *index]  # [judge, pool, row]
        for name, inside in classes(of).items():
            where = [{**row, "judge": ALL, "rho": rho, "pool_class": name} for row in rows]
            add_rates(t, "enable_rate", enable, inside, where)
            if name in HARMED:
                add_counts(t, enable, inside, where, s.sets)
            if name == "all":
                gated = of["naive_recall"][..., None] + enable * gain[:, r, :, None]
                add_means(t, "gated_recall", gated.mean(0).T, where)
                used = of["labels_used"][:, :, *index]
                add_means(t, "labels_used", used.mean(0).T, where)
            census = {"labels": "members", "rule": "census", "judge": ALL, "rho": rho}
            one = [census | {"pool_class": name}]
            add_rates(t, "enable_rate", of["census_rate"][..., None], inside, one)
            if name == "all":
                by_census = of["naive_recall"] + of["census_rate"] * gain[:, r]
                add_means(t, "gated_recall", by_census.mean(0)[None], one)
                add_means(t, "labels_used", of["census_used"].mean(0)[None], one)


def by_judge(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """The tests in pools that the correction harms, at every judge and correlation; and the largest
    of these rates."""
    places, rows = zip(*[pair for pair in rows_of(s) if pair[1]["rule"] in TESTS], strict=True)
    index = tuple(np.array(places).T)
    for g, judge in enumerate(s.judge):
        for r, rho in enumerate(s.rho):
            of = {name: values[g : g + 1, r] for name, values in grid.items()}
            enable = of["enable_rate"][:, :, *index]
            for name in HARMED:
                where = [{**row, "judge": judge, "rho": rho, "pool_class": name} for row in rows]
                add_rates(t, "enable_rate", enable, classes(of)[name], where)


def one_half(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """The case built at exactly one half, and the exact size of `sign` there."""
    found = ds["half_enable_rate"].isel(condition=0)
    for labels in found["half_labels"].values.tolist():
        for j, (rule, alpha) in enumerate(s.rules.names):
            for n in s.n_anchors:
                row = {"labels": labels, "rule": rule, "alpha": alpha, "n_anchors": n}
                row["pool_class"] = "half"
                values = found.sel(half_labels=labels, n_anchors=n).isel(decision=j).values
                add_means(t, "enable_rate", values[None], [row])
                if rule == "sign":
                    t.add("exact_size", exact_size(labels, n, alpha), **row)


def power(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Labels bought until a test enables in so many of the helped pools, by kind of label, at every
    correlation; and how many times fewer than of random pairs."""
    names = decisions(s.rules)
    for r, rho in enumerate(s.rho):
        of = {name: values[:, r] for name, values in grid.items()}
        helped = classes(of)["helped"]
        if not helped.any():
            continue
        for rule, alpha in s.rules.names:
            if rule not in TESTS:
                continue
            at = names.index(f"{rule}@{alpha:g}")
            curves = [power_curve(of, helped, i, at, s, t) for i in range(len(LABELS))]
            needed = np.stack([labels_needed(*curve, s.power) for curve in curves])
            for labels, each, ratio in zip(LABELS, needed, needed[0] / needed, strict=True):
                where = {"rule": rule, "labels": labels, "alpha": alpha, "judge": ALL, "rho": rho}
                where["pool_class"] = "helped"
                n = int(helped.any(0).sum())
                t.add("labels_needed", each[0], of_resamples(each[1:]), n, **where)
                if labels != "pairs":
                    t.add("times_fewer", ratio[0], of_resamples(ratio[1:]), n, **where)
                for sharing in SHARING:
                    cost = each * PRICE / sharing / CHEAP + 1
                    where["n_sharing"] = sharing
                    t.add("overhead", cost[0], of_resamples(cost[1:]), n, **where)


def of_resamples(found: np.ndarray) -> tuple[float, float]:
    """Interval of a number that not every resample has; none where more than 2.5 % lack it."""
    if np.isnan(found).mean() > 0.025:
        return np.nan, np.nan
    return stats.percentiles(found[~np.isnan(found)])


def power_curve(
    of: dict[str, np.ndarray], helped: np.ndarray, labels: int, decision: int, s: Settings, t: Table
) -> tuple[np.ndarray, np.ndarray]:
    """(labels bought, enable rate) over helped pools, [1 + resamples, K] each: of the sample, then
    of resampled pools."""
    found = []
    for name in ("labels_used", "enable_rate"):
        parts = [of[name], of[f"many_{name}"]] if s.many else [of[name]]
        each = np.concatenate([part[:, :, labels, decision] for part in parts], -1)
        found.append((each * helped[..., None]).mean(0).T)  # [K, pool]
    rows = np.concatenate([*found, helped.mean(0)[None]])
    means = stats.bootstrap_means(rows, seed=t.seed)
    means = np.concatenate([rows.mean(-1)[None], means])
    n = len(found[0])
    with np.errstate(invalid="ignore"):
        return means[:, :n] / means[:, -1:], means[:, n:-1] / means[:, -1:]


def labels_needed(used: np.ndarray, enabled: np.ndarray, wanted: float) -> np.ndarray:
    """[R] where the curve of each row first reaches the rate wanted, straight between numbers of
    labels; at the first of them where it is there already, NaN where it is not at the last."""
    there = enabled >= wanted
    at, rows = there.argmax(1), np.arange(len(used))
    before = np.maximum(at - 1, 0)
    low, high = enabled[rows, before], enabled[rows, at]
    share = np.clip((wanted - low) / np.where(high > low, high - low, 1), 0, 1)
    found = used[rows, before] + share * (used[rows, at] - used[rows, before])
    return np.where(there.any(1), found, np.nan)


def wrong_labels(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """The tests on labels some of which are wrong, of the first judge."""
    rows = [(c, row) for c, row in rows_of(s) if row["rule"] in TESTS]
    index = tuple(np.array([place for place, _ in rows]).T)
    for i, scenario in enumerate(scenarios(s)):
        if scenario["noise_kind"] == "none":
            continue
        part = ds.isel(condition=i)
        of = {
            str(name): part[name].transpose("pool", ...).values[None]
            for name in ("enable_rate", "right", "wrong", "naive_recall", "bias_aware_recall")
        }
        where = [{**scenario, **row} for _, row in rows]
        for name, inside in classes(of).items():
            if name != "all":
                named = [{**row, "pool_class": name} for row in where]
                add_rates(t, "enable_rate", of["enable_rate"][:, :, *index], inside, named)


def of_families(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """One decision for all pools of a family, on one label of some of them each, and what it does
    to the recall of further pools; of the first judge."""
    rho = np.array(s.rho)
    kinds = {"disputed": ("right", "wrong"), "members": ("right_member", "wrong_member")}
    naive, aware = (grid[f"{name}_recall"][0] for name in ("naive", "bias_aware"))
    gain = (aware - naive).mean(-1)
    rng = np.random.default_rng(s.seed)
    for labels, names in kinds.items():
        right, wrong = (grid[name][0] for name in names)
        if labels == "disputed":
            right, wrong = (v / np.maximum(right + wrong, 1) for v in (right, wrong))
        for drift in s.drift:
            # What further pools gain on average, whose correlation drifts as well.
            ahead = rng.normal(0, drift, 4000)
            for alpha in s.alpha:
                for mean_rho in s.rho:
                    gained = gain[rho_index(rho, mean_rho + ahead)].mean()
                    for n in FAMILY:
                        told = right, wrong, rho, mean_rho, drift, n, alpha, s.seed
                        enabled = families(*told).astype(float)
                        row = {"rule": "sign", "labels": labels, "alpha": alpha, "n_anchors": n}
                        row |= {"judge": s.judge[0], "rho": mean_rho, "drift": drift}
                        share, low, high = stats.share_interval(enabled[None])
                        t.add("family_enable_rate", share[0], (low[0], high[0]), n, **row)
                        t.add("family_benefit", share[0] * gained, **row)


# --- rows


def add_means(t: Table, quantity: str, values: np.ndarray, rows: list[dict[str, Any]]) -> None:
    """Means over pools, [row, pool]."""
    numbers = zip(*stats.mean_interval(values, seed=t.seed), strict=True)
    for row, of, (mean, *interval) in zip(rows, values, numbers, strict=True):
        studies = functools.partial(study_means, of[None], t.seed)
        t.add(quantity, mean, interval, len(of), studies=studies, **row)


def add_rates(
    t: Table, quantity: str, enable: np.ndarray, inside: np.ndarray, rows: list[dict[str, Any]]
) -> None:
    """Rates over the pools of a class, with the pool as the unit, whatever the judge.

    Args:
      enable: [judge, pool, row].
      inside: [judge, pool] 1 for the class.
    """
    if not inside.any():
        return
    above = (enable * inside[..., None]).mean(0).T  # [row, pool]
    both = np.concatenate([above, inside.mean(0)[None]])
    means = stats.bootstrap_means(both, seed=t.seed)
    with np.errstate(invalid="ignore"):
        resampled = means[:, :-1] / means[:, -1:]
    ends = np.nanquantile(resampled, [0.025, 0.975], axis=0).T
    n = int(inside.any(0).sum())
    for row, of, interval in zip(rows, above, ends, strict=True):
        two = np.stack([of, both[-1]])
        studies = functools.partial(study_rates, two, t.seed)
        interval = tuple(interval) if n > 1 else (np.nan, np.nan)
        t.add(quantity, of.mean() / both[-1].mean(), interval, n, studies=studies, **row)


def add_counts(
    t: Table, enable: np.ndarray, inside: np.ndarray, rows: list[dict[str, Any]], sets: int
) -> None:
    """False enables, decisions, the pools touched by one, and the upper end of the 95 % interval of
    the share of these (Clopper and Pearson); a pool is touched if it is for any judge."""
    n = int(inside.any(0).sum())
    touched = ((enable > 0) & (inside[..., None] > 0)).any(0).sum(0)
    counts = (enable * inside[..., None]).sum((0, 1)) * sets
    # As zeros and ones, whose exact interval it is.
    pools = np.arange(n) < touched[:, None] if n else np.full((len(rows), 1), np.nan)
    upper = stats.share_interval(pools.astype(float))[2]
    for row, count, some, most in zip(rows, counts, touched, upper, strict=True):
        t.add("false_enables", round(float(count)), n_pools=n, **row)
        t.add("decisions", int(inside.sum()) * sets, n_pools=n, **row)
        t.add("pools_touched", int(some), n_pools=n, **row)
        t.add("cp_upper", most, n_pools=n, **row)


def study_means(values: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """What studies of so many pools find of a mean, [1, pool]."""
    return stats.bootstrap_means(values, seed=seed, size=size, resamples=stats.REPLICATES)


def study_rates(both: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """And of a ratio of two, [2, pool]."""
    means = study_means(both, seed, size, seeds)
    with np.errstate(invalid="ignore"):
        return means[:, 0] / means[:, 1]


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """The paper's table, with its labels and rule; labels needed; the worst rates of the tests."""
    over_all = (table.judge == ALL) & table.rho.isin([s.rho[0], s.rho[-1]])
    quantities = ["enable_rate", "gated_recall"]
    paper = over_all & (table.labels == "pairs") & table.rule.isin(["at_least", "strict", "sign"])
    paper &= table.quantity.isin(quantities) & (table.pool_class == "all")
    needed = table.quantity.isin(["labels_needed", "times_fewer"]) & (table.rho == s.rho[0])
    recall = over_all & table.quantity.isin(["naive_recall", "oracle_recall", "best_recall"])
    return table[paper | needed | recall | worst(table)]


def worst(table: pd.DataFrame) -> pd.Series:
    """Which rows are the largest rate of a test in pools for which it is bounded, over all judges,
    correlations and K, labels being true."""
    bounded = (table.labels.isin(["pairs", "disputed"]) & (table.pool_class == HARMED[0])) | (
        (table.labels == "members") & (table.pool_class == HARMED[1])
    )
    mine = table[
        bounded
        & (table.quantity == "enable_rate")
        & (table.judge != ALL)
        & table.rule.isin(TESTS)
        & table.noise_kind.isna()
    ]
    keys = ["rule", "labels", "alpha", "pool_class"]
    at = mine.groupby(keys).estimate.idxmax() if len(mine) else []
    return table.index.isin(at)


# --- figure

COLOUR = dict(zip(LABELS, ("blue", "orange", "green", "vermilion"), strict=True))


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from jbt import plots

    fig, axes = plots.new_figure(3, n_rows=2, width=5.6)
    draw_rates(axes[0][0], table, s)
    draw_power(axes[0][1], ds, s)
    draw_harm(axes[0][2], table, s)
    draw_recall(axes[1][0], table, s)
    draw_noise(axes[1][1], table, s)
    draw_families(axes[1][2], table, s)
    return fig


def some(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows with these values, of true labels unless another noise is named."""
    mine = table[table.noise_kind.isna()] if "noise_kind" not in where else table
    for name, value in where.items():
        mine = mine[mine[name] == value]
    return mine


def middle(values: tuple[int, ...]) -> int:
    return values[len(values) // 2]


def draw_rates(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    from jbt import plots

    n = middle(s.n_anchors)
    where = {"quantity": "enable_rate", "judge": ALL, "pool_class": "all", "n_anchors": n}
    for labels in LABELS:
        rows = some(table, **where, labels=labels, rule="sign", alpha=s.alpha[0])
        plots.line(ax, rows, "rho", colour=COLOUR[labels], label=f"sign, {labels}")
    rows = some(table, **where, labels="pairs", rule="at_least")
    plots.line(ax, rows, "rho", colour="black", label="at least as well, pairs", linestyle="--")
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel("share of pools enabled")
    ax.set_title(f"How often the correction is switched on, K = {n}")
    ax.legend(fontsize=7)
    return ax


def draw_power(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    """Against labels bought, in helped pools at the least correlation."""
    from jbt import plots

    each = enumerate(scenarios(s))
    at = [i for i, c in each if c["noise_kind"] == "none" and c["rho"] == s.rho[0]]
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
                    each = part[prefix + name].sel(labels=labels).isel(decision=decision)
                    to += each.where(helped).mean(over).values.tolist()
            label = labels if rule == "sign" else None
            colour = plots.COLOURS[COLOUR[labels]]
            ax.plot(x, y, color=colour, linestyle=line, marker=".", label=label)
    ax.axhline(s.power, color="black", linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_xlabel("trusted labels bought (mean)")
    ax.set_ylabel("share of helped pools enabled")
    ax.set_title(rf"Power at $\rho$ = {s.rho[0]:g}: sign, all K (lines); one at a time (dotted)")
    ax.legend(fontsize=7, loc="lower right")
    return ax


def draw_harm(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """The largest rate over correlations in pools that the correction harms, against K."""
    from jbt import plots

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
        rows = some(table, **where, rule=rule, labels=labels, pool_class=name)
        if rule == "sign":
            rows = rows[rows.alpha == s.alpha[0]]
        if rows.empty:
            continue
        rows = rows.loc[rows.groupby("n_anchors").estimate.idxmax()]
        bounded = "" if line == "-" else ", not bounded"
        label = f"{rule}, {labels}: {name.replace('_', ' ')}{bounded}"
        plots.line(ax, rows, "n_anchors", colour=COLOUR[labels], label=label, linestyle=line)
    ax.axhline(s.alpha[0], color="black", linewidth=0.8)
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set_ylim(0, 8)
    ax.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    ax.set_xlabel("K, trusted labels (members: draws)")
    ax.set_ylabel("largest share of harmed pools enabled,\nalong " + r"$\rho$")
    ax.set_title(rf"False enables; black: $\alpha$ = {s.alpha[0]:g}")
    ax.legend(fontsize=6, loc="upper center", ncols=2)
    return ax


def draw_recall(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    from jbt import plots

    where = {"judge": ALL, "pool_class": "all"}
    for name, colour, line in (
        ("naive_recall", "black", ":"),
        ("bias_aware_recall", "black", "--"),
        ("best_recall", "purple", "-"),
    ):
        label = name.removesuffix("_recall").replace("_", "-")
        rows = some(table, **where, quantity=name)
        plots.line(ax, rows, "rho", colour=colour, label=label, linestyle=line)
    n = middle(s.n_anchors)
    where |= {"quantity": "gated_recall", "rule": "sign", "alpha": s.alpha[0], "n_anchors": n}
    for labels in LABELS:
        rows = some(table, **where, labels=labels)
        plots.line(ax, rows, "rho", colour=COLOUR[labels], label=f"sign, {labels}")
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel(f"top-{s.k} recall")
    ax.set_title(f"What the gate leaves of recall, K = {n}")
    ax.legend(fontsize=7)
    return ax


def draw_noise(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """The largest rate of `sign` in harmed pools along the correlation, labels being wrong."""
    from jbt import plots
    from sweeps._gate import NOISES

    bounded = (("pairs", HARMED[0]), ("disputed", HARMED[0]), ("members", HARMED[1]))
    where = {"quantity": "enable_rate", "rule": "sign", "alpha": s.alpha[0]}
    for kind, line in zip(NOISES, ("-", "--", ":"), strict=True):
        if not s.noise:
            break
        for labels, name in bounded:
            own = {"labels": labels, "pool_class": name, "noise_kind": kind, "noise": s.noise[-1]}
            rows = some(table, **where, **own)
            if rows.empty:
                continue
            rows = rows.loc[rows.groupby("n_anchors").estimate.idxmax()]
            label = f"{kind}, {labels}"
            plots.line(ax, rows, "n_anchors", colour=COLOUR[labels], label=label, linestyle=line)
    ax.axhline(s.alpha[0], color="black", linewidth=0.8)
    ax.set_xlabel("K, trusted labels (members: draws)")
    ax.set_ylabel("largest share of harmed pools enabled,\nalong " + r"$\rho$")
    wrong = f"{s.noise[-1]:.0%}" if s.noise else "no"
    ax.set_title(f"sign, {wrong} of the labels wrong ({s.judge[0]})")
    ax.legend(fontsize=7)
    return ax


def draw_families(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    from jbt import plots

    where = {"quantity": "family_enable_rate", "alpha": s.alpha[0]}
    for labels in ("disputed", "members"):
        for drift, line in zip(s.drift, ("-", "--"), strict=False):
            rows = some(table, **where, labels=labels, drift=drift, n_anchors=FAMILY[2])
            label = f"{labels}, correlation drifts by {drift:g}"
            plots.line(ax, rows, "rho", colour=COLOUR[labels], label=label, linestyle=line)
    ax.axhline(s.alpha[0], color="black", linewidth=0.8)
    ax.set_xlabel(r"mean of corr(quality, covariate) in the family, $\rho$")
    ax.set_ylabel("share of families enabled")
    ax.set_title(f"One decision from one label in each of {FAMILY[2]} pools ({s.judge[0]})")
    ax.legend(fontsize=7)
    return ax


SWEEP = sweep.Sweep(
    "gate",
    "The trusted-anchor gate: when to switch the correction on, with what guarantee.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "rho": "1 (population correlation)",
        "noise": "share of labels",
        "n_anchors": "labels (members: draws)",
        "many": "labels (members: draws)",
        **{f"{m}enable_rate": "share of label sets" for m in ("", "many_", "half_")},
        **{f"{m}labels_used": "labels" for m in ("", "many_")},
        "census_rate": "share of label sets",
        "census_used": "labels",
        **{f"{m}_recall": "1 (share of k)" for m in ("naive", "bias_aware")},
        "right": "disputed untied pairs",
        "wrong": "disputed untied pairs",
        **{f"{m}_member": "1 (chance of a draw)" for m in ("right", "wrong")},
        **{f"status_{m}": "jbt.types.Status" for m in ("naive", "bias_aware")},
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(study.main(SWEEP))
