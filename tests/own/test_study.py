"""A study with a simulated judge is the simulator's run; its journal loses nothing."""

import functools
import json
import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from jbt import own, runtime
from jbt.acquisition import Task, anytime, run
from jbt.acquisition.picks import Queries
from jbt.kernel.fit import fit_map
from jbt.types import Comparisons, Panel, Pool, Prior, Status

N, K, R, BUDGET, PURSE = 8, 2, 4, 24, 8.0
NAMES = [f"m{i}" for i in range(N)]
PRICES = {"cheap": 0.2, "dear": 1.0}
USUAL = {"k": K, "covariates": ["words"], "refit_every": R, "orders": "rule", "level": 1.0}


def items(seed=0, **columns):
    words = default_rng(seed).integers(10, 200, N)
    return pd.DataFrame({"item": NAMES, "words": words, "text": NAMES, **columns})


def opened(folder, table=None, **settings):
    return own.Study.open(folder, items() if table is None else table, **{**USUAL, **settings})


def places(query):
    return NAMES.index(query.first), NAMES.index(query.second)


# --- the simulator's run


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rule", "prices"), [("entropy_reduction_fresh", {}), ("escalation", PRICES)]
)
def test_a_study_is_the_simulators_run(tmp_path, rule, prices):
    """Of one judge or of two with prices: the same pairs, the same fit, the same cost."""
    limit = {"judges": prices, "purse": PURSE} if prices else {"budget": BUDGET}
    study = opened(tmp_path, rule=rule, **limit)
    shape = (N, N, 2) if prices else (N, N)
    table = (default_rng(2).random(shape) < 0.6).astype(float)
    engine, queries = study.engine, []
    with runtime.precision("float64"):
        while batch := study.ask():
            (query,) = batch
            at = (*places(query), *[[*prices].index(query.judge) for _ in shape[2:]])
            study.tell(query.id, p_first=table[at])
            queries.append(query)
        task = engine.tasks[0]
        pool = Pool(jnp.arange(task.design.n_contents, dtype=float), task.design)
        terms = {"price": np.array([*prices.values()]), "purse": PURSE} if prices else {}
        task = Task.build(pool, jnp.asarray(table), prior=task.prior, **terms)
        most = 40 if prices else BUDGET
        trace = jax.device_get(
            jax.jit(lambda key: run(key, task, engine.loop, most))(engine.keys[0])
        )
    assert study.stopped == "budget spent"
    asked = trace.queries.first >= 0
    pairs = zip(trace.queries.first[asked], trace.queries.second[asked], strict=True)
    assert [places(query) for query in queries] == list(pairs)
    for name in ("theta", "c", "kappa"):
        ours, theirs = getattr(study.look().parameters, name), getattr(trace.parameters, name)
        assert_allclose(ours, theirs, atol=1e-6)
    if prices:
        assert [q.judge for q in queries] == [[*prices][g] for g in trace.queries.judge[asked]]
        assert study.cost == pytest.approx(trace.cost[-1])
        assert {q.judge for q in queries} == set(prices)


@pytest.mark.heavy
def test_anchors_and_a_reference_enter_as_in_a_panel(tmp_path):
    anchors, names = pd.DataFrame({"better": ["m0", "m1"], "worse": ["m3", "m2"]}), [*PRICES]
    settings = {"judges": PRICES, "reference": "dear", "rule": "escalation", "purse": 5.0}
    study = opened(tmp_path, anchors=anchors, refit_every=1, orders="both", **settings)
    table = default_rng(4).random((N, N, 2)) < 0.6
    for _ in range(6):
        for query in study.ask(2):
            won = table[(*places(query), names.index(query.judge))]
            study.tell(query.id, "first" if won else "second")
    told, wins = study.book.told[0], study.book.wins[0]
    assert (told.sum((0, 1)) > 0).tolist() == [True, False, True]  # no anchor was asked
    with runtime.precision("float64"):
        task, gold = study.engine.tasks[0], np.zeros((N, N))
        gold[0, 3] = gold[1, 2] = 1
        # The judges of the model: cheap, anchors, dear.
        shown, won = (v + gold[..., None] * [0, 1, 0] for v in (told, wins))
        panel = Panel(Comparisons(jnp.asarray(shown), jnp.asarray(won)), jnp.ones(3), jnp.eye(3))
        variant = jax.tree.map(lambda v: v & np.array([True, False, False]), task.variant)
        expected = fit_map(panel, task.design, Prior(1.0, 0.1), variant).parameters
    look = study.look()
    assert_allclose(look.parameters.theta, expected.theta, atol=1e-6)
    assert_allclose(look.parameters.c, expected.c, atol=1e-6)
    assert look.status == Status.CONVERGED


