"""The problem that a leaderboard fits: all pools of a file as one, for each judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jbt import identifiability, quick_compilation, runtime
from jbt.kernel import model, padding
from jbt.kernel.fit import fit_map
from jbt.own.fits.batch import Position, kappa_free
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.listing import Difference, Listing, listed, stacked
from jbt.own.shared_coefficients.directions import MOVED
from jbt.own.tables.places import check_memory
from jbt.own.tables.tables import Tables, Transform, covariate_values
from jbt.own.tables.verdicts import ALL
from jbt.types import Design, Fit, Prior, Rows, Variant

_fit = quick_compilation.jit(fit_map)


def merge_pools(tables: Tables) -> Tables:
    """The same tables with one pool, in which contents of one name are one content.

    Raises:
      TableError: too many contents for the memory of this machine.
    """
    merged = dataclasses.replace(
        tables,
        verdicts=tables.verdicts.assign(pool=0),
        items=tables.items.assign(pool=0),
        anchors=tables.anchors.assign(pool=0),
        tied=tables.tied.assign(pool=0),
        members=tables.members.assign(pool=0),
        pools=[ALL],
        counts=tables.counts.assign(pool=0).groupby(["pool", "judge"], as_index=False).sum(),
    )
    check_memory(merged)
    return merged


@dataclass(frozen=True, eq=False)
class Setup:
    """Settings and tables common to the leaderboards of all judges."""

    tables: Tables
    """Pools not merged."""
    merged: Tables
    x: np.ndarray
    """[rows of items, D]"""
    difference: Difference
    scale: np.ndarray
    """[D] divisor of the differences."""
    position: Position
    prior: Prior

    @classmethod
    def of(
        cls,
        tables: Tables,
        covariates: Sequence[str],
        transform: Transform,
        standardise: bool,
        difference: Difference,
        position: Position,
        prior: Prior,
    ) -> tuple[Setup, list[tuple[str, str]]]:
        """Make the setup; also returns the name of each covariate and the unit of its c.

        Raises:
          TableError: see `covariate_values`.
        """
        relative = difference == "relative"
        x, labels, per = covariate_values(
            tables, covariates, transform, standardise and not relative
        )
        if relative and standardise:
            per = "root mean square of the relative difference of"
        ones = np.ones(x.shape[1])
        setup = cls(tables, merge_pools(tables), x, difference, ones, position, prior)
        if relative and standardise:
            setup = setup.standardised()
        return setup, [(label, f"{per} {label}") for label in labels]

    def standardised(self) -> Setup:
        """Divide differences by their root mean square over all verdicts, which does not depend on
        which item comes first."""
        squares, total = 0.0, 0.0
        for judge in range(len(self.tables.judges)):
            rows = listed(self.merged, self.x, 0, judge, difference=self.difference).rows
            shown = np.asarray(rows.shown)
            squares, total = squares + shown @ np.asarray(rows.difference) ** 2, total + shown.sum()
        scale = np.sqrt(squares / max(1, total))
        return dataclasses.replace(self, scale=np.where(scale > 0, scale, 1))

    def problem(self, judge: int) -> Problem:
        """The problem of one judge."""
        listing = self._listing(self.merged, judge)
        free_kappa = kappa_free(self.merged, self.position)[judge]
        variant = Variant(jnp.ones(self.x.shape[1], bool), jnp.asarray(bool(free_kappa)))
        return Problem.of(listing, variant, self.prior)

    def together(self, judges: Judges) -> Together:
        """The problem of all judges, with coefficients for each judge's biases: see `stacked`."""
        listings = [self._listing(self.merged, judge) for judge in range(len(judges.names))]
        rows, free = stacked(listings, kappa_free(self.merged, self.position), judges)
        with runtime.precision("float64"):
            design = Design.of_contents(len(listings[0].contents), rows.difference.shape[1])
            variant = Variant(jnp.asarray(free), jnp.asarray(False))
        source = np.concatenate([listing.source for listing in listings])
        listing = Listing(rows, design, listings[0].contents, source)
        judge = np.repeat(np.arange(len(listings)), [len(part.source) for part in listings])
        return Together(Problem.of(listing, variant, self.prior), judge, len(listings))

    def _listing(self, merged: Tables, judge: int) -> Listing:
        listing = listed(merged, self.x, 0, judge, difference=self.difference)
        scaled = jnp.asarray(np.asarray(listing.rows.difference) / self.scale)
        return dataclasses.replace(
            listing, rows=dataclasses.replace(listing.rows, difference=scaled)
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """One judge's verdicts in the form that the fits take."""

    rows: Rows
    """Padded, so that judges with similar numbers of verdicts share compiled programs."""
    design: Design
    """Models without a verdict are masked."""
    variant: Variant
    prior: Prior
    contents: np.ndarray
    """[M], see `Listing`."""
    source: np.ndarray
    """[R] pool of the file that each row comes from."""
    n_verdicts: np.ndarray
    """[M] number of verdicts on each content."""
    n_won: np.ndarray
    """[M] how many of them it won, a tie being half a win."""
    sides: np.ndarray | None = None
    """[2, R, D], see `Listing`."""

    @classmethod
    def of(cls, listing: Listing, variant: Variant, prior: Prior) -> Problem:
        rows, m = listing.rows, len(listing.contents)
        first, second, shown = (np.asarray(v) for v in (rows.first, rows.second, rows.shown))
        of_others = np.where(first == second, 0, shown)
        n_verdicts = np.bincount(first, shown, m) + np.bincount(second, of_others, m)
        wins = np.asarray(rows.wins)
        lost = np.where(first == second, 0, shown - wins)
        n_won = np.bincount(first, wins, m) + np.bincount(second, lost, m)
        padded = padding.pad_rows(rows, padding.rows_size(len(shown)))
        fill = len(padded.shown) - len(shown)
        source = np.pad(listing.source, (0, fill))
        sides = listing.sides
        if sides is not None:
            sides = np.pad(sides, ((0, 0), (0, fill), (0, 0)))
        design = dataclasses.replace(listing.design, item_mask=jnp.asarray(n_verdicts > 0))
        counts = n_verdicts, n_won
        return cls(padded, design, variant, prior, listing.contents, source, *counts, sides)

    @property
    def naive(self) -> Variant:
        """c = kappa = 0."""
        return model.variant("naive", self.design)

    def fit(self, variant: Variant) -> Fit:
        """The MAP."""
        fit = _fit(self.rows, padding.pad_contents(self.design), self.prior, variant)
        parameters = padding.cut_parameters(fit.parameters, self.design.n_contents)
        return dataclasses.replace(fit, parameters=parameters)

    def intervals(self, fit: Fit, variant: Variant, **settings: Any) -> Intervals:
        """Intervals of a fit, with the pools of the file as clusters; see
        `intervals.intervals`."""
        arguments = fit.parameters, self.rows, self.design, self.prior, variant, self.source
        return intervals(*arguments, **settings)

    def profile_range(self, fit: Fit, covariate: int) -> float:
        """Range of the profile log-likelihood within 1 of a fitted coefficient, nats."""
        grid = identifiability.grid_around(fit.parameters.c[covariate])
        curve = identifiability.profile(
            self.rows,
            padding.pad_contents(self.design),
            grid,
            covariate=covariate,
            variant=self.variant,
        )
        return float(curve.range())

    @property
    def n_clusters(self) -> int:
        """Number of pools of the file with a verdict."""
        return len(np.unique(self.source[np.asarray(self.rows.shown) > 0]))


@dataclass(frozen=True, eq=False)
class Together:
    """All judges' verdicts as one problem, whose coefficients are c [D, J] and kappa [J], flat."""

    problem: Problem
    judge: np.ndarray
    """[rows] judge of each row; padding comes last."""
    n_judges: int
    """J."""

    def identified(self, members: np.ndarray) -> np.ndarray:
        """[D + 1, J] which free coefficients the verdicts of the judges in a mask [J] identify."""
        problem = self.problem
        shown = np.array(problem.rows.shown)
        shown[: len(self.judge)] *= members[self.judge]
        rows = dataclasses.replace(problem.rows, shown=jnp.asarray(shown))
        directions = identifiability.null_space(problem.design, rows, position=False).directions
        largest = np.abs(directions).max(1, initial=1e-300, keepdims=True)
        moves = np.abs(directions[:, problem.design.n_contents : -1]) > MOVED * largest
        return (~moves.any(0) & np.asarray(problem.variant.c)).reshape(-1, self.n_judges)
