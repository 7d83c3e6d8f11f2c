"""Tables and numbers in the documents are those of the results kept beside them."""

import re

import pandas as pd
import pytest
from support.finished_runs import finished

from sweeps.report import claims, documents, figures, kept

TABLE = pd.DataFrame(
    [
        ["llama", "naive", "recall", "0.4964", "0.491", "0.5016", "0.5", "0.39", "0.6", "yes"],
        ["llama", "naive", "recall", "0.4964", "0.491", "0.5016", "0.7", "0.39", "0.6", "no"],
        ["llama", "aware", "recall", "0.7421", "", "", "", "", "", ""],
        ["mine", "naive", "recall", "-0.0004", "-0.1", "0.1", "", "", "0.21", ""],
    ],
    columns=[
        *("judge", "model", "quantity", "estimate", "ci_low", "ci_high", "paper"),
        *("replicate_low", "replicate_high", "consistent"),
    ],
)
SHOWN = """
| judge | naive | studies | paper | aware |
| --- | --- | --- | --- | --- |
| Llama-3.1-8B | 0.496 [0.491, 0.502] | 0.39 to 0.60 | 0.5 ✓ / 0.7 ✗ | +74% |
| mine | 0.000 [-0.100, 0.100] | none to 0.21 |  |  |
""".replace("[-", "[\N{MINUS SIGN}")
MARK = """<!-- table made quantity=recall by=judge
naive | model=naive
studies | model=naive range:.2f
paper | model=naive paper+verdict:.1f
aware | model=aware point:+.0%
-->"""


def table_of(name):
    assert name == "made"
    return TABLE


@pytest.mark.parametrize(
    "page", documents.pages(), ids=lambda p: str(p.relative_to(documents.ROOT))
)
def test_pages_are_as_they_would_be_made_anew(page):
    text = page.read_text()
    assert documents.renewed(text, kept.table) == text
    # A comment at the beginning of a line ends the paragraph, and the line is no Markdown.
    assert not re.findall(r"^\s*(?:[-*] )?<!-- =.*", text, re.MULTILINE)


def test_what_is_kept_says_how_it_was_made():
    tables = {path.stem for path in kept.KEPT.glob("*.csv")}
    assert tables == set(kept.read_provenance())
    assert {path.name for path in kept.KEPT.iterdir()} == {
        *(f"{name}.csv" for name in tables),
        kept.PROVENANCE,
    }


def test_a_table_is_made():
    page = f"before\n\n{MARK}\nold\n<!-- /table -->\nafter\n"
    new = documents.renewed(page, table_of)
    assert new == f"before\n\n{MARK}\n{SHOWN}\n<!-- /table -->\nafter\n"
    assert documents.renewed(new, table_of) == new


def test_rows_of_their_own_and_columns_of_values():
    lines = (
        "- who\n- ours | judge=mine\n- theirs | judge!=mine\n{model} | model=aware,naive point:.2f"
    )
    made = documents.Mark.parse(f"made quantity=recall\n{lines}").markdown(TABLE)
    assert made.splitlines() == [
        "| who | aware | naive |",
        "| --- | --- | --- |",
        "| ours |  | 0.00 |",
        "| theirs | 0.74 | 0.50 |",
    ]


def test_a_number_in_a_sentence_is_made():
    page = "It is <!-- = made judge=llama model=aware estimate:.2g -->9<!-- -->, not 0.6."
    made = "It is <!-- = made judge=llama model=aware estimate:.2g -->0.74<!-- -->, not 0.6."
    assert documents.renewed(page, table_of) == made


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("judge=nobody", "page: <!-- made judge=nobody ...: no row has judge=nobody"),
        ("judge=llama", "3 rows, which differ in model"),
        ("colour=red", "no column colour, only judge, model"),
        ("judge=mine width", "cannot show width"),
        ("judge=mine point range", "what to show is said twice: point and range"),
    ],
)
def test_a_number_that_is_not_there_or_not_one_is_named(mark, message):
    with pytest.raises(ValueError, match=message):
        documents.renewed(f"<!-- = made {mark} --><!-- -->", table_of)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("made quantity=recall\nnaive | model=naive", "must say what names a row"),
        ("made by=judge\nnaive", "a column needs a heading and |"),
        ("made by=colour\nnaive | model=naive", "no column colour"),
        ("made by=judge\nother | model=other", "no row has model=other"),
        ("made by=judge\nany | quantity=recall", "2 rows, which differ in model|3 rows"),
        ("made by=judge\n{model} | quantity=recall", "needs model=VALUE"),
    ],
)
def test_a_table_that_cannot_be_made_is_named(mark, message):
    with pytest.raises(ValueError, match=message):
        documents.renewed(f"<!-- table {mark}\n-->\n<!-- /table -->", table_of)


