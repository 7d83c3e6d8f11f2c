"""A bias that grows with quality: one more coefficient for each covariate.

    phi_i = theta_a(i) + (c + gamma theta_a(i)) . x_i,    theta about its mean

This is `Judge.interaction` as a model. gamma multiplies a parameter, so the likelihood is concave
in (theta, c, kappa) at fixed gamma and in (c, gamma, kappa) at fixed theta, but not in all of them:
there may be several optima, and this is the one that Newton's method reaches from 0.

Where every item is its own content, nothing but the prior tells gamma from the qualities: any phi
is that of theta_i = (phi_i - c . x_i) / (1 + gamma . x_i). Two renderings of one content tell its
c + gamma theta_a; renderings of contents of unlike quality tell c and gamma apart.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt.kernel import model
from jbt.types import (
    Comparisons,
    Design,
    Fit,
    Parameters,
    Prior,
    Status,
    Verdicts,
    container,
)

MAX_STEPS = 100
"""Step limit, refused steps included."""


@container
class InteractionFit:
    """The maximum a posteriori with a bias that grows with quality."""

    fit: Fit
    """theta, c and kappa: c is the bias of a content of average quality. Status FLAT where the
    comparisons made do not identify c and gamma, so that the prior chooses them."""
    interaction: Float[Array, " D"]
    """gamma, logits per unit of the covariate and logit of quality."""


def interaction(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Quality, c and kappa where the bias may grow with quality; gamma is left out of the result.
    As `fit_interaction`."""
    return fit_interaction(comparisons, design, prior).fit


def fit_interaction(comparisons: Verdicts, design: Design, prior: Prior) -> InteractionFit:
    """The optimum that Newton's method reaches from 0; where the objective is not convex, steps are
    those of Fisher scoring. Steps that do not lower the objective are shortened; the last is at
    most 1e-3 posterior standard deviations in float32, 1e-8 in float64.

    Args:
      comparisons: counts of one judge.
      design: the covariates as given, not centred: gamma is the bias that quality adds to an item
        at x = 1 beyond one at x = 0.
      prior: gamma has that of c.

    Raises:
      ValueError: a panel, or rows.
    """
    if not isinstance(comparisons, Comparisons):
        kind = type(comparisons).__name__
        raise ValueError(f"an interaction needs the counts of one judge, got {kind}")
    tolerance = 1e-3 if design.dtype == jnp.float32 else 1e-8
    problem = _Problem.of(comparisons, design, prior)

    def step(s: _State) -> _State:
        gradient, curvature = problem.gradient_and_curvature(s.beta)
        change = jnp.linalg.solve(curvature, gradient)
        size = jnp.sqrt(jnp.abs(change @ gradient))
        beta = s.beta + s.length * change
        objective = problem.objective(beta)
        rounding = 10 * jnp.finfo(objective.dtype).eps * jnp.abs(s.objective)
        better = objective <= s.objective + rounding
        return _State(
            jnp.asarray(jnp.where(better, beta, s.beta)),
            jnp.where(better, objective, s.objective),
            jnp.where(better, jnp.minimum(4 * s.length, 1), s.length / 4),
            better & (size <= tolerance),
            s.steps + 1,
        )

    def going(s: _State) -> Bool[Array, ""]:
        return ~s.done & (s.steps < MAX_STEPS) & jnp.isfinite(s.objective)

    zero, one = jnp.zeros((problem.size,), design.dtype), jnp.ones((), design.dtype)
    first = _State(zero, problem.objective(zero), one, jnp.array(False), jnp.array(0))
    end = jax.lax.while_loop(going, step, first)
    return problem.result(end)


