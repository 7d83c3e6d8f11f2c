"""The active loop of a study: the simulator's own `look`, `pick` and `absorb`, on live counts."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jbt import quick_compilation, runtime
from jbt.acquisition import Loop, PanelView, Task, View, init, stopping
from jbt.acquisition.loop import look, refit
from jbt.acquisition.panel_rules import resolve
from jbt.acquisition.picks import Query, absorb, pick, pick_keys
from jbt.acquisition.task import Panelists
from jbt.kernel import canonical, model
from jbt.own.studies.book import At, Book
from jbt.own.studies.settings import StudyItems
from jbt.own.tables.tables import ANCHORS
from jbt.types import Comparisons, Design, Parameters, Pool, Posterior, Prior, Status


@dataclass(eq=False)
class Look:
    """A pool at one moment: the fit, and the view that the rule picks from."""

    parameters: Parameters
    status: Status
    view: View | PanelView
    certainty: float
    """P(the estimated top k is the true one), under the posterior."""
    attainable: float
    """Share of the doubt about the top k that the rest of the budget can remove; NaN where it has
    no end."""


class Engine:
    """One compiled program for all pools of a study, padded to the largest (float64)."""

    def __init__(self, items: StudyItems) -> None:
        self._items, s, layout = items, items.settings, items.layout
        self.n_items = int(layout.sizes.max())
        own_qualities = np.array_equal(layout.content, layout.place)  # no two items share one
        self.n_contents = self.n_items if own_qualities else int(layout.content.max()) + 1
        n_judges = len(items.judges)
        self._n_judges = n_judges if n_judges > 1 else None  # the axis that the model has
        self.loop = Loop(
            rule=resolve(s.rule),
            k=s.k,
            refit_every=s.refit_every,
            protocol="frozen" if s.repeats == "never" else "stochastic",
        )
        self._trusted = np.zeros((len(layout.sizes), self.n_items, self.n_items, n_judges))
        for better, worse in items.trusted:
            at = layout.pool[better], layout.place[better], layout.place[worse]
            self._trusted[(*at, items.judges.index(ANCHORS))] += 1
        with runtime.precision("float64"):
            root, pools = jax.random.key(s.seed), items.tables.pools
            self.tasks = [self._task(pool) for pool in range(len(pools))]
            self.keys = [jax.random.fold_in(root, zlib.crc32(name.encode())) for name in pools]
            self._starts = [Parameters.zeros(t.design, self._n_judges) for t in self.tasks]
            self._draws = canonical.normals(self.n_contents)
        self._looks: dict[int, tuple[Any, Look]] = {}

    def _task(self, pool: int) -> Task:
        layout, items, n = self._items.layout, self._items, self.n_items
        s, rows, size = items.settings, layout.pool == pool, layout.sizes[pool]
        x, content = np.zeros((n, layout.x.shape[1])), np.zeros(n, int)
        x[:size], content[:size] = layout.x[rows], layout.content[rows]
        shares = None if self.n_contents == n else jnp.asarray(content)
        mask = jnp.asarray(np.arange(n) < size)
        design = Design(jnp.asarray(x), shares, mask, self.n_contents)
        variant = model.variant("bias_aware", design, self._n_judges)
        # No answer is looked up: a half is there so that every pair can be asked.
        answers, price = np.full((n, n, len(items.judges)), 0.5), None
        if self._n_judges is not None:
            free = jnp.asarray(~items.known)
            variant = dataclasses.replace(variant, c=variant.c & free, kappa=variant.kappa & free)
            price = items.prices
        return Task.build(
            Pool(jnp.zeros(self.n_contents), design),
            self._by_judge(answers),
            variant=variant,
            prior=Prior(s.lam, s.lam_b),
            price=price,
        )

    def look(self, book: Book, pool: int) -> Look:
        """The fit of a pool's verdicts up to the last refit, and the view of the next pick."""
        shown = book.told[pool] + book.pending[pool]
        version = book.fitted[0, pool].sum(), shown.sum(), len(book.answers)
        if pool not in self._looks or self._looks[pool][0] != version:
            now = np.stack([shown, book.wins[pool]])
            look = self.fit(pool, book.fitted[:, pool], now, book.closed(pool), book.left(pool))
            self._looks[pool] = version, look
        return self._looks[pool][1]

    def fit(
        self, pool: int, fitted: np.ndarray, now: np.ndarray, closed: np.ndarray, left: float
    ) -> Look:
        """Look at a pool.

        Args:
          fitted: [2, N, N, J] what was shown, and what of it the first won, at the last refit.
          now: both now.
          closed: [N, N, J] pairs that may not be asked now.
          left: the rest of the budget; infinite where there is none.
        """
        with runtime.precision("float64"):
            counts = [
                Comparisons(*map(self._by_judge, v + self._trusted[pool])) for v in (fitted, now)
            ]
            parameters, status, view, *facts = _look(
                self.keys[pool],
                self.tasks[pool],
                *counts,
                self._by_judge(closed, first=True),
                self._starts[pool],
                np.float64(left),
                self._draws,
                loop=self.loop,
            )
            certainty, attainable = map(float, facts)
        if int(status) == Status.CONVERGED:
            self._starts[pool] = parameters
        attainable = attainable if np.isfinite(left) else np.nan
        return Look(parameters, Status(int(status)), view, certainty, attainable)

    def printed(self, pool: int, look: Look) -> tuple[np.ndarray, np.ndarray]:
        """Membership in the top k [M], and draws of the qualities [draws, M], to be printed:
        `jbt.kernel.canonical`."""
        posterior, design = look.view.posterior, self.tasks[pool].design
        with runtime.precision("float64"):
            return jax.device_get(_printed(posterior, design, self._draws, k=self.loop.k))

    def choose(self, book: Book, n: int, pools: Sequence[int]) -> list[tuple[At, bool]]:
        """At most n new queries for these pools, and whether the rule picked the pair.

        First the other order of pairs that were shown in one; then picks, each in the pool with the
        fewest verdicts, those before them taken as asked.

        Raises:
          ValueError: the rule's score of a pair is not finite.
        """
        s, names = book.settings, book.items.tables.pools
        book, n, pools = book.draft(), min(n, book.room()), list(pools)
        views: dict[int, Any] = {}
        chosen: list[tuple[At, bool]] = []

        def ask(at: At, picked: bool) -> None:
            book.pending[at] += 1
            book.picks[at[0]] += picked
            chosen.append((at, picked))

        def can_ask(at: At) -> bool:
            return len(chosen) < n and bool(book.affordable()[at[-1]])

        for at in [at for pool in pools for at in book.owed(pool)]:
            if can_ask(at):
                ask(at, False)
        while pools and len(chosen) < n:
            pool = min(pools, key=lambda p: book.n_told[p] + book.pending[p].sum())
            if pool not in views:
                views[pool] = self.look(book, pool).view
            closed, number = self._by_judge(book.closed(pool), first=True), int(book.picks[pool])
            with runtime.precision("float64"):
                picked, undefined = _pick(
                    self.keys[pool], views[pool], closed, np.int32(number), loop=self.loop
                )
            if bool(undefined):
                raise ValueError(f"the rule {s.rule!r} gave a score that is not finite")
            first, second, judge = picked.tolist()
            if first < 0:
                pools.remove(pool)
                continue
            at, other = (pool, first, second, judge), (pool, second, first, judge)
            views[pool] = self._absorb(views[pool], at)
            if s.orders == "random":
                rng = np.random.default_rng([s.seed, zlib.crc32(names[pool].encode()), number])
                at = other if rng.random() < 0.5 else at
            ask(at, True)
            if s.orders == "both" and can_ask(other):
                views[pool] = self._absorb(views[pool], other)
                ask(other, False)
        return chosen

    def _absorb(self, view: View | PanelView, at: At) -> View | PanelView:
        """The view after one more pair is asked."""
        pool, *pair = at
        with runtime.precision("float64"):
            return _absorb(
                view, np.array(pair, np.int32), self.tasks[pool].panelists, loop=self.loop
            )

    def _by_judge(self, counts: np.ndarray, *, first: bool = False) -> Array:
        """[N, N, J] as counts, or [J, N, N] as the views of a panel have it; with a single judge
        [N, N]."""
        if self._n_judges is None:
            return jnp.asarray(counts[:, :, 0])
        return jnp.asarray(np.moveaxis(counts, 2, 0) if first else counts)


