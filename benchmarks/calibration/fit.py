"""`jbt fit`: c and kappa of a judge over all its pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.calibration import Cell
from benchmarks.calibration._pools import Setting, cell, chunks, draw, fitted, judged, pooled

C, ALIKE = "`jbt fit`: c", "where the test for different c in the pools finds nothing"
UNLIKE = (
    "an average over unlike pools is biased towards 0; the report warns where its test finds it"
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
    for number, s in enumerate(GRID):
        rng = np.random.default_rng([seed, number])
        c, alike, kappa = [], [], []
        note = UNLIKE if s.c_sd >= 0.5 else ""
        for chunk in chunks(studies, s.pools):
            pools = draw(rng, s, chunk)
            by_pool = s.c + s.c_sd * rng.normal(size=chunk * s.pools)
            top, parts = fitted(pools, [judged(rng, pools, by_pool, s.kappa)])
            c.append(cell(f"{C} over all pools", s.words, top, parts, 0, s.c))
            alike.append(cell(f"{C}, {ALIKE}", s.words, top, parts, 0, s.c, alike=True))
            kappa.append(cell("`jbt fit`: kappa over all pools", s.words, top, parts, 1, s.kappa))
        yield replace(pooled(c), note=note, may_miss=bool(note))
        yield replace(pooled(alike), note=note, may_miss=bool(note))
        yield pooled(kappa)
