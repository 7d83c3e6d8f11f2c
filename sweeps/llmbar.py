"""LLMBar: judges that prefer the longer answer, and human gold labels that often do not.

The paper's external check, on the same 419 pairs with six other judges. Every pair was shown in
both orders; a judge's score is its preference for one answer, averaged over the orders.

The correction learns from gold labels, so it measures how much of a judge's disagreement with them
length and format explain, not what verdicts alone identify:

    logit P(gold prefers 1) = a (score - 1/2) + b (words_1 - words_2) + d (markers_1 - markers_2)

without an intercept, because the order of the answers has no meaning. It is never tested on pairs
that it has learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import runtime
from jbt.estimators.any_likelihood import log_likelihood, maximise
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel

from ._shared.recorded import Answers, read

if TYPE_CHECKING:
    import xarray as xr


SUBSETS = ("Natural", "Neighbor", "GPTInst", "GPTOut", "Manual")
"""Pools are named SUBSET/NUMBER, and have two answers and one label."""
FEATURES = {
    "score+length+format": (True, True, True),
    "length+format": (False, True, True),
}
"""Whether a correction uses score, length and format; the last is without the judge."""
SHOWN, WITHOUT_JUDGE = FEATURES
FOLDS = 5
"""Parts of a subset's pairs, each corrected by weights learned from the others."""
DIVISIONS = 10
"""Divisions into folds, over which agreement is averaged within each pair."""
PAPER_JUDGE = "GPT-4o-mini"
"""The paper's judge. Its verdicts are not published, so its numbers are shown but not tested."""


@dataclass(frozen=True, kw_only=True)
class LLMBar(RecordedSweep):
    """Judges' preference for longer answers on LLMBar, and what a supervised correction of it
    buys."""

    name = "llmbar"
    data_name = "llmbar"
    columns = ("subset", "judge", "features")
    index = "judge"
    panel_size = {"below": {"ncols": 3, "fontsize": 9}}
    presets = {"smoke": {"pools": 80}, "paper": {}}
    units = {
        "score": "1 (preference for the first answer, over both orders)",
        "gold": "1 (the first answer is better)",
        "length": "words (first minus second)",
        "format": "markdown markers (first minus second)",
    }

    def groups(self):
        recorded = read(self, ("words", "markdown"))
        pairs, answers = recorded.pools, recorded.answers
        subset = [pair.partition("/")[0] for pair in pairs]
        return [
            Group(
                "pairs",
                experiment,
                {"judge": np.arange(len(recorded.judges))},
                {"judge": recorded.judges},
                n_items=2,
                pools=len(pairs),
                data=answers,
                pool_labels={"pair": pairs, "subset": subset},
            )
        ]

    def table(self, ds, t):
        raw = ds.load()
        corrected = {name: self.corrected(raw, used) for name, used in FEATURES.items()}
        for subset in [name for name in SUBSETS if name in raw["subset"].values]:
            part = where(raw, subset=subset)
            t.means("gold_longer", part["gold_longer"].isel(judge=0, drop=True), subset=subset)
            for quantity in ("prefers_longer", "agreement"):
                t.means(quantity, part[quantity], subset=subset)
            for features, agreement in corrected.items():
                part = where(agreement, subset=subset)
                t.means("agreement_corrected", part, subset=subset, features=features)
        for number in self.paper():
            if number.setting.get("judge") == PAPER_JUDGE:
                setting: dict[str, Any] = {**number.setting}
                t.add(number.quantity, np.nan, studies=lambda *_: np.full(1, np.nan), **setting)

    def corrected(self, raw: xr.Dataset, used: tuple[bool, ...]) -> xr.DataArray:
        """Agreement with gold after the correction [judge, pool]. Pairs without a valid verdict of
        the judge are NaN, and not learned from."""
        import xarray as xr

        out = xr.full_like(raw["score"], np.nan)
        for j, subset in product(range(raw.sizes["judge"]), SUBSETS):
            pairs = raw.isel(judge=j)
            usable = np.isfinite(pairs["score"].values) & (pairs["subset"].values == subset)
            if usable.sum() < FOLDS:
                continue
            columns = pairs["score"] - 0.5, pairs["length"], pairs["format"]
            x = np.where(usable[:, None] & used, np.stack(columns, axis=-1), 0)
            fold = np.full((DIVISIONS, len(usable)), -1)
            for i, division in enumerate(fold):
                rng = np.random.default_rng([self.seed, i])
                division[usable] = rng.permutation(usable.sum()) % FOLDS
            right = cross_validated(x, pairs["gold"].values, fold)
            out.values[j] = np.where(usable, right, out.values[j])
        return out

    def panels(self, table):
        subsets = [name for name in SUBSETS if name in table.subset.values]
        judges = [judge for judge in table.judge.dropna().unique() if judge != PAPER_JUDGE]

        def panel(labels: tuple[str, str], reference: Line, *series: tuple[str, str, str]) -> Panel:
            """What does not depend on the judge, then quantities with a mark for each judge beside
            each other, the last for the paper's judge."""
            lines = [reference]
            for quantity, label, colour in series:
                for judge in [*judges, PAPER_JUDGE]:
                    one = {"quantity": quantity, "judge": judge}
                    one |= {"features": SHOWN} if (quantity, judge) in corrected else {}
                    lines.append(Line(one, label if judge == judges[0] else "_", colour))
            axis, title = labels
            return Panel("subset", {"subset": subsets}, lines, (axis, "", title), names=subsets)

        alone = {"features": WITHOUT_JUDGE, "judge": judges[0]}
        corrected = [("agreement_corrected", judge) for judge in judges]
        square = {"fmt": "s"}
        return [
            panel(
                (
                    "share of pairs with the longer preferred\n(a mark a judge; 95 % over pairs)",
                    "Most judges prefer the longer answer\nmore often than people do",
                ),
                Line({"quantity": "gold_longer"}, "people's labels", "black", square),
                ("prefers_longer", "not corrected", "orange"),
            ),
            panel(
                (
                    "share of pairs judged as people do\n(a mark a judge; 95 % over pairs)",
                    "On Neighbor, GPTInst and Manual, length\n"
                    "and format agree as well as most corrected judges",
                ),
                Line(alone, "length and format, no judge", "grey", square),
                ("agreement", "not corrected", "orange"),
                ("agreement_corrected", "corrected by labels", "blue"),
            ),
        ]


