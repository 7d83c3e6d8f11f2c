import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import problems
from support.problems import D, M

from jbt.kernel import model
from jbt.types import Comparisons, Design, Parameters, Prior

log_likelihood, score_alone = jax.jit(model.log_likelihood), jax.jit(model.score)
score_and_information = jax.jit(model.score_and_information)


@jax.jit
def automatic(beta, design, comparisons):
    def of_flat(beta):
        return model.log_likelihood(Parameters.unflat(beta, M), design, comparisons)

    return jax.grad(of_flat)(beta), jax.hessian(of_flat)(beta)


@pytest.mark.parametrize("shared", [False, True])
def test_derivatives_equal_automatic_ones_and_the_explicit_design_matrix(shared, x64):
    comparisons, design, _, _ = problems.padded(
        problems.random_problem(3, shared=shared), shared=shared
    )
    beta = np.random.default_rng(1).normal(size=M + D + 1)
    parameters = Parameters.unflat(jnp.asarray(beta), M)
    gradient, hessian = automatic(beta, design, comparisons)
    score, information = score_and_information(parameters, design, comparisons)
    np.testing.assert_allclose(score, gradient, atol=1e-11)
    np.testing.assert_allclose(score_alone(parameters, design, comparisons), score, atol=1e-13)
    np.testing.assert_allclose(information, -hessian, atol=1e-11)
    z = problems.design_vectors(design).reshape(-1, M + D + 1)
    shown, wins = np.asarray(comparisons.shown).ravel(), np.asarray(comparisons.wins).ravel()
    p = 1 / (1 + np.exp(-z @ beta))
    np.testing.assert_allclose(score, z.T @ (wins - shown * p), atol=1e-11)
    np.testing.assert_allclose(information, (z.T * (shown * p * (1 - p))) @ z, atol=1e-11)


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
