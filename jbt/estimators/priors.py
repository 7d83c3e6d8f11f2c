"""Priors on the biases, learned from the comparisons.

Each is a function (comparisons, design, prior) -> LearnedPrior, to be followed by
`estimators.bias_aware` with the learned prior. None can separate quality from bias where the
comparisons do not: they choose among splits of equal likelihood (Prop. 2).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.types import Design, Parameters, Prior, Status, Verdicts, container

MAX_ROUNDS = 100
"""Most fits that learning a prior may take."""

SMALLEST_TAU2 = 1e-3
"""Variance of the biases, logits squared, at which learning stops shrinking: effectively no bias.
"""

LARGEST_TAU2 = 1e3

EVIDENCE_ROUNDS = 60
"""Steps of `evidence`."""


@container
class LearnedPrior:
    """A prior whose precision of the biases was learned from the comparisons."""

    prior: Prior
    """lam as given; lam_b [D + 1] for (c, kappa)."""
    status: Int[Array, ""]
    """CONVERGED, NOT_CONVERGED at the limit of rounds, NOT_FINITE."""
    rounds: Int[Array, ""]
    """Fits made."""


def fixed_point(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    *,
    position: bool | Bool[Array, ""] = True,
) -> LearnedPrior:
    """The paper's hierarchical prior (appendix, "Shrinkage strength"), for any D: fit, then

        tau^2 <- mean over (c_1, ..., c_D, kappa) of (mode^2 + posterior variance),

    until tau^2 changes by less than 1e-4 of itself. This is the optimum of the Laplace evidence
    with the information held at the last mode; `evidence` says what that leaves out. As tau^2 falls
    towards 0 it converges ever more slowly, like 1 / rounds.

    One tau^2 for all lets a judge's kappa decide how far its c is shrunk. Without `position` the
    mean is over (c_1, ..., c_D). This is right because, with tau^2 the variance of the biases b in
    a set of n, and other precisions and the information held, the evidence is, up to a constant,

        -n/2 log tau^2 - |b|^2 / (2 tau^2) - 1/2 log det H,   dH/d(tau^-2) = 1 on b's diagonal;

    the mode is stationary, so its own change adds nothing, and the slope in log tau^2,

        -n/2 + (|b|^2 + sum of b's posterior variances) / (2 tau^2),

    is 0 where tau^2 is the mean of b^2 + variance over the set.

    Args:
      prior: lam, and lam_b [logit^-2] to begin with.
      position: False if kappa keeps its lam_b and tau^2 is for c alone; may be traced.
    """
    learned = jnp.ones(design.n_covariates + 1, bool).at[-1].set(position)

    def update(second_moment: Float[Array, " biases"], old: Float[Array, " biases"]) -> Array:
        tau2 = second_moment.mean(where=learned).clip(SMALLEST_TAU2, LARGEST_TAU2)
        return jnp.where(learned, 1 / tau2, old)

    return _alternate(comparisons, design, prior, update)


def horseshoe(comparisons: Verdicts, design: Design, prior: Prior) -> LearnedPrior:
    """A horseshoe on each c_d: N(0, s_d^2 / lam_b) with s_d half-Cauchy, kappa staying normal
    (Carvalho, Polson & Scott 2010).

    Mean-field variational updates for s_d^2, written as a mixture of inverse gammas (Makalic &
    Schmidt 2016), alternate with the Laplace fit. With E[1/s^2] = precision / lam_b,

        precision <- lam_b / (1 / (1 + E[1/s^2]) + lam_b E[c^2] / 2).

    Small coefficients are shrunk harder than by a normal prior of precision lam_b, large ones less.

    Args:
      prior: lam, and lam_b [logit^-2], the precision of the global scale.
    """
    lam_b = model.prior_precision(design, prior)[design.n_contents :]

    def update(second_moment: Float[Array, " biases"], old: Float[Array, " biases"]) -> Array:
        new = lam_b / (1 / (1 + old / lam_b) + lam_b * second_moment / 2)
        return new.at[-1].set(lam_b[-1])

    return _alternate(comparisons, design, prior, update)


def _alternate(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    update: Callable[[Float[Array, " biases"], Float[Array, " biases"]], Float[Array, " biases"]],
) -> LearnedPrior:
    """Alternate the Laplace fit with an update (second moments, old precision) -> precision."""
    m, variant = design.n_contents, model.variant("bias_aware", design)
    begin = model.prior_precision(design, prior)[m:]

    def going(s: tuple) -> Bool[Array, ""]:
        return (s[2] > 1e-4) & (s[3] < MAX_ROUNDS)

    def step(s: tuple) -> tuple:
        old, start, _, rounds = s
        current = Prior(prior.lam, old)
        mode = fit_map(comparisons, design, current, variant, start=start).parameters
        covariance = laplace(mode, comparisons, design, current, variant).covariance()
        new = update(mode.flat()[m:] ** 2 + jnp.diag(covariance)[m:], old)
        return new, mode, jnp.abs(jnp.log(new / old)).max(), rounds + 1

    inf = jnp.asarray(jnp.inf, design.dtype)
    first = (begin, Parameters.zeros(design), inf, jnp.array(0))
    precision, _, change, rounds = jax.lax.while_loop(going, step, first)
    return _learned(prior, precision, change <= 1e-4, rounds)


def evidence(comparisons: Verdicts, design: Design, prior: Prior) -> LearnedPrior:
    """The tau^2, one for c and kappa, of highest Laplace evidence (`log_evidence`), found by
    optax's resilient propagation in log tau^2 from the tau^2 given: the nearest maximum uphill.

    It differs from `fixed_point` in one term. A change of tau^2 moves the mode, where the
    probabilities of the verdicts and so the information in the evidence's determinant are
    different. The fixed point leaves that out.

    Args:
      prior: lam, and lam_b [logit^-2] to begin with, one number.

    Returns:
      Status NOT_CONVERGED where the evidence still rises by more than 1e-3 for each unit of log
      tau^2 within the limits of tau^2.
    """
    import optax

    solver = optax.rprop(1.0, eta_plus=1.05)
    variant = model.variant("bias_aware", design)
    limits = jnp.log(jnp.asarray([SMALLEST_TAU2, LARGEST_TAU2], design.dtype))

    def uphill(s: tuple, _: None) -> tuple[tuple, None]:
        log_tau2, start, state, _ = s
        current = Prior(prior.lam, jnp.exp(-log_tau2))
        mode = fit_map(comparisons, design, current, variant, start=start).parameters
        slope = jax.grad(log_evidence)(log_tau2, mode, comparisons, design, prior.lam)
        change, state = solver.update(-slope, state)
        new = (log_tau2 + jnp.asarray(change)).clip(*limits)
        return (new, mode, state, (log_tau2 + slope).clip(*limits) - log_tau2), None

    begin = -jnp.log(jnp.asarray(prior.lam_b, design.dtype))
    first = (begin, Parameters.zeros(design), solver.init(begin), jnp.zeros_like(begin))
    (log_tau2, _, _, rises), _ = jax.lax.scan(uphill, first, length=EVIDENCE_ROUNDS)
    precision = jnp.full(design.n_covariates + 1, jnp.exp(-log_tau2), design.dtype)
    return _learned(prior, precision, jnp.abs(rises) <= 1e-3, jnp.array(EVIDENCE_ROUNDS))


def log_evidence(
    log_tau2: Float[Array, ""],
    mode: Parameters,
    comparisons: Verdicts,
    design: Design,
    lam: float | Float[Array, ""],
) -> Float[Array, ""]:
    """Laplace approximation of the log marginal likelihood of the comparisons, up to a
    constant [MacKay 1992]:

        log L(mode) + log prior(mode) + (D + 1)/2 log(1 / tau^2) - 1/2 log det H.

    `mode` must be the MAP at this tau^2. One Newton step leaves it where it is and gives it the
    MAP's derivative in tau^2, so that this function can be differentiated in its first argument
    though the MAP cannot.
    """
    design, prior = design.centred(), Prior(lam, jnp.exp(-log_tau2))
    precision = model.prior_precision(design, prior)

    def at(beta: Float[Array, " P"]) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
        """Gradient and information of the verdicts."""
        parameters = Parameters.unflat(beta, design.n_contents)
        return model.score_and_information(parameters, design, comparisons)

    beta = jax.lax.stop_gradient(mode.flat())
    score, information = at(beta)
    hessian = jax.lax.stop_gradient(information + jnp.diag(precision))
    beta = beta + jnp.linalg.solve(hessian, score - precision * beta)
    parameters = Parameters.unflat(beta, design.n_contents)
    return (
        model.log_likelihood(parameters, design, comparisons)
        + model.log_prior(parameters, prior)
        - (design.n_covariates + 1) / 2 * log_tau2
        - jnp.linalg.slogdet(at(beta)[1] + jnp.diag(precision))[1] / 2
    )


def _learned(
    prior: Prior,
    precision: Float[Array, " biases"],
    converged: Bool[Array, ""],
    rounds: Int[Array, ""],
) -> LearnedPrior:
    status = jnp.where(converged, Status.CONVERGED, Status.NOT_CONVERGED)
    status = jnp.where(jnp.isfinite(precision).all(), status, Status.NOT_FINITE)
    return LearnedPrior(Prior(prior.lam, precision), status, rounds)
