"""What a leaderboard fits: settings, the verdicts of one judge or of all as rows, and the fit.

All pools of the file are merged. A model (a content) has one quality, each of its answers has its
own covariates, and verdicts on one prompt (a pool of the file) form a cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import identifiability, quick_compilation, runtime
from jbt.kernel import model, padding
from jbt.kernel.fit import fit_map
from jbt.own.fits.batch import Model, kappa_free
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.met import met
from jbt.own.shared_coefficients.arrays import places
from jbt.own.tables import limits
from jbt.own.tables.missing import Missing, fills
from jbt.own.tables.places import check_memory
from jbt.own.tables.tables import Tables, covariate_values
from jbt.own.tables.verdicts import ALL
from jbt.types import Design, Parameters, Prior, Rows, Status, Variant, check_word

Difference = Literal["plain", "relative"]

BESIDE = ("ppi",)
"""Rankings by another method that may stand beside a leaderboard's."""

MAX_STEPS, SHORTEST, ROUNDING = 100, 1e-4, 1e-12
"""Of Newton's method: a step that raises the objective by more than rounding is shortened, at most
to this share."""

_fit = quick_compilation.jit(fit_map)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What to rank by, beside what every fit is asked: options of `jbt leaderboard`."""

    difference: Difference = "plain"
    """Difference of covariates a and b of two items: a - b, or relative, (a - b) / (a + b), with c
    per root mean square of that unless --no-standardise."""
    robust: bool = False
    """Print ranks under log1p, no transform and relative differences of the covariates, and with
    ties dropped, beside those asked for."""
    missing: Missing = "drop"
    """What missing verdicts are: left out, or (bounds) also all won by the item with more of each
    covariate, and all by the other: both c, and how many ranks change."""
    rho: tuple[float, float] = (-0.5, 0.5)
    """Where c is not identified: least and largest correlation of quality and the covariate over
    the models, for which to give the ranks."""
    against: str | None = None
    """Give win rates against this model; default the mean over all others."""
    elo: str | None = None
    """Give qualities as Elo, 400 / ln 10 points a logit: with one model fixed (NAME=1000), whose
    difference the intervals are then of, or with the mean over the models fixed (1000)."""
    judge_aware: bool = False
    """With --joint, estimate each judge's discrimination, the factor on quality in its logits; 1
    for the reference, or else for the anchors or the first judge."""
    one_comparison: bool = False
    """Add each judge's c on one comparison, and what varies between prompts and models (random
    effects, up to a minute a judge)."""
    beside: tuple[str, ...] = ()
    """Other people's corrections to show beside (space-separated): ppi, win rates by trusted labels
    (--anchors), whatever the judge's bias."""


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


def parameters_of(beta: np.ndarray, n_contents: int) -> Parameters:
    """theta, c and kappa of a vector, cut in NumPy, which compiles nothing."""
    parts = beta[:n_contents], beta[n_contents:-1], beta[-1]
    return Parameters(*map(jnp.asarray, parts))


