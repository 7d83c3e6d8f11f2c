"""The picks between two refits: `pick` the best pair, ask it, `absorb` the verdict.

The posterior stays; what changes is which pairs may be asked, the counts, the spending, and for a
fresh rule the covariance. `ask` does both in turn against recorded or simulated answers; whoever
asks a live judge calls them one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.acquisition import rules
from jbt.acquisition.choice import choose, choose_judge
from jbt.acquisition.panel_rules import PanelRule
from jbt.acquisition.rules import Rule
from jbt.acquisition.task import Panelists, Task
from jbt.acquisition.views import PanelView, View, own_covariance
from jbt.kernel import panel
from jbt.simulation import judges, pairs
from jbt.types import Comparisons, Pool, container


@container
class Query:
    """An ordered pair to be asked. Where nothing is available, items and judge are -1."""

    first: Int[Array, ""]
    second: Int[Array, ""]
    judge: Int[Array, ""] | None = None
    """The judge to ask, where there are several."""


@container
class Queries:
    """What was asked, in order. Where nothing was available, items are -1 and won is 0."""

    first: Int[Array, " B"]
    second: Int[Array, " B"]
    won: Float[Array, " B"]
    """Share of the verdict won by the first item: 1 or 0, a tie 0.5, graded anything between."""
    judge: Int[Array, " B"] | None = None
    """The judge asked, where there are several."""


def ask(
    view: View | PanelView,
    rule: Rule | PanelRule,
    key: Key[Array, ""],
    times: Int[Array, " R"],
    task: Task,
    protocol: str,
    *,
    parallel: bool = False,
) -> tuple[Comparisons, Bool[Array, ""], Queries]:
    """Pick a pair at each of these times, ask it, absorb the verdict.

    Args:
      view: at the first time.
      key: of the run; each pick folds it with its time.
      parallel: see `Loop.parallel`.

    Returns:
      The counts afterwards; whether a score was not finite; what was asked.

    Raises:
      ValueError: scores of a wrong shape, or a rule for several judges where there is one.
    """

    def one(carry: tuple[View | PanelView, Bool[Array, ""]], time: Int[Array, ""]):
        view, undefined = carry
        if isinstance(view, View):
            # From the counts: carried through the scan, the mask costs 5 % of a run.
            counts = Comparisons(view.shown, view.wins)
            view = dataclasses.replace(view, available=available(counts, task, protocol))
        for_rule, for_judge, for_ties = pick_keys(key, time)
        query, not_finite = pick(view, rule, for_rule, for_ties)
        won = _answer(for_judge, task, protocol, query)
        known = jnp.full_like(won, 0.5) if parallel else won
        view = absorb(view, query, known, rule, task.panelists, protocol)
        return (view, undefined | not_finite), (query, won)

    start = view
    (view, undefined), (query, won) = jax.lax.scan(one, (start, jnp.array(False)), times)
    queries = Queries(query.first, query.second, won, query.judge)
    if parallel:
        before, new = counts_of(start), bought(queries, query.first >= 0, task)
        counts = Comparisons(before.shown + new.shown, before.wins + new.wins)
        return counts, undefined, queries
    return counts_of(view), undefined, queries


def counts_of(view: View | PanelView) -> Comparisons:
    """The counts that a view shows, in the form of `Task.verdicts`."""
    if isinstance(view, View):
        return Comparisons(view.shown, view.wins)
    counts = (jnp.moveaxis(count, 0, -1) for count in (view.views.shown, view.views.wins))
    return Comparisons(*counts)


def bought(queries: Queries, which: Bool[Array, " B"], task: Task) -> Comparisons:
    """The counts of some of the queries."""
    items, dtype = jnp.arange(task.design.n_items), task.design.dtype
    # One row a query, zero where no pair was asked.
    first = ((queries.first[:, None] == items) & which[:, None]).astype(dtype)
    second = (queries.second[:, None] == items).astype(dtype)

    def counts(first: Float[Array, "B N"]) -> Comparisons:
        return Comparisons(first.T @ second, (first * queries.won[:, None]).T @ second)

    if queries.judge is None:
        return counts(first)
    by_judge = queries.judge[:, None] == jnp.arange(task.n_judges)
    return jax.vmap(lambda asked: counts(first * asked[:, None]), in_axes=1, out_axes=-1)(by_judge)


def pick_keys(key: Key[Array, ""], time: Int[Array, ""]) -> Key[Array, " 3"]:
    """The keys of one pick of a run: for the rule's draws, a fresh verdict, and the tie-break."""
    return jax.random.split(jax.random.fold_in(key, time), 3)


