"""The active loop of a study: the simulator's own `look`, `pick` and `absorb`, on live counts."""

from __future__ import annotations

import dataclasses
import zlib
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
from jbt.acquisition.picks import Query, absorb, pick, pick_keys
from jbt.acquisition.views import own_covariance
from jbt.kernel import canonical, model
from jbt.kernel.laplace import laplace
from jbt.own.studies.items import StudyItems
from jbt.own.studies.settings import StudySettings
from jbt.own.studies.state import PoolState
from jbt.types import Comparisons, Design, Parameters, Pool, Posterior, Prior, Status

ANCHORS_AT = 1
"""Place of the anchors among the judges of a panel, whose first is the cheapest and whose last is
the reference."""

FREE = 1e-12
"""Price of an anchor, which is never asked: a price of 0 is not allowed, and any other would count
as spending."""


@dataclass(eq=False)
class Look:
    """A pool at one moment: the fit, and the view that the rule picks from."""

    parameters: Parameters
    status: Status
    view: View | PanelView
    certainty: float
    """P(the estimated top k is the true one), under the posterior."""
    doubt: float
    """Sum of the membership entropies, nats."""
    attainable: float
    """Share of the doubt that the rest of the budget can remove; NaN where it has no end."""


class Engine:
    """One compiled program for all pools of a study, padded to the largest (float64)."""

    def __init__(self, items: StudyItems, settings: StudySettings) -> None:
        self.settings, self._items = settings, items
        layout = items.layout
        self.n_items = int(layout.sizes.max())
        own_qualities = np.array_equal(layout.content, layout.place)
        self.n_contents = self.n_items if own_qualities else int(layout.content.max()) + 1
        self.n_judges = max(len(settings.judges), 1)
        self._anchored = len(items.pairs) > 0
        self.loop = Loop(
            rule=settings.resolved_rule(),
            k=settings.k,
            refit_every=settings.refit_every,
            protocol="frozen" if settings.repeats == "never" else "stochastic",
        )
        with runtime.precision("float64"):
            root = jax.random.key(settings.seed)
            self.pools = [self._pool(pool) for pool in range(len(layout.sizes))]
            self.keys = [
                jax.random.fold_in(root, zlib.crc32(name.encode())) for name in items.tables.pools
            ]
            self._starts = [Parameters.zeros(self.pools[0][0].design, self._panel_size)] * len(
                self.pools
            )
            self._draws = canonical.normals(self.n_contents)

    @property
    def judges_at(self) -> list[int]:
        """Place of each judge among those of the model."""
        return [g + (self._anchored and g >= ANCHORS_AT) for g in range(self.n_judges)]

    @property
    def _panel_size(self) -> int | None:
        """Judges of the model, the anchors among them; None with a single one."""
        several = self.n_judges > 1 or self._anchored
        return self.n_judges + self._anchored if several else None

    def _pool(self, pool: int) -> tuple[Task, Comparisons | None]:
        """The task of a pool, and its anchors as counts."""
        layout, s, n = self._items.layout, self.settings, self.n_items
        rows = np.flatnonzero(layout.pool == pool)
        x, mask = np.zeros((n, layout.x.shape[1])), np.zeros(n, bool)
        x[layout.place[rows]], mask[layout.place[rows]] = layout.x[rows], True
        content = np.zeros(n, int)
        content[layout.place[rows]] = layout.content[rows]
        shares = None if self.n_contents == n else jnp.asarray(content)
        design = Design(jnp.asarray(x), shares, jnp.asarray(mask), self.n_contents)
        size = self._panel_size
        shape = (n, n) if size is None else (n, n, size)
        names = np.array(s.judges or ("",))
        known, price = names == s.reference, np.array(s.prices)
        if self._anchored:
            known, price = (np.insert(v, ANCHORS_AT, a) for v, a in ((known, True), (price, FREE)))
        variant = model.variant("bias_aware", design, size)
        if size is not None:
            free = jnp.asarray(~known)
            variant = dataclasses.replace(variant, c=variant.c & free, kappa=variant.kappa & free)
        # No answer is looked up: a half is there so that every pair can be asked.
        task = Task.build(
            Pool(jnp.zeros(self.n_contents), design),
            jnp.full(shape, 0.5),
            variant=variant,
            prior=Prior(s.lam, s.lam_b),
            price=None if size is None else price,
        )
        if not self._anchored:
            return task, None
        counts = np.zeros((n, n))
        for better, worse in layout.place[
            self._items.pairs[layout.pool[self._items.pairs[:, 0]] == pool]
        ]:
            counts[better, worse] += 1
        return task, Comparisons(jnp.asarray(counts), jnp.asarray(counts))

    def look(self, pool: int, state: PoolState, closed: np.ndarray, left: float) -> Look:
        """Fit a pool's verdicts up to the last refit, and make the view of the next pick.

        Args:
          closed: [N, N, J] pairs that may not be asked now.
          left: the rest of the budget; infinite where there is none.
        """
        task, _ = self.pools[pool]
        with runtime.precision("float64"):
            told, wins = state.fitted
            now = self._counts(pool, state.shown, state.wins)
            parameters, status, view, *facts = _look(
                self.keys[pool],
                task,
                self._counts(pool, told, wins),
                now,
                self._closed(closed),
                self._starts[pool],
                np.float64(left),
                self._draws,
                loop=self.loop,
            )
            certainty, doubt, attainable = (float(v) for v in facts)
        if int(status) == Status.CONVERGED:
            self._starts[pool] = parameters
        attainable = attainable if np.isfinite(left) else np.nan
        return Look(parameters, Status(int(status)), view, certainty, doubt, attainable)

    def printed(self, pool: int, look: Look) -> tuple[np.ndarray, np.ndarray]:
        """Membership in the top k [M], and draws of the qualities [draws, M], to be printed:
        `jbt.kernel.canonical`."""
        posterior, design = look.view.posterior, self.pools[pool][0].design
        with runtime.precision("float64"):
            return jax.device_get(_printed(posterior, design, self._draws, k=self.settings.k))

    def pick(
        self, pool: int, view: View | PanelView, closed: np.ndarray, time: int
    ) -> tuple[tuple[int, int, int] | None, View | PanelView]:
        """Pick the next pair and judge; None where every pair is closed. The view afterwards takes
        the pick as asked.

        Args:
          time: how many picks were made in this pool before.

        Raises:
          ValueError: the rule's score of a pair is not finite.
        """
        with runtime.precision("float64"):
            query, undefined, view = _pick(
                self.keys[pool],
                view,
                self._closed(closed),
                np.int32(time),
                self.pools[pool][0].panelists,
                loop=self.loop,
            )
        if bool(undefined):
            raise ValueError(f"the rule {self.settings.rule!r} gave a score that is not finite")
        first, second = int(query.first), int(query.second)
        judge = 0 if query.judge is None else int(query.judge)
        if first < 0:
            return None, view
        return (first, second, self.judges_at.index(judge)), view

    def absorb(
        self, pool: int, view: View | PanelView, at: tuple[int, int, int]
    ) -> View | PanelView:
        """The view after one more pair is asked."""
        first, second, judge = at
        with runtime.precision("float64"):
            query = Query(*map(jnp.int32, (first, second)))
            if isinstance(view, PanelView):
                query = dataclasses.replace(query, judge=jnp.int32(self.judges_at[judge]))
            return _absorb(view, query, self.pools[pool][0].panelists, loop=self.loop)

    def _counts(self, pool: int, shown: np.ndarray, wins: np.ndarray) -> Comparisons:
        anchors = self.pools[pool][1]
        if self._panel_size is None:
            return Comparisons(jnp.asarray(shown[:, :, 0]), jnp.asarray(wins[:, :, 0]))
        if anchors is not None:
            shown = np.insert(shown, ANCHORS_AT, np.asarray(anchors.shown), axis=2)
            wins = np.insert(wins, ANCHORS_AT, np.asarray(anchors.wins), axis=2)
        return Comparisons(jnp.asarray(shown), jnp.asarray(wins))

    def _closed(self, closed: np.ndarray) -> Bool[Array, "..."]:
        """[N, N] for one judge, else [J, N, N] as a `PanelView` has it."""
        if self._panel_size is None:
            return jnp.asarray(closed[:, :, 0])
        if self._anchored:
            closed = np.insert(closed, ANCHORS_AT, True, axis=2)
        return jnp.asarray(np.moveaxis(closed, 2, 0))


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
    """The fit of the verdicts up to the last refit, and the view with those since."""
    state = init(key, task, loop)
    parameters, status = refit(fitted, start, task)
    state = dataclasses.replace(
        state,
        asked=fitted.shown.sum().astype(int),
        comparisons=fitted,
        parameters=parameters,
        status=status,
    )
    view = look(state, task, loop)
    certainty = canonical.certainty(view.posterior, loop.k, task.design.content_mask(), draws)
    doubt = stopping.doubt(view)
    view = _at(view, parameters, now, task, loop)
    attainable = stopping.attainable(_open(view, closed), left)
    return parameters, status, view, certainty, doubt, attainable


