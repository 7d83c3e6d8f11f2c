"""One fit for all judges of a user's table, who share the qualities of every pool.

    P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

Every judge has one (s, c, kappa) for all pools; (c, kappa) of the reference and of the anchors are
known to be 0. Every pool has its own qualities, integrated out (`shared_coefficients.laplace`),
with a common slope b in the covariates (`shared_coefficients.between`; for one pool
`reference.correlated`). A pool without trusted verdicts then identifies s b + c, the slope of
apparent quality, and pools with trusted verdicts identify b. Where no judge's c is identified, b is
fixed at 0 and the prior chooses c, as for one judge.

The discriminations s are estimated with the rest. With s held at 1, a judge whose verdicts have
nothing to do with quality gets c = -b: it looks biased against whatever the trusted verdicts
favour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float

from jbt import quick_compilation, runtime
from jbt.kernel import canonical, metrics
from jbt.kernel.laplace import gaussian
from jbt.own.fits import frames
from jbt.own.fits.batch import Batch, PoolTable
from jbt.own.fits.judges import Judges
from jbt.own.fits.panel_parts import Panels
from jbt.own.fits.pools import Ranked, check_k, ranking
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.coefficient import Coefficient
from jbt.own.shared_coefficients.directions import NullDirections
from jbt.own.shared_coefficients.intervals import Basis, Known, Z, known
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack, maximum
from jbt.own.shared_coefficients.pool_terms import conditional, fit_given
from jbt.own.tables.agreement import Agreement, agreement
from jbt.own.tables.components import chains
from jbt.types import Design, Parameters, Prior, Status, Verdicts

SOUND = (Status.CONVERGED, Status.NO_REFERENCE, Status.COVARIATE_CONSTANT)
"""Statuses of pools that have intervals."""


@dataclass(frozen=True, eq=False)
class PanelJudge:
    """Estimates for one judge in the joint fit."""

    judge: str
    known: bool
    """Whether c and kappa are known to be 0, and not estimated."""
    discrimination: Coefficient
    """Factor on quality in the judge's logits; its basis is FIXED where it is not estimated."""
    agreement: Agreement | None
    """With the judges whose biases are known; None for one of them, or without any."""
    n_verdicts: int
    c: tuple[Coefficient, ...]
    """One a covariate, per unit (`Batch.units`); empty where known."""
    kappa: Coefficient | None
    """None where known, or fixed at 0 in every pool."""

    def named(self, covariates: Sequence[str]) -> Iterator[tuple[str | None, Coefficient]]:
        """Yield the coefficients with the name of the covariate, None for kappa."""
        yield from zip(covariates, self.c, strict=False)
        if self.kappa is not None:
            yield None, self.kappa


@dataclass(frozen=True)
class Difference:
    """Difference of a judge's c from the first judge's, where it is identified and neither c is."""

    covariate: str
    judge: str
    other: str
    """The first judge, whose c is rescaled by the ratio of the discriminations."""
    estimate: Coefficient


@dataclass(frozen=True, eq=False)
class PanelPool:
    """The joint fit of one pool."""

    pool: str
    ranking: tuple[Ranked, ...]
    """The contents, the best first; theta about its mean, given c and kappa of all pools, whose
    errors the intervals include. Naive: with c = kappa = 0 for every judge."""
    status: Status
    """The worse of both fits; where both converged, NO_VERDICTS, NO_REFERENCE or
    COVARIATE_CONSTANT if so."""
    prior_selected: bool
    """Whether its qualities are not identified: a null direction moves them."""
    n_verdicts: int
    n_known: int
    """Verdicts of judges whose biases are known."""
    islands: int
    """Number of connected components of the contents, by the comparisons of all judges."""
    top_k_differs: bool | None
    """Whether the naive top k differs; None without finite fits or verdicts."""


