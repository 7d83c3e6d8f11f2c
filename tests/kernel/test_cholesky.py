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


def problems(dtype=np.float64):
    """Matrices [P, P, B] with junk above the diagonal, which is not to be read; right sides."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(B, P, P + 2))
    matrices = a @ a.transpose(0, 2, 1)
    junk = np.where(np.triu(np.ones((P, P)), 1) > 0, np.nan, matrices)
    right = rng.normal(size=(B, P))
    return (
        matrices,
        right,
        jnp.asarray(np.moveaxis(junk, 0, -1), dtype),
        jnp.asarray(right.T, dtype),
    )


def test_solve_equals_numpy(path, x64):
    matrices, right, last, right_last = problems()
    x, half = jax.jit(cholesky.solve)(last, right_last)
    expected = np.linalg.solve(matrices, right[..., None])[..., 0]
    assert_allclose(x.T, expected, rtol=1e-9)
    assert_allclose((half**2).sum(0), (right * expected).sum(1), rtol=1e-9)


def test_factors_equal_numpy(path, x64):
    matrices, _, last, _ = problems()
    factor, inverse = (np.moveaxis(f, -1, 0) for f in jax.jit(cholesky.factor)(last))
    expected = np.linalg.cholesky(matrices)
    assert_allclose(factor, expected, atol=1e-12)
    assert_allclose(inverse, np.linalg.inv(expected), atol=1e-10)


def test_a_matrix_that_is_not_positive_definite_spoils_its_own_problem_only(path, x64):
    _, _, last, right = problems()
    spoiled = last.at[2, 2, 3].set(-1.0)
    x, half = jax.jit(cholesky.solve)(spoiled, right)
    factor, inverse = jax.jit(cholesky.factor)(spoiled)
    bad = np.array([False, False, False, True, False])
    for found in (x, half, factor, inverse):
        found = np.asarray(found).reshape(-1, B)
        np.testing.assert_array_equal(~np.isfinite(found).all(0), bad)


def test_one_problem_goes_to_the_library():
    _, _, last, right = problems(np.float32)

    def primitives(b):
        return str(jax.make_jaxpr(cholesky.solve)(last[..., :b], right[..., :b]))

    assert "triangular_solve" in primitives(1)
    assert "triangular_solve" not in primitives(2)
