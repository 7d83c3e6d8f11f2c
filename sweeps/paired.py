"""What two renderings of one content identify of the bias: the paper's paired rendering design.

The paper's table "The paired design adds information; more data does not": all contents are
rendered twice, and the same verdicts analysed with a quality for each rendering (unpaired) and for
each content (paired); in `sweeps.partial_pairing` only some contents are rendered twice. Also the
paper's two negative controls: Eq. 3 without centring, and c moved while the qualities are held.

All judges see the same pools of one size, as in the paper; replicates share them. With --pool
statement_bank contents are made of the statements of the paper's benchmark, and judges are twins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability, twins
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.simulation import judges, pairs, pools, theory
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, Design, Parameters, Pool, Prior, Status, check_positive

from ._shared.judge import BANK
from ._shared.scenario import VaryingBias

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

DESIGNS = ("unpaired", "paired")
BASE_SIZE = 15
"""Contents of the paper's main paired study, which has more pools than other sizes."""
LAM, LAM_B = 1.0, 0.1
"""The paper's prior."""
SHIFT = 2
"""Points of the grid over c_map +- 1 that make up 0.5, by which the paper moves c."""
FACTOR = 5.0
"""Factor up to which, the paper says, Eq. 3 without centring misstates c_hat."""
TINY = 1e-6
"""Smallest precision allowed (1/logit^2)."""
COLUMNS = (
    "judge",
    "design",
    "n_contents",
    "n_twice",
    "lam",
    "lam_b",
    "comparisons",
    "budget",
    "protocol",
    "rho",
    "model",
)


