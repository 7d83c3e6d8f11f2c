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
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt.experiments import declare, plots
from jbt.experiments.run import main

from ._shared import recorded

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

SUBSETS = ("Natural", "Neighbor", "GPTInst", "GPTOut", "Manual")
TRAINING = ("subset", "all")
FEATURES = {
    "score": ["score"],
    "score+length": ["score", "length"],
    "score+length+format": ["score", "length", "format"],
    "length+format": ["length", "format"],
}
"""Features of the correction; the last set is without the judge."""
SHOWN, WITHOUT_JUDGE = "score+length+format", "length+format"
PAPER_JUDGE = "GPT-4o-mini"
"""The paper's judge. Its verdicts are not published, so its numbers are shown but not tested."""
STEPS = 30
"""Most steps of Newton's method (count)."""


@dataclass(frozen=True, kw_only=True)
class Settings(declare.RecordedSweep):
    data_name: ClassVar[str] = "llmbar"

    folds: int = 5
    """Parts of the pairs, each corrected by weights learned from the others (count)."""
    n_seeds: int = 10
    """Divisions into folds, over which agreement is averaged within each pair (count)."""
    lam: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    """Precisions of the normal prior on the weights (pure numbers; features in units of their root
    mean square); 1, which the figure shows, among them."""


PRESETS = {
    "smoke": Settings(pools=80, n_seeds=2, lam=(0.1, 1.0)),
    "paper": Settings(n_seeds=1),
    "full": Settings(),
}


def groups(s: Settings) -> list[declare.Group]:
    declare.check_increasing("lam", s.lam, least=1e-6, needed=1.0)
    if s.folds < 2 or s.n_seeds < 1:
        raise ValueError(f"folds must be 2 or more, n_seeds 1 or more: {s.folds}, {s.n_seeds}")
    verdicts = recorded.read(s, ("words", "markdown"))
    subset = [pool.partition("/")[0] for pool in verdicts.pools]
    if unknown := sorted(set(subset) - set(SUBSETS)):
        raise ValueError(f"pools must be named SUBSET/..., of {', '.join(SUBSETS)}: {unknown[0]}")
    if (verdicts.better.sum((1, 2)) != 1).any() or verdicts.mask.shape[1] != 2:
        raise ValueError("every pool needs two answers and one label that says which is better")
    judges = {"judge": verdicts.judges}
    return [
        declare.Group(
            "pairs",
            experiment,
            {"judge": np.arange(len(verdicts.judges))},
            judges,
            n_items=2,
            pools=len(verdicts.pools),
            data=verdicts.data(),
            pool_labels={"pair": verdicts.pools, "subset": subset},
        )
    ]


def experiment(key: Any, condition: dict[str, Any], pair: dict[str, Any]) -> dict[str, Any]:
    """Score one judge on one pair of answers; NaN without a valid verdict."""
    shown, wins = (pair[name][condition["judge"]] for name in ("shown", "wins"))
    share = wins / jnp.where(shown > 0, shown, 1)
    of_order = jnp.array([share[0, 1], 1 - share[1, 0]])
    made = jnp.array([shown[0, 1], shown[1, 0]]) > 0
    score = jnp.where(made, of_order, 0).sum() / made.sum()  # NaN if there is no verdict
    gold = jnp.where(pair["better"][0, 1], 1.0, 0.0)
    length, markers = pair["covariates"][0] - pair["covariates"][1]
    longer = jnp.sign(length)
    return {
        "score": score,
        "gold": gold,
        "length": length,
        "format": markers,
        "prefers_longer": 0.5 + longer * (score - 0.5),
        "gold_longer": 0.5 + longer * (gold - 0.5),
        "agreement": 0.5 + jnp.sign(score - 0.5) * (gold - 0.5),
        "orders_disagree": jnp.where(made.all(), jnp.abs(of_order[0] - of_order[1]), jnp.nan),
    }


