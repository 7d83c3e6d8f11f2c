"""Coverage of the regions of judges (`jbt.twins.regions`): studies of the paper's size by a member
of a region, and whether the region of what such a study prints holds that judge.

Only studies whose naive estimates correlate with elaboration within the printed range are counted,
as the region assumes that. Judges in the middle of a region, and one near its edge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from benchmarks.calibration import Cell
from jbt.simulation.judges import GATED, PUBLISHED
from jbt.simulation.simulate import simulate
from jbt.twins import regions

POOLS = 4096
"""Simulated pools that studies are drawn from (count)."""
SEARCHED = 288
"""Pools of each judge in the last round of a search (count)."""
MEMBERS = {0: "the best member", 5: "member 5"}


def cells(studies: int, seed: int) -> Iterator[Cell]:
    low, high = regions.NAIVE_CORRELATION
    for name in GATED:
        target, members = PUBLISHED[name], regions.read()[name]
        for at, words in MEMBERS.items():
            member = members[at]
            parameters = np.array([[getattr(member, p) for p in regions.BOUNDS]])
            conditions = regions.conditions(parameters)
            seen = simulate(regions.observed(), conditions, range(POOLS))["observed"][:, 0]
            rng = np.random.default_rng(seed)
            means = seen[rng.integers(POOLS, size=(studies, target.pools))].mean(1)
            means = means[(means[:, 4] >= low) & (means[:, 4] <= high)]
            covered = 0
            for c, kappa, naive, aware in np.round(means[:, :4], 2).tolist():
                printed = dataclasses.replace(
                    target, c_hat=c, kappa_hat=kappa, naive_recall=naive, bias_aware_recall=aware
                )
                covered += bool(regions.misfits(seen[None, :SEARCHED], printed)[0] <= regions.LIMIT)
            yield Cell(
                "region of judges (jbt.twins.regions)",
                f"{name}, {target.pools} pools: {words}",
                len(means),
                len(means),
                covered,
                one_sided=True,
                note="few pools: recalls are far from normal",
            )
