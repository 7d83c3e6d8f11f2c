"""The `jbt` command: what it prints and writes, and what a wrong input gets."""

import json
import re
import shlex
import subprocess

import pandas as pd
import pytest
from support.example_tables import ITEMS, VERDICTS

BAD = {
    "missing column": (VERDICTS.replace("winner", "win"), ITEMS, "no column 'winner'"),
    "blank lines": ("\n" + VERDICTS.replace("q,a,u,v,f", "\n,,,,,\nq,a,u,u,f"), ITEMS, "line 10:"),
    "huge covariate": (VERDICTS, ITEMS.replace("50", "1e308"), "line 4: words is '1e308'"),
    "constant covariate": (
        VERDICTS,
        "pool,item,words\n" + "".join(f"{r.rsplit(',', 2)[0]},7\n" for r in ITEMS.splitlines()[1:]),
        "words is the same for all items",
    ),
}


TABLES = "--verdicts verdicts.csv --items items.csv"


@pytest.fixture
def folder(folder, tables):
    """With tables, and with files that are none."""
    tables()
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 20)
    (folder / "answers.jsonl").write_text('{"first": "a"}\n')
    return folder


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_end_with_one_line_and_nothing_written(case, folder, tables, refused):
    verdicts, items, message = BAD[case]
    tables(verdicts, items)
    said = refused(f"fit {TABLES} --covariates words --json out.json")
    assert message in said
    assert re.match(r"error: (verdicts|items)\.csv", said)
    assert not (folder / "out.json").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            f"fit --covariates lists --transform log {TABLES}",
            "line 2: log of lists = 0 is undefined, needs values above 0\n",
        ),
        (f"fit --k 2 {TABLES}", "k must lie in 1..1 (pool 'q' has 2 contents), got 2"),
        (f"fit --judge c {TABLES}", "no judge 'c': a, b"),
        (f"fit --joint --discrimination a=1 a=2 {TABLES}", "--discrimination names 'a' twice"),
        ("fit --verdicts none.csv", "no such file"),
        ("fit --verdicts binary.csv", "error: "),
        (
            "fit --verdicts answers.jsonl",
            "is JSON, no table: make tables of it by jbt import answers.jsonl",
        ),
        # Found out before anything is read or computed.
        ("fit --verdicts none.csv --json no/out.json", "no folder"),
        ("leaderbord", "error: unknown command 'leaderbord': did you mean jbt leaderboard\n"),
        ("sweep nothing", "unknown sweep"),
    ],
)
def test_what_is_refused(command, message, folder, refused):
    is_hinted = "--transform log" in command
    assert message in refused(command, lines=1 + is_hinted)
    assert (folder / "verdicts.csv").read_text() == VERDICTS


@pytest.mark.heavy
def test_fit_reports_everything(folder, outcome):
    options = "--covariates words lists --per-pool --verbose --out out --json fit.json"
    text, notes = outcome(f"fit {TABLES} {options}")
    content = json.loads((folder / "fit.json").read_text())
    statuses = [r["status"] for r in content["pools"] if r["judge"] == "a"]
    assert statuses == ["converged", "covariate_constant", "no_verdicts"]
    assert "p / a: theta (prior-selected)" in text
    assert notes.startswith("fitting 7 verdicts ...\n")
    one, _ = content["judges"]
    assert (one["c"][0]["low"], one["c"][0]["profile_range"]) == (None, 0)
    # Two pools are too few to see whether kappa is the same in others.
    assert one["kappa"]["low"] is None
    assert (one["n_verdicts"], one["n_ties"], one["n_errors"]) == (6, 2, 2)
    table = pd.read_csv(folder / "out" / "table.csv")
    assert len(table[(table["pool"] == "p") & (table["quantity"] == "theta")]) == 6


def test_small_commands(jbt):
    start = jbt()
    assert "\n  jbt example tables; jbt audit" in start
    assert jbt("--version")
    assert jbt("--help")
    assert "crossing, crossing_choices, crossing_factors" in jbt("sweep")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["plan", "gate", "--alp"], "--alpha"),
        (["sweep", "crossing_c"], "crossing_choices"),
    ],
)
def test_a_shell_completes_commands_and_options(typed, completed, jbt):
    words = shlex.join(["jbt", *typed])
    here = f"COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _jbt; echo ${{COMPREPLY[*]}}"
    ask = f"{jbt('completion')}\n{here}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (completed, "")
