"""Acquisition rules: one contract for all, and the picks of single rules."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import xlogy
from scipy.special import entr
from scipy.stats import norm, spearmanr
from support.active import (
    BUDGET,
    CHOICES,
    EVERY_RULE,
    N,
    binary_task,
    run_by,
    score_by,
    view_of,
    widest,
)

from jbt.acquisition import rules
from jbt.acquisition.choice import choose
from jbt.experiments import plots
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.kernel.membership import membership, sobol_normals
from jbt.types import Comparisons, Design, Parameters, Prior

draw = jax.jit(rules.View.draw)
BY_NUMBER = {name for name in rules.RULES if "random" in name or "other_order" in name}
"""Rules that draw a number for every pair from their key, whatever the items are called."""


def relabelled(view, order):
    """The same view with item (and content) `order[i]` in place i; unpaired designs."""
    d, post = view.design, view.posterior
    p = np.r_[order, np.arange(len(order), len(order) + d.n_covariates + 1)]
    mean = Parameters(post.mean.theta[order], post.mean.c, post.mean.kappa)
    square = np.ix_(order, order)
    return rules.View(
        design=Design(d.covariates[order], None, d.item_mask[order], d.n_contents),
        # Columns alone: any root with this covariance will do, and the draws go along.
        posterior=type(post)(mean, post.root[:, p], post.factor[p]),
        covariance=view.covariance[np.ix_(p, p)],
        membership=view.membership[order],
        probability=view.probability[square],
        shown=view.shown[square],
        wins=view.wins[square],
        available=view.available[square],
        priority=view.priority[order],
        k=view.k,
    )


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.heavy] * (n in CHOICES)) for n in EVERY_RULE]
)
def test_contract_of_a_score(name, x64, same_key_again):
    key = jax.random.key(3)
    for kind in ("plain", "shared", "padded"):
        for seed in range(4):
            view = view_of(seed, kind)
            s = score_by(name, view, key)
            assert s.shape == (7, 7)
            assert np.isfinite(s).all()
            np.testing.assert_array_equal(s, score_by(name, view, key))  # same key, same score
            if kind == "plain" and name not in BY_NUMBER:
                order = np.random.default_rng(seed).permutation(7)
                expected = s[np.ix_(order, order)]
                found = score_by(name, relabelled(view, order), key)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_each_rule_has_a_family():
    """The families are those that tables correct within; a new rule joins one of them."""
    assert rules.families() == {
        "paper": ("top_k_aware",),
        "baselines": ("thompson", "lucb", "global_uncertainty", "round_robin", "random"),
        "ablations": ("no_variance", "no_informativeness", "entropy_only"),
        "beyond the paper": (
            "top_k_aware_fresh",
            "entropy_reduction",
            "entropy_reduction_fresh",
            "top_two",
        ),
        "choices": (
            "top_k_aware_either_order",
            "thompson_inside_first",
            "thompson_by_priority",
            "thompson_other_order",
            "thompson_random_fallback",
            "thompson_inside_first_random_fallback",
            "lucb_width_1",
            "lucb_width_3",
            "lucb_inside_first",
            "lucb_by_priority",
            "lucb_other_order",
            "lucb_random_fallback",
            "lucb_inside_first_random_fallback",
        ),
    }
    # Other readings run only if asked for, under names of their own.
    assert not set(rules.DEFAULT_RULES) & set(CHOICES)
    assert len(rules.DEFAULT_RULES) == 13
    assert rules.name_of(rules.RULES["lucb_width_1"].score) == "lucb"
    assert rules.resolve(widest).family == "yours"


def test_each_rule_has_a_line_of_its_own_in_figures():
    assert set(plots.RULE_STYLES) == set(rules.RULES)
    assert {colour for colour, _ in plots.RULE_STYLES.values()} <= set(plots.COLOURS)
    assert len(set(plots.RULE_STYLES.values())) == len(plots.RULE_STYLES)
    assert plots.rule_style("lucb") == {"colour": "green", "linestyle": "-"}
    assert plots.rule_style("widest") == {"colour": "black", "linestyle": ":"}


# --- what single rules do


def test_items_of_one_content_are_worthless_to_the_score(x64):
    view = view_of(0, "shared")
    for name in ("top_k_aware", "no_variance", "no_informativeness", "entropy_only"):
        s = score_by(name, view, jax.random.key(0))
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
        ranked = np.argsort(-np.asarray(draw(view, key)))
        i, j = ranked[view.k - 1], ranked[view.k]
        s = score_by("thompson", view, key)
        assert s.max() == s[i, j] == s[j, i]
        assert (s == s.max()).sum() == 2


def wanted_by_lucb(view, width=2):
    """The pair that LUCB wants: the inside item, the outside item."""
    theta = np.asarray(view.posterior.mean.theta)
    half = width * np.sqrt(np.diag(view.quality_covariance()))
    ranked = np.argsort(-theta)
    inside, outside = ranked[: view.k], ranked[view.k :]
    return inside[np.argmin((theta - half)[inside])], outside[np.argmax((theta + half)[outside])]


def test_lucb_contests_the_weakest_bounds(x64):
    for seed in range(10):
        view = view_of(seed)
        i, j = wanted_by_lucb(view)
        s = score_by("lucb", view, jax.random.key(0))
        assert s.max() == s[i, j] == s[j, i]


def asked(name, view, seed):
    """The pair that is asked, its two items in the order shown."""
    salt = jnp.uint32(np.random.default_rng(seed).integers(2**32))
    score = jnp.asarray(score_by(name, view, jax.random.key(seed)))
    *pair, found = _chosen(score, view.available, salt)
    assert found
    return tuple(int(item) for item in pair)


_chosen = jax.jit(choose)


def with_asked(view, *pairs):
    """The view after these pairs were asked, and no other."""
    shown = np.zeros((7, 7))
    shown[tuple(np.array(pairs, int).reshape(-1, 2).T)] = 1
    may_be = ~np.eye(7, dtype=bool) & (shown == 0)
    new = {"shown": jnp.asarray(shown), "available": jnp.asarray(may_be)}
    return dataclasses.replace(view, **new)


def test_the_width_of_lucb(x64):
    wanted = set()
    for seed in range(10):
        view = with_asked(view_of(seed))
        for width, name in ((1, "lucb_width_1"), (2, "lucb"), (3, "lucb_width_3")):
            i, j = wanted_by_lucb(view, width)
            assert set(asked(name, view, seed)) == {i, j}
            wanted.add((seed, i, j))
    assert len(wanted) > 10  # the widths differ


def test_the_order_of_a_contested_pair(x64, same_key_again):
    seen = set()
    for seed in range(20):
        view = with_asked(view_of(seed % 5))
        i, j = wanted_by_lucb(view)
        assert asked("lucb_inside_first", view, seed) == (i, j)
        i, j = sorted((i, j), key=lambda item: -view.priority[item])
        assert asked("lucb_by_priority", view, seed) == (i, j)
        seen.add((seed % 5, asked("lucb", view, seed)))
        ranked = np.argsort(-np.asarray(draw(view, jax.random.key(seed))))
        i, j = ranked[view.k - 1], ranked[view.k]
        assert asked("thompson_inside_first", view, seed) == (i, j)
    assert len(seen) > 7  # drawn: both orders of most of five pairs


def test_what_is_asked_where_the_wanted_pair_was_asked(x64, same_key_again):
    fresh = with_asked(view_of(0))
    i, j = wanted_by_lucb(fresh)
    once, twice = with_asked(fresh, (i, j)), with_asked(fresh, (i, j), (j, i))
    keys = range(20)

    def distinct(name, view):
        return {asked(name, view, key) for key in keys}

    for fallback in ("other_order", "random_fallback"):
        assert distinct(f"lucb_{fallback}", fresh) == {(i, j), (j, i)}
        assert len(distinct(f"lucb_{fallback}", twice)) > 10  # any pair
    assert distinct("lucb_inside_first_random_fallback", fresh) == {(i, j)}
    # Once asked: the other order, or, if the order that is drawn was asked, any pair.
    assert distinct("lucb", once) == distinct("lucb_other_order", once) == {(j, i)}
    times = [asked("lucb_random_fallback", once, key) for key in keys].count((j, i))
    assert 4 <= times <= 16  # half, and 1 in 41 of the rest
    assert len(distinct("lucb_inside_first_random_fallback", once)) > 10
    # With one order for each pair, the next pair of that order.
    inside = set(np.argsort(-np.asarray(fresh.posterior.mean.theta))[: fresh.k])
    for view in (once, twice):
        ((first, second),) = distinct("lucb_inside_first", view)
        assert (first in inside, second in inside) == (True, False)
        assert (first, second) != (i, j)


def test_a_pair_that_may_be_asked_again_is(x64):
    """With fresh verdicts no fallback is needed."""
    view = with_asked(view_of(0))
    i, j = wanted_by_lucb(view)
    view = dataclasses.replace(with_asked(view, (i, j), (j, i)), available=view.available)
    for name in ("lucb", "lucb_other_order", "lucb_random_fallback"):
        assert {asked(name, view, key) for key in range(10)} == {(i, j), (j, i)}


def test_the_score_of_either_order_is_the_mean_of_the_two(x64, same_key_again):
    view, key = view_of(1), jax.random.key(0)
    one = score_by("top_k_aware", view, key)
    mean = score_by("top_k_aware_either_order", view, key)
    np.testing.assert_allclose(mean, (one + one.T) / 2, atol=1e-15)
    assert np.abs(one - one.T).max() > 1e-3


def test_top_two_asks_where_two_sampled_sets_disagree(x64, same_key_again):
    for seed in range(10):
        view, key = view_of(seed), jax.random.key(seed)
        leader, *others = jax.random.split(key, 1 + rules.CHALLENGERS)

        def top(k, view=view):
            return set(np.argsort(-np.asarray(draw(view, k)))[: view.k].tolist())

        leading = top(leader)
        rival = next((s for s in map(top, others) if s != leading), leading)
        s = score_by("top_two", view, key)
        i, j = np.unravel_index(s.argmax(), s.shape)
        if rival != leading:
            assert {i, j} & (leading - rival)
            assert {i, j} & (rival - leading)


@pytest.mark.heavy
def test_round_robin_spreads_evenly():
    task = binary_task(jax.random.key(0))
    queries = run_by("round_robin", jax.random.key(1), task).queries
    first, second = queries.first, queries.second
    for b in (4, 12, 28, BUDGET):
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


@pytest.mark.heavy
def test_entropy_reduction_ranks_pairs_as_asking_them_would(x64):
    """Against both verdicts of every pair, refitted and resampled."""
    normals = sobol_normals(2**13, 10, "float64")

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
    for seed in range(3):
        view = view_of(seed)
        i, j = np.nonzero(~np.eye(7, dtype=bool))
        extra = np.zeros((42, 7, 7))
        extra[np.arange(42), i, j] = 1
        (now,), (p_now,) = entropy_after(view, jnp.zeros((1, 7, 7)), jnp.zeros(1))
        lost, won = (np.asarray(entropy_after(view, extra, jnp.full(42, y))[0]) for y in (0.0, 1.0))
        q = np.asarray(view.probability)[i, j]
        truth = float(now) - (q * won + (1 - q) * lost)
        here = rules.View(**{**vars(view), "membership": p_now})
        score = score_by("entropy_reduction", here, jax.random.key(0))[i, j]
        correlations.append(spearmanr(score, truth).statistic)
    assert np.mean(correlations) > 0.8, correlations


def test_entropy_reduction_is_finite_where_a_membership_underflows():
    """After many verdicts a chance of 1e-38 times a small variance is 0 in float32."""
    view = view_of(91)  # views are cached, others in float64
    chances = jnp.asarray([0.9, 0.7, 0.4, 2e-38, 1e-30, 0.0, 1.0], jnp.float32)
    small = dataclasses.replace(view, membership=chances, covariance=1e-3 * view.covariance)
    score = np.asarray(score_by("entropy_reduction", small, jax.random.key(0)))
    assert np.isfinite(score).all()
    assert score.max() > 0
