"""What two renderings of one content identify of the bias: the paper's paired rendering design.

The paper's table "The paired design adds information; more data does not": all contents are
rendered twice, and the same verdicts analysed with a quality for each rendering (unpaired) and for
each content (paired); in `sweeps.partial_pairing` only some contents are rendered twice. Also a
negative control of the paper: Eq. 3 without centring.

All judges see the same pools of one size, as in the paper; replicates share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jbt import estimators, identifiability, quick_compilation, runtime, stats
from jbt.experiments.declare import Group, Sweep, check_increasing, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, Line, Panel
from jbt.identifiability import BiasEstimate, NullSpace
from jbt.kernel import model
from jbt.simulation import judges, pairs, pools, theory
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Fit, Judge, Pool, Prior, Status

from ._shared.scenario import VaryingBias

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from jbt.experiments.table import Table

DESIGNS: tuple[Literal["unpaired", "paired"], ...] = ("unpaired", "paired")
BASE_SIZE = 15
"""Contents of the paper's main paired study, which has more pools than other sizes."""
SD, PAIR_NOISE = 1.2, 0.5
"""Standard deviations of quality, and of a judge's preference for a pair beyond quality and bias,
which counts where it gives the likelier verdict (logits)."""
LAM, LAM_B = 1.0, 0.1
"""The paper's prior."""
OF_LAM, OF_LAM_B = (0.2, 1.0, 5.0), (0.1, 1.0, 2.0)
"""Prior precisions of quality, and of c and kappa, whose MAPs are compared (1/logit^2)."""
PRIORS = [(LAM, LAM_B), *((lam, LAM_B) for lam in OF_LAM), *((LAM, lam_b) for lam_b in OF_LAM_B)]
"""(lam, lam_b) of each MAP: the paper's, then each list with the other at the paper's."""
SHIFT = 2
"""Points of the grid over c_map +- 1 that make up 0.5, by which the paper moves c."""
FACTOR = 5.0
"""Factor up to which, the paper says, Eq. 3 without centring misstates c_hat."""
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
MEANS = ("profile_range_mle_centred", "profile_drop", "rank", "n_columns")
"""Metrics of each design whose means the table has."""
WHAT_C_COSTS = (
    *MEANS,
    "c_mle",
    "profile_range",
    "c_uncentred",
    "c_uncentred_first",
    "mle",
    "status_map",
    "status_profile",
)
"""All metrics of each design but `c_map`."""


@dataclass(frozen=True, kw_only=True)
class Profiled(VaryingBias, Sweep):
    """An experiment on what the likelihood holds about c, which needs float64."""

    pools: int = 200
    dtype: Literal["float64"] = "float64"
    """Precision; the profile likelihood needs float64."""


