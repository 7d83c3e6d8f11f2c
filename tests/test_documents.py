"""What the documents show runs and prints what they say, and what they point at is there."""

import contextlib
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from support.example_tables import VERDICTS
from support.marks import nightly
from support.pages import (
    DOCS,
    NOTEBOOKS,
    ROOT,
    blocks,
    name_of,
    outputs,
    readers_folder,  # noqa: F401
    run_example,
)

from benchmarks import calibration
from jbt import cli, estimators
from jbt.acquisition import rules
from jbt.experiments import run
from jbt.own import formats
from jbt.simulation import pools
from sweeps import arena

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
EXTENDING = "docs/extending.md"
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
WORDS = re.compile(r"[a-z]{2,}")
documents = pytest.mark.documents


@pytest.fixture(autouse=True)
def registries():
    """What examples add to registries is removed again."""
    of_calibration = calibration.CLAIMS, calibration.TITLES
    known = rules.RULES, pools.POOLS, estimators.ESTIMATORS, formats.FORMATS, *of_calibration
    with contextlib.ExitStack() as stack:
        for registry in known:
            stack.enter_context(mock.patch.dict(registry))
        yield


@pytest.fixture
def jbt(folder, jbt):
    """Gives a command in an empty folder; returns what it prints."""
    return jbt


