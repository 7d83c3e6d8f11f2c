"""A sweep that compiles at once and can save many small chunks: `python noise.py --part 0/3`.

As a script it dies in the middle of its write number `NOISE_DIES_AT`, and waits `NOISE_HEARTBEAT`
seconds for signs of the other processes.
"""

import os
import signal
import stat
import sys

import jax
import numpy as np

from jbt import runtime
from jbt.experiments import plots, run
from jbt.experiments.declare import Group, Sweep, legacy
from jbt.simulation.simulate import stream

SCALES = np.arange(1.0, 65.0)  # so many that a chunk may hold four pools


def experiment(key, condition):
    return {"noise": condition["scale"] * jax.random.normal(stream(key, "noise"))}


def groups(s: Sweep) -> list[Group]:
    """One of all pools, one of fewer: parts share out both."""
    return [
        Group(name, experiment, {"scale": sign * SCALES}, {"scale": sign * SCALES}, 4, pools)
        for name, sign, pools in (("many", 1, s.pools), ("few", -1, s.pools // 10 + 1))
    ]


SWEEP = legacy(
    "noise",
    "Normal draws.",
    dict.fromkeys(("smoke", "paper", "full"), Sweep(pools=200)),
    groups,
    ("scale",),
    lambda ds, s, t: t.means("noise", ds["noise"]),
    lambda ds, t, s: plots.new_figure()[0],
    headline=lambda t, s: t.head(1),
    index="scale",
)


def die_at(number: int) -> None:
    """SIGKILL, with a file written but not yet in its place."""
    left, fsync = iter(range(number - 1)), os.fsync

    def last(file):
        is_file = stat.S_ISREG(os.fstat(file if isinstance(file, int) else file.fileno()).st_mode)
        if is_file and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    os.fsync = last


if __name__ == "__main__":
    if number := os.environ.get("NOISE_DIES_AT"):
        die_at(int(number))
    if seconds := os.environ.get("NOISE_HEARTBEAT"):
        runtime.HEARTBEAT_SECONDS = int(seconds)
    sys.exit(run.main(SWEEP))
