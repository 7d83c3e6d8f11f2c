import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_expit

from jbt.kernel import model
from jbt.types import Comparisons, Design, Parameters


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
