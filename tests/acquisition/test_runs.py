"""Whole runs of the active loop: a NumPy twin, a contract for all rules, reports, bad input."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support import twin
from support.active import (
    BUDGET,
    EVERY_RULE,
    SCORES,
    K,
    N,
    R,
    binary_task,
    compiled_init,
    run_by,
    switchboard,
)
from support.marks import heavy, nightly

from jbt.acquisition import Loop, PanelRule, Task, reports, rules, run, step
from jbt.acquisition.runs import check
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.kernel.membership import antithetic_normals, sobol_normals
from jbt.types import Comparisons, Pool, Variant

DETERMINISTIC = (
    "top_k_aware",
    "global_uncertainty",
    "no_variance",
    "no_informativeness",
    "entropy_only",
    "lucb",
    "round_robin",
    "entropy_reduction",
)
FRESH = ("top_k_aware", "entropy_reduction")
TWIN_BUDGET = 22


@pytest.mark.heavy
def test_the_twin_picks_the_same_pairs(x64, same_key_again):
    """Every deterministic rule on frozen pools, naive and bias-aware inside, with either estimate
    of the membership; some of the pools with ties and graded verdicts."""
    samples, n_pools = 200, 12
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(n_pools))
    naive = np.arange(n_pools) % 4 == 0
    tasks = jax.vmap(lambda key, free: binary_task(key, free=free))(keys, jnp.asarray(~naive))
    graded = np.random.default_rng(2).integers(0, 5, tasks.answers.shape) / 4
    graded[:, 2] = np.nan  # no answer, never asked
    answers = jnp.where((np.arange(n_pools) % 3 == 0)[:, None, None], graded, tasks.answers)
    tasks = jax.vmap(lambda t, a: dataclasses.replace(t, answers=a))(tasks, answers)
    tables = {"conditional": sobol_normals, "counted": antithetic_normals}
    settings = Loop(k=K, refit_every=R, n_samples=samples)
    states, host = twin.states_of(keys, tasks, settings, TWIN_BUDGET), jax.device_get(tasks)
    for fresh, names, estimate in (
        (False, DETERMINISTIC, "conditional"),
        (True, FRESH, "counted"),
    ):
        normals = np.asarray(tables[estimate](samples, N + 2, "float64"))
        table = np.concatenate(list(normals), 1).T

        @jax.jit
        def runs(which, names=names, fresh=fresh, estimate=estimate):
            scores = [rules.RULES[name].score for name in names]
            rule = switchboard(scores, which, fresh)
            loop = Loop(rule, K, R, n_samples=samples, membership=estimate)
            return jax.vmap(lambda key, t: run(key, t, loop, TWIN_BUDGET))(keys, tasks).queries

        for which, name in enumerate(names):
            queries = jax.device_get(runs(which))
            for i in range(n_pools):
                task = jax.tree.map(lambda v, i=i: v[i], host)
                expected = twin.run(
                    name, fresh, estimate, task, settings, TWIN_BUDGET, table, states[i]
                )
                found = zip(queries.first[i], queries.second[i], queries.won[i], strict=True)
                assert [*found] == [query[:3] for query in expected], (name, i)


def with_design(task, **changes):
    return dataclasses.replace(task, design=dataclasses.replace(task.design, **changes))


@pytest.mark.parametrize(
    ("fresh", "protocol"),
    [
        nightly(False, "frozen"),
        heavy(True, "frozen"),
        nightly(False, "stochastic"),
    ],
)
def test_contract_of_a_run(fresh, protocol, same_key_again):
    """Never the diagonal nor padding, and with cached verdicts every pair once until all are
    asked; same key, same choice, whatever runs beside it."""
    n, real = 5, 4
    names = [name for name, rule in EVERY_RULE.items() if rule.fresh == fresh]

    def one(which, key, padded):
        task = binary_task(key, n, frozen=protocol == "frozen")
        mask = jnp.arange(n) < jnp.where(padded, real, n)
        task = with_design(task, item_mask=mask)
        scores = [EVERY_RULE[name].score for name in names]
        settings = Loop(switchboard(scores, which, fresh), 2, 3, protocol, 100)
        return run(key, task, settings, n * (n - 1))

    runs = jax.jit(jax.vmap(one, in_axes=(None, 0, 0)))
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(5), i))(jnp.arange(6))
    padded = jnp.arange(6) >= 3
    for which, name in enumerate(names):
        trace = runs(which, keys, padded)
        again = runs(which, keys[::-1], padded[::-1])
        for i, items in enumerate(np.where(padded, real, n)):
            first, second, won = (np.asarray(v[i]) for v in jax.tree.leaves(trace.queries))
            pair, every = n * first + second, np.flatnonzero(np.eye(n) == 0)
            every = every[(every // n < items) & (every % n < items)]
            if protocol == "frozen":
                assert sorted(pair[: len(every)]) == every.tolist()
                assert (first[len(every) :] == -1).all()
                assert not won[len(every) :].any()
            else:
                assert np.isin(pair, every).all()
        assert_array_equal(trace.queries.first, again.queries.first[::-1], name)
        assert_array_equal(trace.queries.won, again.queries.won[::-1])
        assert (np.asarray(trace.status) == 0).all()


@jax.jit
def fresh_run(which, key, task):
    """With a report in the middle of a block."""
    scores = [rules.RULES[name].score for name in ("top_k_aware", "entropy_reduction")]
    settings = Loop(switchboard(scores, which, fresh=True), K, R, n_samples=100)
    return run(key, task, settings, (10, 25))


@pytest.mark.heavy
def test_a_run_is_steps_and_its_reports_are_fits_of_the_verdicts_so_far():
    task = binary_task(jax.random.key(7))
    settings = Loop("top_k_aware_fresh", K, R, n_samples=100)
    with jax.debug_key_reuse(False):
        key = jax.random.key(8)
        trace = fresh_run(0, key, task)
        state, blocks = compiled_init(key, task, settings), []
        compiled_step = jax.jit(step, static_argnames="loop")
        for _ in range(3):
            state, queries = compiled_step(state, task, settings)
            blocks.append(queries)
    assert_array_equal(trace.budget, [4, 8, 10, 12, 16, 20, 24, 25])
    # The report at 10 comes in the middle of the third block and leaves its picks alone.
    first, second, won = (np.asarray(v) for v in jax.tree.leaves(trace.queries))
    for asked, name in ((first, "first"), (second, "second")):
        assert_array_equal(asked[:12], np.concatenate([getattr(q, name) for q in blocks]))
    assert int(state.asked) == 12
    assert_array_equal(won, np.asarray(task.answers)[first, second] == 1)
    fit_of = jax.jit(lambda c: fit_map(c, task.design, task.prior, task.variant))
    for at, recall in zip(trace.budget, trace.recall, strict=True):
        counts = np.zeros((2, N, N))
        np.add.at(counts[0], (first[:at], second[:at]), 1)
        np.add.at(counts[1], (first[:at], second[:at]), won[:at])
        comparisons = Comparisons.build(*counts)
        fit = fit_of(comparisons)
        assert float(recall) == metrics.top_k_recall(fit.parameters.theta, task.quality, K)
    assert_allclose(trace.parameters.theta, fit.parameters.theta, atol=1e-4)


@pytest.mark.heavy
def test_a_shift_of_the_covariate_changes_nothing():
    """In float32 too: only differences of covariates are compared."""
    task = binary_task(jax.random.key(3))
    moved = with_design(task, covariates=task.design.covariates + 5000)
    with jax.debug_key_reuse(False):
        a, b = (fresh_run(1, jax.random.key(1), t) for t in (task, moved))
    assert_array_equal(a.queries.first, b.queries.first)
    assert_allclose(a.parameters.theta, b.parameters.theta, atol=1e-5)


def test_reports_list_every_refit_and_every_budget():
    assert reports(24, 8).tolist() == [8, 16, 24]
    assert reports((30, 20), 8).tolist() == [8, 16, 20, 24, 30]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["masked", *(f"turns {bad}" for bad in (jnp.nan, jnp.inf))])
def test_a_score_that_is_not_finite_is_flagged_where_the_pair_is_available(name):
    task = binary_task(jax.random.key(3))
    # The trial problem has fewer verdicts.
    check(task.design, Loop(SCORES[name], K, R), np.array([BUDGET]))
    trace = run_by(name, jax.random.key(1), task)
    bad = name != "masked"
    assert trace.status.tolist() == [0] * 5 + [2 * bad] * 8
    assert ((trace.queries.first == -1) == (np.arange(BUDGET) >= 22 if bad else False)).all()


# --- bad input: before anything runs


@pytest.fixture(scope="module")
def given():
    """A task, its pool, and tasks of two judges and of one in a panel."""
    with jax.debug_key_reuse(False):
        task = binary_task(jax.random.key(0))
    pool = Pool(task.quality, task.design)
    answers = jnp.stack([task.answers] * 2, -1)
    panels = [Task.build(pool, answers[..., :n]) for n in (1, 2)]
    return SimpleNamespace(task=task, pool=pool, answers=answers, alone=panels[0], two=panels[1])


def undefined(view, key):
    return jnp.log(view.shown)


def closest(view, key):
    theta = view.posterior.mean.theta
    return -jnp.abs(theta[:, None] - theta) - 1


def started(rule, budget=16, k=K, of="task"):
    """A run by this rule, traced."""
    return lambda g: jax.eval_shape(
        lambda: run(jax.random.key(1), getattr(g, of), Loop(rule, k), budget)
    )


def built(**terms):
    """A task of two judges on these terms."""
    return lambda g: Task.build(g.pool, g.answers, **terms)


EVERY = "top_k_aware"
REFUSED = [
    *(
        (lambda _, name=name: Loop(name), message)
        for name, message in (
            ("ucb", "unknown rule 'ucb': did you mean lucb"),
            ("escalatoin", "unknown rule 'escalatoin': did you mean escalation"),
            ("xyz", "for several judges escalation, disputed"),
        )
    ),
    *(
        (lambda _, name=name: Loop(**{name: 0}), f"{name} must be at least 1, got 0")
        for name in ("refit_every", "n_samples", "k")
    ),
    (lambda _: Loop(membership="sobol"), "membership must be conditional or counted, got 'sobol'"),
    (lambda _: Loop(protocol="cached"), "protocol must be frozen or stochastic, got 'cached'"),
    (lambda _: reports((), 8), "budget must be one or more whole numbers"),
    (started(EVERY, 7), "budget must be at least refit_every = 8, got 7"),
    (started(EVERY, (16, 57)), r"56 ordered pairs.* a budget of 57 needs a judge"),
    (started(EVERY, 113, of="two"), r"56 ordered pairs.* once of each of 2 judges"),
    (started(EVERY, k=8), r"k must lie in 1\.\.7, got 8"),
    (started(lambda v, _: v.shown.sum(0)), r"must return scores \[8, 8\], got shape \(8,\)"),
    (
        started(PanelRule(lambda p, _: p.of(0).shown), of="two"),
        r"scores \[8, 8, 2\], got shape \(8, 8\)",
    ),
    (started("escalation"), "chooses among several judges, and the task has one"),
    (started("escalation", of="alone"), "at least two judges"),
    (started(closest, of="two"), r"closest returned a score below 0.*gain=False"),
    # Also where everything is being traced.
    (
        lambda g: jax.jit(lambda t: run(jax.random.key(1), t, Loop(undefined, K), 16).recall)(
            g.task
        ),
        "undefined returned a score that is not finite",
    ),
    (
        lambda g: Task.build(g.pool, jnp.ones((5, 5))),
        r"answers must be \[8, 8\], got shape \(5, 5\)",
    ),
    (lambda g: Task.build(g.pool, 2 * jnp.ones((8, 8))), "between 0 and 1"),
    (lambda g: Task.build(g.pool, g.task.answers, price=2.0), "purse need several judges"),
    (
        lambda g: Task.build(
            g.pool, g.task.answers, variant=Variant(jnp.ones(2, bool), jnp.array(True))
        ),
        r"variant.c must be \[1\], got \(2,\)",
    ),
    (built(variant=Variant(jnp.ones(1, bool), jnp.array(True))), r"variant.c must be \[1, 2\]"),
    *((built(price=value), "price must be above 0, got") for value in (0.0, [1.0, -2.0])),
    *((built(purse=value), "purse must be above 0, got") for value in (0, np.nan)),
    (built(discrimination=np.inf), "discrimination must be finite and above 0"),
    (built(price=[1, 2, 3]), r"price must be a number or \[2\], got \(3,\)"),
    (built(sharing=np.eye(3)), r"sharing must be \[2, 2\], got \(3, 3\)"),
    (built(sharing=np.full((2, 2), np.nan)), "sharing must be finite"),
    (built(purse=[1, 2]), "purse must be a number"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused(call, message, given):
    with pytest.raises(ValueError, match=message):
        call(given)
