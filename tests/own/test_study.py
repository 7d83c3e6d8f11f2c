"""A study with a simulated judge is the simulator's run; its journal loses nothing."""

import errno
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from jbt import own, runtime
from jbt.acquisition import Task, run
from jbt.acquisition.picks import pick_keys
from jbt.kernel.fit import fit_map
from jbt.own.studies import journal
from jbt.simulation import judges
from jbt.types import Comparisons, Panel, Pool, Prior, Status

N, K, R, BUDGET = 8, 2, 4, 24
CHEAP_PRICE = 0.2


def items(n=N, seed=0, **columns):
    words = np.random.default_rng(seed).integers(10, 200, n)
    names = [f"m{i}" for i in range(n)]
    return pd.DataFrame({"item": names, "words": words, "text": names, **columns})


def opened(folder, n=N, **settings):
    usual = {"k": K, "covariates": ["words"], "refit_every": R, "orders": "rule", "level": 1.0}
    return own.Study.open(folder, items(n), **{**usual, **settings})


def answers(rng, *shape):
    """Frozen answers of judges, 1 or 0."""
    return (rng.random((N, N, *shape)) < 0.6).astype(float)


def numbers(study, query):
    names = study.items.layout.names[0]
    return names.index(query.first), names.index(query.second)


def simulated(study, table, budget=BUDGET, **terms):
    """The simulator's run on the study's own pool."""
    with runtime.precision("float64"):
        engine = study.engine
        task = engine.tasks[0]
        pool = Pool(jnp.arange(engine.n_contents, dtype=float), task.design)
        task = Task.build(pool, jnp.asarray(table), prior=task.prior, **terms)
        program = jax.jit(lambda key: run(key, task, engine.loop, budget))
        return jax.device_get(program(engine.keys[0]))


def assert_same(study, queries, trace):
    pairs = zip(trace.queries.first.tolist(), trace.queries.second.tolist(), strict=True)
    assert [numbers(study, q) for q in queries] == [pair for pair in pairs if pair[0] >= 0]
    parameters = study.look().parameters
    for name in ("theta", "c", "kappa"):
        ours, theirs = getattr(parameters, name), getattr(trace.parameters, name)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    "rule", ["entropy_reduction_fresh", pytest.param("top_k_aware", marks=pytest.mark.heavy)]
)
def test_a_study_of_a_frozen_judge_is_the_simulators_run(tmp_path, rule):
    study, table = opened(tmp_path, rule=rule, budget=BUDGET), answers(np.random.default_rng(1))
    queries = []
    while batch := study.ask():
        (query,) = batch
        queries.append(query)
        i, j = numbers(study, query)
        study.tell(query.id, "first" if table[i, j] else "second")
    assert study.stopped == "budget spent"
    assert_same(study, queries, simulated(study, table))


def drawn_afresh(study, chances):
    """The simulator's draws of these probabilities: (time, first, second[, judge]) -> 1 or 0."""

    @jax.jit
    def draw(time, *at):
        key = pick_keys(study.engine.keys[0], time)[1]
        return judges.fresh_verdict(key, jnp.asarray(chances), *at)

    return lambda *at: float(draw(*at))


def test_a_study_of_a_stochastic_judge_is_the_simulators_run(tmp_path):
    study = opened(tmp_path, repeats="fresh", budget=BUDGET)
    chances = np.random.default_rng(2).uniform(0.1, 0.9, (N, N))
    queries = []
    with runtime.precision("float64"):
        draw = drawn_afresh(study, chances)
        while batch := study.ask():
            (query,) = batch
            won = draw(len(queries), *numbers(study, query))
            queries.append(query)
            study.tell(query.id, p_first=won)
    assert_same(study, queries, simulated(study, chances))