def check_printed(printed, shown):
    """The same, number for number but their last digits."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    approx = pytest.approx([float(v) for v in NUMBER.findall(shown)], rel=0.02, abs=0.02)
    assert [float(v) for v in NUMBER.findall(printed)] == approx


# --- commands and what they print


@documents
@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("../README", 1),
        ("judge", 1),
        ("own-verdicts", 1),
        ("identify", 3),
        ("leaderboard", 2),
        ("gate", 2),
    ],
)
def test_commands_print_what_their_page_shows(page, count, readers_folder, jbt, request):  # noqa: F811
    if page in ("judge", "own-verdicts", "leaderboard"):
        request.getfixturevalue("data")
    shown = outputs(f"docs/{page}.md")
    assert len(shown) == count
    for command, text in shown:
        sections = jbt(command.replace("--out DIR", "--out found")).strip().split("\n\n")
        for part in text.strip().split("\n\n"):  # a page may leave out others
            (same,) = [s for s in sections if s.partition("\n")[0] == part.partition("\n")[0]]
            check_printed(same, part)


@documents
def test_commands_on_a_file_of_verdicts(data, tmp_path, jbt):
    (tmp_path / "result.json").symlink_to(data / "raw" / "llmbar_swap_result.json")
    shown = outputs("docs/verdicts.md")
    assert len(shown) == 4
    for command, text in shown:
        if command.startswith("gate"):
            run_example("docs/verdicts.md")
        assert jbt(command).startswith(text)


@documents
def test_importing_a_table_of_ones_own(tmp_path, jbt, capsys):
    (tmp_path / "mine.csv").write_text(blocks("docs/importing.md", "text")[0])
    ((command, text),) = outputs("docs/importing.md")
    assert jbt(command) == text
    run_example("docs/importing.md")
    assert capsys.readouterr().out == "generic 5 1\n"


@documents
def test_own_verdicts(tmp_path, jbt, capsys):
    texts = blocks("docs/own-verdicts.md", "text")
    verdicts, items, _ = (text for text in texts if text.startswith("pool,"))
    (tmp_path / "verdicts.csv").write_text(verdicts)
    (tmp_path / "items.csv").write_text(items)
    (command,) = (text for text in blocks("docs/own-verdicts.md", "sh") if "prd/" not in text)
    run_example("docs/own-verdicts.md")
    assert capsys.readouterr().out.startswith("q1 llm CONVERGED")
    assert "Within one prompt" in jbt(command.removeprefix(".venv/bin/jbt "))


@documents
def test_a_replay(tmp_path, jbt):
    verdicts, items, shown, *_ = blocks("docs/replay.md", "text")
    (tmp_path / "verdicts.csv").write_text(verdicts)
    (tmp_path / "items.csv").write_text(items)
    printed = jbt(blocks("docs/replay.md", "sh")[0].removeprefix(".venv/bin/jbt "))
    # Which pair is asked first may hang on rounding, and a run with it.
    assert set(WORDS.findall(printed)) == set(WORDS.findall(shown))
    replay = run_example("docs/replay.md")["replay"]
    assert replay.needed.rule.tolist() == ["lucb", "random"]


@documents
def test_a_study(tmp_path, monkeypatch, capfd):
    answers, judge, shown, *_ = blocks("docs/study.md", "text")
    (tmp_path / "answers.csv").write_text(answers)
    (tmp_path / "judge.py").write_text(judge)
    monkeypatch.chdir(tmp_path)
    here = f"{Path(sys.executable).parent}/"
    script, anytime = (s.replace(".venv/bin/", here) for s in blocks("docs/study.md", "sh"))
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 3
    printed = capfd.readouterr().out
    # Which pair is asked first may hang on rounding.
    assert WORDS.findall(printed[printed.index("top 2: ") :]) == WORDS.findall(shown)
    assert run_example("docs/study.md")["study"].n_told == 40
    assert capfd.readouterr().out.startswith("budget spent 40 0.080\n")
    assert subprocess.run(["bash", "-c", anytime], check=False).returncode == 0


# --- examples in Python


@documents
def test_the_example_in_the_readme():
    (example,) = blocks("README.md", "python")
    promised = [float(v) for v in re.findall(r"about ([\d., ]+)", example)[0].split(", ")]
    recall = run_example("README.md")["recall"]
    assert recall.shape == (2000, 3)
    assert recall.mean(0) == pytest.approx(promised, abs=0.01)


@documents
def test_the_example_of_reading_results(jbt, capsys):
    jbt("sweep crossing --preset smoke")
    names = run_example("docs/guide.md")
    names["ds"].close()
    assert "share of the top k" in capsys.readouterr().out


@documents
@pytest.mark.parametrize(
    ("page", "which"),
    [
        ("docs/experiments.md", 0),
        nightly("docs/findings/identifiability.md", 0),
        ("docs/findings/two-judges.md", 0),
        nightly("docs/findings/judges.md", 0),
        (EXTENDING, 2),
        (EXTENDING, 3),
        nightly(EXTENDING, 6),
    ],
)
def test_an_example_runs(page, which):
    run_example(page, which)


# --- the page on extending


@documents
def test_an_experiment(tmp_path, monkeypatch):
    experiment, *_ = blocks(EXTENDING, "python")
    (paper,) = (text for text in blocks(EXTENDING, "text") if text.startswith("sweep,"))
    (tmp_path / "sharpness.py").write_text(experiment)
    (tmp_path / "paper.csv").write_text(paper)
    monkeypatch.syspath_prepend(str(tmp_path))
    sharpness = importlib.import_module("sharpness").SWEEP
    table = run.run(sharpness.at("smoke", out=tmp_path))
    assert table.consistent.dropna().tolist() == ["yes"]


@documents
def test_a_rule_of_a_file_joins_the_arena(tmp_path, monkeypatch):
    script = blocks(EXTENDING, "python")[1]
    (tmp_path / "widest.py").write_text(script)
    (command,) = (text for text in blocks(EXTENDING, "sh") if "widest.py" in text)
    monkeypatch.chdir(tmp_path)
    assert arena.SWEEP.main(command.split()[3:]) == 0
    table = pd.read_csv("results/arena/table.csv")
    lead = table[(table.quantity == "lead") & (table.rule == "widest")]
    assert len(lead) == lead.ci_high.notna().sum() > 0


@documents
def test_a_file_format(tmp_path, jbt):
    run_example(EXTENDING, 4)
    log = tmp_path / "log.jsonl"
    record = {"task": "t", "grader": "g", "left": "a", "right": "b", "preferred": "left"}
    log.write_text(json.dumps(record | {"left_text": "one two", "right_text": "one"}))
    assert jbt("import log.jsonl --out .").startswith("Duel logs (duel): 1 record of 1 file\n")
    table = "pool,judge,first,second,winner,order\nt,g,a,b,first,shown\n"
    assert (tmp_path / "verdicts.csv").read_text() == table


@documents
def test_a_command(tmp_path, monkeypatch, jbt):
    names = run_example(EXTENDING, 5)
    monkeypatch.setitem(sys.modules, "jbt.commands.ties", types.SimpleNamespace(**names))
    monkeypatch.setitem(cli.COMMANDS, "ties", "ties")
    (tmp_path / "verdicts.csv").write_text(VERDICTS)
    printed = jbt("ties --verdicts verdicts.csv --json ties.json")
    assert "Ties\njudge  verdicts  ties\na             6     2\nb" in printed
    assert json.loads((tmp_path / "ties.json").read_text())["judges"][0]["ties"] == 2


@documents
def test_the_coverage_of_an_interval(tmp_path, monkeypatch, capsys):
    names = run_example(EXTENDING, 7)
    monkeypatch.setattr(sys, "argv", ["heavy_tails.py", "heavy_tails", "--out", str(tmp_path)])
    names["main"]()
    (shown,) = (text for text in blocks(EXTENDING, "text") if text.startswith("mean |"))
    check_printed(capsys.readouterr().out, shown)


# --- what pages point at, and their size


def test_every_example_is_run_above():
    source = Path(__file__).read_text().replace("(EXTENDING", f'("{EXTENDING}"')
    run_above = set(re.findall(r"(?<!outputs)\(\"(\S+\.md)\"(?:, (\d))?\)", source))
    run_above |= {(EXTENDING, "0"), (EXTENDING, "1")}  # as files
    there = [(name_of(page), i) for page in PAGES for i, _ in enumerate(blocks(page, "python"))]
    assert {*there} <= {(page, int(which or 0)) for page, which in run_above}


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def links(page):
    return re.findall(r"\]\(([^()\s]+)\)", prose(page))


def anchors(page):
    """Fragments of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_relative_links_lead_somewhere():
    lost = []
    for page in PAGES:
        for link in links(page):
            path, _, fragment = link.partition("#")
            target = Path(os.path.normpath(page.parent / path)) if path else page
            if not link.startswith(("http://", "https://")) and not (
                target.exists() and (not fragment or fragment in anchors(target))
            ):
                lost.append((name_of(page), link))
    assert lost == []


