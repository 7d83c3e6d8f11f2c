"""Estimators for a bias that varies with quality: against SciPy, differences, and truth."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from jbt import estimators
from jbt.estimators.interaction_fit import fit_interaction
from jbt.estimators.near_the_top import local
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Judge, Prior, Status

pytestmark = pytest.mark.heavy

bias_aware = jax.jit(estimators.bias_aware)
fit = jax.jit(fit_interaction)  # compiled once for each size
local_fit = jax.jit(local, static_argnames="near")
PRIOR = Prior(1.0, 0.1)
BIAS, POSITION, INTERACTION = 1.0, 0.3, 0.4


def judged(seed, n_contents=8, *, paired=True, rho=0.5, every=3):
    """Contents in two renderings, or items alone; every ordered pair shown `every` times."""
    key = jax.random.key(seed)
    options = {"sd": 1.2, "rho": rho}
    if paired:
        options |= {"n_twice": n_contents, "spread": 1.0}
    draw = pools.paired if paired else pools.gaussian
    pool = draw(stream(key, "pool"), n_contents, **options)
    judge = Judge.of(BIAS, POSITION, interaction=INTERACTION)
    probability = judges.verdict_probability(pool, judge)
    shown = every * pairs.every_pair(pool)
    return pool, judges.fresh_comparisons(stream(key, "verdicts"), probability, shown)


def naive_logits(beta, pool):
    """Written out for every ordered pair."""
    d = pool.design
    m = d.n_contents
    content = np.arange(m) if d.content is None else d.content
    c, kappa, gamma = beta[m:]
    quality = (beta[:m] - beta[:m].mean())[content]
    phi = quality + (c + gamma * quality) * d.covariates[:, 0]
    return phi[:, None] - phi + kappa


def naive_objective(beta, pool, comparisons, prior):
    z, m = naive_logits(beta, pool), pool.design.n_contents
    penalty = prior.lam / 2 * beta[:m] @ beta[:m] + prior.lam_b / 2 * beta[m:] @ beta[m:]
    return penalty - (comparisons.wins * z - comparisons.shown * jnp.logaddexp(0, z)).sum()


@pytest.mark.parametrize("paired", [True, False])
def test_the_optimum_is_that_of_scipy(paired, x64):
    pool, comparisons = judged(0, paired=paired)
    found = fit(comparisons, pool.design, PRIOR)
    ours = np.concatenate([found.fit.parameters.flat(), found.interaction])
    # From the bias-aware fit: on these pools both searches end at the same optimum.
    start = bias_aware(comparisons, pool.design, PRIOR).parameters.flat()
    objective = jax.jit(lambda beta: naive_objective(beta, pool, comparisons, PRIOR))
    scipy = minimize(
        objective, np.append(start, 0), jac=jax.jit(jax.grad(objective)), options={"gtol": 1e-7}
    )
    assert_allclose(found.fit.objective, scipy.fun, rtol=1e-9)
    assert_allclose(ours, scipy.x, atol=2e-5)
    m = pool.design.n_contents
    assert_allclose(ours[:m].mean(), 0, atol=1e-9)


def test_gamma_is_identified_from_renderings_of_unlike_quality_alone(x64):
    """As the rank of all logits in all parameters at the optimum says, by singular values."""

    cases = [
        (judged(3, n_contents=5), 1),  # the constant of theta
        (judged(3, n_contents=5, paired=False), 3),  # c and gamma beside it
    ]
    for (pool, comparisons), expected in cases:
        found = fit(comparisons, pool.design, PRIOR)
        beta = jnp.concatenate([found.fit.parameters.flat(), found.interaction])

        def logits(b, pool=pool):
            return naive_logits(b, pool).ravel()

        values = np.linalg.svd(np.asarray(jax.jit(jax.jacobian(logits))(beta)), compute_uv=False)
        nullity = (values < 1e-9 * values[0]).sum() + max(0, len(beta) - len(values))
        assert nullity == expected
        assert (found.fit.status == Status.CONVERGED) == (nullity == 1)


def test_what_is_not_finite_has_a_status(x64):
    pool, comparisons = judged(6, n_contents=6, paired=False)
    bad = dataclasses.replace(pool.design, covariates=pool.design.covariates.at[0].set(jnp.nan))
    assert fit(comparisons, bad, PRIOR).fit.status == Status.NOT_FINITE


def test_the_local_fit_is_that_of_the_best_contents_alone(x64):
    pool, comparisons = judged(8, n_contents=12, paired=False)
    design = pool.design
    first = np.asarray(bias_aware(comparisons, design, PRIOR).parameters.theta)
    again = local_fit(comparisons, design, PRIOR, near=6)
    best = np.sort(np.argsort(-first)[:6])
    alone = Comparisons(*(v[best][:, best] for v in (comparisons.shown, comparisons.wins)))
    part = Design(design.covariates[best], None, jnp.ones(6, bool), 6)
    expected = bias_aware(alone, part, PRIOR).parameters
    theta = np.asarray(again.parameters.theta)
    assert_allclose(theta[best], expected.theta, atol=1e-7)
    assert_allclose(again.parameters.c, expected.c, atol=1e-7)
    others = np.setdiff1d(np.arange(12), best)
    assert theta[others].max() < theta[best].min()
    assert (np.argsort(theta[others]) == np.argsort(first[others])).all()
