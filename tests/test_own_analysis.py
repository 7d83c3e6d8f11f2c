"""Fits of a user's tables, as a notebook asks for them."""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from example_tables import VERDICTS

from jbt import own, runtime, theory
from jbt.types import Prior, Status


@pytest.fixture
def batch(tables):
    return own.load(*tables(), ["words", "lists"])


def test_each_pool_and_judge_is_fitted(batch):
    """Eq. 3 holds at every MAP, padded or not; statuses say where there is nothing to learn."""
    fits = {(f.pool, f.judge): f for f in own.fit(batch)}
    assert [(p.pool, p.judge) for p in batch.pools] == list(fits)
    assert fits["p", "a"].status == Status.CONVERGED
    assert fits["q", "a"].status == Status.COVARIATE_CONSTANT
    assert fits["r", "a"].status == Status.NO_VERDICTS
    assert fits["r", "a"].top_k_differs is None
    assert [f.usable for f in fits.values()] == [True, True, True, False, False, False]
    for at, f in enumerate(fits.values()):
        x = np.asarray(batch.groups[0].design.covariates)[at, : len(f.items)]
        assert f.theta.dtype == x.dtype == np.float64
        np.testing.assert_allclose(f.phi, f.theta + x @ f.c, atol=1e-12)
        with runtime.precision("float64"):
            expected = theory.map_bias(jnp.asarray(f.phi), jnp.asarray(x), 1.0, 0.1)
        np.testing.assert_allclose(f.c, expected, atol=1e-8)
        assert f.grad_norm < 1e-8


def test_swapping_first_and_second_turns_kappa(batch, tables):
    other = {"first": "second", "second": "first"}
    turned = re.sub("first|second", lambda side: other[side[0]], VERDICTS)
    swapped = own.load(*tables(turned), ["words", "lists"])
    for before, after in zip(own.fit(batch), own.fit(swapped), strict=True):
        assert before.kappa == pytest.approx(-after.kappa, abs=1e-10, nan_ok=True)
        np.testing.assert_allclose(before.theta, after.theta, atol=1e-10)
    assert own.fit(batch)[0].kappa > 0.1


def test_the_prior_reaches_the_fit(batch):
    weak, strong = own.fit(batch)[0], own.fit(batch, prior=Prior(1.0, 1e6))[0]
    assert abs(weak.kappa) > 1e-3 > abs(strong.kappa)
    np.testing.assert_allclose(strong.theta, strong.theta_naive, atol=1e-4)


def test_a_record_is_what_json_takes(batch):
    record = own.fit(batch)[0].record()
    assert record["items"] == ["x", "y", "z"]
    assert record["status"] == "converged"
    assert record["prior_selected"] == ["theta", "c"]
    assert [type(v) for v in record["theta"]] == [float] * 3
    broken = dataclasses.replace(own.fit(batch)[0], kappa=np.nan, theta=np.array([np.nan, 1.0]))
    assert broken.record()["kappa"] is None
    assert broken.record()["theta"] == [None, 1.0]


def test_k_must_leave_something_out(batch):
    with pytest.raises(ValueError, match=r"k must lie in 1..1 \(pool 'q' has 2 contents\), got 2"):
        own.fit(batch, k=2)


def test_pools_of_one_content_have_nothing_to_rank(tables):
    items = "pool,item,content\np,x,A\np,y,A\n"
    with pytest.raises(ValueError, match="nothing to rank"):
        own.fit(own.load(*tables("pool,first,second,winner\np,x,y,first\n", items)))
