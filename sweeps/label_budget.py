"""What to do with the next twenty labels: recall against the number of trusted labels, for gates
and for uses of labels without a switch.

    gate_sign, gate_at_least   switch the correction on or not (`jbt.gate`)
    census            label every content that one top k alone has; switch on if recall rises
    fuse, fuse_correlated   labels of pairs are verdicts of a reference, fitted beside the judge's
                      (`jbt.estimators.reference.joint`, `correlated`)
    adjudicate        labels of contents correct the naive top k directly (`_shared/adjudicate.py`)
    naive, bias_aware, best   without labels; `best` is the better of the two in each pool, as of a
                      gate that never errs

All methods of a pool see the same labels:

    pairs, disputed, boundary  which of two contents is better: any two; those that the two rankings
                      order differently; those near the boundary of the top k by either
    members           is it one of the truly best k: contents that one top k alone has, in random
                      order (the gate: draws with replacement, `n_labels` counts these)
    members_ranked    the same, in the order of `_shared/adjudicate.py`
    contents          then all other contents, nearest to the boundary first
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jbt import estimators, gate
from jbt.estimators import reference
from jbt.estimators.reference import Rankings
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.simulation import judges, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, check_positive

from ._shared.adjudicate import TURNS, adjudicate, labelled
from ._shared.fuse import discordant, pair_labels
from ._shared.scenario import Correlated, VaryingBias, every_verdict

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

PLACED = {"pairs": "random", "disputed": "disputed", "boundary": "boundary"}
"""Labels of pairs, and their placement in `reference.PLACEMENTS`."""
RULES = ("sign", "at_least")
ALONE = ("naive", "bias_aware", "best")
FUSED = ("fuse", "fuse_correlated")
USES = {
    **{f"gate_{rule}": ("pairs", "disputed", "members") for rule in RULES},
    **dict.fromkeys(FUSED, tuple(PLACED)),
    "adjudicate": TURNS,
}
"""Method -> the labels it is tried on."""
EACH = {f"{m}_{labels}": (m, labels) for m, kinds in USES.items() for labels in kinds}
"""Name among the results -> method and labels."""


@dataclass(frozen=True, kw_only=True)
class Settings(Correlated, VaryingBias, declare.Sweep):
    covariate: pools.CovariateKind = "binary"
    rho: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.75)
    n_labels: tuple[int, ...] = (0, 2, 4, 6, 10, 20, 40, 60)
    """Labels (count), increasing from 0."""
    noise: tuple[float, ...] = (0.0, 0.1)
    """Chances that a label is wrong, for all methods alike, increasing."""
    alpha: float = 0.05
    """Level of the sign test."""
    label_discrimination: float = 4.0
    """Discrimination that the fit assumes of a label of a pair, as a factor on the judge's (pure
    number). True labels never err and so have none; the larger it is, the more a label moves the
    fit, and the more a wrong one harms."""
    judge: str = "llama"
    """Judge, of `jbt.simulation.judges.GATED`."""


PRESETS = {
    "smoke": Settings(
        pools=16, n_items=10, k=2, rho=(0.0, 0.6), n_labels=(0, 4, 20), noise=(0.0, 0.1)
    ),
    "paper": Settings(pools=30),  # as its crossings; it has no such experiment
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    s.check_grid()
    declare.check_increasing("n_labels", s.n_labels, least=0, needed=0.0, length=2)
    declare.check_increasing("noise", s.noise, least=0, most=0.5)
    gate.check_alpha(s.alpha)
    declare.check_listed("judge", [s.judge], list(judges.GATED))
    check_positive("label_discrimination", s.label_discrimination)


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    rho, noise = np.array([*itertools.product(s.rho, s.noise)]).T
    conditions = {"rho": rho, "noise": noise}
    labels = {name: values.tolist() for name, values in conditions.items()}
    axes = {"n_labels": list(s.n_labels)}
    several = [f"{name}_{what}" for name in EACH for what in ("recall", "used")]
    several += [f"status_{name}" for name in EACH if name.startswith("fuse")]
    return [
        declare.Group(
            "label_budget",
            experiment(s),
            conditions,
            labels,
            s.n_items,
            s.pools,
            axes=dict.fromkeys(several, axes),
            fits=2 + 6 * len(s.n_labels),
        )
    ]


def experiment(s: Settings) -> Experiment:
    """Experiment: every ordered pair judged once, two rankings, and every use of labels."""
    numbers, judge = np.array(s.n_labels), s.growing(judges.GATED[s.judge])
    critical = gate.critical_values(s.alpha, s.n_labels[-1])

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = s.draw(key, condition, s.covariate)
        design, cheap = pool.design, every_verdict(key, pool, judge)
        fits = {name: fit(cheap, design, s.prior) for name, fit in estimators.ESTIMATORS.items()}
        thetas = [fit.parameters.theta for fit in fits.values()]
        r = Rankings(pool, thetas[0], thetas[1], s.k)
        order = jax.random.permutation(stream(key, "ties"), design.n_contents)
        t = gate.tops(r, order)

        def recall(top: Array) -> Array:
            return gate.recall(top, t.good, s.k)

        naive, aware = recall(t.naive), recall(t.bias_aware)
        out = {"naive_recall": naive, "bias_aware_recall": aware}
        out |= {f"status_{name}": fit.status for name, fit in fits.items()}
        noise = condition["noise"]
        n = jnp.asarray(numbers, design.dtype)

        def gates(labels: str, right: Array, wrong: Array, used: Array) -> None:
            for rule in RULES:
                enabled = gate.decide(rule, right, wrong, critical=critical)
                out[f"gate_{rule}_{labels}_recall"] = jnp.where(enabled, aware, naive)
                out[f"gate_{rule}_{labels}_used"] = used

        def asked(placement: str) -> Comparisons:
            pairs_key = stream(key, "pairs")
            return jax.vmap(lambda n: pair_labels(pairs_key, r, placement, n, noise))(n)

        asked_pairs = [asked(placement) for placement in PLACED.values()]
        counts, mask = jax.tree.map(lambda *v: jnp.stack(v), *asked_pairs), design.content_mask()
        for method in FUSED:
            by_number = jax.vmap(lambda c, m=method: fused(m, cheap, c, r, s))
            theta, status = jax.vmap(by_number)(counts)
            top = jax.vmap(jax.vmap(lambda v: gate.exact_top(v, s.k, order, mask)))(theta)
            for i, labels in enumerate(PLACED):
                out[f"{method}_{labels}_recall"] = jax.vmap(recall)(top[i])
                out[f"status_{method}_{labels}"] = status[i]
                out[f"{method}_{labels}_used"] = asked_pairs[i].shown.sum((1, 2))
        for labels, labelled_pairs in zip(PLACED, asked_pairs, strict=True):
            if labels in USES["gate_sign"]:
                gates(
                    labels,
                    *jax.vmap(lambda c: discordant(c, r))(labelled_pairs),
                    labelled_pairs.shown.sum((1, 2)),
                )

        # One label a content for all methods, right or wrong.
        wrong = jax.random.uniform(stream(key, "noise"), t.good.shape, design.dtype) < noise
        says = t.good ^ wrong
        alone = gate.members(r, dataclasses.replace(t, good=says))
        drawn, rises = gate.of_members(stream(key, "draws"), *alone, s.n_labels[1:], sets=1)
        counts = (jnp.pad(v[0], (1, 0)) for v in (drawn.right, drawn.wrong, drawn.used))
        gates("members", *counts)
        out["census_recall"] = jnp.where(rises[0], aware, naive)
        out["census_used"] = 2 * alone[0].n
        for turns in TURNS:

            def mended(n: Array, turns: str = turns) -> tuple[Array, Array]:
                bought = labelled(stream(key, "contents"), r, t, turns, n)
                return recall(adjudicate(r, t, order, bought, says)), bought.sum()

            name = f"adjudicate_{turns}"
            out[f"{name}_recall"], out[f"{name}_used"] = jax.vmap(mended)(n)
        return out

    return one


def fused(
    method: str, cheap: Comparisons, labels: Comparisons, r: Rankings, s: Settings
) -> tuple[Float[Array, " M"], Int[Array, ""]]:
    """Quality (logits) and status of the fit to the judge's verdicts and labels of pairs."""
    panel = reference.beside(cheap, labels, s.label_discrimination)
    if method == "fuse":
        fit = reference.joint(panel, r.pool.design, s.prior)
    else:
        fit, _ = reference.correlated(panel, r.pool.design, s.prior)
    return fit.parameters.theta, fit.status


