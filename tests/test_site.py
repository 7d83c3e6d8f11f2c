"""The documentation site builds without warnings and opens from disk, in a real browser."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import browser

ROOT = Path(__file__).parents[1]

# One build and one browser for all: `--dist loadgroup` keeps the group on one worker.
pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx_book_theme", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    ran = subprocess.run(
        [*build, "-d", str(tmp_path_factory.mktemp("doctrees")), str(ROOT / "docs"), str(folder)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.fixture(scope="module")
def chromium():
    with browser.browser() as started:
        yield started


def pages(site):
    made = (page for page in site.rglob("*.html") if "_static" not in page.parts)
    return sorted(page for page in made if "_downloads" not in page.parts)


def test_every_page_opens_on_a_narrow_dark_screen(site, chromium):
    found = {
        page.name: browser.problems(chromium, page, width=400, dark=True) for page in pages(site)
    }
    assert {page: problems for page, problems in found.items() if problems} == {}
    assert len(found) > 40


@pytest.mark.parametrize(
    "page", ["index", "mathematics", "verdicts", "findings/crossing", "api/own"]
)
def test_pages_open_on_a_wide_light_screen(site, chromium, page):
    assert browser.problems(chromium, site / f"{page}.html") == []


def test_formulas_are_drawn(site, chromium):
    with browser.opened(chromium, site / "mathematics.html") as (tab, problems):
        tab.wait_for_selector("mjx-container svg")
        assert "\\(" not in tab.inner_text("main")
    assert problems == []


def test_search_finds_the_crossing(site, chromium):
    search = browser.opened(chromium, site / "search.html", query="?q=crossing")
    with search as (tab, problems):
        tab.wait_for_selector("#search-results li a")
        found = tab.eval_on_selector_all("#search-results li a", "links => links.map(a => a.href)")
    assert any(link.split("?")[0].endswith("/findings/crossing.html") for link in found)
    assert problems == []


BAD = """<!doctype html><html><head><script src="https://example.org/a.js"></script>
<link rel="stylesheet" href="gone.css"></head><body style="background:#fff;color:#eee"><p>text</p>
<div style="width:900px">wide</div><img src="gone.png"><script>console.error("no")</script>
<script>throw new Error("thrown")</script></body></html>"""


def test_what_is_wrong_with_a_page_is_seen(tmp_path, chromium):
    (tmp_path / "bad.html").write_text(BAD)
    found = "\n".join(browser.problems(chromium, tmp_path / "bad.html", width=400, dark=True))
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
    good = tmp_path / "good.html"
    good.write_text("<!doctype html><meta name=color-scheme content='light dark'><p>text</p>")
    assert browser.problems(chromium, good, width=400, dark=True) == []
    good.write_text("<!doctype html><p>text</p>")
    assert browser.problems(chromium, good, dark=True) == ["dark text on light"]
