"""Measure the coverage of every interval and rate that jbt prints.

    python -m benchmarks.calibration [NAME ...] [--studies N] [--seed N] [--out DIR] [--keep]
    python -m benchmarks.calibration --page

A claim is a function that simulates studies of one kind of interval in one setting (`claim`). Its
settings include those in which the interval's assumptions fail. A cell counts the studies in which
jbt prints the interval, and those of them in which the interval holds the truth.

Every NAME writes DIR/NAME.csv (default results/calibration/). With --keep the rows replace those of
docs/calibration, from which the page docs/calibration.md is made; --page makes it of the rows kept
and simulates nothing. Some kept rows were simulated with more studies, or with other seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy.special import expit

from jbt import own, runtime, stats

COMPARED = "for comparison"
"""Ends the name of intervals that jbt does not print, whose misses are no fault of it."""

ROUNDING = 1e-9
"""An interval that ends this close to the truth holds it."""


@dataclass(frozen=True)
class Cell:
    """One setting of one interval."""

    interval: str
    """Name of the interval, with the command that prints it."""
    setting: str
    """The setting that the studies are drawn from."""
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
    note: str = ""
    """What the command prints there, or what the row is about."""
    miss: str = ""
    """Why the row may miss its target, in place of a note: an assumption fails without a trace in
    the verdicts, or the row is there for comparison. Empty if it must not."""

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


CLAIMS: dict[str, list[Callable[[int, int], Iterator[Cell]]]] = {}
"""By name: (studies of a setting, seed) -> the cells of all settings, of each function."""

TITLES: dict[str, str] = {}
"""Name of a claim -> what the page calls it."""


Function = Callable[..., Iterator[Cell]]
"""(run, **setting) -> the cells of the setting."""


@dataclass(frozen=True)
class Run:
    """What a claim simulates one setting with."""

    studies: int
    """Studies to simulate (count)."""
    seed: int
    """The user's, for draws of JAX and for streams that several settings share."""
    number: int
    """The setting's, from 0."""
    rng: np.random.Generator
    """The setting's own stream."""

    @property
    def key(self) -> jax.Array:
        """The setting's own key of JAX."""
        return jax.random.fold_in(jax.random.key(self.seed), self.number)


def claim(
    title: str,
    settings: Sequence[Mapping[str, Any]] = ({},),
    *,
    name: str = "",
) -> Callable[[Function], Function]:
    """Register a claim: a generator (run, **setting) -> cells that draws `run.studies` studies from
    a population, computes the intervals that jbt prints for them and compares these with the truth.

    A function may be registered several times: the last decorator comes first.

    Args:
      title: what the page calls it.
      settings: the function's arguments in each setting, see `grid`; default a single one.
      name: as the command line and the CSV have it; default the function's. Functions of one name
        are one claim.
    """

    def register(function: Function) -> Function:
        def cells(studies: int, seed: int) -> Iterator[Cell]:
            with runtime.precision("float64"):
                for number, setting in enumerate(settings):
                    rng = np.random.default_rng([seed, number])
                    yield from function(Run(studies, seed, number, rng), **setting)

        key = name or function.__name__
        TITLES.setdefault(key, title)
        CLAIMS.setdefault(key, []).append(cells)
        return function

    return register


def grid(**axes: Any) -> list[dict[str, Any]]:
    """Settings: every combination of the values in lists, the last varying fastest; a value that is
    no list is the same in all."""
    values = [v if isinstance(v, list) else [v] for v in axes.values()]
    return [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*values)]


def said(*parts: object) -> str:
    """A setting in words: its parts, but for those that are empty, 0 or False."""
    return ", ".join(str(part) for part in parts if part)


def described(words: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Those of the values that there are words for, in the order of the words."""
    return said(*(text.format(values[name]) for name, text in words.items() if name in values))


def cell(
    interval: str, setting: str, ends: Any, truth: Any, *, slack: float = ROUNDING, **more: Any
) -> Cell:
    """Count intervals that hold the truth.

    Args:
      ends: low and high, of any shape, NaN where the interval is withheld.
      truth: of the same shape, or one for all.
      slack: how far beyond an end the truth may lie.
      more: fields of `Cell`.
    """
    low, high = (np.asarray(end, float) for end in ends)
    printed = ~np.isnan(low)
    held = (low - slack <= truth) & (truth <= high + slack)
    width = np.median((high - low)[printed]) if printed.any() else np.nan
    return kept(interval, setting, np.where(printed, held, np.nan), median_width=width, **more)


def kept(interval: str, setting: str, held: np.ndarray, **more: Any) -> Cell:
    """Count promises that were kept, whether `held` or not, NaN where none was made; `more` as in
    `cell`."""
    counts = held.size, int(np.isfinite(held).sum()), int(np.nansum(held))
    return Cell(interval, setting, *counts, **more)


def cells_of(
    command: str,
    setting: str,
    results: Sequence[Mapping[str, Any]],
    truth: Mapping[str, float],
    one_sided: bool = False,
    **more: Any,
) -> Iterator[Cell]:
    """Cells of the intervals that a command prints: for each name its truth, and in the results of
    each study (estimate, low, high), NaN or absent where withheld. Ranges of ranks may always cover
    more than they promise; `more` as in `cell`."""
    for name, value in truth.items():
        ends = np.array([result.get(name, 3 * (np.nan,))[1:] for result in results], float).T
        guaranteed = one_sided or name.startswith("rank")
        yield cell(f"{name} ({command})", setting, ends, value, one_sided=guaranteed, **more)


def ranks(better: np.ndarray, ranked: np.ndarray, model: int) -> tuple[float, float, float]:
    """True rank of a model, and the ends of its plausible ranks; models are numbered from the best.
    NaN where it is compared with none.

    Args:
      better: [M, M] whether model j is significantly better than model i.
      ranked: [M] whether a model is compared with any other.
    """
    if not ranked[model]:
        return np.nan, np.nan, np.nan
    return model + 1, 1 + better[model].sum(), len(better) - better[:, model].sum()


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
    phi: np.ndarray,
    pairs: Any,
    more: Any = 0.0,
    lapses: float = 0.0,
    ties: float = 0.0,
) -> np.ndarray:
    """[..., pairs] whether the first of each pair wins, 0 or 1; NaN for a tie.

    Args:
      phi: [..., answers] apparent quality.
      pairs: first and second answer of each pair.
      more: what is added to the log-odds: a position bias, noise.
      lapses: share of verdicts that are guesses.
      ties: half the distance, in logits, of two thresholds with ties between them (Rao and Kupper
        1967).
    """
    first, second = pairs
    logit = phi[..., first] - phi[..., second] + more
    wins, wins_or_ties = (
        lapses / 2 + (1 - lapses) * expit(logit + shift) for shift in (-ties, ties)
    )
    drawn = rng.random(logit.shape)
    return np.where(drawn < wins, 1.0, np.where(drawn < wins_or_ties, np.nan, 0.0))


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


def noise_of_pairs(rng: np.random.Generator, shape: tuple[int, ...], sd: float) -> np.ndarray:
    """[..., N, N] what two items add to the log-odds that the first wins, the opposite in the other
    order."""
    noise = sd * rng.normal(size=shape) / np.sqrt(2)
    return noise - noise.swapaxes(-1, -2)
