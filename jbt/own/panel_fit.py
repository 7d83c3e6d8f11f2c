"""All judges of a user's table in one fit: they share the quality of every pool's items.

    P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

Every judge has one (c, kappa) for all pools, of which those of the reference and of the anchors are
known to be 0; every pool has qualities of its own, integrated out (`jbt.own.shared`).

The prior of quality must not decide between c and quality. With theta ~ N(0, 1/lam) in every pool
it would: it says that quality has nothing to do with the covariates, and says so louder than a few
trusted verdicts. So quality may go with them, by as much as all pools have in common,

    theta ~ N(mean over its items of x . b, 1/lam),     b ~ N(0, 1/lam_b),

the within-between form of a mixed model (Mundlak, 1978), as `reference.correlated` has it of one
pool. Then a pool without trusted verdicts tells how apparent quality goes with a covariate, c + b,
and those with some tell b. Where no judge's c is told, b stays at 0, and the prior chooses as it
does for one judge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jbt import metrics, model, runtime
from jbt.laplace import gaussian
from jbt.membership import DRAWS, membership, sobol_normals
from jbt.own import shared
from jbt.own.analysis import AT_ONCE, Ranked, Z, check_k, in_chunks, ranking
from jbt.own.batch import Batch, PoolTable
from jbt.own.chains import chains
from jbt.own.panel_parts import Panels
from jbt.own.panels import Judges
from jbt.own.shared import MOVED, Part, Silence
from jbt.types import Design, Parameters, Prior, Status, Verdicts

SOUND = (Status.CONVERGED, Status.NO_REFERENCE, Status.COVARIATE_CONSTANT)
"""How a pool with intervals ends."""


@dataclass(frozen=True)
class Estimate:
    """A coefficient with its interval of 95 %, logits. NaN where undefined; there is no interval
    where the verdicts do not tell it."""

    value: float
    low: float
    high: float
    told_by: tuple[str, ...] = ()
    """With whose verdicts it is identified, see `Judges.tellers`; empty where the prior chose."""


@dataclass(frozen=True, eq=False)
class PanelJudge:
    """What the joint fit says of one judge."""

    judge: str
    known: bool
    """Whether c and kappa are known to be 0, and not estimated."""
    discrimination: float
    n_verdicts: int
    c: tuple[Estimate, ...]
    """Of each covariate, per unit (`Batch.units`); none where known."""
    kappa: Estimate | None
    """None where known, or fixed at 0 in every pool."""


@dataclass(frozen=True)
class Difference:
    """How far c of a judge is from that of the first, where neither is told and this is."""

    covariate: str
    judge: str
    other: str
    """Its c is divided by its discrimination and multiplied by the judge's."""
    estimate: Estimate


@dataclass(frozen=True, eq=False)
class PanelPool:
    """What all judges say of one pool together."""

    pool: str
    ranking: tuple[Ranked, ...]
    """The contents, the best first; theta about its mean, given c and kappa as all pools tell them,
    whose errors are in the intervals. Naive: with c = kappa = 0 for every judge."""
    status: Status
    """The worse of both fits; where both converged, NO_VERDICTS, NO_REFERENCE or
    COVARIATE_CONSTANT if so."""
    prior_selected: bool
    """What the verdicts of all pools are silent about moves its qualities."""
    n_verdicts: int
    n_known: int
    """Those of judges whose biases are known."""
    islands: int
    """Groups of contents that chains of comparisons by any judge link."""
    top_k_differs: bool | None
    """Whether the naive top k is another; None without finite fits or verdicts."""


@dataclass(frozen=True, eq=False)
class PanelFit:
    """All judges of a table, one quality."""

    judges: tuple[PanelJudge, ...]
    differences: tuple[Difference, ...]
    slope: Mapping[str, Estimate]
    """b of each covariate, how quality goes with it: logits of quality per unit; none where it is
    fixed at 0."""
    pools: tuple[PanelPool, ...]
    status: Status
    """Of the coefficients: CONVERGED, or how the worst pool ended."""

    @property
    def trusted(self) -> tuple[str, ...]:
        """The judges whose biases are known."""
        return tuple(j.judge for j in self.judges if j.known)


def fit_panel(batch: Batch, judges: Judges, *, k: int = 1, prior: Prior | None = None) -> PanelFit:
    """Fit all judges of a batch together (float64).

    Args:
      batch: of the tables that `judges` is of.
      k: size of the top set (count of contents).
      prior: default `Prior()`.

    Raises:
      ValueError: see `analysis.fit`.
    """
    prior = Prior() if prior is None else prior
    check_k(batch, k)
    with runtime.precision("float64"):
        panels = Panels.of(batch, judges)
        (d, j), silence = panels.shape, panels.silence()
        told = panels.told(silence)
        sloped = np.asarray(told[:-1].any(1))
        parts = panels.parts(sloped)
        lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), (d + 1) * j + d)
        bias, top = shared.maximum(parts, prior, lam_b, 1)
        estimates = _Estimates(bias[0], top.information[0], silence, Status(int(top.status[0])))
        return PanelFit(
            judges=_judges(panels, estimates, told),
            differences=tuple(_differences(panels, estimates, told)),
            slope={
                name: estimates.of(estimates.unit[(d + 1) * j + i], True)
                for i, name in enumerate(batch.covariates)
                if sloped[i]
            },
            pools=_pools(panels, parts, estimates, top.theta, prior, k),
            status=estimates.status,
        )


