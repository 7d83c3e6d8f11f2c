"""The `jbt` command: what it prints and writes, and what a wrong input gets."""

import contextlib
import io
import json
import re
import shlex
import subprocess

import pandas as pd
import pytest
from support.example_tables import ITEMS, VERDICTS

from jbt import cli

BAD = {
    "missing column": (VERDICTS.replace("winner", "win"), ITEMS, "no column 'winner'"),
    "unknown item": (VERDICTS.replace("p,b,x,y", "p,b,x,w"), ITEMS, "line 6: item 'w' of pool 'p'"),
    "bad winner": (
        VERDICTS.replace("y,first", "y,left"),
        ITEMS,
        "line 2: winner is 'left', allowed",
    ),
    "text count": (VERDICTS.replace("tie,2", "tie,two"), ITEMS, "line 3: count is 'two'"),
    "long row": (VERDICTS.replace("q,a,u,v", "q,a,u,v,1,2,3"), ITEMS, "line 7: 9 fields"),
    "bars": (VERDICTS.replace(",", "|"), ITEMS, "separators are commas, tabs or semicolons"),
    "blank lines": ("\n" + VERDICTS.replace("q,a,u,v,f", "\n,,,,,\nq,a,u,u,f"), ITEMS, "line 10:"),
    "huge covariate": (VERDICTS, ITEMS.replace("50", "1e308"), "line 4: words is '1e308'"),
    "constant covariate": (
        VERDICTS,
        "pool,item,words\n" + "".join(f"{r.rsplit(',', 2)[0]},7\n" for r in ITEMS.splitlines()[1:]),
        "words is the same for all items",
    ),
    "duplicate item": (VERDICTS, ITEMS + "p,x,1,1\n", "line 9: item 'x' of pool 'p' again"),
    "one item": (VERDICTS, ITEMS + "s,x,1,1\n", "pool 's' has 1 item"),
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
    ("command", "message"),
    [
        (
            "fit --covariates lists --transform log",
            "line 2: log of lists = 0 is undefined, needs values above 0\n",
        ),
        ("fit --k 2", "k must lie in 1..1 (pool 'q' has 2 contents), got 2"),
        ("fit --lam 1e308", "lam must lie within 1e-06..1e+06, got 1e+308"),
        ("fit --lam-b -1", "lam_b must be"),
        ("fit --judge c", "no judge 'c': a, b"),
        ("fit --covariates words words", "asked for twice"),
        ("fit --joint --discrimination a=1 a=2", "--discrimination names 'a' twice"),
        ("fit --joint --discrimination a", "--discrimination is 'a', allowed: NAME=NUMBER"),
        ("replay --seeds 1000000", "seeds must be at most 10000"),
        ("leaderboard --no-merge-pools", "all pools are always merged here"),
    ],
)
def test_bad_options(command, message, tables, capsys):
    v, i = tables()
    assert cli.main([*command.split(), "--verdicts", str(v), "--items", str(i)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == message.count("\n") + 1


def test_files_that_are_no_tables(tables, tmp_path, capsys):
    v, _ = tables()
    binary, lines = tmp_path / "binary.csv", tmp_path / "answers.jsonl"
    binary.write_bytes(bytes(range(256)) * 20)
    lines.write_text('{"first": "a"}\n')
    before, nowhere = v.read_bytes(), tmp_path / "no" / "out.json"
    for command, message in (
        (["fit", "--verdicts", str(tmp_path / "none.csv")], "no such file"),
        (["fit", "--verdicts", str(binary)], "error: "),
        (
            ["fit", "--verdicts", str(lines)],
            f"is JSON, no table: make tables of it by jbt import {lines}",
        ),
        (["fit", "--verdicts", str(tmp_path)], "cannot be read"),
        (["fit", "--verdicts", str(v), "--covariates", "words"], "--items"),
        (
            ["fit", "--verdicts", str(v), "--json", str(v)],
            f"cannot write {v}: this command reads it",
        ),
        # Found out before anything is read or computed.
        (["fit", "--verdicts", "none.csv", "--json", str(nowhere)], "no folder"),
        (["plan", "pairing", "--json", str(tmp_path)], "it is a folder"),
        (["leaderbord"], "error: unknown command 'leaderbord': did you mean jbt leaderboard\n"),
        (["sweep", "nothing"], "unknown sweep"),
        (["sweep", "paired", "--pool", "10"], "--pool takes no number, got 10: did you mean --po"),
    ):
        assert cli.main(command) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    assert v.read_bytes() == before


def fit_json(tmp_path, *options):
    out = tmp_path / "fit.json"
    assert cli.main(["fit", *options, "--json", str(out)]) == 0
    text = out.read_text()
    assert "NaN" not in text
    return json.loads(text)


@pytest.mark.heavy
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


def test_small_commands(capsys):
    assert cli.main([]) == 0
    start = capsys.readouterr().out
    assert len(start.splitlines()) == 10
    for command in ("sweep crossing", "example tables; jbt audit", "ask run", "plan pairing"):
        assert f"\n  jbt {command}" in start
    assert cli.main(["--version"]) == 0
    assert cli.main(["--help"]) == 0
    assert cli.main(["sweep"]) == 0
    assert "crossing, crossing_choices, crossing_factors" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["le"], "leaderboard"),
        (["plan", "g"], "gate"),
        (["plan", "gate", "--alp"], "--alpha"),
        (["leaderboard", "tables", "--standard", "--transfo"], "--transform"),
        (["leaderboard", "--no-standard"], "--no-standardise"),
        (["sweep", "crossing_c"], "crossing_choices"),
        (["leaderboard", "tab"], ""),  # a file, which bash completes itself
    ],
)
def test_a_shell_completes_commands_and_options(typed, completed, completion):
    words = shlex.join(["jbt", *typed])
    ask = (
        f"{completion}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _jbt; echo ${{COMPREPLY[*]}}"
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (completed, "")


@pytest.fixture(scope="module")
def completion():
    with contextlib.redirect_stdout(io.StringIO()) as script:
        assert cli.main(["completion"]) == 0
    return script.getvalue()
