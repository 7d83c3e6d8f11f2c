"""Part (c) of `sweeps.paired`: some contents rendered twice, a budget, a choice of comparisons.

The judge draws a fresh verdict at every query, so that a pair asked again tells something new and
any budget can be spent on any choice. `jbt plan pairing` asks each ordered pair at most once unless
told otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability, judges, metrics, pairs, planning, pools, stats, study
from jbt.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, Judge, Pool, Prior, Status, check_positive

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from sweeps.paired import Settings

LAM, LAM_B = 1.0, 0.1
RECALL_COMPARISONS = ("all", "mixed")
"""Of the designs that rank, whose recall is measured."""
MODELS = ("naive", "bias_aware", "measured")
"""measured: c by maximum likelihood, then quality given that c; the MAP's c where none exists."""
SURE = 0.95
"""Share of pools whose MLE of c must exist for a design to count as telling c."""


def check(s: Settings) -> None:
    """Raise `ValueError` for settings of this part that make no sense."""
    m = s.some_contents
    if m < 2:
        raise ValueError(f"some_contents must be at least 2, got {m}")
    for name in ("n_twice", "recall_n_twice"):
        values = list(getattr(s, name))
        if values != sorted(set(values)) or (values and not 1 <= values[0] <= values[-1] <= m):
            raise ValueError(f"{name} must increase within 1..{m}, got {values}")
    unknown = [c for c in s.comparisons if c not in pairs.WITHIN_SHARE]
    if unknown or not s.comparisons or len(set(s.comparisons)) < len(s.comparisons):
        known = ", ".join(pairs.WITHIN_SHARE)
        raise ValueError(f"comparisons must list some of {known}, got {s.comparisons}")
    if not s.budget or list(s.budget) != sorted(set(s.budget)) or s.budget[0] < 1:
        raise ValueError(f"budget must increase from at least 1, got {s.budget}")
    pools.check_rho(s.rho, "continuous")
    if len(s.rho) < 2 or list(s.rho) != sorted(set(s.rho)):
        raise ValueError(f"rho must list at least 2 increasing values, got {s.rho}")
    for name in ("bias", "position"):
        if not np.isfinite(getattr(s, name)):
            raise ValueError(f"{name} must be finite, got {getattr(s, name)}")
    if not 1 <= s.k < m:
        raise ValueError(f"k must lie in 1..{m - 1}, got {s.k}")
    check_positive("sd", s.sd)


def judged(
    s: Settings, key: Key[Array, ""], condition: Condition
) -> tuple[Pool, Judge, Comparisons]:
    """A pool with some contents rendered twice, and the verdicts bought."""
    pool = pools.paired(
        stream(key, "pool"),
        s.some_contents,
        n_twice=condition["n_twice"],
        sd=s.sd,
        rho=condition["rho"],
        spread=1.0,
    )
    judge = Judge(jnp.full(1, s.bias), s.position)
    share = condition["within_share"]
    shown = pairs.choose(stream(key, "comparisons"), pool, condition["budget"], share)
    probability = judges.verdict_probability(pool, judge)
    return pool, judge, judges.fresh_comparisons(stream(key, "verdicts"), probability, shown)


INTERVAL = (
    "interval_mle",
    "interval_width",
    "interval_width_wald",
    "interval_information",
    "covered",
    "planned_width",
)
RECALL = ("recall", "recall_mle", "status_recall")