@dataclass(frozen=True, kw_only=True)
class Paired(Profiled):
    """What two renderings of every content identify of the bias, and what the prior still does."""

    name, columns = "paired", COLUMNS
    presets = {
        "smoke": {"pools": 8, "judge": ("llama", "coder"), "n_contents": (8,)},
        "paper": {"pools": 6, "pools_other_sizes": 3},
    }
    units = {
        "profile_range_mle_centred": "log-likelihood, over c_mle +- 1",
        "profile_drop": "log-likelihood, c_map moved by 0.5 and the rest maximised again",
        "c_uncentred": "logits, Eq. 3 without centring where apparent quality has mean 0",
        "c_uncentred_first": "logits, the same where the first item's is 0",
    }
    panel_size = {"width": 4.6, "height": 3.8}

    pools_other_sizes: int | None = None
    """Pools at sizes other than 15 contents (count); default as many. The paper has 3, and 6 of
    15."""
    judge: Annotated[tuple[str, ...], partial(check_listed, known=tuple(judges.OPEN))] = tuple(
        judges.OPEN
    )
    """Judges, which see the same pools."""
    n_contents: Annotated[tuple[int, ...], partial(check_increasing, least=2)] = (
        8,
        15,
        25,
        40,
    )
    """Contents of a pool, all rendered twice (count)."""
    oracle: Literal["draw", "argmax"] = "draw"
    """draw: each verdict is drawn once. argmax: the likelier verdict, as of open-weight judges at
    temperature 0, by logits with a preference for the pair added."""

    def experiment(self, key, condition, *, n_contents):
        """Every ordered pair of 2 M items judged once, the same verdicts analysed twice."""
        pool = pools.paired(stream(key, "pool"), n_contents, sd=SD)
        judge, draw = judges.of_condition(condition), stream(key, "verdicts")
        if self.oracle == "argmax":
            oracle = judges.frozen_argmax(draw, pool, judge, pair_noise=PAIR_NOISE)
        else:
            oracle = judges.frozen_draw(draw, pool, judge)
        comparisons = judges.reveal(oracle, pairs.every_pair(pool))
        analyses = jax.vmap(lambda owner: self.evidence(comparisons, design_of(pool, owner)))
        return analyses(owners(n_contents))

    def evidence(self, comparisons: Comparisons, design: Design) -> dict[str, Array]:
        """Evidence about c in one analysis, and estimates of c under each prior."""

        def of_prior(prior: Array) -> Fit:
            return estimators.bias_aware(comparisons, design, Prior(prior[0], prior[1]))

        fits = jax.vmap(of_prior)(jnp.asarray(PRIORS))
        c = fits.parameters.c[:, 0]
        estimate = identifiability.estimate_bias(comparisons, design)
        exists = estimate.status == Status.CONVERGED
        around_map = identifiability.grid_around(c[0])
        # The profile is concave: around its maximum, three of the nine points have the range of
        # all.
        top = jnp.where(exists, estimate.c, c[0])
        grid = jnp.concatenate([around_map, identifiability.grid_around(top, points=3)])
        profile = identifiability.profile(comparisons, design, grid)
        at_map = jax.tree.map(lambda v: v[: len(around_map)], profile)
        at_mle = jax.tree.map(lambda v: v[len(around_map) :], profile)
        phi = design.of_items(fits.parameters.theta[0]) + design.covariates[:, 0] * c[0]

        def uncentred(phi: Array) -> Array:
            return theory.map_bias(phi, design.covariates, LAM, LAM_B, centred=False)[0]

        return {
            "c_map": c,
            "profile_range": at_map.range(),
            "profile_range_mle_centred": jnp.asarray(jnp.where(exists, at_mle.range(), jnp.nan)),
            "profile_drop": drop(at_map.log_likelihood),
            "c_uncentred": uncentred(phi - phi.mean()),
            "c_uncentred_first": uncentred(phi - phi[0]),
            "c_mle": estimate.c,
            "mle": estimate.status,
            "rank": rank(design, comparisons),
            "n_columns": jnp.asarray(design.content_mask().sum() + design.n_covariates + 1),
            "status_map": fits.status.max(),
            "status_profile": profile.status.max(),
        }

    def groups(self):
        design = {"design": DESIGNS}
        # Numbered, because the paper's prior occurs three times.
        names = [f"{i}: lam {a:g}, lam_b {b:g}" for i, (a, b) in enumerate(PRIORS)]
        axes = dict.fromkeys(WHAT_C_COSTS, design) | {"c_map": design | {"prior": names}}
        conditions = judges.conditions([self.growing(judges.OPEN[name]) for name in self.judge])
        n_others = self.pools if self.pools_other_sizes is None else self.pools_other_sizes
        return [
            Group(
                f"size-{n}",
                partial(self.experiment, n_contents=n),
                conditions,
                {"judge": self.judge, "n_contents": [n] * len(self.judge)},
                2 * n,
                self.pools if n == BASE_SIZE else n_others,
                axes=axes,
                fits=60,
            )
            for n in self.n_contents
        ]

    def table(self, ds, t):
        for n in self.n_contents:
            part = where(ds, n_contents=n).drop_vars("n_contents")
            simulated = (part["status_map"].values >= 0).all((0, 1))  # not every size has all pools
            self.add_size(part.isel(pool=np.flatnonzero(simulated)), n, t)

    def add_size(self, part: xr.Dataset, n: int, t: Table) -> None:
        """Add rows of one size: each judge, and the mean over judges with the pool as the unit (the
        judges see the same pools)."""
        size = {"n_contents": n, "n_twice": n, "comparisons": "all", "budget": 2 * n * (2 * n - 1)}
        size |= {"protocol": "frozen", "rho": 0.0}
        paper = {"lam": LAM, "lam_b": LAM_B}

        def add(name: str, values: xr.DataArray, of_each: Any = t.means, **prior: Any) -> None:
            of_each(name, values, **size, **prior)
            if len(self.judge) > 1:
                t.means(name, values.mean("condition", skipna=False), judge="all", **size, **prior)

        ranges = part["profile_range"]
        add("profile_range", ranges, **paper)
        for design in DESIGNS:
            largest = ranges.sel(design=design).values.max()
            row = {"judge": "all", "design": design, **paper, **size}
            t.add("profile_range_max", largest, n_pools=part.sizes["pool"], **row)
        for name in MEANS:
            add(name, part[name])
        add("nullity", part["n_columns"] - part["rank"])
        add("mle_exists", (part["mle"] == Status.CONVERGED).astype(float), t.shares)

        c = part["c_map"]
        ratio, first = (
            (part[name] / c.isel(prior=0, drop=True)).sel(design=["unpaired"])  # of Eq. 3
            for name in ("c_uncentred", "c_uncentred_first")
        )
        t.means("c_uncentred_ratio", ratio, **paper, **size)
        beyond = ((first < 1 / FACTOR) | (first > FACTOR)).astype(float)
        t.shares("c_uncentred_beyond_5", beyond, **paper, **size)
        for i, lam in enumerate(OF_LAM, start=1):
            at = c.isel(prior=i, drop=True)
            # Only the paired design has an estimate without a prior.
            away = (at - part["c_mle"]).sel(design=["paired"])
            add("c_map", at, lam=lam, lam_b=LAM_B)
            add("c_map_minus_mle_absolute", abs(away), lam=lam, lam_b=LAM_B)
        end = 1 + len(OF_LAM)
        of_lam, of_lam_b = (
            c.isel(prior=varied).reduce(np.ptp, "prior")
            for varied in (slice(1, end), slice(end, None))
        )
        add("c_sensitivity_lam_b", of_lam_b, lam=LAM)
        add("c_sensitivity_lam", of_lam, lam_b=LAM_B)
        for name, sensitivity in (("lam", of_lam), ("lam_b", of_lam_b)):
            # How many times less the paired estimate depends on the prior.
            unpaired, paired = sensitivity.mean("condition").transpose("design", "pool").values
            add_ratio(t, f"c_sensitivity_{name}_ratio", unpaired, paired, judge="all", **size)

    def headline(self, table):
        """Rows beside the paper's numbers, and those over all judges."""
        return table[(table.judge == "all") | table.paper.notna()]

    def panels(self, table):
        named = list(self.judge)
        judge = "all" if len(named) > 1 else named[0]
        paired = {"judge": judge, "quantity": "profile_range", "design": "paired"}
        unpaired = {"quantity": "profile_range_max", "design": "unpaired"}

        return [
            Panel(
                "n_contents",
                {},
                [
                    Line(paired, "paired: one quality a content", "blue", {"marker": "o"}),
                    Line(unpaired, "unpaired: one for each version", "vermilion", {"marker": "o"}),
                ],
                (
                    "contents, each shown in two versions",
                    "log-likelihood range of c",
                    "The same verdicts measure c\nonly in the paired design",
                ),
            ),
            Panel(
                "n_contents",
                {"judge": judge, "quantity": "c_map_minus_mle_absolute"},
                [
                    Line({"lam": lam}, rf"$\lambda$ = {lam:g}", colour, {"marker": "o"})
                    for lam, colour in zip(OF_LAM, CYCLE, strict=False)
                ],
                (
                    "contents, each shown in two versions",
                    "distance of c with the prior\nfrom c without (logits)",
                    "A strong prior still moves the paired c\n(bands: 95 % over pools)",
                ),
            ),
        ]


