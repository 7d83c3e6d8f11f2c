"""Simulated studies of a leaderboard: models that answer all prompts, judges that see every pair in
both orders, and trusted labels of some pairs.

    phi_g = s_g q + (c_g + gamma_g theta) x + favour_g,    labels: phi = q + c_labels x

theta is a model's quality, q that of its answer and x the answer's covariate. The first shown wins
with logit phi_first - phi_second + kappa_g, or ties (Davidson 1970).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt.estimators.prediction_powered import PairSums
from jbt.own.leaderboards.davidson import log_probabilities
from jbt.simulation.simulate import stream
from jbt.types import container

KAPPA = 0.3
"""Position bias of every judge, logits."""
BETWEEN, WITHIN = 0.8, 1.0
"""Standard deviation of the covariate's mean between models, and within a model."""


@container
class Study:
    """One study: M models, G prompts, K pairs of models, J judges."""

    theta: Float[Array, " M"]
    difference: Float[Array, "G K"]
    """x of the pair's first model less that of its second."""
    won: Float[Array, "G J 2 K"]
    """Share that the pair's first model won, shown first and shown second: 1, 1/2 or 0."""
    label: Float[Array, "G K"]
    """1 where the label would prefer the pair's first model, else 0."""
    turn: Float[Array, "G K"]
    """Place of the pair in the order in which pairs are labelled, from 0."""
    win_rate: Float[Array, " M"]
    """Truth: mean chance over prompts and other models that a label prefers the model."""


def pairs_of(n_models: int) -> np.ndarray:
    """[2, K] the models of every pair."""
    return np.array(list(itertools.combinations(range(n_models), 2))).T


def draw(
    key: Key[Array, ""],
    n_models: int,
    n_prompts: int,
    sd: float,
    sd_answers: float,
    judges: Mapping[str, Any],
) -> Study:
    """Draw a study.

    Args:
      sd, sd_answers: standard deviations of theta, and of q about theta, logits.
      judges: `discrimination`, `bias`, `interaction`, `favour`, `ties` (Davidson's nu), each [J],
        and two numbers, `label_bias` and `clear`. `favour` is added to the last model's phi; pairs
        are labelled in random order where `clear` is 0, else the clearer ones rather first.
    """
    first, second = pairs_of(n_models)
    theta = sd * jax.random.normal(stream(key, "theta"), (n_models,))
    mean = BETWEEN * jax.random.normal(stream(key, "covariate"), (n_models,))
    shape = (n_prompts, n_models)
    x = mean + WITHIN * jax.random.normal(stream(key, "answers"), shape)
    q = theta + sd_answers * jax.random.normal(stream(key, "answer_quality"), shape)
    s, c, gamma, favour, nu = (
        judges[name][:, None, None]
        for name in ("discrimination", "bias", "interaction", "favour", "ties")
    )
    last = jnp.arange(n_models) == n_models - 1
    phi = s * q + (c + gamma * theta) * x + favour * last  # [J, G, M]
    apart = phi[..., first] - phi[..., second]
    logits = jnp.stack([apart + KAPPA, apart - KAPPA], 2)  # [J, G, 2, K]
    u = jax.random.uniform(stream(key, "verdicts"), logits.shape)
    win, _, tie = jnp.exp(log_probabilities(logits, jnp.log(nu[..., None])))
    won = jnp.where(u < win, 1.0, jnp.where(u < win + tie, 0.5, 0.0))
    difference = x[:, first] - x[:, second]
    of_label = q[:, first] - q[:, second] + judges["label_bias"] * difference
    label = jax.random.bernoulli(stream(key, "labels"), jax.nn.sigmoid(of_label))
    by_chance = jax.random.uniform(stream(key, "labelled"), label.shape)
    score = by_chance - judges["clear"] * jnp.abs(of_label)
    order = score.ravel().argsort().argsort().reshape(label.shape)
    return Study(
        theta,
        difference,
        jnp.swapaxes(won, 0, 1),
        label.astype(theta.dtype),
        order.astype(theta.dtype),
        _win_rate(theta, mean, judges["label_bias"], sd_answers),
    )


def _win_rate(theta: Array, mean: Array, label_bias: Any, sd_answers: float) -> Array:
    """[M] by Gauss-Hermite quadrature over what both answers have of their own."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    centre = theta + label_bias * mean
    sd = jnp.sqrt(2 * (sd_answers**2 + (label_bias * WITHIN) ** 2))
    apart = (centre[:, None] - centre)[..., None] + sd * nodes
    chance = (jax.nn.sigmoid(apart) * (weights / weights.sum())).sum(-1)
    return (chance.sum(1) - 0.5) / (len(theta) - 1)


def pair_sums(study: Study, n_labels: int, judge: int = 0) -> PairSums:
    """Sums of one judge's verdicts and of the first labels."""
    first, second = pairs_of(len(study.theta))
    won = study.won[:, judge].mean(1)
    marked = (study.turn < n_labels).astype(won.dtype)
    one, other = (
        jax.nn.one_hot(side, len(study.theta), dtype=won.dtype) for side in (first, second)
    )

    def sums(share: Array, counted: Array) -> tuple[Array, Array]:
        return counted @ (one + other), (counted * share) @ one + (counted * (1 - share)) @ other

    judged, verdicts = sums(won, jnp.ones_like(won))
    labelled, of_judge = sums(won, marked)
    return PairSums(judged, verdicts, labelled, of_judge, sums(study.label, marked)[1])
