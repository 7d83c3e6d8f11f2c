"""Inputs and results of a fit: parameters, prior, variant, status, mode, posterior."""

from __future__ import annotations

from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from jbt.types.containers import ArrayLike, ScalarLike, check_positive, container
from jbt.types.pool import Design


class Status(IntEnum):
    """How a fit ended. Nothing raises inside a batch: every result carries one of these."""

    CONVERGED = 0
    NOT_CONVERGED = 1
    """The step limit came first."""
    NOT_FINITE = 2
    """An input or an iterate is NaN or infinite, or a prior precision is not above 0."""
    COVARIATE_CONSTANT = 4
    """Set at the border: a covariate does not vary within the pool, so its c stays at 0."""
    NO_VERDICTS = 5
    """Set at the border: the pool has no valid verdict, so the estimate is the prior's mean."""
    FLAT = 6
    """One coefficient has no prior-free estimate: the comparisons made do not identify it, as other
    parameters can undo any change of it."""
    SEPARATED = 8
    """One coefficient has no prior-free estimate: the likelihood rises all the way to infinity."""
    NO_REFERENCE = 9
    """Set at the border: in a panel, the judges whose biases are known have no verdict on the pool,
    so its correction rests on the biases estimated from other pools."""


@container
class Parameters:
    """beta = (theta, c, kappa) of Eq. 1."""

    theta: Float[Array, "M ..."]
    """Quality of each content, logits."""
    c: Float[Array, "D ..."]
    """Bias coefficient of each covariate, logits per unit of the covariate; for a panel [D, J]."""
    kappa: Float[Array, "..."]
    """Position term, logits in favour of the first shown; for a panel [J]."""

    @classmethod
    def zeros(cls, design: Design, n_judges: int | None = None) -> Parameters:
        """All zero; `n_judges` is J for a panel, None for a single judge."""
        d, j = design.dtype, () if n_judges is None else (n_judges,)
        return cls(
            jnp.zeros(design.n_contents, d),
            jnp.zeros((design.n_covariates, *j), d),
            jnp.zeros(j, d),
        )

    def flat(self) -> Float[Array, "P ..."]:
        """theta, c, kappa in one vector."""
        return flat(self.theta, self.c, self.kappa)

    @classmethod
    def unflat(
        cls, beta: Float[Array, "P ..."], n_contents: int, n_judges: int | None = None
    ) -> Parameters:
        """The inverse of `flat`. `n_judges` is J for a panel, None for a single judge."""
        biases = beta[n_contents:]
        if n_judges is not None:
            biases = biases.reshape(-1, n_judges, *biases.shape[1:])
        return cls(beta[:n_contents], biases[:-1], biases[-1])


def flat(
    theta: Shaped[ArrayLike, "M ..."],
    c: Shaped[ArrayLike, "D ..."],
    kappa: Shaped[ArrayLike, "..."],
) -> Shaped[Array, "P ..."]:
    """Values for theta, c and kappa in one vector, in the order of P."""
    biases = jnp.concatenate([c, kappa[None]])
    return jnp.concatenate([theta, biases.reshape(-1, *theta.shape[1:])])


@container
class Prior:
    """theta ~ N(0, 1/lam), c and kappa ~ N(0, 1/lam_b), independent (Eq. S1)."""

    lam: ScalarLike = 1.0
    """Precision of quality, 1/logit^2."""
    lam_b: ScalarLike | Float[Array, " biases"] | Float[Array, " biases J"] = 0.1
    """Precision of c and kappa, 1/tau^2: one for all, one for each of (c, kappa), or for a panel
    one for each of (c, kappa) and each set of coefficients."""

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("lam_b", self.lam_b)


@container
class Variant:
    """Which coefficients a model frees; the others stay at zero. Traced, so that all variants share
    one compiled kernel."""

    c: Bool[Array, "D ..."]
    kappa: Bool[Array, "..."]

    @property
    def n_judges(self) -> int | None:
        """J for a panel, None for a single judge."""
        return self.kappa.shape[0] if self.kappa.ndim else None


@container
class Fit:
    """The result of a solver."""

    parameters: Parameters
    status: Int[Array, "..."]
    """A `Status`."""
    steps: Int[Array, "..."]
    """Iterations used."""
    grad_norm: Float[Array, "..."]
    """Euclidean norm of the objective's gradient over the free parameters, at the result."""
    objective: Float[Array, "..."]
    """Penalised negative log-likelihood at the result (MLE: without the penalty)."""


@container
class Posterior:
    """A Gaussian over beta = (theta, c, kappa), N(mean, root' root)."""

    mean: Parameters
    root: Float[Array, "Z P"]
    """Inverse of the precision's lower Cholesky factor, columns of fixed parameters zeroed:
    mean + z @ root with standard normal z [Z] is a draw. Z is P; for the own model of one judge in
    a panel it is the P of the panel."""
    factor: Float[Array, "Z Z"]
    """The precision's lower Cholesky factor; for fixed parameters, rows of the identity."""

    def covariance(self) -> Float[Array, "P P"]:
        """Covariance of (theta, c, kappa); its leading M x M block marginalises c and kappa."""
        return self.root.T @ self.root
