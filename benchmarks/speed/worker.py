"""Runs one side of a case in a process of its own, which `__main__` starts."""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LEAST_SECONDS = 0.2
"""A shorter run is repeated within its turn."""

prepared: list[Callable[[], Any]] = []
"""What the process runs in each turn, once it is prepared."""


def turn(run: str, **arguments: Any) -> dict[str, Any]:
    """Run a side as in cases.toml once more.

    Returns:
      seconds of a run; at first those of preparing and compiling, too, and the answers; and the
      most megabytes that this process or one it started has used so far.
    """
    begin, runs, out = time.perf_counter(), 0, {}
    if not prepared:
        module, function = run.split(".")
        prepare = getattr(importlib.import_module(f"benchmarks.speed.{module}"), function)
        prepared.append(prepare(**arguments))
        answers, runs = prepared[0](), 1
        out = {"answers": None if answers is None else np.asarray(answers, float)}
    while not runs or (not out and time.perf_counter() - begin < LEAST_SECONDS):
        prepared[0]()
        runs += 1
    seconds = (time.perf_counter() - begin) / runs
    processes = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    most = max(resource.getrusage(who).ru_maxrss for who in processes)
    return {"seconds": seconds, "megabytes": most / 1024, **out}
