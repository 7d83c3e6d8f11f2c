"""Intervals of `jbt leaderboard --beside ppi`: win rates by trusted labels, and plausible ranks.

Six models answer 100 prompts; a judge sees every pair in both orders, and random pairs of some
prompts have a label. The judge pays for length, which goes with quality between the models, tells
quality apart more or less well, or pays stronger models more for length; labels pay for none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from benchmarks.calibration import Cell
from jbt.own.leaderboards.prediction_powered import Intervals, intervals

MODELS, PROMPTS = 6, 100
MOST = 1000
"""Studies of a setting: each takes some milliseconds."""
FIRST, SECOND = np.array(list(itertools.combinations(range(MODELS), 2))).T
SIDES = (FIRST[:, None] == np.arange(MODELS), SECOND[:, None] == np.arange(MODELS))


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    labelled: int
    """Prompts with labels (count)."""
    each: int
    """Labelled pairs of such a prompt (count)."""
    sd: float = 1.0
    """Standard deviation of quality, logits."""
    judge: str = "pays for length"

    @property
    def name(self) -> str:
        """The setting in words."""
        pairs = f"{self.each} pair{'s' * (self.each > 1)}"
        return f"{self.labelled} prompts with {pairs} labelled, sd {self.sd:g}, {self.judge}"

    @property
    def theta(self) -> np.ndarray:
        """[MODELS] quality, best first."""
        return -self.sd * norm.ppf((np.arange(MODELS) + 0.5) / MODELS)

    def truth(self) -> np.ndarray:
        """[MODELS] win rate by labels."""
        return (expit(self.theta[:, None] - self.theta).sum(1) - 0.5) / (MODELS - 1)

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """The fields of `PairSums` of one study."""
        s, c, gamma = JUDGES[self.judge]
        x = rng.normal(size=(PROMPTS, MODELS)) + 0.5 * self.theta / self.sd
        phi = s * self.theta + (c + gamma * self.theta) * x
        apart = phi[:, FIRST] - phi[:, SECOND]
        orders = expit(apart + np.array([0.3, -0.3])[:, None, None])
        won = (rng.random(orders.shape) < orders).mean(0)
        chance = expit(self.theta[FIRST] - self.theta[SECOND])
        label = (rng.random(apart.shape) < chance).astype(float)
        marked = (rng.random(apart.shape).argsort(1) < self.each).astype(float)
        marked[self.labelled :] = 0

        def sums(share: np.ndarray, counted: np.ndarray) -> np.ndarray:
            return (counted * share) @ SIDES[0] + (counted * (1 - share)) @ SIDES[1]

        all_pairs = np.ones_like(marked)
        return (
            all_pairs @ (SIDES[0] | SIDES[1]),
            sums(won, all_pairs),
            marked @ (SIDES[0] | SIDES[1]),
            sums(won, marked),
            sums(label, marked),
        )


JUDGES = {
    "pays for length": (1.0, 1.0, 0.0),
    "deaf": (0.0, 1.0, 0.0),
    "pays the strong more": (1.0, 0.5, 0.5),
    "nearly always right": (5.0, 0.0, 0.0),
}
"""Name -> discrimination, c and gamma."""

AMOUNTS = ((10, 15), (20, 3), (60, 3), (30, 1))
SETTINGS = (
    *(Setting(*amount, sd=sd) for sd in (1.0, 0.4, 2.5) for amount in AMOUNTS),
    *(Setting(20, 3, judge=judge) for judge in ("deaf", "pays the strong more")),
    Setting(30, 15, sd=2.5, judge="nearly always right"),
)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    """Cells of the win rates of the best and of a middle model, and of that one's rank."""
    for setting in SETTINGS:
        rng = np.random.default_rng([seed, setting.labelled, setting.each])
        n = min(studies, MOST)
        yield from _cells(setting, [intervals(*setting.draw(rng)) for _ in range(n)])


def _cells(setting: Setting, results: list[Intervals]) -> Iterator[Cell]:
    truth, middle = setting.truth(), 2
    for name, place in (("best of 6", 0), ("third of 6", middle)):
        low, high = (np.array([getattr(r, end)[place] for r in results]) for end in ("low", "high"))
        printed = np.isfinite(low)
        covered = (low <= truth[place]) & (truth[place] <= high)
        yield Cell(
            f"win rate by labels, {name} (jbt leaderboard --beside ppi)",
            setting.name,
            len(results),
            int(printed.sum()),
            int(covered.sum()),
            one_sided=True,
            median_width=float(np.median((high - low)[printed])) if printed.any() else np.nan,
        )
    ranks = np.array(
        [(1 + r.better[middle].sum(), MODELS - r.better[:, middle].sum()) for r in results]
    )
    printed = np.array([r.enough[middle] for r in results])
    covered = (ranks[:, 0] <= middle + 1) & (middle + 1 <= ranks[:, 1]) & printed
    yield Cell(
        "rank, third of 6 (jbt leaderboard --beside ppi)",
        setting.name,
        len(results),
        int(printed.sum()),
        int(covered.sum()),
        one_sided=True,
        median_width=float(np.median(np.ptp(ranks[printed], axis=1))) if printed.any() else np.nan,
    )
