"""The active loop: a NumPy twin, one contract for all rules, both protocols, bad input."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import twin
from jax.scipy.special import xlogy
from scipy.special import entr
from scipy.stats import norm, spearmanr

from jbt import judges, metrics, model, pairs, pools
from jbt.acquisition import Loop, Rule, Task, init, loop, reports, rules, run, step
from jbt.acquisition.loop import look
from jbt.fit import fit_map
from jbt.laplace import laplace
from jbt.membership import membership, standard_normals
from jbt.simulate import stream
from jbt.types import Comparisons, Design, Judge, Parameters, Pool, Prior, Variant

N, K, R = 8, 3, 4
compiled_run = jax.jit(run, static_argnames=("loop", "budget"))
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


def widest(view, key):
    """A user's own rule."""
    return view.difference_variance()


def switchboard(scores, which, fresh=False):
    """One rule that scores by any of several, by a traced number: one compilation for all."""

    def score(view, key):
        return jax.lax.switch(which, scores, view, key)

    return Rule(score, fresh)


def binary_task(key, n=N, *, frozen=True, dtype=None, free=True):
    pool = pools.gaussian(stream(key, "pool"), n, sd=1.25, rho=jnp.asarray(0.0), covariate="binary")
    judge = Judge(jnp.full(1, 1.5), 0.35)
    if frozen:
        answers = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
    else:
        answers = judges.verdict_probability(pool, judge)
    task = Task.build(pool, answers)
    variant = Variant(jnp.full(1, free), jnp.asarray(free))
    return task.__class__(task.quality, task.design, task.answers, task.prior, variant)


BUDGET = 22
TIMES = jnp.arange(BUDGET)


def salt_of(key, time):
    """What decides ties at a pick: jbt's own stream, the one thing of it that the twin is told."""
    for_ties = jax.random.split(jax.random.fold_in(key, time), 3)[2]
    return jax.random.bits(for_ties, (), jnp.uint32)


@pytest.mark.parametrize("n_pools", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_the_twin_picks_the_same_pairs(x64, same_key_again, n_pools):
    """Every deterministic rule on frozen pools, naive and bias-aware inside."""
    samples = 200
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(n_pools))
    naive = np.arange(n_pools) % 4 == 0
    tasks = jax.vmap(lambda key, free: binary_task(key, free=free))(keys, jnp.asarray(~naive))
    table = np.concatenate(list(np.asarray(standard_normals(samples, N + 2, "float64"))), 1).T
    settings = Loop(k=K, refit_every=R, n_samples=samples)
    states = jax.device_get(jax.vmap(lambda key, t: init(key, t, settings))(keys, tasks))
    salts = np.asarray(jax.vmap(lambda key: jax.vmap(lambda t: salt_of(key, t))(TIMES))(keys))
    for fresh, names in ((False, DETERMINISTIC), (True, FRESH)):

        @jax.jit
        def runs(which, names=names, fresh=fresh):
            scores = [rules.RULES[name].score for name in names]
            mine = Loop(switchboard(scores, which, fresh), K, R, n_samples=samples)
            return jax.vmap(lambda key, t: run(key, t, mine, BUDGET))(keys, tasks).queries

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
                    x=np.asarray(tasks.design.covariates[i, :, 0]),
                    answers=np.asarray(tasks.answers[i]),
                    free=not naive[i],
                    lam=1.0,
                    lam_b=0.1,
                    k=K,
                    refit_every=R,
                    budget=BUDGET,
                    table=table,
                    state=state,
                )
                found = zip(queries.first[i], queries.second[i], queries.won[i], strict=True)
                assert [(int(a), int(b), bool(c)) for a, b, c in found] == expected, (name, i)


# --- one contract for every rule


@jax.jit
def fitted(comparisons, design):
    variant = model.variant("bias_aware", design)
    mode = fit_map(comparisons, design, Prior(), variant).parameters
    posterior = laplace(mode, comparisons, design, Prior(), variant)
    return mode, posterior, posterior.covariance(), jax.nn.sigmoid(model.logits(mode, design))


