"""Win rates by trusted labels: against the formulas of PPI++, written out over rows, and what they
do with a biased judge."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from jbt import cli, own, runtime, stats
from jbt.estimators.prediction_powered import PairSums, prediction_powered
from jbt.own.leaderboards.prediction_powered import labelled_win_rates

MODELS = "ABCD"


def written(n_prompts=24, *, seed=0, bias=1.5, labelled=0.5, ties=0.1):
    """Verdicts on all pairs in both orders, items and labels as data frames. Labels are of a random
    half of the pairs; the judge pays for length, which the labels do not."""
    rng = np.random.default_rng(seed)
    theta, verdicts, items, anchors = np.array([0.8, 0.3, -0.3, -0.8]), [], [], []
    for p in range(n_prompts):
        words = rng.normal(0, 1, 4)
        items += [(f"p{p}", m, w) for m, w in zip(MODELS, words, strict=True)]
        for i, j in itertools.combinations(range(4), 2):
            z = theta[i] - theta[j]
            for a, b in ((i, j), (j, i)):
                sign = 1 if a == i else -1
                won = rng.random() < expit(sign * (z + bias * (words[i] - words[j])) + 0.3)
                verdicts.append((f"p{p}", MODELS[a], MODELS[b], "first" if won else "second"))
            if rng.random() < labelled:
                answer = (
                    "tie" if rng.random() < ties else MODELS[i if rng.random() < expit(z) else j]
                )
                anchors.append((f"p{p}", MODELS[i], MODELS[j], answer))
    return (
        pd.DataFrame(verdicts, columns=["pool", "first", "second", "winner"]),
        pd.DataFrame(items, columns=["pool", "item", "words"]),
        pd.DataFrame(anchors, columns=["pool", "first", "second", "better"]),
    )


def reference(verdicts, anchors, weight):
    """The estimator over rows, by dictionaries."""
    labels, by_judge, everywhere = parts(verdicts, anchors)
    return labels + weight * (everywhere - by_judge)


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
        sides = [(k, values[k] if k[1] == model else 1 - values[k]) for k in keys if model in k[1:]]
        return np.mean([value for _, value in sides])

    means = (label, label), (judge, label), (judge, judge)
    return np.array([[mean(values, model, keys) for model in MODELS] for values, keys in means])


def jackknife(verdicts, anchors, weight):
    """Covariance from leaving out each labelled or unlabelled prompt."""
    pools = verdicts["pool"].unique()
    whole = parts(verdicts, anchors)
    n_labelled, n_judged = (
        np.array([t[(t["first"] == m) | (t["second"] == m)]["pool"].nunique() for m in MODELS])
        for t in (anchors, verdicts)
    )
    factor = np.sqrt([1 - 1 / n for n in (n_labelled, n_labelled, n_judged)])
    moved = [factor * (parts(verdicts, anchors, pool) - whole) for pool in pools]
    moved = np.array([labels + weight * (all_ - some) for labels, some, all_ in moved])
    return moved.T @ moved


def test_it_is_ppi_written_out_over_rows():
    verdicts, items, anchors = written()
    rates = labelled_win_rates(own.read(verdicts, items, anchors), 0)
    # The trace of the covariance is a parabola in the weight.
    at = [np.trace(jackknife(verdicts, anchors, w)) for w in (0.0, 0.5, 1.0)]
    second = 2 * (at[0] - 2 * at[1] + at[2])
    assert rates.weight == pytest.approx(0.5 - (at[2] - at[0]) / (2 * second), abs=1e-8)
    np.testing.assert_allclose(
        rates.models["estimate"], reference(verdicts, anchors, rates.weight), atol=1e-8
    )
    covariance = jackknife(verdicts, anchors, rates.weight)
    share = anchors.groupby("pool").size()
    assert rates.n_labelled == len(anchors)
    assert rates.n_prompts == len(share)
    both = [anchors[(anchors["first"] == m) | (anchors["second"] == m)] for m in MODELS]
    even = np.array([len(b) ** 2 / (b.groupby("pool").size() ** 2).sum() for b in both])
    low, high = stats.effective_share(
        rates.models["estimate"].to_numpy(), np.diagonal(covariance), even, np.zeros(4, bool)
    )
    np.testing.assert_allclose([rates.models["low"], rates.models["high"]], [low, high], atol=1e-8)


def test_it_is_the_estimator_of_ppi_plus_plus():
    """With one pair a prompt: mean of labels on n, of the judge on n and N others (Angelopoulos et
    al. 2023, eq. 4), at the weight scaled by N / (N + n)."""
    rng = np.random.default_rng(3)
    n, others = 300, 900
    f = rng.random(n + others)
    y = (rng.random(n) < 0.2 + 0.6 * f[:n]).astype(float)
    one = np.ones((n + others, 1))
    marked = one * (np.arange(n + others) < n)[:, None]
    truth = np.pad(y, (0, others))[:, None]
    with runtime.precision("float64"):
        sums = PairSums(*map(jnp.asarray, (one, f[:, None], marked, f[:, None] * marked, truth)))
        fit = prediction_powered(sums)
    published = float(fit.weight) * others / (n + others)
    expected = published * f[n:].mean() + (y - published * f[:n]).mean()
    assert float(fit.win_rate[0]) == pytest.approx(expected, abs=1e-12)
    # Their variance and power-tuned weight, whose plug-ins differ by terms of order 1 / n.
    plain = np.cov(y, f[:n])[0, 1] / ((1 + n / others) * f.var(ddof=1))
    assert published == pytest.approx(plain, rel=0.1)
    variance = published**2 * f[n:].var() / others + np.var(y - published * f[:n]) / n
    assert float(fit.covariance[0, 0]) == pytest.approx(variance, rel=0.1)


def test_the_weight_follows_what_the_judge_knows():
    rng = np.random.default_rng(1)
    pairs = np.ones((400, 1))
    y = (rng.random((400, 1)) < 0.6).astype(float)
    marked = pairs * (np.arange(400) < 100)[:, None]
    coin = (rng.random((400, 1)) < 0.5).astype(float)

    def weight(f):
        sums = (jnp.asarray(v) for v in (pairs, f, marked, f * marked, y * marked))
        return float(prediction_powered(PairSums(*sums)).weight)

    with runtime.precision("float64"):
        assert weight(y) == pytest.approx(1, abs=1e-9)  # every verdict is the label
        assert weight(1 - y) == 0
        assert weight(coin) < 0.2


def test_labels_of_every_pair_leave_nothing_to_the_judge():
    verdicts, items, anchors = written(labelled=1.1, ties=0)
    rates = labelled_win_rates(own.read(verdicts, items, anchors), 0)
    expected = [
        ((anchors["better"] == m).sum())
        / ((anchors["first"] == m) | (anchors["second"] == m)).sum()
        for m in MODELS
    ]
    np.testing.assert_allclose(rates.models["estimate"], expected, atol=1e-12)


def test_it_is_unbiased_where_the_judge_is_not():
    """Mean over 60 studies within 4 standard errors of the labels' win rate."""
    theta = np.array([0.8, 0.3, -0.3, -0.8])
    truth = (expit(theta[:, None] - theta).sum(1) - 0.5) / 3
    rng, estimates, of_judge = np.random.default_rng(5), [], []
    for _ in range(60):
        # The judge favours D in every comparison.
        favoured = theta + np.array([0, 0, 0, 1.5])
        shape = (40, 4)
        sums = {name: np.zeros(shape) for name in ("n", "f", "m", "fm", "y")}
        for p, (i, j) in itertools.product(range(40), itertools.combinations(range(4), 2)):
            f = float(rng.random() < expit(favoured[i] - favoured[j]))
            y = float(rng.random() < expit(theta[i] - theta[j]))
            m = float(rng.random() < 0.4)
            for k, a, b in ((i, f, y), (j, 1 - f, 1 - y)):
                for name, value in zip(sums, (1, a, m, a * m, b * m), strict=True):
                    sums[name][p, k] += value
        with runtime.precision("float64"):
            fit = prediction_powered(PairSums(*map(jnp.asarray, sums.values())))
        estimates.append(np.asarray(fit.win_rate))
        of_judge.append(sums["f"].sum(0) / sums["n"].sum(0))
    error = np.std(estimates, axis=0) / np.sqrt(60)
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 4 * error).all()
    assert np.abs(np.mean(of_judge, axis=0) - truth)[3] > 0.2


