"""Where correction stops helping: benefit of the bias-aware model against corr(quality, covariate).

The paper's figure "The prior assumption governs the outcome" (30 runs a point, sign change near
0.45), with enough pools to locate the crossing.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from jbt import estimators
from jbt.experiments.declare import Group, Sweep, check_increasing
from jbt.experiments.plots import COLOURS, RHO_LABEL, Line, Panel, points
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools, theory
from jbt.simulation.simulate import Simulation, stream
from jbt.types import Prior, check_count, check_positive

from ._shared.scenario import Correlated, VaryingBias

if TYPE_CHECKING:
    from jbt.experiments.notebook import Explored

CONTINUOUS_GRID = tuple(round(0.05 * i, 2) for i in range(19))
BINARY_GRID = CONTINUOUS_GRID[:16]

SCENARIO = (
    *("sd", "bias", "position", "discrimination", "interaction"),
    *("lam", "lam_b", "k", "completeness"),
)
"""Options that are traced: all crossings of one size, covariate and link are one program."""


@dataclass(frozen=True, kw_only=True)
class Crossing(Correlated, VaryingBias, Sweep):
    """Up to which correlation of quality and covariate does the correction help?"""

    name = "crossing"
    shown = ("benefit", "crossing", "crossing_limit")
    columns = ("covariate", "rho")
    index = "rho"
    presets = {
        "smoke": {"pools": 64, "rho": (0.0, 0.3, 0.6)},
        "paper": {"pools": 30},
    }
    panel_size = {"width": 8.0, "height": 4.6}

    pools: int = 8192
    """Number of pools simulated at every condition, at most 2^32."""
    rho: tuple[float, ...] = ()
    """Population correlations of quality and covariate, increasing. By default 0 to 0.9
    (continuous) or 0.75 (binary) in steps of 0.05."""
    bias: float = 1.0
    """True bias c* (logits per unit of the covariate)."""
    position: float = 0.0
    """True position bias kappa* (logits in favour of the item shown first)."""
    discrimination: Annotated[float, check_positive] = 1.0
    """Factor on quality in the judge's logits."""
    link: str = "logit"
    """Link of the judge, one of `jbt.simulation.judges.LINKS`. logit, or probit: a Thurstone judge
    whose noise has the logistic's variance. Fits always use the logit."""
    completeness: float = 1.0
    """Probability that the verdict on an ordered pair was collected, for each pair independently,
    in (0, 1]."""

    def check(self):
        super().check()
        self.check_pools(least=2)
        judges.check_link(self.link)
        pairs.check_completeness(self.completeness)
        pools.check_rho(self.grid, self.covariate)
        check_increasing("rho", self.grid, length=2)
        self.check_balance(self.grid, self.covariate)

    @property
    def grid(self) -> tuple[float, ...]:
        """Correlations of the conditions."""
        return self.rho or (CONTINUOUS_GRID if self.covariate == "continuous" else BINARY_GRID)

    def experiment(self, key, condition):
        """One pool: every ordered pair judged once, naive and bias-aware fit, top-k recall.

        The condition holds rho and `SCENARIO`; the kind and size of the pool, the covariate and the
        link are this sweep's.
        """
        pool = self.draw(key, condition, self.covariate)
        judge = judges.of_condition(condition)
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, judge, link=self.link)
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

    def conditions(self) -> dict[str, np.ndarray]:
        """One condition a correlation, the scenario repeated."""
        kinds = {"k": int}  # whatever the options hold, as programs are compiled for these types
        rho = np.array(self.grid)
        fixed = {n: np.full(len(rho), getattr(self, n), kinds.get(n, float)) for n in SCENARIO}
        return {"rho": rho, **fixed}

    def groups(self):
        conditions, labels = self.conditions(), {"rho": self.grid}
        return [Group("crossing", self.experiment, conditions, labels, self.n_items, self.pools)]

    @property
    def ratio(self) -> float:
        """r = c* sd_x / (discrimination sd): the judge's bias in units of the spread of quality in
        its logits."""
        sd_x = 1.0 if self.covariate == "continuous" else 0.5
        return self.bias * sd_x / (self.discrimination * self.sd)

    @property
    def has_limit(self) -> bool:
        """Whether the limit of large pools is known: it is for Gaussian pools without a bound on
        their correlation and a judge of one bias with the logit link."""
        of_judge = self.link == "logit" and self.interaction == 0
        return self.pool == "gaussian" and self.max_correlation is None and of_judge

    def crossing_limit(self) -> float:
        """Noise-free crossing; NaN where there is none or none is known."""
        if not self.has_limit:
            return float("nan")
        return theory.crossing_limit(self.ratio, self.k / self.n_items, self.covariate)

    def table(self, ds, t):
        ds = ds.assign_coords(covariate=self.covariate)
        benefit = ds["bias_aware_recall"] - ds["naive_recall"]
        for name in estimators.ESTIMATORS:
            if f"{name}_recall" in ds:  # results of a run before it was registered have none
                t.means(f"{name}_recall", ds[f"{name}_recall"])
        t.means("benefit", benefit)
        t.means("realised_corr", ds["realised_corr"])
        t.crossing(benefit)
        t.add("crossing_limit", self.crossing_limit(), covariate=self.covariate)

    def panels(self, table):
        rows = table[table.quantity == "crossing"]
        at, low, high = rows[["estimate", "ci_low", "ci_high"]].iloc[0]
        title = f"Correction helps up to a correlation of {at:.2f} and hurts beyond"
        labels = (
            f"{RHO_LABEL} ({self.covariate})",
            f"share of the true top {self.k} found:\nwith correction minus without",
            "What correction gains" if np.isnan(at) else title,
        )
        simulated = f"{self.pools:,} pools of {self.n_items} answers (band: 95 % over pools)"
        lines = [Line({}, simulated, "blue")]

        def after(ax):
            if self.has_limit:
                rho = np.linspace(self.grid[0], self.grid[-1], 60)
                share = self.k / self.n_items
                gain = [theory.limit_benefit(self.ratio, r, share, self.covariate) for r in rho]
                ax.plot(rho, gain, "--", color="black", label="limit of large pools without noise")
            ax.margins(x=0)
            for paper in rows.paper.dropna():
                label = f"crossing in the paper, {paper:g}"
                ax.axvline(paper, color=COLOURS["purple"], linestyle=":", label=label)
            if np.isnan(at):
                return
            label = f"crossing here, {at:.3f} [{low:.3f}, {high:.3f}]"
            style = {"ms": 6, "capsize": 4, "zorder": 5}
            points(ax, rows[:1], [0], colour="black", label=label, horizontal=True, **style)
            for end, side, colour in ((0, "HELPS", "green"), (-1, "HURTS", "vermilion")):
                ends, ink = sorted((self.grid[end], at)), COLOURS[colour]
                ax.axvspan(*ends, color=ink, alpha=0.1, linewidth=0)
                place = {"xycoords": ax.get_xaxis_transform(), "ha": "center", "va": "top"}
                ax.annotate(f"correction {side}", (np.mean(ends), 0.97), color=ink, **place)

        return [Panel("rho", {"quantity": "benefit"}, lines, labels, level=0.0, after=after)]

    def answer(self, table):
        """Where the benefit changes sign, and the paper's numbers of it."""
        rows = table[table.quantity == "crossing"]
        at, low, high = rows[["estimate", "ci_low", "ci_high"]].iloc[0]
        if np.isnan(at):
            return "The gain from correction does not end at these correlations."
        ends = ["beyond" if np.isnan(end) else f"{end:.3f}" for end in (low, high)]
        text = f"Correction helps up to a correlation of {at:.3f} [{', '.join(ends)}]"
        numbers = [f"{number:g}" for number in rows.paper.dropna()]
        return text + (f"; the paper says {' and '.join(numbers)}." if numbers else ".")


