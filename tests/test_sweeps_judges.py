import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from jbt import judges, stats, study, twins
from jbt.simulate import simulate
from sweeps import _judges_page as page
from sweeps import _judges_table as rows
from sweeps import judges as sweep
from sweeps import legitimate


def test_studies_take_as_many_pools_of_each_judge_as_the_paper_and_share_them():
    """Numbers that are the pool's own: a judge of all pools and one of the first share these."""
    values = np.stack([np.arange(50.0), np.arange(50.0), 100 + np.arange(50.0)])[None]
    found = rows.of_studies(values, [4, 2, 4], seed=3)
    assert found.shape == (stats.REPLICATES, 1, 3)
    np.testing.assert_allclose(found[:, 0, 2] - found[:, 0, 0], 100)
    sd = values[0, 0].std()
    for judge, n in ((0, 4), (1, 2)):
        error = 4 * sd / np.sqrt(n * stats.REPLICATES)
        assert found[:, 0, judge].mean() == pytest.approx(24.5, abs=error)
        assert found[:, 0, judge].std() == pytest.approx(sd / np.sqrt(n), rel=0.06)
    shared = np.corrcoef(found[:, 0, 0], found[:, 0, 1])[0, 1]
    assert shared == pytest.approx(np.sqrt(0.5), abs=0.03)  # two of four pools


def test_pools_needed_are_those_of_the_smallest_study_that_finds_the_gain():
    rng = np.random.default_rng(0)
    gain = np.stack([0.2 + 0 * rng.normal(size=400), rng.normal(size=400)])
    # Always the same sign: p = 2 / 2^n, Holm's factor 2 for the smaller of two.
    assert rows.pools_needed(gain, seed=0)[0] == 7
    assert np.isnan(rows.pools_needed(gain, seed=0)[1])


def test_numbers_are_the_published_judges():
    found = sweep.numbers()
    assert len(found) == 15 * 5 + 4  # the second domain's position is not printed
    by_role = {role: [n for n in found if n.role == role] for role in ("calibrated", "reported")}
    assert len(by_role["calibrated"]) == 15 * 3 + 2
    llama = [n for n in found if n.setting["judge"] == "llama" and n.quantity == "benefit"]
    assert [(n.printed, n.pools) for n in llama] == [("0.32", 10)]
    # What twins are made to show is never evidence.
    assert {n.quantity for n in by_role["calibrated"]} == {"recall", "c_hat", "kappa_hat"}
    models = {n.setting["model"] for n in by_role["calibrated"] if n.quantity == "recall"}
    assert models == {"naive"}


def table_of(**columns):
    n = len(next(iter(columns.values())))
    given = {"judge": ["llama"] * n, "model": ["bias_aware"] * n, "k": [5] * n} | columns
    return pd.DataFrame({"n_items": 30, "estimate": 0.5, "ci_low": 0.4, **given})


def test_a_claim_is_what_its_numbers_are():
    claim = page.Claim("gains", "benefit", {"judge": ["llama", "qwen"]})
    table = table_of(
        quantity=["benefit"] * 4 + ["recall"],
        judge=["llama", "qwen", "phi", "llama", "llama"],
        consistent=["yes", "no", "no", "calibrated", "no"],
    )
    assert page.verdict(page.rows_of(table, claim)) == "in part: 1 of 2 numbers"
    assert page.verdict(page.rows_of(table.iloc[:1], claim)) == "follows from the model"
    assert page.verdict(page.rows_of(table.iloc[1:2], claim)) == "needs something the model lacks"
    assert page.verdict(page.rows_of(table.iloc[3:], claim)) == "not tested"
    arithmetic = table_of(quantity=["p_min"], consistent=["yes"])
    assert not rows.is_evidence(arithmetic).any()


def test_wrong_requests_are_one_line(capsys, tmp_path):
    for given, message in (
        (["--judge", "llama", "gpt"], "unknown judge 'gpt': one of llama, qwen"),
        (["--judge", "llama", "llama"], "judge lists a name twice"),
        (["--n-probes", "0"], "n_probes must be at least 1, got 0"),
        (["--large-pools", "0"], "large_pools must be at least 1, got 0"),
    ):
        argv = ["--preset", "smoke", "--out", str(tmp_path), *given]
        assert study.main(sweep.SWEEP, argv) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    with pytest.raises(ValueError, match="no twin of oracle 'both'"):
        sweep.groups(dataclasses.replace(sweep.PRESETS["smoke"], oracle="both"))
    with pytest.raises(ValueError, match="others must list some of uniform, drawn, got 'even'"):
        sweep.groups(dataclasses.replace(sweep.PRESETS["smoke"], others="even"))


