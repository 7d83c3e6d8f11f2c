"""One pool's part of a fit whose bias changes with quality, c + gamma q (`bias_slope`).

    phi = q + (c + gamma q) x,    q = theta + b m + b2 m^2,    theta ~ N(0, (sd exp(delta m))^2)

with x about its mean over the pool's contents, q likewise where gamma multiplies it, and m the mean
of x over the renderings of a content.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import canonical, model
from jbt.own.shared_coefficients.pool_terms import marginal_terms
from jbt.types import Design, Parameters, Status, Verdicts

MAX_STEPS, TOLERANCE, SHORTEST, ROUNDING = 60, 1e-9, 1e-3, 1e-12
"""Of Newton's method for the qualities of a pool. The tolerance is of the last step, in posterior
standard deviations; a step that lowers the density by more than rounding is shortened, at most to
this share."""


class Biases(NamedTuple):
    """A pool's coefficients, [D] but for kappa."""

    c: Array
    b: Array
    b2: Array
    kappa: Array
    gamma: Array
    delta: Array

    @classmethod
    def of(cls, values: Float[Array, " biases"]) -> Biases:
        """From one vector, in this order."""
        d = len(values) // 5
        c, b, b2, kappa, gamma, delta = jnp.split(values, (d, 2 * d, 3 * d, 3 * d + 1, 4 * d + 1))
        return cls(c, b, b2, kappa[0], gamma, delta)


class _Pool(NamedTuple):
    """A pool given the shared parameters."""

    comparisons: Verdicts
    """Counts or rows of items."""
    design: Design
    """Of the items, covariates (x, m, m^2)."""
    biases: Biases
    lam: Array
    """1 / sd^2"""

    @classmethod
    def at(cls, comparisons: Verdicts, design: Design, loadings: Array, point: Array) -> _Pool:
        biases = Biases.of(loadings @ point[: loadings.shape[1]])
        return cls(comparisons, design, biases, jnp.exp(-2 * point[-1]))

    @property
    def owner(self) -> Array:
        """[N] content of each item."""
        content = self.design.content
        return jnp.arange(self.design.n_items) if content is None else content

    @property
    def columns(self) -> tuple[Array, Array, Array]:
        """x, m and m^2, [N, D] each."""
        x, m, m2 = jnp.split(self.design.covariates, 3, 1)
        return x, m, m2

    @property
    def slope(self) -> Float[Array, " N"]:
        """q less theta, of each item's content."""
        _, m, m2 = self.columns
        return m @ self.biases.b + m2 @ self.biases.b2

    def of_contents(self, values: Float[Array, " N"]) -> Float[Array, " M"]:
        """Values that the items of a content have in common; 0 at padding."""
        real = jnp.where(self.design.item_mask, values, -jnp.inf)
        common = jax.ops.segment_max(real, self.owner, self.design.n_contents)
        return jnp.where(self.design.content_mask(), common, 0)

    @property
    def precision(self) -> Float[Array, " M"]:
        """The prior's of each theta."""
        return self.lam * jnp.exp(-2 * self.of_contents(self.columns[1] @ self.biases.delta))

    @property
    def loading(self) -> Float[Array, "N M"]:
        """Derivative of phi in theta."""
        real = self.design.content_mask()
        own = jax.nn.one_hot(self.owner, self.design.n_contents, dtype=self.design.dtype)
        growth = (self.columns[0] @ self.biases.gamma)[:, None]
        return own + growth * (own - real / real.sum())

    def items(self, theta: Float[Array, " M"]) -> tuple[Parameters, Design, Verdicts]:
        """The model whose qualities are phi."""
        x, b = self.columns[0], self.biases
        phi = self.loading @ theta + self.slope * (1 + x @ b.gamma) + x @ b.c
        design = Design.of_contents(len(phi), 0, phi.dtype)
        return Parameters(phi, jnp.zeros(0, phi.dtype), b.kappa), design, self.comparisons

    def density(self, theta: Float[Array, " M"]) -> Float[Array, ""]:
        """Log-posterior of theta."""
        lam = self.precision
        prior = (jnp.log(lam) - lam * theta**2).sum() / 2
        return model.log_likelihood(*self.items(theta)) + prior

    def hessian(self, theta: Float[Array, " M"]) -> Float[Array, "M M"]:
        """Minus that of the log-posterior; phi is linear in theta."""
        information = model.score_and_information(*self.items(theta))[1][:-1, :-1]
        loading = self.loading
        return loading.T @ information @ loading + jnp.diag(self.precision)

    def mode(self, theta: Float[Array, " M"]) -> tuple[Array, Array]:
        """The qualities and the status, from a start."""

        def step(state: tuple) -> tuple:
            theta, value, _, count = state
            gradient = jax.grad(self.density)(theta)
            change = jnp.linalg.solve(self.hessian(theta), gradient)
            least = value - ROUNDING * jnp.abs(value)

            def shorter(trial: tuple) -> tuple:
                return trial[0] / 2, self.density(theta + trial[0] / 2 * change)

            length, value = jax.lax.while_loop(
                lambda trial: (trial[1] < least) & (trial[0] > SHORTEST),
                shorter,
                (jnp.ones((), theta.dtype), self.density(theta + change)),
            )
            return theta + length * change, value, gradient @ change, count + 1

        start = theta, self.density(theta), jnp.full((), jnp.inf, theta.dtype), 0
        theta, _, decrement, _ = jax.lax.while_loop(
            lambda state: (state[2] > TOLERANCE**2) & (state[3] < MAX_STEPS), step, start
        )
        good = decrement <= TOLERANCE**2
        return theta, jnp.where(good, int(Status.CONVERGED), int(Status.NOT_CONVERGED))


