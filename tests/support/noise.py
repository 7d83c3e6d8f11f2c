"""A sweep that compiles at once and can save many small chunks: `python noise.py --part 0/3`.

As a script it dies in the middle of its write number `NOISE_DIES_AT`. A worker that computes one of
its chunks and finds the file `NOISE_KILL` removes it and dies.
"""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from jbt.experiments import plots
from jbt.experiments.declare import PRESETS, Group, Sweep
from jbt.simulation.simulate import stream

SCALES = np.arange(1.0, 65.0)  # so many that a chunk may hold four pools


def experiment(key, condition):
    return {"noise": condition["scale"] * jax.random.normal(stream(key, "noise"))}


@dataclass(frozen=True, kw_only=True)
class Noise(Sweep):
    """Normal draws."""

    name = "noise"
    columns = ("scale",)
    presets = {preset: {} for preset in PRESETS}
    index = "scale"

    pools: int = 200

    def groups(self):
        """One of all pools, one of fewer: parts share out both."""
        name = os.environ.get("NOISE_KILL")
        if name and (killed := Path(name)).exists():
            killed.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return [
            Group(name, experiment, {"scale": sign * SCALES}, {"scale": sign * SCALES}, 4, pools)
            for name, sign, pools in (("many", 1, self.pools), ("few", -1, self.pools // 10 + 1))
        ]

    def table(self, ds, t):
        t.means("noise", ds["noise"])

    def headline(self, table):
        return table.head(1)

    def figure(self, table):
        return plots.new_figure()[0]


SWEEP = Noise


def die_at(number: int) -> None:
    """SIGKILL, with a file written but not yet in its place."""
    left, replace = iter(range(number - 1)), os.replace

    def last(source, target, **options):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target, **options)

    os.replace = Path.replace = last


if __name__ == "__main__":
    if number := os.environ.get("NOISE_DIES_AT"):
        die_at(int(number))
    sys.exit(SWEEP.main())
