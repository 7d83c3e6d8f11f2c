"""The `jbt` command: what it prints and writes, and what a wrong input gets."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from support.example_tables import ITEMS, VERDICTS

from jbt import cli

BAD = {
    "missing column": (VERDICTS.replace("winner", "win"), ITEMS, "no column 'winner'"),
    "header only": (VERDICTS.splitlines()[0] + "\n", ITEMS, "no rows"),
    "empty file": ("", ITEMS, "file is empty"),
    "unknown item": (VERDICTS.replace("p,b,x,y", "p,b,x,w"), ITEMS, "line 6: item 'w' of pool 'p'"),
    "unknown pool": (VERDICTS.replace("r,a,s", "R,a,s"), ITEMS, "line 9: pool 'R' is not in"),
    "first is second": (VERDICTS.replace("q,a,u,v", "q,a,u,u"), ITEMS, "line 7: first and second"),
    "bad winner": (
        VERDICTS.replace("y,first", "y,left"),
        ITEMS,
        "line 2: winner is 'left', allowed",
    ),
    "negative count": (VERDICTS.replace("tie,2", "tie,-2"), ITEMS, "line 3: count is '-2'"),
    "text count": (VERDICTS.replace("tie,2", "tie,two"), ITEMS, "line 3: count is 'two'"),
    "empty pool": (VERDICTS.replace("q,a,u,v", ",a,u,v"), ITEMS, "line 7: pool is empty"),
    "long row": (VERDICTS.replace("q,a,u,v", "q,a,u,v,1,2,3"), ITEMS, "line 7: 9 fields"),
    "long rows": (
        "pool,first,second,winner\n1,p,x,y,first\n",
        ITEMS,
        "line 2: 5 fields, the header has 4",
    ),
    "short row": (VERDICTS.replace("q,a,u,v,first,1", "q,a"), ITEMS, "line 7: 2 fields"),
    "twin columns": (VERDICTS.replace("count", "judge"), ITEMS, "two columns are called 'judge'"),
    "bars": (VERDICTS.replace(",", "|"), ITEMS, "separators are commas, tabs or semicolons"),
    "blank lines": ("\n" + VERDICTS.replace("q,a,u,v,f", "\n,,,,,\nq,a,u,u,f"), ITEMS, "line 10:"),
    "NUL": (
        VERDICTS.replace("q,a,u", "q,a,u\0"),
        ITEMS,
        "line 7: a line break or a NUL character within first",
    ),
    "huge count": (VERDICTS.replace("tie,2", "tie,1e19"), ITEMS, "line 3: count is '1e19'"),
    "huge covariate": (VERDICTS, ITEMS.replace("50", "1e308"), "line 4: words is '1e308'"),
    "NaN covariate": (VERDICTS, ITEMS.replace("50", "nan"), "line 4: words is 'nan'"),
    "text covariate": (VERDICTS, ITEMS.replace("50", "many"), "line 4: words is 'many'"),
    "empty covariate": (VERDICTS, ITEMS.replace("50", ""), "line 4: words is ''"),
    "constant covariate": (
        VERDICTS,
        "pool,item,words\n" + "".join(f"{r.rsplit(',', 2)[0]},7\n" for r in ITEMS.splitlines()[1:]),
        "words is the same for all items",
    ),
    "duplicate item": (VERDICTS, ITEMS + "p,x,1,1\n", "line 9: item 'x' of pool 'p' again"),
    "one item": (VERDICTS, ITEMS + "s,x,1,1\n", "pool 's' has 1 item"),
    "no covariate": (VERDICTS, ITEMS.replace("words", "length"), "no column 'words'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_end_with_one_line_and_nothing_written(case, tables, tmp_path, capsys):
    v, i = tables(*BAD[case][:2])
    out = tmp_path / "out.json"
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words", "--json", str(out)]
    assert cli.main(["fit", *options]) == 2
    error = capsys.readouterr().err
    assert BAD[case][2] in error
    assert str(tmp_path) in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--covariates", "lists", "--transform", "log"],
            "line 2: log of lists = 0 is undefined, needs values above 0\n",
        ),
        (["--k", "2"], "k must lie in 1..1 (pool 'q' has 2 contents), got 2"),
        (["--k", "0"], "k must lie"),
        (["--lam", "0"], "lam must be"),
        (["--lam", "1e308"], "lam must lie within 1e-06..1e+06, got 1e+308"),
        (["--lam-b", "1e-320"], "lam_b must lie within 1e-06..1e+06"),
        (["--lam-b", "-1"], "lam_b must be"),
        (["--judge", "c"], "no judge 'c': a, b"),
        (["--covariates", "words", "words"], "asked for twice"),
    ],
)
def test_bad_options(options, message, tables, capsys):
    v, i = tables()
    assert cli.main(["fit", "--verdicts", str(v), "--items", str(i), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == message.count("\n") + 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["plan", "pairing", "--n-contents", "1000000"], "n_contents must be at most 2000"),
        (["plan", "pairing", "--sd", "1e308"], "sd must lie within 1e-06..1e+06, got 1e+308"),
        (["plan", "reference", "--n-items", "100000"], "n_items must be at most 2000"),
        (["plan", "gate", "--sets", "1000000"], "sets must be at most 10000, got 1000000"),
        (["plan", "gate", "--bias", "1e308"], "bias must lie within -1e+06..1e+06"),
        (["replay", "--verdicts", "x", "--seeds", "1000000"], "seeds must be at most 10000"),
    ],
)
def test_what_cannot_end_or_be_is_refused_at_once(command, message, capsys):
    assert cli.main(command) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_plan_shows_how_far_it_is(capsys):
    plan = ("--n-contents", "3", "--pools", "2", "--n-twice", "1")
    assert cli.main(["plan", "pairing", *plan]) == 0
    shown = capsys.readouterr().err
    assert shown.startswith("\rplan pairing:   0%")
    assert "2/2" in shown


def test_files_that_are_no_tables(tables, tmp_path, capsys):
    v, _ = tables()
    assert cli.main(["fit", "--verdicts", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)) * 20)
    assert cli.main(["fit", "--verdicts", str(binary)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    lines = tmp_path / "answers.jsonl"
    lines.write_text('{"first": "a"}\n')
    assert cli.main(["fit", "--verdicts", str(lines)]) == 2
    assert f"is JSON, no table: make tables of it by jbt import {lines}" in capsys.readouterr().err
    assert cli.main(["leaderbord", "--verdicts", str(lines)]) == 2
    error = "error: unknown command 'leaderbord': did you mean jbt leaderboard\n"
    assert capsys.readouterr().err == error
    assert cli.main(["fit", "--verdicts", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert cli.main(["fit", "--verdicts", str(v), "--covariates", "words"]) == 2
    assert "--items" in capsys.readouterr().err
    before = v.read_bytes()
    assert cli.main(["fit", "--verdicts", str(v), "--json", str(v)]) == 2
    assert f"cannot write {v}: this command reads it" in capsys.readouterr().err
    assert v.read_bytes() == before
    nowhere = tmp_path / "no" / "out.json"
    assert cli.main(["fit", "--verdicts", str(v), "--json", str(nowhere)]) == 2
    assert "cannot write" in capsys.readouterr().err
    # Found out before anything is read or computed.
    for command in (["fit", "--verdicts", "none.csv"], ["plan", "pairing"]):
        for target, reason in ((nowhere, "no folder"), (tmp_path, "it is a folder")):
            assert cli.main([*command, "--json", str(target)]) == 2
            assert reason in capsys.readouterr().err


def fit_json(tmp_path, *options):
    out = tmp_path / "fit.json"
    assert cli.main(["fit", *options, "--json", str(out)]) == 0
    text = out.read_text()
    assert "NaN" not in text
    return json.loads(text)


def test_fit_reports_everything(tables, tmp_path, capsys):
    v, i = tables()
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words", "lists"]
    content = fit_json(
        tmp_path, *options, "--per-pool", "--verbose", "--out", str(tmp_path / "out")
    )
    shown = capsys.readouterr()
    assert content["settings"]["lam"] is None  # estimated
    records = {(r["pool"], r["judge"]): r for r in content["pools"]}
    statuses = {key: r["status"] for key, r in records.items()}
    assert statuses[("p", "a")] == "converged"
    assert statuses[("q", "a")] == "covariate_constant"
    assert statuses[("r", "a")] == "no_verdicts"
    assert records[("p", "a")]["items"] == ["x", "y", "z"]
    text = shown.out
    for phrase in (
        "kappa > 0 favours the first shown",
        "logits per standard deviation of the covariate",
        "prior-selected",
        "converged 1",
        "no_verdicts 1",
        "p / a: theta (prior-selected)",
        "2 error verdicts dropped",
    ):
        assert phrase in text, phrase
    assert "repeats are treated as independent" in shown.err
    assert shown.err.startswith("fitting 7 verdicts ...\n")

    one, other = content["judges"]
    assert [c["covariate"] for c in one["c"]] == ["words", "lists"]
    assert one["c"][0]["unit"] == "standard deviation of words"
    assert one["c"][0]["prior_selected"] is True
    assert one["c"][0]["low"] is None
    assert one["c"][0]["profile_range"] == 0
    # Two pools are too few to see whether kappa is the same in others.
    assert one["kappa"]["low"] is None
    assert one["kappa"]["basis"] in ("weak", "few_pools")
    assert one["kappa"]["without_ties"] != one["kappa"]["estimate"]
    assert (one["n_verdicts"], one["n_ties"], one["n_errors"]) == (6, 2, 2)
    assert (one["n_both_orders"], one["flip_rate"]) == (2, 0.75)
    assert one["top_k"] == {
        "n_pools": 2,
        "differs_from_naive": 0,
        "differs_without_ties": 0,
    }
    assert (other["kappa"], other["flip_rate"]) == (None, None)
    assert other["top_k"]["differs_without_ties"] is None

    report = (tmp_path / "out" / "report.md").read_text()
    assert "| judge | verdicts | ties |" in report
    assert "(figure.png)\n\n<!-- jbt " in report
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    assert set(table["quantity"].dropna()) == {"theta", "c", "kappa"}
    assert len(table[(table["pool"] == "p") & (table["quantity"] == "theta")]) == 6
    assert (tmp_path / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.heavy
def test_a_single_pool_prints_its_contents(tables, tmp_path, capsys):
    """Merged, items of one content are one line; equal qualities share a rank. The unit of a merged
    pool's verdicts is not seen here: no interval."""
    rows = [f"{p},{a},{b},tie" for p in "pq" for a in "xyz" for b in "xyz" if a != b]
    items = [f"{p},{a},{c},1" for p in "pq" for a, c in zip("xyz", "XYY", strict=True)]
    v, i = tables(
        "pool,first,second,winner\n" + "\n".join(rows), "pool,item,content,n\n" + "\n".join(items)
    )
    content = fit_json(tmp_path, "--verdicts", str(v), "--items", str(i), "--merge-pools")
    (pool,) = content["pools"]
    assert len(pool["theta"]) == 6
    assert [(r["content"], r["rank"]) for r in pool["ranking"]] == [("X", 1), ("Y", 1)]
    assert content["judges"][0]["kappa"]["estimate"] == pool["kappa"]
    text = capsys.readouterr().out
    assert re.search(r"^1= +X +\+0 +\+0", text, re.MULTILINE)
    assert content["judges"][0]["kappa"]["basis"] == "merged"
    assert pool["kappa_low"] is None
    assert all(r["low"] is None for r in pool["ranking"])
    assert text.count("1=") == 2