def experiment(s: Settings, wanted: Sequence[str]) -> Experiment:
    """Experiment: the prior-free interval of c, and recall of the contents by each of MODELS. What
    is not `wanted` is not computed."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool, judge, comparisons = judged(s, key, condition)
        estimate = identifiability.estimate_bias(comparisons, pool.design)
        shown = pairs.expected(pool, condition["budget"], condition["within_share"], jnp.inf)

        prior = Prior(LAM, LAM_B)
        naive = estimators.naive(comparisons, pool.design, prior)
        aware = estimators.bias_aware(comparisons, pool.design, prior)
        known = jax.tree.map(lambda leaf: leaf[None], estimate)
        measured = estimators.measured(comparisons, pool.design, prior, known)
        fits = (naive, aware, measured)
        recall = [metrics.top_k_recall(f.parameters.theta, pool.quality, s.k) for f in fits]
        out = {
            "interval_mle": estimate.status,
            "interval_width": estimate.high - estimate.low,
            "interval_width_wald": estimate.wald_high - estimate.wald_low,
            "interval_information": estimate.curvature,
            "covered": (estimate.low <= s.bias) & (s.bias <= estimate.high),
            "planned_width": 2 * planning.expected_half_width(pool, judge, shown),
            "recall": jnp.stack(recall),
            "recall_mle": estimate.status,
            "status_recall": jnp.stack([f.status for f in fits]).max(),
        }
        return {name: out[name] for name in wanted}

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


def groups(s: Settings) -> list[study.Group]:
    out = []
    if s.n_twice:
        out.append(group(s, "interval", INTERVAL, interval_cells(s), {}))
    if s.recall_n_twice:
        axes = {"recall": {"model": list(MODELS)}}
        out.append(group(s, "recall", RECALL, recall_cells(s), axes))
    return out


def group(
    s: Settings, name: str, wanted: Sequence[str], cells: Sequence[Cell], axes: dict[str, Any]
) -> study.Group:
    n_twice, comparisons, budget, rho = (list(v) for v in zip(*cells, strict=True))
    n = len(cells)
    return study.Group(
        name,
        experiment(s, wanted),
        {
            "n_twice": np.array(n_twice),
            "within_share": np.array([pairs.WITHIN_SHARE[c] for c in comparisons]),
            "budget": np.array(budget, float),
            "rho": np.array(rho, float),
        },
        {
            "part": [name] * n,
            "judge": ["default"] * n,
            "n_contents": [s.some_contents] * n,
            "n_twice": n_twice,
            "comparisons": comparisons,
            "budget": budget,
            "rho": rho,
        },
        2 * s.some_contents,
        s.pools,
        axes=axes,
        fits=8,
    )


# --- from the saved results


def rows(ds: xr.Dataset, s: Settings) -> list[list[Any]]:
    out = interval_rows(ds, s) if s.n_twice else []
    return out + (recall_rows(ds, s) if s.recall_n_twice else [])


def select(ds: xr.Dataset, part: str, metric: str, cell: Cell) -> np.ndarray:
    """A metric [pools, ...] of one cell of a part."""
    at = ds["part"].values == part
    for name, value in zip(("n_twice", "comparisons", "budget", "rho"), cell, strict=True):
        at &= ds[name].values == value
    return ds[metric].values[np.flatnonzero(at)[0]]


def interval_rows(ds: xr.Dataset, s: Settings) -> list[list[Any]]:
    """Width of the interval of c in each design, and how many renderings a width takes. Widths and
    coverage are means over the pools in which an estimate exists."""
    out: list[list[Any]] = []
    rho = s.rho[0]
    for comparisons, budget in itertools.product(s.comparisons, s.budget):
        each = [(m, comparisons, budget, rho) for m in s.n_twice]

        def get(metric: str, each: Sequence[Any] = each) -> np.ndarray:
            return np.stack([select(ds, "interval", metric, cell) for cell in each]).astype(float)

        exists = get("interval_mle") == Status.CONVERGED
        width = get("interval_width")
        quantities = {
            "c_interval_width": width,
            "c_interval_width_wald": get("interval_width_wald"),
            "c_interval_width_planned": get("planned_width"),
            "c_interval_coverage": np.where(exists, get("covered"), np.nan),
            "curvature": get("interval_information"),
            "mle_exists": exists.astype(float),
        }
        for name, values in quantities.items():
            for m, v in zip(s.n_twice, values, strict=True):
                known = int(np.isfinite(v).sum())
                numbers = stats.mean_interval(v, seed=s.seed) if known else (np.nan,) * 3
                out.append([*setting(s, m, comparisons, budget, rho), name, *numbers, known])
        sure = np.where(exists.mean(1, keepdims=True) >= SURE, width, np.nan)
        answer = needed(np.array(s.n_twice), sure, 2 * s.half_width, s.seed)
        row = setting(s, None, comparisons, budget, rho)
        known = int(np.isfinite(width).sum(1).min())
        out.append([*row, "n_twice_needed", *answer, known])
    return out


def needed(n_twice: np.ndarray, width: np.ndarray, wanted: float, seed: int) -> list[float]:
    """The n_twice, interpolated, at which the mean width [n_twice, pools] falls to `wanted`, with
    its interval; NaN beyond the largest n_twice, the smallest where it is enough already."""

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
    return [at, *stats.crossing_interval(samples)]


def recall_rows(ds: xr.Dataset, s: Settings) -> list[list[Any]]:
    """Recall by model, what it gains over counting wins with no content rendered twice and the same
    budget, and the correlation at which it stops gaining."""
    out: list[list[Any]] = []
    rho = np.array(s.rho)
    for budget in s.budget:
        designs = [(0, "all"), *itertools.product(s.recall_n_twice, RECALL_COMPARISONS)]
        found = {
            (m, how): np.stack([select(ds, "recall", "recall", (m, how, budget, p)) for p in s.rho])
            for m, how in designs
        }  # [rho, pools, models]
        reference = found[0, "all"][..., MODELS.index("naive")]
        for (m, comparisons), values in found.items():
            for i, model in enumerate(MODELS):
                if model == "measured" and m == 0:
                    continue  # nothing measures c
                recall = values[..., i]
                benefit = recall - reference
                quantities = {"recall": recall, "benefit": benefit}
                if (m, model) == (0, "naive"):
                    quantities.pop("benefit")
                for name, v in quantities.items():
                    numbers = np.stack(stats.mean_interval(v, seed=s.seed))
                    for r, p in enumerate(s.rho):
                        row = setting(s, m, comparisons, budget, p, model)
                        out.append([*row, name, *numbers[:, r], v.shape[1]])
                if model != "naive":
                    means = stats.bootstrap_means(benefit, seed=s.seed)
                    at = stats.finite_or_nan(stats.first_crossing(rho, benefit.mean(-1)))
                    ends = stats.crossing_interval(stats.first_crossing(rho, means))
                    row = setting(s, m, comparisons, budget, None, model)
                    out.append([*row, "crossing", at, *ends, benefit.shape[1]])
    return out


def setting(
    s: Settings, n_twice: int | None, comparisons: str, budget: int, rho: Any, model: Any = None
) -> list[Any]:
    """Values of the leading columns."""
    design = "unpaired" if n_twice == 0 else "paired"
    lam, lam_b = (LAM, LAM_B) if model else (None, None)
    return [
        "default",
        design,
        s.some_contents,
        n_twice,
        lam,
        lam_b,
        comparisons,
        budget,
        "stochastic",
        rho,
        model,
    ]


COLOUR = {"all": "blue", "across": "green", "within": "orange", "mixed": "vermilion"}


def draw(axes: Sequence[Axes], table: pd.DataFrame, s: Settings) -> None:
    if s.n_twice:
        draw_widths(axes[0], table, s)
    if s.recall_n_twice:
        draw_benefit(axes[1], table, s)
    for ax in axes:
        if not ax.has_data():
            ax.set_axis_off()


def draw_widths(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Half-width of the interval of c against the number of contents rendered twice."""
    from jbt import plots

    rows = table[(table.quantity == "c_interval_width") & (table.judge == "default")]
    for comparisons, budget in itertools.product(s.comparisons, s.budget):
        mine = rows[(rows.comparisons == comparisons) & (rows.budget == budget)]
        line = "-" if budget == max(s.budget) else "--"
        plots.band(
            ax,
            mine.n_twice,
            mine.estimate / 2,
            mine.ci_low / 2,
            mine.ci_high / 2,
            colour=plots.COLOURS[COLOUR[comparisons]],
            label=f"{comparisons}, {budget:,} verdicts",
            linestyle=line,
        )
    ax.axhline(s.half_width, color="black", linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(s.n_twice, [str(m) for m in s.n_twice])
    ax.minorticks_off()
    widths = (0.05, 0.1, 0.2, 0.5, 1.0)
    ax.set_yticks(widths, [f"{w:g}" for w in widths])
    ax.set_xlabel(f"contents rendered twice, of {s.some_contents}")
    ax.set_ylabel("half-width of the 95 % interval of c\n(logits per unit of the covariate)")
    ax.set_title("How many must be rendered twice?")
    ax.legend(fontsize=7, ncols=2)
    return ax


def draw_benefit(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Recall gained over counting wins against the correlation."""
    from jbt import plots

    budget = max(s.budget)
    rows = table[(table.quantity == "benefit") & (table.budget == budget)]
    ax.axhline(0, color="black", linewidth=0.8)
    mine = rows[(rows.n_twice == 0) & (rows.model == "bias_aware")]
    label = "none twice: the prior's choice"
    black = plots.COLOURS["black"]
    plots.band(ax, mine.rho, mine.estimate, mine.ci_low, mine.ci_high, colour=black, label=label)
    for m, colour in zip(s.recall_n_twice, plots.CYCLE, strict=False):
        for model, line in (("measured", "-"), ("bias_aware", "--")):
            at = (rows.n_twice == m) & (rows.comparisons == "all") & (rows.model == model)
            mine = rows[at]
            what = "c measured" if model == "measured" else "c by MAP"
            plots.band(
                ax,
                mine.rho,
                mine.estimate,
                mine.ci_low,
                mine.ci_high,
                colour=colour,
                label=f"{m} twice, {what}",
                linestyle=line,
            )
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel(f"top-{s.k} recall gained over\ncounting wins, none twice")
    ax.set_title(f"{budget:,} verdicts, all pairs alike")
    ax.legend(fontsize=7)
    return ax
