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
from functools import partial
from itertools import product
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import estimators, stats
from jbt.acquisition import Loop, Task, View, init, rules
from jbt.acquisition.loop import look
from jbt.experiments.declare import Group, Sweep, cases, check_increasing, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, Line
from jbt.kernel.membership import DRAWS, antithetic_normals, counted, membership, sobol_normals
from jbt.simulation import judges, pairs
from jbt.simulation.simulate import stream

from ._shared.reliability import BINS, add_bins, binned, of_bins
from ._shared.scenario import Scenario
from ._shared.truths import Truth, conditions, drawn_judge

BIASED = Truth(sd=1.2, bias=1.0, position=0.0)
TRUTHS = {
    "prior": (Truth(), "all as assumed"),
    "biased": (BIASED, "as assumed, one bias"),
    "correlated": (dataclasses.replace(BIASED, rho=0.6), "quality goes with length"),
    "growing": (dataclasses.replace(BIASED, interaction=0.5), "bias grows with quality"),
}
"""Name -> where quality and biases come from, and its name in the figure."""
REFERENCE = 2**13
"""Draws that errors are measured against, from another table of normals (count)."""
FEWEST = 10
"""Fewest pools with items in a bin for the bin to have a row (count)."""
OF_BINS = ("items", "estimated", "inside")


class Cell(NamedTuple):
    """A condition."""

    truth: str
    budget: int


