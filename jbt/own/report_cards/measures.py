"""What a report card holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal[
    "accuracy",
    "accuracy_both_orders",
    "accuracy_if_larger",
    "accuracy_if_smaller",
    "consistency",
    "agreement",
    "first_won",
    "larger_won",
    "gold_larger",
    "ties",
    "errors",
]
"""What a share counts; see `Measure.what`."""

ALL_OTHERS = "all others"


@dataclass(frozen=True)
class Measure:
    """A share with its 95 % interval."""

    what: What
    """accuracy: the judge prefers the better of a labelled pair; accuracy_both_orders: in both
    orders; accuracy_if_larger, accuracy_if_smaller: of the pairs whose better item has the larger,
    or the smaller, covariate; consistency: the same winner in both orders, a half where
    one verdict is a tie; agreement: the same
    winner as another judge, of the pairs that both decide; first_won: the item shown first wins;
    larger_won: the item with the larger covariate wins; gold_larger: it is the better one; ties,
    errors: of all verdicts."""
    of: str | None
    """The covariate, or the other judge."""
    share: float
    low: float
    high: float
    """NaN: too few pools, see `stats.clustered_share`; always for ties and errors."""
    coin: float
    """The share that a fair coin would reach, which ties as often as the judge where ties count;
    NaN where a coin means nothing."""
    n: int
    """Pairs, or verdicts for ties and errors (count)."""
    n_pools: int


@dataclass(frozen=True)
class ReportCard:
    """The measures of one judge; those without any pair are left out."""

    judge: str | None
    measures: list[Measure]

    def get(self, what: What, of: str | None = None) -> Measure | None:
        """A measure, if the judge has it."""
        same = (m for m in self.measures if m.what == what and m.of == of)
        return next(same, None)
