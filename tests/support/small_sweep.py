"""A small sweep whose numbers are known exactly: metrics with and without axes, and a status."""

import jax.numpy as jnp
import numpy as np

from jbt.experiments import plots
from jbt.experiments.declare import PRESETS, Group, Sweep, legacy

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


def sweep_of(*groups, index=None):
    """A sweep of these groups, all of its presets 5 pools."""
    return legacy(
        "axes",
        "",
        {name: Sweep(pools=5) for name in PRESETS},
        lambda s: list(groups),
        (),
        lambda ds, s, t: t.add("n", ds.sizes["pool"]),
        lambda ds, t, s: plots.new_figure()[0],
        units={"curve": "metres", "a": "1"},
        index=index,
    )


def numbered(ids, *, conditions=2, **other):
    """Arrays like those of `experiment` for some pools, but with numbers that identify the pool."""
    flat = np.asarray(ids, float)[:, None] + np.arange(conditions) / 10
    curve = np.repeat(flat[..., None], 3, -1)
    return {"curve": curve, "flat": flat, "status": np.zeros(flat.shape, int)} | {
        "seconds": np.array(1.0),
        **other,
    }


def interrupted(monkeypatch, run):
    """Call `run`, and stop it when all shards exist, before results.nc."""
    from jbt.experiments import results

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(results, "write", stop)
        try:
            run()
        except KeyboardInterrupt:
            return
    raise AssertionError("nothing was left to interrupt")
