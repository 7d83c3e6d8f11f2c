"""What the prior decides: c_hat, recall and benefit over fixed, learned and heavy-tailed priors.

The paper's appendix "Shrinkage strength" and its unbiased control, for two designs with the same
qualities and as many verdicts: each content shown once, half of them with x = 1 (unpaired), or each
content shown with x = 0 and with x = 1 (paired). No prior can resolve a direction along which the
likelihood is flat: the spread of c_hat over priors is shown beside the range of the profile.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability
from jbt.estimators.priors import LearnedPrior, evidence, fixed_point, horseshoe
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, Design, Pool, Prior, check_positive

from ._shared.scenario import VaryingBias

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

DESIGNS: tuple[Literal["unpaired", "paired"], ...] = ("unpaired", "paired")
LEARNED: tuple[str, ...] = ("fixed_point", "fixed_point_c", "evidence", "horseshoe")
"""fixed_point learns one tau^2 for c and kappa, fixed_point_c one for c alone."""
LAM, LAM_B = 1.0, 0.1
"""The paper's prior."""
TINY = 1e-6
"""Smallest precision allowed (1/logit^2)."""
STUDY = 10
"""Most pools in the paper's studies of one judge (count)."""
HORSESHOE = 1.0
"""Precision of the horseshoe's global scale (1/logit^2)."""


@dataclass(frozen=True, kw_only=True)
class Settings(VaryingBias, declare.Sweep):
    pools: int = 200
    dtype: str = "float64"
    """Precision; the profile likelihood needs float64."""
    design: tuple[Literal["unpaired", "paired"], ...] = DESIGNS
    """Each content shown once, or with x = 0 and with x = 1."""
    judge: tuple[str, ...] = tuple(judges.JUDGES)
    """Judges: the paper's open ones, its unbiased control, and one that prefers the first shown."""
    lam: tuple[float, ...] = (0.2, 1.0, 5.0)
    """Prior precisions of quality, 1 among them (1/logit^2)."""
    lam_b: tuple[float, ...] = (0.01, 0.1, 1.0, 2.0, 10.0)
    """Prior precisions of c and kappa, 0.1 among them (1/logit^2)."""
    sd: float = 1.25
    """Standard deviation of quality (logits)."""
    n_contents: int = 30
    """Contents of a pool (count)."""
    k: int = 5
    """Size of the top set (count)."""
    budget: int = 870
    """Verdicts in either design (count): every ordered pair of 30 items once, or that many of the
    3,540 ordered pairs of 60 renderings."""


PRESETS = {
    "smoke": Settings(
        pools=8, n_contents=8, k=2, budget=56, judge=("llama", "unbiased"), design=("paired",)
    ),
    "paper": Settings(pools=10),
    "full": Settings(),
}


def priors(s: Settings) -> list[tuple[str, float, float | None]]:
    """(prior, lam, lam_b) of each fit, in the order of the axis `prior`."""
    out: list[tuple[str, float, float | None]] = []
    out += [("normal", lam, lam_b) for lam, lam_b in itertools.product(s.lam, s.lam_b)]
    for name, lam in itertools.product(LEARNED, s.lam):
        out.append((name, lam, HORSESHOE if name == "horseshoe" else None))
    return out


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for profile likelihoods, got {s.dtype}")
    declare.check_listed("judge", s.judge, list(judges.JUDGES))
    declare.check_listed("design", s.design, DESIGNS)
    check_positive("sd", s.sd)
    declare.check_increasing("lam", s.lam, least=TINY, needed=LAM)
    declare.check_increasing("lam_b", s.lam_b, least=TINY, needed=LAM_B)
    if s.n_contents < 2:
        raise ValueError(f"n_contents must be at least 2, got {s.n_contents}")
    declare.check_top(s.k, s.n_contents)
    most = s.n_contents * (s.n_contents - 1)
    if not 1 <= s.budget <= most:
        raise ValueError(f"budget must lie in 1..{most}, the unpaired pairs, got {s.budget}")


def pool_of(s: Settings, key: Key[Array, ""], design: str) -> Pool:
    """Draw a pool, of the same qualities in either design."""
    if design == "paired":
        return pools.paired(key, s.n_contents, sd=s.sd)
    return pools.gaussian(key, s.n_contents, sd=s.sd, rho=0.0, covariate="binary")


