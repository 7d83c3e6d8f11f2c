"""Which queries come next, within the budget."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jbt.own.studies.book import At, Book
from jbt.own.studies.engine import Engine, Look
from jbt.own.studies.state import Asked
from jbt.own.tables.names import by_name


class Asking:
    """The open pairs of a study, and the choice among them."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def closed(self, pool: int) -> np.ndarray:
        """[N, N, J] ordered pairs that the rule cannot pick now."""
        s, state = self._book.settings, self._book.state.pools[pool]
        closed = (state.pending > 0) | (state.errors >= s.attempts)
        if s.repeats == "never":
            closed |= state.told > 0
        if s.orders != "rule":
            closed = closed | closed.swapaxes(0, 1)
        real = np.arange(state.n_items) < self._book.items.layout.sizes[pool]
        closed |= ~(real[:, None] & real & ~np.eye(state.n_items, dtype=bool))[:, :, None]
        return closed | ~self.affordable()

    def exhausted(self, pool: int) -> bool:
        """Whether no pair of a pool can be asked."""
        return bool(self.closed(pool).all()) and not any(True for _ in self._owed(pool))

    def affordable(self) -> np.ndarray:
        """[J] whether one more verdict of each judge can be paid, those awaited included."""
        s, state = self._book.settings, self._book.state
        prices = np.array(s.prices)
        if s.purse is None:
            return np.ones(len(prices), bool)
        awaited = sum(prices[asked.judge] for asked in state.waiting.values())
        return state.spent + awaited + prices <= s.purse * (1 + 1e-12)

    def left(self, pool: int) -> float:
        """The rest of the budget, in verdicts, with several judges in the unit of the prices: what
        all open pairs of the pool would cost, if the budget allows; infinite where pairs may be
        asked again and there is no budget."""
        s, state, prices = (
            self._book.settings,
            self._book.state,
            np.array(self._book.settings.prices),
        )
        unit = prices if s.judges else np.ones(1)
        left = math.inf
        if s.repeats == "never":
            left = float(((~self.closed(pool)).sum((0, 1)) * unit).sum())
        if s.purse is not None:
            left = min(left, max(s.purse - state.spent, 0.0) / prices[0] * unit[0])
        if s.budget is not None:
            left = min(left, max(s.budget - state.n_told, 0) * unit.max())
        return left

    def expired(self, n: int) -> list[Asked]:
        """At most n queries whose lease has ended, the oldest first."""
        now = time.time()
        return [asked for asked in self._book.state.waiting.values() if asked.is_over(now)][:n]

    def new(
        self,
        n: int,
        engine: Callable[[], Engine],
        look: Callable[[int], Look],
        done: Callable[[int], bool],
    ) -> list[tuple[int, At, bool]]:
        """At most n new queries: pool, items and judge, whether the rule picked the pair.

        First the other order of pairs that were shown in one; then picks, each in the pool with the
        fewest verdicts, those before them taken as asked.
        """
        s, state = self._book.settings, self._book.state
        n = min(n, self._room())
        made: list[tuple[Asked, bool]] = []

        def make(pool: int, at: At, picked: bool) -> None:
            # Counted provisionally, so that the next choice knows of it; the journal's record of it
            # counts it for good.
            asked = Asked(-1 - len(made), pool, *at, until=math.inf, lease=math.inf, attempt=1)
            state.ask(asked, picked)
            made.append((asked, picked))

        try:
            pools = by_name(self._book.items.tables.pools).tolist()
            pools = [pool for pool in pools if n > 0 and not done(pool)]
            for pool in pools:
                for at in self._owed(pool):
                    if len(made) < n and self.affordable()[at[2]]:
                        make(pool, at, False)
            views: dict[int, Any] = {}
            while pools and len(made) < n:
                pool = min(pools, key=lambda p: float(state.pools[p].shown.sum()))
                if pool not in views:
                    views[pool] = look(pool).view
                pick = state.pools[pool].picks
                at, views[pool] = engine().pick(pool, views[pool], self.closed(pool), pick)
                if at is None:
                    pools.remove(pool)
                    continue
                other = at[1], at[0], at[2]
                if s.orders == "random" and self._turned(pool, pick):
                    at = other
                make(pool, at, True)
                if s.orders == "both" and len(made) < n and self.affordable()[at[2]]:
                    views[pool] = engine().absorb(pool, views[pool], other)
                    make(pool, other, False)
        finally:
            for asked, picked in made:
                state.forget(asked, picked)
        return [(asked.pool, asked.at, picked) for asked, picked in made]

    def _room(self) -> int:
        """How many more verdicts the budget allows, those awaited included."""
        s, state = self._book.settings, self._book.state
        if s.budget is None:
            return 2**31
        return s.budget - state.n_told - len(state.waiting)

    def _owed(self, pool: int) -> Iterator[At]:
        """Yield the orders that are missing of pairs that were shown in the other order."""
        s, state = self._book.settings, self._book.state.pools[pool]
        if s.orders != "both":
            return
        shown = state.shown
        missing = (shown.swapaxes(0, 1) > shown) & (state.errors < s.attempts)
        yield from (
            (first, second, judge) for first, second, judge in np.argwhere(missing).tolist()
        )

    def _turned(self, pool: int, pick: int) -> bool:
        """Whether a pick is shown in the other order: drawn by the study's seed."""
        name = self._book.items.tables.pools[pool]
        rng = np.random.default_rng([self._book.settings.seed, zlib.crc32(name.encode()), pick])
        return bool(rng.random() < 0.5)
