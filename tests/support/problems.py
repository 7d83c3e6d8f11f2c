"""Random fitting problems of every kind, in NumPy, and a slow reference solver.

All problems are padded to N = M = 8, D = 3, so that one compiled kernel serves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.special import expit, log_expit

from jbt.identifiability import BiasEstimate
from jbt.types import Comparisons, Design, Parameters, Prior, Rows, Status, Variant

N = M = 8
D = 3
KINDS = ("plain", "separated", "disconnected", "repeats", "sparse", "one_order")


@dataclass
class Problem:
    kind: str
    n: int
    m: int
    d: int
    content: np.ndarray
    x: np.ndarray
    shown: np.ndarray
    wins: np.ndarray
    lam: float
    lam_b: float
    free_kappa: bool
    sharing = np.eye(1)

    @property
    def items(self) -> Problem:
        """Itself, as the first judge of a panel is asked for."""
        return self

    def unpadded(self) -> tuple[Comparisons, Design, Variant]:
        design = Design.build(self.x[: self.n, : self.d], self.content[: self.n], n_contents=self.m)
        counts = (v[: self.n, : self.n] for v in (self.shown, self.wins))
        free = self.free()[self.m :]
        return Comparisons.build(*counts), design, Variant(*map(jnp.asarray, (free[:-1], free[-1])))

    def design_matrix(self) -> np.ndarray:
        """[pairs, m + d + 1], rows of the pairs shown, unpadded."""
        i, j = np.nonzero(self.shown)
        owner = np.eye(self.m)[self.content[: self.n]]
        z = [owner[i] - owner[j], (self.x[i] - self.x[j])[:, : self.d], np.ones((len(i), 1))]
        return np.concatenate(z, 1)

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        at = np.nonzero(self.shown)
        return self.shown[at], self.wins[at]

    def free(self) -> np.ndarray:
        return np.r_[np.ones(self.m + self.d, bool), self.free_kappa]

    def precision(self) -> np.ndarray:
        return np.r_[np.full(self.m, self.lam), np.full(self.d + 1, self.lam_b)]


def random_problem(seed: int, *, shared: bool, lam_range: tuple[float, float] = (-3, 3)) -> Problem:
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(rng.integers(4, N + 1))
    if shared:
        m = int(rng.integers(2, n + 1))
        content = rng.permutation(np.r_[np.arange(m), rng.integers(0, m, n - m)])
    else:
        m, content = n, np.arange(n)
    d = int(rng.integers(0, D + 1))
    x = np.zeros((N, D))
    x[:n, :d] = rng.standard_normal((n, d)) * rng.choice([0.3, 1, 3])
    x[n:, :d] = 1e3  # what padding holds must not matter
    theta = rng.standard_normal(m) * rng.choice([0.5, 1.5, 4])
    phi = theta[content] + x[:n].sum(1)
    kappa = rng.normal()
    shown = np.zeros((N, N))
    shown[:n, :n] = 1 - np.eye(n)
    if kind == "repeats":
        shown *= rng.integers(0, 12, (N, N))
    if kind == "sparse":
        shown *= rng.random((N, N)) < 0.3
    if kind == "one_order":
        shown = np.triu(shown)
    if kind == "disconnected":
        side = np.arange(N) < n // 2
        shown *= side[:, None] == side
    p = expit(phi[:, None] - phi + kappa)
    wins = np.zeros((N, N))
    wins[:n, :n] = rng.binomial(shown[:n, :n].astype(int), p)
    ties = rng.random((N, N)) < 0.1
    wins = np.where(ties, shown / 2, wins)
    if kind == "separated":  # item 0 always wins
        wins[0], wins[:, 0] = shown[0], 0
    lam, lam_b = 10 ** rng.uniform(*lam_range, 2)
    full_content = np.r_[content, np.zeros(N - n, int)]
    return Problem(kind, n, m, d, full_content, x, shown, wins, lam, lam_b, bool(rng.integers(2)))


def random_rows(seed: int, m: int, n: int, *, scale: float = 1.0, decided: bool = False) -> Rows:
    """Rows on m contents with two covariates: ties and graded shares, weights, unknown orders, and
    some that compare two renderings of one content. The first content won all its verdicts if
    `decided`."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, m, (2, n))
    share = rng.random(n).round(1)
    if decided:
        share = np.where(first == 0, 1.0, np.where(second == 0, 0.0, share))
    difference, weight = scale * rng.normal(size=(n, 2)), rng.integers(0, 4, n)
    return Rows.build(first, second, difference, share, weight=weight, ordered=rng.random(n) < 0.6)


