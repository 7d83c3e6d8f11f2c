"""Coverage of the prior-free intervals for c of one pool: that of the profile likelihood, which
`jbt identify` prints, and Wald's, which `identifiability.estimate_bias` also returns.

Ten contents, some rendered twice (`pools.paired`); a judge of bias 1 and position 0.3. The
intervals assume nothing about quality, so its spread and its correlation with the covariate must
not matter. Separated verdicts, and pools without a content rendered twice, have no interval.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from benchmarks.calibration import Cell
from jbt import identifiability, runtime
from jbt.simulation import judges, pairs, pools
from jbt.types import Judge, Status

CONTENTS, BIAS = 10, 1.0
MOST = 600
"""Studies in a cell: a fit takes some milliseconds."""
SETTINGS = [
    *((sd, rho, 4, 1.0) for sd in (0.4, 1.0, 2.5) for rho in (0.0, 0.5, 0.8)),
    *((1.0, 0.5, n, 1.0) for n in (0, 1, 10)),
    *((sd, 0.5, 4, share) for sd in (0.4, 1.0, 2.5) for share in (0.5, 0.25)),
    (1.0, 0.5, 1, 0.25),
]
"""Quality's standard deviation (logits), its correlation with the covariate, contents rendered
twice, share of the ordered pairs that is judged."""


def study(key: Key[Array, ""], sd: Array, rho: Array, n_twice: Array, share: Array):
    """One pool's estimate: the ends of both intervals, and the status."""
    a, b, c = jax.random.split(key, 3)
    pool = pools.paired(a, CONTENTS, n_twice=n_twice, sd=sd, rho=rho, spread=1.0)
    every = pairs.every_pair(pool)
    shown = every * (jax.random.uniform(b, every.shape) < share)
    p = judges.verdict_probability(pool, Judge(jnp.full(1, BIAS), 0.3))
    estimate = identifiability.estimate_bias(judges.fresh_comparisons(c, p, shown), pool.design)
    return estimate.low, estimate.high, estimate.wald_low, estimate.wald_high, estimate.status


def cells(studies: int, seed: int) -> Iterator[Cell]:
    n = min(studies, MOST)
    with runtime.precision("float64"):
        run = jax.jit(jax.vmap(study, in_axes=(0, None, None, None, None)))
        for number, (sd, rho, n_twice, share) in enumerate(SETTINGS):
            keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), number), n)
            setting = map(jnp.asarray, (sd, rho, n_twice, share))
            low, high, *wald, status = map(np.asarray, jax.device_get(run(keys, *setting)))
            defined = status == Status.CONVERGED
            words = f"quality sd {sd:g}, corr {rho:g}, {n_twice} of {CONTENTS} twice"
            words += "" if share == 1 else f", {share:.0%} of the pairs"
            for name, ends in (("profile likelihood", (low, high)), ("Wald", wald)):
                covers = (ends[0] <= BIAS) & (ends[1] >= BIAS)
                printed = name != "Wald"
                yield Cell(
                    f"jbt identify: c of one pool, {name}" + ", for comparison" * (not printed),
                    words,
                    n,
                    int(defined.sum()),
                    int(covers[defined].sum()),
                    median_width=float(np.median((ends[1] - ends[0])[defined]))
                    if defined.any()
                    else np.nan,
                    note=_note(printed, defined.mean()),
                    may_miss=not printed or share < 1,
                )


def _note(printed: bool, share: float) -> str:
    if not printed:
        return "jbt identify does not print it"
    approximate = "with few verdicts a profile interval is approximate"
    reason = "; the command prints why a pool has no estimate (flat, separated)"
    return approximate + (reason if share < 1 else "")
