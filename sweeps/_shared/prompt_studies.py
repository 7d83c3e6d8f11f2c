"""Simulated studies of a leaderboard, and the fits of `sweeps.baselines`.

Models answer all prompts, judges see every pair in both orders, and some pairs have trusted labels.

    phi_g = s_g q + (c_g + gamma_g theta) x + favour_g,    labels: phi = q + c_labels x

theta is a model's quality, q that of its answer and x the answer's covariate. The first shown wins
with logit phi_first - phi_second + kappa_g, or ties (Davidson 1970).

The fits are one likelihood with other parameters left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jbt.estimators.any_likelihood import log_likelihood, maximise
from jbt.estimators.prediction_powered import PairSums
from jbt.simulation.simulate import stream
from jbt.types import Prior, container

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
    log_nu = jnp.broadcast_to(jnp.log(nu[..., None]), logits.shape)
    win, tie, _ = jax.nn.softmax(jnp.stack([logits / 2, log_nu, -logits / 2]), axis=0)
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
    return mean_chance((jax.nn.sigmoid(apart) * (weights / weights.sum())).sum(-1))


def mean_chance(chance: Float[Array, "M M"]) -> Float[Array, " M"]:
    """Mean over the other models of the chance that a model wins, 1/2 against itself."""
    return (chance.sum(1) - 0.5) / (len(chance) - 1)


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


# --- fits

ORDER = np.array([1.0, -1.0])[:, None]
"""[2, 1] who is shown first."""


@container
class RobustFit:
    """Estimates without the prior's pull, to first order."""

    mode: Float[Array, " P"]
    """The maximum a posteriori itself: theta, then c, kappa and the log discrimination of each
    judge."""
    estimate: Float[Array, " P"]
    covariance: Float[Array, "P P"]
    """Over prompts, each left out in turn."""
    status: Int[Array, ""]


def fit(
    study: Study, prior: Prior, n: int, *, panel: bool = False, biases: bool = True
) -> RobustFit:
    """Fit the first judge's verdicts, or those of a panel, and n labels, which have no bias.

    Args:
      panel: all judges, each with its own discrimination, the first's being 1 if there are no
        labels.
      biases: each judge has its own c and kappa.
    """
    j, m = study.won.shape[1] if panel else 1, len(study.theta)
    first, second = pairs_of(m)
    has_discrimination = panel & ((np.arange(j) > 0) | (n > 0))

    def term(beta: Array, prompt: tuple[Array, ...]) -> Array:
        difference, won, label, turn = prompt
        theta, (c, kappa, log_s) = beta[:m], beta[m:].reshape(3, j, 1, 1)
        apart = theta[first] - theta[second]
        z = jnp.exp(log_s * has_discrimination[:, None, None]) * apart
        if biases:
            z += c * difference + kappa * ORDER
        labels = jnp.where(turn < n, log_likelihood(apart, label), 0)
        return log_likelihood(z, won[:j]).sum() + labels.sum()

    prompts = study.difference, study.won, study.label, study.turn
    precision = jnp.concatenate([jnp.full(m, prior.lam), jnp.full(2 * j, prior.lam_b), jnp.ones(j)])
    top = maximise(term, prompts, precision)
    return RobustFit(top.beta, *top.unpulled(), top.status)


FITS = {
    "naive": partial(fit, biases=False),
    "bias_aware": fit,
    "judge_aware": partial(fit, panel=True),
}
"""Functions (study, prior, number of labels) -> fit."""
