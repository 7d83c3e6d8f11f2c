import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import spearmanr, ttest_1samp

from jbt import stats, twins
from jbt.experiments import paper
from jbt.experiments.labelled_arrays import where
from jbt.experiments.table import Table
from jbt.simulation import judges
from sweeps import judges as sweep
from sweeps.judges import rows, significance
from tests.support.invented import invented


def test_studies_take_as_many_pools_of_each_judge_as_the_paper_and_share_them():
    """Numbers that are the pool's own: a judge of all pools and one of the first share these."""
    values = np.stack([np.arange(50.0), np.arange(50.0), 100 + np.arange(50.0)])
    found = rows.study_means(values, [4, 2, 4], seed=3)
    np.testing.assert_allclose(found[:, 2] - found[:, 0], 100)
    sd = values[0].std()
    for judge, n in ((0, 4), (1, 2)):
        error = 4 * sd / np.sqrt(n * stats.REPLICATES)
        assert found[:, judge].mean() == pytest.approx(24.5, abs=error)
        assert found[:, judge].std() == pytest.approx(sd / np.sqrt(n), rel=0.06)
    shared = np.corrcoef(found[:, 0], found[:, 1])[0, 1]
    assert shared == pytest.approx(np.sqrt(0.5), abs=0.03)  # two of four pools


def test_numbers_are_the_published_judges():
    listed = paper.read_paper(sweep.SWEEP.home() / "paper.csv", "judges")
    found = sweep.SWEEP.paper()[len(listed) :]
    llama = [n for n in found if n.setting["judge"] == "llama" and n.quantity == "benefit"]
    assert [(n.value, n.pools) for n in llama] == [(0.32, 10)]
    # What twins are made to show is never evidence.
    inputs = {(n.quantity, n.setting.get("model")) for n in found if n.role == "calibrated"}
    assert {quantity for quantity, _ in inputs} == {"recall", "c_hat", "kappa_hat"}
    assert ("recall", "bias_aware") not in inputs


def probe(twin, n=4000):
    condition = {name: jnp.float32(v[0]) for name, v in twins.conditions([twin]).items()}
    return float(sweep._probed(jax.random.key(0), condition, n))


def test_probes_are_what_the_judge_says_of_equal_answers():
    """In closed form: over both orders, c + kappa > 0 and c - kappa > 0 for the elaborated."""
    given = {"discrimination": 0.3, "bias": 0.8, "position": -1.1}
    likelier = dataclasses.replace(twins.twin("gpt_4o_mini"), **given, pair_noise=1.5)
    assert probe(likelier) == 0.5  # always the second
    assert probe(dataclasses.replace(likelier, bias=1.2)) == 1.0
    drawing = dataclasses.replace(likelier, oracle="draws", pair_noise=0.0)
    up, down = expit(0.8 - 1.1), expit(0.8 + 1.1)
    assert probe(drawing) == pytest.approx((up + down) / 2, abs=4 * 0.5 / np.sqrt(4000))


P = 60
MOVES = 2.0
"""How far the bias-aware recall moves with the naive one of a displaced twin, whose discrimination,
bias and position are one step up or down on each pool."""


@pytest.fixture(scope="module")
def made():
    """The table of made results: naive recall grows from judge to judge, and what each gains falls,
    by known amounts; some numbers are the pool's own."""
    s = sweep.Judges.at("smoke", pools=P, large_pools=P, displaced_pools=P)
    targets = sweep.TARGETS
    rng = np.random.default_rng(0)
    n, j = len(targets), np.arange(len(targets))
    noise = rng.normal(size=P) * 0.05
    naive = 0.3 + 0.04 * j[:, None] + noise
    gain = 0.3 - 0.018 * j[:, None] + 0.1 * rng.normal(size=(n, P))
    aware = naive + gain
    of_model = np.stack([naive, aware, naive, naive - 0.01, aware], axis=1)
    each_pool = {
        "c_hat": np.array([p.c_hat for p in targets])[:, None] + noise,
        "kappa_hat": np.array([p.kappa_hat for p in targets])[:, None] + 0.06 + 0 * noise,
    }
    of_targets = np.stack([each_pool["c_hat"], each_pool["kappa_hat"], naive], axis=1)
    signs = np.sign(np.random.default_rng(7).normal(size=(3, P)))  # one target each

    def of_judges(values):
        """A judge's numbers in all its conditions."""
        order = {p.name: i for i, p in enumerate(targets)}
        return lambda labels: values[[order[name] for name in labels.judge]]

    def way(labels):
        return labels.displaced.to_numpy()[:, None, None] * signs

    def recall(labels):
        of_k = np.array([0.2, 0.1, 0, 0.3])[:, None]
        out = of_judges(of_model[:, :, None] + of_k)(labels)
        out[:, 1] += MOVES * 0.05 * way(labels)[:, :1]  # the bias-aware, with the first parameter
        return out

    def moved(labels):
        step = np.array([0.1, 0.1, 0.05])[:, None]
        return of_judges(of_targets)(labels) + step * way(labels)[:, [1, 2, 0]]

    ds = invented(
        s,
        recall=recall,
        targets=moved,
        steps=lambda labels: 0.3 * way(labels),
        **{name: of_judges(values) for name, values in each_pool.items()},
        corr_naive_x=0.1,
        uncertain=0.43,
        probe_preference=0.75,
    )
    t = Table(s.columns, s, s.paper())
    s.table(ds, t)
    return t.frame(), naive, gain, t


