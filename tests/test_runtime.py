import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt import runtime


@pytest.mark.parametrize(("dtype", "rows"), [("float64", 16_385), ("float32", 32_769)])
def test_this_jax_computes_vmapped_matrix_vector_products(dtype, rows):
    """jax issue 39103: 0.10.2 gives wrong numbers here, silently."""
    with runtime.precision(dtype):
        i = jnp.arange(rows, dtype=dtype)
        x = jnp.stack([i, 0 * i, 0 * i], 1)
        f = jax.vmap(lambda row: ((jnp.eye(3, dtype=dtype) @ row) ** 2).sum())
        assert float(jax.jit(f)(x)[-1]) == float(rows - 1) ** 2


def test_precision_is_a_scope():
    before = jnp.zeros(1).dtype
    with runtime.precision("float64") as dtype:
        assert dtype == np.float64 == jnp.zeros(1).dtype
        with runtime.precision("float32"):
            assert jnp.zeros(1).dtype == jnp.float32
    assert jnp.zeros(1).dtype == before
    with pytest.raises(ValueError, match="float16"), runtime.precision("float16"):
        pass
