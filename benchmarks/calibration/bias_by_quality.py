"""Coverage of the intervals of `sweeps.bias_by_quality`: simulated boards of 12 models against one
baseline, verdicts graded or drawn, prompts alike or of unlike difficulty.

A difficulty that the analysis leaves out pulls all logits together, so that c and gamma of the
whole differ from those within prompts: there the truth is what a board of very many prompts gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.calibration import Cell
from jbt import runtime, stats
from sweeps import bias_by_quality
from sweeps._shared.board import WORDS, Board

MODELS, MANY, TOGETHER = 12, 40_000, 20
QUALITY = np.linspace(-3, 0.5, MODELS)
C, GAMMA = 1.2, 0.2
INTERVALS = ("c", "interaction", "c of the weakest model", "c of the strongest model")
OF_ONE = ("own_c", "own_c_sd", "rarer")


def drawn(seed: int, prompts: int, difficulty: float, graded: bool) -> tuple[np.ndarray, ...]:
    """Differences of length and shares of wins [G, K] of one board."""
    rng = np.random.default_rng(seed)
    d = rng.normal(-0.2, 0.6, (prompts, 1)) + rng.normal(0, 0.4, (prompts, MODELS))
    z = QUALITY + (C + GAMMA * QUALITY) * d + rng.normal(0, 1, (prompts, 1)) * difficulty
    p = 1 / (1 + np.exp(-(z + graded * rng.normal(0, 0.7, z.shape))))
    return d, p if graded else (rng.uniform(size=z.shape) < p) * 1.0


def board_of(d: np.ndarray) -> Board:
    """A board with these differences; its verdicts are given apart."""
    model = np.tile(np.arange(MODELS), (len(d), 1))
    return Board(
        prompts=[str(i) for i in range(len(d))],
        versions=[str(i) for i in range(MODELS + 1)],
        model=np.arange(MODELS + 1),
        families={},
        baseline=MODELS,
        first=np.full_like(model, MODELS),
        second=model,
        wins=np.zeros(d.shape),
        shown=np.ones(d.shape),
        differences={WORDS: -d},
        mean_words=np.ones(MODELS + 1),
        published=np.zeros((2, MODELS + 1)),
    )


def cells(studies: int, seed: int) -> Iterator[Cell]:
    plain = {name: jnp.asarray(value) for name, value in bias_by_quality.PLAIN.items()}

    @jax.jit
    def analysed(d: jax.Array, wins: jax.Array) -> dict[str, jax.Array]:
        board = board_of(np.zeros(d.shape))
        traced: Any = -d
        board.differences[WORDS] = traced
        found = bias_by_quality.analysed(board, wins, plain)
        return {name: found[name] for name in ("c", "interaction", "influence", *OF_ONE)}

    with runtime.precision("float64"):
        for prompts, difficulty, graded in (
            (100, 0.0, False),
            (400, 0.0, False),
            (400, 1.0, False),
            (400, 1.0, True),
        ):
            whole = analysed(*map(jnp.asarray, drawn(seed, MANY, difficulty, graded)))
            covered: dict[str, int] = dict.fromkeys(INTERVALS, 0)
            widths: dict[str, list[float]] = {name: [] for name in INTERVALS}
            for study in range(studies):
                one = drawn(seed + 1 + study, prompts, difficulty, graded)
                found = jax.device_get(analysed(*map(jnp.asarray, one)))
                for name, (truth, low, high) in intervals(found, whole, study).items():
                    if low < high:  # else withheld
                        covered[name] += bool(low <= truth <= high)
                        widths[name].append(high - low)
            for name in INTERVALS:
                verdicts = "graded" if graded else "drawn"
                yield Cell(
                    f"{name} (sweeps.bias_by_quality)",
                    f"{prompts} prompts, {verdicts}, difficulty of sd {difficulty:g}",
                    studies,
                    len(widths[name]),
                    covered[name],
                    median_width=float(np.median(widths[name] or [np.nan])),
                )


def intervals(
    found: dict[str, Any], whole: dict[str, Any], seed: int
) -> dict[str, tuple[float, float, float]]:
    """The truth, from a very large board, and the ends of each of `INTERVALS`."""
    out = {}
    for at, name in enumerate(("c", "interaction")):
        influence = found["influence"][:, at]
        draws = found[name] + len(influence) * stats.bootstrap_means(influence, seed=seed)
        out[name] = (float(whole[name]), *stats.percentiles(draws))
    for name, model in (("c of the weakest model", 0), ("c of the strongest model", MODELS - 1)):
        enough = found["rarer"][model] >= bias_by_quality.ENOUGH
        c, half = found["own_c"][model], 1.96 * found["own_c_sd"][model] if enough else np.nan
        out[name] = (float(whole["own_c"][model]), c - half, c + half)
    return out
