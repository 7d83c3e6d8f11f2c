"""Speed and memory of jbt, with alternatives beside it in turn.

    python -m benchmarks.speed [NAME ...] [--json FILE] [--repeats 5] [--old CHECKOUT]

NAME is a group (fit, crossing, active, picks, leaderboard, study, memory, scaling, first_wait,
compiling, device) or a case of one; default all groups but compiling and device, which has as many
problems as a GPU needs. Each side of a case runs in a process of its own, which first compiles and
warms up; then all sides run in turn, once a round, on one core (`--cores`). Machines drift from day
to day, the ratios within a round less. With `--repeats 0` the run that compiles is what is
measured.

A line of the table says of a side how many problems a run has; the time a problem and its ratio to
that of the first side, median and range over the rounds; how far the answers are from exact ones
(rms and largest), or else their mean with its standard error, and how many problems failed; seconds
of compiling and compiled programs; the largest memory of its process. A side that cannot run says
why, and the rest goes on.

With `--old` the first side of each case also runs with the jbt of another checkout (`git worktree
add CHECKOUT REVISION`). choix and evalica are optional: `pip install -e '.[reference]'`. arena-rank
pins another JAX: it, scikit-learn and glum need a Python of their own, to be named by
`--arena-rank`, with `pip install arena-rank==0.1.1 scikit-learn glum`. For fit and device jax,
numpy, scipy and the core of jbt suffice.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[2]


def read_cases() -> list[dict[str, Any]]:
    """All cases of cases.toml, each with its group."""
    groups = tomllib.loads(Path(__file__).with_name("cases.toml").read_text())
    return [
        {
            "group": group,
            "measure": "seconds",
            **case,
            "name": case["name"].format(**given),
            "sides": {name: {**given, **side} for name, side in case["sides"].items()},
            "exact": {**given, **case["exact"]} if "exact" in case else None,
        }
        for group, cases in groups.items()
        for case in cases
        for given in case.get("each", [{}])
    ]


class Failed(Exception):
    """A side's process has ended; the last line that it printed."""


@contextlib.contextmanager
def started(side: dict[str, Any], python: str, answers: Path) -> Iterator[Callable[[], Any]]:
    """A process that runs a side.

    Args:
      python: the interpreter.
      answers: the file for its answers.

    Yields:
      A function that has it prepare and run once, later run once more, and returns what that cost;
      raises `Failed`.
    """
    run = [python, "-m", "benchmarks.speed.worker", json.dumps(side), str(answers)]
    options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    options |= {"cwd": HERE, "env": os.environ | {"TMPDIR": str(answers.parent)}}
    log = answers.with_suffix(".log")
    with log.open("w") as stderr, subprocess.Popen(run, stderr=stderr, **options) as worker:

        def turn() -> Any:
            assert worker.stdout
            with contextlib.suppress(BrokenPipeError):
                print(file=worker.stdin, flush=True)
            if line := worker.stdout.readline():
                return json.loads(line)
            raise Failed([f"ended with {worker.wait()}", *log.read_text().splitlines()][-1])

        yield turn


ELSEWHERE = ("peers.arena_rank", "peers.sklearn_leaderboard", "peers.glum_leaderboard")
"""What runs in the Python of `--arena-rank`."""


