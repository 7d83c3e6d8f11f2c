"""Running a sweep: settings from the command line, a run that survives being killed, its report.

In `OUT/NAME/` a run keeps

    config.json      the configuration and digests of the code, written first
    shards/*.npz     finished chunks of pools, each written whole or not at all
    results.nc       every metric of every pool, once all chunks are there
    table.csv, figure.png, and of some sweeps page.md

Given again, it continues from the shards. Table and figure are made from results.nc whenever the
command is given. Another configuration in the same folder is refused, and so is going on with a run
that other code has begun; of a finished one it is said which files have changed since.

Parts of a run (`jbt.experiments.parts`) keep their shards in folders of their own below `shards/`.
Once there are any, the command without a part collects, and computes nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jbt import runtime
from jbt.border import files, parsing, progress
from jbt.border.exits import exit_code
from jbt.experiments import folder as store
from jbt.experiments import parts, provenance, results, shards
from jbt.experiments.declare import PRESETS, Group, S, Settings, Sweep, check_fields
from jbt.experiments.paper import PaperNumber, read_paper
from jbt.experiments.parts import Part
from jbt.experiments.table import Table
from jbt.simulation.simulate import Simulation, check_chunking, check_seed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

CALL_PROBLEMS = 16_384
"""Fits of 30 items a call on a CPU, a second or two. More would not be faster there, and a call is
a step of the progress bar and a shard: what a run that is killed loses."""


CLAIM_SECONDS = 60.0
"""How long a part waits for others that are starting, too."""
LISTING_SECONDS = 120.0
"""How long a network file system may list a folder as it was, without another machine's files."""


def main(sweep: Sweep[S], argv: Sequence[str] | None = None) -> int:
    """The command line of a sweep; returns the exit code, see `exits.exit_code`."""
    argv = sys.argv[1:] if argv is None else list(argv)
    interrupted = "\ninterrupted; the same command continues (without --overwrite)"

    def command() -> None:
        run(sweep, _parsed(sweep, argv))

    return exit_code(command, interrupted=interrupted)


def _parsed(sweep: Sweep[S], argv: Sequence[str]) -> S:
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--preset", choices=PRESETS)
    early.add_argument("--redraw", action="store_true")
    early.add_argument("--out", type=Path, default=Settings.out)
    given = early.parse_known_args(argv)[0]
    preset = given.preset or "full"
    if preset not in sweep.presets:
        known = ", ".join(sweep.presets) or "nothing"
        raise ValueError(f"{sweep.name} has no preset {preset}, only {known}")
    defaults = dataclasses.replace(sweep.presets[preset], preset=preset)
    folder = given.out / sweep.name
    if given.redraw and not given.preset and (folder / store.RESULTS).exists():
        defaults = results.saved_settings(folder, defaults)
    return parsing.parse(
        type(defaults),
        argv,
        default=defaults,
        prog=f"python -m sweeps.{sweep.name}",
        description=sweep.description,
    )


