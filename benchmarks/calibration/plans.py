"""Check the promises of plans: `plan pairing` and `plan reference` promise the half-width of an
interval for c, `plan gate` the rate at which a test enables, `plan prompts` the chance of a
significant difference.

A promised median is kept if half of the intervals from simulated verdicts are no wider, a promised
range of pools if it holds 90 % of them. The interval for a rate must hold the rate over all pools,
whatever the rates of single pools.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from scipy.stats import t

from benchmarks.calibration import Cell
from jbt import identifiability, planning, runtime
from jbt.estimators import reference
from jbt.planning import over_pools
from jbt.simulation import judges, pairs, pools
from jbt.types import Judge, Status

N = 16
MOST = 400
"""Studies of a plan of widths: a fit takes some milliseconds."""
N_REFERENCE = (5, 10, 20, 45)
PAIRING = ((10, 2000, 4), (10, 400, 4), (10, 400, 1), (10, 100, 10))
"""Contents, verdicts, contents rendered twice."""
PROMPTS = ((10, 20), (30, 30), (30, 90), (100, 100))
"""Prompts today, and to add."""
PLANNED = 200
"""Pools of a plan of rates (count)."""


def beside(key: Key[Array, ""], n: Array) -> tuple[Array, Array, Array]:
    """Half-width of the interval for c with n verdicts of a reference about random pairs; the
    half-width that `plan reference` promises; and the one from the information at the truth."""
    a, b, c, d = jax.random.split(key, 4)
    pool, cheap = pools.gaussian(a, N, sd=1.2), Judge(jnp.ones(1), 0.0)
    comparisons = judges.reveal(judges.frozen_draw(b, pool, cheap), pairs.every_pair(pool))
    shown = reference.asked(c, pairs.every_pair(pool), n)
    trusted = judges.frozen_draw(d, pool, Judge(jnp.zeros(1), 0.0))
    panel = reference.beside(comparisons, judges.reveal(trusted, shown))
    estimate = identifiability.estimate_bias(
        panel, pool.design, judge=0, variant=reference.joint_variant(panel, pool.design)
    )
    expected = planning.expected_half_width_beside(pool, cheap, panel)
    planned = expected * planning.realised_over_expected(pool, cheap, panel, N_REFERENCE[-1])
    return half_width(estimate), planned, expected


def paired(key: Key[Array, ""], n_contents: int, budget: int, n_twice: int) -> Array:
    """Half-width of the interval for c; infinite where there is none."""
    a, b, c = jax.random.split(key, 3)
    pool = pools.paired(a, n_contents, n_twice=n_twice, spread=1.0)
    shown = pairs.choose(b, pool, budget)
    p = judges.verdict_probability(pool, Judge(jnp.ones(1), 0.0))
    comparisons = judges.fresh_comparisons(c, p, shown)
    return half_width(identifiability.estimate_bias(comparisons, pool.design))


def differences(
    rng: np.random.Generator, studies: int, today: int, more: int, truth: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Difference of two models and its variance [studies], of today's prompts and of all: means of
    one number a prompt, the influence of its verdicts, with sd 2 and the tails of t with 5."""
    noise = 2 * rng.standard_t(5, (studies, today + more)) / np.sqrt(5 / 3)
    values = truth[:, None] + noise
    return tuple(
        v
        for part in (values[:, :today], values)
        for v in (part.mean(1), part.var(1, ddof=1) / part.shape[1])
    )


def prompts(studies: int, seed: int) -> Iterator[Cell]:
    """Cells of `jbt plan prompts`: the chance it gives for a number of prompts, at the true
    difference and for one as uncertain as today's prompts leave it; and whether its range holds the
    number that the true difference takes."""
    for number, (today, more) in enumerate(PROMPTS):
        rng = np.random.default_rng([seed, number])
        truth = rng.uniform(-2, 2, studies)
        d, variance, total, total_variance = differences(rng, studies, today, more, truth)
        quantile = 0.975
        bound = t.ppf(quantile, today + more - 1) * np.sqrt(total_variance)
        significant = total > bound
        setting = f"{today} prompts and {more} more, true differences uniform within 2 logits"
        for name, given in (
            ("the true difference", truth),
            ("one as uncertain as today's", np.nan),
        ):
            chance = planning.power(more, given, d, variance, today - 1, today, quantile)
            for low, high in ((0.2, 0.5), (0.5, 0.8), (0.8, 0.95)):
                these = (low < chance) & (chance <= high)
                yield Cell(
                    f"jbt plan prompts: chance of a significant difference, for {name}",
                    f"{setting}, planned chance {low:g} to {high:g}",
                    int(these.sum()),
                    int(these.sum()),
                    int(significant[these].sum()),
                    nominal=round(float(chance[these].mean()), 3),
                    note="ten prompts say little of how much prompts differ" if today == 10 else "",
                    may_miss=today == 10,
                )
        half = t.ppf(quantile, today - 1) * np.sqrt(variance)
        ends = [
            [planning.more_prompts(v, d_, v_, today - 1, today) for v, d_, v_ in numbers]
            for numbers in (
                list(zip(end, d, variance, strict=True)) for end in (d + half, truth, d - half)
            )
        ]
        fewest, needed, most = np.array(ends)[:, : min(studies, MOST)]
        yield Cell(
            "jbt plan prompts: range of prompts",
            setting,
            len(needed),
            len(needed),
            int(((fewest <= needed) & (needed <= most)).sum()),
            one_sided=True,
            note="infinite where no number looked at is enough; whole numbers often coincide",
        )