def add_ratio(
    t: Table, quantity: str, above: np.ndarray, below: np.ndarray, **setting: Any
) -> None:
    """Add the ratio of two means over the same pools, [P] each; pools in which either is NaN are
    left out."""
    both = np.stack([above, below])
    both = both[:, np.isfinite(both).all(0)]
    n = both.shape[1]

    def ratios(means: np.ndarray) -> np.ndarray:
        return means[:, 0] / means[:, 1]

    def studies(size: int, seeds: int | None) -> np.ndarray:
        return ratios(stats.study_means(both, seed=t.seed, size=size, same_pools=True))

    interval = stats.percentiles(ratios(stats.bootstrap_means(both, seed=t.seed)), n_units=n)
    t.add(quantity, both[0].mean() / both[1].mean(), interval, n, studies=studies, **setting)


def owners(n_contents: int) -> Int[Array, "designs items"]:
    """Content of each of 2 M items in each of `DESIGNS`."""
    return jnp.stack([jnp.arange(2 * n_contents), jnp.tile(jnp.arange(n_contents), 2)])


def design_of(pool: Pool, owner: Array) -> Design:
    """A pool's design with these contents, with room for as many as items: one program serves both
    `DESIGNS`."""
    return Design(pool.design.covariates, owner, pool.design.item_mask, len(owner))


