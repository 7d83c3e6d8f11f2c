"""Speed and memory of jbt, with alternatives beside it in turn.

    python -m benchmarks.speed [NAME ...] [--json FILE] [--repeats 5]

NAME is a group of cases.toml (fit, crossing, active, picks, leaderboard, study, scaling,
first_wait, device); default all groups but device, which has as many problems as a GPU needs. Each
side of a case runs in a process of its own, which first compiles and warms up; then all sides run
in turn, once a round, on one core. Machines drift from day to day, the ratios within a round less.

A line of the table says of a side how many problems a run has; the time a problem and its ratio to
that of the first side, median and range over the rounds; how far the answers are from exact ones
(rms and largest), or else their mean with its standard error, and how many problems failed; seconds
until the first answers, with compiling; the largest memory of its process. A side that cannot run
says why, and the rest goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed import worker


def read_cases() -> list[dict[str, Any]]:
    """All cases of cases.toml, each with its group."""
    groups = tomllib.loads(Path(__file__).with_name("cases.toml").read_text())
    return [
        {
            "group": group,
            **case,
            "name": case["name"].format(**given),
            "sides": {name: {**given, **side} for name, side in case["sides"].items()},
        }
        for group, cases in groups.items()
        for case in cases
        for given in case.get("each", [{}])
    ]


def measure(sides: dict[str, dict[str, Any]], repeats: int) -> dict[str, dict[str, Any]]:
    """Run the sides of a case in turn, each in a process of its own.

    Returns:
      Name of the side -> its arguments; turns, what its warm-up and each round cost (`worker.turn`;
      a side called exact has no rounds); answers, how good they are; or why it failed.
    """
    rows: dict[str, dict[str, Any]] = {name: {**side, "turns": []} for name, side in sides.items()}
    answers: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        spawn = multiprocessing.get_context("spawn")
        processes = {name: stack.enter_context(ProcessPoolExecutor(1, spawn)) for name in sides}
        for number in range(1 + repeats):
            for name, process in processes.items():
                if number and (name == "exact" or "failed" in rows[name]):
                    continue
                try:
                    turn = process.submit(worker.turn, **sides[name]).result()
                except Exception as error:
                    rows[name]["failed"] = repr(error)
                else:
                    answers.setdefault(name, turn.pop("answers", None))
                    rows[name]["turns"].append(turn)
    for name, found in answers.items():
        if found is not None:
            rows[name]["answers"] = summary(found, answers.get("exact"))
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
    yield f"\n{case['name']}, seconds a {case['unit']}"
    base = None
    for name, row in rows.items():
        count = row.get("count", 1)
        start = f"  {name:28s} {count:>8,g}"
        if "failed" in row:
            yield f"{start}  {row['failed']}"
            continue
        first, *rounds = row["turns"]
        costs = np.array([turn["seconds"] for turn in rounds or [first]]) / count
        base = costs if base is None else base
        ratio = ranged(costs / base) if len(base) == len(costs) else "-"
        answers = ", ".join(f"{k} {v:.3g}" for k, v in row.get("answers", {}).items() if v)
        yield (
            f"{start} {ranged(costs):>30s} {ratio:>24s}  {answers:36s}"
            f" {first['seconds']:6.1f} s {row['turns'][-1]['megabytes']:8,.0f} MB"
        )


def ranged(values: np.ndarray) -> str:
    """Median and range."""
    return f"{np.median(values):.3g} ({values.min():.3g} to {values.max():.3g})"


def main() -> None:
    cases = read_cases()
    groups = list(dict.fromkeys(case["group"] for case in cases))
    parser = argparse.ArgumentParser(
        "python -m benchmarks.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if unknown := set(options.names) - set(groups):
        parser.error(f"no group is called {' or '.join(unknown)}")
    if options.json and options.json.exists():
        parser.error(f"{options.json} exists: choose another file")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    document: dict[str, Any] = {
        "versions": {name: version(name) for name in ("jax", "numpy", "scipy")},
        "cases": [],
    }
    for case in cases:
        if case["group"] in (options.names or groups[:-1]):
            rows = measure(case["sides"], options.repeats)
            print(*table(case, rows), sep="\n", flush=True)
            document["cases"].append({**case, "sides": rows})
            if options.json:
                options.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
