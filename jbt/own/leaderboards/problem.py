"""What a leaderboard fits: settings, the verdicts of one judge or of all as rows, and the fit.

All pools of the file are merged. A model (a content) has one quality, each of its answers has its
own covariates, and verdicts on one prompt (a pool of the file) form a cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np
import pandas as pd

from jbt import identifiability
from jbt.kernel.listed import Listed, Top
from jbt.own.choices import Choices, Difference, Missing, Model
from jbt.own.fits.batch import kappa_free
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.met import met
from jbt.own.shared_coefficients.arrays import places
from jbt.own.tables import limits
from jbt.own.tables.missing import fills
from jbt.own.tables.outcomes import ALL
from jbt.own.tables.places import check_memory
from jbt.own.tables.tables import Tables, covariate_values
from jbt.stats.row_jackknife import Groups
from jbt.types import Prior, Status, check_word

BESIDE = ("ppi",)
"""Rankings by another method that may stand beside a leaderboard's."""


@dataclass(frozen=True, kw_only=True)
class Settings(Choices, Model):
    """How models are ranked: the arguments of `leaderboard`."""

    standardise: bool = True
    """c is per standard deviation of the covariate over all items; with relative differences, per
    root mean square of the difference over all verdicts."""
    prior: Prior = field(default_factory=Prior)

    def check_with(self, tables: Tables, *, joint: bool) -> None:
        """Raise `ValueError` where these settings do not go with each other or with the tables;
        `joint`: all judges are ranked together, too."""
        for i, name in enumerate(self.beside):
            check_word("beside", name, BESIDE)
            if name in self.beside[:i]:
                raise ValueError(f"beside names {name!r} twice")
        check_word("difference", self.difference, get_args(Difference))
        check_word("missing", self.missing, get_args(Missing))
        unknown = self.against is not None and self.against not in tables.contents
        excluded = {
            f"rho must be -1 < low < high < 1, got {self.rho}": not (
                -1 < self.rho[0] < self.rho[1] < 1
            ),
            "there is only one model: nothing to rank": tables.items["content"].nunique() < 2,
            f"no model {self.against!r} among the {len(tables.contents)} of the items": unknown,
            "--judge-aware needs all judges together: add --joint": self.judge_aware and not joint,
            "--ties davidson does not go with --joint": tables.ties == "davidson" and joint,
        }
        for message, applies in excluded.items():
            if applies:
                raise ValueError(message)


def merge_pools(tables: Tables) -> Tables:
    """The same tables with one pool, in which contents of one name are one content.

    Raises:
      TableError: too many contents for the memory of this machine.
    """
    frames = ("verdicts", "lost", "items", "anchors", "tied", "members", "counts")
    merged = {name: getattr(tables, name).assign(pool=0) for name in frames}
    merged["counts"] = merged["counts"].groupby(["pool", "judge"], as_index=False).sum()
    merged = dataclasses.replace(tables, **merged, pools=[ALL])
    check_memory(merged)
    return merged