SWEEP = Crossing


# --- in a notebook

EXPLORED = Crossing(pools=400, rho=tuple(round(0.1 * i, 1) for i in range(8)))
"""Where exploring begins."""

COMPILED = ("pools", "seed", "dtype", "pool", "covariate", "max_correlation", "link")
"""Settings that a program of `explore` is compiled for."""


def explore(settings: Crossing = EXPLORED, *, most_items: int = 40, **changes: Any) -> Explored:
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
    s.check()
    check_count("most_items", most_items, least=2)
    if s.n_items > most_items:
        raise ValueError(f"n_items must be at most most_items, {most_items}, got {s.n_items}")
    fixed = {name: getattr(s, name) for name in COMPILED}
    registered = *estimators.ESTIMATORS.items(), pools.POOLS[s.pool], judges.LINKS[s.link]
    program = _program(Crossing(n_items=most_items, rho=(0.0,) * len(s.grid), **fixed), registered)
    parts = [out for _, out in program.under(_sized(s)).chunks()]
    metrics = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    results = xr.Dataset(
        {name: (("rho", "pool"), values.T) for name, values in metrics.items()},
        {"rho": np.array(s.grid), "pool": np.arange(s.pools)},
    )
    rows = Table(s.columns, s)
    s.table(results, rows)
    return Explored(s, results, rows.frame())


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    """The changes as the types of their fields.

    Raises:
      ValueError: no such field, or a value of another type.
    """
    checked = {}
    for name, value in changes.items():
        if name not in {field.name for field in dataclasses.fields(EXPLORED)}:
            raise ValueError(f"explore has no setting {name!r}: see sweeps.crossing.Crossing")
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


def _sized(s: Crossing) -> dict[str, np.ndarray]:
    """Its conditions, with the number of items among them."""
    return {**s.conditions(), "n_items": np.full(len(s.grid), s.n_items)}


@functools.lru_cache(maxsize=8)
def _program(s: Crossing, registered: tuple[Any, ...]) -> Simulation:
    """The program for these options and any values of its conditions, and for what is registered
    under the names in it."""
    return Simulation(s.experiment, _sized(s), range(s.pools), seed=s.seed, dtype=s.dtype)


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
