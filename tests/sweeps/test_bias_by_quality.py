"""Whether c grows with a model's quality: the fit against SciPy, influence against deletion."""

from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import table_of
from jbt.types import Status
from sweeps import bias_by_quality
from sweeps._shared.recorded import WORDS, Board
from tests.support.invented import invented

pytestmark = pytest.mark.heavy

PROMPTS, MODELS = 120, 4


def board(seed=0, interaction=0.3, without=None):
    """Four models against the baseline, the last version; some verdicts are missing, and all of one
    prompt if asked."""
    rng = np.random.default_rng(seed)
    quality = np.array([-1.5, -0.5, 0.0, 0.8])
    d = rng.normal(0.2, 0.7, (PROMPTS, MODELS))
    p = expit(quality + (1 + interaction * quality) * d)
    wins = np.clip(p + rng.normal(0, 0.2, p.shape), 0.01, 0.99)
    shown = (rng.uniform(size=p.shape) < 0.9) * 1.0
    shown[[] if without is None else [without]] = 0
    model = np.tile(np.arange(MODELS), (PROMPTS, 1))
    return Board(
        prompts=[str(i) for i in range(PROMPTS)],
        versions=[*"abcd", "baseline"],
        model=np.arange(MODELS + 1),
        first=np.full_like(model, MODELS),
        second=model,
        wins=1 - wins,
        shown=shown,
        differences={WORDS: -d},
        published=np.zeros(MODELS + 1),
    )


@cache
def program(**board_of):
    of = board(**board_of)
    return jax.jit(partial(bias_by_quality.analysed, of)), jnp.asarray(1 - of.wins)


def fitted(half=0.0, **board_of):
    analysed, wins = program(**board_of)
    return analysed(wins, jnp.asarray(half))


def naive_optimum(of, kept):
    wins, d, kept = 1 - of.wins, -of.differences[WORDS], list(kept)

    def loss(at):
        a, c, gamma = np.zeros(MODELS), at[-2], at[-1]
        a[kept] = at[:-2]
        z = a + (c + gamma * a) * d
        return (of.shown * (np.logaddexp(0, z) - wins * z))[:, kept].sum()

    start = np.append(np.zeros(len(kept)), [0.5, 0.0])
    return minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize(("half", "kept"), [(0.0, range(MODELS)), (1.0, (2, 3))])
def test_the_fit_is_that_of_scipy(half, kept, x64):
    found = fitted(half)
    assert found["status"] == Status.CONVERGED
    expected = naive_optimum(board(), kept)
    np.testing.assert_allclose(found["c"], expected[-2], atol=1e-6)
    np.testing.assert_allclose(found["interaction"], expected[-1], atol=1e-6)


def test_the_influence_of_a_prompt_is_what_its_deletion_changes(x64):
    whole, without = fitted(), fitted(without=7)
    for at, name in enumerate(("c", "interaction")):
        change = float(whole[name] - without[name])
        np.testing.assert_allclose(whole["influence"][7, at], change, rtol=0.1, atol=2e-4)


def test_models_alone(x64):
    found = fitted(seed=1)
    own, quality = np.asarray(found["own_c"]), np.asarray(found["quality"])
    assert np.isnan(own[-1])  # the baseline
    of = board(seed=1)
    for v in range(MODELS):
        rows = of.shown[:, v] > 0
        d, y = -of.differences[WORDS][rows, v], (1 - of.wins)[rows, v]

        def loss(at, d=d, y=y):
            z = at[0] + at[1] * d
            return -(y * z - np.logaddexp(0, z)).sum()

        expected = minimize(loss, [0.0, 0.5], method="BFGS", options={"gtol": 1e-9}).x
        np.testing.assert_allclose([quality[v], own[v]], expected, atol=1e-6)
        np.testing.assert_allclose(found["rarer"][v], min(y.sum(), (1 - y).sum()))


def test_a_model_that_hardly_ever_wins_has_no_interval(monkeypatch):
    board_of = {"versions": [*"abc"], "prompts": [*"01234"]}
    sweep, noise = bias_by_quality.BiasByQuality(), np.random.default_rng(0)
    with monkeypatch.context() as m:
        m.setattr(bias_by_quality, "read_board", lambda _: SimpleNamespace(**board_of))
        ds = invented(
            sweep,
            **{"c": 1.0, "interaction": 1.0, "influence": noise.normal(size=(3, 5, 2, 1))},
            **{
                name: np.array(values)[:, None]
                for name, values in {
                    "quality": [-2.0, 0.0, 1.0],
                    "own_c": [0.5, 1.0, 1.2],
                    "own_c_sd": [0.1] * 3,
                    "rarer": [19.9, 20.0, 300.0],
                }.items()
            },
        )
    table = table_of(sweep, ds)
    rows = where(table, quantity="own_c").set_index("content")
    assert rows.ci_low.isna().tolist() == [True, False, False]
    assert rows.ci_high["b"] == pytest.approx(1.0 + 1.96 * 0.1)
