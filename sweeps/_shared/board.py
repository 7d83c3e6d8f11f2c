"""The AlpacaEval tables as one board of prompts and versions of models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.experiments.declare import RecordedSweep
from jbt.own import tables

from . import recorded

WORDS, VARIATION, RENDERINGS, TANH = "words", "variation", "renderings", "tanh"
"""Covariates: log length of an answer (`words`); its mean over the answers of a version, where the
model has several versions (`renderings`; for one model alone, under the model's name); the
difference of these two (`variation`); AlpacaEval's covariate (`tanh`)."""


@dataclass(frozen=True, eq=False)
class Board:
    """G prompts, V versions of models, at most K verdicts a prompt."""

    prompts: list[str]
    versions: list[str]
    model: np.ndarray
    """[V] number of the first version of the same model."""
    families: dict[str, np.ndarray]
    """Model with several versions -> numbers of the versions."""
    baseline: int
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
    mean_words: np.ndarray
    """[V] geometric mean of 1 + words."""
    published: np.ndarray
    """[2, V] win rate and length-controlled win rate (shares); NaN for the baseline."""


def read(s: RecordedSweep) -> Board:
    """Read the board of at most `s.pools` prompts, evenly spaced.

    Raises:
      ValueError: no data, tables that cannot be read, or not every model against one baseline.
    """
    verdicts, items, leaderboard = (s.file(name) for name in s.files)
    whole = tables.read(verdicts, items, covariates=("words", "chars"))
    by_model = tables.read(verdicts, items, content="base_model")
    version = whole.items["content"].to_numpy()
    kept = recorded.spaced(len(whole.pools), s.pools)
    rows = whole.verdicts[whole.verdicts["pool"].isin(kept)]
    first, second = rows["first"].to_numpy(), rows["second"].to_numpy()
    if len(baselines := np.unique(version[first])) != 1:
        raise ValueError(f"{verdicts}: first must be one baseline, got {len(baselines)} models")

    versions, at, counts = np.unique(version, return_index=True, return_counts=True)
    names = np.array(by_model.contents)[by_model.items["content"].to_numpy()[at]]
    model = np.array([np.flatnonzero(names == name)[0] for name in names])
    families = {
        str(names[v]): np.flatnonzero(model == v) for v in versions if (model == v).sum() > 1
    }
    if not families:
        raise ValueError(f"{items}: no base_model is there in several versions")
    log_words = np.log1p(whole.items["words"].to_numpy())
    mean = np.bincount(version, log_words) / counts
    of_answer = {WORDS: log_words, VARIATION: log_words - mean[version]}
    of_family = {}
    for name, of_model in families.items():
        # Centred within the family, or the prior of its quality would pull at the coefficient.
        of_family[name] = np.where(np.isin(versions, of_model), mean - mean[of_model].mean(), 0)[
            version
        ]
    of_answer |= {RENDERINGS: np.sum([*of_family.values()], axis=0), **of_family}
    differences = {name: values[first] - values[second] for name, values in of_answer.items()}
    chars = whole.items["chars"].to_numpy()
    chars = chars[first] - chars[second]
    differences[TANH] = np.tanh(chars / chars.std())

    prompt = np.searchsorted(kept, rows["pool"].to_numpy())
    place = rows.groupby("pool").cumcount().to_numpy()

    def over_prompts(values: np.ndarray) -> np.ndarray:
        out = np.zeros((len(kept), place.max() + 1), values.dtype)
        out[prompt, place] = values
        return out

    names = [whole.contents[v] for v in versions]
    rates = pd.read_csv(leaderboard).set_index("model").reindex(names)
    return Board(
        [whole.pools[i] for i in kept],
        names,
        model,
        families,
        int(baselines[0]),
        over_prompts(version[first]),
        over_prompts(version[second]),
        over_prompts(rows["p_first"].to_numpy()),
        over_prompts(np.ones(len(rows))),
        {name: over_prompts(values) for name, values in differences.items()},
        np.exp(mean),
        rates[["win_rate", "length_controlled_winrate"]].to_numpy().T / 100,
    )
