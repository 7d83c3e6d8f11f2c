"""Every command that the documents print can be given, its options with these values, and those of
`jbt` run. That what they print is right is shown elsewhere (`test_documents.py`)."""

import importlib
import json
import re
import shlex

import pytest
import tyro
from support.marks import heavy, nightly
from support.pages import (
    DOCS,
    NOTEBOOKS,
    REMOVED,
    ROOT,
    outputs,
    readers_folder,  # noqa: F401
)

from jbt import cli
from jbt.acquisition import RULES, Rule
from jbt.acquisition.rules import lucb

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS, *NOTEBOOKS]
SHOWN = re.compile(r"^```sh\n(.*?)^```|`(python -m [^`\n]+)`", re.DOTALL | re.MULTILINE)
OURS = re.compile(r"(?:\S*/)?(?:jbt|python -m (?P<module>(?:jbt\.)?sweeps\.\w+)) (?P<words>.*)")
LEFT_OPEN = re.compile(r"\b[A-Z]{3,}\b|\.\.\.|sweeps\.sharpness|" + "|".join(REMOVED))
"""The reader has something to fill in or makes that sweep, or the page says it was removed."""

pytestmark = pytest.mark.documents


class Parsed(BaseException):
    """Raised where a command would begin its work, with its options."""


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


def give(command):
    """Give a command; returns its exit status."""
    module, words = OURS.fullmatch(command).groups()
    words = shlex.split(words)
    if module is None:
        return cli.main(words)
    if module.endswith(".report"):
        return importlib.import_module("sweeps.report.__main__").main(words)
    return importlib.import_module("jbt.experiments.run").main(
        importlib.import_module(module).SWEEP, words
    )


@pytest.fixture
def parse(monkeypatch, tmp_path):
    """Gives a command up to where it begins its work. Returns its exit status if it never gets
    there, 0 if it does; the options of a sweep are then checked as before a run."""
    read = tyro.cli

    def stop(*arguments, **options):
        raise Parsed(read(*arguments, **options))

    def given(command):
        try:
            return give(command)
        except Parsed as parsed:
            (options,) = parsed.args
            if hasattr(options, "groups"):
                options.decided().check()
            return 0
        except SystemExit as exit:
            return exit.code

    monkeypatch.chdir(tmp_path)
    for folder in ("example", "audit"):  # folders of tables are read before options
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "verdicts.csv").touch()
    (tmp_path / "widest.py").write_text("def widest(view, key):\n    return view.shown\n")
    monkeypatch.setitem(RULES, "widest", Rule(lucb))  # and removed again
    monkeypatch.setattr(tyro, "cli", stop)
    return given


def test_commands_in_the_documents_can_be_given(parse, capsys):
    assert len(EVERY) > 30
    assert {command: capsys.readouterr().err for command in EVERY if parse(command)} == {}


def test_commands_are_found_and_wrong_ones_seen(parse, tmp_path):
    page = tmp_path / "page.md"
    block = "X=1 .venv/bin/jbt fit \\\n  --k 2 > out  # says it\njbt example DIR\n"
    page.write_text(f"```sh\n{block}```\n`jbt gate` `python -m sweeps.cost --pool 8`\n")
    fit, cost = commands(page)
    assert " ".join(fit.split()) == ".venv/bin/jbt fit --k 2"
    assert cost == "python -m sweeps.cost --pool 8"
    assert parse(cost) == 2


def commands_to_run():
    """Those of jbt that no other test runs, a plan with fewer pools."""
    own = [OURS.fullmatch(command).groups() for command in EVERY]
    own = {words for module, words in own if module is None and words != "example example"}
    own -= {words for page in PAGES if page.suffix == ".md" for words, _ in outputs(page)}
    elsewhere = ("ask", "tell", "status")  # in the order of their page
    return sorted(
        re.sub(r"--pools \d+", "", words) + " --pools 50" * words.startswith("plan")
        for words in own
        if not words.startswith(elsewhere)
    )


@pytest.mark.parametrize(
    "words",
    [
        # Every rule is compiled, or every placement.
        (nightly if words.startswith(("replay", "plan reference")) else heavy)(words)
        for words in commands_to_run()
    ],
)
def test_a_command_in_the_documents_runs(words, data, readers_folder, capsys):  # noqa: F811
    assert cli.main(shlex.split(words)) == 0, capsys.readouterr().err