def experiment(key: Any, condition: dict[str, Any], pair: Answers) -> dict[str, Any]:
    """Score one judge on one pair of answers; NaN without a valid verdict."""
    shown, wins = (v[condition["judge"]] for v in (pair.shown, pair.wins))
    share = wins / jnp.where(shown > 0, shown, 1)
    of_order = jnp.array([share[0, 1], 1 - share[1, 0]])
    made = jnp.array([shown[0, 1], shown[1, 0]]) > 0
    score = jnp.where(made, of_order, 0).sum() / made.sum()  # NaN if there is no verdict
    gold = jnp.where(pair.better[0, 1], 1.0, 0.0)
    length, markers = pair.covariates[0] - pair.covariates[1]
    longer = jnp.sign(length)
    return {
        "score": score,
        "gold": gold,
        "length": length,
        "format": markers,
        "prefers_longer": 0.5 + longer * (score - 0.5),
        "gold_longer": 0.5 + longer * (gold - 0.5),
        "agreement": 0.5 + jnp.sign(score - 0.5) * (gold - 0.5),
    }


@runtime.precision("float64")
def cross_validated(features: np.ndarray, gold: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Agreement of the correction with gold, for pairs it has not learned from: 1, 0, or 1/2 where
    the correction does not decide, averaged over divisions into parts, [n].

    Args:
      features: [n, d] differences between the first answer and the second.
      gold: [n] 1 where the first is better, else 0.
      fold: [divisions, n] part of each pair; -1 for pairs that are left out.
    """
    return np.asarray(_right(features, gold, fold, np.arange(FOLDS)).sum(1).mean(0))


@jax.jit
@partial(jax.vmap, in_axes=(None, None, 0, None))
@partial(jax.vmap, in_axes=(None, None, None, 0))
def _right(features: Array, gold: Array, fold: Array, part: Array) -> Array:
    """[divisions, FOLDS, n] agreement where the part is corrected by the others, else 0."""
    weight = jnp.where((fold >= 0) & (fold != part), 1.0, 0.0)
    decided = jnp.sign(features @ learned(features, gold, weight))
    return jnp.where(fold == part, 0.5 + decided * (gold - 0.5), 0)


def learned(
    features: Float[Array, "n d"], gold: Float[Array, " n"], weight: Float[Array, " n"]
) -> Float[Array, " d"]:
    """Weights that maximise the logistic likelihood of the pairs, counted so often, with a normal
    prior of precision 1, features in units of their root mean square."""
    square = weight @ features**2 / weight.sum()

    def term(beta: Array, pair: tuple[Array, ...]) -> Array:
        x, gold, weight = pair
        return weight * log_likelihood(x @ beta, gold)

    precision = jnp.where(square > 0, square, 1)
    return maximise(term, (features, gold, weight), precision).beta


SWEEP = LLMBar

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
