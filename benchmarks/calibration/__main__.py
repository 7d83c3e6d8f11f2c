"""Run the coverage suite; see the package's docstring, or --help."""

from __future__ import annotations

import argparse
import importlib
import platform
import re
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

TITLES = {
    "bias_by_quality": "`sweeps.bias_by_quality`",
    "davidson": "`jbt leaderboard --ties davidson`",
    "few_pools": "mean gains in sweeps' tables",
    "fit": "`jbt fit`, over all pools",
    "gate": "`jbt gate --rule sign`",
    "identify": "`jbt identify`, one pool",
    "joint": "`jbt fit --joint`",
    "judge_aware": "`jbt leaderboard --joint --judge-aware`",
    "leaderboard": "`jbt leaderboard`",
    "leaderboard_quality": "`jbt leaderboard`, c growing with quality",
    "one_pool": "`jbt fit`, each pool",
    "plans": "`jbt plan`",
    "prediction_powered": "`jbt leaderboard --beside ppi`",
    "regions": "`jbt.twins.regions`",
    "replay": "`jbt replay`",
    "report_card": "`jbt judge`",
    "study": "`jbt status`",
    "twins": "`consistent` in `sweeps.judges`",
}
"""What the page calls each file of this package."""

HEAD = """# Do the intervals cover?

**Answer.** {answer}

Intervals and rates that jbt prints are simulated where their assumptions hold and where they fail.
**Coverage** is the share of printed intervals that hold the truth (for `jbt gate`: of decisions
that enable nothing falsely), from the least to the largest of all settings; the target is the
promised level ± .02, and a setting misses it where the coverage's own 95 % interval lies wholly
outside. A guarantee (≥) may cover more. The files linked have every setting, and how often jbt
prints the interval instead of withholding it with a reason (`printed`).

| what | intervals | settings | promised | coverage | on target |
|---|---|---|---|---|---|"""

ANSWER = (
    "{right:,} of {every:,} settings are on target; {missed} miss, mostly where "
    "an assumption fails."
)

MISSED = """
## Where they miss

| reason | where | settings | worst coverage |
|---|---|---|---|"""

FOOT = """
**Not simulated:** differences between judges without a trusted one, theta and P(top k) of joint
fits, joint leaderboards without `--judge-aware`, and fits with `--lam`.

`python -m benchmarks.calibration NAME --keep` simulates a row again and makes this page.

**Next:** [benchmarks](benchmarks.md).
"""

REASONS = {
    r"an average over unlike": (
        "an average over unlike pools is biased towards 0; "
        "the report's test finds it in part of the studies"
    ),
    r".*jbt gate: the bound": "labels wrong with two rates, or not independently",
    r"with few verdicts": "few verdicts: the profile is approximate",
    r"few studies print|withheld in most": "printed in few studies only",
    r"at one standard|0\.3 lies near": "the prior shrinks towards its mean",
    r"the report says": "widely spread qualities; the report says so",
    r"promised ": "a planned half-width is approximate",
    r"slopes are first order": "few pools, or a target near its maximum: slopes are first order",
    r"$": "none known",
}
"""Beginning of a note -> the reason that the page gives; any other note is its own reason."""


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
    every = pd.concat(
        [pd.read_csv(path).assign(name=path.stem) for path in sorted(folder.glob("*.csv"))],
        ignore_index=True,
    )
    every = every[~every.interval.str.contains(COMPARED)]
    lines = [
        f"| [{TITLES[str(name)]}]({KEPT.name}/{name}.csv) | {rows.interval.nunique()} "
        f"| {len(rows)} | {_promised(rows)} | {_span(rows)} | {int(rows.on_target.sum())} |"
        for name, rows in every.groupby("name")
    ]
    missed = every[~every.on_target]
    reasons = missed.note.fillna("").map(_reason)
    misses = [
        f"| {reason} | {_titles(rows)} | {len(rows)} | {_worst(rows)} |"
        for reason, rows in missed.groupby(reasons, sort=False)
    ]
    answer = ANSWER.format(every=len(every), right=len(every) - len(missed), missed=len(missed))
    return "\n".join([HEAD.format(answer=answer), *lines, MISSED, *misses, FOOT])


def _titles(rows: pd.DataFrame) -> str:
    """What the page calls the files that some rows are of."""
    return "; ".join(TITLES[name] for name in dict.fromkeys(rows["name"]))


def _worst(rows: pd.DataFrame) -> str:
    """The coverage farthest from what was promised, with its interval."""
    worst = max(rows.to_dict("records"), key=lambda r: abs(r["coverage"] - r["nominal"]))
    promised = "" if worst["nominal"] == 0.95 else f", promised {worst['nominal']:g}"
    return f"{worst['coverage']:.3f} [{worst['ci_low']:.3f}, {worst['ci_high']:.3f}]{promised}"


def _reason(note: str) -> str:
    """The reason that a note gives, as short as the page has it."""
    return next((text for start, text in REASONS.items() if re.match(start, note)), note)


def _promised(rows: pd.DataFrame) -> str:
    """The nominal levels of some rows."""
    levels = sorted(set(rows.nominal))
    if len(levels) > 1:
        return "several"
    sign = "≥ " if rows.one_sided.all() else "≥ or = " if rows.one_sided.any() else ""
    return f"{sign}{levels[0]:g}"


def _span(rows: pd.DataFrame) -> str:
    """The least and the largest coverage; how far off, where the nominal levels are several."""
    if rows.nominal.nunique() > 1:
        off = rows.coverage - rows.nominal
        return f"off by {off.min():+.3f} to {off.max():+.3f}".replace("-", "\N{MINUS SIGN}")
    return f"{rows.coverage.min():.3f} to {rows.coverage.max():.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=calibration.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--studies", type=int, default=2000, help="studies in a cell (count)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/calibration"))
    parser.add_argument(
        "--keep", action="store_true", help="keep the rows, and make docs/calibration.md of them"
    )
    parser.add_argument(
        "--page", action="store_true", help="only make docs/calibration.md of the kept rows"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no {', '.join(unknown)}: there are {', '.join(NAMES)}")
    if options.page:
        PAGE.write_text(page())
        return
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
            files.write_together({folder / f"{name}.csv": table})
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    if options.keep:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
