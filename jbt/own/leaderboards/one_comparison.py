"""What a judge does on one comparison, where quality and bias vary.

    logit P(first wins) = phi_first - phi_second + kappa,
    phi = theta_m + u_mp + (c + v_p + w_m) . x

for the answer of model m to prompt p: the model's quality theta, what its quality on this prompt
differs from that by (u), and what the judge's bias on this prompt (v) and for this model (w)
differs from c by. x is about its mean over the prompt's answers. u, v and w are normal with sds
that are estimated (`estimators.mixed`).

A leaderboard's own c is another number: the average effect on win rates over such prompts. What
varies between prompts makes it smaller than this one, by a factor of about
1 / sqrt(1 + .35 var(logit)).

Whether c grows with quality (gamma) is judged here, too,

    phi = theta_m + u_mp + (c + gamma theta_m + v_p + w_m) . x + a . (x of the answer)^2

Both fits have a sd of u for each model, or for six groups of models by quality. With one sd for
all, answers of weak models that vary more would look like a c that differs between models, or a
gamma; without the square, a bias that is not linear in x would (`benchmarks.calibration
one_comparison`). The sds of the groups share a prior. There is one sd for all where the verdicts
can show nothing of a group's own, and where there are two models.

Where nothing varies between prompts, the priors keep the sds of u and v from 0, which inflates c
and theta by up to .4 of their standard errors. So where none of these sds is measured, intervals
also hold those of a fit without u and v: they are then 7 % wider, and cover c in .94 to .95 where
they would in .92 (300 boards each of 60 and 200 prompts).

Verdicts that are guesses are not in the model. Their share of .15 has a standard error of .07 to
.09 on 100 prompts with a verdict on each pair of six models, and of .04 on 400 (information at the
truth); estimated, it makes the standard error of c 1.6 to 1.9 times as large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from jbt.estimators import mixed
from jbt.own.leaderboards.problem import Problem
from jbt.own.shared_coefficients.arrays import places
from jbt.own.shared_coefficients.one_comparison import (
    ENDS,
    FEWEST_DEGREES,
    GUESSES,
    HELD,
    MOST,
    WIDEST,
    OneComparison,
    ends,
    spread_of,
)
from jbt.stats.score_tests import contrast, part
from jbt.types import Status

GROUPS = 6
"""Groups of models by quality that may each have a sd of u."""

OF_THETA = 20.0
"""Fewest degrees of freedom of theta on one comparison. With 15 prompts the prior holds too much of
theta to print it in most studies, and in the others it is covered in .5 to .8."""

VARIES_MUCH = 1.5
"""Mean sd of u (logits) beyond which theta has no interval. With 60 prompts and a sd of 2 or 3,
the intervals that the other rules leave would cover the best model's in .90 and .56 of 745 and 80
studies."""

FEWEST = 15
"""Prompts below which nothing is fitted: no coverage is simulated there."""

UNITS = "quality of a model between prompts"
"""Name of an effect, or its beginning."""

MODELS = " between models"
"""Ends the name of an effect that prompts share."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OfModels(OneComparison):
    """The judge's coefficients on one comparison; its c is that of the average model, per unit of
    the leaderboard's."""

    CLUSTERS = "prompts"
    COVERAGE = HELD.format("0.95 of 16918", "0.94 to 0.97") + GUESSES.format("0.01 of 995")

    growth: pd.DataFrame
    """covariate, estimate, low, high of gamma, change of c with a logit of quality, by a fit of its
    own."""
    theta: pd.DataFrame
    """A row for each model with a verdict: model, and estimate, low, high of its quality, logits
    about the mean over the models."""

    @staticmethod
    def what_varies(effect: str) -> str:
        return UNITS if effect.startswith(UNITS) else effect

    def sentences(self, units: Sequence[str]) -> Iterator[str]:
        yield from super().sentences(units)
        if self.status == Status.CONVERGED and not self.varies_between_prompts():
            yield (
                "nothing is shown to vary between prompts, so the intervals also hold those of a "
                "fit in which nothing does"
            )

    def varies_between_prompts(self) -> bool:
        """Whether any sd between prompts is measured."""
        return bool(self.measured()[~self.spread["effect"].str.endswith(MODELS)].any())


