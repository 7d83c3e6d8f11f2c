"""A joint leaderboard that estimates each judge's discrimination: against SciPy and the truth."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from jbt import own
from jbt.own.fits.judges import Judges
from jbt.types import Prior

MODELS, THETA = "ABCD", np.array([1.0, 0.3, -0.4, -0.9])
JUDGES = {"sharp": (1.0, 0.4), "blunt": (0.3, 0.8)}
"""Name -> discrimination, c per unit of words."""
LAM, LAM_B = 1.0, 0.1


def written(n_prompts=30, seed=0):
    rng = np.random.default_rng(seed)
    verdicts, items = [], []
    for p in range(n_prompts):
        words = rng.normal(0, 1, len(MODELS))
        items += [(f"p{p}", m, w) for m, w in zip(MODELS, words, strict=True)]
        for (name, (s, c)), (i, j) in itertools.product(
            JUDGES.items(), itertools.permutations(range(len(MODELS)), 2)
        ):
            z = s * (THETA[i] - THETA[j]) + c * (words[i] - words[j]) + 0.2
            won = "first" if rng.random() < expit(z) else "second"
            verdicts.append((f"p{p}", MODELS[i], MODELS[j], won, name))
    columns = ["pool", "first", "second", "winner", "judge"]
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(items, columns=["pool", "item", "words"]),
    )


def joint(verdicts, items, anchors=None, **options):
    tables = own.read(verdicts, items, anchors, covariates=["words"])
    together = tables.with_anchors()
    return own.leaderboard(
        tables,
        ["words"],
        standardise=False,
        prior=Prior(LAM, LAM_B),
        together=(together, Judges.of(together)),
        **options,
    )[-1]


def by_scipy(verdicts, items):
    """(theta, c of both, kappa of both, s of the second) at the maximum."""
    words = items.set_index(["pool", "item"])["words"]
    sides = [verdicts[["pool", side]] for side in ("first", "second")]
    x = [words.loc[pd.MultiIndex.from_frame(side)].to_numpy() for side in sides]
    first, second = (verdicts[side].map(MODELS.index).to_numpy() for side in ("first", "second"))
    judge = verdicts["judge"].map(list(JUDGES).index).to_numpy()
    sign = np.where(verdicts["winner"] == "first", 1, -1)

    def objective(at):
        theta, c, kappa, s = np.split(at, [4, 6, 8])
        z = np.append(1.0, s)[judge] * (theta[first] - theta[second])
        z = z + c[judge] * (x[0] - x[1]) + kappa[judge]
        rest = (c**2).sum() + (kappa**2).sum() + (s[0] - 1) ** 2
        return LAM * (theta**2).sum() / 2 + LAM_B * rest / 2 - log_expit(sign * z).sum()

    options = {"gtol": 1e-7, "maxiter": 500}
    return minimize(objective, np.r_[np.zeros(8), 1.0], method="BFGS", options=options).x


@pytest.mark.heavy
def test_it_equals_scipy_and_finds_the_blunt_judge():
    verdicts, items = written()
    board = joint(verdicts, items, judge_aware=True)
    theta, c, kappa, s = np.split(by_scipy(verdicts, items), [4, 6, 8])
    place = [board.models["model"].tolist().index(m) for m in MODELS]
    np.testing.assert_allclose(board.models["theta"].iloc[place], theta - theta.mean(), atol=2e-5)
    (blunt,) = board.of_kind("discrimination").itertuples()
    assert blunt.judge == "blunt"
    assert blunt.estimate == pytest.approx(s[0], abs=2e-5)
    assert blunt.low < JUDGES["blunt"][0] < blunt.high < 1
    np.testing.assert_allclose(
        board.coefficients["estimate"].iloc[:-1], np.stack([c, kappa], 1).ravel(), atol=2e-5
    )
    equal = joint(verdicts, items)
    assert equal.of_kind("discrimination").empty
    # At s = 1 the blunt judge draws theta towards 0.
    assert np.ptp(equal.models["theta"]) < 0.8 * np.ptp(board.models["theta"])
    assert board.record()["discriminations"] == [
        {"judge": "blunt", "estimate": blunt.estimate, "low": blunt.low, "high": blunt.high}
    ]


@pytest.mark.heavy
def test_trusted_labels_are_the_unit_of_discrimination():
    verdicts, items = written()
    rng, anchors = np.random.default_rng(1), []
    for p, (i, j) in itertools.product(range(30), itertools.combinations(range(4), 2)):
        right = rng.random() < expit(2 * (THETA[i] - THETA[j]))  # labels twice as sharp
        better, worse = (i, j) if right else (j, i)
        anchors.append((f"p{p}", MODELS[better], MODELS[worse]))
    anchors = pd.DataFrame(anchors, columns=["pool", "better", "worse"])
    board = joint(verdicts, items, anchors, judge_aware=True)
    s = {b.judge: b for b in board.of_kind("discrimination").itertuples()}
    assert list(s) == ["sharp", "blunt"]
    assert s["sharp"].low < 0.5 < s["sharp"].high < 1
    assert s["blunt"].low < 0.15 < s["blunt"].high


def test_it_needs_all_judges_together():
    tables = own.read(*written(2), covariates=["words"])
    with pytest.raises(ValueError, match="--judge-aware needs all judges together: add --joint"):
        own.leaderboard(tables, ["words"], judge_aware=True)
