"""Promises of plans: `plan pairing` and `plan reference` promise the half-width of an interval for
c, `plan prompts` the chance of a significant difference.

A promised median is kept if half of the intervals from simulated verdicts are no wider, a promised
range of pools if it holds 90 % of them. `plan gate` has the intervals of `jbt replay`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.stats import t

from benchmarks.calibration import Cell, claim, grid, kept
from jbt import identifiability, planning
from jbt.estimators import reference
from jbt.simulation import judges, pairs, pools
from jbt.types import Judge, Status

N = 16
"""Contents of a pool with a reference (count)."""
N_REFERENCE = [5, 10, 20, 45]
"""Verdicts of the reference (count)."""


def half_width(estimate: identifiability.BiasEstimate) -> Array:
    """Half-width of an estimate's interval; infinite where there is none."""
    defined = estimate.status == Status.CONVERGED
    return jnp.where(defined, (estimate.high - estimate.low) / 2, jnp.inf)


def promised(half_widths: np.ndarray, planned: np.ndarray) -> Iterator[Cell]:
    """Cells of a promised median, and of a promised range of 90 % of the pools."""
    low, middle, high = np.quantile(planned, [0.05, 0.5, 0.95], method="higher")
    # A forecast of verdicts that do not exist yet.
    miss = "a planned half-width is approximate"
    fields: Any = {"median_width": float(np.median(half_widths)), "miss": miss}
    yield kept("median half-width", half_widths <= middle, nominal=0.5, **fields)
    held = (half_widths >= low) & (half_widths <= high)
    yield kept("half-widths of 90 % of pools", held, nominal=0.9, **fields)


@jax.jit
def beside(keys, n):
    """Half-width of the interval for c with n verdicts of a reference about random pairs, and the
    half-width that `plan reference` promises."""

    def one(key):
        a, b, c, d = jax.random.split(key, 4)
        pool, cheap = pools.gaussian(a, N, sd=1.2), Judge(jnp.ones(1), 0.0)
        every = pairs.every_pair(pool)
        comparisons = judges.reveal(judges.frozen_draw(b, pool, cheap), every)
        trusted = judges.frozen_draw(d, pool, Judge(jnp.zeros(1), 0.0))
        shown = judges.reveal(trusted, reference.asked(c, every, n))
        panel = reference.beside(comparisons, shown)
        variant = reference.joint_variant(panel, pool.design)
        estimate = identifiability.estimate_bias(panel, pool.design, judge=0, variant=variant)
        expected = planning.expected_half_width_beside(pool, cheap, panel)
        realised = planning.realised_over_expected(pool, cheap, panel, N_REFERENCE[-1])
        return half_width(estimate), expected * realised

    return jax.vmap(one)(keys)


@claim("`jbt plan reference`", grid(verdicts=N_REFERENCE))
def plan_reference(rng, studies, verdicts):
    """Random pairs of 16 contents shown to a reference."""
    keys = jax.random.split(jax.random.key(rng.integers(2**31)), studies)
    yield from promised(*jax.device_get(beside(keys, jnp.asarray(float(verdicts)))))


@claim(
    "`jbt plan pairing`",
    grid(verdicts=[2000, 400], twice=4)
    + grid(verdicts=400, twice=1)
    + grid(verdicts=100, twice=10),
)
def plan_pairing(rng, studies, verdicts, twice):
    """`twice`: how many of ten contents are rendered twice."""

    @jax.jit
    @jax.vmap
    def widths(key):
        a, b, c = jax.random.split(key, 3)
        pool = pools.paired(a, 10, n_twice=twice, spread=1.0)
        shown = pairs.choose(b, pool, verdicts)
        p = judges.verdict_probability(pool, Judge(jnp.ones(1), 0.0))
        comparisons = judges.fresh_comparisons(c, p, shown)
        return half_width(identifiability.estimate_bias(comparisons, pool.design))

    seed = int(rng.integers(2**31))
    half = jax.device_get(widths(jax.random.split(jax.random.key(seed), studies)))
    plan = planning.PairingPlan(
        n_contents=10,
        budget=verdicts,
        n_twice=(twice,),
        max_repeats=1e6,
        pools=studies,
        seed=seed + 1,
    ).run()["comparisons"]["all"]
    ends = [plan[f"half_width{end}"][0] for end in ("_5_percent", "", "_95_percent")]
    yield from promised(half, np.repeat(ends, [1, 18, 1]))


@claim("`jbt plan prompts`", grid(prompts=[(10, 20), (30, 30), (30, 90), (100, 100)]))
def plan_prompts(rng, studies, prompts):
    """The chance that the plan gives for a number of prompts, at the true difference and for one as
    uncertain as today's prompts leave it; and whether its range holds the number that the true
    difference takes. The range is infinite where no number looked at is enough.

    `prompts`: today's, and more. The difference of two models, uniform within 2 logits, is a mean
    of one number a prompt, the influence of its verdicts, with sd 2 and the tails of t with 5.
    """
    (today, more), quantile = prompts, 0.975
    truth = rng.uniform(-2, 2, studies)
    noise = 2 * rng.standard_t(5, (studies, today + more)) / np.sqrt(5 / 3)
    values = truth[:, None] + noise
    (d, variance), (total, total_variance) = (
        (v.mean(1), v.var(1, ddof=1) / v.shape[1]) for v in (values[:, :today], values)
    )
    significant = total > t.ppf(quantile, today + more - 1) * np.sqrt(total_variance)
    for name, given in (("the true difference", truth), ("one as uncertain as today's", np.nan)):
        chance = planning.power(more, given, d, variance, today - 1, today, quantile)
        for low, high in ((0.2, 0.5), (0.5, 0.8), (0.8, 0.95)):
            these = (low < chance) & (chance <= high)
            yield kept(
                f"chance of {low:g} to {high:g} for {name}",
                significant[these],
                nominal=round(float(chance[these].mean()), 3),
                miss="ten prompts say little of how much prompts differ" * (today == 10),
            )
    half = t.ppf(quantile, today - 1) * np.sqrt(variance)
    fewest, needed, most = (
        np.vectorize(planning.more_prompts)(end, d, variance, today - 1, today)
        for end in (d + half, truth, d - half)
    )
    held = (fewest <= needed) & (needed <= most)
    yield kept("range of prompts", held, one_sided=True)
