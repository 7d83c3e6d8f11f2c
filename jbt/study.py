"""Running a sweep: settings from the command line, a run that survives being killed, its report.

In `OUT/NAME/` a run keeps

    config.json      the configuration and digests of the code, written first
    shards/*.npz     finished chunks of pools, each written whole or not at all
    results.nc       every metric of every pool, once all chunks are there
    table.csv, figure.png

Given again, it continues from the shards. Table and figure are made from results.nc whenever the
command is given. Another configuration in the same folder is refused, and so is going on with a run
that other code has begun; of a finished one it is said which files have changed since.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jbt import files, provenance, results, runtime, store
from jbt.exits import exit_code
from jbt.paper import PaperNumber, read_paper
from jbt.simulate import CPU_CHUNK, Simulation, check_chunking, check_seed
from jbt.sweep import PRESETS, Group, S, Sweep, check_counts
from jbt.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def main(sweep: Sweep[S], argv: Sequence[str] | None = None) -> int:
    """The command line of a sweep; returns the exit code, see `exits.exit_code`."""
    argv = sys.argv[1:] if argv is None else list(argv)
    interrupted = "\ninterrupted; the same command continues (without --overwrite)"

    def command() -> None:
        run(sweep, _parsed(sweep, argv))

    return exit_code(command, interrupted=interrupted)


def _parsed(sweep: Sweep[S], argv: Sequence[str]) -> S:
    import tyro

    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--preset", choices=PRESETS, default="full")
    preset = early.parse_known_args(argv)[0].preset
    defaults = sweep.presets[preset]
    return tyro.cli(
        type(defaults),
        default=dataclasses.replace(defaults, preset=preset),
        args=argv,
        prog=f"python -m sweeps.{sweep.name}",
        description=sweep.description,
    )


def run(sweep: Sweep[S], settings: S) -> pd.DataFrame:
    """Run (or continue, or report again) a sweep, print its table and return it.

    Raises:
      ValueError: wrong settings, another configuration or code in the folder, metrics that are not
        what their axes say, nothing to redraw.
    """
    check_counts(settings)
    check_seed(settings.seed)
    folder = settings.out / sweep.name
    store.check_not_own(settings.json, folder)
    files.check_writable(settings.json)
    if settings.redraw:
        saved = results.saved_settings(folder, settings)
        with store.locked(folder) as writable:
            if writable:
                store.discard_torn(folder)
            return _report(sweep, saved, folder, writable)
    runtime.start()
    check_chunking(settings.chunk, settings.devices)
    groups = sweep.groups(settings)
    results.check_groups(groups)
    Table(sweep.columns, settings, paper_of(sweep))  # raises now, not after hours, if it must
    configuration, code = provenance.configuration_of(settings), provenance.code_of(sweep)
    with store.locked(folder, overwrite=settings.overwrite) as writable:
        if writable:
            store.claim(folder, configuration, code, overwrite=settings.overwrite)
        else:
            store.holds(folder, configuration, code)
        if (folder / store.RESULTS).exists():
            results.check_results(folder, configuration)
            print(f"{folder / store.RESULTS} is complete: nothing is simulated", file=sys.stderr)
        else:
            _simulate_missing(sweep, groups, settings, folder)
            results.write(sweep, groups, settings, configuration, code, folder)
        if writable:
            store.discard_shards(folder)  # gone already, unless a run was killed right here
        return _report(sweep, settings, folder, writable)


def _simulate_missing(sweep: Sweep[S], groups: list[Group], settings: S, folder: Path) -> None:
    from tqdm import tqdm

    simulations = {}
    for group in groups:
        if len(ids := results.missing(folder, group)):
            simulations[group.name] = Simulation(
                group.experiment,
                group.conditions,
                ids,
                seed=settings.seed,
                dtype=settings.dtype,
                chunk=settings.chunk or _default_chunk(group),
                devices=settings.devices,
            )
    results.check_metrics(groups, simulations, folder)
    total = sum(g.pools * g.n_conditions for g in groups)
    left = sum(
        len(simulations[g.name].pool_ids) * g.n_conditions for g in groups if g.name in simulations
    )
    # As in `simulate`, a problem is a pool under one condition.
    style = {"unit": "problem", "unit_scale": True, "desc": sweep.name, "file": sys.stderr}
    pace = 0.1 if sys.stderr.isatty() else 15.0  # seconds; a log is not flooded
    with tqdm(total=total, initial=total - left, mininterval=pace, **style) as bar:
        for group in groups:
            if group.name not in simulations:
                continue
            begin = time.perf_counter()
            for ids, out in simulations.pop(group.name).chunks():
                out[results.SECONDS] = time.perf_counter() - begin
                results.save_shard(folder, group.name, ids, out)
                bar.update(len(ids) * group.n_conditions)
                begin = time.perf_counter()


def _default_chunk(group: Group) -> int | None:
    if jax.default_backend() != "cpu":
        return None
    cost = max(1.0, group.n_items / 30) ** 3  # of a fit, against one of 30 items
    return max(1, int(CPU_CHUNK / cost / group.fits / group.n_conditions))


def paper_of(sweep: Sweep[Any]) -> list[PaperNumber]:
    """The paper's numbers beside a sweep: of the file paper.csv beside its module, if there is
    one."""
    try:
        file = Path(inspect.getsourcefile(sweep.groups) or "").with_name("paper.csv")
    except (TypeError, ValueError):  # made in a notebook
        return []
    return read_paper(file, sweep.name) if file.is_file() else []


def table_of(sweep: Sweep[S], dataset: xr.Dataset, settings: S) -> pd.DataFrame:
    """The table of some results, with the paper's numbers."""
    table = Table(sweep.columns, settings, paper_of(sweep))
    sweep.table(dataset, settings, table)
    return table.frame()


