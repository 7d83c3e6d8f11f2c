"""Every command that the documents print is one that can be given: its options exist and take
these values. That what they print is right is shown elsewhere (`test_documents.py`, and every
sweep's smoke preset)."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
import tyro

from jbt import cli

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]
SHOWN = re.compile(r"^```sh\n(.*?)^```|`(python -m [^`\n]+)`", re.DOTALL | re.MULTILINE)
OURS = re.compile(r"(?:\S*/)?(?:jbt|python -m (?P<module>(?:jbt\.)?sweeps\.\w+)) (?P<words>.*)")
LEFT_OPEN = re.compile(r"\b[A-Z]{3,}\b|\.\.\.|sweeps\.sharpness")
"""Whoever reads it has something to fill in, or makes that sweep."""


pytestmark = pytest.mark.documents


class Parsed(BaseException):
    """Raised where a command would begin its work."""


def commands(page):
    """The commands of jbt on a page, comments and assignments taken off: [text]."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    found = []
    for block, span in SHOWN.findall(text):
        for line in (block or span).replace("\\\n", " ").splitlines():
            for part in line.split("  #")[0].split(" && "):
                part = re.sub(r"^\w+=\S+ ", "", part.strip())
                part = re.split(r" 2?[>|&]", part)[0].replace("$i", "0").rstrip(chr(34))
                if OURS.fullmatch(part) and not LEFT_OPEN.search(part):
                    found.append(part)
    return found


EVERY = sorted({command for page in PAGES for command in commands(page)})


def parse(command, monkeypatch):
    """Give a command, up to where it begins its work; its exit status if it never gets there."""
    read = tyro.cli

    def stop(*arguments, **options):
        read(*arguments, **options)
        raise Parsed

    monkeypatch.setattr(tyro, "cli", stop)
    match = OURS.fullmatch(command)
    words = shlex.split(match["words"])
    try:
        if match["module"] is None:
            return cli.main(words)
        if match["module"].endswith(".report"):
            return importlib.import_module("sweeps.report.__main__").main([*words, "--help"])
        return importlib.import_module("jbt.experiments.run").main(
            importlib.import_module(match["module"]).SWEEP, words
        )
    except Parsed:
        return None
    except SystemExit as exit:
        return exit.code


@pytest.mark.parametrize("command", EVERY)
def test_a_command_in_the_documents_can_be_given(command, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert parse(command, monkeypatch) in (None, 0), capsys.readouterr().err


def test_commands_are_found_and_wrong_ones_seen(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    block = "X=1 .venv/bin/jbt fit \\\n  --k 2 > out  # says it\njbt example DIR\n"
    page.write_text(f"```sh\n{block}```\n`jbt gate` `python -m sweeps.cost --pools 8`\n")
    found = [" ".join(command.split()) for command in commands(page)]
    assert found == [".venv/bin/jbt fit --k 2", "python -m sweeps.cost --pools 8"]
    for wrong in ("jbt leaderboard --verdict a", "python -m sweeps.cost --pool 8", "jbt brew"):
        assert parse(wrong, monkeypatch) == 2
    assert len(EVERY) > 50
