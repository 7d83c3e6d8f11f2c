"""Acquisition rules: one contract for all, and the picks of single rules."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from support.active import (
    EVERY_RULE,
    score_by,
    view_of,
)

from jbt.acquisition import rules
from jbt.types import Design, Parameters

draw = jax.jit(rules.View.draw)


def of_items(view, order):
    """The view of these items alone, in this order; unpaired designs."""
    d, post = view.design, view.posterior
    p = np.r_[order, np.arange(7, 7 + d.n_covariates + 1)]
    mean = Parameters(post.mean.theta[order], post.mean.c, post.mean.kappa)
    square = np.ix_(order, order)
    pairs = ("probability", "shown", "wins", "available")
    return dataclasses.replace(
        view,
        design=Design(d.covariates[order], None, d.item_mask[order], len(order)),
        # Columns alone: any root with this covariance will do, and the draws go along.
        posterior=dataclasses.replace(post, mean=mean, root=post.root[:, p]),
        covariance=view.covariance[np.ix_(p, p)],
        membership=view.membership[order],
        priority=view.priority[order],
        **{name: getattr(view, name)[square] for name in pairs},
    )


@pytest.mark.parametrize("name", EVERY_RULE)
def test_contract_of_a_score(name, x64, same_key_again):
    key = jax.random.key(3)
    for kind in ("plain", "shared", "padded"):
        for seed in range(4):
            view = view_of(seed, kind)
            s = score_by(name, view, key)
            assert s.shape == (7, 7)
            assert np.isfinite(s).all()
            np.testing.assert_array_equal(s, score_by(name, view, key))  # same key, same score
            # Neither names nor padding mean anything (but that of lucb lowers other pairs more).
            if kind == "plain" or (kind == "padded" and name != "lucb"):
                order = default_rng(seed).permutation(np.flatnonzero(view.design.item_mask))
                found = score_by(name, of_items(view, order), key)
                assert_allclose(found, s[np.ix_(order, order)], rtol=1e-9, atol=1e-9)
            if kind == "shared" and EVERY_RULE[name].family in FACTORS:
                # Items of one content are worthless to Eq. acq and to its factors.
                assert_allclose([s[0, 1], s[1, 0], s[2, 3]], 0, atol=1e-12)
                assert s[0, 2] > 0


FACTORS = ("paper", "ablations")


def test_each_rule_has_a_family():
    """The families are those that tables correct within; a new rule joins one of them."""
    assert sum(rules.families().values(), ()) == tuple(rules.RULES)


# --- what single rules do


def test_thompson_contests_the_sampled_boundary(x64, same_key_again):
    for seed in range(10):
        view, key = view_of(seed), jax.random.key(seed)
        ranked = np.argsort(-np.asarray(draw(view, key)))
        i, j = ranked[view.k - 1], ranked[view.k]
        s = score_by("thompson", view, key)
        assert s.max() == s[i, j] == s[j, i]
        assert (s == s.max()).sum() == 2


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
def test_entropy_reduction_is_finite_where_a_membership_underflows():
    """After many verdicts a chance of 1e-38 times a small variance is 0 in float32."""
    view = view_of(91)  # views are cached, others in float64
    chances = jnp.asarray([0.9, 0.7, 0.4, 2e-38, 1e-30, 0.0, 1.0], jnp.float32)
    small = dataclasses.replace(view, membership=chances, covariance=1e-3 * view.covariance)
    score = np.asarray(jax.jit(rules.entropy_reduction)(small, jax.random.key(0)))
    assert np.isfinite(score).all()
    assert score.max() > 0
