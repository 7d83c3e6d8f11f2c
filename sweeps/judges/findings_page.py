"""The page that `judges` writes: which of the paper's claims the twins contradict."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jbt.experiments.labelled_arrays import where

from .rows import is_evidence

if TYPE_CHECKING:
    import pandas as pd


FEW = 30
"""Pools below which the page has no verdicts: studies of ten are drawn from them."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the rows beside its numbers."""

    text: str
    quantity: str
    """One or several."""
    where: dict[str, Any] = dataclasses.field(default_factory=dict)
    numbers: int = 1
    """Numbers that the paper gives for it (count); with fewer the claim is not tested."""


def _claims() -> list[Claim]:
    claims = []
    with Path(__file__).with_name("claims.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            at: dict[str, Any] = {n: row[n].split() for n in ("judge", "model") if row[n]}
            at |= {n: [int(row[n])] for n in ("k", "n_items") if row[n]}
            claims.append(Claim(row["text"], row["quantity"], at, int(row["numbers"])))
    return claims


CLAIMS = _claims()
DISAGREEMENTS = (
    "Llama's length coefficient on the Moon pools is 1.78 in the table of judges, and 0.99 where "
    "the second domain's 1.74 is said to be larger.",
    "Eq. acq with Llama at B = 120 is 0.81 in the table of rules and 0.76 in the ablation of the "
    "score.",
)


def rows_of(table: pd.DataFrame, claim: Claim) -> pd.DataFrame:
    """Evidence for a claim: rows beside a number of the paper that is no input."""
    rows = where(table, quantity=claim.quantity.split(), **claim.where)
    return rows[is_evidence(rows)]


def verdict(rows: pd.DataFrame, numbers: int) -> str:
    """Sum up the rows' agreement in words, if no number is missing."""
    n, agree = len(rows), int((rows.consistent == "yes").sum())
    if n < numbers:
        return "not tested"
    if agree == n:
        return "not contradicted" if n == 1 else f"not contradicted ({n} numbers)"
    if not agree:
        return "does not follow" if n == 1 else f"none of {n} numbers follows"
    return f"{agree} of {n} numbers not contradicted"


def page(table: pd.DataFrame, s: Any) -> str:
    """Markdown with a row a claim, the numbers that do not follow, and contradictions within the
    paper."""
    import pandas as pd

    if s.pools < FEW:
        return f"# The paper's judges as twins\n\n{s.pools} pools are too few to judge by.\n"
    tested = int(is_evidence(table).sum())
    lines = [
        "# The paper's judges as twins",
        "",
        f"{s.pools:,} pools of statements, oracle `{s.oracle}`, other items `{s.others}`. c_hat, "
        "kappa_hat and the naive recall of every judge are inputs (`calibrated`). A number is not "
        "contradicted if it is among 95 % of studies of its own size that twins make, with the "
        "error of their calibration to as few pools.",
        "",
        "| claim of the paper | verdict |",
        "|---|---|",
    ]
    for claim in CLAIMS:
        lines.append(f"| {claim.text} | {verdict(rows_of(table, claim), claim.numbers)} |")
    off = table[table.consistent == "no"]
    chance = table[table.quantity == "false_alarms_expected"].iloc[0]
    lines += [
        "",
        f"{len(off)} of {tested} numbers do not follow; chance alone would make "
        f"{chance.estimate:.1f} ({chance.replicate_low:.0f} to {chance.replicate_high:.0f} in "
        "95 % of studies).",
        "",
        "| number | judge | model | k | twins | studies of its size | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in off.to_dict("records"):
        known = {str(name): value for name, value in row.items() if pd.notna(value)}
        interval = "[{ci_low:.3g}, {ci_high:.3g}] " if "ci_low" in known else ""
        cells = "| {quantity} | {judge} | {of} | {k:g} | {estimate:.3g} " + interval
        cells += "| {replicate_low:.3g} to {replicate_high:.3g} | {paper:g} |"
        lines.append(cells.format(**known, of=known.get("model", "")))
    missed = table[(table.quantity == "targets_missed") & (table.estimate > 0)]
    names = ", ".join(missed.judge) or "none"
    lines += ["", f"Twins further from a target than they should be: {names}.", ""]
    lines += ["Where the paper disagrees with itself:", ""]
    return "\n".join([*lines, *(f"- {text}" for text in DISAGREEMENTS), ""])
