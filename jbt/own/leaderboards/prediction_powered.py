"""Win rates that trusted labels would give, from a judge's verdicts and the labels of some pairs
(`estimators.prediction_powered`).

A model's win rate is its mean over the judged pairs that have it: against all others alike where
every prompt has every pair. It needs no model of the judge's bias, but the labelled pairs must be a
random sample of the judged ones: of pairs, or of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import quick_compilation, runtime, stats
from jbt.border.report import counted
from jbt.estimators.prediction_powered import PairSums, prediction_powered
from jbt.kernel import metrics
from jbt.own.tables.tables import Tables

LEVEL = 0.95

FEWEST_LABELLED = float(stats.FEWEST_CLUSTERS)
"""Effective number of labelled prompts of a model below which there is no interval. In simulations
(docs/calibration.md) intervals cover .93 to .99 from there on; with 3 to 9
of them .96 to 1.00, far wider than need be."""

QUANTITY = "win rate by labels"

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


@dataclass(frozen=True, eq=False)
class LabelledWinRates:
    """Win rates of M models by one judge's verdicts and trusted labels."""

    models: pd.DataFrame
    """A row for each model, in the order of the table's contents: model, estimate (share of pairs
    that the labels would give to it, ties as halves; it may lie outside 0 to 1 where labels are
    few), low, high, rank, rank_low and rank_high (as of a `Leaderboard`). NaN where undefined."""
    weight: float
    """Weight of the judge's verdicts on pairs without a label, 0 to 1."""
    n_labelled: int
    """Pairs of two models with a label and a verdict of the judge (count)."""
    n_judged: int
    """Pairs of two models with a verdict of the judge (count)."""
    n_prompts: int
    """Pools with a labelled pair (count)."""
    notes: tuple[str, ...]
    """What the win rates rest on, and why intervals are missing."""

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file; the numbers of each model are in its entry of `models`."""
        names = ("weight", "n_labelled", "n_judged", "n_prompts")
        numbers = {name: getattr(self, name) for name in names}
        return {"quantity": QUANTITY, "notes": list(self.notes), **numbers}


def labelled_win_rates(tables: Tables, judge: int) -> LabelledWinRates:
    """Estimate every model's win rate.

    Args:
      tables: pools not merged.
      judge: index into `tables.judges`.

    Raises:
      ValueError: no labelled pair of two models has a verdict of the judge.
    """
    verdicts, labels = _verdicts(tables, judge), _labels(tables)
    labelled = verdicts.join(labels, how="inner")
    if labelled.empty:
        raise ValueError(
            "no trusted pair (--anchors) of two models was judged: win rates by labels need some"
        )
    judged, by_judge = _sums(tables, verdicts, "won")
    n_labelled, by_judge_labelled = _sums(tables, labelled, "won")
    by_labels = _sums(tables, labelled, "label")[1]
    rates = intervals(judged, by_judge, n_labelled, by_judge_labelled, by_labels)
    compared = rates.enough & (rates.enough.sum() > 1)
    n_models, n_prompts = judged.any(0).sum(), int(n_labelled.any(1).sum())
    models = pd.DataFrame(
        {
            "model": tables.contents,
            "estimate": rates.win_rate,
            "low": rates.low,
            "high": rates.high,
            "rank": metrics.ranks(rates.win_rate),
            "rank_low": np.where(compared, 1 + rates.better.sum(1), np.nan),
            "rank_high": np.where(compared, n_models - rates.better.sum(0), np.nan),
        }
    )
    notes = [
        f"ppi: {len(labelled)} of {len(verdicts)} judged pairs have labels, on "
        f"{counted(n_prompts, 'prompt')}; the judge's verdicts have the weight {rates.weight:.2f}"
    ]
    if n_left := len(labels) - len(labelled):
        notes.append(f"ppi: {counted(n_left, 'labelled pair')} without a verdict not used")
    known, has_interval = np.isfinite(rates.win_rate), np.isfinite(rates.low)
    few = f"labelled on fewer than {FEWEST_LABELLED:g} prompts"
    one_sided = f"labels for it, or against it, on fewer than {stats.FEWEST} prompts"
    for what, why, concerned in (
        ("interval", few, known & ~has_interval),
        ("interval", "no labelled pair", ~known),
        ("certain rank", one_sided, has_interval & rates.one_sided),
    ):
        if names := models["model"][concerned].tolist():
            more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
            notes.append(f"ppi: no {what} for {', '.join(names[:SHOWN])}{more}: {why}")
    counts = len(labelled), len(verdicts), n_prompts
    return LabelledWinRates(models, rates.weight, *counts, tuple(notes))


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
    """[M] whether a model won, or lost, labelled pairs on fewer than `stats.FEWEST` prompts: then
    its difference from others is never significant."""
    weight: float


def intervals(*sums: np.ndarray) -> Intervals:
    """Estimate win rates and their intervals; `sums`: the fields of `PairSums`, in order."""
    with runtime.precision("float64"):
        estimate = _estimated(PairSums(*map(jnp.asarray, sums)))
    _, _, labelled, _, won = sums
    win_rate, covariance = np.asarray(estimate.win_rate), np.asarray(estimate.covariance)
    even = np.asarray(estimate.degrees) + 1
    rare = np.minimum((won > 0).sum(0), (won < labelled).sum(0)) < stats.FEWEST
    ends = stats.effective_share(win_rate, np.diagonal(covariance), even, rare)
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
    from scipy.special import stdtrit

    m = known.shape[-1]
    comparable = known[..., None, :] & known[..., :, None] & ~np.eye(m, dtype=bool)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    variance = (variance[..., None, :] + variance[..., :, None] - 2 * covariance).clip(0)
    level = 1 - (1 - LEVEL) / 2 / max(1, m - 1)
    fewer = np.minimum(prompts[..., None, :], prompts[..., :, None])
    quantile = stdtrit(np.maximum(fewer - 1, 1), level)
    apart = np.where(comparable, estimate[..., None, :] - estimate[..., :, None], 0)
    return comparable & (apart > np.maximum(quantile * np.sqrt(variance), metrics.TIED))


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