def pick(
    view: View | PanelView,
    rule: Rule | PanelRule,
    for_rule: Key[Array, ""],
    for_ties: Key[Array, ""],
) -> tuple[Query, Bool[Array, ""]]:
    """Choose the available pair of highest score, with several judges also the judge.

    Args:
      for_rule, for_ties: of this pick alone, see `pick_keys`.

    Returns:
      The query; whether the score of an available pair was not finite.

    Raises:
      ValueError: as `ask`.
    """
    score = scores(rule, view, for_rule)
    salt = jax.random.bits(for_ties, (), jnp.uint32)
    if isinstance(view, View):
        first, second, offered = choose(score, view.available, salt)
        undefined = (~jnp.isfinite(score) & view.available).any()
        return Query(jnp.where(offered, first, -1), jnp.where(offered, second, -1)), undefined
    # Every judge offers the best pair on its own view, and the best offer is taken. The judge is
    # the first axis here, as `vmap` has it.
    score, available = jnp.moveaxis(score, -1, 0), view.views.available
    *pair, has_offer = jax.vmap(choose, (0, 0, None))(score, available, salt)
    judge = choose_judge(_worth(rule, view, score, *pair), view.price, has_offer, salt)
    undefined = (~jnp.isfinite(score) & available).any()
    chosen = (pair[0][judge], pair[1][judge], judge)
    return Query(*(jnp.where(has_offer[judge], v, -1) for v in chosen)), undefined


def absorb(
    view: View | PanelView,
    query: Query,
    won: Float[Array, ""],
    rule: Rule | PanelRule,
    panelists: Panelists | None,
    protocol: str,
) -> View | PanelView:
    """The view for the next pick, before the refit.

    Args:
      won: share of the verdict won by the first item; one half if a pick follows before its verdict
        is there, which rules that count wins take for a tie.
      panelists: the judges of a `PanelView`.
    """
    asked, items = query.first >= 0, jnp.arange(view_items(view))
    if isinstance(view, View):
        pair = (items == query.first)[:, None] & (items == query.second) & asked
        new = {
            "shown": view.shown + pair,
            "wins": view.wins + jnp.where(pair, won, 0),
            "available": view.available & ~pair if protocol == "frozen" else view.available,
        }
        new["covariance"] = _if_fresh(
            rule, lambda: _after_asking(view, query.first, query.second, asked), view.covariance
        )
        return dataclasses.replace(view, **new)
    assert panelists is not None
    judge = query.judge
    assert judge is not None
    chosen = (jnp.arange(view.n_judges) == judge) & asked
    pair = chosen[:, None, None] & (items == query.first)[:, None] & (items == query.second)
    views, covariance = view.views, view.covariance
    shown = views.shown + pair
    new = {
        "shown": shown,
        "wins": views.wins + jnp.where(pair, won, 0),
        "available": available_of_panel(views.available, shown, panelists, protocol),
    }

    def updated() -> tuple[Array, Array]:
        m, asked_view = views.design.n_contents, view.of(jnp.maximum(judge, 0))
        z = asked_view.design_vector(query.first, query.second)[:, None] * chosen
        counts = Comparisons(jnp.moveaxis(shown, 0, -1), jnp.moveaxis(new["wins"], 0, -1))
        z = panel.joint_score(z, panelists.panel(counts), m)
        w = asked_view.informativeness()[query.first, query.second]
        after = _with_verdict(view.covariance, z, w)
        of_judge = partial(own_covariance, after, n_contents=m)
        return after, jax.vmap(of_judge)(panelists.discrimination, panelists.sharing)

    covariance, new["covariance"] = _if_fresh(rule, updated, (covariance, views.covariance))
    return dataclasses.replace(
        view,
        views=jax.vmap(lambda old, new: dataclasses.replace(old, **new))(views, new),
        covariance=covariance,
        spent=panelists.spent(shown.sum((1, 2))),
    )


