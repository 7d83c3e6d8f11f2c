import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import problems

from jbt.kernel import model
from jbt.types import Comparisons, Design, Parameters, Prior


@pytest.fixture(params=[False, True], ids=["unpaired", "shared"])
def setup(request, x64):
    q = problems.random_problem(3, shared=request.param)
    comparisons, design, _, _ = jax.tree.map(
        lambda v: v[0], problems.as_batch([q], shared=request.param, dtype="float64")
    )
    rng = np.random.default_rng(1)
    parameters = Parameters(
        jnp.asarray(rng.normal(size=problems.M)), jnp.asarray(rng.normal(size=3)), jnp.array(0.4)
    )
    return q, comparisons, design, parameters


def of_flat(beta, design, comparisons):
    return model.log_likelihood(Parameters.unflat(beta, problems.M), design, comparisons)


log_likelihood, score_alone = jax.jit(model.log_likelihood), jax.jit(model.score)
score_and_information = jax.jit(model.score_and_information)
automatic = jax.jit(jax.grad(of_flat)), jax.jit(jax.hessian(of_flat))


def test_derivatives_equal_automatic_ones(setup):
    _, comparisons, design, parameters = setup
    gradient, hessian = (f(parameters.flat(), design, comparisons) for f in automatic)
    score, information = score_and_information(parameters, design, comparisons)
    np.testing.assert_allclose(score, gradient, atol=1e-11)
    np.testing.assert_allclose(score_alone(parameters, design, comparisons), score, atol=1e-13)
    np.testing.assert_allclose(information, -hessian, atol=1e-11)


def test_score_and_information_equal_the_explicit_design_matrix(setup):
    _, comparisons, design, parameters = setup
    z = problems.design_vectors(design).reshape(-1, problems.M + 4)
    shown, wins = np.asarray(comparisons.shown).ravel(), np.asarray(comparisons.wins).ravel()
    p = 1 / (1 + np.exp(-z @ np.asarray(parameters.flat())))
    score, information = score_and_information(parameters, design, comparisons)
    np.testing.assert_allclose(score, z.T @ (wins - shown * p), atol=1e-11)
    np.testing.assert_allclose(information, (z.T * (shown * p * (1 - p))) @ z, atol=1e-11)


def test_likelihood_is_blind_to_the_flat_directions(setup):
    q, comparisons, design, parameters = setup
    value = log_likelihood(parameters, design, comparisons)
    constant = Parameters(parameters.theta + 3.7, parameters.c, parameters.kappa)
    assert abs(log_likelihood(constant, design, comparisons) - value) < 1e-9
    delta = jnp.array([1.3, -0.8, 2.1])
    if design.content is None:
        traded = Parameters(
            parameters.theta + design.covariates @ delta, parameters.c - delta, parameters.kappa
        )
        assert abs(log_likelihood(traded, design, comparisons) - value) < 1e-9
    else:  # shared content has no such direction: the best compensation leaves a difference
        assert q.m < q.n
        owner = np.asarray(design.ownership())[: q.n]
        best = np.linalg.lstsq(owner, np.asarray(design.covariates @ delta)[: q.n], rcond=None)[0]
        traded = Parameters(
            parameters.theta + jnp.asarray(best), parameters.c - delta, parameters.kappa
        )
        assert abs(log_likelihood(traded, design, comparisons) - value) > 1e-3


def test_extreme_logits_stay_finite():
    design = Design.build(np.zeros((2, 0)))
    comparisons = Comparisons.build([[0, 1], [1, 0]], [[0, 1], [0, 0]])
    parameters = Parameters(jnp.array([500.0, -500.0]), jnp.zeros(0), jnp.array(0.0))
    score, information = score_and_information(parameters, design, comparisons)
    assert jnp.isfinite(log_likelihood(parameters, design, comparisons))
    assert jnp.isfinite(score).all()
    assert jnp.isfinite(information).all()


def test_prior_and_variants(x64):
    design = Design.build(np.zeros((3, 2)))
    parameters = Parameters(jnp.array([1.0, 2.0, 0.0]), jnp.array([3.0, 0.0]), jnp.array(2.0))
    assert model.log_prior(parameters, Prior(2.0, 0.5)) == pytest.approx(-0.5 * (2 * 5 + 0.5 * 13))
    np.testing.assert_array_equal(
        model.prior_precision(design, Prior(2.0, 0.5)), [2, 2, 2, 0.5, 0.5, 0.5]
    )
    free = {n: model.free_mask(model.variant(n, design), design) for n in model.VARIANTS}
    assert [int(f.sum()) for f in free.values()] == [3, 5, 4, 6]
    with pytest.raises(ValueError, match="naive, covariates, position, bias_aware"):
        model.variant("biased", design)
