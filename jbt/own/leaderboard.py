"""Models ranked by a user's verdicts over many prompts, naive and corrected for length, say.

All pools of the file are made one. A model (a content) has one quality, each of its answers
covariates of its own, and verdicts on one prompt (a pool of the file) go together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jbt import estimators, files, identifiability, model, runtime
from jbt.fit import fit_map


from jbt.own.batch import Position, kappa_free
from jbt.own.listing import Difference, Listing, listed
from jbt.own.spread import FEWEST_CLUSTERS, PRIOR_SHARE, Spread, spread
from jbt.own.tables import ALL, Tables, Transform, covariate_values
from jbt.types import Design, Fit, Parameters, Prior, Rows, Status, Variant, check_count

FEWEST_RESAMPLES = 100


@dataclass(frozen=True)
class Coefficient:
    """One coefficient with its interval. Numbers are NaN where undefined."""

    covariate: str
    """Column of the items table; "position" for kappa."""
    unit: str
    """In words."""
    estimate: float
    """MAP, in that unit."""
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
    c: tuple[Coefficient, ...]
    kappa: Coefficient | None
    """None where kappa is fixed at 0."""
    n_clusters: int
    """Pools of the file with a verdict."""
    reasons: tuple[str, ...]
    """Why intervals are missing, in sentences."""
    pull: float
    """How far the prior moves a theta at most, in standard errors, to first order."""
    anchors: AnchorCheck | None
    """None without anchors."""
    versions: VersionCheck | None
    """None unless models have several answers to one prompt that differ in a covariate."""

    def record(self) -> dict[str, Any]:
        """c, kappa and models as JSON has them; undefined is null."""
        kappa = None
        if self.kappa is not None:
            kappa = {k: _defined(getattr(self.kappa, k)) for k in ("estimate", "low", "high")}
        return {
            "c": [c.record() for c in self.c],
            "kappa": kappa,
            "models": [
                {
                    "model": name,
                    "theta": _defined(self.theta[i]),
                    "low": _defined(self.low[i]),
                    "high": _defined(self.high[i]),
                    "theta_naive": _defined(self.theta_naive[i]),
                    **{
                        name: None if np.isnan(rank[i]) else int(rank[i])
                        for name, rank in (
                            ("rank", self.rank),
                            ("rank_low", self.rank_low),
                            ("rank_high", self.rank_high),
                            ("rank_naive", self.rank_naive),
                        )
                    },
                    "n_verdicts": int(self.n_verdicts[i]),
                }
                for i, name in enumerate(self.models)
            ],
        }


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
      tables: from `read`, its pools not merged. Models are its contents, which are the items' names
        where there is no column `content`.
      covariates, transform: see `covariate_values`.
      standardise: c is per standard deviation of the covariate over all items. With relative
        differences, per root mean square of the difference over all verdicts.
      difference: see `listing.listed`.
      position: see `load`.
      prior: default `Prior()`.
      bootstrap: resamples of the pools for percentile intervals; 0 for the sandwich with Student's
        t, see `jbt.clusters`. Ranks then rest on the resamples' covariance.
      seed: of the resampling.

    Returns:
      One for each judge.

    Raises:
      ValueError: fewer than two models, see `covariate_values` and `listed` too.
    """
    if bootstrap:
        check_count("bootstrap", bootstrap, least=FEWEST_RESAMPLES)
    prior = Prior() if prior is None else prior
    relative = difference == "relative"
    x, labels, per = covariate_values(
        tables, covariates, transform, standardise and not relative
    )
    if relative and standardise:
        per = "root mean square of the relative difference of"
    units = [f"logits per {per} {label}" for label in labels]
    merged = dataclasses.replace(
        tables,
        verdicts=tables.verdicts.assign(pool=0),
        items=tables.items.assign(pool=0),
        pools=[ALL],
    )
    judges = range(len(tables.judges))
    listings = [listed(merged, x, 0, judge, difference=difference) for judge in judges]
    if relative and standardise:
        listings = _scaled(listings)
    if len(listings[0].contents) < 2:
        raise ValueError("there is only one model: nothing to rank")
    free = kappa_free(merged, position)
    found = []
    with runtime.precision("float64"):
        for judge, listing in enumerate(listings):
            problem = _Problem.of(listing, bool(free[judge]), prior)
            board = _board(problem, tables, judge, list(covariates), units, bootstrap, seed)
            found.append(board)
    return found


def _scaled(listings: list[Listing]) -> list[Listing]:
    """Differences divided by their root mean square over all verdicts, which does not depend on
    which of two items is called the first."""
    every = np.concatenate([np.asarray(v.rows.difference) for v in listings])
    scale = np.sqrt((every**2).sum(0) / max(1, len(every)))
    scale = np.where(scale > 0, scale, 1)
    with runtime.precision("float64"):
        return [
            dataclasses.replace(
                v, rows=dataclasses.replace(v.rows, difference=v.rows.difference / scale)
            )
            for v in listings
        ]


@dataclass(frozen=True, eq=False)
class _Problem:
    """One judge's verdicts, as the fits take them."""

    rows: Rows
    """Padded, so that judges with about as many verdicts share compiled programs."""
    design: Design
    """Models without a verdict masked."""
    variant: Variant
    prior: Prior
    contents: np.ndarray
    """[M], see `Listing`."""
    source: np.ndarray
    """[R]"""
    n_verdicts: np.ndarray
    """[M]"""

    @classmethod
    def of(cls, listing: Listing, free_kappa: bool, prior: Prior) -> _Problem:
        rows, n = listing.rows, len(listing.source)
        first, second, shown = (np.asarray(v) for v in (rows.first, rows.second, rows.shown))
        m = len(listing.contents)
        of_others = np.where(first == second, 0, shown)
        n_verdicts = np.bincount(first, shown, m) + np.bincount(second, of_others, m)
        step = 2 ** max(0, n.bit_length() - 3)
        fill = max(step, -(-n // step) * step) - n
        padded = jax.tree.map(lambda v: jnp.pad(v, [(0, fill)] + [(0, 0)] * (v.ndim - 1)), rows)
        source = np.pad(listing.source, (0, fill))
        design = dataclasses.replace(listing.design, item_mask=jnp.asarray(n_verdicts > 0))
        variant = Variant(jnp.ones(design.n_covariates, bool), jnp.asarray(free_kappa))
        return cls(padded, design, variant, prior, listing.contents, source, n_verdicts)

    @property
    def known(self) -> np.ndarray:
        """[M] which models have a verdict."""
        return self.n_verdicts > 0

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.source[np.asarray(self.rows.shown) > 0]))


@jax.jit
def _fits(rows: Rows, design: Design, prior: Prior, variant: Variant) -> tuple[Fit, Fit]:
    return estimators.naive(rows, design, prior), fit_map(rows, design, prior, variant)


def _board(
    problem: _Problem,
    tables: Tables,
    judge: int,
    covariates: Sequence[str],
    units: Sequence[str],
    bootstrap: int,
    seed: int,
) -> Leaderboard:
    names = np.asarray(tables.contents, object)[problem.contents]
    if not problem.known.any():
        return _without_verdicts(problem, tables.judges[judge], names, covariates, units)
    of = problem.rows, problem.design, problem.prior
    naive, aware = _fits(*of, problem.variant)
    status = Status(max(int(naive.status), int(aware.status)))
    mode = aware.parameters
    around, naive_around = (
        spread(fit.parameters, *of, variant, problem.source, bootstrap=bootstrap, seed=seed)
        for fit, variant in (
            (aware, problem.variant),
            (naive, model.variant("naive", problem.design)),
        )
    )