@dataclass(frozen=True, kw_only=True)
class Settings(VaryingBias, declare.Sweep):
    pools: int = 200
    pools_other_sizes: int | None = None
    """Pools at sizes other than 15 contents (count); default as many. The paper has 3, and 6 of
    15."""
    dtype: str = "float64"
    """Precision; the profile likelihood needs float64."""
    judge: tuple[str, ...] = tuple(judges.OPEN)
    """Judges, which see the same pools."""
    n_contents: tuple[int, ...] = (8, 15, 25, 40)
    """Contents of a pool, all rendered twice (count)."""
    pool: Literal["gaussian", "statement_bank"] = "gaussian"
    """Contents. gaussian: normal qualities, and judges with the paper's estimates as true values.
    statement_bank: one of six fully correct, as 5 of 30 in the paper's benchmark, and twins of the
    judges (`jbt.twins`)."""
    oracle: Literal["draw", "argmax"] = "draw"
    """draw: each verdict is drawn once. argmax: the likelier verdict, as of open-weight judges at
    temperature 0, by logits with a preference for the pair added."""
    pair_noise: float = 0.5
    """Standard deviation of that preference (logits); without effect on drawn verdicts. Twins have
    their own."""
    lam: tuple[float, ...] = (0.2, 1.0, 5.0)
    """Prior precisions of quality whose MAPs are compared, 1 among them (1/logit^2)."""
    lam_b: tuple[float, ...] = (0.1, 1.0, 2.0)
    """Prior precisions of c and kappa whose MAPs are compared, 0.1 among them (1/logit^2)."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""


PRESETS = {
    "smoke": Settings(pools=8, judge=("llama", "coder"), n_contents=(8,)),
    "paper": Settings(pools=6, pools_other_sizes=3),
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for profile likelihoods, got {s.dtype}")
    declare.check_listed("judge", s.judge, list(judges.OPEN))
    declare.check_listed("pool", (s.pool,), ("gaussian", BANK))
    check_positive("sd", s.sd)
    for name in ("sd", "pair_noise"):
        if s.pool == BANK and getattr(s, name) != getattr(Settings, name):
            raise ValueError(f"{name} has no effect with --pool {BANK}: twins have their own")
    if not 0 <= s.pair_noise < float("inf"):
        raise ValueError(f"pair_noise must be finite and at least 0, got {s.pair_noise}")
    declare.check_increasing("lam", s.lam, least=TINY, needed=LAM)
    declare.check_increasing("lam_b", s.lam_b, least=TINY, needed=LAM_B)
    declare.check_increasing("n_contents", s.n_contents, least=2)
    if s.pools_other_sizes is not None and s.pools_other_sizes < 1:
        raise ValueError(f"pools_other_sizes must be at least 1, got {s.pools_other_sizes}")


def priors(s: Settings) -> list[tuple[float, float]]:
    """(lam, lam_b) of each MAP: the paper's first, then each list with the other at the paper's."""
    return [(LAM, LAM_B), *((lam, LAM_B) for lam in s.lam), *((LAM, b) for b in s.lam_b)]


def drawn(s: Settings, key: Key[Array, ""], n_contents: int) -> Pool:
    """A pool of contents, all rendered twice."""
    if s.pool != BANK:
        return pools.paired(key, n_contents, sd=s.sd)
    return pools.in_both_forms(pools.statement_bank(key, n_contents, max(1, n_contents // 6)))


def conditions(s: Settings) -> dict[str, np.ndarray]:
    """The judges."""
    if s.pool == BANK:
        oracle = {"draw": "draws"}.get(s.oracle, s.oracle)
        of_twins = twins.conditions([twins.twin(name, oracle=oracle) for name in s.judge])
        return of_twins | {"interaction": np.full(len(s.judge), s.interaction)}
    of_judges = judges.conditions([s.growing(judges.OPEN[name]) for name in s.judge])
    return of_judges | {"pair_noise": np.full(len(s.judge), s.pair_noise)}


def full_matrix(s: Settings, n_contents: int) -> Experiment:
    """Experiment: every ordered pair of 2 M items judged once, the same verdicts analysed twice."""

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = drawn(s, stream(key, "pool"), n_contents)
        judge = judges.of_condition(condition)
        draw = stream(key, "verdicts")
        if s.oracle == "argmax":
            noise = condition["pair_noise"]
            oracle = judges.frozen_argmax(draw, pool, judge, pair_noise=noise)
        else:
            oracle = judges.frozen_draw(draw, pool, judge)
        comparisons = judges.reveal(oracle, pairs.every_pair(pool))
        # Both designs with room for 2 M contents: one kernel, vectorised over them.
        owners = jnp.stack([jnp.arange(2 * n_contents), jnp.tile(jnp.arange(n_contents), 2)])

        def analysis(owner: Array) -> dict[str, Array]:
            covariates, mask = pool.design.covariates, pool.design.item_mask
            return evidence(comparisons, Design(covariates, owner, mask, 2 * n_contents), s)

        won = comparisons.wins.sum(1) + (comparisons.shown - comparisons.wins).sum(0)
        always = (won == 0) | (won == (comparisons.shown + comparisons.shown.T).sum(1))
        return {**jax.vmap(analysis)(owners), "extreme_item": always.any().astype(float)}

    return experiment


def evidence(comparisons: Comparisons, design: Design, s: Settings) -> dict[str, Array]:
    """Evidence about c in one analysis, and estimates of c under each prior."""

    def of_prior(prior: Array) -> tuple[Parameters, Array]:
        fit = estimators.bias_aware(comparisons, design, Prior(prior[0], prior[1]))
        return fit.parameters, fit.status

    parameters, status = jax.vmap(of_prior)(jnp.asarray(priors(s)))
    c = parameters.c[:, 0]
    mode = jax.tree.map(lambda v: v[0], parameters)
    estimate = identifiability.estimate_bias(comparisons, design)
    exists = estimate.status == Status.CONVERGED
    around_map = identifiability.grid_around(c[0])
    # The profile is concave: around its maximum, three of the nine points have the range of all.
    top = jnp.where(exists, estimate.c, c[0])
    around_mle = identifiability.grid_around(top, points=3)
    grid = jnp.concatenate([around_map, around_mle])
    profile = identifiability.profile(comparisons, design, grid)
    held = identifiability.likelihood_slice(comparisons, design, mode, around_map)
    phi = design.of_items(mode.theta) + design.covariates[:, 0] * c[0]
    at_map = jax.tree.map(lambda v: v[: len(around_map)], profile)
    at_mle = jax.tree.map(lambda v: v[len(around_map) :], profile).range()
    return {
        "c_map": c,
        "profile_range": at_map.range(),
        "profile_range_mle_centred": jnp.asarray(jnp.where(exists, at_mle, jnp.nan)),
        "profile_drop": drop(at_map.log_likelihood),
        "slice_drop": drop(held),
        "c_uncentred": uncentred(phi - phi.mean(), design),
        "c_uncentred_first": uncentred(phi - phi[0], design),
        "curvature": estimate.curvature,
        "c_mle": estimate.c,
        "mle": estimate.status,
        "c_interval_width": estimate.high - estimate.low,
        "c_interval_width_wald": estimate.wald_high - estimate.wald_low,
        "rank": identifiability.rank(design, comparisons.shown),
        "n_columns": jnp.asarray(design.content_mask().sum() + design.n_covariates + 1),
        "status_map": status.max(),
        "status_profile": profile.status.max(),
    }


def drop(log_likelihood: Array) -> Array:
    """Mean loss when c moves from the middle of the grid by 0.5 up or down."""
    middle = len(log_likelihood) // 2
    low, high = log_likelihood[middle - SHIFT], log_likelihood[middle + SHIFT]
    return log_likelihood[middle] - (low + high) / 2


def uncentred(phi: Array, design: Design) -> Array:
    return theory.map_bias(phi, design.covariates, LAM, LAM_B, centred=False)[0]


MEANS = (
    "profile_range_mle_centred",
    "profile_drop",
    "slice_drop",
    "curvature",
    "c_mle",
    "c_interval_width",
    "c_interval_width_wald",
    "rank",
    "n_columns",
)
"""Metrics of each design whose means the table has."""
WHAT_C_COSTS = (
    *MEANS,
    "profile_range",
    "c_uncentred",
    "c_uncentred_first",
    "mle",
    "status_map",
    "status_profile",
)
"""All metrics of each design but `c_map`."""


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    design = {"design": list(DESIGNS)}
    # Numbered, because the paper's prior occurs three times.
    prior = {"prior": [f"{i}: lam {a:g}, lam_b {b:g}" for i, (a, b) in enumerate(priors(s))]}
    n_others = s.pools if s.pools_other_sizes is None else s.pools_other_sizes
    return [
        declare.Group(
            f"size-{n}",
            full_matrix(s, n),
            conditions(s),
            {"judge": list(s.judge), "n_contents": [n] * len(s.judge)},
            2 * n,
            s.pools if n == BASE_SIZE else n_others,
            axes=dict.fromkeys(WHAT_C_COSTS, design) | {"c_map": design | prior},
            fits=60,
        )
        for n in s.n_contents
    ]


# --- from the saved results


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    for n in s.n_contents:
        part = ds.isel(condition=np.flatnonzero(ds["n_contents"].values == n))
        simulated = (part["status_map"].values >= 0).all((0, 1))  # not every size has all pools
        part = part.isel(pool=np.flatnonzero(simulated)).drop_vars("n_contents")
        size_rows(part, n, s, t)


def size_rows(part: xr.Dataset, n: int, s: Settings, t: Table) -> None:
    """Add rows of one size: each judge, and the mean over judges with the pool as the unit (the
    judges see the same pools)."""
    size = {"n_contents": n, "n_twice": n, "comparisons": "all", "budget": 2 * n * (2 * n - 1)}
    size |= {"protocol": "frozen", "rho": 0.0}

    def add(name: str, values: xr.DataArray, **prior: float) -> None:
        t.means(name, values, **size, **prior)
        if len(s.judge) > 1:
            t.means(name, values.mean("condition", skipna=False), judge="all", **size, **prior)

    ranges = part["profile_range"]
    add("profile_range", ranges, lam=LAM, lam_b=LAM_B)
    for design in DESIGNS:
        largest = ranges.sel(design=design).values.max()
        where = {"judge": "all", "design": design, "lam": LAM, "lam_b": LAM_B, **size}
        t.add("profile_range_max", largest, n_pools=part.sizes["pool"], **where)
    for name in MEANS:
        add(name, part[name])
    add("nullity", part["n_columns"] - part["rank"])
    exists = (part["mle"] == Status.CONVERGED).astype(float)
    t.shares("mle_exists", exists, **size)
    if len(s.judge) > 1:
        t.means("mle_exists", exists.mean("condition"), judge="all", **size)

    c = part["c_map"]
    c_hat = c.isel(prior=0, drop=True)
    ratio, first = (
        (part[name] / c_hat).sel(design=["unpaired"])  # the design of Eq. 3
        for name in ("c_uncentred", "c_uncentred_first")
    )
    t.means("c_uncentred_ratio", ratio, lam=LAM, lam_b=LAM_B, **size)
    beyond = ((first < 1 / FACTOR) | (first > FACTOR)).astype(float)
    t.shares("c_uncentred_beyond_5", beyond, lam=LAM, lam_b=LAM_B, **size)
    only = {"design": ["paired"]}  # only there a prior-free estimate exists
    for i, lam in enumerate(s.lam, start=1):
        prior = {"lam": lam, "lam_b": LAM_B}
        at = c.isel(prior=i, drop=True)
        add("c_map", at, **prior)
        away = (at - part["c_mle"]).sel(only)
        add("c_map_minus_mle", away, **prior)
        add("c_map_minus_mle_absolute", abs(away), **prior)
    over = {"lam": slice(1, 1 + len(s.lam)), "lam_b": slice(1 + len(s.lam), None)}
    moved = {name: c.isel(prior=at).reduce(np.ptp, "prior") for name, at in over.items()}
    add("c_sensitivity_lam_b", moved["lam_b"], lam=LAM)
    add("c_sensitivity_lam", moved["lam"], lam_b=LAM_B)
    for name, sensitivity in moved.items():
        # How many times less the paired estimate depends on the prior.
        unpaired, paired = sensitivity.mean("condition").transpose("design", "pool").values
        t.ratio(f"c_sensitivity_{name}_ratio", unpaired, paired, judge="all", **size)
    t.shares("pools_with_an_extreme_item", part["extreme_item"], **size)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: those beside the paper's numbers, and those over all judges."""
    everyone = table.quantity.str.match(
        "profile_range(_max)?$|rank$|n_columns$|c_map_minus_mle_absolute$|c_sensitivity"
    ) & (table.judge == "all")
    return table[everyone | table.paper.notna()]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (left, right) = plots.new_figure(2, height=4.0)
    draw_ranges(left, table, s)
    draw_shrinkage(right, table, s)
    return fig


