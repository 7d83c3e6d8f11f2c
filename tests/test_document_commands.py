"""Every command that the documents print can be given, its options with these values. That what
they print is right is shown elsewhere (`test_documents.py`)."""

import importlib
import json
import re
import shlex

import pytest
import tyro
from support.pages import DOCS, NOTEBOOKS, REMOVED, ROOT

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
