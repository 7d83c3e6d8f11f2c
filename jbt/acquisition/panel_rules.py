"""Rules that choose the next comparison and the judge to ask, from the views of all judges.

Such a rule is a function of a read-only `PanelView` and a key. It scores every ordered pair of
every judge and takes the price into account; the loop asks the available pair and judge of highest
score:

    def informed(panel, key):                   # most information for the price
        gain = panel.each(lambda view: view.informativeness() * view.difference_variance())
        return gain / panel.price               # [N, N, J], finite where available

    run(key, task, Loop(rule=PanelRule(informed)), budget=120)

The rules below are made for two judges: the first, which is cheap, and the last, the reference.
Judges between them are asked when neither can be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.acquisition import rules
from jbt.acquisition.rules import RULES, Rule, Score
from jbt.acquisition.views import PanelView
from jbt.kernel import metrics

SHARE = 0.5
"""Share of the spending that `escalation` and the rules like it give to the reference."""

PanelScore = Callable[[PanelView, Key[Array, ""]], Float[Array, "N N J"]]

Place = Callable[[PanelView, Key[Array, ""]], Float[Array, "N N"]]
"""Score the pairs of the reference."""


@dataclasses.dataclass(frozen=True)
class PanelRule:
    """A score function of pairs and judges, and how the loop is to run it."""

    score: PanelScore
    fresh: bool | Bool[Array, ""] = False
    """Update the covariance by the Fisher term of every pick before the next one."""
    tried: bool = False
    """As a `Rule`'s."""


def with_reference(
    panel: PanelView,
    key: Key[Array, ""],
    *,
    place: Place,
    share: float = SHARE,
) -> Float[Array, "N N J"]:
    """Ask the cheap judge by Eq. acq, and the reference where `place` scores highest. The reference
    is due whenever its next verdict leaves it at most `share` of all spending; at a half, first
    when the cheap judge has cost as much as that verdict, and so on in turn. When one of them can
    be asked nothing more, the other gets the rest.

    A share or a place of your own:

        def quarter(panel, key):
            return with_reference(panel, key, place=where_disputed, share=0.25)

    Raises:
      ValueError: a single judge.
    """
    if panel.n_judges < 2:
        raise ValueError("a rule with a reference needs at least two judges")
    cheap, reference = panel.of(0), panel.of(-1)
    due = panel.spent[-1] + panel.price[-1] <= share * (panel.spent.sum() + panel.price[-1])
    due &= reference.available.any()
    due |= ~cheap.available.any()
    # The judge is the first axis here, as in the loop, and moves last at the end: the turns cancel.
    judge = jnp.arange(panel.n_judges)[:, None, None]
    is_reference = judge == panel.n_judges - 1
    score = jnp.where(is_reference, place(panel, key), 0)
    score = jnp.where(judge == 0, rules.top_k_aware(cheap, key), score)
    turn = jnp.where(due, is_reference, judge == 0)
    return jnp.moveaxis(rules.prefer(jnp.broadcast_to(turn, score.shape), score), 0, -1)


def at_boundary(panel: PanelView, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Score pairs across the estimated boundary, the most ambiguous highest: LUCB, the weakest
    lower bound inside the top k against the strongest upper bound outside."""
    return rules.lucb(panel.of(-1), key)


def where_disputed(panel: PanelView, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Score pairs that estimated quality theta and the cheap judge's apparent quality theta + x . c
    put in opposite orders; a naive fit of that judge's verdicts estimates the latter. Eq. acq
    decides among these pairs; where none is disputed, among all."""
    cheap, reference = panel.of(0), panel.of(-1)
    theta = cheap.design.of_items(cheap.posterior.mean.theta)
    bias = (cheap.design.covariates * cheap.posterior.mean.c).sum(1)
    quality = theta[:, None] - theta
    apparent = quality + bias[:, None] - bias
    opposed = (quality * apparent < 0) & (jnp.abs(quality) > metrics.tie_of(theta))
    opposed &= jnp.abs(apparent) > metrics.tie_of(theta)
    return rules.prefer(opposed & reference.available, rules.top_k_aware(reference, key))


def anywhere(panel: PanelView, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Score pairs of the reference at random."""
    return rules.random(panel.of(-1), key)


def escalation(panel: PanelView, key: Key[Array, ""]) -> Float[Array, "N N J"]:
    """`with_reference` at the boundary of the top k."""
    return with_reference(panel, key, place=at_boundary)


def disputed(panel: PanelView, key: Key[Array, ""]) -> Float[Array, "N N J"]:
    """`with_reference` on pairs whose order depends on the bias."""
    return with_reference(panel, key, place=where_disputed)


def reference_random(panel: PanelView, key: Key[Array, ""]) -> Float[Array, "N N J"]:
    """`with_reference` on random pairs."""
    return with_reference(panel, key, place=anywhere)


PANEL_RULES: Mapping[str, PanelRule] = {
    "escalation": PanelRule(escalation),
    "disputed": PanelRule(disputed),
    "reference_random": PanelRule(reference_random),
}
"""Every rule for several judges by its name. Those of `rules.RULES` work for several judges too, by
gain for the price."""


def resolve(rule: str | Rule | PanelRule | Score) -> Rule | PanelRule:
    """Look a name up in both registries, or make a rule of a user's function.

    Raises:
      ValueError: unknown name, not callable.
    """
    if isinstance(rule, PanelRule):
        return rule
    if isinstance(rule, str) and rule not in RULES:
        if rule not in PANEL_RULES:
            known = f"one of {', '.join(RULES)}; for several judges {', '.join(PANEL_RULES)}"
            names = [*RULES, *PANEL_RULES]
            raise ValueError(rules.unknown(rule, names, f"{known}; or a function"))
        return PANEL_RULES[rule]
    return rules.resolve(rule)


def one_of(names: Sequence[str], number: Int[Array, ""]) -> Rule | PanelRule:
    """The rule of this number, which is traced: one program runs any of them at about the cost of
    that one, as long as the number is not batched (`vmap` would compute the scores of all).

    Args:
      names: rules that one program can run, see `alike`.

    Raises:
      ValueError: an unknown name.
    """
    listed = [resolve(name) for name in names]

    def score(view: Any, key: Key[Array, ""]) -> Array:
        return jax.lax.switch(number, [rule.score for rule in listed], view, key)

    fresh: Any = [bool(rule.fresh) for rule in listed]
    fresh = jnp.asarray(fresh)[number] if any(fresh) and not all(fresh) else fresh[0]
    return dataclasses.replace(listed[0], score=score, fresh=fresh, tried=True)


def alike(names: Iterable[str], n_judges: int = 1) -> list[list[str]]:
    """The rules that one program can run, list by list. With several judges, the loop treats gains,
    other scores and rules for all judges differently.
    """
    lists: dict[Any, list[str]] = {}
    for name in names:
        rule = resolve(name)
        kind = (type(rule), getattr(rule, "gain", True)) if n_judges > 1 else None
        lists.setdefault(kind, []).append(name)
    return list(lists.values())
