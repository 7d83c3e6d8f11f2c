"""A column of voters is no column of judges, and no product of counts is allocated unasked."""

import numpy as np
import pandas as pd
import pytest

from jbt import cli, own
from jbt.own.tables import limits
from jbt.own.tables.sheets import TableError
from jbt.simulation import memory


@pytest.fixture
def votes(tmp_path, monkeypatch):
    """700 voters of one vote each on four models, and labels, in a folder."""
    monkeypatch.chdir(tmp_path)
    rng, models = np.random.default_rng(0), ["m1", "m2", "m3", "m4"]
    rows = [(f"q{i}", f"voter{i}", *rng.choice(models, 2, replace=False)) for i in range(700)]
    table = pd.DataFrame(rows, columns=["pool", "judge", "first", "second"])
    table["winner"] = rng.choice(["first", "second"], 700)
    table.to_csv("v.csv", index=False)
    sides = table[["first", "second"]].melt(ignore_index=False)["value"]
    items = pd.DataFrame({"pool": table["pool"][sides.index], "item": sides})
    items.assign(words=rng.integers(1, 99, len(items))).to_csv("i.csv", index=False)
    anchors = table[["pool"]].assign(better=table["first"], worse=table["second"])
    anchors[:9].to_csv("a.csv", index=False)
    return table


TABLES = "--verdicts v.csv --items i.csv"
CORRECTED = f"{TABLES} --covariates words --anchors a.csv"


@pytest.mark.parametrize(
    "command",
    [
        *(f"{name} {TABLES}" for name in ("doctor", "judge", "fit", "leaderboard", "replay")),
        *(f"{name} {CORRECTED}" for name in ("identify", "gate", "plan labels")),
        f"fit {TABLES} --joint",
        f"plan prompts {TABLES}",
    ],
)
def test_voters_are_named_before_anything_is_computed(votes, capsys, command):
    assert cli.main(command.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "v.csv: 700 judges in 700 rows: the column 'judge' is probably the voter" in error
    assert "--judge-column none" in error


def test_all_votes_are_one_judges_if_the_user_says_so(votes, capsys):
    assert cli.main(f"judge {TABLES} --judge-column none".split()) == 0
    alone = capsys.readouterr().out
    votes.drop(columns="judge").to_csv("v.csv", index=False)
    assert cli.main(f"judge {TABLES}".split()) == 0
    assert capsys.readouterr().out == alone


def test_many_judges_of_many_verdicts_are_judges(votes):
    """Ten verdicts each: enough to say something about each of them."""
    tables = own.read(pd.concat([votes.assign(winner="first")] * 10))
    assert len(tables.judges) == 700


def test_what_memory_cannot_hold_is_refused_with_its_counts(votes, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 0)
    monkeypatch.setattr(memory, "there_is", lambda device: 2**20)
    with pytest.raises(TableError, match=r"results of 40 judges on 700 pools need .* GiB"):
        own.read(votes.assign(judge=[f"j{i % 40}" for i in range(700)]))
    with pytest.raises(TableError, match="need some"):
        limits.check(2**21, "things", "fewer")
    limits.check(2**19, "things", "fewer")
