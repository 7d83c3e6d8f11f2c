"""`jbt fit --joint`: a biased judge beside one whose biases are known to be zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.calibration import Cell
from benchmarks.calibration._pools import Pools, Setting, cell, chunks, draw, fitted, judged, pooled


@dataclass(frozen=True)
class Two:
    """Studies with a judge and one that is trusted."""

    pools: Setting
    s: float = 1.0
    """The judge's discrimination."""
    s_trusted: float = 1.0
    pairs: int | None = None
    """Pairs in each pool that the trusted one saw once, in some order (count); None: all, in
    both."""

    @property
    def words(self) -> str:
        said = self.pools.words
        if not self.s:
            return said + ", a deaf judge (c = 0, its verdicts heed position alone)"
        for name, s in (("judge", self.s), ("trusted judge", self.s_trusted)):
            said += f", discrimination of the {name} {s:g}" * (s != 1)
        if self.pairs is not None:
            said += f", {self.pairs} trusted pairs a pool"
        return said


FEW = 0.25
"""Share of studies that print an interval below which they are a selection."""

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


def _note(name: str, of: Two, printed: float) -> str:
    """What is said of intervals that may miss their target."""
    if name == "c" and of.pools.c_sd >= 0.5:
        return (
            "an average over unlike pools is drawn towards 0; the report says so where it finds it"
        )
    if name == "discrimination" and of.s / of.s_trusted == 2:
        return "at one standard deviation of its prior, which is centred on 1"
    # Few studies print one, and they are those whose discrimination came out small.
    if name in ("c", "discrimination") and printed < FEW:
        return "few print it; most call the discrimination partly the prior's"
    return ""


def _few(rng: np.random.Generator, pools: Pools, pairs: int | None) -> np.ndarray | None:
    """[F, N, N] how often the trusted one was shown each pair; None: as the judge."""
    if pairs is None:
        return None
    score = np.where(pools.shown > 0, rng.random(pools.shown.shape), 1)
    score = np.where(score < score.swapaxes(1, 2), score, 1)  # one of the two orders
    last = np.sort(score.reshape(len(score), -1))[:, pairs - 1]
    return (score <= last[:, None, None]).astype(float)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    for number, of in enumerate(GRID):
        rng, at = np.random.default_rng([seed, number]), of.pools
        truths = {
            "c": (0, at.c),
            "kappa": (2, at.kappa),
            "slope of quality": (4, of.s_trusted * at.sd * at.corr),
            "discrimination": (5, of.s / of.s_trusted),
        }
        if at.twice:  # the slope is that on the mean of two renderings, which varies less
            del truths["slope of quality"]
        found: dict[str, list[Cell]] = {name: [] for name in truths}
        for some in chunks(studies, at.pools):
            pools = draw(rng, at, some)
            c = at.c + at.c_sd * rng.normal(size=some * at.pools)
            verdicts = [
                judged(rng, pools, c, at.kappa, of.s),
                judged(rng, pools, 0.0, 0.0, of.s_trusted, _few(rng, pools, of.pairs)),
            ]
            top, parts = fitted(pools, verdicts, n_known=1)
            for name, (place, truth) in truths.items():
                one = cell(f"`jbt fit --joint`: {name}", of.words, top, parts, place, truth)
                found[name].append(one)
        for name, some in found.items():
            every = pooled(some)
            note = _note(name, of, every.printed / every.studies)
            yield replace(every, note=note, may_miss=bool(note))
