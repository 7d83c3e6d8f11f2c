"""Recorded verdicts as a frozen judge: its answers, its top sets, runs against it."""

import functools
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support import twin

from jbt import own, runtime, stats
from jbt.own.replays import run
from jbt.own.replays.report import needed
from jbt.own.replays.run import oracles, trusted_tops
from jbt.types import Prior

GRADED = """pool,first,second,p_first,count,order
p,a,b,1,1,shown
p,b,c,0.5,1,shown
p,c,a,0.25,1,shown
p,b,a,0,1,shown
p,a,c,,1,shown
q,u,v,0.2,3,shown
q,u,v,0.6,1,shown
q,v,u,0.5,1,shown
r,s,t,0.9,1,shown
r,t,s,0.3,1,shown
r,t,s,0.3,1,unknown
e,x,y,,2,shown
"""
"""Incomplete and graded; an error; repeats; an unknown order; a pool without a verdict."""

QUALITY = """pool,item,quality
p,a,1
p,b,2
p,c,2
q,u,0
q,v,
r,s,3
r,t,1
e,x,1
e,y,0
"""
ANCHORS = "pool,better,worse\np,b,a\np,a,c\nq,u,v\n"
SEEDS = 150


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")

    def read(verdicts=GRADED, items=QUALITY, anchors=ANCHORS):
        texts = {"verdicts": verdicts, "items": items, "anchors": anchors}
        for name, text in texts.items():
            (folder / name).write_text(text)
        tables = own.read(*(folder / name for name in texts))
        return tables, own.Batch.of(tables)

    return read


@pytest.fixture(scope="module")
def graded(read):
    return read()


# --- the frozen judge


def judge_of(tables, estimator="bias_aware"):
    with runtime.precision("float64"):
        return oracles(*tables, 1, estimator, Prior())


@pytest.fixture(scope="module")
def judge(graded):
    return judge_of(graded)


def test_a_frozen_judge_has_the_recorded_shares_and_top_sets(graded, judge):
    (judge, mixed), n_verdicts, notes = judge
    # Where known and unknown orders mix, the batch keeps rows instead of counts.
    assert (judge.fits.tolist(), mixed.fits.tolist()) == ([0, 1], [2])
    no = np.nan
    p, q, r = *np.asarray(judge.tasks.answers), mixed.tasks.answers[0]
    assert_array_equal(p, [[no, 1, no], [0, no, 0.5], [0.25, no, no]])
    # Four verdicts of one ordered pair are one answer: their mean.
    assert_allclose(q, [[no, 0.3, no], [0.5, no, no], [no] * 3])
    assert_array_equal(r, [[no, 0.9], [0.3, no]])
    assert n_verdicts.tolist() == [4, 2, 2, 0]

    full, quality, anchors = judge.tops.transpose(1, 0, 2)
    # p: a beat b twice and all but beat c. q, r: v and s have the larger shares.
    assert_array_equal(full, [[1, 0, 0], [0, 1, 0]])
    assert_array_equal(quality, [[0, 1, 1], [no] * 3])
    assert_array_equal(anchors, [[0, 1, 0], [1, 0, 0]])
    assert_array_equal(mixed.tops[0], [[1, 0], [1, 0], [no] * 2])

    assert any("judged more than once (in 2 pools) have the mean" in note for note in notes)


ONE_PAIR = "pool,better,worse\np,a,c\n"


def test_a_tie_at_the_boundary_of_all_verdicts_counts_for_either(read):
    tied = "pool,first,second,winner\np,a,b,tie\np,b,a,tie\np,c,a,second\np,c,b,second\n"
    tables = read(tied, "pool,item\np,a\np,b\np,c\n", ONE_PAIR)
    (judge,), _, notes = judge_of(tables, "naive")
    assert_array_equal(judge.tops[0, 0], [1, 1, 0])
    assert any("leave a tie at the boundary of the top 1 in 1 pools" in note for note in notes)


ITEMS = "pool,item,content,quality\np,a,A,1\np,b,A,1\np,c,B,2\np,d,C,3\n"
FEW = "pool,first,second,winner\np,a,c,first\np,d,b,first\n"
OWNER = np.array([0, 0, 1, 2])


@pytest.mark.parametrize(
    ("anchors", "k", "top"),
    [
        # Each of k contents is placed above each of the others.
        ("p,a,c p,c,d", 1, [1, 0, 0]),  # a chain
        ("p,a,c p,c,d", 2, [1, 1, 0]),
        ("p,a,c", 1, None),  # d is not placed
        ("p,a,c p,c,b p,a,d p,c,d", 2, [1, 1, 0]),  # a cycle above the boundary
        ("p,a,c p,c,b p,a,d p,c,d", 1, None),  # and across it
        # Labels of members leave no choice.
        ("p,a,yes", 1, [1, 0, 0]),
        ("p,a,no", 2, [0, 1, 1]),
        ("p,a,yes p,b,0", 1, None),  # one content both ways
    ],
)
def test_anchors_define_the_top_k_only_where_they_leave_no_choice(read, anchors, k, top):
    columns = "item,member" if {"yes", "no"} & set(anchors.replace(" ", ",").split(",")) else None
    text = "\n".join([f"pool,{columns or 'better,worse'}", *anchors.split()])
    found, _ = read(FEW, ITEMS, text + "\n")
    (quality, by_anchors), *_ = trusted_tops(found, OWNER, k)
    assert_array_equal(by_anchors, [np.nan] * 3 if top is None else top)
    assert_array_equal(quality, [0, k == 2, 1])


