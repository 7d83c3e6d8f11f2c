"""All judges of a user's table in one fit: they share the quality of every pool's items.

    P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

Every judge has one (c, kappa) for all pools, of which those of the reference and of the anchors are
known to be 0; every pool has qualities of its own, integrated out (`jbt.own.shared`).

The prior of quality must not decide between c and quality. With theta ~ N(0, 1/lam) in every pool
it would: it says that quality has nothing to do with the covariates, and says so louder than a few
trusted verdicts. So quality may go with them, by as much as all pools have in common,

    theta ~ N(mean over its items of x . b, 1/lam),     b ~ N(0, 1/lam_b),

the within-between form of a mixed model (Mundlak, 1978). Then a pool without trusted verdicts tells
how apparent quality goes with a covariate, c + b, and those with some tell b. Where no judge's c
is told, b stays at 0, and the prior chooses as it does for one judge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
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
from jbt.own.analysis import Ranked, Z, check_k, in_chunks, ranking
from jbt.own.batch import Batch, Group
from jbt.own.chains import chains
from jbt.own.panels import Judges, only, panels_of
from jbt.own.shared import MOVED, Part, Silence
from jbt.types import Design, Panel, Parameters, Prior, Rows, Status, Verdicts

AT_ONCE = 2**22
"""Draws of qualities made together (count), so that memory does not grow with the pools."""


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
        return Panels.of(batch, judges).fit(prior, k)


@dataclass(frozen=True, eq=False)
class Panels:
    """The pools of a batch with all judges together.

    The shared coefficients are c [D, J] and kappa [J], flat, then b [D]. Those of a pool's own
    model are c [2 D, J] and kappa [J]: of the covariates, then of their means over the items of a
    content, whose coefficients are s b.
    """

    batch: Batch
    judges: Judges
    parts: list[Part]
    between: list[np.ndarray]
    """[F, M, D] of each part, the mean of each covariate over the items of a content, less its mean
    over contents; 0 at padding."""
    index: list[np.ndarray]
    """[F] of each part, into the tables' pools."""

    @classmethod
    def of(cls, batch: Batch, judges: Judges) -> Panels:
        parts, between, index = [], [], []
        for group in (panels_of(group, judges) for group in batch.groups):
            means = content_means(group.items)
            parts.append(_part(group, judges, means))
            between.append(means)
            index.append(group.index)
        return cls(batch, judges, parts, between, index)

    @property
    def shape(self) -> tuple[int, int]:
        """D and J."""
        return len(self.batch.covariates), len(self.judges.names)

    def fit(self, prior: Prior, k: int) -> PanelFit:
        d, j = self.shape
        silence = self.silence()
        told = silence.told[0][: (d + 1) * j].reshape(d + 1, j) & self.heard()
        sloped = (told[:d] & ~self.judges.known).any(1)
        parts = self.with_slope(sloped)
        n = parts[0].hears.shape[2]
        lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), n)
        bias, top = shared.maximum(parts, prior, lam_b, 1)
        covariance = np.linalg.inv(top.information[0])
        status = Status(int(top.status[0]))
        estimates = _Estimates(bias[0], covariance, silence, status == Status.CONVERGED)
        judges, differences = self._judges(estimates, told)
        slope = {
            name: estimates.of(np.eye(n)[(d + 1) * j + i], True)
            for i, name in enumerate(self.batch.covariates)
            if sloped[i]
        }
        pools = self._pools(parts, estimates, top, prior, k)
        return PanelFit(judges, differences, slope, pools, status)

    def silence(self, some: np.ndarray | None = None) -> Silence:
        """What the verdicts of some judges [J], default all, are silent about. b is left out, as
        quality takes up what it would tell."""
        parts = self.with_slope(np.zeros(self.shape[0], bool))
        if some is not None:
            parts = [p._replace(comparisons=only(p.comparisons, some)) for p in parts]
        return shared.silence(parts, 1)

    def heard(self) -> np.ndarray:
        """[D + 1, J] which coefficients are free and have a verdict to be told by."""
        d, j = self.shape
        n_verdicts = self.batch.tables.counts["n_verdicts"].to_numpy().reshape(-1, j)
        position = np.array([p.position for p in self.batch.pools]).reshape(-1, j)
        free = np.tile(n_verdicts.sum(0) > 0, (d + 1, 1))
        free[-1] = (position & (n_verdicts > 0)).any(0)
        return free & ~self.judges.known

    def with_slope(self, free: np.ndarray) -> list[Part]:
        """The pools with b of some covariates [D], the others' being 0."""
        d, j = self.shape
        keep = jnp.asarray(np.r_[np.ones((d + 1) * j), free])
        return [p._replace(hears=p.hears * keep) for p in self.parts]

    def _judges(
        self, estimates: _Estimates, told: np.ndarray
    ) -> tuple[tuple[PanelJudge, ...], tuple[Difference, ...]]:
        d, j = self.shape
        heard, at = self.heard(), np.arange((d + 1) * j).reshape(d + 1, j)
        unit = np.eye(len(estimates.value))

        def told_by(some: np.ndarray) -> np.ndarray:
            return self.silence(some).told[0][: (d + 1) * j].reshape(d + 1, j) & heard

        tellers = list(self.judges.tellers(told_by))
        counts = self.batch.tables.counts.groupby("judge")["n_verdicts"].sum().to_numpy()
        found = []
        for g, name in enumerate(self.judges.names):
            each = [
                estimates.of(unit[at[i, g]], bool(told[i, g]), tellers[g][i]) for i in range(d + 1)
            ]
            known = bool(self.judges.known[g])
            found.append(
                PanelJudge(
                    judge=name,
                    known=known,
                    discrimination=float(self.judges.discrimination[g]),
                    n_verdicts=int(counts[g]),
                    c=() if known else tuple(each[:-1]),
                    kappa=each[-1] if heard[-1, g] else None,
                )
            )
        differences, s = [], self.judges.discrimination
        for i, covariate in enumerate(self.batch.covariates):
            open_ = np.flatnonzero(heard[i] & ~told[i])
            for g in open_[1:]:
                along = unit[at[i, g]] - s[g] / s[open_[0]] * unit[at[i, open_[0]]]
                if estimates.is_told(along):
                    names = self.judges.names[g], self.judges.names[open_[0]]
                    differences.append(Difference(covariate, *names, estimates.of(along, True)))
        return tuple(found), tuple(differences)

    def _pools(
        self,
        parts: Sequence[Part],
        estimates: _Estimates,
        top: shared.Top,
        prior: Prior,
        k: int,
    ) -> tuple[PanelPool, ...]:
        j = len(self.judges.names)
        tables = self.batch.tables
        counts = tables.counts["n_verdicts"].to_numpy().reshape(-1, j)
        together = tables.verdicts.assign(judge=0)
        together = dataclasses.replace(tables, verdicts=together, judges=[None])
        islands = chains(together, np.zeros((len(tables.items), 0))).islands
        found: dict[int, PanelPool] = {}
        for part, between, index, theta, follows in zip(
            parts, self.between, self.index, top.theta, estimates.silence.follows, strict=True
        ):
            moved = estimates.moves(follows, part.design)
            fits = _pools_of(part, between, theta, estimates, top.information[0], prior, k)
            mode, naive, sd, among, differ, worst = fits
            for i, at in enumerate(index.tolist()):
                facts = self.batch.pools[at * j]
                m, n_known = len(facts.contents), int(counts[at][self.judges.known].sum())
                status = Status(max(int(worst[i]), int(top.status[0])))
                if status == Status.CONVERGED:
                    status = _facts_of(
                        facts.constant_covariates, counts[at], n_known, self.judges.known
                    )
                silent = bool(islands[at] > 1 or moved[i])
                known = not silent and _sound(status)
                wide = Z * (sd[i, :m] if known else np.full(m, np.nan))
                quality = mode[i, :m]
                finite = np.isfinite(quality).all() and np.isfinite(naive[i, :m]).all()
                found[at] = PanelPool(
                    pool=facts.pool,
                    ranking=ranking(
                        facts.contents,
                        *(quality, quality - wide, quality + wide, naive[i, :m], among[i, :m]),
                    ),
                    status=status,
                    prior_selected=silent,
                    n_verdicts=int(counts[at].sum()),
                    n_known=n_known,
                    islands=int(islands[at]),
                    top_k_differs=bool(differ[i]) if finite and counts[at].any() else None,
                )
        return tuple(found[at] for at in range(len(tables.pools)))


