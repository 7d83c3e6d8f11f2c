"""The `jbt import` command: what it prints and writes, and what a wrong input gets."""

import json

import pytest
from support.foreign_files import records, save, save_sample

from jbt import cli


def test_import_reports_what_it_read_and_what_it_could_not_know(tmp_path, capsys):
    path = save_sample(tmp_path, "alpaca_eval")
    out, report = tmp_path / "o", tmp_path / "report.json"
    assert cli.main(["import", str(path), "--out", str(out), "--json", str(report)]) == 0
    text = capsys.readouterr().out
    for phrase in (
        "AlpacaEval annotations (alpaca_eval): 6 records of 1 file",
        "  judge    <- annotator\n",
        "  p_first  <- preference\n",
        "  not used    dataset\n",
        "6 verdicts: 2 ties, 1 error; 6 pools; 1 judge; order shown 0, unknown 6",
        "12 items of 2 contents: words, chars, lists,",
        "order shown of 6 of 6 verdicts: AlpacaEval annotations do not record it",
        "anchors: no gold labels",
        f"jbt audit {out}",
    ):
        assert phrase in text, phrase
    content = json.loads(report.read_text())
    assert content["format"] == "alpaca_eval"
    assert content["mapping"]["first"] == ["generator_1"]
    assert (content["counts"]["ties"], content["counts"]["errors"]) == (2, 1)
    assert content["written"] == [f"{out}/verdicts.csv", f"{out}/items.csv"]


def test_anchors_and_a_given_judge(tmp_path, capsys):
    path, out = save_sample(tmp_path, "llmbar"), tmp_path / "o"
    assert cli.main(["import", str(path), "--out", str(out), "--judge", "some judge"]) == 0
    text = capsys.readouterr().out
    assert "\n3 anchors\n" in text
    assert "1 judge;" in text
    assert "judge: all" not in text
    assert (out / "verdicts.csv").read_text().count(",some judge,") == 6


def test_options_of_a_generic_table_and_of_arena_hard(tmp_path, capsys):
    path = save(tmp_path, "a.jsonl", [{"x": "k", "y": "m", "w": 1, "t": "a", "u": "b", "n": 2}] * 2)
    options = "--first x --second y --winner w --texts t u --counts tokens n n --order shown"
    command = ["import", str(path), "--out", str(tmp_path / "o"), *options.split()]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "order shown 2, unknown 0" in text
    assert "Note: order is shown, as you say, though first is always 'k'" in text
    path = save_sample(tmp_path, "arena_hard")
    command = ["import", str(path), "--out", str(tmp_path / "h"), "--strong-weight", "3"]
    assert cli.main(command) == 0
    assert ",first,3,shown\n" in (tmp_path / "h" / "verdicts.csv").read_text()


def test_nothing_is_written_of_a_wrong_file(tmp_path, capsys):
    mt_bench = records("mt_bench")
    bad = {**mt_bench[0], "g2_winner": "__import__('os').abort()"}
    path, out = save(tmp_path, "pair.jsonl", [*mt_bench, bad, bad]), tmp_path / "o"
    report = tmp_path / "report.json"
    assert cli.main(["import", str(path), "--out", str(out), "--json", str(report)]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[0].startswith(f"error: {path}, line 4: g2_winner is ")
    assert error[0].endswith("allowed: model_1, model_2, tie, error")
    assert len(error) == 2
    assert not out.exists()
    assert not report.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["missing.json", "--out", "o"], "missing.json: no such file"),
        (["--out", "o"], "no file to import"),
        (["verdicts.csv", "--out", ".", "--overwrite"], "verdicts.csv: this command reads it"),
        (["pair.jsonl", "--out", "verdicts.csv"], "verdicts.csv is no folder"),
        (["pair.jsonl", "--out", "o", "--json", "pair.jsonl"], "pair.jsonl: this command reads it"),
        (["pair.jsonl", "--out", "o", "--json", "none/o.json"], "no folder"),
        (["pair.jsonl", "--out", "o", "--first", "x"], "go together"),
        (["pair.jsonl", "--out", "o", "--strong-weight", "0"], "from 1"),
    ],
)
def test_bad_options(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path, "pair.jsonl", records("mt_bench"))
    save(tmp_path, "verdicts.csv", records("mt_bench"))
    before = sorted(tmp_path.iterdir())
    assert cli.main(["import", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("table", "options", "phrases"),
    [
        (
            "prompt,chosen,rejected\np,a,b\n",
            "",
            ["chosen (this says which was preferred; no judge's result is in the file)"],
        ),
        (
            "prompt,chosen,rejected,results,model\np,a,b,0,rm\n",
            "",
            ["  winner   <- results\n", "  anchors  <- chosen (the better one)\n", "\n1 anchor\n"],
        ),
        (
            "id,model_a,model_b,said\n1,m,k,so [[A]]\n2,m,k,none\n",
            "--winner said --verdict-in-text",
            ["  winner   <- said (the last [[X]])\n", "2 verdicts: 0 ties, 1 error;"],
        ),
        (
            "q,model_a,model_b,x,y,g\n1,m,k,A,B,B\n",
            "--judges x y --gold g --pool q",
            ["2 verdicts: 0 ties, 0 errors; 1 pool; 2 judges;", "  anchors  <- g\n"],
        ),
        (
            "q,who,points\n1,m,3\n1,k,2\n1,l,-1\n1,o,2\n",
            "--pool q --item who --rating points",
            ["6 verdicts: 1 tie, 3 errors;", "Note: each pair of m answers", "scores of -1 (1)"],
        ),
        ("q,m,k\n1,2,1\n", "--pool q --ranks m k", ["(rank: 1 is best)"]),
        ("a,b,l,o\nm,k,-1,-2\n", "--first a --second b --logprobs l o", ["(softmax of both)"]),
        ("a,b,l,o\nm,k,4,2\n", "--first a --second b --wins l o", ["(counted)"]),
        ("q,r\n1,m > k\n", "--pool q --ranking r", ["(the best first)"]),
        ("a,b,p\nm,k,0.2\n", "--first a --second b --probability p", ["  p_first  <- p\n"]),
    ],
)
def test_import_says_where_the_winner_comes_from(table, options, phrases, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(table)
    assert cli.main(["import", str(path), "--out", str(tmp_path / "o"), *options.split()]) == 0
    text = capsys.readouterr().out
    assert all(phrase in text for phrase in phrases), text
