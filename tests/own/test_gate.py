"""Decisions from trusted labels of a user's verdicts."""

import dataclasses
import itertools
import json

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal
from scipy.special import expit
from scipy.stats import binom

from jbt import own
from jbt.gate import betting, critical_values, exact_top, p_value
from jbt.own.gates import decide as deciding
from jbt.own.gates.decide import at_one_rate, of_members, of_pairs, one_a_pool, pairs_alone
from jbt.own.gates.rankings import Rankings, seeded
from jbt.own.gates.report import ENABLE, KEEP_OFF
from jbt.types import Status

SIZES = {"p": 4, "q": 4, "r": 3}
PAIRS, MEMBERS = "pool,better,worse", "pool,item,member"


def write(folder, sizes, *anchors):
    """Verdicts of nobody in particular on pools of these sizes, and rows of anchors; read."""
    items = [(pool, f"i{i}") for pool, n in sizes.items() for i in range(n)]
    items = pd.DataFrame(items, columns=["pool", "item"])
    verdicts = items[items["item"] != "i0"].assign(first="i0", winner="first")
    path = folder / "anchors.csv"
    path.write_text("\n".join(anchors) + "\n")
    return own.read(verdicts.rename(columns={"item": "second"}), items, path if anchors else None)


def disputing(tables):
    """Two rankings that are opposite everywhere: the bias-aware one by place in the table."""
    aware = np.arange(len(tables.items), dtype=float)
    return ranked(tables, -aware, aware)


def ranked(tables, naive, aware, k=1):
    """These estimates [J, rows of items], as if fitted."""
    naive, aware = np.atleast_2d(naive), np.atleast_2d(aware)
    tables = dataclasses.replace(tables, judges=[f"j{i}" for i in range(len(naive))])
    pool, status = tables.items["pool"].to_numpy(), np.full(naive.shape, Status.CONVERGED)
    return Rankings(tables, k, pool, np.arange(len(pool)), naive, aware, status)


def decided(rankings, rule="sign", *, alpha=0.05, seed=0, **fitted):
    """Decisions of pools and of judges, as rows."""
    labels = "pairs" if rankings.tables.members.empty else "members"
    frames = deciding.decide(rankings, rule, alpha, labels, seed, **fitted)
    frames = [frame.astype(object).where(frame.notna(), None) for frame in frames]
    return [list(frame.itertuples(index=False)) for frame in frames]


def labelled(rankings, **anchors):
    """The same rankings with other labels."""
    return dataclasses.replace(rankings, tables=dataclasses.replace(rankings.tables, **anchors))


def tally(rankings, outcomes):
    """[2, J, pools] outcomes right and wrong."""
    found = np.zeros((2, len(rankings.naive), len(rankings.tables.pools)), int)
    for row in outcomes.itertuples():
        found[int(row.right == 0), row.judge, row.pool] += row.right != 0.5
    return found


# --- the table of anchors


def test_labels_in_the_words_of_an_annotator(tmp_path):
    words = ["1", "true", "YES", "1.0", "0", "False", "no", "0.0", " "]
    rows = [f"p,i{i},{word}" for i, word in enumerate(words)]
    found = write(tmp_path, {"p": len(words)}, MEMBERS, *rows)
    assert found.members["member"].tolist() == [True] * 4 + [False] * 4
    assert found.members["item"].tolist() == list(range(8))
    assert found.anchors.empty
    assert found.summary[-1] == "1 anchor without an answer left out"
    with pytest.raises(own.TableError, match="a joint fit needs pairs"):
        found.with_anchors()
    rows = ["p,i0,i1,first", "p,i2,i1,I1", "p,i3,i0,tie", "q,i0,i1,", "q,i2,i1,i2"]
    found = write(tmp_path, SIZES, "pool,first,second,better", *rows)
    assert found.anchors.to_numpy().tolist() == [[0, 0, 1], [0, 1, 2], [1, 6, 5]]


