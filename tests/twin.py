"""A slow twin of the active loop in plain NumPy: one pool, one verdict a row, loops over pairs.

It shares with jbt the table of normals and the run's tie-breaks, and nothing else.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr, expit
from scipy.stats import norm


def fit(z, y, precision, free):
    beta = np.zeros(len(precision))
    for _ in range(100):
        p = expit(z @ beta)
        gradient = np.where(free, z.T @ (y - p) - precision * beta, 0)
        step = np.zeros_like(beta)
        h = hessian(z, beta, precision)[np.ix_(free, free)]
        step[free] = np.linalg.solve(h, gradient[free])
        beta = beta + step / (1 + max(np.abs(z @ step).max(initial=0) - 1, 0))
        if np.abs(step).max() < 1e-13:
            break
    return beta


def hessian(z, beta, precision):
    p = expit(z @ beta)
    return (z.T * (p * (1 - p))) @ z + np.diag(precision)


def scores(rule, x, beta, covariance, p, shown, priority, k):
    """score[i, j] of every ordered pair, from its explicit design vector."""
    n = len(x)
    one = np.eye(n)
    z = np.concatenate([one[:, None] - one, (x[:, None] - x)[..., None], np.ones((n, n, 1))], -1)
    e = z * np.r_[np.ones(n), 0, 0]

    def variance(direction):
        return np.einsum("ijp,pq,ijq->ij", direction, covariance, direction)

    q = expit(z @ beta)
    information = q * (1 - q)
    h = entr(p) + entr(1 - p)
    relevance = (h[:, None] + h) * (1 - one)
    spread = p * (1 - p)
    first, second = shown.sum(1), shown.sum(0)
    if rule == "top_k_aware":
        return information * variance(e) * relevance
    if rule == "global_uncertainty":
        return information * variance(e)
    if rule == "no_variance":
        return information * relevance
    if rule == "no_informativeness":
        return variance(e) * relevance
    if rule == "entropy_only":
        return relevance
    if rule == "round_robin":
        times, lead = first + second, first - second
        before = lead - lead[:, None]
        once = 0.5 / (1 + shown + shown.T)
        more = times - times.min()
        return -more[:, None] - more + once + 1e-3 * before / (1 + np.abs(before))
    if rule == "lucb":
        theta, half = beta[:n], 2 * np.sqrt(np.diag(covariance)[:n])
        ahead = sorted(range(n), key=lambda m: (-round(theta[m], 9), -priority[m]))
        top = np.isin(np.arange(n), ahead[:k])
        bound = np.where(top, half - theta, half + theta)
        score = bound[:, None] + bound
        crossing = top[:, None] != top
        return np.where(crossing, score, score - (score.max() - score.min()) - 1)
    if rule == "entropy_reduction":
        boundary = spread / spread.sum() if spread.any() else 0 * spread
        score = np.zeros((n, n))
        for m in np.flatnonzero(spread > 0):
            u = np.r_[one[m] - boundary, 0, 0]
            v = information * (z @ covariance @ u) ** 2 / (1 + information * variance(z))
            score += v * norm.pdf(norm.ppf(p[m])) ** 2 / (2 * (u @ covariance @ u) * spread[m])
        return score
    raise ValueError(rule)


def rank_of_tie(number, salt, n):
    """A pair's place among tied ones: its number and the pick's salt, hashed (MurmurHash3's
    finaliser), over the number itself."""
    h, word = number ^ salt, 2**32 - 1
    h = (h ^ (h >> 16)) * 0x85EBCA6B & word
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & word
    h = h ^ (h >> 16)
    bits = (n * n - 1).bit_length()
    return (h >> bits << bits) + number


def counted(mean, d, k):
    """Shares of the draws mean +- d, d [pairs, N], in which each content is in the top k."""
    draws = np.concatenate([mean + d, mean - d])
    return (np.argsort(np.argsort(-draws, 1), 1) < k).mean(0)


def conditional(mean, d, k, precision):
    """Mean chances of each content to be above the k-th of the others, whose draws mean + d are
    given; d [S, P], of the free parameters, the first N of them qualities."""
    n = len(mean)
    pull = d @ precision / np.diag(precision)
    p = np.zeros(n)
    for i in range(n):
        others = np.sort(np.delete(mean + d[:, :n], i, 1), 1)[:, -k]
        centre = mean[i] + d[:, i] - pull[:, i]
        p[i] = norm.cdf((centre - others) * precision[i, i] ** 0.5).mean()
    return p


def run(
    rule, fresh, estimate, *, x, answers, free, lam, lam_b, k, refit_every, budget, table, state
):
    """Queries [(first, second, share won by the first)] of the frozen protocol.

    `table` [draws, P] of normals; `state` the run's shuffle, signs, priority, and salts of ties.
    """
    n = len(x)
    precision = np.r_[np.full(n, lam), lam_b, lam_b]
    free = np.r_[np.ones(n, bool), free, free]
    rows, won, queries = [], [], []
    shown = np.zeros((n, n))
    while len(queries) < budget:
        z, y = np.array(rows).reshape(-1, n + 2), np.array(won)
        beta = fit(z, y, precision, free)
        root = np.zeros((n + 2, n + 2))
        h = hessian(z, beta, precision)[np.ix_(free, free)]
        root[np.ix_(free, free)] = np.linalg.inv(np.linalg.cholesky(h))
        root[~free, ~free] = 1
        full = np.where(free, root, 0)
        covariance = full.T @ full
        d = table @ (full[state.shuffle] * state.signs[:, None])
        if estimate == "counted":
            p = counted(beta[:n], d[:, :n], k)
        else:
            p = conditional(beta[:n], d[:, free], k, h)
        for _ in range(min(refit_every, budget - len(queries))):
            score = scores(rule, x, beta, covariance, p, shown, state.priority, k)
            open_pairs = [(i, j) for i in range(n) for j in range(n) if i != j and not shown[i, j]]
            best = max(score[pair] for pair in open_pairs)
            tied = [q for q in open_pairs if score[q] >= best - 1e-9 * abs(best)]
            salt = int(state.salts[len(queries)])
            i, j = max(tied, key=lambda q: rank_of_tie(q[0] * n + q[1], salt, n))
            row = np.zeros(n + 2)
            row[i], row[j], row[n], row[n + 1] = 1, -1, x[i] - x[j], 1
            rows.append(row)
            won.append(float(answers[i, j]))
            shown[i, j] = 1
            queries.append((i, j, float(answers[i, j])))
            if fresh:
                q = expit(row @ beta)
                precise = np.linalg.pinv(covariance[np.ix_(free, free)])
                precise += q * (1 - q) * np.outer(row[free], row[free])
                covariance[np.ix_(free, free)] = np.linalg.inv(precise)
    return queries
