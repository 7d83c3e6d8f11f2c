"""Run the coverage suite; see the package's docstring, or --help."""

from __future__ import annotations

import argparse
import importlib
import platform
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import pandas as pd

import jbt
from benchmarks import calibration
from benchmarks.calibration import Cell, Cells
from jbt import runtime
from jbt.border import files

NAMES = tuple(
    sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("_"))
)

PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"

HEAD = """# Do the intervals cover?

Every interval and rate that jbt prints, simulated where its assumptions hold and where they fail.
**Coverage** is the share of the printed intervals that hold the truth, with its own 95 % interval;
**printed** is the share of studies in which jbt prints the interval instead of withholding it with
a reason. The target for 95 % intervals is .93 to .97; a row is marked ✗ where the coverage's own
interval lies wholly outside, and the last column gives the reason, or what the command prints
there. A guarantee (≥) may cover more than it promises. Not simulated: differences between judges
without a trusted one, theta and P(top k) of joint fits, joint leaderboards, and fits with `--lam`.

`python -m benchmarks.calibration` makes this page.

| file | rows | on target | with ✗ |
|---|---|---|---|
"""

COMPARED = "for comparison"
"""Marks intervals that jbt does not print."""


def cells_of(name: str) -> Cells:
    """The function `cells` of one file of this package."""
    return importlib.import_module(f"benchmarks.calibration.{name}").cells


def row(cell: Cell) -> dict[str, object]:
    """A cell as a row of the CSV."""
    share, low, high = cell.coverage if cell.printed else (float("nan"),) * 3
    return {
        "interval": cell.interval,
        "setting": cell.setting,
        "nominal": cell.nominal,
        "one_sided": cell.one_sided,
        "studies": cell.studies,
        "printed": cell.printed / cell.studies,
        "coverage": share,
        "ci_low": low,
        "ci_high": high,
        "median_width": cell.median_width,
        "on_target": cell.on_target,
        "note": cell.note,
    }


def _counts(name: str, rows: pd.DataFrame) -> str:
    printed = rows[~rows.interval.str.contains(COMPARED)]
    on_target = int(printed.on_target.sum())
    return f"| {name} | {len(printed)} | {on_target} | {len(printed) - on_target} |"


def page(folder: Path) -> str:
    """The page made from all CSV files in a folder."""
    tables = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    parts = [HEAD + "\n".join(_counts(name, rows) for name, rows in tables.items())]
    for name, rows in tables.items():
        parts.append(f"\n`python -m benchmarks.calibration {name}`")
        for interval, cells in rows.groupby("interval", sort=False):
            parts.append(f"\n## {interval}\n")
            parts.append("| setting | studies | printed | nominal | coverage | | median width | |")
            parts.append("|---|---|---|---|---|---|---|---|")
            for r in (
                SimpleNamespace(**{str(k): v for k, v in record.items()})
                for record in cells.to_dict("records")
            ):
                covered = (
                    "none"
                    if pd.isna(r.coverage)
                    else f"{r.coverage:.3f} [{r.ci_low:.3f}, {r.ci_high:.3f}]"
                )
                width = "" if pd.isna(r.median_width) else f"{r.median_width:.3g}"
                sign = "≥ " if r.one_sided else ""
                note = "" if r.on_target or pd.isna(r.note) else r.note
                mark = "✓" if r.on_target else "✗"
                parts.append(
                    f"| {r.setting} | {r.studies} | {r.printed:.3f} | {sign}{r.nominal:g} "
                    f"| {covered} | {mark} | {width} | {note} |"
                )
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=calibration.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--studies", type=int, default=2000, help="studies in a cell (count)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/calibration"))
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no {', '.join(unknown)}: there are {', '.join(NAMES)}")
    runtime.start()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"jbt {jbt.__version__}, jax {jax.__version__}, Python {platform.python_version()}")
    for name in options.names or NAMES:
        begin, rows = time.perf_counter(), []
        for cell in cells_of(name)(options.studies, options.seed):
            rows.append(row(cell))
            r = rows[-1]
            print(
                f"{cell.interval} | {cell.setting} | printed {r['printed']:.3f} | "
                f"covers {r['coverage']:.3f} [{r['ci_low']:.3f}, {r['ci_high']:.3f}]"
                f"{'' if cell.on_target else '  MISSED'}",
                flush=True,
            )
        files.write_text(options.out / f"{name}.csv", pd.DataFrame(rows).to_csv(index=False))
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    PAGE.write_text(page(options.out))


if __name__ == "__main__":
    main()
