"""Run a sweep: settings from the command line, a run that survives being killed, its report.

A run writes to `OUT/NAME/`:

    results.zarr     every metric of every pool (`jbt.experiments.store`), its configuration and
                     digests of the code among its attributes
    table.csv, figure.png

The same command again computes what is missing in the store, and makes table and figure anew from
it. Another configuration in the same folder is refused, and so is an unfinished run of other code;
for a finished run the report names the files that have changed since.

A part of a run (`--part I/N`) computes its range of pools and makes no report. Workers elsewhere
(`--executor`) compute chunks, and this process writes them (`jbt.experiments.work`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jbt import runtime
from jbt.border import files, inputs, terminal
from jbt.border.exits import exit_code
from jbt.experiments import provenance, store
from jbt.experiments.declare import PRESETS, Sweep
from jbt.experiments.store import WHOLE, Store
from jbt.experiments.table import Table
from jbt.experiments.work import Work, computed, executor_of
from jbt.simulation.simulate import check_chunking, check_seed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

JOBS = "jobs"
"""Folder of what jobs of SLURM write."""


def main(sweep: type[Sweep], argv: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    """The command line of a sweep; returns the exit code, see `exits.exit_code`. `prog` is what the
    user has typed, default `python -m sweeps.NAME`, or `python FILE` for a file."""
    typed = sys.argv[0] if argv is None else ""
    argv = sys.argv[1:] if argv is None else list(argv)
    interrupted = "\ninterrupted; the same command continues (without --overwrite)"
    kind = _importable(sweep)

    is_file = typed.endswith(".py") and kind.__module__ == "__main__"
    usual = f"python {typed}" if is_file else f"python -m sweeps.{sweep.name}"

    def command() -> None:
        run(_parsed(kind, argv, prog or usual))

    return exit_code(command, interrupted=interrupted)


def _importable(sweep: type[Sweep]) -> type[Sweep]:
    """The class of a module that runs as `python -m NAME`, as other processes import it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if sweep.__module__ != "__main__" or spec is None:
        return sweep
    return getattr(importlib.import_module(spec.name), sweep.__qualname__, sweep)


def _parsed(sweep: type[Sweep], argv: Sequence[str], prog: str) -> Sweep:
    parser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False)
    parser.add_argument("--preset", choices=PRESETS, default="full")
    preset = parser.parse_known_args(argv)[0].preset
    texts = {"prog": prog, "description": sweep.description()}
    return inputs.parse(sweep, argv, default=sweep.at(preset), **texts)


@runtime.defaults()
def run(sweep: Sweep) -> pd.DataFrame | None:
    """Run (or continue, or report again) a sweep; print its table and return it.

    A part (`sweep.part`) only computes its pools and returns None.

    Raises:
      ValueError: wrong options, another configuration or code in the folder, a chunk that workers
        cannot compute.
    """
    sweep = sweep.decided()
    part = _part(sweep)
    sweep.check()
    check_seed(sweep.seed)
    folder = sweep.out / sweep.name
    if sweep.store is not None and "://" not in sweep.store:
        raise ValueError(f"store must be a URL such as s3://BUCKET/NAME.zarr, got {sweep.store}")
    place = sweep.store or folder / store.RESULTS
    runtime.start()
    check_chunking(sweep.chunk, sweep.devices)
    work = Work(sweep)
    sweep.paper()  # raises now, not after hours, if it must
    with store.locked(folder, part):
        if not part:
            store.discard_torn(folder)
        results = fill(work, folder, place, part)
        if part:
            print(f"part {sweep.part} is complete in {folder}")
            return None
        return _report(sweep, results, folder)


def fill(work: Work, folder: Path, place: Path | str, part: tuple[int, int] | None = None) -> Store:
    """Compute what the store lacks of a run or of a part of it; make the store, if there is none.

    Args:
      folder: the run's own, locked.
      place: folder or URL of the store.
    """
    sweep = work.sweep
    made = provenance.configuration_of(sweep), provenance.code_of(type(sweep))
    results = store.claim(folder, place, *made, overwrite=sweep.overwrite)
    if results is None:
        groups = [*work.groups.values()]
        store.create(folder, place, sweep, groups, work.shapes(), work.sizes(), *made)
        results = store.claim(folder, place, *made)
        assert results is not None
    missing = results.missing(part or WHOLE)
    if not missing:
        if part is None:
            print(f"{place} is complete: nothing is simulated", file=sys.stderr)
        return results
    total = store.count(results.chunks(part or WHOLE))
    done = {"total": total, "initial": total - store.count(missing), "unit_scale": True}
    with (
        executor_of(sweep.executor, folder / JOBS) as workers,
        terminal.bar(name=sweep.name, unit="pool", **done) as bar,
    ):
        for made_chunk in computed(work, missing, *workers):
            results.write(*made_chunk)
            bar.update(len(made_chunk.chunk.ids))
    return results


def _part(sweep: Sweep) -> tuple[int, int] | None:
    """The part asked for, (I, N), if any.

    Raises:
      ValueError: it is not I/N, or other options contradict it.
    """
    if sweep.part is None:
        return None
    if sweep.overwrite:
        raise ValueError("--overwrite does not go with --part")
    index, _, count = sweep.part.partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ValueError(f"part must be I/N with I from 0 to N - 1, got {sweep.part!r}")
    return int(index), int(count)


def table_of(sweep: Sweep, dataset: xr.Dataset) -> pd.DataFrame:
    """The table of some results, with the paper's numbers."""
    table = Table(sweep.columns, sweep, sweep.paper())
    sweep.table(dataset, table)
    return table.frame()


def _report(sweep: Sweep, results: Store, folder: Path) -> pd.DataFrame:
    """Make table and figure from the store alone."""
    from jbt.experiments import plots

    table_file, figure_file = folder / store.TABLE, folder / store.FIGURE
    with results.results() as dataset:
        changed = store.changed(json.loads(dataset.attrs["code"]), provenance.code_of(type(sweep)))
        table = table_of(sweep, dataset)
        files.write_whole(table_file, table.to_csv(index=False, float_format="%.6g"))
        files.write_whole(figure_file, partial(plots.save, sweep.figure(table), literal=False))
        statuses = [name for name in map(str, dataset.data_vars) if name.startswith("status")]
        failed = {name: int((dataset[name] > 0).sum()) for name in statuses}
    if answer := sweep.answer(table):
        print(answer, end="\n\n")
    printed = sweep.headline(table)
    shown = printed.dropna(axis=1, how="all")
    print(shown.to_string(index=False, na_rep="", float_format=lambda v: f"{v:.4g}"))
    for name, count in failed.items():
        if count:
            print(f"{count} fits did not converge ({name}); see {store.RESULTS}", file=sys.stderr)
    if changed:
        print(
            f"changed since these results were simulated: {store.some_of(changed)}; "
            "--overwrite simulates them again",
            file=sys.stderr,
        )
    if len(printed) < len(table):
        print(f"\n{len(printed)} of {len(table)} rows; {store.TABLE} has all of them")
    print(f"\nwritten: {table_file}, {figure_file}, {results.place}")
    return table