def row(table, quantity, **labels):
    return where(table, quantity=quantity, **labels).iloc[0]


def test_means_over_judges_are_theirs(made):
    table, naive, gain, _ = made
    told = {"judge": "biased", "k": 5}
    # Of recall over all 33 pools, as the paper's .61 is; of the gain over judges.
    share = np.array([10, 10, 3, 5, 5]) / 33
    printed = [p.naive_recall for p in judges.PUBLISHED.values() if p.group == "biased"]
    assert share @ printed == pytest.approx(0.606, abs=5e-4)
    expected = share @ naive[:5].mean(1)
    assert row(table, "recall", model="naive", **told).estimate == pytest.approx(expected)
    aware = share @ (naive + gain)[:5].mean(1)
    assert row(table, "recall", model="bias_aware", **told).estimate == pytest.approx(aware)
    assert row(table, "benefit", judge="biased").estimate == pytest.approx(gain[:5].mean())
    p = ttest_1samp(gain[:5].mean(1), 0).pvalue
    assert row(table, "p_clusters").estimate == pytest.approx(p, rel=1e-6)


def judges_in_order():
    return [p.name for p in sweep.TARGETS]


def test_correlations_are_over_the_fourteen_competent(made):
    """Coder, at the end of the paper's table, is left out, and so is the second domain."""
    table, naive, gain, _ = made
    some = [i for i, name in enumerate(judges_in_order()) if name not in ("coder", "llama_python")]
    assert len(some) == 14
    expected = spearmanr(naive[some].mean(1), gain[some].mean(1)).statistic
    assert row(table, "spearman", model="naive_recall").estimate == pytest.approx(expected)


def test_p_values_are_those_of_studies_of_each_judge_s_size(made):
    table, _, gain, _ = made
    rng = np.random.default_rng(5)
    counts = [10, 10, 3, 5, 5]
    found = []
    for _ in range(300):
        drawn = rng.integers(0, P, 10)
        p = [stats.paired_permutation(gain[i, drawn[:n]], seed=0) for i, n in enumerate(counts)]
        found.append(stats.holm(np.array(p)))
    found = np.array(found)
    for i, name in enumerate(judges_in_order()[:5]):
        share = row(table, "power_at_paper_size", judge=name).estimate
        expected = (found[:, i] < 0.05).mean()
        assert share == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(300))
        assert row(table, "p_min", judge=name).estimate == stats.smallest_p(counts[i])
        median = row(table, "p_holm", judge=name).estimate
        assert np.quantile(found[:, i], 0.3) <= median <= np.quantile(found[:, i], 0.7)


def test_ranges_carry_the_error_of_the_calibration(made):
    """What the bias-aware recall of a study is, less by how much the twin's moves if it is
    calibrated to the naive recall of that study's own pools."""
    table, naive, gain, _ = made
    found = row(table, "recall", judge="llama", model="bias_aware", n_items=30, k=5)
    each = naive[0] + gain[0] - MOVES * (naive[0] - naive[0].mean())
    half = 1.96 * each.std() / np.sqrt(10)
    # 0.3 is aimed at 0.5: moved there as far as the tolerance goes.
    centre = each.mean() + MOVES * 0.02
    expected = [centre - half, centre + half]
    assert [found.replicate_low, found.replicate_high] == pytest.approx(expected, abs=0.15 * half)


def test_gains_of_studies_have_the_calibration_s_error_and_stay_what_tests_know():
    rng = np.random.default_rng(3)
    gains = rng.choice([0.0, 0.2, 0.4], size=3000, p=[0.3, 0.5, 0.2])
    carried = gains + 0.02 + rng.normal(0, 0.15, 3000)
    found = significance.studies_of_gains(gains, carried, 0.03, 10, 4000, rng)
    assert set(np.unique(found)) == {0.0, 0.2, 0.4}
    assert found.mean() == pytest.approx(carried.mean(), abs=4 * 0.08 / np.sqrt(4000) + 0.003)
    expected = np.hypot(carried.std() / np.sqrt(10), 0.03)
    assert found.mean(1).std() == pytest.approx(expected, rel=0.1)