@functools.cache
def view_of(seed, kind="plain", k=2):
    """A view in the middle of a run: 7 items, of one content each, of shared contents, or two of
    them padding."""
    rng = np.random.default_rng(seed)
    n = 7
    mask = np.arange(n) < (5 if kind == "padded" else n)
    content = np.array([0, 0, 1, 1, 2, 3, 4]) if kind == "shared" else None
    design = Design.build(rng.standard_normal((n, 2)), content, mask)
    m = design.n_contents
    shown = rng.integers(0, 2, (n, n)) * (1 - np.eye(n)) * mask[:, None] * mask
    comparisons = Comparisons.build(shown, shown * rng.integers(0, 2, (n, n)))
    mode, posterior, covariance, probability = fitted(comparisons, design)
    real = np.asarray(design.content_mask())
    share = np.where(real, rng.dirichlet(np.ones(m)), 0)
    share = share * k / share.sum()
    return rules.View(
        design=design,
        posterior=posterior,
        covariance=covariance,
        membership=jnp.asarray(np.clip(share, 0, 1)),
        probability=probability,
        shown=comparisons.shown,
        wins=comparisons.wins,
        available=(pairs.every_pair(Pool(mode.theta, design)) > 0) & (comparisons.shown == 0),
        priority=jnp.asarray(rng.permutation(m).astype(float)),
        k=k,
    )


def relabelled(view, order):
    """The same view with item (and content) `order[i]` in place i; unpaired designs."""
    d, post = view.design, view.posterior
    p = np.r_[order, np.arange(len(order), len(order) + d.n_covariates + 1)]
    mean = Parameters(post.mean.theta[order], post.mean.c, post.mean.kappa)
    square = np.ix_(order, order)
    return rules.View(
        design=Design(d.covariates[order], None, d.item_mask[order], d.n_contents),
        # Columns alone: any root with this covariance will do, and the draws go along.
        posterior=type(post)(mean, post.root[:, p]),
        covariance=view.covariance[np.ix_(p, p)],
        membership=view.membership[order],
        probability=view.probability[square],
        shown=view.shown[square],
        wins=view.wins[square],
        available=view.available[square],
        priority=view.priority[order],
        k=view.k,
    )


EVERY_RULE = {**rules.RULES, "widest (a user's)": Rule(widest)}


@pytest.mark.parametrize("name", EVERY_RULE)
def test_contract_of_a_score(name, x64, same_key_again):
    score = EVERY_RULE[name].score
    key = jax.random.key(3)
    for kind in ("plain", "shared", "padded"):
        for seed in range(4):
            view = view_of(seed, kind)
            s = np.asarray(score(view, key))
            assert s.shape == (7, 7)
            assert np.isfinite(s).all()
            np.testing.assert_array_equal(s, score(view, key))  # same key, same score
            if kind == "plain" and name != "random":  # random looks at nothing but its key
                order = np.random.default_rng(seed).permutation(7)
                expected = s[np.ix_(order, order)]
                found = np.asarray(score(relabelled(view, order), key))
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("fresh", "protocol"), [(False, "frozen"), (True, "frozen"), (False, "stochastic")]
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


# --- what single rules do


def test_items_of_one_content_are_worthless_to_the_score(x64):
    view = view_of(0, "shared")
    for name in ("top_k_aware", "no_variance", "no_informativeness", "entropy_only"):
        s = np.asarray(rules.RULES[name].score(view, jax.random.key(0)))
        np.testing.assert_allclose([s[0, 1], s[1, 0], s[2, 3]], 0, atol=1e-12)
        assert s[0, 2] > 0


def test_contrast_is_the_explicit_quadratic_form(x64):
    rng = np.random.default_rng(0)
    for kind in ("plain", "shared", "padded"):
        design = view_of(0, kind).design
        z = np.asarray(model.design_matrix(design))
        a = rng.standard_normal((z.shape[-1],) * 2)
        q = a @ a.T
        expected = np.einsum("ijp,pq,ijq->ij", z, q, z)
        found = np.asarray(rules.contrast(jnp.asarray(q), design))
        real = np.asarray(design.item_mask)
        inside = np.ix_(real, real)
        np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-10)