def experiment(s: Settings, design: str) -> Experiment:
    """Experiment: one judge's verdicts in one design, fitted under every prior."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pool_of(s, stream(key, "pool"), design)
        judge = judges.of_condition(condition)
        every = pairs.every_pair(pool)
        shown = pairs.spread_evenly(stream(key, "comparisons"), every, s.budget)
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        comparisons = judges.reveal(oracle, shown)
        lam, lam_b, learning = every_prior(s, comparisons, pool.design)

        def under(lam: Array, lam_b: Array) -> tuple[Array, Array, Array]:
            fit = estimators.bias_aware(comparisons, pool.design, Prior(lam, lam_b))
            recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, s.k)
            return fit.parameters.c[0], recall, fit.status

        c, recall, status = jax.vmap(under)(lam, lam_b)
        grid = identifiability.grid_around(c[priors(s).index(("normal", LAM, LAM_B))])
        profile = identifiability.profile(comparisons, pool.design, grid)
        naive = estimators.naive(comparisons, pool.design, Prior(LAM, LAM_B))
        return {
            "c_hat": c,
            "tau2": 1 / lam_b[:, 0],
            "recall": recall,
            "naive_recall": metrics.top_k_recall(naive.parameters.theta, pool.quality, s.k),
            "profile_range": profile.range(),
            "status_map": jnp.maximum(status.max(), naive.status),
            "status_profile": profile.status.max(),
            **learning,
        }

    return one


def every_prior(
    s: Settings, comparisons: Comparisons, design: Design
) -> tuple[Array, Array, dict[str, Array]]:
    """lam [priors], lam_b [priors, D + 1] in the order of `priors`, and the statuses of
    learning."""
    normal = [(a, b) for name, a, b in priors(s) if name == "normal"]
    lam = [jnp.asarray([a for a, _ in normal])]
    lam_b = [jnp.repeat(jnp.asarray([b for _, b in normal])[:, None], 2, 1)]
    status = {}

    def learned(a: Array) -> dict[str, LearnedPrior]:
        def hierarchical(position: Array) -> LearnedPrior:
            return fixed_point(comparisons, design, Prior(a, LAM_B), position=position)

        # Vectorised, as a loop for each would take seconds to compile.
        fits = jax.vmap(hierarchical)(jnp.array([True, False]))
        shared, of_c = (jax.tree.map(lambda v, i=i: v[i], fits) for i in (0, 1))
        # Started at the fixed point, near the optimum of the evidence.
        near = Prior(a, jnp.asarray(shared.prior.lam_b)[0])
        return {
            "fixed_point": shared,
            "fixed_point_c": of_c,
            "evidence": evidence(comparisons, design, near, step=0.2, rounds=30),
            "horseshoe": horseshoe(comparisons, design, Prior(a, HORSESHOE)),
        }

    learned_priors = jax.vmap(learned)(jnp.asarray(s.lam))
    for name in LEARNED:
        lam.append(jnp.asarray(s.lam))
        lam_b.append(jnp.asarray(learned_priors[name].prior.lam_b))
        status[f"status_{name}"] = learned_priors[name].status.max()
    return jnp.concatenate(lam), jnp.concatenate(lam_b), status


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    conditions = judges.conditions([s.growing(judges.JUDGES[name]) for name in s.judge])
    axis = {
        "prior": [
            f"{name}, lam {a:g}" + ("" if b is None else f", lam_b {b:g}")
            for name, a, b in priors(s)
        ]
    }
    return [
        declare.Group(
            design,
            experiment(s, design),
            conditions,
            {"judge": list(s.judge), "design": [design] * len(s.judge)},
            s.n_contents * (1 + (design == "paired")),
            s.pools,
            axes=dict.fromkeys(("c_hat", "tau2", "recall"), axis),
            fits=300,
        )
        for design in s.design
    ]


def cases(s: Settings) -> list[tuple[str, str]]:
    """(judge, design) in the order of the conditions."""
    return [(judge, design) for design in s.design for judge in s.judge]


# --- from the saved results


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    name, lam, lam_b = zip(*priors(s), strict=True)
    along = {"prior": name, "lam": lam, "lam_b": np.array(lam_b, float)}
    ds = ds.assign_coords({column: ("prior", list(v)) for column, v in along.items()})
    c, benefit = ds["c_hat"], ds["recall"] - ds["naive_recall"]
    t.means("recall", ds["naive_recall"], prior="naive", lam=LAM)
    t.means("c_hat", c)
    t.means("recall", ds["recall"])
    t.means("benefit", benefit)
    fixed = priors(s).index(("normal", LAM, LAM_B))
    varied = (np.array(lam) == LAM) & (np.arange(len(lam)) != fixed)
    change = benefit.isel(prior=varied) - benefit.isel(prior=fixed, drop=True)
    t.means("benefit_change", change, STUDY)
    kind = ds["prior"].values
    learned = ds["tau2"].isel(prior=np.isin(kind, ("fixed_point", "fixed_point_c", "evidence")))
    t.means("log_tau2", learned.copy(data=np.log(learned.values)))
    t.means("profile_range", ds["profile_range"], prior="normal", lam=LAM, lam_b=LAM_B)
    for prior in ("normal", *LEARNED):
        t.means("c_spread", c.isel(prior=kind == prior).reduce(np.ptp, "prior"), prior=prior)
    t.means("c_spread", c.reduce(np.ptp, "prior"), prior="all")


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: those beside the paper's numbers, ranges, spreads, learned priors at lam =
    1."""
    everywhere = table.quantity.isin(["profile_range", "c_spread"])
    learned = table.prior.isin(["naive", *LEARNED]) & (table.lam == LAM)
    return table[table.paper.notna() | everywhere | learned]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.new_figure(3, width=5.2)
    draw_against_prior(axes[0], table, s, "c_hat", r"mean $\hat c$ (logits)")
    draw_against_prior(axes[1], table, s, "benefit", f"top-{s.k} recall, bias-aware minus naive")
    axes[1].axhline(0, color="black", linewidth=0.8)
    draw_spread(axes[2], ds, s)
    entries = axes[0].get_legend_handles_labels()
    fig.legend(*entries, loc="outside lower center", ncols=6, fontsize=8)
    return fig


