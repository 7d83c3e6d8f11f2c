"""Times of a live study: asks and tells as it grows, opening a long journal, and memory.

python -m benchmarks.study
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import timing
from jbt import own, runtime
from jbt.own.studies.journal import Journal

SIZES = (30, 100, 300)
VERDICTS = 400
BATCH = 16
LONG = 10_000
"""Answers of the journal that is opened."""


def items(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"item": [f"m{i}" for i in range(n)], "words": rng.integers(20, 400, n)})


def memory() -> float:
    """Most memory that this process has used, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def live(folder: Path, n: int, batch: int) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Seconds of the first ask, of every later one and of every tell; growth of memory, MB."""
    rng = np.random.default_rng(1)
    study = own.Study.open(folder, items(n), k=5, covariates=["words"], budget=VERDICTS, level=1.0)
    asks, tells, before = [], [], 0.0
    while True:
        begin = time.perf_counter()
        queries = study.ask(batch)
        asks.append(time.perf_counter() - begin)
        if not queries:
            break
        for query in queries:
            begin = time.perf_counter()
            study.tell(query.id, "first" if rng.random() < 0.5 else "second")
            tells.append(time.perf_counter() - begin)
        if len(asks) == 3:
            before = memory()
    return asks[0], np.array(asks[1:-1]), np.array(tells), memory() - before


def long_journal(folder: Path) -> float:
    """Seconds to open a study with `LONG` answers."""
    n = 120
    own.Study.open(folder, items(n), k=5, covariates=["words"], budget=10**6, repeats="fresh")
    rng, records = np.random.default_rng(2), []
    for number in range(1, LONG + 1):
        first, second = (f"m{i}" for i in rng.choice(n, 2, replace=False))
        pair = {"id": number, "pool": "all", "first": first, "second": second}
        records.append({"event": "ask", **pair, "picked": True, "until": 0.0})
        records.append({"event": "tell", **pair, "winner": "first", "cost": 1.0, "time": 0.0})
    journal = Journal(folder)
    list(journal.news())
    journal.append(records)
    begin = time.perf_counter()
    study = own.Study.open(folder)
    seconds = time.perf_counter() - begin
    assert study.n_told == LONG
    return seconds


def main() -> None:
    runtime.start()
    print(timing.header("a live study", ("jax", "numpy")))
    print(f"{VERDICTS} verdicts, both orders, refit after each; ms: median (largest)")
    for n in SIZES:
        for batch in (1, BATCH):
            with tempfile.TemporaryDirectory() as folder:
                first, asks, tells, growth = live(Path(folder, "study"), n, batch)
            times = [f"{np.median(v) * 1e3:.1f} ({v.max() * 1e3:.1f})" for v in (asks, tells)]
            print(
                f"N = {n:3d}, ask({batch:2d}): first {first:.1f} s, then {times[0]}; "
                f"tell {times[1]}; memory +{growth:.0f} MB"
            )
    with tempfile.TemporaryDirectory() as folder:
        print(f"open a journal of {LONG:,} answers: {long_journal(Path(folder, 'study')):.2f} s")


if __name__ == "__main__":
    main()
