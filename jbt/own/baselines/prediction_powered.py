"""Win rates that trusted labels would give, from a judge's verdicts and the labels of some pairs
(`estimators.prediction_powered`).

A model's win rate is its mean over the judged pairs that have it: against all others alike where
every prompt has every pair. It needs no model of the judge's bias, but the labelled pairs must be a
random sample of the judged ones: of pairs, or of prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import quick_compilation, runtime, stats
from jbt.border.report import counted
from jbt.estimators.prediction_powered import PairSums, prediction_powered
from jbt.kernel import metrics
from jbt.own.baselines.contract import Beside, Question
from jbt.own.tables.tables import Tables

NAME = "ppi"

LEVEL = 0.95

FEWEST_LABELLED = float(stats.FEWEST_CLUSTERS)
"""Effective number of labelled prompts of a model below which there is no interval. In simulations
(`benchmarks.calibration.prediction_powered`) intervals cover .93 to .99 from there on; with 3 to 9
of them .96 to 1.00, far wider than need be."""

READING = (
    "ppi: win rates as the labels would give them (PPI++: Angelopoulos et al. 2023), whatever the "
    "judge's bias, if the labelled pairs are a random sample of the judged ones; a weight of 0 "
    "counts the labels alone, of 1 trusts the judge's verdicts on other pairs as much as its "
    "verdicts on labelled ones"
)

PAIR = ["low", "high"]

SHOWN = 6
"""Most models that a sentence names."""

_estimated = quick_compilation.jit(prediction_powered)


def ppi(question: Question) -> list[Beside]:
    """Rank the models by win rates as trusted labels would have them, for each judge.

    Raises:
      ValueError: see `labelled_win_rates`.
    """
    tables = question.tables
    return [_beside(labelled_win_rates(tables, judge)) for judge in range(len(tables.judges))]


def _beside(rates: LabelledWinRates) -> Beside:
    return Beside(
        name=NAME,
        quantity="win rate by labels",
        models=rates.models,
        estimate=rates.win_rate,
        low=rates.low,
        high=rates.high,
        rank_low=rates.rank_low,
        rank_high=rates.rank_high,
        share=True,
        reading=(READING,),
        notes=tuple(rates.sentences()),
        details={
            "weight": rates.weight,
            "n_labelled": rates.n_labelled,
            "n_judged": rates.n_judged,
            "n_prompts": rates.n_prompts,
        },
    )


@dataclass(frozen=True, eq=False)
class LabelledWinRates:
    """Win rates of M models by one judge's verdicts and trusted labels. NaN where undefined."""

    models: tuple[str, ...]
    """In the order of the table's contents."""
    win_rate: np.ndarray
    """[M] share of pairs that the labels would give to the model, ties as halves; it may lie
    outside 0 to 1 where labels are few."""
    low: np.ndarray
    high: np.ndarray
    rank_low: np.ndarray
    """[M] 1 + the number of models significantly better: as `Leaderboard.rank_low`."""
    rank_high: np.ndarray
    weight: float
    """Weight of the judge's verdicts on pairs without a label, 0 to 1."""
    one_sided: np.ndarray
    """[M] whether a model won, or lost, labelled pairs on fewer than `stats.FEWEST` prompts: then
    its difference from others is never significant."""
    n_labelled: int
    """Pairs of two models with a label and a verdict of the judge (count)."""
    n_judged: int
    """Pairs of two models with a verdict of the judge (count)."""
    n_prompts: int
    """Pools with a labelled pair (count)."""
    n_not_judged: int
    """Labelled pairs of two models without a verdict of the judge, left out (count)."""

    def sentences(self) -> Iterator[str]:
        """What the win rates rest on, and why intervals are missing."""
        yield (
            f"ppi: from {self.n_labelled} labelled of {self.n_judged} judged pairs, on "
            f"{counted(self.n_prompts, 'prompt')}; weight of the judge {self.weight:.2f}"
        )
        if self.n_not_judged:
            yield f"ppi: {counted(self.n_not_judged, 'labelled pair')} without a verdict left out"
        known = np.isfinite(self.win_rate)
        for models, why in (
            (known & np.isnan(self.low), f"labelled on fewer than {FEWEST_LABELLED:g} prompts"),
            (~known, "no labelled pair"),
        ):
            if models.any():
                yield f"ppi: no interval for {self._listed(models)}: {why}"
        if (open_ranks := np.isfinite(self.low) & self.one_sided).any():
            yield (
                f"ppi: no certain rank for {self._listed(open_ranks)}: labels for it, or against "
                f"it, on fewer than {stats.FEWEST} prompts"
            )

    def _listed(self, models: np.ndarray) -> str:
        """The names of some models."""
        names = [m for m, there in zip(self.models, models, strict=True) if there]
        more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
        return f"{', '.join(names[:SHOWN])}{more}"