@partial(quick_compilation.jit, static_argnames="k")
def _printed(
    posterior: Posterior, design: Design, draws: Float[Array, "chunks M S"], k: int
) -> tuple[Float[Array, " M"], Float[Array, "draws M"]]:
    mask = design.content_mask()
    membership = canonical.membership(posterior, k, mask, draws)
    return membership, canonical.drawn(posterior, mask, draws)


def _at(
    view: View | PanelView, parameters: Parameters, now: Comparisons, task: Task, loop: Loop
) -> View | PanelView:
    """The view with the counts of now. A fresh rule's covariance has the information of every
    verdict that was asked for: what `absorb` adds one by one."""
    new: dict[str, Any] = {"shown": now.shown, "wins": now.wins}
    covariance = None
    if loop.rule.fresh:  # type: ignore[union-attr]
        design = task.design.centred()
        verdicts = task.verdicts(now)
        covariance = laplace(parameters, verdicts, design, task.prior, task.variant).covariance()
    if isinstance(view, View):
        new |= {} if covariance is None else {"covariance": covariance}
        return dataclasses.replace(view, **new)
    assert task.panelists is not None
    new = {name: jnp.moveaxis(count, -1, 0) for name, count in new.items()}
    joint = {"spent": task.panelists.spent(new["shown"].sum((1, 2)))}
    if covariance is not None:
        joint["covariance"] = covariance
        of_judge = partial(own_covariance, covariance, n_contents=task.design.n_contents)
        new["covariance"] = jax.vmap(of_judge)(
            task.panelists.discrimination, task.panelists.sharing
        )
    views = jax.vmap(lambda old, new: dataclasses.replace(old, **new))(view.views, new)
    return dataclasses.replace(view, views=views, **joint)