@dataclass(frozen=True, kw_only=True)
class Membership(Scenario, Sweep):
    """Top-k memberships against the truth, and their error by number of draws."""

    name = "membership"
    columns = ("truth", "budget", "membership", "n_samples", "bin")
    presets = {
        "smoke": {
            "pools": 32,
            "truth": ("biased",),
            "budget": (60, 120),
        },
        "paper": {"pools": 10},
        "full": {"pools": 2048},
    }
    units = {
        "estimate": "how found",
        "bin": "1 (lower end of a bin of membership)",
        "estimated": "1 (sum of memberships)",
        "inside": "count",
        "overconfidence": "1 (mean confidence minus share right)",
        "square_error": "1 (squared probability)",
        "score_kept": "1 (share of the largest score)",
    }
    panel_size = {"width": 4.6, "height": 4.2}

    truth: Annotated[tuple[str, ...], partial(check_listed, known=tuple(TRUTHS))] = tuple(TRUTHS)
    """prior: quality, c* and kappa* drawn from the prior of the fit. biased: the default scenario.
    correlated: the same with a covariate correlated with quality. growing: the default scenario
    with a bias that grows with quality."""
    budget: tuple[int, ...] = (60, 120, 320, 870)
    """Verdicts on ordered pairs drawn without replacement, increasing (count)."""

    def check(self):
        super().check()
        self.check_pools()
        most = self.n_items * (self.n_items - 1)
        check_increasing("budget", self.budget, least=1, most=most)

    def experiment(self, key, condition):
        """Verdicts on random pairs, the bias-aware posterior, and its memberships."""
        pool = self.draw(key, condition, "continuous")
        judge = judges.of_condition(drawn_judge(key, condition))
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        every = pairs.every_pair(pool)
        shown = pairs.spread_evenly(stream(key, "comparisons"), every, condition["budget"])
        comparisons = judges.reveal(oracle, shown)
        fit = estimators.bias_aware(comparisons, pool.design, self.prior)
        task, loop = Task.build(pool, oracle, prior=self.prior), Loop(k=self.k)
        state = dataclasses.replace(
            init(key, task, loop),
            comparisons=comparisons,
            parameters=fit.parameters,
            priority=jnp.arange(self.n_items, dtype=shown.dtype),
        )
        view = look(state, task, loop)
        assert isinstance(view, View)  # there is one judge
        posterior = view.posterior

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
            return estimate(posterior, self.k, pool.design.content_mask(), normals, arrange)

        exact = chances("conditional", REFERENCE, seed=1)
        p = jnp.stack([chances(*estimate) for estimate in DRAWS.items()])
        view = dataclasses.replace(view, membership=exact)
        inside = view.is_top(pool.quality)
        return {
            **jax.vmap(lambda estimate: reliability(estimate, inside))(p),
            "square_error": ((p - exact) ** 2).mean(1),
            "score_kept": jax.vmap(lambda estimate: score_kept(view, estimate))(p),
            "status_bias_aware": fit.status,
        }

    def groups(self):
        names = {"estimate": [*DRAWS]}
        metrics = ("overconfidence", "square_error", "score_kept")

        cells = cases(
            [*map(Cell._make, product(self.truth, self.budget))],
            budget=lambda cell: float(cell.budget),
        )
        truths = [TRUTHS[truth][0] for truth in cells["labels"]["truth"]]
        cells["conditions"] |= conditions(truths, self.prior)
        axes = {name: names | {"bin": BINS} for name in OF_BINS} | dict.fromkeys(metrics, names)
        return [
            Group(
                "membership",
                self.experiment,
                **cells,
                n_items=self.n_items,
                pools=self.pools,
                axes=axes,
                fits=20,
            )
        ]

    def table(self, ds, t):
        for truth, budget, (name, n) in product(self.truth, self.budget, DRAWS.items()):
            row = {"truth": truth, "budget": budget, "membership": name, "n_samples": n}
            part = where(ds, truth=truth, budget=budget).isel(condition=0).sel(estimate=name)
            square = part["square_error"].values
            mean, *interval = (np.sqrt(v) for v in stats.mean_interval(square, seed=t.seed))
            t.add("rms_error", mean, interval, len(square), **row)
            if np.isfinite(part["score_kept"].values).any():
                t.means("score_kept", part["score_kept"], **row)
            t.means("overconfidence", part["overconfidence"], **row)
            names = ("estimated", "inside", "estimated_minus_inside")
            counts = part[list(OF_BINS)].drop_vars(("truth", "budget"))
            add_bins(t, counts, names, fewest=FEWEST, **row)

    def headline(self, table):
        """All but the bins."""
        return table[table.bin.isna()]

    def panels(self, table):
        """Share inside the top k against membership, after all verdicts."""
        lines = [
            Line({"truth": truth}, label, colour)
            for (truth, (_, label)), colour in zip(TRUTHS.items(), CYCLE, strict=False)
        ]
        labels = (
            "probability of being in the top k, by the model",
            f"share truly in the top {self.k} (bars: 95 %)",
            "Wrong where quality goes with length\nor the bias grows with quality",
        )
        last = where(table, membership="counted", budget=self.budget[-1])
        return [of_bins(last, ("estimated", "inside"), lines, labels)]


def reliability(p: Float[Array, " M"], inside: Array) -> dict[str, Array]:
    """Numbers of items, sums of memberships and numbers of items in the top k, by bin [bins]; and
    mean confidence minus share right of the guess that items with p > 1/2 are in the top k."""
    guess = p > 0.5
    overconfidence = (jnp.where(guess, p, 1 - p) - (guess == inside)).mean()
    return dict(zip(OF_BINS, binned(p, inside), strict=True)) | {"overconfidence": overconfidence}


def score_kept(view: View, p: Float[Array, " M"]) -> Array:
    """Score of Eq. acq, with the view's memberships, of the pair chosen with memberships p, as a
    share of the largest score. NaN where no pair is left."""
    key = jax.random.key(0)  # unused: the rule draws nothing

    def scores(view: View) -> Array:
        return jnp.where(view.available, rules.top_k_aware(view, key), -jnp.inf).ravel()

    true = scores(view)
    asked = scores(dataclasses.replace(view, membership=p)).argmax()
    return jnp.where(view.available.any(), true[asked] / true.max(), jnp.nan)


SWEEP = Membership

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
