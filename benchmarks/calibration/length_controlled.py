"""Intervals of `jbt leaderboard --beside length_controlled`.

Models answer prompts of unlike difficulty against one opponent, and a judge sees each answer once:

    logit P = theta_m + psi_m gamma_x + phi_m tanh(difference / sd) + u_mx

The target is the chance of winning at equal length over very many prompts and answers, and the rank
of the third model by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks.calibration import Cell
from jbt.own.baselines.duels import Duels
from jbt.own.baselines.length_controlled import fit
from jbt.own.baselines.win_rate_intervals import WinRate, plausible_ranks
from jbt.types import Prior

MOST = 1000
"""Studies of a setting."""

PHI = 0.8

JUDGES = {
    "biased": "a bias alike for all models",
    "deaf": "a judge deaf to quality",
    "varying": "a bias that grows with quality",
    "linear": "a bias linear in the difference",
}


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    prompts: int
    models: int = 6
    judge: str = "biased"
    """Of `JUDGES`."""
    judged: float = 1.0
    """Share of the prompts on which a model is judged."""
    answers: float = 0.0
    """Standard deviation of u."""
    graded: bool = False
    """Whether a verdict is a share: the logit with noise of sd 1, through the logistic function."""

    @property
    def name(self) -> str:
        """The setting in words."""
        parts = [f"{self.models} models on {self.prompts} prompts, {JUDGES[self.judge]}"]
        parts += [f"each judged on {self.judged:.0%}"] * (self.judged < 1)
        parts += [f"answers vary by sd {self.answers:g}"] * (self.answers > 0)
        return ", ".join(parts + ["graded verdicts"] * self.graded)

    @property
    def theta(self) -> np.ndarray:
        """[models] best first."""
        if self.judge == "deaf":
            return np.zeros(self.models)
        return np.linspace(1, -1.5, self.models) if self.models > 1 else np.zeros(1)

    @property
    def psi(self) -> np.ndarray:
        """[models]"""
        psi = np.linspace(0.6, 1.4, self.models)
        return psi * (0.3 if self.judge == "deaf" else 1)

    def draw(self, rng: np.random.Generator) -> Duels:
        """One study."""
        shape, theta = (self.prompts, self.models), self.theta
        mean = np.where(np.arange(self.models) % 2, -0.5, 0.5)  # unrelated to quality
        difference = mean + rng.normal(size=shape)
        phi = PHI + (0.5 * theta if self.judge == "varying" else 0)
        controlled = theta + self.psi * rng.normal(size=(self.prompts, 1))
        logit = controlled + self.answers * rng.normal(size=shape)
        logit = logit + phi * (difference if self.judge == "linear" else np.tanh(difference))
        share = (rng.random(shape) < expit(logit)).astype(float)
        if self.graded:
            share = expit(logit + rng.normal(size=shape))
        rows = rng.random(shape) < self.judged
        prompt, model = np.nonzero(rows)
        prompt = np.unique(prompt, return_inverse=True)[1]
        ones = np.ones(len(prompt))
        return Duels("b", model, prompt, share[rows], ones, difference[rows][:, None], 0)

    def truth(self) -> np.ndarray:
        """[models]"""
        at, weight = np.polynomial.hermite_e.hermegauss(80)
        sd = np.sqrt(self.psi**2 + self.answers**2 + self.graded)
        return weight @ expit(self.theta + sd * at[:, None]) / weight.sum()


SETTINGS = (
    *(Setting(30, judge=judge) for judge in JUDGES),
    *(Setting(g, judge=judge) for g in (50, 100, 400) for judge in JUDGES),
    *(Setting(g, m) for m in (1, 2, 20) for g in (50, 200)),
    *(Setting(g, judged=0.5) for g in (120, 200)),
    *(Setting(g, answers=1.0) for g in (50, 200)),
    *(Setting(g, graded=True) for g in (50, 200)),
    Setting(400, 3, judge="linear"),
)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n = min(studies, MOST)
    for number, setting in enumerate(SETTINGS):
        rng = np.random.default_rng([seed, number])
        rates = [fit(setting.draw(rng), Prior()).rates for _ in range(n)]
        yield from _cells(setting, rates)


def _cells(setting: Setting, results: list[list[WinRate]]) -> Iterator[Cell]:
    truth, middle = setting.truth(), min(2, setting.models - 1)
    note = "tanh is not the form of the bias" if setting.judge == "linear" else ""
    places = {"best": 0, "third": middle, "last": setting.models - 1}
    command = "jbt leaderboard --beside length_controlled"
    for name, m in places.items():
        ends = [rates[m].interval() for rates in results if len(rates) > m]
        low, high = np.array(ends).T
        printed = np.isfinite(low)
        yield Cell(
            f"win rate, {name} ({command})",
            setting.name,
            len(low),
            int(printed.sum()),
            int(((low <= truth[m]) & (truth[m] <= high)).sum()),
            median_width=float(np.median((high - low)[printed])) if printed.any() else np.nan,
            note=note,
            may_miss=bool(note),
        )
    if setting.models < 3 or setting.judge == "deaf":  # then all ranks are equal
        return
    low, high = np.array([[v[middle] for v in plausible_ranks(rates)] for rates in results]).T
    printed, rank = np.isfinite(low), 1 + (truth > truth[middle]).sum()
    yield Cell(
        f"rank, third ({command})",
        setting.name,
        len(low),
        int(printed.sum()),
        int(((low <= rank) & (rank <= high)).sum()),
        one_sided=True,
        median_width=float(np.median((high - low)[printed])) if printed.any() else np.nan,
    )
