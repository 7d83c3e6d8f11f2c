"""How many more prompts: against simulated studies, where no number is enough, as a command."""

import functools
import json

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.stats import t
from support.boards import written

from jbt import planning


def test_the_chance_is_that_of_simulated_studies():
    """Today's 40 prompts and 40 more, V known well; 4 standard errors of 20,000 studies."""
    rng, n = default_rng(0), 20_000
    d, sd, today, more = 0.3, 2.0, 40, 40
    variance = sd**2 / today
    for truth in (0.2, np.nan):
        delta = np.where(np.isfinite(truth), truth, d + np.sqrt(variance) * rng.normal(size=n))
        new = delta + sd / np.sqrt(more) * rng.normal(size=n)
        total = (today * d + more * new) / (today + more)
        simulated = np.mean(total > t.ppf(0.975, 1e6) * sd / np.sqrt(today + more))
        planned = planning.power(more, truth, d, variance, 1e6, today, 0.975)
        assert abs(simulated - planned) < 4 * np.sqrt(0.25 / n)


def test_the_number_is_the_smallest_with_the_power_wanted():
    numbers = 0.4, 0.4, 0.08, 30.0, 30
    more = int(planning.more_prompts(*numbers, wanted=0.8))
    assert planning.power(more, *numbers, 0.975) >= 0.8
    assert planning.power(more - 1, *numbers, 0.975) < 0.8
    # None may be enough, or none needed.
    for d, truth, expected in ((0.4, -0.1, np.inf), (0.001, 0.001, np.inf), (2.0, 2.0, 0)):
        assert planning.more_prompts(truth, d, 0.08, 30.0, 30) == expected


@pytest.fixture
def plan(tmp_path, jbt):
    """Plan prompts of verdicts on three models."""
    verdicts, _ = written(24, theta={"a": 0.35, "b": 0.0, "c": -0.35}, c=0.0)
    verdicts.to_csv(tmp_path / "verdicts.csv", index=False)
    return functools.partial(jbt, "plan", "prompts", "--verdicts", tmp_path / "verdicts.csv")


def test_the_command(plan, tmp_path):
    file = tmp_path / "plan.json"
    assert "of 2 neighbours in rank are significantly apart" in plan()
    said = plan("--better", "b", "--worse", "a", "--json", file)
    (row,) = json.loads(file.read_text())["pairs"]
    assert row["more"] is None  # infinite: a is above b
    assert said.startswith("no number of prompts up to 100 times today's puts b above a if")


def test_bad_options(plan):
    assert "--better and --worse go together" in plan("--better", "a", code=2)
    assert "no model 'x' among the 3" in plan("--better", "a", "--worse", "x", code=2)
