"""Measure the coverage of every interval and rate that jbt prints.

    python -m benchmarks.calibration [NAME ...] [--studies N] [--seed N] [--out DIR]
    python -m benchmarks.calibration --page

A claim is a function that simulates studies of one kind of interval in one setting (`claim`). Its
settings include those in which the interval's assumptions fail. A cell counts the studies in which
jbt prints the interval, and those of them in which the interval holds the truth.

Every NAME writes DIR/NAME.csv (default results/calibration/). The rows of docs/calibration are kept
under version control, and --page makes the page docs/calibration.md of them; it simulates nothing.
Some kept rows were simulated with more studies, with other seeds, or beside other settings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from jbt import own, runtime, stats

ROUNDING = 1e-9
"""An interval that ends this close to the truth holds it."""


FEW = "the interval is printed in few studies only"
GUESSES = "guesses draw all logits towards 0"
"""Reasons of several claims' misses."""


@dataclass(frozen=True)
class Cell:
    """One setting of one interval."""

    interval: str
    """Name of the interval."""
    studies: int
    """Simulated studies (count)."""
    printed: int
    """Studies in which the interval is printed, not withheld (count)."""
    covered: int
    """Printed intervals that hold the truth (count)."""
    nominal: float = 0.95
    """Coverage promised; for a rate, its bound is 1 - nominal."""
    one_sided: bool = False
    """Whether it is a guarantee: coverage may exceed the nominal level."""
    median_width: float = float("nan")
    """Median width of the printed intervals, in the interval's own unit."""
    miss: str = ""
    """Why the row may miss its target: an assumption fails without a trace in the verdicts. Empty
    if it must not."""
    setting: str = ""
    """The arguments that the claim's function had."""

    @property
    def coverage(self) -> tuple[float, float, float]:
        """Share of the printed intervals that hold the truth, with its own 95 % interval; NaN where
        none is printed."""
        if not self.printed:
            return np.nan, np.nan, np.nan
        return stats.count_interval(self.covered, self.printed)

    @property
    def on_target(self) -> bool:
        """Whether the target range overlaps the coverage's own interval, if there is one."""
        _, low, high = self.coverage
        most = 1.0 if self.one_sided else self.nominal + 0.02
        return not (high < self.nominal - 0.02 or low > most)


CLAIMS: dict[str, Callable[[int, int], Iterator[Cell]]] = {}
"""By name: (studies of a setting, seed) -> the cells of all settings."""

TITLES: dict[str, str] = {}
"""Name of a claim -> what the page calls it."""

Function = Callable[..., Iterator[Cell]]
"""(rng, studies, **setting) -> the cells of the setting."""


def claim(title: str, settings: Sequence[Mapping[str, Any]]) -> Callable[[Function], Function]:
    """Register a claim: a generator (rng, studies, **setting) -> cells that draws so many studies
    from a population, computes the intervals that jbt prints for them and compares these with the
    truth. The command line and the CSV have the function's name.

    Args:
      title: what the page calls it.
      settings: the function's arguments in each setting, see `grid`.
    """

    def register(function: Function) -> Function:
        def cells(studies: int, seed: int) -> Iterator[Cell]:
            with runtime.precision("float64"):
                for number, setting in enumerate(settings):
                    rng = np.random.default_rng([seed, number])
                    words = (f"{name.replace('_', ' ')} {v}" for name, v in setting.items())
                    described = ", ".join(words)
                    for cell in function(rng, studies, **setting):
                        yield replace(cell, setting=described)

        TITLES[function.__name__] = title
        CLAIMS[function.__name__] = cells
        return function

    return register


def grid(*varied: Mapping[str, Any], **axes: Any) -> list[dict[str, Any]]:
    """Settings: every combination of the values in lists, the last varying fastest, with each of
    the mappings, if there are any; a value that is no list is the same in all."""
    values = [v if isinstance(v, list) else [v] for v in axes.values()]
    chosen = [dict(zip(axes, those, strict=True)) for those in itertools.product(*values)]
    return [{**those, **more} for more in varied or [{}] for those in chosen]


