"""The benchmark of a device, whatever its speed: it needs few packages, and ends in time."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import device
from benchmarks.calibration import few_pools
from benchmarks.problems import in_batches
from benchmarks.roofline import Rates
from jbt import runtime

RATES = Rates(bandwidth=1e9, arithmetic=1e12)


def test_the_device_benchmark_loads_in_a_bare_jax_environment():
    absent = "xarray pandas tyro matplotlib jaxopt optax tqdm h5netcdf threadpoolctl filelock"
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent.split()})); import benchmarks.device"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def bench(rates=RATES):
    kernel = device.Kernel(
        "sum",
        "float32",
        lambda x: x + 1,
        lambda count: (jnp.arange(float(count)),),
        lambda results: f"ends in {results[-1]:.0f}",
        lambda results: (1e3, 2.0),
        sizes=(10, 20),
    )
    return device.Bench(kernel, rates)


def test_a_row_a_size(capsys):
    places, rows = zip(*device.measure([bench()], (20, 10, 30), 10.0), strict=True)
    assert places == ((0, 0), (0, 1))
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        ("sum", "20", "ends in 20"),
        ("sum", "10", "ends in 10"),
    ]
    assert {row[8] for row in rows} == {"bandwidth"}  # 8 bytes take 8 ns, 1000 operations 1 ns
    text = device.section(["a fact"], rows)
    assert "- a fact\n" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {len(device.COLUMNS) + 1}
    assert not capsys.readouterr().out


def test_a_failure_is_reported_and_the_rest_goes_on(capsys, monkeypatch):
    def too_large(program):
        if program.in_avals[0][0].shape == (20,):
            raise MemoryError("3 GB needed, 2 GB available")

    monkeypatch.setattr(device, "check_memory", too_large)
    ((_, row),) = device.measure([bench(rates=None)], (20, 10), 10.0)
    assert row[2] == "10"
    assert row[7:9] == ["-", "-"]  # no rates, no roofline
    line = "sum, float32, 20: failed: MemoryError: 3 GB needed, 2 GB available\n"
    assert capsys.readouterr().out == line


def test_what_would_take_too_long_is_left_out(capsys):
    slow = bench()
    slow.pace = 1.0
    ((place, _),) = device.measure([slow, bench()], (20,), 10.0)
    assert place == (1, 0)
    assert capsys.readouterr().out == "sum, float32, 20: left out, would take 40 s, has 5 s\n"
    left_out = []
    assert not list(device.measure([bench()], (10, 20), -1.0, left_out.append))
    assert left_out == [f"sum, float32, {n}: left out, no time left" for n in (10, 20)]
    assert not capsys.readouterr().out


def test_either_precision_is_measured_before_the_time_is_spent():
    assert [k.dtype for k in device.kernels()[:2]] == ["float32", "float64"]


def test_the_roofline_is_the_slower_of_arithmetic_and_traffic():
    assert RATES.roofline(1e12, 0.5e9) == (1.0, "arithmetic")
    assert RATES.roofline(1e12, 2e9) == (2.0, "bandwidth")


@pytest.mark.heavy
def test_every_kernel_stays_in_its_precision():
    for kernel in device.kernels():
        with runtime.precision(kernel.dtype):
            arguments = kernel.arguments(2)
            results = jax.eval_shape(in_batches(kernel.function), *arguments)
        leaves = jax.tree.leaves((arguments, results))
        assert {len(v) for v in leaves} == {2}
        floats = {str(v.dtype) for v in leaves if jnp.issubdtype(v.dtype, jnp.floating)}
        assert floats == {kernel.dtype}


def test_how_often_intervals_of_a_few_pools_cover():
    """Of five normal pools the interval printed as it says, those by bootstrap less often; pools
    all alike have no interval."""
    studies = np.random.default_rng(1).normal(0.3, 2.0, (400, 5))

    def held(values, mean):
        return {
            name: ((low <= mean) & (mean <= high)).mean()
            for name, (low, high) in few_pools.ends(values).items()
        }

    share, error = held(studies, 0.3), np.sqrt(0.95 * 0.05 / 400)
    assert abs(share["printed"] - 0.95) <= 4 * error
    assert share["percentile"] < 0.95 - 4 * error > share["BCa"]
    alike = few_pools.ends(np.full((2, 5), 0.2))
    assert np.isnan(alike["printed"]).all()
    assert np.isnan(alike["BCa"]).all()
    assert held(studies, 50.0) == {"printed": 0, "percentile": 0, "BCa": 0}
