"""Coverage of the bands of `jbt replay` and of the interval for the verdicts needed; the truth is
that of the population of pools.

Recall is bounded, and a multiple of 1 / k. There are three kinds of populations: recall that is 0
or 1 in a pool; means over 20 runs whose chances have many distributions, some near 1; and a replay
of simulated pools (five contents, every ordered pair judged once), in which every rule and budget
is a population.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from benchmarks.calibration import Cell
from jbt import own, stats
from jbt.own.replays.report import needed
from jbt.own.tables.verdicts import ALL
from jbt.simulation import judges, pairs, pools
from jbt.types import Judge

SIZES = (3, 5, 8, 10, 30, 100)
POOLS = 200
"""Replayed (count)."""
TARGETS = (0.8, 0.9)
RULES = ["lucb", "random"]
BUDGETS = (3, 6, 9, 12, 15)
FEW = "fewer than 5 pools have no interval, with the reason"
WIDE = "at least 95 %: the interval adds one pool at 0 and one at 1"


def populations(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Recall of a million pools each."""
    n = 1_000_000
    for p in (0.5, 0.8, 0.9, 0.95, 0.98):
        yield f"0 or 1, mean {p:g}", (rng.random(n) < p).astype(float)
    for a, b in ((8, 2), (0.8, 0.2), (2, 0.1), (19, 1)):
        chance = rng.beta(a, b, n)
        yield f"20 runs of k = 1, chances beta({a:g}, {b:g})", rng.binomial(20, chance) / 20
        yield f"one run of k = 5, chances beta({a:g}, {b:g})", rng.binomial(5, chance) / 5
    u = rng.random(n)
    yield "1, seldom 0.95, rarely 0", np.select([u < 0.8, u < 0.95], [1.0, 0.95], 0.0)
    yield "1 or 0.95, rarely 0.3", np.select([u < 0.6, u < 0.98], [1.0, 0.95], 0.3)


def verdicts(seed: int) -> pd.DataFrame:
    """Every ordered pair of five contents judged once, in each of `POOLS` pools."""

    def one(key: jax.Array) -> jax.Array:
        quality, answers = jax.random.split(key)
        pool = pools.gaussian(quality, 5, sd=1.2)
        oracle = judges.frozen_draw(answers, pool, Judge.of([0.0]))
        return judges.reveal(oracle, pairs.every_pair(pool)).wins

    wins = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), POOLS)))
    i, j = np.nonzero(1 - np.eye(5))
    names = np.array(list("abcde"))
    return pd.DataFrame(
        {
            "pool": np.repeat([f"q{p}" for p in range(POOLS)], len(i)),
            "first": np.tile(names[i], POOLS),
            "second": np.tile(names[j], POOLS),
            "winner": np.where(wins[:, i, j] > 0.5, "first", "second").ravel(),
        }
    )


def replayed(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rule -> recall [budgets, pools], a mean over 20 runs; and the budgets."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdicts.csv"
        verdicts(seed).to_csv(path, index=False)
        tables = own.read(path)
    table = own.replay(tables, own.Batch.of(tables), rules=RULES, model="naive").table
    table = table[(table["scored_by"] == "full_data") & (table["pool"] != ALL)]
    curves = {
        str(rule): rows.pivot(index="budget", columns="pool", values="recall")
        for rule, rows in table.groupby("rule")
    }
    return {k: v.to_numpy() for k, v in curves.items()}, curves[RULES[0]].index.to_numpy()


def curves_of(recall: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """[3, ..., budgets] mean recall with its interval, which is 1 after all verdicts."""
    return np.where(budgets >= 20, 1.0, np.stack(stats.bounded_interval(recall)))


def cell(interval: str, setting: str, low: np.ndarray, high: np.ndarray, truth: float) -> Cell:
    """The coverage of intervals low..high [studies]."""
    defined = np.isfinite(low)
    covers = (low <= truth + 1e-9) & (high >= truth - 1e-9)
    width = (high - low)[defined]
    return Cell(
        interval,
        setting,
        len(low),
        int(defined.sum()),
        int(covers[defined].sum()),
        one_sided=True,
        median_width=float(np.median(width)) if len(width) else np.nan,
        note=WIDE if defined.any() else FEW,
    )


def cells(studies: int, seed: int) -> Iterator[Cell]:
    rng = np.random.default_rng(seed)
    curves, budgets = replayed(seed)
    recalls = dict(populations(rng))
    for rule, recall in curves.items():
        for b in BUDGETS:
            recalls[f"replay, {rule}, {b} of 20 verdicts"] = recall[budgets == b][0]
    for name, values in recalls.items():
        for n in SIZES:
            drawn = values[rng.integers(0, len(values), (studies, n))]
            _, low, high = stats.bounded_interval(drawn)
            setting = f"{name}, {n} pools"
            yield cell("jbt replay: recall over pools", setting, low, high, float(values.mean()))
    for rule, recall in curves.items():
        for target in TARGETS:
            truth = needed(curves_of(recall, budgets), budgets, target)[0]
            for n in SIZES:
                drawn = recall[:, rng.integers(0, recall.shape[1], (min(studies, 2000), n))]
                drawn_curves = curves_of(drawn.transpose(1, 0, 2), budgets)
                _, low, high = needed(drawn_curves, budgets, target)
                setting = f"{rule}, target {target:g}, {n} pools"
                yield cell("jbt replay: verdicts needed", setting, low, high, float(truth))
