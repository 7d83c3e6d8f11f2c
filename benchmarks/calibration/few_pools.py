"""Coverage of the intervals of `jbt.stats` for a mean gain over few pools: those that tables print,
and others.

Gains are differences of recall, multiples of 1/5 for a top five, drawn from simulated pools of the
crossing experiment; a normal distribution is there for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.calibration import Cell
from jbt import stats
from jbt.simulation.simulate import simulate
from sweeps import crossing

SIZES = (3, 5, 8, 10, 29, 30, 100)
POOLS = 20_000
"""Simulated pools that studies are drawn from (count)."""
TOGETHER = 250
"""Studies whose pools are resampled together."""


def gains(rho: float, bias: float, pools: int = POOLS) -> np.ndarray:
    """[pools] top-5 recall, bias-aware minus naive, in the default scenario."""
    s = crossing.Crossing(bias=bias, rho=(rho,))
    results = simulate(s.experiment, s.conditions(), pool_ids=range(pools))
    gain = results["bias_aware_recall"] - results["naive_recall"]
    return np.round(np.asarray(gain[:, 0], float) * s.k) / s.k


def ends(studies: np.ndarray, *, seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Method -> low, high [studies] of its 95 % interval; NaN where there is none.

    Args:
      studies: [studies, n] a gain a pool.
    """
    by_method: dict[str, list[np.ndarray]] = {"printed": [], "percentile": [], "BCa": []}
    for i in range(0, len(studies), TOGETHER):
        chunk = studies[i : i + TOGETHER]
        for name, interval in (
            ("printed", stats.mean_interval),
            ("percentile", stats.percentile_interval),
            ("BCa", stats.bca_interval),
        ):
            by_method[name].append(np.stack(interval(chunk, seed=seed + i)[1:]))
    return {name: tuple(np.concatenate(v, axis=1)) for name, v in by_method.items()}


def cells(studies: int, seed: int) -> Iterator[Cell]:
    rng = np.random.default_rng(seed)
    populations = {
        "normal": rng.normal(size=1_000_000),
        "gains of mean 0.22 (c* = 1, rho = 0)": gains(0.0, 1.0),
        "gains of mean 0.01 (c* = 1, rho = 0.42)": gains(0.42, 1.0),
        "gains of mean 0.34 (c* = 1.78, rho = 0)": gains(0.0, 1.78),
    }
    for name, values in populations.items():
        mean = 0.0 if name == "normal" else float(values.mean())
        for n in SIZES:
            drawn = values[rng.integers(0, len(values), (studies, n))]
            for method, (low, high) in ends(drawn, seed=seed).items():
                defined = np.isfinite(low)
                covers = (low <= mean + 1e-12) & (high >= mean - 1e-12)
                printed = method == "printed"
                yield Cell(
                    "mean gain in a sweep's table (jbt.stats.mean_interval)"
                    if printed
                    else f"mean gain by {method} bootstrap, for comparison",
                    f"{name}, {n} pools",
                    studies,
                    int(defined.sum()),
                    int(covers[defined].sum()),
                    median_width=float(np.median((high - low)[defined]))
                    if defined.any()
                    else np.nan,
                    note=(
                        "pools all alike, and fewer than 5, have none; multiples of 1/5 are far "
                        "from normal in 5 pools"
                        if printed
                        else "not printed of fewer than 30 pools"
                    ),
                    may_miss=not printed,
                )