# --- what is asked


@pytest.mark.heavy
def test_every_pair_once_in_both_orders_or_in_one_drawn_at_random(tmp_path):
    study, asked = opened(tmp_path / "both", orders="both"), []
    while queries := study.ask(3):  # an odd number leaves an order for the next batch
        asked += [(q.first, q.second) for q in queries]
        study.tell_all([{"id": q.id, "winner": "first"} for q in queries])
    assert len(asked) == len(set(asked)) == N * (N - 1)
    assert all(asked[i] == asked[i + 1][::-1] for i in range(0, len(asked), 2))
    assert study.stopped == "nothing left to ask"
    study = opened(tmp_path / "random", orders="random")
    asked = [(q.first, q.second) for q in study.ask(100)]
    assert len(asked) == len({frozenset(pair) for pair in asked}) == 28
    assert 0 < sum(a < b for a, b in asked) < 28
    assert (study.ask(), study.stopped) == ([], None)


def test_what_is_awaited_counts_against_budget_and_purse(tmp_path):
    budget = opened(tmp_path / "budget", budget=3)
    asked = budget.ask(10)
    assert (len(asked), budget.ask(10), budget.stopped) == (3, [], None)
    budget.tell_all([{"id": query.id, "winner": "first"} for query in asked])
    assert (budget.ask(10), budget.stopped) == ([], "budget spent")
    purse = opened(tmp_path / "purse", judges={"one": 0.5}, purse=1.6)
    (first, *rest) = purse.ask(10)
    assert len(rest) == 2
    purse.tell(first.id, error="free of charge")
    assert len(purse.ask(10)) == 1
    for query in rest:
        purse.tell(query.id, "tie", cost=0.1)
    assert len(purse.ask(10)) == 1  # cheaper than its price: 0.2 + 0.5 + 0.5 + ... <= 1.6


def test_leases_errors_and_late_answers(tmp_path, monkeypatch):
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    study = opened(tmp_path, attempts=2)
    (query,), (other,) = study.ask(lease=60.0), study.ask(lease=600.0)
    assert other.id != query.id
    now[0] += 61
    (again,), (third,) = study.ask(), study.ask()
    assert (again.id, places(again)) == (query.id, places(query))
    assert third.id not in (query.id, other.id)
    now[0] += 10_000
    study.tell(query.id, "first")  # late, and taken
    study.tell(other.id, error="timeout", cost=0.5)
    assert (study.n_errors, study.cost, study.n_told) == (1, 1.5, 1)
    # After its second error the pair is not asked again.
    while (query := study.ask()[0]) and places(query) != places(other):
        study.tell(query.id, "tie")
    assert query.attempt == 2
    study.tell(query.id, error="again")
    assert places(other) not in map(places, study.ask(100))


@pytest.mark.heavy
def test_pools_get_verdicts_in_turn_and_the_rest_when_one_is_exhausted(tmp_path):
    study = opened(tmp_path, pd.concat([items(pool="a"), items(1, pool="b")[:6]]))
    asked = [q.pool for q in study.ask(100)]
    assert sorted(asked) == ["a"] * 56 + ["b"] * 30
    assert asked[:60].count("b") == 30


@pytest.mark.heavy
def test_a_rule_of_ones_own_sees_what_was_asked(tmp_path):
    def least_shown(view, key):
        return -(view.shown + view.shown.T) + 0 * view.probability

    study = opened(tmp_path, rule=least_shown, repeats="fresh", budget=100)
    assert len({frozenset(places(q)) for q in study.ask(28)}) == 28
    with pytest.raises(ValueError, match="unknown rule 'least_shown, your own'"):
        own.Study.open(tmp_path)
    assert own.Study.open(tmp_path, rule=least_shown).waiting == 28


