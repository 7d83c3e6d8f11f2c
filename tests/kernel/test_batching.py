import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jbt.kernel import batching
from jbt.kernel.batching import batch_last


def recorded():
    """A function with the batch last, the shapes it was given, and its twin of one problem."""
    shapes = []

    def product(matrix, vector, scale):
        shapes.append((matrix.shape, vector.shape, scale.shape))
        return {"y": (matrix * vector).sum(1) * scale, "n": (vector**2).sum(0)}

    def twin(matrix, vector, scale):
        return {"y": matrix @ vector * scale, "n": vector @ vector}

    return batch_last(product), shapes, twin


def arguments(*leading):
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(*leading[0], 3, 4)),
        rng.normal(size=(*leading[1], 4)),
        rng.normal(size=leading[2]),
    )


@pytest.mark.parametrize(
    ("axes", "leading"),
    [
        (((0, None, None),), ((5,), (), ())),  # what all problems share is not copied
        (((1, -1, None), (None, None, 0)), ((5,), (5,), (2,))),  # axes elsewhere than in front
        (((0, 0, 0), (0, None, 0), (None, 0, None)), ((5, 2), (5, 6), (5, 2))),
    ],
)
def test_nested_vmaps_become_one_last_axis(axes, leading):
    function, shapes, twin = recorded()
    given = list(arguments(*leading))
    if axes[0][0] == 1:
        given[:2] = np.moveaxis(given[0], 0, 1), given[1].T
    expected = twin
    for a in reversed(axes):
        function, expected = (jax.vmap(f, in_axes=a) for f in (function, expected))
    out, wanted = jax.jit(function)(*given), expected(*given)
    for name, value in wanted.items():
        np.testing.assert_allclose(out[name], value, rtol=2e-5, atol=1e-6)
    shared = [all(a[i] is None for a in axes) for i in range(3)]
    assert [shape[-1] for shape in shapes[-1]] == [1 if s else out["y"].size // 3 for s in shared]


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
