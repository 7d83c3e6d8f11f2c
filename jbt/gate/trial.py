"""Every rule on every kind of label in one pool, over many label sets."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jbt.estimators.reference import Rankings
from jbt.gate.draws import Drawn, Noise, of_members, of_pairs
from jbt.gate.labels import OF_PAIRS, members, recall, tops, urn
from jbt.gate.rules import critical_values, decide
from jbt.types import container


@dataclass(frozen=True)
class Rules:
    """Which rules are tried: those of counts, and the two tests at each level."""

    n_anchors: tuple[int, ...]
    """K, numbers of labels, increasing."""
    alpha: tuple[float, ...] = (0.05,)
    """Levels of the tests."""
    margin: int = 2
    """Of the rule `margin`, labels."""
    sets: int = 100
    """Label sets a pool (count)."""

    @property
    def names(self) -> list[tuple[str, float | None]]:
        """Each rule with its level, None for those without."""
        tests = [(name, a) for name in ("sign", "sign_sequential") for a in self.alpha]
        return [("at_least", None), ("strict", None), ("margin", None), *tests]


@container
class Trial:
    """What came of one pool; axes are kinds of labels (`LABELS`), rules (`Rules.names`) and K."""

    enable_rate: Float[Array, "labels rules K"]
    """Share of the label sets on which a rule enables the correction."""
    labels_used: Float[Array, "labels rules K"]
    """Labels bought, mean over label sets: fewer than K where no more exist, where a test stops, or
    where a content is drawn again."""
    census_rate: Float[Array, ""]
    """Share of label sets on which a `census` enables: 0 or 1 without noise."""
    census_used: Float[Array, ""]
    """Contents that a census labels."""
    naive_recall: Float[Array, ""]
    """Share of k, of a top of exactly k."""
    bias_aware_recall: Float[Array, ""]
    right: Float[Array, ""]
    """Disputed untied pairs on which bias-aware is right."""
    wrong: Float[Array, ""]
    """On which naive is."""
    right_member: Float[Array, ""]
    """Chance that a draw of two members says bias-aware is right, without noise."""
    wrong_member: Float[Array, ""]


def trial(key: Key[Array, ""], r: Rankings, rules: Rules, noise: Noise | None = None) -> Trial:
    """Draw label sets of every kind and decide on each.

    Args:
      key: PRNG key, consumed. Label sets of one key are the same, as far as they can be, whatever
        the rankings.
      r: the two rankings of a pool whose quality is known, one content an item.
      rules: those tried.
      noise: of the labels, default none.
    """
    key_order, key_pairs, key_members = jax.random.split(key, 3)
    order = jax.random.permutation(key_order, r.pool.design.n_contents)
    t = tops(r, order)
    told = {"sets": rules.sets, "alpha": rules.alpha, "noise": noise}
    urns = [urn(r, t, labels) for labels in OF_PAIRS]
    # The same draws for every kind of pairs, so that they can be compared; of swaps there are k^2
    # at most.
    most = {"swaps": r.k**2}
    drawn = [
        of_pairs(jax.random.clone(key_pairs), u, rules.n_anchors, **told, most=most.get(labels))
        for labels, u in zip(OF_PAIRS, urns, strict=True)
    ]
    a, b = members(r, t)
    contents, risen = of_members(key_members, a, b, rules.n_anchors, **told)
    drawn = jax.tree.map(lambda *v: jnp.stack(v), *drawn, contents)
    n = jnp.maximum(a.n, 1)
    good = [jnp.where(jnp.arange(r.k) < v.n, v.good, False).sum() / n for v in (a, b)]
    of_disputed = urns[OF_PAIRS.index("disputed")]
    rates, used = jax.vmap(lambda d: decided(d, rules))(drawn)
    return Trial(
        rates,
        used,
        risen.mean(dtype=r.naive.dtype),
        2 * a.n,
        recall(t.naive, t.good, r.k),
        recall(t.bias_aware, t.good, r.k),
        of_disputed.right,
        of_disputed.wrong,
        good[0] * (1 - good[1]) * (a.n > 0),
        good[1] * (1 - good[0]) * (a.n > 0),
    )


def decided(drawn: Drawn, rules: Rules) -> tuple[Float[Array, "rules K"], Float[Array, "rules K"]]:
    """Share of label sets on which each of `Rules.names` enables, and labels used, their mean."""
    each, used = [], []
    for name, alpha in rules.names:
        if name == "sign_sequential":
            at = rules.alpha.index(alpha)
            each.append(drawn.stopped[at])
            used.append(drawn.used_stopped[at])
        else:
            critical = None if alpha is None else critical_values(alpha, rules.n_anchors[-1])
            counts = drawn.right, drawn.wrong
            each.append(decide(name, *counts, critical=critical, margin=rules.margin))
            used.append(drawn.used)
    dtype = drawn.right.dtype
    return jnp.stack(each).mean(1, dtype=dtype), jnp.stack(used).mean(1)