@dataclass(frozen=True, eq=False)
class Problem:
    """Verdicts as rows, in the form that the fits take."""

    rows: Listed
    """Contents are models."""
    free: np.ndarray
    """[P] whether each parameter is estimated; theta of every model counts as such."""
    prior: Prior
    at: Mapping[str, np.ndarray]
    """Places of the parameters, see `places`: theta [M] first, then the coefficients of the columns
    of the rows (c [D, J], kappa [J], ...)."""
    source: np.ndarray
    """[R] pool of the file that each row comes from."""
    judge: np.ndarray
    """[R] judge of each row; all 0 for one judge."""
    n_verdicts: np.ndarray
    """[M] number of verdicts on each model."""
    sides: np.ndarray | None = None
    """[2, R, K] covariates of the first and of the second item, about their mean over the items of
    the pool of the file; None where differences are relative and no part belongs to one item."""

    @classmethod
    def of(
        cls,
        rows: Listed,
        free: Any,
        prior: Prior,
        at: Mapping[str, np.ndarray],
        source: np.ndarray,
        judge: np.ndarray | None = None,
        sides: np.ndarray | None = None,
    ) -> Problem:
        """The problem of rows, of whose columns `free` [K] have a coefficient."""
        free = np.r_[np.ones(rows.n_contents, bool), np.asarray(free, bool)]
        judge = np.zeros_like(source) if judge is None else judge
        return cls(rows, free, prior, at, source, judge, rows.n_verdicts, sides)

    @property
    def n_contents(self) -> int:
        return self.rows.n_contents

    @property
    def naive(self) -> np.ndarray:
        """[P] `free` with c = kappa = 0."""
        return np.arange(len(self.free)) < self.n_contents

    @property
    def known(self) -> np.ndarray:
        """[M] whether a model has a verdict."""
        return self.n_verdicts > 0

    @property
    def precision(self) -> np.ndarray:
        """[P] of the prior."""
        m, k = self.n_contents, self.rows.columns.shape[1]
        parts = (self.prior.lam, m), (self.prior.lam_b, k)
        return np.concatenate([np.broadcast_to(np.asarray(v, float), n) for v, n in parts])

    @property
    def n_clusters(self) -> int:
        """Number of pools of the file with a verdict."""
        return self.groups.n_clusters

    @cached_property
    def groups(self) -> Groups:
        """Rows by pool of the file."""
        return Groups.of(self.rows, self.source)

    def nulls(self, free: np.ndarray) -> np.ndarray:
        """[nullity, P] see `identifiability.null_space`."""
        gram, real = self.rows.gram, np.flatnonzero(self.known)
        z, unknown = identifiability.with_gram(gram), free[self.n_contents :]
        found = identifiability.null_directions(z, gram, real, unknown)
        return np.array([direction for direction, _ in found]).reshape(-1, len(free))

    def fit(self, free: np.ndarray | None = None, start: np.ndarray | None = None) -> Fitted:
        """The maximum a posteriori; with the problem's own free parameters by default."""
        free = self.free if free is None else free
        if not self.rows.shown.any():
            return Fitted(self, free, np.full(len(free), np.nan), Status.NO_VERDICTS)
        top = self.rows.top(free, self.precision, start)
        return Fitted(self, free, top.beta, top.status)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A maximum a posteriori, with what its intervals need."""

    problem: Problem
    """Its own, or one with the same score and information, see `loading`."""
    free: np.ndarray
    """[P] which parameters were estimated."""
    beta: np.ndarray
    """[P] by `problem.at`."""
    status: Status
    given: np.ndarray | None = None
    """[P, P] H^-1, where it is not that of the rows."""
    loading: np.ndarray | None = None
    """See `row_jackknife.jackknife`."""

    @property
    def bradley_terry(self) -> bool:
        """Whether the model is Bradley-Terry's in the columns of the rows."""
        return self.given is None and type(self.problem.rows) is Listed

    @property
    def theta(self) -> np.ndarray:
        """[M], NaN without verdicts, and all of a fit without a maximum."""
        known = self.problem.known & (self.status == Status.CONVERGED)
        return np.where(known, self.beta[self.problem.at["theta"]], np.nan)

    @cached_property
    def inverse(self) -> np.ndarray:
        """[P, P] H^-1"""
        problem = self.problem
        if self.given is not None:
            return self.given
        return problem.rows.inverse_hessian(self.beta, problem.precision, self.free)

    @cached_property
    def nulls(self) -> np.ndarray:
        """[nullity, P] null directions of the free parameters."""
        return self.problem.nulls(self.free)

    @cached_property
    def supremum(self) -> Top:
        """Where the likelihood is largest."""
        return self.problem.rows.top(self.free, start=self.beta)

    def profile_range(self, place: int) -> float:
        """Range of the profile log-likelihood of a coefficient, of which the prior has no part,
        within 1 of its estimate; NaN for models other than Bradley-Terry's, and for a fit
        without a maximum. The profile is concave: it is least at an end, and largest at the
        supremum or at the end next to it."""
        if not self.bradley_terry or self.status != Status.CONVERGED:
            return np.nan
        top, others = self.supremum, self.free & (np.arange(len(self.free)) != place)
        tangent = top.compensation(self.free, place)
        moves = self.beta[place] - top.beta[place] + np.array([-1, 1])
        ends = [
            self.problem.rows.top(others, start=top.beta + move * tangent)
            for move in moves.tolist()
        ]
        inside = [top] * bool(moves[0] <= 0 <= moves[1])
        if any(at.status != Status.CONVERGED for at in [*inside, *ends]):
            return np.nan
        values = [self.problem.rows.log_likelihood(at.logits) for at in [*inside, *ends]]
        return max(values) - min(values)


