"""Where debiasing stops paying: benefit of the bias-aware model against corr(quality, covariate).

The paper's figure "The prior assumption governs the outcome" (30 runs a point, sign change near
0.45), with enough pools to locate the crossing.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Key

from jbt import estimators
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools, theory
from jbt.simulation.simulate import Condition, Experiment, Simulation, stream
from jbt.types import Prior, check_count, check_positive

from ._shared.scenario import Correlated, VaryingBias

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.notebook import Explored, Sliders
    from jbt.experiments.table import Table

CONTINUOUS_GRID = tuple(round(0.05 * i, 2) for i in range(19))
BINARY_GRID = CONTINUOUS_GRID[:16]


@dataclass(frozen=True, kw_only=True)
class Settings(Correlated, VaryingBias, declare.Settings):
    rho: tuple[float, ...] = ()
    """Population correlations of quality and covariate, increasing; default 0 to 0.9
    (continuous) or 0.75 (binary) by 0.05."""
    bias: float = 1.0
    """True bias c* (logits per unit of the covariate)."""
    position: float = 0.0
    """True position bias kappa* (logits in favour of the first shown)."""
    discrimination: float = 1.0
    """Factor on quality in the judge's logits (pure number)."""
    link: str = "logit"
    """Link of the judge, one of `jbt.simulation.judges.LINKS`: logit, or probit, a Thurstone judge
    whose noise has the logistic's variance. Fits always use the logit."""
    completeness: float = 1.0
    """Probability that an ordered pair's verdict was collected, independently, in (0, 1]."""


PRESETS = {
    "smoke": Settings(pools=64, rho=(0.0, 0.3, 0.6)),
    "paper": Settings(pools=30),
    "full": Settings(pools=8192),
}


def check_scenario(s: Settings) -> None:
    """Raise `ValueError` for a scenario that makes no sense."""
    s.check_pools(least=2)
    check_positive("discrimination", s.discrimination)
    judges.check_link(s.link)
    pairs.check_completeness(s.completeness)


def reached(rho: tuple[float, ...], covariate: pools.CovariateKind) -> tuple[float, ...]:
    """Those of the correlations that lie on a covariate's default grid.

    Raises:
      ValueError: correlations are asked for, and none of them does.
    """
    most = 1.0 if covariate == "continuous" else BINARY_GRID[-1]
    possible = tuple(r for r in rho if r <= most)
    if rho and not possible:
        raise ValueError(f"rho must include some up to {most:g} for {covariate}, got {rho[0]:g}")
    return possible


def grid(s: Settings) -> tuple[float, ...]:
    """Correlations of the settings, checked.

    Raises:
      ValueError: out of reach, not increasing, or fewer than two.
    """
    rho = s.rho or (CONTINUOUS_GRID if s.covariate == "continuous" else BINARY_GRID)
    pools.check_rho(rho, s.covariate)
    if len(rho) < 2:
        raise ValueError(f"rho needs at least 2 values to cross between, got {len(rho)}")
    if any(b <= a for a, b in itertools.pairwise(rho)):
        raise ValueError(f"rho must increase, got {' '.join(map(str, rho))}")
    return rho


def full_matrix(s: Settings) -> Experiment:
    """Experiment: every ordered pair judged once, naive and bias-aware fit, top-k recall.

    Its condition holds rho and `SCENARIO`, all traced. The kind and size of the pools, the
    covariate and the link come from the settings.
    """

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = s.draw(key, condition, s.covariate)
        judge = judges.of_condition(condition)
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, judge, link=s.link)
        shown = pairs.collected(
            stream(key, "collected"), pairs.every_pair(pool), condition["completeness"]
        )
        comparisons = judges.reveal(oracle, shown)
        prior = Prior(condition["lam"], condition["lam_b"])
        out = {"realised_corr": pools.realised_correlation(pool)[0]}
        for name, estimator in estimators.ESTIMATORS.items():
            fit = estimator(comparisons, pool.design, prior)
            estimated = fit.parameters.theta, pool.quality
            items = pool.design.item_mask
            out[f"{name}_recall"] = metrics.top_k_recall(*estimated, condition["k"], items)
            out[f"{name}_agreement"] = metrics.pairwise_agreement(*estimated, items)
            out[f"status_{name}"] = fit.status
        return out

    return experiment


JUDGE = ("bias", "position", "discrimination", "interaction")
SCENARIO = ("sd", *JUDGE, "lam", "lam_b", "k", "completeness")


def conditions(s: Settings, rho: tuple[float, ...]) -> dict[str, np.ndarray]:
    """One condition a correlation, the scenario repeated."""
    kinds = {"k": int}  # whatever the settings hold, as programs are compiled for these types
    fixed = {n: np.full(len(rho), getattr(s, n), kinds.get(n, float)) for n in SCENARIO}
    return {"rho": np.array(rho), **fixed}


