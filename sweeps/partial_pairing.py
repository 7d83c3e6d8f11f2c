"""Some contents rendered twice, a budget of verdicts, a choice of comparisons: how precisely the
bias is then estimated, and the recall gained by it. Beyond the paper.

The judge draws a fresh verdict at every query, so that a repeated pair adds information and any
budget can be spent on any choice. `jbt plan pairing` asks each ordered pair at most once by
default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jbt import estimators, identifiability, stats
from jbt.experiments.declare import Group, Sweep, cases, check_increasing, check_top
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, RHO_LABEL, Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Judge, Prior, Status, check_count

from .paired import COLUMNS, LAM, LAM_B

MODELS = ("naive", "bias_aware", "measured")
"""measured: c by maximum likelihood, or by MAP where none exists, then quality given that c."""
BIAS, SD = 1.0, 1.2
"""True bias c* (logits per unit) and standard deviation of quality (logits)."""
HALF_WIDTH = 0.2
"""Wanted half-width of the interval of c (logits per unit)."""
SURE = 0.95
"""Share of pools in which the MLE of c must exist for a design to count as identifying c."""
CHOICES = {
    "all": ("all pairs alike", "blue"),
    "across": ("different answers only", "green"),
    "within": ("the two lengths of one answer", "orange"),
    "mixed": ("half on two lengths of one answer, half on all", "vermilion"),
}
"""Choice of comparisons -> its name and colour in the figure."""


class Cell(NamedTuple):
    """A design."""

    n_twice: int
    comparisons: str
    budget: int
    rho: float


@dataclass(frozen=True, kw_only=True)
class PartialPairing(Sweep):
    """How well the bias is known when some contents are rendered twice, and what that is worth."""

    name, columns = "partial_pairing", COLUMNS
    shown = ("n_twice_needed", "crossing")
    presets = {
        "smoke": {
            "pools": 8,
            "n_contents": 8,
            "k": 2,
            "n_twice": (2, 8),
            "budget": (240,),
            "recall_n_twice": (8,),
            "rho": (0.0, 0.8),
        },
        "paper": {"pools": 6},  # as its paired study; it has no such part
    }
    units = {
        "covered": "1 if the interval holds c*",
    }

    pools: int = 200
    dtype: Literal["float64"] = "float64"
    """Precision; the likelihood of c needs float64."""
    n_contents: Annotated[int, partial(check_count, least=2)] = 30
    """Contents of a pool of which only some are rendered twice (count)."""
    n_twice: tuple[int, ...] = (1, 3, 6, 10, 15, 20, 30)
    """Contents rendered twice, for the interval of c (count)."""
    budget: Annotated[tuple[int, ...], partial(check_increasing, least=1)] = (870, 3480)
    """Verdicts spent on a pool (count), each a fresh draw: pairs may be asked again."""
    recall_n_twice: tuple[int, ...] = (3, 12, 30)
    """Contents rendered twice, for recall (count), beside none."""
    rho: Annotated[tuple[float, ...], partial(check_increasing, length=2)] = (
        0.0,
        0.3,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
    )
    """Correlations of quality and covariate, for recall; increasing."""
    k: int = 5
    """Size of the top set (count)."""

    def check(self):
        super().check()
        for name in ("n_twice", "recall_n_twice"):
            check_increasing(name, getattr(self, name), least=1, most=self.n_contents)
        pools.check_rho(self.rho, "continuous")
        check_top(self.k, self.n_contents)

    def experiment(self, key, condition):
        """The prior-free interval of c, and recall of the contents by each of MODELS."""
        of_pool = {"n_twice": condition["n_twice"], "rho": condition["rho"]}
        pool = pools.paired(stream(key, "pool"), self.n_contents, sd=SD, spread=1.0, **of_pool)
        judge = Judge(jnp.full(1, BIAS), 0.0)
        chosen = condition["budget"], condition["within_share"]
        shown = pairs.choose(stream(key, "comparisons"), pool, *chosen)
        probability = judges.verdict_probability(pool, judge)
        comparisons = judges.fresh_comparisons(stream(key, "verdicts"), probability, shown)
        estimate = identifiability.estimate_bias(comparisons, pool.design)
        given = comparisons, pool.design, Prior(LAM, LAM_B)
        known = jax.tree.map(lambda leaf: leaf[None], estimate)
        either = estimators.naive(*given), estimators.bias_aware(*given)
        fits = *either, estimators.measured(*given, known)
        recall = [metrics.top_k_recall(f.parameters.theta, pool.quality, self.k) for f in fits]
        return {
            "mle": estimate.status,
            "c_interval_width": estimate.high - estimate.low,
            "covered": (estimate.low <= BIAS) & (estimate.high >= BIAS),
            "recall": jnp.stack(recall),
            "status": jnp.stack([f.status for f in fits]).max(),
        }

    @property
    def designs(self) -> list[tuple[int, str]]:
        """Contents rendered twice, and comparisons, whose recall is reported."""
        return [(0, "all"), *product(self.recall_n_twice, ("all", "mixed"))]

    def groups(self):
        of_c = product(self.n_twice, CHOICES, self.budget, self.rho[:1])
        of_recall = product(self.designs, self.budget, self.rho)
        cells = [Cell(*cell) for cell in of_c]
        cells += [Cell(*design, budget, rho) for design, budget, rho in of_recall]
        conditions = cases(
            [*dict.fromkeys(cells)],
            within_share=lambda cell: pairs.WITHIN_SHARE[cell.comparisons],
            budget=lambda cell: float(cell.budget),
        )
        return [
            Group(
                "designs",
                self.experiment,
                **conditions,
                n_items=2 * self.n_contents,
                pools=self.pools,
                axes={"recall": {"model": MODELS}},
                fits=8,
            )
        ]

    def table(self, ds, t):
        same = {"judge": "default", "n_contents": self.n_contents, "protocol": "stochastic"}
        # Widths and coverage are means over the pools in which an estimate exists.
        for comparisons, budget in product(CHOICES, self.budget):
            cell = {"comparisons": comparisons, "budget": budget, "rho": self.rho[0]}
            part, columns = where(ds, n_twice=self.n_twice, **cell), {**same, "design": "paired"}
            exists, width = part["mle"] == Status.CONVERGED, part["c_interval_width"]
            t.means("c_interval_width", width, **columns)
            t.shares("c_interval_coverage", part["covered"].where(exists), **columns)
            t.shares("mle_exists", exists.astype(float), **columns)
            sure = width.where(exists.mean("pool") >= SURE).values
            at, *interval = needed(np.array(self.n_twice), sure, 2 * HALF_WIDTH, self.seed)
            known = int(np.isfinite(width.values).sum(1).min())
            t.add("n_twice_needed", at, interval, known, **columns, **cell)
        for budget, (m, comparisons) in product(self.budget, self.designs):
            at = where(ds, budget=budget, rho=self.rho)["recall"]
            recall = where(at, n_twice=m, comparisons=comparisons).swap_dims(condition="rho")
            counting = where(at, n_twice=0).sel(model="naive").values
            columns = {**same, "design": "paired" if m else "unpaired", "lam": LAM, "lam_b": LAM_B}
            cell = {"n_twice": m, "comparisons": comparisons, "budget": budget}
            for model in MODELS if m else MODELS[:2]:  # with none twice c is not identified
                recalls = recall.sel(model=model)
                t.means("recall", recalls, **columns)
                if model == "bias_aware":
                    t.means("benefit", recalls - counting, **columns)
                if model != "naive":
                    t.crossing(recalls - counting, **columns, **cell)

    def panels(self, table):
        most = max(self.budget)
        widths = [Line({"comparisons": name}, *style) for name, style in CHOICES.items()]
        gains = [
            Line({"n_twice": m}, f"{m or 'none'} in two lengths", colour)
            for m, colour in zip((0, *self.recall_n_twice), CYCLE, strict=False)
        ]
        of_widths = Panel(
            "n_twice",
            {"quantity": "c_interval_width", "budget": most},
            widths,
            (
                f"answers shown in two lengths, of {self.n_contents}",
                "width of the bias's 95 % interval\n(logits; line: wanted; bands: 95 %)",
                f"{most:,} verdicts: comparing two lengths\nof one answer measures the bias best",
            ),
            level=2 * HALF_WIDTH,
            log="xy",
        )
        of_gains = Panel(
            "rho",
            {"quantity": "benefit", "budget": most, "model": "bias_aware", "comparisons": "all"},
            gains,
            (
                RHO_LABEL,
                f"share of the true top {self.k} found: minus\nthat without correction (95 %)",
                "The more in two lengths, the later\nthe correction begins to hurt",
            ),
            level=0.0,
        )
        return [of_widths, of_gains]


def needed(n_twice: np.ndarray, width: np.ndarray, wanted: float, seed: int) -> list[float]:
    """The n_twice, interpolated, at which the mean width [n_twice, pools] falls to `wanted`, with
    its interval; NaN beyond the largest n_twice, the smallest if that suffices."""
    x = np.log(n_twice)

    def solve(mean: np.ndarray) -> np.ndarray:
        # Widths fall like a power of n_twice, hence logarithms; an unknown one is infinite.
        excess = np.where(np.isfinite(mean), np.log(mean / wanted), 1e300)
        at = np.where(excess[..., 0] <= 0, x[0], stats.first_crossing(x, excess))
        return np.exp(at)

    mean = np.array([w[np.isfinite(w)].mean() if np.isfinite(w).any() else np.nan for w in width])
    samples = solve(stats.bootstrap_means(width, seed=seed))
    at = stats.finite_or_nan(solve(mean))
    return [at, *stats.crossing_interval(samples, n_units=width.shape[-1])]


SWEEP = PartialPairing

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
