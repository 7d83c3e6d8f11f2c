"""A slow twin of the active loop in plain NumPy: one pool, one verdict a row, loops over pairs.

It shares only the table of normals and the run's tie-breaks with jbt.
"""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import entr, expit
from scipy.stats import norm
from support.problems import minimum

from jbt import acquisition
from jbt.kernel import membership


def states_of(keys, tasks, loop, budget):
    """For each of a batch of runs what the twin shares with jbt: how its normals are arranged, and
    what breaks its ties."""

    def state(key, task):
        at, times = acquisition.init(key, task, loop), jnp.arange(budget)
        for_ties = jax.vmap(lambda t: jax.random.split(jax.random.fold_in(key, t), 3)[2])(times)
        salts = jax.vmap(lambda k: jax.random.bits(k, (), jnp.uint32))(for_ties)
        return at.shuffle, at.signs, at.priority, salts

    names = ("shuffle", "signs", "priority", "salts")
    each = zip(*jax.device_get(jax.vmap(state)(keys, tasks)), strict=True)
    return [SimpleNamespace(**dict(zip(names, values, strict=True))) for values in each]


def fit(z, y, precision, free):
    """The mode, and the Hessian over what is free."""
    mode, hessian, _ = minimum(z, np.ones(len(z)), y, precision, free, np.zeros(len(free)))
    return mode, hessian


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


def scrambled(h):
    """MurmurHash3's finaliser, of 32 bits."""
    word = 2**32 - 1
    h = (h ^ (h >> 16)) * 0x85EBCA6B & word
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & word
    return h ^ (h >> 16)


def rank_of_tie(number, salt, n):
    """A pair's rank among tied pairs: a hash of its number and the pick's salt in the high bits,
    the number itself in the low bits."""
    bits = (n * n - 1).bit_length()
    return (scrambled(number ^ salt) >> bits << bits) + number


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


RANKS = ("lucb", "round_robin")
"""Rules whose scores only rank pairs."""


NORMALS = {"conditional": membership.sobol_normals, "counted": membership.antithetic_normals}


def check(keys, tasks, loop, budget):
    """That runs by a named rule ask what the twin asks; returns their queries."""
    states, host = states_of(keys, tasks, loop, budget), jax.device_get(tasks)
    normals = NORMALS[loop.membership](loop.n_samples, len(states[0].shuffle), "float64")
    table = np.concatenate(list(np.asarray(normals)), 1).T
    runs = jax.jit(jax.vmap(lambda key, task: acquisition.run(key, task, loop, budget).queries))
    found = jax.device_get(runs(keys, tasks))
    for i, state in enumerate(states):
        expected = run(jax.tree.map(lambda v, i=i: v[i], host), loop, budget, table, state)
        expected += [(-1, -1, 0.0, -1)] * (budget - len(expected))
        # One judge has no number.
        for field, its in zip(jax.tree.leaves(found), np.transpose(expected), strict=False):
            np.testing.assert_array_equal(field[i], its, f"{loop.rule} {i}")
    return found


