"""Closed forms: c_map, the prior's choice of c (Eq. 3), and where correction stops helping when the
covariate is the only source of error.

The crossing law. Compare two rankings of infinitely many items, judged without noise:

    naive       by  theta + c x                     (Prop. 1 at kappa = 0)
    bias-aware  by  theta + c x - c_hat x = theta - b x,   b = Cov(theta, x) / Var(x)

where c_hat is Eq. 3 for phi = theta + c x, as lambda_b / (lambda N) -> 0: the prior counts
everything that moves with x as bias, the judge's c and the genuine b alike. Assume (theta, x)
jointly Gaussian with correlation rho > 0, k/N fixed, and let r = c sd_x / sd_theta. Each
score is then jointly Gaussian with theta, and the recall of the top k, which is
P(theta > q | score > its own quantile), depends on the correlation alone and increases in it.
So the benefit changes sign where the correlations are equal:

    corr(theta, theta + c x) = (1 + r rho) / sqrt(1 + 2 r rho + r^2)
    corr(theta, theta - b x) = sqrt(1 - rho^2)

Squaring and collecting powers of rho leaves

    2 r rho^3 + (2 r^2 + 1) rho^2 - r^2 = 0,

which has one root in (0, 1): it is -r^2 at rho = 0, r^2 + 2 r + 1 > 0 at rho = 1, and
increasing in between. Near r = 0 the root is about r; as r grows it tends to 1/sqrt(2).
k/N does not enter, and sd and c only through r. For -1 < r < 0 (a bias against what goes with
quality) the same holds, as 1 + r rho > 0 and squaring loses no sign; the root is -r, where c = -b
and the two scores are equal. At r <= -1 no rho reaches it, and correction always pays.

A binary x (a median split of a Gaussian latent) is not jointly Gaussian with theta, and its
limit depends on k/N: `limit_recall` and `crossing_limit` compute it by quadrature.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt.simulation.pools import BINARY_RHO_MAX, CovariateKind, check_rho
from jbt.types import ScalarLike

FAR = 12.0
"""Standard deviations beyond which a normal has no mass that float64 could add to 1; finite ends
keep quadrature from stepping over the mass inside."""


def map_bias(
    phi: Float[Array, " N"],
    covariates: Float[Array, "N D"],
    lam: ScalarLike,
    lam_b: ScalarLike,
    *,
    centred: bool = True,
) -> Float[Array, " D"]:
    """c_map: the bias coefficients that the prior chooses, given apparent quality [Eq. 3, any D].

        c_hat = (lam N S_xx + lam_b I)^-1 lam N S_xphi

    with S the centred (co)variances, divisor N. Exact at every MAP of the unpaired design with
    phi = theta_hat + x . c_hat, whatever comparisons were made: the likelihood is flat along the
    directions theta + x delta, c - delta and theta + a.

    Without centring, the paper's negative control, the inner products are <x, x> and <x, phi>, and
    the result moves with the constant in phi, which no comparison identifies. With one binary
    covariate that a share s of the items has, it is

        c_hat                                                     where theta has mean 0,
        c_hat (lam N s (1 - s) + lam_b) / (lam N s + lam_b)       where phi has mean 0,

    and adding a constant a to phi adds lam N s a / (lam N s + lam_b). The first is the constant of
    every MAP, as the prior keeps the mean of theta at 0: there centring changes nothing. The second
    is about (1 - s) c_hat.

    Args:
      phi: [N] apparent quality, logits (any constant may be added if centred), without padding.
      covariates: [N, D].
      lam, lam_b: precision of quality and of the coefficients.
      centred: False for the negative control.

    Returns:
      [D] logits per unit of each covariate.
    """
    x = covariates - covariates.mean(0) if centred else covariates
    d = x.shape[1]
    return jnp.linalg.solve(lam * x.T @ x + lam_b * jnp.eye(d, dtype=x.dtype), lam * x.T @ phi)


def crossing_law(r: float) -> float:
    """The correlation of quality and covariate at which correction stops helping, in the
    limit of this module's docstring: the root in (0, 1) of
    2 r rho^3 + (2 r^2 + 1) rho^2 - r^2.

    Args:
      r: c* sd_x / sd_theta, the judge's bias in units of the quality spread.

    Returns:
      The crossing; NaN if there is none (r = 0: correction never pays; r <= -1: it always pays).

    Raises:
      ValueError: r not finite.
    """
    if not math.isfinite(r):
        raise ValueError(f"r must be finite, got {r}")
    if r == 0 or r <= -1:
        return math.nan
    # Divided by 2 r^2 + 1, written so that r^2 cannot overflow.
    cubic, constant = (
        (2 * r / (2 * r * r + 1), r * r / (2 * r * r + 1))
        if abs(r) < 1
        else (2 / r / (2 + r**-2), 1 / (2 + r**-2))
    )
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        if cubic * middle**3 + middle**2 < constant:
            low = middle
        else:
            high = middle
    return high


def limit_recall(
    slope: float, rho: float, top_fraction: float, covariate: CovariateKind = "continuous"
) -> float:
    """Top-k recall of ranking infinitely many items by theta + slope x, noise-free.

    theta is standard normal; x has population correlation rho with it, and is standard
    normal (continuous) or the indicator of a latent above its median (binary, sd 1/2).

    Args:
      slope: weight of x, in standard deviations of quality per unit of x.
      rho: correlation of quality and x.
      top_fraction: k/N, between 0 and 1.
      covariate: "continuous" or "binary".

    Raises:
      ValueError: rho out of reach, top_fraction outside (0, 1).
    """
    from scipy.integrate import quad
    from scipy.optimize import root_scalar
    from scipy.special import ndtr, ndtri

    check_rho(rho, covariate)
    if not 0 < top_fraction < 1:
        raise ValueError(f"top_fraction must lie between 0 and 1, got {top_fraction}")
    top = -ndtri(top_fraction)

    def density(z: float) -> float:
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    if covariate == "continuous":
        sd = np.sqrt(1 + 2 * slope * rho + slope**2)
        corr = (1 + slope * rho) / sd
        residual = np.sqrt(max(1 - corr**2, 1e-300))
        both = quad(lambda z: density(z) * ndtr((corr * z - top) / residual), top, np.inf)[0]
        return both / top_fraction

    latent = min(max(rho / BINARY_RHO_MAX, -1), 1)
    residual = np.sqrt(max(1 - latent**2, 1e-300))

    def mass(above: Callable[[float], float], has_x: bool) -> float:
        """P(theta > above(x) and x = has_x)."""
        sign = 1 if has_x else -1
        low = max(above(1.0 if has_x else 0.0), -FAR)
        if low >= FAR:
            return 0.0
        return quad(lambda z: density(z) * ndtr(sign * latent * z / residual), low, FAR)[0]

    def selected(cut: float, floor: float) -> float:
        """P(score > cut and theta > floor)."""
        return sum(mass(lambda x: max(cut - slope * x, floor), h) for h in (False, True))

    reach = FAR + abs(slope)

    def excess(cut: float) -> float:
        return selected(cut, -np.inf) - top_fraction

    cut = root_scalar(excess, bracket=(-reach, reach), xtol=1e-12).root
    return selected(cut, top) / top_fraction


def limit_benefit(
    r: float, rho: float, top_fraction: float, covariate: CovariateKind = "continuous"
) -> float:
    """Top-k recall gained by the bias-aware model over the naive one in the noise-free limit
    of this module's docstring; r = c* sd_x / sd_theta."""
    sd_x = 1.0 if covariate == "continuous" else 0.5
    aware = limit_recall(-rho / sd_x, rho, top_fraction, covariate)
    return aware - limit_recall(r / sd_x, rho, top_fraction, covariate)


def crossing_limit(r: float, top_fraction: float, covariate: CovariateKind = "continuous") -> float:
    """The correlation where the noise-free benefit changes sign: the crossing law for a continuous
    covariate; for a binary one the first root of `limit_benefit`, which depends on k/N (NaN if
    there is none).

    Args:
      r: c* sd_x / sd_theta with sd_x = 1 (continuous) or 1/2 (binary).
      top_fraction: k/N.

    Raises:
      ValueError: r not finite, top_fraction outside (0, 1).
    """
    from scipy.optimize import root_scalar

    if covariate == "continuous" or not math.isfinite(r):
        return crossing_law(r)

    def benefit(rho: float) -> float:
        return limit_benefit(r, rho, top_fraction, covariate)

    # The first root: at the largest rho x is a function of theta and the benefit can return to 0.
    # Near rho = 0 it is positive, as the bias costs naive recall and correction costs nothing.
    grid = np.linspace(1e-6, BINARY_RHO_MAX - 1e-6, 81)
    if benefit(grid[0]) <= 0:
        return math.nan
    for low, high in itertools.pairwise(grid):
        if benefit(high) <= 0:
            return root_scalar(benefit, bracket=(low, high)).root
    return math.nan
