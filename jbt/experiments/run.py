"""Run a sweep: settings from the command line, a run that survives being killed, its report.

A run writes to `OUT/NAME/`:

    config.json      the configuration and digests of the code, written first
    shards/*.npz     finished chunks of pools, each written whole or not at all
    results.nc       every metric of every pool, once all chunks are there
    table.csv, figure.png; for some sweeps page.md

The same command again continues from the shards, and makes table and figure anew from results.nc.
Another configuration in the same folder is refused, and so is an unfinished run of other code; for
a finished run the report names the files that have changed since.

Parts of a run (`jbt.experiments.parts`) keep their shards in folders of their own below `shards/`.
Once a part has begun, the command without a part only collects.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jbt import runtime
from jbt.border import files, inputs, terminal
from jbt.border.exits import exit_code
from jbt.experiments import folder as store
from jbt.experiments import parts, provenance, results, shards, times
from jbt.experiments.declare import PRESETS, Group, Sweep
from jbt.experiments.parts import Part
from jbt.experiments.table import Table
from jbt.simulation.simulate import Simulation, check_chunking, check_seed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

PATIENCE_SECONDS = 3.0
"""A wait longer than this is explained."""

CALL_PROBLEMS = 16_384
"""Fits of 30 items a call on a CPU, a second or two. More would not be faster there, and a call is
a step of the progress bar and a shard, which a killed run loses."""

CLAIM_SECONDS = 60.0
"""How long a part waits for other parts that are starting too."""
LISTING_SECONDS = 120.0
"""How long a network file system may list a folder without another machine's new files."""


def main(sweep: type[Sweep], argv: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    """The command line of a sweep; returns the exit code, see `exits.exit_code`. `prog` is what the
    user has typed, default `python -m sweeps.NAME`."""
    argv = sys.argv[1:] if argv is None else list(argv)
    interrupted = "\ninterrupted; the same command continues (without --overwrite)"

    def command() -> None:
        run(_parsed(sweep, argv, prog or f"python -m sweeps.{sweep.name}"))

    return exit_code(command, interrupted=interrupted)


def _parsed(sweep: type[Sweep], argv: Sequence[str], prog: str) -> Sweep:
    parser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False)
    parser.add_argument("--preset", choices=PRESETS)
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--out", type=Path, default=Sweep.out)
    options = parser.parse_known_args(argv)[0]
    defaults = sweep.at(options.preset or "full")
    folder = options.out / sweep.name
    if options.redraw and not options.preset and (folder / store.RESULTS).exists():
        defaults = results.saved(folder, defaults)
    _check_counts(sweep, argv)
    texts = {"prog": prog, "description": sweep.description()}
    return inputs.parse(sweep, argv, default=defaults, **texts)


def _check_counts(kind: Any, argv: Sequence[str]) -> None:
    """Raise `ValueError` for `--pool 10` where --pool takes a word and --pools a count."""
    is_count = {
        f"--{f.name.replace('_', '-')}": f.type in (int, "int") for f in dataclasses.fields(kind)
    }
    words = [word for argument in argv for word in argument.split("=", 1)]
    for option, value in pairwise(words):
        takes_word = not is_count.get(option, True)
        if takes_word and is_count.get(f"{option}s") and value.isdecimal():
            raise ValueError(f"{option} takes no number, got {value}: did you mean {option}s?")


@runtime.defaults()
def run(sweep: Sweep) -> pd.DataFrame | None:
    """Run (or continue, or report again) a sweep; print its table and return it.

    A part (`sweep.part`, or a process other than 0 with `sweep.distributed`) only computes
    its pools and returns None.

    Raises:
      ValueError: wrong options, another configuration or code in the folder, metrics whose shapes
        are not those of their axes, nothing to redraw or other settings than those of the results,
        incomplete parts.
    """
    sweep = sweep.decided()
    part = _asked_part(sweep)
    sweep.check()
    check_seed(sweep.seed)
    folder = sweep.out / sweep.name
    store.check_not_own(sweep.json, folder)
    files.check_writable(sweep.json, overwrite=sweep.overwrite)
    if sweep.redraw:
        _check_saved(results.saved(folder, sweep), sweep, folder)
        with store.locked(folder) as writable:
            if writable:
                store.discard_torn(folder)
            return _report(sweep, folder, writable)
    runtime.start()
    if sweep.distributed:
        process = (part.index, part.count) if part else None
        with said_after(PATIENCE_SECONDS, "waiting for the other processes"):
            part = Part(*runtime.join(sweep.coordinator, process))
    check_chunking(sweep.chunk, sweep.devices)
    with said_after(PATIENCE_SECONDS, f"{sweep.name}: preparing the conditions"):
        groups = sweep.groups()
    results.check_groups(groups, sweep.index)
    if part and part.count > (most := max(group.pools for group in groups)):
        raise ValueError(f"part {part}: there are only {most} pools to share out")
    Table(sweep.columns, sweep, sweep.paper())  # raises now, not after hours, if it must
    configuration, code = provenance.configuration_of(sweep), provenance.code_of(type(sweep))
    if part:
        _run_part(sweep, groups, configuration, code, folder, part)
        if sweep.distributed:
            runtime.leave()
        if not sweep.distributed or part.index:
            return None
    wait = CLAIM_SECONDS if part else 0.0
    with store.locked(folder, overwrite=sweep.overwrite, wait=wait) as writable:
        if sweep.overwrite:
            parts.check_idle(folder)
        if writable:
            store.claim(folder, configuration, code, overwrite=sweep.overwrite)
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
                simulate_missing(sweep, groups, folder)
            results.write(sweep, groups, configuration, code, folder)
        if writable:
            store.discard_shards(folder)  # gone already, unless a run was killed right here
        return _report(sweep, folder, writable)


