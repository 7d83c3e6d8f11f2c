"""Compare the numbers of two checkouts of jbt: every sweep and every command.

    JBT_DATA=... python -m benchmarks.same_numbers record CHECKOUT DIR
    python -m benchmarks.same_numbers compare BEFORE AFTER

`record` runs the smoke preset of every sweep and every `jbt` command of `COMMANDS` from the code in
CHECKOUT and saves their tables and JSON in DIR; what DIR holds already is not run again. `compare`
lists every difference of two such folders: a number that moved by more than 1e-9 (absolute, or
relative to the larger), a key, column or row that only one has. Sentences, versions and paths may
differ. It exits 1 if anything else does. Make both recordings on one kind of machine.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

TOLERANCE = 1e-9

LOG = "--covariates words --transform log"
LLMBAR = "--covariates words markdown"
ALPACA = "--covariates words --transform log1p"
COMMANDS = {
    "example": "example {out}/tables",
    "import_alpaca_eval": "import {data}/raw/alpaca_eval_annotations.json --out {out}/tables",
    "import_llmbar": "import {data}/raw/llmbar_swap_result.json --out {out}/tables",
    "doctor_prd": "doctor {prd} " + LOG,
    "doctor_llmbar": "doctor {llmbar} " + LLMBAR,
    "doctor_alpaca_eval": "doctor {alpaca_eval} " + ALPACA,
    "fit_prd": "fit {prd} " + LOG,
    "fit_prd_merged": "fit {prd} --merge-pools " + LOG,
    "fit_prd_joint": "fit {prd} --joint --content none " + LOG,
    "fit_llmbar": "fit {llmbar} --merge-pools " + LLMBAR,
    "fit_alpaca_eval": "fit {alpaca_eval} --merge-pools " + ALPACA,
    "fit_example_joint": "fit {example} --joint --content none " + LOG,
    "identify_prd": "identify {prd} " + LOG,
    "identify_prd_merged": "identify {prd} --merge-pools " + LOG,
    "identify_llmbar": "identify {llmbar} --merge-pools " + LLMBAR,
    "identify_example_joint": "identify {example} --joint --content none " + LOG,
    "leaderboard_prd": "leaderboard {prd} --robust " + LOG,
    "leaderboard_prd_joint": "leaderboard {prd} --joint " + LOG,
    "leaderboard_alpaca_eval": "leaderboard {alpaca_eval} --robust " + ALPACA,
    "gate_prd": "gate {prd} --hold-out 0.5 " + LOG,
    "gate_llmbar": "gate {llmbar} " + LLMBAR,
    "gate_example_betting": "gate {example} --rule sign_sequential " + LOG,
    "replay_prd": "replay {prd} --seeds 2 " + LOG,
    "replay_llmbar": "replay {llmbar} --seeds 1 --rules random round_robin " + LLMBAR,
    "plan_labels": "plan labels {example} --k 2 --labels members " + LOG,
    "plan_labels_prd": "plan labels {prd} " + LOG,
    "plan_pairing": "plan pairing --pools 32",
    "plan_reference": "plan reference --pools 32",
    "plan_gate": "plan gate --pools 64 --sets 4",
}
"""Folder -> command; `{prd}` and the like are the options for a data set's tables."""

WITHOUT_FOLDER = ("plan_pairing", "plan_reference", "plan_gate")
"""Commands that take `--json` and no `--out`."""
UNCOMPARED = {
    *("jbt", "jax", "version", "versions", "code"),
    *("out", "json", "verdicts", "items", "anchors", "files", "written"),
}
"""Keys of versions, digests of the code, and paths."""


def record(checkout: Path, folder: Path) -> None:
    """Run every command and sweep, each into a folder of its own in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sweeps = sorted(
        p.stem for p in (checkout / "sweeps").iterdir() if p.stem[0].isalpha() and _is_module(p)
    )
    jobs = [(name, _command(name, folder)) for name in COMMANDS]
    jobs += [(f"sweep_{name}", _sweep(name, folder)) for name in sweeps]
    for name, words in tqdm(jobs, unit="command"):
        finished = folder / name / "finished"
        if finished.exists():
            continue
        (folder / name).mkdir(exist_ok=True)
        run = subprocess.run(
            [sys.executable, "-m", *words], cwd=checkout, capture_output=True, text=True
        )
        (folder / name / "stdout.txt").write_text(run.stdout)
        (folder / name / "stderr.txt").write_text(run.stderr)
        finished.write_text(f"{run.returncode}\n")


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__main__.py").exists()


def _command(name: str, folder: Path) -> list[str]:
    data = os.environ["JBT_DATA"]
    out = folder / name
    words = COMMANDS[name].format(
        out=out,
        data=data,
        prd=_tables(Path(data, "prd")),
        llmbar=_tables(Path(data, "llmbar")),
        alpaca_eval=_tables(Path(data, "alpaca_eval"), anchors=False),
        example=_tables(folder / "example" / "tables"),
    )
    outputs = ["--json", str(out / "answer.json")]
    if name == "plan_labels" or name == "plan_labels_prd":
        outputs += ["--out", str(out / "ask.csv")]
    elif name not in WITHOUT_FOLDER and "--out" not in words and name != "example":
        outputs += ["--out", str(out / "report")]
    return ["jbt", *words.split(), *outputs]


def _tables(folder: Path, anchors: bool = True) -> str:
    names = ("verdicts", "items", "anchors") if anchors else ("verdicts", "items")
    return " ".join(f"--{name} {folder}/{name}.csv" for name in names)


def _sweep(name: str, folder: Path) -> list[str]:
    return [f"sweeps.{name}", "--preset", "smoke", "--out", str(folder / f"sweep_{name}")]


def compare(before: Path, after: Path) -> list[str]:
    """The differences, a line each; at most twenty of a file."""
    differences = []
    files = [
        {str(p.relative_to(root)) for p in root.rglob("*") if p.suffix in (".csv", ".json")}
        | {str(p.relative_to(root)) for p in root.rglob("finished")}
        for root in (before, after)
    ]
    for name in sorted(files[0] ^ files[1]):
        differences.append(f"{name}: only {'before' if name in files[0] else 'after'}")
    for name in sorted(files[0] & files[1]):
        lines = list(_differences(_content(before / name), _content(after / name), ""))
        differences += [f"{name}{line}" for line in lines[:20]]
        if len(lines) > 20:
            differences.append(f"{name}: {len(lines) - 20} more")
    return differences


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    return path.read_text()


def _differences(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key in UNCOMPARED:
                continue
            if key not in before or key not in after:
                yield f"{where}.{key}: only {'before' if key in before else 'after'}"
            else:
                yield from _differences(before[key], after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} entries before, {len(after)} after"
        for i, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _differences(old, new, f"{where}[{i}]")
    elif (old := _number(before)) is not None and (new := _number(after)) is not None:
        if not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{where}: {before} before, {after} after"
    elif before != after and not (_is_sentence(before) and _is_sentence(after)):
        yield f"{where}: {before!r} before, {after!r} after"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _is_sentence(value: Any) -> bool:
    """Whether a value is words with spaces, which may be reworded."""
    return isinstance(value, str) and bool(re.search(r"\w \w", value))


def main() -> int:
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "compare"):
        print(__doc__)
        return 2
    first, second = (Path(word).resolve() for word in sys.argv[2:])
    if sys.argv[1] == "record":
        record(first, second)
        return 0
    differences = compare(first, second)
    n_files = sum(1 for _ in second.rglob("finished"))
    print(*differences, sep="\n")
    print(f"{n_files} commands and sweeps, {len(differences)} differences beyond {TOLERANCE:g}")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
