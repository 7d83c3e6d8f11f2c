"""What holds of every command on a user's tables."""

import json
import re

import pandas as pd
import pytest
from support.marks import heavy, nightly

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
REPORTS = {f"report/{name}" for name in ("report.md", "table.csv", "figure.png")}
COVARIATE = "$w_{$|<b>=\x1b[1m"


def write(path, rows):
    pd.DataFrame(rows).to_csv(path, index=False)


def read(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


@pytest.fixture
def folder(folder):
    """With hostile tables."""
    verdicts, items = [], []
    for p, pool in enumerate([*NAMES, *map(str, range(4))]):
        for i, name in enumerate(NAMES[:4]):
            item = {"pool": pool, "item": name, "content": CONTENTS[i]}
            items.append(item | {COVARIATE: 10 + 7 * i + p % 3})
            for j, other in enumerate(NAMES[:4]):
                for judge in JUDGES if i != j else ():
                    winner = "first" if (i + p + (judge == JUDGES[0])) % 3 else "second"
                    row = {"pool": pool, "judge": judge, "first": name, "second": other}
                    verdicts.append(row | {"winner": winner})
    write(folder / "v.csv", verdicts)
    write(folder / "i.csv", items)
    labels = zip(NAMES[:2], ["yes", "no"], strict=True)
    write(folder / "a.csv", [{"pool": NAMES[0], "item": i, "member": m} for i, m in labels])
    return folder


def written(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def new(folder, before):
    """The files that are not among those before, which stand as they did, and no other folder than
    their own."""
    after = written(folder)
    assert {path: after[path] for path in before} == before
    names = {str(path.relative_to(folder)) for path in after.keys() - before.keys()}
    folders = {path.name for path in folder.iterdir() if path.is_dir()}
    assert folders == {name.split("/")[0] for name in names if "/" in name}
    assert not (folder.parent / "up$x_{$").exists()
    return names


def no_json(constant):
    raise AssertionError(f"{constant} is no JSON")


def check_plain(text):
    """That nothing in a text moves a cursor or turns the direction of writing."""
    assert not re.search(r"[^\n -~\u00a1-\U0010ffff]|[\u2028\u202e]", text)


def check_report(folder):
    """A report's tables have their columns, and no name is more than text."""
    report = (folder / "report.md").read_text(encoding="utf-8")
    check_plain(report)
    mark = r"<!-- jbt (?:[0-9a-f]{64} [a-z]+\.[a-z]+(?:, )?){3,5} -->\n$"
    assert re.search(mark, report)
    report = re.sub(mark, "", report)
    bare = re.sub(r"\\[\\`*_<>|\[\]#]", "", report).replace("](figure.png)", "")
    assert not re.search(r"[`<]|\]\(", bare)
    for block in re.findall(r"(?:^\|.*\n)+", bare, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


@pytest.mark.parametrize(
    "command",
    [*map(heavy, EACH_TIME), *(nightly(name) for name in TABLES if name not in EACH_TIME)],
)
def test_a_name_is_nothing_but_a_name(command, folder, jbt):
    """Nothing is executed, and nothing written elsewhere."""
    before = written(folder)
    tables = ["--verdicts", "v.csv", "--items", "i.csv", "--covariates", COVARIATE]
    outputs = ["--out", "report", "--json", "found.json"]
    printed = jbt(*command.split(), *tables, *outputs, *TABLES[command])
    more = ["pairs.csv", "pairs.png"] * (command == "leaderboard")
    reports = REPORTS | {f"report/{name}" for name in more}
    assert new(folder, before) == {"found.json", *reports}
    check_report(folder / "report")
    json.loads((folder / "found.json").read_text(), parse_constant=no_json)
    check_plain(printed)


def test_names_are_imported_as_they_are(folder, jbt):
    before = written(folder)
    jbt("import v.csv --out in --json found.json")
    assert new(folder, before) == {"in/verdicts.csv", "in/items.csv", "in/jbt.toml", "found.json"}
    items = read(folder / "in" / "items.csv")
    assert {*items["item"]} == {*NAMES[:4]}
    assert {*items["pool"]} == {*NAMES, *map(str, range(4))}
    assert set(json.loads((folder / "found.json").read_text())["judges"]) == set(JUDGES)
