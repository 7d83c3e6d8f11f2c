"""`jbt ask`, `jbt tell`, `jbt status`: files in and out, exit statuses, wrong input."""

import csv
import json

import pytest

from jbt import cli, own

ITEMS = 'item,words,text\na,10,"two\nlines"\nb,20,bye\nc,35,so\nd,50,long\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.csv").write_text(ITEMS)
    return tmp_path


def jbt(line):
    return cli.main(line.split())


def begin(more=""):
    return jbt(f"ask run --items items.csv --covariates words --n 4 --out ask.csv {more}")


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, answers):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for row in answers for k in row)))
        writer.writeheader()
        writer.writerows(answers)


def test_from_items_to_a_spent_budget(folder, capsys):
    assert begin("--budget 4") == 0
    asked = rows(folder / "ask.csv")
    assert len(asked) == 4
    texts = {"a": "two\nlines", "b": "bye", "c": "so", "d": "long"}
    assert all(texts[row["first"]] == row["first_text"] for row in asked)
    assert all(texts[row["second"]] == row["second_text"] for row in asked)
    # One answered, one failed, two not answered yet.
    write(
        folder / "told.csv",
        [
            asked[0] | {"winner": asked[0]["first"], "tokens": "12"},
            asked[1] | {"winner": "error"},
            *asked[2:],
        ],
    )
    capsys.readouterr()
    assert jbt("tell run told.csv") == 0
    out = capsys.readouterr()
    assert out.out == "2 answers told\n"
    assert out.err == "1 verdict, 1 error, 2 answers awaited; not stopped\n"
    assert jbt("status run") == 0
    told = own.Study.open("run").verdicts()
    assert told.tokens.tolist()[0] == "12"
    # The failed one is asked again; two more are awaited.
    assert jbt("ask run --n 9 --out again.jsonl") == 0
    (again,) = map(json.loads, (folder / "again.jsonl").read_text().splitlines())
    assert (again["first"], again["attempt"]) == (asked[1]["first"], 2)
    lines = [{"id": again["id"], "p_first": 0.75}] + [
        {"id": int(row["id"]), "winner": "tie", "cost": 0.5} for row in asked[2:]
    ]
    (folder / "rest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert jbt("tell run rest.jsonl") == 4
    assert jbt("ask run --out none.csv") == 4
    assert rows(folder / "none.csv") == []
    capsys.readouterr()
    assert jbt("status run --json status.json --out report") == 4
    assert capsys.readouterr().out.startswith("top 1: ")
    record = json.loads((folder / "status.json").read_text())
    assert (record["n_verdicts"], record["n_errors"], record["cost"]) == (4, 1, 3.0)
    assert record["settings"]["budget"] == 4
    assert sorted(p.name for p in (folder / "report").iterdir()) == [
        "figure.png",
        "report.md",
        "table.csv",
    ]
    # What was told is a table of verdicts for every other command.
    assert jbt("import run/journal.jsonl --out tables") == 0
    verdicts = rows(folder / "tables" / "verdicts.csv")
    assert len(verdicts) == 5
    assert sum(row["p_first"] == "" for row in verdicts) == 1


def test_a_study_that_is_sure_says_so(folder):
    assert begin("--level 0.3 --orders rule") == 0
    asked = rows(folder / "ask.csv")
    write(
        folder / "told.csv",
        [{"id": r["id"], "winner": min(r["first"], r["second"])} for r in asked],
    )
    assert jbt("tell run told.csv") == 3
    assert jbt("ask run") == 3
    assert jbt("status run") == 3


def test_queries_on_standard_output(folder, capsys):
    assert jbt("ask run --items items.csv --n 2") == 0
    out = capsys.readouterr().out
    assert out.startswith("id,pool,first,second,attempt,first_words,first_text,second_words")
    assert len(list(csv.DictReader(out.splitlines(keepends=True)))) == 2


WRONG = {
    "other rows": ({"first": "d", "second": "d"}, "told.csv, line 2: first of query 1 was"),
    "no such query": ({"id": "77"}, "unknown id '77'"),
    "cost": ({"cost": "much"}, "query 1: cost must lie in 0 to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_named_and_none_is_told(folder, capsys, name):
    change, message = WRONG[name]
    begin("--orders rule")
    row, good, *_ = rows(folder / "ask.csv")
    first = {"id": row["id"], "first": row["first"], "second": row["second"], "winner": "first"}
    write(folder / "told.csv", [first | change, {"id": good["id"], "winner": "second"}])
    capsys.readouterr()
    assert jbt("tell run told.csv") == 2
    assert message in capsys.readouterr().err
    assert own.Study.open("run").n_told == 0


def test_wrong_studies_and_files(folder, capsys):
    for line, message in (
        ("ask run", "run holds no study: jbt ask run --items FILE"),
        ("status run", "run holds no study:"),
        ("tell run none.csv", "run holds no study:"),
        ("ask run --items none.csv", "none.csv: no such file"),
        ("ask run --items items.csv --k 4", "k must lie in 1..3"),
        ("ask run --items items.csv --out /none/ask.csv", "no folder /none"),
        ("ask run --items items.csv --price 0", "price must be finite and above 0"),
    ):
        assert jbt(line) == 2
        assert message in capsys.readouterr().err
        assert not (folder / "run").exists()
    begin()
    (folder / "lines.jsonl").write_text('{"id": 1, "pool": "all"}\n')
    capsys.readouterr()
    for line, message in (
        ("ask run --k 2", "other settings: k was 1, is 2"),
        ("tell run none.csv", "none.csv: no such file"),
        ("tell run items.csv", "no column 'id'"),
        (
            "tell run lines.jsonl",
            "needs a column winner, p_first or error; columns are 'id', 'pool'",
        ),
        ("ask run --items items.csv", "(without the items, settings that are not named stay"),
    ):
        assert jbt(line) == 2
        assert message in capsys.readouterr().err
    (folder / "bad.jsonl").write_text('{"id": 1, "winner": "first"}\n{"id":\n')
    assert jbt("tell run bad.jsonl") == 2
    assert "bad.jsonl, line 2" in capsys.readouterr().err
    (folder / "bad.jsonl").write_text("[1]\n")
    assert jbt("tell run bad.jsonl") == 2
    assert "line 1: needs an object" in capsys.readouterr().err
