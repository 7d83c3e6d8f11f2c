"""Another table of about the same size compiles nothing, and a leaderboard never does."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.boards import written

from jbt import own
from jbt.own.shared_coefficients.arrays import in_chunks


def tables_of(n_pools, models):
    theta = dict(zip(models, np.linspace(0.8, -0.7, len(models)), strict=True))
    return own.read(*written(n_pools, theta=theta, seed=n_pools), covariates=["words"])


CALLS = {
    "leaderboard": lambda tables: own.leaderboard(tables, ["words"]),
    "fit": lambda tables: own.fit(own.Batch.of(tables, ["words"])),
}


@pytest.mark.heavy
def test_a_second_call_compiles_nothing(caplog):
    def compiled(name, n_pools, models):
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            CALLS[name](tables_of(n_pools, models))
        return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]

    jax.clear_caches()
    first = {name: compiled(name, 21, "abcde") for name in CALLS}
    assert len(first["fit"]) > 2
    assert not first["leaderboard"]
    again = {name: compiled(name, 19, "abcde") for name in CALLS}
    again["six models"] = compiled("leaderboard", 16, "abcdef")
    assert not any(again.values()), again


def test_chunks_return_each_pool_once():
    pools, shapes = (jnp.arange(11.0), jnp.arange(22.0).reshape(11, 2)), []

    def twice(stack):
        shapes.append(len(stack[0]))
        return {"sum": stack[0] + stack[1].sum(1)}

    for size in (None, 4, 100):
        found = in_chunks(lambda stack: twice(stack), pools, size)["sum"]
        assert_array_equal(found, np.arange(11) * 5 + 1)
    assert shapes == [16, 4, 4, 4, 16]
