"""Fit of a bias that changes with quality, c + gamma q, shared by many pools, each with qualities
of its own.

c is the bias of an average content of its pool, and the c of the stronger half of the contents is
c + gamma times their mean quality. To fit a c to each half instead would make the halves too alike,
as those of estimated qualities mix strong with weak contents: with gamma = 0.5 and 12 items a pool
they differed by 0.54 where the truth was 0.70, with gamma = 1 by 0.61 of 1.40. Here the qualities
are integrated out (`marginal_fit`).

Only differences between renderings of one content decide about gamma. Between contents quality may
go with m, the mean of x over a content's renderings, in its mean (b, b2) and in its spread (delta):
to first order these take up what gamma does there, where nothing separates it from such a quality.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jbt.kernel.membership import sobol_normals
from jbt.own.shared_coefficients import varying_bias
from jbt.own.shared_coefficients.between import about_contents
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.intervals import LEVEL, Basis, Known, Z, known
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack, chosen, chunk, maximum
from jbt.types import Design, Prior, Status, Verdicts

NEARLY, ELSEWHERE = 3.0, 1.0
"""A second maximum counts if its log-posterior is within so many nats of the best, and its gamma
further away than so many standard errors."""

STARTS = (0.0, 0.7, -0.7)
"""Values of gamma from which the fit starts, per logit. Near gamma = 1 there is a second maximum in
which b2 and delta take its place."""

DELTA_SPREAD = 1.0
"""Standard deviation of the prior of delta. Without b2 and delta, where the spread of quality grows
with x and c is constant, gamma comes out at 0.17 with intervals that hold 0 in .23 of studies."""

FEWEST_DEGREES = 5.0
"""Degrees of freedom of c and of gamma below which nothing here has an interval. With 10 pools of 4
contents and no such limit, intervals of gamma covered .91."""

DRAWS, DIFFERENCE, HELD = 256, 1e-3, 16
"""Draws of the qualities for the means of the halves; the step of their differences; by how much
fewer pools are held at a time for the draws."""


def stack(
    items: Design, verdicts: Verdicts, c: np.ndarray, kappa: np.ndarray, owner: np.ndarray
) -> PoolStack:
    """Pools of one shape; the shared parameters are in the order of `varying_bias.Biases`.

    Args:
      items: leaves with a leading axis of F pools.
      verdicts: counts, or rows whose `first` and `second` are items.
      c: [F, D] whether c, gamma and the slopes between contents are free.
      kappa: [F] whether kappa is.
      owner: [F]
    """
    x, means = about_contents(items)
    squares, real = means**2, np.asarray(jax.vmap(Design.content_mask)(items))[:, :, None]
    squares = np.where(
        real, squares - squares.sum(1, keepdims=True) / real.sum(1, keepdims=True), 0
    )
    f, n = x.shape[:2]
    content = np.arange(n)[None] if items.content is None else np.asarray(items.content)
    of_items = [v[np.arange(f)[:, None], content] for v in (means, squares)]
    columns = np.concatenate([x, *of_items], 2) * np.asarray(items.item_mask)[:, :, None]
    build = jax.vmap(partial(Design, n_contents=items.n_contents))
    design = build(jnp.asarray(columns), items.content, items.item_mask)
    free = np.concatenate([c, c, c, kappa[:, None], c, c], 1).astype(float)
    return PoolStack(verdicts, design, jnp.asarray(free[:, :, None] * np.eye(free.shape[1])), owner)


def only(stack: PoolStack, pools: np.ndarray) -> PoolStack:
    """Some pools of a stack."""
    return jax.tree.map(lambda leaf: leaf[pools], stack)


@dataclass(frozen=True, eq=False)
class BiasSlope:
    """The fit of each owner."""

    top: Maximum
    parts: Sequence[PoolStack]
    ambiguous: np.ndarray
    """[owners, D] whether another gamma fits nearly as well."""
    halves: np.ndarray
    """[owners, 2] mean quality of the stronger and of the weaker half of a pool's contents, about
    the mean of all, logits."""
    covariance: np.ndarray
    """[owners, 2, 2] of the halves given the parameters."""
    response: np.ndarray
    """[owners, 2, K] derivative of the halves in the parameters."""

    def known(self, owner: int, covariate: int) -> Iterator[tuple[str, float, Known]]:
        """Yield the name of each result, its value and how well it is known: `c`, `stronger` and
        `weaker` (c of the halves), `difference` between the halves, and `gamma`. None has an
        interval unless both c and gamma are measured, in enough pools."""
        from scipy.special import stdtrit

        point = self.top.at[owner]
        d = len(varying_bias.Biases.of(jnp.asarray(point[:-1])).c)
        c, gamma = (np.eye(len(point))[i + covariate] for i in (0, 3 * d + 1))
        slope, halves = float(gamma @ point), self.halves[owner]
        of_halves = c + halves[:, None] * gamma + slope * self.response[owner]
        along = {
            "c": c,
            "stronger": of_halves[0],
            "weaker": of_halves[1],
            "difference": of_halves[0] - of_halves[1],
            "gamma": gamma,
        }
        weights = np.array([[0, 0], [1, 0], [0, 1], [1, -1], [0, 0]])
        values = c @ point * np.array([1, 1, 1, 0, 0]) + slope * np.r_[weights[:4] @ halves, 1]
        # The mean quality of a half is uncertain, too, given the parameters.
        variance = slope**2 * np.einsum("ci,ij,cj->c", weights, self.covariance[owner], weights)
        combinations = np.stack(list(along.values()))
        arguments = self.top, self.parts, owner, combinations
        results = list(known(*arguments, np.ones(len(along), bool)))
        withheld = _withheld(results[0]) or _withheld(results[-1])
        if self.ambiguous[owner, covariate]:
            withheld = withheld or Basis.AMBIGUOUS
        if withheld is None:
            # Pools that differ less than the model has it are no reason for a shorter interval:
            # without this, intervals of gamma covered .88 where half of four contents are rendered
            # twice.
            inverse = np.linalg.inv(self.top.information[owner])
            expected = np.sqrt(np.einsum("ck,kl,cl->c", combinations, inverse, combinations))
            expected *= stdtrit([result.dof for result in results], (1 + LEVEL) / 2)
        else:
            expected = np.full(len(along), np.nan)
        rows = zip(along, values, variance, expected, results, strict=True)
        for name, value, more, least, result in rows:
            half_width = max(result.half_width, float(least))
            half_width = float(np.sqrt(half_width**2 + Z**2 * more))
            basis = withheld or result.basis
            half_width = half_width if basis == Basis.MEASURED else np.nan
            yield name, float(value), replace(result, half_width=half_width, basis=basis)


def _withheld(known: Known) -> Basis | None:
    """Why c or gamma has no interval, if so."""
    if known.basis != Basis.MEASURED:
        return known.basis
    return Basis.FEW_POOLS if known.dof < FEWEST_DEGREES else None


def fit(parts: Sequence[PoolStack], prior: Prior, n_owners: int) -> BiasSlope:
    """Fit each owner's parameters (float64), from every start, and keep the best maximum.

    Args:
      parts: from `stack`.
      prior: of the qualities, whose sd is estimated about its own, and of the coefficients.
    """
    d = (parts[0].loadings.shape[2] - 1) // 5
    lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), d + 1)
    c, kappa = lam_b[:d], lam_b[d:]
    precision = np.r_[c, c, c, kappa, c, np.full(d, DELTA_SPREAD**-2)]
    of_gamma = slice(3 * d + 1, 4 * d + 1)
    tops = []
    for gamma in STARTS:
        start = np.zeros(len(precision))
        start[of_gamma] = gamma
        tops.append(
            maximum(
                parts,
                prior,
                precision,
                n_owners,
                spread=True,
                terms=varying_bias.terms,
                n_linear=3 * d + 1,
                start=start,
            )
        )
    values = np.stack([_log_posterior(top, parts, prior) for top in tops])
    values[np.stack([top.status for top in tops]) != Status.CONVERGED] = -np.inf
    winner, best = values.argmax(0), tops[0]
    for number, top in enumerate(tops[1:], 1):
        best = chosen(winner == number, top, best, parts)
    # A matrix that is singular belongs to a fit that did not converge.
    variance = np.diagonal(np.linalg.pinv(best.information), axis1=1, axis2=2)[:, of_gamma]
    ambiguous = np.zeros(variance.shape, bool)
    for top, value in zip(tops, values, strict=True):
        apart = (top.at - best.at)[:, of_gamma] ** 2 > ELSEWHERE**2 * np.abs(variance)
        ambiguous |= apart & (value > values.max(0) - NEARLY)[:, None]
    return BiasSlope(best, parts, ambiguous, *_halves(best, parts))


def _log_posterior(top: Maximum, parts: Sequence[PoolStack], prior: Prior) -> np.ndarray:
    """[owners] but for a constant."""
    centre = np.zeros(top.at.shape[1])
    centre[-1] = -np.log(float(np.asarray(prior.lam))) / 2
    total = -((top.at - centre) ** 2 @ top.weight) / 2
    for part, theta in zip(parts, top.theta, strict=True):
        leaves = (*part[:3], jnp.asarray(top.at[part.owner]), jnp.asarray(theta))
        (values,) = in_chunks(lambda s: varying_bias.evidence(*s), leaves, chunk(part))
        np.add.at(total, part.owner, values)
    return total


def _halves(top: Maximum, parts: Sequence[PoolStack]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`BiasSlope.halves`, `covariance` and `response`."""
    sizes = [part.design.n_contents for part in parts]
    draws = [sobol_normals(DRAWS, size, np.float64)[0].T for size in sizes]

    def at(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_owners = len(point)
        total, spread = np.zeros((n_owners, 2)), np.zeros((n_owners, 2, 2))
        count = np.zeros(n_owners)
        for part, theta, normal in zip(parts, top.theta, draws, strict=True):
            leaves = (*part[:3], jnp.asarray(point[part.owner]), jnp.asarray(theta))
            means, covariances = in_chunks(
                lambda s, normal=normal: varying_bias.half_means(*s, normal),
                leaves,
                chunk(part) // HELD,
            )
            pools = np.isfinite(means).all(1)
            np.add.at(total, part.owner[pools], means[pools])
            np.add.at(spread, part.owner[pools], covariances[pools])
            np.add.at(count, part.owner[pools], 1)
        count = np.where(count > 0, count, np.nan)
        return total / count[:, None], spread / count[:, None, None] ** 2

    halves, covariance = at(top.at)
    ends = [
        [at(top.at + sign * step)[0] for sign in (1, -1)]
        for step in DIFFERENCE * np.eye(top.at.shape[1])
    ]
    response = np.stack([(up - down) / (2 * DIFFERENCE) for up, down in ends], -1)
    return halves, covariance, response
