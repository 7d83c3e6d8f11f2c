"""How long each sweep takes, kept in sweeps/times.csv, from which a run says it beforehand.

    JBT_DATA=FOLDER python -m benchmarks.times RESULTS [NAME ...]

For each sweep named, default all, on an idle machine: seconds to trace and compile all programs of
`full`, and of a whole run of `--preset smoke`, with no program kept. How long all of `full` takes
stands in its finished run in the folder RESULTS or, if that has none, beside the tables kept in
docs/results.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import timing
from benchmarks.compile import HERE, measure
from jbt import runtime
from jbt.experiments import times
from jbt.experiments.declare import Group
from jbt.simulation.simulate import Simulation
from sweeps.report import kept
from sweeps.report.runs import record_of, sweep_names, sweep_of

FILE = HERE / "sweeps" / "times.csv"
COLUMNS = ("sweep", "compile_seconds", "run_seconds", "fits", "smoke_seconds")


def compile_seconds(groups: Sequence[Group], dtype: str) -> float:
    """Seconds of making a program of each group; nothing is simulated."""
    begin = time.perf_counter()
    for group in groups:
        simulation = Simulation(
            group.experiment, group.conditions, range(1), data=group.data, dtype=dtype
        )
        simulation.under(group.conditions)
    return time.perf_counter() - begin


def smoke_seconds(name: str) -> float:
    """Seconds of a sweep's smoke preset."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        words = [f"sweeps.{name}", "--preset", "smoke", "--out", str(scratch / "out")]
        return measure(words, HERE, scratch / "cache", scratch)["wall"]


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


def row_of(name: str, results: Path) -> dict[str, str]:
    """A sweep's row of times.csv."""
    sweep = sweep_of(name)
    groups = sweep.at("full").decided().groups()
    compiling = compile_seconds(groups, settings.dtype)
    run = max(whole_seconds(name, results) - compiling, 1.0)
    numbers = compiling, run, times.fits(groups), smoke_seconds(name)
    return dict(zip(COLUMNS, (name, *(f"{v:.3g}" for v in numbers)), strict=True))


@runtime.defaults()
def main(arguments: list[str]) -> None:
    results, *names = arguments
    os.environ["JBT_CACHE"] = "off"
    runtime.start()
    print(timing.header("How long sweeps take", ("jax", "jaxlib", "numpy")))
    rows = {}
    if FILE.is_file():
        with FILE.open(encoding="utf-8", newline="") as file:
            rows = {row["sweep"]: row for row in csv.DictReader(file)}
    for name in names or sweep_names():
        rows[name] = row_of(name, Path(results))
        print(*rows[name].values(), flush=True)
        with FILE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *(rows[n].values() for n in sorted(rows))])


if __name__ == "__main__":
    main(sys.argv[1:])
