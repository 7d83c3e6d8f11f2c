"""The pools of a batch with all judges, and how each pool's model depends on the coefficients that
all pools share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges, PanelGroup, only, panels_of
from jbt.own.shared_coefficients import directions
from jbt.own.shared_coefficients.between import content_means, with_means
from jbt.own.shared_coefficients.directions import NullDirections
from jbt.own.shared_coefficients.marginal_fit import PoolStack
from jbt.own.tables import limits
from jbt.types import Panel


@dataclass(frozen=True, eq=False)
class Panels:
    """The pools of a batch with all judges.

    The shared coefficients are c [D, J] and kappa [J], flat, then b [D], see `panel`. The model of
    one pool has c [2 D, J] and kappa [J]: for the covariates, then for their means over the items
    of a content, whose coefficients are s b (`pool_terms.pool_model`).
    """

    batch: Batch
    judges: Judges
    groups: list[PanelGroup]
    """Their covariates are followed by those means."""
    loadings: list[np.ndarray]
    """[F, biases, shared] of each group, see `PoolStack`."""
    between: list[np.ndarray]
    """[F, M, D] of each group, the mean of each covariate over the items of a content, less its
    mean over contents; 0 at padding."""

    @classmethod
    def of(cls, batch: Batch, judges: Judges) -> Panels:
        d, j, n_pools = len(batch.covariates), len(judges.names), len(batch.tables.pools)
        shared = (d + 1) * j + d
        loadings, informations = (2 * d + 1) * j * shared, (shared + j + 1) ** 2
        what = f"joint fits of {n_pools} pools, {j} judges and {d} covariates"
        limits.check(24 * n_pools * (loadings + informations), what, limits.ALONE)
        groups = [panels_of(group, judges) for group in batch.groups]
        between = [content_means(group.items) for group in groups]
        return cls(
            batch,
            judges,
            [
                _with_means(*group_and_means)
                for group_and_means in zip(groups, between, strict=True)
            ],
            [_loadings(group) for group in groups],
            between,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """D and J."""
        return len(self.batch.covariates), len(self.judges.names)

    def parts(self, slope: np.ndarray, members: np.ndarray | None = None) -> list[PoolStack]:
        """The pools, for `marginal_fit.maximum`.

        Args:
          slope: [D] whether b is free for each covariate; else it is 0.
          members: [J] the judges whose verdicts count; default all.
        """
        d, j = self.shape
        keep, stacks = np.r_[np.ones((d + 1) * j), slope], []
        for group, loadings in zip(self.groups, self.loadings, strict=True):
            panel = group.panel if members is None else only(group.panel, members)
            owner = np.zeros(len(loadings), int)
            stacks.append(PoolStack(panel, group.design, jnp.asarray(loadings * keep), owner))
        return stacks

    def null_directions(self, members: np.ndarray | None = None) -> NullDirections:
        """Null directions of the verdicts of the judges in a mask [J], default all. b is left out,
        as unknown qualities absorb it."""
        return directions.null_directions(self.parts(np.zeros(self.shape[0], bool), members), 1)

    def identified(self, null_directions: NullDirections) -> np.ndarray:
        """[D + 1, J] which of (c, kappa) are estimated and moved by no null direction."""
        d, j = self.shape
        unmoved = null_directions.identified[0][: (d + 1) * j].reshape(d + 1, j)
        return unmoved & self.estimated

    @property
    def estimated(self) -> np.ndarray:
        """[D + 1, J] which of (c, kappa) are free and enter some verdict."""
        d, j = self.shape
        n_verdicts = self.n_verdicts
        position = np.array([p.position for p in self.batch.pools]).reshape(-1, j)
        free = np.tile(n_verdicts.sum(0) > 0, (d + 1, 1))
        free[-1] = (position & (n_verdicts > 0)).any(0)
        return free & ~self.judges.known

    @property
    def n_verdicts(self) -> np.ndarray:
        """[pools, J]"""
        counts = self.batch.tables.counts["n_verdicts"].to_numpy()
        return counts.reshape(-1, len(self.judges.names))


def _with_means(group: PanelGroup, means: np.ndarray) -> PanelGroup:
    """The group with the covariates of `means` appended to its own."""
    design, verdicts = with_means(group.design, group.panel.verdicts, means)
    panel = jax.vmap(Panel)(verdicts, group.panel.discrimination, group.panel.sharing)
    return dataclasses.replace(group, design=design, panel=panel)


def _loadings(group: PanelGroup) -> np.ndarray:
    free = np.asarray(group.variant.c), np.asarray(group.variant.kappa)
    n_pools, d, j = free[0].shape
    loadings = np.zeros((n_pools, 2 * d + 1, j, (d + 1) * j + d))
    for g in range(j):
        for i in range(d):
            loadings[:, i, g, i * j + g] = free[0][:, i, g]
        loadings[:, -1, g, d * j + g] = free[1][:, g]
    for i in range(d):
        loadings[:, d + i, :, (d + 1) * j + i] = 1
    return loadings.reshape(n_pools, (2 * d + 1) * j, -1)
