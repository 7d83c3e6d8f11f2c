"""The sweeps on acquisition: their tables from known results, and their judges."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from jbt import twins
from jbt.acquisition.loop import Queries
from jbt.acquisition.rules import families
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import table_of
from sweeps import acquisition, stochastic_judge
from sweeps._shared import active
from tests.support.invented import invented

pytestmark = pytest.mark.heavy

SMALL = acquisition.SWEEP.at(
    judge="llama", pools=60, rule=("top_k_aware", "round_robin"), n_seeds=2
).decided()


def results(s, effect, moves=0.0):
    """Recalls we choose: rule i is worse by i * effect. Those of displaced twins are `moves` higher
    a step of the naive recall of all verdicts, a target."""
    rng = np.random.default_rng(0)
    pool = rng.normal(0, 0.1, s.pools)
    signs = rng.choice([-1.0, 1.0], size=(3, s.pools))
    own = np.array([1.78, 0.35, 0.5])[:, None] + 0.1 * rng.normal(size=(3, s.pools))

    def steps(labels):
        return labels.displaced.to_numpy()[:, None, None] * signs

    def recall(labels):
        t = len(s.reported(s.refits[0]))
        worse = np.array([s.rule.index(r) for r in labels.rule]) * effect
        worse *= 1 - 0.5 * (labels.model == "naive").to_numpy()
        noise = rng.normal(0, 0.01, (len(labels), t, s.pools))
        return 0.7 + pool + noise - worse[:, None, None] + moves * steps(labels)[:, :1]

    ds = invented(
        s,
        targets=lambda labels: own + 0.1 * steps(labels),
        steps=steps,
        recall=recall,
        share_at_boundary=1 / 25,
    )
    return ds.assign(uncertain=(("condition", "pool"), np.full((len(ds.condition), s.pools), 0.43)))


def test_the_table_averages_seeds_and_pairs_pools():
    ds = results(SMALL, 0.05)
    table = table_of(SMALL, ds)
    mine = where(table, rule="round_robin", judge="llama", model="bias_aware", budget=120)
    papers = mine.dropna(subset="paper")
    mine = mine.drop_duplicates("quantity").set_index("quantity")
    at = (ds.rule == "round_robin") & (ds.judge == "llama") & (ds.model == "bias_aware")
    at &= ds.displaced == 0
    values = ds.recall.isel(condition=at.values).sel(budget=120).values.mean(0)
    assert mine.estimate["recall"] == pytest.approx(values.mean())
    assert mine.estimate["delta"] == pytest.approx(-0.05, abs=0.01)
    # Paired: the pools' spread of 0.1 is not in the interval.
    assert mine.ci_high["delta"] - mine.ci_low["delta"] < 0.02
    assert mine.estimate["p_holm"] == pytest.approx(1e-4)
    assert mine.estimate["power_at_10_pools"] == 1
    assert mine.estimate["share_at_boundary"] == pytest.approx(1 / 25)
    # Its table of rules and its ablation; the differences follow from them.
    assert where(papers, quantity="delta").paper.tolist() == [-0.20, -0.21]
    # The reference has 0.7 with a spread of 0.1 over pools, so ten of them 0.64 to 0.76.
    reference = where(table, rule="top_k_aware", quantity="recall")
    reference = reference.dropna(subset="paper")
    reference = where(reference, model="bias_aware", budget=120)
    reference = reference.set_index("paper")
    assert reference.consistent.to_dict() == {0.81: "no", 0.82: "no", 0.76: "yes"}
    assert reference.replicate_low.to_numpy() == pytest.approx(0.64, abs=0.03)
    synergy = where(table, quantity="synergy", budget=120).iloc[0]
    assert synergy.estimate == pytest.approx(0.025, abs=0.01)
    # No rule of ours exceeds the full data; the largest of 110 means does by chance.
    above = where(table, quantity="best_above_full_data")
    assert ((above.estimate > 0) & (above.estimate < 0.01)).all()


def test_ranges_carry_the_error_of_the_twin_s_calibration():
    """Recall that moves by 2 a unit of the naive recall that the twin is calibrated to."""
    width = {}
    for moves in (0.0, 0.2):
        table = table_of(SMALL, results(SMALL, 0.05, moves))
        mine = table[(table.model == "bias_aware") & (table.budget == 120) & table.paper.notna()]
        mine = mine.drop_duplicates(["quantity", "rule"]).set_index(["quantity", "rule"])
        width[moves] = mine.replicate_high - mine.replicate_low
    # Ten pools: 0.1 of the pools' own, 0.1 of the target's error, times 2.
    at = ("recall", "top_k_aware")
    assert width[0.2][at] == pytest.approx(2 * 1.96 * np.hypot(0.1, 0.2) / np.sqrt(10), rel=0.25)
    # Both rules move alike, so that their difference does not.
    at = ("delta", "round_robin")
    assert width[0.2][at] == pytest.approx(width[0.0][at], rel=0.2)


def test_p_values_of_the_paper_stand_beside_whole_families_alone():
    """They are corrected for its five baselines."""
    whole = stochastic_judge.SWEEP(judge="llama", pools=30, refit_every=(2,)).decided()
    few = dataclasses.replace(whole, rule=("top_k_aware", "round_robin", "global_uncertainty"))
    for s, stand in ((whole, 5), (few, 0)):
        table = table_of(s, results(s, 0.05))
        papers = table[table.paper.notna()]
        assert (papers.quantity == "p_holm").sum() == stand
        assert (papers.quantity == "recall").sum() == 4


def test_a_judge_is_its_twin_on_the_papers_pools_unless_told_otherwise():
    twin = twins.twin("gpt_4o_mini")
    for module in (acquisition, stochastic_judge):
        few = module.SWEEP(judge="gpt_4o_mini", rule=("top_k_aware",))
        s = few.decided()
        assert (s.pool, s.max_correlation) == ("statement_bank", 0.12)
        for name in ("oracle", "bias", "position", "discrimination", "pair_noise"):
            assert getattr(s, name) == getattr(twin, name)
        changed = dataclasses.replace(few, bias=0.0).decided()
        assert changed.bias == 0.0
        assert changed.groups()[0].labels["judge"][0] == "gpt_4o_mini_changed"


def test_how_often_a_study_tells_the_rule_from_all():
    rules = ("top_k_aware", *families()["baselines"])
    s = dataclasses.replace(SMALL, rule=rules, budget=(120,))
    for effect in (0.05, 0.0):
        table = table_of(s, results(s, effect))
        mine = where(table, budget=120, judge="llama").set_index("quantity")
        assert mine.estimate["told_from_all"] == pytest.approx(float(effect > 0), abs=0.1)


def test_items_of_one_quality_have_places_too():
    """Two items stand at the boundary of a bank's pool, as of any other; spent evenly, they get
    2 of 30."""
    s = dataclasses.replace(SMALL, budget=(30,))
    quality = jnp.repeat(jnp.array([4.0, 6.0, 2.0]), jnp.array([9, 5, 16]), total_repeat_length=30)
    item = jnp.arange(30)
    queries = Queries(item, (item + 1) % 30, jnp.ones(30))
    share = active.share_at_boundary(s.budget, s.k, queries, quality)
    np.testing.assert_allclose(share, [2 / 30])
