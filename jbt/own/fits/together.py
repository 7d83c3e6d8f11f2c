"""All judges of a user's table in one fit: they share the qualities of every pool (`shared`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float

from jbt import quick_compilation, runtime
from jbt.border import files
from jbt.kernel import canonical, metrics
from jbt.kernel.laplace import gaussian
from jbt.own.fits.batch import Batch, PoolTable
from jbt.own.fits.judges import JOINT, Judges
from jbt.own.fits.pools import Ranked, check_k, frame, ranking
from jbt.own.fits.shared import JudgeFit, SharedFit, SharedFits, SharedModel, fit_shared
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.intervals import Coefficient, Z, known
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack
from jbt.own.shared_coefficients.pool_terms import conditional, fit_given
from jbt.own.tables.components import chains
from jbt.types import Design, Parameters, Prior, Status, Verdicts

SOUND = (Status.CONVERGED, Status.NO_REFERENCE, Status.COVARIATE_CONSTANT)
"""Statuses of pools that have intervals."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Difference(Coefficient):
    """Difference of a judge's c from the first judge's, where it is identified and neither c is."""

    other: str
    """The first judge, whose c is rescaled by the ratio of the discriminations."""


@dataclass(frozen=True, eq=False)
class PanelPool:
    """The joint fit of one pool."""

    pool: str
    status: Status
    """The worse of both fits; where both converged, NO_VERDICTS, NO_REFERENCE or
    COVARIATE_CONSTANT if so."""
    ranking: tuple[Ranked, ...]
    """The contents, the best first; theta about its mean, given c and kappa of all pools, whose
    errors the intervals include. Naive: with c = kappa = 0 for every judge."""
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

    shared: SharedFit
    """`identified_by` of its coefficients says whose verdicts identify them."""
    differences: tuple[Difference, ...]
    pools: tuple[PanelPool, ...]

    @property
    def judges(self) -> tuple[JudgeFit, ...]:
        return self.shared.judges

    @property
    def slope(self) -> dict[str, Coefficient]:
        return self.shared.slope

    @property
    def trusted(self) -> tuple[str, ...]:
        """Names of the judges whose biases are known."""
        return tuple(str(j.judge) for j in self.judges if j.known)

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `pools.frame`; slopes and qualities belong to `joint`."""
        status = self.shared.status
        coefficients = [c for judge in self.judges for c in judge.coefficients]
        rows = [c.row(status, "_joint") for c in coefficients]
        of_slope = {"judge": JOINT, "quantity": "slope", "prior_selected": False}
        for name, b in self.slope.items():
            rows.append({**b.row(status), **of_slope, "name": name})
        for pool in self.pools:
            facts = {"judge": JOINT, "pool": pool.pool, "status": pool.status.name.lower()}
            selected = {"prior_selected": pool.prior_selected}
            rows += [{**r.row(), **facts, **selected} for r in pool.ranking]
        return frame(rows)

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file: null where undefined."""
        units = {c.covariate: c.unit for judge in self.judges for c in judge.c}
        return {
            "status": self.shared.status.name.lower(),
            "judges": [_judge_record(judge) for judge in self.judges],
            "differences": [
                {"covariate": d.covariate, "judge": d.judge, "less": d.other, **d.numbers()}
                for d in self.differences
            ],
            "slope": [
                {"covariate": name, "unit": units[name], **b.numbers()}
                for name, b in self.slope.items()
            ],
            "sd": files.defined(self.shared.sd.estimate),
            "n_no_reference": sum(p.status == Status.NO_REFERENCE for p in self.pools),
            "pools": files.plain(self.pools),
        }


