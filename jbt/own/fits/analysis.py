"""`jbt fit`: each judge's verdicts alone, and all judges together if asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from jbt.border.report import Report
from jbt.own.fits import panel_report
from jbt.own.fits import report as fit_report
from jbt.own.fits.batch import Batch
from jbt.own.fits.frames import Fits
from jbt.own.fits.judges import Judges
from jbt.own.fits.one_judge import fit_judges
from jbt.own.fits.panel import PanelFit, fit_panel
from jbt.own.fits.pools import check_k, fit
from jbt.own.fits.summary import JudgeSummary, summarise
from jbt.types import Prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Analysis:
    """The result of `jbt fit`."""

    batch: Batch
    judges: Fits[JudgeSummary]
    """Each judge's verdicts alone, with the fits of its pools."""
    joint: tuple[Batch, PanelFit] | None
    """All judges together, and the batch that was fitted; None unless asked for."""
    k: int
    """Size of the top sets."""

    def report(self, title: str, lead: list[str], *, per_pool: bool = False) -> Report:
        """The report; `per_pool` adds the ranking of each pool, however many there are."""
        settings: Any = {"k": self.k, "per_pool": per_pool}
        report = fit_report.report(title, lead, self.batch, self.judges, **settings)
        if self.joint is None:
            return report
        joint_sections = panel_report.sections(*self.joint, self.judges, **settings)
        return replace(report, sections=[*report.sections, *joint_sections])

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `frames.frame`: of each judge alone, then of all."""
        table = self.judges.to_frame()
        if self.joint is None:
            return table
        return pd.concat([table, self.joint[1].to_frame()], ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        record: dict[str, Any] = {
            "judges": [judge.record() for judge in self.judges],
            # Ordered as the pools of a batch.
            "pools": [
                fit.record()
                for fits in zip(*(judge.fits for judge in self.judges), strict=True)
                for fit in fits
            ],
        }
        if self.joint is not None:
            record["joint"] = panel_report.record(*self.joint)
        return record

    def figure(self) -> Figure:
        """Qualities or coefficients of each judge alone."""
        from jbt.own.fits.figure import figure

        return figure(self.batch, self.judges)


def analyse(
    batch: Batch,
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
    joint: tuple[Batch, Judges] | None = None,
) -> Analysis:
    """Fit each judge's verdicts alone, and all judges together (MAP, float64).

    Args:
      batch: from `own.load`.
      k: size of the top set on which naive and bias-aware are compared.
      prior: default `Prior()`.
      spread: see `fit_judges`.
      joint: a batch whose verdicts may include anchors (`Tables.with_anchors`), and its judges,
        for a joint fit as well.

    Raises:
      ValueError: a pool has no more than k contents.
    """
    check_k(batch, k)
    each_judge = fit_judges(batch, prior=prior, spread=spread)
    settings: Any = {"k": k, "prior": prior, "spread": spread, "judges": each_judge}
    fits = fit(batch, **settings)
    p_first = batch.tables.verdicts["p_first"]
    untied = None
    if (p_first == 0.5).any() and (p_first != 0.5).any():
        untied = Batch.of(
            batch.tables.without_ties(),
            batch.columns,
            transform=batch.transform,
            standardise=batch.standardise,
            position=batch.position,
        )
    judges = summarise(batch, fits, untied=untied, **settings)
    if joint is None:
        return Analysis(batch, judges, None, k)
    joint_batch, panel = joint
    joint_fit = fit_panel(joint_batch, panel, k=k, prior=prior, spread=spread)
    return Analysis(batch, judges, (joint_batch, joint_fit), k)
