"""Win rates by trusted labels: against the formulas of PPI++ (Angelopoulos et al. 2023, eq. 4),
written out over rows, and what they do with a biased judge."""

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.special import expit
from support.boards import QUALITY, written

from jbt import own, stats

MODELS = list(QUALITY)
COLUMNS = ["pool", "first", "second", "better"]


def labelled_tables(share=0.5, ties=0.1):
    """Verdicts of a judge who pays for length, and labels of a random part of the pairs, which do
    not."""
    verdicts, _ = written(24, c=1.5)
    rng, anchors = default_rng(0), []
    for p, (a, b) in itertools.product(range(24), itertools.combinations(MODELS, 2)):
        if rng.random() < share:
            won = a if rng.random() < expit(QUALITY[a] - QUALITY[b]) else b
            anchors.append((f"p{p}", a, b, "tie" if rng.random() < ties else won))
    return verdicts, pd.DataFrame(anchors, columns=COLUMNS)


def rates_of(verdicts, anchors):
    """The leaderboard's columns of win rates by labels, by name of the model, and its record."""
    tables = own.read(verdicts, None, anchors)
    boards = own.leaderboard(tables, beside=("ppi",))
    models = boards[0].models.set_index("model").filter(like="ppi_").loc[MODELS]
    models.columns = models.columns.str.removeprefix("ppi_")
    return models, boards[0].record()["beside"]["ppi"], boards


def parts(verdicts, anchors, without=None):
    """Means of the labels, of the judge on the labelled pairs, and of the judge on all pairs,
    [3, models]. `without`: a prompt left out."""
    judge, label = {}, {}
    for pool, first, second, winner in verdicts.itertuples(index=False):
        key = (pool, *sorted((first, second)))
        judge.setdefault(key, []).append(float((winner == "first") == (first == key[1])))
    judge = {key: np.mean(shares) for key, shares in judge.items() if key[0] != without}
    for pool, first, second, better in anchors.itertuples(index=False):
        key = (pool, *sorted((first, second)))
        if pool != without:
            label[key] = 0.5 if better == "tie" else float(better == key[1])

    def mean(values, model, keys):
        return np.mean(
            [values[k] if k[1] == model else 1 - values[k] for k in keys if model in k[1:]]
        )

    means = (label, label), (judge, label), (judge, judge)
    return np.array([[mean(values, model, keys) for model in MODELS] for values, keys in means])


def on(model, table):
    return table[(table["first"] == model) | (table["second"] == model)]


def jackknife(verdicts, anchors, weight):
    """Covariance from leaving out each prompt."""
    whole = parts(verdicts, anchors)
    counts = [[on(m, t)["pool"].nunique() for m in MODELS] for t in (anchors, anchors, verdicts)]
    factor = np.sqrt(1 - 1 / np.array(counts))
    moved = [
        factor * (parts(verdicts, anchors, pool) - whole) for pool in verdicts["pool"].unique()
    ]
    moved = np.array([labels + weight * (all_ - some) for labels, some, all_ in moved])
    return moved.T @ moved


def test_it_is_ppi_written_out_over_rows():
    verdicts, anchors = labelled_tables()
    models, record, _ = rates_of(verdicts, anchors)
    weight = record["weight"]
    # The trace of the covariance is a parabola in the weight.
    at = [np.trace(jackknife(verdicts, anchors, w)) for w in (0.0, 0.5, 1.0)]
    second = 2 * (at[0] - 2 * at[1] + at[2])
    assert weight == pytest.approx(0.5 - (at[2] - at[0]) / (2 * second), abs=1e-8)
    labels, by_judge, everywhere = parts(verdicts, anchors)
    estimate = labels + weight * (everywhere - by_judge)
    assert_allclose(models["estimate"], estimate, atol=1e-8)
    share = [on(m, anchors).groupby("pool").size() for m in MODELS]
    even = np.array([n.sum() ** 2 / (n**2).sum() for n in share])
    variance = np.diagonal(jackknife(verdicts, anchors, weight))
    ends = stats.effective_share(estimate, variance, even, np.zeros(4, bool))
    assert_allclose(models[["low", "high"]].to_numpy().T, ends, atol=1e-8)


def test_labels_of_every_pair_leave_nothing_to_the_judge():
    """And a model that lost all of them has no certain rank: its jackknife variance of 0 is no
    certainty."""
    verdicts, anchors = labelled_tables(share=1.1, ties=0)
    of_last = anchors["second"] == "D"
    anchors.loc[of_last, "better"] = anchors.loc[of_last, "first"]
    models, *_ = rates_of(verdicts, anchors)
    won = anchors["better"].value_counts().reindex(MODELS, fill_value=0)
    expected = won / [len(on(m, anchors)) for m in MODELS]
    assert_allclose(models["estimate"], expected, atol=1e-12)
    assert models["estimate"]["D"] == 0 < models["high"]["D"] < 0.5
    assert models.loc["D", ["rank_low", "rank_high"]].tolist() == [1, 4]


def test_few_labelled_prompts_have_no_interval_and_the_report_says_so():
    verdicts, anchors = labelled_tables()
    few = anchors[~anchors["first"].eq("A") | (anchors["pool"] < "p14")]
    models, _, boards = rates_of(verdicts, few)
    assert models["estimate"].notna().all()
    for end in ("low", "rank_low"):
        assert models.index[models[end].isna()].tolist() == ["A"]
    expected = "ppi: no interval for A: labelled on fewer than 10 prompts"
    assert expected in boards.report("", []).text()