@pytest.mark.heavy
@pytest.mark.parametrize("repeats", ["never", "fresh"])
def test_a_study_of_two_judges_with_prices_is_the_simulators_run(tmp_path, repeats):
    prices = {"cheap": CHEAP_PRICE, "dear": 1.0}
    purse = 8.0
    study = opened(tmp_path, judges=prices, purse=purse, rule="escalation", repeats=repeats)
    rng = np.random.default_rng(3)
    table = answers(rng, 2) if repeats == "never" else rng.uniform(0.1, 0.9, (N, N, 2))
    queries = []
    with runtime.precision("float64"):
        draw = drawn_afresh(study, table)
        while batch := study.ask():
            (query,) = batch
            at = (*numbers(study, query), list(prices).index(query.judge))
            won = table[at] if repeats == "never" else draw(len(queries), *at)
            study.tell(query.id, p_first=won)
            queries.append(query)
    assert study.stopped == "budget spent"
    terms = {"price": np.array(list(prices.values())), "purse": purse}
    trace = simulated(study, table, 40, **terms)
    asked = trace.queries.first >= 0
    assert [q.judge for q in queries] == [list(prices)[g] for g in trace.queries.judge[asked]]
    assert_same(study, queries, trace)
    assert study.cost == pytest.approx(trace.cost[-1])
    assert {q.judge for q in queries} == set(prices)


@pytest.mark.heavy
def test_anchors_and_a_reference_enter_as_in_a_panel(tmp_path):
    anchors = pd.DataFrame({"better": ["m0", "m1"], "worse": ["m3", "m2"]})
    names = {"cheap": 0.1, "human": 1.0}
    study = own.Study.open(
        tmp_path,
        items(),
        anchors=anchors,
        k=K,
        covariates=["words"],
        judges=names,
        reference="human",
        rule="escalation",
        budget=12,
        purse=5.0,
        level=1.0,
    )
    table = answers(np.random.default_rng(4), 2)
    for _ in range(6):
        for query in study.ask(2):
            at = (*numbers(study, query), list(names).index(query.judge))
            study.tell(query.id, "first" if table[at] else "second")
    told, wins = study.book.told[0], study.book.wins[0]
    assert (told.sum((0, 1)) > 0).tolist() == [True, False, True]  # no anchor was asked
    with runtime.precision("float64"):
        task = study.engine.tasks[0]
        gold = np.zeros((N, N))
        gold[0, 3] = gold[1, 2] = 1
        # The judges of the model: cheap, anchors, human.
        shown, won = (v + gold[..., None] * [0, 1, 0] for v in (told, wins))
        counts = Comparisons(jnp.asarray(shown), jnp.asarray(won))
        panel = Panel(counts, jnp.ones(3), jnp.eye(3))
        free = np.array([True, False, False])
        variant = jax.tree.map(lambda v: v & free, task.variant)
        expected = fit_map(panel, task.design, Prior(1.0, 0.1), variant).parameters
        ours = study.look().parameters
    np.testing.assert_allclose(ours.theta, expected.theta, atol=1e-6)
    np.testing.assert_allclose(ours.c, expected.c, atol=1e-6)
    assert np.asarray(ours.c)[0, 1:].tolist() == [0, 0]
    assert study.summary().biases.judge.tolist() == ["cheap", "cheap"]
    assert study.look().status == Status.CONVERGED


# --- what is asked


def test_both_orders_of_every_pair_and_no_pair_twice(tmp_path):
    study = opened(tmp_path, 5, orders="both", refit_every=1)
    asked = []
    while queries := study.ask(3):  # an odd number leaves an order for the next batch
        asked += [(q.first, q.second) for q in queries]
        study.tell_all([{"id": q.id, "winner": "first"} for q in queries])
    assert len(asked) == len(set(asked)) == 20
    assert all(asked[i] == asked[i + 1][::-1] for i in range(0, 20, 2))
    assert study.stopped == "nothing left to ask"


def test_one_order_at_random_of_every_pair(tmp_path):
    study = opened(tmp_path, 6, orders="random")
    asked = [(q.first, q.second) for q in study.ask(100)]
    assert len(asked) == len({frozenset(pair) for pair in asked}) == 15
    ascending = sum(a < b for a, b in asked)
    assert 0 < ascending < 15
    assert study.ask() == []
    assert study.stopped is None
    assert study.waiting == 15


def test_a_batch_is_not_one_pair_many_times(tmp_path):
    study = opened(tmp_path, repeats="fresh", budget=100, rule="top_k_aware")
    asked = [(q.first, q.second) for q in study.ask(16)]
    assert len(set(asked)) == 16