@dataclass(frozen=True, eq=False)
class Problem:
    """Verdicts as rows, in the form that the fits take."""

    rows: Rows
    """Padded, so that judges with similar numbers of verdicts share compiled programs."""
    design: Design
    """Contents are models; those without a verdict are masked."""
    variant: Variant
    prior: Prior
    at: Mapping[str, np.ndarray]
    """Places of the parameters, see `places`: theta [M] first, then the coefficients of the columns
    of `rows.difference` (c [D, J], ...), and last that of `rows.ordered`."""
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
        rows: Rows,
        variant: Variant,
        prior: Prior,
        at: Mapping[str, np.ndarray],
        source: np.ndarray,
        judge: np.ndarray | None = None,
        sides: np.ndarray | None = None,
    ) -> Problem:
        """The problem of rows that are not padded yet."""
        first, second, shown = (np.asarray(v) for v in (rows.first, rows.second, rows.shown))
        of_second, m = np.where(first != second, shown, 0), at["theta"].size
        n_verdicts = np.bincount(first, shown, m) + np.bincount(second, of_second, m)
        fill = padding.rows_size(len(shown)) - len(shown)
        design = Design.of_contents(m, rows.difference.shape[1])
        return cls(
            padding.pad_rows(rows, len(shown) + fill),
            dataclasses.replace(design, item_mask=jnp.asarray(n_verdicts > 0)),
            variant,
            prior,
            at,
            np.pad(source, (0, fill)),
            np.pad(np.zeros_like(source) if judge is None else judge, (0, fill)),
            n_verdicts,
            None if sides is None else np.pad(sides, ((0, 0), (0, fill), (0, 0))),
        )

    @property
    def naive(self) -> Variant:
        """c = kappa = 0."""
        return model.variant("naive", self.design)

    @property
    def free(self) -> np.ndarray:
        """[P] whether each parameter is estimated; theta of every model counts as such."""
        ones = np.ones(self.design.n_contents, bool)
        return np.r_[ones, np.asarray(self.variant.c), np.asarray(self.variant.kappa)]

    @property
    def n_clusters(self) -> int:
        """Number of pools of the file with a verdict."""
        return len(np.unique(self.source[np.asarray(self.rows.shown) > 0]))

    def with_columns(
        self, columns: np.ndarray, at: Mapping[str, np.ndarray], free: np.ndarray | None = None
    ) -> Problem:
        """The same verdicts with other covariates [R, columns], of which `free` have a
        coefficient; default all."""
        n, m = columns.shape[1], self.design.n_contents
        design = dataclasses.replace(Design.of_contents(m, n), item_mask=self.design.item_mask)
        free = np.ones(n, bool) if free is None else free
        return dataclasses.replace(
            self,
            rows=dataclasses.replace(self.rows, difference=jnp.asarray(columns)),
            design=design,
            variant=Variant(jnp.asarray(free), self.variant.kappa),
            at=at,
        )

    def fit(self, variant: Variant | None = None) -> Fitted:
        """The maximum a posteriori; of the problem's own variant by default."""
        variant = self.variant if variant is None else variant
        if not (self.n_verdicts > 0).any():
            beta = np.full(self.design.n_contents + self.design.n_covariates + 1, np.nan)
            return Fitted(self, variant, beta, Status.NO_VERDICTS)
        fit = _fit(self.rows, padding.pad_contents(self.design), self.prior, variant)
        parameters = padding.cut_parameters(fit.parameters, self.design.n_contents)
        return Fitted(self, variant, parameters.as_numpy(), Status(int(fit.status)))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A maximum a posteriori, with what its intervals need."""

    problem: Problem
    """Bradley-Terry's; or one with the same score and information, see `inverse`."""
    variant: Variant
    """Which coefficients were estimated."""
    beta: np.ndarray
    """[P] by `problem.at`."""
    status: Status
    inverse: np.ndarray | None = None
    """[P, P] H^-1, where the model is not Bradley-Terry's in the columns of the rows."""
    loading: np.ndarray | None = None
    """See `row_jackknife.jackknife`, as `moments`."""
    moments: np.ndarray | None = None

    @property
    def mode(self) -> Parameters:
        """`beta` as the kernel has it."""
        return parameters_of(self.beta, self.problem.design.n_contents)

    @property
    def theta(self) -> np.ndarray:
        """[M], NaN without verdicts, and all of a fit without a maximum."""
        known = (self.problem.n_verdicts > 0) & (self.status == Status.CONVERGED)
        return np.where(known, self.beta[self.problem.at["theta"]], np.nan)

    def profile_range(self, place: int) -> float:
        """Range of the profile log-likelihood within 1 of a coefficient, nats; NaN for models other
        than Bradley-Terry's, and for a fit without a maximum."""
        if self.inverse is not None or self.status != Status.CONVERGED:
            return np.nan
        curve = identifiability.profile(
            self.problem.rows,
            padding.pad_contents(self.problem.design),
            identifiability.grid_around(jnp.asarray(self.beta[place])),
            covariate=int(place) - self.problem.design.n_contents,
            variant=self.variant,
        )
        return float(curve.range())


