"""Whole runs of the active loop: a NumPy twin, a contract for all rules, reports, bad input."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import twin
from support.active import (
    BUDGET,
    EVERY_RULE,
    K,
    N,
    R,
    binary_task,
    compiled_init,
    masked,
    run_by,
    switchboard,
    turns,
)

from jbt.acquisition import Loop, Task, init, reports, rules, run, step
from jbt.acquisition.runs import check
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.kernel.membership import antithetic_normals, sobol_normals
from jbt.types import Comparisons, Design, Pool, Variant

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
TIMES = jnp.arange(TWIN_BUDGET)


def salt_of(key, time):
    """The salt that breaks ties at a pick, from jbt's own stream, which the twin shares."""
    for_ties = jax.random.split(jax.random.fold_in(key, time), 3)[2]
    return jax.random.bits(for_ties, (), jnp.uint32)


@pytest.mark.parametrize(
    "n_pools",
    [pytest.param(12, marks=pytest.mark.heavy), pytest.param(50, marks=pytest.mark.slow)],
)
def test_the_twin_picks_the_same_pairs(x64, same_key_again, n_pools):
    """Every deterministic rule on frozen pools, naive and bias-aware inside, with either estimate
    of the membership; some of the pools with ties and graded verdicts."""
    samples = 200
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(n_pools))
    naive = np.arange(n_pools) % 4 == 0
    tasks = jax.vmap(lambda key, free: binary_task(key, free=free))(keys, jnp.asarray(~naive))
    graded = np.random.default_rng(2).integers(0, 5, tasks.answers.shape) / 4
    answers = jnp.where((np.arange(n_pools) % 3 == 0)[:, None, None], graded, tasks.answers)
    tasks = jax.vmap(lambda t, a: dataclasses.replace(t, answers=a))(tasks, answers)
    tables = {"conditional": sobol_normals, "counted": antithetic_normals}
    settings = Loop(k=K, refit_every=R, n_samples=samples)
    states = jax.device_get(jax.vmap(lambda key, t: init(key, t, settings))(keys, tasks))
    salts = np.asarray(jax.vmap(lambda key: jax.vmap(lambda t: salt_of(key, t))(TIMES))(keys))
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
                state = SimpleNamespace(
                    shuffle=states.shuffle[i],
                    signs=states.signs[i],
                    priority=states.priority[i],
                    salts=salts[i],
                )
                expected = twin.run(
                    name,
                    fresh,
                    estimate,
                    x=np.asarray(tasks.design.covariates[i, :, 0]),
                    answers=np.asarray(tasks.answers[i]),
                    free=not naive[i],
                    lam=1.0,
                    lam_b=0.1,
                    k=K,
                    refit_every=R,
                    budget=TWIN_BUDGET,
                    table=table,
                    state=state,
                )
                found = zip(queries.first[i], queries.second[i], queries.won[i], strict=True)
                assert [(int(a), int(b), float(c)) for a, b, c in found] == expected, (name, i)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fresh", "protocol"),
    [
        (False, "frozen"),
        pytest.param(True, "frozen", marks=pytest.mark.heavy),
        pytest.param(False, "stochastic", marks=pytest.mark.heavy),
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
        design = Design(task.design.covariates, None, mask, n)
        task = type(task)(task.quality, design, task.answers, task.prior, task.variant)
        scores = [EVERY_RULE[name].score for name in names]
        settings = Loop(switchboard(scores, which, fresh), 2, 3, protocol, 100)
        return run(key, task, settings, n * (n - 1))

    runs = jax.jit(jax.vmap(one, in_axes=(None, 0, 0)))
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(5), i))(jnp.arange(6))
    padded = jnp.arange(6) >= 3
    for which, name in enumerate(names):
        trace = runs(which, keys, padded)
        again = runs(which, keys[::-1], padded[::-1])
        for i in range(6):
            q = jax.tree.map(lambda v, i=i: np.asarray(v[i]), trace.queries)
            items = real if padded[i] else n
            if protocol == "frozen":
                asked = items * (items - 1)
                pairs = {(a, b) for a, b in zip(q.first[:asked], q.second[:asked], strict=True)}
                assert pairs == {(a, b) for a in range(items) for b in range(items) if a != b}
                assert (q.first[asked:] == -1).all()
                assert not q.won[asked:].any()
            else:
                assert ((q.first >= 0) & (q.first < items)).all()
                assert ((q.second >= 0) & (q.second < items)).all()
                assert (q.first != q.second).all()
        np.testing.assert_array_equal(trace.queries.first, again.queries.first[::-1], name)
        np.testing.assert_array_equal(trace.queries.won, again.queries.won[::-1])
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
    np.testing.assert_array_equal(trace.budget, [4, 8, 10, 12, 16, 20, 24, 25])
    # The report at 10 comes in the middle of the third block and leaves its picks alone.
    first, second, won = (np.asarray(v) for v in jax.tree.leaves(trace.queries))
    np.testing.assert_array_equal(first[:12], np.concatenate([q.first for q in blocks]))
    np.testing.assert_array_equal(second[:12], np.concatenate([q.second for q in blocks]))
    assert int(state.asked) == 12
    np.testing.assert_array_equal(won, np.asarray(task.answers)[first, second] == 1)
    fit_of = jax.jit(lambda c: fit_map(c, task.design, task.prior, task.variant))
    for at, recall in zip(trace.budget, trace.recall, strict=True):
        counts = np.zeros((2, N, N))
        np.add.at(counts[0], (first[:at], second[:at]), 1)
        np.add.at(counts[1], (first[:at], second[:at]), won[:at])
        comparisons = Comparisons.build(*counts)
        fit = fit_of(comparisons)
        assert float(recall) == metrics.top_k_recall(fit.parameters.theta, task.quality, K)
    np.testing.assert_allclose(trace.parameters.theta, fit.parameters.theta, atol=1e-4)