def _judge_record(judge: JudgeFit) -> dict[str, Any]:
    s = judge.discrimination
    assert s is not None

    def coefficient(c: Coefficient) -> dict[str, Any]:
        return {**c.record(), "told_by": list(c.identified_by)}

    return {
        "judge": judge.judge,
        "known": judge.known,
        "discrimination": s.estimate,
        "discrimination_low": files.defined(s.low),
        "discrimination_high": files.defined(s.high),
        "agreement": files.plain(judge.agreement),
        "n_verdicts": judge.n_verdicts,
        "c": [coefficient(c) for c in judge.c],
        "kappa": None if judge.kappa is None else coefficient(judge.kappa),
    }


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
      prior, spread: see `fit_shared`.

    Raises:
      ValueError: see `pools.check_k`.
    """
    check_k(batch, k)
    with runtime.precision("float64"):
        model = SharedModel.of(batch, judges)
        found = fit_shared(model, prior=prior, spread=spread)
        (fit,) = found.fits
        return PanelFit(
            shared=replace(fit, judges=tuple(_with_identifiers(model, fit))),
            differences=tuple(_differences(found)),
            pools=_pools(found, k),
        )


def _with_identifiers(model: SharedModel, fit: SharedFit) -> Iterator[JudgeFit]:
    """Yield the judges, their coefficients with the names of whose verdicts identify them."""
    assert model.judges is not None
    identifiers = model.judges.identified_by(
        lambda members: model.identified(model.null_directions(members))[0]
    )
    for judge, (*of_c, of_kappa) in zip(fit.judges, identifiers, strict=True):
        c = (replace(c, identified_by=by) for c, by in zip(judge.c, of_c, strict=False))
        kappa = judge.kappa and replace(judge.kappa, identified_by=of_kappa)
        yield replace(judge, c=tuple(c), kappa=kappa)


def _differences(found: SharedFits) -> Iterator[Difference]:
    """Yield c_g - (s_g / s_f) c_f, with f the first judge, where it is identified: a null direction
    that trades quality against a covariate leaves it unchanged at known discriminations."""
    judges, at = found.model.judges, found.model.places
    assert judges is not None
    s, estimated, identified = judges.discrimination, found.model.estimated[0], found.identified[0]
    for i, covariate in enumerate(found.model.batch.covariates):
        unidentified = np.flatnonzero(estimated[i] & ~identified[i] & ~judges.graded)
        for g in unidentified[1:]:
            first, combination = unidentified[0], np.zeros((1, found.top.at.shape[1]))
            combination[0, at["c"][i, [g, first]]] = 1, -s[g] / s[first]
            if not found.nulls.moves(combination[0, : at["slope"][-1] + 1]):
                merged = found.model.batch.tables.merged
                (c,) = known(
                    found.top, found.parts, 0, combination, np.ones(1, bool), merged=merged
                )
                names = {"covariate": covariate, "judge": judges.names[g]}
                yield Difference(**{**vars(c), **names}, other=judges.names[first])


def _pools(found: SharedFits, k: int) -> tuple[PanelPool, ...]:
    model, nulls = found.model, found.nulls
    tables, judges, n_verdicts = model.batch.tables, model.judges, model.n_verdicts
    assert judges is not None
    merged_verdicts = tables.verdicts.assign(judge=0)
    merged_verdicts = replace(tables, verdicts=merged_verdicts, judges=[None])
    islands = chains(merged_verdicts, np.zeros((len(tables.items), 0))).islands
    pools: dict[int, PanelPool] = {}
    for index, part, between, start, response in zip(
        model.index, found.parts, model.between, found.top.theta, nulls.follows, strict=True
    ):
        moves_quality = nulls.moves_quality(response, part.design)
        fits = _pools_of(part, between, start, found.top, k)
        mode, naive, sd, top_k, differ, worst = fits
        for i, number in enumerate(index.tolist()):
            facts = model.batch.pools[number * len(judges.names)]
            m, n_known = len(facts.contents), int(n_verdicts[number][judges.known].sum())
            status = Status(max(int(worst[i]), int(found.top.status[0])))
            if status == Status.CONVERGED:
                status = _border(facts, n_verdicts[number], n_known, judges)
            prior_selected = bool(islands[number] > 1 or moves_quality[i])
            has_interval = not prior_selected and status in SOUND and not tables.merged
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
