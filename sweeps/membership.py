"""Is the top-k membership calibrated, and how many draws does it take?

The paper estimates p_i = P(item i is in the top k) by sampling a Laplace posterior, and says that
S = 1500 draws are ample and that the approximation is well suited here. Two errors are measured.
The error of the draws is against very many draws, with its cost for the next pair asked. The error
of the posterior is against the truth: are three tenths of the items with membership 0.3 in the top
k? An exact posterior is calibrated where the truth is drawn from its prior, so any deviation there
is due to the Laplace approximation; elsewhere the prior adds to it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import estimators, stats
from jbt.acquisition import rules
from jbt.acquisition.views import View
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import model
from jbt.kernel.laplace import laplace
from jbt.kernel.membership import DRAWS, antithetic_normals, counted, membership, sobol_normals
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Judge

from ._shared.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

TRUTHS = {
    "prior": "quality and judge drawn from the prior",
    "biased": "c* = {bias:g}, independent quality",
    "correlated": "c* = {bias:g}, correlation {rho:g} with quality",
    "growing": "c* = {bias:g}, growing by {interaction:g} a logit of quality",
}
"""Origin of quality and biases in the pools, as figures name it."""
REFERENCE = 2**13
"""Draws that errors are measured against, from another table of normals (count)."""
EDGES = np.linspace(0, 1, 11)
"""Edges of the bins of membership."""
FEWEST = 10
"""Fewest pools with items in a bin for the bin to have a row (count)."""


@dataclass(frozen=True, kw_only=True)
class Settings(Scenario, declare.Sweep):
    truth: tuple[str, ...] = tuple(TRUTHS)
    """prior: quality, c* and kappa* drawn from the prior of the fit. biased: the default scenario.
    correlated: the same with a covariate correlated with quality. growing: the default scenario
    with a bias that grows with quality."""
    budget: tuple[int, ...] = (60, 120, 320, 870)
    """Verdicts on ordered pairs drawn without replacement, increasing (count)."""
    conditional: tuple[int, ...] = (16, 64, 256)
    """Numbers of draws S for conditional Monte Carlo, increasing; 64 is the loop's default
    (count)."""
    counted: tuple[int, ...] = (150, 500, 1500, 5000)
    """Numbers of draws S for counting, increasing; the paper counts 1500 (count)."""
    bias: float = 1.0
    """True bias c* where the judge is not drawn from the prior (logits per unit)."""
    sd: float = 1.2
    """Standard deviation of quality where it is not drawn from the prior (logits)."""
    rho: float = 0.6
    """Population correlation of quality and covariate for the truth `correlated`."""
    interaction: float = 0.5
    """Interaction gamma* of quality and covariate for the truth `growing` (logits per unit of
    each)."""


PRESETS = {
    "smoke": Settings(
        pools=32, truth=("biased",), budget=(60, 120), conditional=(64,), counted=(1500,)
    ),
    "paper": Settings(pools=10, conditional=(64,), counted=(1500,)),
    "full": Settings(pools=2048),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for invalid settings, before anything runs."""
    s.check_pools(least=2)
    declare.check_listed("truth", s.truth, list(TRUTHS))
    pools.check_rho(s.rho, "continuous")
    declare.check_increasing("budget", s.budget, least=1, most=s.n_items * (s.n_items - 1))
    for name, default in DRAWS.items():
        declare.check_increasing(name, getattr(s, name), least=2, needed=float(default))


def estimates(s: Settings) -> list[tuple[str, int]]:
    """(membership, n_samples) of every estimate."""
    return [("conditional", n) for n in s.conditional] + [("counted", n) for n in s.counted]


