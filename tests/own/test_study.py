"""A study with a simulated judge is the simulator's run; its journal loses nothing."""

import errno
import json
import math
import os
import random

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from support.marks import heavy, nightly

from jbt import own, runtime
from jbt.acquisition import Task, anytime, run
from jbt.acquisition.picks import Queries, pick_keys
from jbt.kernel.fit import fit_map
from jbt.own.studies import journal
from jbt.simulation import judges
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


def lines(folder):
    return (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)


# --- the simulator's run


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rule", "repeats", "prices"),
    [
        ("entropy_reduction_fresh", "never", {}),
        heavy("entropy_reduction_fresh", "fresh", {}),
        heavy("escalation", "never", PRICES),
        nightly("top_k_aware", "never", {}),
        nightly("escalation", "fresh", PRICES),
    ],
)
def test_a_study_is_the_simulators_run(tmp_path, rule, repeats, prices):
    """Of a frozen or a stochastic judge, of one or of two with prices: the same pairs, the same
    fit, the same cost."""
    limit = {"judges": prices, "purse": PURSE} if prices else {"budget": BUDGET}
    study = opened(tmp_path, rule=rule, repeats=repeats, **limit)
    shape = (N, N, 2) if prices else (N, N)
    chances = default_rng(2).uniform(0.1, 0.9, shape)
    table = chances if repeats == "fresh" else (chances < 0.6).astype(float)
    engine, queries = study.engine, []

    @jax.jit
    def drawn(time, *at):
        return judges.fresh_verdict(pick_keys(engine.keys[0], time)[1], jnp.asarray(table), *at)

    with runtime.precision("float64"):
        while batch := study.ask():
            (query,) = batch
            at = (*places(query), *[[*prices].index(query.judge) for _ in shape[2:]])
            share = float(drawn(len(queries), *at)) if repeats == "fresh" else table[at]
            study.tell(query.id, p_first=share)
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
    assert np.asarray(look.parameters.c)[0, 1:].tolist() == [0, 0]
    assert study.summary().biases.judge.tolist() == ["cheap", "cheap"]
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
    assert len(asked) == len({frozenset(pair) for pair in asked}) == study.waiting == 28
    assert 0 < sum(a < b for a, b in asked) < 28
    assert (study.ask(), study.stopped) == ([], None)


def test_what_is_awaited_counts_against_budget_and_purse(tmp_path):
    budget = opened(tmp_path / "budget", budget=3)
    asked = budget.ask(10)
    assert len({(q.first, q.second) for q in asked}) == 3
    assert (budget.ask(10), budget.stopped, budget.waiting) == ([], None, 3)
    budget.tell_all([{"id": query.id, "winner": "first"} for query in asked])
    before = lines(tmp_path / "budget")
    assert (budget.ask(10), budget.stopped, budget.waiting) == ([], "budget spent", 0)
    assert lines(tmp_path / "budget") == before
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
    table = pd.concat([items()[:4].assign(pool="a"), items(1)[:3].assign(pool="b")])
    study = own.Study.open(tmp_path, table, k=1, orders="rule", level=1.0)
    asked = [q.pool for q in study.ask(100)]
    assert sorted(asked) == ["a"] * 12 + ["b"] * 6
    assert asked[:12].count("b") == 6


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
    assert (study.n_told, study.n_errors) == (54, 2)
    table = study.verdicts()
    assert set(table.error.dropna()) == {"TimeoutError: no answer"}
    assert set(table.tokens.dropna()) == {7}
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
def test_it_stops_when_sure_and_says_so(tmp_path):
    begun = opened(tmp_path, level=0.9, covariates=[], orders="both", refit_every=1)
    study = told_by(begun, np.r_[3.0, 3.0, np.full(N - 2, -3.0)])
    assert study.stopped == "sure"
    assert study.sure()
    assert not study.sure(1.0)
    assert study.n_told < N * (N - 1)
    summary = study.summary()
    assert set(summary.ranking.content[:K]) == {"m0", "m1"}
    first, second = summary.report("t").answer
    assert first.startswith("top 2: m")
    assert "stopped: sure" in second
    assert summary.curve.certainty.iloc[-1] == pytest.approx(study.look().certainty)
    ranks = summary.ranking[["best", "rank", "worst"]].to_numpy()
    assert (np.diff(ranks) >= 0).all()
    json.dumps(summary.record(), allow_nan=False)
    assert len(summary.figure().axes) == 2