def _facts_of(
    constant: Sequence[bool], n_verdicts: np.ndarray, n_known: int, known: np.ndarray
) -> Status:
    """Of a pool whose fits converged."""
    if not n_verdicts.any():
        return Status.NO_VERDICTS
    if known.any() and not n_known:
        return Status.NO_REFERENCE
    return Status.COVARIATE_CONSTANT if any(constant) else Status.CONVERGED


def _sound(status: Status) -> bool:
    return status in (Status.CONVERGED, Status.NO_REFERENCE, Status.COVARIATE_CONSTANT)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """The shared coefficients, and what is known of combinations of them."""

    value: np.ndarray
    """[shared]"""
    covariance: np.ndarray
    silence: Silence
    converged: bool

    def of(self, along: np.ndarray, told: bool, told_by: tuple[str, ...] = ()) -> Estimate:
        value = float(along @ self.value)
        half = Z * np.sqrt(along @ self.covariance @ along) if told and self.converged else np.nan
        return Estimate(value, value - half, value + half, told_by)

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


def content_means(items: Design) -> np.ndarray:
    """[pools, M, D], see `Panels.between`."""
    x, mask = np.asarray(items.covariates), np.asarray(items.item_mask)
    n_pools, n, d = x.shape
    owner = np.tile(np.arange(n), (n_pools, 1))
    owner = owner if items.content is None else np.asarray(items.content)
    total, count = (np.zeros((n_pools, items.n_contents, e)) for e in (d, 1))
    pool, item = np.nonzero(mask)
    np.add.at(total, (pool, owner[pool, item]), x[pool, item])
    np.add.at(count, (pool, owner[pool, item]), 1)
    mean, real = total / count.clip(1), count > 0
    centre = np.where(real, mean, 0).sum(1, keepdims=True) / real.sum(1, keepdims=True)
    return np.where(real, mean - centre, 0)


