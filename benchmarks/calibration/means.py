"""Intervals in sweeps' tables, of mean gains and of a bias by quality; and of `jbt replay`."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.random import default_rng
from scipy.special import expit

from benchmarks.calibration import (
    cell,
    cells_of,
    claim,
    grid,
    ordered_pairs,
    parts,
    tables_of,
    verdicts,
)
from jbt import own, stats
from jbt.own.replays.report import needed
from jbt.own.tables.outcomes import ALL
from jbt.simulation.simulate import simulate
from sweeps import bias_by_quality as analysis
from sweeps import crossing
from sweeps._shared.recorded import WORDS


@functools.cache
def gains(rho: float, bias: float) -> np.ndarray:
    """[pools] top-5 recall, bias-aware minus naive, in the default scenario."""
    s = crossing.Crossing(bias=bias, rho=(rho,))
    results = simulate(s.experiment, s.conditions(), pool_ids=range(20_000))
    gain = results["bias_aware_recall"] - results["naive_recall"]
    return np.round(np.asarray(gain[:, 0], float) * s.k) / s.k


@claim(
    "mean gains in sweeps' tables",
    grid(
        {"bias": 1.0, "rho": 0.0},
        {"bias": 1.0, "rho": 0.42},
        {"bias": 1.78, "rho": 0.0},
        pools=[3, 5, 8, 10, 29, 30, 100],
    ),
)
def few_pools(rng, studies, bias, rho, pools):
    """Gains are differences of recall, multiples of 1/5 for a top five, drawn from simulated pools
    of the crossing experiment. Pools all alike, and fewer than 5, have no interval."""
    values, ends = gains(rho, bias), []
    for n in parts(studies, 250):
        drawn = values[rng.integers(0, len(values), (n, pools))]
        ends.append(stats.mean_interval(drawn, seed=0)[1:])
    yield cell("mean gain", np.concatenate(ends, axis=1), values.mean())


@claim(
    "`sweeps.bias_by_quality`",
    grid(prompts=[100, 400])
    + grid({"difficulty": 1.0}, {"difficulty": 1.0, "graded": True}, prompts=400),
)
def bias_by_quality(rng, studies, prompts, difficulty=0.0, graded=False):
    """Boards of 12 models against one baseline. A difficulty that the analysis leaves out pulls all
    logits together, so that c and gamma of the whole differ from those within prompts: the truth is
    what a board of very many prompts gives.

    Args:
      difficulty: standard deviation of a prompt's effect, logits.
      graded: whether verdicts are probabilities, not drawn.
    """
    models = 12
    quality = np.linspace(-3, 0.5, models)

    def study(prompts):
        d = rng.normal(-0.2, 0.6, (prompts, 1)) + rng.normal(0, 0.4, (prompts, models))
        z = quality + (1.2 + 0.2 * quality) * d + rng.normal(0, 1, (prompts, 1)) * difficulty
        p = expit(z + graded * rng.normal(0, 0.7, z.shape))
        wins = p if graded else (rng.uniform(size=z.shape) < p) * 1.0
        found, named = jax.device_get(analysed(jnp.asarray(d), jnp.asarray(wins))), {}
        for name, influence in zip(("c", "interaction"), found["influence"].T, strict=True):
            means = len(influence) * stats.bootstrap_means(influence, seed=0)
            named[name] = (found[name], *stats.percentiles(found[name] + means))
        half = np.where(found["rarer"] >= analysis.ENOUGH, 1.96 * found["own_c_sd"], np.nan)
        for name, model in (("weakest", 0), ("strongest", models - 1)):
            c = found["own_c"][model]
            named[f"c of the {name} model"] = c, c - half[model], c + half[model]
        return named

    truth = {name: values[0] for name, values in study(40_000).items()}
    yield from cells_of([study(prompts) for _ in range(studies)], truth)


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


RECALLS = {
    "0 or 1, mean 0.98": (0.98, lambda rng, size: rng.random(size) < 0.98),
    "20 runs of k = 1, chances beta(8, 2)": (
        0.8,
        lambda rng, size: rng.binomial(20, rng.beta(8, 2, size)) / 20,
    ),
    "one run of k = 5, chances beta(2, 0.1)": (
        2 / 2.1,
        lambda rng, size: rng.binomial(5, rng.beta(2, 0.1, size)) / 5,
    ),
}
"""Mean and draws of the recall of pools: 0 or 1; means over runs, or one run, whose chances have a
distribution."""
SIZES = [3, 5, 8, 10, 30, 100]
"""Pools of a study (count)."""


@claim("`jbt replay`: recall", grid(recall=list(RECALLS), pools=SIZES))
def replay(rng, studies, recall, pools):
    """The bands of `jbt replay`. Recall is bounded, and a multiple of 1 / k. The interval adds one
    pool at 0 and one at 1, so that it covers 95 % or more; of fewer than 5 pools is none."""
    mean, draw = RECALLS[recall]
    ends = stats.bounded_interval(1.0 * draw(rng, (studies, pools)))[1:]
    yield cell("recall over pools", ends, mean, one_sided=True)


RULES = ["lucb", "random"]


@functools.cache
def replayed() -> pd.DataFrame:
    """Recall, a mean over 20 runs, by budget (rows), and by rule and pool: a replay of 200 pools of
    five contents, every ordered pair judged once."""
    rng, sides = default_rng(0), ordered_pairs(5)
    quality = 1.2 * rng.normal(size=(200, 5))
    tables = tables_of(verdicts(rng, quality, sides)[None], sides, quality)
    table = own.replay(tables, own.Batch.of(tables), rules=RULES, model="naive").table
    table = table[(table["scored_by"] == "full_data") & (table["pool"] != ALL)]
    curves = table.pivot(index="budget", columns=["rule", "pool"], values="recall")
    return curves.sort_index(axis=1)


def curves_of(recall: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """[3, ..., budgets] mean recall with its interval, which is 1 after all verdicts."""
    return np.where(budgets >= 20, 1.0, np.stack(stats.bounded_interval(recall)))


@claim("`jbt replay`: verdicts needed", grid(rule=RULES, target=[0.8, 0.9], pools=SIZES))
def replay_needed(rng, studies, rule, target, pools):
    """The interval for the verdicts needed; the truth is that of 200 pools, of which studies are
    drawn."""
    recall, budgets = replayed()[rule].to_numpy(), replayed().index.to_numpy()
    truth = needed(curves_of(recall, budgets), budgets, target)[0]
    drawn = recall[:, rng.integers(0, recall.shape[1], (studies, pools))]
    found = needed(curves_of(drawn.transpose(1, 0, 2), budgets), budgets, target)
    yield cell("verdicts needed", found[1:], truth, one_sided=True)