def draw_ranges(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw evidence about c against the size of the pool."""
    paired = table[table.design == "paired"]
    rows = paired[paired.quantity == "profile_range"]
    around_mle = paired[paired.quantity == "profile_range_mle_centred"]
    lines = [
        *((rows, name, f"{name}, paired", plots.CYCLE[i], "--") for i, name in enumerate(s.judge)),
        (rows, "all", "mean of the judges, paired", "black", "-"),
        (around_mle, "all", "the same around the MLE", "black", ":"),
    ]
    for of_quantity, judge, label, colour, line in lines:
        line_rows = of_quantity[of_quantity.judge == judge].drop_duplicates("n_contents")
        if len(line_rows):
            plots.line(ax, line_rows, "n_contents", colour=colour, label=label, ls=line, marker=".")
    paper = rows[rows.paper.notna()]
    ax.plot(paper.n_contents, paper.paper, "x", color="black", label="paper, paired")
    flat = table[(table.quantity == "profile_range_max") & (table.design == "unpaired")]
    sign = "largest of all pools, unpaired"
    ax.plot(flat.n_contents, flat.estimate, "o", color=plots.COLOURS["vermilion"], label=sign)
    ax.set_yscale("log")
    ax.set_xlabel("contents, each rendered twice")
    ax.set_ylabel("range of the profile log-likelihood of c\nover its estimate $\\pm$ 1 (nats)")
    ax.set_title("Evidence about c: the design, not the amount")
    ax.legend(fontsize=7)
    return ax


def draw_shrinkage(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draws MAP minus MLE of c against the prior on quality, at the largest size."""
    rows = table[(table.quantity == "c_map_minus_mle") & (table.n_contents == max(s.n_contents))]
    ax.axhline(0, color="black", linewidth=0.8)
    for judge, colour in zip(s.judge, plots.CYCLE, strict=False):
        line_rows = rows[rows.judge == judge]
        plots.line(ax, line_rows, "lam", colour=colour, label=judge, marker="o")
    ax.set_xscale("log")
    plots.ticks(ax, x=s.lam)
    ax.set_xlabel(r"prior precision of quality, $\lambda$ (1/logit$^2$)")
    ax.set_ylabel("MAP minus MLE of c (logits)")
    ax.set_title(f"What the prior still does, paired, {max(s.n_contents)} contents")
    plots.label_ends(ax)
    return ax


SWEEP = declare.legacy(
    "paired",
    "What two renderings of every content identify of the bias, and what the prior still does.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "profile_range_mle_centred": "nats, over c_mle +- 1",
        "profile_drop": "nats, c_map moved by 0.5 and the rest maximised again",
        "slice_drop": "nats, c_map moved by 0.5 and the rest held",
        "c_uncentred": "logits, Eq. 3 without centring where apparent quality has mean 0",
        "c_uncentred_first": "logits, the same where the first item's is 0",
        "extreme_item": "1 if an item always wins or always loses",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
