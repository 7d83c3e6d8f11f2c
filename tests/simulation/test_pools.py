import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt.simulation import pools, simulate

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


def test_paired_renderings_share_a_quality_and_differ_by_the_offset(same_key_again):
    key = jax.random.key(5)
    pool = pools.paired(key, 6)
    d = pool.design
    assert (d.n_items, d.n_contents, d.item_mask.sum()) == (12, 6, 12)
    np.testing.assert_array_equal(d.content, np.tile(np.arange(6), 2))
    np.testing.assert_array_equal(d.covariates[:, 0], np.repeat([0, 1], 6))
    np.testing.assert_array_equal(d.of_items(pool.quality)[:6], d.of_items(pool.quality)[6:])
    part = pools.paired(key, 6, n_twice=2, rho=jnp.array([0.5, -0.5]), spread=2.0, offset=-0.3)
    x = np.asarray(part.design.covariates)
    np.testing.assert_array_equal(part.design.item_mask, [True] * 8 + [False] * 4)
    np.testing.assert_allclose(x[6:8], x[:2] - 0.3, atol=1e-6)
    assert not x[8:].any()
    np.testing.assert_array_equal(part.quality, pool.quality)
    more = pools.paired(key, 6, n_twice=4, rho=jnp.array([0.5, -0.5]), spread=2.0, offset=-0.3)
    np.testing.assert_array_equal(more.design.covariates[:8], x[:8])
    one = pools.paired(key, 6, rho=jnp.zeros(2), spread=1.0, offset=jnp.array([1.0, 0.0])).design
    np.testing.assert_array_equal(one.covariates[6:, 1], one.covariates[:6, 1])
    unpaired = pools.one_content_an_item(part.design)
    assert (unpaired.content, unpaired.n_contents) == (None, 12)


def test_the_base_covariate_has_its_correlation_and_spread():
    def one(key):
        pool = pools.paired(key, 20, n_twice=0, rho=0.7, spread=1.5)
        return pool.quality, pool.design.covariates[:20, 0]

    quality, x = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 1000))
    n = x.size
    assert abs(float(x.std()) - 1.5) < 4 * 1.5 / np.sqrt(2 * n)
    assert abs(np.corrcoef(quality.ravel(), x.ravel())[0, 1] - 0.7) < 4 / np.sqrt(n)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_contents": 1}, "n_contents must be at least 2, got 1"),
        ({"n_contents": 5, "n_twice": 6}, r"n_twice must be an integer in 0\.\.5, got 6"),
        ({"n_contents": 5, "n_twice": -1}, r"n_twice must be an integer in 0\.\.5, got -1"),
        ({"n_contents": 5, "offset": 0.0}, "offset must be finite and not 0"),
        ({"n_contents": 5, "offset": float("nan")}, "offset must be finite"),
        (
            {"n_contents": 5, "offset": jnp.array([1.0, 2.0])},
            "offset must be one for each of 1 covariates",
        ),
        ({"n_contents": 5, "spread": -1.0}, "spread must be finite and at least 0"),
        ({"n_contents": 5, "rho": 0.99}, "rho must lie within"),
    ],
)
def test_bad_pairing(arguments, message):
    with pytest.raises(ValueError, match=message):
        pools.paired(jax.random.key(0), **arguments)
