"""Run the coverage suite; see the package's docstring, or --help."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import calibration
from benchmarks.calibration import CLAIMS, TITLES, Cell
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

`python -m benchmarks.calibration NAME` simulates rows again. A row for another interval is
[a function](extending.md#an-intervals-coverage).

**Next:** [benchmarks](benchmarks.md).
"""


def row(cell: Cell) -> dict[str, Any]:
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
        "miss": cell.miss,
    }


def page() -> str:
    """The page made of the kept rows."""
    paths = sorted(KEPT.glob("*.csv"))
    tables = [pd.read_csv(path).assign(name=path.stem) for path in paths]
    every = pd.concat(tables, ignore_index=True)
    lines = [_line(str(name), rows) for name, rows in every.groupby("name")]
    missed = every[~every.on_target]
    misses = [
        f"| {reason} | {'; '.join(TITLES[name] for name in rows['name'].unique())} | {len(rows)} "
        f"| {_worst(rows)} |"
        for reason, rows in missed.groupby(missed.miss.fillna("none known"), sort=False)
    ]
    answer = ANSWER.format(every=len(every), right=len(every) - len(missed), missed=len(missed))
    return "\n".join([HEAD.format(answer=answer), *lines, MISSED, *misses, FOOT])


def _line(name: str, rows: pd.DataFrame) -> str:
    """A claim's: the level it promises, and the least and the largest coverage."""
    coverage, levels = rows.coverage, rows.nominal.unique()
    sign = "≥ " if rows.one_sided.all() else "≥ or = " if rows.one_sided.any() else ""
    promised = f"{sign}{levels[0]:g}" if len(levels) == 1 else "several"
    return (
        f"| [{TITLES[name]}]({KEPT.name}/{name}.csv) | {rows.interval.nunique()} | {len(rows)} "
        f"| {promised} | {coverage.min():.3f} to {coverage.max():.3f} | {rows.on_target.sum()} "
        f"| {' | '.join(_criterion(rows))} |"
    )


def _criterion(rows: pd.DataFrame) -> tuple[str, str]:
    """Settings significantly below the promise, and the pooled z, in words."""
    rows = rows[~rows.one_sided & rows.miss.isna() & (rows.printed > 0)]
    if rows.empty:
        return "", ""
    below, n = (rows.ci_high < rows.nominal).sum(), rows.studies * rows.printed
    variance = (n * rows.nominal * (1 - rows.nominal)).sum()
    z = (n * (rows.coverage - rows.nominal)).sum() / np.sqrt(variance)
    return f"{below} of {len(rows)}", f"{z:+.1f}".replace("-", "\N{MINUS SIGN}")


def _worst(rows: pd.DataFrame) -> str:
    """The coverage farthest from what was promised, with its interval."""
    worst = rows.iloc[(rows.coverage - rows.nominal).abs().argmax()]
    promised = "" if worst.nominal == 0.95 else f", promised {worst.nominal:g}"
    return f"{worst.coverage:.3f} [{worst.ci_low:.3f}, {worst.ci_high:.3f}]{promised}"


def main() -> None:
    known = sorted(CLAIMS)
    parser = argparse.ArgumentParser(description=calibration.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--studies", type=int, default=1000, help="studies in a cell (count)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/calibration"))
    parser.add_argument(
        "--page", action="store_true", help="only make docs/calibration.md of the kept rows"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"no {', '.join(unknown)}: there are {', '.join(known)}")
    if options.page:
        PAGE.write_text(page())
        return
    runtime.start()
    quick_compilation.FEW = 0  # thousands of studies gain more by optimised programs
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or known:
        rows = []
        for cell in CLAIMS[name](options.studies, options.seed):
            rows.append(r := row(cell))
            print(
                f"{r['interval']} | {r['setting']} | printed {r['printed']:.3f} | covers "
                f"{r['coverage']:.3f} [{r['ci_low']:.3f}, {r['ci_high']:.3f}]"
                f"{'' if r['on_target'] else '  MISSED'}",
                flush=True,
            )
        table = pd.DataFrame(rows).to_csv(index=False, float_format="%.4g")
        files.write_together({options.out / f"{name}.csv": table}, overwrite=True)


if __name__ == "__main__":
    main()