def test_a_callback_judge_and_its_exceptions(tmp_path):
    study = opened(tmp_path, attempts=1, orders="both")

    def judge(query):
        if {query.first, query.second} == {"m0", "m1"}:
            raise TimeoutError("no answer")
        return {"winner": query.texts[0], "tokens": 7} if query.first < query.second else 0.25

    study.run(judge, at_once=4)
    table = study.verdicts()
    assert table.error.value_counts().to_dict() == {"TimeoutError: no answer": 2}
    assert table.tokens.value_counts().to_dict() == {7: 27}
    assert table.p_first.value_counts().to_dict() == {1.0: 27, 0.25: 27}


# --- stopping and summaries


def told_by(study, quality):
    rng = default_rng(0)
    while queries := study.ask(4):
        for q in queries:
            i, j = places(q)
            won = rng.random() < 1 / (1 + np.exp(quality[j] - quality[i]))
            study.tell(q.id, "first" if won else "second")
    return study


@pytest.mark.heavy
def test_it_stops_when_sure(tmp_path):
    begun = opened(tmp_path, level=0.9, covariates=[], orders="both")
    study = told_by(begun, np.r_[3.0, 3.0, np.full(N - 2, -3.0)])
    assert study.stopped == "sure"
    assert not study.sure(1.0)
    summary = study.summary()
    assert set(summary.ranking.content[:K]) == {"m0", "m1"}
    assert "stopped: sure" in summary.report("t").text()
    assert summary.curve.certainty.iloc[-1] == pytest.approx(study.look().certainty)
    json.dumps(summary.record(), allow_nan=False)


@pytest.mark.heavy
def test_of_contents_within_the_zone_either_is_right(tmp_path):
    """The second and the third are equal: a study that is indifferent stops earlier."""
    told = {}
    for zone in (0.0, 0.5):
        rest = {"covariates": [], "orders": "both", "repeats": "fresh", "budget": 80}
        begun = opened(tmp_path / f"{zone}", level=0.9, indifferent=zone, **rest)
        told[zone] = told_by(begun, np.r_[4.0, 2.0, 2.0, np.full(N - 3, -3.0)])
    assert told[0.5].stopped == "sure"
    assert told[0.5].n_told < told[0.0].n_told
    assert told[0.0].look().near == pytest.approx(1 - told[0.0].look().certainty)


def test_no_more_to_gain(tmp_path):
    study = told_by(opened(tmp_path, least_gain=0.3), np.zeros(N))
    assert study.stopped == "no more to gain"
    assert 0 < study.n_told < N * (N - 1)