def experiment(s: Settings) -> Experiment:
    """Experiment: verdicts on random pairs, the bias-aware posterior, and its memberships."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = s.draw(key, condition, "continuous")
        drawn = jax.random.normal(stream(key, "judge"), (2,), pool.quality.dtype)
        bias, position = condition["bias_sd"] * drawn
        growth = condition["interaction"]
        judge = Judge((condition["bias"] + bias)[None], position, interaction=growth)
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        all_pairs = pairs.every_pair(pool)
        shown = pairs.spread_evenly(stream(key, "comparisons"), all_pairs, condition["budget"])
        comparisons, prior = judges.reveal(oracle, shown), s.prior
        fit = estimators.bias_aware(comparisons, pool.design, prior)
        design = pool.design.centred()
        variant = model.variant("bias_aware", design)
        posterior = laplace(fit.parameters, comparisons, design, prior, variant)

        # As in a run of the loop, pools share a table of normals and each rearranges it.
        n_parameters = len(posterior.root)
        shuffle_key, sign_key = jax.random.split(stream(key, "arrangement"))
        shuffle = jax.random.permutation(shuffle_key, n_parameters)
        signs = jax.random.rademacher(sign_key, (n_parameters, 1), posterior.root.dtype)

        def arrange(rows: Float[Array, "P M"]) -> Float[Array, "P M"]:
            return rows[shuffle] * signs

        def chances(name: str, n_samples: int, seed: int = 0) -> Float[Array, " M"]:
            table, estimate = {
                "conditional": (sobol_normals, membership),
                "counted": (antithetic_normals, counted),
            }[name]
            normals = table(n_samples, n_parameters, posterior.root.dtype, seed=seed)
            return estimate(posterior, s.k, pool.design.content_mask(), normals, arrange)

        exact = chances("conditional", REFERENCE, seed=1)
        p = jnp.stack([chances(*estimate) for estimate in estimates(s)])
        view = View(
            design=design,
            posterior=posterior,
            covariance=posterior.covariance(),
            membership=exact,
            probability=jax.nn.sigmoid(model.logits_of(fit.parameters, design, comparisons)),
            shown=shown,
            wins=comparisons.wins,
            available=(all_pairs > 0) & (shown == 0),
            priority=jnp.arange(s.n_items, dtype=p.dtype),
            k=s.k,
        )
        inside = view.is_top(pool.quality)
        return {
            **reliability(p, inside),
            "square_error": ((p - exact) ** 2).mean(1),
            "variance": (exact * (1 - exact)).mean(),
            "score_kept": jax.vmap(lambda estimate: score_kept(view, estimate))(p),
            "status_bias_aware": fit.status,
        }

    return one


def reliability(p: Float[Array, "E M"], inside: Array) -> dict[str, Array]:
    """Numbers of items, sums of memberships and numbers of items in the top k, by bin [E, bins];
    and mean confidence minus share right [E] of the guess that items with p > 1/2 are in the top
    k."""
    chosen = jnp.digitize(p, jnp.asarray(EDGES[1:-1], p.dtype))[:, :, None] == jnp.arange(10)
    guess = p > 0.5
    sure, right = jnp.where(guess, p, 1 - p), guess == inside
    return {
        "items": chosen.sum(1),
        "estimated": (chosen * p[:, :, None]).sum(1),
        "inside": (chosen & inside[:, None]).sum(1),
        "overconfidence": (sure - right).mean(1),
    }


def score_kept(view: View, p: Float[Array, " M"]) -> Array:
    """Score of Eq. acq, with the view's memberships, of the pair chosen with memberships p, as a
    share of the largest score. NaN where no pair is left."""
    key = jax.random.key(0)  # unused: the rule draws nothing

    def scores(view: View) -> Array:
        return jnp.where(view.available, rules.top_k_aware(view, key), -jnp.inf).ravel()

    true = scores(view)
    asked = scores(dataclasses.replace(view, membership=p)).argmax()
    return jnp.where(view.available.any(), true[asked] / true.max(), jnp.nan)


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    s.check_balance((s.rho if "correlated" in s.truth else 0.0,), "continuous")
    rows = [(truth, budget) for truth in s.truth for budget in s.budget]

    def column(biased: float, **others: float) -> np.ndarray:
        return np.array([others.get(truth, biased) for truth, _ in rows])

    names = {"estimate": [f"{name} {n}" for name, n in estimates(s)]}
    bins = names | {"bin": EDGES[:-1].round(2).tolist()}
    return [
        declare.Group(
            "membership",
            experiment(s),
            {
                "sd": column(s.sd, prior=s.lam**-0.5),
                "rho": column(0.0, correlated=s.rho),
                "bias": column(s.bias, prior=0.0),
                "bias_sd": column(0.0, prior=s.lam_b**-0.5),
                "interaction": column(0.0, growing=s.interaction),
                "budget": np.array([float(budget) for _, budget in rows]),
            },
            {"truth": [truth for truth, _ in rows], "budget": [budget for _, budget in rows]},
            s.n_items,
            s.pools,
            axes={
                **dict.fromkeys(("items", "estimated", "inside"), bins),
                **dict.fromkeys(("overconfidence", "square_error", "score_kept"), names),
            },
            fits=20,
        )
    ]


# --- from the saved results


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    for c in range(ds.sizes["condition"]):
        part = ds.isel(condition=c)
        for i, (name, n_samples) in enumerate(estimates(s)):
            where = {"membership": name, "n_samples": n_samples}
            where |= {"truth": part["truth"].item(), "budget": part["budget"].item()}
            estimate = part.isel(estimate=i)
            error_rows(estimate, where, t)
            if n_samples == DRAWS[name]:
                t.means("overconfidence", estimate["overconfidence"], **where)
                reliability_rows(estimate, where, t)


def error_rows(part: xr.Dataset, where: dict[str, Any], t: Table) -> None:
    """Add root mean square errors over items and pools, and those of counting as many independent
    draws."""
    independent = part["variance"].values / where["n_samples"]
    errors = {"rms_error": part["square_error"].values, "rms_error_independent": independent}
    for quantity, square in errors.items():
        mean, *interval = (np.sqrt(v) for v in stats.mean_interval(square, seed=t.seed))
        if quantity == "rms_error" or where["membership"] == "counted":
            t.add(quantity, mean, interval, len(square), **where)
    if np.isfinite(part["score_kept"].values).any():
        t.means("score_kept", part["score_kept"], **where)


def reliability_rows(part: xr.Dataset, where: dict[str, Any], t: Table) -> None:
    """Add each bin's mean membership, share in the top k, and their difference, as ratios of means
    over the same pools."""
    counts = np.stack([part[name].values for name in ("items", "estimated", "inside")])  # [3, b, P]
    n_pools = counts.shape[-1]
    filled = (counts[0] > 0).sum(-1) >= FEWEST

    def ratios(means: np.ndarray) -> dict[str, np.ndarray]:
        items, estimated, inside = np.moveaxis(means[..., filled], -2, 0)
        shares = {"estimated": estimated / items, "inside": inside / items}
        return shares | {"estimated_minus_inside": shares["estimated"] - shares["inside"]}

    mean = ratios(counts.mean(-1))
    resampled = ratios(stats.bootstrap_means(counts, seed=t.seed))
    for i, low in enumerate(part["bin"].values[filled]):
        for quantity, ratio in mean.items():
            interval = stats.percentiles(resampled[quantity][:, i], n_units=n_pools)
            t.add(quantity, ratio[i], interval, n_pools, **where, bin=low)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: the default numbers of draws, without the bins."""
    return table[table.bin.isna() & (table.n_samples == table.membership.map(DRAWS))]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (*axes, errors) = plots.facets(len(s.truth) + 1, 2, width=5.6)
    for ax, truth in zip(axes, s.truth, strict=True):
        draw_reliability(ax, table[table.truth == truth], s)
        ax.set_title(TRUTHS[truth].format(bias=s.bias, rho=s.rho, interaction=s.interaction))
    draw_errors(errors, table, s)
    return fig


