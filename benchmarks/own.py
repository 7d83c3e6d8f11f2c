"""Calls of `jbt.own` again in one process, with another table of about the same size.

    JBT_DATA=FOLDER python -m benchmarks.own [NAME ...]

CPU seconds and compiled programs of a first call on prd without its last prompt, and of a second
call on prd without its last three. Programs are not kept on disk.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import jax
import pandas as pd

from benchmarks import timing
from jbt import own

CALLS = {
    "own.doctor": lambda tables, batch: own.doctor(tables),
    "own.report_card": lambda tables, batch: own.report_card(tables, ["words"]),
    "own.fit": lambda tables, batch: own.fit(batch),
    "own.gate": own.gate,
    "own.identify": lambda tables, batch: own.identify(batch),
    "own.leaderboard": lambda tables, batch: own.leaderboard(tables, ["words"], transform="log"),
}


def main(names: list[str]) -> None:
    folder = Path(os.environ["JBT_DATA"]) / "prd"
    files = [pd.read_csv(folder / f"{name}.csv") for name in ("verdicts", "items", "anchors")]
    prompts = files[0]["pool"].unique()
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    print(timing.header("Calls again, CPU seconds (programs)", ("jax", "numpy")))
    print(f"{'':18s}{'first':>14s}{'second':>14s}")
    for name in names or CALLS:
        shown = []
        for left_out in (1, 3):
            kept = [f[f["pool"].isin(prompts[:-left_out])] for f in files]
            tables = own.read(*kept, covariates=["words"])
            before, begin = len(compiled), time.process_time()
            CALLS[name](tables, own.Batch.of(tables, ["words"], transform="log"))
            shown.append(f"{time.process_time() - begin:.2f} ({len(compiled) - before})")
        print(f"{name:18s}" + "".join(f"{v:>14s}" for v in shown), flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main(sys.argv[1:])
