"""The columns of a table of the user's own that the user named."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from jbt.own.choices import check_distinct
from jbt.own.tables.outcomes import Outcomes


def refuse(wrong: Mapping[str, object]) -> None:
    """Raise `ValueError` with the first of these messages that holds."""
    for message, holds in wrong.items():
        if holds:
            raise ValueError(message)


GivenOrder = Literal["shown", "unknown"] | None
SwappedCodes = Literal["shown", "columns"]

WAYS = (
    *("winner", "scores", "probability", "logprobs", "wins", "judges", "rating", "ranks"),
    "ranking",
)
"""Fields of which one says who won; each is a tuple of columns, `ranking` a single one."""


@dataclass(frozen=True)
class GenericColumns:
    """Columns of a table of the user's own; None: the usual name, if the table has it."""

    first: str | None = None
    second: str | None = None
    winner: tuple[str, ...] = ()
    """One column; or two or three, marked 1 where the first won, the second won, they tied."""
    pool: str | None = None
    judge_column: str | None = None
    texts: tuple[str, str] | None = None
    """Columns of the two answers' texts."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Covariates already counted: a name, and the columns of the first and second answer."""
    outcomes: Outcomes | None = None
    """What the winner's codes mean, in place of the usual words."""
    scores: tuple[str, str] | None = None
    """Columns of two scores, of which the higher wins."""
    swapped: str | None = None
    """Column with the winner where the second was shown first."""
    swapped_codes: SwappedCodes | None = None
    """Whether a code such as `A` in that column is about the order shown, or about the columns."""
    probability: tuple[str, ...] = ()
    """Column of the probability that the first won; or of either's, of which the share counts."""
    logprobs: tuple[str, str] | None = None
    """Columns of the log probabilities of either verdict; their softmax grades it."""
    wins: tuple[str, ...] = ()
    """Columns that count how often the first won, the second won, they tied."""
    judges: tuple[str, ...] = ()
    """Columns of winners (of ratings, where a row is one answer), each of a judge of its name."""
    gold: str | None = None
    """Column with the better item by a trusted label, coded as the winner."""
    verdict_in_text: bool = False
    """Whether the winner (or rating) is the last `[[X]]` of a text; without any it failed."""
    item: str | None = None
    """Column with who wrote the one answer of a row."""
    rating: tuple[str, ...] = ()
    """Column with its rating; or a column for each item, called like it. The higher is better."""
    ranks: tuple[str, ...] = ()
    """The same with ranks, of which 1 is best."""
    ranking: str | None = None
    """Column with a list of items, the best first."""

    @property
    def of_ratings(self) -> bool:
        """Whether a row is said to hold ratings or ranks of single answers."""
        return bool(self.item or self.rating or self.ranks or self.ranking)

    @property
    def ways(self) -> list[str]:
        """The fields that say who won."""
        return [way for way in WAYS if getattr(self, way)]

    def _roles(self) -> list[str | None]:
        roles = ("first", "second", "pool", "judge_column", "swapped", "gold", "item")
        return [*(getattr(self, role) for role in roles), *self.winner]

    def named(self) -> list[str]:
        """All columns that are named."""
        lists = [self.texts, *(getattr(self, way) for way in WAYS[1:-1])]
        lists += [pair for _, *pair in self.counts]
        names = [*self._roles(), self.ranking, *itertools.chain(*filter(None, lists))]
        return [name for name in names if name is not None]

    def check(self) -> None:
        """Raise `ValueError` for columns that cannot belong to one table."""
        given = [f"--{way}" for way in self.ways if way != "judges" or not self.of_ratings]
        counted = [name for name, *_ in self.counts]
        several = len(self.winner) > 1 or self.probability or self.logprobs or self.wins
        refuse(
            {
                "--first and --second go together": (self.first is None) != (self.second is None),
                f"--winner takes up to 3 columns, got {len(self.winner)}": len(self.winner) > 3,
                f"{' and '.join(given)} both say who won: give one": len(given) > 1,
                "--item, --rating, --ranks and --ranking are of rows without pairs": (
                    self.of_ratings and (self.first or given[:1] in (["--winner"], ["--scores"]))
                ),
                f"{self.outcomes and self.outcomes.option} needs one column of winners": (
                    self.outcomes and several
                ),
                f"--wins takes 2 or 3 columns, got {len(self.wins)}": (
                    len(self.wins) not in (0, 2, 3)
                ),
                f"--counts names {', '.join(counted)}: each must be a name of its own": (
                    len({*counted, "pool", "item", "content"}) < len(counted) + 3
                ),
            }
        )
        check_distinct(self._roles())
        if self.swapped_codes is not None:
            from jbt.types import check_word  # loads JAX

            check_word("swapped_codes", self.swapped_codes, get_args(SwappedCodes))


USUAL = GenericColumns()
"""No column named."""