def groups(s: Settings) -> list[declare.Group]:
    check_scenario(s)
    rho = grid(s)
    s.check_balance(rho, s.covariate)
    return [
        declare.Group(
            "crossing", full_matrix(s), conditions(s, rho), {"rho": rho}, s.n_items, s.pools
        )
    ]


def ratio(s: Settings) -> float:
    """r = c* sd_x / (discrimination sd): the judge's bias in units of the spread of quality in its
    logits."""
    sd_x = 1.0 if s.covariate == "continuous" else 0.5
    return s.bias * sd_x / (s.discrimination * s.sd)


def has_limit(s: Settings) -> bool:
    """Whether the limit of large pools is known: it is for Gaussian pools without a bound on their
    correlation and a judge of one bias with the logit link."""
    of_judge = s.link == "logit" and s.interaction == 0
    return s.pool == "gaussian" and s.max_correlation is None and of_judge


def crossing_limit(s: Settings) -> float:
    """Noise-free crossing of the scenario; NaN where there is none or none is known."""
    if not has_limit(s):
        return float("nan")
    return theory.crossing_limit(ratio(s), s.k / s.n_items, s.covariate)


def benefit_where(ds: xr.Dataset, labels: Mapping[str, Any]) -> xr.DataArray:
    """Benefit in each pool [rho, pool], in the conditions with these labels."""
    chosen = np.all([ds[name].values == value for name, value in labels.items()], axis=0)
    part = ds.isel(condition=np.flatnonzero(chosen)).drop_vars(list(labels))
    part = part.swap_dims(condition="rho")
    return part["bias_aware_recall"] - part["naive_recall"]


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    benefit = ds["bias_aware_recall"] - ds["naive_recall"]
    for name in estimators.ESTIMATORS:
        if f"{name}_recall" in ds:  # results of a run before it was registered have none
            t.means(f"{name}_recall", ds[f"{name}_recall"], covariate=s.covariate)
    t.means("benefit", benefit, covariate=s.covariate)
    t.means("realised_corr", ds["realised_corr"], covariate=s.covariate)
    t.crossing(benefit, covariate=s.covariate)
    t.add("crossing_limit", crossing_limit(s), covariate=s.covariate)


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, ax = plots.new_figure()
    rows = table[table.quantity == "benefit"]
    ax.axhline(0, color="black", linewidth=0.8)
    if has_limit(s):
        fine = np.linspace(rows.rho.min(), rows.rho.max(), 60)
        limit = [theory.limit_benefit(ratio(s), p, s.k / s.n_items, s.covariate) for p in fine]
        ax.plot(fine, limit, "--", color="black", label=r"noise-free limit, $N \to \infty$")
    label = f"simulated, N = {s.n_items}, {s.pools:,} pools (95 % interval)"
    plots.line(ax, rows, "rho", colour="blue", label=label)
    plots.crossing(ax, table, colour="vermilion")
    for paper in table[table.quantity == "crossing"].paper.dropna():
        ax.axvline(paper, color=plots.COLOURS["orange"], linestyle=":", label=f"paper, {paper:g}")
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel(f"benefit: top-{s.k} recall, bias-aware minus naive")
    ax.set_title(f"{s.covariate} covariate, c* = {s.bias:g}, sd = {s.sd:g}")
    ax.legend(fontsize=8)
    return fig


