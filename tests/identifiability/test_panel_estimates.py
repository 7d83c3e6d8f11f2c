"""Bias coefficients of several judges of the same items, estimated without a prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from scipy.special import expit
from support import marks
from support.panels import J, made

from jbt import identifiability
from jbt.types import Comparisons, Design, Panel, Parameters, Status, Variant

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

    def estimate(panel, variant, start=0.0):
        known = Parameters(jnp.zeros(n), jnp.full((2, J), start), jnp.full(J, start))
        which = {"covariate": 1, "judge": 1}
        return jax.device_get(jitted(panel, design, variant=variant, start=known, **which))

    difference = estimate(identifiability.difference(panel, 1, 0), free)
    alone = estimate(panel, held)
    assert difference.status == alone.status == Status.CONVERGED
    assert estimate(panel, free).status == Status.FLAT
    for name in ("c", "low", "high", "wald_low", "curvature"):
        assert getattr(difference, name) == pytest.approx(getattr(alone, name), abs=1e-6)
    with_half = estimate(panel, held, start=0.5)
    assert with_half.c == pytest.approx(difference.c + 2 * 0.5, abs=1e-6)
    assert difference.c < 0.5 < 1  # a difference, not a coefficient


# --- coverage

TRUE_C = 1.5


def simulated(n_pools, *, n_items, n_reference, repeats):
    """(x, shown, wins) of pools in which a cheap judge answered every ordered pair `repeats` times,
    and a reference without bias, of twice its discrimination, `n_reference` drawn at random."""
    rng = default_rng(0)
    theta, x = 1.2 * rng.normal(size=(n_pools, n_items)), rng.normal(size=(n_pools, n_items))
    every = 1 - np.eye(n_items, dtype=int)
    asked = rng.multinomial(n_reference, every.ravel() / every.sum(), n_pools)
    asked = asked.reshape(-1, n_items, n_items)
    shown = np.stack([np.broadcast_to(repeats * every, asked.shape), asked], -1)
    phi = theta[..., None] * [1, 2] + x[..., None] * [TRUE_C, 0]
    wins = rng.binomial(shown, expit(phi[:, :, None] - phi[:, None] + [0.35, 0]))
    return x, shown * 1.0, wins * 1.0


def coverage(found):
    """Coverage of the profile and Wald intervals, and its distance from 95 % in standard errors."""
    exists = found.status == Status.CONVERGED
    assert exists.mean() > 0.99
    ends = ((found.low, found.high), (found.wald_low, found.wald_high))
    often = np.array([((low < TRUE_C) & (high > TRUE_C))[exists].mean() for low, high in ends])
    return often, (often - 0.95) / np.sqrt(0.95 * 0.05 / exists.sum())


@jax.jit
@jax.vmap
def cheap_judge(x, shown, wins):
    panel = Panel(Comparisons(shown, wins), jnp.array([1.0, 2.0]), jnp.eye(2))
    design = Design(x[:, None], None, jnp.ones(len(x), bool), len(x))
    variant = Variant(jnp.array([[True, False]]), jnp.array([True, False]))
    return identifiability.estimate_bias(panel, design, variant=variant)


@pytest.mark.parametrize(
    ("n_items", "n_reference", "repeats", "least"),
    [
        marks.heavy(12, 30, 1, 0.89),
        marks.nightly(12, 30, 8, 0.94),
    ],
)
def test_coverage_by_the_number_of_verdicts(x64, n_items, n_reference, repeats, least):
    """The figures of the page on identifiability: about a parameter for each ten verdicts, as
    little as one verdict a pair gives, the maximum of the likelihood lies too far out."""
    pools = simulated(2000, n_items=n_items, n_reference=n_reference, repeats=repeats)
    often, errors = coverage(jax.device_get(cheap_judge(*map(jnp.asarray, pools))))
    assert (often > least - 3 * 0.0049).all()
    assert (errors < 3).all()


# --- bad input


@pytest.mark.heavy
def test_what_is_refused(x64):
    full, design = 1 - np.eye(4), Design.build(np.array([0.0, 1.0, 3.0, 3.0]))
    panel = made(full, full)
    for call, name in (
        (lambda: identifiability.estimate_bias(panel, design, judge=2), "judge"),
        (lambda: identifiability.difference(panel, 0, 2), "reference"),
    ):
        with pytest.raises(ValueError, match=f"{name} must lie in 0..1, got 2"):
            call()
