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
        (f"fit --lam 1e308 {TABLES}", "lam must lie within 1e-06..1e+06, got 1e+308"),
        (f"fit --lam-b -1 {TABLES}", "lam_b must be"),
        (f"fit --judge c {TABLES}", "no judge 'c': a, b"),
        (f"fit --covariates words words {TABLES}", "asked for twice"),
        (f"fit --joint --discrimination a=1 a=2 {TABLES}", "--discrimination names 'a' twice"),
        (f"fit --joint --discrimination a {TABLES}", "--discrimination is 'a', allowed: NAME=NUM"),
        (f"replay --seeds 1000000 {TABLES}", "seeds must be at most 10000"),
        (f"leaderboard --no-merge-pools {TABLES}", "all pools are always merged here"),
        ("fit --verdicts none.csv", "no such file"),
        ("fit --verdicts binary.csv", "error: "),
        (
            "fit --verdicts answers.jsonl",
            "is JSON, no table: make tables of it by jbt import answers.jsonl",
        ),
        ("fit --verdicts .", "cannot be read"),
        ("fit --verdicts verdicts.csv --covariates words", "--items"),
        (
            "fit --verdicts verdicts.csv --json verdicts.csv",
            "cannot write verdicts.csv: this command reads it",
        ),
        # Found out before anything is read or computed.
        ("fit --verdicts none.csv --json no/out.json", "no folder"),
        ("plan pairing --json .", "it is a folder"),
        ("leaderbord", "error: unknown command 'leaderbord': did you mean jbt leaderboard\n"),
        ("sweep nothing", "unknown sweep"),
        ("sweep paired --pool 10", "--pool takes no number, got 10: did you mean --po"),
    ],
)
def test_what_is_refused(command, message, folder, refused):
    is_hinted = "--transform log" in command
    assert message in refused(command, lines=1 + is_hinted)
    assert (folder / "verdicts.csv").read_text() == VERDICTS


@pytest.fixture
def fit(folder, outcome):
    """Fit with these options; returns what is written as JSON, on standard output and on error."""

    def give(line):
        shown = outcome(f"fit {line} --json fit.json")
        text = (folder / "fit.json").read_text()
        assert "NaN" not in text
        return json.loads(text), *shown

    return give


@pytest.mark.heavy
def test_fit_reports_everything(fit, folder):
    options = "--covariates words lists --per-pool --verbose --out out"
    content, text, notes = fit(f"{TABLES} {options}")
    assert content["settings"]["lam"] is None  # estimated
    records = {(r["pool"], r["judge"]): r for r in content["pools"]}
    statuses = {key: r["status"] for key, r in records.items()}
    assert statuses[("p", "a")] == "converged"
    assert statuses[("q", "a")] == "covariate_constant"
    assert statuses[("r", "a")] == "no_verdicts"
    assert records[("p", "a")]["items"] == ["x", "y", "z"]
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
    assert "repeats are treated as independent" in notes
    assert notes.startswith("fitting 7 verdicts ...\n")

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

    report = (folder / "out" / "report.md").read_text()
    assert "| judge | verdicts | ties |" in report
    assert "(figure.png)\n\n<!-- jbt " in report
    table = pd.read_csv(folder / "out" / "table.csv")
    assert set(table["quantity"].dropna()) == {"theta", "c", "kappa"}
    assert len(table[(table["pool"] == "p") & (table["quantity"] == "theta")]) == 6
    assert (folder / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.heavy
def test_a_single_pool_prints_its_contents(fit, tables):
    """Merged, items of one content are one line; equal qualities share a rank. The unit of a merged
    pool's verdicts is not seen here: no interval."""
    rows = [f"{p},{a},{b},tie" for p in "pq" for a in "xyz" for b in "xyz" if a != b]
    items = [f"{p},{a},{c},1" for p in "pq" for a, c in zip("xyz", "XYY", strict=True)]
    tables(
        "pool,first,second,winner\n" + "\n".join(rows), "pool,item,content,n\n" + "\n".join(items)
    )
    content, text, _ = fit(f"{TABLES} --merge-pools")
    (pool,) = content["pools"]
    assert len(pool["theta"]) == 6
    assert [(r["content"], r["rank"]) for r in pool["ranking"]] == [("X", 1), ("Y", 1)]
    assert content["judges"][0]["kappa"]["estimate"] == pool["kappa"]
    assert re.search(r"^1= +X +\+0 +\+0", text, re.MULTILINE)
    assert content["judges"][0]["kappa"]["basis"] == "merged"
    assert pool["kappa_low"] is None
    assert all(r["low"] is None for r in pool["ranking"])
    assert text.count("1=") == 2


@pytest.mark.heavy
def test_tables_of_another_form(fit, tables):
    """Columns of other names, a winner by name; one order only, so that kappa is null."""
    verdict = "prompt;left;right;vote\nq;X;Y;x\nq;Y;Z;y\nq;X;Z;tie\n"
    tables(verdict, "prompt\titem\tmodel\nq\tX\tm\nq\tY\tm\nq\tZ\tn\n")
    names = "--pool prompt --first left --second right --winner vote --content model"
    content, text, _ = fit(f"{TABLES} {names}")
    (record,) = content["pools"]
    assert record["kappa"] is None
    assert record["theta"][0] == record["theta"][1] > record["theta"][2]
    assert "3 rows, 3 verdicts kept\n1 tie, each half a win for both" in text
    assert "kappa fixed at 0, converged" in text
    content, *_ = fit(f"{TABLES} {names} --position yes --ties drop")
    (record,) = content["pools"]
    assert record["kappa"] > 0
    assert record["n_verdicts"] == 2


def test_small_commands(jbt):
    start = jbt()
    assert len(start.splitlines()) == 10
    for command in ("sweep crossing", "example tables; jbt audit", "ask run", "plan pairing"):
        assert f"\n  jbt {command}" in start
    assert jbt("--version")
    assert jbt("--help")
    assert "crossing, crossing_choices, crossing_factors" in jbt("sweep")


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
