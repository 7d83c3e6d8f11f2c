"""No command writes over a file that it reads, one of a study, or one that jbt did not make."""

import os
from pathlib import Path

import pandas as pd
import pytest

from jbt import cli, own

TABLES = "--verdicts verdicts.csv --items items.csv"
CORRECTED = f"{TABLES} --anchors anchors.csv --covariates words --transform log"
REPORTS = ("--json FILE", "--out FOLDER/table.csv")

COMMANDS = {
    f"doctor {TABLES}": REPORTS,
    f"judge {TABLES}": REPORTS,
    f"identify {CORRECTED}": REPORTS,
    f"fit {TABLES}": REPORTS,
    f"leaderboard {TABLES}": REPORTS,
    f"replay {TABLES}": REPORTS,
    f"gate {CORRECTED}": REPORTS,
    f"plan labels {CORRECTED}": ("--json FILE", "--out FILE"),
    f"plan prompts {TABLES}": REPORTS,
    "plan pairing": ("--json FILE",),
    "plan gate": ("--json FILE",),
    "plan reference": ("--json FILE",),
    "import verdicts.csv": ("--out new --json FILE", "--out FOLDER/items.csv"),
    "example new": ("--json FILE",),
    "ask study": ("--out FILE",),
    "status study": REPORTS,
    "sweep crossing --preset smoke": ("--json FILE",),
}
"""What each command reads -> its options that write, to a file or to one in a folder."""

CASES = [(command, option) for command, options in COMMANDS.items() for option in options]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The example's tables, a study of two queries and an answer, and a file of the user's."""
    folder = tmp_path_factory.mktemp("outputs")
    assert cli.main(["example", str(folder)]) == 0
    items = pd.DataFrame({"item": ["a", "b", "c"], "text": "x"})
    study = own.Study.open(folder / "study", items, rule="round_robin", level=1.0)
    query, _ = study.ask(2)
    study.tell(query.id, "first")
    (folder / "mine").write_text("notes")
    for link, target in (("link", "verdicts.csv"), ("journal", "study/journal.jsonl")):
        (folder / link).symlink_to(target)
        os.link(folder / target, folder / f"hard_{link}")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def contents():
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def refused(line, capsys, reason):
    """A command that ends in one line and leaves every file as it was."""
    before = contents()
    capsys.readouterr()
    assert cli.main(line.split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert reason in said
    assert contents() == before


def with_output(command, option, target, tmp_path):
    """The command line that would write to a file; in a folder, through a link to it."""
    if "FOLDER" in option:
        link = tmp_path / Path(option).name
        link.unlink(missing_ok=True)
        link.symlink_to(Path(target).absolute())
        option = option.replace(f"FOLDER/{link.name}", str(tmp_path))
    return f"{command} {option.replace('FILE', target)}"


@pytest.mark.parametrize(("command", "option"), CASES)
def test_what_is_read_and_what_is_a_studys_is_never_written(
    folder, capsys, tmp_path, command, option
):
    overwrite = "" if command.startswith("sweep") else " --overwrite"
    if "verdicts.csv" in command:
        for target in ("verdicts.csv", "link", "hard_link"):
            line = with_output(command, option, target, tmp_path)
            refused(line + overwrite, capsys, "this command reads it")
    for target in ("study/journal.jsonl", "journal", "study/items.csv", "study/.lock"):
        line = with_output(command, option, target, tmp_path)
        refused(line + overwrite, capsys, "belongs to the study")


def test_a_study_is_not_written_over_under_another_name(folder, capsys):
    refused("ask study --out hard_journal --overwrite", capsys, "this command reads it")
    refused("ask new --items items.csv --out items.csv", capsys, "this command reads it")


@pytest.mark.parametrize(("command", "option"), CASES)
def test_a_file_of_the_users_needs_overwrite(folder, capsys, tmp_path, command, option):
    refused(with_output(command, option, "mine", tmp_path), capsys, "--overwrite")
    if "FILE" in option:
        refused(with_output(command, option, "study", tmp_path), capsys, "it is a folder")


def test_a_report_is_written_over_until_somebody_changes_it(folder, capsys):
    line = f"judge {TABLES} --json judge.json --out report"
    for _ in range(2):
        assert cli.main(line.split()) == 0
    for name in ("report.md", "table.csv", "figure.png"):
        before = Path("report", name).read_bytes()
        Path("report", name).write_bytes(before + b"mine")
        refused(line, capsys, f"report/{name}: it exists")
        Path("report", name).write_bytes(before)
    Path("report/table.csv").write_text("mine")
    assert cli.main([*line.split(), "--overwrite"]) == 0
    assert "mine" not in Path("report/table.csv").read_text()
    Path("judge.json").write_text("")  # an empty file holds nothing to lose
    assert cli.main(line.split()) == 0
    assert cli.main(f"judge {TABLES} --json /dev/null".split()) == 0


def test_queries_are_written_over_once_their_answers_are_told(folder, capsys):
    ask = "ask study --n 1 --out asked.csv"
    for _ in range(2):  # nobody has answered, and the study knows what it asked
        assert cli.main(ask.split()) == 0
    asked = pd.read_csv("asked.csv").assign(winner="first")
    asked.to_csv("asked.csv", index=False)
    refused(ask, capsys, "asked.csv: it exists")
    assert cli.main(["tell", "study", "asked.csv"]) == 0
    assert cli.main(ask.split()) == 0
    assert "winner" not in pd.read_csv("asked.csv")
