"""A cheap judge on every pair, and a few verdicts of a reference with better discrimination and
little bias: what remains of the crossing when both are fitted with one quality. Beyond the paper,
which names this as its next step.

    joint       both judges, one quality, the cheap one's biases free, the reference's zero
    correlated  the same, with a prior that lets quality correlate with the covariate
                (`jbt.estimators.reference.correlated`)
    mixed       all verdicts taken for one judge's, with one bias
    naive, bias_aware   the cheap judge alone
    perfect_gate   the better of these two in each pool, as an oracle would choose

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
from jbt.experiments.declare import Group, Sweep, cases, check_increasing, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, RHO_LABEL, Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges
from jbt.simulation.simulate import stream
from jbt.types import Judge, check_positive

from ._shared.rankings import both_rankings
from ._shared.scenario import Correlated, VaryingBias, every_verdict

JOINT = ("joint", "correlated")
"""Models of both judges with biases of their own."""
FITTED = (*JOINT, "mixed")
"""Models that use the reference's verdicts."""
ALONE = ("naive", "bias_aware")
"""Models of the cheap judge's verdicts."""
LABELS = {
    "reference_bias": "bias {:g} logits",
    "reference_position": "prefers the first by {:g}",
    "reference_discrimination": "discrimination {:g}",
    "noise": "{:.0%} of verdicts reversed",
    "assumed_discrimination": "assumed discrimination {:g}",
}
"""Properties of the reference that are varied, one at a time, as the figure names them."""
PLACES = {"boundary": "near the boundary", "disputed": "disputed", "random": "random"}
"""Placement -> its name in the figure."""
BOUNDARY = "boundary"
"""Placement while a factor of the reference is varied."""
PRIORS = {"joint": "the paper's prior", "correlated": "prior with correlation"}
"""Model of both judges -> its name in the figure."""


class Cell(NamedTuple):
    """A condition."""

    rho: float
    placement: str
    reference_bias: float = 0.0
    reference_position: float = 0.0
    reference_discrimination: float = 2.0
    noise: float = 0.0
    assumed_discrimination: float = 2.0


DEFAULT = Cell._field_defaults


