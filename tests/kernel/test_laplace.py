"""The Laplace posterior against dense inverses and closed forms."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import problems
from support.problems import D, M

from jbt import runtime
from jbt.kernel import fit, laplace


@pytest.mark.parametrize("shared", [False, True])
def test_covariance_is_the_inverse_of_the_dense_hessian(shared):
    each = [problems.random_problem(s, shared=shared, lam_range=(-1, 1)) for s in range(60)]
    with runtime.precision("float64"):

        def covariance(c, d, prior, v):
            mode = fit.fit_map(c, d, prior, v).parameters
            return laplace.laplace(mode, c, d, prior, v).covariance()

        batch = problems.as_batch(each, shared=shared, dtype="float64")
        covariances = jax.jit(jax.vmap(covariance))(*batch)
    for q, found in zip(each, np.asarray(covariances), strict=True):
        expected, at = np.zeros((M + D + 1,) * 2), problems.places(q)[q.free()]
        expected[np.ix_(at, at)] = np.linalg.inv(problems.reference(q)[1])
        assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())
