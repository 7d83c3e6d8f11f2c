"""Fits of a user's tables: naive and bias-aware side by side, for every pool and judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jbt import runtime
from jbt.border import files
from jbt.kernel import metrics
from jbt.own.fits.batch import Batch, Group, PoolTable
from jbt.own.fits.one_judge import JudgeFit, fit_judges
from jbt.own.fits.one_pool import fit_both, posterior, prior_free_bias
from jbt.own.shared_coefficients.basis import Basis, Z
from jbt.own.tables.components import chains
from jbt.own.tables.order_flips import flips
from jbt.types import Prior, Status

UNKNOWN = (Basis.WEAK, Basis.NOT_CONVERGED, Basis.UNDEFINED)
"""Of the sd of quality, what leaves the width of theta's interval to the prior."""


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
    contents, which no verdict tells; from the Laplace posterior. NaN where a c is free: it would
    rest on quality that has nothing to do with the covariate. As the other intervals NaN where
    pools are merged (`Basis.MERGED`)."""
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
    islands: int
    """Groups of contents that chains of comparisons link, 1 where they link all; a content without
    a verdict is a group of its own. Between groups the prior ranks."""
    n_both_orders: int
    """Pairs of items shown in both orders."""
    flip_rate: float
    """Share of them whose verdicts contradict each other, see `Flips`."""
    top_k_differs: bool | None
    """Whether the two models disagree on the top k; None without finite fits or verdicts."""

    @property
    def usable(self) -> bool:
        """Whether both fits converged, on at least one verdict."""
        return usable(self.status)

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


def fit(
    batch: Batch,
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
    judges: Sequence[JudgeFit] | None = None,
    intervals: bool = True,
) -> list[PoolFit]:
    """Fit every pool and judge of a batch, naive and bias-aware (MAP, float64).

    Args:
      batch: from `load`.
      k: size of the top set on which the two models are compared (count of contents).
      prior: default `Prior()`.
      spread: whether lam follows from the sd of quality that all of a judge's pools have together
        (`fit_judges`), not from the prior; default: if no prior is given.
      judges: from `fit_judges` of this batch, if made already.
      intervals: False leaves intervals, c_mle and membership undefined, and saves most of the time.

    Returns:
      One for each of `batch.pools`, in their order.

    Raises:
      ValueError: a pool of several contents has no more than k, or all have only one.
    """
    check_k(batch, k)
    spread = prior is None if spread is None else spread
    prior = Prior() if prior is None else prior
    n_judges = len(batch.tables.judges)
    lam, known_sd = np.full(n_judges, float(np.asarray(prior.lam))), np.ones(n_judges, bool)
    if spread:
        judges = judges or fit_judges(batch, prior=prior, spread=True)
        converged = [judge.status == Status.CONVERGED for judge in judges]
        lam = np.where(converged, [judge.sd**-2 for judge in judges], lam)
        known_sd = np.array([judge.sd_basis not in UNKNOWN for judge in judges])
    found: dict[int, PoolFit] = {}
    facts = _Facts.of(batch)
    with runtime.precision("float64"):
        for group in batch.groups:
            fits = _fit_group(batch, group, facts, prior, lam, known_sd, k, intervals)
            found.update(fits)
    return [found[i] for i in range(len(batch.pools))]


@dataclasses.dataclass(frozen=True, eq=False)
class _Facts:
    """What the verdicts say of each pool and judge without a fit."""

    islands: list[int]
    n_both_orders: list[int]
    flip_rate: list[float]

    @classmethod
    def of(cls, batch: Batch) -> _Facts:
        tables = batch.tables
        linked = chains(tables, np.zeros((len(tables.items), 0)))
        found = flips(tables)
        rate = np.full(len(found.n_pairs), np.nan)
        np.divide(found.n_flips, found.n_pairs, out=rate, where=found.n_pairs > 0)
        return cls(linked.islands.tolist(), found.n_pairs.tolist(), rate.tolist())


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
    """`lam`: [judges], in place of the prior's; `known_sd`: [judges] whether the verdicts tell it,
    without which theta has no interval."""
    priors = jnp.asarray(lam[group.index % len(lam)]), jnp.asarray(prior.lam_b, float)
    each = group.comparisons, group.design, group.items, group.variant
    naive, aware, phi, differ = jax.device_get(fit_both(*each, *priors, k))
    if intervals:
        sd_theta, sd_kappa, among = posterior(group, aware.parameters, *priors, k)
        bias = prior_free_bias(batch, group)
    else:
        sd_theta = among = np.full_like(aware.parameters.theta, np.nan)
        sd_kappa = np.full_like(aware.parameters.kappa, np.nan)
        bias = np.full((3, *aware.parameters.c.shape), np.nan)
    modes = [np.asarray(f.parameters.theta) for f in (aware, naive)]
    c, owner = np.asarray(aware.parameters.c), group.items.content
    merged = batch.tables.merged
    if merged:
        bias[1:] = np.nan
    for i, at in enumerate(group.index.tolist()):
        pool = batch.pools[at]
        n, m = len(pool.items), len(pool.contents)
        of_items = np.arange(n) if owner is None else np.asarray(owner[i, :n])
        theta, theta_naive = (mode[i, :m] for mode in modes)
        kappa = float(aware.parameters.kappa[i]) if pool.position else np.nan
        status = _status(pool, int(naive.status[i]), int(aware.status[i]))
        silent = pool.prior_selected if usable(status) else ("theta", "kappa")
        undecided = "theta" in silent or not all(pool.constant_covariates) or merged
        undecided |= not known_sd[at % len(known_sd)]
        wide = Z * (np.full(m, np.nan) if undecided else sd_theta[i, :m])
        kappa_wide = np.nan if "kappa" in silent or merged else Z * float(sd_kappa[i])
        finite = np.isfinite(theta).all() and np.isfinite(theta_naive).all()
        ranked = theta, theta - wide, theta + wide, theta_naive, among[i, :m]
        yield (
            at,
            PoolFit(
                pool=pool.pool,
                judge=pool.judge,
                items=pool.items,
                theta=theta[of_items],
                theta_low=(theta - wide)[of_items],
                theta_high=(theta + wide)[of_items],
                theta_naive=theta_naive[of_items],
                phi=phi[i, :n],
                ranking=ranking(pool.contents, *ranked),
                c=c[i],
                c_mle=bias[0, i],
                c_low=bias[1, i],
                c_high=bias[2, i],
                kappa=kappa,
                kappa_low=kappa - kappa_wide,
                kappa_high=kappa + kappa_wide,
                status=status,
                grad_norm=float(aware.grad_norm[i]),
                prior_selected=pool.prior_selected,
                constant_covariates=pool.constant_covariates,
                n_verdicts=pool.n_verdicts,
                n_errors=pool.n_errors,
                islands=facts.islands[at],
                n_both_orders=facts.n_both_orders[at],
                flip_rate=facts.flip_rate[at],
                top_k_differs=bool(differ[i]) if finite and pool.n_verdicts else None,
            ),
        )


def ranking(contents: tuple[str, ...], theta: np.ndarray, *each: np.ndarray) -> tuple[Ranked, ...]:
    """Contents by theta; `each`: the further fields of `Ranked`."""
    order = np.argsort(-theta, kind="stable")
    best = theta[order]
    # How many are better: those before the first that is tied with each.
    rank = 1 + np.searchsorted(-best, -best - metrics.TIED)
    columns = [v[order].tolist() for v in (theta, *each)]
    return tuple(
        Ranked(contents[at], place, *numbers)
        for at, place, *numbers in zip(order.tolist(), rank.tolist(), *columns, strict=True)
    )


def check_k(batch: Batch, k: int) -> None:
    """Raise `ValueError` unless every pool of several contents has more than k."""
    check_sizes({pool.pool: len(pool.contents) for pool in batch.pools}, k)


def check_sizes(sizes: Mapping[str, int], k: int) -> None:
    """`check_k` of pools whose numbers of contents are known."""
    several = {pool: n for pool, n in sizes.items() if n > 1}  # one alone is no ranking
    if not several:
        raise ValueError("every pool has only one content: there is nothing to rank")
    pool = min(several, key=several.__getitem__)
    smallest = several[pool]
    if not (isinstance(k, int | np.integer) and 1 <= k < smallest):
        what = f"pool {pool!r} has {smallest} contents"
        raise ValueError(f"k must lie in 1..{smallest - 1} ({what}), got {k!r}")


def usable(status: Status) -> bool:
    """Whether the fits of a pool converged, on at least one verdict."""
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