def bias_variances(
    parameters: Parameters,
    gamma: Float[Array, " D"],
    comparisons: Comparisons,
    design: Design,
    contents: Bool[Array, " M"],
) -> tuple[Float[Array, " D"], Float[Array, " D"], Float[Array, " D"]]:
    """Variances of estimates of c, gamma and the mean bias c + gamma theta of some contents, by the
    Fisher information at these parameters, all being unknown and without a prior. float64.

    Args:
      parameters, gamma: theta about its mean (logits), c and gamma per unit of the covariate.
      comparisons: only the number of times each pair was shown matters; it may be a fraction.
      design: the covariates as given.
      contents: those whose mean bias is estimated.

    Returns:
      Variances [D] of c, of gamma and of the mean bias, in squared units of each; infinite for what
      the comparisons do not identify.
    """
    problem = _Problem.of(comparisons, design, Prior())
    _, information, _ = problem._likelihood(jnp.concatenate([parameters.flat(), gamma]))
    d, m = design.n_covariates, design.n_contents
    all_contents = design.content_mask()
    share = contents / contents.sum()
    of_mean = share - all_contents / all_contents.sum()
    size = problem.size
    c = jnp.zeros((d, size), design.dtype).at[:, m : m + d].set(jnp.eye(d))
    growth = jnp.zeros((d, size), design.dtype).at[:, size - d :].set(jnp.eye(d))
    biases = c + (of_mean @ parameters.theta) * growth
    biases = biases.at[:, :m].set(gamma[:, None] * of_mean)
    scale = problem.scale(information)
    values, vectors = jnp.linalg.eigh(information / scale[:, None] / scale)
    known = values > 1e-11 * values.max()

    def variance(combination: Float[Array, "D Z"]) -> Float[Array, " D"]:
        parts = (combination / scale) @ vectors
        lost = jnp.abs(parts * ~known).max(-1) > 1e-5 * jnp.abs(parts).max(-1)
        found = (parts**2 * known / jnp.where(known, values, 1)).sum(-1)
        return jnp.asarray(jnp.where(lost, jnp.inf, found))

    return variance(c), variance(growth), variance(biases)