def _if_fresh(rule: Rule | PanelRule, update: Callable[[], Any], kept: Any) -> Any:
    """The update of a fresh rule. Where one program runs several rules (`panel_rules.one_of`), the
    others do not pay for it."""
    if isinstance(rule.fresh, bool):
        return update() if rule.fresh else kept
    return jax.lax.cond(rule.fresh, update, lambda: kept)


def view_items(view: View | PanelView) -> int:
    """N."""
    return (view if isinstance(view, View) else view.views).available.shape[-1]


def scores(
    rule: Rule | PanelRule, view: View | PanelView, key: Key[Array, ""]
) -> Float[Array, "N N ..."]:
    """The rule's scores; with several judges, the judge is the last axis. Prices count only where
    the rule itself has used them.

    Raises:
      ValueError: scores of a wrong shape, or a rule for several judges where there is one.
    """
    if isinstance(view, PanelView):
        if isinstance(rule, Rule):
            return view.each(lambda judge_view: scores(rule, judge_view, key))
        n = view.views.available.shape[-1]
        return rules.check_shape(rule.score, rule.score(view, key), (n, n, view.n_judges))
    if isinstance(rule, PanelRule):
        raise ValueError("the rule chooses among several judges, and the task has one")
    n = view.design.n_items
    return rules.check_shape(rule.score, rule.score(view, key), (n, n))


def open_pairs(task: Task) -> Bool[Array, "N N ..."]:
    """Which ordered pairs each judge can be asked at all."""
    allowed = pairs.every_pair(Pool(task.quality, task.design)) > 0
    return (allowed if task.n_judges is None else allowed[:, :, None]) & ~jnp.isnan(task.answers)


def available(comparisons: Comparisons, task: Task, protocol: str) -> Bool[Array, "N N"]:
    """Which ordered pairs may be asked now."""
    askable = open_pairs(task)
    return askable & (comparisons.shown == 0) if protocol == "frozen" else askable


def available_of_panel(
    askable: Bool[Array, "J N N"], shown: Float[Array, "J N N"], panelists: Panelists, protocol: str
) -> Bool[Array, "J N N"]:
    """Which of the pairs that each judge can be asked at all may be asked now."""
    askable &= panelists.affordable(shown.sum((1, 2)))[:, None, None]
    return askable & (shown == 0) if protocol == "frozen" else askable


def _worth(
    rule: Rule | PanelRule,
    view: PanelView,
    score: Float[Array, "J N N"],
    first: Int[Array, " J"],
    second: Int[Array, " J"],
) -> Float[Array, " J"]:
    """What each judge's offer is worth for its price."""
    if isinstance(rule, Rule) and not rule.gain:
        return jax.vmap(View.settled)(view.views, first, second) / view.price
    best = jax.vmap(lambda judge_score, i, j: judge_score[i, j])(score, first, second)
    return best / view.price if isinstance(rule, Rule) else best


def _answer(key: Key[Array, ""], task: Task, protocol: str, query: Query) -> Float[Array, ""]:
    """The share of the verdict won by the first item; 0 where nothing was asked."""
    judge = () if query.judge is None else (query.judge,)
    at = query.first, query.second, *judge
    if protocol == "frozen":
        won = task.answers[at]
    else:
        won = judges.fresh_verdict(key, task.answers, *at)
    return jnp.where(query.first >= 0, won, 0).astype(task.answers.dtype)


def _after_asking(
    view: View, first: Int[Array, ""], second: Int[Array, ""], asked: Bool[Array, ""]
) -> Float[Array, "P P"]:
    """The view's covariance once one more verdict's Fisher information is added."""
    w = view.informativeness()[first, second] * asked
    return _with_verdict(view.covariance, view.design_vector(first, second), w)


def _with_verdict(
    covariance: Float[Array, "P P"], z: Float[Array, " P"], w: Float[Array, ""]
) -> Float[Array, "P P"]:
    """The posterior covariance with information w about z' beta added (Sherman and Morrison)."""
    along = covariance @ z
    return covariance - w / (1 + w * (z * along).sum()) * along[:, None] * along