@partial(quick_compilation.jit, static_argnames="loop")
def _look(
    key: Key[Array, ""],
    task: Task,
    fitted: Comparisons,
    now: Comparisons,
    closed: Bool[Array, "..."],
    start: Parameters,
    left: Float[Array, ""],
    draws: Float[Array, "chunks M S"],
    loop: Loop,
) -> tuple[Any, ...]:
    """The fit of the verdicts up to the last refit, and the view with those since. A fresh rule's
    covariance has the information of every verdict that was asked for: what `absorb` adds one by
    one."""
    parameters, status = refit(fitted, start, task)
    state = dataclasses.replace(init(key, task, loop), comparisons=fitted, parameters=parameters)
    view = look(state, task, loop)
    later: Any = look(dataclasses.replace(state, comparisons=now), task, loop)
    certainty = canonical.certainty(view.posterior, loop.k, task.design.content_mask(), draws)
    fresh: bool = loop.rule.fresh  # type: ignore[union-attr]
    moved = ["shown", "wins"] + ["covariance"] * fresh

    def move(then: View, now: View) -> View:
        return dataclasses.replace(then, **{name: getattr(now, name) for name in moved})

    if isinstance(view, PanelView):
        covariance = later.covariance if fresh else view.covariance
        view = dataclasses.replace(view, spent=later.spent, covariance=covariance)
        later = later.views
    view = _each(move, view, later)
    attainable = stopping.attainable(_open(view, closed), left)
    return parameters, status, view, certainty, attainable


