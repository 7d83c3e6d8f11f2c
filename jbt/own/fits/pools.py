"""Naive and bias-aware fits of a user's tables, for every pool and judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import runtime
from jbt.border import files
from jbt.kernel import metrics
from jbt.own.fits.batch import Batch, Group, PoolTable
from jbt.own.fits.one_pool import fit_both, posterior, prior_free_bias
from jbt.own.fits.shared import SharedFit, fit_judges
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.shared_coefficients.intervals import Basis, Z
from jbt.own.tables.components import chains
from jbt.own.tables.pairs import flips
from jbt.types import Prior, Status

UNKNOWN = (Basis.WEAK, Basis.NOT_CONVERGED, Basis.UNDEFINED)
"""Bases of the sd of quality for which the prior would set the width of theta's interval."""


@dataclasses.dataclass(frozen=True)
class Ranked:
    """A content's place in its pool, under the bias-aware model."""

    content: str
    rank: int
    """1 for the best; contents with equal theta share a rank."""
    theta: float
    """Quality (MAP), logits."""
    low: float
    """As `PoolFit.theta_low`; high likewise."""
    high: float
    theta_naive: float
    """Quality under the naive model, logits."""
    membership: float
    """Posterior probability of being among the k best; prior-selected where theta is."""

    def row(self) -> dict[str, Any]:
        """Its numbers in a table of estimates, see `frame`."""
        numbers = {"estimate": self.theta, "low": self.low, "high": self.high}
        place = {"naive": self.theta_naive, "rank": self.rank, "membership": self.membership}
        return {"quantity": "theta", "name": self.content, **numbers, **place}


@dataclasses.dataclass(frozen=True, eq=False)
class PoolFit:
    """Naive and bias-aware fit of one pool to one judge's verdicts. NaN where undefined; 95 %
    intervals, undefined where the prior chose or a fit did not converge."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    items: tuple[str, ...]
    theta: np.ndarray
    """[items] quality under the bias-aware model (MAP), logits; items of one content share it."""
    theta_low: np.ndarray
    """[items] interval of theta (with theta_high) from the Laplace posterior: of its distance from
    the mean over the pool's contents, as the mean is not identified. NaN where a c is free, as it
    would assume quality unrelated to the covariate; NaN, as the other intervals, where pools are
    merged (`Basis.MERGED`)."""
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
    """[D] the estimate without a prior, where the verdicts identify it."""
    c_low: np.ndarray
    """[D] profile-likelihood interval of c_mle (with c_high), see `estimate_bias`."""
    c_high: np.ndarray
    kappa: float
    """Position term, logits in favour of the first shown; NaN where it is fixed at 0."""
    kappa_low: float
    """Interval of kappa (with kappa_high) from the Laplace posterior."""
    kappa_high: float
    status: Status
    """The worse of both fits; where both converged, NO_VERDICTS or COVARIATE_CONSTANT if so."""
    grad_norm: float
    """Gradient norm of the bias-aware fit, see `Fit`."""
    prior_selected: tuple[str, ...]
    """See `PoolTable`, as for the next three fields."""
    constant_covariates: tuple[bool, ...]
    n_verdicts: int
    n_errors: int
    islands: int
    """Number of connected components of the contents, 1 where the comparisons connect all; a
    content without a verdict is one of its own. Between components the prior ranks."""
    n_both_orders: int
    """Pairs of items shown in both orders."""
    flip_rate: float
    """Share of those pairs whose verdicts contradict each other, see `Flips`."""
    top_k_differs: bool | None
    """Whether the two models disagree on the top k; None without finite fits or verdicts."""

    @property
    def usable(self) -> bool:
        """Whether both fits converged and there is a verdict."""
        return usable(self.status)

    def rows(self, covariates: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a row for each estimate, see `frame`; if not usable, one without any."""
        facts = {"judge": self.judge, "pool": self.pool, "status": self.status.name.lower()}
        if not self.usable:
            yield facts
            return
        for content in self.ranking:
            yield {**content.row(), **facts, "prior_selected": "theta" in self.prior_selected}
        biases: list[tuple[str, Any]] = [
            ("c", of_c) for of_c in zip(covariates, self.c, self.c_low, self.c_high, strict=True)
        ]
        if not np.isnan(self.kappa):
            biases.append(("kappa", (None, self.kappa, self.kappa_low, self.kappa_high)))
        for quantity, values in biases:
            row = dict(zip(("name", "estimate", "low", "high"), values, strict=True))
            selected = quantity in self.prior_selected
            yield {**facts, "quantity": quantity, **row, "prior_selected": selected}

    def record(self) -> dict[str, Any]:
        """The fields for JSON."""
        return files.plain(self)


