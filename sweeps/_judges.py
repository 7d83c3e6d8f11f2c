"""Judges of the paper that are stated well enough to be simulated, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A judge of Eq. 1."""

    bias: float
    """c*, logits for x = 1 over x = 0."""
    position: float
    """kappa*, logits in favour of the first shown."""
    discrimination: float = 1.0
    """Factor on quality."""


OPEN_JUDGES = {
    "llama": Case(1.78, 0.35),
    "qwen": Case(1.45, 1.08),
    "phi": Case(0.34, 0.32),
    "coder": Case(-0.98, 1.74, 0.1),
}
"""The paper's four open judges: Llama-3.1-8B, Qwen-2.5-Coder-7B, Phi-4 and DeepSeek-Coder-6.7B.
Bias and position are the estimates of its table of judges, read as truths. It gives no
discrimination: 1 is assumed of the three, and 0.1 of the last, whose verdicts it calls nearly a
function of elaboration alone."""

CONTROL = Case(0.0, 0.0)
"""The paper's unbiased judge."""


def check(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise `ValueError` unless the names are some of those known, each once."""
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        found = repr(unknown[0]) if unknown else "nothing"
        raise ValueError(f"judge must list some of {', '.join(known)}, got {found}")
    if len(set(names)) < len(names):
        raise ValueError(f"judge lists a name twice: {' '.join(names)}")


def check_precisions(name: str, values: Sequence[float], needed: float) -> None:
    """Raise `ValueError` unless the precisions are finite, above 0, increasing, and `needed` is one
    of them."""
    increasing = list(values) == sorted(set(values))
    if needed not in values or not increasing or not 0 < values[0] <= values[-1] < float("inf"):
        found = " ".join(f"{v:g}" for v in values) or "nothing"
        raise ValueError(f"{name} must increase, be above 0 and include {needed:g}, got {found}")