def test_repeated_and_contradictory_anchors_are_counted(tmp_path):
    rows = ["p,i0,i1", "p,i0,i1", "p,i2,i1", "p,i1,i2", "p,i1,i2", "q,i0,i1"]
    found = write(tmp_path, SIZES, PAIRS, *rows)
    assert found.anchors.to_numpy().tolist() == [[0, 0, 1], [1, 4, 5]]
    assert found.summary[-2:] == [
        "1 anchor given again, each counted once",
        "1 pair labelled both ways: 3 anchors left out",
    ]
    found = write(tmp_path, SIZES, MEMBERS, "p,i0,1", "p,i0,0", "p,i1,no", "p,i1,0")
    assert found.members.to_numpy().tolist() == [[0, 1, False]]


BAD_ANCHORS = {
    "pool,item,member p,i0,maybe": "line 2: member is 'maybe', allowed: 1, 0, true",
    "pool,first,second,better p,i0,i1,i2": "line 2: better is 'i2', allowed: first, second",
    "pool,better p,i0": "has the columns of no kind of anchors, needs one of: better, worse or",
    "pool,better,worse,item,member p,i0,i1,i0,1": "has the columns of more than one kind",
}


def test_wrong_anchors_are_named_with_their_lines(tmp_path):
    for text, message in BAD_ANCHORS.items():
        with pytest.raises(own.TableError, match=message):
            write(tmp_path, SIZES, *text.split(" "))


# --- what labels say


def test_discordant_labels_are_those_the_rankings_order_oppositely(tmp_path):
    """Against a loop; pairs that one ranking ties are counted, but not discordant."""
    rng = default_rng(0)
    pairs = [(p, a, b) for p, n in SIZES.items() for a, b in itertools.combinations(range(n), 2)]
    turned = [(p, *rng.permutation([f"i{a}", f"i{b}"])) for p, a, b in pairs]
    tables = write(tmp_path, SIZES, PAIRS, *map(",".join, turned))
    naive, aware = rng.integers(0, 3, (2, 15, len(tables.items))).astype(float)
    naive += rng.normal(size=naive.shape) * 1e-12  # rounding decides nothing
    rankings = ranked(tables, naive, aware)
    outcomes, counts = of_pairs(rankings, "pairs", 0)
    expected = np.zeros((3, 15, 3), int)
    for pool, better, worse in tables.anchors.to_numpy():
        n, m = (np.round(of[:, better] - of[:, worse]) for of in (naive, aware))
        expected[:, :, pool] += [(m > 0) & (n < 0), (m < 0) & (n > 0), (m == 0) != (n == 0)]
    assert_array_equal(tally(rankings, outcomes), expected[:2])
    assert_array_equal(counts["n_ties"], expected[2])
    assert_array_equal(counts["population"], expected[:2].sum(0))  # all are labelled
    assert expected.sum((1, 2)).min() > 10


def test_a_label_of_two_items_of_one_content_and_of_one_pair_again_count_once(tmp_path):
    both_ways = "p,i3,i1", "p,i2,i3"
    rows = "p,i0,i1", "p,i0,i2", "p,i1,i2", "p,i0,i3", *both_ways
    tables = write(tmp_path, {"p": 4}, PAIRS, *rows)
    rankings = ranked(tables, [0, 1, 2], [2, 1, 0])
    shared = dataclasses.replace(rankings, pool=np.zeros(3, int), owner=np.array([0, 1, 1, 2]))
    outcomes, counts = of_pairs(shared, "pairs", 0)
    assert counts["n_labels"].tolist() == [2]
    assert outcomes["right"].tolist() == [1, 1]


def test_members_are_matched_without_reuse(tmp_path):
    rows = (f"p,i{i},{int(i in (0, 4, 5, 6))}" for i in (0, 1, 4, 5, 6))
    tables = write(tmp_path, {"p": 8}, MEMBERS, *rows)
    rankings = ranked(tables, [9, 8, 7, 6, 1, 2, 3, 4], [1, 2, 3, 4, 9, 8, 7, 6], k=4)
    outcomes, counts = of_members(rankings, 0)
    assert len(outcomes) == 2  # as many as the smaller side has labels
    assert sorted(outcomes["right"]) == [0.5, 1]
    names = "n_disputed", "population", "n_labelled", "gain"
    assert [counts[name].item() for name in names] == [8, 4, 5, 2]