@runtime.defaults()
def run(sweep: Sweep[S], settings: S) -> pd.DataFrame | None:
    """Run (or continue, or report again) a sweep, print its table and return it.

    A part (`settings.part`, or a process other than 0 with `settings.distributed`) only computes
    its pools and returns None.

    Raises:
      ValueError: wrong settings, another configuration or code in the folder, metrics that are not
        what their axes say, nothing to redraw or other settings than those of the results, parts
        that are not there yet.
    """
    settings = settings.decided()
    part = _asked_part(settings)
    check_fields(settings)
    check_seed(settings.seed)
    folder = settings.out / sweep.name
    store.check_not_own(settings.json, folder)
    files.check_writable(settings.json)
    if settings.redraw:
        _check_saved(results.saved_settings(folder, settings), settings, folder)
        with store.locked(folder) as writable:
            if writable:
                store.discard_torn(folder)
            return _report(sweep, settings, folder, writable)
    runtime.start()
    if settings.distributed:
        process = (part.index, part.count) if part else None
        with progress.said_after(progress.PATIENCE_SECONDS, "waiting for the other processes"):
            part = Part(*runtime.join(settings.coordinator, process))
    check_chunking(settings.chunk, settings.devices)
    with progress.said_after(progress.PATIENCE_SECONDS, f"{sweep.name}: preparing the conditions"):
        groups = sweep.groups(settings)
    results.check_groups(groups, sweep.index)
    if part and part.count > (most := max(group.pools for group in groups)):
        raise ValueError(f"part {part}: there are only {most} pools to share out")
    Table(sweep.columns, settings, paper_of(sweep))  # raises now, not after hours, if it must
    configuration, code = provenance.configuration_of(settings), provenance.code_of(sweep)
    if part:
        _run_part(sweep, groups, settings, configuration, code, folder, part)
        if settings.distributed:
            runtime.leave()
        if not settings.distributed or part.index:
            return None
    wait = CLAIM_SECONDS if part else 0.0
    with store.locked(folder, overwrite=settings.overwrite, wait=wait) as writable:
        if settings.overwrite:
            parts.check_idle(folder)
        if writable:
            store.claim(folder, configuration, code, overwrite=settings.overwrite)
        else:
            store.holds(folder, configuration, code)
        if (folder / store.RESULTS).exists():
            results.check_results(folder, configuration)
            print(f"{folder / store.RESULTS} is complete: nothing is simulated", file=sys.stderr)
        else:
            if count := parts.count_in(folder):
                _check_complete(groups, folder, count, wait=LISTING_SECONDS if part else 0.0)
                results.check_metrics(groups, {}, folder)
            else:
                _simulate_missing(sweep, groups, settings, folder)
            results.write(sweep, groups, settings, configuration, code, folder)
        if writable:
            store.discard_shards(folder)  # gone already, unless a run was killed right here
        return _report(sweep, settings, folder, writable)


def _check_saved(saved: Settings, asked: Settings, folder: Path) -> None:
    """Raise `ValueError` unless results were simulated with the settings asked for, whatever the
    versions."""
    there, now = (provenance.fields_of(settings) for settings in (saved, asked))
    if differ := store.differences(there, now):
        raise ValueError(
            f"{folder / store.RESULTS} has other settings: {differ}; --redraw takes those there "
            "without any option"
        )


def _asked_part(settings: Settings) -> Part | None:
    """The part asked for, if any.

    Raises:
      ValueError: it is not I/N, or there are options that do not go with it.
    """
    if settings.coordinator is not None:
        if not settings.distributed:
            raise ValueError("--coordinator goes with --distributed, which is missing")
        if not re.fullmatch(r".+:[0-9]+", settings.coordinator):
            raise ValueError(f"coordinator must be ADDRESS:PORT, got {settings.coordinator!r}")
    if settings.part is None and not settings.distributed:
        return None
    option = "--distributed" if settings.distributed else "--part"
    if settings.overwrite:
        raise ValueError(
            f"--overwrite does not go with {option}, as others may be writing: remove the "
            "results' folder first"
        )
    if settings.redraw:
        raise ValueError(f"--redraw does not go with {option}")
    if settings.json is not None and not settings.distributed:
        raise ValueError("--json does not go with --part, which makes no table")
    return None if settings.part is None else parts.parse(settings.part)


def _run_part(
    sweep: Sweep[S],
    groups: list[Group],
    settings: S,
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    folder: Path,
    part: Part,
) -> None:
    """Compute a part's pools, as far as they are not there."""
    with ExitStack() as held:
        with store.locked(folder, wait=CLAIM_SECONDS) as writable:
            if writable:
                store.claim(folder, configuration, code, overwrite=False)
            else:
                store.holds(folder, configuration, code)
            if (folder / store.RESULTS).exists():
                results.check_results(folder, configuration)
                print(f"{folder} is complete, nothing is left for part {part}")
                return
            held.enter_context(parts.begun(folder, part))
        _simulate_missing(sweep, groups, settings, folder, part)
    print(f"part {part} is complete in {folder}")


def _check_complete(groups: list[Group], folder: Path, count: int, *, wait: float) -> None:
    """Raise `ValueError` unless every pool is there, after `wait` seconds at most."""
    deadline = time.monotonic() + wait
    while absent := shards.incomplete(folder, groups, count):
        if time.monotonic() >= deadline:
            running = [part for part in absent if parts.running(folder, part)]
            raise ValueError(
                f"{folder}: {len(absent)} of {count} parts are incomplete ({parts.listed(absent)})"
                + (f", some of them running ({parts.listed(running)})" if running else "")
                + "; they are collected once all of them are complete"
            )
        time.sleep(1.0)