def _judges(panels: Panels, estimates: _Estimates, told: np.ndarray) -> tuple[PanelJudge, ...]:
    (d, j), judges = panels.shape, panels.judges
    place = np.arange((d + 1) * j).reshape(d + 1, j)
    tellers = judges.tellers(lambda some: panels.told(panels.silence(some)))
    found = []
    for g, (name, told_by) in enumerate(zip(judges.names, tellers, strict=True)):
        each = [
            estimates.of(estimates.unit[place[i, g]], bool(told[i, g]), told_by[i])
            for i in range(d + 1)
        ]
        known = bool(judges.known[g])
        found.append(
            PanelJudge(
                judge=name,
                known=known,
                discrimination=float(judges.discrimination[g]),
                n_verdicts=int(panels.n_verdicts[:, g].sum()),
                c=() if known else tuple(each[:-1]),
                kappa=each[-1] if panels.estimated[-1, g] else None,
            )
        )
    return tuple(found)


def _differences(panels: Panels, estimates: _Estimates, told: np.ndarray) -> Iterator[Difference]:
    (d, j), names, s = panels.shape, panels.judges.names, panels.judges.discrimination
    place = np.arange((d + 1) * j).reshape(d + 1, j)
    for i, covariate in enumerate(panels.batch.covariates):
        open_ = np.flatnonzero(panels.estimated[i] & ~told[i])
        for g in open_[1:]:
            first = open_[0]
            of_first = s[g] / s[first] * estimates.unit[place[i, first]]
            along = estimates.unit[place[i, g]] - of_first
            if estimates.is_told(along):
                yield Difference(covariate, names[g], names[first], estimates.of(along, True))


def _pools(
    panels: Panels,
    parts: Sequence[Part],
    estimates: _Estimates,
    theta: Sequence[np.ndarray],
    prior: Prior,
    k: int,
) -> tuple[PanelPool, ...]:
    tables, judges, n_verdicts = panels.batch.tables, panels.judges, panels.n_verdicts
    together = tables.verdicts.assign(judge=0)
    together = dataclasses.replace(tables, verdicts=together, judges=[None])
    islands = chains(together, np.zeros((len(tables.items), 0))).islands
    found: dict[int, PanelPool] = {}
    for group, part, between, start, follows in zip(
        panels.groups, parts, panels.between, theta, estimates.silence.follows, strict=True
    ):
        moved = estimates.moves(follows, part.design)
        fits = _pools_of(part, between, start, estimates, prior, k)
        mode, naive, sd, among, differ, worst = fits
        for i, at in enumerate(group.index.tolist()):
            facts = panels.batch.pools[at * len(judges.names)]
            m, n_known = len(facts.contents), int(n_verdicts[at][judges.known].sum())
            status = Status(max(int(worst[i]), int(estimates.status)))
            if status == Status.CONVERGED:
                status = _border(facts, n_verdicts[at], n_known, judges)
            silent = bool(islands[at] > 1 or moved[i])
            has_interval = not silent and status in SOUND
            wide = Z * (sd[i, :m] if has_interval else np.full(m, np.nan))
            quality, before = mode[i, :m], naive[i, :m]
            finite = np.isfinite(quality).all() and np.isfinite(before).all()
            ranked = quality, quality - wide, quality + wide, before, among[i, :m]
            found[at] = PanelPool(
                pool=facts.pool,
                ranking=ranking(facts.contents, *ranked),
                status=status,
                prior_selected=silent,
                n_verdicts=int(n_verdicts[at].sum()),
                n_known=n_known,
                islands=int(islands[at]),
                top_k_differs=bool(differ[i]) if finite and n_verdicts[at].any() else None,
            )
    return tuple(found[at] for at in range(len(tables.pools)))


def _border(facts: PoolTable, n_verdicts: np.ndarray, n_known: int, judges: Judges) -> Status:
    """The status of a pool whose fits converged."""
    if not n_verdicts.any():
        return Status.NO_VERDICTS
    if judges.known.any() and not n_known:
        return Status.NO_REFERENCE
    return Status.COVARIATE_CONSTANT if any(facts.constant_covariates) else Status.CONVERGED


