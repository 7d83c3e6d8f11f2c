"""Bias coefficients of several judges of the same items, estimated without a prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from scipy.special import expit
from support.panels import J

from jbt import identifiability
from jbt.types import Comparisons, Design, Panel, Status, Variant

jitted = jax.jit(identifiability.estimate_bias)


@pytest.mark.heavy
def test_a_difference_is_identified_without_anything_known(x64):
    """It equals one coefficient where the other is 0, each in its judge's units."""
    rng = default_rng(5)
    n, s = 8, np.array([1.0, 2.0, 0.7])
    x, theta = rng.normal(size=(n, 2)), rng.normal(size=n)
    full, wins = 1 - np.eye(n), []
    for g in range(J):
        phi = s[g] * theta + x @ rng.normal(size=2)
        wins.append(rng.binomial(20, expit(phi[:, None] - phi)) * full)
    panel = Panel.build([Comparisons.build(20 * full, won) for won in wins], discrimination=s)
    design, free = Design.build(x), Variant(jnp.ones((2, J), bool), jnp.ones(J, bool))
    held = Variant(free.c.at[:, 0].set(False), free.kappa)

    def estimate(panel, variant):
        return jax.device_get(jitted(panel, design, variant=variant, covariate=1, judge=1))

    difference = estimate(identifiability.difference(panel, 1, 0), free)
    alone = estimate(panel, held)
    assert difference.status == alone.status == Status.CONVERGED
    assert estimate(panel, free).status == Status.FLAT
    for name in ("c", "low", "high", "wald_low", "curvature"):
        assert getattr(difference, name) == pytest.approx(getattr(alone, name), abs=1e-6)