def _simulate_missing(
    sweep: Sweep[S], groups: list[Group], settings: S, folder: Path, part: Part | None = None
) -> None:
    simulations = {}
    for group in groups:
        if len(ids := shards.missing(folder, group, part)):
            simulations[group.name] = Simulation(
                group.experiment,
                group.conditions,
                ids,
                data=group.data,
                seed=settings.seed,
                dtype=settings.dtype,
                chunk=settings.chunk or _default_chunk(group),
                devices=settings.devices,
            )
    results.check_metrics(groups, simulations, folder, part)
    results.check_room(simulations, folder)
    total = sum((len(part.pools(g.pools)) if part else g.pools) * g.n_conditions for g in groups)
    left = sum(
        len(simulations[g.name].pool_ids) * g.n_conditions for g in groups if g.name in simulations
    )
    name = f"{sweep.name} {part}" if part else sweep.name
    # As in `simulate`, a problem is a pool under one condition.
    done = {"total": total, "initial": total - left, "unit_scale": True}
    with progress.bar(name=name, unit="problem", **done) as bar:
        for group in groups:
            if group.name not in simulations:
                continue
            begin = time.perf_counter()
            for ids, out in simulations.pop(group.name).chunks():
                out[shards.SECONDS] = time.perf_counter() - begin
                shards.save_shard(folder, group.name, ids, out, part)
                bar.update(len(ids) * group.n_conditions)
                begin = time.perf_counter()


def _default_chunk(group: Group) -> int | None:
    if jax.default_backend() != "cpu":
        return None
    cost = max(1.0, group.n_items / 30) ** 3  # of a fit, against one of 30 items
    return max(1, int(CALL_PROBLEMS / cost / group.fits / group.n_conditions))


def paper_of(sweep: Sweep[Any]) -> list[PaperNumber]:
    """The paper's numbers for a sweep: those of the file paper.csv beside its module, if there is
    one, and `Sweep.extra_paper_numbers`."""
    try:
        source = Path(inspect.getsourcefile(sweep.groups) or "")
        # A sweep may be a package beside the file.
        folder = source.parents[1] if source.name == "__init__.py" else source.parent
    except (TypeError, IndexError):  # made in a notebook
        return list(sweep.extra_paper_numbers)
    file = folder / "paper.csv"
    numbers = read_paper(file, sweep.name) if file.is_file() else []
    return [*numbers, *sweep.extra_paper_numbers]


def table_of(sweep: Sweep[S], dataset: xr.Dataset, settings: S) -> pd.DataFrame:
    """The table of some results, with the paper's numbers; on stderr, how many of those of these
    settings stand beside no row."""
    table = Table(sweep.columns, settings, paper_of(sweep))
    sweep.table(dataset, settings, table)
    if alone := table.without_a_row():
        first = alone[0]
        setting = " ".join(f"{name}={value}" for name, value in first.setting.items())
        count = "1 number" if len(alone) == 1 else f"{len(alone)} numbers"
        print(
            f"paper.csv: no row of this table for {count} of its settings, the first: "
            f"{first.quantity} = {first.printed} at {setting or 'every setting'}",
            file=sys.stderr,
        )
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
            from jbt.border import plots

            figure = sweep.figure(dataset, table, settings)
            csv = table.to_csv(index=False, float_format="%.6g")
            files.write_whole(table_file, lambda p: p.write_text(csv))
            files.write_whole(figure_file, lambda p: plots.save(figure, p))
            if sweep.page is not None:
                page = sweep.page(table, settings)
                files.write_whole(
                    folder / store.PAGE, lambda p: p.write_text(page, encoding="utf-8")
                )
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
    made = [table_file, figure_file, *([folder / store.PAGE] if sweep.page else [])]
    listed = ", ".join(map(str, made))
    if writable:
        print(f"\nwritten: {listed}, {folder / store.RESULTS}")
    else:
        print(f"not written, as {folder} is read-only: {listed}", file=sys.stderr)
    return table