def run(task, loop, budget, table, state, *, lam=1.0, lam_b=0.1):
    """Queries [(first, second, share won by the first, judge)] of one pool, frozen protocol.

    `task` is a `Task` of one judge, who is number 0 then, or of several; `table` [draws, P] of
    normals; `state` from `states_of`.
    """
    rule, fresh = loop.rule.removesuffix("_fresh"), loop.rule.endswith("_fresh")
    x, answers = np.asarray(task.design.covariates)[:, 0], np.asarray(task.answers)
    n, k, refit_every = len(x), loop.k, loop.refit_every
    s, sharing, price, purse = np.ones(1), np.eye(1), np.ones(1), np.inf
    if task.panelists is None:
        answers = answers[:, :, None]
    else:
        terms = task.panelists
        s, sharing, price, purse = terms.discrimination, terms.sharing, terms.price, terms.purse
    judges = range(len(s))
    # From all parameters to those of each judge's own model.
    maps = np.zeros((len(s), n + 2, n + 2 * len(s)))
    for g in judges:
        maps[g, :n, :n], maps[g, n:, n:] = s[g] * np.eye(n), np.kron(np.eye(2), sharing[g])
    free = np.r_[np.ones(n), np.ravel(task.variant.c), np.ravel(task.variant.kappa)] > 0
    precision = np.r_[np.full(n, lam), np.full(2 * len(s), lam_b)]
    rows, won, queries = [], [], []
    shown = np.zeros((n, n, len(maps)))
    while len(queries) < budget:
        z, y = np.array(rows).reshape(-1, len(free)), np.array(won)
        beta, h = fit(z, y, precision, free)
        root = np.zeros((len(free), len(free)))
        root[np.ix_(free, free)] = np.linalg.inv(np.linalg.cholesky(h))
        root[~free, ~free] = 1
        full = np.where(free, root, 0)
        covariance = full.T @ full
        d = table @ (full[state.shuffle] * state.signs[:, None])
        if loop.membership == "counted":
            p = counted(beta[:n], d[:, :n], k)
        else:
            p = conditional(beta[:n], d[:, free], k, h)
        for _ in range(min(refit_every, budget - len(queries))):
            spent = price * shown.sum((0, 1))
            can = [
                {
                    (i, j)
                    for i in range(n)
                    for j in range(n)
                    if i != j
                    and not shown[i, j, g]
                    and not np.isnan(answers[i, j, g])
                    and spent.sum() + price[g] <= purse
                }
                for g in judges
            ]
            if not any(can):
                return queries
            salt = int(state.salts[len(queries)])
            offers = {}
            for g in allowed(rule, spent, price, can):
                name, among = part_of(rule, g, maps[0] @ beta, x, can[g])
                score = scores(
                    name,
                    x,
                    maps[g] @ beta,
                    maps[g] @ covariance @ maps[g].T,
                    p,
                    shown[:, :, g],
                    state.priority,
                    k,
                )
                best = max(score[pair] for pair in among)
                tied = [q for q in among if score[q] >= best - 1e-9 * abs(best)]
                i, j = max(tied, key=lambda q: rank_of_tie(q[0] * n + q[1], salt, n))
                offers[g] = (best / price[g], i, j)
                if rule in RANKS:
                    row = design_row(i, j, x) @ maps[g]
                    share = settled(row, i, j, beta, covariance, free)
                    offers[g] = (share / price[g], i, j)
            best = max(worth for worth, *_ in offers.values())
            tied = [g for g in offers if offers[g][0] >= best - 1e-9 * abs(best)]
            tied = [g for g in tied if price[g] == min(price[tied])]
            g = max(tied, key=lambda g: scrambled(g ^ ~salt & 2**32 - 1))
            _, i, j = offers[g]
            row = design_row(i, j, x) @ maps[g]
            rows.append(row)
            won.append(float(answers[i, j, g]))
            shown[i, j, g] = 1
            queries.append((i, j, float(answers[i, j, g]), g))
            if fresh:
                covariance = with_verdict(row, beta, covariance, free)
    return queries


def design_row(i, j, x):
    row = np.zeros(len(x) + 2)
    row[i], row[j], row[-2], row[-1] = 1, -1, x[i] - x[j], 1
    return row


def with_verdict(row, beta, covariance, free):
    """The covariance after a verdict with this row, whatever its outcome."""
    q, after = expit(row @ beta), covariance.copy()
    precise = np.linalg.pinv(covariance[np.ix_(free, free)])
    precise += q * (1 - q) * np.outer(row[free], row[free])
    after[np.ix_(free, free)] = np.linalg.inv(precise)
    return after


def settled(row, i, j, beta, covariance, free):
    """Share of the variance of theta_i - theta_j that the verdict removes."""
    e = np.zeros(len(beta))
    e[i], e[j] = 1, -1
    after = with_verdict(row, beta, covariance, free)
    return 1 - (e @ after @ e) / (e @ covariance @ e)


def allowed(rule, spent, price, can):
    """The judges that may be asked next."""
    if rule not in ("escalation", "disputed"):
        return [g for g in range(len(can)) if can[g]]
    last = len(can) - 1
    if not can[0] or (can[last] and spent[last] + price[last] <= (spent.sum() + price[last]) / 2):
        return [last] if can[last] else [g for g in range(len(can)) if can[g]]
    return [0]


def part_of(rule, g, cheap, x, can):
    """The rule for judge g, and the pairs it may choose; `cheap` are the parameters of the first
    judge's own model."""
    if rule == "escalation":
        return ("lucb" if g else "top_k_aware"), can
    if rule != "disputed" or g == 0:
        return ("top_k_aware" if rule == "disputed" else rule), can
    theta, bias = cheap[: len(x)], cheap[-2] * x
    ahead = theta[:, None] - theta
    seeming = ahead + bias[:, None] - bias
    opposed = (ahead * seeming < 0) & (np.minimum(abs(ahead), abs(seeming)) > 1e-9)
    return "top_k_aware", {pair for pair in can if opposed[pair]} or can