class Fits(list[PoolFit]):
    """Fits in the order of `Batch.pools`."""

    def __init__(self, fits: Iterable[PoolFit], covariates: Sequence[str]) -> None:
        super().__init__(fits)
        self.covariates = tuple(covariates)

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `frame`."""
        return frame(row for fit in self for row in fit.rows(self.covariates))


COLUMNS = (
    *("judge", "pool", "quantity", "name"),
    *("estimate", "low", "high"),
    *("naive", "rank", "membership"),
    *("prior_selected", "status"),
)


def frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A row for each estimate: judge, pool (empty: all pools together), quantity (theta, c, kappa,
    or of all judges together c_joint, kappa_joint and slope), name (of the content or covariate),
    estimate, low and high (empty where the prior chose), naive, rank and membership (of theta),
    prior_selected, status. Other columns of the rows are left out."""
    numbers = dict.fromkeys(("estimate", "low", "high", "naive", "membership"), float)
    table = pd.DataFrame(list(rows), columns=pd.Index(COLUMNS))
    return table.astype({**numbers, "rank": "Int64"})


def fit(
    batch: Batch,
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
    shared: SharedFit | None = None,
    intervals: bool = True,
) -> Fits:
    """Fit every pool and judge of a batch, naive and bias-aware (MAP, float64).

    Args:
      batch: from `load`.
      k: size of the top set on which the two models are compared (count of contents).
      prior: default `Prior()`.
      spread: whether lam is taken from the sd of quality estimated over all pools of a judge
        (`fit_judges`), not from the prior; default: if no prior is given.
      shared: from `fit_judges` of this batch, if already computed.
      intervals: False leaves intervals, c_mle and membership undefined, and saves most of the time.

    Returns:
      A fit for each of `batch.pools`, in their order.

    Raises:
      ValueError: a pool of several contents has no more than k, or all have only one.
    """
    check_k(batch, k)
    spread = prior is None if spread is None else spread
    prior = Prior() if prior is None else prior
    n_judges = len(batch.tables.judges)
    lam, known_sd = np.full(n_judges, float(np.asarray(prior.lam))), np.ones(n_judges, bool)
    if spread:
        shared = shared or fit_judges(batch, prior=prior, spread=True)
        sd, converged = shared.of("sd"), np.array(shared.status) == Status.CONVERGED
        lam = np.where(converged, sd["estimate"].to_numpy() ** -2.0, lam)
        known_sd = ~sd["basis"].isin(UNKNOWN).to_numpy()
    fits_by_number: dict[int, PoolFit] = {}
    facts = _Facts.of(batch)
    with runtime.precision("float64"):
        for group in batch.groups:
            fits = _fit_group(batch, group, facts, prior, lam, known_sd, k, intervals)
            fits_by_number.update(fits)
    return Fits(batch.of_all(fits_by_number, _without_verdicts), batch.covariates)


def _without_verdicts(fit: PoolFit, pool: PoolTable) -> PoolFit:
    """The same fit for another judge."""
    return dataclasses.replace(fit, judge=pool.judge, n_errors=pool.n_errors)


@dataclasses.dataclass(frozen=True, eq=False)
class _Facts:
    """Facts about each pool and judge that need no fit."""

    islands: list[int]
    n_both_orders: list[int]
    flip_rate: list[float]

    @classmethod
    def of(cls, batch: Batch) -> _Facts:
        tables = batch.tables
        linked = chains(tables, np.zeros((len(tables.items), 0)))
        n_pairs, n_flips = flips(tables)
        rate = np.full(len(n_pairs), np.nan)
        np.divide(n_flips, n_pairs, out=rate, where=n_pairs > 0)
        return cls(linked.islands.tolist(), n_pairs.tolist(), rate.tolist())


