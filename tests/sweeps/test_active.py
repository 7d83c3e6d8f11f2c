"""The sweeps on acquisition: their tables from known results, and bad settings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt import twins
from jbt.acquisition.loop import Queries
from jbt.acquisition.rules import families
from jbt.experiments import provenance
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import table_of
from jbt.experiments.work import Work
from jbt.simulation import judges, pools
from jbt.simulation.simulate import stream
from sweeps import acquisition, stochastic_judge
from sweeps._shared import active
from tests.support.invented import invented

pytestmark = pytest.mark.heavy

SMALL = acquisition.SWEEP.at(
    judge="llama", pools=60, rule=("top_k_aware", "round_robin"), n_seeds=2
).decided()


@pytest.fixture(autouse=True)
def balance_is_not_tried(monkeypatch):
    """Sixteen pools are drawn before a run, which compiles a kernel: tested with the pools."""
    monkeypatch.setattr(pools, "check_balance", lambda *args, **options: None)


def results(s, effect, moves=0.0):
    """A dataset as a run leaves it, with recalls we choose: rule i is worse by i * effect. Those of
    displaced twins are `moves` higher a step of the naive recall of all verdicts, a target."""
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
        allocation=1 / 25,
    )
    return ds.assign(uncertain=(("condition", "pool"), np.full((len(ds.condition), s.pools), 0.43)))


def test_the_table_averages_seeds_and_pairs_pools():
    ds = results(SMALL, 0.05)
    table = table_of(SMALL, ds)
    assert list(table.columns[:10]) == list(SMALL.columns)
    mine = where(table, rule="round_robin", judge="llama", model="bias_aware", budget=120)
    papers = mine.dropna(subset="paper")
    mine = mine.drop_duplicates("quantity").set_index("quantity")
    at = (ds.rule == "round_robin") & (ds.judge == "llama") & (ds.model == "bias_aware")
    at &= ds.displaced == 0
    assert int(at.sum()) == SMALL.n_seeds
    values = ds.recall.isel(condition=at.values).sel(budget=120).values.mean(0)
    assert mine.estimate["recall"] == pytest.approx(values.mean())
    assert mine.estimate["delta"] == pytest.approx(-0.05, abs=0.01)
    # Paired: the pools' spread of 0.1 is not in the interval.
    assert mine.ci_high["delta"] - mine.ci_low["delta"] < 0.02
    assert mine.estimate["p_holm"] == pytest.approx(1e-4)
    assert mine.estimate["power_at_10_pools"] == 1
    assert mine.estimate["share_at_boundary"] == pytest.approx(1 / 25)
    # Its table of rules and its ablation; the differences follow from them.
    assert where(papers, quantity="recall").paper.tolist() == [0.61, 0.61]
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
    # No rule of ours exceeds the full data in these numbers; the largest of 110 means would.
    above = where(table, quantity="recall_above_full_data")
    assert len(above) == 6
    assert (above.ci_low < 0.004).all()
    # 0 but for noise of 0.0013 a setting, 0.0005 for the mean of eight; the largest of 110 means
    # of the same pools would be some 0.003 above.
    assert abs(above.estimate.mean()) < 0.0015
    assert table[(table.judge != "llama") & table.paper.notna()].empty


def test_ranges_carry_the_error_of_the_twin_s_calibration():
    """Recall that moves by 2 a unit of the naive recall that the twin is calibrated to."""
    found = {}
    for moves in (0.0, 0.2):
        table = table_of(SMALL, results(SMALL, 0.05, moves))
        mine = table[(table.model == "bias_aware") & (table.budget == 120) & table.paper.notna()]
        found[moves] = mine.drop_duplicates(["quantity", "rule"]).set_index(["quantity", "rule"])
    width = {m: t.replicate_high - t.replicate_low for m, t in found.items()}
    at = ("recall", "top_k_aware")
    # Ten pools: 0.1 of the pools' own, 0.1 of the target's error, times 2.
    assert width[0.0][at] == pytest.approx(2 * 1.96 * 0.1 / np.sqrt(10), rel=0.2)
    assert width[0.2][at] == pytest.approx(2 * 1.96 * np.hypot(0.1, 0.2) / np.sqrt(10), rel=0.25)
    assert found[0.0].estimate[at] == pytest.approx(found[0.2].estimate[at])
    # Both rules move alike, so that their difference does not.
    at = ("delta", "round_robin")
    assert width[0.2][at] == pytest.approx(width[0.0][at], rel=0.2)
    unbiased = where(table, judge="unbiased", quantity="recall")
    assert len(unbiased) == len(SMALL.rule) * len(SMALL.budget)


def test_all_groups_report_on_the_same_budgets():
    """Whatever R is: they go into one array."""
    for s in (SMALL, stochastic_judge.SWEEP().decided()):
        axes = [g.axes for g in s.groups()]
        assert all(a == axes[0] for a in axes)


def test_the_papers_numbers_stand_beside_its_scenario_alone():
    for other in ({"discrimination": 0.1}, {"max_correlation": 1.0}):
        s = dataclasses.replace(SMALL, **other)
        assert table_of(s, results(s, 0.05)).paper.isna().all()


def test_p_values_of_the_paper_stand_beside_whole_families_alone():
    """They are corrected for its five baselines."""
    whole = stochastic_judge.SWEEP(judge="llama", pools=30, refit_every=(2,)).decided()
    few = dataclasses.replace(whole, rule=("top_k_aware", "round_robin", "global_uncertainty"))
    for s, stand in ((whole, 5), (few, 0)):
        table = table_of(s, results(s, 0.05))
        papers = table[table.paper.notna()]
        assert (papers.quantity == "p_holm").sum() == stand
        assert (papers.quantity == "recall").sum() == 4
        assert where(papers, quantity="uncertain_pairs").consistent.tolist() == ["calibrated"]


def test_a_judge_of_our_own_is_as_uncertain_as_the_papers():
    s = stochastic_judge.SWEEP().decided()
    d = s.discrimination
    rng = np.random.default_rng(0)
    theta = 1.25 * d * rng.standard_normal((4000, 30))
    phi = theta + 1.5 * np.repeat([1.0, 0.0], 15)
    z = phi[:, :, None] - phi[:, None, :] + 0.35
    share = (np.abs(z) < np.log(4)).sum((1, 2)) - 30  # an item against itself is doubtful
    share = share / (30 * 29)
    assert abs(share.mean() - 0.43) < 4 * share.std() / 4000**0.5


def test_the_number_of_draws_used_is_stored():
    def stored(**options):
        settings = acquisition.SWEEP(**options).decided()
        return provenance.configuration_of(settings)["n_samples"]

    assert (stored(), stored(membership="counted"), stored(n_samples=7)) == (64, 1500, 7)


@jax.jit
def both_protocols(key, condition):
    """Verdicts, probabilities, and the verdicts of one who draws, as before judges had names."""
    pool = twins.paper_pool()(stream(key, "pool"), condition)
    drawn = judges.frozen_draw(stream(key, "verdicts"), pool, judges.of_condition(condition))
    return twins.answers(key, pool, condition), twins.probability(key, pool, condition), drawn


def test_rules_that_need_the_same_arithmetic_share_a_program():
    """Those that update between refits need more; with a refit after every pick none does."""
    for module, refits, programs in ((acquisition, 8, 2), (stochastic_judge, (8, 1), 3)):
        s = module.SWEEP.at("smoke", refit_every=refits).decided()
        work = Work(s)
        found = [work.simulation(name) for name in work.groups]
        assert len({id(simulation._program) for simulation in found}) == programs
        # As many conditions as seeds in each group, whatever the number of its rule's cases.
        assert {group.n_conditions for group in work.groups.values()} == {s.n_seeds}


def condition_of(s):
    """The first condition of a sweep's first group."""
    conditions = s.groups()[0].conditions
    return {name: jnp.asarray(np.ravel(values)[0]) for name, values in conditions.items()}


