"""Run the smoke presets of sweeps, two at a time; exit status 1 if one fails.

    python .ci/smoke.py OUT NAME ...

Each is run as `python -m sweeps.NAME` runs it, but in one of two processes, which import jbt and
JAX once. Two, as a sweep mostly traces and compiles, which takes one core.
"""

import contextlib
import io
import multiprocessing
import runpy
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

WRITTEN = "results.zarr/zarr.json", "table.csv", "figure.png"
"""Files that every sweep must write into its folder."""


def ran(out: Path, name: str) -> tuple[bool, str]:
    """Run a sweep; returns whether it succeeded, and what it printed."""
    printed, begin = io.StringIO(), time.perf_counter()
    sys.argv = [name, "--preset", "smoke", "--out", str(out)]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            runpy.run_module(f"sweeps.{name}", run_name="__main__", alter_sys=True)
            code = None
        except SystemExit as exit:
            code = exit.code
        except Exception:
            code = traceback.format_exc()
    missing = [file for file in WRITTEN if not nonempty(out / name / file)]
    succeeded = code == 0 and not missing
    ended = f"{name}: {time.perf_counter() - begin:.0f} s\n"
    if not succeeded:
        ended += f"sweeps.{name} failed: ended with {code}, did not write {missing}\n"
    return succeeded, printed.getvalue() + ended


def nonempty(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


def main(out: str, *names: str) -> int:
    failed = not names
    # A process that is killed raises BrokenProcessPool here.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        for succeeded, printed in processes.map(ran, [Path(out)] * len(names), names):
            print(printed, flush=True)
            failed |= not succeeded
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
