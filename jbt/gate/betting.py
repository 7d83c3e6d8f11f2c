"""A test by betting that bias-aware is right on no more than half: valid whenever one stops.

Every discordant label is a bet at odds that are fair if the hypothesis holds just so. Wealth begins
at 1 and, under the hypothesis, is a nonnegative supermartingale: the chance that it ever reaches
1 / alpha is at most alpha (Ville's inequality), so labels may be bought one at a time and the
buying stopped at any moment.

Without replacement the fair odds depend on the labels so far: of D disputed pairs of which at most
half are right, with s right among n seen, at most D / 2 - s of the other D - n are. Waudby-Smith
and Ramdas (2024), "Estimating means of bounded random variables by betting", section 5; the bets
are the logarithm-optimal ones of a Bernoulli outcome, at a guess of its mean.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt.types import ScalarLike, container

GUESS, WORTH = 0.75, 2.0
"""The share right guessed before any label, and how many labels that guess is worth. Any values
give a valid test; these spend few labels where three quarters are right."""

MOST = 0.95
"""Of the wealth, what a bet may lose: never all, from which there is no recovery."""

NEVER = 1e-6
"""A mean of the hypothesis below this is taken for this."""


@container
class Wealth:
    """What betting on discordant labels has come to."""

    wealth: Float[Array, ""]
    n: Float[Array, ""]
    """Outcomes seen."""
    total: Float[Array, ""]
    """Their sum."""


def start(dtype: jnp.dtype) -> Wealth:
    """Before the first label."""
    return Wealth(jnp.ones((), dtype), jnp.zeros((), dtype), jnp.zeros((), dtype))


def bet(before: Wealth, outcome: ScalarLike, population: ScalarLike = jnp.inf) -> Wealth:
    """One more discordant label.

    Args:
      before: wealth so far.
      outcome: 1 where bias-aware is right, 0 where naive is, 1/2 where the two contents are tied in
        quality.
      population: D, from how many disputed pairs labels are drawn without replacement; infinite if
        with replacement. All of them count, drawn or not, and those tied in quality.

    Returns:
      Wealth after it; infinite where more than half of the population has been right.
    """
    endless = jnp.isinf(population)
    # The hypothesis' mean of the next label is at most `right / left`.
    left = jnp.where(endless, 2, population - before.n)
    right = jnp.where(endless, 1, population / 2 - before.total)
    right = jnp.clip(right, NEVER * left, left)
    # (guess - mean) / (mean (1 - mean)) times the mean, in fewer divisions: what a loss costs.
    worth = before.n + WORTH
    ahead = (before.total + GUESS * WORTH) * left - right * worth
    at_risk = jnp.clip(ahead / (worth * jnp.maximum(left - right, NEVER)), 0, MOST)
    total = before.total + outcome
    wealth = before.wealth * (1 + at_risk * (outcome * left / right - 1))
    wealth = jnp.where(total > population / 2, jnp.inf, wealth)
    return Wealth(wealth, before.n + 1, total)


def wealth(outcomes: Float[Array, " n"], population: ScalarLike = jnp.inf) -> Float[Array, " n"]:
    """Wealth after each of a sequence of discordant labels, as `bet`. Its largest value's inverse,
    at most 1, is a p-value valid at every stopping time."""

    def step(state: Wealth, outcome: Array) -> tuple[Wealth, Array]:
        after = bet(state, outcome, population)
        return after, after.wealth

    return jax.lax.scan(step, start(outcomes.dtype), outcomes)[1]
