"""Verdicts on models' answers to prompts, and a plain reference for every kind of leaderboard: the
chances of each outcome written out, derivatives by complex steps, the maximum by SciPy, and the
jackknife over prompts in a loop."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from jbt.types import Prior

QUALITY = {"A": 0.8, "B": 0.2, "C": -0.3, "D": -0.7}
BIAS, POSITION = 0.6, 0.4
PRIOR = Prior(0.5, 0.2)
OUTCOMES = ("first", "tie", "second")


def written(
    n_prompts=20,
    *,
    theta=QUALITY,
    words=None,
    c=BIAS,
    gamma=0.0,
    log_nu=-np.inf,
    judges=None,
    seed=0,
):
    """Verdicts and items as data frames: all ordered pairs of the models' answers are judged.

    Args:
      words: [prompts, models] of the answers, from (rng, shape); default normal.
      c: bias of the judge for a word; or one for each model.
      log_nu: of Davidson's ties; default none.
      judges: name -> discrimination.
    """
    rng, names = np.random.default_rng(seed), np.array(list(theta))
    quality, m = np.array(list(theta.values())), len(theta)
    shape = n_prompts, m
    x = rng.normal(size=shape) if words is None else np.broadcast_to(words(rng, shape), shape)
    grid = np.indices((n_prompts, len(judges or [0]), m, m)).reshape(4, -1)
    p, g, i, j = grid[:, grid[2] != grid[3]]
    bias = (c + gamma * quality) * x
    eta = np.array(list((judges or {"": 1.0}).values()))[g] * (quality[i] - quality[j])
    eta += bias[p, i] - bias[p, j] + POSITION
    weights = np.exp([eta / 2, np.full(len(eta), log_nu), -eta / 2])
    won = (rng.random(len(eta)) > (weights / weights.sum(0)).cumsum(0)).sum(0)
    pools = np.array([f"p{n}" for n in range(n_prompts)])
    verdicts = pd.DataFrame(
        {
            "pool": pools[p],
            "first": names[i],
            "second": names[j],
            "winner": np.array(OUTCOMES)[won.clip(max=2)],
        }
    )
    if judges is not None:
        verdicts["judge"] = np.array(list(judges))[g]
    items = {"pool": np.repeat(pools, m), "item": np.tile(names, n_prompts), "words": x.ravel()}
    return verdicts, pd.DataFrame(items)


def named(kind, judge):
    return kind if pd.isna(judge) else f"{kind} {judge}"


def step(f, b):
    """[..., P] derivative of a function of parameters [P], exact to rounding."""
    return np.stack([f(b + 1e-30j * e).imag for e in np.eye(len(b))], -1) / 1e-30


class Plain:
    """The model of a leaderboard, outcome by outcome. Parameters are the models' theta, then the
    coefficients that are asked for: c, kappa, log nu, discrimination (s - 1 of each judge but the
    first); c and kappa of each judge.
    """

    def __init__(self, verdicts, items, coefficients, prior=PRIOR, relative=False):
        judges, groups = [None], np.zeros(len(verdicts), int)
        if "discrimination" in coefficients:
            judges = list(dict.fromkeys(verdicts["judge"]))
            groups = verdicts["judge"].map(judges.index).to_numpy()
        self.judge = groups
        self.models = sorted(items["item"].unique())
        x = items.set_index(["pool", "item"])["words"]
        if not relative:
            x = (x - x.mean()) / x.std(ddof=0)
        sides = [verdicts[side] for side in ("first", "second")]
        self.at = np.stack([side.map(self.models.index) for side in sides])
        self.x = np.stack([x.loc[list(zip(verdicts["pool"], s, strict=True))] for s in sides])
        self.prompts = pd.factorize(verdicts["pool"])[0]
        self.count = verdicts["count"].to_numpy(float)
        if relative:
            d = (self.x[0] - self.x[1]) / self.x.sum(0)
            self.x = np.stack([d / np.sqrt(np.average(d**2, weights=self.count)), 0 * d])
        if "p_first" in verdicts:
            graded = verdicts["p_first"].to_numpy()
            share = np.stack([graded, np.zeros(len(graded)), 1 - graded])
        else:
            share = np.stack([verdicts["winner"] == outcome for outcome in OUTCOMES]).astype(float)
        has_nu = "log nu" in coefficients
        self.share = share if has_nu else share[[0, 2]] + share[1] / 2
        of_each = {"c": judges, "kappa": judges, "discrimination": judges[1:]}
        self.parts = {name: of_each.get(name, [None]) for name in coefficients}
        self.names = self.models + [
            named(name, judge) for name, each in self.parts.items() for judge in each
        ]
        n, m = len(self.names), len(self.models)
        self.precision = np.r_[np.full(m, prior.lam), np.full(n - m, prior.lam_b)]
        self.centre = np.eye(n)
        self.centre[:m, :m] -= 1 / m

    def utilities(self, b):
        """[outcomes, R], whose softmax are the chances."""
        zero = np.zeros(1)
        ends = np.cumsum([len(self.models), *map(len, self.parts.values())])
        theta, *parts = np.split(b, ends[:-1])
        part = dict(zip(self.parts, parts, strict=True))
        theta, (i, j), g = theta - theta.mean(), self.at, self.judge
        c, kappa = (np.resize(part.get(name, zero), g.max() + 1)[g] for name in ("c", "kappa"))
        s = 1 + np.append(0, part.get("discrimination", zero))[g]
        bias = c * self.x
        eta = s * (theta[i] - theta[j]) + bias[0] - bias[1] + kappa
        ties = [np.full_like(eta, nu) for nu in part.get("log nu", ())]
        return np.stack([eta / 2, *ties, -eta / 2])

    def objective(self, b):
        u = self.utilities(b)
        each = np.log(np.exp(u).sum(0)) - (self.share * u).sum(0)
        return self.count @ each + self.precision @ b**2 / 2

    def gradient(self, b):
        return step(self.objective, b)

    def hessian(self, b):
        """By differences of the gradient over five points."""
        h, weights = 1e-3, {1: 8, -1: -8, 2: -1, -2: 1}
        columns = [
            sum(w * self.gradient(b + k * h * e) for k, w in weights.items()) / (12 * h)
            for e in np.eye(len(b))
        ]
        return np.stack(columns)

    def mode(self):
        b = minimize(self.objective, np.zeros(len(self.names)), jac=self.gradient).x
        for _ in range(3):
            b = b - np.linalg.solve(self.hessian(b), self.gradient(b))
        assert np.abs(self.gradient(b)).max() < 1e-9
        return b

    def estimates(self):
        """A row for each parameter: estimate, about (without the prior's pull), and error: the
        standard error of that, by leaving out prompts."""
        b = self.mode()
        hessian, u, moved = self.hessian(b), self.utilities(b), step(self.utilities, b)
        p = np.exp(u) / np.exp(u).sum(0)
        score = np.einsum("r,or,orp->rp", self.count, self.share - p, moved)
        mean = np.einsum("or,orp->rp", p, moved)
        square = np.einsum("or,orp,orq->rpq", p, moved, moved)
        information = self.count[:, None, None] * (square - mean[:, :, None] * mean[:, None])
        pushed = self.centre @ (np.eye(len(b)) + np.linalg.inv(hessian) * self.precision)
        g = self.prompts.max() + 1
        moves = [
            pushed @ np.linalg.solve(hessian - information[out].sum(0), score[out].sum(0))
            for out in (self.prompts == prompt for prompt in range(g))
        ]
        error = np.sqrt((g - 1) / g * np.square(moves).sum(0))
        numbers = {"estimate": b, "about": pushed @ b, "error": error}
        return pd.DataFrame(numbers, index=self.names)


def estimates(board):
    """A leaderboard's theta and coefficients under the names of `Plain`."""
    coefficients = board.coefficients.copy()
    coefficients.index = list(map(named, coefficients["kind"], coefficients["judge"]))
    of_slopes = coefficients["kind"] == "discrimination"
    coefficients.loc[of_slopes, ["estimate", "low", "high"]] -= 1
    models = board.models.set_index("model").rename(columns={"theta": "estimate"})
    table = pd.concat([models, coefficients])
    return table[["estimate", "low", "high", "status", "degrees"]]