@pytest.mark.parametrize("form", ["anchors", "members"])
def test_what_the_first_labels_say_stays_as_more_come(tmp_path, form):
    rng, pairs = default_rng(4), form == "anchors"
    rows = []
    for pool in "pq":
        for a, b in itertools.combinations(range(8), 2) if pairs else enumerate([0, 1] * 4):
            rows.append(f"{pool},i{a},i{b}" if pairs else f"{pool},i{a},{b}")
    header = PAIRS if pairs else MEMBERS
    tables = write(tmp_path, {"p": 8, "q": 8}, header, *rng.permutation(rows))
    rankings = ranked(tables, *rng.normal(size=(2, 3, len(tables.items))), k=3)
    cells = pd.MultiIndex.from_product([range(2), range(3)], names=["pool", "judge"])

    def said(n):
        first = labelled(rankings, **{form: getattr(tables, form)[:n]})
        if pairs:
            outcomes = of_pairs(first, "disputed", 0)[0]
            counting = at_one_rate(outcomes, pd.Series(1.0, cells))
        else:
            outcomes = of_members(first, 0, in_order=True)[0]
            counting = one_a_pool(outcomes, rankings, 0)
        return outcomes.sort_values(["judge", "pool", "at"]), counting

    whole = said(len(rows))
    assert min(map(len, whole)) > 3
    for n in range(len(rows)):
        for part, of_all in zip(said(n), whole, strict=True):
            expected = of_all[of_all["at"] < n].reset_index(drop=True)
            assert_frame_equal(part.reset_index(drop=True), expected, check_dtype=False)


@pytest.mark.heavy
def test_a_top_of_rankings_is_that_of_the_simulated_gate(tmp_path):
    """With ties, the same contents as `jbt.gate.exact_top` takes in the same order."""
    rng, k = default_rng(8), 3
    tables = write(tmp_path, {"p": 7, "q": 5, "r": 4})
    rankings = ranked(tables, *rng.integers(0, 4, (2, 30, 16)).astype(float), k=k)
    ins, outs = rankings.swapped(3)
    for name, contents in zip(tables.pools, rankings.pools(), strict=True):
        m = len(contents)
        turn, mask = jnp.asarray(seeded(3, "ties", name).permutation(m)), jnp.ones(m, bool)
        for j in range(30):
            naive, aware = (
                np.asarray(exact_top(jnp.asarray(v[j, contents]), k, turn, mask))
                for v in (rankings.naive, rankings.aware)
            )
            assert_array_equal(ins[j, contents], aware & ~naive)
            assert_array_equal(outs[j, contents], naive & ~aware)
    assert ins.any()


# --- levels


def test_matched_members_keep_the_level_where_recall_does_not_rise(tmp_path):
    """1,000 pools, 16 contents a side of which 8 are good, 5 of each labelled."""
    n, rng = 1000, default_rng(1)
    sizes = {f"p{g}": 32 for g in range(n)}
    rows = [MEMBERS]
    for pool, side in itertools.product(sizes, (0, 16)):
        good = side + rng.permutation(16)[:8]
        rows += [f"{pool},i{i},{int(i in good)}" for i in side + rng.permutation(16)[:5]]
    tables = write(tmp_path, sizes, *rows)
    estimate = np.tile(np.arange(32.0), n)
    rankings = ranked(tables, estimate, -estimate, k=16)
    right, wrong = tally(rankings, of_members(rankings, 0)[0])[:, 0]
    assert (right + wrong).mean() > 2
    for alpha in (0.15, 0.3, 0.4):
        critical = critical_values(alpha, 5)
        exact = binom.sf(critical[right + wrong] - 1, right + wrong, 0.5).mean()
        assert 0 < (p_value(right, wrong) <= alpha).mean() <= exact + 3 * np.sqrt(exact / n)


