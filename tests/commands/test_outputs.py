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
    **{
        f"{command} {CORRECTED}": REPORTS
        for command in ("doctor", "judge", "identify", "fit", "leaderboard", "replay", "gate")
    },
    f"plan labels {CORRECTED}": ("--json FILE", "--out FILE"),
    f"plan prompts {TABLES}": REPORTS,
    **{f"plan {name}": ("--json FILE",) for name in ("pairing", "gate", "reference")},
    "import verdicts.csv": ("--out new --json FILE", "--out FOLDER/items.csv"),
    "example new": ("--json FILE",),
    "ask study": ("--out FILE",),
    "status study": REPORTS,
}
"""What each command reads -> its options that write, to a file or to one in a folder."""


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
    (folder / "journal").symlink_to("study/journal.jsonl")
    (folder / "link").symlink_to("verdicts.csv")
    os.link(folder / "verdicts.csv", folder / "hard_link")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def contents():
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.fixture
def nothing_written(refused):
    """Give a command that is refused for this reason and leaves every file as it was."""

    def give(line, reason):
        before = contents()
        assert reason in refused(line)
        assert contents() == before

    return give


def with_output(command, option, target, tmp_path):
    """The command line that would write to a file; in a folder, through a link to it."""
    if "FOLDER" in option:
        link = tmp_path / Path(option).name
        link.unlink(missing_ok=True)
        link.symlink_to(Path(target).absolute())
        option = option.replace(f"FOLDER/{link.name}", str(tmp_path))
    return f"{command} {option.replace('FILE', target)}"


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written_over_without_leave(folder, nothing_written, tmp_path, command):
    """What is read and what is a study's never; another file of the user's with --overwrite."""
    overwrite = "" if command.startswith("sweep") else " --overwrite"
    refusals = [("journal", overwrite, "belongs to the study"), ("mine", "", "--overwrite")]
    if "verdicts.csv" in command:
        links = ("hard_link", "link")
        refusals += [(name, overwrite, "this command reads it") for name in links]
    for option in COMMANDS[command]:
        for target, more, reason in refusals:
            nothing_written(with_output(command, option, target, tmp_path) + more, reason)
        if "FILE" in option:
            nothing_written(with_output(command, option, "study", tmp_path), "it is a folder")


def test_other_files_that_are_not_written(folder, tmp_path, nothing_written):
    lines = (folder / "study" / "journal.jsonl").read_bytes()
    damaged = tmp_path / "journal.jsonl"
    damaged.write_bytes(lines.replace(b'"study"', b'"stXdy"', 1))
    nothing_written("status study --out . --json report.md", "--json and --out both write")
    nothing_written(f"judge {TABLES} --overwrite --json {damaged}", "belongs to the study")
    table = tmp_path / "crossing" / "table.csv"
    table.parent.mkdir()
    table.write_text("mine")  # of another program
    nothing_written(f"sweep crossing --preset smoke --out {tmp_path}", "but no results.zarr")


@pytest.mark.heavy
def test_a_report_is_written_over_until_somebody_changes_it(folder, jbt, nothing_written):
    line = f"judge {TABLES} --json judge.json --out report"
    jbt(line)
    jbt(line)
    Path("report/table.csv").write_text("mine")
    nothing_written(line, "report/table.csv: it exists")
    jbt(f"{line} --overwrite")
    assert "mine" not in Path("report/table.csv").read_text()


def test_queries_are_written_over_once_their_answers_are_told(folder, jbt, nothing_written):
    ask = "ask study --n 1 --out asked.csv"
    for _ in range(2):  # nobody has answered, and the study knows what it asked
        jbt(ask)
    asked = pd.read_csv("asked.csv").assign(winner="first")
    asked.to_csv("asked.csv", index=False)
    nothing_written(ask, "asked.csv: it exists")
    jbt("tell study asked.csv")
    asked.assign(winner="second").to_csv("asked.csv", index=False)  # told otherwise
    nothing_written(ask, "choose another name, or --overwrite")
    asked.to_csv("asked.csv", index=False)
    jbt(ask)
    assert "winner" not in pd.read_csv("asked.csv")


@pytest.mark.heavy
def test_a_study_does_not_begin_over_files_of_the_user(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("item,text\na,x\nb,x\nc,x\n")
    precious = Path("study", "items.csv")
    precious.parent.mkdir()
    precious.write_text("precious")
    assert f"{precious} exists" in refused("ask study --items mine.csv")
    assert precious.read_text() == "precious"