def test_thompson_contests_the_sampled_boundary(x64, same_key_again):
    for seed in range(10):
        view, key = view_of(seed), jax.random.key(seed)
        ranked = np.argsort(-np.asarray(view.draw(key)))
        i, j = ranked[view.k - 1], ranked[view.k]
        s = np.asarray(rules.thompson(view, key))
        assert s.max() == s[i, j] == s[j, i]
        assert (s == s.max()).sum() == 2


def test_lucb_contests_the_weakest_bounds(x64):
    for seed in range(10):
        view = view_of(seed)
        theta = np.asarray(view.posterior.mean.theta)
        sd = np.sqrt(np.diag(view.quality_covariance()))
        ranked = np.argsort(-theta)
        inside, outside = ranked[: view.k], ranked[view.k :]
        i = inside[np.argmin((theta - 2 * sd)[inside])]
        j = outside[np.argmax((theta + 2 * sd)[outside])]
        s = np.asarray(rules.lucb(view, jax.random.key(0)))
        assert s.max() == s[i, j] == s[j, i]


def test_top_two_asks_where_two_sampled_sets_disagree(x64, same_key_again):
    for seed in range(10):
        view, key = view_of(seed), jax.random.key(seed)
        leader, *others = jax.random.split(key, 1 + rules.CHALLENGERS)

        def top(k, view=view):
            return set(np.argsort(-np.asarray(view.draw(k)))[: view.k].tolist())

        leading = top(leader)
        rival = next((s for s in map(top, others) if s != leading), leading)
        s = np.asarray(rules.top_two(view, key))
        i, j = np.unravel_index(s.argmax(), s.shape)
        if rival != leading:
            assert {i, j} & (leading - rival)
            assert {i, j} & (rival - leading)


def test_round_robin_spreads_evenly():
    task = binary_task(jax.random.key(0))
    settings = Loop("round_robin", K, 7, n_samples=50)
    trace = compiled_run(jax.random.key(1), task, settings, 52)
    first, second = np.asarray(trace.queries.first), np.asarray(trace.queries.second)
    for b in (4, 12, 28, 52):
        times = np.bincount(np.r_[first[:b], second[:b]], minlength=N)
        assert times.max() - times.min() <= 1
        led = np.bincount(first[:b], minlength=N) - np.bincount(second[:b], minlength=N)
        assert np.abs(led).max() <= 3
    unordered = {frozenset(p) for p in zip(first[:20].tolist(), second[:20].tolist(), strict=True)}
    assert len(unordered) >= 18  # of 28: pairs come back only where their items are due


