"""Intervals of `jbt leaderboard --joint --judge-aware`: theta and discriminations.

Four models answer every prompt, and two judges see all pairs in both orders: one has
discrimination 1, the other less; each pays for length. Without a trusted judge, theta is in the
first judge's logits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.calibration import Cell
from jbt import own, runtime
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.growth import fit_discriminations
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.types import Status

THETA = np.array([1.0, 0.3, -0.4, -0.9])
MODELS = "ABCD"
MOST = 200
"""Studies of a setting: each takes half a second."""


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    prompts: int
    second: float
    """Discrimination of the second judge."""
    sd: float = 0.0
    """Standard deviation of an answer's quality about its model's, logits."""

    @property
    def name(self) -> str:
        """The setting in words."""
        apart = f", answers of sd {self.sd:g}" * (self.sd > 0)
        return f"{self.prompts} prompts, discriminations 1 and {self.second:g}{apart}"

    def draw(self, rng: np.random.Generator) -> own.Tables:
        """One study's tables."""
        x = rng.normal(size=(self.prompts, len(MODELS)))
        quality = THETA + self.sd * rng.normal(size=x.shape)
        first, second = np.array(list(itertools.permutations(range(len(MODELS)), 2))).T
        parts = []
        for judge, s, c in (("a", 1.0, 0.5), ("b", self.second, 0.8)):
            phi = s * quality + c * x
            won = rng.random((self.prompts, len(first))) < expit(
                phi[:, first] - phi[:, second] + 0.2
            )
            prompt, pair = np.indices(won.shape).reshape(2, -1)
            parts.append(
                pd.DataFrame(
                    {
                        "pool": [f"p{p}" for p in prompt],
                        "first": [MODELS[i] for i in first[pair]],
                        "second": [MODELS[i] for i in second[pair]],
                        "p_first": won.ravel().astype(float),
                        "judge": judge,
                    }
                )
            )
        items = pd.DataFrame(
            {
                "pool": np.repeat([f"p{p}" for p in range(self.prompts)], len(MODELS)),
                "item": list(MODELS) * self.prompts,
                "words": x.ravel(),
            }
        )
        return own.read(pd.concat(parts), items, covariates=["words"])


SETTINGS = (
    Setting(30, 0.3),
    Setting(30, 2.0),
    Setting(100, 0.3),
    Setting(30, 0.3, sd=0.5),
)


def intervals_of(tables: own.Tables) -> Intervals | None:
    """The command's intervals; None where it prints none."""
    setup = Setup.of(tables, Settings(covariates=("words",), standardise=False))
    judges = Judges.of(tables)
    fit = fit_discriminations(setup.together(judges).fit(), judges)
    return intervals(fit) if fit.status == Status.CONVERGED else None


def cells(studies: int, seed: int) -> Iterator[Cell]:
    """Cells of the best model's theta and of the second judge's discrimination."""
    with runtime.precision("float64"):
        for setting in SETTINGS:
            rng, n = np.random.default_rng([seed, setting.prompts]), min(studies, MOST)
            results = [r for _ in range(n) if (r := intervals_of(setting.draw(rng)))]
            slope = len(MODELS) + 4  # after theta, c and kappa of both judges
            # Answers with a quality of their own draw all logits towards 0, which is no error of s.
            places = {"discrimination": (slope, setting.second - 1)}
            if not setting.sd:
                places["theta, best of 4"] = (0, THETA[0] - THETA.mean())
            for name, (place, truth) in places.items():
                ends = [r.parameters.loc[place, ["low", "high"]] for r in results]
                low, high = np.array(ends, float).reshape(-1, 2).T
                printed = np.isfinite(low)
                yield Cell(
                    f"{name} (jbt leaderboard --joint --judge-aware)",
                    setting.name,
                    n,
                    int(printed.sum()),
                    int(((low <= truth) & (truth <= high)).sum()),
                    median_width=float(np.median((high - low)[printed])),
                )
