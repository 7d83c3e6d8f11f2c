"""Compare the answers of two checkouts of jbt: every command, wrong input, every sweep.

    JBT_DATA=... python -m benchmarks.same_numbers record CHECKOUT DIR [--only NAME...]
    python -m benchmarks.same_numbers compare BEFORE AFTER [--exact] [--only NAME...]

`record` runs the commands and mistakes of same_numbers.toml and the smoke preset of every sweep
from the code in CHECKOUT, each in a folder of its own in DIR; what DIR holds already is not run
again. NAME is the beginning of names (`fit`, `wrong`, `sweep_gate`), or `commands` for all but
sweeps. Two run at a time.

`compare` lists every difference of two such folders: a number that moved by more than 1e-9
(absolute, or relative to the larger), a key, column or row that only one has. Sentences, versions
and paths may differ; with --exact nothing may, in any file or in what was printed. It exits 1 if
anything else does. Make both recordings on one kind of machine.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jbt.own.tables.example import example

INPUTS = Path("../inputs")
"""The folder of inputs, as a command sees it."""
TABLES = ("verdicts", "items", "anchors")
AT_ONCE = 2
PROGRESS = re.compile(r".*\d%\|.*[\r\n]*")
"""A line of a progress bar, which tells times."""
TOLERANCE = 1e-9
COMPARED = {".csv", ".json", ".md", ".png", ".txt"}
"""Files whose bytes are compared: also what was printed. A journal has the time in it."""
UNCOMPARED = {
    *("jbt", "jax", "version", "versions", "code"),
    *("out", "json", "verdicts", "items", "anchors", "files", "written"),
}
"""Keys of versions, digests of the code, and paths."""


# --- record


def declared() -> dict[str, Any]:
    """The tables of same_numbers.toml, each command as a list of those to run in turn."""
    given = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    for name, job in given["commands"].items():
        given["commands"][name] = [job] if isinstance(job, str) else job
    return given


def write_inputs(folder: Path) -> None:
    """Write the files that commands read, with the tables of `jbt example` in a folder of its
    own."""
    (folder / "example").mkdir(parents=True, exist_ok=True)
    given, tables = declared(), example()
    for name in TABLES:
        tables[name].to_csv(folder / "example" / f"{name}.csv", index=False)
    files = dict(given["files"])
    for name, (_, table, text) in given["wrong_tables"].items():
        rows = tables[table].to_csv(index=False) if table else ""
        files[f"wrong_{name}.csv"] = rows + text
    for name, text in files.items():
        (folder / name).write_text(text)


def jobs_of(checkout: Path) -> dict[str, list[list[str]]]:
    """Name -> the commands to run in turn, as words after `python -m`."""
    given, data = declared(), Path(os.environ["JBT_DATA"])
    places = {**given["options"], "data": data, "in": INPUTS}
    places["example_items"] = INPUTS / "example/items.csv"
    for folder in (INPUTS / "example", data / "prd", data / "llmbar", data / "alpaca_eval"):
        tables = [t for t in TABLES if t != "anchors" or folder.name != "alpaca_eval"]
        places[folder.name] = " ".join(f"--{t} {folder}/{t}.csv" for t in tables)

    def words(command: str, **more: Path) -> list[str]:
        command = command.format_map(places | more)  # an option may hold places
        return ["jbt", *command.format_map(places | more).split()]

    jobs = {name: [words(turn) for turn in turns] for name, turns in given["commands"].items()}
    for name, (command, _, _) in given["wrong_tables"].items():
        jobs[f"wrong_{name}"] = [words(command, file=INPUTS / f"wrong_{name}.csv")]
    for number, command in enumerate(given["wrong_options"]):
        jobs[f"wrong_option_{number:02d}"] = [words(command)]
    for path in sorted((checkout / "sweeps").iterdir()):
        if path.stem[0].isalpha() and (path.suffix == ".py" or (path / "__main__.py").exists()):
            turn = [f"sweeps.{path.stem}", "--preset", "smoke", "--out", "."]
            jobs[f"sweep_{path.stem}"] = [turn]
    return jobs


def record(checkout: Path, folder: Path, only: list[str]) -> None:
    """Run every command and sweep whose name begins with one of `only`; all if there is none."""
    write_inputs(folder / "inputs")
    os.environ |= {"PYTHONPATH": str(checkout), "COLUMNS": "100"}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [
            pool.submit(run, folder / name, job)
            for name, job in jobs_of(checkout).items()
            if is_wanted(name, only)
        ]
        for done in tqdm(runs, unit="command"):
            done.result()


def is_wanted(name: str, only: list[str]) -> bool:
    return not only or any(
        name.startswith(beginning) or (beginning == "commands" and not name.startswith("sweep_"))
        for beginning in only
    )


def run(folder: Path, turns: list[list[str]]) -> None:
    """Run commands in turn in a folder, unless they have run there."""
    finished = folder / "finished"
    if finished.exists():
        return
    folder.mkdir(exist_ok=True)
    codes = []
    for number, words in enumerate(turns):
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True
        )
        end = f"_{number}" if len(turns) > 1 else ""
        (folder / f"stdout{end}.txt").write_text(done.stdout)
        (folder / f"stderr{end}.txt").write_text(PROGRESS.sub("", done.stderr))
        codes.append(done.returncode)
    (folder / "exit").write_text(" ".join(map(str, codes)))
    finished.touch()


# --- compare


def compare(before: Path, after: Path, runs: set[str], *, exact: bool = False) -> list[str]:
    """The differences, a line each; at most twenty of a file.

    Args:
      before, after: folders that `record` wrote.
      runs: folders in them to compare.
      exact: compare every byte; otherwise numbers to `TOLERANCE`, and sentences may differ.
    """
    suffixes = COMPARED if exact else {".csv", ".json"}
    old, new = (
        {
            str(path.relative_to(root)): path
            for run in runs
            for path in (root / run).rglob("*")
            if path.name == "exit" or (path.suffix in suffixes and path.name != "zarr.json")
        }
        for root in (before, after)
    )
    differences = [
        f"{name}: only {'before' if name in old else 'after'}" for name in sorted(old ^ new.keys())
    ]
    for name in sorted(old.keys() & new.keys()):
        lines = list((of_bytes if exact else of_values)(old[name], new[name]))
        differences += [f"{name}{line}" for line in lines[:20]]
        if len(lines) > 20:
            differences.append(f"{name}: {len(lines) - 20} more")
    return differences


def of_bytes(before: Path, after: Path) -> Iterator[str]:
    """The lines that only one of two files has, marked - (before) and + (after)."""
    if before.suffix == ".png":
        if before.read_bytes() != after.read_bytes():
            yield ": another image"
        return
    old, new = (path.read_text().split("\n") for path in (before, after))
    changes = difflib.unified_diff(old, new, n=0, lineterm="")
    for line in itertools.islice(changes, 2, None):  # after the names of the files
        if not line.startswith("@@"):
            yield f": {line}"


def of_values(before: Path, after: Path) -> Iterator[str]:
    """The places at which two files differ by more than rounding, or than how a sentence is put."""
    old, new = (dict(values(content(path))) for path in (before, after))
    for place in old | new:
        if place not in old or place not in new:
            yield f"{place}: only {'before' if place in old else 'after'}"
        elif not is_same(old[place], new[place]):
            yield f"{place}: {old[place]!r} before, {new[place]!r} after"


def content(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    return path.read_text()


def values(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The places of nested dictionaries and lists, with what stands there."""
    if isinstance(content, dict):
        for key in sorted(content.keys() - UNCOMPARED):
            yield from values(content[key], f"{place}.{key}")
    elif isinstance(content, list):
        yield f"{place}, entries", len(content)
        for i, entry in enumerate(content):
            yield from values(entry, f"{place}[{i}]")
    else:
        yield place, content


def is_same(before: Any, after: Any) -> bool:
    """Whether values are equal, numbers to `TOLERANCE`, or both are words with spaces."""
    both = before, after
    if before == after or all(isinstance(v, str) and re.search(r"\w \w", v) for v in both):
        return True
    try:
        return math.isclose(*map(float, both), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except (TypeError, ValueError):
        return False


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.same_numbers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", choices=("record", "compare"))
    parser.add_argument("paths", nargs=2, type=lambda path: Path(path).resolve(), metavar="PATH")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    first, second = options.paths
    if options.task == "record":
        record(first, second, options.only)
        return 0
    runs = {path.parent.name for folder in (first, second) for path in folder.glob("*/exit")}
    runs = {run for run in runs if is_wanted(run, options.only)}
    differences = compare(first, second, runs, exact=options.exact)
    print(*differences, sep="\n")
    how = "in any byte" if options.exact else f"beyond {TOLERANCE:g}"
    print(f"{len(runs)} commands and sweeps, {len(differences)} differences {how}")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