def _report(sweep: Sweep[S], settings: S, folder: Path, writable: bool) -> pd.DataFrame:
    """Table and figure, from results.nc alone; only printed if the folder is read-only."""
    table_file, figure_file = folder / store.TABLE, folder / store.FIGURE
    with results.open_results(folder) as dataset:
        simulated_with = json.loads(dataset.attrs["code"])
        changed = store.changed(simulated_with, provenance.code_of(sweep))
        try:
            table = table_of(sweep, dataset, settings)
        except KeyError as error:
            if not changed:
                raise
            raise ValueError(
                f"{folder / store.RESULTS} was simulated before {', '.join(changed)} changed, and "
                f"has not what its table needs now ({error}); --overwrite simulates again"
            ) from error
        if writable:
            figure = sweep.figure(dataset, table, settings)
            csv = table.to_csv(index=False, float_format="%.6g")
            files.write_whole(table_file, lambda p: p.write_text(csv))
            files.write_whole(figure_file, lambda p: figure.savefig(p, format="png", dpi=150))
        flagged = {
            str(name): int((dataset[name] > 0).sum())
            for name in dataset.data_vars
            if str(name).startswith("status")
        }
    if settings.json is not None:
        files.write_text(settings.json, table.to_json(orient="records", indent=1) + "\n")
    printed = table if sweep.headline is None else sweep.headline(table, settings)
    shown = printed.dropna(axis=1, how="all")
    print(shown.to_string(index=False, na_rep="", float_format=lambda v: f"{v:.4g}"))
    for name, count in flagged.items():
        if count:
            print(f"{count} fits did not converge ({name}); see results.nc", file=sys.stderr)
    if changed:
        print(
            f"changed since these results were simulated: {', '.join(changed)}; "
            "--overwrite simulates them again",
            file=sys.stderr,
        )
    if len(printed) < len(table):
        print(f"\n{len(printed)} of {len(table)} rows; all of them are in the table's file")
    if writable:
        print(f"\nwritten: {table_file}, {figure_file}, {folder / store.RESULTS}")
    else:
        print(
            f"not written, as {folder} is read-only: {table_file}, {figure_file}", file=sys.stderr
        )
    return table
