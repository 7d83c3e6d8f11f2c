"""The estimators that `sweeps.baselines` compares, each as a log-likelihood of a prompt; the last
argument of each is the number of labels that it has."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jbt.types import Prior

from .prompt_studies import Study, pairs_of
from .robust_fit import STEPS, RobustFit, robust_fit

WEAK, FIXED = 0.01, 1e9
"""Prior precisions of Davidson's log nu, and of a parameter that is known."""


def _log_share(z: Array, won: Array) -> Array:
    """Log-likelihood of shares won, a tie as half a win, nats."""
    return won * jax.nn.log_sigmoid(z) + (1 - won) * jax.nn.log_sigmoid(-z)


ORDER = np.array([1.0, -1.0])[:, None]
"""[2, 1] who is shown first."""


def _fit(
    study: Study,
    prior: Prior,
    likelihood: Any,
    extra: dict[str, tuple[int, Any]],
    of_theta: np.ndarray | None = None,
    steps: int = STEPS,
) -> RobustFit:
    """Fit theta and further parameters.

    Args:
      likelihood: (differences of theta in the pairs [K], parameters, one prompt) -> nats.
      extra: further parameters, name -> (number, prior precision).
      of_theta: prior precision of theta [M], default lam.
      steps: of Newton's method.
    """
    first, second = pairs_of(len(study.theta))
    ends = np.cumsum([len(study.theta), *(n for n, _ in extra.values())])

    def log_likelihood(beta: Array, prompt: Any) -> Array:
        theta, *parts = jnp.split(beta, ends[:-1])
        apart = theta[first] - theta[second]
        return likelihood(apart, dict(zip(extra, parts, strict=True)), prompt)

    of_theta = np.full(len(study.theta), prior.lam) if of_theta is None else of_theta
    precision = np.concatenate([of_theta, *(np.full(n, p) for n, p in extra.values())])
    prompts = study.difference, study.won, study.label, study.turn
    return robust_fit(log_likelihood, prompts, jnp.zeros(ends[-1]), jnp.asarray(precision), steps)


def naive(study: Study, prior: Prior, n: int) -> RobustFit:
    """c = kappa = 0."""

    def likelihood(apart: Array, _: Any, prompt: Any) -> Array:
        return _log_share(apart, prompt[1][0]).sum()

    return _fit(study, prior, likelihood, {})


def bias_aware(study: Study, prior: Prior, n: int) -> RobustFit:
    """The corrected leaderboard."""

    def likelihood(apart: Array, at: Any, prompt: Any) -> Array:
        z = apart + at["c"] * prompt[0] + at["kappa"] * ORDER
        return _log_share(z, prompt[1][0]).sum()

    return _fit(study, prior, likelihood, {"c": (1, prior.lam_b), "kappa": (1, prior.lam_b)})


def davidson(study: Study, prior: Prior, n: int) -> RobustFit:
    """Ties with a probability of their own (Davidson 1970)."""

    def likelihood(apart: Array, at: Any, prompt: Any) -> Array:
        z = apart + at["c"] * prompt[0] + at["kappa"] * ORDER
        chances = jnp.stack([z / 2, -z / 2, jnp.broadcast_to(at["log_nu"], z.shape)])
        won, (win, loss, tie) = prompt[1][0], jax.nn.log_softmax(chances, axis=0)
        return jnp.where(won == 0.5, tie, jnp.where(won == 1, win, loss)).sum()

    extra = {"c": (1, prior.lam_b), "kappa": (1, prior.lam_b), "log_nu": (1, WEAK)}
    return _fit(study, prior, likelihood, extra, steps=2 * STEPS)  # log nu of no tie is far away


def length_controlled(study: Study, prior: Prior, n: int) -> RobustFit:
    """Every model against the first alone, with a coefficient of tanh(length) for each; prompts of
    one difficulty, as these are."""
    first, second = pairs_of(len(study.theta))
    against = jnp.asarray(first == 0)
    scale = study.difference.std(0, ddof=1)

    def likelihood(apart: Array, at: Any, prompt: Any) -> Array:
        z = apart + at["c"][second] * jnp.tanh(prompt[0] / scale)
        return (_log_share(z, prompt[1][0]) * against).sum()

    of_theta = np.append(FIXED, np.full(len(study.theta) - 1, prior.lam_b))
    return _fit(study, prior, likelihood, {"c": (len(study.theta), prior.lam_b)}, of_theta)


def joint(study: Study, prior: Prior, n: int) -> RobustFit:
    """All judges, each with its own c and kappa."""

    def likelihood(apart: Array, at: Any, prompt: Any) -> Array:
        z = apart + at["c"][:, None, None] * prompt[0] + at["kappa"][:, None, None] * ORDER
        return _log_share(z, prompt[1]).sum()

    j = study.won.shape[1]
    return _fit(study, prior, likelihood, {"c": (j, prior.lam_b), "kappa": (j, prior.lam_b)})


def judge_aware(study: Study, prior: Prior, n: int) -> RobustFit:
    """All judges, each with its own discrimination, c and kappa; and n labels, without bias."""
    j = study.won.shape[1]

    def likelihood(apart: Array, at: Any, prompt: Any) -> Array:
        difference, won, label, turn = prompt
        s = jnp.exp(at["log_s"] if n else jnp.append(0.0, at["log_s"]))
        z = s[:, None, None] * apart + at["c"][:, None, None] * difference
        of_judges = _log_share(z + at["kappa"][:, None, None] * ORDER, won).sum()
        return of_judges + jnp.where(turn < n, _log_share(apart, label), 0).sum()

    extra = {"c": (j, prior.lam_b), "kappa": (j, prior.lam_b), "log_s": (j if n else j - 1, 1.0)}
    return _fit(study, prior, likelihood, extra, steps=2 * STEPS)


FITS = {
    "naive": naive,
    "bias_aware": bias_aware,
    "davidson": davidson,
    "length_controlled": length_controlled,
    "joint": joint,
    "judge_aware": judge_aware,
}
