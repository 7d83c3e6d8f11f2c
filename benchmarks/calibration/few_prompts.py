"""Wide intervals of `jbt leaderboard --few-prompts wide`: many models on few prompts.

Each prompt has verdicts on random ordered pairs of the models that answer it, a random few of all.
The truth is the estimate from very many such prompts. Only intervals with the status `wide` count,
those of all models of a study together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import expit

from benchmarks.calibration import Cell
from jbt import runtime
from jbt.kernel.fit import fit_map
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.types import Design, Parameters, Prior, Rows, Variant

C, KAPPA = 0.6, 0.3
MOST = 150
"""Studies of a setting: each has an interval for every model."""
PRIOR = Prior(1.0, 0.1)
PLENTY = 400_000
"""About how many verdicts the truth comes from."""


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    models: int
    prompts: int
    answering: int
    """Models that answer a prompt."""
    verdicts: int
    """Verdicts on a prompt; their median where prompts are unequal."""
    sd: float = 1.0
    """Standard deviation of quality, logits."""
    rho: float = 0.0
    """corr(theta, x) between models."""
    sd_theta: float = 0.0
    """Standard deviation of a model's quality between prompts."""
    sd_c: float = 0.0
    """Standard deviation of c between prompts."""
    unequal: bool = False
    """Whether the prompts' numbers of verdicts are lognormal."""
    unlike: bool = False
    """Whether half of the models vary by twice `sd_theta` between prompts, and half not at all."""

    @property
    def name(self) -> str:
        """The setting in words."""
        varied = "half of the models by twice that, half not" if self.unlike else "all alike"
        return (
            f"{self.models} models on {self.prompts} prompts, {self.answering} answer each, "
            f"{self.verdicts} verdicts{' (unequal)' * self.unequal}; sd of quality {self.sd:g}, "
            f"corr(theta, x) {self.rho:g}; between prompts sd of theta {self.sd_theta:g} "
            f"({varied}), of c {self.sd_c:g}"
        )

    def draw(self, rng: np.random.Generator, prompts: int) -> tuple[Rows, np.ndarray]:
        """The verdicts of a study and their prompts [rows], as many in every study."""
        m, k = self.models, self.answering
        scores = _normal_scores(m)
        shuffled = scores[np.random.default_rng(0).permutation(m)]
        x = 0.8 * (self.rho * scores + np.sqrt(1 - self.rho**2) * shuffled)
        x = x + rng.normal(size=(prompts, m))
        c = C + self.sd_c * rng.normal(size=(prompts, 1))
        between = self.sd_theta * (2 * (np.arange(m) % 2) if self.unlike else np.ones(m))
        apparent = self.sd * scores + between * rng.normal(size=(prompts, m)) + c * x
        sizes = np.full(prompts, self.verdicts)
        if self.unequal:
            at = stats.norm.ppf((np.arange(prompts) + 0.5) / prompts)
            sizes = np.maximum(2, np.round(self.verdicts * np.exp(at))).astype(int)
        prompt = np.repeat(np.arange(prompts), sizes)
        answering = np.argsort(rng.random((prompts, m)), 1)[:, :k]
        one = rng.integers(0, k, len(prompt))
        first = answering[prompt, one]
        second = answering[prompt, (one + rng.integers(1, k, len(prompt))) % k]
        apart, difference = (v[prompt, first] - v[prompt, second] for v in (apparent, x))
        won = (rng.random(len(prompt)) < expit(apart + KAPPA)).astype(float)
        return Rows.build(first, second, difference[:, None], won), prompt

    def truth(self) -> np.ndarray:
        """[models + 2] theta about its mean, c, kappa from very many prompts."""
        if self.sd_c or self.sd_theta:
            rows, _ = self.draw(np.random.default_rng(1), PLENTY // self.verdicts)
            mode = _fit(rows, np.ones(self.models, bool), Prior(1e-6, 1e-6))
            return mode.as_numpy()
        return np.r_[self.sd * _normal_scores(self.models), C, KAPPA]


def _normal_scores(m: int) -> np.ndarray:
    at = -stats.norm.ppf((np.arange(m) + 0.5) / m)
    return at / at.std()


@jax.jit
def _fit(rows: Rows, seen: jax.Array, prior: Prior) -> Parameters:
    return fit_map(rows, _design(seen), prior, _variant()).parameters


def _design(seen: jax.Array | np.ndarray) -> Design:
    return Design(jnp.zeros((len(seen), 1)), None, jnp.asarray(seen), len(seen))


def _variant() -> Variant:
    return Variant(jnp.ones(1, bool), jnp.asarray(True))


def results(setting: Setting, studies: int, seed: int) -> Iterator[Intervals]:
    """The command's result for each study."""
    rng = np.random.default_rng([seed, setting.models, setting.prompts])
    for _ in range(studies):
        rows, prompt = setting.draw(rng, setting.prompts)
        seen = np.bincount(np.r_[rows.first, rows.second], minlength=setting.models) > 0
        mode = _fit(rows, seen, PRIOR)
        yield intervals(mode, rows, _design(seen), PRIOR, _variant(), prompt, wide=True)


EFFECT: dict[str, Any] = {"sd_theta": 0.7, "sd_c": 0.3}
SHAPES = ((8, 6, 6, 60), (20, 3, 20, 300), (20, 8, 8, 100), (59, 13, 15, 150))
VARIED: tuple[dict[str, Any], ...] = (
    {},
    {**EFFECT, "rho": 0.8},
    {"sd": 0.4, "sd_theta": 1.0},
    {"sd": 2.5, **EFFECT, "rho": 0.8},
)
SETTINGS = (
    *(Setting(*shape, **more) for shape in SHAPES for more in VARIED),
    Setting(20, 2, 20, 400, **EFFECT),
    Setting(20, 13, 6, 60, **EFFECT, rho=0.5, unequal=True),
    Setting(20, 8, 8, 100, sd_theta=0.7, unlike=True),
)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    """Cells of theta, c and kappa, and of the rank of a middle model."""
    with runtime.precision("float64"):
        for setting in SETTINGS:
            yield from _cells(setting, list(results(setting, min(studies, MOST), seed)))


def _cells(setting: Setting, drawn: list[Intervals]) -> Iterator[Cell]:
    truth, m = setting.truth(), setting.models
    truth[:m] -= truth[:m].mean()
    statuses, low, high = (np.array([getattr(r, k) for r in drawn]) for k in _FIELDS)
    note = "the models do not vary alike, as these intervals assume" if setting.unlike else ""
    of_theta = (
        ("theta of those that vary", slice(1, m, 2)) if setting.unlike else ("theta", slice(m))
    )
    for name, place in (of_theta, ("c", [m]), ("kappa", [m + 1])):
        printed = (statuses == "wide")[:, place]
        covered = (low <= truth)[:, place] & (truth <= high)[:, place] & printed
        yield Cell(
            f"{name} (jbt leaderboard --few-prompts wide)",
            setting.name,
            printed.size,
            int(printed.sum()),
            int(covered.sum()),
            one_sided=True,
            median_width=float(np.median((high - low)[:, place][printed]))
            if printed.any()
            else float("nan"),
            note=note,
            may_miss=bool(note),
        )
    middle = m // 3
    ranks = np.array([(1 + r.better[middle].sum(), m - r.better[:, middle].sum()) for r in drawn])
    printed = np.array([r.ranked[middle] for r in drawn])
    covered = (ranks[:, 0] <= middle + 1) & (middle + 1 <= ranks[:, 1]) & printed
    yield Cell(
        "rank of a model a third from the top (jbt leaderboard --few-prompts wide)",
        setting.name,
        len(drawn),
        int(printed.sum()),
        int(covered.sum()),
        one_sided=True,
        median_width=float(np.median(np.ptp(ranks[printed], axis=1))) if printed.any() else np.nan,
        note=note,
        may_miss=bool(note),
    )


_FIELDS = ("status", "low", "high")