def test_few_labelled_prompts_have_no_interval_and_the_report_says_so():
    verdicts, items, anchors = written(n_prompts=30)
    few = anchors[~anchors["first"].eq("A") | (anchors["pool"] < "p15")]
    tables = own.read(verdicts, items, few)
    rates = labelled_win_rates(tables, 0)
    assert np.isnan(rates.models["low"][0])
    assert np.isnan(rates.models["rank_low"][0])
    assert np.isfinite(rates.models["estimate"]).all()
    assert np.isfinite(rates.models["low"][1:]).all()
    boards = own.leaderboard(tables, beside=("ppi",))
    assert (
        "ppi: no interval for A: labelled on fewer than 10 prompts" in boards.report("", []).text()
    )


def test_tied_labels_are_kept_apart_from_decided_ones():
    verdicts, items, anchors = written(n_prompts=2, labelled=0)
    rows = [
        ("p0", "A", "B", "tie"),
        ("p0", "B", "A", "tie"),
        ("p0", "A", "C", "tie"),
        ("p0", "A", "C", "A"),
    ]
    anchors = pd.DataFrame(rows, columns=anchors.columns)
    tables = own.read(verdicts, items, anchors)
    assert tables.tied.to_numpy().tolist() == [[0, 0, 1]]
    assert tables.anchors[["better", "worse"]].to_numpy().tolist() == [[0, 2]]


