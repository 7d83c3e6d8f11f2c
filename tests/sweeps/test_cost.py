"""The sweep on costs: prices by hand, its table from known curves and beside a naive loop."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.invented import invented, only

from jbt import estimators, twins
from jbt.acquisition import reports
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import run, table_of
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.simulate import stream
from jbt.types import Prior
from sweeps._shared import prices
from sweeps.cost import Cost

SMALL = Cost.at(pools=12, n_seeds=2, rule=("top_k_aware",), target=(0.6, 0.89, 0.93, 1.0))
PRICES = (
    *("cheap_input", "cheap_output", "dear_input", "dear_output"),
    *("input_tokens", "output_tokens", "cheap_reasoning", "dear_reasoning", "label_price"),
)
CURVES = {("cheap", "bias_aware"): 1 / 870, ("cheap", "naive"): 0.5 / 870, ("dear", "naive"): 0.01}


def frontiers(s):
    """Recall rises by so much a verdict, up to 1, with every other pool 0.1 above or below; targets
    that are met in every pool: nothing is left open."""
    budget, side = np.array(reports(s.budget, s.refit_every)), {s.cheap: "cheap", s.dear: "dear"}
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(3, s.pools))

    def steps(labels):
        return np.array(labels.displaced)[:, None, None] * signs

    def recall(labels):
        cases = zip(labels.judge, labels.model, strict=True)
        rates = [CURVES[side[judge], model] for judge, model in cases]
        mean = np.minimum(np.outer(rates, budget), 1)
        return mean[..., None] + 0.1 * (-1) ** np.arange(s.pools)

    def targets(labels):
        aims = np.array([twins.aim_of(twins.known()[judge]) for judge in labels.judge])
        return aims[:, :, None] + 0.1 * steps(labels)

    return invented(s, recall=recall, targets=targets, steps=steps)


@pytest.fixture(scope="module")
def table():
    return table_of(SMALL, frontiers(SMALL))


def test_the_papers_prices_by_hand():
    s = Cost()
    cheap, dear = s.verdict_price["gpt_4o_mini"], s.verdict_price["gpt_5_1"]
    assert cheap == pytest.approx(53.55e-6)  # 293 x 0.15 + 16 x 0.60 a million
    assert dear == pytest.approx(526.25e-6)
    assert s.labels == pytest.approx(0.14)
    thinking = dataclasses.replace(s, cheap_reasoning=100.0, dear_reasoning=500.0).verdict_price
    assert thinking["gpt_4o_mini"] - cheap == pytest.approx(60e-6)
    assert thinking["gpt_5_1"] - dear == pytest.approx(5e-3)
    times = [float(prices.overhead(0.14, 0.014, n)) for n in prices.SHARING]
    assert times == pytest.approx([11, 2, 1.1])
    assert prices.overhead(0.14, 0.0, 1) == math.inf
    assert math.isnan(prices.overhead(0.0, 0.0, 1))


def test_where_a_curve_is_reached():
    spent, wanted = np.array([1.0, 2, 4]), 0.5
    curves = np.array([[0, 0.25, 0.75], [0.6, 0.2, 0.7], [0, 0.1, 0.2], [0.5, 0.9, 0.9]])
    found = prices.first_reached(spent, curves, wanted)
    np.testing.assert_array_equal(found, [3, 1, np.nan, 1])
    assert np.isnan(prices.of_resamples(np.array([1.0, 2, np.nan]), 100)).all()
    assert prices.of_resamples(np.arange(1000.0), 100) == (24, 975)


def test_the_table_of_known_curves(table):
    cheap = {"judge": "gpt_4o_mini", "model": "bias_aware"}
    dear = {"judge": "gpt_5_1", "model": "naive"}
    at = {"quantity": "cost_to_reach", "target": 0.6}
    assert only(table, **cheap, **at).estimate == pytest.approx(0.6 * 870 * 53.55e-6)
    found = only(table, **dear, **at)
    assert found.estimate == pytest.approx(60 * 526.25e-6)
    assert found.ci_low < found.estimate < found.ci_high
    recall = only(table, **cheap, quantity="recall", budget=264)
    assert recall.estimate == pytest.approx(264 / 870)
    # Never reached: the naive cheap judge ends at 0.5.
    assert math.isnan(only(table, **{**cheap, "model": "naive"}, **at).estimate)
    # Anchors are paid by the pools that share them.
    for sharing, labels in ((None, 0.0), (1, 0.14), (10, 0.014), (100, 0.0014)):
        at_target = {
            **cheap,
            "target": 0.6,
            "n_pools_sharing": sharing,
            "quantity": "times_cheaper",
        }
        expected = 60 * 526.25e-6 / (0.6 * 870 * 53.55e-6 + labels)
        assert only(table, **at_target).estimate == pytest.approx(expected)
        if sharing:
            gated = {"judge": "gpt_4o_mini", "budget": 120, "n_pools_sharing": sharing}
            alone = 120 * 53.55e-6
            total = only(table, **gated, quantity="cost").estimate
            assert total == pytest.approx(alone + labels)
            over = only(table, **gated, quantity="overhead").estimate
            assert over == pytest.approx(total / alone)
    # The best budget of either half of the pools is the last, where both have their mean.
    best = only(table, **cheap, quantity="best_recall")
    assert best.estimate == pytest.approx(1.0)


def test_the_papers_numbers_and_what_its_prices_make_of_them(table):
    papers = table[table.paper.notna() & (table.judge == "gpt_4o_mini")]
    says = {
        (r.quantity, r.budget, r.n_pools_sharing): r.consistent
        for r in papers[papers.model.isna()]
        .fillna({"budget": 0, "n_pools_sharing": 0})
        .itertuples()
    }
    assert says["cost", 200, 0] == "no"  # $0.0107, where it has $0.014
    assert says["cost", 264, 0] == "calibrated"
    for sharing in (1, 10, 100):
        assert says["cost", 200, sharing] == "no"
        assert says["overhead", 264, sharing] == "yes"
    assert says["overhead", 200, 100] == "yes"  # 1.13


def test_free_verdicts_and_labels_have_no_ratio_and_the_papers_numbers_stand_aside():
    s = dataclasses.replace(SMALL, target=(0.6,), **dict.fromkeys(PRICES, 0.0))
    table = table_of(s, frontiers(s))
    assert table[table.quantity.isin(["overhead", "times_cheaper"])].estimate.isna().all()
    assert table.paper.isna().all()


@pytest.mark.heavy
def test_the_figure_shows_every_frontier_and_the_papers_points(table):
    left, right = SMALL.figure(frontiers(SMALL), table).axes
    crosses = [line for line in left.get_lines() if line.get_marker() == "x"]
    found = [tuple(at) for line in crosses for at in np.asarray(line.get_xydata()).tolist()]
    assert found == [(0.014, 0.89), (0.28, 0.93), (0.42, 1.0)]
    assert left.get_xscale() == "log"
    assert len(right.get_legend_handles_labels()[1]) == 4


@pytest.mark.nightly
def test_a_run_beside_a_loop_over_pools(tmp_path):
    """At all 870 verdicts the rule does not matter: one pool after the other, by the estimators."""
    s = dataclasses.replace(
        SMALL, out=tmp_path, pools=3, n_seeds=1, rule=("random",), budget=(32, 870)
    )
    table = run(s)
    assert table is not None
    for judge, model in s.cases:
        twin = twins.twin(judge)
        condition = {name: jnp.asarray(v)[0] for name, v in twins.conditions([twin]).items()}
        recalls = []
        for pool_id in range(s.pools):
            key = jax.random.fold_in(jax.random.key(s.seed), pool_id)
            pool = twins.paper_pool()(stream(key, "pool"), condition)
            verdicts = twins.answers(key, pool, condition)
            counts = judges.reveal(verdicts, pairs.every_pair(pool))
            fit = estimators.ESTIMATORS[model](counts, pool.design, Prior())
            recalls.append(metrics.top_k_recall(fit.parameters.theta, pool.quality, 5))
        mine = where(table, judge=judge, model=model, budget=870)
        found = where(mine, quantity="recall").drop_duplicates("quantity").iloc[0]
        assert found.estimate == pytest.approx(np.mean(recalls))
        assert found.n_pools == s.pools
