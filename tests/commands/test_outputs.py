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


def test_a_study_does_not_begin_over_files_of_the_user(tmp_path, capsys):
    items = tmp_path / "mine.csv"
    items.write_text("item,text\na,x\nb,x\n")
    for name in ("items.csv", "anchors.csv"):
        study = tmp_path / f"of {name}"
        study.mkdir()
        (study / name).write_text("precious")
        anchors = tmp_path / "labels.csv"
        anchors.write_text("better,worse\na,b\n")
        argv = ["ask", str(study), "--items", str(items), "--anchors", str(anchors)]
        assert cli.main(argv) == 2
        assert f"{study / name} exists" in capsys.readouterr().err
        assert (study / name).read_text() == "precious"
        (study / name).unlink()
        assert cli.main(argv) == 0


@pytest.mark.parametrize(
    "command",
    [
        f"judge {TABLES} --out both --json both/table.csv",
        f"plan labels {CORRECTED} --out both.csv --json both.csv",
        "import verdicts.csv --out both --json both/items.csv",
        "status study --out both --json both/report.md",
    ],
)
def test_one_file_is_not_written_twice(command, folder, capsys):
    (folder / "both").mkdir(exist_ok=True)
    assert cli.main(command.split()) == 2
    assert "--json and --out both write both" in capsys.readouterr().err


def test_links_that_lead_in_a_circle_end_with_one_line(folder, tmp_path, capsys):
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert cli.main(f"judge {TABLES} --json {tmp_path / 'one'}".split()) == 2
    assert "lead in a circle" in capsys.readouterr().err


def test_a_damaged_journal_is_still_a_study_s(folder, tmp_path, capsys):
    journal = tmp_path / "journal.jsonl"
    lines = (folder / "study" / "journal.jsonl").read_bytes()
    journal.write_bytes(lines.replace(b'"study"', b'"stXdy"', 1))
    before = journal.read_bytes()
    assert cli.main(f"judge {TABLES} --overwrite --json {journal}".split()) == 2
    assert "belongs to the study" in capsys.readouterr().err
    assert journal.read_bytes() == before


def test_a_sweep_takes_no_other_program_s_configuration_for_its_own(tmp_path, capsys):
    folder = tmp_path / "partial_pairing"
    folder.mkdir()
    (folder / "config.json").write_text('{"my": "config"}')
    argv = ["sweep", "partial_pairing", "--preset", "smoke", "--out", str(tmp_path)]
    assert cli.main(argv) != 0
    assert "no sweep wrote" in capsys.readouterr().err
    assert (folder / "config.json").read_text() == '{"my": "config"}'


def test_winners_that_were_not_told_are_kept(tmp_path, capsys):
    """The ids were told, but from another file, and otherwise."""
    study, asked = tmp_path / "study", tmp_path / "asked.csv"
    (tmp_path / "items.csv").write_text("item,text\na,x\nb,x\nc,x\n")
    begin = ["ask", str(study), "--items", str(tmp_path / "items.csv"), "--n", "2"]
    assert cli.main([*begin, "--out", str(asked)]) == 0
    rows = pd.read_csv(asked)
    rows.assign(winner=["first", rows["second"][1]]).to_csv(tmp_path / "told.csv", index=False)
    assert cli.main(["tell", str(study), str(tmp_path / "told.csv")]) == 0
    again = ["ask", str(study), "--out", str(asked)]
    for column in ({"winner": "tie"}, {"rationale": "longer"}):
        rows.assign(**column).to_csv(asked, index=False)
        assert cli.main(again) == 2
        assert "choose another name, or --overwrite" in capsys.readouterr().err
    asked.write_bytes((tmp_path / "told.csv").read_bytes())
    assert cli.main(again) == 0
