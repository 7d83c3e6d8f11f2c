"""The trusted-anchor gate: whether to switch the correction on, decided from a few trusted labels.
The paper's table for every rule and kind of label, its guarantees, and the labels needed for power.

    pairs      any two contents, the paper's labels
    disputed   pairs that the naive and the bias-aware ranking order differently
    swaps      disputed pairs of a content in one top k alone and one in the other alone
    members    the contents of swaps, each alone: is it one of the truly best k?

The paper does not say how its legitimate pools are made; `--legitimate` has two readings. Here
pools are classed by the effect of the correction: `agreement_harmed` if bias-aware is right on at
most half of the untied pairs that the two rankings order differently, `recall_harmed` if recall is
not higher with it, `helped` if it is. Classes overlap: recall may be unchanged and pairs ordered
better.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats
from jbt.experiments import declare
from jbt.gate import LABELS

from .._shared import prices
from .pool import (
    ALL,
    FAMILY,
    HARMED,
    PRESETS,
    Settings,
    decisions,
    exact_size,
    family_rate,
    family_weights,
    groups,
    scenarios,
)
from .rows import add_counts, add_means, add_rates, add_study_counts

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

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
CLASSES = (*HARMED, "helped", "all")
TESTS = ("sign", "sign_sequential")


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    true = [i for i, c in enumerate(scenarios(s)) if c["noise_kind"] == "none"]
    grid = {}  # [judge, rho, pool, ...]
    for name, values_of in ds.drop_vars("half_enable_rate").data_vars.items():
        values = values_of.transpose("condition", "pool", ...).values[true]
        grid[str(name)] = values.reshape(len(s.judge), len(s.rho), *values.shape[1:])
    recalls(grid, s, t)
    rates(grid, s, t)
    by_judge(grid, s, t)
    one_half(ds, s, t)
    power(grid, s, t)
    wrong_labels(ds, s, t)
    if s.legitimate == "correlation":  # families have a mean correlation, one covariate
        of_families(grid, s, t)


def classes(results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Membership of the pools in each class, 0 or 1."""
    rises = results["bias_aware_recall"] > results["naive_recall"] + 1e-6
    members = {
        "agreement_harmed": results["right"] <= results["wrong"],
        "recall_harmed": ~rises,
        "helped": rises,
        "all": np.ones_like(rises),
    }
    return {name: members[name].astype(float) for name in CLASSES}


def rows_of(s: Settings) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
    """Indices along (labels, decision, K) of each row, and the row's columns."""
    for i, labels in enumerate(LABELS):
        for j, (rule, alpha) in enumerate(s.rules.names):
            for k, n in enumerate(s.n_anchors):
                yield (i, j, k), {"labels": labels, "rule": rule, "alpha": alpha, "n_anchors": n}


