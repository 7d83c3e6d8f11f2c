"""The documentation site builds without warnings and opens from disk, in a real browser."""

import os
import re
from pathlib import Path

import pytest
from support import browser

ROOT = Path(__file__).parents[1]
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
    every = pages(site)
    assert len(every) > 40
    assert [words for page in every for words in unread(page)] == []
    found = browser.problems(*every, width=400, dark=True)
    assert {str(page): wrong for page, wrong in found.items() if wrong} == {}


@pytest.mark.skipif("JBT_RESULTS" not in os.environ, reason="needs the report of finished runs")
def test_the_report_opens_from_disk():
    """In the folder JBT_RESULTS, which .ci/run makes: a figure for each sweep."""
    report = Path(os.environ["JBT_RESULTS"]) / "report" / "site" / "index.html"
    assert report.read_text().count('<img alt="Figure of') > 15
    assert browser.problems(report) == {report: []}


def test_what_is_wrong_with_a_page_is_seen(tmp_path):
    bad, good = (tmp_path / f"{name}.html" for name in ("bad", "good"))
    bad.write_text(
        "<!doctype html><body style='background:#fff;color:#eee'><main><p>it **holds** here</p>"
        "</main><div style='width:900px'>wide</div><img src='gone.png'>"
        "<script src='https://example.org/a.js'></script><script>console.error('no')</script>"
    )
    good.write_text("<!doctype html><meta name=color-scheme content='light dark'><p>text</p>")
    assert unread(bad) == ["it **holds** here"]
    found = browser.problems(bad, good, width=400, dark=True)
    assert found[good] == []
    for problem in (
        "asks for https://example.org/a.js",
        "missing image: file:",
        "console: no",
        "pixels wider than the window of 400",
        "text of contrast",
        "dark text on light",
    ):
        assert problem in "\n".join(found[bad])