@dataclass(frozen=True, eq=False)
class _Estimates:
    """The shared coefficients, and what is known of combinations of them."""

    value: np.ndarray
    """[shared]"""
    information: np.ndarray
    """[shared, shared] the precision of their posterior."""
    silence: Silence
    status: Status

    def of(self, along: np.ndarray, told: bool, told_by: tuple[str, ...] = ()) -> Estimate:
        value, half = float(along @ self.value), np.nan
        if told and self.status == Status.CONVERGED:
            half = Z * float(np.sqrt(along @ np.linalg.solve(self.information, along)))
        return Estimate(value, value - half, value + half, told_by)

    @property
    def unit(self) -> np.ndarray:
        """[shared, shared] each coefficient as a combination."""
        return np.eye(len(self.value))

    @property
    def null(self) -> np.ndarray:
        """[shared, shared] columns: null directions, or zeros."""
        return self.silence.directions[0] / self.silence.scale[0][:, None]

    def is_told(self, along: np.ndarray) -> bool:
        """Whether no null direction moves the combination."""
        moved = np.abs(along @ self.null)
        return bool((moved < MOVED * np.abs(self.null).max(0).clip(1e-300)).all())

    def moves(self, follows: np.ndarray, design: Design) -> np.ndarray:
        """[F] whether some null direction moves a difference of qualities of each pool.

        Args:
          follows: [F, M, shared], see `Silence`.
        """
        real = np.asarray(jax.vmap(Design.content_mask)(design))[:, :, None]
        theta = follows @ self.null
        mean = np.where(real, theta, 0).sum(1, keepdims=True) / real.sum(1, keepdims=True)
        moved = np.abs(np.where(real, theta - mean, 0))
        return np.asarray((moved > MOVED * np.abs(self.null).max(0).clip(1e-300)).any((1, 2)))


def _pools_of(
    part: Part,
    between: np.ndarray,
    theta: np.ndarray,
    estimates: _Estimates,
    prior: Prior,
    k: int,
) -> tuple[np.ndarray, ...]:
    """Of every pool quality, its naive self, standard deviation about the mean, and membership of
    the top k [F, M]; whether the top k differ and the worse status [F]."""
    m, n = part.design.n_contents, len(estimates.value)
    draws = DRAWS["conditional"]
    normals = sobol_normals(draws, m + n, np.float64)
    slope = np.zeros((len(between), m, n))
    slope[:, :, n - between.shape[2] :] = between
    each = (*part[:3], jnp.asarray(slope), jnp.asarray(theta))
    every = (
        jnp.asarray(estimates.value),
        jnp.asarray(estimates.information),
        Prior(prior.lam),
        normals,
    )
    return in_chunks(lambda some: _pool(*some, *every, k), each, AT_ONCE // (draws * m))


@partial(jax.jit, static_argnames="k")
def _pool(
    comparisons: Verdicts,
    design: Design,
    hears: Array,
    slope: Array,
    theta: Array,
    bias: Float[Array, " shared"],
    information: Float[Array, "shared shared"],
    prior: Prior,
    normals: Array,
    k: int,
) -> tuple[Array, ...]:
    def one(
        comparisons: Verdicts,
        design: Design,
        hears: Float[Array, "own shared"],
        slope: Float[Array, "M shared"],
        theta: Float[Array, " M"],
    ) -> tuple[
        Float[Array, " M"],
        Float[Array, " M"],
        Float[Array, " M"],
        Float[Array, " M"],
        Bool[Array, ""],
        Int[Array, ""],
    ]:
        m, contents = design.n_contents, design.content_mask()
        fit = shared.fit_quality(comparisons, design, prior, hears @ bias, theta)
        naive = shared.fit_quality(comparisons, design, prior, 0 * (hears @ bias), theta)
        at = model.score_and_information(fit.parameters, design.centred(), comparisons)[1]
        own = at[:m, :m] + prior.lam * jnp.eye(m, dtype=theta.dtype)
        border = at[:m, m:] @ hears
        # Of the coefficients given this pool's qualities: what all pools tell of them, with what
        # this one would tell if its qualities were known.
        corner = information + border.T @ jnp.linalg.solve(own, border)
        precision = jnp.concatenate(
            [jnp.concatenate([own, border], 1), jnp.concatenate([border.T, corner], 1)]
        )
        # From quality about its line in the covariates to quality itself.
        turn = jnp.eye(len(precision), dtype=theta.dtype).at[:m, m:].set(-slope)
        quality = _about_mean(fit.parameters.theta + slope @ bias, contents)
        mean = Parameters.unflat(jnp.concatenate([quality, bias]), m)
        free = jnp.concatenate([contents, jnp.ones(len(bias), bool)])
        posterior = gaussian(mean, turn.T @ precision @ turn, free)
        among = membership(posterior, k, contents, normals) if m > k else jnp.ones(m)
        spread = jax.vmap(_about_mean, (0, None))(posterior.root[:, :m], contents)
        differ = metrics.top_k_differ(naive.parameters.theta, quality, k, contents)
        worst = jnp.maximum(fit.status, naive.status)
        return (
            quality,
            naive.parameters.theta,
            jnp.sqrt((spread**2).sum(0)),
            among,
            differ,
            worst,
        )

    return jax.vmap(one)(comparisons, design, hears, slope, theta)


def _about_mean(values: Float[Array, " M"], contents: Bool[Array, " M"]) -> Float[Array, " M"]:
    mean = jnp.where(contents, values, 0).sum() / contents.sum()
    return jnp.where(contents, values - mean, 0)
