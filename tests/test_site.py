"""The documentation site builds without warnings and opens from disk, in a real browser."""

import os
import re
import runpy
from pathlib import Path

import pandas as pd
import pytest
from support import browser

ROOT = Path(__file__).parents[1]
WIDE = ("index", "mathematics", "verdicts", "findings/crossing", "api/own")
"""Pages that are also opened on a wide screen, light."""

pytestmark = pytest.mark.heavy


@pytest.fixture
def site(tmp_path, python):
    """The site, made; a warning is an error."""
    pytest.importorskip("sphinx_book_theme", reason="needs the extra docs")
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    python(*command, "-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "site")
    return tmp_path / "site"


def pages(site):
    """The site's own pages, without what the theme brings and without files to download."""
    theirs = {"_static", "_downloads"}
    return sorted(page for page in site.rglob("*.html") if not theirs & set(page.parts))


def unread(page):
    """Markdown that a page shows as it was typed, outside code; signatures have stars too."""
    soup = pytest.importorskip("bs4").BeautifulSoup(page.read_text(), "html.parser")
    text = soup.find("main") or soup
    for code in text.find_all(["pre", "code", "script", "style", "dt"]):
        code.decompose()
    return re.findall(r".{0,30}(?:\*\*|\]\(|<!--|-->).{0,30}", text.get_text())


def test_the_site_opens_from_disk(site):
    """One test, as the site is built once: every page, formulas and search."""
    every = pages(site)
    assert len(every) > 40
    found = {f"{page}, as it was typed": unread(page) for page in every}
    with browser.browser() as started:
        narrow = browser.problems(started, *every, width=400, dark=True)
        found |= {f"{page}, narrow and dark": wrong for page, wrong in narrow.items()}
        found |= browser.problems(started, *(site / f"{name}.html" for name in WIDE))
        with browser.opened(started, site / "mathematics.html") as (tab, problems):
            tab.wait_for_selector("mjx-container svg")
            assert "\\(" not in tab.inner_text("main")
            found["formulas"] = problems
        search = browser.opened(started, site / "search.html", query="?q=crossing")
        with search as (tab, problems):
            tab.wait_for_selector("#search-results li a")
            links = tab.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
            assert any("/findings/crossing.html" in link for link in links)
            found["search"] = problems
    assert {str(page): problems for page, problems in found.items() if problems} == {}


@pytest.mark.skipif("JBT_RESULTS" not in os.environ, reason="needs the report of finished runs")
def test_the_report_opens_from_disk():
    """In the folder JBT_RESULTS, which .ci/run makes: a figure for each sweep, its command, and the
    site's pages."""
    report = Path(os.environ["JBT_RESULTS"]) / "report.html"
    text = report.read_text()
    assert text.count('<img alt="Figure of crossing" src="data:image/png;base64,') == 1
    assert 'id="document-findings/crossing"' in text
    rows, table = (
        pd.read_csv(report.parent / name) for name in ("report.csv", "crossing/table.csv")
    )
    assert (rows["sweep"] == "crossing").sum() == len(table) > 10
    with browser.browser() as started:
        for width, dark in ((400, True), (1200, False)):
            assert browser.problems(started, report, width=width, dark=dark) == {report: []}
        with browser.opened(started, report) as (tab, problems):
            tab.wait_for_selector("mjx-container svg")
            assert tab.locator("img[alt^='Figure of']").count() > 15
            assert "python -m sweeps.crossing" in tab.inner_text("body")
            assert problems == []


def test_sliders_choose_another_curve(tmp_path):
    """In the explorer alone, as pages hold it: a key moves a slider, and the answer follows."""
    pytest.importorskip("bokeh", reason="needs the extra docs")
    explorer = runpy.run_path(str(ROOT / "docs" / "explorer.py"), run_name="explorer")
    path = tmp_path / "explorer.html"
    path.write_text(explorer["page"](explorer["Grid"].load(explorer["GRID"])), encoding="utf-8")
    with browser.browser() as started, browser.opened(started, path) as (tab, problems):
        answer = tab.get_by_text("Correction stops helping at a correlation of")
        before = answer.inner_text()
        tab.get_by_role("slider").first.press("ArrowRight")
        answer.get_by_text(before).wait_for(state="detached", timeout=1000)
        after = answer.inner_text()
        assert problems == []
    crossings = [
        float(re.findall(r"correlation of (\d\.\d+)", text)[0]) for text in (before, after)
    ]
    assert crossings[1] > crossings[0]  # more bias: correction helps longer


BAD = """<!doctype html><html><head><script src="https://example.org/a.js"></script>
<link rel="stylesheet" href="gone.css"></head><body style="background:#fff;color:#eee"><p>text</p>
<div style="width:900px">wide</div><img src="gone.png"><script>console.error("no")</script>
<script>throw new Error("thrown")</script></body></html>"""


def test_markdown_left_in_a_page_is_seen(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<main><p>it **holds** here</p><code>a ** b</code></main>")
    assert unread(page) == ["it **holds** here"]


def test_what_is_wrong_with_a_page_is_seen(tmp_path):
    bad, good, light = (tmp_path / f"{name}.html" for name in ("bad", "good", "light"))
    bad.write_text(BAD)
    good.write_text("<!doctype html><meta name=color-scheme content='light dark'><p>text</p>")
    light.write_text("<!doctype html><p>text</p>")
    with browser.browser() as started:
        found = "\n".join(browser.problems(started, bad, width=400, dark=True)[bad])
        assert browser.problems(started, good, width=400, dark=True) == {good: []}
        assert browser.problems(started, good, width=1200) == {good: []}
        assert browser.problems(started, light, dark=True) == {light: ["dark text on light"]}
    for problem in (
        "asks for https://example.org/a.js",
        "gone.css",
        "missing image: file:",
        "console: no",
        "script: thrown",
        "pixels wider than the window of 400",
        "text of contrast",
    ):
        assert problem in found
