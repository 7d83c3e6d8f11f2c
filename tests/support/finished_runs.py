"""Folders of results as a run of a sweep leaves them, with one number."""

import importlib

import numpy as np

from jbt.experiments import provenance, store
from jbt.experiments.declare import Group


def finished(folder, name, table, **changes):
    """Write FOLDER/NAME as a finished run of the preset full, with changed fields and this table;
    return FOLDER."""
    sweep = importlib.import_module(f"sweeps.{name}").SWEEP.at("full").decided()
    config = {**provenance.configuration_of(sweep), **changes}
    one = np.zeros(1, np.float32)
    group = Group("one", lambda *_: {}, {"a": one}, {sweep.index or "a": [0.0]}, 2, 1)
    run = folder / name
    run.mkdir(parents=True)
    place, shapes = run / store.RESULTS, {"number": ((), one.dtype)}
    store.create(run, place, sweep, [group], shapes, {"one": 1}, config, {})
    store.Store(place).write(store.Chunk("one", 0, range(1)), {"number": one[None]}, 1.5, "none")
    table.to_csv(run / store.TABLE, index=False)
    return folder
