"""Documents show what is in the tables of results, and tables are kept with how they were made."""

import io
import re
import shlex

import pandas as pd
import pytest
from support.finished_runs import finished

from jbt.experiments import provenance, run
from sweeps.report import __main__ as report
from sweeps.report import documents, kept, runs

CROSSING = """\
covariate,rho,quantity,estimate,ci_low,ci_high,n_pools,paper,replicate_low,replicate_high,consistent
continuous,0,benefit,0.219092,0.212445,0.225495,8192,,,,
<b>|,0.5,benefit,-0.031234,-0.04,-0.02,8192,,,,
continuous,,crossing,0.421056,0.41384,0.42786,8192,0.45,0.2951,0.4842,yes
continuous,,crossing,0.421056,0.41384,0.42786,8192,0.5,0.2951,0.4842,no
continuous,,crossing_same_pools,-0.0004,-0.1,0.1,8192,0.45,0.2,0.3,
"""
TABLE = pd.read_csv(io.StringIO(CROSSING), dtype=str, keep_default_na=False)
RESULTS = {"made": TABLE}.__getitem__
MARKED = """\
before <!-- = made quantity=crossing point:.2g -->9<!-- -->, not 0.6

<!-- table made
- pools | at
- continuous | 0 | covariate=continuous rho=0 quantity=benefit
- same | any | quantity=crossing_same_pools
ours | estimate:.2f
studies | range
paper | paper+verdict:.1f
both | quantity=crossing_same_pools,other paper+verdict:+.0%
-->
old
<!-- /table -->
"""
MADE = """
| pools | at | ours | studies | paper | both |
| --- | --- | --- | --- | --- | --- |
| continuous | 0 | 0.22 [0.21, 0.23] |  |  |  |
| same | any | 0.00 [-0.10, 0.10] | 0.200 to 0.300 | 0.5 | +45% |

""".replace("-0.10", "\N{MINUS SIGN}0.10")


@pytest.mark.documents
def test_pages_are_as_they_would_be_made_anew():
    for file in documents.pages():
        text = file.read_text()
        assert documents.renewed(text, kept.table) == text
        # A comment at the beginning of a line ends the paragraph, and the line is no Markdown.
        assert not re.findall(r"^\s*(?:[-*] )?<!-- =.*", text, re.MULTILINE)


def test_the_readme_says_how_many_claims_there_are():
    link = f"[{len(runs.read(documents.CLAIMS))} claims of the paper](docs/choices.md)"
    assert link in (documents.ROOT / "README.md").read_text()


def test_what_is_kept_says_how_it_was_made():
    tables = {file.name for file in kept.KEPT.iterdir()} - {kept.PROVENANCE}
    assert tables == {f"{name}.csv" for name in kept.read_provenance()}


def test_what_is_marked_is_made():
    new = documents.renewed(MARKED, RESULTS)
    assert new == MARKED.replace("old\n", MADE).replace("9<!--", "0.42<!--")
    assert documents.renewed(new, RESULTS) == new
    rows = TABLE[TABLE.quantity == "crossing"]
    assert documents.cell(rows, "point+paper+verdict") == "0.421 0.450 ✓ / 0.421 0.500 ✗"


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("= made rho=7", "<!-- made rho=7 -->: no such row"),
        ("= made quantity=benefit", "2 rows"),
        ("= made colour=red", "colour"),
        ("= made rho=0 width", "width"),
        ("table made\n- a\n- b | quantity=benefit\nc |", "2 rows"),
    ],
)
def test_a_mark_that_cannot_be_made_is_named(mark, message):
    text = f"<!-- {mark} --><!-- -->" if mark[0] == "=" else f"<!-- {mark}\n-->\n<!-- /table -->"
    with pytest.raises(ValueError, match=message):
        documents.renewed(text, RESULTS)


def test_a_claim_is_a_row_with_its_numbers(monkeypatch, tmp_path):
    heads = "claim,paper,one_bias,one_bias_note,growing_bias,growing_bias_note,pages,support\n"
    line = "It falls,Figure 3,{},it: {{made rho=0.5 point}},,,a.md b-c.md#d,made rho=0.5\n"
    monkeypatch.setattr(documents, "CLAIMS", tmp_path / "claims.csv")
    documents.CLAIMS.write_text(heads + line.format("depends"))
    made = documents.renewed("<!-- claims -->\n<!-- /claims -->", RESULTS).splitlines()
    number = "\N{MINUS SIGN}0.031"
    assert (
        made[-3]
        == f"| [It falls](a.md), [b c](b-c.md#d) | **depends on** it: {number} | not tried |"
    )
    assert {"| depends | 1 | 0 |", "| not tried | 0 | 1 |"} <= set(made)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one page, whose number is of the sweep crossing."""
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.setattr(kept, "KEPT", tmp_path / "docs" / "results")
    monkeypatch.setattr(kept, "draw", lambda *_: None)
    monkeypatch.setattr(kept, "table", lambda name: pytest.fail(f"{name} is not of a run"))
    (tmp_path / "docs/results/provenance.json").write_text("{}")
    (tmp_path / "README.md").write_text("<!-- = crossing rho=0.5 point --><!-- -->\n")
    return tmp_path


def test_finished_runs_are_kept(checkout, capsys):
    results = finished(checkout / "results", "crossing", TABLE)
    assert report.main(["--collect", str(results)]) == 0
    assert capsys.readouterr().out == "written crossing README.md\n"
    assert "-->\N{MINUS SIGN}0.031<!--" in (checkout / "README.md").read_text()
    written = (results / "crossing" / "table.csv").read_bytes()
    assert (kept.KEPT / "crossing.csv").read_bytes() == written
    record = kept.read_provenance()["crossing"]
    assert record["command"] == "python -m sweeps.crossing"
    assert record["pools"] == 8192


def test_the_recorded_command_is_the_shortest_that_gives_the_settings():
    sweep = runs.sweep_of("arena")
    changed = sweep.at("full", scenario=("fair judge",), seed=1)
    configuration = provenance.fields_of(changed.decided())
    command = runs.command_of("arena", "full", configuration)
    assert command == "python -m sweeps.arena --seed 1 --scenario 'fair judge'"
    given = run._parsed(sweep, shlex.split(command)[3:], "arena")
    assert provenance.fields_of(given.decided()) == configuration


def test_nothing_is_kept_under_a_wrong_name(checkout):
    folder = finished(checkout / "results", "crossing", TABLE, interaction=0.5)
    command = "python -m sweeps.crossing --interaction 0.5"
    with pytest.raises(ValueError, match=rf"is of {command}: name it with --variant"):
        kept.collect(folder)
    assert kept.read_provenance() == {}
