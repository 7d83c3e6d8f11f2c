"""The benchmarks: sides take turns, answers are compared, and what cannot run says why."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import same_numbers
from benchmarks.calibration import means
from benchmarks.speed import __main__ as speed
from benchmarks.speed import ours, pallas, peers


@pytest.mark.heavy
def test_the_kernels_benchmarks_load_in_a_bare_jax_environment():
    absent = "xarray pandas tyro matplotlib jaxopt optax tqdm zarr threadpoolctl filelock"
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent.split()})); "
        "import benchmarks.speed.__main__, benchmarks.speed.worker, benchmarks.speed.ours"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_side_of_a_case_can_be_called():
    cases = speed.read_cases()
    assert len({case["name"] for case in cases}) == len(cases)
    for case in cases:
        for side in (*case["sides"].values(), case["exact"]):
            if side:
                options = dict(side)
                module, function = options.pop("run").split(".")
                signature = inspect.signature(
                    getattr({"ours": ours, "peers": peers, "pallas": pallas}[module], function)
                )
                signature.bind(**options)


@pytest.mark.heavy
@pytest.mark.parametrize(("dtype", "error"), [("float32", 2e-6), ("float64", 1e-9)])
def test_a_pallas_kernel_finds_the_same_fit(dtype, error):
    found, kernel = pallas.fit(3, dtype, interpret=True)(), ours.fit(3, dtype=dtype)()
    np.testing.assert_allclose(found, kernel, atol=error)


@pytest.fixture(scope="module")
def measured():
    """Two SciPy sides, one for other problems, and one that fails."""
    fit = {"run": "peers.scipy_fit", "count": 2}
    case = {
        "name": "fits",
        "unit": "pool",
        "measure": "seconds",
        "sides": {"one": fit, "more": fit | {"count": 3}, "none": {"run": "peers.arena_rank"}},
        "exact": fit | {"tight": True},
    }
    return case, speed.measure(case, 2, None, sys.executable)


@pytest.mark.heavy
def test_sides_take_turns_and_their_answers_are_compared(measured):
    case, rows = measured
    assert list(rows) == ["one", "more", "none"]
    assert [len(row["rounds"]) for row in rows.values()] == [2, 2, 0]
    for name in ("one", "more"):  # of the problems in common
        assert 1e-12 < rows[name]["answers"]["largest"] < 1e-2
        assert rows[name]["rounds"][0]["megabytes"] > 20
        assert rows[name]["first"]["environment"]["versions"]["numpy"] == np.__version__
    assert rows["none"]["failed"].startswith("TypeError: arena_rank() missing")
    title, *lines = "\n".join(speed.table(case, rows)).strip().split("\n")
    assert title == "fits, seconds a pool"
    assert "1 (1 to 1)" in lines[0]
    assert "rms" in lines[1]
    assert lines[2].endswith(rows["none"]["failed"])


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


@pytest.mark.heavy
@pytest.mark.parametrize("naive", [False, True])
def test_jbt_and_a_peer_solve_the_same_problem(naive):
    jbt = ours.fit(3, dtype="float64", naive=naive)()
    assert jbt.dtype == np.float64
    np.testing.assert_allclose(jbt, peers.scipy_fit(3, naive, tight=True)(), atol=1e-5)


def test_recordings_are_compared_as_numbers_or_as_bytes(tmp_path):
    files = {
        "answer.json": ('{"c": [1, 2], "jbt": 1, "why": "too few"}', '{"c": [1.0, 3], "jbt": 2}'),
        "table.csv": ("a,b\n0.1,some words\n", "a,b\n0.10000000001,other words\n"),
        "exit": ("0", "0"),
    }
    folders = tmp_path / "before", tmp_path / "after"
    for side, folder in enumerate(folders):
        (folder / "fit").mkdir(parents=True)
        for name, texts in files.items():
            (folder / "fit" / name).write_text(texts[side])
    assert same_numbers.compare(*folders, {"fit"}) == [
        "fit/answer.json.c[1]: 2 before, 3 after",
        "fit/answer.json.why: only before",
    ]
    exact = same_numbers.compare(*folders, {"fit"}, exact=True)
    assert [line[:16] for line in exact] == ["fit/answer.json:"] * 2 + [
        "fit/table.csv: -",
        "fit/table.csv: +",
    ]
    assert same_numbers.compare(folders[0], folders[0], {"fit"}, exact=True) == []


def test_how_often_intervals_of_a_few_pools_cover():
    """Of five normal pools the interval printed as it says, those by bootstrap less often; pools
    all alike have no interval."""
    studies = np.random.default_rng(1).normal(0.3, 2.0, (400, 5))

    def held(values, mean):
        return {
            name: ((low <= mean) & (mean <= high)).mean()
            for name, (low, high) in means.ends(values).items()
        }

    share, error = held(studies, 0.3), np.sqrt(0.95 * 0.05 / 400)
    assert abs(share["printed"] - 0.95) <= 4 * error
    assert share["percentile"] < 0.95 - 4 * error > share["BCa"]
    alike = means.ends(np.full((2, 5), 0.2))
    assert np.isnan(alike["printed"]).all()
    assert np.isnan(alike["BCa"]).all()
    assert held(studies, 50.0) == {"printed": 0, "percentile": 0, "BCa": 0}
