import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jbt import quick_compilation


@pytest.fixture
def asked(monkeypatch):
    """Grows with each program that is compiled quickly."""
    calls, options = [], quick_compilation.options()

    def recorded():
        calls.append(options)
        return options

    monkeypatch.setattr(quick_compilation, "options", recorded)
    return calls


def test_few_numbers_are_compiled_quickly_and_many_are_not(asked, monkeypatch):
    monkeypatch.setattr(quick_compilation, "FEW", 10)
    f = quick_compilation.jit(lambda x, y: {"sum": (x * y["y"]).sum()})
    assert f(np.ones(6), {"y": np.ones(6)})["sum"] == 6
    assert not asked
    assert f(np.ones(5), {"y": 2.0})["sum"] == 10
    assert len(asked) == 1
    f(np.ones(4), {"y": 2.0})
    assert len(asked) == 1  # the options are looked up once


def test_within_another_program_its_options_hold_and_constants_are_no_sign(asked):
    f, three = quick_compilation.jit(lambda x, k: x * k, static_argnames="k"), np.full(4, 3)
    assert_array_equal(jax.jit(jax.vmap(lambda x: f(x, k=3)))(jnp.arange(4)), 3 * np.arange(4))
    assert_array_equal(jax.jit(lambda y: f(three, k=2) + y)(three), 3 * three)
    assert not asked


def test_programs_are_forgotten():
    runs = []
    f = quick_compilation.jit(lambda x: runs.append(1) or x)
    for _ in range(2):
        f(1.0)
    assert len(runs) == 1
    f.clear_cache()
    f(1.0)
    assert len(runs) == 2


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


def test_another_device_has_no_options(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert quick_compilation.options.__wrapped__() is None
