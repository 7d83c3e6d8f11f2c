import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jbt.kernel import cholesky

P, B = 6, 5


@pytest.fixture(params=["unrolled", "library"])
def path(request, monkeypatch):
    """Both ways to factorise."""
    if request.param == "library":
        monkeypatch.setattr(cholesky, "UNROLLED", 0)
    return request.param


def test_solutions_and_factors_are_numpys(path, x64):
    """Of matrices with junk above the diagonal, which is not to be read."""
    rng = np.random.default_rng(0)
    a, right = rng.normal(size=(B, P, P + 2)), rng.normal(size=(B, P))
    matrices = a @ a.transpose(0, 2, 1)
    junk = np.where(np.triu(np.ones((P, P)), 1) > 0, np.nan, matrices)
    last = jnp.asarray(np.moveaxis(junk, 0, -1))
    x, half = jax.jit(cholesky.solve)(last, jnp.asarray(right.T))
    expected = np.linalg.solve(matrices, right[..., None])[..., 0]
    assert_allclose(x.T, expected, rtol=1e-9)
    assert_allclose((half**2).sum(0), (right * expected).sum(1), rtol=1e-9)
    factor, inverse = (np.moveaxis(f, -1, 0) for f in jax.jit(cholesky.factor)(last))
    expected = np.linalg.cholesky(matrices)
    assert_allclose(factor, expected, atol=1e-12)
    assert_allclose(inverse, np.linalg.inv(expected), atol=1e-10)
