"""The length-controlled win rate of AlpacaEval (Dubois et al. 2024), for any covariates.

Model m answers prompt x better than the common opponent b with

    logit P = theta_m + phi_m . t + psi_m gamma_x,    t = tanh(difference / sd_m),

where theta_m and psi_m are those of m less those of b, `difference` is the covariates of m's answer
less those of b's, and sd_m its standard deviation (divisor n - 1) over the verdicts on m. Its
length-controlled win rate is the mean of sigmoid(theta_m + psi_m gamma_x) over its verdicts.

gamma is estimated first, over all models together with every psi_m = 1, and then held fixed, so
that each model is a logistic regression of its own. Graded verdicts are fractional outcomes. gamma
of a prompt is not identified where fewer than two models were judged, and counts as 0 there; where
that is so on every prompt, the regressions have no psi.

The penalty is ridge: lam_b / 2 times the squares of theta, phi and psi, and lam / 2 times those of
gamma. The published one is L1, with a strength from cross-validation, and adds verdicts on the
opponent's own concise and verbose versions at a fifth of the weight, which other tables lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from jbt.own.baselines.contract import Beside, Question
from jbt.own.baselines.duels import Duels
from jbt.types import Prior

NAME = "length_controlled"

MAX_STEPS, TOLERANCE = 100, 1e-10
"""Of Newton's method; the tolerance is of the last step, in posterior standard deviations."""


def length_controlled(question: Question) -> list[Beside]:
    """Rank the models by their length-controlled win rate, for each judge.

    Raises:
      ValueError: no covariate; a judge without a common opponent, see `Duels.of`.
    """
    tables, covariates = question.tables, question.covariates
    if not covariates:
        raise ValueError(f"--beside {NAME} needs a covariate to control for (--covariates words)")
    rankings = []
    for judge in range(len(tables.judges)):
        duels = Duels.of(tables, judge, covariates, question.against, f"--beside {NAME}")
        rankings.append(_ranking(duels, tables.contents, covariates, question.prior))
    return rankings


def _ranking(
    duels: Duels, contents: Sequence[str], covariates: Sequence[str], prior: Prior
) -> Beside:
    fits = fit(duels, prior)
    models = (*(contents[c] for c in fits.models), duels.opponent)
    estimate = np.append(fits.win_rate, 0.5)
    nothing = np.full(len(models), np.nan)
    return Beside(
        name=NAME,
        quantity=f"win rate against {duels.opponent}",
        models=models,
        estimate=estimate,
        low=nothing,
        high=nothing,
        rank_low=nothing,
        rank_high=nothing,
        share=True,
    )


@dataclass(frozen=True, eq=False)
class Fits:
    """The regressions of all models."""

    models: np.ndarray
    """[M] contents."""
    beta: np.ndarray
    """[M, D + 2] theta, phi, psi; psi is 0 where no gamma is identified."""
    win_rate: np.ndarray
    """[M]"""
    gamma: np.ndarray
    """[G] difficulty of each prompt for the opponent: higher where models win."""
    identified: np.ndarray
    """[G] whether two models or more were judged on the prompt."""


def fit(duels: Duels, prior: Prior) -> Fits:
    """Fit gamma, then each model."""
    models, owner = np.unique(duels.model, return_inverse=True)
    t = scaled(duels, owner)
    pairs = np.unique(np.stack([duels.prompt, owner]), axis=1)
    identified = np.bincount(pairs[0], minlength=duels.n_prompts) > 1
    gamma = difficulty(duels, owner, t, identified, prior)
    z = np.column_stack([np.ones(len(t)), t, gamma[duels.prompt]])
    precision = np.full(z.shape[1], prior.lam_b)
    beta, rate = np.zeros((len(models), z.shape[1])), np.zeros(len(models))
    for m in range(len(models)):
        rows = owner == m
        beta[m] = _ridge(z[rows], duels.share[rows], duels.weight[rows], precision)
        beta[m, -1] *= identified.any()
        at_zero = z[rows][:, [0, -1]] @ beta[m, [0, -1]]
        rate[m] = np.average(_sigmoid(at_zero), weights=duels.weight[rows])
    return Fits(models, beta, rate, gamma, identified)


