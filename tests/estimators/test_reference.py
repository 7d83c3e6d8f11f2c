"""Which pairs a reference is shown, and the joint fit with a cheap judge."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support import panels, problems
from support.panels import J

from jbt.estimators import reference
from jbt.types import Design, Pool, Status

N, K = 12, 3

# Compiled once, as each operation would be otherwise.
joint_each, correlated_each = (
    jax.jit(jax.vmap(estimate)) for estimate in (reference.joint, reference.correlated)
)


def rankings(naive, aware, content=None, mask=None):
    m = len(naive)
    content = np.arange(m) if content is None else np.asarray(content)
    design = Design.build(np.zeros((len(content), 1)), content, mask, m)
    pool = Pool(jnp.zeros(m), design)
    return reference.Rankings(pool, jnp.asarray(naive, float), jnp.asarray(aware, float), K)


def test_boundary_is_the_places_around_it_by_either_ranking():
    naive, aware = -np.arange(N), -np.roll(np.arange(N), 1)  # aware: item 1 best, ..., item 0 last
    allowed = np.asarray(reference.boundary(rankings(naive, aware)))
    # Boundary after place 3; three places on either side: naive items 0..5, aware items 1..6.
    near = np.isin(np.arange(N), range(7))
    assert (allowed == (near[:, None] & near & ~np.eye(N, dtype=bool))).all()


def test_disputed_pairs_are_ordered_differently():
    naive, aware = np.array([3.0, 2, 1, 0]), np.array([3.0, 1, 2, 2])
    allowed = np.asarray(reference.disputed(rankings(naive, aware)))
    want = np.zeros((4, 4))
    for i, j in ((1, 2), (1, 3)):  # 2 and 3 are tied in one ranking
        want[i, j] = want[j, i] = 1
    assert (allowed == want).all()
    assert not np.asarray(reference.disputed(rankings(naive, 2 * naive))).any()


def test_neither_padding_nor_renderings_of_one_content_are_shown():
    content, mask = [0, 1, 2, 3, 0, 1], [True] * 5 + [False]
    r = rankings([3.0, 2, 1, 0], [0.0, 1, 2, 3], content, mask)
    for place in reference.PLACEMENTS.values():
        allowed = np.asarray(place(r))
        assert not allowed[5].any()
        assert not allowed[:, 5].any()
        assert allowed[0, 4] == allowed[4, 0] == 0
        assert allowed[0, 1] == allowed[1, 0] == 1
        assert_array_equal(allowed, allowed.T)


def test_asked_pairs_are_nested_and_none_twice():
    allowed = jnp.ones((N, N)) - jnp.eye(N)
    key = jax.random.key(0)
    each = [np.asarray(reference.asked(jax.random.clone(key), allowed, n)) for n in (0, 5, 30, 500)]
    assert [v.sum() for v in each] == [0, 5, 30, N * (N - 1)]
    for few, many in itertools.pairwise(each):
        assert (few <= many).all()
    assert all(v.max(initial=0) <= 1 for v in each)


def written_out(q):
    """theta = x b + residual, on the explicit design matrix: the optimum in terms of quality and
    biases [m + (d + 1) J], and the covariance of both."""
    n, d = q.items.n, q.items.d
    x = q.items.x[:n, :d] - q.items.x[:n, :d].mean(0)
    z = q.design_matrix()
    z = np.c_[z, z[:, :n] @ x]
    of_b = q.items.lam * x.var(0)
    of_reference = n + np.arange(d + 1) * J + J - 1
    free = ~np.isin(np.arange(z.shape[1]), of_reference)
    precision = np.r_[q.precision(), of_b]
    (shown, wins), none = q.counts(), np.zeros(len(free))
    beta, hessian, _ = problems.minimum(z, shown, wins, precision, free, none)
    read = np.eye(len(free) - d, len(free))
    read[:n, len(free) - d :] = x
    return read @ beta, read[:, free] @ np.linalg.inv(hessian) @ read[:, free].T


@pytest.mark.heavy
def test_correlated_quality_is_the_model_written_out(x64):
    """Two cheap judges and a reference, up to three covariates, pools smaller than their shape. So
    is the joint fit, in which quality does not go with the covariates."""
    qs = [panels.random_panel(seed, shared=False) for seed in range(12)]
    assert {q.items.d for q in qs} == set(range(panels.D + 1))
    assert {q.items.n < panels.N for q in qs} == {True, False}
    made, design, prior, _ = panels.as_batch(qs, shared=False, dtype="float64")
    fit, covariance = jax.device_get(correlated_each(made, design, prior))
    assert (fit.status == Status.CONVERGED).all()
    betas = problems.flat(fit.parameters)
    of_joint = problems.flat(joint_each(made, design, prior).parameters)
    for i, q in enumerate(qs):
        exact, spread = written_out(q)
        at, expected = panels.places(q), np.zeros(panels.M + (panels.D + 1) * J)
        expected[at] = exact  # 0 for padding
        assert_allclose(betas[i], expected, atol=1e-8)
        free = np.ones((q.items.d + 1, J), bool) & (np.arange(J) < J - 1)
        expected[at], *_ = problems.reference(dataclasses.replace(q, free_biases=free))
        assert_allclose(of_joint[i], expected, atol=1e-8)
        scale = np.abs(spread).max()
        assert_allclose(covariance[i][np.ix_(at, at)], spread, atol=1e-8 * scale)