COLUMNS = ("rho", "method", "labels", "n_labels", "noise")


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    naive, aware = ds["naive_recall"], ds["bias_aware_recall"]
    true = ds["noise"].values == s.noise[0]
    alone = {"naive": naive, "bias_aware": aware, "best": np.maximum(naive, aware)}
    for method, recall in alone.items():
        recall = recall.isel(condition=true).drop_vars("noise")
        t.means("recall", recall, method=method)
        if method != "naive":
            t.means(
                "benefit", recall - naive.isel(condition=true).drop_vars("noise"), method=method
            )
    for name, (method, labels) in {"census": ("census", "members"), **EACH}.items():
        where = {"method": method, "labels": labels}
        t.means("recall", ds[f"{name}_recall"], **where)
        t.means("benefit", ds[f"{name}_recall"] - naive, **where)
        t.means("labels_used", ds[f"{name}_used"], **where)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: recall with about twenty true labels, and without any."""
    near = (table.n_labels == near_twenty(s)) | table.n_labels.isna()
    return table[near & (table.quantity == "recall") & (table.noise.isin([np.nan, s.noise[0]]))]


def near_twenty(s: Settings) -> int:
    return min(s.n_labels, key=lambda n: abs(n - 20))


LINES = {
    "gate_sign_pairs": ("sky", ":", "gate (sign), any pairs"),
    "gate_sign_disputed": ("blue", ":", "gate (sign), disputed pairs"),
    "gate_sign_members": ("orange", ":", "gate (sign), members"),
    "fuse_correlated_pairs": ("sky", "-", "fuse, any pairs"),
    "fuse_correlated_disputed": ("blue", "-", "fuse, disputed pairs"),
    "fuse_correlated_boundary": ("green", "-", "fuse, pairs at the boundary"),
    "adjudicate_members_ranked": ("orange", "-", "adjudicate, members"),
    "adjudicate_contents": ("vermilion", "-", "adjudicate, then all contents"),
}
"""Lines of the figure: name among the results -> colour, line style, label."""


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    """Draw a column of panels for a low, a middle and a high correlation, a row for each noise."""
    correlations = s.rho[0], s.rho[len(s.rho) // 2], s.rho[-1]
    panels = list(itertools.product(s.noise, correlations))
    fig, axes = plots.facets(len(panels), 3, width=5.2, height=4.6)
    low, high = table[table.quantity == "recall"].estimate.agg(["min", "max"])
    for ax, (noise, rho) in zip(axes, panels, strict=True):
        draw(ax, table, s, rho, noise)
        ax.set_ylim(low - 0.02, min(high + 0.02, 1.01))
    entries = axes[0].get_legend_handles_labels()
    fig.legend(*entries, loc="outside lower center", ncols=4, fontsize=9)
    return fig


def draw(ax: Axes, table: pd.DataFrame, s: Settings, rho: float, noise: float) -> Axes:
    """Draw recall against labels bought: `n_labels`, or as many as there are."""
    at = table[table.rho == rho]
    for method, line in zip(ALONE, (":", "--", "-."), strict=True):
        rows = at[(at.method == method) & (at.quantity == "recall")]
        label = method.replace("_", "-") + ", oracle" * (method == "best")
        ax.axhline(rows.estimate.iloc[0], color="black", linestyle=line, lw=0.8, label=label)
    at = at[at.noise == noise]
    for name, (colour, line, label) in LINES.items():
        method, labels = EACH[name]
        rows = at[(at.method == method) & (at.labels == labels)]
        recall, used = (rows[rows.quantity == q] for q in ("recall", "labels_used"))
        ends = (recall[c] for c in ("estimate", "ci_low", "ci_high"))
        style = {"linestyle": line, "marker": ".", "shade": 0.12}
        plots.band(ax, used.estimate, *ends, colour=colour, label=label, **style)
    ax.set_xscale("symlog", linthresh=4)
    ticks = [n for n in (0, 2, 4, 10, 20, 40, 60, 100) if n <= s.n_labels[-1]]
    ax.set_xticks(ticks, [str(n) for n in ticks])
    ax.set_xlabel("trusted labels bought (mean)")
    ax.set_ylabel(f"top-{s.k} recall")
    ax.set_title(
        rf"$\rho$ = {rho:g}, " + (f"{noise:.0%} of labels wrong" if noise else "true labels")
    )
    return ax


SWEEP = declare.legacy(
    "label_budget",
    "What to do with the next twenty labels: recall against labels, by the use made of them.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "noise": "share of labels",
        "n_labels": "labels (of a gate on members: draws)",
        **{f"{name}_recall": "1 (share of k)" for name in (*ALONE[:2], "census", *EACH)},
        **{f"{name}_used": "labels" for name in ("census", *EACH)},
        **{
            f"status_{name}": "jbt.types.Status"
            for name in (*ALONE[:2], *EACH)
            if not name.startswith(("gate", "adjudicate"))
        },
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
