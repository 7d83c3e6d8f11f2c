"""Another table of about the same size compiles nothing, and a leaderboard never does."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from support.boards import written
from support.marks import heavy, nightly

from jbt import own
from jbt.kernel import padding
from jbt.own.shared_coefficients.arrays import in_chunks

THETA = {"a": 0.8, "b": 0.4, "c": 0.1, "d": -0.2, "e": -0.4, "f": -0.7}


def tables_of(n_pools, models):
    verdicts, items = written(n_pools, theta={m: THETA[m] for m in models}, seed=n_pools)
    anchors = pd.DataFrame({"pool": verdicts["pool"].unique(), "better": "a", "worse": "b"})
    return own.read(verdicts, items, anchors, covariates=["words"])


CALLS = {
    "leaderboard": lambda tables, batch: own.leaderboard(tables, ["words"]),
    "fit": lambda tables, batch: own.fit(batch),
    "identify": lambda tables, batch: own.identify(batch),
    "gate": own.gate,
    "report_card": lambda tables, batch: own.report_card(tables, ["words"]),
    "doctor": lambda tables, batch: own.doctor(tables),
}


@pytest.mark.parametrize(
    "names",
    [
        heavy(("leaderboard", "fit")),
        nightly(tuple(CALLS), id="every call"),
    ],
)
def test_a_second_call_compiles_nothing(names, caplog):
    def compiled(name, n_pools, models):
        caplog.clear()
        tables = tables_of(n_pools, models)
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            CALLS[name](tables, own.Batch.of(tables, ["words"]))
        return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]

    jax.clear_caches()
    first = {name: compiled(name, 21, "abcde") for name in names}
    assert len(first["fit"]) > 2
    assert not first["leaderboard"]
    again = {name: compiled(name, 19, "abcde") for name in names}
    again["six models"] = compiled("leaderboard", 16, "abcdef")
    assert not any(again.values()), again


def test_sizes_are_few_and_hold_what_they_are_of():
    sizes = [padding.size(n) for n in range(1, 1000)]
    assert all(n <= s for n, s in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 36
    assert all(padding.size(n) <= 1.25 * n for n in range(33, 1000))


def test_chunks_return_each_pool_once():
    pools, shapes = (jnp.arange(11.0), jnp.arange(22.0).reshape(11, 2)), []

    def twice(stack):
        shapes.append(len(stack[0]))
        return {"sum": stack[0] + stack[1].sum(1)}

    for size in (None, 4, 100):
        found = in_chunks(lambda stack: twice(stack), pools, size)["sum"]
        assert_array_equal(found, np.arange(11) * 5 + 1)
    assert shapes == [16, 4, 4, 4, 16]
