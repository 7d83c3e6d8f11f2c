"""What the documents show runs, and what they point at is there."""

import importlib
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import jax
import pandas as pd
import pytest
from support.example_tables import VERDICTS

from benchmarks import calibration
from jbt import cli, estimators, own
from jbt.acquisition import rules
from jbt.border import report
from jbt.border.report import Result
from jbt.experiments import plots, provenance, run
from jbt.own import formats
from jbt.simulation import pools
from sweeps import crossing

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def name(page):
    return str(page.relative_to(ROOT))


def examples(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def run_example(page, which=0):
    example = examples(ROOT / page)[which]
    names: dict = {}
    exec(compile(example, page, "exec"), names)
    return names


@pytest.mark.documents
def test_the_example_in_the_readme():
    (example,) = examples(ROOT / "README.md")
    promised = [float(v) for v in re.findall(r"about ([\d., ]+)", example)[0].split(", ")]
    recall = run_example("README.md")["recall"]
    assert recall.shape == (2000, 3)
    assert recall.mean(0) == pytest.approx(promised, abs=0.01)


@pytest.mark.documents
def test_the_example_of_reading_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sweep", "crossing", "--preset", "smoke"]) == 0
    capsys.readouterr()
    names = run_example("docs/guide.md")
    names["ds"].close()
    assert names["benefit"].dims == ("rho", "pool")
    assert "share of the top k" in capsys.readouterr().out


@pytest.mark.documents
def test_the_example_on_own_verdicts(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "own-verdicts.md").read_text()
    verdicts, items, paired = re.findall(
        r"^```text\n(pool,.*?)^```", page, re.DOTALL | re.MULTILINE
    )
    (tmp_path / "verdicts.csv").write_text(verdicts)
    monkeypatch.chdir(tmp_path)
    for table, measured in ((items, False), (paired, True)):
        (tmp_path / "items.csv").write_text(table)
        run_example("docs/own-verdicts.md")
        assert capsys.readouterr().out.startswith("q1 llm CONVERGED")
        command = "fit --verdicts verdicts.csv --items items.csv --covariates words --transform log"
        assert cli.main(command.split()) == 0
        assert ("prior-selected" in capsys.readouterr().out) != measured


@pytest.mark.documents
def test_the_example_of_a_replay(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "replay.md").read_text()
    verdicts, items, printed, *_ = re.findall(
        r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE
    )
    (tmp_path / "verdicts.csv").write_text(verdicts)
    (tmp_path / "items.csv").write_text(items)
    monkeypatch.chdir(tmp_path)
    command = re.findall(r"bin/jbt (replay .*)", page)[0]
    assert cli.main(command.split()) == 0
    found = capsys.readouterr().out
    # Which pair is asked first may hang on rounding, and a run with it.
    words = re.compile(r"[a-z]{2,}")
    assert set(words.findall(found)) == set(words.findall(printed))
    assert len(found.splitlines()) == len(printed.splitlines())
    names = run_example("docs/replay.md")
    assert names["replay"].needed.rule.tolist() == ["lucb", "random"]


@pytest.mark.documents
def test_the_example_of_a_study(tmp_path, monkeypatch, capfd):
    page = (ROOT / "docs" / "study.md").read_text()
    answers, judge, printed, *_ = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (script,) = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "answers.csv").write_text(answers)
    (tmp_path / "judge.py").write_text(judge)
    monkeypatch.chdir(tmp_path)
    script = script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 3
    found = capfd.readouterr().out
    found = found[found.index("top 2: ") :]
    # Which pair is asked first may hang on rounding.
    words = re.compile(r"[a-z]{2,}")
    assert words.findall(found) == words.findall(printed)
    names = run_example("docs/study.md")
    assert names["study"].n_told == 40
    assert capfd.readouterr().out.startswith("budget spent 40 0.080\n")