@pytest.mark.heavy
def test_tables_of_another_form(tables, tmp_path, capsys):
    """Columns of other names, a winner by name; one order only, so that kappa is null."""
    verdict = "prompt;left;right;vote\nq;X;Y;x\nq;Y;Z;y\nq;X;Z;tie\n"
    v, i = tables(verdict, "prompt\titem\tmodel\nq\tX\tm\nq\tY\tm\nq\tZ\tn\n")
    names = "--pool prompt --first left --second right --winner vote --content model"
    options = ["--verdicts", str(v), "--items", str(i), *names.split()]
    (record,) = fit_json(tmp_path, *options)["pools"]
    assert record["kappa"] is None
    assert record["theta"][0] == record["theta"][1] > record["theta"][2]
    text = capsys.readouterr().out
    assert "3 rows, 3 verdicts kept\n1 tie, each half a win for both" in text
    assert "kappa fixed at 0, converged" in text
    (record,) = fit_json(tmp_path, *options, "--position", "yes", "--ties", "drop")["pools"]
    assert record["kappa"] > 0
    assert record["n_verdicts"] == 2


@pytest.mark.heavy
def test_real_judges(data, tmp_path, capsys):
    prd, llmbar = data / "prd", data / "llmbar"
    content = fit_json(
        tmp_path,
        *("--verdicts", str(prd / "verdicts.csv"), "--items", str(prd / "items.csv")),
        *("--covariates", "words", "--transform", "log", "--k", "2"),
    )
    assert len(content["pools"]) == 240
    assert {r["status"] for r in content["pools"]} <= {"converged", "covariate_constant"}
    assert max(r["grad_norm"] for r in content["pools"]) < 1e-7
    assert "changes the top 2 in 33 of 80 pools (gpt35)" in capsys.readouterr().out.splitlines()[0]
    content = fit_json(
        tmp_path,
        *("--verdicts", str(llmbar / "verdicts.csv"), "--items", str(llmbar / "items.csv")),
        *("--covariates", "words", "--judge", "PaLM2"),
    )
    assert len(content["pools"]) == 419
    assert sum(r["n_errors"] for r in content["pools"]) == 8
    assert sum(r["status"] == "no_verdicts" for r in content["pools"]) == 4


