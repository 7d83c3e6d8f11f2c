"""Compare the answers of two checkouts of jbt: every command, wrong input, every sweep.

    JBT_DATA=... python -m benchmarks.same_numbers record CHECKOUT DIR [--only NAME...]
    python -m benchmarks.same_numbers compare BEFORE AFTER [--exact] [--only NAME...]

`record` runs the commands of `commands.py`, the mistakes of `inputs.py` and the smoke preset of
every sweep from the code in CHECKOUT, each in a folder of its own in DIR; what DIR holds already is
not run again. NAME is the beginning of names (`fit`, `wrong`, `sweep_gate`), or `commands` for all
but sweeps. Two run at a time.

`compare` lists every difference of two such folders: a number that moved by more than 1e-9
(absolute, or relative to the larger), a key, column or row that only one has. Sentences, versions
and paths may differ; with --exact nothing may, in any file or in what was printed. It exits 1 if
anything else does. Make both recordings on one kind of machine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from benchmarks.same_numbers import commands, inputs
from benchmarks.same_numbers.compare import TOLERANCE, compare

AT_ONCE = 2
PROGRESS = re.compile(r".*\d%\|.*[\r\n]*")
"""A line of a progress bar, which tells times."""


def record(checkout: Path, folder: Path, only: list[str]) -> None:
    """Run every command and sweep whose name begins with one of `only`; all if there is none."""
    inputs.write_inputs(folder / "inputs")
    jobs = {name: job for name, job in _jobs(checkout).items() if _is_wanted(name, only)}
    os.environ["PYTHONPATH"] = str(checkout)
    os.environ["COLUMNS"] = "100"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(_run, folder / name, job) for name, job in jobs.items()]
        for run in tqdm(runs, unit="command"):
            run.result()


def _is_wanted(name: str, only: list[str]) -> bool:
    return not only or any(
        name.startswith(beginning) or (beginning == "commands" and not name.startswith("sweep_"))
        for beginning in only
    )


def _jobs(checkout: Path) -> dict[str, list[list[str]]]:
    """Name -> the commands to run in turn, as words after `python -m`."""
    jobs = {}
    for name, job in commands.COMMANDS.items():
        turns = [job] if isinstance(job, str) else job
        jobs[name] = [["jbt", *commands.words(turn)] for turn in turns]
    for name, (command, _, _) in inputs.WRONG_TABLES.items():
        file = str(commands.INPUTS / f"wrong_{name}.csv")
        turn = commands.words(command.replace("{file}", file))
        jobs[f"wrong_{name}"] = [["jbt", *turn]]
    for number, command in enumerate(inputs.WRONG_OPTIONS):
        jobs[f"wrong_option_{number:02d}"] = [["jbt", *commands.words(command)]]
    for path in sorted((checkout / "sweeps").iterdir()):
        if path.stem[0].isalpha() and (path.suffix == ".py" or (path / "__main__.py").exists()):
            turn = [f"sweeps.{path.stem}", "--preset", "smoke", "--out", "."]
            jobs[f"sweep_{path.stem}"] = [turn]
    return jobs


def _run(folder: Path, turns: list[list[str]]) -> None:
    finished = folder / "finished"
    if finished.exists():
        return
    folder.mkdir(exist_ok=True)
    codes = []
    for number, words in enumerate(turns):
        run = subprocess.run(
            [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True
        )
        end = f"_{number}" if len(turns) > 1 else ""
        (folder / f"stdout{end}.txt").write_text(run.stdout)
        (folder / f"stderr{end}.txt").write_text(PROGRESS.sub("", run.stderr))
        codes.append(run.returncode)
    (folder / "exit").write_text(" ".join(map(str, codes)))
    finished.touch()


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.same_numbers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    recording = tasks.add_parser("record")
    recording.add_argument("checkout", type=Path)
    recording.add_argument("folder", type=Path)
    comparing = tasks.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--exact", action="store_true")
    for task in (recording, comparing):
        task.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    if options.task == "record":
        record(options.checkout.resolve(), options.folder.resolve(), options.only)
        return 0
    runs = {p.parent.name for f in (options.before, options.after) for p in f.glob("*/exit")}
    runs = {run for run in runs if _is_wanted(run, options.only)}
    differences = compare(options.before, options.after, runs, exact=options.exact)
    print(*differences, sep="\n")
    how = "in any byte" if options.exact else f"beyond {TOLERANCE:g}"
    print(f"{len(runs)} commands and sweeps, {len(differences)} differences {how}")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
