"""The active loop of a study: the simulator's own `look`, `pick` and `absorb`, on live counts."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jbt import quick_compilation, runtime
from jbt.acquisition import Loop, PanelView, Task, View, anytime, init, stopping
from jbt.acquisition.loop import look, refit
from jbt.acquisition.panel_rules import resolve
from jbt.acquisition.picks import Queries, Query, absorb, pick, pick_keys
from jbt.acquisition.rules import RULES, pivot_of
from jbt.acquisition.task import Panelists
from jbt.identifiability import null_space
from jbt.kernel import canonical, model
from jbt.own.studies.book import At, Book, share_of
from jbt.own.studies.settings import ANCHORS_AT, RULE_OF, StudyItems
from jbt.types import Comparisons, Design, Parameters, Pool, Posterior, Prior, Status

MOVED = 1e-6
"""A null direction moves a coefficient by more than this, in logits per unit, where its last one
moves by 1."""


@dataclass(eq=False)
class Look:
    """A pool at one moment: the fit, and the view that the rule picks from."""

    parameters: Parameters
    status: Status
    view: View | PanelView
    certainty: float
    """P(the estimated top k is the true one, up to `StudySettings.indifferent`), under the
    posterior."""
    near: float
    """P(the estimated top k leads the others by less than `StudySettings.indifferent`)."""
    attainable: float
    """Share of the doubt about the top k that the rest of the budget can remove; infinite where it
    has no end."""


class Engine:
    """One compiled program for all pools of a study, padded to the largest (float64)."""

    def __init__(self, items: StudyItems) -> None:
        self._items, s, layout = items, items.settings, items.layout
        n_judges = len(items.judges)
        self._axis = (n_judges,) if n_judges > 1 else ()
        """The axis of judges that the model has."""
        rule = resolve(s.rule or RULE_OF[s.stop])
        if rule is RULES["pivot"] and s.stop == "anytime":
            rule = pivot_of(s.indifferent)
        self.loop = Loop(
            rule=rule,
            k=s.k,
            refit_every=s.refit_every,
            protocol="frozen" if s.repeats == "never" else "stochastic",
        )
        n, pools = int(layout.sizes.max()), items.tables.pools
        self._trusted = np.zeros((len(pools), n, n, len(items.judges)))
        better, worse = items.tables.anchors[["better", "worse"]].to_numpy(int).T
        anchors = np.full(len(better), ANCHORS_AT)
        self._trusted[layout.pool[better], layout.place[better], layout.place[worse], anchors] = 1
        with runtime.precision("float64"):
            root = jax.random.key(s.seed)
            self.keys = [jax.random.fold_in(root, zlib.crc32(name.encode())) for name in pools]
            self.tasks = [self._task(pool, n) for pool in range(len(pools))]
            self._starts = [Parameters.zeros(t.design, t.n_judges) for t in self.tasks]
            self._draws = canonical.normals(self.tasks[0].design.n_contents)
        self._looks: dict[int, tuple[Any, Look]] = {}
        tested = layout.sizes.tolist() if s.stop == "anytime" else []
        self._evidence = [anytime.Evidence.none(size, np.dtype("float32")) for size in tested]
        self._shown = {pool: np.empty(0, int) for pool in range(len(pools))}
        self._n_counted = 0
        """Answers that `_evidence` has (count)."""

    def _task(self, pool: int, n: int) -> Task:
        """The task of a pool, padded to n items."""
        items, layout, s = self._items, self._items.layout, self._items.settings
        rows = np.flatnonzero(layout.pool == pool)
        padding = 0, n - len(rows)
        content, m = None, n
        if not np.array_equal(layout.content, layout.place):  # some items share a quality
            content, m = jnp.pad(layout.content[rows], padding), int(layout.content.max()) + 1
        x = jnp.pad(layout.x[rows], (padding, (0, 0)))
        design = Design(x, content, jnp.arange(n) < len(rows), m)
        variant, price = model.variant("bias_aware", design, *self._axis), None
        if self._axis:
            free, price = ~jnp.asarray(items.known), items.prices
            variant = dataclasses.replace(variant, c=variant.c & free, kappa=variant.kappa & free)
        # No answer is looked up: a half is there so that every pair can be asked.
        answers = jnp.full((n, n, *self._axis), 0.5)
        pool_of_m, prior = Pool(jnp.zeros(m), design), Prior(s.lam, s.lam_b)
        return Task.build(pool_of_m, answers, variant=variant, prior=prior, price=price)

    def _counts(self, pool: int, shown: np.ndarray, wins: np.ndarray) -> Comparisons:
        """Counts [N, N, J] with those of the trusted pairs, as the model has them: with a single
        judge [N, N]."""
        at = ... if self._axis else (..., 0)
        return Comparisons(*(jnp.asarray((v + self._trusted[pool])[at]) for v in (shown, wins)))

    def look(self, book: Book, pool: int) -> Look:
        """As `fit`, which is run again where a verdict of the pool was asked or one was told."""
        version = (book.told[pool] + book.pending[pool]).sum(), len(book.answers)
        if pool not in self._looks or self._looks[pool][0] != version:
            self._looks[pool] = version, self.fit(book, pool)
        return self._looks[pool][1]

    def fit(self, book: Book, pool: int) -> Look:
        """The fit of a pool's verdicts up to the last refit, and the view of the next pick."""
        left = np.float64(book.left(pool))
        with runtime.precision("float64"):
            parameters, status, view, *facts = _look(
                self.keys[pool],
                self.tasks[pool],
                self._counts(pool, *book.fitted[:, pool]),
                self._counts(pool, book.told[pool] + book.pending[pool], book.wins[pool]),
                book.closed(pool),
                self._starts[pool],
                left,
                np.float64(self._items.settings.indifferent),
                self._draws,
                loop=self.loop,
            )
        status = Status(int(status))
        if status == Status.CONVERGED:
            self._starts[pool] = parameters
        return Look(parameters, status, view, *map(float, facts))

    def shown(self, book: Book, pool: int) -> np.ndarray:
        """Places of the judge's own top k, once tests of single pairs have shown it
        (`jbt.acquisition.anytime`); empty before. What was shown once stays."""
        s = self._items.settings
        for record in list(book.answers.values())[self._n_counted :]:
            self._n_counted += 1
            if (share := share_of(record)) is None:
                continue
            p, first, second, _ = book.queries[record["id"]].at
            zone, alpha = np.float32(s.indifferent), np.float32(1 - s.level)
            asked = Queries(*(jnp.array([v]) for v in (first, second, np.float32(share))))
            self._evidence[p] = _add_verdicts(self._evidence[p], asked, zone=zone, alpha=alpha)
            if not len(self._shown[p]):
                top, found = _shown_top_set(self._evidence[p], k=s.k)
                self._shown[p] = np.flatnonzero(top) if found else self._shown[p]
        return self._shown[pool]

    def printed(self, pool: int, look: Look) -> tuple[np.ndarray, np.ndarray]:
        """Membership in the top k [M], and draws of the qualities [draws, M], to be printed:
        `jbt.kernel.canonical`."""
        posterior, design = look.view.posterior, self.tasks[pool].design
        with runtime.precision("float64"):
            return jax.device_get(_printed(posterior, design, self._draws, k=self.loop.k))

    def identified(self, book: Book, pool: int) -> np.ndarray:
        """[D + 1, J] whether a pool's verdicts identify c of each covariate, and kappa."""
        task = self.tasks[pool]
        with runtime.precision("float64"):
            counts = self._counts(pool, book.told[pool], book.wins[pool])
            shown: Any = task.verdicts(counts) if self._axis else np.asarray(counts.shown)
            null = null_space(task.design, shown, variant=task.variant).directions
        moved = np.abs(null[:, task.design.n_contents :]) > MOVED
        return ~moved.any(0).reshape(-1, len(self._items.judges))

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

        def ask(at: At, picked: bool) -> bool:
            can_ask = len(chosen) < n and bool(book.affordable()[at[-1]])
            if can_ask:
                book.pending[at] += 1
                book.picks[at[0]] += picked
                chosen.append((at, picked))
            return can_ask

        for at in [at for pool in pools for at in book.owed(pool)]:
            ask(at, False)
        while pools and len(chosen) < n:
            pool = min(pools, key=lambda p: book.n_told[p] + book.pending[p].sum())
            if pool not in views:
                views[pool] = self.look(book, pool).view
            number, key, panelists = book.picks[pool], self.keys[pool], self.tasks[pool].panelists
            with runtime.precision("float64"):
                picked, undefined = _pick(
                    key, views[pool], book.closed(pool), np.int32(number), loop=self.loop
                )
                if bool(undefined):
                    raise ValueError(f"the rule {s.rule!r} gave a score that is not finite")
                first, second, judge = picked.tolist()
                if first < 0:
                    pools.remove(pool)
                    continue
                at, other = (pool, first, second, judge), (pool, second, first, judge)
                absorb_one = partial(_absorb, panelists=panelists, loop=self.loop)
                views[pool] = absorb_one(views[pool], np.array(at[1:], np.int32))
                if s.orders == "random":
                    rng = np.random.default_rng([s.seed, zlib.crc32(names[pool].encode()), number])
                    at = other if rng.random() < 0.5 else at
                ask(at, True)
                if s.orders == "both" and ask(other, False):
                    views[pool] = absorb_one(views[pool], np.array(other[1:], np.int32))
        return chosen


