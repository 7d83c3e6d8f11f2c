import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt import pools, simulate

POOLS = 4000


def draw(covariate, rho, n=30, sd=1.2):
    def one(key):
        pool = pools.gaussian(key, n, sd=jnp.float32(sd), rho=jnp.float32(rho), covariate=covariate)
        return pool.quality, pool.design.covariates, pools.realised_correlation(pool)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), POOLS))


@pytest.mark.parametrize(
    ("covariate", "rho"),
    [("continuous", 0.0), ("continuous", -0.95), ("binary", 0.798), ("binary", 0.3)],
)
def test_moments(covariate, rho):
    quality, x, realised = (np.asarray(v, float) for v in draw(covariate, rho))
    n = quality.size
    assert abs(quality.mean()) < 4 * 1.2 / np.sqrt(n)
    assert abs(quality.std() - 1.2) < 4 * 1.2 / np.sqrt(2 * n)
    # A median split within the pool fixes its mean, which raises the correlation a little: 1/N.
    tolerance = 4 / np.sqrt(n) + (1 / 30 if covariate == "binary" else 0)
    assert abs(np.corrcoef(quality.ravel(), x.ravel())[0, 1] - rho) < tolerance
    assert realised.shape == (POOLS, 1)
    assert (
        abs(
            realised.mean()
            - np.mean([np.corrcoef(q, v[:, 0])[0, 1] for q, v in zip(quality, x, strict=True)])
        )
        < 1e-5
    )
    if covariate == "binary":
        assert set(np.unique(x)) == {0.0, 1.0}
        assert (x.sum((1, 2)) == 15).all()
    else:
        assert abs(x.std() - 1) < 4 / np.sqrt(2 * n)


def test_same_key_same_draws_whatever_the_condition(same_key_again):
    key = jax.random.key(0)
    a = pools.gaussian(key, 10, sd=1.0, rho=0.0)
    b = pools.gaussian(key, 10, sd=2.0, rho=0.9)
    np.testing.assert_allclose(b.quality, 2 * a.quality, rtol=1e-6)


def test_several_covariates_and_padding():
    mask = jnp.arange(9) < 7
    pool = pools.gaussian(
        jax.random.key(1), 9, rho=jnp.array([0.2, -0.5]), covariate="binary", item_mask=mask
    )
    x = np.asarray(pool.design.covariates)
    assert x.shape == (9, 2)
    assert (x[:7].sum(0) == 3).all()  # the upper half of 7, rounded down
    assert not x[7:].any()
    assert not pool.quality[7:].any()
    expected = [np.corrcoef(pool.quality[:7], x[:7, d])[0, 1] for d in range(2)]
    np.testing.assert_allclose(pools.realised_correlation(pool), expected, atol=1e-6)


def test_bad_input():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=r"0\.798.*median split.*0\.8"):
        pools.gaussian(key, 5, rho=0.8, covariate="binary")
    traced = jax.jit(lambda rho: pools.gaussian(key, 5, rho=rho).design.covariates)
    assert jnp.isnan(traced(2.0)).all()
    with pytest.raises(ValueError, match=r"0\.950.*0\.96"):
        pools.gaussian(key, 5, rho=0.96)
    with pytest.raises(ValueError, match="nan"):
        pools.gaussian(key, 5, rho=float("nan"))
    with pytest.raises(ValueError, match="n_items must be at least 2, got 1"):
        pools.gaussian(key, 1)
    with pytest.raises(ValueError, match="sd must be"):
        pools.gaussian(key, 5, sd=0.0)
    with pytest.raises(ValueError, match="continuous, binary"):
        pools.check_rho(0.1, "ternary")


def test_streams_are_distinct():
    key = jax.random.key(0)
    a, b = simulate.stream(key, "pool"), simulate.stream(key, "verdicts")
    assert (jax.random.key_data(a) != jax.random.key_data(b)).any()
