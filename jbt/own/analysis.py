"""Fits of a user's tables: naive and bias-aware side by side, for every pool and judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jbt import estimators, files, metrics, runtime
from jbt.fit import fit_map
from jbt.identifiability import BiasEstimate, estimate_bias
from jbt.laplace import laplace
from jbt.membership import DRAWS, membership, sobol_normals
from jbt.own.batch import Batch, Group, PoolTable
from jbt.types import Comparisons, Design, Fit, Parameters, Prior, Rows, Status, Variant

LEVEL = 0.95
"""Coverage of every interval."""

Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

TIED = 1e-9
"""Qualities closer than this, in logits, are tied: two contents with the same record differ by
rounding."""

AT_ONCE = 2**22
"""Draws of qualities made together (count), so that memory does not grow with the pools."""


@dataclasses.dataclass(frozen=True)
class Ranked:
    """A content's place in its pool, under the bias-aware model."""

    content: str
    rank: int
    """1 for the best; contents with equal theta share one."""
    theta: float
    """Quality (MAP), logits."""
    low: float
    """As `PoolFit.theta_low`, and so is high."""
    high: float
    theta_naive: float
    """Quality under the naive model, logits."""
    membership: float
    """Posterior probability to be among the k best; where theta is prior-selected, so is this."""


@dataclasses.dataclass(frozen=True, eq=False)
class PoolFit:
    """What one judge's verdicts say about one pool. Numbers are NaN where undefined; intervals are
    of 95 % and undefined where the prior chose, or a fit did not converge."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    items: tuple[str, ...]
    theta: np.ndarray
    """[items] quality under the bias-aware model (MAP), logits; items of one content share it."""
    theta_low: np.ndarray
    """[items] interval of theta, and theta_high: of its distance from the mean over the pool's
    contents, which no verdict tells; from the Laplace posterior."""
    theta_high: np.ndarray
    theta_naive: np.ndarray
    """[items] quality under the naive model, c = kappa = 0, logits."""
    phi: np.ndarray
    """[items] apparent quality under the bias-aware model, theta + x c, logits."""
    ranking: tuple[Ranked, ...]
    """The contents, the best first."""
    c: np.ndarray
    """[D] bias coefficient of each covariate (MAP), logits per unit (`Batch.units`)."""
    c_mle: np.ndarray
    """[D] the same without a prior, where the verdicts identify it."""
    c_low: np.ndarray
    """[D] profile-likelihood interval around c_mle, and c_high: see `estimate_bias`."""
    c_high: np.ndarray
    kappa: float
    """Position term, logits in favour of the first shown; NaN where it is fixed at 0."""
    kappa_low: float
    """Interval of kappa, and kappa_high, from the Laplace posterior."""
    kappa_high: float
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
        for name, value in record.items():
            if isinstance(value, (float, np.ndarray)):
                record[name] = files.defined(value)
        for name in ("items", "prior_selected", "constant_covariates"):
            record[name] = list(record[name])
        record["ranking"] = [
            {k: files.defined(v) if isinstance(v, float) else v for k, v in vars(r).items()}
            for r in self.ranking
        ]
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
        check_k(batch, k)
        for group in batch.groups:
            found.update(_fit_group(batch, group, prior, k))
    return [found[i] for i in range(len(batch.pools))]


@dataclasses.dataclass(frozen=True, eq=False)
class _Arrays:
    """What was computed of the pools of a group, each with a leading axis over them."""

    naive: Fit
    aware: Fit
    differ: np.ndarray
    sd_theta: np.ndarray
    """[fits, M] of its distance from the mean over the pool's contents."""
    sd_kappa: np.ndarray
    membership: np.ndarray
    c_mle: np.ndarray
    """[fits, D], as the next two."""
    c_low: np.ndarray
    c_high: np.ndarray


def _fit_group(
    batch: Batch, group: Group, prior: Prior, k: int
) -> Iterator[tuple[int, PoolFit]]:
    naive, aware, differ = fit_both(group, prior, k)
    posterior = _posterior(group, aware.parameters, prior, k)
    found = _Arrays(naive, aware, differ, *posterior, *_bias(batch, group))
    for i, at in enumerate(group.index.tolist()):
        yield at, _pool_fit(batch, at, i, found)


