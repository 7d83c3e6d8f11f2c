"""The `jbt import` command: what it prints and writes, and what a wrong input gets."""

import json

import pytest
from support.foreign_files import records, save, save_sample


def test_import_reports_what_it_read_and_what_it_could_not_know(folder, jbt):
    sample = save_sample(folder, "alpaca_eval")
    text = jbt("import", sample, "--out", "o", "--json", "report.json")
    for phrase in (
        "  judge    <- annotator\n",
        "6 verdicts: 2 ties, 1 error; 6 pools; 1 judge; order shown 0, unknown 6",
        "order shown of 6 of 6 verdicts: AlpacaEval annotations do not record it",
        "jbt audit o",
    ):
        assert phrase in text, phrase
    content = json.loads((folder / "report.json").read_text())
    assert content["mapping"]["first"] == ["generator_1"]


def test_a_given_judge_and_the_weight_of_strong_verdicts(folder, jbt):
    sample = save_sample(folder, "arena_hard")
    jbt("import", sample, "--out", "o", "--judge", "some judge", "--strong-weight", 3)
    table = (folder / "o" / "verdicts.csv").read_text()
    assert ",first,3,shown\n" in table
    assert table.count(",some judge,") == len(table.splitlines()) - 1


def test_nothing_is_written_of_a_wrong_file(folder, refused):
    mt_bench = records("mt_bench")
    bad = {**mt_bench[0], "g2_winner": "__import__('os').abort()"}
    save(folder, "pair.jsonl", [*mt_bench, bad, bad])
    error = refused("import pair.jsonl --out o --json report.json", lines=2)
    assert error.startswith("error: pair.jsonl, line 4: g2_winner is ")
    assert [file.name for file in folder.iterdir()] == ["pair.jsonl"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("verdicts.csv --out . --overwrite", "verdicts.csv: this command reads it"),
        ("pair.jsonl --out verdicts.csv", "verdicts.csv is no folder"),
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
            "q,who,points\n1,m,3\n1,k,2\n1,l,-1\n1,o,2\n",
            "--pool q --item who --rating points",
            ["6 verdicts: 1 tie, 3 errors;", "Note: each pair of m answers", "scores of -1 (1)"],
        ),
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
