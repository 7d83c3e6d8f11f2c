"""Verdicts with random effects: what varies between clusters (prompts), or between models.

    logit P(the first of row r wins) = b_r . beta + a_r . z_g,    z_g ~ N(0, diag(sd^2))

beta are the coefficients that all clusters share (qualities, c, kappa), z_g the effects of the
cluster g of the row: the quality of each of its units (answers to one prompt) beyond the model's,
and the change of a coefficient there. Coefficients may also share a standard deviation among
themselves (c of each model about the mean: `crossed`). Every sd is estimated.

Without them, what varies is absorbed by the coefficients: they are then those of the average over
clusters, nearer to 0 than those of one comparison by a factor of about
1 / sqrt(1 + .35 var(logit)).

The effects of a cluster are integrated out (`cluster_likelihood`). Effects that clusters share are
integrated out together with beta, by the determinant of their information (restricted likelihood).
The prior of each sd has density sd exp(-sd), which keeps a sd that the verdicts say little about
from 0 (Chung et al. 2013). Sds of one kind (`alike`), such as that of quality for each model, share
it: their geometric mean has this prior, and their logs are normal about its log. With a prior for
each, all would be kept from 0 together, which inflates the coefficients where nothing varies.

Gradients are exact but for that determinant, whose change with the sds is taken at fixed weights of
the verdicts. The search for the sds begins with the information in the clusters' scores (Berndt et
al. 1974); their errors are of differences of the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from jbt.estimators.cluster_likelihood import AT_ONCE, Block, Met, blocks_of, likelihood
from jbt.stats.cluster_jackknife import NO_DIFFERENCE
from jbt.types import Status

LEVEL = 0.95
"""Coverage of every interval."""

START = -1.0
"""Log sd at which a fit starts by default."""

MAX_STEPS, TOLERANCE, LAST = 30, 1e-2, 1e-4
"""Of Newton's method; tolerance of the last step, in posterior standard deviations, during the
search and at its end."""

CLOSE = 0.05
"""Distance of the log sds from the maximum that counts as converged, in standard deviations."""

DIFFERENCE = 0.02
"""Step of the log sds in finite differences."""

LONGEST, LARGEST = 0.7, 2.0
"""Longest step of a log sd, and the log sd beyond which the search gives up."""

DEVIATION = 1.0
"""Prior standard deviation of the logs of sds of one kind, before their mean is taken away."""

LEAST_INFORMATION = 0.1
"""About a log sd, where the search ended at no maximum."""

SHORTEST = 1 / 64
"""Least share of a step that is tried."""

PRIORS_SHARE = 0.5
"""Default of `fit`."""


WEIGHT = 0.2
"""p (1 - p) of a verdict, about, for the information that verdicts can give about a variance."""

LEAST_PLANNED = 4.0
"""Least such information with which a variance is estimated: it is then known to half a logit^2."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Mixed:
    """R rows of verdicts in G clusters, with K coefficients."""

    fixed: Any
    """[R, K] sparse, columns of the coefficients."""
    precision: np.ndarray
    """[K] of the coefficients' prior about 0; not used for those in `crossed`."""
    shown: np.ndarray
    """[R] number of verdicts of each row."""
    wins: np.ndarray
    """[R] how many of them the first won, a tie being half a win."""
    cluster: np.ndarray
    """[R] integers."""
    units: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Name of an effect -> [2, R] the units that are the first and the second of each row: whose
    effects are added and subtracted; negative where there is none. Units of different clusters are
    different units."""
    factors: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Name of such an effect -> [R] what it is multiplied by in each row; default 1."""
    slopes: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Name of an effect -> [R] its column: a coefficient of a cluster's own."""
    crossed: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Name of an effect -> places among the K of the coefficients that share its sd."""
    alike: Sequence[str] = ()
    """Effects of clusters whose sds share a prior."""

    @property
    def effects(self) -> list[str]:
        """Names of the H effects, those of clusters first."""
        return [*self.units, *self.slopes, *self.crossed]

    @cached_property
    def blocks(self) -> list[Block]:
        """The clusters."""
        return blocks_of(self)

    @cached_property
    def kinds(self) -> np.ndarray:
        """[J, H] share of each effect in the mean of the log sds of each kind."""
        kinds = [[name] for name in self.effects if name not in self.alike]
        kinds += [list(self.alike)] if self.alike else []
        shares = [[(name in kind) / len(kind) for name in self.effects] for kind in kinds]
        return np.array(shares).reshape(len(kinds), len(self.effects))

    def without(self, names: Sequence[str]) -> Mixed:
        """The problem with some sds fixed at 0."""
        kept = {
            kind: {name: v for name, v in getattr(self, kind).items() if name not in names}
            for kind in ("units", "slopes", "crossed")
        }
        dropped = [self.crossed[name] for name in self.crossed if name in names]
        gone = np.concatenate([np.zeros(0, int), *dropped])
        columns, precision = np.ones(len(self.precision)), self.precision.copy()
        columns[gone], precision[gone] = 0, 1
        fixed = self.fixed.multiply(columns).tocsr()
        alike = [name for name in self.alike if name not in names]
        return replace(self, fixed=fixed, precision=precision, alike=alike, **kept)


@dataclass(frozen=True, eq=False)
class MixedFit:
    """The maximum, and what intervals need."""

    problem: Mixed
    beta: Float[np.ndarray, " K"]
    sd: Mapping[str, float]
    """Of each effect; 0 where it is not identified."""
    status: Status
    given: Float[np.ndarray, "K K"]
    """Covariance of beta at these sds."""
    inverse: Float[np.ndarray, "P P"]
    """Covariance of the P = K + H (beta, log sds)."""
    parts: list[_Part]

    @property
    def log_sd_error(self) -> dict[str, float]:
        """Standard error of the log sd of each effect; infinite where it is not identified."""
        errors = np.sqrt(np.diagonal(self.inverse)[len(self.beta) :])
        found = dict(zip(self.problem.effects, errors.tolist(), strict=True))
        return {name: found.get(name, np.inf) for name in self.sd}

    def intervals(self, along: Float[np.ndarray, "C K"]) -> pd.DataFrame:
        """Combinations of the coefficients with 95 % intervals by the jackknife over clusters.

        To one Newton step, leaving a cluster out moves a combination by its score times what the
        combination's direction becomes without the cluster's information (CR3, as in
        `jbt.stats.row_jackknife`). To this variance over clusters comes that of crossed
        coefficients, which no cluster shows: of a slope on quality, that the models are a few. The
        intervals are about the estimates without the prior's pull.

        Returns:
          A row for each combination: estimate, low, high, degrees (of Student's t: Satterthwaite's
          for clusters with the fitted information), prior_share (of the prior in the posterior
          variance, see `row_jackknife.prior_part`).
        """
        from scipy import special

        k = along.shape[1]
        along = along * (np.asarray(abs(self.problem.fixed).sum(0)).ravel() > 0)
        direction = self.inverse[:, :k] @ along.T  # [K + H, C]
        squares, kept, kept_squares, n = np.zeros((4, len(along)))
        for part in self.parts:
            change, share = part.left_out(self.given, direction)
            squares += (change**2).sum(0)
            kept, kept_squares = kept + share.sum(0), kept_squares + (share**2).sum(0)
            n = n + len(change)
        posterior = np.einsum("ck,kc->c", along, direction[:k])
        variance = squares * (n - 1) / n
        # Verdicts of a judge symmetric by construction do not show the error: then the model's.
        variance = np.where(variance > NO_DIFFERENCE * posterior, variance, posterior)
        degrees = np.where(kept_squares > 0, kept**2 / np.maximum(kept_squares, 1e-300), 0)
        precision = self.problem.precision.copy()
        variances, degrees = [variance], [degrees]
        for name, places in self.problem.crossed.items():
            precision[places] = 0
            variances.append((direction[places] ** 2).sum(0) / self.sd[name] ** 2)
            degrees.append(np.full(len(along), max(1.0, len(places) - 2)))
        variance, parts = sum(variances), zip(variances, degrees, strict=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = variance**2 / sum(v**2 / df for v, df in parts)
        estimate = along @ self.beta
        about = estimate + direction[:k].T @ (precision * self.beta)
        se = np.sqrt(variance)
        degrees = np.where(degrees > 0, degrees, np.nan)
        half = special.stdtrit(degrees, (1 + LEVEL) / 2) * se
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (precision[:, None] * direction[:k] ** 2).sum(0) / posterior
        columns = {"low": about - half, "high": about + half, "degrees": degrees}
        return pd.DataFrame({"estimate": estimate, **columns, "prior_share": share})


class _Part(NamedTuple):
    """A block's clusters at the maximum."""

    met: Met
    residual: np.ndarray
    """[n, r] gradient of the marginal log-likelihood in the rows' logits."""
    weight: np.ndarray
    """[n, r, r] minus its second derivative."""
    score: np.ndarray
    """[n, H] gradient in the log sds."""

    def left_out(self, inverse: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far combinations move without each cluster, and the cluster's part of their variance
        [n, C]."""
        n, r = self.residual.shape
        k = len(inverse)
        shared = self.met.rows(direction[:k])
        step = max(1, AT_ONCE // (r * max(self.met.columns.shape[2], r)))
        change, share = [], []
        for start in range(0, n, step):
            some = slice(start, start + step)
            met = Met(*(v[some] for v in self.met))
            leverage = met.leverage(inverse) @ self.weight[some]
            moved = np.linalg.solve(np.eye(r) - leverage, shared[some])
            change.append(np.einsum("nr,nrc->nc", self.residual[some], moved))
            share.append(np.einsum("nrc,nrs,nsc->nc", shared[some], self.weight[some], moved))
        of_sds = self.score @ direction[k:]
        return np.concatenate(change) + of_sds, np.concatenate(share).clip(0)


def fit(
    problem: Mixed, priors_share: float = PRIORS_SHARE, start: Mapping[str, float] | None = None
) -> MixedFit:
    """Fit the coefficients and the sds. Effects whose sd the verdicts do not identify are left out.

    Args:
      priors_share: share of the information about a log sd above which the prior chose it: then it
        is not identified, and is fixed at 0. Sds that are `alike` are judged together, by the
        information about a change of all their logs alike.
      start: sds of a similar problem's fit, from which the search starts.
    """
    lost, start = unseen(problem), start or {}
    if not lost:
        found = _maximise(problem, start)
        if found.status == Status.CONVERGED:
            log_sds = slice(len(problem.precision), None)
            information = np.linalg.inv(found.inverse[log_sds, log_sds])
            _, prior = _prior(problem, np.log(list(found.sd.values())))
            alike, start = problem.kinds > 0, found.sd
            of_all, of_prior = (
                np.einsum("jh,hi,ji->j", alike, of_sds, alike) for of_sds in (information, prior)
            )
            chosen = (of_prior > priors_share * of_all) @ alike
            lost = [name for name, by_prior in zip(start, chosen, strict=True) if by_prior]
        if not lost:
            return found
    rest = fit(problem.without(lost), priors_share, start)
    return replace(rest, sd={name: rest.sd.get(name, 0.0) for name in problem.effects})


def unseen(problem: Mixed) -> list[str]:
    """Effects of clusters that verdicts of such numbers cannot show: it takes two verdicts that
    share an effect. The information about a variance near 0 is half the sum, over ordered pairs of
    different verdicts of a cluster, of (a_r . a_s)^2 p_r (1 - p_r) p_s (1 - p_s)."""
    information = np.zeros(_n_local(problem))
    for block in problem.blocks:
        shown = block.data[0]
        for h in range(len(information)):
            columns = block.columns[:, :, block.effect == h]
            squares = (columns @ columns.transpose(0, 2, 1)) ** 2
            pairs = np.einsum("nr,nrs,ns->", shown, squares, shown)
            same = np.einsum("nrr,nr->", squares, shown)
            information[h] += (pairs - same) * WEIGHT**2 / 2
    names = problem.effects[: len(information)]
    return [name for name, of_it in zip(names, information, strict=True) if of_it < LEAST_PLANNED]


@dataclass(frozen=True, eq=False)
class _Point:
    """The posterior at some log sds and coefficients. Crossed coefficients are in units of their
    sd."""

    beta: np.ndarray
    """[K]"""
    objective: float
    """Log-posterior of the coefficients but for a constant."""
    gradient: np.ndarray
    """[K] of the objective."""
    information: np.ndarray
    """[K, K] minus its second derivative, without the expansion's part."""
    score: np.ndarray
    """[H] gradient in the log sds of their marginal log-posterior, but for how the information
    changes with them."""
    modes: list[np.ndarray]
    """[n, q] of each block, the effects of the clusters, in units of their sd."""
    parts: list[_Part]

    def of_scores(self, problem: Mixed, log_sd: np.ndarray) -> np.ndarray:
        """[H, H] information about the log sds by the clusters' scores. The second derivative in a
        log sd has the score as a term, too."""
        scores = np.concatenate([part.score for part in self.parts])
        of_prior, prior = _prior(problem, log_sd)
        return scores.T @ scores + np.diag(np.maximum(2 * (of_prior - self.score), 0)) + prior


@dataclass(eq=False)
class _Search:
    """The score of the log sds at the best coefficients, each time from the last ones found."""

    problem: Mixed
    blocks: list[Block]
    last: _Point | None = None

    def at(self, log_sd: np.ndarray, tolerance: float = TOLERANCE) -> _Point:
        """The best coefficients at some log sds."""
        k = len(self.problem.precision)
        if self.last is None:
            beta = np.zeros(k)
            modes = [np.zeros((len(b.clusters), len(b.effect))) for b in self.blocks]
        else:
            beta, modes = self.last.beta, self.last.modes
        top = _evaluate(self.problem, self.blocks, beta, log_sd, modes)
        for _ in range(MAX_STEPS):
            step = np.linalg.solve(top.information, top.gradient)
            if top.gradient @ step < tolerance**2:
                break
            length = 1.0
            while length > SHORTEST:
                beta = top.beta + length * step
                trial = _evaluate(self.problem, self.blocks, beta, log_sd, top.modes)
                if trial.objective >= top.objective - tolerance**2:
                    top = trial
                    break
                length /= 4
            else:
                break
        self.last = top
        return top

    def ascend(self, log_sd: np.ndarray) -> np.ndarray:
        """The log sds at which the score is 0: Newton's method with the information of the
        clusters' scores, corrected by what the score's change shows (symmetric rank one: Nocedal
        and Wright 2006, section 6.2). Steps are judged by the score alone, as it is the gradient of
        no objective."""
        top, length = self.at(log_sd), 1.0
        information = top.of_scores(self.problem, log_sd)
        for _ in range(MAX_STEPS):
            values, vectors = np.linalg.eigh(information)
            step = vectors @ (vectors.T @ top.score / np.abs(values).clip(LEAST_INFORMATION))
            slope = top.score @ step
            if slope < TOLERANCE**2:
                break
            step *= min(length, LONGEST / np.abs(step).max())
            trial = self.at(log_sd + step)
            missed = top.score - trial.score - information @ step
            if abs(missed @ step) > 0.01 * np.linalg.norm(missed) * np.linalg.norm(step):
                information = information + np.outer(missed, missed) / (missed @ step)
            # As steep a descent beyond the maximum: the step was too long.
            if trial.score @ step < -top.score @ step:
                length /= 2
                continue
            log_sd, top, length = log_sd + step, trial, min(1.0, 2 * length)
            if log_sd.max() > LARGEST:
                break
        return log_sd


def _maximise(problem: Mixed, start: Mapping[str, float]) -> MixedFit:
    search = _Search(problem, problem.blocks)
    known = [start.get(name) for name in problem.effects]
    log_sd = np.array([np.log(sd) if sd else START for sd in known])
    k = len(problem.precision)
    if len(log_sd):
        log_sd = search.ascend(log_sd)
    top = search.at(log_sd, LAST)
    left = top.gradient @ np.linalg.solve(top.information, top.gradient)
    converged = bool(left < CLOSE**2)
    scale, sds = _scale(problem, log_sd), np.exp(log_sd)
    follows, curvature = np.zeros((k, len(sds))), np.zeros((len(sds), len(sds)))
    for h, change in enumerate(DIFFERENCE * np.eye(len(sds))):
        other = search.at(log_sd + change)
        moved = _scale(problem, log_sd + change) * other.beta - scale * top.beta
        follows[:, h] = moved / DIFFERENCE
        curvature[h] = (top.score - other.score) / DIFFERENCE
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    of_sds = (vectors / values.clip(LEAST_INFORMATION)) @ vectors.T
    if len(sds):
        converged &= bool(top.score @ of_sds @ top.score < CLOSE**2 and values[0] > 0)
    given = scale[:, None] * np.linalg.inv(top.information) * scale
    inverse = np.block(
        [[given + follows @ of_sds @ follows.T, follows @ of_sds], [of_sds @ follows.T, of_sds]]
    )
    return MixedFit(
        problem,
        scale * top.beta,
        dict(zip(problem.effects, sds.tolist(), strict=True)),
        Status.CONVERGED if converged else Status.NOT_CONVERGED,
        given,
        inverse,
        top.parts,
    )


def _scale(problem: Mixed, log_sd: np.ndarray) -> np.ndarray:
    """[K] the sd of each crossed coefficient, else 1."""
    scale = np.ones(len(problem.precision))
    for places, rho in zip(problem.crossed.values(), log_sd[_n_local(problem) :], strict=True):
        scale[places] = np.exp(rho)
    return scale


def _prior(problem: Mixed, log_sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient [H] of the log-prior of the log sds, and minus its second derivative [H, H]."""
    kinds = problem.kinds
    mean = kinds @ log_sd
    about = np.eye(len(log_sd)) - (kinds > 0).T @ kinds
    gradient = kinds.T @ (1 - np.exp(mean)) - about @ log_sd / DEVIATION**2
    return gradient, (kinds.T * np.exp(mean)) @ kinds + about / DEVIATION**2


def _n_local(problem: Mixed) -> int:
    """Number of effects of clusters."""
    return len(problem.units) + len(problem.slopes)


def _evaluate(
    problem: Mixed,
    blocks: list[Block],
    beta: np.ndarray,
    log_sd: np.ndarray,
    modes: list[np.ndarray],
) -> _Point:
    k, h, local = len(beta), len(log_sd), _n_local(problem)
    scale = _scale(problem, log_sd)
    logits = np.append(problem.fixed @ (scale * beta), 0)
    log_likelihood, of_verdicts = 0.0, np.zeros((k, k))
    gradient, score = np.zeros(k), np.zeros(h)
    parts, new_modes = [], []
    for block, mode in zip(blocks, modes, strict=True):
        sds = np.exp(log_sd)[block.effect]
        arrays = logits[block.rows], sds, block.columns, *block.data, mode
        value, residual, of_sd, weight, mode = likelihood(*arrays)
        of_clusters = np.zeros((len(mode), h))
        np.add.at(of_clusters.T, block.effect, (of_sd * sds).T)
        for name, place in zip(problem.crossed, range(local, h), strict=True):
            chosen = problem.crossed[name]
            crossed = np.zeros(k)
            crossed[chosen] = scale[chosen] * beta[chosen]
            of_clusters[:, place] = (residual * block.met.rows(crossed[:, None])[..., 0]).sum(1)
        of_verdicts += block.met.information(weight, k)
        gradient += block.met.gradient(residual, k)
        score += of_clusters.sum(0)
        log_likelihood += value
        parts.append(_Part(block.met, residual, weight, of_clusters))
        new_modes.append(mode)

    precision = problem.precision.copy()
    for places in problem.crossed.values():
        precision[places] = 1
    of_verdicts *= np.outer(scale, scale)
    information = of_verdicts + np.diag(precision)
    known = np.linalg.solve(information, of_verdicts)
    for name, place in zip(problem.crossed, range(local, h), strict=True):
        score[place] -= known[np.ix_(problem.crossed[name], problem.crossed[name])].trace()
    objective = log_likelihood - (precision * beta**2).sum() / 2
    score += _prior(problem, log_sd)[0]
    gradient = scale * gradient - precision * beta
    return _Point(beta, objective, gradient, information, score, new_modes, parts)