def cross_validated(
    features: np.ndarray, gold: np.ndarray, lam: np.ndarray, folds: int, seeds: list[list[int]]
) -> np.ndarray:
    """Agreement of the correction with gold, for pairs it has not learned from.

    Args:
      features: [n, d] differences between the first answer and the second.
      gold: [n] 1 where the first is better, else 0.
      lam: [L] precisions of the prior on the weights, features in units of their root mean square
        over the pairs learned from.
      folds: parts of the pairs.
      seeds: of the divisions into folds.

    Returns:
      [L, n] 1, 0, or 1/2 where the correction does not decide, averaged over divisions.
    """
    n = len(gold)
    fold = np.stack([np.random.default_rng(s).permutation(n) % folds for s in seeds])
    out = np.zeros((len(lam), n))
    for f in range(folds):
        learn = (fold != f).astype(float)[:, None]  # [seeds, 1, n]
        mean_square = learn @ features**2 / learn.sum(-1, keepdims=True)
        precision = lam[:, None] * np.where(mean_square > 0, mean_square, 1)
        weights = logistic(features, gold, learn, precision)
        decided = np.sign(weights @ features.T)  # [seeds, L, n]
        out += ((0.5 + decided * (gold - 0.5)) * (1 - learn)).sum(0)
    return out / len(seeds)


def logistic(
    features: np.ndarray, gold: np.ndarray, learn: np.ndarray, precision: np.ndarray
) -> np.ndarray:
    """Weights [..., d] that maximise the logistic likelihood of the pairs with a normal prior, by
    Newton's method with the step of `jbt.kernel.fit`.

    Args:
      features: [n, d].
      gold: [n] 0 or 1.
      learn: [..., n] weight of each pair.
      precision: [..., d] of the prior on each weight.
    """
    n, d = features.shape
    squares = (features[:, :, None] * features[:, None]).reshape(n, d * d)
    weights = np.zeros(precision.shape)
    for _ in range(STEPS):
        p = 0.5 * (1 + np.tanh(weights @ features.T / 2))
        gradient = (learn * (gold - p)) @ features - precision * weights
        information = ((learn * p * (1 - p)) @ squares).reshape(*precision.shape, d)
        hessian = information + precision[..., None] * np.eye(d)
        change = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        reach = np.abs(change @ features.T).max(-1, keepdims=True)
        weights += change * np.where(reach > 1, np.log1p(reach) / np.maximum(reach, 1), 1)
        if reach.max() < 1e-6:
            break
    return weights


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    raw = ds.load()
    for subset in _present(raw):
        part = raw.isel(pool=np.flatnonzero(raw["subset"] == subset))
        t.means("gold_longer", part["gold_longer"].isel(judge=0, drop=True), subset=subset)
        for quantity in ("prefers_longer", "agreement", "orders_disagree"):
            t.means(quantity, part[quantity], subset=subset)
        excess = part["prefers_longer"] - part["gold_longer"]
        t.means("prefers_longer_excess", excess, subset=subset)
    for training in TRAINING:
        without_judge = _corrected(raw, s, training, WITHOUT_JUDGE)
        for features in FEATURES:
            corrected = _corrected(raw, s, training, features)
            quantities = {
                "agreement_corrected": corrected,
                "gain": corrected - raw["agreement"],
                "gain_over_no_judge": corrected - without_judge,
            }
            for subset, (quantity, values) in product(_present(raw), quantities.items()):
                part = values.isel(pool=np.flatnonzero(raw["subset"] == subset))
                t.means(quantity, part, subset=subset, training=training, features=features)
    t.paper_alone()


def _present(raw: xr.Dataset) -> list[str]:
    return [name for name in SUBSETS if (raw["subset"] == name).any()]


