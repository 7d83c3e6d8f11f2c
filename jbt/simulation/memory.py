"""Memory of a device, and memory that a compiled program takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

ROOT = Path("/")
"""The folder of /proc and /sys."""


def needed(compiled: jax.stages.Compiled) -> int:
    """Bytes that a program holds on each of its devices while it runs, as the compiler plans it:
    arguments, results and temporaries. 0 where the compiler does not say."""
    plan = compiled.memory_analysis()
    if plan is None:
        return 0
    held = plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes
    return held - plan.alias_size_in_bytes


def there_is(device: Any) -> int | None:
    """Bytes of a `jax.Device`'s memory that programs may take, or None if unknown.

    On a GPU this is all that JAX may allocate, in use or not, so that a continued run makes the
    same choices. On a CPU it is the machine's available memory, or less if a control group (a
    container, a batch job) allows less; all CPU devices of a process share it.
    """
    if device.platform != "cpu":
        return (device.memory_stats() or {}).get("bytes_limit")
    return min((*_machine(), *_control_groups()), default=None)


def _machine() -> Iterator[int]:
    with suppress(OSError):
        for line in (ROOT / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    with suppress(AttributeError, OSError, ValueError):  # not on every system
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_groups() -> Iterator[int]:
    """Bytes left in each control group of this process, its own and those around it."""
    with suppress(OSError):
        for line in (ROOT / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                top, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):  # version 1
                top = "sys/fs/cgroup/memory"
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            else:
                continue
            lowest = Path(path.lstrip("/"))
            for group in (lowest, *lowest.parents):
                with suppress(OSError, ValueError):  # no such file; "max"
                    yield _left(ROOT / top / group, *names)


def _left(group: Path, limit: str, used: str, cached: str) -> int:
    """Bytes below the group's limit; cached files count as free, as they give way when needed."""
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    in_use = int((group / used).read_text()) - int(statistics.get(cached, 0))
    return int((group / limit).read_text()) - in_use