def _each(
    change: Callable[[View, Any], View], view: View | PanelView, other: Any
) -> View | PanelView:
    """Change a single judge's view, or that of each judge of a panel."""
    if isinstance(view, View):
        return change(view, other)
    return dataclasses.replace(view, views=jax.vmap(change)(view.views, other))


def _open(view: View | PanelView, closed: Bool[Array, "..."]) -> View | PanelView:
    """The view with some pairs closed."""

    def close(view: View, closed: Array) -> View:
        return dataclasses.replace(view, available=view.available & ~closed)

    return _each(close, view, closed)


@partial(quick_compilation.jit, static_argnames="k")
def _printed(
    posterior: Posterior, design: Design, draws: Float[Array, "chunks M S"], k: int
) -> tuple[Float[Array, " M"], Float[Array, "draws M"]]:
    mask = design.content_mask()
    membership = canonical.membership(posterior, k, mask, draws)
    return membership, canonical.drawn(posterior, mask, draws)


@partial(quick_compilation.jit, static_argnames="loop")
def _pick(
    key: Key[Array, ""],
    view: View | PanelView,
    closed: Bool[Array, "..."],
    time: Int[Array, ""],
    loop: Loop,
) -> tuple[Int[Array, "3"], Bool[Array, ""]]:
    """Items and judge of the pick, -1 where all is closed; whether a score was not finite."""
    for_rule, _, for_ties = pick_keys(key, time)
    query, undefined = pick(_open(view, closed), loop.rule, for_rule, for_ties)  # type: ignore[arg-type]
    judge = jnp.zeros_like(query.first) if query.judge is None else query.judge
    return jnp.stack([query.first, query.second, judge]), undefined


@partial(quick_compilation.jit, static_argnames="loop")
def _absorb(
    view: View | PanelView, at: Int[Array, "3"], panelists: Panelists | None, loop: Loop
) -> View | PanelView:
    query = Query(at[0], at[1], None if panelists is None else at[2])
    # The answer is not known yet.
    return absorb(view, query, jnp.zeros(()), loop.rule, panelists, loop.protocol)  # type: ignore[arg-type]