@pytest.mark.heavy
def test_the_command_itself(tables):
    """Started as a program, twice in one process: that is what takes time."""
    v, _ = tables()
    code = """
import runpy, sys
for verdicts in sys.argv[1:]:
    sys.argv = ["jbt", "fit", "--verdicts", verdicts]
    try:
        runpy.run_module("jbt.cli", run_name="__main__")
    except SystemExit as end:
        print("exit code", end.code)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(v), "nothing.csv"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
    )
    assert done.returncode == 0
    assert "6 fits: 3 pools x 2 judges" in done.stdout
    assert re.findall("exit code (.*)", done.stdout) == ["0", "2"]
    assert "Traceback" not in done.stderr


def test_small_commands(capsys):
    assert cli.main([]) == 0
    start = capsys.readouterr().out
    assert len(start.splitlines()) == 10
    for command in ("sweep crossing", "example tables; jbt doctor", "ask run", "plan pairing"):
        assert f"\n  jbt {command}" in start
    assert cli.main(["--version"]) == 0
    assert cli.main(["--help"]) == 0
    assert cli.main(["sweep"]) == 0
    assert "crossing, crossing_choices, crossing_factors" in capsys.readouterr().out
    assert cli.main(["sweep", "nothing"]) == 2
    assert "unknown sweep" in capsys.readouterr().err
