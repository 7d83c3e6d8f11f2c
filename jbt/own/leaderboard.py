"""Models ranked by a user's verdicts over many prompts, naive and corrected for length, say.

All pools of the file are made one. A model (a content) has one quality, each of its answers
covariates of its own, and verdicts on one prompt (a pool of the file) go together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jbt import files, runtime
from jbt.own import assumption
from jbt.own.assumption import AnchorCheck, VersionCheck
from jbt.own.batch import Position
from jbt.own.listing import Difference
from jbt.own.merged import Study, merge_pools
from jbt.own.spread import FEWEST_CLUSTERS, PRIOR_SHARE, Spread
from jbt.own.tables import Tables, Transform, covariate_values
from jbt.types import Prior, Status, check_count

FEWEST_RESAMPLES = 100

REASONS = {
    "covariate_constant": "no comparison differs in it",
    "flat": "the comparisons made are silent about it, as other parameters undo any change of it",
    "separated": "the likelihood rises all the way to infinity",
    "prior_selected": f"more than {PRIOR_SHARE:.0%} of what is known of it is the prior's",
    "few_clusters": f"fewer than {FEWEST_CLUSTERS} pools tell of it",
    "no_verdicts": "no verdicts",
}
"""Why there is no interval, by status."""


@dataclass(frozen=True)
class Coefficient:
    """One coefficient with its interval. Numbers are NaN where undefined."""

    covariate: str
    """With its transformation; "kappa" for the position term."""
    unit: str
    """What the estimate is a number of logits per; empty for kappa."""
    estimate: float
    """MAP."""
    low: float
    high: float
    profile_range: float
    """Evidence of the verdicts about it, nats: largest less smallest profile log-likelihood over
    the estimate plus and minus 1."""
    status: str
    """converged; or why there is no interval: covariate_constant, flat, separated, prior_selected,
    few_clusters, no_verdicts, not_converged or not_finite."""

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {f.name: _defined(getattr(self, f.name)) for f in dataclasses.fields(self)}


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """What one judge's verdicts say about the models, ranked by theta. NaN where undefined."""

    judge: str | None
    """None where the table names no judge."""
    status: Status
    """The worse of the two fits; NO_VERDICTS."""
    models: tuple[str, ...]
    """Highest theta first, models without a verdict last."""
    theta: np.ndarray
    """[M] quality corrected for c and kappa (MAP), logits; mean 0 over the models."""
    low: np.ndarray
    high: np.ndarray
    theta_naive: np.ndarray
    """[M] the same with c = kappa = 0."""
    low_naive: np.ndarray
    high_naive: np.ndarray
    rank: np.ndarray
    """[M] 1 + how many models have a higher theta."""
    rank_low: np.ndarray
    """[M] 1 + how many are better for certain: the interval of the difference, Bonferroni-corrected
    for the model's M - 1 differences, excludes 0. A difference without an interval is never
    certain."""
    rank_high: np.ndarray
    """[M] M less how many are worse for certain."""
    rank_naive: np.ndarray
    n_verdicts: np.ndarray
    """[M] repeats counted."""
    status_of: np.ndarray
    """[M] as `Coefficient.status`, of theta."""
    c: tuple[Coefficient, ...]
    kappa: Coefficient | None
    """None where kappa is fixed at 0."""
    n_clusters: int
    """Pools of the file with a verdict."""
    runaway: tuple[str, ...]
    """Models that the likelihood sends to infinity."""
    pull: np.ndarray
    """[M] how far the prior has moved theta, in standard errors, to first order."""
    anchors: AnchorCheck | None
    """None without anchors."""
    versions: VersionCheck | None
    """None unless models have several answers to one prompt that differ in a covariate."""

    def reasons(self) -> list[str]:
        """Why intervals are missing, a sentence each."""
        said = []
        for one in (*self.c, *([] if self.kappa is None else [self.kappa])):
            if one.status != "converged":
                said.append(f"{one.covariate}: {one.status}, {_reason(one.status)}")
        for status in dict.fromkeys(self.status_of.tolist()):
            if status == "converged":
                continue
            of = [name for name, s in zip(self.models, self.status_of, strict=True) if s == status]
            which = "every model" if len(of) == len(self.models) else _list(of)
            who = ""
            if status == "separated" and self.runaway:
                who = f" (with {_list(self.runaway)}, and the mean over the models with it)"
            said.append(f"theta of {which}: {status}, {_reason(status)}{who}")
        return said

    def record(self) -> dict[str, Any]:
        """c, kappa, models and the reasons for what is missing, as JSON has them: undefined is
        null."""
        kappa = None
        if self.kappa is not None:
            kappa = {k: _defined(getattr(self.kappa, k)) for k in ("estimate", "low", "high")}
        numbers = ("theta", "low", "high", "theta_naive")
        ranks = ("rank", "rank_low", "rank_high", "rank_naive")
        models = []
        for i, name in enumerate(self.models):
            row = {"model": name, **{k: _defined(getattr(self, k)[i]) for k in numbers}}
            for k in ranks:
                rank = getattr(self, k)[i]
                row[k] = None if np.isnan(rank) else int(rank)
            models.append({**row, "n_verdicts": int(self.n_verdicts[i])})
        return {
            "c": [c.record() for c in self.c],
            "kappa": kappa,
            "models": models,
            "reasons": self.reasons(),
        }


def _reason(status: str) -> str:
    return REASONS.get(status, "the fit did not converge")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _defined(value: Any) -> Any:
    return value if isinstance(value, str) else files.defined(value)