def test_without_labels_the_command_says_what_it_needs(tables, capsys):
    verdicts, items, _ = written(n_prompts=3)
    files = tables(verdicts.to_csv(index=False), items.to_csv(index=False))
    code = cli.main(
        ["leaderboard", "--verdicts", str(files[0]), "--items", str(files[1]), "--beside", "ppi"]
    )
    assert code == 2
    assert "no trusted pair (--anchors) of two models was judged" in capsys.readouterr().err


@pytest.mark.heavy
def test_labels_of_some_questions_cover_those_of_all(data):
    """On 80 questions with the majority of humans: the win rates from labels of 25 random questions
    hold those from all in 0.93 to 1 of draws (the draws are of one finite table)."""
    folder = data / "prd"
    tables = own.read(*(folder / f"{n}.csv" for n in ("verdicts", "items", "anchors")))
    anchors = tables.anchors
    whole = labelled_win_rates(tables, tables.judges.index("gpt4"))
    rng, inside, moved = np.random.default_rng(0), [], []
    for _ in range(40):
        chosen = rng.choice(len(tables.pools), 25, replace=False)
        part = anchors[anchors["pool"].isin(chosen)]
        some = dataclasses.replace(tables, anchors=part)
        rates = labelled_win_rates(some, tables.judges.index("gpt4"))
        inside.append(
            (rates.models["low"] <= whole.models["estimate"])
            & (whole.models["estimate"] <= rates.models["high"])
        )
        moved.append(rates.weight)
    assert 0.93 <= np.mean(inside) <= 1
    assert 0.2 < np.mean(moved) < 0.7
    order = np.argsort(-whole.models["estimate"])
    assert [whole.models["model"][i] for i in order] == [
        "gpt4",
        "claude",
        "vicuna-13b",
        "gpt35",
        "bard",
    ]


def test_a_model_that_lost_all_labelled_pairs_has_no_certain_rank():
    """Its jackknife variance is 0, which is no certainty."""
    verdicts, items, anchors = written(40)
    of_last = anchors["second"] == "D"
    anchors.loc[of_last, "better"] = anchors.loc[of_last, "first"]
    verdicts.loc[verdicts["first"] == "D", "winner"] = "second"
    verdicts.loc[verdicts["second"] == "D", "winner"] = "first"
    rates = labelled_win_rates(own.read(verdicts, items, anchors), 0)
    assert rates.models["estimate"][3] == 0 < rates.models["high"][3] < 0.5
    assert (rates.models["rank_low"][3], rates.models["rank_high"][3]) == (1, 4)
