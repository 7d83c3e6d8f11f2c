"""The active loop with several judges: whom to ask about which pair, for a price."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import twin
from active import binary_task

from jbt import judges, metrics, pools
from jbt.acquisition import (
    PANEL_RULES,
    Loop,
    PanelRule,
    Rule,
    Task,
    init,
    rules,
    run,
)
from jbt.acquisition.choice import choose_judge
from jbt.fit import fit_map
from jbt.membership import sobol_normals
from jbt.simulate import stream
from jbt.types import Comparisons, Judge, Panel, Pool, Variant

N, K, R, J = 8, 3, 4, 2
BUDGET = 24
PRICE = (1.0, 3.0)
GAINS = ("top_k_aware", "entropy_reduction", "global_uncertainty")
RANKS = ("lucb", "round_robin")
BUMP = 1 + 1e-3 * np.random.default_rng(0).random((N, N))


def unlike(view, key):
    """A rule whose scores are never tied."""
    return view.informativeness() * view.difference_variance() * BUMP


def switch(functions, which):
    """Any of several score functions, by a traced number: one compilation for all."""
    return lambda view, key: jax.lax.switch(which, functions, view, key)


SCORES = {name: rules.RULES[name].score for name in (*GAINS, *RANKS)} | {"unlike": unlike}
OF_PANEL = {name: rule.score for name, rule in PANEL_RULES.items()} | {
    name: lambda panel, key, score=score: panel.each(lambda v: score(v, key)) / panel.price
    for name, score in SCORES.items()
    if name not in RANKS
}
"""Rules of several judges, and the others by gain for price, as rules of that kind."""


def two_judges(key, n=N, *, frozen=True, **terms):
    """A cheap judge with a bias and one that hears twice as much and has none."""
    pool = pools.gaussian(stream(key, "pool"), n, sd=1.25, rho=jnp.asarray(0.3))
    cheap, reference = Judge(jnp.full(1, 1.5), 0.35), Judge(jnp.zeros(1), 0.2, 2.0)
    ask = judges.frozen_draw if frozen else lambda _, *judge: judges.verdict_probability(*judge)
    answers = [
        ask(stream(key, f"verdicts {g}"), pool, judge) for g, judge in enumerate((cheap, reference))
    ]
    free = jnp.array([True, False])
    terms = {"discrimination": jnp.array([1.0, 2.0]), "price": jnp.array(PRICE)} | terms
    answers = jnp.stack(answers, -1)
    return Task.build(pool, answers, variant=Variant(free[None], jnp.ones(2, bool)), **terms)


@jax.jit
def task_of(key):
    return two_judges(key)


@jax.jit
def _run(which, key, task):
    settings = Loop(PanelRule(switch([*OF_PANEL.values()], which)), K, R, n_samples=50)
    return run(key, task, settings, (10, BUDGET))


def run_by(name, key, task):
    """A run by one of `OF_PANEL`, with a report in the middle of a block."""
    with jax.debug_key_reuse(False):
        return jax.device_get(_run(jnp.array([*OF_PANEL].index(name)), key, task))


def on(task, **terms):
    """The same task on other terms."""
    terms = {name: jnp.asarray(value, task.answers.dtype) for name, value in terms.items()}
    return dataclasses.replace(task, panelists=dataclasses.replace(task.panelists, **terms))


def picks(trace):
    q = trace.queries
    return [*zip(q.first.tolist(), q.second.tolist(), q.judge.tolist(), strict=True)]


def salts_of(key):
    def salt(time):
        for_ties = jax.random.split(jax.random.fold_in(key, time), 3)[2]
        return jax.random.bits(for_ties, (), jnp.uint32)

    return jax.vmap(salt)(jnp.arange(BUDGET))


def twins(rule, names, n_pools):
    """Pools of two judges, some with one set of biases for both, a purse, or graded verdicts;
    beside each other what jbt asks and what the twin does."""
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(2), i))(jnp.arange(n_pools))
    number = np.arange(n_pools)
    rng = np.random.default_rng(3)
    sharing = np.where((number % 3 == 1)[:, None, None], [[1, 0], [1, 0.5]], np.eye(2))
    purse = np.where(number % 4 == 2, 22.3, np.inf)
    price = np.stack([np.ones(n_pools), np.exp(rng.normal(0.7, 0.5, n_pools))], 1)

    def one(key, sharing, price, purse):
        return two_judges(key, sharing=sharing, price=price, purse=purse)

    tasks = jax.jit(jax.vmap(one))(keys, *map(jnp.asarray, (sharing, price, purse)))
    graded = rng.integers(0, 5, tasks.answers.shape) / 4
    graded[:, 2, 3, 1] = np.nan
    answers = jnp.where((number % 2 == 0)[:, None, None, None], graded, tasks.answers)
    tasks = jax.vmap(lambda t, a: dataclasses.replace(t, answers=a))(tasks, answers)
    settings = Loop(k=K, refit_every=R, n_samples=100)
    states = jax.device_get(jax.vmap(lambda key, t: init(key, t, settings))(keys, tasks))
    salts = np.asarray(jax.vmap(salts_of)(keys))
    table = np.concatenate(list(np.asarray(sobol_normals(100, N + 2 * J, "float64"))), 1).T

    @jax.jit
    def runs(which):
        mine = dataclasses.replace(settings, rule=rule(which))
        return jax.vmap(lambda key, t: run(key, t, mine, BUDGET).queries)(keys, tasks)

    for which, name in enumerate(names):
        queries = jax.device_get(runs(jnp.array(which)))
        for i in range(n_pools):
            maps = []
            for s, shares in zip((1.0, 2.0), sharing[i], strict=True):
                biases = np.kron(np.eye(2), shares)
                maps.append(
                    np.block([[s * np.eye(N), np.zeros((N, 4))], [np.zeros((2, N)), biases]])
                )
            state = SimpleNamespace(
                **{f: getattr(states, f)[i] for f in ("shuffle", "signs", "priority")},
                salts=salts[i],
            )
            expected = twin.run_panel(
                name,
                settings_fresh(rule),
                "conditional",
                x=np.asarray(tasks.design.covariates[i, :, 0]),
                answers=np.asarray(answers[i]),
                maps=maps,
                price=price[i],
                purse=purse[i],
                free=np.array([True, False, True, True]),
                lam=1.0,
                lam_b=0.1,
                k=K,
                refit_every=R,
                budget=BUDGET,
                table=table,
                state=state,
            )
            q = jax.tree.map(lambda v, i=i: v[i].tolist(), queries)
            found = [*zip(q.first, q.second, q.won, q.judge, strict=True)]
            nothing = [(-1, -1, 0.0, -1)] * (BUDGET - len(expected))
            yield name, found, expected + nothing


def settings_fresh(rule):
    return rule(jnp.array(0)).fresh


def gains(which):
    return Rule(switch([SCORES[name] for name in GAINS], which), fresh=True)


def ranks(which):
    return Rule(switch([SCORES[name] for name in RANKS], which), gain=False)


def of_panel(which):
    return PanelRule(switch([OF_PANEL[name] for name in ("escalation", "disputed")], which))


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (gains, GAINS),
        pytest.param(ranks, RANKS, marks=pytest.mark.heavy),
        pytest.param(of_panel, ("escalation", "disputed"), marks=pytest.mark.heavy),
    ],
)
def test_the_twin_asks_the_same_of_the_same(rule, names, x64, same_key_again):
    asked = np.zeros(J)
    for name, found, expected in twins(rule, names, 8):
        assert found == expected, name
        asked += np.bincount([g for *_, g in expected if g >= 0], minlength=J)
    assert (asked > 20).all()


def test_a_panel_of_one_asks_what_that_judge_is_asked(x64, same_key_again):
    """Whatever the price."""
    names = GAINS[:2]

    def single(which, key):
        task = binary_task(key)
        rule = Rule(switch([SCORES[name] for name in names], which))
        pool = Pool(task.quality, task.design)
        panel = Task.build(pool, task.answers[:, :, None], price=7.0, discrimination=1.0)
        settings = Loop(rule, K, R, n_samples=50)
        return run(key, task, settings, BUDGET), run(key, panel, settings, BUDGET)

    both = jax.jit(jax.vmap(single, (None, 0)))
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(3), i))(jnp.arange(6))
    for which in range(len(names)):
        alone, panel = jax.device_get(both(jnp.array(which), keys))
        np.testing.assert_array_equal(alone.queries.first, panel.queries.first)
        np.testing.assert_array_equal(alone.queries.second, panel.queries.second)
        np.testing.assert_array_equal(alone.queries.won, panel.queries.won)
        np.testing.assert_allclose(panel.parameters.theta, alone.parameters.theta, atol=1e-9)
        np.testing.assert_allclose(panel.cost, 7.0 * np.tile(panel.budget[0], (6, 1)))
        assert not panel.queries.judge.any()
        assert alone.cost is None
        assert alone.queries.judge is None


# --- prices and the purse, float32


@pytest.mark.parametrize("name", ["top_k_aware", "escalation", "reference_random"])
def test_twice_the_prices_and_the_purse_change_nothing(name):
    task, key = on(task_of(jax.random.key(1)), purse=40.0), jax.random.key(4)
    trace = run_by(name, key, task)
    again = run_by(name, key, on(task, price=2 * task.panelists.price, purse=80.0))
    assert picks(again) == picks(trace)
    np.testing.assert_array_equal(again.cost, 2 * trace.cost)
    np.testing.assert_array_equal(again.recall, trace.recall)


def test_who_cannot_be_asked_changes_nothing():
    """By price, or for want of answers; the other is asked what it would be alone."""
    task, key = task_of(jax.random.key(1)), jax.random.key(4)
    silent = dataclasses.replace(task, answers=task.answers.at[:, :, 1].set(jnp.nan))
    for name in ("global_uncertainty", "top_k_aware", "escalation"):
        traces = [
            run_by(name, key, t) for t in (on(task, price=[1.0, jnp.inf]), on(silent, price=[1, 3]))
        ]
        assert picks(traces[0]) == picks(traces[1])
        assert not traces[0].queries.judge.any()
        np.testing.assert_array_equal(traces[0].parameters.theta, traces[1].parameters.theta)
        np.testing.assert_array_equal(traces[0].cost, traces[0].budget)
    only = run_by("escalation", key, on(task, price=[jnp.inf, 3.0]))
    assert (only.queries.judge == 1).all()
    dear = run_by("top_k_aware", key, on(task, price=[1.0, 1e6]))
    assert not dear.queries.judge.any()


@pytest.mark.parametrize("name", OF_PANEL)
def test_a_purse_is_spent_and_no_more(name):
    """To the last verdict that it pays; from there on the trace goes on as it is."""
    task, key = task_of(jax.random.key(5)), jax.random.key(6)
    price = np.array([0.1, 0.7], np.float32)
    for purse in (0.05, 1.0, 1.55):
        trace = run_by(name, key, on(task, price=price, purse=purse))
        judge = trace.queries.judge
        spent = np.where(judge >= 0, price[judge], 0).astype(float).cumsum()
        assert spent[-1] <= purse * (1 + 1e-6)
        assert purse - spent[-1] < 0.1 * (1 + 1e-6)
        asked = (judge >= 0).sum()
        assert (judge[asked:] == -1).all()
        assert (trace.queries.first[asked:] == -1).all()
        np.testing.assert_allclose(trace.cost, spent[trace.budget - 1], rtol=1e-6)
        flat = trace.budget - R >= asked
        assert len(set(trace.recall[flat])) <= 1
        assert (trace.status == 0).all()


def test_escalation_leaves_the_reference_half_of_what_is_spent():
    task, key = task_of(jax.random.key(7)), jax.random.key(8)
    for name in PANEL_RULES:
        judge = run_by(name, key, task).queries.judge
        spent = (np.array(PRICE) * (judge[:, None] == np.arange(J))).cumsum(0)
        assert (judge == 1).sum() > 3
        assert (spent[:, 1] <= spent.sum(1) / 2).all()
        # And so in turn: the reference is never behind by more than one of its verdicts and one
        # of the other's.
        assert (spent[:, 0] - spent[:, 1] <= sum(PRICE)).all()


def test_reports_are_fits_of_the_verdicts_so_far():
    task = task_of(jax.random.key(7))
    trace = run_by("escalation", jax.random.key(8), task)
    assert trace.budget.tolist() == [4, 8, 10, 12, 16, 20, 24]
    q, counts = trace.queries, np.zeros((2, N, N, J), np.float32)
    fit_of = jax.jit(
        lambda c: fit_map(
            Panel(c, jnp.array([1.0, 2.0]), jnp.eye(2)), task.design, task.prior, task.variant
        )
    )
    for t, budget in enumerate(trace.budget):
        at = slice(budget)
        counts[:] = 0
        np.add.at(counts[0], (q.first[at], q.second[at], q.judge[at]), 1)
        np.add.at(counts[1], (q.first[at], q.second[at], q.judge[at]), q.won[at])
        theta = fit_of(Comparisons(*jnp.asarray(counts))).parameters.theta
        assert trace.recall[t] == metrics.top_k_recall(theta, task.quality, K)
    np.testing.assert_allclose(trace.parameters.theta, theta, atol=1e-4)
    np.testing.assert_array_equal(q.won, np.asarray(task.answers)[q.first, q.second, q.judge])
    assert counts[0].max() == 1  # each of each judge once


def test_renamed_judges_are_asked_the_same(x64):
    with jax.debug_key_reuse(False):
        task = task_of(jax.random.key(9))
    old, order = task.panelists, jnp.array([1, 0])
    renamed = dataclasses.replace(
        task,
        answers=task.answers[:, :, order],
        variant=Variant(task.variant.c[:, order], task.variant.kappa[order]),
        panelists=type(old)(
            old.discrimination[order], old.sharing[order][:, order], old.price[order], old.purse
        ),
    )
    trace, again = (run_by("unlike", jax.random.key(1), t) for t in (task, renamed))
    assert [(i, j, 1 - g) for i, j, g in picks(again)] == picks(trace)
    assert set(trace.queries.judge) == {0, 1}
    np.testing.assert_allclose(again.parameters.kappa, trace.parameters.kappa[order], atol=1e-9)


def test_prices_are_conditions_of_one_program():
    """Traced, on either protocol: what a price gives does not depend on those beside it."""
    prices = np.array([[1, 1], [1, 3], [1, 30], [1, np.inf]], np.float32)
    traced = []

    def one(price, key):
        traced.append(price)
        task = two_judges(jax.random.key(3), frozen=False, price=price, purse=60 * price[0])
        return run(key, task, Loop("entropy_reduction", K, R, "stochastic", 50), 60)

    with jax.debug_key_reuse(False):
        runs = jax.jit(jax.vmap(one, (0, None)))
        together = jax.device_get(runs(prices, jax.random.key(1)))
        again = jax.device_get(runs(prices[::-1], jax.random.key(1)))
    assert len(traced) == 1
    np.testing.assert_array_equal(together.queries.first, again.queries.first[::-1])
    np.testing.assert_array_equal(together.queries.judge, again.queries.judge[::-1])
    references = (together.queries.judge == 1).sum(1)
    assert references[0] > 30  # it hears more, and its bias is known
    assert references[0] > references[2] >= references[3] == 0
    assert (together.cost[:, -1] <= 60 * (1 + 1e-6)).all()
    assert (together.queries.first[3] >= 0).all()
    # Nothing is exhausted: a pair may be asked again.
    pairs = {*zip(together.queries.first[3], together.queries.second[3], strict=True)}
    assert len(pairs) < 56


# --- what single parts do


def test_of_judges_alike_the_cheapest_is_asked_and_any_of_those():
    choose = jax.jit(jax.vmap(choose_judge, (None, None, None, 0)))
    salts = jax.random.bits(jax.random.key(0), (4000,), jnp.uint32)
    yes = jnp.ones(3, bool)
    worth, price = jnp.array([1.0, 1.0, 1.0 - 1e-6]), jnp.array([2.0, 1.0, 1.0])
    counts = np.bincount(choose(worth, price, yes, salts), minlength=3)
    assert counts[0] == 0
    assert abs(counts[1] - 2000) < 4 * np.sqrt(1000)
    assert (choose(worth, price, jnp.array([True, False, False]), salts) == 0).all()
    assert (choose(worth.at[0].set(1.1), price, yes, salts) == 0).all()


# --- bad input


def test_bad_input():
    task = task_of(jax.random.key(0))
    pool, key = Pool(task.quality, task.design), jax.random.key(1)
    build = Task.build
    for name, value in (("price", 0.0), ("price", [1.0, -2.0]), ("purse", 0), ("purse", np.nan)):
        with pytest.raises(ValueError, match=rf"{name} must be above 0, got"):
            build(pool, task.answers, **{name: value})
    with pytest.raises(ValueError, match="discrimination must be finite and above 0"):
        build(pool, task.answers, discrimination=np.inf)
    with pytest.raises(ValueError, match=r"price must be a number or \[2\], got \(3,\)"):
        build(pool, task.answers, price=[1, 2, 3])
    with pytest.raises(ValueError, match=r"sharing must be \[2, 2\], got \(3, 3\)"):
        build(pool, task.answers, sharing=np.eye(3))
    with pytest.raises(ValueError, match="purse must be a number"):
        build(pool, task.answers, purse=[1, 2])
    with pytest.raises(ValueError, match="purse are of several judges"):
        build(pool, task.answers[:, :, 0], price=2.0)
    with pytest.raises(ValueError, match=r"variant.c must be \[1, 2\], got \(1,\)"):
        build(pool, task.answers, variant=Variant(jnp.ones(1, bool), jnp.array(True)))
    with pytest.raises(ValueError, match=r"56 ordered pairs.* once of each of 2 judges"):
        run(key, task, Loop(k=K), 113)
    with pytest.raises(ValueError, match="chooses among several judges, and the task has one"):
        run(key, build(pool, task.answers[:, :, 0]), Loop("escalation", K), 16)
    with pytest.raises(ValueError, match="at least two judges"):
        run(key, build(pool, task.answers[:, :, :1]), Loop("escalation", K), 16)
    with pytest.raises(ValueError, match="of several judges escalation, disputed"):
        Loop("escalatoin")
    with pytest.raises(ValueError, match=r"must return scores \[8, 8, 2\], got shape \(8, 8\)"):
        run(key, task, Loop(PanelRule(lambda panel, key: panel.of(0).shown), K), 16)

    def closest(view, key):
        theta = view.posterior.mean.theta
        return -jnp.abs(theta[:, None] - theta) - 1

    with pytest.raises(ValueError, match=r"closest returned a score below 0.*gain=False"):
        run(key, task, Loop(closest, K), 16)
