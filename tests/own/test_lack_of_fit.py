"""What Bradley-Terry leaves out is found, one effect at a time, and named."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from jbt import own

MODELS = 5
QUALITY = np.linspace(1, -1, MODELS)
OF_ANSWERS = "quality of a model between prompts"
FIRST, SECOND = np.array(list(itertools.permutations(range(MODELS), 2))).T


def frames(seed=0, prompts=60, *, cycle=0.0, of_answers=0.0, c=0.5, curvature=0.0, of_pairs=0.0):
    """Every ordered pair of five models on every prompt, judged once.

    Args:
      cycle: by how much a model is favoured against the next two, who come round again.
      of_answers: standard deviation of an answer's quality about its model's.
      c: of the covariate, one number or one a model.
      curvature: of its square.
      of_pairs: standard deviation of what both verdicts of a pair share.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(prompts, MODELS))
    phi = QUALITY + of_answers * rng.normal(size=x.shape) + c * x + curvature * x**2
    ahead = (SECOND - FIRST) % MODELS
    logit = phi[:, FIRST] - phi[:, SECOND] + 0.3 + cycle * np.where(ahead <= 2, 1, -1)
    shared = of_pairs * rng.normal(size=(prompts, MODELS, MODELS))
    logit += (shared - shared.swapaxes(1, 2))[:, FIRST, SECOND]
    won = rng.random(logit.shape) < expit(logit)
    prompt, pair = np.indices(won.shape).reshape(2, -1)
    shown = {"pool": prompt, "first": FIRST[pair], "second": SECOND[pair], "p_first": won.ravel()}
    pool, item = np.indices(x.shape).reshape(2, -1)
    items = pd.DataFrame({"pool": pool, "item": item, "content": item, "words": x.ravel()})
    return pd.DataFrame(shown).astype({"p_first": float}), items


def tables(**population):
    return own.read(*frames(**population), covariates=["words"])


@pytest.mark.parametrize(
    ("population", "effects", "said"),
    [
        ({}, set(), "what Bradley-Terry leaves out"),
        ({"cycle": 0.5}, {"pairs of models"}, "win against others more often than one quality"),
        ({"of_answers": 1.0}, {OF_ANSWERS}, "depend on each other"),
        ({"c": 0.5 + QUALITY / 2}, {"c[words] between models"}, "not at equal covariates"),
        # An answer's square is a quality of its own, too.
        ({"curvature": 0.4}, {"curvature of words", OF_ANSWERS}, "the effect is not linear"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_a_leaderboard_leaves_out(population, effects, said):
    boards = own.leaderboard(tables(**population), ["words"], standardise=False)
    tests = boards[0].left_out
    assert set(tests["effect"][tests["p"] < 0.01]) == effects
    assert said in str(boards.report("", []))
    assert boards[0].record()["left_out"] == tests.to_dict("records")


def test_swapping_sides_changes_no_test_across_prompts():
    verdicts, items = frames()
    swapped = verdicts.rename(columns={"first": "second", "second": "first"})
    swapped["p_first"] = 1 - swapped["p_first"]
    tests = []
    for given in (verdicts, swapped):
        read = own.read(given, items, covariates=["words"])
        (board,) = own.leaderboard(read, ["words"], position="no")
        across = board.left_out[board.left_out["effect"] != OF_ANSWERS]
        tests.append(across.reset_index(drop=True))
    assert len(tests[0]) == 3
    pd.testing.assert_frame_equal(*tests)


def test_with_few_prompts_nothing_is_tested():
    (board,) = own.leaderboard(tables(prompts=9, cycle=2.0), ["words"])
    assert board.left_out.empty
    assert board.record()["left_out"] == []


@pytest.mark.parametrize("of_pairs", [0.0, 1.5])
def test_verdicts_of_a_pair_that_agree_too_often(of_pairs):
    batch = own.Batch.of(tables(prompts=40, of_pairs=of_pairs), ["words"])
    analysis = own.analyse(batch)
    (p,) = analysis.judges["p_pairs"]
    assert (p < 0.01) == (of_pairs > 0)
    text = str(analysis.report("", []))
    assert ("no more than" in text) == (of_pairs == 0)
    assert ("are too narrow; those over all pools allow for it" in text) == (of_pairs > 0)
    assert analysis.record()["judges"][0]["p_pairs"] == p


def test_pairs_judged_once_are_not_tested():
    verdicts, items = frames(prompts=4)
    tables = own.read(verdicts.drop_duplicates("pool"), items, covariates=["words"])
    analysis = own.analyse(own.Batch.of(tables, ["words"]))
    assert np.isnan(analysis.judges["p_pairs"]).all()
    assert analysis.record()["judges"][0]["p_pairs"] is None