def any_problem(seed: int, shared: bool | None = None) -> Problem:
    """Contents shared in two of three, unless it is said."""
    return random_problem(seed, shared=seed % 3 > 0 if shared is None else shared)


def padded(q: Problem, *, shared: bool = True, dtype: str = "float64"):
    """(comparisons, design, prior, variant) of one problem."""
    return jax.tree.map(lambda v: v[0], as_batch([q], shared=shared, dtype=dtype))


def places(q: Problem) -> np.ndarray:
    """Where the problem's own parameters stand among the padded ones, flat."""
    return np.r_[np.arange(q.m), M + np.arange(q.d), M + D]


def flat(parameters: Parameters) -> np.ndarray:
    """[problems, P] theta, c and kappa of a batch, of one judge or of a panel."""
    parts = parameters.theta, parameters.c, parameters.kappa
    return np.concatenate([np.reshape(v, (len(v), -1)) for v in parts], 1)


def as_batch(problems: list[Problem], *, shared: bool, dtype: str):
    """(comparisons, design, prior, variant) with a leading axis."""

    @jax.vmap
    def made(shown, wins, x, lam, lam_b, content, n, d, free_kappa):
        design = Design(x, content if shared else None, jnp.arange(N) < n, M)
        variant = Variant(jnp.arange(D) < d, free_kappa)
        return Comparisons(shown, wins), design, Prior(lam, lam_b), variant

    names = ("shown", "wins", "x", "lam", "lam_b", "content", "n", "d", "free_kappa")
    fields = (np.array([getattr(q, name) for q in problems]) for name in names)
    return made(*(jnp.asarray(v, dtype if v.dtype == float else None) for v in fields))


def reference(q: Any, *, penalised: bool = True) -> tuple[np.ndarray, np.ndarray, float]:
    """The optimum [P] of a problem, or of one of a panel, on the explicit design matrix, the
    Hessian there over what is free, and the objective."""
    free, precision = q.free(), q.precision() * penalised
    return minimum(q.design_matrix(), *q.counts(), precision, free, np.zeros(len(free)))


def minimum(
    matrix: np.ndarray,
    shown: np.ndarray,
    wins: np.ndarray,
    precision: np.ndarray,
    free: np.ndarray,
    known: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float]:
    """`reference` on any design matrix [rows, P], those not free staying at `known`: by Newton
    steps of at most one logit, until the gradient of this convex function vanishes."""
    z, offset, precision = matrix[:, free], matrix @ known, precision[free]
    b = np.zeros(z.shape[1])
    for _ in range(600):
        p = expit(z @ b + offset)
        slope = -z.T @ (wins - shown * p) + precision * b
        hessian = (z.T * (shown * p * (1 - p))) @ z + np.diag(precision)
        if np.abs(slope).max(initial=0) < 1e-13:
            break
        step = np.linalg.lstsq(hessian, slope, rcond=1e-14)[0]
        b = b - step / max(np.abs(z @ step).max(initial=0), 1)
    logit = z @ b + offset
    likelihood = wins @ log_expit(logit) + (shown - wins) @ log_expit(-logit)
    full = known.copy()
    full[free] = b
    return full, hessian, precision @ b**2 / 2 - likelihood


