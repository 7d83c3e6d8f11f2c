"""Folders of results as a run of a sweep leaves them, without metrics."""

import importlib
import json

import xarray as xr

from jbt.experiments import folder as store
from jbt.experiments import provenance

ABSENT = object()
"""The value of a changed field that the run does not have."""


def finished(folder, name, table, preset="full", **changes):
    """Write FOLDER/NAME as a finished run of a preset, with changed fields and this table; return
    FOLDER."""
    sweep = importlib.import_module(f"sweeps.{name}").SWEEP
    settings = sweep.at(preset).decided()
    config = {**provenance.configuration_of(settings), **changes}
    config = {field: value for field, value in config.items() if value is not ABSENT}
    attrs = {"config": json.dumps(config), "code": "{}", "preset": preset, "device": "none"}
    attrs |= {**provenance.packages(), "wall_seconds": 1.5}
    run = folder / name
    run.mkdir(parents=True)
    results = xr.Dataset(attrs=attrs)
    store.write_results(run, lambda path: results.to_netcdf(path, engine="h5netcdf"))
    table.to_csv(run / store.TABLE, index=False)
    return folder
