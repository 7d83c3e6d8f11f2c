"""Tables of recorded verdicts as arrays: pools of a few answers each, or one board of prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd

from jbt.experiments.declare import RecordedSweep
from jbt.own import tables
from jbt.own.tables.places import count_within
from jbt.types import container


@container
class Answers:
    """P pools with verdicts of J judges: at most N items a pool, D covariates, M contents. Arrays
    of NumPy; inside an experiment of JAX, without the first axis."""

    number: Any
    """[P] of the pool among these."""
    mask: Any
    """[P, N] False for padding."""
    content: Any
    """[P, N] in 0..M-1, the same over pools."""
    covariates: Any
    """[P, N, D] as in the table."""
    shown: Any
    """[P, J, N, N] how often i was shown first against j."""
    wins: Any
    """[P, J, N, N] how often i then won; a tie is half a win, errors are dropped."""
    better: Any
    """[P, N, N] whether a trusted label calls i better than j."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Answers, with the names in the tables."""

    pools: list[str]
    judges: list[str]
    contents: list[str]
    answers: Answers


def read(s: RecordedSweep, covariates: tuple[str, ...]) -> Recorded:
    """Read at most `s.pools` of the pools, evenly spaced over the table.

    Raises:
      ValueError: no data, or tables that cannot be read (`tables.TableError`).
    """
    whole = tables.read(*map(s.file, s.files), covariates=covariates)
    items, verdicts, anchors = whole.items, whole.verdicts, whole.anchors
    pool = items["pool"].to_numpy()
    place = count_within(pool)
    kept, n = _spaced(len(whole.pools), s.pools), place.max() + 1
    shown, wins = np.zeros((2, len(whole.pools), len(whole.judges), n, n))
    pair = *(verdicts[v] for v in ("pool", "judge")), *(place[verdicts[v]] for v in _SIDES)
    np.add.at(shown, pair, verdicts["count"])
    np.add.at(wins, pair, verdicts["count"] * verdicts["p_first"])
    better = np.zeros((len(shown), n, n), bool)
    better[anchors["pool"], place[anchors["better"]], place[anchors["worse"]]] = True
    of_items = np.ones(len(items), bool), items["content"], items[list(covariates)].astype(float)
    mask, content, x = (_padded(np.asarray(v), pool, place, len(shown)) for v in of_items)
    answers = Answers(np.arange(len(shown)), mask, content, x, shown, wins, better)
    answers = jax.tree.map(lambda v: v[kept], answers)
    pools, judges = [whole.pools[i] for i in kept], [judge or "judge" for judge in whole.judges]
    return Recorded(pools, judges, whole.contents, answers)


_SIDES = ("first", "second")


def _spaced(n: int, most: int) -> np.ndarray:
    """Indices of at most `most` of n things, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(int)


def _padded(values: np.ndarray, pool: np.ndarray, place: np.ndarray, n_pools: int) -> np.ndarray:
    """Values [rows, ...] as [pools, places, ...], 0 for padding."""
    out = np.zeros((n_pools, place.max() + 1, *values.shape[1:]), values.dtype)
    out[pool, place] = values
    return out


WORDS, VARIATION, RENDERINGS = "words", "variation", "renderings"
"""Covariates of a board: log length of an answer (`words`); its mean over the answers of a version,
where the model has several versions (`renderings`); the difference of these two (`variation`)."""


@dataclass(frozen=True, eq=False)
class Board:
    """AlpacaEval's tables: G prompts, V versions of models, at most K verdicts a prompt."""

    prompts: list[str]
    versions: list[str]
    model: np.ndarray
    """[V] number of the first version of the same model."""
    first: np.ndarray
    """[G, K] version of the answer listed first."""
    second: np.ndarray
    """[G, K] version of the other answer."""
    wins: np.ndarray
    """[G, K] preference for the first."""
    shown: np.ndarray
    """[G, K] 1, or 0 for padding."""
    differences: dict[str, np.ndarray]
    """Covariate -> [G, K], of the first less that of the second."""
    published: np.ndarray
    """[V] length-controlled win rate (share); NaN for the baseline."""


def read_board(s: RecordedSweep) -> Board:
    """Read the board of at most `s.pools` prompts, evenly spaced.

    Raises:
      ValueError: no data, tables that cannot be read, or not every model against one baseline.
    """
    verdicts, items, leaderboard = map(s.file, s.files)
    whole = tables.read(verdicts, items, covariates=("words",))
    by_model = tables.read(verdicts, items, content="base_model")
    version, names = whole.items["content"].to_numpy(), whole.contents
    kept = _spaced(len(whole.pools), s.pools)
    rows = whole.verdicts[whole.verdicts["pool"].isin(kept)]
    first, second = (rows[side].to_numpy() for side in _SIDES)
    if (n := len(np.unique(version[first]))) != 1:
        raise ValueError(f"{verdicts}: first must be one baseline, got {n} models")

    _, at, counts = np.unique(version, return_index=True, return_counts=True)
    _, model, family = np.unique(
        by_model.items["content"].to_numpy()[at], return_index=True, return_inverse=True
    )
    log_words = np.log1p(whole.items["words"].to_numpy())
    mean = np.bincount(version, log_words) / counts
    # Centred within the model, or the prior of its quality would pull at the coefficient.
    renderings = mean - (np.bincount(family, mean) / np.bincount(family))[family]
    of_answer = {
        WORDS: log_words,
        RENDERINGS: renderings[version],
        VARIATION: log_words - mean[version],
    }

    prompt = np.searchsorted(kept, rows["pool"].to_numpy())
    place = count_within(prompt)

    def padded(values: np.ndarray) -> np.ndarray:
        return _padded(values, prompt, place, len(kept))

    rates = pd.read_csv(leaderboard).set_index("model").reindex(names)
    return Board(
        prompts=[whole.pools[i] for i in kept],
        versions=names,
        model=model[family],
        first=padded(version[first]),
        second=padded(version[second]),
        wins=padded(rows["p_first"].to_numpy()),
        shown=padded(np.ones(len(rows))),
        differences={name: padded(x[first] - x[second]) for name, x in of_answer.items()},
        published=rates["length_controlled_winrate"].to_numpy() / 100,
    )
