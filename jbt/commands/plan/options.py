"""What the options of the plans on simulated pools have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from jbt import __version__
from jbt.border import files
from jbt.border.parsing import parse
from jbt.experiments.declare import check_fields

Options = TypeVar("Options", bound="PlanOptions")


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of a plan; a plan's own options inherit these."""

    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    json: Path | None = None
    """Write the plan to this file, in a folder that exists."""
    overwrite: bool = False
    """Write over this file if jbt did not make it, or it was changed since."""

    @classmethod
    def parse(cls: type[Options], argv: Sequence[str], plan: str) -> Options:
        """The options of `jbt plan PLAN`.

        Raises:
          ValueError: a field outside its range, a file that cannot be written.
        """
        options = parse(cls, argv, prog=f"jbt plan {plan}")
        options.check()
        files.check_writable(options.json, overwrite=options.overwrite)
        check_fields(options)
        return options

    def check(self) -> None:
        """Raise `ValueError` where a field that only this plan has is wrong."""

    def of_pools(self, *others: str) -> dict[str, Any]:
        """The fields that describe pools and judges: all but the output, `pools` and these
        others."""
        left_out = ("json", "overwrite", "pools", *others)
        return {k: v for k, v in asdict(self).items() if k not in left_out}

    def write(self, content: dict[str, Any]) -> None:
        """Write settings and content as JSON, if a file is named."""
        if self.json is not None:
            settings = {k: v for k, v in asdict(self).items() if k not in ("json", "overwrite")}
            content = {"settings": {**settings, "jbt": __version__}, **content}
            files.write_json(self.json, content, overwrite=self.overwrite)
