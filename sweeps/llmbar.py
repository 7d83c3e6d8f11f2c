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
from typing import TYPE_CHECKING, Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import runtime
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import COLOURS, Line, Panel
from jbt.kernel.fit import fit_map
from jbt.types import Design, Prior, Rows, Variant, check_count

from ._shared.recorded import Answers, read

if TYPE_CHECKING:
    import xarray as xr


SUBSETS = ("Natural", "Neighbor", "GPTInst", "GPTOut", "Manual")
TRAINING = ("subset", "all")
"""Labels that a pair's correction learns from: of the same subset, or of all subsets."""
FEATURES = {
    "score+length+format": (True, True, True),
    "length+format": (False, True, True),
}
"""Whether a correction uses score, length and format; the last is without the judge."""
SHOWN, WITHOUT_JUDGE = FEATURES
PAPER_JUDGE = "GPT-4o-mini"
"""The paper's judge. Its verdicts are not published, so its numbers are shown but not tested."""


@dataclass(frozen=True, kw_only=True)
class LLMBar(RecordedSweep):
    """Judges' preference for longer answers on LLMBar, and what a supervised correction of it
    buys."""

    name = "llmbar"
    data_name = "llmbar"
    columns = ("subset", "judge", "training", "features", "lam")
    index = "judge"
    panel_size = {"below": {"ncols": 3, "fontsize": 9}}
    presets = {
        "smoke": {"pools": 80, "n_seeds": 2},
        "paper": {"n_seeds": 1},
    }
    units = {
        "score": "1 (preference for the first answer, over both orders)",
        "gold": "1 (the first answer is better)",
        "length": "words (first minus second)",
        "format": "markdown markers (first minus second)",
    }

    folds: Annotated[int, partial(check_count, least=2)] = 5
    """Parts of the pairs, each corrected by weights learned from the others (count)."""
    n_seeds: Annotated[int, check_count] = 10
    """Divisions into folds, over which agreement is averaged within each pair (count)."""
    lam: float = 1.0
    """Precision of the normal prior on the weights (pure number; features in units of their root
    mean square)."""

    def groups(self):
        recorded = read(self, ("words", "markdown"))
        pairs, answers = recorded.pools, recorded.answers
        subset = [pair.partition("/")[0] for pair in pairs]
        if unknown := sorted(set(subset) - set(SUBSETS)):
            known = ", ".join(SUBSETS)
            raise ValueError(f"pools must be named SUBSET/..., of {known}: {unknown[0]}")
        if (answers.better.sum((1, 2)) != 1).any() or answers.mask.shape[1] != 2:
            raise ValueError("every pool needs two answers and one label that says which is better")
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
        subsets = [name for name in SUBSETS if name in raw["subset"].values]
        for subset in subsets:
            part = where(raw, subset=subset)
            t.means("gold_longer", part["gold_longer"].isel(judge=0, drop=True), subset=subset)
            for quantity in ("prefers_longer", "agreement"):
                t.means(quantity, part[quantity], subset=subset)
        for training in TRAINING:
            together = [[name] for name in subsets] if training == "subset" else [subsets]
            for features, agreement in self.corrected(raw, together).items():
                gain = agreement - raw["agreement"]
                row = {"training": training, "features": features, "lam": self.lam}
                for subset in subsets:
                    row["subset"] = subset
                    t.means("agreement_corrected", where(agreement, subset=subset), **row)
                    t.means("gain", where(gain, subset=subset), **row)
        t.paper_alone()

    def corrected(self, raw: xr.Dataset, together: list[list[str]]) -> dict[str, xr.DataArray]:
        """Agreement with gold after the correction [judge, pool], by features. Pairs without
        a valid verdict of the judge are NaN, and not learned from.

        Args:
          together: subsets whose pairs are learned from together.
        """
        import xarray as xr

        out = {name: xr.full_like(raw["score"], np.nan) for name in FEATURES}
        for j, subsets in product(range(raw.sizes["judge"]), together):
            pairs = raw.isel(judge=j)
            usable = np.isfinite(pairs["score"].values) & np.isin(pairs["subset"], subsets)
            if usable.sum() < self.folds:
                continue
            columns = pairs["score"] - 0.5, pairs["length"], pairs["format"]
            x = np.where(usable[:, None], np.stack(columns, axis=-1), 0)
            fold = np.full((self.n_seeds, len(usable)), -1)
            for i, of_seed in enumerate(fold):
                rng = np.random.default_rng([self.seed, i])
                of_seed[usable] = rng.permutation(usable.sum()) % self.folds
            for name, used in FEATURES.items():
                gold, parts = pairs["gold"].values, np.arange(self.folds)
                right = cross_validated(x * used, gold, fold, parts, self.lam)
                out[name].values[j] = np.where(usable, right, out[name].values[j])
        return out

    def headline(self, table):
        before = table.quantity.isin(["gold_longer", "prefers_longer", "agreement"])
        after = {"quantity": "agreement_corrected", "training": "subset"}
        shown = table.index.isin(where(table, **after, features=SHOWN).index)
        return table[before | shown | table.paper.notna()]

    def panels(self, table):
        subsets = [name for name in SUBSETS if name in table.subset.values]
        judges = [judge for judge in table.judge.dropna().unique() if judge != PAPER_JUDGE]
        after = {"quantity": "agreement_corrected", "training": "subset"}

        def panel(labels: tuple[str, str], mean: Line, *series: Line) -> Panel:
            """Judges beside each other in each subset, and what does not depend on the judge
            across its width; crosses for a judge that only the paper has."""
            lines = []
            for (i, one), (j, judge) in product(enumerate(series), enumerate(judges)):
                shift = 0.8 * (j / len(judges) - 0.5) + 0.06 * i
                name = "_" if j else one.label
                of_judge = {**one.where, "judge": judge}
                lines.append(Line(of_judge, name, one.colour, joined=False, shift=shift))

            def others(ax):
                means, at = where(table, **mean.where), np.arange(len(subsets))
                means = means.groupby("subset").estimate.mean().reindex(subsets)
                ax.hlines(means, at - 0.45, at + 0.4, colors=mean.colour, label=mean.label)
                for one in series:
                    paper = where(table, judge=PAPER_JUDGE, quantity=one.where["quantity"])
                    at = [subsets.index(name) + 0.4 for name in paper.subset]
                    ink, label = COLOURS[one.colour], f"{PAPER_JUDGE}, {one.label} (the paper)"
                    ax.plot(at, paper.paper, "x", color=ink, label=label)
                ax.set_ylim(0, 1)

            x, named = "subset of LLMBar", {"names": subsets, "after": others}
            return Panel("subset", {"subset": subsets}, lines, (x, *labels), **named)

        gold = Line({"quantity": "gold_longer"}, "people's labels", "black")
        alone = Line({**after, "features": WITHOUT_JUDGE}, "length and format, no judge", "grey")
        raw, longer = ({"quantity": name} for name in ("agreement", "prefers_longer"))
        corrected = Line({**after, "features": SHOWN}, "corrected by labels", "blue")
        return [
            panel(
                (
                    "share of pairs with the longer preferred\n(a mark a judge; 95 % over pairs)",
                    "Most judges prefer the longer answer\nmore often than people do",
                ),
                gold,
                Line(longer, "not corrected", "orange"),
            ),
            panel(
                (
                    "share of pairs judged as people do\n(a mark a judge; 95 % over pairs)",
                    "On Neighbor, GPTInst and Manual, length\n"
                    "and format agree as well as corrected judges",
                ),
                alone,
                Line(raw, "not corrected", "orange"),
                corrected,
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
def cross_validated(
    features: np.ndarray, gold: np.ndarray, fold: np.ndarray, parts: np.ndarray, lam: float
) -> np.ndarray:
    """Agreement of the correction with gold, for pairs it has not learned from: 1, 0, or 1/2 where
    the correction does not decide, averaged over divisions into parts, [n].

    Args:
      features: [n, d] differences between the first answer and the second.
      gold: [n] 1 where the first is better, else 0.
      fold: [divisions, n] part of each pair; -1 for pairs that are left out.
      parts: [F] all parts, 0 to F - 1.
      lam: precision of the prior on the weights, see `learned`.
    """
    return np.asarray(_right(features, gold, lam, fold, parts).sum(1).mean(0))


@jax.jit
@partial(jax.vmap, in_axes=(None, None, None, 0, None))
@partial(jax.vmap, in_axes=(None, None, None, None, 0))
def _right(features: Array, gold: Array, lam: Array, fold: Array, part: Array) -> Array:
    """[divisions, F, n] agreement where the part is corrected by the others, else 0."""
    weight = jnp.where((fold >= 0) & (fold != part), 1.0, 0.0)
    decided = jnp.sign(features @ learned(features, gold, weight, lam))
    return jnp.where(fold == part, 0.5 + decided * (gold - 0.5), 0)


def learned(
    features: Float[Array, "n d"],
    gold: Float[Array, " n"],
    weight: Float[Array, " n"],
    lam: Float[Array, ""],
) -> Float[Array, " d"]:
    """Weights that maximise the logistic likelihood of the pairs, counted so often, with a normal
    prior of precision lam, features in units of their root mean square."""
    n, d = features.shape
    square = weight @ features**2 / weight.sum()
    precision = lam * jnp.where(square > 0, square, 1)
    # Bradley-Terry of an item against itself: only the covariates' part of the logit is left.
    itself, unordered = jnp.zeros(n, int), jnp.zeros(n)
    rows = Rows(itself, itself, features, unordered, weight, weight * gold)
    variant = Variant(jnp.ones(d, bool), jnp.array(False))
    prior = Prior(1.0, jnp.append(precision, 1.0))
    return fit_map(rows, Design.of_contents(1, d), prior, variant).parameters.c


SWEEP = LLMBar

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
