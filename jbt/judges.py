"""How a judge answers: verdict probabilities, a frozen oracle, fresh draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.types import Comparisons, Judge, Pool, ScalarLike


def verdict_logits(pool: Pool, judge: Judge) -> Float[Array, "N N"]:
    """Log-odds that the judge prefers the first shown, for every ordered pair [Eq. 1 with
    the true coefficients, quality times the judge's discrimination].

    Raises:
      ValueError: not one bias for each covariate.
    """
    d = pool.design
    if judge.bias.shape != (d.n_covariates,):
        raise ValueError(f"bias must be [{d.n_covariates}], got shape {judge.bias.shape}")
    phi = judge.discrimination * d.of_items(pool.quality) + (d.covariates * judge.bias).sum(-1)
    return phi[:, None] - phi[None, :] + judge.position


def verdict_probability(pool: Pool, judge: Judge) -> Float[Array, "N N"]:
    """Probability that the judge prefers the first shown, for every ordered pair."""
    return jax.nn.sigmoid(verdict_logits(pool, judge))


def every_pair(pool: Pool) -> Float[Array, "N N"]:
    """One showing of every ordered pair of different real items: the full design."""
    m = pool.design.item_mask
    n = pool.design.n_items
    return (m[:, None] & m & ~jnp.eye(n, dtype=bool)).astype(pool.design.dtype)


def within_contents(pool: Pool) -> Float[Array, "N N"]:
    """One showing of every ordered pair of different renderings of the same content. They tell c
    and kappa, and nothing about quality."""
    d = pool.design
    owner = jnp.arange(d.n_items) if d.content is None else d.content
    return every_pair(pool) * (owner[:, None] == owner)


def across_contents(pool: Pool) -> Float[Array, "N N"]:
    """One showing of every ordered pair of items with different contents."""
    return every_pair(pool) - within_contents(pool)


WITHIN_SHARE = {"all": None, "across": 0.0, "within": 1.0, "mixed": 0.5}
"""Choice of comparisons -> share of the budget spent between two renderings of one content; None is
the share that these pairs have among all ordered pairs."""


def natural_share(pool: Pool) -> Float[Array, ""]:
    """Share of the ordered pairs that show two renderings of one content."""
    return within_contents(pool).sum() / every_pair(pool).sum()


def choose(
    key: Key[Array, ""], pool: Pool, budget: ScalarLike, within_share: ScalarLike | None = None
) -> Float[Array, "N N"]:
    """How often each ordered pair is shown if a budget of verdicts is spread over the pool.

    Args:
      key: PRNG key, consumed.
      budget: verdicts; may be traced, as the share may.
      within_share: share of the budget spent between two renderings of one content, see
        `WITHIN_SHARE`; what is left goes across contents. All of it does where no content is
        rendered twice.

    Raises:
      ValueError: a share outside 0..1, if it is not traced.
    """
    share = natural_share(pool) if within_share is None else within_share
    if not isinstance(share, Tracer) and not 0 <= float(share) <= 1:
        raise ValueError(f"within_share must lie in 0..1, got {share}")
    within = within_contents(pool)
    spent = jnp.where(within.sum() > 0, jnp.round(share * budget), 0)
    one, two = jax.random.split(key)
    rest = spread_evenly(two, across_contents(pool), budget - spent)
    return spread_evenly(one, within, spent) + rest


def spread_evenly(
    key: Key[Array, ""], pairs: Float[Array, "N N"], budget: ScalarLike
) -> Float[Array, "N N"]:
    """A budget of verdicts spread over some ordered pairs, as evenly as whole verdicts can be:
    what is left after full rounds goes to pairs drawn without replacement.

    Args:
      key: PRNG key, consumed.
      pairs: [N, N] above 0 for the pairs that may be shown.
      budget: verdicts, a whole number; may be traced. Nothing is shown where no pair may be.
    """
    allowed = pairs > 0
    n = jnp.maximum(allowed.sum(), 1)
    rounds = jnp.floor(budget / n)
    left = (budget - rounds * n).astype(int)
    lot = jnp.where(allowed, jax.random.uniform(key, pairs.shape), 2)
    cut = jnp.where(left > 0, jnp.sort(lot.ravel())[left - 1], -1)
    return jnp.where(allowed, rounds + (lot <= cut), 0).astype(pairs.dtype)


def frozen_draw(key: Key[Array, ""], pool: Pool, judge: Judge) -> Bool[Array, "N N"]:
    """A frozen oracle: one Bernoulli verdict of every ordered pair, to be asked for as often
    as one likes. True where the first shown wins. The uniforms depend on the key alone, so
    that judges and conditions are paired."""
    p = verdict_probability(pool, judge)
    return jax.random.uniform(key, p.shape, p.dtype) < p


def frozen_argmax(
    key: Key[Array, ""], pool: Pool, judge: Judge, *, pair_noise: ScalarLike = 0.0
) -> Bool[Array, "N N"]:
    """A frozen oracle that answers with its more probable verdict, as open-weight judges do.

    `pair_noise` is the standard deviation, in logits, of a Gaussian preference that belongs
    to the unordered pair (+e with i first, -e with j first): what the judge thinks of these
    two answers beyond quality, covariates and position. An exact tie goes to the second.
    """
    z = verdict_logits(pool, judge)
    e = jnp.triu(jax.random.normal(key, z.shape, z.dtype), 1)
    return z + pair_noise * (e - e.T) > 0


def reveal(oracle: Bool[Array, "N N"], shown: Float[Array, "N N"]) -> Comparisons:
    """The counts after showing each ordered pair `shown` times to a frozen oracle."""
    return Comparisons(shown, shown * oracle)


def fresh_verdict(
    key: Key[Array, ""],
    probability: Float[Array, "N N"],
    first: Int[Array, ""],
    second: Int[Array, ""],
) -> Bool[Array, ""]:
    """A new draw at every query: True if the first shown wins."""
    return jax.random.uniform(key, (), probability.dtype) < probability[first, second]


def fresh_comparisons(
    key: Key[Array, ""], probability: Float[Array, "N N"], shown: Float[Array, "N N"]
) -> Comparisons:
    """The counts after showing each ordered pair `shown` times, a new draw at every query:
    wins are Binomial(shown, probability)."""
    wins = jax.random.binomial(key, shown, probability, dtype=probability.dtype)
    return Comparisons(shown, wins)
