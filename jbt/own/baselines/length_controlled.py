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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from jbt.border.report import counted
from jbt.own.baselines.contract import Beside, Question
from jbt.own.baselines.duels import Duels
from jbt.own.baselines.ridge import (
    MAX_STEPS,
    TOLERANCE,
    log_likelihood,
    moved,
    ridge,
    sigmoid,
)
from jbt.own.baselines.win_rate_intervals import FEWEST_PROMPTS, WinRate, plausible_ranks
from jbt.stats import FEWEST
from jbt.types import Prior

NAME = "length_controlled"


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
    fits, opponent = fit(duels, prior), duels.opponent
    models = (*[contents[int(c)] for c in fits.models], opponent)
    rates = [*fits.rates, WinRate.of_opponent(duels.n_prompts)]
    low, high = np.array([rate.interval() for rate in rates]).T
    rank_low, rank_high = plausible_ranks(rates)
    names = " and ".join(covariates)
    return Beside(
        name=NAME,
        quantity=f"win rate against {opponent}",
        models=models,
        estimate=np.array([rate.estimate for rate in rates]),
        low=low,
        high=high,
        rank_low=rank_low,
        rank_high=rank_high,
        share=True,
        reading=(
            f"length controlled: win rate against {opponent} at equal {names}, by a logistic "
            "regression for each model on tanh of the difference over its standard deviation and "
            "on the prompt's difficulty, estimated first (Dubois et al. 2024, with a ridge penalty "
            "for their L1); position and --transform play no part",
        ),
        notes=tuple(_notes(duels, fits, models)),
        details={
            "opponent": opponent,
            "coefficients": [
                {"model": contents[c], "theta": b[0], "phi": b[1:-1], "psi": b[-1]}
                for c, b in zip(fits.models.tolist(), fits.beta.tolist(), strict=True)
            ],
        },
    )


def _notes(duels: Duels, fits: Fits, models: Sequence[str]) -> Iterator[str]:
    if duels.n_others:
        yield (
            f"length controlled: {counted(duels.n_others, 'verdict')} without {duels.opponent} "
            "left out"
        )
    n, g = int((~fits.identified).sum()), duels.n_prompts
    if n == g:
        yield (
            "length controlled: the prompts' difficulties are not identified, as no prompt has "
            "verdicts on two models: left out"
        )
    elif n:
        yield (
            f"length controlled: the difficulty of {n} of {g} prompts is not identified (verdicts "
            "on fewer than two models) and taken as average"
        )
    unknown = [name for name, rate in zip(models, fits.rates, strict=False) if not rate.known]
    if unknown:
        yield (
            f"length controlled: no interval for {', '.join(unknown)}: fewer than "
            f"{FEWEST_PROMPTS} prompts, or than {FEWEST} wins or losses"
        )


@dataclass(frozen=True, eq=False)
class Fits:
    """The regressions of all models."""

    models: np.ndarray
    """[M] contents."""
    beta: np.ndarray
    """[M, D + 2] theta, phi, psi; psi is 0 where no gamma is identified."""
    rates: list[WinRate]
    """M length-controlled win rates."""
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
    controlled = z.copy()
    controlled[:, 1:-1] = 0
    precision = np.full(z.shape[1], prior.lam_b)
    beta, rates = np.zeros((len(models), z.shape[1])), []
    for m in range(len(models)):
        rows = owner == m
        outcomes = duels.share[rows], duels.weight[rows], precision
        beta[m] = ridge(z[rows], *outcomes)
        at = duels.prompt[rows], duels.n_prompts
        rates.append(WinRate.of(beta[m], z[rows], controlled[rows], *outcomes, *at))
    return Fits(models, beta, rates, gamma, identified)


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

    g = duels.n_prompts
    if not identified.any():
        return np.zeros(g)
    n, k, share, weight = len(owner), 1 + t.shape[1], duels.share, duels.weight
    columns = owner[:, None] * k + np.arange(k)
    values = np.column_stack([np.ones(n), t])
    place, last = (np.repeat(np.arange(n), k), columns.ravel()), k * (int(owner.max()) + 1)
    x = sparse.csr_array((values.ravel(), place), shape=(n, last))
    known = identified[duels.prompt].astype(float)
    z = sparse.csr_array((known, (np.arange(n), duels.prompt)), shape=(n, g))
    both = sparse.hstack([x, z], format="csr")
    precision = np.r_[np.full(last, prior.lam_b), np.full(g, prior.lam)]

    def objective(beta: np.ndarray) -> float:
        return float(precision @ beta**2 / 2 - log_likelihood(both @ beta, share, weight))

    beta = np.zeros(len(precision))
    for _ in range(MAX_STEPS):
        p = sigmoid(both @ beta)
        gradient = both.T @ (weight * (share - p)) - precision * beta
        w = sparse.diags_array(weight * p * (1 - p))
        diagonal = z.T @ w.diagonal() + prior.lam
        border = (x.T @ w @ z).toarray()
        block = (x.T @ w @ x).toarray() + prior.lam_b * np.eye(last)
        scaled_border = border / diagonal
        right = gradient[:last] - scaled_border @ gradient[last:]
        step = np.linalg.solve(block - scaled_border @ border.T, right)
        step = np.r_[step, gradient[last:] / diagonal - scaled_border.T @ step]
        beta = moved(objective, beta, step)
        if gradient @ step < TOLERANCE**2:
            break
    return np.asarray(beta)[last:]