def recalls(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Add recall of both models and of perfect choices between them, mean over judges."""
    naive, aware = grid["naive_recall"], grid["bias_aware_recall"]
    raised = (aware - naive).mean(-1, keepdims=True) > 0
    recalls_of = {
        "naive_recall": naive,
        "bias_aware_recall": aware,
        # The correction for every judge and correlation where it raises the mean, for no other.
        "oracle_recall": np.where(raised, aware, naive),
        "best_recall": np.maximum(naive, aware),
    }
    for quantity, values in recalls_of.items():
        for r, rho in enumerate(s.rho):
            of_pool = values[:, r].mean(0)
            add_means(t, quantity, of_pool[None], [{"judge": ALL, "rho": rho, "pool_class": "all"}])


def rates(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Add each rule's enable rate over all judges at each correlation, and its consequences."""
    places, rows = zip(*rows_of(s), strict=True)
    index = tuple(np.array(places).T)
    gain = grid["bias_aware_recall"] - grid["naive_recall"]
    for r, rho in enumerate(s.rho):
        results = {name: values[:, r] for name, values in grid.items()}
        enable = results["enable_rate"][:, :, *index]  # [judge, pool, row]
        for name, inside in classes(results).items():
            where = [{**row, "judge": ALL, "rho": rho, "pool_class": name} for row in rows]
            add_rates(t, "enable_rate", enable, inside, where)
            if name in HARMED:
                add_counts(t, enable, inside, where, s.sets)
            if name == "all":
                gated = results["naive_recall"][..., None] + enable * gain[:, r, :, None]
                add_means(t, "gated_recall", gated.mean(0).T, where)
                used = results["labels_used"][:, :, *index]
                add_means(t, "labels_used", used.mean(0).T, where)
                if rho == s.rho[-1] > 0:
                    of_pairs = [i for i, row in enumerate(rows) if row["labels"] == "pairs"]
                    legitimate = [where[i] for i in of_pairs]
                    add_study_counts(t, enable[..., of_pairs], legitimate, s.sets)
            census = {"labels": "members", "rule": "census", "judge": ALL, "rho": rho}
            one = [census | {"pool_class": name}]
            add_rates(t, "enable_rate", results["census_rate"][..., None], inside, one)
            if name == "all":
                by_census = results["naive_recall"] + results["census_rate"] * gain[:, r]
                add_means(t, "gated_recall", by_census.mean(0)[None], one)
                add_means(t, "labels_used", results["census_used"].mean(0)[None], one)


def by_judge(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Add enable rates of the tests in harmed pools, for every judge and correlation."""
    places, rows = zip(*[pair for pair in rows_of(s) if pair[1]["rule"] in TESTS], strict=True)
    index = tuple(np.array(places).T)
    for g, judge in enumerate(s.judge):
        for r, rho in enumerate(s.rho):
            results = {name: values[g : g + 1, r] for name, values in grid.items()}
            enable = results["enable_rate"][:, :, *index]
            for name in HARMED:
                where = [{**row, "judge": judge, "rho": rho, "pool_class": name} for row in rows]
                add_rates(t, "enable_rate", enable, classes(results)[name], where)


def one_half(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """Add the case built at exactly one half, and the exact size of `sign` there."""
    rates_at_half = ds["half_enable_rate"].isel(condition=0)
    for labels in rates_at_half["half_labels"].values.tolist():
        for j, (rule, alpha) in enumerate(s.rules.names):
            for n in s.n_anchors:
                row = {"labels": labels, "rule": rule, "alpha": alpha, "n_anchors": n}
                row["pool_class"] = "half"
                values = rates_at_half.sel(half_labels=labels, n_anchors=n).isel(decision=j).values
                add_means(t, "enable_rate", values[None], [row])
                if rule == "sign" and alpha is not None:
                    t.add("exact_size", exact_size(labels, n, alpha), **row)


def power(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Add the labels bought until a test enables in the wanted share of helped pools, by kind of
    label and correlation; and how many times fewer they are than labels of random pairs."""
    names = decisions(s.rules)
    for r, rho in enumerate(s.rho):
        results = {name: values[:, r] for name, values in grid.items()}
        helped = classes(results)["helped"]
        if not helped.any():
            continue
        for rule, alpha in s.rules.names:
            if rule not in TESTS:
                continue
            at = names.index(f"{rule}@{alpha:g}")
            curves = [power_curve(results, helped, i, at, s, t) for i in range(len(LABELS))]
            needed = np.stack([prices.first_reached(*curve, s.power) for curve in curves])
            for labels, labels_spent, ratio in zip(LABELS, needed, needed[0] / needed, strict=True):
                where = {"rule": rule, "labels": labels, "alpha": alpha, "judge": ALL, "rho": rho}
                where["pool_class"] = "helped"
                n = int(helped.any(0).sum())
                t.add(
                    "labels_needed",
                    labels_spent[0],
                    prices.of_resamples(labels_spent[1:], n),
                    n,
                    **where,
                )
                if labels != "pairs":
                    t.add("times_fewer", ratio[0], prices.of_resamples(ratio[1:], n), n, **where)
                for sharing in prices.SHARING:
                    cost = prices.overhead(labels_spent * prices.LABEL, prices.POOL, sharing)
                    where["n_sharing"] = sharing
                    t.add("overhead", cost[0], prices.of_resamples(cost[1:], n), n, **where)


def power_curve(
    results: dict[str, np.ndarray],
    helped: np.ndarray,
    labels: int,
    decision: int,
    s: Settings,
    t: Table,
) -> tuple[np.ndarray, np.ndarray]:
    """(labels bought, enable rate) over helped pools, [1 + resamples, K] each: first the sample,
    then resampled pools."""
    weighted = []
    for name in ("labels_used", "enable_rate"):
        parts = [results[name], results[f"many_{name}"]] if s.many else [results[name]]
        by_pool = np.concatenate([part[:, :, labels, decision] for part in parts], -1)
        weighted.append((by_pool * helped[..., None]).mean(0).T)  # [K, pool]
    rows = np.concatenate([*weighted, helped.mean(0)[None]])
    means = stats.bootstrap_means(rows, seed=t.seed)
    means = np.concatenate([rows.mean(-1)[None], means])
    n = len(weighted[0])
    with np.errstate(invalid="ignore"):
        return means[:, :n] / means[:, -1:], means[:, n:-1] / means[:, -1:]


def wrong_labels(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """Add the tests of the first judge on labels some of which are wrong."""
    rows = [(c, row) for c, row in rows_of(s) if row["rule"] in TESTS]
    index = tuple(np.array([place for place, _ in rows]).T)
    for i, scenario in enumerate(scenarios(s)):
        if scenario["noise_kind"] == "none":
            continue
        part = ds.isel(condition=i)
        results = {
            str(name): part[name].transpose("pool", ...).values[None]
            for name in ("enable_rate", "right", "wrong", "naive_recall", "bias_aware_recall")
        }
        where = [{**scenario, **row} for _, row in rows]
        for name, inside in classes(results).items():
            if name != "all":
                named = [{**row, "pool_class": name} for row in where]
                add_rates(t, "enable_rate", results["enable_rate"][:, :, *index], inside, named)


def of_families(grid: dict[str, np.ndarray], s: Settings, t: Table) -> None:
    """Add decisions for whole families of pools, on one label in each of some pools, and their
    effect on the family's mean recall, for the first judge."""
    rho = np.array(s.rho)
    kinds = {"disputed": ("right", "wrong"), "members": ("right_member", "wrong_member")}
    gain = (grid["bias_aware_recall"] - grid["naive_recall"])[0]  # [rho, pool]
    for labels, names in kinds.items():
        right, wrong = (grid[name][0] for name in names)
        if labels == "disputed":
            right, wrong = (v / np.maximum(right + wrong, 1) for v in (right, wrong))
        for drift in s.drift:
            for mean in s.rho:
                weights = family_weights(rho, mean, drift)
                of_pool = np.stack([weights @ v for v in (right, wrong, gain)])
                means = np.concatenate(
                    [of_pool.mean(-1)[None], stats.bootstrap_means(of_pool, seed=t.seed)]
                )
                for alpha in s.alpha:
                    for n in FAMILY:
                        rate = family_rate(means[:, 0], means[:, 1], n, alpha)
                        row = {"rule": "sign", "labels": labels, "alpha": alpha, "n_anchors": n}
                        row |= {"judge": s.judge[0], "rho": mean, "drift": drift}
                        for quantity, values in (
                            ("family_enable_rate", rate),
                            ("family_benefit", rate * means[:, 2]),
                        ):
                            t.add(
                                quantity,
                                values[0],
                                stats.percentiles(values[1:], n_units=s.pools),
                                s.pools,
                                **row,
                            )


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: the paper's table with its labels, for four rules; labels needed; the exact
    size of `sign` beside its rate at one half; the worst rates of the tests."""
    over_all = (table.judge == ALL) & table.rho.isin([s.rho[0], s.rho[-1]])
    quantities = ["enable_rate", "gated_recall"]
    rules = ["at_least", "strict", "margin_share", "sign"]
    paper = over_all & (table.labels == "pairs") & (table.pool_class == "all")
    paper &= table.quantity.isin(quantities) & table.rule.isin(rules)
    paper |= table.quantity.str.startswith("study_") & table.paper.notna()
    needed = table.quantity.isin(["labels_needed", "times_fewer"]) & (table.rho == s.rho[0])
    recall = over_all & table.quantity.isin(["naive_recall", "oracle_recall", "best_recall"])
    half = (table.pool_class == "half") & (table.rule == "sign")
    return table[paper | needed | recall | half | worst(table)]


def worst(table: pd.DataFrame) -> pd.Series:
    """Mark rows with a test's largest rate, over judges, correlations and K, in pools for which it
    is bounded and with true labels."""
    bounded = (table.labels.isin(["pairs", "disputed"]) & (table.pool_class == HARMED[0])) | (
        (table.labels == "members") & (table.pool_class == HARMED[1])
    )
    rates_bounded = table[
        bounded
        & (table.quantity == "enable_rate")
        & (table.judge != ALL)
        & table.rule.isin(TESTS)
        & table.noise_kind.isna()
    ]
    keys = ["rule", "labels", "alpha", "pool_class"]
    at = rates_bounded.groupby(keys).estimate.idxmax() if len(rates_bounded) else []
    return table.index.to_series().isin(at)


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from . import drawing

    return drawing.figure(ds, table, s)


SWEEP = declare.legacy(
    "gate",
    "The trusted-anchor gate: when to switch the correction on, with what guarantee.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "noise": "share of labels",
        "n_anchors": "labels (members: draws)",
        "many": "labels (members: draws)",
        **{f"{m}enable_rate": "share of label sets" for m in ("", "many_", "half_")},
        **{f"{m}labels_used": "labels" for m in ("", "many_")},
        "census_rate": "share of label sets",
        "census_used": "labels",
        "right": "disputed untied pairs",
        "wrong": "disputed untied pairs",
        **{f"{m}_member": "1 (chance of a draw)" for m in ("right", "wrong")},
    },
    headline=headline,
)
