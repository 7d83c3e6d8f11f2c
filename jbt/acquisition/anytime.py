"""A stop that holds whatever the prior: tests of single pairs that may be looked at at any time.

A judge asked about i and j in both orders answers twice; the two answers agree on i or on j, or the
judge has followed the order. With log-odds d + kappa that the first shown wins,

    P(both i) / P(both j) = e^(2 d),

whatever kappa is, also if it differs between pairs, and with ties as Davidson has them. Of the
agreeing answers about a pair, w are for i, l for j. The likelihood of p = P(i | agreed), averaged
over values above p0 and divided by that of p0, is an e-process for p <= p0: it exceeds 1 / alpha
with probability alpha at most, at any time, whichever pairs were chosen. With
p0 = 1 / (1 + e^zone) exceeding it shows that j is not better by zone / 2 logits. Of the tests of a
pair at most two are of a true p <= p0, with the zone and without, in the one direction; so the
level of each is alpha / (N (N - 1)), and with probability 1 - alpha none ever errs. A chain of
decisions, two of them with the zone, then shows that its last item is not better than its first by
the zone.

What is found is the judge's own top k, its bias included: no verdicts can tell its bias from
quality. Required are

- fresh answers: independent draws, given the pair, of probabilities that stay; 1, 0 or a tie;
- both orders asked one after the other, whatever the first answer was (`rules.both_orders`);
- log-odds d that are differences of one number an item, as in Bradley-Terry; without a zone it is
  enough that preferences are transitive;
- a pool without padding, each item a competitor of its own.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jbt.acquisition.eprocess import log_evidence
from jbt.acquisition.picks import Queries
from jbt.types import ScalarLike, container


@container
class Evidence:
    """What the verdicts so far show about single pairs."""

    waiting: Float[Array, "N N"]
    """The answer to a pair whose other order is still to come: 1 if the first shown, the row, won,
    -1 if the second did, 0 if they tied."""
    open: Bool[Array, "N N"]
    """Whether an answer waits for its other order."""
    agreed: Float[Array, "N N"]
    """How often both answers preferred the row to the column."""
    strict: Bool[Array, "N N"]
    """Whether the row is shown to be better."""
    nearly: Bool[Array, "N N"]
    """Whether the row is shown to be better, or worse by less than half the zone."""

    @classmethod
    def none(cls, n_items: int, dtype: jnp.dtype) -> Evidence:
        """Before the first verdict."""
        zero = jnp.zeros((n_items, n_items), dtype)
        return cls(zero, zero > 0, zero, zero > 0, zero > 0)


def add_verdicts(
    evidence: Evidence, asked: Queries, *, zone: ScalarLike = 0.0, alpha: ScalarLike = 0.05
) -> Evidence:
    """Add verdicts in the order in which they were asked. An answer that repeats an order whose
    other one is still to come is left out.

    Args:
      zone: logits within which items count as equally good.
      alpha: chance that any pair is ever decided wrongly, in all.
    """
    n = evidence.open.shape[0]
    needed = jnp.log(n * (n - 1) / jnp.asarray(alpha))
    items = jnp.arange(n)

    def one(e: Evidence, query: tuple[Array, Array, Array]):
        first, second, won = query
        here = (items == first)[:, None] & (items == second)
        answer = jnp.sign(won - 0.5)
        completes = (here.T & e.open).any()
        earlier = (here.T * e.waiting).sum()  # of the second item
        # An answer of 1 now is for the first item, which was second before.
        favours = jnp.where(completes & (answer == -earlier), answer, 0)
        agreed = e.agreed + here * (favours > 0) + here.T * (favours < 0)
        pair = here | here.T
        wins, losses = (here * agreed).sum(), (here.T * agreed).sum()

        def decided(zone: ScalarLike) -> Bool[Array, "N N"]:
            p0 = jax.nn.sigmoid(-jnp.asarray(zone, agreed.dtype))
            first_better = log_evidence(wins, losses, p0) >= needed
            return (here & first_better) | (here.T & (log_evidence(losses, wins, p0) >= needed))

        opens = here & ~completes & ~e.open
        return Evidence(
            waiting=jnp.where(opens, answer, jnp.where(pair & completes, 0, e.waiting)),
            open=(e.open | opens) & ~(pair & completes),
            agreed=agreed,
            strict=e.strict | decided(0.0),
            nearly=e.nearly | decided(zone),
        ), None

    return jax.lax.scan(one, evidence, (asked.first, asked.second, asked.won))[0]


def shown_top_set(evidence: Evidence, k: int) -> tuple[Bool[Array, " N"], Bool[Array, ""]]:
    """The k items that most others are shown to be below, and whether every one of them is shown to
    be better than every other item, up to the zone."""
    n = evidence.strict.shape[0]
    reach = evidence.strict | jnp.eye(n, dtype=bool)
    for _ in range((n - 1).bit_length()):
        reach = (reach.astype(jnp.float32) @ reach) > 0
    step = (reach.astype(jnp.float32) @ (evidence.nearly | reach) @ reach) > 0
    nearly = (step.astype(jnp.float32) @ step) > 0
    _, best = jax.lax.top_k(nearly.sum(1), k)
    top = (best[:, None] == jnp.arange(n)).any(0)
    return top, (nearly | ~(top[:, None] & ~top)).all()
