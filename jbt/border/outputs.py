"""The options of a command for its result; see `report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from jbt import __version__
from jbt.border import files

if TYPE_CHECKING:
    from jbt.border.report import Result

NAMES = (files.REPORT, "table.csv", "figure.png")
"""The files that `Report.write` writes."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Options of a command for its result."""

    json: Path | None = None
    """Write every number to this file."""
    out: Path | None = None
    """Write report.md, table.csv and figure.png to this folder."""
    overwrite: bool = False
    """Replace files that jbt did not make, or that were changed since jbt made them."""
    verbose: bool = False
    """Also print the details: how to read the tables, and what they rest on."""

    more_files: ClassVar[tuple[str, ...]] = ()
    """Files that the command writes to `out` beside those of every command."""

    def check_outputs(self) -> None:
        """Raise `ValueError` where `json` or `out` cannot be written, or written over."""
        names = (*NAMES, *self.more_files)
        files.check_outputs(self.json, self.out, names, overwrite=self.overwrite)

    def settings(self) -> dict[str, Any]:
        """Every option for JSON, with precision and version."""
        return {**asdict(self), "dtype": "float64", "jbt": __version__}

    def give(
        self,
        result: Result,
        title: str,
        lead: list[str],
        settings: Mapping[str, Any] | None = None,
        more: Mapping[str, Callable[[], Any]] = MappingProxyType({}),
        **in_report: Any,
    ) -> None:
        """Print the report of a result; write its JSON, and its report, table and figure, if asked
        for.

        Args:
          lead: the notes of the report.
          settings: what the JSON begins with; default `settings`.
          more: makes the tables and figures of `more_files`, by name.
          in_report: what the result's own `report` takes beside title and lead.

        Raises:
          ValueError: a file cannot be written, or written over.
        """
        if self.json is not None:
            content = result.record()
            if isinstance(content, dict):
                content = {"settings": settings or self.settings(), **content}
            files.write_json(self.json, content, overwrite=self.overwrite)
        report = result.report(title, lead, **in_report)
        report.show(verbose=self.verbose)
        if self.out is not None:
            table, figure = result.to_frame(), result.figure()
            others = {name: make() for name, make in more.items()}
            report.write(self.out, table, figure, more=others, overwrite=self.overwrite)
