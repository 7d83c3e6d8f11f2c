"""The `jbt import` command: what it prints and writes, and what a wrong input gets."""

import json

import pytest
from support.foreign_files import records, save, save_sample


def test_import_reports_what_it_read_and_what_it_could_not_know(folder, jbt):
    sample = save_sample(folder, "alpaca_eval")
    text = jbt("import", sample, "--out", "o", "--json", "report.json")
    for phrase in (
        "AlpacaEval annotations (alpaca_eval): 6 records of 1 file",
        "  judge    <- annotator\n",
        "  p_first  <- preference\n",
        "  not used    dataset\n",
        "6 verdicts: 2 ties, 1 error; 6 pools; 1 judge; order shown 0, unknown 6",
        "12 items of 2 contents: words, chars, lists,",
        "order shown of 6 of 6 verdicts: AlpacaEval annotations do not record it",
        "anchors: no gold labels",
        "jbt audit o",
    ):
        assert phrase in text, phrase
    content = json.loads((folder / "report.json").read_text())
    assert content["format"] == "alpaca_eval"
    assert content["mapping"]["first"] == ["generator_1"]
    assert (content["counts"]["ties"], content["counts"]["errors"]) == (2, 1)
    assert content["written"] == ["o/verdicts.csv", "o/items.csv"]


def test_anchors_and_a_given_judge(folder, jbt):
    text = jbt("import", save_sample(folder, "llmbar"), "--out", "o", "--judge", "some judge")
    assert "\n3 anchors\n" in text
    assert "1 judge;" in text
    assert "judge: all" not in text
    assert (folder / "o" / "verdicts.csv").read_text().count(",some judge,") == 6


def test_the_weight_of_strong_verdicts_in_arena_hard(folder, jbt):
    jbt("import", save_sample(folder, "arena_hard"), "--out", "o", "--strong-weight", 3)
    assert ",first,3,shown\n" in (folder / "o" / "verdicts.csv").read_text()


def test_nothing_is_written_of_a_wrong_file(folder, refused):
    mt_bench = records("mt_bench")
    bad = {**mt_bench[0], "g2_winner": "__import__('os').abort()"}
    save(folder, "pair.jsonl", [*mt_bench, bad, bad])
    error = refused("import pair.jsonl --out o --json report.json", lines=2).splitlines()[0]
    assert error.startswith("error: pair.jsonl, line 4: g2_winner is ")
    assert error.endswith("allowed: model_1, model_2, tie, error")
    assert [file.name for file in folder.iterdir()] == ["pair.jsonl"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("missing.json --out o", "missing.json: no such file"),
        ("--out o", "no file to import"),
        ("verdicts.csv --out . --overwrite", "verdicts.csv: this command reads it"),
        ("pair.jsonl --out verdicts.csv", "verdicts.csv is no folder"),
        ("pair.jsonl --out o --json pair.jsonl", "pair.jsonl: this command reads it"),
        ("pair.jsonl --out o --json none/o.json", "no folder"),
        ("pair.jsonl --out o --first x", "go together"),
        ("pair.jsonl --out o --strong-weight 0", "from 1"),
    ],
)
def test_bad_options(options, message, folder, refused):
    for name in ("pair.jsonl", "verdicts.csv"):
        save(folder, name, records("mt_bench"))
    before = sorted(folder.iterdir())
    assert message in refused(f"import {options}")
    assert sorted(folder.iterdir()) == before


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
        (
            "x,y,w,t,u,n\nk,m,1,a,b,2\nk,m,1,a,b,2\n",
            "--first x --second y --winner w --texts t u --counts tokens n n --order shown",
            [
                "order shown 2, unknown 0",
                "Note: order is shown, as you say, though first is always 'k'",
            ],
        ),
    ],
)
def test_import_says_where_the_winner_comes_from(table, options, phrases, folder, jbt):
    (folder / "table.csv").write_text(table)
    text = jbt(f"import table.csv --out o {options}")
    assert all(phrase in text for phrase in phrases), text
