"""What a run waits for: seconds of CPU, of compiling, the number of compiled programs, and of loops
in the largest program of a simulation.

    python -m benchmarks.compile [CHECKOUT] [NAME ...]

Each sweep's smoke preset and the commands, on the example's tables and on prd, run twice from the
code in CHECKOUT (default this one), each time in a process of its own: cold, with an empty folder
for kept programs, and again. `commands` names all commands. A command that fails, as those do that
CHECKOUT lacks, is said to. Both runs start with the interpreter; the counts are those of JAX's
monitoring.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import timing
from jbt.commands.sweep import NO_SWEEPS

HERE = Path(__file__).resolve().parent.parent
TABLES = "--verdicts {0}/verdicts.csv --items {0}/items.csv --anchors {0}/anchors.csv"
COVARIATES = "--covariates words --transform log"
ON_TABLES = {
    "jbt doctor": f"doctor {TABLES} {COVARIATES}",
    "jbt judge": f"judge {TABLES} {COVARIATES}",
    "jbt identify": f"identify {TABLES} {COVARIATES}",
    "jbt fit": f"fit {TABLES} {COVARIATES}",
    "jbt leaderboard": f"leaderboard {TABLES} {COVARIATES}",
    "jbt gate": f"gate {TABLES} {COVARIATES}",
    "jbt replay": f"replay {TABLES} {COVARIATES} --seeds 1 --rules random",
    "jbt plan labels": f"plan labels {TABLES} {COVARIATES}",
    "jbt plan prompts": f"plan prompts {TABLES} {COVARIATES}",
}
"""Commands on a user's tables, measured on the example's and on prd."""

COMMANDS = {
    "jbt --help": "--help",
    **{f"{name} (example)": words for name, words in ON_TABLES.items()},
    **{f"{name} (prd)": words for name, words in ON_TABLES.items()},
    "jbt plan gate": "plan gate --pools 100",
    "jbt plan pairing": "plan pairing --pools 100",
    "jbt plan reference": "plan reference --pools 100",
}
WIDTH = 26
"""Of the column of names."""

COUNTED = """
import json, os, runpy, sys
if sys.argv[1] != "jbt" or sys.argv[2:] != ["--help"]:
    import jax
    seconds, hits, loops = [], [], [0]
    compile = jax.stages.Lowered.compile
    def counted(lowered, *options, **named):
        loops.append(lowered.as_text().count("stablehlo.while"))
        return compile(lowered, *options, **named)
    jax.stages.Lowered.compile = counted  # what a simulation compiles with
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, s, **_: seconds.append(s) if name.endswith("backend_compile_duration") else 0
    )
    jax.monitoring.register_event_listener(
        lambda name, **_: hits.append(1) if name.endswith("cache_hits") else 0
    )
    import atexit
    atexit.register(lambda: json.dump(
        {
            "compile": sum(seconds),
            "programs": len(seconds),
            "found": len(hits),
            "loops": max(loops),
        },
        open(os.environ["COUNTS"], "w"),
    ))
module = sys.argv.pop(1)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def measure(words: list[str], checkout: Path, cache: Path, scratch: Path) -> dict[str, float]:
    """Run a module with its arguments; seconds and counts."""
    counts = scratch / "counts.json"
    counts.unlink(missing_ok=True)
    settings = {**os.environ, "JBT_CACHE": str(cache), "COUNTS": str(counts)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", COUNTED, *words], cwd=checkout, env=settings, capture_output=True
    )
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    run.check_returncode()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    numbers = json.loads(counts.read_text()) if counts.exists() else {}
    return {"wall": wall, "cpu": cpu, **numbers}


def main(arguments: list[str]) -> None:
    checkout = (
        Path(arguments.pop(0)).resolve() if arguments[:1] and Path(arguments[0]).is_dir() else HERE
    )
    print(timing.header(f"Waiting for the first number: {checkout}", ("jax", "jaxlib", "numpy")))
    line = f"{{:{WIDTH}}}" + "{:>9s}" * 7
    heads = "cold", "compile", "programs", "loops", "again", "compile", "wall"
    print(line.format("", *heads), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        tables = scratch / "tables"
        make = [sys.executable, "-m", "jbt", "example", str(tables)]
        subprocess.run(make, cwd=checkout, check=True, capture_output=True)
        prd = Path(os.environ.get("JBT_DATA", "")) / "prd"
        jobs = {
            name: ["jbt", *words.format(prd if name.endswith("(prd)") else tables).split()]
            for name, words in COMMANDS.items()
            if prd.is_dir() or not name.endswith("(prd)")
        }
        sweeps = {p.stem for p in (HERE / "sweeps").glob("[a-z]*") if p.suffix in ("", ".py")}
        for name in sorted(sweeps - set(NO_SWEEPS)):
            jobs[name] = [f"sweeps.{name}", "--preset", "smoke"]
        for name, words in jobs.items():
            kind = "commands" if words[0] == "jbt" else "sweeps"
            if arguments and not {name, kind} & set(arguments):
                continue
            if words[0] != "jbt" and not os.environ.get("JBT_DATA") and _recorded(name):
                continue
            cache = scratch / f"cache {name}"
            runs = []
            try:
                for i in ("cold", "again"):
                    out = [] if words[0] == "jbt" else ["--out", str(scratch / i)]
                    runs.append(measure([*words, *out], checkout, cache, scratch))
            except subprocess.CalledProcessError as failed:
                print(f"{name:{WIDTH}} ended with {failed.returncode}", flush=True)
                continue
            cold, again = runs
            numbers = [
                cold["cpu"],
                cold.get("compile", 0.0),
                cold.get("programs", 0),
                cold.get("loops", 0),
            ]
            numbers += [again["cpu"], again.get("compile", 0.0), again["wall"]]
            shown = [f"{v:.2f}" if isinstance(v, float) else str(v) for v in numbers]
            print(line.format(name, *shown), flush=True)


def _recorded(sweep: str) -> bool:
    """Whether it needs recorded verdicts."""
    return sweep in ("alpaca_eval", "llmbar", "real_judges")


if __name__ == "__main__":
    main(sys.argv[1:])
