"""The checks of `jbt doctor` and the commands to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from jbt.border.report import Report, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATTERS = ("verdicts", "order", "both_orders", "covariate", "connected", "repeats")
"""Checks whose failure is shown in the notes of every other report."""


@dataclass(frozen=True)
class Check:
    """One check of the tables."""

    check: str
    """Its name; of a covariate, `covariate[NAME]`."""
    ok: bool
    found: str
    """The finding and its consequence, in one sentence."""
    command: str | None
    """The command to type next, if one says more or fixes the problem."""
    share: float | None = None
    """Share of the fits (pool and judge) for which it holds; None where it is not about pools."""

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        return {name: getattr(self, name) for name in ("check", "ok", "found", "command")}


@dataclass(frozen=True, eq=False)
class Checks:
    """The result of `jbt doctor`."""

    checks: list[Check]

    def headline(self) -> list[str]:
        """Notes of every other report: what the tables do not support, and what is
        assumed instead."""
        missing = [c for c in self.checks if not c.ok and c.check.partition("[")[0] in MATTERS]
        return [f"{c.check}: {c.found}" for c in missing]

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A line for each check, followed by the command to type next."""
        sections = []
        for ok, heading in ((False, "Not supported, or to watch"), (True, "Supported")):
            lines = []
            for check in (c for c in self.checks if c.ok == ok):
                lines.append(f"{check.check}: {check.found}")
                lines += [f"  > {check.command}"] if check.command else []
            if lines:
                sections.append(Section(heading, lines))
        return Report(title, lead, sections, answer=self._answer())

    def _answer(self) -> list[str]:
        """What to watch, and what to type next."""
        missing = [c for c in self.checks if not c.ok]
        fine = len(self.checks) - len(missing)
        if missing:
            watch = ", ".join(c.check for c in missing)
            lines = [f"To watch: {watch}; {fine} other checks are in order"]
        else:
            lines = [f"All {fine} checks are in order"]
        first = sorted(missing, key=lambda c: c.check.partition("[")[0] not in MATTERS)
        commands = [c.command for c in (*first, *self.checks) if c.command]
        return [*lines, *(f"Type next: {command}" for command in commands[:1])]

    def to_frame(self) -> pd.DataFrame:
        """A row for each check."""
        return pd.DataFrame(self.record())

    def record(self) -> list[dict[str, Any]]:
        """The content of the JSON file."""
        return [check.record() for check in self.checks]

    def figure(self) -> Figure:
        """Draw the share of the fits for which each check holds."""
        from jbt.border import plots

        drawn, ax = plots.new_figure(height=2.4)
        shares = [(c.check, c.share, c.ok) for c in reversed(self.checks) if c.share is not None]
        for height, (_, share, ok) in enumerate(shares):
            ax.barh(height, 100 * share, color=plots.COLOURS["blue" if ok else "orange"])
            ax.text(100 * share + 1, height, f"{100 * share:.3g} %", va="center")
        ax.set_yticks(range(len(shares)), [name for name, _, _ in shares])
        ax.set_xlim(0, 115)
        ax.set_xlabel("share of the fits, a pool with a judge each, where it holds (%)")
        return drawn


def command_line(command: str, options: Mapping[str, Any]) -> str:
    """The command line `jbt COMMAND ...`, with options by their Python names."""
    words = ["jbt", command]
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            is_list = isinstance(value, tuple | list)
            words += [f"--{flag}", *map(str, value if is_list else [value])]
    return shlex.join(words)
