"""Decisions from trusted labels of a user's verdicts, and what to have labelled."""

import dataclasses
import itertools
import json

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from jbt import cli, own
from jbt.gate import betting, critical_values, exact_top, p_value
from jbt.own.gates import decide as deciding
from jbt.own.gates import report as gate_report
from jbt.own.gates.decide import of_members, of_pairs, one_a_pool, pairs_alone
from jbt.own.gates.labelling import labelling
from jbt.own.gates.rankings import Rankings, seeded
from jbt.own.gates.report import ENABLE, KEEP_OFF
from jbt.own.leaderboards.problem import merge_pools
from jbt.own.tables.tables import Tables
from jbt.types import Status

SIZES = {"p": 4, "q": 4, "r": 3}


def write(folder, sizes, anchors=None):
    """Verdicts of nobody in particular on pools of these sizes, and anchors; read."""
    rows = ["pool,first,second,winner"]
    rows += [f"{pool},i0,i{i},first" for pool, n in sizes.items() for i in range(1, n)]
    verdicts, table = folder / "verdicts.csv", folder / "anchors.csv"
    verdicts.write_text("\n".join(rows) + "\n")
    items = folder / "items.csv"
    listed = [f"{pool},i{i}" for pool, n in sizes.items() for i in range(n)]
    items.write_text("\n".join(["pool,item", *listed]) + "\n")
    if anchors is not None:
        table.write_text(anchors)
    return own.read(verdicts, items, None if anchors is None else table)


def ranked(tables: Tables, naive, aware):
    """These estimates [J, rows of items], as if fitted."""
    naive, aware = np.atleast_2d(naive), np.atleast_2d(aware)
    n = len(tables.items)
    tables = dataclasses.replace(tables, judges=[f"j{i}" for i in range(len(naive))])
    pool = tables.items["pool"].to_numpy()
    status = np.full(naive.shape, Status.CONVERGED)
    return Rankings(tables, pool, np.arange(n), naive, aware, status)


def decided(rankings, rule="sign", *, alpha=0.05, k=1, seed=0, labels=None, **fitted):
    """Decisions of pools and of judges, as rows."""
    labels = labels or ("pairs" if rankings.tables.members.empty else "members")
    frames = deciding.decide(rankings, rule, alpha, k, labels, seed, **fitted)
    frames = [frame.astype(object).where(frame.notna(), None) for frame in frames]
    return [list(frame.itertuples(index=False)) for frame in frames]


def labelled(rankings, **anchors):
    """The same rankings with other labels."""
    return dataclasses.replace(rankings, tables=dataclasses.replace(rankings.tables, **anchors))


def tally(rankings, outcomes):
    """[2, J, pools] outcomes right and wrong."""
    shape = len(rankings.naive), len(rankings.tables.pools)
    found = np.zeros((2, *shape), int)
    for row in outcomes.itertuples():
        found[int(row.right == 0), row.judge, row.pool] += row.right != 0.5
    return found


# --- the table of anchors


@pytest.mark.parametrize("empty", ["", " "])
def test_members_in_words_and_numbers(tmp_path, empty):
    words = ["1", "true", "YES", "1.0", "0", "False", "no", "0.0", empty]
    sizes = {"p": len(words)}
    text = "".join(f"p,i{i},{word}\n" for i, word in enumerate(words))
    found = write(tmp_path, sizes, f"pool,item,member\n{text}")
    assert found.members["member"].tolist() == [True] * 4 + [False] * 4
    assert found.members["item"].tolist() == list(range(8))
    assert found.anchors.empty
    assert found.summary[-2:] == ["8 anchors of members", "1 anchor without an answer left out"]


def test_pairs_as_an_annotator_fills_them_in(tmp_path):
    text = (
        "pool,first,second,better\np,i0,i1,first\np,i2,i1,I1\np,i3,i0,tie\nq,i0,i1,\nq,i2,i1,i2\n"
    )
    found = write(tmp_path, SIZES, text)
    assert found.anchors.to_numpy().tolist() == [[0, 0, 1], [0, 1, 2], [1, 6, 5]]
    assert found.summary[-2:] == [
        "1 anchor of a tie left out",
        "1 anchor without an answer left out",
    ]


def test_repeated_and_contradictory_anchors_are_counted(tmp_path):
    text = "pool,better,worse\np,i0,i1\np,i0,i1\np,i2,i1\np,i1,i2\np,i1,i2\nq,i0,i1\n"
    found = write(tmp_path, SIZES, text)
    assert found.anchors.to_numpy().tolist() == [[0, 0, 1], [1, 4, 5]]
    assert found.n_contradictory == 1
    assert found.summary[-3:] == [
        "2 anchors",
        "1 anchor given again, each counted once",
        "1 pair labelled both ways: 3 anchors left out",
    ]
    found = write(tmp_path, SIZES, "pool,item,member\np,i0,1\np,i0,0\np,i1,no\np,i1,0\n")
    assert found.members.to_numpy().tolist() == [[0, 1, False]]
    assert found.n_contradictory == 1
    assert "1 item labelled both ways: 2 anchors left out" in found.summary