@pytest.mark.heavy
def test_of_contents_within_the_zone_either_is_right(tmp_path):
    """The second and the third are equal: a study that is indifferent stops earlier."""
    told = {}
    for zone in (0.0, 0.5):
        rest = {"k": 2, "covariates": [], "orders": "both", "indifferent": zone}
        begun = opened(tmp_path / f"{zone}", level=0.9, repeats="fresh", budget=80, **rest)
        told[zone] = told_by(begun, np.r_[4.0, 2.0, 2.0, np.full(N - 3, -3.0)])
    assert told[0.5].stopped == "sure"
    assert told[0.5].n_told < told[0.0].n_told
    near = told[0.5].look().near
    assert told[0.0].look().near == pytest.approx(1 - told[0.0].look().certainty)
    assert 1 - told[0.5].look().certainty < near < 1
    says = [study.summary().report("t").answer[0] for study in told.values()]
    assert "up to" not in says[0]
    assert f"% up to 0.5 logits, P(gap < 0.5) = {100 * near:.3g} %, on average over" in says[1]
    assert all("(qualities of sd 1, biases of sd 3.16 logits)" in text for text in says)


def test_no_more_to_gain(tmp_path):
    study = told_by(opened(tmp_path, least_gain=0.9), np.zeros(N))
    assert study.stopped == "no more to gain"
    assert study.n_told < N * (N - 1)