@pytest.mark.heavy
def test_what_is_identified_is_so_by_the_verdicts_of_each_pool(tmp_path):
    """Renderings of one content in two pools, in the second of which they share a covariate. Ranks
    have a range only where both covariates are separated from quality."""
    rendered, number = [f"a{i // 2}" for i in range(N)], np.arange(N)
    pools = [
        items(pool="apart", content=rendered, other=number**2),
        items(pool="shared", content=rendered, other=number // 2),
    ]
    settings = {"covariates": ["words", "other"], "orders": "both", "rule": "round_robin"}
    study = opened(tmp_path, pd.concat(pools), budget=60, **settings)
    summary = told_by(study, number / 2).summary()
    identified = summary.biases.set_index(["pool", "name"]).identified
    assert identified["apart"].to_dict() == {"words": True, "other": True, "kappa": True}
    assert identified["shared"].to_dict() == {"words": True, "other": False, "kappa": True}
    for pool, ranking in summary.ranking.groupby("pool"):
        assert ranking.best.isna().all() == (pool != "apart")


@pytest.mark.heavy
def test_the_tables_of_a_study_serve_every_other_analysis(tmp_path):
    study = told_by(opened(tmp_path, judges=["one"]), np.arange(float(N)))
    tables = study.tables()
    assert (tables.judges, len(tables.verdicts)) == (["one"], N * (N - 1))
    (fit,) = own.fit(own.Batch.of(tables, ["words"]), prior=Prior(1.0, 0.1), intervals=False)
    theta = np.asarray(study.look().parameters.theta)
    assert_allclose(fit.theta - fit.theta.mean(), theta - theta.mean(), atol=1e-6)


# --- wrong settings


ANYTIME = {"stop": "anytime", "repeats": "fresh", "budget": 400, "indifferent": 0.5}
WRONG = [
    ({"kk": 1}, "unknown setting 'kk'"),
    ({"rule": "escalation"}, "chooses among several judges"),
    ({"repeats": "fresh"}, "give a budget or a purse"),
    ({"judges": ["a", "A"], "seed": -1}, "seed must be.*\njudge 'A' is named twice"),
    ({"covariates": ["same"]}, "same is the same for all items"),
    # Of an anytime stop, whatever would break its promise.
    (ANYTIME | {"repeats": "never"}, "needs repeats = fresh"),
    (ANYTIME | {"level": 1.0}, "a level below 1"),
    (ANYTIME | {"covariates": ["words"]}, "no covariates"),
    (ANYTIME | {"content": "base"}, "some share a content"),
]


def test_a_wrong_setting_begins_no_study(tmp_path):
    table = items(same=1, base=["m1", *NAMES[1:]])
    for settings, message in WRONG:
        with pytest.raises(ValueError, match=message):
            own.Study.open(tmp_path / "new", table, **{"k": K, **settings})
    assert not (tmp_path / "new").exists()


# --- a stop whatever the prior


QUALITY = {"good": 3.0, "fair": 0.0, "poor": -1.0}
FOUR = {**QUALITY, "worse": -1.5}


@pytest.mark.heavy
def test_an_anytime_stop_ends_when_tests_of_single_pairs_show_the_top(tmp_path):
    """In pools of two sizes. Answers come in any order, some are errors, some leases end, the
    process is replaced: each pool is shown exactly when tests of all its answers at once, in the
    order in which they were told, show it; and is asked no more."""
    qualities = {"small": QUALITY, "large": FOUR}
    rows = [(pool, item) for pool, of in qualities.items() for item in of]
    table = pd.DataFrame(rows, columns=["pool", "item"])
    study = own.Study.open(tmp_path, table, **ANYTIME)
    rng, told, shown = random.Random(5), {pool: [] for pool in qualities}, dict.fromkeys(qualities)
    for turn in range(100):
        lost = turn % 7 == 3
        if not (queries := study.ask(6, lease=1e-3 if lost else 600.0)):
            break
        assert not any(shown[query.pool] for query in queries)
        for query in () if lost else rng.sample(queries, len(queries)):
            if rng.random() < 0.1:
                study.tell(query.id, winner="error")
                continue
            quality = qualities[query.pool]
            logit = quality[query.first] - quality[query.second] + 0.5
            won = float(rng.random() < 1 / (1 + math.exp(-logit)))
            study.tell(query.id, p_first=won)
            told[query.pool].append((query.first, query.second, won))
        if turn % 10 == 5:
            study = own.Study.open(tmp_path)
        for pool, quality in qualities.items():
            if told[pool] and not shown[pool]:
                shown[pool] = shown_by_tests(sorted(quality), told[pool])
        assert study.sure() == all(shown.values())
    assert study.stopped == "sure"
    assert [*study.summary().pools.shown] == [*shown.values()] == [["good"], ["good"]]


def shown_by_tests(names, told):
    """The top 1 that all of these answers together show; empty without one."""
    rows = [(names.index(first), names.index(second), won) for first, second, won in told]
    padded = rows + [(-1, -1, 0.0)] * (400 - len(rows))  # -1: no query
    top, shown = top_of(*map(jnp.asarray, zip(*padded, strict=True)), n=len(names))
    return [names[place] for place in np.flatnonzero(top)] if shown else []


@functools.partial(jax.jit, static_argnames="n")
def top_of(first, second, won, n):
    none = anytime.Evidence.none(n, won.dtype)
    verdicts = Queries(first, second, won)
    return anytime.shown_top_set(anytime.add_verdicts(none, verdicts, zone=0.5, alpha=0.05), 1)


def test_errors_in_a_row_close_a_pair_that_may_be_asked_again(tmp_path):
    """A judge that fails twice before each answer is asked on; one that fails thrice is not."""
    study = own.Study.open(tmp_path, pd.DataFrame({"item": [*FOUR]}), **ANYTIME)
    while study.n_told < 20:  # of 12 ordered pairs
        (query,) = study.ask()
        study.tell(query.id, winner="error" if query.attempt < 3 else "tie")
    (query,) = study.ask()
    with pytest.raises(ValueError, match=r"a p_first of 0, 0\.5 or 1, got 0\.7"):
        study.tell(query.id, p_first=0.7)
    study.tell(query.id, winner="error")
    while queries := study.ask():  # every pair is closed in the end
        study.tell(queries[0].id, winner="error")
    assert study.book.errors.max() == 3
    assert study.stopped == "nothing left to ask"
