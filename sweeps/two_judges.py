"""A cheap judge on every pair, and a few verdicts of a reference with better discrimination and
little bias: what remains of the crossing when both are fitted with one quality. Beyond the paper,
which names this as its next step.

    joint       both judges, one quality, the cheap one's biases free, the reference's zero
    correlated  the same, with a prior that lets quality correlate with the covariate
                (`jbt.estimators.reference.correlated`)
    mixed       all verdicts taken for one judge's, with one bias
    naive, bias_aware   the cheap judge alone

The reference answers each ordered pair at most once. Where it is biased itself, `joint` still
assumes that it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jbt import estimators, stats
from jbt.estimators import reference
from jbt.estimators.reference import PLACEMENTS
from jbt.experiments.declare import Group, Sweep, cases, check_increasing
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import RHO_LABEL, Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges
from jbt.simulation.simulate import stream
from jbt.types import Judge

from ._shared.rankings import both_rankings
from ._shared.scenario import Correlated, VaryingBias, every_verdict

FITTED = ("joint", "correlated", "mixed")
"""Models that use the reference's verdicts."""
ALONE = ("naive", "bias_aware")
"""Models of the cheap judge's verdicts."""
BIAS, POSITION = 1.5, 0.35
"""True biases c* and kappa* of the cheap judge (logits)."""
DISCRIMINATION = 2.0
"""Factor on quality in the logits of the reference (pure number); the models assume the true
one."""
VARIED = {
    "reference_bias": (-1.0, 1.0),
    "reference_position": (1.0,),
    "reference_discrimination": (0.5, 1.0),
    "noise": (0.1,),
}
"""Property of the reference -> its values in place of the default's, one at a time: its bias
(logits per unit, below 0 against the cheap judge's), its position bias (logits), its
discrimination, and the share of its verdicts that are reversed."""


class Cell(NamedTuple):
    """A condition."""

    rho: float
    placement: str = "boundary"
    reference_bias: float = 0.0
    reference_position: float = 0.0
    reference_discrimination: float = DISCRIMINATION
    noise: float = 0.0


DEFAULT = Cell._field_defaults


