"""What a user's verdicts say about each bias coefficient, and what the prior said instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import files, runtime
from jbt.fit import fit_map
from jbt.identifiability import (
    BiasEstimate,
    Profile,
    estimate_bias,
    grid_around,
    null_space,
    profile,
)
from jbt.own.batch import Batch, Group
from jbt.own.report import signed, with_interval
from jbt.own.tables import Tables
from jbt.types import Design, Fit, Prior, Rows, Status, Variant, Verdicts

SILENT = 1e-6
"""Nats below which a profile counts as flat in words: what rounding leaves is smaller."""


@dataclass(frozen=True, eq=False)
class Identified:
    """What one judge's verdicts on one pool say about one coefficient c. Numbers are NaN where
    undefined; c is in logits per unit of the covariate."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    covariate: str
    """With its transformation, as `Batch.covariates`."""
    unit: str
    """What c is a number of logits per."""
    rank: int
    """Of the design matrix of the comparisons made."""
    n_columns: int
    """Its columns: contents, covariates and, unless kappa is fixed at 0, position."""
    null_directions: tuple[str, ...]
    """What the comparisons made are silent about, in words."""
    grid: np.ndarray
    """[9] values of c within 1 of `c_map`."""
    log_likelihood: np.ndarray
    """[9] profile log-likelihood there, nats."""
    profile_range: float
    """Its largest value less its smallest, nats."""
    c_map: float
    """Under the prior."""
    c_mle: float
    """Without a prior."""
    low: float
    """95 % profile-likelihood interval of c_mle."""
    high: float
    status: Status
    """Of c_mle, see `identifiability.estimate_bias`; NOT_CONVERGED or NOT_FINITE where c_map is
    not defined either."""

    @property
    def nullity(self) -> int:
        """How many directions the comparisons made are silent about."""
        return len(self.null_directions)

    def record(self) -> dict[str, Any]:
        """As JSON has it: the status by its name, null for what is undefined."""
        interval = files.defined([self.low, self.high])
        return {
            "pool": self.pool,
            "judge": self.judge,
            "covariate": self.covariate,
            "unit": self.unit,
            "rank": self.rank,
            "n_columns": self.n_columns,
            "nullity": self.nullity,
            "null_directions": list(self.null_directions),
            "profile_range": files.defined(self.profile_range),
            "c_map": files.defined(self.c_map),
            "c_mle": files.defined(self.c_mle),
            "c_interval": None if None in interval else interval,
            "status": self.status.name.lower(),
        }

    def sentence(self) -> str:
        """What the verdicts say, in plain words."""
        c, chosen = f"c[{self.covariate}]", f"the prior chose {signed(self.c_map)}"
        around = f"between {signed(self.c_map - 1)} and {signed(self.c_map + 1)}"
        said = f"the verdicts carry {nats(self.profile_range)} about {c}"
        flat = f"{said}: any value {around}, and beyond, fits equally well; {chosen}"
        if self.status == Status.FLAT:
            return flat
        if self.status == Status.DISCONNECTED:
            return f"{flat}; comparing items that nothing links yet would tell"
        if self.status == Status.SEPARATED:
            rises = self.log_likelihood[-1] > self.log_likelihood[0]
            side = "larger" if rises else "smaller"
            return f"{said} {around}: the {side} the better, without an end; {chosen}"
        if self.status == Status.CONVERGED:
            best = with_interval(self.c_mle, self.low, self.high)
            return f"{said} {around}: {best} without a prior, {signed(self.c_map)} with it"
        if self.status == Status.COVARIATE_CONSTANT:
            return f"{self.covariate} never differs between the items, so that {c} changes nothing"
        if self.status == Status.NO_VERDICTS:
            return f"there is no verdict, and {c} is the prior's mean"
        return f"nothing is known about {c}: {self.status.name.lower()}"


def nats(evidence: float) -> str:
    """A number of nats, rounding errors being none."""
    return f"{evidence if evidence > SILENT else 0:.1f} nats"


