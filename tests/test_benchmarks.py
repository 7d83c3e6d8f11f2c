"""The benchmarks find the same answers, and compare them."""

import numpy as np
import pytest

from benchmarks import same_numbers
from benchmarks.speed import __main__ as speed
from benchmarks.speed import ours, pallas, peers


@pytest.mark.heavy
def test_jbt_a_pallas_kernel_and_a_peer_find_the_same_fit():
    jbt = ours.fit(3, dtype="float64")()
    np.testing.assert_allclose(pallas.fit(3, "float64", interpret=True)(), jbt, atol=1e-9)
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


def test_recordings_are_compared_as_numbers_or_as_bytes(tmp_path):
    texts = '{"c": [1, 2], "why": "too few"}', '{"c": [1.0, 3]}'
    folders = tmp_path / "before", tmp_path / "after"
    for folder, text in zip(folders, texts, strict=True):
        (folder / "fit").mkdir(parents=True)
        (folder / "fit" / "answer.json").write_text(text)
    differ = ["fit/answer.json.c[1]: 2 before, 3 after", "fit/answer.json.why: only before"]
    assert same_numbers.compare(*folders, {"fit"}) == differ
    assert same_numbers.compare(*folders, {"fit"}, exact=True)
    assert same_numbers.compare(folders[0], folders[0], {"fit"}, exact=True) == []