@pytest.mark.heavy
def test_the_smoke_run(tmp_path, capsys):
    argv = ["--preset", "smoke", "--out", str(tmp_path)]
    assert study.main(sweep.SWEEP, argv) == 0
    table = pd.read_csv(tmp_path / "judges" / "table.csv")
    biased = table[(table.judge == "biased") & (table.quantity == "recall") & (table.k == 5)]
    recall = biased.drop_duplicates("model").set_index("model").estimate
    assert recall["order_swap"] == pytest.approx(recall["naive"], abs=1e-6)  # by algebra
    assert recall["residualised"] == pytest.approx(recall["bias_aware"], abs=0.05)
    five = [n for n, p in judges.PUBLISHED.items() if p.group == "biased"]
    each = table[table.judge.isin(five) & (table.model == "bias_aware") & (table.n_items == 30)]
    mean = each[(each.quantity == "recall") & (each.k == 5)].estimate.mean()
    assert mean == pytest.approx(recall["bias_aware"], abs=1e-6)
    # Twins miss their targets by what 32 pools may differ from 512.
    naive = table[(table.model == "naive") & (table.quantity == "recall") & (table.k == 5)]
    naive = naive[naive.judge.isin(five)].set_index("judge").estimate
    for name in five:
        assert naive[name] == pytest.approx(judges.PUBLISHED[name].naive_recall, abs=0.1)
    uncertain = table[(table.quantity == "uncertain") & (table.judge == "llama")]
    assert uncertain.estimate.iloc[0] == pytest.approx(twins.UNCERTAIN, abs=0.02)
    assert set(uncertain.consistent) == {"calibrated"}
    counts = table.set_index("quantity").estimate
    verdicts = table[rows.is_evidence(table)].consistent
    assert counts["cells_tested"] == len(verdicts) > 50
    assert counts["cells_inconsistent"] == (verdicts == "no").sum()
    written = (tmp_path / "judges" / "page.md").read_text()
    assert f"{counts['cells_inconsistent']:.0f} of {len(verdicts)} numbers do not follow" in written
    assert all(claim.text in written for claim in page.CLAIMS)
    assert "page.md" in capsys.readouterr().out


def test_distances_are_chi_squared_if_the_condition_is_the_truth():
    rng = np.random.default_rng(1)
    mix, centre = rng.normal(size=(3, 3)), np.array([0.5, 0.6, 0.4])
    pool = centre[:, None] + mix @ rng.normal(size=(3, 20_000))
    printed = centre + rng.normal(size=(500, 25, 3)).mean(1) @ mix.T  # 500 studies of 25 pools
    found = np.array([legitimate.distances(pool[None], p, 25)[0] for p in printed])
    assert found.mean() == pytest.approx(3, abs=4 * np.sqrt(6 / 500) + 0.1)
    assert (found > chi2.ppf(0.95, 3)).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.0475 / 500))


@pytest.mark.heavy
def test_the_region_of_made_numbers_holds_their_truth(tmp_path, monkeypatch):
    """What is printed made by a judge of the grid at rho = 0.6: that correlation is possible, and
    with as many prompts 0 is not."""
    few = {"rho": (0.0, 0.6), "bias": (0.5,), "discrimination": (0.7,)}
    s = dataclasses.replace(legitimate.PRESETS["smoke"], pools=1000, out=tmp_path, **few)
    group = legitimate.groups(s)[1]
    means = simulate(group.experiment, group.conditions, range(5000, 6000))
    made = {name: float(means[name][:, 1].mean()) for name in legitimate.SHOWN}
    task = dataclasses.replace(legitimate.TASKS["nectar"], **made)
    monkeypatch.setattr(legitimate, "TASKS", {**legitimate.TASKS, "nectar": task})
    s = dataclasses.replace(s, nectar_pools=500)
    table = study.run(legitimate.SWEEP, s)
    at = table[table.task == "nectar"].set_index("quantity").estimate
    assert (at["rho_least"], at["rho_largest"]) == (0.6, 0.6)
    assert at["judges_possible"] == 1


def test_wrong_requests_for_regions(capsys, tmp_path):
    for given, message in (
        (["--summeval-k", "16"], "k must lie in 1..15, got 16"),
        (["--rho", "0.5", "0.2"], "rho must increase"),
        (["--nectar-pools", "1"], "nectar_pools must be at least 2, got 1"),
        (["--discrimination", "0"], "discrimination must increase"),
    ):
        argv = ["--preset", "smoke", "--out", str(tmp_path), *given]
        assert study.main(legitimate.SWEEP, argv) == 2
        assert message in capsys.readouterr().err
