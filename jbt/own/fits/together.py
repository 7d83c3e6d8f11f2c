"""All judges of a user's table in one fit: they share the qualities of every pool (`shared`)."""

from __future__ import annotations

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
from jbt.own.fits.shared import (
    NUMBERS,
    SharedFit,
    SharedModel,
    coefficient_records,
    fit_shared,
)
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.shared_coefficients.intervals import Z, known
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack
from jbt.own.shared_coefficients.pool_terms import conditional, fit_given
from jbt.own.tables.components import chains
from jbt.own.tables.pairs import Agreement, agreement
from jbt.types import Design, Parameters, Prior, Status, Verdicts

SOUND = (Status.CONVERGED, Status.NO_REFERENCE, Status.COVARIATE_CONSTANT)
"""Statuses of pools that have intervals."""


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

    judges: Judges
    shared: SharedFit
    """With one more column, identified_by: of c and kappa, whose verdicts identify them, see
    `Judges.identified_by`; empty where the prior chose."""
    differences: pd.DataFrame
    """A row for each judge's c less the first judge's (rescaled by the ratio of the
    discriminations), where this is identified and neither c is: covariate, judge, less (the first
    judge), estimate, low, high."""
    agreements: dict[str, Agreement]
    """With the judges whose biases are known, of each other judge that shares a pair with them."""
    pools: tuple[PanelPool, ...]

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `pools.frame`; slopes and qualities belong to `joint`."""
        coefficients = self.shared.of("c", "kappa", "slope")
        quantity = coefficients["quantity"].replace({"c": "c_joint", "kappa": "kappa_joint"})
        selected = coefficients["prior_selected"] & (quantity != "slope")
        coefficients = coefficients.assign(quantity=quantity, prior_selected=selected)
        rows: list[Any] = coefficients.to_dict("records")
        for pool in self.pools:
            facts = {"judge": JOINT, "pool": pool.pool, "status": pool.status.name.lower()}
            selected = {"prior_selected": pool.prior_selected}
            rows += [{**r.row(), **facts, **selected} for r in pool.ranking]
        return frame(rows)

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file: null where undefined."""
        slope = self.shared.of("slope").rename(columns={"name": "covariate"})
        return {
            "status": self.shared.status[0].name.lower(),
            "estimand": "average effect in such pools",
            "judges": [self._judge_record(g) for g in range(len(self.judges.names))],
            "differences": files.plain(self.differences[["covariate", "judge", "less", *NUMBERS]]),
            "slope": files.plain(slope[["covariate", "unit", *NUMBERS]]),
            "sd": files.plain(self.shared.of("sd"))[0]["estimate"],
            "n_no_reference": sum(p.status == Status.NO_REFERENCE for p in self.pools),
            "pools": files.plain(self.pools),
        }

    def _judge_record(self, g: int) -> dict[str, Any]:
        name, table = self.judges.names[g], self.shared.estimates
        own = table[table["judge"] == name]
        c, kappa = coefficient_records(own.rename(columns={"identified_by": "told_by"}), "told_by")
        (s,) = files.plain(own.loc[own["quantity"] == "discrimination", list(NUMBERS)])
        return {
            "judge": name,
            "known": bool(self.judges.known[g]),
            "discrimination": s["estimate"],
            "discrimination_low": s["low"],
            "discrimination_high": s["high"],
            "agreement": files.plain(self.agreements.get(name)),
            "n_verdicts": int(self.shared.model.n_verdicts[:, g].sum()),
            "c": c,
            "kappa": kappa,
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
        return PanelFit(
            judges=judges,
            shared=replace(found, estimates=_with_identifiers(found)),
            differences=_differences(found),
            agreements=agreement(batch.tables, judges.known),
            pools=_pools(found, k),
        )


def _with_identifiers(found: SharedFit) -> pd.DataFrame:
    """The estimates with the names of whose verdicts identify them."""
    model, judges = found.model, found.model.judges
    assert judges is not None
    identifiers = judges.identified_by(
        lambda members: model.identified(model.null_directions(members))[0]
    )
    names = [*(f"c[{name}]" for name in model.batch.covariates), "kappa"]
    by_coefficient = {
        (judge, name): whose
        for judge, of_judge in zip(judges.names, identifiers, strict=True)
        for name, whose in zip(names, of_judge, strict=True)
    }
    keys = zip(found.estimates["judge"], found.estimates["coefficient"], strict=True)
    identified_by = pd.Series([by_coefficient.get(key, ()) for key in keys])
    return found.estimates.assign(identified_by=identified_by)


def _differences(found: SharedFit) -> pd.DataFrame:
    """c_g - (s_g / s_f) c_f, with f the first judge, where it is identified: a null direction that
    trades quality against a covariate leaves it unchanged at known discriminations."""
    batch, judges, at = found.model.batch, found.model.judges, found.model.places
    assert judges is not None
    s, estimated, identified = judges.discrimination, found.model.estimated[0], found.identified[0]
    rows = []
    for i, covariate in enumerate(batch.covariates):
        unidentified = np.flatnonzero(estimated[i] & ~identified[i] & ~judges.graded)
        for g in unidentified[1:]:
            first, combination = unidentified[0], np.zeros((1, found.top.at.shape[1]))
            combination[0, at["c"][i, [g, first]]] = 1, -s[g] / s[first]
            if not found.nulls.moves(combination[0, : at["slope"][-1] + 1]):
                of_verdicts, merged = np.ones(1, bool), batch.tables.merged
                c = known(found.top, found.parts, 0, combination, of_verdicts, merged=merged)
                names = {"judge": judges.names[g], "less": judges.names[first]}
                rows.append({"covariate": covariate, **names, **c.iloc[0]})
    return pd.DataFrame(rows, columns=pd.Index(["covariate", "judge", "less", *NUMBERS]))


def _pools(found: SharedFit, k: int) -> tuple[PanelPool, ...]:
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
