"""Words and numbers that no function of `jbt.own` knows are refused by name, never taken for
another: nothing is dropped, kept or fitted by a word that is not one of those allowed."""

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


TABLES = {
    "ties": ("Drop", "half, drop"),
    "merge_pools": ("no", "True, False"),
    "covariates": ("words", "must be a list of columns"),
}
MODEL = {
    "transform": ("sqrt", "none, log, log1p"),
    "standardise": (None, "True, False"),
    "position": ("Auto", "yes, no, auto"),
}


@pytest.mark.parametrize("name", [*TABLES, *MODEL])
def test_load(name, files):
    value, allowed = {**TABLES, **MODEL}[name]
    with pytest.raises(ValueError, match=f"^{name} must.*, got {value!r}$") as error:
        own.load(*files[:2], **{"covariates": ["words"], name: value})
    assert allowed in str(error.value)


@pytest.mark.parametrize("name", TABLES)
def test_read(name, files):
    with pytest.raises(ValueError, match=f"^{name} must"):
        own.read(*files, **{name: TABLES[name][0]})


def test_collect(files):
    with pytest.raises(
        ValueError, match=r"^format must be one of auto, chatbot_arena.*, got 'PRD'"
    ):
        formats.collect([files[0]], format="PRD")


@pytest.mark.parametrize("name", MODEL)
def test_a_batch_and_a_leaderboard(name, files):
    read = own.read(*files, covariates=["words"])
    for function in (own.Batch.of, own.leaderboard):
        with pytest.raises(ValueError, match=f"^{name} must be one of"):
            function(read, ["words"], **{name: MODEL[name][0]})


@pytest.mark.parametrize("word", ["sqrt", ["log"], 1, None, ""])
def test_covariate_values(word, files):
    read = own.read(*files, covariates=["words"])
    with pytest.raises(ValueError, match=r"^transform must be one of none, log, log1p, got"):
        own.covariate_values(read, ["words"], word, True)


def test_a_leaderboard_of_another_difference(files):
    read = own.read(*files, covariates=["words"])
    with pytest.raises(ValueError, match=r"^difference must be one of plain, relative"):
        own.leaderboard(read, ["words"], difference="Relative")


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


def test_words_as_they_are_allowed(files):
    """NumPy's truth values and integers are as good as Python's."""
    read = own.read(*files, covariates=["words"], merge_pools=np.bool_(False))
    batch = own.Batch.of(read, ["words"], standardise=np.bool_(True))
    Rankings.of(read, batch, np.int64(1))
