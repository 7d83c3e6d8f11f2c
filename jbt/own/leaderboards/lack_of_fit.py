"""Whether a leaderboard's model describes a judge's verdicts: Bradley-Terry with one quality a
model, c times the covariates, and a position bias.

What the model leaves out is tested (`stats.score_tests`): that a model's answers differ in quality
from prompt to prompt, by draws of independent verdicts; and, where verdicts on a prompt may depend
on each other, by signs of whole prompts: that pairs of models deviate from what their qualities say
(as cycles do), that c differs between models, and that the effect of a covariate is not linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jbt.border.report import each
from jbt.own.leaderboards.problem import Fitted
from jbt.stats.score_tests import DRAWS, ROUNDING, Residuals, contrast, grouped, part
from jbt.types import Status

FEWEST_PROMPTS = 15
"""Fewest prompts: with 10, that c differs between models is found in .10 of simulated studies (at
.05) where it does not."""

ALPHA = 0.05
"""Level of all tests of a leaderboard together (Bonferroni)."""

QUALITY, PAIRS = "quality of a model between prompts", "pairs of models"

MEANING = {
    QUALITY: "verdicts on a prompt depend on each other, which intervals allow for",
    PAIRS: (
        "some models win against others more often than one quality for each allows, or models "
        "differ in c or in how much their answers vary; theta is then an average over the "
        "opponents that a model met"
    ),
    "c[": (
        "theta is not at equal covariates: some models have another c, or the quality of "
        "their answers varies more"
    ),
    "curvature": "the effect is not linear; another --transform may fit (--robust ranks by each)",
}
"""Beginning of an effect's name -> what it means that it is left out."""


def untested(fit: Fitted) -> str:
    """Where a judge's leaderboard is not tested, in words; empty if it is."""
    if fit.status != Status.CONVERGED:
        return "the likelihood has no maximum"
    if not fit.bradley_terry:
        return "there is no test with Davidson's ties"
    few = fit.problem.n_clusters < FEWEST_PROMPTS
    return f"there are fewer than {FEWEST_PROMPTS} prompts" * few


def lack_of_fit(fit: Fitted, covariates: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """Test what a leaderboard's model leaves out.

    Args:
      fit: of one judge, Bradley-Terry's.
      covariates: [D] names.
      seed: of the draws, and of the part of the prompts that is tested.

    Returns:
      A row for each test: effect (in words), p. None where `untested` says why, or where the model
      has the effect (as a cycle of two models).
    """
    from scipy import sparse, special

    problem, rng = fit.problem, np.random.default_rng(seed)
    if untested(fit):
        return pd.DataFrame({"effect": [], "p": []})
    rows, m = problem.rows, problem.n_contents
    kept = part(problem.source, rows.shown, rng)
    models, shown, wins = (
        np.stack([rows.first, rows.second])[:, kept],
        rows.shown[kept],
        rows.wins[kept],
    )
    biases = rows.columns[kept] * problem.free[m:]
    x = sparse.hstack([contrast(models), sparse.csr_array(biases)])
    beta = fit.beta[[*np.unique(models), *range(m, len(fit.beta))]]
    residuals = Residuals(x.tocsr(), shown, wins, special.expit(x @ beta))
    sides = None if problem.sides is None else problem.sides[:, kept]
    prompt = np.unique(problem.source[kept], return_inverse=True)[1]
    tests = [
        (name, residuals.p_value(z, rng, None if name == QUALITY else prompt))
        for name, z in _left_out(models, prompt, sides, covariates)
    ]
    return pd.DataFrame(tests, columns=pd.Index(["effect", "p"])).dropna(ignore_index=True)


def sentences(tests: pd.DataFrame, untested: str) -> Iterator[str]:
    """All tests in one line, then what is found; or where there are none."""
    if untested:
        yield f"it is not tested whether the model fits: {untested}"
    if tests.empty:
        return
    least = 1 / (1 + DRAWS)
    listed = ", ".join(
        f"{test.effect} (p {'=' if test.p > least else '<='} {test.p:.2g})" for test in each(tests)
    )
    yield f"score tests for effects that the model leaves out: {listed}"
    for effect in tests["effect"][tests["p"] < ALPHA / len(tests)]:
        (meaning,) = (text for start, text in MEANING.items() if effect.startswith(start))
        yield f"significant, {effect}: {meaning}"


def _left_out(
    models: np.ndarray, prompt: np.ndarray, sides: np.ndarray | None, covariates: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Each effect, and its columns [R, Q].

    Args:
      models: [2, R], of both sides.
      prompt: [R]
      sides: [2, R, D] covariates about the mean over the prompt's answers; None where no covariate
        belongs to one answer.
    """
    if np.bincount(prompt).max() > 1:
        yield QUALITY, contrast(models + (1 + models.max()) * prompt)
    pair = models.min(0) + (1 + models.max()) * models.max(0)
    yield PAIRS, grouped(pair, np.sign(models[1] - models[0]))
    if sides is None:
        return
    for i, name in enumerate(covariates):
        yield f"c[{name}] between models", contrast(models, sides[:, :, i])
        squares = sides[0, :, i] ** 2 - sides[1, :, i] ** 2
        # About the mean of two answers both are alike, but for rounding.
        squares[np.abs(squares) < ROUNDING * (sides[:, :, i] ** 2).max(0)] = 0
        yield f"curvature of {name}", grouped(np.zeros_like(prompt), squares)
