"""What jbt is compared with. Nothing here imports jbt: arena-rank needs another JAX.

Each function prepares `count` problems and returns a function that solves them; its answers are an
array with a row a problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, diags_array, hstack
from scipy.special import entr, expit, log_expit

from benchmarks.speed import problems
from benchmarks.speed.problems import COVARIATES, LAM, LAM_B, MODELS, K, N

Run = Callable[[], Any]
TIGHT = {"ftol": 1e-16, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 20_000}
"""Options of SciPy's L-BFGS for answers that others are compared with."""
FIRST, SECOND = np.nonzero(~np.eye(N, dtype=bool))
"""The ordered pairs of a pool."""
PRECISION = np.r_[np.full(N, LAM), LAM_B, LAM_B]
"""Of the prior of its parameters."""
COUNTED = 1500
"""The paper's draws for a membership."""


# --- a fit


def rows_of(pools: problems.Pools) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each pool the rows whose products with (theta, c, kappa) are the logits of its verdicts,
    and who won."""
    theta, one = np.eye(N)[FIRST] - np.eye(N)[SECOND], np.ones(len(FIRST))
    pairs = zip(pools.wins, pools.x, strict=True)
    return [(np.c_[theta, x[FIRST] - x[SECOND], one], wins[FIRST, SECOND]) for wins, x in pairs]


def map_of_rows(
    z: Any, y: np.ndarray, precision: np.ndarray, start: Any = None, tight: bool = False
) -> np.ndarray:
    """MAP of a logistic regression of y on z, dense or sparse, by SciPy's L-BFGS.

    Args:
      start: default zeros.
      tight: to rounding, for answers that others are compared with.
    """

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        logit = z @ b
        value = -(y * log_expit(logit) + (1 - y) * log_expit(-logit)).sum()
        value += (precision * b * b).sum() / 2
        return value, precision * b - z.T @ (y - expit(logit))

    start = np.zeros(len(precision)) if start is None else start
    options = TIGHT if tight else {}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


def scipy_fit(count: int, naive: bool = False, tight: bool = False) -> Run:
    """MAP of one pool after the other: theta, c and kappa; if `naive`, theta alone."""
    pools, p = rows_of(problems.pools(count)), N if naive else N + 2
    return lambda: [map_of_rows(z[:, :p], won, PRECISION[:p], tight=tight) for z, won in pools]


def choix_fit(count: int) -> Run:
    """choix without covariate and position. It penalises alpha sum(theta^2), hence lam / 2."""
    import choix

    won = problems.pools(count).wins[:, FIRST, SECOND, None]
    pairs = np.where(won, np.c_[FIRST, SECOND], np.c_[SECOND, FIRST]).tolist()
    return lambda: [choix.opt_pairwise(N, pool, alpha=LAM / 2) for pool in pairs]


def evalica_fit(count: int, **drawn: Any) -> Run:
    """evalica's maximum likelihood estimate without covariate and position."""
    import evalica

    winners = np.array([evalica.Winner.Y, evalica.Winner.X], object)
    won = problems.pools(count, **drawn).wins[:, FIRST, SECOND]
    pools = winners[won.astype(int)].tolist()

    def fit(pool: list[Any]) -> np.ndarray:
        theta = np.log(evalica.bradley_terry(FIRST, SECOND, pool).scores.sort_index())
        return (theta - theta.mean()).to_numpy()

    return lambda: [fit(pool) for pool in pools]


# --- the crossing experiment and the active loop


def top(values: np.ndarray) -> set[int]:
    """The `K` largest."""
    return set(np.argsort(-values)[:K].tolist())


def scipy_crossing(count: int) -> Run:
    """The gain in recall by the bias-aware fit over the naive one, in pools drawn under the
    correlations 0, 0.05, ..., 0.9 in turn."""

    def recall(z: np.ndarray, won: np.ndarray, quality: np.ndarray, p: int) -> float:
        return len(top(map_of_rows(z[:, :p], won, PRECISION[:p])[:N]) & top(quality)) / K

    def run() -> list[float]:
        drawn = problems.pools(count, rho=0.05 * (np.arange(count) % 19)[:, None])
        both = zip(rows_of(drawn), drawn.quality, strict=True)
        return [recall(*rows, q, N + 2) - recall(*rows, q, N) for rows, q in both]

    return run


def numpy_loop(
    count: int, n: int = N, budget: int = problems.BUDGET, refit_every: int = problems.REFIT
) -> Run:
    """The paper's active loop, one run after the other: recall of the top k."""
    tasks = list(zip(*problems.tasks(count, n), strict=True))
    return lambda: [active_run(*task, budget, refit_every, i) for i, task in enumerate(tasks)]


