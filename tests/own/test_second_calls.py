"""Another table of about the same size compiles nothing, and padding changes no number."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from jbt import own, runtime
from jbt.estimators import clusters
from jbt.kernel import padding
from jbt.kernel.fit import fit_map
from jbt.own.fits.pools import fit as fit_pools
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.types import Design, Prior, Rows, Variant

MODELS = "abcdef"


def frames(n_pools, models, seed=0):
    """Every model answers every prompt with a length of its own, all ordered pairs judged; and
    trusted pairs."""
    rng = np.random.default_rng(seed)
    verdicts, items, anchors = [], [], []
    for pool in range(n_pools):
        words = {m: rng.uniform(50, 150) for m in models}
        items += [(f"p{pool}", m, words[m]) for m in models]
        anchors.append((f"p{pool}", "a", "b"))
        for a in models:
            for b in models:
                if a != b:
                    ahead = (ord(b) - ord(a)) / 4 + (words[a] - words[b]) / 60
                    won = rng.random() < 1 / (1 + np.exp(-ahead))
                    verdicts.append((f"p{pool}", a, b, "first" if won else "second"))
    return (
        pd.DataFrame(verdicts, columns=["pool", "first", "second", "winner"]),
        pd.DataFrame(items, columns=["pool", "item", "words"]),
        pd.DataFrame(anchors, columns=["pool", "better", "worse"]),
    )


CALLS = {
    "leaderboard": lambda tables, batch: own.leaderboard(tables, ["words"]),
    "fit": lambda tables, batch: own.fit(batch),
    "identify": lambda tables, batch: own.identify(batch),
    "gate": own.gate,
    "report_card": lambda tables, batch: own.report_card(tables, ["words"]),
    "doctor": lambda tables, batch: own.doctor(tables),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_compiles_nothing(name, caplog):
    def compiled(n_pools, models):
        caplog.clear()
        tables = own.read(*frames(n_pools, models, seed=n_pools), covariates=["words"])
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            CALLS[name](tables, own.Batch.of(tables, ["words"]))
        return [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]

    jax.clear_caches()
    first = compiled(21, "abcde")
    assert len(first) > 2 or name in ("report_card", "doctor")
    assert not compiled(19, "abcde")
    if name == "leaderboard":
        assert not compiled(16, MODELS)


def problem(n_rows=100, m=5):
    rng = np.random.default_rng(0)
    first = rng.integers(0, m, n_rows)
    second = (first + rng.integers(1, m, n_rows)) % m
    return Rows.build(first, second, rng.normal(size=(n_rows, 1)), rng.random(n_rows).round())


def test_padding_changes_no_number(x64):
    rows, prior = problem(), Prior(0.5, 0.2)
    design, variant = Design.of_contents(5, 1), Variant(jnp.ones(1, bool), jnp.asarray(True))
    fit = jax.jit(fit_map)
    alone = fit(rows, design, prior, variant).parameters
    wider, longer = padding.pad_contents(design), padding.pad_rows(rows, 256)
    assert (wider.n_contents, len(longer.shown)) == (8, 256)
    padded = fit(longer, wider, prior, variant).parameters
    assert not np.asarray(padded.theta[5:]).any()
    cut = padding.cut_parameters(padded, 5).as_numpy()
    np.testing.assert_allclose(cut, alone.as_numpy(), atol=1e-11)
    np.testing.assert_array_equal(alone.as_numpy(), alone.flat())

    z = np.zeros((100, 7))
    z[np.arange(100), rows.first], z[np.arange(100), rows.second] = 1, -1
    z[:, 5], z[:, 6] = np.asarray(rows.difference)[:, 0], 1
    p = 1 / (1 + np.exp(-z @ alone.as_numpy()))
    dense = np.linalg.inv((z.T * (p * (1 - p))) @ z + np.diag([0.5] * 5 + [0.2] * 2))
    inverse = clusters.inverse_hessian(alone, rows, design, prior, variant)
    np.testing.assert_allclose(inverse, dense, atol=1e-10)


def test_sizes_are_few_and_hold_what_they_are_of():
    for size, most, few in ((padding.size, 1000, 36), (padding.rows_size, 10**5, 20)):
        sizes = [size(n) for n in range(1, most)]
        assert all(n <= s for n, s in enumerate(sizes, 1))
        assert sizes == sorted(sizes)
        assert len(set(sizes)) <= few
    assert all(padding.size(n) <= 1.25 * n for n in range(33, 1000))


def test_chunks_return_each_pool_once():
    pools = jnp.arange(11.0), jnp.arange(22.0).reshape(11, 2)
    shapes = []

    def twice(stack):
        shapes.append(len(stack[0]))
        return {"sum": stack[0] + stack[1].sum(1)}

    for size in (None, 4, 100):
        found = in_chunks(lambda stack: twice(stack), pools, size)["sum"]
        np.testing.assert_array_equal(found, np.arange(11) * 5 + 1)
    assert shapes == [16, 4, 4, 4, 16]


@pytest.mark.heavy
def test_a_pool_is_fitted_alike_among_others():
    """The pools added to fill up a chunk are no part of the result."""
    some = own.read(*frames(6, "abc"), covariates=["words"])
    batch = own.Batch.of(some, ["words"], standardise=False)
    fits = fit_pools(batch, prior=Prior())
    with runtime.precision("float64"):
        for i in (0, 5):
            group = jax.tree.map(
                lambda leaf, i=i: leaf[i],
                (batch.groups[0].comparisons, batch.groups[0].design, batch.groups[0].variant),
            )
            alone = jax.jit(fit_map)(group[0], group[1], Prior(), group[2]).parameters
            np.testing.assert_allclose(fits[i].theta, alone.theta, atol=1e-9)
            np.testing.assert_allclose(fits[i].c, alone.c, atol=1e-9)
