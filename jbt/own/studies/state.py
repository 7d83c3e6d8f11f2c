"""Where a study stands: the counts that its journal adds up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LONGEST_LEASE = 30 * 86_400.0
"""Longest that a query may be held for (seconds)."""

CLOCKS_APART = 300.0
"""Difference between the clocks of machines that share a study (seconds)."""


@dataclass
class Asked:
    """One verdict that was asked for."""

    id: int
    pool: int
    first: int
    """Place of the item in its pool; second likewise."""
    second: int
    judge: int
    """Number of the judge; 0 where there is one."""
    until: float
    """When its lease ends, seconds since 1970."""
    lease: float
    """How long it was held for (seconds)."""
    attempt: int
    """1 at first, one more after each error on this ordered pair."""
    told: Mapping[str, Any] | None = None
    """The record of its answer."""

    def is_over(self, now: float) -> bool:
        """Whether the lease has ended, or was given by a clock that ran ahead: it then ends later
        than any lease given now, but for a difference of clocks between machines."""
        return not now < self.until <= now + self.lease + CLOCKS_APART

    @property
    def at(self) -> tuple[int, int, int]:
        """Index into the counts of its pool."""
        return self.first, self.second, self.judge


@dataclass(eq=False)
class PoolState:
    """Counts [N, N, J] of one pool; index [i, j, g]: judge g, item i shown first, j second."""

    n_items: int
    n_judges: int
    refit_every: int
    picks: int = 0
    """Pairs that the rule has picked (count)."""
    n_told: int = 0
    told: np.ndarray = field(init=False)
    wins: np.ndarray = field(init=False)
    pending: np.ndarray = field(init=False)
    """Asked and not answered yet."""
    errors: np.ndarray = field(init=False)
    fitted: tuple[np.ndarray, np.ndarray] = field(init=False)
    """`told` and `wins` at the last refit: after the last multiple of R verdicts."""
    n_fitted: int = 0

    def __post_init__(self) -> None:
        shape = self.n_items, self.n_items, self.n_judges
        self.told, self.wins, self.pending, self.errors = (np.zeros(shape) for _ in range(4))
        self.fitted = np.zeros(shape), np.zeros(shape)

    def tell(self, at: tuple[int, int, int], won: float) -> None:
        """Count a verdict."""
        self.told[at] += 1
        self.wins[at] += won
        self.n_told += 1
        if self.n_told % self.refit_every == 0:
            self.fitted, self.n_fitted = (self.told.copy(), self.wins.copy()), self.n_told

    @property
    def shown(self) -> np.ndarray:
        """Verdicts that were told or are pending."""
        return self.told + self.pending


@dataclass(eq=False)
class StudyState:
    """All pools, and what was asked."""

    pools: list[PoolState]
    asked: dict[int, Asked] = field(default_factory=dict)
    waiting: dict[int, Asked] = field(default_factory=dict)
    """Those without an answer or an error, in the order of their numbers."""
    spent: float = 0.0
    """Sum of the costs told."""
    n_told: int = 0
    n_errors: int = 0

    def ask(self, asked: Asked, picked: bool) -> None:
        """Count a verdict that is asked for.

        Args:
          picked: whether the rule chose this pair now, and it is not the other order of a pick.
        """
        pool = self.pools[asked.pool]
        pool.pending[asked.at] += 1
        pool.picks += picked
        self.asked[asked.id] = self.waiting[asked.id] = asked

    def forget(self, asked: Asked, picked: bool) -> None:
        """Undo `ask`."""
        pool = self.pools[asked.pool]
        pool.pending[asked.at] -= 1
        pool.picks -= picked
        del self.asked[asked.id], self.waiting[asked.id]

    def tell(self, number: int, won: float | None, cost: float, record: Mapping[str, Any]) -> None:
        """Count an answer; `won` None is an error, after which the pair may be asked again."""
        asked = self.waiting.pop(number)
        asked.told = record
        pool = self.pools[asked.pool]
        pool.pending[asked.at] -= 1
        self.spent += cost
        if won is None:
            pool.errors[asked.at] += 1
            self.n_errors += 1
        else:
            pool.tell(asked.at, won)
            self.n_told += 1
