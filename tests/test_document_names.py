"""Every module, function and file that the documents name is where they say."""

import pkgutil
import re

import pytest
from support.pages import DOCS, NOTEBOOKS, REMOVED, ROOT, name_of

from sweeps.report.runs import sweep_names

pytestmark = pytest.mark.documents  # it imports every module that is named

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS, *NOTEBOOKS, ROOT / "jbt/__init__.py"]

TO_BE_MADE = {
    "sweeps.NAME",
    "sweeps.sharpness",
    "sweeps/NAME.py",
    "sweeps/sharpness.py",
    "jbt/commands/ties.py",
    "jbt.sweeps",
    "jbt.toml",
}
"""What the reader makes, a run writes or a wheel has; and a word for any name."""

MODULE = re.compile(r"(?<![\w./-])(?:jbt|sweeps|benchmarks)(?:\.[A-Za-z_]\w*)+(?![\w/])")
FILE = re.compile(r"(?<![\w/.-])(?:jbt|sweeps|tests|benchmarks|docs|notebooks)/[\w./-]*\w")


def exists(name):
    """Whether a dotted name leads somewhere."""
    if name.startswith("benchmarks."):  # some begin to work when they are imported
        place = ROOT.joinpath(*name.split("."))
        return place.is_dir() or place.with_suffix(".py").is_file()
    owner, _, last = name.rpartition(".")
    try:
        found = pkgutil.resolve_name(owner)
        if last not in getattr(found, "__annotations__", ()):  # a field of a class
            pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def named(page):
    """What a page names, with whether it exists: name -> bool."""
    # Links have a test of their own.
    text = re.sub(r"\]\([^()\s]*\)", "]", page.read_text())
    left_out = TO_BE_MADE | REMOVED
    found = {name: exists(name) for name in {*MODULE.findall(text)} - left_out}
    return found | {name: (ROOT / name).exists() for name in {*FILE.findall(text)} - left_out}


def test_what_is_named_exists():
    found = {(name_of(p), name): there for p in PAGES for name, there in named(p).items()}
    assert [name for name, there in found.items() if not there] == []
    assert len(found) > 150


def test_the_guide_lists_every_experiment():
    guide = (ROOT / "docs" / "guide.md").read_text()
    section = guide.partition("## The experiments")[2].partition("\n#")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == sweep_names()
