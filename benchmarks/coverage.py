"""Does a 95 % interval of a mean gain cover it in 95 % of studies of a few pools?

    python -m benchmarks.coverage [STUDIES]

Draws studies of 3, 5, 10 and 30 pools, 4,000 of each unless told otherwise, and counts how often
the intervals of `jbt.stats` hold the true mean: percentile bootstrap, BCa bootstrap, Student's t,
and the exact paired permutation test turned round (the mean is covered where the differences from
it are not significant). Gains are what recall gives, multiples of 1/5 for a top five, drawn from
simulated pools of the crossing experiment; a normal distribution stands beside them. An interval
that does not exist, of pools all alike, covers nothing.

The share covered is printed with its own 95 % interval, of the studies drawn.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import ttest_1samp

from jbt import stats
from jbt.simulate import simulate
from sweeps import crossing

STUDIES = 4000
SIZES = (3, 5, 10, 30)
POOLS = 20_000
"""Simulated pools that studies are drawn from (count)."""
TOGETHER = 250
"""Studies whose pools are resampled alike."""


def gains(rho: float, bias: float, pools: int = POOLS) -> np.ndarray:
    """[pools] top-5 recall, bias-aware minus naive, in the default scenario."""
    s = crossing.Settings(bias=bias)
    experiment = crossing.full_matrix(s.n_items, s.covariate, s.pool)
    found = simulate(experiment, crossing.conditions(s, (rho,)), pool_ids=range(pools))
    gain = found["bias_aware_recall"] - found["naive_recall"]
    return np.round(np.asarray(gain[:, 0], float) * s.k) / s.k


def covered(studies: np.ndarray, mean: float, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Method -> [studies] whether its 95 % interval holds the mean.

    Args:
      studies: [studies, n] a gain a pool.
    """
    out: dict[str, list[np.ndarray]] = {"percentile": [], "BCa": [], "t": [], "exact": []}
    for i in range(0, len(studies), TOGETHER):
        some = studies[i : i + TOGETHER]
        alike = np.ptp(some, axis=-1) == 0
        t = ttest_1samp(np.where(alike[:, None], np.arange(some.shape[1]), some), 0, axis=-1)
        limits = t.confidence_interval(0.95)
        intervals = {
            "percentile": stats.mean_interval(some, seed=seed + i)[1:],
            "BCa": stats.bca_interval(some, seed=seed + i)[1:],
            "t": (np.where(alike, np.nan, limits.low), np.where(alike, np.nan, limits.high)),
        }
        for name, (low, high) in intervals.items():
            out[name].append((low <= mean + 1e-12) & (high >= mean - 1e-12))
        out["exact"].append(stats.paired_permutation(some - mean, seed=seed + i) > 0.05)
    return {name: np.concatenate(parts) for name, parts in out.items()}


def main() -> None:
    n_studies = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES
    rng = np.random.default_rng(0)
    populations = {
        "normal": rng.normal(size=1_000_000),
        "gains, c* = 1, rho = 0": gains(0.0, 1.0),
        "gains, c* = 1, rho = 0.42": gains(0.42, 1.0),
        "gains, c* = 1.78, rho = 0": gains(0.0, 1.78),
    }
    print(f"{'population':26s} {'mean':>6s} {'sd':>5s} {'pools':>5s}", end="")
    print("".join(f"{name:>22s}" for name in ("percentile", "BCa", "t", "exact")))
    for name, values in populations.items():
        mean = 0.0 if name == "normal" else float(values.mean())
        for n in SIZES:
            studies = values[rng.integers(0, len(values), (n_studies, n))]
            row = f"{name:26s} {mean:6.3f} {values.std():5.3f} {n:5d}"
            for held in covered(studies, mean).values():
                share, low, high = (float(v) for v in stats.share_interval(held.astype(float)))
                row += f"{share:8.3f} [{low:.3f}, {high:.3f}]"
            print(row, flush=True)


if __name__ == "__main__":
    main()
