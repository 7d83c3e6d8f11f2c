"""The page that `judges` writes: which of the paper's claims the twins contradict."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jbt.simulation.judges import PUBLISHED

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
    where: dict[str, Any] = dataclasses.field(default_factory=dict)
    numbers: int = 1
    """Numbers that the paper gives for it (count); with fewer the claim is not tested."""


def _of_group(group: str) -> list[str]:
    return [name for name, p in PUBLISHED.items() if p.group == group]


CLAIMS = (
    Claim(
        "The bias-aware model reaches 0.76 to 1.00 with the five biased judges",
        "recall",
        {"judge": _of_group("biased"), "model": ["bias_aware"], "k": [5]},
        numbers=5,
    ),
    Claim(
        "It gains 0.20 to 0.32 with each of them",
        "benefit",
        {"judge": _of_group("biased"), "model": ["bias_aware"], "n_items": [30]},
        numbers=5,
    ),
    Claim(
        "Taking judges as clusters, +0.24, p = 0.0005",
        "benefit p_clusters",
        {"judge": ["biased"]},
        numbers=2,
    ),
    Claim("Holm p = 0.010 and 0.016 where there are ten pools", "p_holm", numbers=2),
    Claim(
        "With frontier and nearly neutral judges correction has small effects",
        "benefit",
        {"judge": _of_group("neutral"), "model": ["bias_aware"]},
        numbers=9,
    ),
    Claim(
        "Correction does nothing for a judge too weak to rank",
        "benefit",
        {"judge": ["coder"], "model": ["bias_aware"]},
    ),
    Claim(
        "The gain falls with competence: Spearman -0.84", "spearman", {"model": ["naive_recall"]}
    ),
    Claim("It grows with c_hat: Spearman 0.86 (from its table)", "spearman", {"model": ["c_hat"]}),
    Claim(
        "Naive estimates correlate with verbosity by 0.22 to 0.49",
        "corr_naive_x_least corr_naive_x_largest",
        numbers=2,
    ),
    Claim(
        "Order swap with majority vote does not help, 0.61 for 0.61: ties dropped (as halves they "
        "make it the naive estimate, by algebra)",
        "recall",
        {"judge": ["biased"], "model": ["order_swap_dropped"]},
    ),
    Claim(
        "Residualising length matches the bias-aware model: 0.85",
        "recall",
        {"judge": ["biased"], "model": ["residualised"]},
    ),
    Claim(
        "Recalls at k = 1, 3, 5, 10 as printed, naive and bias-aware",
        "recall",
        {"judge": ["biased"], "model": ["naive", "bias_aware"]},
        numbers=7,
    ),
    Claim(
        "At N = 100 Llama's recalls are 0.60 and 0.80",
        "recall benefit",
        {"n_items": [100]},
        numbers=3,
    ),
    Claim(
        "A second domain: 0.46 to 0.72",
        "recall benefit",
        {"judge": ["llama_python"], "model": ["bias_aware"]},
        numbers=2,
    ),
    Claim(
        "GPT-4o-mini prefers the elaborated of two equal answers in 100 % of pairs",
        "probe_preference",
    ),
    Claim("Bootstrap intervals of the gains are as wide", "gain_interval_width", numbers=5),
)

DISAGREEMENTS = (
    "Llama's length coefficient on the Moon pools is 1.78 in the table of judges, and 0.99 where "
    "the second domain's 1.74 is said to be larger.",
    "Eq. acq with Llama at B = 120 is 0.81 in the table of rules and 0.76 in the ablation of the "
    "score.",
)


def rows_of(table: pd.DataFrame, claim: Claim) -> pd.DataFrame:
    """Evidence for a claim: rows beside a number of the paper that is no input."""
    rows = table[table.quantity.isin(claim.quantity.split())]
    for column, values in claim.where.items():
        rows = rows[rows[column].isin(values)]
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