@quick_compilation.jit
def terms(
    comparisons: Verdicts, design: Design, loadings: Array, point: Array, theta: Array
) -> tuple[Array, Array, Array, Array]:
    """`PoolTerms` of this model; the biases of `loadings` are in the order of `Biases`."""

    def one_pool(
        comparisons: Verdicts,
        design: Design,
        loadings: Float[Array, "biases shared"],
        point: Float[Array, " K"],
        theta: Float[Array, " M"],
    ) -> tuple[Array, Array, Array, Array]:
        def at(point: Array) -> _Pool:
            return _Pool.at(comparisons, design, loadings, point)

        theta, status = at(point).mode(theta)
        *_, gradient, information = marginal_terms(
            lambda theta, point: at(point).density(theta),
            lambda theta, point: at(point).hessian(theta),
            theta,
            point,
            at(point).precision,
        )
        return theta, gradient, information, status

    return jax.vmap(one_pool)(comparisons, design, loadings, point, theta)


@quick_compilation.jit
def evidence(
    comparisons: Verdicts, design: Design, loadings: Array, point: Array, theta: Array
) -> tuple[Array]:
    """[F] log-likelihood of the shared parameters, the qualities integrated out about their mode
    `theta`, but for a constant."""

    def one_pool(*arguments: Any) -> Float[Array, ""]:
        pool, theta = _Pool.at(*arguments[:-1]), arguments[-1]
        return pool.density(theta) - jnp.linalg.slogdet(pool.hessian(theta))[1] / 2

    return (jax.vmap(one_pool)(comparisons, design, loadings, point, theta),)


@quick_compilation.jit
def half_means(
    comparisons: Verdicts,
    design: Design,
    loadings: Array,
    point: Array,
    theta: Array,
    draws: Float[Array, "S M"],
) -> tuple[Array, Array]:
    """Mean quality of the stronger and of the weaker half of each pool's contents, about the mean
    of all: [F, 2] expectation and [F, 2, 2] covariance over Laplace's posterior of the qualities;
    NaN of a single content.

    The halves of each draw count, not those of the mode, whose qualities are drawn towards each
    other. The middle one of an odd number is in neither.

    Args:
      theta: [F, M] where to start the fits.
      draws: standard normal; they go to the contents in the order of
        `jbt.kernel.canonical`.
    """

    def one_pool(*arguments: Any) -> tuple[Float[Array, "2"], Float[Array, "2 2"]]:
        pool = _Pool.at(*arguments[:-1])
        theta, _ = pool.mode(arguments[-1])
        hessian, real = pool.hessian(theta), pool.design.content_mask()
        mean = theta + pool.of_contents(pool.slope)
        # By the start, which stays where derivatives are taken by differences.
        at = canonical.order(arguments[-1], jnp.linalg.inv(hessian), real)
        factor = jnp.linalg.cholesky(hessian[at][:, at])
        real = real[at]
        q = mean[at] + jax.scipy.linalg.solve_triangular(factor.T, draws.T).T
        n, half = real.sum(), real.sum() // 2
        q = q - jnp.where(real, q, 0).sum(1, keepdims=True) / n
        rank = jnp.where(real, -q, jnp.inf).argsort(1).argsort(1)
        halves = rank < half, (rank >= n - half) & real
        means = jnp.stack([jnp.where(h, q, 0).sum(1) / half for h in halves])
        return means.mean(1), jnp.cov(means)

    return jax.vmap(one_pool)(comparisons, design, loadings, point, theta)