def _pool_fit(batch: Batch, at: int, i: int, found: _Arrays) -> PoolFit:
    """One pool and judge, `at` of the batch, `i` of what was computed."""
    pool, layout = batch.pools[at], batch.layout
    of = at // len(batch.tables.judges)
    rows, contents = layout.rows[of], layout.contents[of]
    content = layout.content[rows]
    parameters = found.aware.parameters
    theta, theta_naive = (
        f.parameters.theta[i, : len(contents)] for f in (found.aware, found.naive)
    )
    finite = np.isfinite(theta).all() and np.isfinite(theta_naive).all()
    status = _status(pool, int(found.naive.status[i]), int(found.aware.status[i]))
    usable = status in (Status.CONVERGED, Status.COVARIATE_CONSTANT)

    def half(name: str, sd: np.ndarray | float) -> np.ndarray | float:
        """Half-widths of intervals."""
        told = usable and name not in pool.prior_selected
        return Z * sd if told else np.nan * sd

    wide = half("theta", found.sd_theta[i, : len(contents)])
    low, high = theta - wide, theta + wide
    kappa = float(parameters.kappa[i]) if pool.position else np.nan
    kappa_wide = half("kappa", float(found.sd_kappa[i]))
    return PoolFit(
        pool=pool.pool,
        judge=pool.judge,
        items=pool.items,
        theta=theta[content],
        theta_low=low[content],
        theta_high=high[content],
        theta_naive=theta_naive[content],
        phi=theta[content] + layout.x[rows] @ parameters.c[i],
        ranking=_ranking(contents, theta, low, high, theta_naive, found.membership[i]),
        c=parameters.c[i],
        c_mle=found.c_mle[i],
        c_low=found.c_low[i],
        c_high=found.c_high[i],
        kappa=kappa,
        kappa_low=kappa - kappa_wide,
        kappa_high=kappa + kappa_wide,
        status=status,
        grad_norm=float(found.aware.grad_norm[i]),
        prior_selected=pool.prior_selected,
        constant_covariates=pool.constant_covariates,
        n_verdicts=pool.n_verdicts,
        n_errors=pool.n_errors,
        top_k_differs=bool(found.differ[i]) if finite and pool.n_verdicts else None,
    )


def _ranking(contents: tuple[str, ...], theta: np.ndarray, *each: np.ndarray) -> tuple[Ranked, ...]:
    """Contents by theta; `each`: the further fields of `Ranked`."""
    order = np.argsort(-theta, kind="stable")
    best = theta[order]
    # How many are better: those before the first that is tied with each.
    rank = 1 + np.searchsorted(-best, -best - TIED)
    columns = [v[order].tolist() for v in (theta, *each)]
    return tuple(
        Ranked(contents[at], place, *numbers)
        for at, place, *numbers in zip(order.tolist(), rank.tolist(), *columns, strict=True)
    )


def fit_both(group: Group, prior: Prior, k: int) -> tuple[Fit, Fit, np.ndarray]:
    """Naive and bias-aware, with a leading axis over the group's pools; do their top k differ?"""
    return jax.device_get(_fit_both(group.comparisons, group.design, group.variant, prior, k))


@partial(jax.jit, static_argnames="k")
def _fit_both(
    comparisons: Comparisons | Rows, design: Design, variant: Variant, prior: Prior, k: int
) -> tuple[Fit, Fit, Array]:
    def one(
        comparisons: Comparisons | Rows, design: Design, variant: Variant
    ) -> tuple[Fit, Fit, Bool[Array, ""]]:
        naive = estimators.naive(comparisons, design, prior)
        aware = fit_map(comparisons, design, prior, variant)
        theta, theta_naive = aware.parameters.theta, naive.parameters.theta
        differ = metrics.top_k_differ(theta_naive, theta, k, design.content_mask())
        return naive, aware, differ

    return jax.vmap(one)(comparisons, design, variant)


