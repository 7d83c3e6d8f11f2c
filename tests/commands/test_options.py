"""What holds of every command on a user's tables."""

import json
import re

import pytest
from support.marks import heavy, nightly

from jbt.own.tables.example import example

COMMANDS = ["doctor", "fit", "leaderboard"]
COMMANDS += ["judge", "identify", "plan prompts", "gate --anchors anchors.csv"]

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

COVARIATE = "$w_{$|<b>=\x1b[1m"


@pytest.fixture
def folder(folder):
    """With the example's tables under hostile names."""
    tables = example()
    pools, items = (tables["items"][column].unique() for column in ("pool", "item"))
    old = [*pools, *items, *tables["verdicts"]["judge"].unique()]
    names = {name: NAMES[i % 8] + "&" * (i // 8) for i, name in enumerate(old)}
    for name, table in tables.items():
        table = table.replace(names).rename(columns={"words": COVARIATE})
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


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
    [*map(heavy, COMMANDS[:3]), *map(nightly, COMMANDS[3:])],
)
def test_a_name_is_nothing_but_a_name(command, folder, jbt):
    """Nothing is executed, and nothing written elsewhere."""
    before = sorted(folder.iterdir())
    tables = ["--verdicts", "verdicts.csv", "--items", "items.csv", "--covariates", COVARIATE]
    outputs = ["--out", "report", "--json", "found.json"]
    printed = jbt(*command.split(), *tables, *outputs)
    report, found = folder / "report", folder / "found.json"
    assert sorted(folder.iterdir()) == sorted([*before, report, found])
    assert not (folder.parent / "up$x_{$").exists()
    check_report(report)
    json.loads(found.read_text(), parse_constant=no_json)
    check_plain(printed)
