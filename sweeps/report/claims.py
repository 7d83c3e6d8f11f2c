"""The paper's claims and what simulation says of each, from `sweeps/claims.csv`.

The file has a line a claim: the claim, where the paper makes it, a verdict and a note for judges of
one bias and for judges whose bias may grow with quality, the pages of `docs` that decide it, and
the rows of results that bear on it (`NAME column=value ...`, as in a mark of `documents.py`).
Numbers of ours in a note stand in braces, `{NAME column=value ... part:format}`, and are filled in
from results.
"""

from __future__ import annotations

import csv
import dataclasses
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pandas as pd

FILE = Path(__file__).resolve().parents[1] / "claims.csv"
COLUMNS = (
    *("claim", "paper", "one_bias", "one_bias_note", "growing_bias", "growing_bias_note"),
    *("pages", "support"),
)
VERDICTS = ("holds", "not contradicted", "contradicted", "depends", "not tested")
NOT_TRIED = ""
BRACES = re.compile(r"\{(.*?)\}")

Fill = Callable[[str], str]
"""What stands in braces -> the number."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A line of the file."""

    claim: str
    paper: str
    """Where the paper makes it."""
    one_bias: str
    """One of `VERDICTS`, for judges of one bias."""
    one_bias_note: str
    growing_bias: str
    """The same for judges whose bias may grow with quality; empty where that was not tried."""
    growing_bias_note: str
    pages: str
    """Of `docs`, separated by spaces."""
    support: str
    """Rows that bear on it; empty where no table has them."""

    def results(self) -> str:
        """The name of the results with these rows."""
        return self.support.partition(" ")[0]

    def conditions(self) -> list[str]:
        """What chooses these rows."""
        return shlex.split(self.support)[1:]


def read(path: Path = FILE) -> list[Claim]:
    """Read the claims.

    Raises:
      ValueError: other columns, or an unknown verdict.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path}: columns must be {', '.join(COLUMNS)}")
        claims = [Claim(**row) for row in reader]
    for line, claim in enumerate(claims, start=2):
        for verdict, known in ((claim.one_bias, VERDICTS), (claim.growing_bias, (*VERDICTS, ""))):
            if verdict not in known:
                raise ValueError(f"{path}, line {line}: unknown verdict {verdict!r}")
    return claims


def asked(path: Path = FILE) -> list[str]:
    """All that the claims ask of results: numbers in notes, and rows that bear on them."""
    supports = [claim.support for claim in read(path) if claim.support]
    return BRACES.findall(path.read_text(encoding="utf-8")) + supports


def counts(claims: list[Claim]) -> dict[str, tuple[int, int]]:
    """Verdict -> how often for judges of one bias, and for those whose bias may grow."""
    return {
        verdict: (
            sum(claim.one_bias == verdict for claim in claims),
            sum(claim.growing_bias == verdict for claim in claims),
        )
        for verdict in (*VERDICTS, NOT_TRIED)
    }


def verdict_of(verdict: str, note: str, fill: Fill) -> tuple[str, str]:
    """A verdict in words, and its note with all numbers."""
    words = "depends on" if verdict == "depends" and note else verdict
    return words, BRACES.sub(lambda match: fill(match[1]), note)


def markdown(claims: list[Claim], fill: Fill) -> str:
    """The table of the page on choices, and the verdicts counted."""
    lines = ["| claim | one bias a judge | if it may grow |", "|---|---|---|"]
    for claim in claims:
        first, *others = claim.pages.split()
        more = "".join(f", [{title(page)}]({page})" for page in others)
        cells = [f"[{claim.claim}]({first}){more}"]
        for verdict, note in (
            (claim.one_bias, claim.one_bias_note),
            (claim.growing_bias, claim.growing_bias_note),
        ):
            words, note = verdict_of(verdict, note, fill)
            joint = " " if words.endswith(" on") else ": "
            cells.append(joint.join(filter(None, (words and f"**{words}**", note))) or "not tried")
        lines.append("| " + " | ".join(cells) + " |")
    counted = ["| verdict | one bias | if it may grow |", "|---|---|---|"]
    for verdict, (one, growing) in counts(claims).items():
        counted.append(f"| {verdict or 'not tried'} | {one} | {growing} |")
    return "\n".join([*counted, "", *lines])


def title(page: str) -> str:
    """What a page of the documents is called in a link."""
    return Path(page.partition("#")[0]).stem.replace("-", " ")


def agreement(rows: pd.DataFrame) -> dict[str, int]:
    """How many of the rows stand beside a number of the paper, by `consistent`."""
    return {mark: int((rows.consistent == mark).sum()) for mark in ("yes", "no", "calibrated")}
