"""How long each sweep takes, kept in sweeps/times.csv, from which a run says it beforehand.

    JBT_DATA=FOLDER python -m benchmarks.times [NAME ...]

For each sweep named, default all, on an idle machine: seconds to trace and compile all programs of
`full`, and of a whole run of `--preset smoke`, with no program kept. How long all of `full` takes
stands beside the tables kept in docs/results.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jbt import runtime
from jbt.experiments import times
from jbt.experiments.work import Work
from sweeps.report import kept
from sweeps.report.runs import sweep_names, sweep_of

HERE = Path(__file__).resolve().parents[1]
FILE = HERE / "sweeps" / "times.csv"
COLUMNS = ("sweep", "compile_seconds", "run_seconds", "fits", "smoke_seconds")


def smoke_seconds(name: str) -> float:
    """Seconds of a sweep's smoke preset."""
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", f"sweeps.{name}", "--preset", "smoke", "--out", folder]
        begin = time.perf_counter()
        subprocess.run(run, cwd=HERE, check=True, capture_output=True)
        return time.perf_counter() - begin


def row_of(name: str) -> list[str]:
    """A sweep's row of times.csv."""
    sweep = sweep_of(name).at("full").decided()
    work, begin = Work(sweep), time.perf_counter()
    for name_of_group in work.groups:
        work.simulation(name_of_group).compile()  # once where groups share a program
    compiling = time.perf_counter() - begin
    running = max(kept.read_provenance()[name]["seconds"] - compiling, 1.0)
    numbers = compiling, running, times.fits([*work.groups.values()]), smoke_seconds(name)
    return [name, *(f"{v:.3g}" for v in numbers)]


@runtime.defaults()
def main(*names: str) -> None:
    os.environ["JBT_CACHE"] = "off"
    runtime.start()
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = {row[0]: row for row in csv.reader(file)}
    for name in names or sweep_names():
        rows[name] = row_of(name)
        print(*rows[name], flush=True)
        with FILE.open("w", encoding="utf-8", newline="") as file:
            sweeps = (rows[n] for n in sorted(rows.keys() - {COLUMNS[0]}))
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *sweeps])


if __name__ == "__main__":
    main(*sys.argv[1:])
