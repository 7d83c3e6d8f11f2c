"""`jbt fit --joint`: a biased judge together with one whose biases are known to be zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.calibration import Cell
from benchmarks.calibration._pools import Pools, Setting, cell, chunks, draw, fitted, judged, pooled
from benchmarks.calibration.fit import UNLIKE


@dataclass(frozen=True)
class Two:
    """Studies with a judge and a trusted judge."""

    pools: Setting
    s: float = 1.0
    """The judge's discrimination."""
    s_trusted: float = 1.0
    pairs: int | None = None
    """Pairs in each pool that the trusted judge saw once, in a random order (count); None: all, in
    both orders."""

    @property
    def words(self) -> str:
        """The setting in words."""
        words = self.pools.words
        if not self.s:
            return (
                words + ", a judge of discrimination 0 (c = 0, verdicts depend on position alone)"
            )
        for name, s in (("judge", self.s), ("trusted judge", self.s_trusted)):
            words += f", discrimination of the {name} {s:g}" * (s != 1)
        if self.pairs is not None:
            words += f", {self.pairs} trusted pairs a pool"
        return words


FEW = 0.25
"""Below this share, the studies that print an interval are a selection."""

PLAIN = Setting(pools=40, contents=5, twice=0, corr=0.5)

GRID = [
    *(Two(replace(PLAIN, sd=sd, corr=corr)) for sd in (0.4, 1.0, 2.5) for corr in (0.0, 0.5, 0.8)),
    Two(replace(PLAIN, c=0.0), s=0.0),
    Two(PLAIN, s=0.3),
    Two(PLAIN, s_trusted=0.5),
    Two(PLAIN, s_trusted=2.0),
    Two(replace(PLAIN, c_sd=0.3)),
    Two(replace(PLAIN, c_sd=0.5)),
    Two(replace(PLAIN, unequal=True)),
    Two(replace(PLAIN, pools=12)),
    Two(replace(PLAIN, pools=12, twice=2)),
    Two(replace(PLAIN, pools=100)),
    Two(PLAIN, pairs=3),
    Two(replace(PLAIN, pools=12), pairs=3),
    Two(replace(PLAIN, pools=60, contents=3), pairs=1),
    Two(replace(PLAIN, pools=100, c_sd=0.5)),
    Two(replace(PLAIN, c_sd=1.0)),
]


def _note(name: str, setting: Two, printed: float) -> str:
    """Why an interval may miss its target; empty if it must not."""
    if name == "c" and setting.pools.c_sd >= 0.5:
        return UNLIKE
    if name == "discrimination" and setting.s / setting.s_trusted == 2:
        return "at one standard deviation of its prior, which is centred on 1"
    # Few studies print one: those with a small estimate of the discrimination.
    if name in ("c", "discrimination") and printed < FEW:
        return "few studies print it; in most the discrimination is partly the prior's"
    return ""


def _few(rng: np.random.Generator, pools: Pools, pairs: int | None) -> np.ndarray | None:
    """[F, N, N] how often the trusted judge was shown each pair; None: as often as the judge."""
    if pairs is None:
        return None
    score = np.where(pools.shown > 0, rng.random(pools.shown.shape), 1)
    score = np.where(score < score.swapaxes(1, 2), score, 1)  # one of the two orders
    last = np.sort(score.reshape(len(score), -1))[:, pairs - 1]
    return (score <= last[:, None, None]).astype(float)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    for number, two in enumerate(GRID):
        rng, s = np.random.default_rng([seed, number]), two.pools
        truths = {
            "c": (0, s.c),
            "kappa": (2, s.kappa),
            "slope of quality": (4, two.s_trusted * s.sd * s.corr),
            "discrimination": (5, two.s / two.s_trusted),
        }
        if s.twice:  # the slope is that on the mean of two renderings, which varies less
            del truths["slope of quality"]
        by_name: dict[str, list[Cell]] = {name: [] for name in truths}
        for chunk in chunks(studies, s.pools):
            pools = draw(rng, s, chunk)
            c = s.c + s.c_sd * rng.normal(size=chunk * s.pools)
            verdicts = [
                judged(rng, pools, c, s.kappa, two.s),
                judged(rng, pools, 0.0, 0.0, two.s_trusted, _few(rng, pools, two.pairs)),
            ]
            top, parts = fitted(pools, verdicts, n_known=1)
            for name, (place, truth) in truths.items():
                interval = f"`jbt fit --joint`: {name}"
                by_name[name].append(cell(interval, two.words, top, parts, place, truth))
        for name, cells_ in by_name.items():
            total = pooled(cells_)
            note = _note(name, two, total.printed / total.studies)
            yield replace(total, note=note, may_miss=bool(note))