@pytest.mark.heavy
def test_over_unlike_pools_every_pair_has_the_same_chance_to_count(tmp_path):
    """A pool of 12 contents and 20 of 4, 3 pairs of each labelled, all disputed: bias-aware is
    right in the small pools, whose 60 labels are of 120 pairs, and wrong in the large one."""
    rng, sizes = default_rng(2), {"p": 12} | {f"q{g:02}": 4 for g in range(20)}
    rows = [
        f"{pool},i{a},i{b}"
        for pool, n in sizes.items()
        for a, b in rng.permutation([*itertools.combinations(range(n), 2)])[:3]
    ]
    tables = write(tmp_path, sizes, PAIRS, *rows)
    estimate = np.concatenate([np.arange(n) * (1 if n == 12 else -1.0) for n in sizes.values()])
    rankings = ranked(tables, -estimate, estimate)
    (judge,) = decided(rankings)[1]
    assert (judge.n_discordant, judge.n_right, judge.n_disputed) == (63, 60, 186)
    cells = pd.MultiIndex.from_product([range(len(sizes)), [0]], names=["pool", "judge"])
    n_right, n = [], 300
    for seed in range(n):
        outcomes, counts = of_pairs(rankings, "pairs", seed)
        counting = at_one_rate(outcomes, pd.Series(counts["rate"].ravel(), cells))
        n_right.append(counting["right"].sum())
        assert len(counting) - n_right[-1] == 3
    assert (judge.n_used_right, judge.n_used) == (n_right[0], n_right[0] + 3)
    # A pair of a small pool is labelled with chance 1/2, one of the large pool with 3 / 66.
    mean, variance = 60 * (3 / 66) * 2, 60 * (6 / 66) * (60 / 66)
    assert abs(np.mean(n_right) - mean) < 4 * np.sqrt(variance / n)


@pytest.mark.heavy
def test_betting_over_pools_takes_labels_of_pools_in_a_random_order(tmp_path):
    """One label of each of 40 pools with 6 disputed pairs, right in the first half of them."""
    sizes = {f"p{g}": 4 for g in range(40)}
    tables = write(tmp_path, sizes, PAIRS, *(f"{p},i0,i1" for p in sizes))
    aware = np.tile([3.0, 2, 1, 0], 40) * np.repeat([1, -1], 80)
    rankings = ranked(tables, -aware, aware)
    enabled = [decided(rankings, "sign_sequential", seed=seed)[1][0] for seed in range(100)]
    assert {d.n_used for d in enabled} == {40}
    assert np.mean([d.decision == ENABLE for d in enabled]) < 0.05 + 3 * np.sqrt(0.05 / 100)
    frames = deciding.decide(rankings, "sign_sequential", 0.05, "disputed", 0)
    assert frames[1]["decision"].tolist() == [ENABLE]  # in the order of the file


# --- decisions


def test_each_rule_decides(tmp_path):
    """A pool with 6 discordant labels, all right, one with none, one without labels."""
    pairs = (f"p,i{a},i{b}" for a, b in itertools.combinations(range(4), 2))
    tables = write(tmp_path, SIZES, PAIRS, *pairs, "q,i0,i1")
    aware = -np.arange(len(tables.items), dtype=float)
    three = ranked(tables, np.where(np.arange(len(aware)) < 4, -aware, aware), aware)
    pools, (judge,) = decided(three)
    assert [(d.decision, d.reason) for d in pools] == [
        (ENABLE, "6 of 6 discordant labels favour the correction, p = 0.016 <= 0.05"),
        (KEEP_OFF, "no discordant label"),
        (None, "no labels"),
    ]
    # One of the 6 pairs of q is labelled too, but it is not disputed: no pair of p is left out.
    assert (judge.decision, judge.n_used, judge.n_discordant) == (ENABLE, 6, 6)
    assert decided(three, alpha=0.01)[0][0].decision == KEEP_OFF

    # Betting: four of six pairs right are more than half, whatever the others are.
    (pool, *_), _ = decided(three, "sign_sequential")
    assert (pool.decision, pool.p_value) == (ENABLE, 0)
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

    nan = np.full_like(three.naive, np.nan)
    status = np.full_like(three.status, Status.NO_VERDICTS)
    pools, (judge,) = decided(dataclasses.replace(three, naive=nan, aware=nan, status=status))
    for decision in [*pools, judge]:
        assert (decision.decision, decision.reason) == (None, "no rankings to compare: no_verdicts")


