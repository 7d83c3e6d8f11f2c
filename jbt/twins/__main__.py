"""`python -m jbt.twins`: calibrate the twins of the paper's judges, and write their file."""

from __future__ import annotations

import csv
import dataclasses

from jbt import runtime
from jbt.simulation import pools
from jbt.twins import DATA, ORACLES, Twin, calibrate, known


def main() -> None:
    """Calibrate every twin and write `DATA`: five minutes on two cores."""
    runtime.start()
    twins = [
        twin
        for others in pools.OTHERS
        for oracle in ORACLES
        for twin in calibrate(list(known().values()), oracle=oracle, others=others)
    ]
    with DATA.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in dataclasses.fields(Twin))
        for t in twins:
            row = dataclasses.astuple(t)
            writer.writerow(f"{v:.5g}" if isinstance(v, float) else v for v in row)
    for t in twins:
        missed = t.misses(known()[t.name])
        print(f"{t.name} {t.oracle} {t.others}: {', '.join(missed) or 'meets its targets'}")


if __name__ == "__main__":
    main()
