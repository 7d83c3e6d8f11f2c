"""Intervals of `jbt judge`: shares over prompts whose pairs depend on each other.

A prompt has items with a quality and a length; two judges see every pair in both orders, and how
well they tell quality, how much they favour length and the first shown differs from prompt to
prompt. Gold is the order of quality. The target of a share is its value over very many prompts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.calibration import Cell
from jbt import own

MOST, MANY = 300, 20_000
"""Studies of a setting, and prompts behind its target (counts)."""
SHOWN = (
    ("accuracy", None),
    ("accuracy_both_orders", None),
    ("accuracy_if_smaller", "words"),
    ("consistency", None),
    ("agreement", "b"),
    ("first_won", None),
    ("larger_won", "words"),
)


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    prompts: int
    items: int
    uneven: bool = False
    """Prompts have 2 to 2 x items - 2 items, most of them few."""
    apart: float = 0.5
    """Standard deviation of the biases between prompts, logits, and of the log of the skill."""
    skill: float = 1.0
    """Logits per standard deviation of quality."""

    @property
    def name(self) -> str:
        """The setting in words."""
        items = f"2 to {2 * self.items - 2}" if self.uneven else str(self.items)
        parts = [f"{self.prompts} prompts of {items} items"]
        parts += [f"prompts apart by sd {self.apart:g}"] * (self.apart != 0.5)
        parts += [f"a judge right nearly always (skill {self.skill:g})"] * (self.skill > 1)
        return ", ".join(parts)

    def draw(self, rng: np.random.Generator, prompts: int) -> own.Tables:
        """One study's tables."""
        sizes = np.full(prompts, self.items)
        if self.uneven:
            sizes = 2 + rng.binomial(2 * self.items - 4, rng.beta(0.7, 1.4, prompts))
        verdicts, items, anchors = [], [], []
        for p, size in enumerate(sizes):
            quality, words = rng.normal(size=(2, size))
            items += [(p, i, w) for i, w in enumerate(words)]
            pairs = np.array(list(itertools.combinations(range(size), 2)))
            better = np.where(quality[pairs[:, 0]] > quality[pairs[:, 1]], *pairs.T)
            anchors += [(p, b, a + c - b) for (a, c), b in zip(pairs, better, strict=True)]
            first, second = np.concatenate([pairs, pairs[:, ::-1]]).T
            for judge in ("a", "b"):
                skill = self.skill * np.exp(self.apart * rng.normal())
                length, position = 0.5 + self.apart * rng.normal(size=2)
                logit = skill * (quality[first] - quality[second]) + position
                logit += length * (words[first] - words[second])
                won = rng.random(len(first)) < expit(logit)
                verdicts.append(
                    pd.DataFrame(
                        {
                            "pool": p,
                            "judge": judge,
                            "first": first,
                            "second": second,
                            "p_first": won,
                        }
                    )
                )
        return own.read(
            pd.concat(verdicts, ignore_index=True).astype({"p_first": int}),
            pd.DataFrame(items, columns=pd.Index(["pool", "item", "words"])),
            pd.DataFrame(anchors, columns=pd.Index(["pool", "better", "worse"])),
            covariates=["words"],
        )


SETTINGS = (
    *(Setting(n, 2) for n in (12, 50, 400)),
    *(Setting(n, 5) for n in (12, 50)),
    Setting(20, 10),
    *(Setting(n, 5, uneven=True) for n in (12, 50)),
    Setting(20, 5, apart=1.5),
    Setting(50, 5, uneven=True, apart=1.5),
    *(Setting(n, 5, skill=12.0) for n in (15, 60)),
)


def shares(setting: Setting, rng: np.random.Generator, prompts: int) -> dict[str, Any]:
    """The measures of the first judge."""
    _, card = next(own.report_card(setting.draw(rng, prompts), ["words"]).cards())
    kinds = {(m.what, m.of): m for m in card.itertuples()}
    return {what: kinds[what, of] for what, of in SHOWN if (what, of) in kinds}


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n = min(studies, MOST)
    for number, setting in enumerate(SETTINGS):
        rng = np.random.default_rng([seed, number])
        truth = shares(setting, rng, MANY)
        results = [shares(setting, rng, setting.prompts) for _ in range(n)]
        for what, target in truth.items():
            low, high = np.array([(r[what].low, r[what].high) for r in results if what in r]).T
            printed = np.isfinite(low)
            yield Cell(
                f"{what.replace('_', ' ')} (jbt judge)",
                setting.name,
                len(low),
                int(printed.sum()),
                int(((low <= target.share) & (target.share <= high)).sum()),
                median_width=float(np.median((high - low)[printed])) if printed.any() else np.nan,
            )
