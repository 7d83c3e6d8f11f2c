"""What holds of every command on a user's tables."""

import csv
import json
import re

import pandas as pd
import pytest
from support.marks import heavy, nightly

from jbt import cli

TABLES = {"doctor": [], "judge": [], "identify": [], "fit": [], "leaderboard": []}
TABLES |= {"plan prompts": [], "replay": ["--rules", "round_robin", "--seeds", "1"]}
TABLES |= {"gate": ["--anchors", "a.csv"], "fit --joint": []}
EACH_TIME = ("doctor", "fit", "leaderboard")

NAMES = [
    "=1+cmd|' /C calc'!A0",
    "../../up$x_{$",
    '__import__("os").mkdir("done") $(touch done) `touch done`',
    "<script>alert(1)</script>\\|[a](b)",
    "\x1b[2J\x1b]0;title\x07\x9b31mred",
    "a\u2028b\x85c\x0bd\u202ee",
    "/etc/'passwd'",
    "%s{0}\u00e9\U0001f600",
]
"""Names that mean something to a shell, a spreadsheet, TeX, Markdown, HTML, a terminal or a path,
or that would leave a folder behind where they are run as code."""

JUDGES = NAMES[1], NAMES[4]
CONTENTS = [f"{name}&" for name in NAMES[:4]]
COVARIATE = "$w_{$|<b>=\x1b[1m"


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with hostile tables, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    verdicts, items = [], []
    for p, pool in enumerate([*NAMES, *map(str, range(4))]):
        for i, name in enumerate(NAMES[:4]):
            items += [
                {"pool": pool, "item": name, "content": CONTENTS[i], COVARIATE: 10 + 7 * i + p % 3}
            ]
            for j, other in enumerate(NAMES[:4]):
                for judge in JUDGES if i != j else ():
                    winner = "first" if (i + p + (judge == JUDGES[0])) % 3 else "second"
                    row = {"pool": pool, "judge": judge, "first": name, "second": other}
                    verdicts.append(row | {"winner": winner})
    write(tmp_path / "v.csv", verdicts)
    write(tmp_path / "i.csv", items)
    labels = zip(NAMES[:2], ["yes", "no"], strict=True)
    write(tmp_path / "a.csv", [{"pool": NAMES[0], "item": i, "member": m} for i, m in labels])
    return tmp_path


def written(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def new(folder, before):
    """The files that are not among those before, which stand as they did, and no other folder than
    their own."""
    after = written(folder)
    assert {path: after[path] for path in before} == before
    names = {str(path.relative_to(folder)) for path in after.keys() - before.keys()}
    assert {p.name for p in folder.iterdir() if p.is_dir()} == {
        n.split("/")[0] for n in names if "/" in n
    }
    assert not (folder.parent / "up$x_{$").exists()
    return names


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def check_report(folder):
    """A report's tables have their columns, and no name is more than text."""
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert not re.search(r"[^\n -~\u00a1-\U0010ffff]|[\u2028\u202e]", report)
    mark = r"<!-- jbt (?:[0-9a-f]{64} [a-z]+\.[a-z]+(?:, )?){3,5} -->\n$"
    assert re.search(mark, report)
    report = re.sub(mark, "", report)
    bare = re.sub(r"\\[\\`*_<>|\[\]#]", "", report).replace("](figure.png)", "")
    assert not re.search(r"[`<]|\]\(", bare)
    for block in re.findall(r"(?:^\|.*\n)+", bare, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(folder / "table.csv", keep_default_na=False)) > 0


@pytest.mark.parametrize(
    "command",
    [*map(heavy, EACH_TIME), *(nightly(name) for name in TABLES if name not in EACH_TIME)],
)
def test_a_name_is_nothing_but_a_name(command, folder, capsys):
    """Nothing is executed, and nothing written elsewhere."""
    before = written(folder)
    tables = ["--verdicts", "v.csv", "--items", "i.csv", "--covariates", COVARIATE]
    outputs = ["--out", "report", "--json", "found.json"]
    assert cli.main([*command.split(), *tables, *outputs, *TABLES[command]]) == 0
    more = ["pairs.csv", "pairs.png"] * (command == "leaderboard")
    reports = {f"report/{name}" for name in ("report.md", "table.csv", "figure.png", *more)}
    assert new(folder, before) == {"found.json", *reports}
    check_report(folder / "report")
    found = json.loads((folder / "found.json").read_text(), parse_constant=refuse)
    assert COVARIATE in json.dumps(found, ensure_ascii=False).replace("\\u001b", "\x1b")
    shown = capsys.readouterr()
    assert not re.search(r"[^\n -~\u00a1-\U0010ffff]|[\u2028\u202e]", shown.out)


def test_names_are_imported_as_they_are(folder):
    before = written(folder)
    assert cli.main(["import", "v.csv", "--out", "in", "--json", "found.json"]) == 0
    assert new(folder, before) == {"in/verdicts.csv", "in/items.csv", "in/jbt.toml", "found.json"}
    with (folder / "in" / "items.csv").open(newline="", encoding="utf-8") as file:
        items = {(row["pool"], row["item"]) for row in csv.DictReader(file)}
    assert {item for _, item in items} == set(NAMES[:4])
    assert {pool for pool, _ in items} == {*NAMES, *map(str, range(4))}
    found = json.loads((folder / "found.json").read_text(), parse_constant=refuse)
    assert set(found["judges"]) == set(JUDGES)


@pytest.mark.heavy
def test_a_study_of_such_names(folder):
    rows = [
        {"item": name, "text": f"{name}\nend", COVARIATE: 3 + i} for i, name in enumerate(NAMES)
    ]
    write(folder / "items.csv", rows)
    before = written(folder)
    begin = ["ask", "s", "--items", "items.csv", "--covariates", COVARIATE, "--n", "4"]
    assert cli.main([*begin, "--judges", *JUDGES, "--out", "ask.csv"]) == 0
    with (folder / "ask.csv").open(newline="", encoding="utf-8") as file:
        asked = list(csv.DictReader(file))
    assert {row["first"] for row in asked} <= set(NAMES)
    assert {row["judge"] for row in asked} <= set(JUDGES)
    assert all(row["first_text"] == f"{row['first']}\nend" for row in asked)
    write(folder / "told.csv", [row | {"winner": row["second"]} for row in asked])
    assert cli.main(["tell", "s", "told.csv"]) == 0
    assert cli.main(["status", "s", "--json", "found.json", "--out", "report"]) == 0
    reports = {f"report/{name}" for name in ("report.md", "table.csv", "figure.png")}
    study = {name for name in new(folder, before) if name.startswith("s/")}
    assert new(folder, before) == {"ask.csv", "told.csv", "found.json", *reports, *study}
    assert {name.count("/") for name in study} == {1}
    check_report(folder / "report")
    json.loads((folder / "found.json").read_text(), parse_constant=refuse)
