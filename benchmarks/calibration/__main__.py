"""Run the coverage suite; see the package's docstring, or --help."""

from __future__ import annotations

import argparse
import importlib
import platform
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import jbt
from benchmarks import calibration
from benchmarks.calibration import CLAIMS, COMPARED, TITLES, Cell
from jbt import quick_compilation, runtime
from jbt.border import files

for _path in Path(__file__).parent.glob("[a-z]*.py"):  # modules register their claims
    importlib.import_module(f"benchmarks.calibration.{_path.stem}")

PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"

KEPT = PAGE.with_suffix("")
"""The rows that the page is made from, a file for each claim."""

HEAD = """# Do the intervals cover?

**Answer.** {answer}

Intervals and rates that jbt prints are simulated where their assumptions hold and where they fail.
**Coverage** is the share of printed intervals that contain the truth (for `jbt gate`: of decisions
without a false enable). The table shows the lowest and the highest of all settings. The target is
the promised level ± .02. A setting misses it if the coverage's own 95 % interval lies wholly
outside. A guarantee (≥) may cover more. The linked files have every setting, and how often jbt
prints the interval instead of withholding it with a reason (`printed`).

A target that a few hundred studies cannot miss says little, so two columns show how strict it is.
They leave out guarantees and settings in which an assumption is known to fail.

- **Below** is the number of settings whose coverage is significantly below the promise. One in
  forty is so by chance.
- **z** is the distance of the coverage of all settings together from the promise, in standard
  errors. Settings of one study depend on each other, so only a z beyond 3 is more than chance.

| what | intervals | settings | promised | coverage | on target | below | z |
|---|---|---|---|---|---|---|---|"""

ANSWER = (
    "Of {every:,} simulated settings, {right:,} are on target: intervals cover the truth about as "
    "often as promised.\n{missed} miss, mostly where an assumption fails."
)

MISSED = """
## Where they miss

| reason | where | settings | worst coverage |
|---|---|---|---|"""

FOOT = """
**Not simulated:** differences between judges without a trusted one, theta and P(top k) of joint
fits, joint leaderboards without `--judge-aware`, and fits with `--lam`.

**Drawn from the prior** (20,000 pools of ten, measured at revision cd803212): P(top 3) is right
within .02 in each of ten classes. The 95 % region of a pool's Laplace posterior contains theta in
.94 of pools, but c in .905 and kappa in .881, because large biases leave few verdicts in doubt.

`python -m benchmarks.calibration NAME --keep` simulates a row again and makes this page. A row for
another interval is [a function](extending.md#an-intervals-coverage).

**Next:** [benchmarks](benchmarks.md).
"""

REASONS = {
    r".*jbt gate: the bound": "labels wrong with two rates, or not independently",
    r"with few verdicts": "with few verdicts the profile is approximate",
    r"few studies print|withheld in most": "the interval is printed in few studies only",
    r"at one standard|0\.3 lies near": "the prior shrinks towards its mean",
    r"the report says": "qualities are widely spread; the report says so",
    r"promised ": "a planned half-width is approximate",
    r"slopes are first order": "few pools, or a target near its maximum: the error of "
    "the twin's calibration is of first order",
    r"$": "none known",
}
"""Beginning of a note -> the reason that the page gives; any other note is its own reason."""


MINUS = "\N{MINUS SIGN}"


def cells_of(name: str, studies: int, seed: int) -> Iterator[Cell]:
    """The cells of a claim."""
    for cells in CLAIMS[name]:
        yield from cells(studies, seed)


def row(cell: Cell) -> dict[str, object]:
    """A cell as a row of the CSV."""
    share, low, high = cell.coverage
    return {
        "interval": cell.interval,
        "setting": cell.setting,
        "nominal": cell.nominal,
        "one_sided": cell.one_sided,
        "studies": cell.studies,
        "printed": cell.printed / max(cell.studies, 1),
        "coverage": share,
        "ci_low": low,
        "ci_high": high,
        "median_width": cell.median_width,
        "on_target": cell.on_target,
        "note": cell.miss or cell.note,
    }