def labelled_win_rates(tables: Tables, judge: int) -> LabelledWinRates:
    """Estimate every model's win rate.

    Args:
      tables: pools not merged.
      judge: index into `tables.judges`.

    Raises:
      ValueError: no labelled pair of two models has a verdict of the judge.
    """
    verdicts, labels = _verdicts(tables, judge), _labels(tables)
    n_labels = len(labels)
    labelled = verdicts.join(labels, how="inner")
    if labelled.empty:
        raise ValueError(
            "no trusted pair (--anchors) of two models was judged: win rates by labels need some"
        )
    sums = [
        part
        for frame, name in ((verdicts, "won"), (labelled, "won"), (labelled, "label"))
        for part in _sums(tables, frame, name)
    ]
    judged, by_judge, n_labelled, by_judge_labelled, _, by_labels = sums
    rates = intervals(judged, by_judge, n_labelled, by_judge_labelled, by_labels)
    better, known = rates.better, judged.any(0)
    compared = rates.enough & (rates.enough.sum() > 1)
    return LabelledWinRates(
        models=tuple(tables.contents),
        win_rate=rates.win_rate,
        low=rates.low,
        high=rates.high,
        rank_low=np.where(compared, 1 + better.sum(1), np.nan),
        rank_high=np.where(compared, known.sum() - better.sum(0), np.nan),
        weight=rates.weight,
        one_sided=rates.one_sided,
        n_labelled=len(labelled),
        n_judged=len(verdicts),
        n_prompts=int(n_labelled.any(1).sum()),
        n_not_judged=n_labels - len(labelled),
    )


class Intervals(NamedTuple):
    """Win rates [M] with intervals, NaN where withheld."""

    win_rate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    better: np.ndarray
    """[M, M], see `significantly_better`."""
    enough: np.ndarray
    """[M] whether a model has labels on enough prompts for an interval."""
    one_sided: np.ndarray
    """[M] see `LabelledWinRates`."""
    weight: float


def intervals(*sums: np.ndarray) -> Intervals:
    """Estimate win rates and their intervals; `sums`: the fields of `PairSums`, in order."""
    with runtime.precision("float64"):
        estimate = _estimated(PairSums(*map(jnp.asarray, sums)))
    _, _, labelled, _, won = sums
    win_rate, covariance = np.asarray(estimate.win_rate), np.asarray(estimate.covariance)
    even = np.asarray(estimate.degrees) + 1
    rare = np.minimum((won > 0).sum(0), (won < labelled).sum(0)) < stats.FEWEST
    ends = stats.effective_share(win_rate, np.diagonal(covariance), even, rare, level=LEVEL)
    enough = even >= FEWEST_LABELLED
    low, high = (np.where(enough, end, np.nan) for end in ends)
    # A model that lost, or won, nearly all labelled pairs has next to no variance to go by.
    better = significantly_better(win_rate, covariance, even, enough & ~rare)
    return Intervals(win_rate, low, high, better, enough, rare, float(estimate.weight))