BAD_ANCHORS = {
    "pool,item,member\np,i0,maybe\n": "line 2: member is 'maybe', allowed: 1, 0, true",
    "pool,item,member\np,i9,1\ns,i0,1\n": "line 2: item 'i9' of pool 'p' is not in",
    "pool,item,member\np,,1\n": "line 2: item is empty",
    "pool,item,k,member\np,i0,2,1\np,i1,3,1\n": "line 3: k is '3', allowed: one whole number",
    "pool,item,k,member\np,i0,two,1\n": "line 2: k is 'two', allowed: one whole number",
    "pool,better,worse\np,i0,i9\n": "line 2: item 'i9' of pool 'p' is not in",
    "pool,better,worse\ns,i0,i1\n": "line 2: pool 's' is not in",
    "pool,better,worse\np,i0,i0\n": "line 2: better and worse are the same item, 'i0'",
    "pool,first,second,better\np,i0,i1,i2\n": "line 2: better is 'i2', allowed: first, second",
    "pool,better\np,i0\n": "has the columns of no kind of anchors, needs one of: better, worse or",
    "pool,better,worse,item,member\np,i0,i1,i0,1\n": "has the columns of more than one kind",
    "pool,Better,worse\np,i0,i1\n": "column 'Better' has to be called 'better'",
}


@pytest.mark.parametrize("text", BAD_ANCHORS)
def test_wrong_anchors_are_named_with_their_lines(tmp_path, text):
    with pytest.raises(own.TableError) as refused:
        write(tmp_path, SIZES, text)
    assert BAD_ANCHORS[text] in str(refused.value)


def test_members_are_no_verdicts(tmp_path):
    found = write(tmp_path, SIZES, "pool,item,member\np,i0,1\n")
    with pytest.raises(own.TableError, match="a joint fit needs pairs"):
        found.with_anchors()


# --- what labels say


def test_discordant_labels_are_those_the_rankings_order_oppositely(tmp_path):
    rng = np.random.default_rng(0)
    pairs = [(p, a, b) for p, n in SIZES.items() for a, b in itertools.combinations(range(n), 2)]
    turned = [(p, *(rng.permutation([a, b]))) for p, a, b in pairs]
    text = "".join(f"{p},i{a},i{b}\n" for p, a, b in turned)
    tables = write(tmp_path, SIZES, f"pool,better,worse\n{text}")
    naive, aware = rng.integers(0, 3, (2, 15, len(tables.items))).astype(float)
    naive += rng.normal(size=naive.shape) * 1e-12  # rounding decides nothing
    rankings = ranked(tables, naive, aware)
    found = tally(rankings, of_pairs(rankings, 0)[0])
    expected = np.zeros((2, 15, 3), int)
    offset = dict(zip(SIZES, np.cumsum([0, *SIZES.values()]), strict=False))
    for j in range(15):
        for p, a, b in turned:
            n, m = (round(of[j, offset[p] + a] - of[j, offset[p] + b]) for of in (naive, aware))
            expected[0, j, list(SIZES).index(p)] += m > 0 > n
            expected[1, j, list(SIZES).index(p)] += m < 0 < n
    np.testing.assert_array_equal(found, expected)
    assert expected.sum() > 20