def page(folder: Path = KEPT) -> str:
    """The page made from all CSV files in a folder."""
    paths = sorted(folder.glob("*.csv"))
    tables = [pd.read_csv(path).assign(name=path.stem) for path in paths]
    every = pd.concat(tables, ignore_index=True)
    every = every[~every.interval.str.contains(COMPARED)]
    lines = [_line(str(name), rows) for name, rows in every.groupby("name")]
    missed = every[~every.on_target]
    reasons = missed.note.fillna("").map(_reason)
    misses = [
        f"| {reason} | {'; '.join(TITLES[name] for name in rows['name'].unique())} | {len(rows)} "
        f"| {_worst(rows)} |"
        for reason, rows in missed.groupby(reasons, sort=False)
    ]
    answer = ANSWER.format(every=len(every), right=len(every) - len(missed), missed=len(missed))
    return "\n".join([HEAD.format(answer=answer), *lines, MISSED, *misses, FOOT])


def _line(name: str, rows: pd.DataFrame) -> str:
    """A claim's: the levels it promises, and the least and the largest coverage; how far off, where
    the levels are several."""
    coverage, levels = rows.coverage, rows.nominal.unique()
    if len(levels) > 1:
        off = coverage - rows.nominal
        promised, span = "several", f"off by {off.min():+.3f} to {off.max():+.3f}"
    else:
        sign = "≥ " if rows.one_sided.all() else "≥ or = " if rows.one_sided.any() else ""
        promised, span = f"{sign}{levels[0]:g}", f"{coverage.min():.3f} to {coverage.max():.3f}"
    return (
        f"| [{TITLES[name]}]({KEPT.name}/{name}.csv) | {rows.interval.nunique()} | {len(rows)} "
        f"| {promised} | {span.replace('-', MINUS)} | {int(rows.on_target.sum())} "
        f"| {' | '.join(_criterion(rows))} |"
    )


def _criterion(rows: pd.DataFrame) -> tuple[str, str]:
    """Settings significantly below the promise, and the pooled z, in words."""
    rows = rows[~rows.one_sided & rows.note.isna() & (rows.printed > 0)]
    if rows.empty:
        return "", ""
    below, n = (rows.ci_high < rows.nominal).sum(), rows.studies * rows.printed
    variance = (n * rows.nominal * (1 - rows.nominal)).sum()
    z = (n * (rows.coverage - rows.nominal)).sum() / np.sqrt(variance)
    return f"{below} of {len(rows)}", f"{z:+.1f}".replace("-", MINUS)


def _worst(rows: pd.DataFrame) -> str:
    """The coverage farthest from what was promised, with its interval."""
    worst = rows.iloc[(rows.coverage - rows.nominal).abs().argmax()]
    promised = "" if worst.nominal == 0.95 else f", promised {worst.nominal:g}"
    return f"{worst.coverage:.3f} [{worst.ci_low:.3f}, {worst.ci_high:.3f}]{promised}"


def _reason(note: str) -> str:
    """The reason that a note gives, as short as the page has it."""
    return next((text for start, text in REASONS.items() if re.match(start, note)), note)


def _said(rows: Iterable[dict[Any, Any]]) -> Iterator[dict[Any, Any]]:
    """The rows, each printed as it comes."""
    for r in rows:
        print(
            f"{r['interval']} | {r['setting']} | printed {r['printed']:.3f} | "
            f"covers {r['coverage']:.3f} [{r['ci_low']:.3f}, {r['ci_high']:.3f}]"
            f"{'' if r['on_target'] else '  MISSED'}",
            flush=True,
        )
        yield r


def main() -> None:
    known = sorted(CLAIMS)
    parser = argparse.ArgumentParser(description=calibration.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--studies", type=int, default=1000, help="studies in a cell (count)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/calibration"))
    parser.add_argument(
        "--keep", action="store_true", help="keep the rows, and make docs/calibration.md of them"
    )
    parser.add_argument(
        "--page", action="store_true", help="only make docs/calibration.md of the kept rows"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no {', '.join(unknown)}: there are {', '.join(known)}")
    if options.page:
        PAGE.write_text(page())
        return
    runtime.start()
    quick_compilation.FEW = 0  # thousands of studies gain more by optimised programs
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"jbt {jbt.__version__}, jax {jax.__version__}, Python {platform.python_version()}")
    for name in options.names or known:
        begin = time.perf_counter()
        rows = map(row, cells_of(name, options.studies, options.seed))
        table = pd.DataFrame(_said(rows)).to_csv(index=False, float_format="%.4g")
        files.write_together({options.out / f"{name}.csv": table})
        if options.keep:  # under version control
            files.write_together({KEPT / f"{name}.csv": table}, overwrite=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    if options.keep:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
