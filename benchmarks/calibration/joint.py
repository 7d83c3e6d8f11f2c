"""`jbt fit --joint`: a biased judge beside one whose biases are known to be zero."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from benchmarks.calibration import Cell
from benchmarks.calibration._pools import Setting, cell, chunks, draw, fitted, judged, pooled

PLAIN = Setting(pools=40, contents=5, twice=0, corr=0.5)

CHANGES: list[tuple[Setting, float, float]] = [
    *(
        (dataclasses.replace(PLAIN, sd=sd, corr=corr), 1.0, 1.0)
        for sd in (0.4, 1.0, 2.5)
        for corr in (0.0, 0.5, 0.8)
    ),
    (dataclasses.replace(PLAIN, c=0.0), 0.0, 1.0),
    (PLAIN, 0.3, 1.0),
    (PLAIN, 1.0, 0.5),
    (PLAIN, 1.0, 2.0),
    (dataclasses.replace(PLAIN, c_sd=0.3), 1.0, 1.0),
    (dataclasses.replace(PLAIN, c_sd=0.5), 1.0, 1.0),
    (dataclasses.replace(PLAIN, unequal=True), 1.0, 1.0),
    (dataclasses.replace(PLAIN, pools=12), 1.0, 1.0),
    (dataclasses.replace(PLAIN, pools=12, twice=2), 1.0, 1.0),
    (dataclasses.replace(PLAIN, pools=100), 1.0, 1.0),
]
"""Settings, with the discriminations of the judge and of the one that is trusted."""


def _words(of: Setting, judge: float, trusted: float) -> str:
    said = of.words
    if not judge:
        return said + ", a deaf judge (c = 0, its verdicts heed position alone)"
    for name, s in (("judge", judge), ("trusted judge", trusted)):
        said += f", discrimination of the {name} {s:g}" * (s != 1)
    return said


def cells(studies: int, seed: int) -> Iterator[Cell]:
    for number, (of, s, s_trusted) in enumerate(CHANGES):
        rng = np.random.default_rng([seed, number])
        truths = {
            "c": (0, of.c),
            "kappa": (2, of.kappa),
            "slope of quality": (4, s_trusted * of.sd * of.corr),
            "discrimination": (5, s / s_trusted),
        }
        found: dict[str, list[Cell]] = {name: [] for name in truths}
        for some in chunks(studies, of.pools):
            pools = draw(rng, of, some)
            c = of.c + of.c_sd * rng.normal(size=some * of.pools)
            verdicts = [
                judged(rng, pools, c, of.kappa, s),
                judged(rng, pools, 0.0, 0.0, s_trusted),
            ]
            top, parts = fitted(pools, verdicts, n_known=1)
            for name, (place, truth) in truths.items():
                interval = f"`jbt fit --joint`: {name}"
                found[name].append(
                    cell(interval, _words(of, s, s_trusted), top, parts, place, truth)
                )
        yield from map(pooled, found.values())
