"""Intervals in sweeps' tables, of mean gains and of a bias by quality; and of `jbt replay`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng
from scipy.special import expit

from benchmarks.calibration import cell, cells_of, claim, parts
from jbt import own, stats
from jbt.own.replays.report import needed
from jbt.own.tables.outcomes import ALL
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import simulate
from jbt.types import Judge
from sweeps import bias_by_quality as analysis
from sweeps import crossing
from sweeps._shared.recorded import WORDS


def gains(rho: float, bias: float) -> np.ndarray:
    """[pools] top-5 recall, bias-aware minus naive, in the default scenario."""
    s = crossing.Crossing(bias=bias, rho=(rho,))
    results = simulate(s.experiment, s.conditions(), pool_ids=range(20_000))
    gain = results["bias_aware_recall"] - results["naive_recall"]
    return np.round(np.asarray(gain[:, 0], float) * s.k) / s.k


@claim("mean gains in sweeps' tables")
def few_pools(run):
    """Gains are differences of recall, multiples of 1/5 for a top five, drawn from simulated pools
    of the crossing experiment."""
    populations = {
        "gains of mean 0.22 (c* = 1, rho = 0)": gains(0.0, 1.0),
        "gains of mean 0.01 (c* = 1, rho = 0.42)": gains(0.42, 1.0),
        "gains of mean 0.34 (c* = 1.78, rho = 0)": gains(0.0, 1.78),
    }
    note = (
        "pools all alike, and fewer than 5, have none; multiples of 1/5 are far from normal in 5 "
        "pools"
    )
    for name, values in populations.items():
        for n in (3, 5, 8, 10, 29, 30, 100):
            drawn = [
                values[run.rng.integers(0, len(values), (studies, n))]
                for studies in parts(run.studies, 250)
            ]
            found = [stats.mean_interval(some, seed=run.seed)[1:] for some in drawn]
            interval = "mean gain in a sweep's table (jbt.stats.mean_interval)"
            ends = np.concatenate(found, axis=1)
            yield cell(interval, f"{name}, {n} pools", ends, values.mean(), note=note)


@claim(
    "`sweeps.bias_by_quality`",
    [
        {"prompts": 100},
        {"prompts": 400},
        {"prompts": 400, "difficulty": 1.0},
        {"prompts": 400, "difficulty": 1.0, "graded": True},
    ],
)
def bias_by_quality(run, prompts, difficulty=0.0, graded=False):
    """Boards of 12 models against one baseline. A difficulty that the analysis leaves out pulls all
    logits together, so that c and gamma of the whole differ from those within prompts: the truth is
    what a board of very many prompts gives.

    Args:
      difficulty: standard deviation of a prompt's effect, logits.
      graded: whether verdicts are probabilities, not drawn.
    """
    models = 12
    quality = np.linspace(-3, 0.5, models)

    def study(seed, prompts, of_bootstrap=0):
        rng = default_rng(seed)
        d = rng.normal(-0.2, 0.6, (prompts, 1)) + rng.normal(0, 0.4, (prompts, models))
        z = quality + (1.2 + 0.2 * quality) * d + rng.normal(0, 1, (prompts, 1)) * difficulty
        p = expit(z + graded * rng.normal(0, 0.7, z.shape))
        wins = p if graded else (rng.uniform(size=z.shape) < p) * 1.0
        found, named = jax.device_get(analysed(jnp.asarray(d), jnp.asarray(wins))), {}
        for name, influence in zip(("c", "interaction"), found["influence"].T, strict=True):
            means = len(influence) * stats.bootstrap_means(influence, seed=of_bootstrap)
            named[name] = (found[name], *stats.percentiles(found[name] + means))
        half = np.where(found["rarer"] >= analysis.ENOUGH, 1.96 * found["own_c_sd"], np.nan)
        for name, model in (("weakest", 0), ("strongest", models - 1)):
            c = found["own_c"][model]
            named[f"c of the {name} model"] = c, c - half[model], c + half[model]
        return named

    truth = {name: values[0] for name, values in study(run.seed, 40_000).items()}
    results = [study(run.seed + 1 + n, prompts, n) for n in range(run.studies)]
    kind = "graded" if graded else "drawn"
    setting = f"{prompts} prompts, {kind}, difficulty of sd {difficulty:g}"
    yield from cells_of("sweeps.bias_by_quality", setting, results, truth)


@jax.jit
def analysed(d: jax.Array, wins: jax.Array) -> dict[str, jax.Array]:
    """The sweep's analysis of all models, against one baseline on every prompt.

    Args:
      d: [prompts, models] differences of length.
      wins: [prompts, models] what the model won.
    """
    prompts, models = d.shape
    model = np.tile(np.arange(models), (prompts, 1))
    board: Any = SimpleNamespace(  # what the analysis reads of a board
        prompts=range(prompts),
        versions=range(models + 1),
        second=model,
        shown=np.ones(model.shape),
        differences={WORDS: -d},
    )
    return analysis.analysed(board, wins, jnp.zeros(()))  # all models


def populations(rng: Generator) -> dict[str, np.ndarray]:
    """Recall of a million pools each: 0 or 1; means over runs, or one run, whose chances have a
    distribution; some near 1."""
    n = 1_000_000
    high, rare = rng.beta(8, 2, n), rng.beta(2, 0.1, n)
    return {
        "0 or 1, mean 0.5": (rng.random(n) < 0.5) * 1.0,
        "0 or 1, mean 0.98": (rng.random(n) < 0.98) * 1.0,
        "20 runs of k = 1, chances beta(8, 2)": rng.binomial(20, high) / 20,
        "one run of k = 5, chances beta(2, 0.1)": rng.binomial(5, rare) / 5,
        "1, seldom 0.95, rarely 0": rng.choice([1.0, 0.95, 0.0], n, p=[0.8, 0.15, 0.05]),
    }


RULES = ["lucb", "random"]


def replayed(seed: int) -> pd.DataFrame:
    """Recall, a mean over 20 runs, by budget (rows), and by rule and pool: a replay of 200 pools of
    five contents, every ordered pair judged once."""

    @jax.jit
    @jax.vmap
    def wins(key):
        quality, answers = jax.random.split(key)
        pool = pools.gaussian(quality, 5, sd=1.2)
        oracle = judges.frozen_draw(answers, pool, Judge.of([0.0]))
        return judges.reveal(oracle, pairs.every_pair(pool)).wins

    won = np.asarray(wins(jax.random.split(jax.random.key(seed), 200)))
    pool, first, second = np.nonzero(np.broadcast_to(1 - np.eye(5), won.shape))
    sides = {"pool": [f"q{p}" for p in pool], "first": first, "second": second}
    tables = own.read(pd.DataFrame({**sides, "p_first": won[pool, first, second]}))
    table = own.replay(tables, own.Batch.of(tables), rules=RULES, model="naive").table
    table = table[(table["scored_by"] == "full_data") & (table["pool"] != ALL)]
    curves = table.pivot(index="budget", columns=["rule", "pool"], values="recall")
    return curves.sort_index(axis=1)


def curves_of(recall: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """[3, ..., budgets] mean recall with its interval, which is 1 after all verdicts."""
    return np.where(budgets >= 20, 1.0, np.stack(stats.bounded_interval(recall)))


@claim("`jbt replay`")
def replay(run):
    """The bands of `jbt replay`, and the interval for the verdicts needed; the truth is that of the
    population of pools. Recall is bounded, and a multiple of 1 / k."""

    note = "at least 95 %: the interval adds one pool at 0 and one at 1; of fewer than 5 is none"
    more = {"one_sided": True, "note": note}
    rng, sizes = run.rng, (3, 5, 8, 10, 30, 100)
    curves, recalls = replayed(run.seed), populations(rng)
    for rule in RULES:
        for b in (3, 6, 9, 12, 15):
            recalls[f"replay, {rule}, {b} of 20 verdicts"] = curves[rule].loc[b].to_numpy()
    for name, values in recalls.items():
        for n in sizes:
            drawn = values[rng.integers(0, len(values), (run.studies, n))]
            ends = stats.bounded_interval(drawn)[1:]
            interval = "jbt replay: recall over pools"
            yield cell(interval, f"{name}, {n} pools", ends, values.mean(), **more)
    for rule in RULES:
        recall, budgets = curves[rule].to_numpy(), curves.index.to_numpy()
        for target in (0.8, 0.9):
            truth = needed(curves_of(recall, budgets), budgets, target)[0]
            for n in sizes:
                drawn = recall[:, rng.integers(0, recall.shape[1], (run.studies, n))]
                found = needed(curves_of(drawn.transpose(1, 0, 2), budgets), budgets, target)
                setting = f"{rule}, target {target:g}, {n} pools"
                yield cell("jbt replay: verdicts needed", setting, found[1:], truth, **more)
