"""How many words README and documents show: `python docs/words.py [REVISION]`, by page.

Prose, tables and printed blocks count alike; comments (the marks that tables are made from) and
addresses of links are not shown, so they do not. A word has a letter or a digit in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 37_080
"""Words that README and `docs/**/*.md` have together at most (`tests/test_documents.py`)."""

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
ADDRESS = re.compile(r"\]\([^()\s]+\)")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\|.*$", re.MULTILINE)


def words(text: str) -> int:
    """The words of a text."""
    return sum(any(c.isalnum() for c in word) for word in re.split(r"[\s|]+", text))


def count(page: str) -> tuple[int, int, int]:
    """The words of a page: (prose, tables, blocks of code and output)."""
    text = ADDRESS.sub("]", COMMENT.sub(" ", page))
    blocks = BLOCK.findall(text)
    text = BLOCK.sub("", text)
    rows = ROW.findall(text)
    return words(ROW.sub("", text)), words("\n".join(rows)), words("\n".join(blocks))


def pages() -> dict[str, str]:
    """README and every document of the checkout: name -> text."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def pages_of(revision: str) -> dict[str, str]:
    """The same of a revision in git's history."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
        ).stdout

    names = git("ls-tree", "-r", "--name-only", revision, "README.md", "docs").splitlines()
    return {name: git("show", f"{revision}:{name}") for name in names if name.endswith(".md")}


def main() -> None:
    """Print the words of every page, and of all."""
    found = {
        name: count(page)
        for name, page in (pages_of(sys.argv[1]) if sys.argv[1:] else pages()).items()
    }
    print(f"{'page':40} {'prose':>7} {'tables':>7} {'blocks':>7} {'all':>7}")
    rows = sorted(found.items(), key=lambda row: -sum(row[1]))
    for name, parts in [*rows, ("all", tuple(map(sum, zip(*found.values(), strict=True))))]:
        print(f"{name:40} {parts[0]:7,} {parts[1]:7,} {parts[2]:7,} {sum(parts):7,}")


if __name__ == "__main__":
    main()