@dataclass(frozen=True, kw_only=True)
class TwoJudges(Correlated, VaryingBias, Sweep):
    """A few verdicts of a trusted reference beside a cheap judge's: recall and crossings."""

    name = "two_judges"
    columns = ("rho", "model", "placement", "n_reference", *VARIED)
    presets = {
        "smoke": {
            "pools": 32,
            "n_items": 10,
            "k": 2,
            "rho": (0.0, 0.6),
            "n_reference": (0, 30),
            "factor_rho": (0.0, 0.6),
        },
        "paper": {"pools": 30},  # as its crossings; it has no such experiment
    }
    units = {
        "noise": "share of verdicts",
        "n_reference": "verdicts",
    }
    panel_size = {"height": 4.4}

    pools: int = 2048
    rho: tuple[float, ...] = (
        0.0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
    )
    n_reference: Annotated[tuple[int, ...], partial(check_increasing, least=0)] = (
        0,
        5,
        10,
        20,
        30,
        60,
        120,
    )
    """Verdicts of the reference (count), increasing from 0."""
    factor_rho: tuple[float, ...] = (
        0.0,
        0.3,
        0.5,
        0.7,
        0.9,
    )
    """Correlations while a property of the reference is varied, increasing."""

    def check(self):
        super().check()
        self.check_grid()

    @property
    def scenarios(self) -> list[tuple[dict[str, Any], tuple[float, ...]]]:
        """Each reference and placement with its correlations: the default reference on all pairs,
        on those within three places of the boundary by either ranking of the cheap judge's
        verdicts, and on those that the two rankings order differently; then others."""
        placed = [(DEFAULT | {"placement": place}, self.rho) for place in PLACEMENTS]
        others = [(name, value) for name, values in VARIED.items() for value in values]
        return placed + [(DEFAULT | {name: value}, self.factor_rho) for name, value in others]

    def experiment(self, key, condition):
        """The cheap judge's verdicts on every ordered pair; then, for every `n_reference`, verdicts
        of the reference and each model's fit to both."""
        pool, prior = self.draw(key, condition, self.covariate), self.prior
        cheap = Judge(jnp.full(1, BIAS), POSITION, interaction=self.interaction)
        comparisons = every_verdict(key, pool, cheap)

        def recall(theta: Array) -> Array:
            return metrics.top_k_recall(theta, pool.quality, self.k)

        rankings, out = both_rankings(pool, comparisons, prior, self.k)
        out |= {f"{name}_recall": recall(getattr(rankings, name)) for name in ALONE}
        allowed = jnp.stack([place(rankings) for place in PLACEMENTS.values()])
        allowed = allowed[condition["placement_index"]]
        trusted = Judge(
            condition["reference_bias"][None],
            condition["reference_position"],
            condition["reference_discrimination"],
        )
        drawn = judges.frozen_draw(stream(key, "reference verdicts"), pool, trusted)
        reversed_ = jax.random.uniform(stream(key, "noise"), drawn.shape) < condition["noise"]
        answers = drawn ^ reversed_

        def with_reference(n: Array) -> dict[str, Array]:
            shown = reference.asked(stream(key, "reference pairs"), allowed, n)
            answers_shown = judges.reveal(answers, shown)
            panel = reference.beside(
                comparisons, answers_shown, condition["reference_discrimination"]
            )
            joint = reference.joint(panel, pool.design, prior)
            correlated, _ = reference.correlated(panel, pool.design, prior)
            both = reference.mixed(comparisons, answers_shown)
            mixed = estimators.bias_aware(both, pool.design, prior)
            results = {}
            for name, fit in zip(FITTED, (joint, correlated, mixed), strict=True):
                results[f"{name}_recall"] = recall(fit.parameters.theta)
                results[f"{name}_c"] = fit.parameters.c.ravel()[0]
                results[f"status_{name}"] = fit.status
            return results

        n_reference = jnp.asarray(self.n_reference, comparisons.shown.dtype)
        return out | jax.vmap(with_reference)(n_reference)

    def groups(self):
        conditions = cases(
            [Cell(rho, **scenario) for scenario, grid in self.scenarios for rho in grid],
            placement_index=lambda cell: [*PLACEMENTS].index(cell.placement),
        )
        several = [f"status_{name}" for name in FITTED]
        several += [f"{name}_{what}" for name in FITTED for what in ("recall", "c")]
        by_number = {"n_reference": self.n_reference}
        return [
            Group(
                "two_judges",
                self.experiment,
                **conditions,
                n_items=self.n_items,
                pools=self.pools,
                axes=dict.fromkeys(several, by_number),
                fits=2 + 3 * len(self.n_reference),
            )
        ]

    def table(self, ds, t):
        scenarios = [scenario for scenario, _ in self.scenarios]
        # The cheap judge alone does not depend on the reference.
        alone = where(ds, **scenarios[0]).swap_dims(condition="rho").drop_vars([*scenarios[0]])
        naive, aware = (alone[f"{model}_recall"] for model in ALONE)
        for model, recall in zip(ALONE, (naive, aware), strict=True):
            t.means("recall", recall, model=model, n_reference=0)
        t.means("benefit", aware - naive, model="bias_aware", n_reference=0)
        t.crossing(aware - naive, model="bias_aware", n_reference=0)
        for scenario in scenarios:
            part = where(ds, **scenario).swap_dims(condition="rho")
            naive, aware = (part[f"{model}_recall"] for model in ALONE)
            for model in FITTED:
                recall = part[f"{model}_recall"]
                t.means("recall", recall, model=model)
                t.means("benefit", recall - naive, model=model)
                t.means("c_hat", part[f"{model}_c"], model=model)
                for n in self.n_reference:
                    row, of_n = {**scenario, "model": model}, recall.sel(n_reference=n)
                    t.crossing(of_n - naive, **row)
                    # Above 0 if both are beaten at every correlation.
                    ahead = np.stack([of_n - naive, of_n - aware])  # [2, rho, pool]
                    worst = stats.bootstrap_means(ahead, seed=t.seed).min((1, 2))
                    n_pools, least = ahead.shape[-1], float(ahead.mean(-1).min())
                    interval = stats.percentiles(worst, n_units=n_pools)
                    t.add("worst_margin", least, interval, n_pools, n_reference=n, **row)

    def headline(self, table):
        """Crossings and worst margins without a reference and with 30 verdicts."""
        return where(table, quantity=["crossing", "worst_margin"], n_reference=[0, 30])

    def panels(self, table):
        """Benefit and the cheap judge's estimated bias along rho; without a reference this follows
        the correlation."""

        def of(model: str, n: int, label: str, colour: str) -> Line:
            return Line({**DEFAULT, "model": model, "n_reference": n}, label, colour)

        shown = [n for n in self.n_reference if n][1::2] or self.n_reference[1:]
        last, alone = shown[-1], {"model": "bias_aware", "n_reference": 0}
        benefit = [
            of("correlated", n, f"{n} verdicts of a reference", str(0.6 * (1 - i / len(shown))))
            for i, n in enumerate(shown)
        ]
        benefit += [
            of("mixed", last, f"{last}, taken for the cheap judge's", "orange"),
            Line(alone, "no reference, corrected", "blue"),
        ]
        biases = [
            of("joint", 0, "no reference", "blue"),
            of("joint", last, "the paper's prior", "orange"),
            of("correlated", last, "prior with correlation", "green"),
        ]
        return [
            Panel(
                "rho",
                {"quantity": "benefit"},
                benefit,
                (
                    RHO_LABEL,
                    f"share of the true top {self.k} found: minus\nthat without correction (95 %)",
                    "A few verdicts of a modelled reference\ndelay or remove the crossing",
                ),
                level=0.0,
            ),
            Panel(
                "rho",
                {"quantity": "c_hat"},
                biases,
                (
                    RHO_LABEL,
                    f"estimated bias of the cheap judge, {last} verdicts\n"
                    "(logits; 95 % over pools; line: truth)",
                    "A prior with correlation comes near\nthe true bias at every correlation",
                ),
                level=BIAS,
            ),
        ]


SWEEP = TwoJudges

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
