"""Words and numbers that no function of `jbt.own` knows are refused by name, never taken for
another: nothing is dropped, kept or fitted by a word that is not one of those allowed."""

import io
from functools import partial

import jaxtyping
import numpy as np
import pandas as pd
import pytest
from support.example_tables import ITEMS, VERDICTS

from jbt import own
from jbt.types import Prior

ANCHORS = "pool,better,worse\np,y,x\np,z,x\n"


@pytest.fixture(autouse=True)
def as_a_user_calls_them():
    """Without the checks of annotations that only the suite has."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def files():
    return [pd.read_csv(io.StringIO(text)) for text in (VERDICTS, ITEMS, ANCHORS)]


@pytest.fixture(scope="module")
def calls(files):
    """Functions by name, which lack only what a test gives."""
    read = own.read(*files, covariates=["words"])
    batch = own.Batch.of(read, ["words"])
    return {
        "read": lambda **given: own.read(*files, **{"covariates": ["words"], **given}),
        "batch": partial(own.Batch.of, read, ["words"]),
        "leaderboard": partial(own.leaderboard, read, ["words"]),
        "replay": partial(own.replay, read, batch),
        "prior": Prior,
    }


WRONG = [
    ("read", "ties", ["Drop"], "one of half, drop"),
    ("read", "covariates", ["words"], "must be a list of columns"),
    ("batch leaderboard", "transform", ["sqrt", ["log"], None], "none, log, log1p"),
    ("batch leaderboard", "standardise", [None], "True, False"),
    ("replay", "model", ["aware"], "one of naive, bias_aware"),
    # 1.5 was taken for 1 in one place and for 2 in another.
    ("replay", "k", [1.5, "1", np.float64(1)], "an integer"),
    ("prior", "lam", ["1", None, True, 1j], "a number above 0"),
]
"""Functions, an argument, wrong values of it, and what is allowed."""


@pytest.mark.parametrize(("names", "argument", "values", "allowed"), WRONG)
def test_a_wrong_word_is_refused_with_what_is_allowed(names, argument, values, allowed, calls):
    for name in names.split():
        for value in values:
            with pytest.raises(ValueError, match=f"^{argument} must") as error:
                calls[name](**{argument: value})
            assert allowed in str(error.value)
            assert str(error.value).endswith(f", got {value!r}")
