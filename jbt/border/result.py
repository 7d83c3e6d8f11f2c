"""What a command answers, and one way to give it: on screen, as JSON, as a folder of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pandas as pd

from jbt.border import files
from jbt.border.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@runtime_checkable
class Result(Protocol):
    """What one analysis of a user's verdicts found."""

    @property
    def report(self) -> Callable[..., Report]:
        """The result in words, from a title and notes on what was read."""
        ...

    def to_frame(self) -> pd.DataFrame:
        """Every number, a row for each thing estimated."""
        ...

    def record(self) -> Any:
        """As JSON has it; undefined is null."""
        ...

    def figure(self) -> Figure:
        """The result drawn, without matplotlib's global state."""
        ...


def give(
    result: Result,
    title: str,
    lead: list[str],
    *,
    settings: dict[str, Any] | None = None,
    json_file: Path | None = None,
    folder: Path | None = None,
    verbose: bool = False,
    overwrite: bool = False,
    **in_report: Any,
) -> None:
    """Print the report of a result; write its JSON, and its report, table and figure, if asked for.

    Args:
      settings: what the JSON begins with.
      json_file, folder: where to; None for nowhere.
      verbose: print the sections of detail too; the report in the folder has them anyway.
      overwrite: see `files.check_replaceable`.
      in_report: what the result's own `report` takes beside title and lead.

    Raises:
      ValueError: a file cannot be written, or written over.
    """
    if json_file is not None:
        record = result.record()
        content = record if settings is None else {"settings": settings, **record}
        files.write_json(json_file, content, overwrite=overwrite)
    report = result.report(title, lead, **in_report)
    print(report.text(verbose=verbose))
    if folder is not None:
        report.write(folder, result.to_frame(), result.figure(), overwrite=overwrite)