def answer(table: pd.DataFrame, s: Settings) -> str:
    """Where the benefit changes sign, and the paper's numbers of it."""
    rows = table[table.quantity == "crossing"]
    at, low, high = rows[["estimate", "ci_low", "ci_high"]].iloc[0]
    if np.isnan(at):
        return "The gain from correction does not change sign at these correlations."
    text = f"Correction stops paying at a correlation of {at:.3f} [{low:.3f}, {high:.3f}]"
    numbers = [f"{number:g}" for number in rows.paper.dropna()]
    return text + (f"; the paper says {' and '.join(numbers)}." if numbers else ".")


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: benefits and crossings."""
    shown = table.quantity.str.startswith("crossing") | (table.quantity == "benefit")
    return table[shown]


SWEEP = declare.Sweep(
    "crossing",
    "Benefit of bias-aware over naive ranking against corr(quality, covariate), and where it ends.",
    PRESETS,
    groups,
    ("covariate", "rho"),
    table,
    figure,
    units={
        "naive_agreement": "1 (share of pairs)",
        "bias_aware_agreement": "1 (share of pairs)",
    },
    answer=answer,
    headline=headline,
    index="rho",
)


# --- in a notebook

EXPLORED = Settings(pools=400, rho=tuple(round(0.1 * i, 1) for i in range(8)))
"""Where exploring begins."""

COMPILED = ("pools", "seed", "dtype", "pool", "covariate", "max_correlation", "link")
"""Settings that a program of `explore` is compiled for."""


def explore(
    settings: Settings = EXPLORED, *, most_items: int = 40, **changes: Any
) -> Explored[Settings]:
    """The crossing under other settings in a fraction of a second: `explore(bias=2, n_items=20)`.

    The first call compiles a program, in seconds. It serves every later call with as many
    correlations, the same `COMPILED` settings and `most_items`: all else may change. Pools are
    padded to `most_items`, so that their draws are others than those of `python -m sweeps.crossing`
    from the same seed.

    Args:
      settings: `EXPLORED` or your own; what they say of files, chunks and devices is not used.
      most_items: largest n_items that the program serves (count). Every call takes as long as for
        pools of this size, which grows with its cube.
      changes: fields that differ from the settings.

    Raises:
      ValueError: settings that make no sense; more items than `most_items`.
    """
    import xarray as xr

    from jbt.experiments.notebook import Explored
    from jbt.experiments.table import Table

    s = dataclasses.replace(settings, **_checked(changes))
    declare.check_fields(s)
    check_count("most_items", most_items, least=2)
    check_scenario(s)
    rho = grid(s)
    s.check_balance(rho, s.covariate)
    if s.n_items > most_items:
        raise ValueError(f"n_items must be at most most_items, {most_items}, got {s.n_items}")
    fixed = {name: getattr(s, name) for name in COMPILED}
    registered = *estimators.ESTIMATORS.items(), pools.POOLS[s.pool], judges.LINKS[s.link]
    program = _program(Settings(n_items=most_items, **fixed), len(rho), registered)
    varied = {**conditions(s, rho), "n_items": np.full(len(rho), s.n_items)}
    parts = [out for _, out in program.under(varied).chunks()]
    metrics = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    results = xr.Dataset(
        {name: (("rho", "pool"), values.T) for name, values in metrics.items()},
        {"rho": np.array(rho), "pool": np.arange(s.pools)},
    )
    rows = Table(SWEEP.columns, s)
    table(results, s, rows)
    return Explored(SWEEP, s, results, rows.frame())


CONTROLS = {
    "bias": ((0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0), 1.0, "bias c*"),
    "interaction": ((0.0, 0.25, 0.5, 1.0), 0.0, "growth gamma"),
    "n_items": ((10, 15, 20, 30, 40), 30, "items N"),
    "sd": ((0.4, 0.6, 0.9, 1.2, 1.8, 2.5), 1.2, "sd of quality"),
    "k": ((1, 2, 3, 5, 8), 5, "top k"),
}
"""Controls of `sliders`: field -> values, the first one shown, label."""


def sliders(settings: Settings = EXPLORED) -> Sliders:
    """Sliders over bias, its growth with quality, pool size, spread of quality and k, beside the
    figure of `explore`. One compiled program answers all of them."""
    from jbt.experiments.notebook import Sliders

    def draw(**values: Any) -> Figure:
        drawn = explore(settings, **values).figure()
        drawn.axes[0].set_ylim(-0.5, 0.5)  # the same for all, so that a move is seen
        return drawn

    return Sliders(draw, CONTROLS)


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    """The changes as the types of their fields.

    Raises:
      ValueError: no such field, or a value of another type.
    """
    checked = {}
    for name, value in changes.items():
        if not hasattr(EXPLORED, name):
            raise ValueError(f"explore has no setting {name!r}: see sweeps.crossing.Settings")
        now = getattr(EXPLORED, name)
        several = isinstance(now, tuple)
        numbers = np.asarray(value)
        if isinstance(now, int | float | tuple):
            kinds = "iu" if isinstance(now, int) else "iuf"
            if numbers.dtype.kind not in kinds or numbers.ndim != several:
                wanted = "several numbers" if several else "a whole number"
                wanted = "a number" if isinstance(now, float) else wanted
                raise ValueError(f"{name} must be {wanted}, got {value!r}")
            value = tuple(numbers.tolist()) if several else type(now)(value)
        checked[name] = value
    return checked


@functools.lru_cache(maxsize=8)
def _program(s: Settings, n_rho: int, registered: tuple[Any, ...]) -> Simulation:
    """The program for these settings and any values of its conditions, and for what is registered
    under the names in it."""
    varied = {**conditions(s, (0.0,) * n_rho), "n_items": np.full(n_rho, s.n_items)}
    return Simulation(full_matrix(s), varied, range(s.pools), seed=s.seed, dtype=s.dtype)


if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