def _check_saved(saved: Sweep, asked: Sweep, folder: Path) -> None:
    """Raise `ValueError` unless the saved settings are those asked for; versions may differ."""
    before, now = map(provenance.fields_of, (saved, asked))
    if differ := store.differences(before, now):
        raise ValueError(
            f"{folder / store.RESULTS} has other settings: {differ}; --redraw alone takes the "
            "saved ones"
        )


def _asked_part(settings: Sweep) -> Part | None:
    """The part asked for, if any.

    Raises:
      ValueError: it is not I/N, or other options contradict it.
    """
    if settings.coordinator is not None:
        if not settings.distributed:
            raise ValueError("--coordinator needs --distributed")
        if not re.fullmatch(r".+:[0-9]+", settings.coordinator):
            raise ValueError(f"coordinator must be ADDRESS:PORT, got {settings.coordinator!r}")
    if settings.part is None and not settings.distributed:
        return None
    option = "--distributed" if settings.distributed else "--part"
    if settings.overwrite:
        raise ValueError(
            f"--overwrite does not go with {option}, because other processes may be writing: "
            "remove the results' folder first"
        )
    if settings.redraw:
        raise ValueError(f"--redraw does not go with {option}")
    if settings.json is not None and not settings.distributed:
        raise ValueError("--json does not go with --part, which makes no table")
    return None if settings.part is None else parts.parse(settings.part)


def _run_part(
    sweep: Sweep,
    groups: list[Group],
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    folder: Path,
    part: Part,
) -> None:
    """Compute those of a part's pools that no shard holds."""
    with ExitStack() as stack:
        with store.locked(folder, wait=CLAIM_SECONDS) as writable:
            if writable:
                store.claim(folder, configuration, code, overwrite=False)
            else:
                store.holds(folder, configuration, code)
            if (folder / store.RESULTS).exists():
                results.check_results(folder, configuration)
                print(f"{folder} is complete, nothing is left for part {part}")
                return
            stack.enter_context(parts.begun(folder, part))
        simulate_missing(sweep, groups, folder, part)
    print(f"part {part} is complete in {folder}")


def _check_complete(groups: list[Group], folder: Path, count: int, *, wait: float) -> None:
    """Raise `ValueError` unless shards hold every pool; wait for them `wait` seconds at most."""
    deadline = time.monotonic() + wait
    while absent := shards.incomplete(folder, groups, count):
        if time.monotonic() >= deadline:
            running = [part for part in absent if parts.running(folder, part)]
            raise ValueError(
                f"{folder}: {len(absent)} of {count} parts are incomplete ({parts.listed(absent)})"
                + (f", some of them running ({parts.listed(running)})" if running else "")
                + "; the results are collected once all parts are complete"
            )
        time.sleep(1.0)