def test_a_pair_that_one_ranking_ties_is_counted_but_not_discordant(tmp_path):
    text = "pool,better,worse\np,i0,i1\np,i2,i3\np,i0,i2\nq,i0,i1\n"
    tables = write(tmp_path, SIZES, text)
    naive = np.array([1.0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    aware = np.array([3.0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    rankings = ranked(tables, naive, aware)
    outcomes, counts = of_pairs(rankings, 0)
    assert outcomes.empty
    assert counts["n_ties"].tolist() == [[2, 1, 0]]
    assert decided(rankings)[0][0].reason.endswith("though 2 on pairs that one ranking ties")


def test_a_label_of_two_items_of_one_content_and_of_one_pair_again_count_once(tmp_path):
    tables = write(tmp_path, {"p": 4}, "pool,better,worse\np,i0,i1\np,i0,i2\np,i1,i2\np,i0,i3\n")
    rankings = ranked(tables, [0, 1, 2], [2, 1, 0])
    shared = dataclasses.replace(rankings, pool=np.zeros(3, int), owner=np.array([0, 1, 1, 2]))
    outcomes, counts = of_pairs(shared, 0)
    assert counts["n_labels"].tolist() == [2]
    assert outcomes["right"].tolist() == [1, 1]


def test_a_pool_s_draw_depends_on_its_name_and_the_seed_alone(tmp_path):
    text = "".join(f"{p},i0,i{i}\n" for p in SIZES for i in range(1, 3))
    tables = write(tmp_path, SIZES, f"pool,better,worse\n{text}")
    n = len(tables.items)
    both = ranked(tables, -np.arange(n), np.arange(n))

    def drawn_from(rankings, seed=0):
        return one_a_pool(of_pairs(rankings, seed)[0], tables, seed)

    drawn = drawn_from(both)
    assert sorted(drawn["pool"]) == [0, 1, 2]
    again = drawn_from(labelled(both, anchors=tables.anchors[2:].reset_index(drop=True)))
    assert (again["at"] + 2).tolist() == drawn.loc[drawn["pool"] > 0, "at"].tolist()
    again = drawn_from(labelled(both, anchors=tables.anchors[::-1].reset_index(drop=True)))
    assert again["pool"].tolist() == drawn["pool"].tolist()
    several = [drawn_from(both, seed) for seed in range(200)]
    picks = [of.loc[of["pool"] == 0, "at"].item() for of in several]
    assert 70 < sum(picks) < 130  # either of two, 4 standard deviations
    assert {tuple(of["pool"]) for of in several} == set(itertools.permutations(range(3)))


def test_members_are_matched_without_reuse(tmp_path):
    naive, aware = [9.0, 8, 7, 6, 1, 2, 3, 4], [1.0, 2, 3, 4, 9, 8, 7, 6]
    text = "".join(f"p,i{i},{int(i in (0, 4, 5, 6))}\n" for i in (0, 1, 4, 5, 6))
    tables = write(tmp_path, {"p": 8}, f"pool,item,member\n{text}")
    outcomes, counts = of_members(ranked(tables, naive, aware), 4, 0)
    assert len(outcomes) == 2  # as many as the smaller side has labels
    assert sorted(outcomes["right"]) == [0.5, 1]
    assert counts["n_disputed"].item() == 8
    assert counts["n_labelled"].item() == 5
    assert counts["gain"].item() == 2


@pytest.mark.parametrize("form", ["pairs", "members"])
def test_what_the_first_labels_say_stays_as_more_come(tmp_path, form):
    rng = np.random.default_rng(4)
    sizes = {"p": 8, "q": 7}
    if form == "pairs":
        every = [(p, *ab) for p, n in sizes.items() for ab in itertools.combinations(range(n), 2)]
        rows = ["pool,better,worse", *(f"{p},i{a},i{b}" for p, a, b in rng.permutation(every))]
    else:
        every = [(p, i) for p, n in sizes.items() for i in range(n)]
        rows = [f"{p},i{i},{rng.integers(2)}" for p, i in rng.permutation(every)]
        rows.insert(0, "pool,item,member")
    tables = write(tmp_path, sizes, "\n".join(rows) + "\n")
    rankings = ranked(tables, *rng.normal(size=(2, 3, len(tables.items))))
    name = "anchors" if form == "pairs" else "members"

    def said(n):
        first = labelled(rankings, **{name: getattr(tables, name)[:n]})
        if form == "pairs":
            outcomes, _ = of_pairs(first, 0, in_order=True)
        else:
            outcomes, _ = of_members(first, 3, 0, in_order=True)
        ordered = outcomes.sort_values(["judge", "pool", "at"]).reset_index(drop=True)
        return ordered, one_a_pool(outcomes, tables, 0).reset_index(drop=True)

    n = len(rows) - 1
    for whole, part in zip(said(n), zip(*map(said, range(n)), strict=True), strict=True):
        assert len(whole) > 3
        for i, of in enumerate(part):
            expected = whole[whole["at"] < i].reset_index(drop=True)
            pd.testing.assert_frame_equal(of, expected, check_dtype=False)


def test_matched_members_keep_the_level_where_recall_does_not_rise(tmp_path):
    """1,000 pools, 16 contents a side of which 8 are good, 5 of each labelled."""
    n, rng = 1000, np.random.default_rng(1)
    sizes = {f"p{g}": 32 for g in range(n)}
    rows = ["pool,item,member"]
    for pool in sizes:
        for side in (0, 16):
            good = side + rng.permutation(16)[:8]
            rows += [f"{pool},i{i},{int(i in good)}" for i in side + rng.permutation(16)[:5]]
    tables = write(tmp_path, sizes, "\n".join(rows) + "\n")
    estimate = np.tile(np.arange(32.0), n)
    rankings = ranked(tables, estimate, -estimate)
    right, wrong = tally(rankings, of_members(rankings, 16, 0)[0])[:, 0]
    assert (right + wrong).mean() > 2
    for alpha in (0.15, 0.3, 0.4):
        critical = critical_values(alpha, 5)
        exact = binom.sf(critical[right + wrong] - 1, right + wrong, 0.5).mean()
        assert 0 < (p_value(right, wrong) <= alpha).mean() <= exact + 3 * np.sqrt(exact / n)


# --- decisions


def test_over_pools_one_label_of_each_keeps_the_level(tmp_path):
    """500 judges, 20 pools of 6 labels that all say the same: half of the pools either way."""
    n, rng = 500, np.random.default_rng(2)
    sizes = {f"p{g}": 7 for g in range(20)}
    text = "".join(f"{p},i0,i{i}\n" for p in sizes for i in range(1, 7))
    tables = write(tmp_path, sizes, f"pool,better,worse\n{text}")
    sign = rng.choice([-1, 1], (n, 20))
    aware = np.repeat(sign, 7, axis=1) * np.tile(-np.arange(7.0), 20)
    _, judges = decided(ranked(tables, -aware, aware))
    assert {d.n_discordant for d in judges} == {120}
    assert {d.n_used for d in judges} == {20}
    assert np.mean([d.decision == ENABLE for d in judges]) < 0.05 + 3 * np.sqrt(0.05 / n)
    # Taken for independent, the labels would enable far more often.
    assert np.mean([p_value(d.n_right, 120 - d.n_right) <= 0.05 for d in judges]) > 0.15


def test_betting_over_pools_keeps_the_level_whatever_the_order_of_the_file(tmp_path):
    """40 pools of a population whose mean is 1/2, those where bias-aware is often right first."""
    rng, n, judges = np.random.default_rng(5), 40, 40
    sizes = {f"p{g}": 2 for g in range(n)}
    text = "".join(f"{p},i0,i1\n" for p in sizes)
    tables = write(tmp_path, sizes, f"pool,better,worse\n{text}")
    enabled = []
    for seed in range(15):
        chance = -np.sort(-rng.choice([0.8, 0.2], n))
        right = np.where(rng.random((judges, n)) < chance, 1.0, -1)
        aware = np.repeat(right, 2, axis=1) * np.tile([1.0, 0], n)
        rankings = ranked(tables, -aware, aware)
        _, found = decided(rankings, "sign_sequential", seed=seed)
        enabled += [d.decision == ENABLE for d in found]
    assert np.mean(enabled) < 0.08  # in the order of the file more than half


@pytest.fixture
def three(tmp_path):
    """A pool with 6 discordant labels, all right, one with none, one without labels."""
    text = "".join(f"p,i{a},i{b}\n" for a, b in itertools.combinations(range(4), 2))
    tables = write(tmp_path, SIZES, f"pool,better,worse\n{text}q,i0,i1\n")
    aware = -np.arange(len(tables.items), dtype=float)
    naive = aware.copy()
    naive[:4] *= -1
    return ranked(tables, naive, aware)


def test_which_c_is_tested_is_said(tmp_path):
    """A leaderboard has another c under the same name."""
    tables = write(tmp_path, {"p": 3, "q": 3}, "pool,better,worse\np,i0,i1\n")
    batch = own.Batch.of(tables)
    frames = deciding.decide(ranked(tables, np.zeros(6), np.zeros(6)), "sign", 0.05, 1, "pairs", 0)

    def tested(batch):
        gate = own.Gate(*frames, "pairs", "sign", 0.05, 1, 0, batch)
        return list(gate_report._fitted(gate))[1]

    per_pool = "tested: one c for each pool and judge, as in jbt fit; to test the c of"
    assert tested(batch).startswith(per_pool)
    merged = own.Batch.of(merge_pools(tables))
    assert tested(merged) == "tested: one c for each judge, from all pools merged"


def test_each_rule_decides(three):
    pools, (judge,) = decided(three)
    assert [d.decision for d in pools] == [ENABLE, KEEP_OFF, None]
    assert pools[0].p_value == pytest.approx(2**-6)
    assert pools[0].reason == "6 of 6 discordant labels right, p = 0.016 <= 0.05"
    assert pools[1].p_value == 1
    assert pools[1].reason == "no discordant label"
    assert pools[2].reason == "no labels"
    assert (judge.decision, judge.n_used, judge.n_discordant) == (KEEP_OFF, 1, 6)
    assert judge.reason.endswith("(one a pool), p = 0.5 > 0.05; at least 5 are needed")
    assert decided(three, alpha=0.01)[0][0].decision == KEEP_OFF


def test_betting_looks_at_the_labels_in_order(three):
    pools, _ = decided(three, "sign_sequential")
    # Four of six pairs right are more than half, whatever the others are.
    assert pools[0].decision == ENABLE
    assert pools[0].p_value == 0
    seen = {}
    for wrong in range(3):
        first = three.tables.anchors[:3].copy()
        first.loc[wrong, ["better", "worse"]] = first.loc[wrong, ["worse", "better"]].to_numpy()
        (pool, *_), _ = decided(labelled(three, anchors=first), "sign_sequential")
        wealth = betting.wealth(jnp.asarray([1.0, 1, 1]).at[wrong].set(0), 6.0)
        assert pool.p_value == pytest.approx(1 / max(1, float(wealth.max())), rel=1e-5)
        assert pool.decision == KEEP_OFF
        seen[wrong] = pool.p_value
    assert seen[2] < seen[1] < seen[0]


@pytest.mark.parametrize("rule", ["sign", "sign_sequential"])
def test_of_two_items_fitted_alone_only_a_changed_order_counts(tmp_path, rule):
    sizes = {"p": 2, "q": 2, "r": 2}
    tables = write(tmp_path, sizes, "pool,better,worse\np,i0,i1\nq,i0,i1\n")
    # As kappa may, the fit turns the pair of p.
    rankings = ranked(tables, [0.0, 1, 1, 0, 1, 0], [1.0, 0, 2, 0, 1, 0])
    (p, q, r), _ = decided(rankings, rule, fitted_alone=True)
    assert p.reason.startswith("1 of 1 discordant labels right")
    assert p.decision == (KEEP_OFF if rule == "sign" else ENABLE)
    assert q.reason == "two items, fitted alone: no covariate can change their order"
    assert q.decision == KEEP_OFF
    assert (r.decision, r.reason) == (None, "no labels")


def test_a_fit_that_ranks_nothing_decides_nothing(three):
    nan = np.full_like(three.naive, np.nan)
    status = np.full_like(three.status, Status.NO_VERDICTS)
    unusable = dataclasses.replace(three, naive=nan, aware=nan, status=status)
    pools, (judge,) = decided(unusable)
    assert {d.decision for d in [*pools, judge]} == {None}
    assert judge.reason == pools[0].reason == "no rankings to compare: no_verdicts"


def test_census_enables_where_recall_rises(tmp_path):
    text = "p,i0,0\np,i3,1\nq,i0,1\nq,i3,0\nr,i0,0\n"
    tables = write(tmp_path, SIZES, f"pool,item,member\n{text}")
    estimate = np.arange(len(tables.items), dtype=float)
    rankings = ranked(tables, -estimate, estimate)
    pools, (judge,) = decided(rankings, "census")
    assert [d.decision for d in pools] == [ENABLE, KEEP_OFF, None]
    assert pools[0].reason == "all 2 disputed members labelled: +1 of the truly best are gained"
    assert pools[2].reason == "1 of 2 disputed members labelled, census needs all"
    assert judge.decision is None
    _, (judge,) = decided(labelled(rankings, members=tables.members[:2]), "census")
    assert judge.reason == pools[0].reason  # pools without a label are not asked about
    pools, _ = decided(rankings)
    assert [(d.n_labels, d.n_discordant, d.n_right) for d in pools] == [
        (2, 1, 1),
        (2, 1, 0),
        (1, 0, 0),
    ]
    with pytest.raises(ValueError, match=r"k must lie in 1..2 \(pool 'r' has 3 contents\), got 3"):
        decided(rankings, k=3)


# --- what to have labelled


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Two judges with graded verdicts on 12 pools of 5, of whom one prefers length; a folder."""
    folder, rng = tmp_path_factory.mktemp("judged"), np.random.default_rng(3)
    verdicts, items = ["pool,judge,first,second,p_first"], ["pool,item,words"]
    for g in range(12):
        quality, x = rng.normal(size=5), rng.normal(size=5)
        items += [f"q{g},i{i},{x[i]:.4f}" for i in range(5)]
        for judge, bias in (("long", 2.0), ("fair", 0.1)):
            phi = quality + bias * x
            for a, b in itertools.permutations(range(5), 2):
                share = 1 / (1 + np.exp(phi[b] - phi[a]))
                verdicts.append(f"q{g},{judge},i{a},i{b},{share:.6f}")
    (folder / "verdicts.csv").write_text("\n".join(verdicts) + "\n")
    (folder / "items.csv").write_text("\n".join(items) + "\n")
    return folder


def read(folder, **options):
    tables = own.read(
        folder / "verdicts.csv", folder / "items.csv", covariates=["words"], **options
    )
    return tables, own.Batch.of(tables, ["words"])


@pytest.mark.heavy
def test_labels_of_disputed_pairs(judged):
    tables, batch = read(judged)
    found = labelling(tables, batch, k=2)
    rankings = Rankings.of(tables, batch)
    a, b = rankings.pairs()
    naive, aware = rankings.orders(a, b)
    disputed = naive * aware < 0
    assert found.n_labels == len(found.table) == disputed.any(0).sum()
    assert found.judges["n_labels"].tolist() == disputed.sum(1).tolist()
    # Every pool once before any twice.
    n_pools = found.table["pool"].nunique()
    assert found.table["pool"][:n_pools].nunique() == n_pools
    assert (found.table["better"] == "").all()
    assert set(found.table["judges"]) <= {"long", "fair", "long; fair"}
    first = found.table["first"] < found.table["second"]
    assert 0.2 < first.mean() < 0.8
    pd.testing.assert_frame_equal(labelling(tables, batch, k=2, n=7).table, found.table[:7])
    other = labelling(tables, batch, k=2, seed=1).table
    assert set(other["pool"]) == set(found.table["pool"])
    assert not other.equals(found.table)


@pytest.mark.heavy
def test_labels_of_members_and_swaps_are_few(judged):
    tables, batch = read(judged, judge="long")
    for k in (1, 2):
        members = labelling(tables, batch, labels="members", k=k)
        assert members.table.columns.tolist() == ["pool", "item", "k", "member"]
        sizes = members.table["pool"].value_counts()
        assert (sizes % 2 == 0).all()
        assert sizes.max() <= 2 * k
        pools = members.table["pool"].tolist()
        assert len(list(itertools.groupby(pools))) == len(sizes)  # a pool at a time
        swaps = labelling(tables, batch, labels="swaps", k=k)
        assert len(swaps.table) == ((sizes // 2) ** 2).sum()


def test_which_item_is_named_first_says_nothing_of_the_rankings(judged):
    tables, batch = read(judged, judge="long")
    rankings = Rankings.of(tables, batch)
    row = {
        (tables.pools[p], i): r for r, (p, i) in enumerate(tables.items[["pool", "item"]].values)
    }
    ahead = []
    for seed in range(20):
        of = labelling(tables, batch, seed=seed).table
        rows = [[row[p, i] for i in pair] for p, *pair in of[["pool", "first", "second"]].values]
        ahead += [rankings.naive[0, a] > rankings.naive[0, b] for a, b in rows]
    assert abs(np.mean(ahead) - 0.5) < 4 * 0.5 / np.sqrt(len(ahead))


def test_what_cannot_be_labelled(judged):
    tables, batch = read(judged, judge="long")
    with pytest.raises(ValueError, match=r"k must lie in 1..4 \(pool 'q0' has 5 contents\), got 5"):
        labelling(tables, batch, k=5)
    with pytest.raises(ValueError, match="labels must be one of disputed, swaps, members"):
        labelling(tables, batch, labels="pairs")
    alike = own.Batch.of(tables)
    with pytest.raises(ValueError, match="no disputed pairs: naive and bias-aware order no pair"):
        labelling(tables, alike)


def test_swaps_are_of_the_disputed_pairs(tmp_path, monkeypatch):
    """Of two tied at the top of the naive ranking, bias-aware has either alone in its top."""
    tables = write(tmp_path, {"p": 3})
    rankings = ranked(tables, [1.0, 1, 0], [0.0, 2, 1])
    monkeypatch.setattr(Rankings, "of", lambda *_: rankings)
    batch = own.Batch.of(tables)
    swapped = {bool(rankings.swapped(1, seed)[0].any()) for seed in range(8)}
    assert swapped == {True, False}
    for seed in range(8):
        with pytest.raises(ValueError, match="no disputed pairs of swapped contents"):
            labelling(rankings.tables, batch, labels="swaps", seed=seed)


@pytest.mark.parametrize("k", [1, 3])
def test_a_top_of_rankings_is_that_of_the_simulated_gate(tmp_path, k):
    """With ties, the same contents as `jbt.gate.exact_top` takes in the same order."""
    rng = np.random.default_rng(8)
    tables = write(tmp_path, {"p": 7, "q": 5, "r": 4})
    rankings = ranked(tables, *rng.integers(0, 4, (2, 30, 16)).astype(float))
    ins, outs = rankings.swapped(k, 3)
    for name, contents in zip(tables.pools, rankings.pools(), strict=True):
        m = len(contents)
        turn, mask = jnp.asarray(seeded(3, "ties", name).permutation(m)), jnp.ones(m, bool)
        for j in range(30):
            naive, aware = (
                np.asarray(exact_top(jnp.asarray(v[j, contents]), k, turn, mask))
                for v in (rankings.naive, rankings.aware)
            )
            np.testing.assert_array_equal(ins[j, contents], aware & ~naive)
            np.testing.assert_array_equal(outs[j, contents], naive & ~aware)
    assert ins.any()


# --- what is said


def promised(labels, rule, n_unanswered=0, k=1):
    verdicts = pd.DataFrame({"first": ["a"], "second": ["b"], "winner": ["first"]})
    batch = own.load(verdicts)
    none = pd.DataFrame()
    found = own.Gate(none, none, labels, rule, 0.05, k, n_unanswered, batch)
    return "\n".join(gate_report._guarantee(found))


def test_each_rule_promises_what_it_keeps():
    for labels in ("pairs", "members"):
        sign, betting = promised(labels, "sign"), promised(labels, "sign_sequential")
        assert "labels without errors: a wrong one may break it" in betting
        assert "wrong labels keep" not in betting
        assert "single decision, not repeated as labels come, on pools drawn at random" in betting
        assert "whenever labelling stops" not in sign
        assert "population" not in sign
    assert "independent and have one probability for good" in promised("members", "sign")
    assert "if one annotator labels a whole pool" in promised("pairs", "sign")
    few = "at least 5 discordant matches (10 members): at k below 5 it never enables"
    assert few in promised("members", "sign")
    assert few not in promised("pairs", "sign") + promised("members", "sign_sequential")


def test_labels_without_an_answer_narrow_what_is_promised(tmp_path):
    assert "answer" not in promised("pairs", "sign")
    assert "anchors without an answer (left out): 3" in promised("pairs", "sign", 3)
    assert "hold only for members that can be answered" in promised("members", "sign_sequential", 1)
    assert "answer" not in promised("members", "census", 1)
    text = "pool,first,second,better\np,i0,i1,\np,i0,i2,first\np,i1,i2,\n"
    tables = write(tmp_path, SIZES, text)
    assert (tables.n_unanswered, len(tables.anchors)) == (2, 1)
    tables = write(tmp_path, SIZES, "pool,item,member\np,i0,\np,i1,1\n")
    assert (tables.n_unanswered, len(tables.members)) == (1, 1)


# --- the commands


def run(capsys, *words):
    code = cli.main([*map(str, words)])
    said = capsys.readouterr()
    return code, said.out if code == 0 else said.err


@pytest.mark.heavy
def test_labels_are_planned_filled_in_and_decide(judged, tmp_path, capsys):
    shared = ["--verdicts", judged / "verdicts.csv", "--items", judged / "items.csv"]
    shared += ["--covariates", "words", "--k", "1"]
    ask, answers = tmp_path / "ask.csv", tmp_path / "answers.csv"
    code, said = run(capsys, "plan", "labels", *shared, "--out", ask, "--json", tmp_path / "p.json")
    assert code == 0
    planned = json.loads((tmp_path / "p.json").read_text())
    assert len(planned["labels"]) == len(pd.read_csv(ask))
    assert [of["judge"] for of in planned["judges"]] == ["long", "fair"]
    assert "fill in better: first, second, tie, or the name" in said

    tables, batch = read(judged)
    rankings = Rankings.of(tables, batch)
    row = {
        (tables.pools[p], i): r for r, (p, i) in enumerate(tables.items[["pool", "item"]].values)
    }
    filled = pd.read_csv(ask, keep_default_na=False)
    at = [[row[p, i] for i in pair] for p, *pair in filled[["pool", "first", "second"]].values]
    of_long = rankings.aware[0]
    filled["better"] = ["first" if of_long[a] > of_long[b] else "second" for a, b in at]
    filled.to_csv(answers, index=False)
    outputs = ["--json", tmp_path / "g.json", "--out", tmp_path / "report"]
    gate = ["gate", *shared, "--anchors", answers, "--labels", "disputed"]
    code, said = run(capsys, *gate, *outputs)
    assert code == 0
    found = json.loads((tmp_path / "g.json").read_text())
    assert found["settings"]["labels"] == "disputed"
    assert len(found["pools"]) == 24
    long, fair = found["judges"]
    assert long["judge"] == "long"
    assert long["decision"] == ENABLE
    assert long["n_right"] == long["n_discordant"] >= long["n_used"] == long["n_used_right"]
    assert long["p_value"] == pytest.approx(2.0 ** -long["n_used"])
    assert set(long) >= {"decision", "n_labels", "n_discordant", "n_right", "p_value", "reason"}
    table = pd.read_csv(tmp_path / "report" / "table.csv")
    assert len(table) == 26
    assert "with probability at most 0.05" in said
    assert "not the recall of the top 1" in said
    assert fair["n_labels"] == long["n_labels"]


@pytest.mark.heavy
def test_pools_of_two_are_decided_from_one_c(judged, tmp_path, capsys):
    verdicts = pd.read_csv(judged / "verdicts.csv")
    two = verdicts[verdicts[["first", "second"]].isin(["i0", "i1"]).all(axis=1)]
    items = pd.read_csv(judged / "items.csv")
    two.to_csv(tmp_path / "v.csv", index=False)
    items[items["item"].isin(["i0", "i1"])].to_csv(tmp_path / "i.csv", index=False)
    rows = "".join(f"q{g},i0,i1\n" for g in range(12))
    (tmp_path / "a.csv").write_text(f"pool,better,worse\n{rows}")
    tables, batch = read_two(tmp_path)
    assert pairs_alone(tables)
    alone = own.gate(tables, batch)
    assert set(alone.pools["reason"]) == {
        "two items, fitted alone: no covariate can change their order"
    }
    assert set(alone.pools["n_discordant"]) == {0}
    shared = ["--verdicts", tmp_path / "v.csv", "--items", tmp_path / "i.csv", "--covariates"]
    shared += ["words", "--anchors", tmp_path / "a.csv"]
    code, said = run(capsys, "gate", *shared, "--json", tmp_path / "g.json")
    assert code == 0
    assert "one c for each judge, from all pools merged; the prior chose it" in said
    assert "uncorrelated with words over pools" in said
    found = json.loads((tmp_path / "g.json").read_text())
    assert found["settings"]["merge_pools"] is True
    assert found["judges"][0]["n_discordant"] > 0
    assert [of["pool"] for of in found["pools"][::2]] == [f"q{g}" for g in range(12)]


def read_two(folder):
    tables = own.read(folder / "v.csv", folder / "i.csv", folder / "a.csv", covariates=["words"])
    return tables, own.Batch.of(tables, ["words"])


BAD_OPTIONS = {
    ("--alpha", "0"): "alpha must lie above 0 and below 1/2, got 0",
    ("--alpha", "0.5"): "alpha must lie above 0 and below 1/2, got 0.5",
    ("--k", "5"): "k must lie in 1..4 (pool 'q0' has 5 contents), got 5",
    ("--seed", "-1"): "seed must lie in 0..2^32-1",
    ("--labels", "members"): "labels must be members, but the anchors are labels of pairs",
    ("--rule", "census"): "the rule census needs labels of members",
}


@pytest.mark.heavy
def test_of_one_pool_a_judge_is_decided_as_the_pool(judged, tmp_path):
    for name in ("verdicts", "items"):
        table = pd.read_csv(judged / f"{name}.csv")
        table[table["pool"] == "q0"].to_csv(tmp_path / f"{name[0]}.csv", index=False)
    (tmp_path / "a.csv").write_text("pool,better,worse\nq0,i0,i1\nq0,i0,i2\nq0,i3,i4\n")
    found = own.gate(*read_two(tmp_path))
    pd.testing.assert_frame_equal(found.pools.assign(pool=None), found.judges)


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=" ".join)
def test_wrong_options_end_with_one_line(judged, tmp_path, capsys, options):
    (tmp_path / "a.csv").write_text("pool,better,worse\nq0,i0,i1\n")
    shared = ["gate", "--verdicts", judged / "verdicts.csv", "--items", judged / "items.csv"]
    shared += ["--covariates", "words", "--anchors", tmp_path / "a.csv"]
    code, said = run(capsys, *shared, *options)
    assert code == 2
    assert BAD_OPTIONS[options] in said.splitlines()[-1]


def test_a_gate_needs_anchors_and_a_covariate(judged, tmp_path, capsys):
    shared = ["gate", "--verdicts", judged / "verdicts.csv", "--items", judged / "items.csv"]
    code, said = run(capsys, *shared, "--covariates", "words")
    assert (code, said.count("\n")) == (2, 1)
    assert "needs trusted labels (--anchors)" in said
    (tmp_path / "a.csv").write_text(
        "pool,first,second,better\nq0,i0,i1,first\nq0,i0,i1,second\nq0,i2,i3,\n"
    )
    code, said = run(capsys, *shared, "--covariates", "words", "--anchors", tmp_path / "a.csv")
    assert code == 2
    assert said.endswith(
        "there are none: 1 pair labelled both ways: 2 anchors left out; "
        "1 anchor without an answer left out\n"
    )
    code, said = run(capsys, *shared)
    assert (code, said.count("\n")) == (2, 1)
    assert "needs a covariate" in said
