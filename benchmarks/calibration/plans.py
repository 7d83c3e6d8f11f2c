"""Promises of plans: `plan pairing` and `plan reference` promise the half-width of an interval for
c, `plan prompts` the chance of a significant difference.

A promised median is kept if half of the intervals from simulated verdicts are no wider, a promised
range of pools if it holds 90 % of them. `plan gate` has the intervals of `jbt replay`.
"""

from __future__ import annotations

from collections.abc import Iterator

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


def promised(
    plan: str, setting: str, half_widths: np.ndarray, planned: np.ndarray, more: str = ""
) -> Iterator[Cell]:
    """Cells of a promised median, and of a promised range of 90 % of the pools."""
    low, middle, high = np.quantile(planned, [0.05, 0.5, 0.95], method="higher")
    median = float(np.median(half_widths))
    # A forecast of verdicts that do not exist yet.
    fields = {"median_width": median, "miss": f"promised {middle:.3g}, got {median:.3g}{more}"}
    held = half_widths <= middle
    yield kept(f"{plan}: median half-width", setting, held, nominal=0.5, **fields)
    held = (half_widths >= low) & (half_widths <= high)
    yield kept(f"{plan}: half-widths of 90 % of pools", setting, held, nominal=0.9, **fields)


@jax.jit
def beside(keys, n):
    """Half-width of the interval for c with n verdicts of a reference about random pairs; the
    half-width that `plan reference` promises; and the one from the information at the truth."""

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
        return half_width(estimate), expected * realised, expected

    return jax.vmap(one)(keys)


@claim("`jbt plan`", grid(verdicts=N_REFERENCE), name="plans")
def plan_reference(run, verdicts):
    """`jbt plan reference`: random pairs shown to a reference."""
    keys = jax.random.split(run.key, run.studies)
    half, planned, expected = jax.device_get(beside(keys, jnp.asarray(float(verdicts))))
    setting = f"{verdicts} random pairs of {N} contents"
    note = f"; by the information alone {np.median(expected):.3g}"
    yield from promised("jbt plan reference", setting, half, planned, note)


@claim("", grid(design=[(2000, 4), (400, 4), (400, 1), (100, 10)]), name="plans")
def plan_pairing(run, design):
    """`jbt plan pairing`; `design`: verdicts, and how many of ten contents are rendered twice."""
    budget, twice = design

    @jax.jit
    @jax.vmap
    def widths(key):
        a, b, c = jax.random.split(key, 3)
        pool = pools.paired(a, 10, n_twice=twice, spread=1.0)
        shown = pairs.choose(b, pool, budget)
        p = judges.verdict_probability(pool, Judge(jnp.ones(1), 0.0))
        comparisons = judges.fresh_comparisons(c, p, shown)
        return half_width(identifiability.estimate_bias(comparisons, pool.design))

    key = jax.random.fold_in(jax.random.key(run.seed), 100 + run.number)
    half = jax.device_get(widths(jax.random.split(key, run.studies)))
    plan = planning.PairingPlan(
        n_contents=10,
        budget=budget,
        n_twice=(twice,),
        max_repeats=1e6,
        pools=run.studies,
        seed=run.seed,
    ).run()["comparisons"]["all"]
    ends = [plan[f"half_width{end}"][0] for end in ("_5_percent", "", "_95_percent")]
    setting = f"{budget} verdicts, {twice} of 10 twice"
    yield from promised("jbt plan pairing", setting, half, np.repeat(ends, [1, 18, 1]))


@claim("", grid(prompts=[(10, 20), (30, 30), (30, 90), (100, 100)]), name="plans")
def plan_prompts(run, prompts):
    """`jbt plan prompts`: the chance it gives for a number of prompts, at the true difference and
    for one as uncertain as today's prompts leave it; and whether its range holds the number that
    the true difference takes.

    `prompts`: today's, and more. The difference of two models is a mean of one number a prompt, the
    influence of its verdicts, with sd 2 and the tails of t with 5.
    """
    (today, more), rng, quantile = prompts, run.rng, 0.975
    truth = rng.uniform(-2, 2, run.studies)
    noise = 2 * rng.standard_t(5, (run.studies, today + more)) / np.sqrt(5 / 3)
    values = truth[:, None] + noise
    (d, variance), (total, total_variance) = (
        (v.mean(1), v.var(1, ddof=1) / v.shape[1]) for v in (values[:, :today], values)
    )
    significant = total > t.ppf(quantile, today + more - 1) * np.sqrt(total_variance)
    setting = f"{today} prompts and {more} more, true differences uniform within 2 logits"
    for name, given in (("the true difference", truth), ("one as uncertain as today's", np.nan)):
        chance = planning.power(more, given, d, variance, today - 1, today, quantile)
        for low, high in ((0.2, 0.5), (0.5, 0.8), (0.8, 0.95)):
            these = (low < chance) & (chance <= high)
            yield kept(
                f"jbt plan prompts: chance of a significant difference, for {name}",
                f"{setting}, planned chance {low:g} to {high:g}",
                significant[these],
                nominal=round(float(chance[these].mean()), 3),
                miss="ten prompts say little of how much prompts differ" * (today == 10),
            )
    half = t.ppf(quantile, today - 1) * np.sqrt(variance)
    fewest, needed, most = (
        np.vectorize(planning.more_prompts)(end, d, variance, today - 1, today)
        for end in (d + half, truth, d - half)
    )
    yield kept(
        "jbt plan prompts: range of prompts",
        setting,
        (fewest <= needed) & (needed <= most),
        one_sided=True,
        note="infinite where no number looked at is enough; whole numbers often coincide",
    )
