"""Intervals of `jbt leaderboard` about a bias that changes with quality: c of the stronger and of
the weaker half of the models, gamma, and with --interaction c, theta and ranks.

Every model answers every prompt; a prompt has verdicts on random ordered pairs, or on each model
against the first. x is an answer's own part plus one of its prompt, and the judge's bias is (c +
gamma theta) x about the mean of x over all prompts: the fit takes x about the prompt's. Prompts may
differ in c, and in difficulty: the difference between two qualities is multiplied by a lognormal
number, or against the first model the logit has an effect of the prompt. Where the fit is not the
truth, its target is the estimate from very many prompts, with halves by the true qualities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import expit

from benchmarks.calibration import Cell
from jbt import runtime
from jbt.own.leaderboards.growth import bias_by_quality
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.problem import Problem, about_the_mean, places
from jbt.types import Prior, Rows, Variant

MOST, MANY = 300, 20_000
"""Studies of a setting, and prompts of the board that is its target (counts)."""
C, KAPPA = 0.6, 0.3
COMMAND = "jbt leaderboard, jbt identify --merge-pools"


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    gamma: float
    prompts: int = 80
    models: int = 6
    sd: float = 1.0
    """Standard deviation of quality, logits."""
    verdicts: int = 20
    """On a prompt (count)."""
    sd_c: float = 0.0
    """Standard deviation of c between prompts."""
    sd_x: float = 0.5
    """Standard deviation of a prompt's part of x."""
    apart: float = 0.0
    """Standard deviation of the log of the factor of qualities on a prompt."""
    star: float | None = None
    """Standard deviation of a prompt's effect where all are compared with the first model."""

    @property
    def name(self) -> str:
        """The setting in words."""
        parts = [f"gamma {self.gamma:g}", f"{self.prompts} prompts, {self.models} models"]
        parts += ["one verdict on a prompt"] * (self.verdicts == 1)
        parts += [f"sd of quality {self.sd:g}"] * (self.sd != 1)
        parts += [f"sd of c {self.sd_c:g} between prompts"] * (self.sd_c > 0)
        parts += [f"x of prompts apart by sd {self.sd_x:g}"] * (self.sd_x != 0.5)
        parts += [f"prompts differ in difficulty (sd {self.apart:g} of its log)"] * (self.apart > 0)
        if self.star is not None:
            parts.append(f"all against one, difficulty of prompts sd {self.star:g}")
        return ", ".join(parts)

    @property
    def theta(self) -> np.ndarray:
        """[models] quality, best first, mean 0."""
        at = -stats.norm.ppf((np.arange(self.models) + 0.5) / self.models)
        return self.sd * at / at.std()

    def draw(self, rng: np.random.Generator, prompts: int) -> Problem:
        """One study's problem."""
        n, m = self.verdicts, self.models
        x = self.sd_x * rng.normal(size=(prompts, 1)) + rng.normal(size=(prompts, m))
        c = C + self.sd_c * rng.normal(size=(prompts, 1))
        phi = self.theta * np.exp(self.apart * rng.normal(size=(prompts, 1)))
        phi = phi + (c + self.gamma * self.theta) * x
        prompt = np.repeat(np.arange(prompts), n)
        second = rng.integers(0, m, len(prompt))
        first = (second + rng.integers(1, m, len(prompt))) % m
        logit = KAPPA + phi[prompt, first] - phi[prompt, second]
        if self.star is not None:
            first, second = np.zeros_like(first), 1 + np.tile(np.arange(n) % (m - 1), prompts)
            logit = phi[prompt, first] - phi[prompt, second]
            logit = logit + self.star * rng.normal(size=prompts)[prompt]
        won = (rng.random(len(prompt)) < expit(logit)).astype(float)
        a, b = x[prompt, first, None], x[prompt, second, None]
        items = np.stack([prompt * m + first, prompt * m + second])
        sides = about_the_mean(prompt, items, np.stack([a, b]))
        rows = Rows.build(first, second, a - b, won)
        variant = Variant(jnp.ones(1, bool), jnp.asarray(self.star is None))
        at = places(theta=(m,), c=(1, 1), kappa=(1,))
        return Problem.of(rows, variant, Prior(1.0, 0.1), at, prompt, sides=sides)


SETTINGS = (
    *(Setting(g, n, models) for g in (0.0, 0.3) for n, models in ((15, 6), (80, 4), (80, 12))),
    Setting(0.3, 300),
    Setting(-0.3),
    Setting(0.0, sd=0.2),
    Setting(0.3, sd=0.4),
    Setting(0.3, sd=2.0),
    Setting(0.3, models=3),
    *(Setting(g, 600, 12, verdicts=1) for g in (0.0, 0.3)),
    Setting(0.3, sd_c=0.5),
    Setting(0.0, apart=0.7),
    Setting(0.3, apart=0.7),
    Setting(0.3, sd_x=2.0),
    Setting(0.0, 300, 12, star=1.0),
    Setting(0.3, 300, 12, star=1.0),
)


@dataclass(frozen=True)
class Study:
    """Estimates of one board, by their names, with the ends of their intervals."""

    ends: dict[str, tuple[float, float, float]]
    rank: tuple[float, float]
    """Of the middle model; NaN where it is compared with none."""


def study(problem: Problem) -> Study:
    """What the command prints about one board."""
    (entry,), growing = bias_by_quality(problem.fit(), ["x"])
    assert growing is not None
    ends, m = intervals(growing), problem.design.n_contents
    named: dict[str, Any] = {
        "c of the stronger half": entry.parts.loc["stronger"],
        "c of the weaker half": entry.parts.loc["weaker"],
        "gamma": entry.parts.loc["gamma"],
        "c of an average model": entry.parts.loc["c"],
        "theta, the best": ends.parameters.loc[0],
        "theta, a middle model": ends.parameters.loc[m // 2],
    }
    result = {name: (c.estimate, c.low, c.high) for name, c in named.items()}
    rank = 1.0 + ends.better[m // 2].sum(), float(m - ends.better[:, m // 2].sum())
    return Study(result, rank if ends.ranked[m // 2] else (np.nan, np.nan))


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n = min(studies, MOST)
    with runtime.precision("float64"):
        for number, setting in enumerate(SETTINGS):
            rng = np.random.default_rng([seed, number])
            truth = study(setting.draw(rng, MANY)).ends
            results = [study(setting.draw(rng, setting.prompts)) for _ in range(n)]
            for name, (target, *_) in truth.items():
                low, high = np.array([r.ends[name][1:] for r in results]).T
                with_it = "" if "half" in name or name == "gamma" else " --interaction"
                command = COMMAND if not with_it else f"jbt leaderboard{with_it}"
                yield _cell(f"{name} ({command})", setting, low, high, target)
            low, high = np.array([r.rank for r in results]).T
            name = "rank, a middle model (jbt leaderboard --interaction)"
            yield _cell(name, setting, low, high, 1 + setting.models // 2, one_sided=True)


def _cell(
    name: str,
    setting: Setting,
    low: np.ndarray,
    high: np.ndarray,
    target: float,
    *,
    one_sided: bool = False,
) -> Cell:
    printed = np.isfinite(low)
    width = float(np.median((high - low)[printed])) if printed.any() else np.nan
    covered = int(((low <= target) & (target <= high)).sum())
    return Cell(
        name,
        setting.name,
        len(low),
        int(printed.sum()),
        covered,
        one_sided=one_sided,
        median_width=width,
    )