def identify(tables: Tables, batch: Batch, prior: Prior | None = None) -> list[Identified]:
    """What the verdicts of every pool and judge say about each covariate's coefficient.

    Args:
      tables: as read.
      batch: of these tables; kappa is free or fixed at 0 as its groups have it.
      prior: of `c_map`, around which the profile is taken; default `Prior()`.

    Returns:
      One for each of `batch.pools` in their order, and each of `batch.covariates`.

    Raises:
      ValueError: the batch has no covariates.
    """
    if not batch.covariates:
        raise ValueError("no covariate whose coefficient could be identified (--covariates)")
    prior = Prior() if prior is None else prior
    names = _ContentNames.of_tables(tables)
    found: dict[int, list[Identified]] = {}
    with runtime.precision("float64"):
        for group in batch.groups:
            found.update(_of_group(batch, group, prior, names))
    return [one for i in range(len(batch.pools)) for one in found[i]]


def _of_group(
    batch: Batch, group: Group, prior: Prior, names: _ContentNames
) -> Iterator[tuple[int, list[Identified]]]:
    measured = _measure(group.comparisons, group.design, group.variant, prior)
    curve, evidence, estimate, mode = jax.device_get(measured)
    leaves = jax.device_get((group.comparisons, group.design, group.variant))
    for i, at in enumerate(group.index.tolist()):
        comparisons, design, variant = jax.tree.map(lambda leaf, i=i: leaf[i], leaves)
        null = null_space(
            design,
            comparisons if isinstance(comparisons, Rows) else comparisons.shown,
            batch.covariates,
            contents=names.of(at, design, in_rows=isinstance(comparisons, Rows)),
            position=bool(variant.kappa),
        )
        found = mode.status[i] == Status.CONVERGED
        yield (
            at,
            [
                Identified(
                    pool=batch.pools[at].pool,
                    judge=batch.pools[at].judge,
                    covariate=covariate,
                    unit=f"{batch.units} {covariate}",
                    rank=null.rank,
                    n_columns=null.n_columns,
                    null_directions=null.names,
                    grid=curve.grid[i, d],
                    log_likelihood=curve.log_likelihood[i, d],
                    profile_range=float(evidence[i, d]),
                    c_map=float(mode.parameters.c[i, d]) if found else np.nan,
                    c_mle=float(estimate.c[i, d]),
                    low=float(estimate.low[i, d]),
                    high=float(estimate.high[i, d]),
                    status=Status(int(estimate.status[i, d] if found else mode.status[i])),
                )
                for d, covariate in enumerate(batch.covariates)
            ],
        )


@jax.jit
def _measure(
    comparisons: Verdicts, design: Design, variant: Variant, prior: Prior
) -> tuple[Profile, Array, BiasEstimate, Fit]:
    """Of every pool and covariate the profile around the MAP, its range, and the estimate without
    a prior; of every pool the MAP."""

    def one(comparisons: Verdicts, design: Design, variant: Variant) -> tuple:
        mode = fit_map(comparisons, design, prior, variant)

        def of(d: Int[Array, ""]) -> tuple[Profile, Float[Array, ""], BiasEstimate]:
            grid = grid_around(mode.parameters.c[d])
            curve = profile(comparisons, design, grid, covariate=d, variant=variant)
            estimate = estimate_bias(comparisons, design, covariate=d, variant=variant)
            return curve, curve.range(), estimate

        return *jax.vmap(of)(jnp.arange(design.n_covariates)), mode

    return jax.vmap(one)(comparisons, design, variant)


@dataclass(frozen=True, eq=False)
class _ContentNames:
    """What the numbers of a design's contents stand for."""

    contents: list[str]
    labels: list[np.ndarray]
    """Of each pool's items, in the order of the items table, into `contents`."""
    n_judges: int

    @classmethod
    def of_tables(cls, tables: Tables) -> _ContentNames:
        pool, label = (tables.items[name].to_numpy() for name in ("pool", "content"))
        order = np.argsort(pool, kind="stable")
        ends = np.cumsum(np.bincount(pool, minlength=len(tables.pools)))[:-1]
        return cls(tables.contents, np.split(label[order], ends), len(tables.judges))

    def of(self, fit: int, design: Design, *, in_rows: bool) -> list[str]:
        """[M] of one of `Batch.pools`; empty for padding."""
        labels = self.labels[fit // self.n_judges]
        names = [""] * design.n_contents
        if in_rows:  # as `listing.listed` numbers them
            owner, labels = np.arange(len(np.unique(labels))), np.unique(labels)
        elif design.content is None:
            owner = np.arange(len(labels))
        else:
            owner = np.asarray(design.content)[: len(labels)]
        for number, label in zip(owner.tolist(), labels.tolist(), strict=True):
            names[number] = self.contents[label]
        return names