def test_items_of_one_content_must_agree_on_their_quality(read):
    found, _ = read(FEW, ITEMS.replace("b,A,1", "b,A,2"), ONE_PAIR)
    with pytest.raises(own.TableError, match=r"line 2: content 'A' .* different qualities"):
        trusted_tops(found, OWNER, 2)


# --- curves


def test_what_is_needed_and_its_interval_by_hand():
    budgets, full = np.array([2, 4, 6, 8]), np.ones(10)
    recall = np.stack([full / 2, full, full * 0.95, full])
    curves = np.stack(stats.bounded_interval(recall))
    assert_array_equal(needed(curves, budgets, 0.9), [4, 4, np.inf])
    assert_array_equal(needed(curves, budgets, 0.5), [2, 2, 4])
    curves[:, -1] = 1
    assert_array_equal(needed(curves, budgets, 0.9), [4, 4, 8])
    curves = np.stack(stats.bounded_interval(recall[:, :4]))  # of four pools
    assert_array_equal(needed(curves, budgets, 0.9), [4, np.nan, np.nan])


# --- whole runs


def by_round_robin(answers, top):
    """Expected recall of the top 1 after each verdict: every way in which ties may be broken;
    places of the top 1 are shared by ties to within 1e-9."""
    pairs = [tuple(pair) for pair in np.argwhere(~np.isnan(answers)).tolist()]

    @functools.cache
    def after(asked):
        if asked:
            rows = [[(i == a) - (i == b) for i in range(3)] + [1] for a, b in asked]
            shares = np.array([answers[pair] for pair in asked])
            free, precision = np.ones(4, bool), np.array([1, 1, 1, 0.1])
            theta = twin.fit(np.array(rows, float), shares, precision, free)[0][:3]
            best = theta >= theta.max() - 1e-9
            here = (best & (np.array(top) > 0)).sum() / best.sum()
        left = [pair for pair in pairs if pair not in asked]
        if not left:
            return (here,)
        shown = np.zeros((3, 3))
        for pair in asked:
            shown[pair] += 1
        score = twin.scores(
            "round_robin", np.zeros(3), np.zeros(5), np.eye(5), np.ones(3) / 3, shown, None, 1
        )
        best = max(score[pair] for pair in left)
        ways = [after((*asked, pair)) for pair in left if score[pair] >= best - 1e-9]
        rest = tuple(np.mean(ways, axis=0))
        return (here, *rest) if asked else rest

    return np.array(after(()))


@pytest.mark.heavy
def test_runs_against_a_twin_and_their_table(graded, judge):
    found = own.replay(*graded, rules=["round_robin", "random"], seeds=SEEDS)
    table = found.table.set_index(["scored_by", "rule", "pool"]).sort_index()
    answers = np.asarray(judge[0][0].tasks.answers[0])
    tops = {"full_data": [1, 0, 0], "quality": [0, 1, 1], "anchors": [0, 1, 0]}
    for scored_by, top in tops.items():
        mine = table.loc[scored_by, "round_robin", "p"]
        assert mine.budget.tolist() == [1, 2, 3, 4]
        error = 4.5 * np.sqrt(0.25 / SEEDS)
        assert_allclose(mine.recall, by_round_robin(answers, top), atol=error)
    for rule in ("round_robin", "random"):
        for pool, most in (("p", 4), ("q", 2), ("r", 2), ("all", 4)):
            end = table.loc["full_data", rule, pool].iloc[-1]
            assert (end.budget, end.recall, end.low, end.high) == (most, 1, 1, 1)
    assert set(found.table.pool[found.table.scored_by == "quality"]) == {"all", "p", "r"}
    # Over all pools it is the mean: where no verdict is left, a pool stays where it is.
    curves = table.loc["full_data", "random"].set_index("budget", append=True).recall
    curves = curves.unstack("pool").ffill()
    assert_allclose(curves["all"], curves[["p", "q", "r"]].mean(axis=1))
    for row in found.needed.itertuples():
        assert row.share == np.minimum(row.budget, [4, 2, 2]).sum() / 8


# --- what is refused


WRONG = [
    ({"rules": ["ucb"]}, "unknown rule 'ucb': did you mean lucb"),
    ({"budgets": [0]}, "budgets must be at least 1"),
    ({"refit_every": 3, "budgets": [2]}, "budget must be at least refit_every = 3, got 2"),
]


def test_wrong_options_are_refused(graded):
    for options, message in WRONG:
        with pytest.raises(ValueError, match=re.escape(message)):
            own.replay(*graded, **options)


def test_what_cannot_be_run(read):
    errors = "pool,first,second,winner\np,a,c,error\n", "pool,item\np,a\np,c\n", ONE_PAIR
    with pytest.raises(ValueError, match="no pool has verdicts on"):
        own.replay(*read(*errors))


def test_merged_pools_are_as_large_as_their_models_are_many(tables, tmp_path, monkeypatch):
    """Of 750 answers of 5 models it said "at most 512"."""
    pairs = "".join(f"p{pool},a,b,first\np{pool},b,a,second\n" for pool in range(4))
    answers = "".join(f"p{pool},a,a\np{pool},b,b\n" for pool in range(4))
    written = tables("pool,first,second,winner\n" + pairs, "pool,item,content\n" + answers)
    merged = own.read(*written, merge_pools=True)
    tables = merged, own.Batch.of(merged)
    monkeypatch.setattr(run, "LARGEST_COUNTS", 2)
    (judge,), *_ = judge_of(tables, "naive")
    assert judge.tasks.answers.shape == (1, 8, 8)
    monkeypatch.setattr(run, "LARGEST_COUNTS", 1)
    with pytest.raises(ValueError, match=r"pool 'all' has 2 con.*; at most 1"):
        judge_of(tables, "naive")