def draw_reliability(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    counted = table[(table.membership == "counted") & (table.n_samples == DRAWS["counted"])]
    ax.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    for budget, colour in zip(s.budget, plots.CYCLE, strict=False):
        line_rows = counted[counted.budget == budget]
        at = line_rows[line_rows.quantity == "estimated"].estimate.values
        rows = line_rows[line_rows.quantity == "inside"]
        plots.points(ax, rows, at, colour=colour, label=f"B = {budget}", fmt="o-", ms=3)
    ax.set_xlabel(f"membership (mean of a bin, S = {DRAWS['counted']})")
    ax.set_ylabel(f"share truly in the top {s.k}")
    ax.legend(fontsize=8)
    return ax


def draw_errors(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    rows = table[(table.quantity == "rms_error") & (table.truth == s.truth[-1])]
    for budget, colour in zip(s.budget, plots.CYCLE, strict=False):
        for name, line in (("conditional", "--"), ("counted", "-")):
            line_rows = rows[(rows.membership == name) & (rows.budget == budget)]
            label = f"B = {budget}" if line == "-" else ""
            plots.line(ax, line_rows, "n_samples", colour=colour, label=label, ls=line, marker=".")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("draws S")
    ax.set_ylabel("rms error of a membership")
    ax.set_title("Error of the draws: counted (lines), conditional (dashed)")
    ax.legend(fontsize=8)
    return ax


SWEEP = declare.legacy(
    "membership",
    "Top-k memberships against the truth, and their error by number of draws.",
    PRESETS,
    groups,
    ("truth", "budget", "membership", "n_samples", "bin"),
    table,
    figure,
    units={
        "estimate": "how found, and draws (count)",
        "bin": "1 (lower end of a bin of membership)",
        "items": "count",
        "estimated": "1 (sum of memberships)",
        "inside": "count",
        "overconfidence": "1 (mean confidence minus share right)",
        "square_error": "1 (squared probability)",
        "variance": "1 (p (1 - p), mean over items)",
        "score_kept": "1 (share of the largest score)",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
