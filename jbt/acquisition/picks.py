"""The picks between two refits: score, ask the best, count the answer; the posterior stays."""

from __future__ import annotations

import dataclasses
from functools import partial

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
from jbt.types import Comparisons, Panel, Pool, container


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
    comparisons: Comparisons,
    task: Task,
    protocol: str,
) -> tuple[Comparisons, Bool[Array, ""], Queries]:
    """Make a pick at each of these times.

    Args:
      view: at the first time.
      key: of the run; each pick folds it with its time.
      comparisons: counts so far.

    Returns:
      The counts afterwards; whether a score was not finite; what was asked.

    Raises:
      ValueError: scores of a wrong shape, or a rule for several judges where there is one.
    """
    no = jnp.array(False)
    options = {"rule": rule, "key": key, "task": task, "protocol": protocol}
    if isinstance(view, View):
        pick = partial(_pick, view=view, **options)
        (counts, _, undefined), query = jax.lax.scan(
            pick, (comparisons, view.covariance, no), times
        )
        return counts, undefined, Queries(*query)
    panelists = task.panelists
    assert panelists is not None
    pick = partial(_pick_of_panel, view=view, verdicts=panelists.panel(comparisons), **options)
    carry = view.views.shown, view.views.wins, view.covariance, no
    (shown, wins, _, undefined), query = jax.lax.scan(pick, carry, times)
    counts = Comparisons(jnp.moveaxis(shown, 0, -1), jnp.moveaxis(wins, 0, -1))
    return counts, undefined, Queries(*query)


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


def _pick(
    carry: tuple[Comparisons, Float[Array, "P P"], Bool[Array, ""]],
    time: Int[Array, ""],
    *,
    view: View,
    rule: Rule,
    key: Key[Array, ""],
    task: Task,
    protocol: str,
):
    comparisons, covariance, undefined = carry
    view = dataclasses.replace(
        view,
        shown=comparisons.shown,
        wins=comparisons.wins,
        available=available(comparisons, task, protocol),
        covariance=covariance,
    )
    for_rule, for_judge, for_ties = jax.random.split(jax.random.fold_in(key, time), 3)
    score = scores(rule, view, for_rule)
    salt = jax.random.bits(for_ties, (), jnp.uint32)
    first, second, asked = choose(score, view.available, salt)
    won = _answer(for_judge, task, protocol, first, second)
    won = jnp.where(asked, won, 0).astype(task.answers.dtype)
    items = jnp.arange(task.design.n_items)
    pair = (items == first)[:, None] & (items == second) & asked
    if rule.fresh:
        covariance = _after_asking(view, first, second, asked)
    comparisons = Comparisons(comparisons.shown + pair, comparisons.wins + jnp.where(pair, won, 0))
    undefined |= (~jnp.isfinite(score) & view.available).any()
    query = (jnp.where(asked, first, -1), jnp.where(asked, second, -1), won)
    return (comparisons, covariance, undefined), query


def _pick_of_panel(
    carry: tuple[Float[Array, "J N N"], Float[Array, "J N N"], Float[Array, "P P"], Array],
    time: Int[Array, ""],
    *,
    view: PanelView,
    verdicts: Panel,
    rule: Rule | PanelRule,
    key: Key[Array, ""],
    task: Task,
    protocol: str,
):
    """Let every judge offer the best pair on its own view, and take the best offer. The judge is
    the first axis here, as `vmap` has it."""
    shown, wins, covariance, undefined = carry
    panelists = task.panelists
    assert panelists is not None
    askable = available_of_panel(view.views.available, shown, panelists, protocol)
    new = {"shown": shown, "wins": wins, "available": askable}
    if rule.fresh:
        of_judge = partial(own_covariance, covariance, n_contents=task.design.n_contents)
        new["covariance"] = jax.vmap(of_judge)(verdicts.discrimination, verdicts.sharing)
    view = dataclasses.replace(
        view,
        views=jax.vmap(lambda old, new: dataclasses.replace(old, **new))(view.views, new),
        covariance=covariance,
        spent=panelists.spent(shown.sum((1, 2))),
    )
    for_rule, for_judge, for_ties = jax.random.split(jax.random.fold_in(key, time), 3)
    score = jnp.moveaxis(scores(rule, view, for_rule), -1, 0)
    salt = jax.random.bits(for_ties, (), jnp.uint32)
    *pair, has_offer = jax.vmap(choose, (0, 0, None))(score, askable, salt)
    judge = choose_judge(_worth(rule, view, score, *pair), view.price, has_offer, salt)
    first, second, asked = pair[0][judge], pair[1][judge], has_offer[judge]
    won = _answer(for_judge, task, protocol, first, second, judge)
    won = jnp.where(asked, won, 0).astype(task.answers.dtype)
    items, chosen = jnp.arange(task.design.n_items), (jnp.arange(view.n_judges) == judge) & asked
    if rule.fresh:
        asked_view = view.of(judge)
        z = asked_view.design_vector(first, second)[:, None] * chosen
        z = panel.joint_score(z, verdicts, asked_view.design.n_contents)
        covariance = _with_verdict(covariance, z, asked_view.informativeness()[first, second])
    query = chosen[:, None, None] & (items == first)[:, None] & (items == second)
    undefined |= (~jnp.isfinite(score) & askable).any()
    carry = shown + query, wins + jnp.where(query, won, 0), covariance, undefined
    first, second, judge = (jnp.where(asked, v, -1) for v in (first, second, judge))
    return carry, (first, second, won, judge)


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


def _answer(
    key: Key[Array, ""], task: Task, protocol: str, *at: Int[Array, ""]
) -> Float[Array, ""] | Bool[Array, ""]:
    if protocol == "frozen":
        return task.answers[at]
    return judges.fresh_verdict(key, task.answers, *at)


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
