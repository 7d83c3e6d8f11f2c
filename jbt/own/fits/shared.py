"""The coefficients that all pools share: of each judge alone, or of all judges in one fit.

    P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

Every judge has one (s, c, kappa) for all pools. Every pool has its own qualities, integrated out
(`shared_coefficients.marginal_fit`), with a common slope b in the covariates between contents and a
common sd about that line (`shared_coefficients.between`).

One judge alone is a panel of one with s = 1. Its verdicts identify c where renderings of one
content do. In a panel, (c, kappa) of the reference and of the anchors are known to be 0: a pool
without trusted verdicts identifies s b + c, the slope of apparent quality, and pools with trusted
verdicts identify b. Where no c is identified, b is fixed at 0 and the prior chooses c.

The discriminations of a panel are estimated with the rest. With s held at 1, a judge whose verdicts
have nothing to do with quality gets c = -b: it looks biased against whatever the trusted verdicts
favour.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import runtime
from jbt.border import files
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import JOINT, Judges, only, panels_of
from jbt.own.shared_coefficients import directions
from jbt.own.shared_coefficients.arrays import places
from jbt.own.shared_coefficients.between import content_means, with_means
from jbt.own.shared_coefficients.directions import NullDirections
from jbt.own.shared_coefficients.intervals import Basis, known
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack, maximum
from jbt.own.tables import limits
from jbt.types import Panel, Prior, Status

NUMBERS = ("estimate", "low", "high")
"""Columns of an estimate and its interval."""


def shared_places(d: int, j: int) -> dict[str, np.ndarray]:
    """The places of an owner's K parameters: c [D, J], kappa [J] and b [D] (slope), and in a
    panel the discriminations [J]; the last is log sd."""
    return places(c=(d, j), kappa=(j,), slope=(d,), discrimination=(j,))


@dataclass(frozen=True, eq=False)
class SharedModel:
    """The pools of a batch, and how each pool's model depends on the shared coefficients. An owner
    of coefficients is one judge alone, or all judges of a panel.

    The model of one pool has c [2 D, J] and kappa [J]: for the covariates, then for their means
    over the items of a content, whose coefficients are s b (`pool_terms.pool_model`).
    """

    batch: Batch
    judges: Judges | None
    """The panel; None for each judge alone."""
    stacks: list[PoolStack]
    """One of each group, with those means among its covariates."""
    index: list[np.ndarray]
    """[F] of each group, positions in `Batch.pools`; in a panel, in `Tables.pools`."""
    between: list[np.ndarray]
    """[F, M, D] of each group, the mean of each covariate over the items of a content, less its
    mean over contents; 0 at padding."""

    @classmethod
    def of(cls, batch: Batch, judges: Judges | None = None) -> SharedModel:
        """All pools of a batch, with the judges of a panel or with each judge alone.

        Raises:
          TableError: the tables of a panel would not fit into memory.
        """
        if judges is not None:
            d, j, n_pools = len(batch.covariates), len(judges.names), len(batch.tables.pools)
            shared = (d + 1) * j + d
            size = (2 * d + 1) * j * shared + (shared + j + 1) ** 2
            what = f"joint fits of {n_pools} pools, {j} judges and {d} covariates"
            limits.check(24 * n_pools * size, what, limits.ALONE)
        model = cls(batch, judges, [], [], [])
        for group in batch.groups:
            if judges is None:
                pools, verdicts, axis = group, group.comparisons, (..., None)
                owner = group.index % len(batch.tables.judges)
            else:
                pools = panels_of(group, judges)
                verdicts, axis, owner = pools.panel, ..., np.zeros(len(pools.index), int)
            means = content_means(pools.items)
            design, verdicts = with_means(pools.design, verdicts, means)
            free = (np.asarray(v)[axis] for v in (pools.variant.c, pools.variant.kappa))
            model.stacks.append(PoolStack(verdicts, design, _loadings(*free), owner))
            model.index.append(pools.index)
            model.between.append(means)
        return model

    @property
    def shape(self) -> tuple[int, int]:
        """D and J, the judges of an owner."""
        n_judges = 1 if self.judges is None else len(self.judges.names)
        return len(self.batch.covariates), n_judges

    @property
    def places(self) -> dict[str, np.ndarray]:
        """See `shared_places`."""
        return shared_places(*self.shape)

    @cached_property
    def parameters(self) -> pd.DataFrame:
        """A row for each of an owner's K parameters: quantity (c, kappa, slope, discrimination,
        sd), judge (in a panel; what belongs to all is `JOINT`'s), name (of the covariate),
        coefficient (`c[words]`, `kappa`), unit (of the covariate)."""
        x, judges = self.batch.covariates, [None] if self.judges is None else self.judges.names
        whole = None if self.judges is None else JOINT
        rows = [
            *(("c", judge, name) for name in x for judge in judges),
            *(("kappa", judge, None) for judge in judges),
            *(("slope", whole, name) for name in x),
            *(("discrimination", judge, None) for judge in judges if self.judges is not None),
            ("sd", whole, None),
        ]
        table = pd.DataFrame(rows, columns=pd.Index(["quantity", "judge", "name"]), dtype=object)
        facts = [
            (quantity if quantity != "c" else f"c[{name}]", name and f"{self.batch.units} {name}")
            for quantity, _, name in rows
        ]
        table[["coefficient", "unit"]] = pd.DataFrame(facts, dtype=object)
        return table

    @property
    def n_owners(self) -> int:
        return len(self.batch.tables.judges) if self.judges is None else 1

    @cached_property
    def n_verdicts(self) -> np.ndarray:
        """[pools, judges]"""
        counts = self.batch.tables.counts["n_verdicts"].to_numpy()
        return counts.reshape(-1, len(self.batch.tables.judges))

    def parts(self, sloped: np.ndarray, members: np.ndarray | None = None) -> list[PoolStack]:
        """The pools, for `marginal_fit.maximum`.

        Args:
          sloped: [owners, D] whether b is free for each covariate; else it is 0.
          members: [J] the judges of a panel whose verdicts count; default all.
        """
        parts = []
        for stack in self.stacks:
            loadings = np.asarray(stack.loadings).copy()
            loadings[:, :, self.places["slope"]] *= sloped[stack.owner][:, None]
            verdicts = stack.comparisons
            if members is not None and isinstance(verdicts, Panel):
                verdicts = only(verdicts, members)
            parts.append(stack._replace(comparisons=verdicts, loadings=jnp.asarray(loadings)))
        return parts

    def null_directions(self, members: np.ndarray | None = None) -> NullDirections:
        """Null directions of the verdicts, of the judges in a mask [J] or of all. b is left out, as
        unknown qualities absorb it."""
        fixed = np.zeros((self.n_owners, self.shape[0]), bool)
        return directions.null_directions(self.parts(fixed, members), self.n_owners)

    def identified(self, null_directions: NullDirections) -> np.ndarray:
        """[owners, D + 1, J] which of (c, kappa) are estimated and moved by no null direction."""
        d, j = self.shape
        unmoved = null_directions.identified[:, : (d + 1) * j].reshape(-1, d + 1, j)
        return unmoved & self.estimated

    @cached_property
    def estimated(self) -> np.ndarray:
        """[owners, D + 1, J] which of (c, kappa) are free and enter some verdict."""
        n = self.n_verdicts
        position = np.array([p.position for p in self.batch.pools]).reshape(n.shape)
        free = np.tile(n.sum(0) > 0, (self.shape[0] + 1, 1))
        free[-1] = (position & (n > 0)).any(0)
        return free.T[:, :, None] if self.judges is None else (free & ~self.judges.known)[None]


def _loadings(c: np.ndarray, kappa: np.ndarray) -> jnp.ndarray:
    """[F, biases, shared] see `PoolStack`, from which c [F, D, J] and kappa [F, J] are free."""
    n_pools, d, j = c.shape
    at = shared_places(d, j)
    loadings = np.zeros((n_pools, 2 * d + 1, j, (d + 1) * j + d))
    for g in range(j):
        for i in range(d):
            loadings[:, i, g, at["c"][i, g]] = c[:, i, g]
        loadings[:, -1, g, at["kappa"][g]] = kappa[:, g]
    for i in range(d):
        loadings[:, d + i, :, at["slope"][i]] = 1
    return jnp.asarray(loadings.reshape(n_pools, (2 * d + 1) * j, -1))


@dataclass(frozen=True, eq=False)
class SharedFit:
    """The shared coefficients of all owners, and what they came from."""

    estimates: pd.DataFrame
    """A row for each estimate, judge by judge: owner (number), the columns of
    `SharedModel.parameters` and of `intervals.known`, prior_selected (whether the prior chose it or
    holds much of its precision), status (of the owner's fit, a word).

    c: logits per unit; none of a judge for whom it is known to be 0. kappa: logits in favour of
    the first shown, in the pools where it is estimated; none where no pool estimates it, or it is
    known. slope: b of a covariate, the slope of quality between contents, logits per unit; none
    where the verdicts identify no c, so that b is 0. discrimination: factor on quality in a judge's
    logits, FIXED where it is not estimated. sd: of quality about its mean and slope, logits of a
    judge with discrimination 1, without an interval; its basis is that of log sd, FIXED where lam
    is known."""
    status: list[Status]
    """[owners] CONVERGED, NO_VERDICTS, or the status of the worst pool."""
    model: SharedModel
    nulls: NullDirections
    identified: np.ndarray
    """[owners, D + 1, J], see `SharedModel.identified`."""
    parts: list[PoolStack]
    top: Maximum

    def of(self, *quantities: str) -> pd.DataFrame:
        """The estimates of some quantities."""
        return self.estimates[self.estimates["quantity"].isin(quantities)]


def coefficient_records(
    table: pd.DataFrame, *more: str
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The entries of one judge's c and of its kappa (None without one) in JSON, from rows of
    estimates.

    Args:
      more: further columns.
    """
    columns = [*NUMBERS, "prior_selected", "basis", "p_alike", *more]
    table = table.rename(columns={"name": "covariate"})
    c = table.loc[table["quantity"] == "c", ["covariate", "unit", *columns]]
    kappa = files.plain(table.loc[table["quantity"] == "kappa", columns])
    return files.plain(c), kappa[0] if kappa else None


def fit_shared(
    model: SharedModel, *, prior: Prior | None = None, spread: bool | None = None
) -> SharedFit:
    """Fit the shared coefficients of each owner (float64 must be on).

    The pools where kappa is estimated share it (`PoolTable.position`); in the others it is 0, as in
    their own fits.

    Args:
      prior: default `Prior()`.
      spread: whether the sd of quality is estimated, about that of the prior (`maximum`);
        default: if no prior is given.
    """
    spread = prior is None if spread is None else spread
    prior = Prior() if prior is None else prior
    (d, j), panel = model.shape, model.judges
    nulls = model.null_directions()
    identified = model.identified(nulls)
    sloped = np.asarray(identified[:, :-1].any(2))
    parts = model.parts(sloped)
    judged, graded = model.n_verdicts.sum(0) > 0, np.zeros(0, bool)
    if panel is not None:
        graded = np.asarray(panel.graded & judged)
    lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), d + 1)
    precision = np.r_[np.repeat(lam_b, j), lam_b[:-1]]
    top = maximum(parts, prior, precision, model.n_owners, spread=spread, graded=graded)
    fixed = np.r_[np.zeros(len(precision), bool), ~graded, not spread]
    tables, status = [], []
    for owner in range(model.n_owners):
        of_verdicts = np.r_[identified[owner].ravel(), sloped[owner], graded, True]
        merged = model.batch.tables.merged
        numbers = known(top, parts, owner, np.eye(len(of_verdicts)), of_verdicts, merged=merged)
        table = pd.concat([model.parameters, numbers], axis=1).assign(owner=owner)
        if panel is None:
            table["judge"] = model.batch.tables.judges[owner]
            is_known, has_verdicts = np.zeros(1, bool), judged[[owner]]
        else:
            is_known, has_verdicts = panel.known, judged
        undefined = np.zeros(len(table), bool)
        undefined[: (d + 1) * j] = np.tile(~has_verdicts, d + 1)
        table.loc[undefined, "basis"] = Basis.UNDEFINED
        table.loc[fixed, "basis"] = Basis.FIXED
        log_sd = table["quantity"] == "sd"
        table.loc[log_sd, "estimate"] = np.exp(table.loc[log_sd, "estimate"])
        table.loc[log_sd, ["low", "high"]] = np.nan
        kept = np.r_[np.tile(~is_known, d), model.estimated[owner, -1], sloped[owner]]
        worst = Status(int(top.status[owner]))
        status.append(worst if has_verdicts.any() else Status.NO_VERDICTS)
        table["status"] = status[-1].name.lower()
        tables.append(table[np.r_[kept, np.ones(len(table) - len(kept), bool)]])
    estimates = pd.concat(tables)
    estimates["prior_selected"] = estimates["basis"].isin([Basis.PRIOR, Basis.WEAK])
    if panel is not None:
        place = estimates["judge"].map({name: g for g, name in enumerate([*panel.names, JOINT])})
        estimates = estimates.iloc[np.argsort(place.to_numpy(), kind="stable")]
    estimates = estimates.reset_index(drop=True)
    return SharedFit(estimates, status, model, nulls, identified, parts, top)


def fit_judges(
    batch: Batch, *, prior: Prior | None = None, spread: bool | None = None
) -> SharedFit:
    """Fit the coefficients of each judge alone, in the order of the tables' judges.

    Args:
      batch: from `load`.
      prior, spread: see `fit_shared`.
    """
    with runtime.precision("float64"):
        return fit_shared(SharedModel.of(batch), prior=prior, spread=spread)
