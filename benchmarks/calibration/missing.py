"""Missing verdicts: the test of `jbt doctor`, and both ends of `--missing bounds`."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.random import Generator

from benchmarks.calibration import (
    cell,
    claim,
    grid,
    kept,
    ordered_pairs,
    parts,
    tables_of,
    verdicts,
)
from jbt import own
from jbt.own.examine.doctor import ALPHA
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.own.tables import missing

MODELS, C, KAPPA = 4, 0.8, 0.3

LOSSES = {
    "at random": "a tenth is missing at random",
    "by prompt": "some prompts miss most verdicts",
    "by answer": "some answers miss most verdicts",
    "few": "one in a hundred is missing",
    "the longer lost": "a third is missing of those that the longer lost",
    "the longer won": "a third is missing of those that the longer won",
}
"""Which verdicts are missing, in words."""

ALIKE = ["at random", "by prompt", "by answer", "few"]
"""Losses that depend on neither the lengths, nor the verdict: the doctor finds nothing."""


def lost(
    rng: Generator, kind: str, x: np.ndarray, pairs: tuple[np.ndarray, ...], share: np.ndarray
) -> np.ndarray:
    """[studies, prompts, pairs] whether each verdict is missing.

    Args:
      x: [studies, prompts, answers] lengths.
      pairs: first and second answer of each pair.
      share: [studies, prompts, pairs] whether the first won.
    """
    first, second = (x[..., side] for side in pairs)
    some = rng.random(x.shape) < 0.15
    chance = {
        "by prompt": 0.05 + 0.6 * (rng.random((*x.shape[:2], 1)) < 0.1),
        "by answer": 0.02 + 0.6 * (some[..., pairs[0]] | some[..., pairs[1]]),
        "few": 0.01,
        "the longer lost": ((first > second) != (share > 0)) / 3,
        "the longer won": ((first > second) == (share > 0)) / 3,
    }.get(kind, 0.1)
    return rng.random(share.shape) < chance


def drawn(rng: Generator, studies: int, prompts: int, kind: str, *, twice: bool) -> own.Tables:
    """Tables in which each study is a judge of its own: all ordered pairs of answers of each
    prompt, without those that are missing.

    Args:
      kind: of `LOSSES`.
      twice: each prompt has answers of its own, and the first two are one answer at two lengths;
        else four models answer every prompt.
    """
    n = MODELS + twice
    content, pairs = np.maximum(np.arange(n) - twice, 0), ordered_pairs(n)
    x = np.tile(rng.normal(size=(prompts, n)), (studies, 1, 1))
    theta = np.linspace(1, -1, MODELS)
    if twice:
        theta = rng.normal(size=(studies, prompts, MODELS))
    share = verdicts(rng, theta[..., content] + C * x, pairs, KAPPA)
    share[lost(rng, kind, x, pairs, share)] = np.nan
    return tables_of(share, pairs, x[0], content)


@claim(
    "`jbt doctor`: missing verdicts",
    grid(prompts=[20, 100], kind=ALIKE),
    name="missing",
)
def test_of_missing_verdicts(run, prompts, kind):
    """How often the test finds nothing, verdicts of a prompt or on an answer being missing
    together."""
    p = [found(drawn(run.rng, n, prompts, kind, twice=False)) for n in parts(run.studies, 20)]
    p = np.concatenate(p)
    setting = f"{prompts} prompts of 12 verdicts, {LOSSES[kind]}"
    held = np.where(np.isnan(p), np.nan, p >= ALPHA)
    yield kept("no false alarm (`jbt doctor`)", setting, held, one_sided=True)


def found(tables: own.Tables) -> list[float]:
    """p of each study, as the doctor has it; NaN where nothing is tested."""
    p = []
    for study in range(len(tables.judges)):
        verdicts, lost = (v[v["judge"] == study] for v in (tables.verdicts, tables.lost))
        one = dataclasses.replace(tables, verdicts=verdicts, lost=lost)
        tests = missing.losses(one, tables.items[["words"]].to_numpy(), ["words"])
        p.append(min(1.0, len(tests) * tests["p"].min()) if len(tests) else np.nan)
    return p


@claim(
    "`--missing bounds`",
    grid(twice=[False, True], kind=["at random", "the longer lost", "the longer won"]),
    name="missing_bounds",
)
def bounds(run, twice, kind):
    """c between the outer ends of its two intervals: of the one with every missing verdict won by
    the shorter, and of the one with all won by the longer. 60 prompts."""
    ends, dropped = [], []
    for n in parts(run.studies, 50):
        tables = drawn(run.rng, n, 60, kind, twice=twice)
        dropped.append(intervals_of(tables, twice))
        filled = np.array([intervals_of(t, twice) for *_, t in missing.fills(tables, ["words"])])
        ends.append(np.stack([filled[..., 0].min(0), filled[..., 1].max(0)], 1))
    command = "jbt fit" if twice else "jbt leaderboard"
    setting = f"60 prompts, {LOSSES[kind]}"
    interval = f"c between both ends (`{command} --missing bounds`)"
    yield cell(interval, setting, np.concatenate(ends).T, C, one_sided=True)
    interval = f"c without the missing verdicts (`{command}`), for comparison"
    miss = "missing verdicts are left out"
    yield cell(interval, setting, np.concatenate(dropped).T, C, miss=miss)


def intervals_of(tables: own.Tables, within: bool) -> np.ndarray:
    """[judges, 2] the interval of c that `jbt fit` prints, or `jbt leaderboard`."""
    if within:
        c = own.fit_judges(own.Batch.of(tables, ["words"], standardise=False)).of("c")
        return c[["low", "high"]].to_numpy(float)
    setup = Setup.of(tables, Settings(covariates=("words",), standardise=False))
    fits = (setup.problem(judge).fit() for judge in range(len(tables.judges)))
    return np.array([intervals(f).parameters.loc[MODELS, ["low", "high"]] for f in fits], float)
