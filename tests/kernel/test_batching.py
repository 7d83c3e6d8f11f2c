import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_array_equal

from jbt.kernel import batching
from jbt.kernel.batching import batch_last


def test_nested_vmaps_become_one_last_axis():
    shapes, rng = [], np.random.default_rng(0)

    @batch_last
    def product(matrix, vector):
        shapes.append((matrix.shape, vector.shape))
        return (matrix * vector).sum(1)

    matrix, vector = rng.normal(size=(2, 5, 3, 4)), rng.normal(size=(4, 5))
    nested = jax.vmap(jax.vmap(product, (0, 1)), (0, None))
    expected = np.einsum("abij,jb->abi", matrix, vector)
    np.testing.assert_allclose(jax.jit(nested)(matrix, vector), expected, rtol=2e-5, atol=1e-6)
    assert shapes[-1] == ((3, 4, 10), (4, 10))
    # What all problems share is not copied.
    found = jax.vmap(product, (0, None))(matrix[0], vector[:, 0])
    np.testing.assert_allclose(found, matrix[0] @ vector[:, 0], rtol=2e-5, atol=1e-6)
    assert shapes[-1] == ((3, 4, 5), (4, 1))


def test_what_all_problems_share_and_what_is_no_array_of_floats():
    total_and_double = batch_last(lambda x, y: (x.sum(0), y * 2))
    x, y = np.arange(3.0), np.arange(4.0)
    total, double = jax.vmap(total_and_double, in_axes=(None, 0))(x, y)
    assert_array_equal(total, np.full(4, 3.0))
    assert_array_equal(double, 2 * y)
    added = batch_last(lambda x, nothing, i: x[0] + i)
    out = jax.vmap(added, in_axes=(0, None, 0))(jnp.ones((3, 2)), None, jnp.arange(3))
    assert_array_equal(out, [1, 2, 3])


def test_groups_on_a_cpu_are_one_batch(monkeypatch):
    monkeypatch.setattr(batching, "CPU_PROBLEMS", 4)
    sizes = []

    def scaled(rows, scale, empty):
        sizes.append(rows.shape[-1])
        return {"y": rows * scale, "n": empty.sum(0), "shared": scale}

    function = jax.vmap(batching.batch_last(scaled), in_axes=(0, None, 0))
    rows, empty = np.arange(33.0).reshape(11, 3), np.zeros((11, 0))
    out = jax.jit(function)(rows, 2.0, empty)
    assert_array_equal(out["y"], 2 * rows)
    assert_array_equal(out["n"], np.zeros(11))
    assert_array_equal(out["shared"], np.full(11, 2.0))
    assert 4 in sizes
