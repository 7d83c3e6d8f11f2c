"""A trial of every rule on every kind of label in one pool, over many label sets."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jbt.estimators.reference import Rankings
from jbt.gate.draws import Drawn, Noise, of_members, of_pairs
from jbt.gate.labels import OF_PAIRS, members, recall, tops, urn
from jbt.gate.rules import OF_COUNTS, SHARE, critical_values, decide
from jbt.types import container


@dataclass(frozen=True)
class Rules:
    """The rules to try: those of counts, and the two tests at each level."""

    n_anchors: tuple[int, ...]
    """K, numbers of labels, increasing."""
    alpha: tuple[float, ...] = (0.05,)
    """Levels of the tests."""
    margin: int = 2
    """Margin of the rule `margin`, labels."""
    sets: int = 100
    """Label sets a pool (count)."""
    margin_share: float = SHARE
    """Least lead of the rule `margin_share`, as a share of the labels bought."""

    @property
    def names(self) -> list[tuple[str, float | None]]:
        """Each rule with its level, None for rules without one."""
        tests = [(name, a) for name in ("sign", "sign_sequential") for a in self.alpha]
        return [*((name, None) for name in OF_COUNTS if name != "sign"), *tests]


@container
class Trial:
    """Results for one pool; axes are kinds of labels (`LABELS`), rules (`Rules.names`) and K."""

    enable_rate: Float[Array, "labels rules K"]
    """Share of the label sets on which a rule enables the correction."""
    labels_used: Float[Array, "labels rules K"]
    """Labels bought, mean over label sets: fewer than K where no more exist, a test stops, or a
    content is drawn again."""
    census_rate: Float[Array, ""]
    """Share of label sets on which a `census` enables: 0 or 1 without noise."""
    census_used: Float[Array, ""]
    """Contents that a census labels."""
    naive_recall: Float[Array, ""]
    """Recall of a top of exactly k contents."""
    bias_aware_recall: Float[Array, ""]
    right: Float[Array, ""]
    """Disputed untied pairs on which bias-aware is right."""
    wrong: Float[Array, ""]
    """Disputed untied pairs on which naive is right."""
    right_member: Float[Array, ""]
    """Chance that a draw of two members says bias-aware is right, without noise."""
    wrong_member: Float[Array, ""]


def trial(key: Key[Array, ""], r: Rankings, rules: Rules, noise: Noise | None = None) -> Trial:
    """Draw label sets of every kind and decide on each.

    Args:
      key: PRNG key, consumed. The same key gives the same label sets, as far as the rankings allow.
      r: the two rankings of a pool whose quality is known, one content an item.
      rules: the rules to try.
      noise: noise of the labels, default none.
    """
    key_order, key_pairs, key_members = jax.random.split(key, 3)
    order = jax.random.permutation(key_order, r.pool.design.n_contents)
    t = tops(r, order)
    options = {"sets": rules.sets, "alpha": rules.alpha, "noise": noise}
    urns = [urn(r, t, labels) for labels in OF_PAIRS]
    # The same draws for every kind of pairs, so that they can be compared. There are at most k^2
    # swaps.
    most = {"swaps": r.k**2}
    drawn = [
        of_pairs(jax.random.clone(key_pairs), u, rules.n_anchors, **options, most=most.get(labels))
        for labels, u in zip(OF_PAIRS, urns, strict=True)
    ]
    a, b = members(r, t)
    contents, risen = of_members(key_members, a, b, rules.n_anchors, **options)
    drawn = jax.tree.map(lambda *v: jnp.stack(v), *drawn, contents)
    good = [v.good.sum() / jnp.maximum(v.n, 1) for v in (a, b)]
    disputed = urns[OF_PAIRS.index("disputed")]
    rates, used = jax.vmap(lambda d: decided(d, rules))(drawn)
    return Trial(
        rates,
        used,
        risen.mean(dtype=r.naive.dtype),
        2 * a.n,
        recall(t.naive, t.good, r.k),
        recall(t.bias_aware, t.good, r.k),
        disputed.right,
        disputed.wrong,
        good[0] * (1 - good[1]),
        good[1] * (1 - good[0]),
    )


def decided(drawn: Drawn, rules: Rules) -> tuple[Float[Array, "rules K"], Float[Array, "rules K"]]:
    """Share of label sets on which each of `Rules.names` enables, and mean labels bought."""
    critical = {level: critical_values(level, rules.n_anchors[-1]) for level in rules.alpha}
    rates = []
    for name, alpha in rules.names:
        if alpha is not None and name == "sign_sequential":
            level = rules.alpha.index(alpha)
            enabled, used = drawn.stopped[level], drawn.used_stopped[level]
        else:
            used = drawn.used
            numbers = {"margin": rules.margin, "bought": used, "share": rules.margin_share}
            counts = drawn.right, drawn.wrong
            enabled = decide(name, *counts, critical=critical[alpha] if alpha else None, **numbers)
        rates.append((enabled.mean(0, dtype=used.dtype), used.mean(0)))
    enable_rate, labels_used = map(jnp.stack, zip(*rates, strict=True))
    return enable_rate, labels_used