@dataclass(frozen=True, eq=False)
class PanelFit:
    """The joint fit of all judges of a table."""

    judges: tuple[PanelJudge, ...]
    differences: tuple[Difference, ...]
    slope: Mapping[str, Coefficient]
    """b of each covariate, the slope of quality: logits per unit; empty where fixed at 0."""
    sd: float
    """Standard deviation of quality about that line, logits of a judge with discrimination 1."""
    pools: tuple[PanelPool, ...]
    status: Status
    """CONVERGED, or the status of the worst pool in the fit of the coefficients."""
    covariates: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `frames.frame`."""
        return frames.frame(frames.panel_rows(self))

    @property
    def trusted(self) -> tuple[str, ...]:
        """Names of the judges whose biases are known."""
        return tuple(j.judge for j in self.judges if j.known)


def fit_panel(
    batch: Batch,
    judges: Judges,
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
) -> PanelFit:
    """Fit all judges of a batch together (float64).

    Args:
      batch: of the tables from which `judges` was made.
      k: size of the top set (count of contents).
      prior: default `Prior()`.
      spread: whether the sd of quality is estimated, about that of the prior (`maximum`);
        default: if no prior is given.

    Raises:
      ValueError: see `analysis.fit`.
    """
    spread = prior is None if spread is None else spread
    prior = Prior() if prior is None else prior
    check_k(batch, k)
    with runtime.precision("float64"):
        panels = Panels.of(batch, judges)
        (d, j), nulls = panels.shape, panels.null_directions()
        identified = panels.identified(nulls)
        sloped = np.asarray(identified[:-1].any(1))
        parts = panels.parts(sloped)
        lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), (d + 1) * j + d)
        graded = judges.graded & (panels.n_verdicts.sum(0) > 0)
        top = maximum(parts, prior, lam_b, 1, spread=spread, graded=graded)
        identified_parameters = np.r_[identified.ravel(), sloped, graded, spread]
        estimates = _Estimates(top, parts, nulls, identified_parameters, batch.tables.merged)
        return PanelFit(
            judges=_judges(panels, estimates, identified, graded),
            differences=tuple(_differences(panels, estimates, identified)),
            slope={
                name: estimates.parameters[(d + 1) * j + i]
                for i, name in enumerate(batch.covariates)
                if sloped[i]
            },
            sd=float(np.exp(top.at[0, -1])),
            pools=_pools(panels, parts, estimates, k),
            status=estimates.status,
            covariates=tuple(batch.covariates),
        )


def _judges(
    panels: Panels, estimates: _Estimates, identified: np.ndarray, graded: np.ndarray
) -> tuple[PanelJudge, ...]:
    (d, j), judges = panels.shape, panels.judges
    coefficients = np.array(estimates.parameters[: (d + 1) * j], object).reshape(d + 1, j)
    identifiers = judges.identified_by(lambda mask: panels.identified(panels.null_directions(mask)))
    agreements = agreement(panels.batch.tables, judges.known)
    panel_judges = []
    for g, (name, identified_by) in enumerate(zip(judges.names, identifiers, strict=True)):
        biases = [
            dataclasses.replace(coefficients[i, g], identified_by=identified_by[i])
            for i in range(d + 1)
        ]
        if not panels.n_verdicts[:, g].any():
            biases = [dataclasses.replace(bias, status=Basis.UNDEFINED) for bias in biases]
        known, s = bool(judges.known[g]), estimates.parameters[(d + 1) * j + d + g]
        panel_judges.append(
            PanelJudge(
                judge=name,
                known=known,
                discrimination=s if graded[g] else dataclasses.replace(s, status=Basis.FIXED),
                agreement=agreements[g],
                n_verdicts=int(panels.n_verdicts[:, g].sum()),
                c=() if known else tuple(biases[:-1]),
                kappa=biases[-1] if panels.estimated[-1, g] else None,
            )
        )
    return tuple(panel_judges)


def _differences(
    panels: Panels, estimates: _Estimates, identified: np.ndarray
) -> Iterator[Difference]:
    """Yield c_g - (s_g / s_f) c_f, with f the first judge, where it is identified: a null direction
    that trades quality against a covariate leaves it unchanged at known discriminations."""
    (d, j), names, s = panels.shape, panels.judges.names, panels.judges.discrimination
    place, point = np.arange((d + 1) * j).reshape(d + 1, j), estimates.top.at[0]
    for i, covariate in enumerate(panels.batch.covariates):
        unidentified = np.flatnonzero(panels.estimated[i] & ~identified[i] & ~panels.judges.graded)
        for g in unidentified[1:]:
            first, combination = unidentified[0], np.zeros(len(point))
            combination[place[i, g]], combination[place[i, first]] = 1, -s[g] / s[first]
            if not estimates.nulls.moves(combination[: (d + 1) * j + d]):
                value = float(combination @ point)
                estimate = estimates.of_combination(value, combination)
                yield Difference(covariate, names[g], names[first], estimate)


def _pools(
    panels: Panels,
    parts: Sequence[PoolStack],
    estimates: _Estimates,
    k: int,
) -> tuple[PanelPool, ...]:
    tables, judges, n_verdicts = panels.batch.tables, panels.judges, panels.n_verdicts
    merged_verdicts = tables.verdicts.assign(judge=0)
    merged_verdicts = dataclasses.replace(tables, verdicts=merged_verdicts, judges=[None])
    islands = chains(merged_verdicts, np.zeros((len(tables.items), 0))).islands
    pools: dict[int, PanelPool] = {}
    nulls = estimates.nulls
    for group, part, between, start, response in zip(
        panels.groups, parts, panels.between, estimates.top.theta, nulls.follows, strict=True
    ):
        moves_quality = nulls.moves_quality(response, part.design)
        fits = _pools_of(part, between, start, estimates.top, k)
        mode, naive, sd, top_k, differ, worst = fits
        for i, number in enumerate(group.index.tolist()):
            facts = panels.batch.pools[number * len(judges.names)]
            m, n_known = len(facts.contents), int(n_verdicts[number][judges.known].sum())
            status = Status(max(int(worst[i]), int(estimates.status)))
            if status == Status.CONVERGED:
                status = _border(facts, n_verdicts[number], n_known, judges)
            prior_selected = bool(islands[number] > 1 or moves_quality[i])
            has_interval = not prior_selected and status in SOUND and not panels.batch.tables.merged
            half_widths = Z * (sd[i, :m] if has_interval else np.full(m, np.nan))
            quality, naive_quality = mode[i, :m], naive[i, :m]
            finite = np.isfinite(quality).all() and np.isfinite(naive_quality).all()
            ends = quality - half_widths, quality + half_widths
            pools[number] = PanelPool(
                pool=facts.pool,
                ranking=ranking(facts.contents, quality, *ends, naive_quality, top_k[i, :m]),
                status=status,
                prior_selected=prior_selected,
                n_verdicts=int(n_verdicts[number].sum()),
                n_known=n_known,
                islands=int(islands[number]),
                top_k_differs=bool(differ[i]) if finite and n_verdicts[number].any() else None,
            )
    return tuple(pools[number] for number in range(len(tables.pools)))


def _border(facts: PoolTable, n_verdicts: np.ndarray, n_known: int, judges: Judges) -> Status:
    """Status of a pool whose fits converged."""
    if not n_verdicts.any():
        return Status.NO_VERDICTS
    if judges.known.any() and not n_known:
        return Status.NO_REFERENCE
    return Status.COVARIATE_CONSTANT if any(facts.constant_covariates) else Status.CONVERGED


class _Estimates:
    """The shared parameters as `Coefficient`s."""

    def __init__(
        self,
        top: Maximum,
        parts: Sequence[PoolStack],
        nulls: NullDirections,
        identified: np.ndarray,
        merged: bool,
    ) -> None:
        self.top, self.nulls, self._parts, self._merged = top, nulls, parts, merged
        self.status = Status(int(top.status[0]))
        widths = known(top, parts, 0, np.eye(len(identified)), identified, merged=merged)
        self.parameters = [
            _estimate(float(value), width) for value, width in zip(top.at[0], widths, strict=True)
        ]
        """[K] coefficients, discriminations, log sd."""

    def of_combination(self, value: float, combination: np.ndarray) -> Coefficient:
        """The estimate of an identified combination [K] of the parameters, given its value."""
        identified = np.array([True])
        along = combination[None]
        (width,) = known(self.top, self._parts, 0, along, identified, merged=self._merged)
        return _estimate(value, width)


def _estimate(value: float, width: Known) -> Coefficient:
    low, high = value - width.half_width, value + width.half_width
    facts = {"status": width.basis, "p_alike": width.p_alike}
    return Coefficient(estimate=value, low=low, high=high, **facts)


def _pools_of(
    part: PoolStack, between: np.ndarray, theta: np.ndarray, top: Maximum, k: int
) -> tuple[np.ndarray, ...]:
    """Quality, naive quality, standard deviation about the mean and membership of the top k
    [F, M]; whether the top k differ, and the worse status [F]."""
    m, n_biases = part.design.n_contents, part.loadings.shape[2]
    free, point = np.diagonal(top.information[0]) * (top.weight > 0), top.at[0]
    normals = canonical.normals(m)
    slope = np.zeros((len(between), m, len(point)))
    slope[:, :, n_biases - between.shape[2] : n_biases] = between
    leaves = (*part[:3], jnp.asarray(slope), jnp.asarray(theta))
    shared = jnp.asarray(point), jnp.asarray(top.information[0]), jnp.asarray(free > 0), normals
    return in_chunks(lambda stack: _pool(*stack, *shared, k), leaves, canonical.AT_ONCE // m)


@partial(quick_compilation.jit, static_argnames="k")
def _pool(
    comparisons: Verdicts,
    design: Design,
    loadings: Array,
    slope: Array,
    theta: Array,
    point: Float[Array, " K"],
    information: Float[Array, "K K"],
    free: Bool[Array, " K"],
    normals: Array,
    k: int,
) -> tuple[Array, ...]:
    unbiased = point.at[: loadings.shape[2]].set(0)

    def one_pool(
        comparisons: Verdicts,
        design: Design,
        loadings: Float[Array, "biases shared"],
        slope: Float[Array, "M K"],
        theta: Float[Array, " M"],
    ) -> tuple[Array, ...]:
        m, contents = design.n_contents, design.content_mask()
        pool = conditional(comparisons, design, loadings, point, theta)
        naive = fit_given(comparisons, design, loadings, unbiased, theta)
        # Precision of (qualities, shared parameters): the shared ones from all pools, the
        # qualities given them.
        border = -pool.precision @ pool.follows
        corner = information - border.T @ pool.follows
        precision = jnp.concatenate(
            [
                jnp.concatenate([pool.precision, border], 1),
                jnp.concatenate([border.T, corner], 1),
            ]
        )
        # Change of variables from quality about its line in the covariates to quality.
        turn = jnp.eye(len(precision), dtype=theta.dtype).at[:m, m:].set(-slope)
        quality = _about_mean(pool.fit.parameters.theta + slope @ point, contents)
        mean = Parameters.unflat(jnp.concatenate([quality, point]), m)
        posterior = gaussian(mean, turn.T @ precision @ turn, jnp.concatenate([contents, free]))
        top_k = jnp.ones(m)
        if m > k:
            top_k = canonical.membership(posterior, k, contents, normals)
        spread = jax.vmap(_about_mean, (0, None))(posterior.root[:, :m], contents)
        differ = metrics.top_k_differ(naive.parameters.theta, quality, k, contents)
        worst = jnp.maximum(pool.fit.status, naive.status)
        return (
            quality,
            naive.parameters.theta,
            jnp.sqrt((spread**2).sum(0)),
            top_k,
            differ,
            worst,
        )

    return jax.vmap(one_pool)(comparisons, design, loadings, slope, theta)


def _about_mean(values: Float[Array, " M"], contents: Bool[Array, " M"]) -> Float[Array, " M"]:
    mean = jnp.where(contents, values, 0).sum() / contents.sum()
    return jnp.where(contents, values - mean, 0)