def active_run(
    quality: np.ndarray, x: np.ndarray, answers: np.ndarray, budget: int, every: int, seed: int
) -> float:
    """Recall after `budget` verdicts asked for by Eq. acq: L-BFGS on the list of verdicts with a
    warm start, an inverted Hessian, sorted draws for the membership, greedy picks."""
    n = len(quality)
    rng = np.random.default_rng(seed)
    precision = np.r_[np.full(n, LAM), LAM_B, LAM_B]
    rows, won = np.zeros((budget, n + 2)), np.zeros(budget)
    asked = np.eye(n, dtype=bool)
    beta, covariance = np.zeros(n + 2), np.diag(1 / precision)
    for begin in range(0, budget, every):
        end = min(begin + every, budget)
        theta, sigma = beta[:n], covariance[:n, :n]
        draws = rng.multivariate_normal(theta, sigma, COUNTED, method="cholesky")
        best = np.argpartition(-draws, K, axis=1)[:, :K]
        membership = np.bincount(best.ravel(), minlength=n) / COUNTED
        entropy = entr(membership) + entr(1 - membership)
        phi = theta + beta[n] * x
        p = expit(phi[:, None] - phi + beta[n + 1])
        v = np.diag(sigma)
        score = p * (1 - p) * (v[:, None] + v - 2 * sigma) * (entropy[:, None] + entropy)
        score[asked] = -np.inf
        for t in range(begin, end):
            i, j = divmod(int(score.argmax()), n)
            score[i, j], asked[i, j] = -np.inf, True
            rows[t, i], rows[t, j], rows[t, n], rows[t, n + 1] = 1, -1, x[i] - x[j], 1
            won[t] = answers[i, j]
        z = rows[:end]
        beta = map_of_rows(z, won[:end], precision, beta)
        q = expit(z @ beta)
        covariance = np.linalg.inv((z.T * (q * (1 - q))) @ z + np.diag(precision))
    return len(top(beta[:n]) & top(quality)) / K


# --- a leaderboard


def sparse_rows(
    rows: int, lam: float = LAM, lam_b: float = LAM_B
) -> tuple[Any, np.ndarray, np.ndarray]:
    """The sparse matrix of the rows, who won, and the prior's precisions."""
    data = problems.leaderboard(rows)
    place = np.tile(np.arange(rows), 2), np.r_[data["first"], data["second"]]
    sides = csr_matrix((np.repeat([1.0, -1.0], rows), place), (rows, MODELS))
    z = hstack([sides, data["difference"]], format="csr")
    return z, data["won"], np.repeat([float(lam), float(lam_b)], [MODELS, COVARIATES])


def scipy_leaderboard(tight: bool = False, **problem: Any) -> Run:
    """SciPy on a sparse matrix of the rows; `problem`: arguments of `sparse_rows`."""
    z, won, precision = sparse_rows(**problem)
    return lambda: [map_of_rows(z, won, precision, tight=tight)]


def sklearn_leaderboard(**problem: Any) -> Run:
    """scikit-learn's newton-cg on the same matrix, at its default tolerance. It has one penalty for
    all coefficients, so that columns are divided by the roots of theirs."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[reportMissingImports]

    z, won, precision = sparse_rows(**problem)
    z = (z @ diags_array(precision**-0.5)).tocsr()

    def run() -> Any:
        fit = LogisticRegression(C=1.0, solver="newton-cg", fit_intercept=False, max_iter=1000)
        return fit.fit(z, won).coef_ * precision**-0.5

    return run


def glum_leaderboard(**problem: Any) -> Run:
    """glum's iteratively reweighted least squares on the same matrix, at its default tolerance."""
    from glum import GeneralizedLinearRegressor  # type: ignore[reportMissingImports]

    z, won, precision = sparse_rows(**problem)
    settings: Any = {"family": "binomial", "l1_ratio": 0, "fit_intercept": False}
    settings |= {"alpha": 1 / len(won), "P2": precision}
    return lambda: GeneralizedLinearRegressor(**settings).fit(z.tocsc(), won).coef_[None]


def arena_rank(rows: int, reg: float, ftol: float, **prior: float) -> Run:
    """arena-rank 0.1.1, compiling included.

    It adds 0.5 reg sum(c^2) to a mean negative log-likelihood, and no prior on the ratings: on R
    rows, the `prior` lam_b = R reg and lam = 0 of jbt. It stops when the mean changes by less than
    `ftol` of itself, by default 1e-9. Its scaling of covariates and its weights are switched off.
    """
    import jax
    import jax.numpy as jnp
    from arena_rank.models import contextual_bradley_terry  # type: ignore[reportMissingImports]
    from arena_rank.utils import data_utils  # type: ignore[reportMissingImports]

    data = problems.leaderboard(rows)
    given = data_utils.ContextualPairDataset(
        competitors=[str(i) for i in range(MODELS)],
        pairs=jnp.asarray(np.stack([data["first"], data["second"]], 1), jnp.int32),
        outcomes=jnp.asarray(data["won"]),
        features=jnp.asarray(data["difference"]),
        weights=jnp.ones(rows),
    )
    fit = contextual_bradley_terry.ContextualBradleyTerry

    def run() -> Any:
        jax.clear_caches()
        model = fit(MODELS, COVARIATES, reg=reg, ftol=ftol)
        jax.block_until_ready(model.fit(given).params)
        ratings = np.asarray(model.params["ratings"])
        return [np.r_[ratings - ratings.mean(), np.asarray(model.params["coeffs"])]]

    return run