def one_comparison(
    problem: Problem,
    covariates: Sequence[str],
    models: Sequence[str],
    theta: np.ndarray,
    absolute: np.ndarray,
    *,
    most: int = MOST,
    seed: int = 0,
) -> OfModels | str:
    """Fit what varies, with the judge's coefficients on one comparison, by prompts of at most
    `WIDEST` different verdicts.

    Args:
      problem: of one judge (Bradley-Terry's).
      covariates, models: [D] and [M] names.
      theta: [M] qualities, by whose order models are grouped.
      absolute: [2, R, D] covariates of both sides, not about the prompt's mean.
      most: different verdicts beyond which a random part of the prompts is taken (count).
      seed: of that part.

    Returns:
      The fit, or why there is none.
    """
    if not covariates:
        return "there is no covariate"
    if problem.sides is None:
        return "with relative differences an answer has no covariate of its own"
    merged = _merged(problem, absolute)
    rng = np.random.default_rng(seed)
    rows = part(merged.cluster, merged.shown, rng, most=most, widest=WIDEST)
    n_prompts = len(np.unique(merged.cluster[rows]))
    if n_prompts < FEWEST:
        return (
            f"it takes {FEWEST} prompts with at most {WIDEST} different verdicts, and finds "
            f"{n_prompts}"
        )
    design = _Design(problem, covariates, merged.take(rows))
    names = pd.DataFrame({"covariate": list(covariates)})
    nothing = names.assign(**dict.fromkeys(ENDS, np.nan))
    result = OfModels(
        status=Status.NOT_CONVERGED,
        c=nothing,
        growth=nothing,
        spread=pd.DataFrame({"effect": [], "sd": [], "log_error": []}),
        theta=design.named(models).assign(**dict.fromkeys(ENDS, np.nan)),
        n_clusters=n_prompts,
        n_all=len(np.unique(merged.cluster)),
    )
    try:
        plain = mixed.fit(design.mixed(order=theta))
        if plain.status != Status.CONVERGED:
            return result
        of_one = plain.beta[design.at["theta"]]
        of_one = of_one - of_one[design.known].mean()
        of_prompts = [name for name in plain.problem.effects if not name.endswith(MODELS)]
        if not of_prompts:
            return replace(result, status=Status.FLAT)
        growing = mixed.fit(design.mixed(order=theta, growth=of_one), start=plain.sd)
        found = replace(result, fit=plain, status=Status.CONVERGED, spread=spread_of(plain))
        fits = [plain]
        if not found.varies_between_prompts():
            fits.append(mixed.fit(plain.problem.without(of_prompts), start=plain.sd))
    except np.linalg.LinAlgError:  # the ranking does not depend on this fit
        return result
    qualities = _of_all(fits, design.about_the_mean(), OF_THETA)
    if np.mean([sd for name, sd in plain.sd.items() if name.startswith(UNITS)]) > VARIES_MUCH:
        qualities[["low", "high"]] = np.nan
    growth = nothing
    if growing.status == Status.CONVERGED:
        growth = names.join(ends(growing, np.eye(len(growing.beta))[design.at["gamma"]]))
    return replace(
        found,
        c=names.join(_of_all(fits, design.average())),
        growth=growth,
        theta=design.named(models).join(qualities),
    )


def _of_all(
    fits: Sequence[mixed.MixedFit], along: np.ndarray, fewest: float = FEWEST_DEGREES
) -> pd.DataFrame:
    """`ends` of the first fit, with intervals that hold those of all fits."""
    first, *others = (ends(fit, along, fewest) for fit in fits)
    for other in others:
        first["low"] = np.where(other["low"] < first["low"], other["low"], first["low"])
        first["high"] = np.where(other["high"] > first["high"], other["high"], first["high"])
    return first


class _Verdicts(NamedTuple):
    """Different verdicts: rows of one pair, covariates and order in a prompt are one."""

    cluster: np.ndarray
    """[R] prompt."""
    models: np.ndarray
    """[2, R]"""
    ordered: np.ndarray
    """[R]"""
    sides: np.ndarray
    """[2, R, D] covariates about the prompt's mean."""
    absolute: np.ndarray
    """[2, R, D]"""
    shown: np.ndarray
    """[R] number of verdicts."""
    wins: np.ndarray
    """[R]"""

    def take(self, rows: np.ndarray) -> _Verdicts:
        return _Verdicts(*(v[:, rows] if v.shape[0] == 2 and v.ndim > 1 else v[rows] for v in self))