def fate(z: np.ndarray, shown: np.ndarray, wins: np.ndarray, at: int, unit: float = 1.0) -> str:
    """Fate of the parameter in column `at` of a design matrix [rows, P], without a prior, by linear
    algebra and programming: "unidentified"; "runs away", as some direction moves it and makes no
    verdict less likely; or "exists". `unit`: of the parameter, where the columns' sizes differ."""
    if svd_rank(np.delete(z, at, 1)) == svd_rank(z):
        return "unidentified"
    aim = np.eye(z.shape[1])[at] / unit
    ends = [furthest(sign * aim, z, shown, wins) for sign in (1, -1)]
    return "runs away" if max(ends) > 1e-7 else "exists"


def furthest(aim: np.ndarray, z: np.ndarray, shown: np.ndarray, wins: np.ndarray) -> float:
    """Largest `aim` @ direction over the directions in [-1, 1]^P that make no verdict less likely,
    by linear programming."""
    # One more row, of zeros, as SciPy takes no limits without any.
    decided = np.append((wins == 0) | (wins == shown), [True, False])
    rows = np.r_[np.where(wins == shown, 1, -1)[:, None] * z, np.zeros((2, len(aim)))]
    zeros = np.zeros(len(rows))
    limits = {"A_ub": -rows[decided], "b_ub": zeros[decided]}
    limits |= {"A_eq": rows[~decided], "b_eq": zeros[~decided]}
    return -linprog(-aim, bounds=(-1, 1), **limits).fun


STATUS = {
    "unidentified": [Status.FLAT, Status.NO_VERDICTS],
    "runs away": [Status.SEPARATED],
    "exists": [Status.CONVERGED],
}
"""The statuses of an estimate by its fate."""


def svd_rank(z: np.ndarray) -> int:
    values = np.linalg.svd(z, compute_uv=False)
    return int((values > 1e-8 * values.max(initial=1)).sum())


def check_estimate(
    out: BiasEstimate,
    z: np.ndarray,
    shown: np.ndarray,
    wins: np.ndarray,
    free: np.ndarray,
    column: int,
) -> None:
    """A prior-free estimate beside the slow one: its value, and the ends of
    its 95 % interval, where the likelihood has fallen by 3.84 / 2."""
    nothing, held = np.zeros(len(free)), np.zeros(len(free))
    b, _, top = minimum(z, shown, wins, nothing, free, held)
    assert_allclose(out.c, b[column], atol=1e-5)
    others = free & (np.arange(len(free)) != column)
    for end in (out.low, out.high):
        held[column] = end
        _, _, there = minimum(z, shown, wins, nothing, others, held)
        assert_allclose(2 * (there - top), 3.8414588, atol=1e-5)
    assert out.low < out.c < out.high


def design_vectors(design: Design) -> np.ndarray:
    """[N, N, P] z_ij = (e_a(i) - e_a(j), x_i - x_j, 1) of every ordered pair."""
    owner, x = np.asarray(design.ownership()), np.asarray(design.covariates)
    one = np.ones((len(x), len(x), 1))
    return np.concatenate([owner[:, None] - owner, x[:, None] - x, one], -1)


def rows_of_counts(comparisons: Comparisons, design: Design) -> tuple[Rows, Design]:
    """The same verdicts as rows, one for every ordered pair of items; and their design, whose mask
    still excludes contents that no item shows."""
    n, x = design.n_items, design.covariates
    content = jnp.arange(n) if design.content is None else design.content
    first, second = (v.reshape(-1) for v in jnp.indices((n, n)))
    ends = (content[v].astype(jnp.int32) for v in (first, second))
    counts = (v.reshape(-1) for v in (comparisons.shown, comparisons.wins))
    rows = Rows(*ends, x[first] - x[second], jnp.ones(n * n, design.dtype), *counts)
    m = design.n_contents
    zeros = jnp.zeros((m, design.n_covariates), design.dtype)
    return rows, Design(zeros, None, design.content_mask(), m)


as_rows = rows_of_counts
"""As of a panel."""
