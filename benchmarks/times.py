"""How long each sweep takes, kept in sweeps/times.csv, from which a run says it beforehand.

    JBT_DATA=FOLDER python -m benchmarks.times RESULTS [NAME ...]

Each sweep named, default all, runs with no program kept: `--preset smoke`, and `full` with a few
pools. This runs once more with its programs kept: the CPU seconds between the two are compiling.
How long all of `full` takes stands in its finished run in the folder RESULTS or, if that has none,
beside the tables kept in docs/results.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

from benchmarks import timing
from benchmarks.compile import HERE, measure
from jbt.experiments import times
from sweeps.report import kept
from sweeps.report.runs import record_of, sweep_names, sweep_of

FILE = HERE / "sweeps" / "times.csv"
COLUMNS = ("sweep", "compile_seconds", "run_seconds", "fits", "smoke_seconds")
POOLS = 8
"""Enough for every program of `full`, and few beside its compiling."""
TAKES_ALL = ("alpaca_eval", "llmbar", "real_judges", "several_judges")
"""Sweeps over recorded verdicts, whose pools are counted otherwise."""


def whole_seconds(name: str, results: Path) -> float:
    """Seconds of a sweep's `full` preset.

    Raises:
      ValueError: it is finished nowhere.
    """
    if (results / name / "results.nc").is_file():
        return record_of(name, results / name)["seconds"]
    if name not in (records := kept.read_provenance()):
        raise ValueError(f"no finished run of {name} in {results} or {kept.KEPT}")
    return records[name]["seconds"]


def row_of(name: str, results: Path, scratch: Path) -> dict[str, str]:
    """A sweep's row of times.csv."""
    sweep = sweep_of(name)
    few = [] if name in TAKES_ALL else ["--pools", str(POOLS)]

    def cpu(*words: str, out: str, cache: str) -> float:
        words = (f"sweeps.{name}", *words, "--out", str(scratch / out))
        return measure(list(words), HERE, scratch / cache, scratch)["cpu"]

    cold, again = (cpu(*few, out=out, cache="full") for out in ("cold", "again"))
    smoke = cpu("--preset", "smoke", out="smoke", cache="smoke")
    run = max(whole_seconds(name, results) - (cold - again), 1.0)
    work = times.fits(sweep.groups(sweep.presets["full"].decided()))
    numbers = cold - again, run, work, smoke
    return dict(zip(COLUMNS, (name, *(f"{v:.3g}" for v in numbers)), strict=True))


def main(arguments: list[str]) -> None:
    results, *names = arguments
    print(timing.header("How long sweeps take", ("jax", "jaxlib", "numpy")))
    rows = {}
    if FILE.is_file():
        with FILE.open(encoding="utf-8", newline="") as file:
            rows = {row["sweep"]: row for row in csv.DictReader(file)}
    for name in names or sweep_names():
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = row_of(name, Path(results), Path(folder))
        print(*rows[name].values(), flush=True)
        with FILE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *(rows[n].values() for n in sorted(rows))])


if __name__ == "__main__":
    main(sys.argv[1:])
