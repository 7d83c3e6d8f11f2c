"""A small sweep whose numbers are known exactly: metrics with and without axes, and a status."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jbt.experiments import plots
from jbt.experiments.declare import PRESETS, Group, Sweep

TIMES = {"curve": {"time": [1, 2, 4]}}


def experiment(key, condition):
    return {
        "curve": condition["a"] * jnp.arange(3.0),
        "flat": condition["a"],
        "status": jnp.asarray(condition["a"] > 2, int),
    }


def group(name, a, *, axes=TIMES, pools=5, experiment=experiment, **labels):
    labels = {"a": a, **labels}
    return Group(name, experiment, {"a": np.array(a)}, labels, 4, pools, axes=axes)


def sweep_of(*groups, label=None, **methods):
    """A sweep of these groups, all of its presets 5 pools.

    Args:
      label: that distinguishes all conditions, the sweep's index.
      methods: in place of the class's own.
    """

    @dataclass(frozen=True, kw_only=True)
    class Axes(Sweep):
        """Numbers that are known."""

        name = "axes"
        columns = ()
        presets = {preset: {} for preset in PRESETS}
        units = {"curve": "metres", "a": "1"}
        index = label

        pools: int = 5

        def groups(self):
            return list(groups)

        def table(self, ds, t):
            t.add("n", ds.sizes["pool"])

        def figure(self, table):
            return plots.new_figure()[0]

    for method, function in methods.items():
        setattr(Axes, method, function)
    return Axes
