"""The benchmarks find the same answers, and compare them."""

import numpy as np
import pytest

from benchmarks.speed import __main__ as speed
from benchmarks.speed import ours, peers


@pytest.mark.heavy
def test_jbt_and_a_peer_find_the_same_fit():
    jbt = ours.fit(3, dtype="float64")()
    np.testing.assert_allclose(peers.scipy_fit(3, tight=True)(), jbt, atol=1e-5)


def test_answers_are_summed_up_without_failed_problems():
    nan, exact = np.nan, np.zeros((2, 2))
    compared = speed.summary(np.array([[3.0, 4.0], [nan, 0.0], [9.0, 9.0]]), exact)
    assert compared == {"failed": 1, "rms": 12.5**0.5, "largest": 4.0}
    assert speed.summary(np.array([1.0, nan, 2.0]), None) == {
        "failed": 1,
        "mean": 1.5,
        "standard_error": pytest.approx(0.5 / 2**0.5),
    }
    assert speed.summary(exact, None) == {"failed": 0}


def test_a_side_that_cannot_run_says_why_and_the_rest_goes_on():
    sides = {
        "NumPy": {"run": "peers.numpy_loop", "count": 1, "budget": 8},
        "no such": {"run": "peers.no_such"},
    }
    rows = speed.measure(sides, repeats=1)
    assert len(rows["NumPy"]["turns"]) == 2
    assert 0 <= rows["NumPy"]["answers"]["mean"] <= 1
    assert "no attribute 'no_such'" in rows["no such"]["failed"]
    *_, line = speed.table({"name": "a case", "unit": "run"}, rows)
    assert "no attribute" in line
