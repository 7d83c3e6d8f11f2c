"""The page that `judges` writes: which claims follow from the model, and which do not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jbt import twins
from sweeps._judges_table import is_evidence

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the rows that stand beside its numbers."""

    text: str
    quantity: str
    where: dict[str, Any] = dataclasses.field(default_factory=dict)


BIASED = ["llama", "qwen", "gemini", "deepseek_chat", "gpt_4o_mini"]
NEUTRAL = [name for name, p in twins.PUBLISHED.items() if p.group == "neutral"]

CLAIMS = (
    Claim(
        "The bias-aware model reaches 0.76 to 1.00 with the five biased judges",
        "recall",
        {"judge": BIASED, "model": ["bias_aware"], "k": [5]},
    ),
    Claim(
        "It gains 0.20 to 0.32 with each of them",
        "benefit",
        {"judge": BIASED, "model": ["bias_aware"], "n_items": [30]},
    ),
    Claim(
        "Taking judges as clusters, +0.24, p = 0.0005",
        "benefit p_clusters",
        {"judge": ["biased"]},
    ),
    Claim("Significant where there are ten pools (Holm)", "p_holm"),
    Claim(
        "With frontier and nearly neutral judges correction has small effects",
        "benefit",
        {"judge": NEUTRAL, "model": ["bias_aware"]},
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
        "Bias-aware beats naive at k = 1, 3, 5, 10",
        "recall",
        {"judge": ["biased"], "model": ["naive", "bias_aware"]},
    ),
    Claim("At N = 100 the gain persists: 0.60 to 0.80", "recall benefit", {"n_items": [100]}),
    Claim(
        "A second domain: 0.46 to 0.72",
        "recall benefit",
        {"judge": ["llama_python"], "model": ["bias_aware"]},
    ),
    Claim("GPT-4o-mini flips 8 % of its verdicts", "flip_rate"),
    Claim("It prefers the elaborated answer in 100 % of pairs", "probe_preference"),
)

DISAGREEMENTS = (
    "Llama's length coefficient on the Moon pools is 1.78 in the table of judges, and 0.99 where "
    "the second domain's 1.74 is said to be larger.",
    "The simulator's qualities have standard deviation 1.25; the baseline of the table of "
    "crossings has 1.2. Figure 3 crosses near 0.45, that baseline at 0.50.",
    "Eq. acq with Llama at B = 120 is 0.81 in the table of rules, 0.82 in the two-by-two table and "
    "0.76 in the ablation of the score.",
)


def rows_of(table: pd.DataFrame, claim: Claim) -> pd.DataFrame:
    """The rows that a claim stands on: those beside a number of the paper that is no input."""
    mine = table[table.quantity.isin(claim.quantity.split())]
    for column, values in claim.where.items():
        mine = mine[mine[column].isin(values)]
    return mine[is_evidence(mine)]


def verdict(rows: pd.DataFrame) -> str:
    """In words: what the rows' verdicts amount to."""
    n, agree = len(rows), int((rows.consistent == "yes").sum())
    if not n:
        return "not tested"
    if agree == n:
        return "follows from the model" if n == 1 else f"follows from the model ({n} numbers)"
    if not agree:
        return "needs something the model lacks" if n == 1 else f"none of {n} numbers follows"
    return f"in part: {agree} of {n} numbers"


def page(table: pd.DataFrame, s: Any) -> str:
    """Markdown: a row a claim, the numbers that do not follow, and where the paper disagrees with
    itself."""
    tested = int(is_evidence(table).sum())
    lines = [
        "# The paper's judges as twins",
        "",
        f"{s.pools:,} pools of statements, oracle `{s.oracle}`, other items `{s.others}`. c_hat, "
        "kappa_hat and the naive recall of every judge are inputs (`calibrated`). A number follows "
        "if it is among 95 % of studies of its own size that twins make.",
        "",
        "| claim of the paper | verdict |",
        "|---|---|",
    ]
    for claim in CLAIMS:
        lines.append(f"| {claim.text} | {verdict(rows_of(table, claim))} |")
    import pandas as pd

    off = table[table.consistent == "no"]
    lines += [
        "",
        f"{len(off)} of {tested} numbers do not follow; chance alone would make about "
        f"{0.05 * tested:.1f} of that many.",
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