def _fit_group(
    batch: Batch,
    group: Group,
    facts: _Facts,
    prior: Prior,
    lam: np.ndarray,
    known_sd: np.ndarray,
    k: int,
    intervals: bool,
) -> Iterator[tuple[int, PoolFit]]:
    """Fit a group. `lam` [judges] replaces the prior's; where the verdicts do not identify the sd
    of quality (`known_sd` [judges]), theta has no interval."""
    priors = jnp.asarray(lam[group.index % len(lam)]), jnp.asarray(prior.lam_b, float)
    leaves = group.comparisons, group.design, group.items, group.variant
    naive, aware, phi, differ = in_chunks(
        lambda stack: fit_both(*stack, priors[1], k), (*leaves, priors[0])
    )
    if intervals:
        sd_theta, sd_kappa, top_k = posterior(group, aware.parameters, *priors, k)
        bias = prior_free_bias(batch, group)
    else:
        sd_theta = top_k = np.full_like(aware.parameters.theta, np.nan)
        sd_kappa = np.full_like(aware.parameters.kappa, np.nan)
        bias = np.full((3, *aware.parameters.c.shape), np.nan)
    modes = [np.asarray(f.parameters.theta) for f in (aware, naive)]
    c, owner = np.asarray(aware.parameters.c), group.items.content
    merged = batch.tables.merged
    if merged:
        bias[1:] = np.nan
    for i, number in enumerate(group.index.tolist()):
        pool = batch.pools[number]
        n, m = len(pool.items), len(pool.contents)
        of_items = np.arange(n) if owner is None else np.asarray(owner[i, :n])
        theta, theta_naive = (mode[i, :m] for mode in modes)
        kappa = float(aware.parameters.kappa[i]) if pool.position else np.nan
        status = _status(pool, int(naive.status[i]), int(aware.status[i]))
        prior_selected = pool.prior_selected if usable(status) else ("theta", "kappa")
        undecided = "theta" in prior_selected or not all(pool.constant_covariates) or merged
        undecided |= not known_sd[number % len(known_sd)]
        half_widths = Z * (np.full(m, np.nan) if undecided else sd_theta[i, :m])
        kappa_half_width = np.nan if "kappa" in prior_selected or merged else Z * float(sd_kappa[i])
        finite = np.isfinite(theta).all() and np.isfinite(theta_naive).all()
        ranked = theta, theta - half_widths, theta + half_widths, theta_naive, top_k[i, :m]
        yield (
            number,
            PoolFit(
                pool=pool.pool,
                judge=pool.judge,
                items=pool.items,
                theta=theta[of_items],
                theta_low=(theta - half_widths)[of_items],
                theta_high=(theta + half_widths)[of_items],
                theta_naive=theta_naive[of_items],
                phi=phi[i, :n],
                ranking=ranking(pool.contents, *ranked),
                c=c[i],
                c_mle=bias[0, i],
                c_low=bias[1, i],
                c_high=bias[2, i],
                kappa=kappa,
                kappa_low=kappa - kappa_half_width,
                kappa_high=kappa + kappa_half_width,
                status=status,
                grad_norm=float(aware.grad_norm[i]),
                prior_selected=pool.prior_selected,
                constant_covariates=pool.constant_covariates,
                n_verdicts=pool.n_verdicts,
                n_errors=pool.n_errors,
                islands=facts.islands[number],
                n_both_orders=facts.n_both_orders[number],
                flip_rate=facts.flip_rate[number],
                top_k_differs=bool(differ[i]) if finite and pool.n_verdicts else None,
            ),
        )


def ranking(
    contents: tuple[str, ...], theta: np.ndarray, *values: np.ndarray
) -> tuple[Ranked, ...]:
    """Contents by theta, the best first; of equal ones, whose thetas differ by rounding, those that
    come first. `values` are the other fields of `Ranked`."""
    order = np.argsort(-theta, kind="stable")
    best = theta[order]
    # Rank: 1 + the number of contents before the first that is tied with this one.
    rank = 1 + np.searchsorted(-best, -best - metrics.TIED)
    by_rank = np.lexsort((order, rank))
    order, rank = order[by_rank], rank[by_rank]
    columns = [v[order].tolist() for v in (theta, *values)]
    return tuple(
        Ranked(contents[number], place, *numbers)
        for number, place, *numbers in zip(order.tolist(), rank.tolist(), *columns, strict=True)
    )


def check_k(batch: Batch, k: int) -> None:
    """Raise `ValueError` unless every pool of several contents has more than k."""
    check_sizes({pool.pool: len(pool.contents) for pool in batch.pools}, k)


def check_sizes(sizes: Mapping[str, int], k: int) -> None:
    """`check_k` for pools given by their numbers of contents."""
    rankable = {pool: n for pool, n in sizes.items() if n > 1}  # one alone is no ranking
    if not rankable:
        raise ValueError("every pool has only one content: there is nothing to rank")
    pool = min(rankable, key=rankable.__getitem__)
    smallest = rankable[pool]
    if not (isinstance(k, int | np.integer) and 1 <= k < smallest):
        reason = f"pool {pool!r} has {smallest} contents"
        raise ValueError(f"k must lie in 1..{smallest - 1} ({reason}), got {k!r}")


def usable(status: Status) -> bool:
    """Whether a pool's fits converged and it has a verdict."""
    return status in (Status.CONVERGED, Status.COVARIATE_CONSTANT)


def _status(pool: PoolTable, naive: int, aware: int) -> Status:
    worst = Status(max(naive, aware))
    if worst != Status.CONVERGED:
        return worst
    if pool.n_verdicts == 0:
        return Status.NO_VERDICTS
    if any(pool.constant_covariates):
        return Status.COVARIATE_CONSTANT
    return Status.CONVERGED
