"""`jbt audit`, and folders of tables in place of the options that name them."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from support import browser

from jbt import cli, own
from jbt.border.page import Chapter, page
from jbt.border.report import Report, Section
from jbt.own.tables.folder import as_toml, settings_of

MODELS = ["wren", "finch", "crow"]


def battles(path, models=MODELS):
    """One vote a prompt of 60 between two of the models, of which the first wins most."""
    rows = []
    for i in range(60):
        a, b = i % 3, (i + 1 + i // 3 % 2) % 3
        row = {"question_id": f"q{i}", "model_a": models[a], "model_b": models[b]}
        row |= {"winner": ("model_a" if a < b else "model_b") if i % 5 else "tie"}
        row |= {"tstamp": 1.0 + i, "judge": f"visitor {i}"}
        for end, words in (("a", 5 + i % 4), ("b", 6 + i % 7)):
            row[f"conversation_{end}"] = [{"role": "assistant", "content": "word " * words}]
        rows.append(row)
    write_lines(path, rows)


def write_lines(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))


def read(folder):
    """The record and the text of the page of an audit."""
    record = json.loads((folder / "audit.json").read_text())
    return record, Tags((folder / "audit.html").read_text()).text


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


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    battles(folder / "arena.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.main(["audit", "arena.jsonl"]) == 0
    return folder


@pytest.fixture
def in_audited(audited, monkeypatch):
    monkeypatch.chdir(audited)
    return audited


def check_part(found, command, file):
    """That a part of an audit is what its command writes, but for the settings."""
    part = json.loads(file.read_text())
    if command != "doctor":  # its record is a list
        del part["settings"]
    assert found[command] == part


def test_one_command_from_a_file_to_a_page(in_audited, jbt):
    """Its parts are what the commands print, on the folder that it leaves."""
    names = {path.name for path in (in_audited / "audit").iterdir()}
    tables = {"verdicts.csv", "items.csv", "jbt.toml"}
    assert names == {"audit.html", "audit.json", "report.md", *tables}
    found, text = read(in_audited / "audit")
    assert list(found)[:3] == ["settings", "answer", "next"]
    assert [line.split(":")[0] for line in found["answer"]] == ["Ranking", "Judge", "Correction"]
    assert "best models, by rank [plausible ranks]: wren 1" in found["answer"][0]
    assert "there are no trusted labels" in found["answer"][2]
    assert found["next"] == ["jbt plan prompts audit"]
    assert "60 judges, taken as one crowd" in text
    assert "winner   <- winner" in text
    for command in ("leaderboard", "judge", "doctor"):
        assert f"jbt {command} audit" in text
        printed = jbt(f"{command} audit --json part.json --overwrite")
        check_part(found, command, in_audited / "part.json")
        assert all(cell in text for cell in printed.split("\n\n")[0].split())


@pytest.mark.heavy
def test_again_over_its_own_files_alone(in_audited, jbt, refused):
    jbt("audit audit")  # of the tables, which are kept
    jbt("audit arena.jsonl")
    for name in ("audit.html", "verdicts.csv"):
        changed = in_audited / "audit" / name
        before = changed.read_text()
        changed.write_text(before + "<!-- a note of mine -->\n")
        assert f"{name}: it exists" in refused("audit arena.jsonl")
        changed.write_text(before)
    jbt("audit arena.jsonl --overwrite")
    said = "--first is for files: audit is a folder of tables"
    assert said in refused("audit audit --first model_a")


@pytest.mark.heavy
def test_no_table_of_the_user_becomes_one_of_jbt(folder, jbt, refused):
    mine = "pool,judge,first,second,winner\np,j,x,y,first\np,k,y,z,second\nq,j,x,z,first\n"
    (folder / "verdicts.csv").write_text(mine)
    (folder / "anchors.csv").write_text("pool,better,worse\np,x,y\n")
    (folder / "other.csv").write_text("prompt,model_a,model_b,winner\nq1,g,h,model_a\n")
    jbt("audit . --out .")
    assert "verdicts.csv: it exists" in refused("import other.csv --out .")
    assert (folder / "verdicts.csv").read_text() == mine
    assert (folder / "anchors.csv").exists()


@pytest.mark.nightly
def test_the_covariate_varies_and_what_is_printed_by_a_command_is(folder, jbt):
    """Answers of one word have no length to correct for; a command line below a part is its own."""
    rows = [
        {"prompt": f"p{i}", "model_a": f"m{i % 3}", "model_b": f"m{(i + 1) % 3}"}
        | {"response_a": "x " * (3 + i % 4), "response_b": "x " * (2 + i % 5)}
        | {"winner": "model_a" if i % 3 else "model_b", "judge": f"j{i % 2}"}
        for i in range(24)
    ]
    write_lines(folder / "b.jsonl", rows)
    jbt("audit b.jsonl --order shown")
    found, text = read(folder / "audit")
    (line,) = re.findall(r"Printed by jbt (identify .*)", text)
    assert line == "identify audit --content item --merge-pools"
    jbt(f"{line} --json i.json")
    check_part(found, "identify", folder / "i.json")
    write_lines(folder / "c.jsonl", [row | {"response_a": "a", "response_b": "b"} for row in rows])
    assert "Ranking: j0: best" in jbt("audit c.jsonl --out c")
    assert "covariates" not in settings_of(folder / "c")


@pytest.mark.heavy
def test_labels_decide_and_what_fails_is_named(in_audited, monkeypatch):
    anchors = {"pool": ["q1", "q2"], "better": ["finch", "wren"], "worse": ["crow", "crow"]}
    tables = own.read(
        "audit/verdicts.csv",
        "audit/items.csv",
        pd.DataFrame(anchors),
        covariates=["words"],
        columns=own.Columns(judge=None),
    )
    found = own.audit(tables, covariates=["words"], transform="log1p")
    commands = [part.command for part in found.parts]
    assert commands == ["leaderboard", "judge", "identify", "gate", "doctor"]
    assert "by the labels: all verdicts: keep off" in found.answer[2]
    assert "plan labels" not in " ".join(found.following)
    # One part that stops leaves the others as they are.
    monkeypatch.setattr("jbt.own.examine.audit.identify", stops)
    without = own.audit(tables, covariates=["words"], transform="log1p")
    assert "Not done: no memory" in without.to_html()
    assert without.record()["identify"] is None
    assert without.record()["gate"] == found.record()["gate"]


def compared(words, wins):
    """Verdicts and items of prompts on which each model's answer, of so many words, is compared
    with each other's; `wins` says of prompt, first and second whether the first does."""
    verdicts = [
        {"pool": p, "first": MODELS[i], "second": MODELS[j], "winner": MODELS[i if first else j]}
        for p in range(len(words))
        for i, j in [(0, 1), (1, 2), (0, 2)]
        for first in [wins(p, i, j)]
    ]
    items = [
        {"pool": p, "item": model, "content": model, "words": words[p, i]}
        for p in range(len(words))
        for i, model in enumerate(MODELS)
    ]
    return pd.DataFrame(verdicts), pd.DataFrame(items)


