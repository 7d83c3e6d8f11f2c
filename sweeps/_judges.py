"""Checks of lists of judges and of precisions."""

from __future__ import annotations

from collections.abc import Sequence


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
