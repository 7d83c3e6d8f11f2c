"""Runs one side of a case in a process of its own, which `__main__` starts."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pickle
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

LEAST_SECONDS = 0.2
"""A shorter run is repeated within its turn."""


def main(side: str) -> None:
    """At each line on stdin run the side once more, and write to stdout what that cost, pickled.

    Args:
      side: as in cases.toml, as JSON; `root` is the checkout whose jbt is imported.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print
    todo = turns(**json.loads(side))
    for _ in sys.stdin:
        try:
            turn = next(todo)
        except Exception as error:
            turn = {"failed": repr(error)}
        pickle.dump(turn, out)
        out.flush()


def turns(run: str, root: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Prepare a side, then yield what each run of it costs; with the first also its answers, what
    was compiled until then, and the environment."""
    sys.path.insert(0, root)  # `benchmarks` is imported already, from this checkout
    os.environ["PYTHONPATH"] = root
    module, function = run.split(".")
    prepare = getattr(importlib.import_module(f"benchmarks.speed.{module}"), function)
    compiled: list[float] = []
    if jax := sys.modules.get("jax"):
        jax.monitoring.register_event_duration_secs_listener(
            lambda name, seconds, **_: compiled.append(seconds) if "backend_compile" in name else 0
        )
    solve = prepare(**arguments)
    results: list[Any] = []
    first = timed(lambda: results.append(solve()), least=0)
    answers = None if results[0] is None else np.asarray(results[0], float)
    first |= {"compile_seconds": sum(compiled), "programs": len(compiled)}
    yield first | {"answers": answers, "environment": environment(root)}
    while True:
        yield timed(solve)


def timed(run: Callable[[], Any], least: float = LEAST_SECONDS) -> dict[str, Any]:
    """Seconds and CPU seconds of a run, and the most memory that this process or one it started
    has used so far. `least`: seconds for which the run is repeated."""
    begin, cpu, count = time.perf_counter(), cpu_seconds(), 0
    while not count or time.perf_counter() - begin < least:
        run()
        count += 1
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, CHILDREN))
    return {
        "seconds": (time.perf_counter() - begin) / count,
        "cpu_seconds": (cpu_seconds() - cpu) / count,
        "megabytes": max(used) / 1024,
    }


CHILDREN = resource.RUSAGE_CHILDREN


def cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    children = resource.getrusage(CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def environment(root: str) -> dict[str, Any]:
    """Machine, device, revision and versions."""
    git = ["git", "-C", root, "describe", "--always", "--dirty"]
    info, jax = Path("/proc/cpuinfo"), sys.modules.get("jax")
    lines = info.read_text().splitlines() if info.exists() else []
    installed = importlib.metadata.distributions()
    imported = {d.name: d.version for d in installed if d.name.replace("-", "_") in sys.modules}
    return {
        "cpu": next((line for line in lines if line.startswith("model name")), platform.machine()),
        "device": jax.devices()[0].device_kind if jax else "cpu",
        "revision": subprocess.run(git, capture_output=True, text=True).stdout.strip(),
        "versions": {"python": platform.python_version(), **imported},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