def cell(interval: str, ends: Any, truth: Any, **more: Any) -> Cell:
    """Count intervals that hold the truth.

    Args:
      ends: low and high, of any shape, NaN where the interval is withheld.
      truth: of the same shape, or one for all.
      more: fields of `Cell`.
    """
    low, high = (np.asarray(end, float) for end in ends)
    printed = ~np.isnan(low)
    held = (low - ROUNDING <= truth) & (truth <= high + ROUNDING)
    width = np.median((high - low)[printed]) if printed.any() else np.nan
    return kept(interval, np.where(printed, held, np.nan), median_width=width, **more)


def kept(interval: str, held: np.ndarray, **more: Any) -> Cell:
    """Count promises that were kept, whether `held` or not, NaN where none was made; `more` as in
    `cell`."""
    counts = held.size, int(np.isfinite(held).sum()), int(np.nansum(held))
    return Cell(interval, *counts, **more)


def cells_of(
    results: Sequence[Mapping[str, Any]], truth: Mapping[str, float], **more: Any
) -> Iterator[Cell]:
    """Cells of the intervals that a command prints: for each name its truth, and in the results of
    each study (estimate, low, high), NaN or absent where withheld. Ranges of ranks may always cover
    more than they promise; `more` as in `cell`."""
    for name, value in truth.items():
        ends = np.array([result.get(name, 3 * (np.nan,))[1:] for result in results], float).T
        yield cell(name, ends, value, **{"one_sided": name.startswith("rank"), **more})


def correlated(rng: np.random.Generator, base: np.ndarray, sd: float, corr: float) -> np.ndarray:
    """Qualities of standard deviation sd, correlated with standard normals `base`."""
    return sd * (corr * base + np.sqrt(1 - corr**2) * rng.normal(size=base.shape))


def parts(studies: int, at_once: int) -> Iterator[int]:
    """Sizes of parts that make up all studies."""
    for begin in range(0, studies, at_once):
        yield min(at_once, studies - begin)


def ordered_pairs(n: int) -> tuple[np.ndarray, ...]:
    """First and second of every ordered pair of n answers."""
    return np.nonzero(~np.eye(n, dtype=bool))


def verdicts(
    rng: np.random.Generator,
    phi: Any,
    pairs: Any,
    more: Any = 0.0,
    lapses: float = 0.0,
) -> np.ndarray:
    """[..., pairs] whether the first of each pair wins, 0 or 1.

    Args:
      phi: [..., answers] apparent quality.
      pairs: first and second answer of each pair.
      more: what is added to the log-odds: a position bias.
      lapses: share of verdicts that are guesses.
    """
    first, second = pairs
    logit = phi[..., first] - phi[..., second] + more
    chance = lapses / 2 + (1 - lapses) * expit(logit)
    return 1.0 * (rng.random(logit.shape) < chance)


def tables_of(
    share: np.ndarray,
    pairs: Any,
    x: np.ndarray | Mapping[str, np.ndarray],
    content: Any = None,
    gold: pd.DataFrame | None = None,
) -> own.Tables:
    """Verdicts on pairs of answers to each prompt, with their lengths.

    Args:
      share: [judges, prompts, pairs] what the first won, NaN where the verdict is missing.
      pairs: first and second answer of each pair.
      x: [prompts, answers] lengths; or those and further covariates by name.
      content: [answers]; default each its own.
      gold: labels of pairs.
    """
    judge, prompt, pair = np.indices(share.shape).reshape(3, -1)
    sides = dict(zip(("first", "second"), np.asarray(pairs)[:, pair], strict=True))
    shown = pd.DataFrame({"judge": judge, "pool": prompt, **sides, "p_first": share.ravel()})
    covariates = x if isinstance(x, Mapping) else {"words": x}
    values = {name: of_items.ravel() for name, of_items in covariates.items()}
    prompt, item = np.indices(next(iter(covariates.values())).shape).reshape(2, -1)
    owner = item if content is None else content[item]
    items = pd.DataFrame({"pool": prompt, "item": item, "content": owner, **values})
    return own.read(shown, items, gold, covariates=[*covariates])