@pytest.mark.heavy
def test_where_the_labels_keep_the_correction_off_the_uncorrected_ranking_is_named():
    """The judge prefers long answers, and so do the labels."""
    rng = np.random.default_rng(0)
    words = rng.integers(5, 15, (60, 3)) + np.array([0, 0, 6])

    def wins(p, i, j):
        return rng.random() < expit(0.3 * (j - i) + 0.35 * (words[p, i] - words[p, j]))

    labels = pd.DataFrame({"pool": range(8), "better": "crow", "worse": "wren"})
    found = own.audit(*compared(words, wins), labels, covariates=["words"])
    board = next(part.result for part in found.parts if part.command == "leaderboard")[0]
    assert board.models.loc[board.models["rank_naive"] == 1, "model"].item() == "crow"
    expected = ". Labels do not support correcting; best without correction: crow 1"
    assert expected in found.answer[0]


def test_where_the_prior_holds_c_the_uncorrected_ranking_is_named_first():
    """Each model writes at nearly one length, and the shorter one always wins."""
    words = np.arange(5, 8) + np.eye(20, 3, dtype=int)
    tables = own.read(*compared(words, lambda p, i, j: p % 4 > 0), covariates=["words"])
    (answer,) = own.leaderboard(tables, ["words"]).report("", []).answer
    assert answer.startswith(
        "best without correction: wren 1, finch 2, crow 3; corrected by a coefficient"
    )


