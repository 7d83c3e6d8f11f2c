"""The fits that `sweeps.baselines` compares. All but one are one likelihood with other parameters
left out; derivatives are automatic, so that a fit is its likelihood alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt.own.leaderboards.davidson import log_probabilities
from jbt.types import Prior, container

from .any_likelihood import maximise
from .prompt_studies import Study, pairs_of

WEAK, FIXED = 0.01, 1e9
"""Prior precisions of Davidson's log nu, and of a parameter that is known."""
ORDER = np.array([1.0, -1.0])[:, None]
"""[2, 1] who is shown first."""


@container
class RobustFit:
    """Estimates without the prior's pull, to first order, and their covariance over prompts."""

    mode: Float[Array, " P"]
    """The maximum a posteriori itself."""
    estimate: Float[Array, " P"]
    covariance: Float[Array, "P P"]
    status: Int[Array, ""]


def robust_fit(
    likelihood: Any, study: Study, parameters: dict[str, tuple[int, Any]], theta: Any
) -> RobustFit:
    """Fit theta and further parameters; the covariance leaves out each prompt in turn (CR3, see
    `jbt.stats.row_jackknife`).

    Args:
      likelihood: (differences of theta in the pairs [K], parameters, one prompt) -> nats.
      parameters: name -> (number, prior precision).
      theta: its prior precision, a number or [M].
    """
    m = len(study.theta)
    first, second = pairs_of(m)
    sizes = {"theta": (m, theta), **parameters}
    ends = np.cumsum([n for n, _ in sizes.values()])[:-1]
    precision = jnp.concatenate([jnp.broadcast_to(p * 1.0, n) for n, p in sizes.values()])

    def term(beta: Array, _: Array, prompt: Any) -> Array:
        at = dict(zip(sizes, jnp.split(beta, ends), strict=True))
        return likelihood(at["theta"][first] - at["theta"][second], at, prompt)

    prompts = study.difference, study.won, study.label, study.turn
    top = maximise(term, prompts, jnp.zeros_like(precision), precision)
    g, eye = len(study.label), jnp.eye(len(precision))
    inverse = jnp.linalg.inv(top.information.sum(0) + jnp.diag(precision))
    left_out = eye - top.information @ inverse
    moved = jnp.linalg.solve(left_out, top.score[:, :, None])[:, :, 0] @ inverse
    pushed = eye + inverse * precision
    covariance = (g - 1) / g * pushed @ (moved.T @ moved) @ pushed.T
    return RobustFit(top.beta, pushed @ top.beta, covariance, top.status)


def _log_share(z: Array, won: Array) -> Array:
    """Log-likelihood of shares won, a tie as half a win, nats."""
    return won * jax.nn.log_sigmoid(z) + (1 - won) * jax.nn.log_sigmoid(-z)


def fit(
    study: Study,
    prior: Prior,
    n: int,
    *,
    panel: bool = False,
    biases: bool = True,
    ties: bool = False,
    scales: bool = False,
) -> RobustFit:
    """Fit the first judge's verdicts, or those of a panel, and n labels, which have no bias.

    Args:
      panel: all judges.
      biases: each judge has its own c and kappa.
      ties: have a probability of their own (Davidson 1970), nu equal for all.
      scales: each judge has its own discrimination, the first's being 1 if there are no labels.
    """
    j = study.won.shape[1] if panel else 1
    free = {"c": (j, prior.lam_b), "kappa": (j, prior.lam_b)} if biases else {}
    free |= {"log_nu": (1, WEAK)} if ties else {}
    free |= {"log_s": (j if n else j - 1, 1.0)} if scales else {}

    def likelihood(apart: Array, at: dict[str, Array], prompt: Any) -> Array:
        difference, won, label, turn = prompt
        log_s = at.get("log_s", jnp.zeros(j))
        log_s = jnp.concatenate([jnp.zeros(j - len(log_s)), log_s])
        c, kappa = (at.get(name, jnp.zeros(j))[:, None, None] for name in ("c", "kappa"))
        z = jnp.exp(log_s)[:, None, None] * apart + c * difference + kappa * ORDER
        won = won[:j]
        if ties:
            win, loss, tie = log_probabilities(z, at["log_nu"])
            return jnp.where(won == 0.5, tie, jnp.where(won == 1, win, loss)).sum()
        labels = jnp.where(turn < n, _log_share(apart, label), 0)
        return _log_share(z, won).sum() + labels.sum()

    return robust_fit(likelihood, study, free, prior.lam)


def length_controlled(study: Study, prior: Prior, n: int) -> RobustFit:
    """Every model against the first alone, with a coefficient of tanh(length) for each; prompts of
    one difficulty, as these are."""
    m = len(study.theta)
    first, second = pairs_of(m)
    against = jnp.asarray(first == 0)
    scale = study.difference.std(0, ddof=1)

    def likelihood(apart: Array, at: dict[str, Array], prompt: Any) -> Array:
        z = apart + at["c"][second] * jnp.tanh(prompt[0] / scale)
        return (_log_share(z, prompt[1][0]) * against).sum()

    theta = np.append(FIXED, np.full(m - 1, prior.lam_b))
    return robust_fit(likelihood, study, {"c": (m, prior.lam_b)}, theta)


FITS = {
    "naive": partial(fit, biases=False),
    "bias_aware": fit,
    "davidson": partial(fit, ties=True),
    "length_controlled": length_controlled,
    "joint": partial(fit, panel=True),
    "judge_aware": partial(fit, panel=True, scales=True),
}
"""Functions (study, prior, number of labels) -> fit."""