def draw_against_prior(ax: Axes, table: pd.DataFrame, s: Settings, name: str, label: str) -> Axes:
    """Draw a quantity against lam_b at lam = 1, with learned priors at the right."""
    rows = table[(table.quantity == name) & (table.lam == LAM)]
    ends = {prior: max(s.lam_b) * 4 ** (i + 1) for i, prior in enumerate(LEARNED)}
    for judge, colour in zip(s.judge, plots.CYCLE, strict=False):
        for design, line in (("unpaired", "-"), ("paired", "--")):
            judge_rows = rows[(rows.judge == judge) & (rows.design == design)]
            if judge_rows.empty:
                continue
            normal = judge_rows[judge_rows.prior == "normal"]
            name_of_line = f"{judge}, {design}"
            plots.line(ax, normal, "lam_b", colour=colour, label=name_of_line, ls=line)
            learned = judge_rows[judge_rows.prior.isin(list(ends))]
            fmt, face = ("s", "white") if design == "paired" else ("o", colour)
            at = [ends[prior] for prior in learned.prior]
            plots.points(ax, learned, at, colour=colour, label="", capsize=0, fmt=fmt, mfc=face)
    ax.set_xscale("log")
    ticks = {**{v: f"{v:g}" for v in s.lam_b}, **{at: prior for prior, at in ends.items()}}
    ax.set_xticks(list(ticks), list(ticks.values()), rotation=60, fontsize=7)
    ax.minorticks_off()
    ax.set_xlabel(
        r"prior precision of c and kappa, $\lambda_b$ (1/logit$^2$), or how it is learned"
    )
    ax.set_ylabel(label)
    ax.set_title(rf"$\lambda$ = {LAM:g}")
    return ax


def draw_spread(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    """Draw the spread of c_hat over priors against the comparisons' evidence, a point a pool."""
    for i, (judge, design) in enumerate(cases(s)):
        colour = plots.CYCLE[s.judge.index(judge) % len(plots.CYCLE)]
        ax.plot(
            np.maximum(ds["profile_range"].values[i], 1e-15),
            np.ptp(ds["c_hat"].values[i], axis=0),
            "." if design == "unpaired" else "+",
            color=colour,
            markersize=3,
            alpha=0.5,
            rasterized=True,
        )
    ax.set_xscale("log")
    ax.set_xlabel("range of the profile log-likelihood of c\nover its MAP $\\pm$ 1 (nats)")
    ax.set_ylabel(r"spread of $\hat c$ over all priors (logits)")
    ax.set_title(
        "No prior finds what the likelihood does not hold\n(dots: unpaired, crosses: paired)"
    )
    return ax


SWEEP = declare.legacy(
    "prior_sensitivity",
    "What the prior decides: c_hat, recall and benefit over fixed, learned and horseshoe priors.",
    PRESETS,
    groups,
    ("judge", "design", "prior", "lam", "lam_b"),
    table,
    figure,
    units={
        "c_hat": "logits for x = 1 over x = 0",
        "tau2": "prior variance of c, logits^2",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