@pytest.mark.heavy
def test_a_range_of_ranks_only_where_the_covariate_is_separated_from_quality(tmp_path):
    unpaired = told_by(opened(tmp_path / "a", budget=20), np.arange(N) / 2).summary()
    assert unpaired.ranking.best.isna().all()
    assert "is a default, not a measurement" in unpaired.report("t").text()
    table = items(content=[f"a{i // 2}" for i in range(N)])
    study = told_by(opened(tmp_path / "b", table, k=1, orders="both"), np.arange(N) / 2)
    summary = study.summary()
    assert summary.biases.identified.tolist() == [True, True]
    assert all(1 <= r.best <= r.worst <= N // 2 for r in summary.ranking.itertuples())
    assert "default" not in summary.report("t").text()


@pytest.mark.heavy
def test_what_is_identified_is_so_by_the_verdicts_of_each_pool(tmp_path):
    """Renderings of one content in one pool only, two covariates of which they share one."""
    content, same = [f"a{i // 2}" for i in range(N)], [i // 2 for i in range(N)]
    paired = items(content=content, same=same, pool="paired")
    table = pd.concat([paired, items(content=NAMES, same=range(N), pool="single")])
    settings = {"covariates": ["words", "same"], "judges": ["one", "two"], "orders": "both"}
    study = opened(tmp_path, table, k=1, budget=60, rule="round_robin", **settings)
    summary = told_by(study, np.arange(N) / 2).summary()
    frame = summary.biases.set_index(["pool", "judge", "name"]).identified
    assert frame["paired", "one"].to_dict() == {"words": True, "same": False, "kappa": True}
    assert frame["single", "one"].to_dict() == {"words": False, "same": False, "kappa": True}


@pytest.mark.heavy
def test_the_tables_of_a_study_serve_every_other_analysis(tmp_path):
    study = told_by(opened(tmp_path, judges=["one"]), np.arange(float(N)))
    tables = study.tables()
    assert (tables.judges, len(tables.verdicts)) == (["one"], N * (N - 1))
    (fit,) = own.fit(own.Batch.of(tables, ["words"]), prior=Prior(1.0, 0.1), intervals=False)
    theta = np.asarray(study.look().parameters.theta)
    assert_allclose(fit.theta - fit.theta.mean(), theta - theta.mean(), atol=1e-6)


# --- the journal


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A study of four queries, three of them answered."""
    study = opened(tmp_path_factory.mktemp("begun"))
    for query in study.ask(3):
        study.tell(query.id, "first")
    study.ask(1)
    return study.folder


@pytest.fixture
def folder(begun, tmp_path):
    """A copy of its folder."""
    for file in begun.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_studies_of_one_folder_are_the_same(folder):
    study, other = own.Study.open(folder), own.Study.open(folder)
    assert other.verdicts().equals(study.verdicts())
    ours, theirs = study.ask(3), other.ask(3)
    assert not {q.id for q in ours} & {q.id for q in theirs}
    other.tell(ours[0].id, "first")
    with pytest.raises(ValueError, match="told before"):
        study.tell(ours[0].id, "first")
    assert (study.n_told, study.waiting) == (other.n_told, other.waiting) == (4, 6)
    assert own.Study.open(folder).look().certainty == pytest.approx(study.look().certainty)


@pytest.mark.heavy
def test_a_kill_at_any_byte_of_the_last_write_loses_nothing_told(folder):
    study, path = own.Study.open(folder), folder / "journal.jsonl"
    study.tell(4, "second", cost=0.25, model="toy 1.0")
    whole, (*kept, _) = path.read_bytes(), lines(folder)
    first, last = len(b"".join(kept)), len(whole) - 1
    # Every byte would do; each takes a while.
    ends = [first, *sorted(random.Random(0).sample(range(first + 1, last), 4)), last]
    for end in ends:
        path.write_bytes(whole[:end])
        again = own.Study.open(folder)
        assert (again.n_told, again.waiting) == (3, 1)
        assert bool(again.notes) == (end > ends[0])
        again.tell(4, "second", cost=0.25)
        assert all(map(json.loads, lines(folder)))
        assert own.Study.open(folder).n_told == 4
    assert (folder / "journal.damaged").read_bytes().count(b"\n") == len(ends) - 1


def test_a_full_disk_leaves_what_was_told(folder, monkeypatch):
    study, before, write, left = own.Study.open(folder), lines(folder), os.write, [7]

    def seven_bytes(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = write(descriptor, data[: left[0]])
        left[0] -= n
        return n

    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "write", seven_bytes)
        with pytest.raises(ValueError, match="No space left on device; it is as it was"):
            study.tell(4, "first")
    assert lines(folder) == before
    study.tell(4, "first")
    assert own.Study.open(folder).n_told == 4


def test_a_read_only_folder(folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(journal.os, "open", refuse)
    with pytest.raises(ValueError, match="Permission denied"):
        own.Study.open(folder).tell(4, "first")
    assert own.Study.open(folder).summary().n_verdicts == 3  # reading needs no lock


@pytest.mark.heavy
def test_other_settings_and_tables_are_refused(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for table, settings, message in (
        (None, {"k": 3, "orders": "both"}, "other settings: k was 2, is 3; orders was 'rule'"),
        (items(), {**USUAL, "refit_every": 1}, "refit_every was 4, is 1"),
        (items()[:-1], USUAL, r"other items: \('m7', .* has changed"),
        (items(5), USUAL, r"other items: \('m0', .* has changed"),
    ):
        with pytest.raises(ValueError, match=message):
            own.Study.open(folder, table, **settings)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "items.csv").write_bytes(before["items.csv"].replace(b"m7", b"m8"))
    with pytest.raises(ValueError, match="not the table that the study began with"):
        own.Study.open(folder)


# --- wrong input


WRONG = [
    ({"id": 99, "winner": "first"}, "unknown id 99: no such query was asked"),
    ({"id": "x", "winner": "first"}, "unknown id 'x'"),
    ({}, "give one of winner, p_first and error"),
    ({"winner": "first", "p_first": 1}, "give one of"),
    ({"winner": "m99"}, "winner is 'm99', allowed: first, second, tie"),
    ({"p_first": 1.5}, "p_first must lie in 0 to 1, got 1.5"),
    ({"p_first": float("nan")}, "p_first must lie in 0 to 1"),
    ({"winner": "tie", "cost": -1}, "cost must lie in 0 to"),
    ({"winner": "tie", "time": 3}, "time is the study's own"),
    ({"winner": "tie", "tokens": [1]}, "tokens must be text or a number"),
]


def test_wrong_answers_change_nothing(folder):
    study, before = own.Study.open(folder), lines(folder)
    for answer, message in WRONG:
        with pytest.raises(ValueError, match=message):
            study.tell_all([{"id": 4, **answer}])
    with pytest.raises(ValueError, match=r"told twice\nunknown id 7"):
        study.tell_all([{"id": i, "winner": "first"} for i in (4, 4, 7)])
    for arguments in ({"n": 0}, {"lease": 0.0}, {"lease": float("inf")}):
        with pytest.raises(ValueError, match="must be"):
            study.ask(**arguments)
    with pytest.raises(ValueError, match="level must be"):
        study.sure(0.0)
    assert (lines(folder), study.n_told) == (before, 3)


SETTINGS = [
    ({"k": N}, rf"k must lie in 1..{N - 1}"),
    ({"kk": 1}, "unknown setting 'kk'"),
    ({"rule": "best"}, "unknown rule 'best'"),
    ({"rule": "escalation"}, "chooses among several judges"),
    ({"budget": 0}, "budget must be"),
    ({"level": 1.5}, "level must be above 0"),
    ({"least_gain": 1.0}, "least_gain must be"),
    ({"repeats": "fresh"}, "give a budget or a purse"),
    ({"indifferent": -0.1}, "indifferent must be at least 0 and finite, got -0.1"),
    ({"judges": ["a", "A"], "seed": -1}, "seed must be.*\njudge 'A' is named twice"),
    ({"judges": "abc"}, "judges must be a list"),
    ({"price": [1.0, 2.0]}, "price needs a number for each of 1 judges"),
    ({"judges": ["a", "b"], "reference": "c"}, "no judge 'c'"),
    ({"covariates": ["length"]}, "no column 'length'"),
    ({"covariates": ["same"]}, "same is the same for all items"),
]


def test_a_wrong_setting_begins_no_study(tmp_path):
    for settings, message in SETTINGS:
        with pytest.raises(ValueError, match=message):
            own.Study.open(tmp_path / "new", items(same=1), **{"k": K, **settings})
    with pytest.raises(ValueError, match="no column 'item'"):
        own.Study.open(tmp_path / "new", pd.DataFrame({"name": ["a", "b"]}))
    with pytest.raises(ValueError, match=r"holds no study: jbt ask .* --items FILE"):
        own.Study.open(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "journal.jsonl").write_text("")
    with pytest.raises(ValueError, match="does not begin with the settings"):
        own.Study.open(tmp_path, items())


# --- a stop whatever the prior

QUALITY = {"good": 2.2, "fair": 0.1, "poor": -1.0}
ANYTIME = {"stop": "anytime", "repeats": "fresh", "budget": 400, "indifferent": 0.5}


def three(**columns):
    return pd.DataFrame({"item": [*QUALITY], **columns})


@heavy
def test_an_anytime_stop_ends_when_tests_of_single_pairs_show_the_top(tmp_path):
    """After each verdict the study has stopped exactly if the tests, given all of these verdicts at
    once, show a top k; another process that reads the journal agrees."""
    study = own.Study.open(tmp_path, three(), **ANYTIME)
    assert study.settings.rule == "pivot"
    rng, names, asked = random.Random(3), [*QUALITY], []
    while queries := study.ask(2):
        for query in queries:
            logit = QUALITY[query.first] - QUALITY[query.second] + 0.5
            won = float(rng.random() < 1 / (1 + math.exp(-logit)))
            study.tell(query.id, p_first=won)
            asked.append((names.index(query.first), names.index(query.second), won))
            first, second, won = map(np.array, zip(*asked, strict=True))
            verdicts = Queries(first, second, won.astype(np.float32))
            none = anytime.Evidence.none(3, np.dtype("float32"))
            evidence = anytime.add_verdicts(none, verdicts, zone=0.5, alpha=0.05)
            top, shown = anytime.shown_top_set(evidence, 1)
            assert study.sure() == bool(shown)
    assert study.stopped == "sure"
    assert np.flatnonzero(top).tolist() == [0]
    again = own.Study.open(tmp_path)
    summary = again.summary()
    assert again.stopped == "sure"
    assert summary.pools.shown[0] == ["good"]
    assert "top 1: good" in summary.report("").text()
    assert summary.figure()
    with pytest.raises(ValueError, match=r"one level, 0\.95"):
        study.sure(0.9)


@heavy
def test_an_anytime_stop_of_several_pools_whatever_happens_to_answers(tmp_path):
    """Pools of two sizes; answers come in any order, some are errors, some leases end, the process
    is replaced. Each pool is shown exactly when tests on its answers, in the order in which they
    were told, show it; and is asked no more."""
    qualities = {"small": QUALITY, "large": {**QUALITY, "worse": -1.5}}
    rows = [(pool, item) for pool, of in qualities.items() for item in of]
    table = pd.DataFrame(rows, columns=["pool", "item"])
    study = own.Study.open(tmp_path, table, **{**ANYTIME, "budget": 1500})
    rng, told, shown = random.Random(5), {pool: [] for pool in qualities}, dict.fromkeys(qualities)
    for turn in range(600):
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
        if turn % 50 == 20:
            study = own.Study.open(tmp_path)
        for pool, quality in qualities.items():
            if told[pool] and not shown[pool]:
                shown[pool] = shown_by_tests(sorted(quality), told[pool])
        assert study.sure() == all(shown.values())
    assert shown == {"small": ["good"], "large": ["good"]}
    assert [*study.summary().pools.shown] == [["good"], ["good"]]


def shown_by_tests(names, told):
    """The top 1 that all of these answers together show; empty without one."""
    columns = ([names.index(first), names.index(second), won] for first, second, won in told)
    first, second, won = map(np.array, zip(*columns, strict=True))
    verdicts = Queries(first.astype(int), second.astype(int), won.astype(np.float32))
    none = anytime.Evidence.none(len(names), np.dtype("float32"))
    evidence = anytime.add_verdicts(none, verdicts, zone=0.5, alpha=0.05)
    top, shown = anytime.shown_top_set(evidence, 1)
    return [names[place] for place in np.flatnonzero(top)] if shown else []


def test_a_study_opened_with_another_stop_names_the_stop_alone(tmp_path):
    own.Study.open(tmp_path, three(), repeats="fresh", budget=400)
    with pytest.raises(ValueError, match="stop was 'posterior', is 'anytime'") as raised:
        own.Study.open(tmp_path, three(), repeats="fresh", budget=400, stop="anytime")
    assert "rule" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"repeats": "never"}, {}, "needs repeats = fresh"),
        ({"orders": "rule"}, {}, "needs orders = both"),
        ({"level": 1.0}, {}, "a level below 1"),
        ({"covariates": ["words"]}, {"words": [1, 2, 3]}, "no covariates"),
        ({"judges": ["a", "b"]}, {}, "one judge"),
        ({"least_gain": 0.1}, {}, "no least_gain"),
        ({"stop": ["anytime"]}, {}, "stop must be one of"),
        ({}, {"content": ["x", "x", "y"]}, "some share a content"),
    ],
)
def test_an_anytime_stop_refuses_what_would_break_its_promise(tmp_path, settings, columns, message):
    with pytest.raises(ValueError, match=message):
        own.Study.open(tmp_path, three(**columns), **{**ANYTIME, **settings})


def test_an_anytime_stop_takes_wins_and_ties_alone(tmp_path):
    study = own.Study.open(tmp_path, three(), **ANYTIME)
    (query,) = study.ask()
    with pytest.raises(ValueError, match=r"a p_first of 0, 0\.5 or 1, got 0\.7"):
        study.tell(query.id, p_first=0.7)
    study.tell(query.id, p_first=0.5)


def test_errors_in_a_row_close_a_pair_that_may_be_asked_again(tmp_path):
    """A judge that fails twice before each answer is asked on; one that fails thrice is not."""
    study = own.Study.open(tmp_path, three(), **ANYTIME)
    for _ in range(60):
        (query,) = study.ask()
        study.tell(query.id, winner="error" if query.attempt < 3 else "tie")
    assert study.n_told == 20
    while queries := study.ask():  # every pair is closed in the end
        study.tell(queries[0].id, winner="error")
    assert study.n_told == 20
    assert study.book.errors.max() == 3
    assert study.stopped == "nothing left to ask"
