"""Intervals of `jbt leaderboard --ties davidson`.

Six models answer every prompt, which has 20 verdicts on random ordered pairs of them, drawn from
Davidson's model. Where that does not hold (c grows with quality, or quality, c and log nu differ
between prompts), the truth is the estimate from very many prompts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from benchmarks.calibration import Cell
from benchmarks.calibration.leaderboard import KAPPA, MODELS, PRIOR, C, normal_scores
from jbt import runtime
from jbt.own.leaderboards.davidson import DavidsonProblem
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.problem import Problem, places
from jbt.types import Prior, Rows, Variant

MOST = 400
"""Studies of a setting: each takes a fit and all its intervals, some 30 ms."""

VERDICTS, PLENTY = 20, 10_000
"""Of a prompt; prompts behind the truth (counts)."""


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    prompts: int
    log_nu: float = 0.0
    deaf: bool = False
    """Whether the judge does not know quality."""
    slope: float = 0.0
    """Change of c with a logit of quality."""
    apart: float = 0.0
    """Standard deviation of c, log nu and a model's quality between prompts."""

    @property
    def name(self) -> str:
        """The setting in words."""
        kind = "a judge deaf to quality" if self.deaf else "a biased judge"
        parts = [f"{self.prompts} prompts, {kind}, log nu {self.log_nu:g}"]
        parts += [f"c + {self.slope:g} theta"] * (self.slope != 0)
        return ", ".join(parts + [f"prompts apart by sd {self.apart:g}"] * (self.apart > 0))

    @property
    def theta(self) -> np.ndarray:
        """[models] best first, mean 0."""
        return np.zeros(MODELS) if self.deaf else normal_scores()

    def draw(self, rng: np.random.Generator, prompts: int) -> Problem:
        """One study."""
        x = 0.8 * normal_scores()[[2, 5, 0, 4, 1, 3]] + rng.normal(size=(prompts, MODELS))
        c, log_nu = np.array([[C], [self.log_nu]])[:, :, None] + self.apart * rng.normal(
            size=(2, prompts, 1)
        )
        quality = self.theta + self.apart * rng.normal(size=x.shape)
        apparent = quality + (c + self.slope * self.theta) * x
        prompt = np.repeat(np.arange(prompts), VERDICTS)
        first = rng.integers(0, MODELS, len(prompt))
        second = (first + rng.integers(1, MODELS, len(prompt))) % MODELS
        eta = apparent[prompt, first] - apparent[prompt, second] + KAPPA
        weights = np.exp(np.stack([-eta / 2, log_nu[prompt, 0], eta / 2])).cumsum(0)
        share = (rng.random(len(prompt)) * weights[-1] > weights[:-1]).sum(0) / 2
        rows = Rows.build(first, second, (x[prompt, first] - x[prompt, second])[:, None], share)
        variant = Variant(jnp.ones(1, bool), jnp.asarray(True))
        at = places(theta=(MODELS,), c=(1, 1), kappa=(1,))
        return DavidsonProblem.of_halves(Problem.of(rows, variant, PRIOR, at, prompt))

    def truth(self) -> np.ndarray:
        """[models + 3] theta, c, log nu, kappa from very many prompts."""
        if not (self.slope or self.apart):
            return np.r_[self.theta, C, self.log_nu, KAPPA]
        problem = self.draw(np.random.default_rng(0), PLENTY)
        problem = dataclasses.replace(problem, prior=Prior(1e-6, 1e-6))
        return problem.fit().beta


SETTINGS = (
    *(Setting(g, log_nu) for g in (20, 100) for log_nu in (-2.5, 0.0, 1.5)),
    *(Setting(g, deaf=True) for g in (20, 100)),
    *(Setting(g, slope=0.4) for g in (20, 100)),
    *(Setting(g, apart=0.7) for g in (20, 100)),
)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n = min(studies, MOST)
    with runtime.precision("float64"):
        for number, setting in enumerate(SETTINGS):
            rng = np.random.default_rng([seed, number])
            results = []
            for _ in range(n):
                results.append(intervals(setting.draw(rng, setting.prompts).fit()))
            yield from _cells(setting, results)


def _cells(setting: Setting, results: list[Intervals]) -> Iterator[Cell]:
    truth, middle, command = setting.truth(), 2, "jbt leaderboard --ties davidson"
    kinds = {"c": MODELS, "log nu": MODELS + 1, "kappa": MODELS + 2, "theta, best of 6": 0}
    for name, p in kinds.items():
        low, high = np.array([s.parameters.loc[p, ["low", "high"]] for s in results], float).T
        printed = np.isfinite(low)
        yield Cell(
            f"{name} ({command})",
            setting.name,
            len(results),
            int(printed.sum()),
            int(((low <= truth[p]) & (truth[p] <= high)).sum()),
            median_width=float(np.median((high - low)[printed])) if printed.any() else np.nan,
        )
    if setting.deaf:  # all ranks are equal
        return
    low = np.array([1 + s.better[middle].sum() for s in results])
    high = np.array([MODELS - s.better[:, middle].sum() for s in results])
    yield Cell(
        f"rank, third of 6 ({command})",
        setting.name,
        len(results),
        len(results),
        int(((low <= middle + 1) & (middle + 1 <= high)).sum()),
        one_sided=True,
        median_width=float(np.median(high - low)),
    )