@pytest.mark.documents
def test_the_example_on_importing(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "importing.md").read_text()
    section = page[page.index("## A table of your own") :]
    table, printed = re.findall(r"^```text\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"^\.venv/bin/jbt (.*)", section, re.MULTILINE)
    (tmp_path / "mine.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    assert cli.main(shlex.split(command)) == 0
    assert capsys.readouterr().out == printed
    run_example("docs/importing.md")
    assert capsys.readouterr().out == "generic 5 1\n"


@pytest.mark.documents
def test_the_example_on_identifiability(capsys):
    names = run_example("docs/findings/identifiability.md")
    printed = capsys.readouterr().out.splitlines()
    unpaired, no_nats, no_c, flat, paired, nats, c, converged = printed
    assert (flat, converged) == ("FLAT", "CONVERGED")
    assert "trading quality against x1" in unpaired
    assert paired == "('adding 1 to every quality',)"
    assert float(no_nats.split()[1]) < 1e-10
    assert float(nats.split()[1]) > 10
    assert no_c == "c: nan nan nan"
    estimate, low, high = map(float, c.split()[1:])
    assert low < estimate < high
    assert float(names["fit"].parameters.c[0]) == pytest.approx(estimate)


@pytest.mark.documents
def test_the_example_of_a_reference(capsys):
    run_example("docs/findings/two-judges.md")
    joint, correlated = map(float, capsys.readouterr().out.split())
    assert 1 < correlated < joint < 3


EXTENDING = ROOT / "docs" / "extending.md"


@pytest.mark.documents
def test_the_example_of_an_experiment(tmp_path, monkeypatch):
    experiment, *_ = examples(EXTENDING)
    assert len(experiment.splitlines()) <= 100
    (paper,) = re.findall(r"^```text\n(sweep,.*?)^```", EXTENDING.read_text(), re.DOTALL | re.M)
    (tmp_path / "sharpness.py").write_text(experiment)
    (tmp_path / "paper.csv").write_text(paper)
    monkeypatch.syspath_prepend(str(tmp_path))
    sharpness = importlib.import_module("sharpness")
    table = run.run(sharpness.SWEEP.at("smoke", out=tmp_path))
    assert table.consistent.dropna().tolist() == ["yes"]
    assert table[table.quantity == "crossing"].estimate.notna().all()
    assert "sharpness.py" in provenance.code_of(sharpness.SWEEP)


@pytest.mark.documents
def test_the_example_of_a_rule_in_the_registry(tmp_path, monkeypatch):
    assert len(examples(EXTENDING)[1].split("\n\n\n", 1)[1].splitlines()) <= 10
    for registry in (rules.RULES, plots.RULE_STYLES):
        monkeypatch.setitem(registry, "widest", None)  # and removed again
    run_example("docs/extending.md", 1)
    assert "widest" in rules.families()["beyond the paper"]
    assert plots.rule_style("widest") == {"colour": "orange", "linestyle": "--"}
    # The page's command: one run of that file compares the rule with the paper's.
    (tmp_path / "widest.py").write_text(examples(EXTENDING)[1])
    ((script, options),) = re.findall(r"bin/python (widest\.py) (.*)", EXTENDING.read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, *options.split()])
    with pytest.raises(SystemExit) as exited:
        runpy.run_path(script, run_name="__main__")
    assert exited.value.code == 0
    table = pd.read_csv("results/acquisition/table.csv")
    assert set(table[table.quantity == "delta"].rule) == {"widest"}
    assert table[table.quantity == "delta"].ci_high.notna().all()


@pytest.mark.documents
def test_the_example_of_a_kind_of_pool(tmp_path, monkeypatch):
    assert len(examples(EXTENDING)[2].split("\n\n\n", 1)[1].splitlines()) <= 15
    monkeypatch.setitem(pools.POOLS, "laplace", None)  # and removed again
    laplace = run_example("docs/extending.md", 2)["laplace"]
    pool = laplace(jax.random.key(0), 20_000, sd=2.0, rho=0.3)
    # 4 standard errors: of a Laplace's standard deviation (kurtosis 6) 1.1 %.
    assert float(pool.quality.std()) == pytest.approx(2.0, rel=4 * 0.008)
    s = crossing.Crossing(pool="laplace", pools=16, rho=(0.0, 0.5), out=tmp_path)
    table = run.run(s)
    assert table.paper.isna().all()  # the paper's are not of such pools
    assert table[table.quantity == "crossing_limit"].estimate.isna().all()


@pytest.mark.documents
def test_the_example_of_an_estimator(tmp_path, monkeypatch):
    monkeypatch.setitem(estimators.ESTIMATORS, "order_aware", None)  # and removed again
    run_example("docs/extending.md", 3)
    s = crossing.Crossing(pools=64, rho=(0.0, 0.5), position=2.0, out=tmp_path)
    table = run.run(s)
    recall = table[table.rho == 0].set_index("quantity").estimate
    # Its c is 0 like that of naive, so the bias of length stays.
    assert 0 < recall["naive_recall"] <= recall["order_aware_recall"] < recall["bias_aware_recall"]


@pytest.mark.documents
def test_the_example_of_a_file_format(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(formats.FORMATS, "duel", None)  # and removed again
    run_example("docs/extending.md", 4)
    keys = ("task", "grader", "left", "right", "left_text", "right_text", "preferred")
    rows = [
        ("t", "g", "a", "b", "one two", "one", "left"),
        ("t", "g", "b", "a", "one", "one two", "same"),
        ("t", "g", "b", "a", "one", "one two", ""),
    ]
    log = tmp_path / "log.jsonl"
    records = [dict(zip(keys, row, strict=True)) for row in rows]
    log.write_text("\n".join(map(json.dumps, records)))
    assert cli.main(["import", str(log), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("Duel logs (duel): 3 records of 1 file\n")
    assert (tmp_path / "verdicts.csv").read_text() == (
        "pool,judge,first,second,winner,order\n"
        "t,g,a,b,first,shown\nt,g,b,a,tie,shown\nt,g,b,a,error,shown\n"
    )
    log.write_text(json.dumps(records[0] | {"preferred": "both"}))
    with pytest.raises(own.TableError, match="preferred is 'both', allowed: left, right, same"):
        formats.collect([log])


@pytest.mark.documents
def test_the_example_of_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run_example("docs/extending.md", 5)
    command = types.ModuleType("jbt.commands.ties")
    vars(command).update(names)
    monkeypatch.setitem(sys.modules, "jbt.commands.ties", command)
    monkeypatch.setitem(cli.COMMANDS, "ties", "ties")
    Path("verdicts.csv").write_text(VERDICTS)
    outputs = ["--json", "ties.json", "--out", "found"]
    assert cli.main(["ties", "--verdicts", "verdicts.csv", *outputs]) == 0
    assert "Ties\njudge  verdicts  ties\na             6     2\nb" in capsys.readouterr().out
    assert json.loads(Path("ties.json").read_text())["judges"][0]["ties"] == 2
    assert sorted(path.name for path in Path("found").iterdir()) == sorted(report.NAMES)
    assert isinstance(names["Ties"](None), Result)


@pytest.mark.documents
def test_the_example_of_several_judges_with_prices(capsys):
    run_example("docs/extending.md", 6)
    (shown,) = re.findall(r"^```text\n(price .*?)^```", EXTENDING.read_text(), re.S | re.M)
    printed = capsys.readouterr().out
    check_printed(printed, shown)


@pytest.mark.documents
def test_the_example_of_an_interval_s_coverage(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(calibration.CLAIMS, "heavy_tails", [])  # and removed again
    monkeypatch.setitem(calibration.TITLES, "heavy_tails", "")
    names = run_example("docs/extending.md", 7)
    monkeypatch.setattr(sys, "argv", ["heavy_tails.py", "heavy_tails", "--out", str(tmp_path)])
    names["main"]()
    (shown,) = re.findall(r"^```text\n(mean \(.*?)^```", EXTENDING.read_text(), re.S | re.M)
    check_printed(capsys.readouterr().out.split("\n", 1)[1].rsplit("heavy_tails:", 1)[0], shown)
    assert len(pd.read_csv(tmp_path / "heavy_tails.csv")) == 6


NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


def check_printed(printed, shown):
    """The same, number for number but their last digits."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    approx = pytest.approx([float(v) for v in NUMBER.findall(shown)], rel=0.02, abs=0.02)
    assert [float(v) for v in NUMBER.findall(printed)] == approx


def check_sections(printed, shown):
    """Every section that is shown is printed, whole: a page may leave out others."""
    sections = printed.strip().split("\n\n")
    for part in shown.strip().split("\n\n"):
        (found,) = [of for of in sections if of.partition("\n")[0] == part.partition("\n")[0]]
        check_printed(found, part)


def check_simulated(printed, shown):
    """The same words, and numbers near those shown: what label sets enable may hang on rounding."""
    printed, shown = (" ".join(of.split()) for of in (printed, shown))
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    approx = pytest.approx([float(v) for v in NUMBER.findall(shown)], abs=4)
    assert [float(v) for v in NUMBER.findall(printed)] == approx


@pytest.mark.documents
def test_what_the_page_on_report_cards_prints(data, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "judge.md").read_text()
    ((command, text),) = re.findall(
        r"^```sh\n.*?bin/jbt (.*?)\n```\n\n```text\n(.*?)^```", page, re.S | re.M
    )
    (tmp_path / "llmbar").symlink_to(data / "llmbar")
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.split()) == 0
    check_sections(capsys.readouterr().out, text)


@pytest.mark.documents
def test_what_the_page_on_own_verdicts_prints(data, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "own-verdicts.md").read_text()
    ((command, text),) = re.findall(
        r"^```sh\n.*?bin/jbt ([^\n]*)\n```\n\n```text\n(.*?)^```", page, re.S | re.M
    )
    (tmp_path / "prd").symlink_to(data / "prd")
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.split()) == 0
    check_sections(capsys.readouterr().out, text)


@pytest.mark.documents
def test_what_the_page_on_identifying_prints(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "identify.md").read_text()
    shown = re.findall(r"^```sh\n.*?bin/jbt (.*?)\n```\n\n```text\n(.*?)^```", page, re.S | re.M)
    assert len(shown) == page.count("```sh") == 3
    monkeypatch.chdir(tmp_path)
    assert cli.main(["example", "example"]) == 0
    capsys.readouterr()
    for command, text in shown:
        assert cli.main(command.split()) == 0
        check_sections(capsys.readouterr().out, text)
    assert (tmp_path / "found" / "figure.png").stat().st_size > 10_000


@pytest.mark.documents
def test_what_the_page_on_leaderboards_prints(data, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    shown = re.findall(r"^```sh\n.*?bin/jbt (.*?)\n```\n\n```text\n(.*?)^```", page, re.S | re.M)
    assert len(shown) == page.count("```sh") == 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alpaca_eval").symlink_to(data / "alpaca_eval")
    assert cli.main(["example", "example"]) == 0
    capsys.readouterr()
    for command, text in shown:
        assert cli.main(command.split()) == 0
        check_sections(capsys.readouterr().out, text)
    assert (tmp_path / "found" / "figure.png").stat().st_size > 10_000


@pytest.mark.documents
def test_what_the_page_on_gates_prints(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "gate.md").read_text()
    shown = re.findall(r"^```sh\n.*?bin/jbt (.*?)\n```\n\n```text\n(.*?)^```", page, re.S | re.M)
    assert len(shown) == page.count("```sh") == 3
    monkeypatch.chdir(tmp_path)
    assert cli.main(["example", "example"]) == 0
    capsys.readouterr()
    for command, text in shown:
        assert cli.main(command.split()) == 0
        out = capsys.readouterr().out
        if command.startswith("plan gate"):
            check_simulated(out.partition("\n\n")[0], text)
            continue
        check_sections(out, text)


def test_every_example_is_run_above():
    shown = re.findall(r"run_example\(\"(.*?)\"", Path(__file__).read_text())
    shown += ["docs/extending.md", "docs/experiments.md", "docs/verdicts.md"]  # tests of their own
    assert sorted(name(page) for page in PAGES for _ in examples(page)) == sorted(shown)


def anchors(page):
    """Fragments of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page):
    links = LINK.findall(FENCED.sub("", page.read_text()))
    for link in links:
        if link.startswith(("http://", "https://")):
            continue
        path, _, fragment = link.partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        if fragment:
            assert fragment in anchors(target), f"{name(page)} links to {link}: no such heading"


def test_the_index_lists_every_page():
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(index.read_text())}
    site_only = {index.with_name("index.md"), *index.parent.glob("api/*.md")}
    assert {page for page in DOCS if page != index} - site_only <= listed


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_documents_are_short():
    words = runpy.run_path(str(ROOT / "docs" / "words.py"))
    page = (
        "# One two\n<!-- a mark -->\n| three | 4 |\n|---|---|\n```sh\nfive\n```\n[six](p.md#at)\n"
    )
    assert words["count"](page) == (3, 2, 2)
    assert sum(sum(words["count"](page)) for page in words["pages"]().values()) <= words["LIMIT"]


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_ci_runs_the_readme_s_test_command():
    pattern = re.search(r"grep -E \"(.*?)\" README.md", (ROOT / ".ci" / "run").read_text())
    assert pattern
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len([line for line in lines if re.search(pattern[1], line)]) == 1


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.documents
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_at_the_size_of_smoke(path, monkeypatch):
    monkeypatch.setenv("JBT_PRESET", "smoke")  # restored after; the runner sets it
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    runner = runpy.run_path(str(ROOT / "notebooks" / "run.py"))
    run = runner["executed"](path, "smoke")
    assert [cell.source for cell in run.cells] == [c.source for c in read_notebook(path).cells]
    assert any(cell.get("outputs") for cell in run.cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_stored_notebook_shows_its_figures_and_nothing_of_the_machine(path):
    notebook = read_notebook(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = {kind for cell in code for out in cell.outputs for kind in out.get("data", {})}
    assert "image/png" in kinds
    assert not any("widget" in kind for kind in kinds)
    text = json.dumps([cell.outputs for cell in code])
    assert "/home/" not in text
    assert str(ROOT) not in text
    assert path.stat().st_size < 600_000


def read_notebook(path):
    import nbformat

    return nbformat.read(path, as_version=4)


@pytest.mark.documents
def test_the_example_of_a_twin(capsys):
    names = run_example("docs/findings/judges.md")
    assert names["twin"].misses(names["target"]) == []
    promised = re.search(
        r"about ([\d.]+): what correction", (ROOT / "docs/findings/judges.md").read_text()
    )
    assert names["twin"].bias_aware_recall == pytest.approx(float(promised[1]), abs=0.02)
    assert "[]" in capsys.readouterr().out
