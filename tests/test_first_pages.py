"""What the first pages show is what a reader gets: start, own verdicts, experiments."""

import re
import shlex
from pathlib import Path

import pytest

from jbt import cli
from jbt.experiments import run
from sweeps import crossing

DOCS = Path(__file__).parents[1] / "docs"
OTHER = re.compile("pip (install|wheel)|^uvx ")
pytestmark = pytest.mark.documents


def commands(page):
    """What a page's shell blocks run: [(program, its arguments)], installing left out, and wheels,
    which have a test of their own."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if not OTHER.search(line)]
    split = [shlex.split(line.removeprefix(".venv/bin/")) for line in lines]
    return [(" ".join(w[:3]), w[3:]) if w[0] == "python" else (w[0], w[1:]) for w in split]


def test_own_verdicts(data, tmp_path, monkeypatch, capsys):
    page = (DOCS / "verdicts.md").read_text()
    (tmp_path / "result.json").symlink_to(data / "raw" / "llmbar_swap_result.json")
    monkeypatch.chdir(tmp_path)
    printed = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for (program, arguments), text in zip(commands("verdicts.md"), printed, strict=True):
        assert program == "jbt"
        if arguments[0] == "gate":
            exec(compile(code, "verdicts.md", "exec"), {})
        assert cli.main(arguments) == 0
        assert capsys.readouterr().out.startswith(text)
    assert {path.name for path in (tmp_path / "llmbar").iterdir()} == {
        "verdicts.csv",
        "items.csv",
        "anchors.csv",
        "members.csv",
    }


def test_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (sweep, options), *own = commands("start.md")
    assert (sweep, options) == ("python -m sweeps.crossing", ["--pools", "2048"])
    assert run.main(crossing.SWEEP, ["--preset", "smoke", *options[:1], "64"]) == 0
    assert "crossing" in capsys.readouterr().out
    assert [program for program, _ in own] == ["jbt", "jbt"]
    for _, arguments in own:
        assert cli.main(arguments) == 0
    assert "amber" in capsys.readouterr().out


def test_experiments(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (_, listing), (sweep, options), (program, notebook) = commands("experiments.md")
    assert program == "python notebooks/run.py 01_crossing"
    assert notebook == ["--preset", "smoke"]  # `test_documents.py` runs every notebook at this size
    assert cli.main(listing) == 0
    assert "crossing_factors" in capsys.readouterr().out
    assert sweep == "python -m sweeps.crossing"
    assert run.main(crossing.SWEEP, options) == 0
    capsys.readouterr()

    (code,) = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "experiments.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(code.splitlines()) <= 30
    exec(compile(code, "experiments.md", "exec"), {})
    rows = [
        [float(v) for v in re.findall(r"[-+]?\d\.\d+", line)]
        for line in capsys.readouterr().out.splitlines()
    ]
    assert [row[0] for row in rows] == [0.0, 0.2, 0.4, 0.6]
    benefit = [row[1] for row in rows]
    assert benefit == sorted(benefit, reverse=True)
    assert benefit[0] > 0 > benefit[-1]
