"""Shared by all benchmarks: a header that names the machine, and timers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax


def use_one_core() -> None:
    """Keep this process on one core, so that every rate is a rate per core; to be called before
    any library has started its threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def header(title: str, packages: tuple[str, ...]) -> str:
    """Hardware and versions, one line each."""
    device = jax.devices()[0]
    cpu = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            s.split(":")[1] for s in info.read_text().splitlines() if s.startswith("model name")
        ]
        cpu = f"{names[0].strip()} ({cpu})" if names else cpu
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    used = f"{cores} core{'' if cores == 1 else 's'} used"
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    return "\n".join(
        [
            title,
            f"cpu: {cpu}, {used}; device: {device.platform} {device.device_kind}",
            f"python {platform.python_version()}, {versions}",
        ]
    )


def compile_and_time(
    f: Callable[..., Any], *arguments: Any, repeats: int = 5
) -> tuple[float, float, Any]:
    """Seconds to compile, seconds of the fastest of some runs after a warm-up, the result."""
    compile_seconds, compiled = compile_for(f, *arguments)
    result = jax.block_until_ready(compiled(*arguments))
    return compile_seconds, fastest(lambda: compiled(*arguments), repeats), result


def compile_for(f: Callable[..., Any], *arguments: Any) -> tuple[float, jax.stages.Compiled]:
    """Seconds to compile, and the program."""
    begin = time.perf_counter()
    compiled = jax.jit(f).lower(*arguments).compile()
    return time.perf_counter() - begin, compiled


def fastest(call: Callable[[], Any], repeats: int, seconds: float = float("inf")) -> float:
    """Seconds of the fastest of several runs; after `seconds` no further run begins."""
    best, end = float("inf"), time.perf_counter() + seconds
    for repeat in range(repeats):
        begin = time.perf_counter()
        if repeat and begin > end:
            break
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - begin)
    return best


def time_each(f: Callable[[Any], Any], inputs: list[Any]) -> tuple[float, list[Any]]:
    """Seconds an input for a plain Python function, one after the other, and its results."""
    f(inputs[0])
    begin = time.perf_counter()
    results = [f(x) for x in inputs]
    return (time.perf_counter() - begin) / len(inputs), results