class _State(NamedTuple):
    beta: Float[Array, " Z"]
    objective: Float[Array, ""]
    length: Float[Array, ""]
    done: Bool[Array, ""]
    steps: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class _Problem:
    """One pool; parameters are flat, (theta, c, kappa, gamma)."""

    comparisons: Comparisons
    design: Design
    items: Design
    """The items with qualities of their own and no covariates, for derivatives in phi."""
    precision: Float[Array, " Z"]

    @classmethod
    def of(cls, comparisons: Comparisons, design: Design, prior: Prior) -> _Problem:
        n, d = design.n_items, design.n_covariates
        items = Design(jnp.zeros((n, 0), design.dtype), None, design.item_mask, n)
        usual = model.prior_precision(design, prior)
        c = slice(design.n_contents, design.n_contents + d)
        return cls(comparisons, design, items, jnp.concatenate([usual, usual[c]]))

    @property
    def size(self) -> int:
        return len(self.precision)

    def split(self, beta: Float[Array, " Z"]) -> tuple[Parameters, Float[Array, " D"]]:
        d = self.design.n_covariates
        parameters = Parameters.unflat(beta[: self.size - d], self.design.n_contents)
        return parameters, beta[self.size - d :]

    def of_items(self) -> Float[Array, "N M"]:
        """From qualities of contents to those of items about the mean of the contents."""
        contents = self.design.content_mask().astype(self.design.dtype)
        owner = self.design.ownership() * contents
        return owner - contents / contents.sum()

    def apparent(self, beta: Float[Array, " Z"]) -> Parameters:
        """phi of the items, and kappa, as parameters of `items`."""
        parameters, gamma = self.split(beta)
        bias = self.design.covariates @ parameters.c
        slope = 1 + self.design.covariates @ gamma
        phi = slope * (self.of_items() @ parameters.theta) + bias
        return Parameters(phi, jnp.zeros((0,), phi.dtype), parameters.kappa)

    def objective(self, beta: Float[Array, " Z"]) -> Float[Array, ""]:
        likelihood = model.log_likelihood(self.apparent(beta), self.items, self.comparisons)
        return (self.precision * beta**2).sum() / 2 - likelihood

    def gradient_and_curvature(
        self, beta: Float[Array, " Z"]
    ) -> tuple[Float[Array, " Z"], Float[Array, "Z Z"]]:
        """Minus the gradient of the objective, and its second derivative, or the expected one where
        that is not positive definite."""
        gradient, scoring, newton = self.derivatives(beta)
        convex = jnp.isfinite(jnp.linalg.cholesky(newton)).all()
        return gradient, jnp.where(convex, newton, scoring)

    def derivatives(
        self, beta: Float[Array, " Z"]
    ) -> tuple[Float[Array, " Z"], Float[Array, "Z Z"], Float[Array, "Z Z"]]:
        """Minus the gradient of the objective, its expected and its exact second derivative."""
        gradient, information, cross = self._likelihood(beta)
        scoring = information + jnp.diag(self.precision) + self._constant(information)
        return gradient - self.precision * beta, scoring, scoring - cross

    def _likelihood(
        self, beta: Float[Array, " Z"]
    ) -> tuple[Float[Array, " Z"], Float[Array, "Z Z"], Float[Array, "Z Z"]]:
        """Gradient of the log-likelihood, Fisher information, and what its second derivative has
        beyond that: residuals times the second derivative of phi, in theta and gamma."""
        d, m, x = self.design.n_covariates, self.design.n_contents, self.design.covariates
        parameters, gamma = self.split(beta)
        theta = self.of_items()
        slope = (1 + x @ gamma)[:, None] * theta
        zero = jnp.zeros((self.design.n_items, 1), x.dtype)
        chain = jnp.concatenate([slope, x, zero, x * (theta @ parameters.theta)[:, None]], 1)
        kappa = (jnp.arange(self.size) == m + d).astype(x.dtype)[None]
        chain = jnp.concatenate([chain, kappa])
        score, information = model.score_and_information(
            self.apparent(beta), self.items, self.comparisons
        )
        mixed = (theta * score[:-1, None]).T @ x  # [M, D]
        cross = jnp.zeros((self.size, self.size), x.dtype).at[:m, self.size - d :].set(mixed)
        return chain.T @ score, chain.T @ information @ chain, cross + cross.T

    def _constant(self, information: Float[Array, "Z Z"]) -> Float[Array, "Z Z"]:
        """The constant of theta, which no comparison and no step moves, at the scale of the rest;
        it keeps the second derivative well conditioned."""
        contents = self.design.content_mask().astype(information.dtype)
        m = self.design.n_contents
        ones = jnp.zeros((self.size,), information.dtype).at[:m].set(contents)
        scale = jnp.diag(information)[:m].sum() / contents.sum() ** 2
        return scale * ones[:, None] * ones

    def scale(self, information: Float[Array, "Z Z"]) -> Float[Array, " Z"]:
        """Roots of the information about each parameter if the others are known; 1 without any. For
        gamma as for c: that of qualities of one logit, for without any it has no information."""
        d, m = self.design.n_covariates, self.design.n_contents
        scale = jnp.sqrt(jnp.diag(information))
        scale = scale.at[self.size - d :].set(scale[m : m + d])
        return jnp.where(scale > 0, scale, 1)

    def identified(self, beta: Float[Array, " Z"]) -> Bool[Array, ""]:
        """Whether the comparisons alone tell c and gamma, the qualities and kappa being unknown:
        whether every combination of them keeps some of the information that it has when the others
        are known."""
        d, m = self.design.n_covariates, self.design.n_contents
        _, information, _ = self._likelihood(beta)
        information = information + self._constant(information)
        scale = self.scale(information)
        information = information / scale[:, None] / scale
        bias = jnp.concatenate([jnp.arange(m, m + d), jnp.arange(self.size - d, self.size)])
        others = jnp.concatenate([jnp.arange(m), jnp.arange(m + d, m + d + 1)])
        ridge = 10 * jnp.finfo(information.dtype).eps
        nuisance = information[others[:, None], others] + ridge * jnp.eye(
            m + 1, dtype=information.dtype
        )
        between = information[others[:, None], bias]
        left = information[bias[:, None], bias]
        left = left - between.T @ jnp.linalg.solve(nuisance, between)
        least = 1e-4 if information.dtype == jnp.float32 else 1e-9
        return jnp.linalg.eigvalsh(left).min() > least

    def result(self, end: _State) -> InteractionFit:
        gradient, _, _ = self.derivatives(end.beta)
        finite = jnp.isfinite(end.beta).all() & jnp.isfinite(end.objective)
        finite &= (self.precision > 0).all()
        flat = jnp.where(self.identified(end.beta), Status.CONVERGED, Status.FLAT)
        status = jnp.where(end.done, flat, Status.NOT_CONVERGED)
        status = jnp.where(finite, status, Status.NOT_FINITE)
        parameters, gamma = self.split(end.beta)
        norm = jnp.sqrt((gradient**2).sum())
        fit = Fit(parameters, status, end.steps, norm, end.objective)
        return InteractionFit(fit, gamma)
