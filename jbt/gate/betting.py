"""A test by betting that bias-aware is right on at most half, valid at every stopping time.

Every discordant label is a bet at odds that are fair at the edge of the hypothesis. Wealth begins
at 1 and, under the hypothesis, is a nonnegative supermartingale: the chance that it ever reaches
1 / alpha is at most alpha (Ville's inequality), so labels may be bought one at a time and the
buying stopped at any moment.

Without replacement the fair odds depend on the labels so far: if at most half of D disputed pairs
are right, and s of the n seen are, then at most D / 2 - s of the other D - n are. Waudby-Smith and
Ramdas (2024), "Estimating means of bounded random variables by betting", section 5; the bets are
log-optimal for a Bernoulli outcome with a guessed mean.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt.types import ScalarLike, container

GUESS, WORTH = 0.75, 2.0
"""The guessed share of right labels before any is seen, and how many labels that guess counts for.
Any values give a valid test; these spend few labels where three quarters are right."""

MOST = 0.95
"""Largest share of the wealth that a bet may lose: never all, from which there is no recovery."""

NEVER = 1e-6
"""Lower bound on the mean under the hypothesis."""


@container
class Wealth:
    """The state of betting on discordant labels."""

    wealth: Float[Array, ""]
    n: Float[Array, ""]
    """Number of outcomes seen."""
    total: Float[Array, ""]
    """Sum of the outcomes."""


def start(dtype: jnp.dtype) -> Wealth:
    """Wealth before the first label."""
    return Wealth(jnp.ones((), dtype), jnp.zeros((), dtype), jnp.zeros((), dtype))


def bet(before: Wealth, outcome: ScalarLike, population: ScalarLike = jnp.inf) -> Wealth:
    """Wealth after one more discordant label.

    Args:
      before: wealth so far.
      outcome: 1 where bias-aware is right, 0 where naive is, 1/2 where the two contents are tied in
        quality.
      population: D, the number of disputed pairs that labels are drawn from without replacement,
        including pairs already drawn and pairs tied in quality; infinite if with replacement.

    Returns:
      The new state; wealth is infinite where more than half of the population has been right.
    """
    endless = jnp.isinf(population)
    # The hypothesis' mean of the next label is at most `right / left`.
    left = jnp.where(endless, 2, population - before.n)
    right = jnp.where(endless, 1, population / 2 - before.total)
    right = jnp.clip(right, NEVER * left, left)
    # The cost of a loss: (guess - mean) / (mean (1 - mean)) times the mean, with fewer divisions.
    weight = before.n + WORTH
    edge = (before.total + GUESS * WORTH) * left - right * weight
    at_risk = jnp.clip(edge / (weight * jnp.maximum(left - right, NEVER)), 0, MOST)
    total = before.total + outcome
    wealth = before.wealth * (1 + at_risk * (outcome * left / right - 1))
    wealth = jnp.where(total > population / 2, jnp.inf, wealth)
    return Wealth(wealth, before.n + 1, total)


def wealth(outcomes: Float[Array, " n"], population: ScalarLike = jnp.inf) -> Float[Array, " n"]:
    """Wealth after each of a sequence of discordant labels, as in `bet`. The inverse of its largest
    value, at most 1, is a p-value valid at every stopping time."""

    def step(state: Wealth, outcome: Array) -> tuple[Wealth, Array]:
        after = bet(state, outcome, population)
        return after, after.wealth

    return jax.lax.scan(step, start(outcomes.dtype), outcomes)[1]