@pytest.fixture
def documents_of_a_test(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    monkeypatch.setattr(kept, "KEPT", tmp_path / "docs" / "results")
    monkeypatch.setattr(figures, "KEPT", tmp_path / "figures")
    monkeypatch.setattr(figures, "svg", lambda run: f"<svg>{run.name}</svg>")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("<!-- = crossing judge=mine point --><!-- -->\n")
    return tmp_path


def test_finished_runs_are_kept(documents_of_a_test, monkeypatch):
    root = documents_of_a_test
    (root / "results" / "unfinished").mkdir(parents=True)
    assert kept.collect(finished(root / "results", "crossing", TABLE)) == ["crossing"]
    assert (root / "figures" / "crossing.svg").read_text() == "<svg>crossing</svg>"
    written = (root / "results" / "crossing" / "table.csv").read_bytes()
    assert (root / "docs" / "results" / "crossing.csv").read_bytes() == written
    record = kept.read_provenance()["crossing"]
    assert record["command"] == "python -m sweeps.crossing"
    assert (record["pools"], record["seconds"]) == (8192, 1.5)
    assert documents.renew(kept.table) == [root / "README.md"]
    assert "-->0.000<!--" in (root / "README.md").read_text()
    assert documents.renew(kept.table) == []
    # Of a large table only what a page or a number of the paper needs.
    monkeypatch.setattr(kept, "WHOLE_BYTES", 100)
    kept.collect(root / "results", ["crossing"])
    large = documents_of_a_test / "large"
    assert kept.collect(finished(large, "membership", TABLE.assign(paper=""))) == []
    assert list(kept.read_provenance()) == ["crossing"]
    assert kept.read(root / "docs" / "results" / "crossing.csv").estimate.tolist() == [
        *("0.4964", "0.4964", "-0.0004")
    ]


def test_other_settings_need_a_name(documents_of_a_test):
    changes = {"interaction": 0.5, "rho": [0.1, 0.2]}
    folder = finished(documents_of_a_test / "results", "crossing", TABLE, **changes)
    command = "python -m sweeps.crossing --interaction 0.5 --rho 0.1 0.2"
    with pytest.raises(ValueError, match=rf"is of {command}: name it with --variant"):
        kept.collect(folder)
    assert kept.collect(folder, variant="growing") == ["crossing-growing"]
    assert kept.read_provenance()["crossing-growing"]["command"] == command
    with pytest.raises(ValueError, match="has no finished gate"):
        kept.collect(folder, ["gate"])


def test_rows_that_bear_on_a_claim_are_there():
    records = kept.read_provenance()
    for asked in claims.asked():
        name, _, choice = asked.partition(" ")
        if name in records:
            rows = documents.Choice.parse(choice.split()).of(kept.table(name))
            assert len(rows), asked


@pytest.mark.parametrize(
    ("line", "message"),
    [("a,,perhaps,,,,,", "line 2: unknown verdict 'perhaps'"), (None, "columns must be claim")],
)
def test_claims_of_another_form_are_refused(tmp_path, line, message):
    file = tmp_path / "claims.csv"
    file.write_text(f"{','.join(claims.COLUMNS)}\n{line}\n" if line else "claim\n")
    with pytest.raises(ValueError, match=message):
        claims.read(file)


def test_a_claim_is_a_row_with_its_numbers(monkeypatch, tmp_path):
    line = (
        "It falls,Figure 3,depends,it: {made judge=mine point},holds,,a.md b-c.md#d,made judge=mine"
    )
    file = tmp_path / "claims.csv"
    file.write_text(f"{','.join(claims.COLUMNS)}\n{line}\n")
    made = claims.markdown(claims.read(file), lambda text: documents.value(text, table_of))
    last = "| [It falls](a.md), [b c](b-c.md#d) | **depends on** it: 0.000 | **holds** |"
    assert made.splitlines()[-1] == last
    assert "| depends | 1 | 0 |" in made
    assert claims.asked(file) == ["made judge=mine point", "made judge=mine"]