def simulate_missing(
    sweep: Sweep, groups: list[Group], folder: Path, part: Part | None = None
) -> None:
    simulations, smoke = {}, sweep.preset == "smoke"
    for group in groups:
        if len(ids := shards.missing(folder, group, part)):
            simulations[group.name] = Simulation(
                group.experiment,
                group.conditions,
                ids,
                data=group.data,
                seed=sweep.seed,
                dtype=sweep.dtype,
                chunk=sweep.chunk or _default_chunk(group),
                devices=sweep.devices,
                # It simulates next to nothing. The batch depends on nothing but the group.
                **({"optimise": False, "batch": -(-group.pools // 2)} if smoke else {}),
            )
    results.check_metrics(groups, simulations, folder, part)
    results.check_room(simulations, folder)
    total = sum(len(part.pools(g.pools)) if part else g.pools for g in groups)
    left = sum(len(simulation.pool_ids) for simulation in simulations.values())
    name = f"{sweep.name} {part}" if part else sweep.name
    if left:
        asked = [(g, len(simulations[g.name].pool_ids)) for g in groups if g.name in simulations]
        print(_intention(name, sweep, asked), file=sys.stderr)
    done = {"total": total, "initial": total - left, "unit_scale": True}
    with terminal.bar(name=name, unit="pool", **done) as bar:
        for group in groups:
            if group.name not in simulations:
                continue
            begin = time.perf_counter()
            for ids, out in simulations.pop(group.name).chunks():
                out[shards.SECONDS] = time.perf_counter() - begin
                shards.save_shard(folder, group.name, ids, out, part)
                bar.update(len(ids))
                begin = time.perf_counter()


def _intention(name: str, sweep: Sweep, left: Sequence[tuple[Group, int]]) -> str:
    """What a run is about to do, and about how long, before its first chunk.

    Args:
      left: groups, and how many pools are left of each.
    """
    conditions = sorted({group.n_conditions for group, _ in left})
    counts = " or ".join(f"{c:,}" for c in conditions)
    programs = f"{len(left)} program" + "s" * (len(left) != 1)
    groups = f" in {len(left)} groups" if len(left) > 1 else ""
    s = "s" if conditions != [1] else ""
    measured = times.times_of(type(sweep))
    work = sum(pools * times.fits_a_pool(group) for group, pools in left)
    return (
        f"{name}: {sum(pools for _, pools in left):,} pools{groups} under {counts} condition{s} "
        f"each, {programs} to compile; "
        + (measured.said(sweep.preset, work) if measured else "some seconds of compiling each")
    )


def _default_chunk(group: Group) -> int | None:
    if jax.default_backend() != "cpu":
        return None
    return max(1, int(CALL_PROBLEMS / times.fits_a_pool(group)))


def table_of(sweep: Sweep, dataset: xr.Dataset) -> pd.DataFrame:
    """The table of some results, with the paper's numbers. Numbers for these options that no row
    matches are reported on stderr."""
    table = Table(sweep.columns, sweep, sweep.paper())
    sweep.table(dataset, table)
    if unmatched := table.without_a_row():
        first = unmatched[0]
        setting = " ".join(f"{name}={value}" for name, value in first.setting.items())
        count = "1 number" if len(unmatched) == 1 else f"{len(unmatched)} numbers"
        print(
            f"paper.csv: no row of this table matches {count} of these settings, the first: "
            f"{first.quantity} = {first.printed} at {setting or 'every setting'}",
            file=sys.stderr,
        )
    return table.frame()


def _report(sweep: Sweep, folder: Path, writable: bool) -> pd.DataFrame:
    """Make table and figure from results.nc alone; only print the table if the folder is
    read-only."""
    table_file, figure_file = folder / store.TABLE, folder / store.FIGURE
    with results.open_results(folder) as dataset:
        changed = store.changed(json.loads(dataset.attrs["code"]), provenance.code_of(type(sweep)))
        try:
            table = table_of(sweep, dataset)
        except KeyError as error:
            if not changed:
                raise
            raise ValueError(
                f"{folder / store.RESULTS} was simulated before {', '.join(changed)} changed, and "
                f"lacks what its table needs now ({error}); --overwrite simulates again"
            ) from error
        page = sweep.page(table)
        if writable:
            from jbt.experiments import plots

            figure = sweep.figure(dataset, table)
            csv = table.to_csv(index=False, float_format="%.6g")
            files.write_whole(table_file, lambda p: p.write_text(csv))
            files.write_whole(figure_file, lambda p: plots.save(figure, p))
            if page:
                files.write_whole(
                    folder / store.PAGE, lambda p: p.write_text(page, encoding="utf-8")
                )
        failed = {
            str(name): int((dataset[name] > 0).sum())
            for name in dataset.data_vars
            if str(name).startswith("status")
        }
    if sweep.json is not None:
        text = table.to_json(orient="records", indent=1) + "\n"
        files.write_together({sweep.json: text}, overwrite=sweep.overwrite)
    if answer := sweep.answer(table):
        print(answer, end="\n\n")
    printed = sweep.headline(table)
    shown = printed.dropna(axis=1, how="all")
    print(shown.to_string(index=False, na_rep="", float_format=lambda v: f"{v:.4g}"))
    for name, count in failed.items():
        if count:
            print(f"{count} fits did not converge ({name}); see results.nc", file=sys.stderr)
    if changed:
        print(
            f"changed since these results were simulated: {', '.join(changed)}; "
            "--overwrite simulates them again",
            file=sys.stderr,
        )
    if len(printed) < len(table):
        print(f"\n{len(printed)} of {len(table)} rows; {store.TABLE} has all of them")
    paths = [table_file, figure_file, *([folder / store.PAGE] if page else [])]
    listed = ", ".join(map(str, paths))
    if writable:
        print(f"\nwritten: {listed}, {folder / store.RESULTS}")
    else:
        print(f"not written, as {folder} is read-only: {listed}", file=sys.stderr)
    return table


@contextmanager
def said_after(seconds: float, line: str) -> Iterator[None]:
    """Print a line on stderr if the `with` block takes longer than this."""
    timer = threading.Timer(seconds, print, (line,), {"file": sys.stderr})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
