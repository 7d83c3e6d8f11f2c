"""`jbt fit`: the intervals of a pool's theta, kappa and c."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from benchmarks.calibration import Cell
from jbt import own

KAPPA, C = 0.3, 1.0

NOTES = {
    "theta": "the report says that these cover less than 95 %",
    "kappa": "0.3 lies near the mean of the prior, 0",
}

SDS = (0.4, 1.0, 2.5)
"""Standard deviation of quality."""

POOLS = ((1, 6), (1, 12), (12, 5))
"""Pools of a judge, from which its sd of quality is estimated, and contents of each."""

MOST = 100
"""Studies of theta and kappa: each has a judge of its own, and all its contents count."""


def cells(studies: int, seed: int) -> Iterator[Cell]:
    for number, (sd, (pools, contents)) in enumerate(itertools.product(SDS, POOLS)):
        rng = np.random.default_rng([seed, number])
        drawn = f"sd {sd:g}, every ordered pair once"
        judges = [_fits(rng, pools, contents, sd, 0.0, 0) for _ in range(min(studies, MOST))]
        fits = list(itertools.chain(*judges))
        setting = f"{pools} pools of {contents} contents, {drawn}, no covariate"
        yield _cell("theta of a pool", setting, fits, ("theta", "theta_low", "theta_high"))
        yield _cell("kappa of a pool", setting, fits, ("kappa", "kappa_low", "kappa_high"))
    for number, (sd, corr) in enumerate(itertools.product(SDS, (0.0, 0.8))):
        rng = np.random.default_rng([seed, number, 1])
        setting = f"8 contents, 4 rendered twice, sd {sd:g}, corr {corr:g}, every ordered pair once"
        rendered = _fits(rng, studies, 8, sd, corr, 4)
        yield _cell("c of a pool", setting, rendered, ("c", "c_low", "c_high"))


def _fits(
    rng: np.random.Generator, pools: int, n: int, sd: float, corr: float, twice: int
) -> list[tuple[own.PoolFit, dict[str, np.ndarray]]]:
    """Pools of n contents and one judge, fitted together, each with its truths."""
    truths, items, verdicts = [], [], []
    for pool in range(pools):
        base = rng.normal(size=n)
        quality = sd * (corr * base + np.sqrt(1 - corr**2) * rng.normal(size=n))
        content = np.r_[np.arange(n), np.arange(twice)]
        x = np.r_[base, base[:twice] + rng.normal(size=twice)]
        phi = quality[content] + (C if twice else 0.0) * x
        items += [(pool, i, content[i], x[i]) for i in range(len(x))]
        for i, j in itertools.permutations(range(len(x)), 2):
            first = rng.random() < 1 / (1 + np.exp(-(phi[i] - phi[j] + KAPPA)))
            verdicts.append((pool, i, j, "first" if first else "second"))
        theta = (quality - quality.mean())[content]
        truths.append({"theta": theta, "kappa": np.array([KAPPA]), "c": np.array([C])})
    with TemporaryDirectory() as folder:
        names = Path(folder, "verdicts.csv"), Path(folder, "items.csv")
        for rows, columns, name in zip(
            (verdicts, items),
            (["pool", "first", "second", "winner"], ["pool", "item", "content", "x"]),
            names,
            strict=True,
        ):
            pd.DataFrame(rows, columns=pd.Index(columns)).to_csv(name, index=False)
        batch = own.load(*names, ["x"] if twice else [], standardise=False)
    return list(zip(own.fit(batch), truths, strict=True))


def _cell(
    interval: str,
    setting: str,
    fits: list[tuple[own.PoolFit, dict[str, np.ndarray]]],
    fields: tuple[str, str, str],
) -> Cell:
    name, *ends = fields
    truth = np.stack([np.atleast_1d(t[name]) for _, t in fits])
    low, high = (np.stack([np.atleast_1d(getattr(f, end)) for f, _ in fits]) for end in ends)
    printed = np.isfinite(low) & np.isfinite(high)
    covered = ((low <= truth) & (truth <= high))[printed]
    width = float(np.median((high - low)[printed])) if printed.any() else np.nan
    n = (truth.size, int(printed.sum()), int(covered.sum()))
    return Cell(
        f"`jbt fit`: {interval}",
        setting,
        *n,
        median_width=width,
        note=NOTES.get(name, ""),
        may_miss=name in NOTES,
    )
