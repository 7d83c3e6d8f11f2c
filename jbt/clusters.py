"""How far a fit would move with other clusters of verdicts: the sandwich and the bootstrap.

Verdicts on one prompt go together, so that only clusters of them are independent draws. The MAP
solves sum_g s_g(beta) = Lambda beta, with s_g the score of cluster g = 1 ... G and Lambda the prior
precision. Over clusters it varies about its own expectation with covariance

    V = G / (G - 1) H^-1 (sum_g s_g s_g') H^-1,    H = information + Lambda,

which is the sandwich of Huber (1967) and White (1982) with clusters (Liang & Zeger 1986). The
factor is the small-sample correction for the number of clusters; quantiles are those of Student's t
with G - 1 degrees of freedom (Cameron & Miller 2015). What the prior does to the expectation is not
in it: where the verdicts say little the sandwich is small, and the error is not (`prior_part`,
`identifiability.undetermined`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import model
from jbt.fit import fit_map
from jbt.types import Design, Parameters, Prior, Rows, Variant

if TYPE_CHECKING:
    from scipy.sparse import csr_array

AT_ONCE = 2**20
"""Rows times resamples that a bootstrap fits together."""


ENTRIES = 2**22
"""Numbers that `effective_number` holds at once."""


def inverse_hessian(
    mode: Parameters, rows: Rows, design: Design, prior: Prior, variant: Variant
) -> Float[np.ndarray, "P P"]:
    """H^-1 at the mode, which is also the posterior covariance of `laplace`; zero in the rows and
    columns of fixed parameters. Float64."""
    free = np.asarray(model.free_mask(variant, design))
    information = np.asarray(_information(mode, rows, design), float)
    hessian = information + np.diag(np.asarray(model.prior_precision(design, prior), float))
    hessian = np.where(free[:, None] & free, hessian, np.eye(len(free)))
    return np.where(free[:, None] & free, np.linalg.inv(hessian), 0)


@jax.jit
def _information(mode: Parameters, rows: Rows, design: Design) -> Float[Array, "P P"]:
    return model.score_and_information(mode, design, rows)[1]


def sandwich(
    inverse: Float[np.ndarray, "P P"], mode: Parameters, rows: Rows, cluster: Int[np.ndarray, " R"]
) -> Float[np.ndarray, "P P"]:
    """Cluster-robust covariance of the MAP.

    Args:
      inverse: from `inverse_hessian`.
      mode: the MAP.
      cluster: [R] which cluster each row is of, integers from 0. Rows without verdicts are of none.

    Returns:
      V, in the order (theta, c, kappa). The constant of theta has variance 0, the mean of the MAP
      being 0 whatever the verdicts.

    Raises:
      ValueError: fewer than 2 clusters.
    """
    told = _Told.by(mode, rows, cluster)
    g = told.n_clusters
    if g < 2:
        raise ValueError(f"a sandwich needs 2 clusters, got {g}")
    in_theta = told.of_contents(told.residual, -told.residual)
    each = [np.bincount(told.cluster, told.residual * v, minlength=g) for v in told.x.T]
    in_bias = np.stack(each, 1)
    border = in_theta.T @ in_bias
    meat = np.block([[(in_theta.T @ in_theta).toarray(), border], [border.T, in_bias.T @ in_bias]])
    return g / (g - 1) * inverse @ meat @ inverse


def effective_number(
    combinations: Float[np.ndarray, "A P"],
    inverse: Float[np.ndarray, "P P"],
    mode: Parameters,
    rows: Rows,
    cluster: Int[np.ndarray, " R"],
) -> Float[np.ndarray, " A"]:
    """How many clusters tell of each combination a'beta, (sum_g w_g)^2 / sum_g w_g^2 (Kish 1965),
    where w_g = a'H^-1 I_g H^-1 a is what cluster g's information I_g adds to its variance.

    What one cluster alone tells of has a score of next to nothing at the optimum, and so a sandwich
    that is far too small, however many other clusters there are.

    Args:
      combinations: A of them.
      inverse, mode, rows, cluster: as for `sandwich`.

    Returns:
      [A] numbers from 1 to G; 0 where nothing tells of it.
    """
    from scipy import sparse

    told = _Told.by(mode, rows, cluster)
    along = inverse @ combinations.T
    each = np.zeros((told.n_clusters, len(combinations)))
    step = max(1, ENTRIES // len(combinations))
    for begin in range(0, len(told.cluster), step):
        some = slice(begin, begin + step)
        change = along[told.first[some]] - along[told.second[some]]
        change = change + told.x[some] @ along[len(mode.theta) :]
        entry = told.weight[some], (told.cluster[some], np.arange(len(change)))
        each += sparse.csr_array(entry, shape=(told.n_clusters, len(change))) @ change**2
    return _kish(each.sum(0), (each**2).sum(0))


def effective_number_of_contents(
    mode: Parameters, rows: Rows, cluster: Int[np.ndarray, " R"]
) -> Float[np.ndarray, " M"]:
    """How many clusters hold verdicts about each content, weighed by the information about it alone
    (Kish's number, as in `effective_number`).

    Args:
      mode, rows, cluster: as for `sandwich`.
    """
    told = _Told.by(mode, rows, cluster)
    weight = np.where(told.first == told.second, 0, told.weight)
    each = told.of_contents(weight, weight)
    return _kish(*(np.asarray(v.sum(0)).ravel() for v in (each, each.power(2))))


@dataclass(frozen=True)
class _Told:
    """Of every row with a verdict, what its score and its information are made of."""

    n_clusters: int
    n_contents: int
    cluster: np.ndarray
    first: np.ndarray
    second: np.ndarray
    x: np.ndarray
    """[rows, D + 1] what c and kappa are multiplied with."""
    residual: np.ndarray
    """wins - shown p"""
    weight: np.ndarray
    """shown p (1 - p)"""

    def of_contents(self, to_first: np.ndarray, to_second: np.ndarray) -> csr_array:
        """[clusters, contents], what the rows of a cluster add to their first and second content;
        sparse, as a cluster compares few."""
        from scipy import sparse

        at = np.r_[self.cluster, self.cluster], np.r_[self.first, self.second]
        entry = np.r_[to_first, to_second], at
        return sparse.coo_array(entry, shape=(self.n_clusters, self.n_contents)).tocsr()

    @classmethod
    def by(cls, mode: Parameters, rows: Rows, cluster: np.ndarray) -> _Told:
        from scipy.special import expit

        shown = np.asarray(rows.shown)
        made = shown > 0
        names, of = np.unique(np.asarray(cluster)[made], return_inverse=True)
        first, second = np.asarray(rows.first)[made], np.asarray(rows.second)[made]
        x = np.column_stack([np.asarray(rows.difference), np.asarray(rows.ordered)])[made]
        theta, bias = np.asarray(mode.theta), np.append(mode.c, mode.kappa)
        p = expit(theta[first] - theta[second] + x @ bias)
        residual = np.asarray(rows.wins)[made] - shown[made] * p
        weight = shown[made] * p * (1 - p)
        return cls(len(names), len(theta), of, first, second, x, residual, weight)


def _kish(total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


def prior_part(
    inverse: Float[np.ndarray, "P P"], precision: Float[np.ndarray, " P"]
) -> Float[np.ndarray, "P P"]:
    """The prior's part H^-1 Lambda H^-1 of the posterior covariance H^-1; the other part,
    H^-1 information H^-1, is the verdicts'.

    Where the share s = a'(prior's part)a / a'H^-1 a of a combination a'beta is small, the MAP is
    biased by s times the distance of the truth from the prior's mean. With a truth drawn from the
    prior, that is sqrt(s / (1 - s)) standard errors.
    """
    return inverse @ (precision[:, None] * inverse)


def bootstrap(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: Int[np.ndarray, " R"],
    *,
    resamples: int,
    seed: int,
) -> Float[np.ndarray, "resamples P"]:
    """The MAP of resampled clusters, drawn with replacement, as many as there are.

    Args:
      mode: the MAP, from which each begins.
      cluster: [R] which cluster each row is of, integers from 0.
      seed: of the resampling.

    Returns:
      (theta, c, kappa) of each; NaN where the fit did not converge.
    """
    made = np.asarray(rows.shown) > 0
    names = np.unique(np.asarray(cluster)[made])
    of = jnp.asarray(np.searchsorted(names, cluster).clip(0, len(names) - 1))
    rng = np.random.default_rng([seed, len(names)])
    at_once = max(1, min(resamples, AT_ONCE // len(made), 64))
    found = []
    for begin in range(0, resamples, at_once):
        drawn = rng.integers(0, len(names), (at_once, len(names)))
        times = np.stack([np.bincount(d, minlength=len(names)) for d in drawn])
        times = jnp.asarray(times, design.dtype)
        refits = _refit(times, of, mode, rows, design, prior, variant)
        found.append(np.asarray(refits)[: resamples - begin])
    return np.concatenate(found)


@jax.jit
def _refit(
    times: Float[Array, "B G"],
    of: Int[Array, " R"],
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
) -> Float[Array, "B P"]:
    def one(times: Float[Array, " G"]) -> Float[Array, " P"]:
        weight = times[of]
        drawn = Rows(
            rows.first,
            rows.second,
            rows.difference,
            rows.ordered,
            rows.shown * weight,
            rows.wins * weight,
        )
        fit = fit_map(drawn, design, prior, variant, start=mode)
        return jnp.where(fit.status == 0, fit.parameters.flat(), jnp.nan)

    return jax.vmap(one)(times)
