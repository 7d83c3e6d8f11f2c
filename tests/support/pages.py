"""README, documents and notebooks as tests read them, and what their readers have."""

import json
import os
import re
from pathlib import Path

import pytest

from jbt import cli

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
REMOVED = {"sweeps.rule_choices", "sweeps.several_judges"}
"""Sweeps of release 0.1.0 whose numbers are kept; their pages say so."""


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    """The blocks of a language on a page: [text]."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def outputs(page):
    """The commands of jbt on a page with what it says they print: [(words after jbt, text)]."""
    shown = r"^```sh\n[^\n]*bin/jbt ([^\n]*)\n```\n\n```text\n(.*?)^```"
    return re.findall(shown, (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def run_example(page, which=0):
    """Run a block of Python; returns the names that it defines."""
    names: dict = {}
    exec(compile(blocks(page, "python")[which], page, "exec"), names)
    return names


@pytest.fixture
def readers_folder(tmp_path, monkeypatch, capsys):
    """The folder that commands are given in, with the files that their pages speak of: recorded
    verdicts only where JBT_DATA names them."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["example", "example"]) == 0
    capsys.readouterr()
    for name in ("verdicts", "items", "anchors"):
        (tmp_path / f"{name}.csv").symlink_to(tmp_path / "example" / f"{name}.csv")
    if "JBT_DATA" in os.environ:
        data = Path(os.environ["JBT_DATA"]).resolve()
        for name in ("llmbar", "prd", "alpaca_eval"):
            (tmp_path / name).symlink_to(data / name)
    names = {"generator_1": "m", "generator_2": "n", "annotator": "gpt4"}
    answers = {"instruction": "i", "output_1": "a b", "output_2": "a", "preference": 1.0}
    (tmp_path / "annotations.json").write_text(json.dumps([answers | names]))
    battles = [{"model_a": a, "model_b": b, "winner": "model_a"} for a, b in ("mn", "nm", "mn")]
    rows = [json.dumps({"question_id": i, "tstamp": 0, **row}) for i, row in enumerate(battles)]
    (tmp_path / "battles.jsonl").write_text("\n".join(rows))
    return tmp_path
