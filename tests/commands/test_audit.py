"""`jbt audit`, and folders of tables in place of the options that name them."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from support.boards import written
from support.foreign_files import save_sample

from jbt import own
from jbt.border import plots
from jbt.border.page import Chapter, page
from jbt.border.report import Report, Section


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_one_command_from_a_file_to_a_page(folder, jbt):
    """Its parts are what the commands print, on the folder that it leaves; a ranking by a
    coefficient that is not measured stands behind the uncorrected one."""
    jbt("audit", save_sample(folder, "alpaca_eval"))
    audit = folder / "audit"
    names = {"audit.html", "audit.json", "report.md", "verdicts.csv", "items.csv", "jbt.toml"}
    assert {path.name for path in audit.iterdir()} == names
    found = json.loads((audit / "audit.json").read_text())
    text = Tags((audit / "audit.html").read_text()).text
    assert "best without correction: base 1, m 2; corrected by a coefficient" in found["answer"][0]
    for command in ("leaderboard", "judge", "doctor"):
        assert f"jbt {command} audit" in text
        jbt(f"{command} audit --json part.json --overwrite")
        part = json.loads((folder / "part.json").read_text())
        if command != "doctor":  # its record is a list
            del part["settings"]
        assert found[command] == part


@pytest.mark.heavy
def test_labels_keep_the_correction_off_and_what_fails_is_named(monkeypatch):
    """The judge prefers long answers, and so do the labels."""
    theta = {"wren": 0.6, "finch": 0.3, "crow": 0.0}
    long = {"words": lambda rng, shape: rng.integers(5, 15, shape) + np.array([0, 0, 6])}
    verdicts, items = written(60, theta=theta, c=0.35, **long)
    pools = [f"p{i}" for i in range(8)]
    labels = pd.DataFrame({"pool": pools, "better": "crow", "worse": "wren"})

    def stops(*_):
        raise ValueError("no memory")

    # One part that stops leaves the others as they are.
    monkeypatch.setattr("jbt.own.examine.audit.identify", stops)
    found = own.audit(verdicts, items, labels, covariates=["words"])
    commands = [part.command for part in found.parts]
    assert commands == ["leaderboard", "judge", "identify", "gate", "doctor"]
    expected = ". Labels do not support correcting; best without correction: crow 1"
    assert expected in found.answer[0]
    assert "by the labels: all verdicts: keep off" in found.answer[2]
    assert "Not done: no memory" in found.to_html()


def test_places_are_counted_and_not_ranked():
    rows = [{"pool": f"q{i}", "first": "output_1", "second": "output_2"} for i in range(12)]
    verdicts = pd.DataFrame(rows).assign(winner=["first", "second", "first"] * 4)
    found = own.audit(verdicts)
    assert [part.command for part in found.parts] == ["judge", "doctor"]
    assert found.answer[0].startswith("Ranking: none: a pool holds one comparison, and")


HOSTILE = ['<script>alert("1")</script>', "' onload='x", "$x_{$", "\x1b[2J\u202e", "&amp;", "|`*"]


def test_names_are_text_on_a_page():
    table = pd.DataFrame({name: [name, HOSTILE[0]] for name in HOSTILE})
    section = Section(HOSTILE[0], HOSTILE, table)
    report = Report(HOSTILE[1], HOSTILE, [section], answer=HOSTILE)
    figure, _ = plots.new_figure()
    read = Tags(page(HOSTILE[0], HOSTILE, [Chapter(HOSTILE[0], report, figure, HOSTILE[1])]))
    assert "script" not in {tag for tag, _ in read.tags}
    assert "onload" not in {name for _, given in read.tags for name in given}
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", read.text)
    assert read.text.count(HOSTILE[0]) >= 5


def test_a_folder_stands_for_its_options(folder, jbt):
    jbt("example ex")
    long = "--verdicts ex/verdicts.csv --items ex/items.csv --anchors ex/anchors.csv"
    long += " --covariates words --transform log"
    assert jbt("doctor ex") == jbt(f"doctor {long}").replace(long, "ex")
    # What is typed replaces what the folder says, also in the commands proposed.
    printed = jbt("doctor ex --transform none")
    assert "> jbt leaderboard ex --transform none\n" in printed


def test_a_wrong_folder_is_explained(folder, refused):
    (folder / "jbt.toml").write_text("colour = 1\nverdicts = 'v.csv'")
    assert "no option 'colour'; allowed: verdicts, items" in refused("doctor .")
