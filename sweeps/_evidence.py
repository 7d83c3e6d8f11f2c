"""Parts (a) and (b) of `sweeps.paired`: the same verdicts on contents rendered twice, analysed with
a quality for each rendering (unpaired) and for each content (paired)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability, judges, pairs, pools, stats, study
from jbt.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, Design, Prior, Status

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from sweeps.paired import Settings

DESIGNS = ("unpaired", "paired")
BASE_SIZE = 15
"""Contents of the paper's main paired study, which has more pools than its other sizes."""
LAM, LAM_B = 1.0, 0.1
"""The paper's prior."""


def priors(s: Settings) -> list[tuple[float, float]]:
    """(lam, lam_b) of each MAP: the paper's first, then each list with the other at the paper's."""
    return [(LAM, LAM_B), *((lam, LAM_B) for lam in s.lam), *((LAM, b) for b in s.lam_b)]


def full_matrix(s: Settings, n_contents: int) -> Experiment:
    """Experiment: every ordered pair of 2 M items judged once, the same verdicts analysed twice."""

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pools.paired(stream(key, "pool"), n_contents, sd=s.sd)
        judge = judges.of_condition(condition)
        draw = stream(key, "verdicts")
        if s.oracle == "argmax":
            oracle = judges.frozen_argmax(draw, pool, judge, pair_noise=s.pair_noise)
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
    """What one analysis says about c, and what the prior makes of it."""

    def c_map(prior: Array) -> tuple[Array, Array]:
        fit = estimators.bias_aware(comparisons, design, Prior(prior[0], prior[1]))
        return fit.parameters.c[0], fit.status

    c, status = jax.vmap(c_map)(jnp.asarray(priors(s)))
    estimate = identifiability.estimate_bias(comparisons, design)
    exists = estimate.status == Status.CONVERGED
    around_map = identifiability.grid_around(c[0])
    # The profile is concave: around its top three of the nine points have the range of all.
    top = jnp.where(exists, estimate.c, c[0])
    around_mle = identifiability.grid_around(top, points=3)
    grid = jnp.concatenate([around_map, around_mle])
    profile = identifiability.profile(comparisons, design, grid)
    at_map = jax.tree.map(lambda v: v[: len(around_map)], profile).range()
    at_mle = jax.tree.map(lambda v: v[len(around_map) :], profile).range()
    return {
        "c_map": c,
        "profile_range": at_map,
        "profile_range_mle_centred": jnp.asarray(jnp.where(exists, at_mle, jnp.nan)),
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


def size_group(s: Settings, n_contents: int) -> study.Group:
    n = len(s.judge)
    design = {"design": list(DESIGNS)}
    # Numbered, as the paper's prior is there three times.
    prior = {"prior": [f"{i}: lam {a:g}, lam_b {b:g}" for i, (a, b) in enumerate(priors(s))]}
    metrics = (
        "profile_range",
        "profile_range_mle_centred",
        "curvature",
        "c_mle",
        "mle",
        "c_interval_width",
        "c_interval_width_wald",
        "rank",
        "n_columns",
        "status_map",
        "status_profile",
    )
    others = s.pools if s.pools_other_sizes is None else s.pools_other_sizes
    return study.Group(
        f"size-{n_contents}",
        full_matrix(s, n_contents),
        judges.conditions([judges.OPEN[name] for name in s.judge]),
        {
            "part": ["size"] * n,
            "judge": list(s.judge),
            "n_contents": [n_contents] * n,
            "n_twice": [n_contents] * n,
            "comparisons": ["all"] * n,
            "budget": [2 * n_contents * (2 * n_contents - 1)] * n,
            "rho": [0.0] * n,
        },
        2 * n_contents,
        s.pools if n_contents == BASE_SIZE else others,
        axes=dict.fromkeys(metrics, design) | {"c_map": design | prior},
        fits=60,
    )


def groups(s: Settings) -> list[study.Group]:
    return [size_group(s, n) for n in s.n_contents]


# --- from the saved results


PAPER_RANGE = {8: 10.8, 15: 30.8, 25: 75.3, 40: 172.7}
PAPER_DEVIATION = {0.2: 0.092, 1.0: 0.30, 5.0: 0.66}
PAPER_CODER = {0.2: -1.234, 5.0: -1.211}
PAPER_SENSITIVITY = {"unpaired": 0.402, "paired": 0.124}
PAPER_RATIO = {"lam_b": 3.2, "lam": 1.5}
PAPER_RANKS = {
    ("rank", "paired"): 16,
    ("n_columns", "paired"): 17,
    ("rank", "unpaired"): 30,
    ("n_columns", "unpaired"): 32,
}
PAPER_SIZE = 40
"""Contents at which the paper compares MAP and MLE."""


def same_grids(s: Settings) -> bool:
    """Whether sensitivities are over the grids that stand in for the paper's, which it does not
    state."""
    return (s.lam, s.lam_b) == (type(s).lam, type(s).lam_b)


def as_in_the_paper(s: Settings) -> bool:
    """Whether the judges and pools are those the paper's numbers are set beside, however they
    answer: the paper's are open-weight judges at temperature 0."""
    return set(s.judge) == set(judges.OPEN) and s.sd == type(s).sd


def rows(ds: xr.Dataset, s: Settings) -> list[list[Any]]:
    """Rows of every size."""
    out = []
    for n in s.n_contents:
        at = (ds["part"].values == "size") & (ds["n_contents"].values == n)
        part = ds.isel(condition=np.flatnonzero(at))
        simulated = (part["status_map"].values >= 0).all((0, 2))  # not every size has all pools
        out += size_rows(part.isel(pool=np.flatnonzero(simulated)), n, s)
    return out


def size_rows(part: xr.Dataset, n: int, s: Settings) -> list[list[Any]]:
    """Rows of one size: each judge, and the mean over judges with the pool as the unit (the judges
    see the same pools)."""
    values = {str(name): part[name].values.astype(float) for name in part.data_vars}
    exists = values["mle"] == Status.CONVERGED
    c = values["c_map"]  # [judge, pool, design, prior]
    at_lam, at_lam_b = slice(1, 1 + len(s.lam)), slice(1 + len(s.lam), None)
    difference = c - values["c_mle"][..., None]

    def sensitivity(at: slice) -> np.ndarray:
        return np.ptp(c[..., at], axis=-1)

    budget = 2 * n * (2 * n - 1)
    rows: list[list[Any]] = []

    def add(design: str, lam: Any, lam_b: Any, name: str, judged: np.ndarray, paper: Any = None):
        """One row a judge [J, P] and one for their mean; `paper`: judge -> its number."""
        setting = (design, n, n, lam, lam_b, "all", budget, "frozen", 0.0, None)
        several = len(s.judge) > 1
        with np.errstate(invalid="ignore"):
            pooled = judged.mean(0, keepdims=True)
        names = (*s.judge, *["all"] * several)
        for judge, v in zip(names, [*judged, *pooled], strict=False):
            known = int(np.isfinite(v).sum())
            interval = stats.mean_interval(v, seed=s.seed) if known else (np.nan,) * 3
            beside = (paper or {}).get(judge) if as_in_the_paper(s) else None
            rows.append([judge, *setting, name, *interval, known, beside])

    for d, design in enumerate(DESIGNS):
        paired = design == "paired"
        paper_range = PAPER_RANGE.get(n) if paired else 0.0 if n in PAPER_RANGE else None
        add(
            design,
            LAM,
            LAM_B,
            "profile_range",
            values["profile_range"][..., d],
            {"all": paper_range},
        )
        largest = values["profile_range"][..., d].max()
        rows.append(
            [
                "all",
                design,
                n,
                n,
                LAM,
                LAM_B,
                "all",
                budget,
                "frozen",
                0.0,
                None,
                "profile_range_max",
                largest,
                None,
                None,
                part.sizes["pool"],
            ]
        )
        for name in (
            "profile_range_mle_centred",
            "curvature",
            "c_mle",
            "c_interval_width",
            "c_interval_width_wald",
            "rank",
            "n_columns",
        ):
            paper = PAPER_RANKS.get((name, design)) if n == BASE_SIZE else None
            add(design, None, None, name, values[name][..., d], {"all": paper})
        nullity = values["n_columns"] - values["rank"]
        paper = 2 - paired if n == BASE_SIZE else None
        add(design, None, None, "nullity", nullity[..., d], {"all": paper})
        add(design, None, None, "mle_exists", exists[..., d].astype(float))
        for i, lam in enumerate(s.lam):
            coder = PAPER_CODER.get(lam) if paired and n == PAPER_SIZE else None
            add(design, lam, LAM_B, "c_map", c[..., d, 1 + i], {"coder": coder})
            if paired:
                away = difference[..., d, 1 + i]
                add(design, lam, LAM_B, "c_map_minus_mle", away)
                paper = PAPER_DEVIATION.get(lam) if n == PAPER_SIZE else None
                add(design, lam, LAM_B, "c_map_minus_mle_absolute", np.abs(away), {"all": paper})
        add(
            design,
            LAM,
            None,
            "c_sensitivity_lam_b",
            sensitivity(at_lam_b)[..., d],
            {"all": PAPER_SENSITIVITY[design]} if n == BASE_SIZE and same_grids(s) else None,
        )
        add(design, None, LAM_B, "c_sensitivity_lam", sensitivity(at_lam)[..., d])
    for name, at in (("lam", at_lam), ("lam_b", at_lam_b)):
        rows += ratio_rows(sensitivity(at), n, budget, name, s)
    extreme = values["extreme_item"]
    setting = (
        None,
        n,
        n,
        None,
        None,
        "all",
        budget,
        "frozen",
        0.0,
        None,
        "pools_with_an_extreme_item",
    )
    for judge, v in zip(s.judge, extreme, strict=True):
        rows.append([judge, *setting, *stats.mean_interval(v, seed=s.seed), len(v)])
    return rows


def ratio_rows(
    sensitivity: np.ndarray, n: int, budget: int, name: str, s: Settings
) -> list[list[Any]]:
    """How many times less the paired estimate moves with the prior: mean over pools and judges of
    one design over that of the other."""
    means = stats.bootstrap_means(np.moveaxis(sensitivity.mean(0), -1, 0), seed=s.seed)
    ratios = means[:, 0] / means[:, 1]
    estimate = sensitivity[..., 0].mean() / sensitivity[..., 1].mean()
    at = {"lam_b": BASE_SIZE, "lam": PAPER_SIZE}[name]
    paper = PAPER_RATIO[name] if n == at and as_in_the_paper(s) and same_grids(s) else None
    setting = ("all", None, n, n, None, None, "all", budget, "frozen", 0.0, None)
    quantity = f"c_sensitivity_{name}_ratio"
    return [[*setting, quantity, estimate, *stats.percentiles(ratios), sensitivity.shape[1], paper]]


def draw_ranges(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Evidence about c against the size of the pool."""
    from jbt import plots

    rows = table[(table.quantity == "profile_range") & (table.design == "paired")]
    for judge, colour in zip(
        (*s.judge, "all"), [*plots.CYCLE, plots.COLOURS["black"]], strict=False
    ):
        mine = rows[rows.judge == judge]
        if len(mine):
            colour = plots.COLOURS["black"] if judge == "all" else colour
            label = "mean of the judges, paired" if judge == "all" else f"{judge}, paired"
            plots.band(
                ax,
                mine.n_contents,
                mine.estimate,
                mine.ci_low,
                mine.ci_high,
                colour=colour,
                label=label,
                linestyle="-" if judge == "all" else "--",
                marker=".",
            )
    paper = rows[rows.paper.notna()]
    ax.plot(paper.n_contents, paper.paper, "x", color="black", label="paper, paired")
    flat = table[(table.quantity == "profile_range_max") & (table.design == "unpaired")]
    sign = "largest of all pools, unpaired"
    ax.plot(flat.n_contents, flat.estimate, "o", color=plots.COLOURS["vermilion"], label=sign)
    ax.set_yscale("log")
    ax.set_xlabel("contents, each rendered twice")
    ax.set_ylabel("range of the profile log-likelihood of c\nover its MAP $\\pm$ 1 (nats)")
    ax.set_title("Evidence about c: the design, not the amount")
    ax.legend(fontsize=7)
    return ax


def draw_shrinkage(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Distance of the MAP from the MLE against the prior on quality, at the largest size."""
    from jbt import plots

    rows = table[(table.quantity == "c_map_minus_mle") & (table.n_contents == max(s.n_contents))]
    ax.axhline(0, color="black", linewidth=0.8)
    for judge, colour in zip(s.judge, plots.CYCLE, strict=False):
        mine = rows[rows.judge == judge]
        plots.band(
            ax,
            mine.lam,
            mine.estimate,
            mine.ci_low,
            mine.ci_high,
            colour=colour,
            label=judge,
            marker="o",
        )
    ax.set_xscale("log")
    ax.set_xticks(s.lam, [f"{lam:g}" for lam in s.lam])
    ax.minorticks_off()
    ax.set_xlabel(r"prior precision of quality, $\lambda$ (1/logit$^2$)")
    ax.set_ylabel("MAP minus MLE of c (logits)")
    ax.set_title(f"What the prior still does, paired, {max(s.n_contents)} contents")
    ax.legend(fontsize=7)
    return ax