def _open(view: View | PanelView, closed: Bool[Array, "..."]) -> View | PanelView:
    """The view with some pairs closed."""
    if isinstance(view, View):
        return dataclasses.replace(view, available=view.available & ~closed)
    views = jax.vmap(lambda v, c: dataclasses.replace(v, available=v.available & ~c))(
        view.views, closed
    )
    return dataclasses.replace(view, views=views)


@partial(quick_compilation.jit, static_argnames="loop")
def _pick(
    key: Key[Array, ""],
    view: View | PanelView,
    closed: Bool[Array, "..."],
    time: Int[Array, ""],
    panelists: Any,
    loop: Loop,
) -> tuple[Query, Array, View | PanelView]:
    rule = loop.rule
    for_rule, _, for_ties = pick_keys(key, time)
    query, undefined = pick(_open(view, closed), rule, for_rule, for_ties)  # type: ignore[arg-type]
    return query, undefined, _absorbed(view, query, panelists, loop)


@partial(quick_compilation.jit, static_argnames="loop")
def _absorb(view: View | PanelView, query: Query, panelists: Any, loop: Loop) -> View | PanelView:
    return _absorbed(view, query, panelists, loop)


def _absorbed(view: View | PanelView, query: Query, panelists: Any, loop: Loop) -> View | PanelView:
    # The answer is not known yet.
    return absorb(view, query, jnp.zeros(()), loop.rule, panelists, loop.protocol)  # type: ignore[arg-type]
