"""Run the sweeps that a report needs, each by its own command, and say how long the rest takes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from jbt.experiments import folder as store
from jbt.experiments import times

from .runs import SWEEPS, Run, sweep_of

OVERHEAD_SECONDS = 5.0
"""To start a sweep and draw its figure, about."""


def collect(
    names: Sequence[str], preset: str, out: Path, *, run: bool = True
) -> tuple[list[Run], dict[str, str], list[str]]:
    """Run what is missing and read what is there.

    Args:
      names: of the sweeps.
      preset: of all of them.
      out: folder of the results.
      run: False to only read.

    Returns:
      The runs; name -> why there is none; and of those the names whose command failed, or whose
      folder holds another run.
    """
    missing = [name for name in names if not _is_finished(out / name)]
    absent = {name: reason for name in missing if (reason := _not_possible(name, preset))}
    missing = [name for name in missing if name not in absent]
    failed = _run(missing, preset, out) if run else {}
    absent |= failed if run else dict.fromkeys(missing, "not run")
    runs, wrong = [], list(failed)
    for name in names:
        if name in absent:
            continue
        try:
            held = Run.read(name, out / name)
            if held.record["command"] != (expected := " ".join(command(name, preset))):
                raise ValueError(f"{out / name} holds {held.record['command']}, not {expected}")
            runs.append(held)
        except ValueError as error:
            wrong.append(name)
            absent[name] = str(error)
    return runs, absent, wrong


def command(name: str, preset: str) -> list[str]:
    """The command of a sweep, without the folder."""
    options = ["--preset", preset] if preset != "full" else []
    return ["python", "-m", f"sweeps.{name}", *options]


def _not_possible(name: str, preset: str) -> str | None:
    """Why a sweep cannot run: no such preset, or no recorded verdicts."""
    presets = sweep_of(name).presets
    if preset not in presets:
        return f"has no preset {preset}"
    try:
        presets[preset].digests()
    except ValueError as error:
        return str(error)
    return None


def _is_finished(folder: Path) -> bool:
    return (folder / store.RESULTS).is_file() and (folder / store.TABLE).is_file()


def _run(names: Sequence[str], preset: str, out: Path) -> dict[str, str]:
    """Run sweeps one after the other; returns those that failed, with the reason.

    Raises:
      KeyboardInterrupt: a sweep was interrupted.
    """
    weights = {name: _seconds(name, preset) for name in names}
    begin, done, failed = time.perf_counter(), 0.0, {}
    for i, name in enumerate(names):
        print(f"{i + 1} of {len(names)}: {name}{_time_left(begin, done, weights)}", file=sys.stderr)
        words = [sys.executable, "-m", f"{SWEEPS}.{name}", "--preset", preset, "--out", str(out)]
        end = subprocess.run(words, stdout=subprocess.DEVNULL, check=False, env=_environment())
        if end.returncode == 130:
            raise KeyboardInterrupt
        if end.returncode:
            failed[name] = f"{' '.join(command(name, preset))} ended with {end.returncode}"
        done += weights.pop(name)
    return failed


def _environment() -> dict[str, str]:
    """The environment of a sweep: the package that this process has imported is found first."""
    package = Path(sys.modules[SWEEPS.partition(".")[0]].__file__ or "").resolve().parents[1]
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _seconds(name: str, preset: str) -> float:
    """About how long a sweep takes, as measured once on two cores; `paper` is mostly compiling."""
    measured = times.times_of(sweep_of(name))
    if measured is None:
        return OVERHEAD_SECONDS
    if preset == "smoke":
        return measured.smoke_seconds
    simulating = measured.run_seconds if preset == "full" else 0.0
    return OVERHEAD_SECONDS + measured.compile_seconds + simulating


def _time_left(begin: float, done: float, weights: dict[str, float]) -> str:
    """The time so far and the time left."""
    elapsed = time.perf_counter() - begin
    pace = elapsed / done if done else 1.0
    left = pace * sum(weights.values())
    so_far = f"{times.duration(elapsed)} so far, " if done else ""
    return f" ({so_far}about {times.duration(left)} left)"


@contextlib.contextmanager
def data_in(folder: Path | None) -> Iterator[None]:
    """Let sweeps find recorded verdicts in this folder, as the variable JBT_DATA does."""
    before = os.environ.get("JBT_DATA")
    if folder is not None:
        os.environ["JBT_DATA"] = str(folder.resolve())
    try:
        yield
    finally:
        if folder is not None:
            os.environ.pop("JBT_DATA")
            if before is not None:
                os.environ["JBT_DATA"] = before