def test_what_is_awaited_counts_against_budget_and_purse(tmp_path):
    budget = opened(tmp_path / "budget", budget=3)
    asked = budget.ask(10)
    assert len(asked) == 3
    assert (budget.ask(10), budget.stopped, budget.waiting) == ([], None, 3)
    budget.tell_all([{"id": query.id, "winner": "first"} for query in asked])
    before = (tmp_path / "budget" / "journal.jsonl").read_bytes()
    assert (budget.ask(10), budget.stopped, budget.waiting) == ([], "budget spent", 0)
    assert (tmp_path / "budget" / "journal.jsonl").read_bytes() == before
    purse = opened(tmp_path / "purse", judges={"one": 0.5}, purse=1.6)
    (first, *rest) = purse.ask(10)
    assert len(rest) == 2
    purse.tell(first.id, error="free of charge")
    assert len(purse.ask(10)) == 1
    for query in purse.ask(10, lease=1e-3) or rest:
        purse.tell(query.id, "tie", cost=0.1)
    assert len(purse.ask(10)) == 1  # cheaper than its price: 0.2 + 0.5 + 0.5 + ... <= 1.6


def test_leases_errors_and_late_answers(tmp_path, monkeypatch):
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    study = opened(tmp_path, attempts=2)
    (query,) = study.ask(lease=60.0)
    (other,) = study.ask(lease=600.0)
    assert other.id != query.id
    now[0] += 61
    (again,) = study.ask()
    assert (again.id, again.first, again.second) == (query.id, query.first, query.second)
    (third,) = study.ask()
    assert third.id not in (query.id, other.id)
    now[0] += 10_000
    study.tell(query.id, "first")  # late, and taken
    assert study.n_told == 1
    study.tell(other.id, error="timeout", cost=0.5)
    assert (study.n_errors, study.cost, study.n_told) == (1, 1.5, 1)
    pair = (other.first, other.second)
    closed = study.book.closed(0)[numbers(study, other)]
    assert not closed.any()
    # After its second error the pair is not asked again.
    while (query := study.ask()[0]) and (query.first, query.second) != pair:
        study.tell(query.id, "tie")
    assert query.attempt == 2
    study.tell(query.id, error="again")
    rest = study.ask(100)
    assert pair not in [(q.first, q.second) for q in rest]


@pytest.mark.heavy
def test_pools_get_verdicts_in_turn_and_the_rest_when_one_is_exhausted(tmp_path):
    table = pd.concat([items(4).assign(pool="a"), items(3, seed=1).assign(pool="b")])
    study = own.Study.open(tmp_path, table, k=1, orders="rule", level=1.0)
    asked = [q.pool for q in study.ask(100)]
    assert sorted(asked) == ["a"] * 12 + ["b"] * 6
    assert asked[:12].count("b") == 6
    assert all(q.first != q.second for q in map(study.book.queries.get, study.book.waiting))


def test_a_rule_of_ones_own_sees_what_was_asked(tmp_path):
    def least_shown(view, key):
        return -(view.shown + view.shown.T) + 0 * view.probability

    study = opened(tmp_path, rule=least_shown)
    pairs = [frozenset((q.first, q.second)) for q in study.ask(28)]
    assert len(set(pairs)) == 28
    with pytest.raises(ValueError, match="unknown rule 'least_shown, your own'"):
        own.Study.open(tmp_path)
    assert own.Study.open(tmp_path, rule=least_shown).waiting == 28


def test_a_callback_judge_and_its_exceptions(tmp_path):
    study = opened(tmp_path, 4, attempts=1, orders="both")

    def judge(query):
        if {query.first, query.second} == {"m0", "m1"}:
            raise TimeoutError("no answer")
        return {"winner": query.texts[0], "tokens": 7} if query.first < query.second else 0.25

    study.run(judge, at_once=4)
    assert (study.n_told, study.n_errors) == (10, 2)
    table = study.verdicts()
    assert set(table.error.dropna()) == {"TimeoutError: no answer"}
    assert set(table.tokens.dropna()) == {7}
    assert table.p_first.value_counts().to_dict() == {1.0: 5, 0.25: 5}