@pytest.mark.heavy
def test_a_shift_of_the_covariate_changes_nothing():
    """In float32 too: only differences of covariates are compared."""
    task = binary_task(jax.random.key(3))
    d = task.design
    far = type(d)(d.covariates + 5000, None, d.item_mask, d.n_contents)
    moved = type(task)(task.quality, far, task.answers, task.prior, task.variant)
    with jax.debug_key_reuse(False):
        a, b = (fresh_run(1, jax.random.key(1), t) for t in (task, moved))
    np.testing.assert_array_equal(a.queries.first, b.queries.first)
    np.testing.assert_allclose(a.parameters.theta, b.parameters.theta, atol=1e-5)


def test_reports_list_every_refit_and_every_budget():
    assert reports(24, 8).tolist() == [8, 16, 24]
    assert reports((30, 20), 8).tolist() == [8, 16, 20, 24, 30]


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_a_score_that_is_not_finite_is_flagged(bad):
    task = binary_task(jax.random.key(3))
    # The trial problem has fewer verdicts.
    check(task.design, Loop(turns(bad), K, R), np.array([BUDGET]))
    trace = run_by(f"turns {bad}", jax.random.key(1), task)
    assert trace.status.tolist() == [0] * 5 + [2] * 8
    assert (trace.queries.first[22:] == -1).all()


# --- bad input: before anything runs


def test_bad_input():
    task = binary_task(jax.random.key(0))
    key = jax.random.key(1)
    with pytest.raises(ValueError, match=r"unknown rule 'ucb': did you mean lucb"):
        Loop("ucb")
    for name in ("refit_every", "n_samples", "k"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            Loop(**{name: 0})
    with pytest.raises(ValueError, match="membership must be conditional or counted, got 'sobol'"):
        Loop(membership="sobol")
    with pytest.raises(ValueError, match="protocol must be frozen or stochastic, got 'cached'"):
        Loop(protocol="cached")
    with pytest.raises(ValueError, match="budget must be at least refit_every = 8, got 7"):
        run(key, task, Loop(k=K), 7)
    with pytest.raises(ValueError, match=r"56 ordered pairs.* a budget of 57 needs a judge"):
        run(key, task, Loop(k=K), (16, 57))
    with pytest.raises(ValueError, match=r"k must lie in 1\.\.7, got 8"):
        run(key, task, Loop(k=8), 16)
    with pytest.raises(ValueError, match=r"must return scores \[8, 8\], got shape \(8,\)"):
        run(key, task, Loop(lambda view, key: view.shown.sum(0), k=K), 16)

    def undefined(view, key):
        return jnp.log(view.shown)

    # Also where everything is being traced.
    with pytest.raises(ValueError, match="undefined returned a score that is not finite"):
        jax.jit(lambda t: run(key, t, Loop(undefined, k=K), 16).recall)(task)
    with pytest.raises(ValueError, match="budget must be one or more whole numbers"):
        reports((), 8)
    pool = Pool(task.quality, task.design)
    with pytest.raises(ValueError, match=r"answers must be \[8, 8\], got shape \(5, 5\)"):
        Task.build(pool, jnp.ones((5, 5)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        Task.build(pool, 2 * jnp.ones((8, 8)))
    with pytest.raises(ValueError, match=r"variant.c must be \[1\], got \(2,\)"):
        Task.build(pool, task.answers, variant=Variant(jnp.ones(2, bool), jnp.array(True)))


def test_a_rule_may_say_anything_of_pairs_that_are_not_available():
    task = binary_task(jax.random.key(3))
    check(task.design, Loop(masked, K, R), np.array([BUDGET]))
    trace = run_by("masked", jax.random.key(1), task)
    assert (trace.status == 0).all()
    assert (trace.queries.first >= 0).all()
