import jax
import jax.numpy as jnp
import numpy as np

from jbt import quick_compilation


def test_results_are_the_same_up_to_rounding():
    x = np.random.default_rng(0).normal(size=(40, 6, 6))

    def solve(x):
        return jnp.linalg.inv(jnp.exp(-jnp.abs(x)) + 6 * jnp.eye(6)).sum(1)

    quick = quick_compilation.jit(solve)(x)
    np.testing.assert_allclose(quick, jax.jit(solve)(x), rtol=1e-5, atol=1e-6)


def test_an_option_that_jaxlib_does_not_have_is_left_out(monkeypatch):
    both = quick_compilation._LEVEL_AND_FUSIONS, quick_compilation._LEVEL
    assert quick_compilation.options() in both  # jaxlib 0.9 has both
    unknown = {**quick_compilation._LEVEL, "xla_there_is_no_such_option": False}
    monkeypatch.setattr(quick_compilation, "_LEVEL_AND_FUSIONS", unknown)
    assert quick_compilation.options.__wrapped__() == quick_compilation._LEVEL
    monkeypatch.setattr(quick_compilation, "_LEVEL", unknown)
    assert quick_compilation.options.__wrapped__() is None