def leaderboard(
    tables: Tables,
    covariates: Sequence[str] = (),
    *,
    transform: Transform = "none",
    standardise: bool = True,
    difference: Difference = "plain",
    position: Position = "auto",
    prior: Prior | None = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> list[Leaderboard]:
    """Rank the models of a table of verdicts, with intervals (MAP, float64).

    Args:
      tables: from `read`, pools not merged. Models are the contents, which are the items' names
        where there is no column `content`.
      covariates, transform: see `covariate_values`.
      standardise: c is per standard deviation of the covariate over all items; with relative
        differences, per root mean square of the difference over all verdicts.
      difference: see `listing.listed`.
      position: see `load`.
      prior: default `Prior()`.
      bootstrap: resamples of the pools, for percentile intervals and for the covariance on which
        ranks rest; 0 for the sandwich with Student's t, see `jbt.clusters`.
      seed: of the resampling.

    Returns:
      One for each judge.

    Raises:
      ValueError: fewer than two models, fewer than 100 resamples; see also `covariate_values` and
        `listed`.
    """
    if bootstrap:
        check_count("bootstrap", bootstrap, least=FEWEST_RESAMPLES)
    if tables.items["content"].nunique() < 2:
        raise ValueError("there is only one model: nothing to rank")
    relative = difference == "relative"
    x, labels, per = covariate_values(tables, covariates, transform, standardise and not relative)
    if relative and standardise:
        per = "root mean square of the relative difference of"
    units = [f"{per} {label}" for label in labels]
    study = Study(
        tables, merge_pools(tables), x, difference, np.ones(x.shape[1]), position, prior or Prior()
    )
    if relative and standardise:
        study = study.standardised()
    with runtime.precision("float64"):
        return [
            _board(study, judge, labels, units, bootstrap, seed)
            for judge in range(len(tables.judges))
        ]


def _board(
    study: Study,
    judge: int,
    covariates: Sequence[str],
    units: Sequence[str],
    bootstrap: int,
    seed: int,
) -> Leaderboard:
    problem, tables = study.problem(judge), study.tables
    m, known = len(problem.contents), problem.n_verdicts > 0
    beta = np.full(m + len(covariates) + 1, np.nan)
    beta_naive, evidence = beta, np.full(len(covariates), np.nan)
    status = Status.NO_VERDICTS
    if known.any():
        naive, aware = problem.fit(problem.naive), problem.fit(problem.variant)
        status = Status(max(int(naive.status), int(aware.status)))
    if status == Status.CONVERGED:
        beta, beta_naive = (np.asarray(fit.parameters.flat()) for fit in (aware, naive))
        around = problem.spread(aware, problem.variant, bootstrap=bootstrap, seed=seed)
        around_naive = problem.spread(naive, problem.naive, bootstrap=bootstrap, seed=seed)
        evidence = np.array([problem.profile_range(aware, d) for d in range(len(covariates))])
    else:
        around = around_naive = Spread.undefined(m, len(covariates), status.name.lower())
    theta, theta_naive = (np.where(known, b[:m], np.nan) for b in (beta, beta_naive))
    compared = around.comparable.any(1)

    def coefficient(p: int, name: str, unit: str, evidence: float) -> Coefficient:
        estimate, low, high = (float(v[p]) for v in (beta, around.low, around.high))
        return Coefficient(name, unit, estimate, low, high, evidence, str(around.status[p]))

    order = np.argsort(-theta, kind="stable")
    names = np.asarray(tables.contents, object)[problem.contents]
    per_content = np.full((2, len(tables.contents)), np.nan)
    per_content[:, problem.contents] = theta, theta_naive
    return Leaderboard(
        judge=tables.judges[judge],
        status=status,
        models=tuple(names[order]),
        theta=theta[order],
        low=around.low[:m][order],
        high=around.high[:m][order],
        theta_naive=theta_naive[order],
        low_naive=around_naive.low[:m][order],
        high_naive=around_naive.high[:m][order],
        rank=_ranks(theta)[order],
        rank_low=np.where(compared, 1 + around.better.sum(1), np.nan)[order],
        rank_high=np.where(compared, known.sum() - around.better.sum(0), np.nan)[order],
        rank_naive=_ranks(theta_naive)[order],
        n_verdicts=problem.n_verdicts[order].astype(int),
        status_of=around.status[:m][order],
        c=tuple(
            coefficient(m + d, name, unit, float(evidence[d]))
            for d, (name, unit) in enumerate(zip(covariates, units, strict=True))
        ),
        kappa=coefficient(-1, "kappa", "", np.nan) if problem.variant.kappa else None,
        n_clusters=problem.n_clusters,
        runaway=tuple(names[around.runaway]),
        pull=around.pull[order],
        anchors=assumption.check_anchors(tables, judge, study.x, *per_content),
        versions=_versions(study, judge) if status == Status.CONVERGED else None,
    )


def _ranks(theta: np.ndarray) -> np.ndarray:
    """1 + how many are higher by more than rounding."""
    higher = (theta > theta[:, None] + 1e-9).sum(1)
    return np.where(np.isfinite(theta), 1 + higher, np.nan)


def _versions(study: Study, judge: int) -> VersionCheck | None:
    """Fits in which the versions of a model are models of their own."""
    found = assumption.find_versions(study.tables, judge, study.x)
    if found is None:
        return None
    thetas = np.zeros((2, 0))
    if found.names:
        problem = study.problem(judge, found.content)
        at = np.searchsorted(
            problem.contents, len(study.tables.contents) + np.arange(len(found.names))
        )
        fits = [problem.fit(variant) for variant in (problem.naive, problem.variant)]
        thetas = np.stack([np.asarray(fit.parameters.theta)[at] for fit in fits])
    return VersionCheck(found.n_sets, found.models, found.names, *thetas)
