"""Products of counts that a table can make large are estimated before they are allocated."""

import re

import jax
import numpy as np
import pytest
from support.boards import written
from support.marks import heavy

from jbt import own, runtime
from jbt.own.fits.judges import Judges
from jbt.own.fits.shared import SharedModel
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.own.tables import limits
from jbt.simulation import memory


@pytest.fixture
def asked(monkeypatch):
    """A function of words: the bytes that were estimated for what is described with them."""
    estimates: list[tuple[str, int]] = []
    monkeypatch.setattr(
        limits, "check", lambda needed, what, remedy: estimates.append((what, needed))
    )
    return lambda words: sum(needed for what, needed in estimates if words in what)


def n_bytes(tree) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.heavy
@pytest.mark.parametrize("as_rows", [False, True])
def test_estimates_bound_what_is_allocated(as_rows, asked, monkeypatch):
    """They are of the same size as the arrays of which they warn, or somewhat larger."""
    theta, judges = dict.fromkeys("abcdefghijkl", 0.0), dict.fromkeys("pqrs", 1.0)
    verdicts, items = written(30, theta=theta, judges=judges)
    items["lists"] = np.arange(len(items)) % 5
    if as_rows:
        monkeypatch.setattr("jbt.own.fits.batch.LARGEST_COUNTS", 5)
    batch = own.load(verdicts, items, ["words", "lists"])
    (group,) = batch.groups
    held = n_bytes((group.comparisons, group.items, group.variant))
    assert held <= asked("padded to") <= 6 * held
    with runtime.precision("float64"):
        stacks = SharedModel.of(batch, Judges.of(batch.tables)).stacks
    assert n_bytes([s.comparisons.verdicts for s in stacks]) <= asked("joint tables")
    assert n_bytes([s.loadings for s in stacks]) <= asked("joint fits")
    tables_read = own.read(verdicts, items, covariates=["words", "lists"])
    setup = Setup.of(tables_read, Settings(covariates=("words", "lists")))
    together = setup.together(Judges.of(tables_read))
    assert n_bytes(together.rows.columns) <= asked("biases of")


@pytest.mark.parametrize(
    ("argv", "counts"),
    [
        # These compile before they know how much they need.
        heavy(("fit", "--joint"), "joint "),
        (("doctor",), "results of 2 judges on 3 pools"),
        (("fit",), "fits of a pool and a judge, padded to 3 items"),
        (("identify", "--covariates", "words"), "profiles of 1 coefficients among"),
        (("plan", "labels", "--covariates", "words"), "pairs of contents by 2 judges"),
    ],
)
def test_what_does_not_fit_is_named_with_the_option(argv, counts, tables, monkeypatch, jbt):
    """Each estimate reaches its command: this one is too large, and no other is."""
    estimate = limits.check

    def only_this(needed, what, remedy):
        estimate(2**40 if counts in what else 0, what, remedy)

    monkeypatch.setattr(limits, "check", only_this)
    monkeypatch.setattr(memory, "there_is", lambda device: 2**33)
    v, i = tables()
    error = jbt(*argv, "--verdicts", v, "--items", i, code=2)
    assert re.search(f"{counts}.* need some 1.02e.03 GiB of memory, and there are 8: .*--", error)
