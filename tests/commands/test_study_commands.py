"""`jbt ask`, `jbt tell`, `jbt status`: files in and out, exit statuses, wrong input."""

import json

import pandas as pd
import pytest

from jbt import own

ITEMS = 'item,words,text\na,10,"two\nlines"\nb,20,bye\nc,35,so\nd,50,long\n'


@pytest.fixture
def folder(folder):
    (folder / "items.csv").write_text(ITEMS)
    return folder


@pytest.fixture
def asked(folder, jbt):
    """The four queries of a study that has begun."""
    jbt("ask run --items items.csv --covariates words --n 4 --budget 4 --out ask.csv")
    return pd.read_csv("ask.csv")


@pytest.mark.heavy
def test_from_items_to_a_spent_budget(folder, asked, jbt, outcome):
    texts = pd.read_csv("items.csv", index_col="item").text
    assert asked.first_text.tolist() == texts[asked["first"]].tolist()
    # One answered, one failed, two not answered yet.
    winners = asked.assign(winner=[asked["first"][0], "error", "", ""], tokens=["12", "", "", ""])
    winners.to_csv("told.csv", index=False)
    status = "1 verdict, 1 error, 2 answers awaited; not stopped\n"
    assert outcome("tell run told.csv") == ("2 answers told\n", status)
    # The failed one is asked again; two more are awaited.
    jbt("ask run --n 9 --out again.jsonl")
    again = json.loads((folder / "again.jsonl").read_text())
    assert (again["first"], again["attempt"]) == (asked["first"][1], 2)
    jbt("ask run --n 9", code=5)
    rest = asked[2:].assign(winner="tie", cost=0.5)
    rest.to_csv("rest.csv", index=False)
    jbt("tell run rest.csv")
    (folder / "last.jsonl").write_text(json.dumps({"id": again["id"], "p_first": 0.75}))
    jbt("tell run last.jsonl", code=4)
    jbt("ask run", code=4)
    jbt("status run --json status.json", code=4)
    record = json.loads((folder / "status.json").read_text())
    assert (record["n_verdicts"], record["n_errors"], record["cost"]) == (4, 1, 3.0)
    # What was told is a table of verdicts for every other command.
    jbt("import run/journal.jsonl --out tables")
    assert pd.read_csv("tables/verdicts.csv").p_first.isna().sum() == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ask run", "run holds no study: jbt ask run --items FILE"),
        ("ask run --items items.csv --k 4", "k must lie in 1..3"),
    ],
)
def test_a_study_that_cannot_begin(line, message, folder, refused):
    assert message in refused(line)
    assert not (folder / "run").exists()


@pytest.mark.heavy
def test_wrong_files_and_answers(folder, asked, jbt):
    answered = asked.assign(winner="first")
    assert "no column 'id'" in jbt("tell run items.csv", code=2)
    for change, message in (
        ({"first": "d", "second": "d"}, "told.csv, line 2: first of query 1 was"),
        ({"cost": "much"}, "query 1: cost must lie in 0 to"),
    ):
        wrong = answered[:1].assign(**change)
        pd.concat([wrong, answered[1:]]).to_csv("told.csv", index=False)
        assert message in jbt("tell run told.csv", code=2)
    (folder / "bad.jsonl").write_text('{"id": 1, "winner": "first"}\n{"id":\n')
    assert "bad.jsonl, line 2" in jbt("tell run bad.jsonl", code=2)
    assert own.Study.open("run").n_told == 0


@pytest.mark.heavy
def test_a_study_that_is_sure_says_so(folder, jbt):
    jbt(
        "ask run --items items.csv --covariates words --n 4 --level 0.3 --orders rule --out ask.csv"
    )
    asked = pd.read_csv("ask.csv")
    asked.assign(winner=asked[["first", "second"]].min(axis=1)).to_csv("told.csv", index=False)
    for line in ("tell run told.csv", "ask run", "status run"):
        jbt(line, code=3)
