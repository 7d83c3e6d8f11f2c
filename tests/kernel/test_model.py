import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_expit
from support import panels, problems
from support.problems import D, M

from jbt.kernel import model
from jbt.types import Comparisons, Design, Parameters


@jax.jit
def products(at, design, verdicts):
    """Score and information, the score alone, the likelihood, the information at even odds."""
    return (
        *model.score_and_information(at, design, verdicts),
        model.score(at, design, verdicts),
        model.log_likelihood(at, design, verdicts),
        model.information_at_even_odds(verdicts, design),
    )


@pytest.mark.parametrize(
    ("kind", "q"),
    [
        (problems, problems.random_problem(3, shared=True)),
        (panels, panels.random_panel(3, shared=True, mixed=True)),
    ],
)
def test_products_are_those_of_the_explicit_design_matrix(kind, q, x64):
    verdicts, design, *_ = kind.padded(q)
    z, (shown, wins), own = q.design_matrix(), q.counts(), kind.places(q)
    n_judges = len(q.sharing)
    full, beta = np.zeros(M + (D + 1) * n_judges), np.random.default_rng(1).normal(size=len(own))
    full[own] = beta
    at = Parameters.unflat(jnp.asarray(full), M, *[n_judges] * (kind is panels))
    score, information, alone, likelihood, even = products(at, design, verdicts)
    logit, p = z @ beta, expit(z @ beta)
    assert_allclose(score[own], z.T @ (wins - shown * p), atol=1e-11)
    assert_allclose(alone, score, atol=1e-12)
    explicit = (z.T * (shown * p * (1 - p))) @ z
    assert_allclose(information[np.ix_(own, own)], explicit, atol=1e-11)
    expected = wins @ log_expit(logit) + (shown - wins) @ log_expit(-logit)
    assert_allclose(likelihood, expected, rtol=1e-13)
    assert_allclose(even[np.ix_(own, own)], (z.T * shown / 4) @ z, atol=1e-12)


@pytest.mark.parametrize("farthest", [29.9, 30.1, 500.0])
@pytest.mark.parametrize("count", [1.0, 1e6])
def test_both_forms_hold_for_many_verdicts_far_out(count, farthest):
    """Near the logit at which the exponentials of pairs take over, against p by SciPy."""
    rng = np.random.default_rng(2)
    phi = np.r_[-farthest, rng.uniform(-farthest, farthest, 3), farthest, farthest - 0.5]
    phi = phi.astype(np.float32)
    shown = count * (1 - np.eye(6))
    wins = np.floor(shown * rng.random((6, 6)))
    z = phi[:, None].astype(float) - phi
    likelihood = (wins * log_expit(z) + (shown - wins) * log_expit(-z)).sum()
    expected = wins * expit(-z) - (shown - wins) * expit(z), shown * expit(z) * expit(-z)
    design = Design(jnp.zeros((6, 0)), None, jnp.ones(6, bool), 6)
    at = Parameters(jnp.asarray(phi), jnp.zeros(0), jnp.array(0.0))
    verdicts = Comparisons(*(jnp.asarray(v, jnp.float32) for v in (shown, wins)))
    found = jax.jit(model._residual_and_weight)(at, design, verdicts)
    total = jax.jit(model.log_likelihood)(at, design, verdicts)
    assert_allclose(total, likelihood, rtol=5e-5)
    for values, exact in zip(found, expected, strict=True):
        assert_allclose(values, exact, rtol=5e-5, atol=1e-5 * count)