def _merged(problem: Problem, absolute: np.ndarray) -> _Verdicts:
    rows, sides = problem.rows, problem.sides
    assert sides is not None
    real = np.flatnonzero(rows.shown > 0)
    models, ordered = np.stack([rows.first, rows.second]), rows.columns[:, -1]
    key = np.column_stack([problem.source, models.T, ordered, *sides])[real]
    _, one, which = np.unique(key, axis=0, return_index=True, return_inverse=True)
    kept, which = real[one], which.ravel()
    return _Verdicts(
        problem.source[kept],
        models[:, kept],
        ordered[kept],
        sides[:, kept],
        absolute[:, kept],
        np.bincount(which, rows.shown[real]),
        np.bincount(which, rows.wins[real]),
    )


def _between_models(covariate: str) -> str:
    return f"c[{covariate}]{MODELS}"


@dataclass(frozen=True, eq=False)
class _Design:
    """The columns of the fits."""

    source: Problem
    covariates: Sequence[str]
    verdicts: _Verdicts

    @cached_property
    def at(self) -> dict[str, np.ndarray]:
        m, d = self.source.n_contents, len(self.covariates)
        return places(theta=(m,), c=(d,), kappa=(1,), w=(d, m), gamma=(d,), square=(d,))

    def mixed(self, order: np.ndarray, growth: np.ndarray | None = None) -> mixed.Mixed:
        """The problem.

        Args:
          order: [M] by which models are grouped.
          growth: [M] qualities about their mean, for a problem with gamma and the square of x.
        """
        from scipy import sparse

        verdicts, d = self.verdicts, len(self.covariates)
        sides, models, m = verdicts.sides, verdicts.models, self.source.n_contents
        columns = [
            contrast(models, n=m),
            sparse.csr_array(sides[0] - sides[1]),
            sparse.csr_array((verdicts.ordered * self.source.free[-1])[:, None]),
            *(contrast(models, sides[:, :, i], m) for i in range(d)),
        ]
        prior = self.source.prior
        n_more = 0
        if growth is not None:
            grown, squares = growth[models][:, :, None] * sides, verdicts.absolute**2
            columns += [sparse.csr_array(v[0] - v[1]) for v in (grown, squares)]
            n_more = 2 * d
        lam, lam_b = (np.asarray(v, float).max() for v in (prior.lam, prior.lam_b))
        slopes = (sides[0] - sides[1]).T
        problem = mixed.Mixed(
            fixed=sparse.hstack(columns).tocsr(),
            precision=np.r_[np.full(m, lam), np.full(d + 1 + d * m + n_more, lam_b)],
            shown=verdicts.shown,
            wins=verdicts.wins,
            cluster=verdicts.cluster,
            units={UNITS: models},
            slopes={
                f"c[{name}] between prompts": column
                for name, column in zip(self.covariates, slopes, strict=True)
            },
            crossed={
                _between_models(name): self.at["w"][i] for i, name in enumerate(self.covariates)
            },
        )
        group = (order.argsort().argsort() * min(m, GROUPS) // m)[models]
        units = {
            f"{UNITS}, group {g + 1} of {min(m, GROUPS)} by quality": np.where(
                group == g, models, -1
            )
            for g in range(min(m, GROUPS))
        }
        grouped = replace(problem, units=units, alike=list(units))
        # Verdicts on two models show the sum of their variances alone.
        return problem if m < 3 or set(mixed.unseen(grouped)) & set(units) else grouped

    @cached_property
    def known(self) -> np.ndarray:
        """[M] whether each model has a verdict."""
        return np.isin(np.arange(self.source.n_contents), self.verdicts.models)

    def named(self, models: Sequence[str]) -> pd.DataFrame:
        return pd.DataFrame({"model": np.array(models, object)[self.known]})

    def average(self) -> np.ndarray:
        """[D, K] combinations that are c of the average model."""
        known = self.known
        along = np.zeros((len(self.covariates), self.at["gamma"][0]))
        for i, combination in enumerate(along):
            combination[self.at["c"][i]] = 1
            combination[self.at["w"][i]] = known / known.sum()
        return along

    def about_the_mean(self) -> np.ndarray:
        """[models, K] combinations that are theta of the known models about their mean."""
        known = self.known
        along = np.zeros((known.sum(), self.at["gamma"][0]))
        along[:, : len(known)] = np.eye(len(known))[known] - known / known.sum()
        return along
