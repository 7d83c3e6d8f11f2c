"""Draw how time grows with the size of a problem.

    python -m benchmarks.speed scaling --json speed.json
    python -m benchmarks.speed.scaling speed.json docs/figures/scaling.svg

A title says how many times as long the largest size takes as the one before it. Prints for each
kind of problem the exponent of its growth: the slope of log time against log size between the two
largest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from jbt.experiments import plots

KINDS = {
    "n": ("items of a pool", "a fit"),
    "covariates": ("covariates", "a fit"),
    "count": ("problems", "the crossing"),
    "budget": ("verdicts of a run", "an active run"),
    "rows": ("verdicts", "a leaderboard"),
}
"""What grows, by the argument of a side: the axis, and what is timed."""


def main(measured: str, out: str) -> None:
    """Draw a file of `benchmarks.speed scaling --json`."""
    cases = [c for c in json.loads(Path(measured).read_text())["cases"] if c["group"] == "scaling"]
    figure, panels = plots.facets(len(KINDS), width=4.4, height=2.8)
    for ax, (size, (axis, what)) in zip(panels, KINDS.items(), strict=True):
        alike = [c for c in cases if size == next(name for name in KINDS if name in c["each"][0])]
        sides = [s for c in alike for s in c["sides"].values() if "failed" not in s]
        x = np.array([side[size] for side in sides])
        costs = np.array([[turn["seconds"] for turn in side["rounds"]] for side in sides])
        if size != "count":  # of one problem
            costs = costs / [[side.get("count", 1)] for side in sides]
        middle, low, high = np.median(costs, 1), costs.min(1), costs.max(1)
        slope = np.diff(np.log(middle[-2:]))[0] / np.diff(np.log(x[-2:]))[0]
        memory = max(side["rounds"][-1]["megabytes"] for side in sides)
        print(f"{what}, {axis} {x[0]:,} to {x[-1]:,}: exponent {slope:.2f}, {memory:,.0f} MB")
        ax.errorbar(x, middle, [middle - low, high - middle], marker="o", capsize=3, color="black")
        ax.set(xscale="log", yscale="log", xlabel=axis, ylabel="seconds (bars: all rounds)")
        more = f"with {x[-1]:,} {axis} as with {x[-2]:,}"
        longer = f"{what.capitalize()} takes {middle[-1] / middle[-2]:.2g} times as long"
        ax.set_title(f"{longer}\n{more}", fontsize=10)
        ax.set_xticks(x, [f"{value:,}" for value in x])
        ax.set_xticks([], minor=True)
    plots.save(figure, Path(out), kind=out.rsplit(".")[-1])


if __name__ == "__main__":
    main(*sys.argv[1:])