def measure(case: dict[str, Any], repeats: int, old: Path | None, arena_rank: str) -> Any:
    """Run the sides of a case in turn.

    Args:
      old: another checkout, by whose jbt the first side runs too.
      arena_rank: the Python that has arena-rank.

    Returns:
      Name -> side, with what its warm-up (`first`) and its rounds cost and how good its answers
      are, or with why it failed.
    """
    jobs = dict(case["sides"])
    if old:
        jobs["old"] = {**next(iter(jobs.values())), "root": str(old)}
    if case["exact"]:
        jobs["exact"] = case["exact"]
    rows = {name: {**job, "rounds": []} for name, job in jobs.items()}
    turns = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        files = {name: Path(folder, f"{number}.npy") for number, name in enumerate(jobs)}
        for name, job in jobs.items():
            python = arena_rank if job["run"] in ELSEWHERE else sys.executable
            turns[name] = stack.enter_context(started(job, python, files[name]))
        for number in range(1 + repeats):
            for name, row in rows.items():
                if "failed" not in row and not (name == "exact" and number):
                    try:
                        row["rounds"].append(turns[name]())
                    except Failed as error:
                        row["failed"] = str(error)
        answers = {name: np.load(file) for name, file in files.items() if file.exists()}
    for name, row in rows.items():
        row["first"], row["rounds"] = (row["rounds"] or [{}])[0], row["rounds"][min(repeats, 1) :]
        row["answers"] = summary(answers[name], answers.get("exact")) if name in answers else {}
    rows.pop("exact", None)
    return rows


def summary(answers: np.ndarray, exact: np.ndarray | None) -> dict[str, float]:
    """Errors of answers [count, ...] against the exact ones of the same problems, as many as there
    are; without these the mean of numbers. NaN is a failed problem."""
    failed = np.isnan(answers.reshape(len(answers), -1).sum(1))
    out: dict[str, float] = {"failed": int(failed.sum())}
    if exact is not None:
        common = min(len(answers), len(exact))
        error = np.abs(answers[:common] - exact[:common])[~failed[:common]]
        out |= {"rms": (error**2).mean() ** 0.5, "largest": error.max(initial=0)}
    elif answers.ndim == 1:
        kept = answers[~failed]
        out |= {"mean": kept.mean(), "standard_error": kept.std() / len(kept) ** 0.5}
    return out


def table(case: dict[str, Any], rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines printed of a case."""

    def costs(row: dict[str, Any]) -> np.ndarray:
        return np.array([turn[case["measure"]] for turn in row["rounds"]]) / row.get("count", 1)

    yield f"\n{case['name']}, {case['measure']} a {case['unit']}"
    base = costs(next(iter(rows.values())))
    for name, row in rows.items():
        start = f"  {name:28s} {row.get('count', 1):>8,g}"
        if "failed" in row:
            yield f"{start}  {row['failed']}"
            continue
        first, each = row["first"], costs(row)
        ratio = ranged(each / base) if len(base) == len(each) else "-"
        answers = ", ".join(f"{k} {v:.3g}" for k, v in row["answers"].items() if v)
        yield (
            f"{start} {ranged(each):>30s} {ratio:>24s}  {answers:36s}"
            f" {first['compile_seconds']:6.1f} s {first['programs']:4d}"
            f" {row['rounds'][-1]['megabytes']:8,.0f} MB"
        )


def ranged(values: np.ndarray) -> str:
    """Median and range."""
    return f"{np.median(values):.3g} ({values.min():.3g} to {values.max():.3g})"


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--arena-rank", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    cases = read_cases()
    groups = dict.fromkeys(case["group"] for case in cases)
    names = options.names or [group for group in groups if group not in ("compiling", "device")]
    if unknown := set(names) - {name for c in cases for name in (c["group"], c["name"])}:
        parser.error(f"no group or case is called {' or '.join(unknown)}")
    if options.json and options.json.exists():
        parser.error(f"{options.json} exists: choose another file")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    old = options.old and options.old.resolve()
    document: dict[str, Any] = {"date": f"{datetime.date.today()}", "cores": options.cores}
    document |= {"load": os.getloadavg()[0], "cases": []}
    for case in cases:
        if not {case["group"], case["name"]} & set(names):
            continue
        rows = measure(case, options.repeats, old, options.arena_rank)
        if not document["cases"]:
            print(*next(iter(rows.values()))["first"].get("environment", {}).values(), sep="\n")
        print(*table(case, rows), sep="\n", flush=True)
        document["cases"].append({**case, "sides": rows})
        if options.json:
            options.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