def significantly_better(
    estimate: np.ndarray, covariance: np.ndarray, prompts: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """[..., M, M] whether model j is significantly better than model i: the interval of the
    difference, Bonferroni-corrected for the model's M - 1 differences, lies above 0.

    Args:
      estimate, covariance: [..., M] and [..., M, M].
      prompts: [..., M] effective numbers of prompts; a difference has the smaller of its models'.
      known: [..., M] whether a model has an interval; else it is significantly better or worse
        than none.
    """
    m = known.shape[-1]
    comparable = known[..., None, :] & known[..., :, None] & ~np.eye(m, dtype=bool)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    variance = (variance[..., None, :] + variance[..., :, None] - 2 * covariance).clip(0)
    level = 1 - (1 - LEVEL) / 2 / max(1, m - 1)
    fewer = np.minimum(prompts[..., None, :], prompts[..., :, None])
    apart = np.where(comparable, estimate[..., None, :] - estimate[..., :, None], 0)
    return comparable & (
        apart > np.maximum(_quantile(level, fewer) * np.sqrt(variance), metrics.TIED)
    )


def _quantile(level: float, prompts: np.ndarray | float) -> np.ndarray:
    """Of Student's t, at least 1 degree of freedom."""
    from scipy.special import ndtri, stdtrit

    many = np.isinf(prompts)
    degrees = np.maximum(np.where(many, 2, prompts) - 1, 1)
    return np.where(many, ndtri(level), stdtrit(degrees, level))


def _verdicts(tables: Tables, judge: int) -> pd.DataFrame:
    """The judge's verdicts on pairs of two models, indexed by low and high (rows of `items`): won,
    the mean share that `low` won; both orders count alike where the judge saw both."""
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    share, count = verdicts["p_first"].to_numpy(), verdicts["count"].to_numpy(float)
    low_first = first < second
    rows = pd.DataFrame(
        {
            "low": np.minimum(first, second),
            "high": np.maximum(first, second),
            "low_first": low_first,
            "won": np.where(low_first, share, 1 - share) * count,
            "count": count,
        }
    )
    orders = rows.groupby([*PAIR, "low_first"])[["won", "count"]].sum()
    pairs = (orders["won"] / orders["count"]).groupby(PAIR).mean().to_frame("won")
    return pairs[_two_models(tables, pairs.index)]


def _labels(tables: Tables) -> pd.DataFrame:
    """The trusted labels of pairs of two models, indexed by low and high: label, the share that
    `low` won."""
    better, worse = (tables.anchors[side].to_numpy() for side in ("better", "worse"))
    decided = np.minimum(better, worse), np.maximum(better, worse)
    tied = tables.tied["first"].to_numpy(), tables.tied["second"].to_numpy()
    index = pd.MultiIndex.from_arrays(
        [np.r_[a, b] for a, b in zip(decided, tied, strict=True)], names=PAIR
    )
    label = np.r_[(better < worse).astype(float), np.full(len(tied[0]), 0.5)]
    labels = pd.DataFrame({"label": label}, index=index)
    return labels[_two_models(tables, labels.index)]


def _two_models(tables: Tables, pairs: pd.Index) -> np.ndarray:
    content = tables.items["content"].to_numpy()
    low, high = (content[pairs.get_level_values(side).to_numpy(int)] for side in PAIR)
    return low != high


def _sums(tables: Tables, pairs: pd.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
    """[pools, models] number of pairs, and the sum of the shares won."""
    pool, content = (tables.items[column].to_numpy() for column in ("pool", "content"))
    low, high = (pairs.index.get_level_values(side).to_numpy(int) for side in PAIR)
    count, total = np.zeros((2, len(tables.pools), len(tables.contents)))
    won = pairs[name].to_numpy()
    for side, share in ((low, won), (high, 1 - won)):
        np.add.at(count, (pool[side], content[side]), 1)
        np.add.at(total, (pool[side], content[side]), share)
    return count, total
