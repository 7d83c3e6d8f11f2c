"""What Bradley-Terry leaves out is found, one effect at a time, and named."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from support.marks import heavy

from jbt import own

MODELS = 5
QUALITY = np.linspace(1, -1, MODELS)
OF_ANSWERS = "quality of a model between prompts"
FIRST, SECOND = np.array(list(itertools.permutations(range(MODELS), 2))).T


def frames(seed=0, prompts=60, *, cycle=0.0, of_answers=0.0, c=0.5, curvature=0.0):
    """Every ordered pair of five models on every prompt, judged once.

    Args:
      cycle: by how much a model is favoured against the next two, who come round again.
      of_answers: standard deviation of an answer's quality about its model's.
      c: of the covariate, one number or one a model.
      curvature: of its square.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(prompts, MODELS))
    phi = QUALITY + of_answers * rng.normal(size=x.shape) + c * x + curvature * x**2
    ahead = (SECOND - FIRST) % MODELS
    logit = phi[:, FIRST] - phi[:, SECOND] + 0.3 + cycle * np.where(ahead <= 2, 1, -1)
    won = rng.random(logit.shape) < expit(logit)
    prompt, pair = np.indices(won.shape).reshape(2, -1)
    shown = {"pool": prompt, "first": FIRST[pair], "second": SECOND[pair], "p_first": won.ravel()}
    pool, item = np.indices(x.shape).reshape(2, -1)
    items = pd.DataFrame({"pool": pool, "item": item, "content": item, "words": x.ravel()})
    return pd.DataFrame(shown).astype({"p_first": float}), items


def board_of(verdicts, items, **options):
    tables = own.read(verdicts, items, covariates=["words"])
    (board,) = own.leaderboard(tables, ["words"], **options)
    return board


@pytest.mark.parametrize(
    ("population", "effects"),
    [
        ({}, set()),
        ({"cycle": 0.5}, {"pairs of models"}),
        heavy({"of_answers": 1.0}, {OF_ANSWERS}),
        heavy({"c": 0.5 + QUALITY / 2}, {"c[words] between models"}),
        # An answer's square is a quality of its own, too.
        heavy({"curvature": 0.4}, {"curvature of words", OF_ANSWERS}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_a_leaderboard_leaves_out(population, effects):
    board = board_of(*frames(**population), standardise=False)
    tests = board.left_out
    assert set(tests["effect"][tests["p"] < 0.01]) == effects


def test_swapping_sides_changes_no_test_across_prompts():
    verdicts, items = frames()
    swapped = verdicts.rename(columns={"first": "second", "second": "first"})
    swapped["p_first"] = 1 - swapped["p_first"]
    tests = []
    for given in (verdicts, swapped):
        left_out = board_of(given, items, position="no").left_out
        tests.append(left_out[left_out["effect"] != OF_ANSWERS].reset_index(drop=True))
    assert len(tests[0]) == 3
    pd.testing.assert_frame_equal(*tests)


def test_what_the_model_has_is_not_tested():
    """Of two models there is no cycle; of two answers, squares about their mean are equal."""
    verdicts, items = frames()
    two = verdicts[(verdicts["first"] < 2) & (verdicts["second"] < 2)]
    left_out = board_of(two, items[items["item"] < 2]).left_out
    assert left_out["effect"].tolist() == [OF_ANSWERS]


def test_graded_verdicts_that_repeat_are_found():
    verdicts, items = frames()
    low, high = np.sort(verdicts[["first", "second"]], axis=1).T
    first = verdicts.groupby([verdicts["pool"], low, high])["p_first"].transform("first")
    same = np.where(verdicts["first"] < verdicts["second"], first, 1 - first)
    graded = verdicts.assign(p_first=0.5 + 0.3 * (same - 0.5))
    for given, expected in ((graded, True), (verdicts, False)):
        p = board_of(given, items).left_out.set_index("effect")["p"]
        assert (p[OF_ANSWERS] < 0.01) == expected


def test_with_few_prompts_nothing_is_tested():
    board = board_of(*frames(prompts=14, cycle=2.0))
    assert board.left_out.empty
    assert board.record()["untested"] == "there are fewer than 15 prompts"
