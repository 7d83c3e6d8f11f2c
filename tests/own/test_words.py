"""Words and numbers that no function of `jbt.own` knows are refused by name, never taken for
another: nothing is dropped, kept or fitted by a word that is not one of those allowed."""

import re

import jaxtyping
import numpy as np
import pytest

from jbt import own
from jbt.own import formats
from jbt.own.gates.labelling import labelling
from jbt.own.gates.rankings import Rankings
from jbt.types import Prior

ANCHORS = "pool,better,worse\np,y,x\np,z,x\n"


@pytest.fixture(autouse=True)
def as_a_user_calls_them():
    """Without the checks of annotations that only the suite has."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def files(tables, tmp_path):
    anchors = tmp_path / "anchors.csv"
    anchors.write_text(ANCHORS)
    return (*tables(), anchors)


WRONG = {
    "ties": ("Drop", "half, drop"),
    "merge_pools": ("no", "True, False"),
    "covariates": ("words", "must be a list of columns"),
    "transform": ("sqrt", "none, log, log1p"),
    "standardise": (None, "True, False"),
    "position": ("Auto", "yes, no, auto"),
}
"""Of each argument a wrong value, and what is allowed."""


@pytest.mark.parametrize("name", WRONG)
def test_arguments_of_tables_and_models(name, files):
    value, allowed = WRONG[name]
    read = own.read(*files, covariates=["words"])
    is_model = name in ("transform", "standardise", "position")
    calls = [lambda **given: own.load(*files[:2], **{"covariates": ["words"], **given})]
    if is_model:
        calls += [
            lambda f=f, **given: f(read, ["words"], **given)
            for f in (own.Batch.of, own.leaderboard)
        ]
    else:
        calls += [lambda **given: own.read(*files, **given)]
    for call in calls:
        with pytest.raises(ValueError, match=f"^{name} must.*, got {value!r}$") as error:
            call(**{name: value})
        assert allowed in str(error.value)


def test_other_words(files):
    read = own.read(*files, covariates=["words"])
    wrong = {
        "format must be one of auto, chatbot_arena.*, got 'PRD'": lambda: formats.collect(
            [files[0]], format="PRD"
        ),
        "difference must be one of plain, relative": lambda: own.leaderboard(
            read, ["words"], difference="Relative"
        ),
    }
    for word in ("sqrt", ["log"], 1, None, ""):
        wrong[f"transform must be one of none, log, log1p, got {re.escape(repr(word))}"] = (
            lambda word=word: own.covariate_values(read, ["words"], word, True)
        )
    for message, call in wrong.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


@pytest.mark.heavy
@pytest.mark.parametrize("k", [1.5, "1", None, 1.0, np.float64(1)])
def test_k(k, files):
    """1.5 was taken for 1 in one place and for 2 in another."""
    read = own.read(*files, covariates=["words"])
    batch = own.Batch.of(read, ["words"])
    for function in (
        lambda: own.gate(read, batch, k=k),
        lambda: labelling(read, batch, k=k),
        lambda: own.replay(read, batch, k=k, seeds=1),
    ):
        with pytest.raises(ValueError, match=r"^k must be an integer, got"):
            function()
    with pytest.raises(ValueError, match=r"^k must lie in 1\.\.\d+ .*, got"):
        own.fit(batch, k=k)


def test_gate_labelling_and_replay(files):
    read = own.read(*files, covariates=["words"])
    batch = own.Batch.of(read, ["words"])
    wrong = {
        "labels must be one of pairs": lambda: own.gate(read, batch, labels="Pairs"),
        "labels must be one of disputed": lambda: labelling(read, batch, labels=1),
        "n must be an integer": lambda: labelling(read, batch, n=2.5),
        "rule must be one of": lambda: own.gate(read, batch, rule="Sign"),
        "model must be one of naive, bias_aware": lambda: own.replay(read, batch, model="aware"),
        "seeds must be an integer": lambda: own.replay(read, batch, seeds=1.5),
    }
    for message, call in wrong.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


@pytest.mark.parametrize("value", ["1", None, True, 1j])
def test_priors(value):
    with pytest.raises(ValueError, match=r"^lam must be a number above 0, got"):
        Prior(lam=value)
    with pytest.raises(ValueError, match=r"^lam_b must be a number above 0, got"):
        Prior(lam_b=value)


@pytest.mark.heavy
def test_words_as_they_are_allowed(files):
    """NumPy's truth values and integers are as good as Python's."""
    read = own.read(*files, covariates=["words"], merge_pools=np.bool_(False))
    batch = own.Batch.of(read, ["words"], standardise=np.bool_(True))
    Rankings.of(read, batch, np.int64(1))