def test_the_index_lists_every_page():
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link).resolve() for link in links(index)}
    site_only = {index, index.with_name("index.md"), *index.parent.glob("api/*.md")}
    assert {*DOCS} - site_only <= listed


def test_the_documents_are_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    words = runpy.run_path(str(ROOT / "docs" / "words.py"))
    assert sum(sum(words["count"](page)) for page in words["pages"]().values()) <= words["LIMIT"]


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


# --- notebooks


@documents
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "path",
    [
        path if path.stem in ("01_crossing", "05_own_verdicts") else nightly(path)
        for path in NOTEBOOKS
    ],
    ids=lambda p: p.stem,
)
def test_a_notebook_runs_at_the_size_of_smoke(path, monkeypatch):
    monkeypatch.setenv("JBT_PRESET", "smoke")  # restored after; the runner sets it
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ran = runpy.run_path(str(ROOT / "notebooks" / "run.py"))["executed"](path, "smoke")
    assert any(cell.get("outputs") for cell in ran.cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_stored_notebook_shows_its_figures_and_nothing_of_the_machine(path):
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    text = json.dumps([cell.outputs for cell in code])
    assert '"image/png"' in text
    assert "widget-view" not in text
    assert "/home/" not in text
    assert str(ROOT) not in text
    assert path.stat().st_size < 600_000