def _part(group: Group, judges: Judges, means: np.ndarray) -> Part:
    """Panels with the covariates of `means` behind their own.

    Args:
      group: from `panels_of`.
    """
    panel, design = group.comparisons, group.design
    (n_pools, _, d), n_judges = means.shape, len(judges.names)
    pool, x, made = np.arange(n_pools)[:, None], np.asarray(design.covariates), panel.verdicts
    if isinstance(made, Rows):
        first, second = (means[pool[:, :, None], np.asarray(v)] for v in (made.first, made.second))
        apart = jnp.asarray((first - second).swapaxes(2, 3))
        apart = jnp.concatenate([made.difference, apart], 2)
        sides = made.first, made.second
        made = jax.vmap(Rows)(*sides, apart, made.ordered, made.shown, made.wins)
        x = np.concatenate([x, np.zeros_like(x)], 2)
    else:
        owner = np.arange(x.shape[1])[None] if design.content is None else design.content
        x = np.concatenate([x, means[pool, np.asarray(owner)]], 2)
    design = jax.vmap(partial(Design, n_contents=design.n_contents))(
        jnp.asarray(x), design.content, design.item_mask
    )
    panel = jax.vmap(Panel)(made, panel.discrimination, panel.sharing)

    hears = np.zeros((n_pools, 2 * d + 1, n_judges, (d + 1) * n_judges + d))
    kappa = np.asarray(group.variant.kappa)
    for g in np.flatnonzero(~judges.known):
        for i in range(d):
            hears[:, i, g, i * n_judges + g] = 1
        hears[:, -1, g, d * n_judges + g] = kappa[:, g]
    for i in range(d):
        hears[:, d + i, :, (d + 1) * n_judges + i] = judges.discrimination
    hears = hears.reshape(n_pools, -1, hears.shape[-1])
    return Part(panel, design, jnp.asarray(hears), np.zeros(n_pools, int))


def _pools_of(
    part: Part,
    between: np.ndarray,
    theta: np.ndarray,
    estimates: _Estimates,
    information: np.ndarray,
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
    every = jnp.asarray(estimates.value), jnp.asarray(information), Prior(prior.lam), normals
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
