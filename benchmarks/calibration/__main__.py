"""Run the coverage suite; see the package's docstring, or --help."""

from __future__ import annotations

import argparse
import importlib
import platform
import time
from pathlib import Path

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

KEPT = PAGE.with_suffix("")
"""The rows that the page is made from, a file for each file of this package."""

HEAD = """# Do the intervals cover?

Every interval and rate that jbt prints, simulated where its assumptions hold and where they fail.
**Coverage** is the share of the printed intervals that hold the truth; **printed** is the share of
studies in which jbt prints the interval instead of withholding it with a reason. Both are given
from the least to the largest of an interval's settings; every setting has its row in
[calibration](calibration). The target for 95 % intervals is .93 to .97; a setting
misses it where the coverage's own 95 % interval lies wholly outside. A guarantee (≥) may cover more
than it promises. Not simulated: differences between judges without a trusted one, theta and
P(top k) of joint fits, joint leaderboards without `--judge-aware`, and fits with `--lam`.

`python -m benchmarks.calibration NAME --keep` simulates a section again and makes this page.
"""

MISSED = """
## Where they miss

The last column gives the reason, or what the command prints there.

| interval | setting | coverage | |
|---|---|---|---|"""


COMPARED = "for comparison"
"""Marks intervals that jbt does not print, whose misses are no fault of it."""


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


def page(folder: Path = KEPT) -> str:
    """The page made from all CSV files in a folder."""
    parts, missed = [HEAD], [MISSED]
    for path in sorted(folder.glob("*.csv")):
        rows = pd.read_csv(path)
        parts.append(f"\n## {path.stem}\n")
        parts.append("| interval | settings | printed | nominal | coverage | on target |")
        parts.append("|---|---|---|---|---|---|")
        for interval, cells in rows.groupby("interval", sort=False):
            sign = "≥ " if cells.one_sided.any() else ""
            nominal = "/".join(f"{n:g}" for n in sorted(set(cells.nominal)))
            parts.append(
                f"| {interval} | {len(cells)} | {_span(cells.printed)} | {sign}{nominal} "
                f"| {_span(cells.coverage)} | {int(cells.on_target.sum())} |"
            )
            if COMPARED in str(interval):
                continue
            for r in cells[~cells.on_target].astype({"note": object}).to_dict("records"):
                note = "" if pd.isna(r["note"]) else r["note"]
                covered = f"{r['coverage']:.3f} [{r['ci_low']:.3f}, {r['ci_high']:.3f}]"
                missed.append(f"| {interval} | {r['setting']} | {covered} | {note} |")
    return "\n".join([*parts, *missed]) + "\n"


def _span(values: pd.Series) -> str:
    """The least and the largest of some shares."""
    if not values.notna().any():
        return "none"
    least, largest = f"{values.min():.3f}", f"{values.max():.3f}"
    return least if least == largest else f"{least} to {largest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=calibration.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--studies", type=int, default=2000, help="studies in a cell (count)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/calibration"))
    parser.add_argument(
        "--keep", action="store_true", help="keep the rows, and make docs/calibration.md of them"
    )
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
        table = pd.DataFrame(rows).to_csv(index=False, float_format="%.4g")
        for folder in (options.out, *([KEPT] if options.keep else [])):
            files.write_text(folder / f"{name}.csv", table)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    if options.keep:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