# --- stopping and summaries


def told_by(study, quality, limit=10**6):
    rng = np.random.default_rng(0)
    names = study.items.layout.names[0]
    while study.n_told < limit and (queries := study.ask(4)):
        for q in queries:
            gap = quality[names.index(q.first)] - quality[names.index(q.second)]
            study.tell(q.id, "first" if rng.random() < 1 / (1 + np.exp(-gap)) else "second")


def test_it_stops_when_sure_and_says_so(tmp_path):
    study = opened(tmp_path, level=0.9, covariates=[], orders="both", refit_every=1)
    told_by(study, np.r_[3.0, 3.0, np.full(N - 2, -3.0)])
    assert study.stopped == "sure"
    assert study.sure()
    assert not study.sure(1.0)
    assert study.n_told < N * (N - 1)
    summary = study.summary()
    assert set(summary.ranking.content[:K]) == {"m0", "m1"}
    first, second = summary.report("t").answer
    assert first.startswith("top 2: m")
    assert "stopped: sure" in second
    (last,) = summary.curve.tail(1).certainty
    assert last == pytest.approx(study.look().certainty)
    ranks = summary.ranking
    assert (ranks.best <= ranks["rank"]).all()
    assert (ranks["rank"] <= ranks.worst).all()
    json.dumps(summary.record(), allow_nan=False)
    assert len(summary.figure().axes) == 2


def test_no_more_to_gain(tmp_path):
    study = opened(tmp_path, least_gain=0.9, covariates=[], rule="random")
    told_by(study, np.zeros(N))
    assert study.stopped == "no more to gain"
    assert study.n_told < N * (N - 1)


def test_a_range_of_ranks_only_where_the_covariate_is_separated_from_quality(tmp_path):
    unpaired = opened(tmp_path / "a", budget=20)
    told_by(unpaired, np.arange(N) / 2)
    assert unpaired.summary().ranking.best.isna().all()
    text = unpaired.summary().report("t").text()
    assert "is a default, not a measurement" in text
    content = [f"a{i // 2}" for i in range(N)]
    paired = own.Study.open(
        tmp_path / "b", items(content=content), k=1, covariates=["words"], level=1.0
    )
    told_by(paired, np.arange(N) / 2)
    summary = paired.summary()
    assert summary.biases.identified.tolist() == [True, True]
    assert all(1 <= r.best <= r.worst <= N // 2 for r in summary.ranking.itertuples())
    assert "default" not in paired.summary().report("t").text()


def test_the_tables_of_a_study_serve_every_other_analysis(tmp_path):
    study = opened(tmp_path, 5, judges=["one"], orders="both")
    told_by(study, np.arange(5.0))
    tables = study.tables()
    assert tables.judges == ["one"]
    assert len(tables.verdicts) == 20
    batch = own.Batch.of(tables, ["words"])
    (fit,) = own.fit(batch, prior=Prior(1.0, 0.1), intervals=False)
    theta = np.asarray(study.look().parameters.theta)
    np.testing.assert_allclose(fit.theta - fit.theta.mean(), theta - theta.mean(), atol=1e-6)


# --- the journal


def told_study(folder, n_told=3):
    study = opened(folder)
    for query in study.ask(n_told):
        study.tell(query.id, "first")
    study.ask(1)
    return study


def test_a_reopened_study_is_the_same(tmp_path):
    study = told_study(tmp_path)
    again = own.Study.open(tmp_path)
    assert again.verdicts().equals(study.verdicts())
    assert again.waiting == 1
    ours, theirs = (s.ask(3) for s in (study, again))
    assert not {q.id for q in ours} & {q.id for q in theirs}
    with runtime.precision("float64"):
        assert own.Study.open(tmp_path).look().certainty == pytest.approx(study.look().certainty)


def test_two_processes_see_each_others_records(tmp_path):
    one = opened(tmp_path)
    other = own.Study.open(tmp_path)
    (query,) = one.ask()
    other.tell(query.id, "first")
    with pytest.raises(ValueError, match="told before"):
        one.tell(query.id, "first")
    assert one.n_told == other.n_told == 1


def test_a_kill_at_any_byte_of_the_last_write_loses_nothing_told(tmp_path):
    study = told_study(tmp_path)
    path = tmp_path / "journal.jsonl"
    before = path.read_bytes()
    (query,) = study.ask()
    study.tell(query.id, "second", cost=0.25, model="toy 1.0")
    whole = path.read_bytes()
    torn = whole[: whole.rstrip(b"\n").rfind(b"\n") + 1]
    assert torn.startswith(before)
    # Every byte would do; each takes a while.
    for end in range(len(torn), len(whole), 5):
        path.write_bytes(whole[:end])
        again = own.Study.open(tmp_path)
        assert again.n_told == 3
        assert again.waiting == 2
        assert bool(again.notes) == (end > len(torn))
        again.tell(query.id, "second", cost=0.25)
        lines = path.read_text().splitlines()
        assert all(json.loads(line) for line in lines)
        assert own.Study.open(tmp_path).n_told == 4
    assert (tmp_path / "journal.damaged").read_bytes().count(b"\n") == len(
        range(len(torn), len(whole), 5)
    ) - 1


def test_a_line_cut_off_is_named_and_an_edited_one_refused(tmp_path):
    told_study(tmp_path)
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-1], "{broken\n"]))
    with pytest.raises(ValueError, match=f"line {len(lines)} is no record: '{{broken'"):
        own.Study.open(tmp_path)
    path.write_text("".join([*lines[:-1], "{broken"]))
    study = own.Study.open(tmp_path)
    assert "is left out: '{broken'" in study.notes[0]
    assert study.waiting == 0
    path.write_text("".join([*lines[:-2], "{broken\n", lines[-1]]))
    with pytest.raises(ValueError, match=f"line {len(lines) - 1} is no record: '{{broken'"):
        own.Study.open(tmp_path)
    path.write_text("".join([*lines, lines[-2]]))  # an answer again
    with pytest.raises(ValueError, match=f"journal.jsonl, line {len(lines) + 1}"):
        own.Study.open(tmp_path)