@dataclass(frozen=True, eq=False)
class Setup:
    """A file's verdicts with all pools merged, and its covariates as the settings have them."""

    tables: Tables
    """Pools not merged."""
    merged: Tables
    settings: Settings
    x: np.ndarray
    """[rows of items, D]"""
    covariates: list[str]
    """[D] names, with their transformation."""
    units: list[str]
    """[D] c is in logits per this."""
    scale: np.ndarray
    """[D] divisor of the differences."""

    @classmethod
    def of(cls, tables: Tables, settings: Settings) -> Setup:
        """
        Raises:
          TableError: see `covariate_values`.
          ValueError: a relative difference of negative covariates.
        """
        relative = settings.difference == "relative"
        x, names, per = covariate_values(
            tables,
            settings.covariates,
            settings.transform,
            settings.standardise and not relative,
        )
        if relative and (x < 0).any():
            raise ValueError("a relative difference needs covariates that are not negative")
        scaled = relative and settings.standardise
        if scaled:
            per = "root mean square of the relative difference of"
        units = [f"{per} {name}" for name in names]
        setup = cls(tables, merge_pools(tables), settings, x, names, units, np.ones(x.shape[1]))
        return setup._scaled() if scaled else setup

    @cached_property
    def filled(self) -> list[tuple[int, bool, Setup]]:
        """The setups of the tables of `fills`, each beside what these yield with it."""
        return [
            (d, wins, dataclasses.replace(self, tables=tables, merged=merge_pools(tables)))
            for d, wins, tables in fills(self.tables, self.settings.covariates)
        ]

    def _scaled(self) -> Setup:
        """Divide differences by their root mean square over all verdicts, which does not depend on
        which item comes first."""
        squares, total = 0.0, 0.0
        for judge in range(len(self.tables.judges)):
            rows = self._rows(self._verdicts(judge))
            squares = squares + rows.shown @ rows.columns[:, :-1] ** 2
            total += rows.shown.sum()
        scale = np.sqrt(squares / max(1, total))
        return dataclasses.replace(self, scale=np.where(scale > 0, scale, 1))

    def _verdicts(self, judge: int) -> pd.DataFrame:
        verdicts = self.merged.verdicts
        return verdicts[verdicts["judge"] == judge]

    def met(self, judge: int | None) -> pd.DataFrame:
        """`met` of one judge's verdicts, or of all."""
        verdicts = self.merged.verdicts if judge is None else self._verdicts(judge)
        return met(verdicts, self.merged.items["content"].to_numpy(), self.merged.contents)

    def _rows(self, verdicts: pd.DataFrame) -> Listed:
        """A row for each verdict, with columns of c and kappa."""
        first, second = (verdicts[side].to_numpy() for side in ("first", "second"))
        content = self.merged.items["content"].to_numpy().astype(np.intp)
        shown = verdicts["count"].to_numpy(float)
        columns = np.empty((len(verdicts), len(self.covariates) + 1), order="F")
        for d, (x, scale) in enumerate(zip(self.x.T, self.scale, strict=True)):
            a, b = x[first], x[second]
            columns[:, d] = (a - b) / scale
            if self.settings.difference == "relative":
                columns[:, d] /= np.where(a + b > 0, a + b, 1)
        columns[:, -1] = verdicts["shown"].to_numpy()
        wins = shown * verdicts["p_first"].to_numpy()
        m = len(self.tables.contents)
        return Listed(m, content[first], content[second], columns, shown, wins)

    def problem(self, judge: int) -> Problem:
        """The problem of one judge: parameters theta [M], c [D, 1], kappa [1]."""
        verdicts, m, d = self._verdicts(judge), len(self.tables.contents), len(self.covariates)
        source, sides = verdicts["source"].to_numpy(), None
        if self.settings.difference == "plain":
            items = verdicts[["first", "second"]].to_numpy().T
            sides = about_the_mean(source, items, self.x[items])
        free = [True] * d + [bool(kappa_free(self.merged, self.settings.position)[judge])]
        at = places(theta=(m,), c=(d, 1), kappa=(1,))
        rows = self._rows(verdicts)
        return Problem.of(rows, free, self.settings.prior, at, source, sides=sides)

    def absolute(self, judge: int) -> np.ndarray:
        """[2, R, D] covariates of both sides of the rows of `problem(judge)`."""
        return self.x[self._verdicts(judge)[["first", "second"]].to_numpy().T]

    def together(self, judges: Judges) -> Problem:
        """The problem of all judges: theta [M], c [D, J], kappa [J]. Rows have a column for each
        coefficient of each judge, 0 in the rows of the others: a panel at discrimination 1 that any
        function of rows accepts.

        Args:
          judges: say whose c and kappa are known to be 0.
        """
        verdicts = self.merged.verdicts.sort_values("judge", kind="stable")
        judge, n_judges = verdicts["judge"].to_numpy(), len(judges.names)
        m, d, n_rows = len(self.tables.contents), len(self.covariates), len(verdicts)
        what = f"biases of {n_judges} judges and {d} covariates in {n_rows} verdicts"
        limits.check(24 * n_rows * (d + 1) * n_judges, what, limits.ALONE)
        free_kappa = kappa_free(self.merged, self.settings.position)
        rows = self._rows(verdicts)
        columns = np.zeros((n_rows, d + 1, n_judges))
        columns[np.arange(n_rows), :, judge] = rows.columns
        columns[:, d] *= free_kappa
        free = np.ones((d + 1, n_judges), bool) & ~judges.known
        free[d] &= free_kappa
        rows = dataclasses.replace(rows, columns=np.asfortranarray(columns.reshape(n_rows, -1)))
        at = places(theta=(m,), c=(d, n_judges), kappa=(n_judges,))
        source = verdicts["source"].to_numpy()
        return Problem.of(rows, free.ravel(), self.settings.prior, at, source, judge)


def about_the_mean(source: np.ndarray, items: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """[2, R, D] covariates of both sides, less their mean over the pool's items in the rows.

    Args:
      source: [R] pool of each row.
      items: [2, R] number of each row's items, each item in one pool.
      sides: [2, R, D] their covariates.
    """
    pools = np.tile(source, 2)
    _, at = np.unique(items, return_index=True)
    sums = np.zeros((source.max(initial=0) + 1, 1 + sides.shape[2]))
    values = sides.reshape(len(pools), sides.shape[2])[at]
    np.add.at(sums, pools[at], np.insert(values, 0, 1, axis=1))
    return sides - (sums[:, 1:] / np.maximum(sums[:, :1], 1))[source]