def test_of_two_items_fitted_alone_only_a_changed_order_counts(tmp_path):
    tables = write(tmp_path, {"p": 2, "q": 2, "r": 2}, PAIRS, "p,i0,i1", "q,i0,i1")
    # As kappa may, the fit turns the pair of p.
    rankings = ranked(tables, [0.0, 1, 1, 0, 1, 0], [1.0, 0, 2, 0, 1, 0])
    (p, q, r), _ = decided(rankings, "sign_sequential", fitted_alone=True)
    assert p.decision == ENABLE
    assert q.reason == "two items, fitted alone: no covariate can change their order"
    assert (q.decision, r.decision) == (KEEP_OFF, None)


def test_census_enables_where_recall_rises(tmp_path):
    rows = ["p,i0,0", "p,i3,1", "q,i0,1", "q,i3,0", "r,i0,0"]
    tables = write(tmp_path, SIZES, MEMBERS, *rows)
    rankings = disputing(tables)
    pools, (judge,) = decided(rankings, "census")
    assert [d.decision for d in pools] == [ENABLE, KEEP_OFF, None]
    assert pools[0].reason == "all 2 disputed members labelled: +1 of the truly best are gained"
    assert judge.decision is None
    _, (judge,) = decided(labelled(rankings, members=tables.members[:2]), "census")
    assert judge.reason == pools[0].reason  # pools without a label are not asked about
    pools, _ = decided(rankings)
    counts = [(d.n_labels, d.n_discordant, d.n_right) for d in pools]
    assert counts == [(2, 1, 1), (2, 1, 0), (1, 0, 0)]


# --- the commands


@pytest.fixture(scope="module")
def judged():
    """Tables of two judges with graded verdicts on 12 pools of 5, of whom one prefers length."""
    rng, (a, b) = default_rng(3), np.array([*itertools.permutations(range(5), 2)]).T
    verdicts, items = [], []
    for pool in (f"q{g}" for g in range(12)):
        quality, words = rng.normal(size=(2, 5))
        items.append(pd.DataFrame({"pool": pool, "item": range(5), "words": words}))
        for judge, bias in (("long", 2.0), ("fair", 0.1)):
            phi = quality + bias * words
            rows = {"first": a, "second": b, "p_first": expit(phi[a] - phi[b])}
            verdicts.append(pd.DataFrame({"pool": pool, "judge": judge, **rows}))
    return pd.concat(verdicts), pd.concat(items)


@pytest.fixture
def saved(judged, tables, tmp_path):
    """Write the rows of the tables for which a function of the table holds; the options."""

    def save(kept, *anchors):
        v, i = tables(*(table[kept(table)].to_csv(index=False) for table in judged))
        options = ["--covariates", "words", "--verdicts", v, "--items", i]
        if anchors:
            path = tmp_path / "anchors.csv"
            path.write_text("\n".join(anchors) + "\n")
            options += ["--anchors", path]
        return options

    return save


def read(options):
    """What the commands read of these options, and the models of it."""
    paths = dict(zip(options[2::2], options[3::2], strict=True))
    tables = own.read(*paths.values(), covariates=["words"])
    return tables, own.Batch.of(tables, ["words"])