def test_entropy_falls_by_the_first_order_formula(x64):
    """For p = Phi(mu / s), a verdict worth v of variance: E[H after] against quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    for mu, s in ((0.0, 1.0), (0.7, 0.5), (-1.5, 1.2)):
        v = 1e-3 * s * s
        after = norm.cdf((mu + np.sqrt(v) * nodes) / np.sqrt(s * s - v))
        p = norm.cdf(mu / s)
        exact = entr(p) + entr(1 - p) - weights @ (entr(after) + entr(1 - after))
        formula = v * norm.pdf(norm.ppf(p)) ** 2 / (2 * s * s * p * (1 - p))
        assert exact == pytest.approx(formula, rel=2e-3)


def test_entropy_reduction_ranks_pairs_as_asking_them_would(x64):
    """Against both verdicts of every pair, refitted and resampled."""
    normals = standard_normals(20_000, 10, "float64")

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0, 0))
    def entropy_after(view, extra, won):
        variant = model.variant("bias_aware", view.design)
        comparisons = Comparisons(view.shown + extra, view.wins + extra * won)
        mode = fit_map(comparisons, view.design, Prior(), variant).parameters
        posterior = laplace(mode, comparisons, view.design, Prior(), variant)
        p = membership(posterior, view.k, jnp.ones(7, bool), normals)
        return jnp.sum(-xlogy(p, p) - xlogy(1 - p, 1 - p)), p

    correlations = []
    for seed in range(5):
        view = view_of(seed)
        i, j = np.nonzero(~np.eye(7, dtype=bool))
        extra = np.zeros((42, 7, 7))
        extra[np.arange(42), i, j] = 1
        (now,), (p_now,) = entropy_after(view, jnp.zeros((1, 7, 7)), jnp.zeros(1))
        lost, won = (np.asarray(entropy_after(view, extra, jnp.full(42, y))[0]) for y in (0.0, 1.0))
        q = np.asarray(view.probability)[i, j]
        truth = float(now) - (q * won + (1 - q) * lost)
        here = rules.View(**{**vars(view), "membership": p_now})
        score = np.asarray(rules.entropy_reduction(here, jax.random.key(0)))[i, j]
        correlations.append(spearmanr(score, truth).statistic)
    assert np.mean(correlations) > 0.8, correlations


def test_a_fresh_covariance_is_that_of_the_posterior_with_the_verdict(x64):
    for kind in ("plain", "shared"):
        view = view_of(1, kind)
        d = view.design
        z = np.asarray(model.design_matrix(d))[4, 2]
        w = float(view.probability[4, 2] * (1 - view.probability[4, 2]))
        expected = np.linalg.inv(np.linalg.inv(view.covariance) + w * np.outer(z, z))
        four, two = jnp.array(4), jnp.array(2)
        yes = jnp.array(True)
        found = loop._after_asking(view, four, two, yes)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        same = loop._after_asking(view, four, two, ~yes)
        np.testing.assert_array_equal(same, view.covariance)


# --- the loop


def test_a_run_is_steps_and_its_reports_are_fits_of_the_verdicts_so_far():
    task = binary_task(jax.random.key(7))
    settings = Loop("top_k_aware_fresh", K, R, n_samples=100)
    with jax.debug_key_reuse(False):
        key = jax.random.key(8)
        trace = compiled_run(key, task, settings, (10, 25))
        state, blocks = init(key, task, settings), []
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


def test_stochastic_protocol_draws_anew_and_may_repeat():
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(4), i))(jnp.arange(64))

    def one(key):
        task = binary_task(jax.random.key(0), 4, frozen=False)
        settings = Loop("global_uncertainty", 2, R, "stochastic", 50)
        return run(key, task, settings, 40).queries

    q = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(keys))
    with jax.debug_key_reuse(False):
        p = np.asarray(binary_task(jax.random.key(0), 4, frozen=False).answers)
    # Within a block the posterior is stale and the rule repeats itself; fresh verdicts differ.
    pair = np.sort(np.stack([q.first, q.second], -1), -1).reshape(64, -1, R, 2)
    assert (pair == pair[:, :, :1]).all(-1).mean() > 0.9
    asked, won = np.zeros((2, 4, 4))
    np.add.at(asked, (q.first, q.second), 1)
    np.add.at(won, (q.first, q.second), q.won)
    often = asked > 100
    assert often.sum() > 4
    error = np.sqrt(p * (1 - p) / np.maximum(asked, 1))
    assert (np.abs(won / np.maximum(asked, 1) - p) < 4 * error)[often].all()


def test_unanswered_pairs_are_not_asked():
    task = binary_task(jax.random.key(7))
    hole = np.zeros((N, N), bool)
    hole[2, :], hole[5, 1] = True, True
    answers = jnp.where(hole, jnp.nan, task.answers)
    task = type(task)(task.quality, task.design, answers, task.prior, task.variant)
    q = compiled_run(jax.random.key(1), task, Loop("random", K, R, n_samples=50), 44).queries
    assert not hole[np.asarray(q.first), np.asarray(q.second)].any()


def test_naive_inside_keeps_its_zeros():
    task = binary_task(jax.random.key(3), free=False)
    trace = compiled_run(jax.random.key(1), task, Loop("top_k_aware", K, R, n_samples=50), 12)
    assert float(trace.parameters.kappa) == 0
    assert (np.asarray(trace.parameters.c) == 0).all()


def test_fresh_normals_are_new_at_every_refit():
    task, key = binary_task(jax.random.key(3)), jax.random.key(1)
    for fresh in (False, True):
        settings = Loop("top_k_aware", K, R, n_samples=20, fresh_normals=fresh)
        with jax.debug_key_reuse(False):
            state = init(key, task, settings)
            later = type(state)(**{**vars(state), "asked": jnp.array(8)})
            one, same, other = (look(s, task, settings).membership for s in (state, state, later))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any() == fresh


def test_two_runs_do_not_share_their_normals():
    """The table is one; each run arranges it in its own way."""
    task = binary_task(jax.random.key(3))
    settings = Loop("top_k_aware", K, R, n_samples=20)
    states = [init(jax.random.key(i), task, settings) for i in (1, 2)]
    a, b = (look(s, task, settings).membership for s in states)
    assert (a != b).any()
    # Before any verdict the contents are alike: the same shares, dealt out differently, at most.
    np.testing.assert_allclose(a.sum(), b.sum(), rtol=1e-6)


def test_a_shift_of_the_covariate_changes_nothing():
    """In float32 too: only differences of covariates are compared."""
    task = binary_task(jax.random.key(3))
    settings = Loop("entropy_reduction_fresh", K, R, n_samples=100)
    d = task.design
    far = type(d)(d.covariates + 5000, None, d.item_mask, d.n_contents)
    moved = type(task)(task.quality, far, task.answers, task.prior, task.variant)
    with jax.debug_key_reuse(False):
        a, b = (compiled_run(jax.random.key(1), t, settings, 24) for t in (task, moved))
    np.testing.assert_array_equal(a.queries.first, b.queries.first)
    np.testing.assert_allclose(a.parameters.theta, b.parameters.theta, atol=1e-5)


def test_tied_pairs_are_drawn_anew_at_every_pick():
    score, available = jnp.zeros((4, 4)), ~jnp.eye(4, dtype=bool)
    salts = jax.random.bits(jax.random.key(0), (6000,), jnp.uint32)
    first, second, found = jax.vmap(lambda s: loop.choose(score, available, s))(salts)
    assert found.all()
    counts = np.zeros((4, 4))
    np.add.at(counts, (first, second), 1)
    assert (np.diag(counts) == 0).all()
    off = counts[~np.eye(4, dtype=bool)]
    assert (np.abs(off - 500) < 4 * np.sqrt(500)).all()
    best = score.at[2, 1].set(1e-3)
    assert loop.choose(best, available, salts[0])[:2] == (2, 1)
    assert not loop.choose(best, available & False, salts[0])[2]


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_a_score_that_is_not_finite_is_flagged(bad):
    def turns_bad(view, key):
        return jnp.where(view.shown.sum() > 21, bad, 1.0) * jnp.ones_like(view.shown)

    trace = compiled_run(
        jax.random.key(1), binary_task(jax.random.key(3)), Loop(turns_bad, K, R), 28
    )
    # The trial problem has fewer verdicts.
    assert np.asarray(trace.status).tolist() == [0, 0, 0, 0, 0, 2, 2]
    assert (np.asarray(trace.queries.first)[22:] == -1).all()


# --- bad input: before anything runs


def test_bad_input():
    task = binary_task(jax.random.key(0))
    key = jax.random.key(1)
    with pytest.raises(ValueError, match=r"unknown rule 'ucb': one of top_k_aware, thompson"):
        Loop("ucb")
    for name in ("refit_every", "n_samples", "k"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            Loop(**{name: 0})
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
    with pytest.raises(ValueError, match="unknown model"):
        Task.build(Pool(task.quality, task.design), task.answers, model_name="fancy")


def test_a_rule_may_say_anything_of_pairs_that_are_not_available():
    def masked(view, key):
        return jnp.where(view.available, view.probability, -jnp.inf)

    trace = compiled_run(jax.random.key(1), binary_task(jax.random.key(3)), Loop(masked, K, R), 8)
    assert (np.asarray(trace.status) == 0).all()


def test_reports_list_every_refit_and_every_budget():
    assert reports(24, 8).tolist() == [8, 16, 24]
    assert reports((30, 20), 8).tolist() == [8, 16, 20, 24, 30]
