import json
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from jbt import cli, runtime, theory, verdicts

VERDICTS = """pool,judge,first,second,winner,count
p,a,x,y,first,1
p,a,y,x,tie,2
p,a,x,z,second,1
p,a,z,x,error,1
p,b,x,y,second,1
q,a,u,v,first,1
q,a,v,u,first,1
r,a,s,t,error,1
"""
ITEMS = """pool,item,words,lists
p,x,100,0
p,y,200,3
p,z,50,1
q,u,80,2
q,v,80,5
r,s,10,0
r,t,20,1
"""


@pytest.fixture
def tables(tmp_path):
    def write(verdict_text: str = VERDICTS, item_text: str = ITEMS):
        v, i = tmp_path / "verdicts.csv", tmp_path / "items.csv"
        v.write_text(verdict_text)
        i.write_text(item_text)
        return v, i

    return write


def load(v, i=None, covariates=(), **options):
    with runtime.precision("float64"):
        return verdicts.load(v, i, covariates, **options)


def test_counts_ties_errors_and_padding(tables):
    batch = load(*tables(), ["words"])
    names = [(p.pool, p.judge) for p in batch.pools]
    assert names == [("p", "a"), ("p", "b"), ("q", "a"), ("q", "b"), ("r", "a"), ("r", "b")]
    shown, wins = batch.comparisons.shown, batch.comparisons.wins
    np.testing.assert_array_equal(shown[0], [[0, 1, 1], [2, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(wins[0], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    first = batch.pools[0]
    assert (first.n_verdicts, first.n_errors, first.repeated) == (4, 1, True)
    assert (batch.pools[4].n_verdicts, batch.pools[4].n_errors) == (0, 1)
    np.testing.assert_array_equal(batch.design.item_mask[2], [True, True, False])
    assert batch.pools[2].constant_covariates == (True,)
    assert first.constant_covariates == (False,)
    assert [p.pool for p in load(*tables(), judge="b").pools] == ["p", "q", "r"]


def test_covariates_are_transformed_and_standardised_over_the_table(tables):
    words = np.log([100, 200, 50, 80, 80, 10, 20])
    batch = load(*tables(), ["words"], transform="log")
    x = np.asarray(batch.design.covariates)
    np.testing.assert_allclose(x[0, :, 0], ((words - words.mean()) / words.std())[:3])
    assert batch.covariates == ["log(words)"]
    raw = load(*tables(), ["lists", "words"], standardise=False)
    np.testing.assert_allclose(raw.design.covariates[0], [[0, 100], [3, 200], [1, 50]])


def test_names_are_text_as_it_stands(tables):
    v, i = tables("pool,first,second,winner\n007,NA,1,first\n", "pool,item\n007,NA\n007,1\n")
    batch = load(v, i)
    assert batch.pools[0].pool == "007"
    assert batch.pools[0].items == ["NA", "1"]
    assert batch.pools[0].judge is None
    assert load(v).pools[0].items == ["NA", "1"]  # items table not needed


def test_byte_order_mark_windows_lines_spaces_and_blank_lines(tables):
    verdict = "\ufeffpool, first,second ,winner\r\np, x,y ,first\r\n\r\np,y,x, tie\r\n\r\n"
    batch = load(*tables(verdict, "pool,item\np ,x\np,y\n"))
    assert batch.pools[0].items == ["x", "y"]
    np.testing.assert_array_equal(batch.comparisons.wins[0], [[0, 1], [0.5, 0]])


def test_parquet_reads_as_csv_does(tables, tmp_path):
    pytest.importorskip("pyarrow")
    v, i = tables()
    for path in (v, i):
        pd.read_csv(path).to_parquet(path.with_suffix(".parquet"))
    one, two = load(v, i, ["words"]), load(*(p.with_suffix(".parquet") for p in (v, i)), ["words"])
    assert one.pools == two.pools
    np.testing.assert_array_equal(one.comparisons.wins, two.comparisons.wins)


def test_shared_content_identifies_c_and_separate_content_does_not(tables):
    verdict = "pool,first,second,winner\n" + "".join(
        f"p,{a},{b},first\n" for a in "abcd" for b in "abcd" if a != b
    )
    items = "pool,item,content,words\np,a,A,1\np,b,A,2\np,c,B,1\np,d,B,3\n"
    shared = load(*tables(verdict, items), ["words"])
    assert shared.pools[0].prior_selected == ()
    assert shared.design.n_contents == 2
    own = load(
        *tables(verdict, items.replace(",A,", ",A1,", 1).replace(",B,", ",B1,", 1)), ["words"]
    )
    assert own.pools[0].prior_selected == ("theta", "c")
    assert own.design.content is None
    # One order of one rendering pair alone confounds c with kappa.
    one = load(*tables("pool,first,second,winner\np,a,b,first\n", items), ["words"])
    assert one.pools[0].prior_selected == ("theta", "c", "kappa", "phi")


def test_what_position_and_gaps_leave_to_the_prior(tables):
    v, i = tables("pool,first,second,winner\np,x,y,first\n", "pool,item\np,x\np,y\n")
    assert load(v, i).pools[0].prior_selected == ("theta", "kappa", "phi")  # one order only
    both = "pool,first,second,winner\np,a,b,first\np,b,a,first\np,c,d,first\np,d,c,tie\n"
    v, i = tables(both, "pool,item\np,a\np,b\np,c\np,d\n")
    assert load(v, i).pools[0].prior_selected == ("theta", "phi")  # two islands


BAD = {
    "missing column": (VERDICTS.replace("winner", "win"), ITEMS, "no column 'winner'"),
    "header only": (VERDICTS.splitlines()[0] + "\n", ITEMS, "no rows"),
    "empty file": ("", ITEMS, "file is empty"),
    "unknown item": (VERDICTS.replace("p,b,x,y", "p,b,x,w"), ITEMS, "line 6: item 'w' of pool 'p'"),
    "unknown pool": (VERDICTS.replace("r,a,s", "R,a,s"), ITEMS, "line 9: item 's' of pool 'R'"),
    "first is second": (VERDICTS.replace("q,a,u,v", "q,a,u,u"), ITEMS, "line 7: first and second"),
    "bad winner": (
        VERDICTS.replace("y,first", "y,FIRST"),
        ITEMS,
        "line 2: winner is 'FIRST', allowed",
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
    "semicolons": (VERDICTS.replace(",", ";"), ITEMS, "separated by commas?"),
    "blank lines": ("\n" + VERDICTS.replace("q,a,u,v,f", "\n,,,,,\nq,a,u,u,f"), ITEMS, "line 10:"),
    "NUL": (VERDICTS.replace("q,a,u", "q,a,u\0"), ITEMS, "line 7: not text"),
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
        (["--covariates", "lists", "--transform", "log"], "line 2: log of lists = 0"),
        (["--k", "2"], "k must lie in 1..1 (pool 'q' has 2 contents), got 2"),
        (["--k", "0"], "k must lie"),
        (["--lam", "0"], "lam must be"),
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
    assert len(error.splitlines()) == 1


def test_files_that_are_no_tables(tables, tmp_path, capsys):
    v, _ = tables()
    assert cli.main(["fit", "--verdicts", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)) * 20)
    assert cli.main(["fit", "--verdicts", str(binary)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert cli.main(["fit", "--verdicts", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert cli.main(["fit", "--verdicts", str(v), "--covariates", "words"]) == 2
    assert "--items" in capsys.readouterr().err
    before = v.read_bytes()
    assert cli.main(["fit", "--verdicts", str(v), "--json", str(v)]) == 2
    assert "would overwrite" in capsys.readouterr().err
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
    content = fit_json(tmp_path, *options, "--per-pool")
    shown = capsys.readouterr()
    assert content["settings"]["lam"] == 1.0
    records = {(r["pool"], r["judge"]): r for r in content["pools"]}
    statuses = {key: r["status"] for key, r in records.items()}
    assert statuses[("p", "a")] == "converged"
    assert statuses[("q", "a")] == "covariate_constant"
    assert statuses[("r", "a")] == "no_verdicts"
    one = records[("p", "a")]
    assert one["items"] == ["x", "y", "z"]
    batch = load(v, i, ["words", "lists"])
    x = np.asarray(batch.design.covariates[0])
    np.testing.assert_allclose(one["phi"], np.array(one["theta"]) + x @ one["c"], atol=1e-12)
    with runtime.precision("float64"):
        expected = theory.map_bias(jnp.array(one["phi"]), jnp.asarray(x), 1.0, 0.1)
    np.testing.assert_allclose(one["c"], expected, atol=1e-8)
    assert one["grad_norm"] < 1e-8
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


def test_swapping_first_and_second_turns_kappa(tables, tmp_path):
    v, i = tables("pool,first,second,winner\np,x,y,first\np,y,x,first\np,x,z,first\n")
    before = fit_json(tmp_path, "--verdicts", str(v), "--items", str(i))["pools"][0]
    v, i = tables("pool,second,first,winner\np,x,y,second\np,y,x,second\np,x,z,second\n")
    after = fit_json(tmp_path, "--verdicts", str(v), "--items", str(i))["pools"][0]
    assert before["kappa"] == pytest.approx(-after["kappa"], abs=1e-10)
    assert before["kappa"] > 0.1
    np.testing.assert_allclose(before["theta"], after["theta"], atol=1e-10)


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
    assert "gpt4: c[log(words)]" in capsys.readouterr().out
    content = fit_json(
        tmp_path,
        *("--verdicts", str(llmbar / "verdicts.csv"), "--items", str(llmbar / "items.csv")),
        *("--covariates", "words", "--judge", "PaLM2"),
    )
    assert len(content["pools"]) == 419
    assert sum(r["n_errors"] for r in content["pools"]) == 8
    assert sum(r["status"] == "no_verdicts" for r in content["pools"]) == 4


def test_the_command_itself(tables):
    v, _ = tables()
    command = [sys.executable, "-m", "jbt.cli"]
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}

    def run(*options):
        return subprocess.run(
            [*command, *options], capture_output=True, text=True, env=environment, cwd=root
        )

    assert run("fit", "--verdicts", str(v)).returncode == 0
    wrong = run("fit", "--verdicts", "nothing.csv")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    assert run().returncode == 2


def test_small_commands(capsys):
    assert cli.main(["--version"]) == 0
    assert cli.main(["--help"]) == 0
    assert cli.main(["sweep"]) == 0
    assert "crossing, crossing_factors" in capsys.readouterr().out
    assert cli.main(["sweep", "nothing"]) == 2
    assert "unknown sweep" in capsys.readouterr().err
