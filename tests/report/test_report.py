"""The report shows what is in the tables, in the paper and among the claims, and nothing else."""

import html.parser
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from support.finished_runs import ABSENT, finished

from sweeps.report import __main__ as report
from sweeps.report import claims, page, running, runs

COLUMNS = [
    *("covariate", "rho", "quantity", "estimate", "ci_low", "ci_high", "n_pools", "paper"),
    *("replicate_low", "replicate_high", "consistent"),
]
ROWS = [
    ["continuous", 0, "benefit", 0.219092, 0.212445, 0.225495, 8192, None, None, None, None],
    ["continuous", 0.5, "benefit", -0.031234, -0.04, -0.02, 8192, None, None, None, None],
    ["continuous", None, "crossing", 0.421056, 0.41384, 0.42786, 8192, 0.45, 0.2951, 0.4842, "yes"],
    ["continuous", None, "crossing", 0.421056, 0.41384, 0.42786, 8192, 0.5, 0.2951, 0.4842, "no"],
    [
        "continuous",
        None,
        "crossing_same_pools",
        0.421056,
        0.41384,
        0.42786,
        8192,
        0.45,
        0.2,
        None,
        None,
    ],
]
TABLE = pd.DataFrame(ROWS, columns=COLUMNS)
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Folder with a finished run of one sweep."""
    monkeypatch.setattr(page, "svg", lambda run: f'<svg aria-label="{run.name}"></svg>')
    return finished(tmp_path / "results", "crossing", TABLE)


def written(results, *options):
    """Exit code, HTML, rows of the CSV and the JSON."""
    code = report.main(["--out", str(results), *options])
    text = (results / "report.html").read_text()
    table = pd.read_csv(results / "report.csv", dtype=str, keep_default_na=False)
    return code, text, table, json.loads((results / "report.json").read_text())


class Text(html.parser.HTMLParser):
    """The visible text of a page, and all of its attributes."""

    def __init__(self, page):
        super().__init__()
        self.parts, self.links, self.ids, self._hidden = [], [], [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in ("style", "svg")
        self.links += [(tag, v) for k, v in attrs if k in ("href", "src", "srcset", "action")]
        self.ids += [v for k, v in attrs if k == "id"]

    def handle_endtag(self, tag):
        self._hidden -= tag in ("style", "svg")

    def handle_data(self, data):
        if not self._hidden:
            self.parts.append(data)


def unexplained(text, table, record, parts):
    """Numbers on the page that are in no table, in no claim and no count."""
    verbatim = " ".join([page.TEMPLATE.read_text(), claims.FILE.read_text(), json.dumps(record)])
    known = set(NUMBER.findall(verbatim))
    known |= {str(n) for pair in claims.counts(claims.read()).values() for n in pair}
    known |= {str(n) for part in parts for n in part}
    known |= set(NUMBER.findall(" ".join(table.paper)))
    exact = [abs(float(n)) for c in table for n in table[c] if re.fullmatch(r"-?[\d.e+-]*\d", n)]
    exact += [float(n) for texts in table.setting for n in NUMBER.findall(texts)]
    left = []
    for token in NUMBER.findall(" ".join(Text(text).parts)):
        decimals = len(token.partition(".")[2])
        shown = float(token.replace(",", ""))
        near = np.abs(np.array(exact) - shown).min() <= 0.5001 * 10.0**-decimals
        if token not in known and not near:
            left.append(token)
    return left


def test_numbers_are_those_of_tables_paper_and_claims(results):
    code, text, table, made = written(results, "--no-run", "--only", "crossing")
    assert code == 0
    record = {**made["rows"][0], "version": page.__version__, "made": made["command"]}
    record |= {"record": runs.record_of("crossing", results / "crossing")}
    counts = [(1, 0, 0, 1), (0, 1, 0, 0), (1, 1, 0, 1), (len(table),)]
    assert unexplained(text, table, record, counts) == []
    by_hand = text.replace("</main>", "<p>0.7771</p></main>")
    assert unexplained(by_hand, table, record, counts) == ["0.7771"]


def test_rows_stand_under_their_place_in_the_paper(results):
    _, text, table, made = written(results, "--no-run", "--only", "crossing")
    assert table.source.tolist() == ["", "", "Figure 3", "Table 7 (crossings)", "Figure 3"]
    assert table.paper.tolist() == ["", "", "0.45", "0.50", "0.45"]
    assert table.paper_pools.tolist() == ["", "", "30", "30", "30"]
    assert made["rows"][1]["setting"] == {"covariate": "continuous", "rho": "0.5"}
    tables, figures = text.index('<section id="table-7">'), text.index('<section id="figure-3">')
    assert tables < figures
    assert "0.421 [0.414, 0.428]" in text[tables:figures]
    assert '<td role="cell" data-head="consistent" class="consistent no">no</td>' in text
    assert "0.200 to none" in text[figures:]
    beyond = text[text.index('<section id="experiments">') :]
    assert "\N{MINUS SIGN}0.0312 [\N{MINUS SIGN}0.0400, \N{MINUS SIGN}0.0200]" in beyond
    assert "0.421" not in beyond


def test_the_page_needs_nothing_else_and_its_links_lead_somewhere(results):
    _, text, _, _ = written(results, "--no-run", "--only", "crossing")
    read = Text(text)
    assert {link for _, link in read.links if not link.startswith("#")} == set()
    assert "url(" not in text
    assert "<script" not in text
    assert "@import" not in text
    assert len(set(read.ids)) == len(read.ids)
    assert {link[1:] for _, link in read.links} <= set(read.ids)


def test_names_are_escaped(results):
    table = TABLE.assign(covariate="<b>&")
    table.to_csv(results / "crossing" / "table.csv", index=False)
    _, text, _, _ = written(results, "--no-run", "--only", "crossing")
    assert "<b>" not in text
    assert "covariate &lt;b&gt;&amp;" in text


def test_a_sweep_that_is_missing_is_named(results, monkeypatch, capsys):
    monkeypatch.delenv("JBT_DATA", raising=False)
    code, text, _, made = written(
        results, "--no-run", "--only", "crossing", "membership", "real_judges"
    )
    assert code == 0
    assert made["absent"]["membership"] == "not run"
    assert made["absent"]["real_judges"].startswith("no data: give --data DIR")
    assert "<li><code>membership</code>: not run</li>" in text
    assert "left out: membership, not run" in capsys.readouterr().err


def test_other_settings_are_not_taken_for_the_preset_s(results, tmp_path):
    finished(tmp_path / "other", "crossing", TABLE, pools=77)
    code, _, table, made = written(tmp_path / "other", "--no-run", "--only", "crossing")
    assert code == 2
    assert table.empty
    assert "holds python -m sweeps.crossing --pools 77, not" in made["absent"]["crossing"]
    earlier = finished(tmp_path / "earlier", "crossing", TABLE, interaction=ABSENT)
    code, _, _, made = written(earlier, "--no-run", "--only", "crossing")
    assert code == 2
    assert made["absent"]["crossing"].endswith("are of an earlier jbt, without interaction")


def test_what_is_missing_is_run_and_a_failure_ends_nothing(results, monkeypatch, capsys):
    commands, of_git = [], subprocess.run

    def run(command, **options):
        if command[0] == "git":
            return of_git(command, **options)
        commands.append(command[1:])
        name = command[2].removeprefix("sweeps.")
        if name != "membership":
            finished(results, name, TABLE)
        return subprocess.CompletedProcess(command, 2 if name == "membership" else 0)

    monkeypatch.setattr(running.subprocess, "run", run)
    code, _, table, made = written(results, "--only", "crossing", "membership", "crossing_choices")
    given = ["--preset", "full", "--out", str(results)]
    assert commands == [
        ["-m", "sweeps.membership", *given],
        ["-m", "sweeps.crossing_choices", *given],
    ]
    assert code == 2
    assert made["absent"] == {"membership": "python -m sweeps.membership ended with 2"}
    assert set(table.sweep) == {"crossing", "crossing_choices"}
    progress = capsys.readouterr().err
    assert "1 of 2: membership (about " in progress
    assert "2 of 2: crossing_choices (1 s so far, about " in progress


def test_wrong_options_are_one_line(tmp_path, monkeypatch, capsys):
    assert report.main(["--out", str(tmp_path), "--only", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown sweep 'nothing': one of acquisition")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert report.main(["--out", str(tmp_path), "--no-run"]) == 2
    needs = "error: the report needs jinja2: pip install 'judge-bt[report]'\n"
    assert capsys.readouterr().err == needs
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
def test_a_report_of_real_runs(tmp_path, capsys):
    code, text, table, _ = written(tmp_path, "--preset", "smoke", "--only", "crossing")
    assert code == 0
    assert text.count("<svg ") == 1
    assert 'id="crossing-figure_1"' in text
    assert len(table) > 10
    assert "1 of 1: crossing" in capsys.readouterr().err
    again = written(tmp_path, "--preset", "smoke", "--only", "crossing")
    assert again[1] == text
    assert "1 of 1" not in capsys.readouterr().err
