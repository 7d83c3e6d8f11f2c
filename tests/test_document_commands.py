"""Every command that the documents print can be given, its options with these values, and runs: a
simulation at the size of smoke. That what they print is right is shown elsewhere
(`test_documents.py`)."""

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
LEFT_OPEN = re.compile(r"\b[A-Z]{3,}\b|\.\.\.|sweeps\.(sharpness|rule_choices|several_judges)")
"""The reader has something to fill in or makes that sweep, or the page says it was removed."""


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


OUTPUT = re.compile(r"^```sh\n([^\n]+)\n```\n\n```text\n", re.MULTILINE)
"""A command whose output is printed below it: the page's test in `test_documents.py` or
`test_first_pages.py` runs it and compares."""
NOT_RUN = {
    r"jbt example example$": "the fixture `users_folder`",
    r"jbt (ask|tell|status)": "one study: the page's test runs them in their order",
    r"--distributed": "two machines: tests/experiments/test_parts.py has two processes",
    r"sweeps\.report": "writes into the checkout, or runs every sweep: tests/report and CI",
}
"""Commands that a test of their own runs, and which."""
SIZES = r" --(?:preset|pools|pools-other-sizes|n-seeds|budget)(?: (?!--)\S+)+"
"""Options that would undo the size of smoke."""
RULES = r"( --rules? \S+ \S+)(?: (?!--)\S+)+"
"""Each rule is a program to compile: two are enough."""


def reduced(command):
    """A command at a size for tests: [words after `jbt` or the module]."""
    match = OURS.fullmatch(command)
    words = re.sub(RULES, r"\1", match["words"])
    if match["module"]:
        words = re.sub(SIZES, "", f" {words}") + " --preset smoke"
    elif words.startswith(("plan gate", "plan pairing", "plan reference")):
        words = re.sub(SIZES, "", words) + " --pools 50"
    return match["module"], shlex.split(words)


def commands_to_run():
    """Those that no other test or step of CI runs."""
    compared = {command for page in PAGES for command in OUTPUT.findall(page.read_text())}
    left = [c for c in EVERY if c not in compared and not any(re.search(p, c) for p in NOT_RUN)]
    return [c for c in left if reduced(c)[1] != ["--preset", "smoke"]]


@pytest.fixture
def users_folder(tmp_path, monkeypatch, data):
    """Where the commands find what their pages speak of."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["example", "example"]) == 0
    for name in ("verdicts", "items", "anchors"):
        (tmp_path / f"{name}.csv").symlink_to(tmp_path / "example" / f"{name}.csv")
    for name in ("llmbar", "prd", "alpaca_eval"):
        (tmp_path / name).symlink_to(data / name)
    names = {"generator_1": "m", "generator_2": "n", "annotator": "gpt4"}
    outputs = {"instruction": "i", "output_1": "a b", "output_2": "a", "preference": 1.0}
    (tmp_path / "annotations.json").write_text(json.dumps([outputs | names]))
    return tmp_path


@pytest.mark.heavy
@pytest.mark.parametrize("command", commands_to_run())
def test_a_command_in_the_documents_runs(command, users_folder, capsys):
    module, words = reduced(command)
    if module is None:
        assert cli.main(words) == 0, capsys.readouterr().err
    else:
        sweep = importlib.import_module(module).SWEEP
        run_sweep = importlib.import_module("jbt.experiments.run").main
        assert run_sweep(sweep, words) == 0, capsys.readouterr().err


def test_commands_are_found_and_wrong_ones_seen(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    block = "X=1 .venv/bin/jbt fit \\\n  --k 2 > out  # says it\njbt example DIR\n"
    page.write_text(f"```sh\n{block}```\n`jbt gate` `python -m sweeps.cost --pools 8`\n")
    found = [" ".join(command.split()) for command in commands(page)]
    assert found == [".venv/bin/jbt fit --k 2", "python -m sweeps.cost --pools 8"]
    for wrong in ("jbt leaderboard --verdict a", "python -m sweeps.cost --pool 8", "jbt brew"):
        assert parse(wrong, monkeypatch) == 2
    assert len(EVERY) > 30
