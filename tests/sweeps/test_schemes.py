"""Schemes of verdicts against enumeration; panels that err together against their limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.invented import only

from jbt.experiments.run import run
from sweeps.correlated_judges import CorrelatedJudges
from sweeps.schemes import SCHEMES, Schemes, told

MANY = 10_000
"""Comparisons of each pair (count)."""
CHANCE = np.array([[0.5, 0.8, 0.35], [0.6, 0.5, 0.9], [0.55, 0.3, 0.5]])


@pytest.mark.parametrize("name", SCHEMES)
def test_counts_are_those_of_all_outcomes(name):
    """Of every pair, the share that the row wins in either order and what is shown, against the sum
    over all outcomes of a comparison; within five standard errors."""
    scheme = SCHEMES[name]
    compared = np.triu(np.full((3, 3), float(MANY)), 1)
    counts = told(jax.random.key(0), scheme, jnp.asarray(CHANCE), jnp.asarray(compared), MANY)
    shown, wins = np.asarray(counts.shown), np.asarray(counts.wins)
    error = 5 * np.sqrt(MANY) / 2
    for i, j in zip(*np.triu_indices(3, 1), strict=True):
        p, q = CHANCE[i, j], CHANCE[j, i]  # that the one shown first wins
        if scheme.order == "mixed":
            p, q = (p + 1 - q) / 2, (q + 1 - p) / 2
        if scheme.counted == "majority":
            p, q = (c**3 + 3 * c**2 * (1 - c) for c in (p, q))
        row_both, column_both = p * (1 - q), (1 - p) * q
        of_row, of_column = {
            "list": ((1, p), (0, 0)),
            "random": ((0.5, p / 2), (0.5, q / 2)),
            "mixed": ((0.5, p / 2), (0.5, q / 2)),
            "both": ((1, p), (1, q)),
        }[scheme.order]
        if scheme.counted == "tie":
            of_row, of_column = (1, row_both + (1 - row_both - column_both) / 2), (0, 0)
        if scheme.counted == "dropped":
            of_row, of_column = (row_both + column_both, row_both), (0, 0)
        for at, expected in (((i, j), of_row), ((j, i), of_column)):
            assert abs(shown[at] - MANY * expected[0]) <= error
            assert abs(wins[at] - MANY * expected[1]) <= error
    assert (wins <= shown).all()


@pytest.mark.nightly
def test_place_and_length_stay_where_nothing_models_them(tmp_path):
    """The judge who prefers the first is caught by the list's order alone, length by no scheme
    without a model of it."""
    s = Schemes.at("smoke", pools=64, out=tmp_path)
    found = run(s)
    place = only(found, quantity="place", judge="prefers the first", scheme="list order")
    assert place.ci_high < -1
    for scheme, how in SCHEMES.items():
        length = only(found, quantity="length", judge="prefers length", scheme=scheme)
        assert (length.ci_low > 0.3) == (how.model != "bias_aware")


@pytest.mark.heavy
def test_judges_who_err_together_are_one(tmp_path):
    """Errors that are the same for all judges stay, however many judges there are; those that are
    not shrink. Without errors the correlation changes nothing, and intervals cover."""
    settings = {"pools": 96, "correlation": (0.0, 1.0)}
    found = run(CorrelatedJudges.at("smoke", out=tmp_path / "errors", **settings))
    recall = {
        (row.n_judges, row.correlation): row
        for row in found[found.quantity == "recall"].itertuples()
    }
    alone, together = recall[9, 0.0], recall[9, 1.0]
    assert alone.ci_low > together.ci_high
    assert together.ci_low < recall[1, 1.0].ci_high + 0.08  # more verdicts, the same errors
    found = run(CorrelatedJudges.at("smoke", error=0.0, out=tmp_path / "none", **settings))
    first = found[found.correlation == 0.0].estimate.to_numpy()
    np.testing.assert_array_equal(first, found[found.correlation == 1.0].estimate)
    covered = only(found, quantity="covered", n_judges=9, correlation=0.0)
    assert 0.9 < covered.estimate < 0.99