@dataclass(frozen=True, kw_only=True)
class TwoJudges(Correlated, VaryingBias, Sweep):
    """A few verdicts of a trusted reference beside a cheap judge's: recall and crossings."""

    name = "two_judges"
    columns = ("rho", "model", "placement", "n_reference", *LABELS)
    presets = {
        "smoke": {
            "pools": 32,
            "n_items": 10,
            "k": 2,
            "rho": (0.0, 0.6),
            "n_reference": (0, 30),
            "placement": ("boundary",),
            "reference_bias": (0.0, 1.0),
            "noise": (0.0,),
            "reference_position": (0.0,),
            "reference_discrimination": (2.0,),
            "assumed_discrimination": (),
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
    rho: Annotated[tuple[float, ...], partial(check_increasing, length=2)] = (
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
    n_reference: Annotated[
        tuple[int, ...], partial(check_increasing, least=0, length=2, needed=0.0)
    ] = (
        0,
        5,
        10,
        20,
        30,
        60,
        120,
    )
    """Verdicts of the reference (count), increasing from 0."""
    placement: tuple[str, ...] = tuple(PLACEMENTS)
    """Pairs the reference is shown, at random among: `boundary`, contents within three
    places of the boundary by either ranking of the cheap judge's verdicts; `disputed`, pairs that
    the two rankings order differently; `random`, all."""
    reference_bias: Annotated[tuple[float, ...], partial(check_increasing, needed=0.0)] = (
        -1.0,
        -0.5,
        -0.25,
        0.0,
        0.25,
        0.5,
        1.0,
    )
    """Biases of the reference (logits per unit), below 0 against the cheap judge's; 0 among them,
    its value while another factor is varied."""
    reference_position: Annotated[tuple[float, ...], partial(check_increasing, needed=0.0)] = (
        0.0,
        0.5,
        1.0,
    )
    """Its position biases (logits), 0 among them."""
    reference_discrimination: Annotated[
        tuple[float, ...], partial(check_increasing, needed=2.0)
    ] = (
        0.5,
        1.0,
        2.0,
    )
    """Factors on quality in its logits (pure number), 2 among them."""
    noise: Annotated[
        tuple[float, ...], partial(check_increasing, least=0, most=0.5, needed=0.0)
    ] = (
        0.0,
        0.1,
        0.2,
    )
    """Shares of its verdicts that are reversed, 0 among them."""
    assumed_discrimination: Annotated[tuple[float, ...], partial(check_increasing, length=0)] = (
        1.0,
        4.0,
    )
    """Discriminations of the reference that the models assume, beside the true one, 2 (pure
    number)."""
    factor_rho: Annotated[tuple[float, ...], partial(check_increasing, length=2)] = (
        0.0,
        0.3,
        0.5,
        0.7,
        0.9,
    )
    """Correlations while a factor is varied, increasing."""
    bias: float = 1.5
    """True bias c* of the cheap judge (logits per unit)."""
    position: float = 0.35
    """Its position bias kappa* (logits)."""

    def check(self):
        super().check()
        self.check_grid()
        if not set(self.factor_rho) <= set(self.rho):
            raise ValueError("factor_rho must be some of rho, with whose rows they are compared")
        check_listed("placement", self.placement, list(PLACEMENTS))
        for name in ("reference_discrimination", "assumed_discrimination"):
            for value in getattr(self, name):
                check_positive(name, value)

    @property
    def varied(self) -> list[tuple[str, float]]:
        """Each factor with each of its values that is not the default's."""
        return [(n, v) for n in LABELS for v in getattr(self, n) if v != DEFAULT[n]]

    def varying(self, name: str, value: float) -> dict[str, Any]:
        """The reference with one factor varied. The models assume its true discrimination unless
        the assumed one is varied."""
        changes = {"placement": BOUNDARY, name: value}
        if name == "reference_discrimination":
            changes["assumed_discrimination"] = value
        return DEFAULT | changes

    @property
    def scenarios(self) -> list[tuple[dict[str, Any], tuple[float, ...]]]:
        """Each reference and placement with its correlations: the default reference at every
        placement, then one factor at a time."""
        default = [({**DEFAULT, "placement": place}, self.rho) for place in self.placement]
        return default + [(self.varying(*factor), self.factor_rho) for factor in self.varied]

    def experiment(self, key, condition):
        """The cheap judge's verdicts on every ordered pair; then, for every `n_reference`, verdicts
        of the reference and each model's fit to both."""
        pool, prior = self.draw(key, condition, self.covariate), self.prior
        cheap = Judge(jnp.full(1, self.bias), self.position, interaction=self.interaction)
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
                comparisons, answers_shown, condition["assumed_discrimination"]
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
            [Cell(rho=rho, **scenario) for scenario, grid in self.scenarios for rho in grid],
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
        models = {"naive": naive, "bias_aware": aware, "perfect_gate": np.maximum(naive, aware)}
        for model, recall in models.items():
            row = {"model": model, "n_reference": 0}
            t.means("recall", recall, **row)
            if model != "naive":
                t.means("benefit", recall - naive, **row)
            if model == "bias_aware":
                t.crossing(recall - naive, **row)
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
        """Recall of the default reference, its crossings, and all worst margins."""
        default = (table[[*DEFAULT]].isna() | (table[[*DEFAULT]] == DEFAULT)).all(axis=1)
        numbers = table.n_reference.fillna(0).isin([0, 30, 60])
        at = table.rho.isin([self.rho[0], 0.3, 0.5, 0.7, self.rho[-1]])
        recall = (table.quantity == "recall") & default & at
        crossing = (table.quantity == "crossing") & default
        return table[numbers & (recall | crossing | (table.quantity == "worst_margin"))]

    def panels(self, table):
        """Benefit along rho; worst margin against verdicts of the reference; references of other
        kinds; the cheap judge's estimated bias, which without a reference follows the
        correlation."""
        import pandas as pd

        model, place = JOINT[-1], self.placement[0]
        numbers = [n for n in self.n_reference if n]
        shown, rho = numbers[1::2] or numbers, self.factor_rho[len(self.factor_rho) // 2]

        def of(label: str, colour: str, ls: str = "-", **rows: Any) -> Line:
            rows = {**DEFAULT, "placement": place, "model": model, **rows}
            return Line(rows, label, colour, {"linestyle": ls})

        label = "{} verdicts of a reference"
        benefit = [
            of(label.format(n), str(0.6 * (1 - i / len(shown))), n_reference=n)
            for i, n in enumerate(shown)
        ]
        last: dict[str, Any] = {"n_reference": shown[-1]}
        alone: dict[str, Any] = {"n_reference": 0}
        gate = {"model": "perfect_gate", **alone}
        benefit += [
            of(f"{shown[-1]}, taken for the cheap judge's", "orange", model="mixed", **last),
            Line({"model": "bias_aware", **alone}, "no reference, corrected", "blue"),
            Line(gate, "no reference, perfect gate", "green", {"ls": "--"}),
        ]
        margins = [
            of(f"{PLACES[place]}, {PRIORS[name]}", colour, ls, placement=place, model=name)
            for name, ls in zip(JOINT, ("--", "-"), strict=True)
            for place, colour in zip(self.placement, CYCLE, strict=False)
        ]
        biases = [of("no reference", "blue", model="joint", **alone)]
        biases += [
            of(f"{shown[-1]} verdicts, {PRIORS[name]}", colour, model=name, **last)
            for name, colour in zip(JOINT, ("orange", "green"), strict=True)
        ]
        kinds = {"as in the other panels": DEFAULT | {"placement": BOUNDARY}}
        kinds |= {LABELS[n].format(v): self.varying(n, v) for n, v in self.varied}
        at_rho = where(table, quantity="recall", rho=rho)
        of_kinds = [where(at_rho, **kind).assign(kind=name) for name, kind in kinds.items()]
        references = [
            Line({"n_reference": n}, label.format(n), colour, joined=False, shift=shift)
            for n, colour, shift in zip(numbers[-2:], ("sky", "blue"), (-0.15, 0.15), strict=False)
        ]

        def without_reference(ax):
            ax.grid(axis="x", alpha=0.3)
            for name, ls, corrected in (("naive", ":", "not "), ("bias_aware", "--", "")):
                value = where(at_rho, **alone, model=name).estimate.iloc[0]
                style = {"color": "black", "ls": ls, "lw": 1}
                ax.axvline(value, label=f"no reference, {corrected}corrected", **style)

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
                legend=8,
                level=0.0,
                sides=("helps", "hurts"),
                sides_end="left",
            ),
            Panel(
                "n_reference",
                {"quantity": "worst_margin"},
                margins,
                (
                    "verdicts of the reference",
                    "least gain over the better of correcting\nand not, at any correlation (95 %)",
                    "With a prior with correlation, enough verdicts\nhelp at every correlation",
                ),
                legend=8,
                level=0.0,
                sides=("helps", "hurts"),
                after=lambda ax: ax.set_xlim(right=1.2 * max(self.n_reference)),
            ),
            Panel(
                "kind",
                {"model": model},
                references,
                (
                    f"share of the true top {self.k} found\n(correlation {rho:g}; 95 % over pools)",
                    "",
                    "Imperfect references help too",
                ),
                legend={"fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.5, -0.2)},
                names=[*kinds],
                name_style={"fontsize": 8},
                down=True,
                after=without_reference,
                table=pd.concat(of_kinds),
            ),
            Panel(
                "rho",
                {"quantity": "c_hat"},
                biases,
                (
                    RHO_LABEL,
                    "estimated bias of the cheap judge\n(logits; 95 % over pools)",
                    "A prior with correlation comes near\nthe true bias at every correlation",
                ),
                legend=8,
                after=lambda ax: ax.axhline(self.bias, color="black", ls=":", label="truth"),
            ),
        ]


SWEEP = TwoJudges

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