def half_width(estimate: identifiability.BiasEstimate) -> Array:
    """Half-width of an estimate's interval; infinite where there is none."""
    defined = estimate.status == Status.CONVERGED
    return jnp.where(defined, (estimate.high - estimate.low) / 2, jnp.inf)


def kept(
    plan: str, setting: str, half_widths: np.ndarray, planned: np.ndarray, note: str
) -> Iterator[Cell]:
    """Cells of a promised median, and of a promised range of 90 % of the pools."""
    low, middle, high = np.quantile(planned, [0.05, 0.5, 0.95], method="higher")
    median = np.median(half_widths)
    both = f"promised {middle:.3g}, got {median:.3g}"
    for name, held, nominal in (
        ("median half-width", half_widths <= middle, 0.5),
        ("half-widths of 90 % of pools", (half_widths >= low) & (half_widths <= high), 0.9),
    ):
        yield Cell(
            f"{plan}: {name}",
            setting,
            len(half_widths),
            len(half_widths),
            int(held.sum()),
            nominal=nominal,
            median_width=float(median),
            note=both + note,
            may_miss=True,  # a forecast of verdicts that do not exist yet
        )


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n = min(studies, MOST)
    root = jax.random.key(seed)
    with runtime.precision("float64"):
        run = jax.jit(jax.vmap(beside, in_axes=(0, None)))
        for number, verdicts in enumerate(N_REFERENCE):
            keys = jax.random.split(jax.random.fold_in(root, number), n)
            half, planned, expected = jax.device_get(run(keys, jnp.asarray(float(verdicts))))
            setting = f"{verdicts} random pairs of {N} contents"
            note = f"; by the information alone {np.median(expected):.3g}"
            yield from kept("jbt plan reference", setting, half, planned, note)
        for number, (contents, budget, n_twice) in enumerate(PAIRING):
            keys = jax.random.split(jax.random.fold_in(root, 100 + number), n)
            run_ = jax.jit(jax.vmap(lambda k, a=(contents, budget, n_twice): paired(k, *a)))
            half = jax.device_get(run_(keys))
            options = {"n_contents": contents, "budget": budget, "n_twice": (n_twice,)}
            plan = planning.PairingPlan(**options, max_repeats=1e9, pools=n, seed=seed).run()
            widths = plan["comparisons"]["all"]
            ends = [widths[f"half_width{end}"][0] for end in ("_5_percent", "", "_95_percent")]
            setting = f"{budget} verdicts, {n_twice} of {contents} twice"
            yield from kept("jbt plan pairing", setting, half, np.repeat(ends, [1, 18, 1]), "")
    yield from prompts(studies, seed)
    rng = np.random.default_rng(seed)
    for name, shape in (("often", (2.0, 0.5)), ("seldom", (0.2, 4.0)), ("half", (1.0, 1.0))):
        for pools_simulated in (10, 30, PLANNED):
            rates = rng.binomial(20, rng.beta(*shape, (studies, pools_simulated))) / 20
            truth = shape[0] / sum(shape)
            _, low, high = np.stack([over_pools(v) for v in rates], -1)
            held = (low <= truth) & (truth <= high)
            yield Cell(
                "jbt plan gate: rate of enabling",
                f"pools that enable {name} (mean {truth:.3g}), {pools_simulated} of them",
                studies,
                studies,
                int(held.sum()),
                one_sided=True,
                median_width=float(np.median(high - low)),
                note="at least 95 %: the interval adds one pool at 0 and one at 1",
            )