@pytest.mark.heavy
def test_labels_are_planned_filled_in_and_decide(saved, tmp_path, jbt):
    shared = saved(lambda table: table["pool"] != "")
    ask, file = tmp_path / "ask.csv", tmp_path / "g.json"
    jbt("plan", "labels", *shared, "--out", ask)
    tables, batch = read(shared)
    place = [np.array(tables.pools)[tables.items["pool"]], tables.items["item"]]
    aware = pd.Series(Rankings.of(tables, batch, 1).aware[0], place)
    filled = pd.read_csv(ask, dtype=str)
    first, second = (
        aware[list(zip(filled["pool"], filled[side], strict=True))].to_numpy()
        for side in ("first", "second")
    )
    filled["better"] = np.where(first > second, "first", "second")
    filled.to_csv(ask, index=False)
    jbt("gate", *shared, "--anchors", ask, "--labels", "disputed", "--json", file)
    long, fair = json.loads(file.read_text())["judges"]
    assert (long["judge"], long["decision"]) == ("long", ENABLE)
    assert long["n_right"] == long["n_discordant"]
    assert long["p_value"] == pytest.approx(2.0 ** -long["n_used"])
    assert fair["n_labels"] == long["n_labels"] == len(filled)


@pytest.mark.heavy
def test_pools_of_two_are_decided_from_one_c(saved, tmp_path, jbt):
    labels = [f"q{g},0,1" for g in range(12)]
    shared = saved(lambda table: ~table.isin([2, 3, 4]).any(axis=1), PAIRS, *labels)
    tables, batch = read(shared)
    assert pairs_alone(tables)
    alone = own.gate(tables, batch)
    assert set(alone.pools["n_discordant"]) == {0}
    said = jbt("gate", *shared, "--json", tmp_path / "g.json")
    assert "one c for each judge, fitted to all pools merged; the prior chose it" in said
    found = json.loads((tmp_path / "g.json").read_text())
    assert found["settings"]["merge_pools"] is True
    assert found["judges"][0]["n_discordant"] > 0


BAD_OPTIONS = {
    "--alpha 0.5": "alpha must lie above 0 and below 1/2, got 0.5",
    "--k 5": "k must lie in 1..4 (pool 'q0' has 5 contents), got 5",
    "--labels members": "labels must be members, but the anchors are labels of pairs",
    "--rule census": "the rule census needs labels of members",
}


@pytest.mark.heavy
def test_one_pool_is_decided_as_its_judge_and_bad_input_ends_with_one_line(saved, tmp_path, jbt):
    def one_pool(*anchors):
        return saved(lambda table: table["pool"] == "q0", *anchors)

    shared = one_pool(PAIRS, "q0,0,1", "q0,0,2", "q0,3,4")
    found = own.gate(*read(shared))
    assert_frame_equal(found.pools.assign(pool=None), found.judges)
    assert "drawn at random within the pool\n" in found.report("Gate", []).text()
    for options, message in BAD_OPTIONS.items():
        assert message in jbt("gate", *shared, *options.split(), code=2)
    assert "needs trusted labels (--anchors)" in jbt("gate", *one_pool(), code=2)


def test_a_pool_s_draw_depends_on_its_name_and_the_seed_alone(tmp_path):
    tables = write(tmp_path, SIZES, PAIRS, *(f"{p},i0,i{i}" for p in SIZES for i in range(1, 3)))
    both = disputing(tables)

    def drawn_from(rankings, seed=0):
        drawn = one_a_pool(of_pairs(rankings, "pairs", seed)[0], rankings, seed)
        return drawn["pool"].tolist(), dict(zip(drawn["pool"], drawn["at"], strict=True))

    turn, picks = drawn_from(both)
    fewer = drawn_from(labelled(both, anchors=tables.anchors[2:].reset_index(drop=True)))[1]
    assert {p: at + 2 for p, at in fewer.items()} == {p: picks[p] for p in (1, 2)}
    assert turn == drawn_from(labelled(both, anchors=tables.anchors[::-1]))[0]
    several = [drawn_from(both, seed) for seed in range(100)]
    assert 30 < sum(picks[0] for _, picks in several) < 70  # either of two, 4 standard deviations
    assert len({tuple(turn) for turn, _ in several}) == 6
