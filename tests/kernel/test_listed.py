"""One problem's rows in NumPy: the fits of the kernel, to rounding, and what they leave open."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.problems import random_rows

from jbt import identifiability
from jbt.kernel import fit
from jbt.kernel.listed import Listed
from jbt.types import Design, Prior, Status, Variant

M, D, R = 6, 2, 300


def drawn(seed, scale=1.0, decided=False):
    """Rows of six contents, the last never shown."""
    return random_rows(seed, M - 1, R, scale=scale, decided=decided)


def design_of(rows):
    """The kernel's design and variant."""
    mask = jnp.arange(M) < M - 1
    return Design(jnp.zeros((M, D)), None, mask, M), Variant(jnp.ones(D, bool), jnp.array(True))


@jax.jit
def kernels(rows, prior):
    design, variant = design_of(rows)
    found = fit.fit_map(rows, design, prior, variant)
    return found.parameters.flat(), found.status


@pytest.mark.parametrize(
    ("scale", "lam", "decided"), [(1, 1, False), (1, 1e-3, True), (9, 1e-3, False), (0, 0.1, True)]
)
def test_the_posterior_is_largest_where_the_kernel_finds_it(scale, lam, decided, x64):
    rows = drawn(0, scale, decided)
    expected, status = kernels(rows, Prior(lam, lam))
    assert status == Status.CONVERGED
    listed, free = Listed.of(rows, M), np.ones(M + D + 1, bool)
    for start in (None, np.r_[9.0, -9, 9, -9, 9, -9, 0, 0, 3]):
        top = listed.top(free, np.full(len(free), float(lam)), start)
        assert top.status == Status.CONVERGED
        np.testing.assert_allclose(top.beta, expected, rtol=0, atol=1e-12 * (1 + 9 / lam**0.5))
        np.testing.assert_allclose(top.logits, listed.logits(top.beta), atol=1e-9)


def test_the_supremum_is_that_of_the_kernel(x64):
    for decided, count in ((False, 0), (True, 1)):
        rows = drawn(3, decided=decided)
        free = np.ones(M + D + 1, bool)
        top = Listed.of(rows, M).top(free)
        expected = fit.fit_supremum(rows, *design_of(rows))
        assert top.status == expected.status == Status.CONVERGED
        likelihood = top.rows.log_likelihood(top.logits)
        assert likelihood == pytest.approx(-float(expected.objective), abs=1e-9)
        directions = identifiability.undetermined(top, free)
        assert len(directions) == count
        if decided:  # the first content leaves all others behind
            apart = directions[0] - directions[0][1]
            assert abs(apart[0]) > 0.5
            np.testing.assert_allclose(apart[1 : M - 1], 0, atol=1e-6)
