"""Speed and memory of jbt, with alternatives beside it in turn.

    python -m benchmarks.speed [NAME ...] [--json FILE] [--repeats 5] [--old CHECKOUT]

NAME is a group of cases.toml (fit, crossing, active, picks, leaderboard, study, scaling,
first_wait, compiling, device) or a case of one; default all groups but compiling and device, which
has as many problems as a GPU needs. Each side of a case runs in a process of its own, which first
compiles and warms up; then all sides run in turn, once a round, on one core. Machines drift from
day to day, the ratios within a round less. With `--repeats 0` the run that compiles is what is
measured.

A line of the table says of a side how many problems a run has; the time a problem and its ratio to
that of the first side, median and range over the rounds; how far the answers are from exact ones
(rms and largest), or else their mean with its standard error, and how many problems failed; seconds
of compiling and compiled programs; the largest memory of its process. A side that cannot run says
why, and the rest goes on.

With `--old` the first side of each case also runs with the jbt of another checkout (`git worktree
add CHECKOUT REVISION`). evalica is optional: `pip install -e '.[reference]'`. arena-rank pins
another JAX: it needs a Python of its own, to be named by `--arena-rank`, with `pip install
arena-rank==0.1.1`. For fit and device jax, numpy, scipy and the core of jbt suffice.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Iterator
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
        }
        for group, cases in groups.items()
        for case in cases
        for given in case.get("each", [{}])
    ]


def measure(case: dict[str, Any], repeats: int, arena_rank: str) -> dict[str, list[dict[str, Any]]]:
    """Run the sides of a case in turn, each in a process of its own.

    Args:
      arena_rank: the Python that has arena-rank.

    Returns:
      Name of the side -> what its warm-up and each round gave (`worker.turns`), the last with why
      it `failed` if it did. A side called exact has no rounds.
    """
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in case["sides"]}
    with contextlib.ExitStack() as stack:
        workers = {}
        for name, side in case["sides"].items():
            python = arena_rank if side["run"] == "peers.arena_rank" else sys.executable
            given = json.dumps({"root": str(HERE), **side})
            workers[name] = stack.enter_context(
                subprocess.Popen(
                    [python, "-m", "benchmarks.speed.worker", given],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd=HERE,
                )
            )
        for number in range(1 + repeats):
            for name, worker in workers.items():
                if number == 0 or (name != "exact" and "failed" not in turns[name][-1]):
                    turns[name].append(next_turn(worker))
    return turns


def next_turn(worker: Any) -> dict[str, Any]:
    """Have a worker run its side once more."""
    try:
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        return pickle.load(worker.stdout)
    except (BrokenPipeError, EOFError):
        return {"failed": f"ended with {worker.wait()}"}


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


def results(
    case: dict[str, Any], turns: dict[str, list[dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Name of the side -> its arguments, what its warm-up (`first`) and its rounds cost and how
    good its answers are, or why it failed."""
    answers = {name: first.pop("answers", None) for name, (first, *_) in turns.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, (first, *rounds) in turns.items():
        row = {**case["sides"][name], "first": first, "rounds": rounds or [first], "answers": {}}
        if answers[name] is not None:
            row["answers"] = summary(answers[name], answers.get("exact"))
        rows[name] = row | {k: v for k, v in turns[name][-1].items() if k == "failed"}
    return rows


def table(case: dict[str, Any], rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines printed of a case."""
    yield f"\n{case['name']}, {case['measure']} a {case['unit']}"
    base = None
    for name, row in rows.items():
        count = row.get("count", 1)
        start = f"  {name:28s} {count:>8,g}"
        if "failed" in row:
            yield f"{start}  {row['failed']}"
            continue
        costs = np.array([turn[case["measure"]] for turn in row["rounds"]]) / count
        base = costs if base is None else base
        ratio = ranged(costs / base) if len(base) == len(costs) else "-"
        answers = ", ".join(f"{k} {v:.3g}" for k, v in row["answers"].items() if v)
        yield (
            f"{start} {ranged(costs):>30s} {ratio:>24s}  {answers:36s}"
            f" {row['first']['compile_seconds']:6.1f} s {row['first']['programs']:4d}"
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
    options = parser.parse_args()
    cases = read_cases()
    groups = dict.fromkeys(case["group"] for case in cases)
    names = options.names or [group for group in groups if group not in ("compiling", "device")]
    if unknown := set(names) - {name for c in cases for name in (c["group"], c["name"])}:
        parser.error(f"no group or case is called {' or '.join(unknown)}")
    if options.json and options.json.exists():
        parser.error(f"{options.json} exists: choose another file")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    document: dict[str, Any] = {"date": f"{datetime.date.today()}", "load": os.getloadavg()[0]}
    document["cases"] = []
    for case in cases:
        if not {case["group"], case["name"]} & set(names):
            continue
        if options.old:
            first = next(iter(case["sides"].values()))
            case["sides"]["old"] = {**first, "root": str(options.old.resolve())}
        rows = results(case, measure(case, options.repeats, options.arena_rank))
        if not document["cases"]:
            print(*next(iter(rows.values()))["first"].get("environment", {}).values(), sep="\n")
        print(*table(case, rows), sep="\n", flush=True)
        document["cases"].append({**case, "sides": rows})
        if options.json:
            options.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