def _posterior(
    group: Group, mode: Parameters, prior: Prior, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standard deviations of theta about its pool's mean [fits, M] and of kappa [fits], and
    membership of the top k [fits, M]."""
    m, n_covariates = mode.theta.shape[1], mode.c.shape[1]
    draws = DRAWS["conditional"]
    normals = sobol_normals(draws, m + n_covariates + 1, np.float64)
    each = (mode, group.comparisons, group.design, group.variant)
    return in_chunks(
        lambda some: _posterior_of(*some, prior, normals, k), each, AT_ONCE // (draws * m)
    )


@partial(jax.jit, static_argnames="k")
def _posterior_of(
    mode: Parameters,
    comparisons: Comparisons | Rows,
    design: Design,
    variant: Variant,
    prior: Prior,
    normals: Array,
    k: int,
) -> tuple[Array, Array, Array]:
    def one(
        mode: Parameters, comparisons: Comparisons | Rows, design: Design, variant: Variant
    ) -> tuple[Float[Array, " M"], Float[Array, ""], Float[Array, " M"]]:
        posterior = laplace(mode, comparisons, design, prior, variant)
        m, contents = design.n_contents, design.content_mask()
        among = membership(posterior, k, contents, normals) if m > k else jnp.ones(m)
        variance = (posterior.root**2).sum(0)
        # No verdict sees the constant of theta, so that in the posterior it is independent of the
        # rest, with the prior's variance.
        about_mean = variance[:m] - 1 / (prior.lam * contents.sum())
        sd = jnp.sqrt(jnp.where(contents, about_mean, 0))
        return sd, jnp.sqrt(variance[-1]), among

    return jax.vmap(one)(mode, comparisons, design, variant)


def _bias(batch: Batch, group: Group) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The prior-free estimate of c and its interval, each [fits, D], where there is one: an item
    whose quality is its own absorbs any covariate."""
    n_fits, d = group.variant.c.shape
    found = np.full((3, n_fits, d), np.nan)
    which = batch.sharing(group)
    if d and len(which):
        each = (group.comparisons, group.design, group.variant)
        each = jax.tree.map(lambda leaf: leaf[which], each)
        found[:, which] = in_chunks(lambda some: _bias_of(*some), each, 1024)
    return found[0], found[1], found[2]


@jax.jit
def _bias_of(
    comparisons: Comparisons | Rows, design: Design, variant: Variant
) -> tuple[Array, Array, Array]:
    def one(
        comparisons: Comparisons | Rows, design: Design, variant: Variant
    ) -> tuple[Float[Array, " D"], Float[Array, " D"], Float[Array, " D"]]:
        def of(covariate: Int[Array, ""]) -> BiasEstimate:
            return estimate_bias(
                comparisons, design, covariate=covariate, variant=variant, level=LEVEL
            )

        estimate = jax.vmap(of)(jnp.arange(design.n_covariates))
        return estimate.c, estimate.low, estimate.high

    return jax.vmap(one)(comparisons, design, variant)


def in_chunks(function: Any, each: Any, size: int) -> tuple[np.ndarray, ...]:
    """A function of pools with a leading axis, given at most `size` of them at once; the last chunk
    is filled up with the last pool, so that one program serves all."""
    n = len(jax.tree.leaves(each)[0])
    size = min(max(size, 1), n)
    parts = []
    for start in range(0, n, size):
        some = np.minimum(np.arange(start, start + size), n - 1)
        out = function(jax.tree.map(lambda leaf, some=some: leaf[some], each) if size < n else each)
        parts.append([np.asarray(v)[: n - start] for v in out])
    return tuple(np.concatenate(v) for v in zip(*parts, strict=True))


def check_k(batch: Batch, k: int) -> None:
    """Raise `ValueError` unless every pool of several contents has more than k."""
    sizes = batch.layout.n_contents
    several = np.flatnonzero(sizes > 1)  # a pool of one content has nothing to rank
    if not len(several):
        raise ValueError("every pool has only one content: there is nothing to rank")
    smallest = several[sizes[several].argmin()]
    if not 1 <= k < sizes[smallest]:
        what = f"pool {batch.tables.pools[smallest]!r} has {sizes[smallest]} contents"
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
