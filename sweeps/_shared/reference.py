"""Experiment of `two_judges`: a pool judged by a cheap judge and by a reference, and each model's
fit to both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from jbt import estimators
from jbt.estimators import reference
from jbt.estimators.reference import PLACEMENTS, Rankings
from jbt.experiments import declare
from jbt.kernel import metrics
from jbt.kernel.laplace import laplace
from jbt.planning import Z
from jbt.simulation import judges
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Judge, Pool, check_positive

from .scenario import Correlated, VaryingBias, every_verdict

JOINT = ("joint", "correlated")
"""Models of both judges with biases of their own."""
FITTED = (*JOINT, "mixed")
"""Models that use the reference's verdicts."""
ALONE = ("naive", "bias_aware")
"""Models of the cheap judge's verdicts."""
FACTORS = (
    "reference_bias",
    "reference_position",
    "reference_discrimination",
    "noise",
    "assumed_discrimination",
)
"""Properties of the reference that are varied, one at a time."""


@dataclass(frozen=True, kw_only=True)
class Settings(Correlated, VaryingBias, declare.Sweep):
    pools: int = 2048
    rho: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    n_reference: tuple[int, ...] = (0, 5, 10, 20, 30, 60, 120)
    """Verdicts of the reference (count), increasing from 0."""
    placement: tuple[str, ...] = tuple(PLACEMENTS)
    """Pairs the reference is shown, at random among: `boundary`, contents within three
    places of the boundary by either ranking of the cheap judge's verdicts; `disputed`, pairs that
    the two rankings order differently; `random`, all."""
    reference_bias: tuple[float, ...] = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
    """Biases of the reference (logits per unit), below 0 against the cheap judge's; 0 among them,
    its value while another factor is varied."""
    reference_position: tuple[float, ...] = (0.0, 0.5, 1.0)
    """Its position biases (logits), 0 among them."""
    reference_discrimination: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Factors on quality in its logits (pure number), 2 among them."""
    noise: tuple[float, ...] = (0.0, 0.1, 0.2)
    """Shares of its verdicts that are reversed, 0 among them."""
    assumed_discrimination: tuple[float, ...] = (1.0, 4.0)
    """Discriminations of the reference that the models assume, beside the true one, 2 (pure
    number)."""
    factor_placement: str = "boundary"
    """Placement while a factor of the reference is varied."""
    factor_rho: tuple[float, ...] = (0.0, 0.3, 0.5, 0.7, 0.9)
    """Correlations while a factor is varied, increasing."""
    bias: float = 1.5
    """True bias c* of the cheap judge (logits per unit)."""
    position: float = 0.35
    """Its position bias kappa* (logits)."""
    price: float = 20.0
    """Price of a verdict of the reference; one of the cheap judge costs 1. In the paper a frontier
    judge's comparison costs 10 to 100 times as much as a cheap judge's."""


PRESETS = {
    "smoke": Settings(
        pools=32,
        n_items=10,
        k=2,
        rho=(0.0, 0.6),
        n_reference=(0, 30),
        placement=("boundary",),
        reference_bias=(0.0, 1.0),
        reference_position=(0.0,),
        reference_discrimination=(2.0,),
        noise=(0.0,),
        assumed_discrimination=(),
        factor_rho=(0.0, 0.6),
    ),
    "paper": Settings(pools=30),  # as its crossings; it has no such experiment
    "full": Settings(),
}

DEFAULT = {
    "reference_bias": 0.0,
    "reference_position": 0.0,
    "reference_discrimination": 2.0,
    "noise": 0.0,
    "assumed_discrimination": 2.0,
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    s.check_grid()
    for name in ("rho", "factor_rho"):
        declare.check_increasing(name, getattr(s, name), length=2)
    if not set(s.factor_rho) <= set(s.rho):
        raise ValueError("factor_rho must be some of rho, with whose rows they are compared")
    declare.check_increasing("n_reference", s.n_reference, least=0, length=2, needed=0.0)
    for name in ("placement", "factor_placement"):
        value = getattr(s, name)
        declare.check_listed(name, [value] if isinstance(value, str) else value, list(PLACEMENTS))
    for name in ("reference_bias", "reference_position"):
        declare.check_increasing(name, getattr(s, name), needed=DEFAULT[name])
    declare.check_increasing("noise", s.noise, least=0, most=0.5, needed=0.0)
    for name in ("reference_discrimination", "assumed_discrimination"):
        for value in getattr(s, name):
            check_positive(name, value)
    declare.check_increasing("reference_discrimination", s.reference_discrimination, needed=2.0)
    declare.check_increasing("assumed_discrimination", s.assumed_discrimination, length=0)
    check_positive("price", s.price)


def scenarios(s: Settings) -> Iterator[tuple[dict[str, Any], tuple[float, ...]]]:
    """Each reference and placement with its correlations: the default reference at every placement,
    then one factor at a time. The models assume the reference's true discrimination unless the
    assumed one is varied."""
    for placement in s.placement:
        yield DEFAULT | {"placement": placement}, s.rho
    for name in FACTORS:
        for value in getattr(s, name):
            if value != DEFAULT[name]:
                changes = {"placement": s.factor_placement, name: value}
                if name == "reference_discrimination":
                    changes["assumed_discrimination"] = value
                yield DEFAULT | changes, s.factor_rho


def experiment(s: Settings) -> Experiment:
    """Experiment: the cheap judge's verdicts on every ordered pair; then, for every `n_reference`,
    verdicts of the reference and each model's fit to both."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = s.draw(key, condition, s.covariate)
        prior = s.prior
        cheap = Judge(jnp.full(1, s.bias), s.position, interaction=s.interaction)
        comparisons = every_verdict(key, pool, cheap)
        out, thetas = {}, []
        for name in ALONE:
            fit = estimators.ESTIMATORS[name](comparisons, pool.design, prior)
            thetas.append(fit.parameters.theta)
            out[f"{name}_recall"] = metrics.top_k_recall(thetas[-1], pool.quality, s.k)
            out[f"status_{name}"] = fit.status

        rankings = Rankings(pool, thetas[0], thetas[1], s.k)
        allowed = jnp.stack([place(rankings) for place in PLACEMENTS.values()])
        allowed = allowed[condition["placement_index"]]
        answers = reference_answers(key, pool, condition)

        def with_reference(n: Array) -> dict[str, Array]:
            shown = reference.asked(stream(key, "reference pairs"), allowed, n)
            answers_shown = judges.reveal(answers, shown)
            panel = reference.beside(
                comparisons, answers_shown, condition["assumed_discrimination"]
            )
            joint = reference.joint(panel, pool.design, prior)
            variant = reference.joint_variant(panel, pool.design)
            posterior = laplace(joint.parameters, panel, pool.design, prior, variant)
            covariances = {"joint": posterior.covariance()}
            correlated, covariances["correlated"] = reference.correlated(panel, pool.design, prior)
            mixed = estimators.bias_aware(
                reference.mixed(comparisons, answers_shown), pool.design, prior
            )
            results = {"asked": shown.sum()}
            for name, fit in zip(FITTED, (joint, correlated, mixed), strict=True):
                theta = fit.parameters.theta
                results[f"{name}_recall"] = metrics.top_k_recall(theta, pool.quality, s.k)
                results[f"{name}_c"] = fit.parameters.c.reshape(-1)[0]
                results[f"status_{name}"] = fit.status
            for name, covariance in covariances.items():
                half = Z * jnp.sqrt(covariance[s.n_items, s.n_items])
                results[f"{name}_c_width"] = 2 * half
                results[f"{name}_c_covered"] = jnp.abs(results[f"{name}_c"] - s.bias) <= half
            return results

        return out | jax.vmap(with_reference)(jnp.asarray(s.n_reference, comparisons.shown.dtype))

    return one


def reference_answers(key: Key[Array, ""], pool: Pool, condition: Condition) -> Array:
    """[N, N] the reference's answer to every ordered pair, True where the first shown wins."""
    judge = Judge(
        condition["reference_bias"][None],
        condition["reference_position"],
        condition["reference_discrimination"],
    )
    drawn = judges.frozen_draw(stream(key, "reference verdicts"), pool, judge)
    lot = jax.random.uniform(stream(key, "noise"), drawn.shape)
    return drawn ^ (lot < condition["noise"])