def _corrected(raw: xr.Dataset, s: Settings, training: str, features: str) -> xr.DataArray:
    """Agreement with gold after the correction, [judge, lam, pool]. Pairs without a valid verdict
    of the judge are NaN, and not learned from."""
    import xarray as xr

    lam, subset = np.array(s.lam), raw["subset"].values
    together = (
        [subset == name for name in _present(raw)] if training == "subset" else [subset != ""]
    )
    seeds = [[s.seed, i] for i in range(s.n_seeds)]
    out = np.full((raw.sizes["judge"], len(lam), raw.sizes["pool"]), np.nan)
    for j in range(raw.sizes["judge"]):
        pairs = raw.isel(judge=j)
        columns = {**pairs, "score": pairs["score"] - 0.5}
        x = np.stack([columns[name].values for name in FEATURES[features]], axis=-1)
        judged = np.isfinite(pairs["score"].values)
        for rows in (np.flatnonzero(judged & same) for same in together):
            if len(rows) >= s.folds:
                gold = pairs["gold"].values[rows]
                out[j][:, rows] = cross_validated(x[rows], gold, lam, s.folds, seeds)
    return xr.DataArray(out, {"judge": raw["judge"].values, "lam": lam}, ("judge", "lam", "pool"))


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    before = table.quantity.isin(["gold_longer", "prefers_longer", "agreement"])
    corrected = (table.quantity == "agreement_corrected") & (table.lam == 1.0)
    after = corrected & (table.training == "subset") & (table.features == SHOWN)
    return table[before | after | table.paper.notna()]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (longer, *corrected) = plots.new_figure(3, width=5.6, height=4.6)
    subsets = _present(ds)
    places = [*(str(judge) for judge in ds["judge"].values), PAPER_JUDGE]
    gold = table[(table.quantity == "gold_longer") & table.judge.isna()]
    _lines(longer, gold, subsets, "-", "gold labels")
    draw_judges(longer, table[table.quantity == "prefers_longer"], subsets, places)
    longer.set_title("How often the longer answer is preferred")
    longer.set_ylabel("share of pairs (95 %)")
    for ax, training in zip(corrected, TRAINING, strict=True):
        after = table[(table.quantity == "agreement_corrected") & (table.lam == 1.0)]
        after = after[after.training == training]
        alone = after[after.features == WITHOUT_JUDGE]
        after = after[after.features == SHOWN]
        if training == "subset":  # the paper does not say which pairs it learned from
            paper = (table.quantity == "agreement_corrected") & table.paper.notna()
            after = pd.concat([after, table[paper]])
        _lines(ax, alone, subsets, ":", "length and format alone, no judge")
        draw_judges(ax, table[table.quantity == "agreement"], subsets, places, hollow=True)
        draw_judges(ax, after, subsets, places)
        from_where = {"subset": "of the same subset", "all": "of all subsets"}[training]
        ax.set_title(
            f"Agreement with gold: before (hollow) and after\ncorrection by labels {from_where}"
        )
        ax.set_ylabel("share of pairs, ties as halves (95 %)")
    labelled = [
        pair for ax in fig.axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)
    ]
    once = {label: handle for handle, label in labelled}
    fig.legend(once.values(), once.keys(), loc="outside lower center", ncols=len(once), fontsize=9)
    return fig


def draw_judges(
    ax: Axes, rows: pd.DataFrame, subsets: list[str], places: list[str], *, hollow: bool = False
) -> Axes:
    """Draw rows of one quantity by subset, judges beside each other; crosses for numbers that only
    the paper has."""
    width = 0.8 / len(places)
    for j, judge in enumerate(places):
        judge_rows = rows[rows.judge == judge].drop_duplicates("subset").set_index("subset")
        judge_rows = judge_rows.loc[[name for name in subsets if name in judge_rows.index]]
        at = (
            np.array([subsets.index(name) for name in judge_rows.index])
            + (j - len(places) / 2) * width
        )
        if judge == PAPER_JUDGE and judge_rows.estimate.isna().all():
            marker, colour = ("+", "grey") if hollow else ("x", "black")
            ax.plot(at, judge_rows.paper, marker, color=colour, label=f"{judge} (paper)")
            continue
        colour = plots.CYCLE[j % len(plots.CYCLE)]
        if hollow:
            plots.points(ax, judge_rows, at, colour=colour, label="_", mfc="white", alpha=0.6)
        else:
            plots.points(ax, judge_rows, at, colour=colour, label=judge)
    ax.set_xticks(range(len(subsets)), subsets)
    ax.set_ylim(0, 1)
    ax.axhline(0.5, color="grey", linewidth=0.5)
    return ax


def _lines(ax: Axes, rows: pd.DataFrame, subsets: list[str], style: str, label: str) -> None:
    """Draw the mean over judges across the width of each subset."""
    mean = rows.groupby("subset").estimate.mean()
    for i, name in enumerate(subsets):
        at = (i - 0.45, i + 0.4)
        ax.plot(at, [mean[name]] * 2, style, color="black", label="_" if i else label)


SWEEP = declare.legacy(
    "llmbar",
    "Judges' preference for longer answers on LLMBar, and what a supervised correction of it buys.",
    PRESETS,
    groups,
    ("subset", "judge", "training", "features", "lam"),
    table,
    figure,
    units={
        "score": "1 (preference for the first answer, over both orders)",
        "gold": "1 (the first answer is better)",
        "length": "words (first minus second)",
        "format": "markdown markers (first minus second)",
        "prefers_longer": "1 (share; equal lengths are halves)",
        "gold_longer": "1 (share; equal lengths are halves)",
        "agreement": "1 (share; ties are halves)",
        "orders_disagree": "1 (share)",
    },
    headline=headline,
    index="judge",
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
