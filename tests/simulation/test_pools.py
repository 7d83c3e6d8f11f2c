from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jbt.simulation import pools

POOLS = 4000


def drawn(pool_of):
    """Quality and covariates of many pools."""

    def one(key):
        pool = pool_of(key)
        return pool.quality, pool.design.covariates[:, 0]

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), POOLS))
    return [np.asarray(v, float) for v in found]


@pytest.mark.parametrize(
    ("covariate", "rho"), [("continuous", -0.95), ("binary", 0.798), ("binary", 0.3)]
)
def test_moments(covariate, rho):
    sd, rho = jnp.float32(1.2), jnp.float32(rho)
    quality, x = drawn(lambda key: pools.gaussian(key, 30, sd=sd, rho=rho, covariate=covariate))
    n = quality.size
    assert abs(quality.mean()) < 4 * 1.2 / np.sqrt(n)
    assert abs(quality.std() - 1.2) < 4 * 1.2 / np.sqrt(2 * n)
    # A median split within the pool fixes its mean, which raises the correlation a little: 1/N.
    tolerance = 4 / np.sqrt(n) + (1 / 30 if covariate == "binary" else 0)
    assert abs(np.corrcoef(quality.ravel(), x.ravel())[0, 1] - rho) < tolerance
    if covariate == "binary":
        assert set(np.unique(x)) == {0.0, 1.0}
        assert (x.sum(1) == 15).all()
    else:
        assert abs(x.std() - 1) < 4 / np.sqrt(2 * n)


def test_several_covariates_and_padding():
    mask = jnp.arange(9) < 7
    options = {"rho": jnp.array([0.2, -0.5]), "covariate": "binary", "item_mask": mask}
    pool = pools.gaussian(jax.random.key(1), 9, **options)
    wider = pools.gaussian(jax.random.key(1), 9, sd=2.4, **options)  # the same draws
    assert_allclose(wider.quality, 2 * pool.quality, rtol=1e-6)
    x = np.asarray(pool.design.covariates)
    assert x.shape == (9, 2)
    assert (x[:7].sum(0) == 3).all()  # the upper half of 7, rounded down
    assert not x[7:].any()
    assert not pool.quality[7:].any()
    expected = [np.corrcoef(pool.quality[:7], x[:7, d])[0, 1] for d in range(2)]
    assert_allclose(pools.realised_correlation(pool), expected, atol=1e-6)


def test_paired_renderings_share_a_quality_and_differ_by_the_offset(same_key_again):
    key = jax.random.key(5)
    pool = pools.paired(key, 6)
    d = pool.design
    assert (d.n_items, d.n_contents, d.item_mask.sum()) == (12, 6, 12)
    assert_array_equal(d.content, np.tile(np.arange(6), 2))
    assert_array_equal(d.covariates[:, 0], np.repeat([0, 1], 6))
    assert_array_equal(d.of_items(pool.quality)[:6], d.of_items(pool.quality)[6:])
    options = {"rho": jnp.array([0.5, -0.5]), "spread": 2.0, "offset": -0.3}
    part = pools.paired(key, 6, n_twice=2, **options)
    x = np.asarray(part.design.covariates)
    assert_array_equal(part.design.item_mask, [True] * 8 + [False] * 4)
    assert_allclose(x[6:8], x[:2] - 0.3, atol=1e-6)
    assert not x[8:].any()
    base = pools.gaussian(key, 6, rho=options["rho"]).design.covariates
    assert_allclose(x[:6], 2.0 * base, rtol=1e-6)
    assert_array_equal(part.quality, pool.quality)
    more = pools.paired(key, 6, n_twice=4, **options)
    assert_array_equal(more.design.covariates[:8], x[:8])


KEY = jax.random.key(0)


def made(of, **options):
    return lambda: of(KEY, **options)


bank = partial(made, pools.statement_bank, n_items=30)
gaussian = partial(made, pools.gaussian, n_items=5)
paired = partial(made, pools.paired, n_contents=5)
REFUSED = [
    (gaussian(rho=0.8, covariate="binary"), r"0\.798.*median split.*0\.8"),
    (gaussian(rho=float("nan")), "nan"),
    (paired(n_twice=6), r"n_twice must be an integer in 0\.\.5, got 6"),
    (paired(offset=0.0), "offset must be finite and not 0"),
    (paired(spread=-1.0), "spread must be finite and at least 0"),
    (bank(k=30), r"k must lie in 1..29, got 30"),
    (bank(max_correlation=1.5), "max_correlation must lie above 0"),
    (lambda: pools.statements(KEY, pools.gaussian(KEY, 8)), "a pool of statement_bank"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused(call, message, same_key_again):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_traced_correlation_that_does_not_exist_is_nan():
    traced = jax.jit(lambda rho: pools.gaussian(KEY, 5, rho=rho).design.covariates)
    assert jnp.isnan(traced(2.0)).all()
