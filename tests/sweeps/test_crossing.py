import dataclasses

import jax
import numpy as np
import pytest

from jbt.experiments import run as runs
from sweeps import crossing

FEW = dataclasses.replace(crossing.EXPLORED, pools=40, rho=(0.0, 0.4))


def explore(**changes):
    return crossing.explore(FEW, most_items=8, **{"n_items": 8, "k": 2, **changes})


@pytest.fixture
def traces():
    """The names of the programs traced during a test."""
    names = []
    listen = jax.monitoring.register_event_duration_secs_listener
    listen(lambda event, _, **about: names.append(about) if "jaxpr_trace" in event else None)
    yield names
    jax.monitoring.clear_event_listeners()


def test_one_program_serves_fifty_settings(traces):
    explore()
    rng = np.random.default_rng(0)
    fields = ("bias", "position", "sd", "lam", "lam_b", "discrimination", "completeness")
    traces.clear()
    means = set()
    for n_items in np.resize(range(3, 9), 50).tolist():
        values = dict(zip(fields, rng.uniform(0.3, 1.0, len(fields)).tolist(), strict=True))
        k = int(rng.integers(1, n_items))
        rho = (0.0, float(rng.uniform(0.1, 0.9)))
        explored = explore(n_items=n_items, k=k, rho=rho, **values)
        means.add(tuple(float(values.mean()) for values in explored.results.values()))
    assert traces == []
    assert len(means) == 50


def test_without_padding_it_is_the_run(tmp_path):
    explored = explore(bias=2)
    settings = dataclasses.replace(explored.settings, bias=2.0, preset="full", out=tmp_path)
    table = runs.run(crossing.SWEEP, settings)
    numbers = ["estimate", "ci_low", "ci_high"]
    np.testing.assert_allclose(explored.table[numbers], table[numbers], atol=1e-6)


@pytest.mark.heavy
def test_padding_changes_the_draws_alone():
    """Five items of eight, against pools of five: the same means within 4.5 standard errors."""
    many = dataclasses.replace(FEW, pools=2000, k=2, n_items=5, position=0.5, bias=2.0)
    padded, plain = (crossing.explore(many, most_items=n).results for n in (8, 5))
    assert not np.array_equal(padded["naive_recall"], plain["naive_recall"])
    for name in plain.data_vars:
        a, b = padded[name].values.astype(float), plain[name].values.astype(float)
        error = np.sqrt((a.var(1) + b.var(1)) / 2000)
        assert (np.abs(a.mean(1) - b.mean(1)) <= 4.5 * error).all(), name


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="n_items must be at most most_items, 8, got 9"):
        explore(n_items=9)
    with pytest.raises(ValueError, match="sd must"):
        explore(sd=0.0)
    with pytest.raises(ValueError, match=r"k must lie in 1..7"):
        explore(k=8)