def test_one_judge_answers_both_protocols():
    """What is cached is what the probabilities say: the likelier verdict, or one draw."""
    for judge, oracle in (("llama", "argmax"), ("llama", "draws"), (None, "draws")):
        s = acquisition.SWEEP(judge=judge, oracle=oracle).decided()
        frozen, p, drawn = map(np.asarray, both_protocols(jax.random.key(1), condition_of(s)))
        likelier = oracle == "argmax"
        np.testing.assert_array_equal(frozen, p > 0.5 if likelier else drawn)


def test_a_judge_is_its_twin_on_the_papers_pools_unless_told_otherwise():
    twin = twins.twin("gpt_4o_mini")
    for module in (acquisition, stochastic_judge):
        few = module.SWEEP(judge="gpt_4o_mini", rule=("top_k_aware",))
        s = few.decided()
        assert s == s.decided()
        assert (s.pool, s.max_correlation, s.sd) == ("statement_bank", 0.12, None)
        own = (s.oracle, s.bias, s.position, s.discrimination, s.pair_noise)
        assert own == (twin.oracle, twin.bias, twin.position, twin.discrimination, twin.pair_noise)
        told = {"bias": 0.0, "pool": "gaussian", "sd": 4.07, "max_correlation": 1.0}
        changed = dataclasses.replace(few, **told).decided()
        assert {name: getattr(changed, name) for name in told} == told
        named = [each.groups()[0].labels["judge"][0] for each in (s, changed)]
        assert named == ["gpt_4o_mini", "gpt_4o_mini_changed"]


def test_without_a_judge_there_is_our_own():
    for module, discrimination in ((acquisition, 1.0), (stochastic_judge, 1.2140772217302545)):
        s = module.SWEEP().decided()
        assert (s.pool, s.max_correlation, s.sd) == ("gaussian", None, 1.25)
        own = (s.oracle, s.bias, s.position, s.discrimination, s.pair_noise)
        assert own == ("draws", 1.5, 0.35, discrimination, 0.0)


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
    (share,) = active.allocation(s.budget, s.k, queries, quality)
    np.testing.assert_allclose(share[:6], [2 / 30] * 5 + [1 / 30])
