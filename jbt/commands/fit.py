"""The command `jbt fit`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import tyro

from jbt import own, runtime
from jbt.border import files
from jbt.border.report import Report
from jbt.commands.options import JointOptions
from jbt.experiments.declare import check_number
from jbt.own.examine import doctor
from jbt.own.fits import panel_report
from jbt.own.fits import report as fit_report
from jbt.own.fits.panel import fit_panel
from jbt.own.fits.pools import check_k
from jbt.own.tables.reading import NUMBER
from jbt.types import Prior


@dataclass(frozen=True, kw_only=True)
class FitOptions(JointOptions):
    """Fit every pool and judge of a verdict table, naive and bias-aware (MAP, float64)."""

    lam: float | None = None
    """Prior precision of quality (1/logit^2); by default each judge's sd of quality is estimated
    from all of its pools."""
    k: int = 1
    """Size of the top set on which naive and bias-aware are compared (count)."""
    per_pool: bool = False
    """Print the ranking of each pool."""
    discrimination: tuple[str, ...] = ()
    """Of a joint fit, factors on quality in the judges' logits that are known, NAME=NUMBER
    (space-separated); the others are estimated where anything is trusted, and 1 elsewhere."""

    def prior(self) -> Prior:
        lam = 1.0 if self.lam is None else self.lam
        check_number("lam", lam)
        check_number("lam_b", self.lam_b)
        return Prior(lam, self.lam_b)

    def graded(self) -> dict[str, float]:
        """`discrimination` by judge.

        Raises:
          ValueError: no NAME=NUMBER; without --joint.
        """
        if self.discrimination and not self.joint:
            raise ValueError("--discrimination is of a joint fit: add --joint")
        each = [_discrimination(word) for word in self.discrimination]
        names = [name for name, _ in each]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"--discrimination names {twice[0]!r} twice")
        return dict(each)


def _discrimination(word: str) -> tuple[str, float]:
    name, _, number = word.rpartition("=")
    if not name or not NUMBER.fullmatch(number):
        raise ValueError(f"--discrimination is {word!r}, allowed: NAME=NUMBER")
    check_number("discrimination", float(number))
    return name, float(number)


def main(argv: Sequence[str]) -> int:
    """Run `jbt fit` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = tyro.cli(FitOptions, args=argv, prog="jbt fit")
    options.check_outputs()
    prior = options.prior()
    runtime.start()
    tables = options.read()
    together = options.together(tables, options.graded())
    batch = options.batch(tables)
    check_k(batch, options.k)
    options.announce(tables)
    fitting: Any = {"prior": prior, "spread": options.lam is None}
    together_of_each = own.fit_judges(batch, **fitting)
    fits = own.fit(batch, k=options.k, judges=together_of_each, **fitting)
    untied = options.batch(tables.without_ties()) if _has_ties(batch) else None
    judges = own.summarise(
        batch, fits, k=options.k, judges=together_of_each, untied=untied, **fitting
    )
    report = fit_report.report(
        f"Fit of {options.verdicts.name}",
        _lead(options, batch),
        batch,
        judges,
        k=options.k,
        per_pool=options.per_pool,
    )
    table, panel = fit_report.table(batch, judges), None
    if together is not None:
        joint = options.batch(together[0])
        found = fit_panel(joint, together[1], k=options.k, **fitting)
        more = panel_report.sections(joint, found, judges, k=options.k, per_pool=options.per_pool)
        report = Report(report.title, report.lead, [*report.sections, *more])
        table = pd.concat([table, panel_report.table(joint, found)], ignore_index=True)
        panel = panel_report.record(joint, found)
    if options.json is not None:
        files.write_text(options.json, _json(options, judges, fits, panel))
    if options.out is not None:
        from jbt.own.fits.figure import figure

        report.write(options.out, table, figure(batch, judges))
    print(report.text())
    if any(p.repeated for p in batch.pools):
        print(
            "warning: some ordered pairs were judged more than once, and the repeats are treated "
            "as independent verdicts; a judge that repeats itself is counted as if it were sure",
            file=sys.stderr,
        )
    return 0


def _json(
    options: FitOptions,
    judges: list[own.JudgeSummary],
    fits: list[own.PoolFit],
    joint: dict[str, Any] | None,
) -> str:
    """A judge or pool a line: of many pools, that is written ten times as fast as with indents."""
    lists = {"judges": judges, "pools": fits}
    parts = [f'"settings": {json.dumps(options.settings(), allow_nan=False)}']
    for name, some in lists.items():
        lines = ",\n".join(json.dumps(one.record(), allow_nan=False) for one in some)
        parts.append(f'"{name}": [\n{lines}\n]')
    if joint is not None:
        parts.append(f'"joint": {json.dumps(joint, allow_nan=False)}')
    return "{" + ",\n".join(parts) + "}\n"


def _has_ties(batch: own.Batch) -> bool:
    """Whether ties are among the verdicts, and others are too."""
    of = batch.tables.verdicts["p_first"]
    return bool((of == 0.5).any() and (of != 0.5).any())


def _lead(options: FitOptions, batch: own.Batch) -> list[str]:
    tables = batch.tables
    n = f"{len(batch.pools)} fits: {len(tables.pools)} pools x {len(tables.judges)} judges"
    lam = "estimated" if options.lam is None else f"{options.lam:g}"
    return [
        *tables.summary,
        *doctor.headline(doctor.examine(tables, options.typed())),
        f"{n}, MAP with lam {lam}, lam_b {options.lam_b:g}, float64",
    ]