def stops(*_):
    raise ValueError("no memory")


def test_places_are_counted_and_not_ranked():
    rows = [{"pool": f"q{i}", "first": "output_1", "second": "output_2"} for i in range(12)]
    verdicts = pd.DataFrame(rows).assign(winner=["first", "second", "first"] * 4)
    found = own.audit(verdicts)
    assert [part.command for part in found.parts] == ["judge", "doctor"]
    assert found.answer[0].startswith("Ranking: none: a pool holds one comparison, and")
    assert found.answer[2].startswith("Correction: none")
    assert "first shown wins" in found.to_html()


HOSTILE = ['<script>alert("1")</script>', "' onload='x", "$x_{$", "\x1b[2J\u202e", "&amp;", "|`*"]


def test_names_are_text_on_a_page():
    table = pd.DataFrame({name: [name, HOSTILE[0]] for name in HOSTILE})
    section = Section(HOSTILE[0], HOSTILE, table)
    report = Report(HOSTILE[1], HOSTILE, [section], answer=HOSTILE)
    from jbt.border import plots

    figure, ax = plots.new_figure()
    ax.set_title("".join(HOSTILE[:3]))
    text = page(HOSTILE[0], HOSTILE, [Chapter(HOSTILE[0], report, figure, HOSTILE[1])])
    read = Tags(text)
    allowed = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "div", "p"}
    allowed |= {"section", "ul", "li", "table", "tr", "th", "td", "img", "code"}
    assert {tag for tag, _ in read.tags} <= allowed
    attributes = {name for _, given in read.tags for name in given}
    assert attributes == {"lang", "charset", "name", "content", "class", "alt", "src"}
    assert [a["src"][:26] for tag, a in read.tags if tag == "img"] == ["data:image/svg+xml;base64,"]
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert read.text.count(HOSTILE[0]) >= 5
    assert "://" not in text  # nothing of another host


@pytest.mark.heavy
def test_the_page_reads_on_every_screen(folder, jbt):
    battles(folder / "arena.jsonl", models=[*HOSTILE[:2], "a" * 90])
    jbt("audit arena.jsonl")
    with browser.browser() as started:
        for width, dark in ((400, True), (1280, False), (1600, True)):
            made = folder / "audit" / "audit.html"
            assert browser.problems(started, made, width=width, dark=dark) == {made: []}


def test_a_folder_stands_for_its_options(folder, jbt):
    jbt("example ex")
    assert settings_of(folder / "ex")["covariates"] == ["words"]
    long = "--verdicts ex/verdicts.csv --items ex/items.csv --anchors ex/anchors.csv"
    long += " --covariates words --transform log"
    assert jbt("doctor ex") == jbt(f"doctor {long}").replace(long, "ex")
    # What is typed replaces what the folder says, also in the commands proposed.
    printed = jbt("doctor ex --transform none")
    assert "> jbt leaderboard ex --transform none\n" in printed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("colour = 1\nverdicts = 'v.csv'", "no option 'colour'; allowed: verdicts, items"),
        ("verdicts = ", "jbt.toml: Invalid value"),
        ("transform = 'sqrt'\nverdicts = 'v.csv'", "sqrt"),
        ("verdicts = 'none.csv'", "none.csv"),
        ("", "has neither verdicts.csv nor a jbt.toml"),
    ],
)
def test_a_wrong_folder_is_explained(settings, message, tmp_path, capsys):
    (tmp_path / "jbt.toml").write_text(settings)
    with pytest.raises(SystemExit, match="2"):
        raise SystemExit(cli.main(["doctor", str(tmp_path)]))
    assert message in "".join(capsys.readouterr())


def test_a_file_is_no_folder(folder, refused):
    (folder / "v.csv").write_text("pool,first,second,winner\np,a,b,a\n")
    for path, hint in (("v.csv", "--verdicts"), ("w", "there is none")):
        assert hint in refused("doctor", path)


def test_settings_survive_being_written(tmp_path):
    settings = {"verdicts": 'a "quoted" é\\.csv', "covariates": ["x y", "é"], "standardise": False}
    (tmp_path / "jbt.toml").write_text(as_toml(settings), encoding="utf-8")
    folder = str(tmp_path / settings["verdicts"])
    assert settings_of(tmp_path) == {**settings, "verdicts": folder}