_add_verdicts = quick_compilation.jit(anytime.add_verdicts)
_shown_top_set = quick_compilation.jit(anytime.shown_top_set, static_argnames="k")


@partial(quick_compilation.jit, static_argnames="loop")
def _look(
    key: Key[Array, ""],
    task: Task,
    fitted: Comparisons,
    now: Comparisons,
    closed: Bool[Array, "N N J"],
    start: Parameters,
    left: Float[Array, ""],
    zone: Float[Array, ""],
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
    zones, mask = jnp.stack([zone, -zone]), task.design.content_mask()
    certainty, clear = jax.vmap(
        lambda zone: canonical.certainty(view.posterior, loop.k, mask, draws, zone)
    )(zones)
    fresh: bool = loop.rule.fresh  # type: ignore[union-attr]
    moved = ["covariance"] * fresh
    if isinstance(view, PanelView):
        of_all = {name: getattr(later, name) for name in ("spent", *moved)}
        view, later = dataclasses.replace(view, **of_all), later.views
    view = _with(view, **{name: getattr(later, name) for name in ("shown", "wins", *moved)})
    attainable = stopping.attainable(_open(view, closed), left)
    return parameters, status, view, certainty, 1 - clear, attainable


def _with(view: View | PanelView, **new: Array) -> View | PanelView:
    """Replace arrays of a single judge's view; of a panel, those of all judges' views."""
    if isinstance(view, View):
        return dataclasses.replace(view, **new)
    views = jax.vmap(lambda view, new: dataclasses.replace(view, **new))(view.views, new)
    return dataclasses.replace(view, views=views)


def _open(view: View | PanelView, closed: Bool[Array, "N N J"]) -> View | PanelView:
    """The view in which all pairs but the closed ones may be asked."""
    available = jnp.moveaxis(~closed, -1, 0)
    return _with(view, available=available[0] if isinstance(view, View) else available)


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
    closed: Bool[Array, "N N J"],
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
    """The view after one more pair is asked, whose answer is not known yet."""
    query = Query(at[0], at[1], None if panelists is None else at[2])
    level = jnp.asarray(0.5)  # as in `Loop.parallel`
    return absorb(view, query, level, loop.rule, panelists, loop.protocol)  # type: ignore[arg-type]