def rank(design: Design, comparisons: Comparisons) -> Array:
    """Rank of the design matrix of the comparisons made. By eigenvalues: on two host devices
    `matrix_rank`, by singular values, never returns in JAX 0.9.2."""
    gram = model.information_at_even_odds(comparisons, design.centred())
    values = jnp.linalg.eigvalsh(gram)
    return (values > identifiability.NULL**2 * values.max()).sum()


def drop(log_likelihood: Array) -> Array:
    """Mean loss when c moves from the middle of the grid by 0.5 up or down."""
    middle = len(log_likelihood) // 2
    low, high = log_likelihood[middle - SHIFT], log_likelihood[middle + SHIFT]
    return log_likelihood[middle] - (low + high) / 2


SWEEP = Paired


# --- one pool, to look at


class Analysis(NamedTuple):
    """What the verdicts of a pool say about c in one design."""

    directions: NullSpace
    grid: np.ndarray
    """[G] values of c (logits per unit)."""
    below: np.ndarray
    """[G] profile log-likelihood less its maximum."""
    c_map: float
    estimate: BiasEstimate
    """Without a prior."""


def analysed(
    judge: Judge = judges.OPEN["llama"], n_contents: int = 15, *, sd: float = 1.2, seed: int = 3
) -> dict[str, Analysis]:
    """Draw contents, all rendered twice, judge every ordered pair once, and analyse the same
    verdicts in both `DESIGNS`.

    Args:
      n_contents: M, at least 2.
      sd: standard deviation of quality (logits).
    """
    bias_aware = quick_compilation.jit(estimators.bias_aware)
    out = {}
    with runtime.precision("float64"):
        of_pool, of_verdicts = jax.random.split(jax.random.key(seed))
        pool = pools.paired(of_pool, n_contents, sd=sd)
        oracle = judges.frozen_draw(of_verdicts, pool, judge)
        comparisons = judges.reveal(oracle, pairs.every_pair(pool))
        for name, owner in zip(DESIGNS, owners(n_contents), strict=True):
            design = design_of(pool, owner)
            c = bias_aware(comparisons, design, Prior()).parameters.c[0]
            grid = identifiability.grid_around(c, points=17)
            profile = identifiability.profile(comparisons, design, grid)
            curve = np.asarray(profile.log_likelihood)
            out[name] = Analysis(
                identifiability.null_space(design, np.asarray(comparisons.shown), ["elaboration"]),
                np.asarray(profile.grid),
                curve - curve.max(),
                float(c),
                jax.tree.map(np.asarray, identifiability.estimate_bias(comparisons, design)),
            )
    return out


def frame(analyses: Mapping[str, Analysis]) -> pd.DataFrame:
    """A row for each design: null directions, evidence within the grid, and c with and without a
    prior."""
    import pandas as pd

    rows = []
    for name, a in analyses.items():
        rows.append(
            {
                "design": name,
                "null directions": "; ".join(a.directions.names),
                "fall of log-likelihood": float(np.ptp(a.below)),
                "c, by the prior": a.c_map,
                "c, without": float(a.estimate.c),
                "low": float(a.estimate.low),
                "high": float(a.estimate.high),
            }
        )
    return pd.DataFrame(rows)


def draw_profiles(ax: Axes, analyses: Mapping[str, Analysis], truth: float) -> Axes:
    """Draw the profile log-likelihood of c in each design."""
    for (name, a), colour in zip(analyses.items(), CYCLE, strict=False):
        ax.plot(a.grid, a.below, color=colour, linewidth=2, label=name)
        ax.plot(a.c_map, 0, "o", color=colour)
    ax.axvline(truth, color="black", linewidth=0.8, linestyle=":")
    ax.set(
        xlabel="c, logits for the verbose rendering (dotted: truth; dots: with the prior)",
        ylabel="profile log-likelihood less its largest",
        title="Unpaired, every c fits equally well",
    )
    ax.margins(y=0.1)
    return ax


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
