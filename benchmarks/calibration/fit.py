"""`jbt fit`: c and kappa of a judge over its pools, and a pool's own kappa and qualities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.calibration import Cell
from benchmarks.calibration._pools import Setting, cell, chunks, draw, fitted, judged, pooled

C, ALIKE = "`jbt fit`: c", "where the test that it is the same in all pools is silent"
UNLIKE = (
    "an average over unlike pools is drawn towards 0; the report says so where the test finds it"
)

GRID = [
    *(Setting(sd=sd, corr=corr) for sd in (0.4, 1.0, 2.5) for corr in (0.0, 0.5, 0.8)),
    *(
        replace(Setting(corr=0.5), **change)
        for change in (
            {"c_sd": 0.3},
            {"c_sd": 0.5},
            {"paired_pools": 0.5},
            {"paired_pools": 0.5, "c_sd": 0.3},
            {"paired_pools": 0.25},
            {"unequal": True},
            {"unequal": True, "c_sd": 0.3},
            {"apart": 0.02},
            {"pools": 1, "contents": 12, "twice": 6},
            {"pools": 4},
            {"pools": 6, "c_sd": 0.3},
            {"pools": 40},
            {"pools": 40, "c_sd": 0.3},
            {"pools": 80, "contents": 5, "twice": 1},
            {"pools": 100, "unequal": True, "c_sd": 0.3},
            {"pools": 40, "c_sd": 0.5},
            {"pools": 100, "c_sd": 0.5},
            {"pools": 40, "c_sd": 1.0},
        )
    ),
]


def cells(studies: int, seed: int) -> Iterator[Cell]:
    for number, of in enumerate(GRID):
        rng = np.random.default_rng([seed, number])
        c, silent, kappa = [], [], []
        note = UNLIKE if of.c_sd >= 0.5 else ""
        for some in chunks(studies, of.pools):
            pools = draw(rng, of, some)
            spread = of.c + of.c_sd * rng.normal(size=some * of.pools)
            top, parts = fitted(pools, [judged(rng, pools, spread, of.kappa)])
            c.append(cell(f"{C} over all pools", of.words, top, parts, 0, of.c))
            silent.append(cell(f"{C}, {ALIKE}", of.words, top, parts, 0, of.c, alike=True))
            kappa.append(cell("`jbt fit`: kappa over all pools", of.words, top, parts, 1, of.kappa))
        yield replace(pooled(c), note=note, may_miss=bool(note))
        yield replace(pooled(silent), note=note, may_miss=bool(note))
        yield pooled(kappa)
