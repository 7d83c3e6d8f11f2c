"""The sweep of the baselines: its fits against the commands' own, its truth against drawing."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from jbt import own, runtime
from jbt.own.leaderboards.prediction_powered import labelled_win_rates
from jbt.types import Prior, Status
from sweeps import baselines
from sweeps._shared import prompt_studies
from sweeps._shared.prompt_studies import FITS, draw, pair_sums, pairs_of

pytestmark = pytest.mark.heavy

SETTINGS = baselines.Baselines.at("smoke", n_prompts=30)
N_LABELS = 60


def alone(**changes):
    """A judge alone, fair but for the changes."""
    numbers = {name: jnp.asarray(value) for name, value in (baselines.PLAIN | changes).items()}
    return numbers | {name: numbers[name][None] for name in baselines.OTHERS}


@pytest.fixture(scope="module")
def study():
    judge = baselines.PLAIN | baselines.JUDGES["ties"]
    panel = {n: jnp.asarray((judge[n], *others)) for n, others in baselines.OTHERS.items()}
    judges = {**panel, "label_bias": jnp.asarray(0.5), "clear": jnp.asarray(0.0)}
    with runtime.precision("float64"):
        return draw(jax.random.key(3), 4, SETTINGS.n_prompts, 1.0, 1.0, judges)


def as_tables(study):
    """The first judge's verdicts and the first labels, as a user would have them."""
    first, second = pairs_of(4)
    won, difference = np.asarray(study.won)[:, 0], np.asarray(study.difference)
    turn, label = np.asarray(study.turn), np.asarray(study.label)
    verdicts, items, anchors = [], [], []
    for p in range(SETTINGS.n_prompts):
        x = np.append(0, -difference[p][:3])  # pairs 0-1, 0-2, 0-3 come first
        items += [(f"p{p}", f"m{m}", value) for m, value in enumerate(x)]
        for k, (i, j) in enumerate(zip(first, second, strict=True)):
            verdicts.append((f"p{p}", f"m{i}", f"m{j}", won[p, 0, k]))
            verdicts.append((f"p{p}", f"m{j}", f"m{i}", 1 - won[p, 1, k]))
            if turn[p, k] < N_LABELS:
                better = i if label[p, k] else j
                anchors.append((f"p{p}", f"m{better}", f"m{i + j - better}"))
    return own.read(
        pd.DataFrame(verdicts, columns=["pool", "first", "second", "p_first"]),
        pd.DataFrame(items, columns=["pool", "item", "x"]),
        pd.DataFrame(anchors, columns=["pool", "better", "worse"]),
        covariates=["x"],
    )


def test_naive_and_bias_aware_fits_are_the_leaderboards(study):
    prior = Prior(SETTINGS.lam, SETTINGS.lam_b)
    (board,) = own.leaderboard(as_tables(study), ["x"], standardise=False, prior=prior)
    models = board.models.set_index("model").loc[[f"m{m}" for m in range(4)]]
    with runtime.precision("float64"):
        aware = jax.jit(lambda s: FITS["bias_aware"](s, prior, 0))(study)
        naive = jax.jit(lambda s: FITS["naive"](s, prior, 0))(study)
    assert int(aware.status) == int(naive.status) == Status.CONVERGED
    np.testing.assert_allclose(aware.mode[:4], models["theta"], atol=1e-6)
    np.testing.assert_allclose(naive.mode[:4], models["theta_naive"], atol=1e-6)
    # About the mean over the models; t of G - 1 where the leaderboard has effective degrees.
    centre = np.eye(4) - 1 / 4
    error = np.sqrt(np.diag(centre @ np.asarray(aware.covariance)[:4, :4] @ centre))
    width = (models["high"] - models["low"]) / 2
    np.testing.assert_allclose(error * 2.045, width, rtol=0.06)


def test_win_rates_by_labels_are_the_commands(study):
    with runtime.precision("float64"):
        sums = pair_sums(study, N_LABELS)
        fit = baselines.prediction_powered(sums)
    rates = labelled_win_rates(as_tables(study), 0)
    np.testing.assert_allclose(rates.models["estimate"], fit.win_rate, atol=1e-12)
    assert rates.weight == pytest.approx(float(fit.weight), abs=1e-12)


def test_the_true_win_rate_is_that_of_many_labels(study):
    """A study with 4,000 prompts, within 5 standard errors."""
    with runtime.precision("float64"):
        large = draw(jax.random.key(1), 4, 4000, 1.0, 1.0, alone(label_bias=1.0))
        sums = pair_sums(large, large.label.size)
        fit = baselines.prediction_powered(sums)
    error = np.sqrt(np.diagonal(fit.covariance))
    assert (np.abs(fit.win_rate - large.win_rate) < 5 * error).all()
    assert error.max() < 0.01


def test_ties_and_position_are_the_judges(study):
    """Shares of ties and of first wins in many comparisons of equals, within 5 standard errors."""
    judges = alone(discrimination=0.0, ties=1.0)
    won = np.asarray(draw(jax.random.key(2), 4, 3000, 1.0, 0.0, judges).won)[:, 0, 0]
    kappa = prompt_studies.KAPPA
    total = np.exp(kappa / 2) + np.exp(-kappa / 2) + 1
    error = 0.5 / np.sqrt(won.size)
    assert np.mean(won == 0.5) == pytest.approx(1 / total, abs=5 * error)
    decided = won[won != 0.5]
    assert decided.mean() == pytest.approx(expit(kappa), abs=5 * 0.5 / np.sqrt(decided.size))
