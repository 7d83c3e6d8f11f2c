"""A verdict to be asked for, with all that a judge has to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Query:
    """A verdict to be asked for."""

    id: int
    """For `Study.tell`."""
    pool: str
    first: str
    """The item to show first."""
    second: str
    judge: str | None
    """The judge to ask; None where the study names none."""
    attempt: int
    """1 at first, one more after each error on this pair in this order."""
    first_row: Mapping[str, str] = field(repr=False)
    """The row of the items table with the item shown first, as given; second_row likewise."""
    second_row: Mapping[str, str] = field(repr=False)
    text: str = field(default="text", repr=False)
    """The column with the texts."""

    @property
    def texts(self) -> tuple[str, str]:
        """The texts in the order to show.

        Raises:
          ValueError: the items table has no column of texts.
        """
        if self.text not in self.first_row:
            known = ", ".join(self.first_row)
            raise ValueError(f"the items have no column {self.text!r} of texts: there are {known}")
        return self.first_row[self.text], self.second_row[self.text]