def full_disk(monkeypatch, written=7):
    """Writes fail after so many bytes."""
    write = os.write
    left = [written]

    def fail(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = write(descriptor, data[: left[0]])
        left[0] -= n
        return n

    monkeypatch.setattr(journal.os, "write", fail)


def test_a_full_disk_leaves_what_was_told(tmp_path, monkeypatch):
    study = told_study(tmp_path)
    (query,) = study.ask()
    before = (tmp_path / "journal.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        full_disk(patch)
        with pytest.raises(ValueError, match="No space left on device; it is as it was"):
            study.tell(query.id, "first")
    assert (tmp_path / "journal.jsonl").read_bytes() == before
    assert study.n_told == 3
    study.tell(query.id, "first")
    assert own.Study.open(tmp_path).n_told == 4


def test_a_read_only_folder(tmp_path, monkeypatch):
    study = told_study(tmp_path)
    (query,) = study.ask()

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(journal.os, "open", refuse)
    with pytest.raises(ValueError, match="Permission denied"):
        study.tell(query.id, "first")
    looked_at = own.Study.open(tmp_path)  # reading needs no lock
    assert looked_at.n_told == 3
    assert looked_at.summary().n_verdicts == 3


def test_other_settings_and_tables_are_refused(tmp_path):
    opened(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="other settings: k was 2, is 3; orders was 'rule'"):
        own.Study.open(tmp_path, k=3, orders="both")
    with pytest.raises(ValueError, match="refit_every was 4, is 1"):
        own.Study.open(tmp_path, items(), k=K, covariates=["words"], orders="rule", level=1.0)
    usual = {"k": K, "covariates": ["words"], "refit_every": R, "orders": "rule", "level": 1.0}
    with pytest.raises(ValueError, match="item 'm7' of pool 'all' vanished"):
        own.Study.open(tmp_path, items().iloc[:-1], **usual)
    with pytest.raises(ValueError, match="a cell has changed"):
        own.Study.open(tmp_path, items(seed=5), **usual)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    table = tmp_path / "items.csv"
    table.write_text(table.read_text().replace("m7", "m8"))
    with pytest.raises(ValueError, match="not the table that the study began with"):
        own.Study.open(tmp_path)


WRONG = {
    "unknown id": ({"id": 99, "winner": "first"}, "unknown id 99: no such query was asked"),
    "no number": ({"id": "x", "winner": "first"}, "unknown id 'x'"),
    "no answer": ({}, "give one of winner, p_first and error"),
    "two answers": ({"winner": "first", "p_first": 1}, "give one of"),
    "no such item": ({"winner": "m99"}, "winner is 'm99', allowed: first, second, tie"),
    "above 1": ({"p_first": 1.5}, "p_first must lie in 0 to 1, got 1.5"),
    "nan": ({"p_first": float("nan")}, "p_first must lie in 0 to 1"),
    "cost": ({"winner": "tie", "cost": -1}, "cost must be at least 0"),
    "reserved": ({"winner": "tie", "time": 3}, "time is the study's own"),
    "no json": ({"winner": "tie", "tokens": [1]}, "tokens must be text or a number"),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    study = opened(tmp_path_factory.mktemp("study"))
    return study, study.ask()[0]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_changes_nothing(asked, name):
    (study, query), (answer, message) = asked, WRONG[name]
    before = study._journal.path.read_bytes()
    with pytest.raises(ValueError, match=message):
        study.tell_all([{"id": query.id, **answer}])
    assert study._journal.path.read_bytes() == before
    assert study.n_told == 0


def test_one_wrong_answer_of_many_and_one_told_twice(asked):
    study, query = asked
    with pytest.raises(ValueError, match=r"told twice\nunknown id 7"):
        study.tell_all([{"id": i, "winner": "first"} for i in (query.id, query.id, 7)])
    assert study.n_told == 0


SETTINGS = {
    "k": ({"k": N}, rf"k must lie in 1..{N - 1}"),
    "unknown": ({"kk": 1}, "unknown setting 'kk'"),
    "rule": ({"rule": "best"}, "unknown rule 'best'"),
    "panel rule": ({"rule": "escalation"}, "chooses among several judges"),
    "budget": ({"budget": 0}, "budget must be"),
    "level": ({"level": 1.5}, "level must be above 0"),
    "gain": ({"least_gain": 1.0}, "least_gain must be"),
    "endless": ({"repeats": "fresh"}, "give a budget or a purse"),
    "judges": ({"judges": ["a", "A"]}, "named twice"),
    "letters": ({"judges": "abc"}, "judges must be a list"),
    "price": ({"price": [1.0, 2.0]}, "price needs a number for each of 1 judges"),
    "reference": ({"judges": ["a", "b"], "reference": "c"}, "no judge 'c'"),
    "covariate": ({"covariates": ["length"]}, "no column 'length'"),
    "constant": ({"covariates": ["same"]}, "same is the same for all items"),
    "seed": ({"seed": -1}, "seed must be"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_begins_no_study(tmp_path, name):
    settings, message = SETTINGS[name]
    with pytest.raises(ValueError, match=message):
        own.Study.open(tmp_path / "new", items(same=1), **{"k": K, **settings})
    assert not (tmp_path / "new").exists()


def test_no_study_and_no_items(tmp_path):
    with pytest.raises(ValueError, match=r"holds no study: jbt ask .* --items FILE"):
        own.Study.open(tmp_path / "new")
    with pytest.raises(ValueError, match="no column 'item'"):
        own.Study.open(tmp_path / "new", pd.DataFrame({"name": ["a", "b"]}))
    (tmp_path / "journal.jsonl").write_text("")
    with pytest.raises(ValueError, match="does not begin with the settings"):
        own.Study.open(tmp_path, items())


def test_ask_out_of_range(asked):
    study, _ = asked
    for arguments in ({"n": 0}, {"lease": 0.0}, {"lease": float("inf")}):
        with pytest.raises(ValueError, match="must be"):
            study.ask(**arguments)
    with pytest.raises(ValueError, match="level must be"):
        study.sure(0.0)
