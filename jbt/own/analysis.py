"""Fits of a user's tables: naive and bias-aware side by side, for every pool and judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt import files, metrics, model, runtime
from jbt.fit import fit_map
from jbt.own.batch import Batch, Group, PoolTable
from jbt.types import Design, Fit, Prior, Status, Variant, Verdicts


@dataclasses.dataclass(frozen=True, eq=False)
class PoolFit:
    """What one judge's verdicts say about one pool. Numbers are NaN where undefined."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    items: tuple[str, ...]
    theta: np.ndarray
    """[items] quality under the bias-aware model (MAP), logits; items of one content share it."""
    theta_naive: np.ndarray
    """[items] quality under the naive model, c = kappa = 0, logits."""
    phi: np.ndarray
    """[items] apparent quality under the bias-aware model, theta + x c, logits."""
    c: np.ndarray
    """[D] bias coefficient of each covariate, logits per unit (`Batch.units`)."""
    kappa: float
    """Position term, logits in favour of the first shown; NaN where it is fixed at 0."""
    status: Status
    """The worse of both fits; where both converged, NO_VERDICTS or COVARIATE_CONSTANT if so."""
    grad_norm: float
    """Of the bias-aware fit, see `Fit`."""
    prior_selected: tuple[str, ...]
    """See `PoolTable`; likewise the next three."""
    constant_covariates: tuple[bool, ...]
    n_verdicts: int
    n_errors: int
    top_k_differs: bool | None
    """Whether the two models disagree on the top k; None without finite fits or verdicts."""

    @property
    def usable(self) -> bool:
        """Whether both fits converged, on at least one verdict."""
        return self.status in (Status.CONVERGED, Status.COVARIATE_CONSTANT)

    def record(self) -> dict[str, Any]:
        """The fields as JSON has them: the status by its name, null for what is undefined."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in ("theta", "theta_naive", "phi", "c", "kappa", "grad_norm"):
            record[name] = files.defined(record[name])
        for name in ("items", "prior_selected", "constant_covariates"):
            record[name] = list(record[name])
        return {**record, "status": self.status.name.lower()}


def fit(batch: Batch, *, k: int = 1, prior: Prior | None = None) -> list[PoolFit]:
    """Fit every pool and judge of a batch, naive and bias-aware (MAP, float64).

    Args:
      batch: from `load`.
      k: size of the top set on which the two models are compared (count of contents).
      prior: default `Prior()`.

    Returns:
      One for each of `batch.pools`, in their order.

    Raises:
      ValueError: a pool of several contents has no more than k, or all have only one.
    """
    prior = Prior() if prior is None else prior
    found: dict[int, PoolFit] = {}
    with runtime.precision("float64"):
        _check_k(batch, k)
        for group in batch.groups:
            found.update(_fit_group(batch.pools, group, prior, k))
    return [found[i] for i in range(len(batch.pools))]


def _fit_group(
    pools: list[PoolTable], group: Group, prior: Prior, k: int
) -> Iterator[tuple[int, PoolFit]]:
    fits = _both(group.comparisons, group.design, group.items, group.variant, prior, k)
    naive, aware, theta, theta_naive, phi, differ = jax.device_get(fits)
    finite = np.isfinite(theta).all(1) & np.isfinite(theta_naive).all(1)
    for i, at in enumerate(group.index.tolist()):
        pool = pools[at]
        n = len(pool.items)
        fit = PoolFit(
            pool=pool.pool,
            judge=pool.judge,
            items=pool.items,
            theta=theta[i, :n],
            theta_naive=theta_naive[i, :n],
            phi=phi[i, :n],
            c=aware.parameters.c[i],
            kappa=float(aware.parameters.kappa[i]) if pool.position else np.nan,
            status=_status(pool, int(naive.status[i]), int(aware.status[i])),
            grad_norm=float(aware.grad_norm[i]),
            prior_selected=pool.prior_selected,
            constant_covariates=pool.constant_covariates,
            n_verdicts=pool.n_verdicts,
            n_errors=pool.n_errors,
            top_k_differs=bool(differ[i]) if finite[i] and pool.n_verdicts else None,
        )
        yield at, fit


@partial(jax.jit, static_argnames="k")
def _both(
    comparisons: Verdicts, design: Design, items: Design, variant: Variant, prior: Prior, k: int
) -> tuple[Fit, Fit, Array, Array, Array, Array]:
    """Both models on every pool: naive, bias-aware; theta of both, phi; do their top k differ?"""

    def one(
        comparisons: Verdicts, design: Design, items: Design, variant: Variant
    ) -> tuple[
        Fit, Fit, Float[Array, " N"], Float[Array, " N"], Float[Array, " N"], Bool[Array, ""]
    ]:
        both = jax.tree.map(lambda *v: jnp.stack(v), model.variant("naive", design), variant)
        fits = jax.vmap(lambda v: fit_map(comparisons, design, prior, v))(both)
        naive, aware = (jax.tree.map(lambda leaf, i=i: leaf[i], fits) for i in range(2))
        theta, theta_naive = aware.parameters.theta, naive.parameters.theta
        phi = model.apparent_quality(aware.parameters, items)
        differ = metrics.top_k_differ(theta_naive, theta, k, design.content_mask())
        return naive, aware, items.of_items(theta), items.of_items(theta_naive), phi, differ

    return jax.vmap(one)(comparisons, design, items, variant)


def _check_k(batch: Batch, k: int) -> None:
    sizes = np.zeros(len(batch.pools), int)
    for group in batch.groups:
        shown = jax.vmap(Design.content_mask)(group.design)
        sizes[group.index] = np.asarray(shown).sum(1)
    several = np.flatnonzero(sizes > 1)  # a pool of one content has nothing to rank
    if not len(several):
        raise ValueError("every pool has only one content: there is nothing to rank")
    smallest = several[sizes[several].argmin()]
    if not 1 <= k < sizes[smallest]:
        pool = batch.pools[smallest]
        what = f"pool {pool.pool!r} has {sizes[smallest]} contents"
        raise ValueError(f"k must lie in 1..{sizes[smallest] - 1} ({what}), got {k}")


def _status(pool: PoolTable, naive: int, aware: int) -> Status:
    worst = Status(max(naive, aware))
    if worst != Status.CONVERGED:
        return worst
    if pool.n_verdicts == 0:
        return Status.NO_VERDICTS
    if any(pool.constant_covariates):
        return Status.COVARIATE_CONSTANT
    return Status.CONVERGED