def scaled(duels: Duels, owner: np.ndarray) -> Float[np.ndarray, "R D"]:
    """tanh of the differences over each model's standard deviation; 0 where that is 0."""
    n = np.bincount(owner, duels.weight)
    t = np.zeros_like(duels.difference)
    for d, column in enumerate(duels.difference.T):
        mean = np.bincount(owner, duels.weight * column) / n
        squares = np.bincount(owner, duels.weight * (column - mean[owner]) ** 2)
        sd = np.sqrt(squares / np.maximum(n - 1, 1))[owner]
        t[:, d] = np.tanh(np.divide(column, sd, out=np.zeros_like(column), where=sd > 0))
    return t


def difficulty(
    duels: Duels, owner: np.ndarray, t: np.ndarray, identified: np.ndarray, prior: Prior
) -> Float[np.ndarray, " G"]:
    """gamma of the joint fit of all models with psi = 1; 0 where it is not identified.

    The Hessian is that of (theta, phi) bordered by a diagonal block for gamma, which is eliminated.
    """
    from scipy import sparse

    g, gamma = duels.n_prompts, np.zeros(duels.n_prompts)
    if not identified.any():
        return gamma
    n, k = len(owner), 1 + t.shape[1]
    columns = owner[:, None] * k + np.arange(k)
    values = np.column_stack([np.ones(n), t])
    rows = np.repeat(np.arange(n), k)
    x = sparse.csr_array(
        (values.ravel(), (rows, columns.ravel())), shape=(n, k * (int(owner.max()) + 1))
    )
    known = identified[duels.prompt].astype(float)
    z = sparse.csr_array((known, (np.arange(n), duels.prompt)), shape=(n, g))
    beta = np.zeros(x.shape[1])
    share, weight = duels.share, duels.weight

    def objective(beta: np.ndarray, gamma: np.ndarray) -> float:
        penalty = prior.lam_b * beta @ beta / 2 + prior.lam * gamma @ gamma / 2
        return penalty - _log_likelihood(x @ beta + z @ gamma, share, weight)

    for _ in range(MAX_STEPS):
        p = _sigmoid(x @ beta + z @ gamma)
        residual, w = weight * (share - p), weight * p * (1 - p)
        of_beta, of_gamma = x.T @ residual - prior.lam_b * beta, z.T @ residual - prior.lam * gamma
        diagonal = z.T @ w + prior.lam
        border = (x.T @ (z * w[:, None])).toarray()
        block = (x.T @ (x * w[:, None])).toarray() + prior.lam_b * np.eye(len(beta))
        reduced = block - border / diagonal @ border.T
        step = np.linalg.solve(reduced, of_beta - border @ (of_gamma / diagonal))
        step_gamma = (of_gamma - border.T @ step) / diagonal
        length = _length(
            lambda s, a=step, b=step_gamma: objective(beta + s * a, gamma + s * b)  # noqa: B023
        )
        beta, gamma = beta + length * step, gamma + length * step_gamma
        if of_beta @ step + of_gamma @ step_gamma < TOLERANCE**2:
            break
    return gamma


def _ridge(
    z: np.ndarray, share: np.ndarray, weight: np.ndarray, precision: np.ndarray
) -> Float[np.ndarray, " K"]:
    """Ridge logistic regression."""
    beta = np.zeros(z.shape[1])

    def objective(beta: np.ndarray) -> float:
        return precision @ beta**2 / 2 - _log_likelihood(z @ beta, share, weight)

    for _ in range(MAX_STEPS):
        p = _sigmoid(z @ beta)
        gradient = z.T @ (weight * (share - p)) - precision * beta
        hessian = (z.T * (weight * p * (1 - p))) @ z + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        beta = beta + _length(lambda s, a=step: objective(beta + s * a)) * step  # noqa: B023
        if gradient @ step < TOLERANCE**2:
            break
    return beta


def _length(objective: Callable[[float], float], shortest: float = 1e-4) -> float:
    """1, or the first of its halves that does not raise the objective."""
    at_start, length = objective(0.0), 1.0
    while objective(length) > at_start + 1e-12 * abs(at_start) and length > shortest:
        length /= 2
    return length


def _log_likelihood(logits: np.ndarray, share: np.ndarray, weight: np.ndarray) -> float:
    from scipy.special import log_expit

    return float(weight @ (share * log_expit(logits) + (1 - share) * log_expit(-logits)))


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    return expit(logits)