def maximise(
    at: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]],
    beta: np.ndarray,
    tolerance: float,
) -> tuple[np.ndarray, bool]:
    """Newton's method with shortened steps.

    Args:
      at: of parameters [P] the objective, minus its gradient, and its second derivative or a
        positive definite stand-in.
      tolerance: of the last step, in posterior standard deviations.

    Returns:
      The parameters, and whether they are a stationary point.
    """
    done = False
    objective, gradient, hessian = at(beta)
    for _ in range(MAX_STEPS):
        if done or not np.isfinite(objective):
            break
        step, length = np.linalg.solve(hessian, gradient), 1.0
        done = bool(gradient @ step <= tolerance**2)
        most = objective + ROUNDING * abs(objective)
        objective, gradient, hessian = at(beta + step)
        while not objective <= most and length > SHORTEST:
            length /= 4
            objective, gradient, hessian = at(beta + length * step)
        beta = beta + length * step
    return beta, done


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
            shown = np.asarray(rows.shown)
            squares, total = squares + shown @ np.asarray(rows.difference) ** 2, total + shown.sum()
        scale = np.sqrt(squares / max(1, total))
        return dataclasses.replace(self, scale=np.where(scale > 0, scale, 1))

    def _verdicts(self, judge: int) -> pd.DataFrame:
        verdicts = self.merged.verdicts
        return verdicts[verdicts["judge"] == judge]

    def met(self, judge: int | None) -> pd.DataFrame:
        """`met` of one judge's verdicts, or of all."""
        verdicts = self.merged.verdicts if judge is None else self._verdicts(judge)
        return met(verdicts, self.merged.items["content"].to_numpy(), self.merged.contents)

    def _rows(self, verdicts: pd.DataFrame) -> Rows:
        """A row for each verdict, in float64."""
        first, second = (verdicts[side].to_numpy() for side in ("first", "second"))
        content = self.merged.items["content"].to_numpy()
        a, b = self.x[first], self.x[second]
        difference = a - b
        if self.settings.difference == "relative":
            difference = difference / np.where(a + b > 0, a + b, 1)
        with runtime.precision("float64"):
            return Rows.build(
                content[first],
                content[second],
                difference / self.scale,
                verdicts["p_first"].to_numpy(),
                weight=verdicts["count"].to_numpy(),
                ordered=verdicts["shown"].to_numpy(),
            )

    def problem(self, judge: int) -> Problem:
        """The problem of one judge: parameters theta [M], c [D, 1], kappa [1]."""
        verdicts, m, d = self._verdicts(judge), len(self.tables.contents), len(self.covariates)
        source, sides = verdicts["source"].to_numpy(), None
        if self.settings.difference == "plain":
            items = verdicts[["first", "second"]].to_numpy().T
            sides = about_the_mean(source, items, self.x[items])
        free_kappa = kappa_free(self.merged, self.settings.position)[judge]
        variant = Variant(jnp.ones(d, bool), jnp.asarray(bool(free_kappa)))
        at = places(theta=(m,), c=(d, 1), kappa=(1,))
        prior = self.settings.prior
        return Problem.of(self._rows(verdicts), variant, prior, at, source, sides=sides)

    def absolute(self, judge: int, problem: Problem) -> np.ndarray:
        """[2, R, D] covariates of both sides of the rows of `problem(judge)`."""
        x = self.x[self._verdicts(judge)[["first", "second"]].to_numpy().T]
        return np.pad(x, ((0, 0), (0, len(problem.source) - x.shape[1]), (0, 0)))

    def together(self, judges: Judges) -> Problem:
        """The problem of all judges: theta [M], c [D, J], kappa [J]. Rows have a column for each
        coefficient of each judge, the position among them, 0 in the rows of the others: a panel at
        discrimination 1 that any function of rows accepts.

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
        columns[np.arange(n_rows), :, judge] = np.column_stack(
            [np.asarray(rows.difference), np.asarray(rows.ordered) * free_kappa[judge]]
        )
        free = np.ones((d + 1, n_judges), bool) & ~judges.known
        free[d] &= free_kappa
        with runtime.precision("float64"):
            rows = dataclasses.replace(
                rows,
                difference=jnp.asarray(columns.reshape(n_rows, -1)),
                ordered=jnp.zeros_like(rows.ordered),
            )
            variant = Variant(jnp.asarray(free.ravel()), jnp.asarray(False))
        at = places(theta=(m,), c=(d, n_judges), kappa=(n_judges,), unused=(1,))
        source = verdicts["source"].to_numpy()
        return Problem.of(rows, variant, self.settings.prior, at, source, judge)


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
