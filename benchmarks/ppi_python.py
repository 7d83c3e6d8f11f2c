"""Win rates by labels beside ppi-python, the reference implementation of PPI++.

    pip install ppi-python
    python -m benchmarks.ppi_python

Two models, one verdict on each of 4,000 prompts by a judge that is right in 8 of 10, and labels of
400. At the weight of `jbt leaderboard --beside ppi` both estimates are one number; `ppi_py` tunes
its own by the variance of all verdicts, jbt by that of the labelled prompts. Intervals of `ppi_py`
are normal, jbt's for a share, Student's t over prompts.
"""

from __future__ import annotations

import importlib

import numpy as np
import pandas as pd

from jbt import own

PROMPTS, LABELLED, RATE, RIGHT = 4000, 400, 0.6, 0.8


def main() -> None:
    try:
        ppi = importlib.import_module("ppi_py")
    except ImportError:
        print("skipped: this takes `pip install ppi-python`")
        return
    rng = np.random.default_rng(0)
    label = rng.random(PROMPTS) < RATE
    won = np.where(rng.random(PROMPTS) < RIGHT, label, ~label) * 1.0
    sides = {"pool": range(PROMPTS), "first": "a", "second": "b"}
    verdicts = pd.DataFrame({**sides, "p_first": won})
    labels = pd.DataFrame({**sides, "better": np.where(label, "first", "second")})
    tables = own.read(verdicts, None, labels.head(LABELLED))
    (board,) = own.leaderboard(tables, beside=("ppi",))
    assert board.labelled is not None
    row = board.labelled.models.iloc[0]
    print(f"jbt: {row['estimate']:.7f} [{row['low']:.4f}, {row['high']:.4f}]")
    samples = label[:LABELLED] * 1.0, won[:LABELLED], won[LABELLED:]
    for lam in (board.labelled.weight * (1 - LABELLED / PROMPTS), None):
        (estimate,) = ppi.ppi_mean_pointestimate(*samples, lam=lam)
        (low,), (high,) = ppi.ppi_mean_ci(*samples, lam=lam, alpha=0.05)
        print(f"ppi_py, weight {lam}: {estimate:.7f} [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    main()
