"""A judge's coefficients on one comparison, as `jbt fit` and `jbt leaderboard` print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.border.report import each, with_interval
from jbt.estimators import mixed
from jbt.own.shared_coefficients.intervals import LARGEST_SHARE
from jbt.own.tables.tables import Tables
from jbt.types import Status

MOST = 20_000
"""Different verdicts beyond which a random part of the clusters is taken (half a minute)."""

WIDEST = 300
"""Most different verdicts of a cluster that is taken: time grows with the cube of it."""

FEWEST_DEGREES = 5.0
"""Fewest degrees of freedom with which an interval is printed."""

SHOWN = 0.35
"""Largest standard error of the log of a standard deviation that counts as measured: the variance
is then 1.4 of its standard errors. The prior keeps a standard deviation from 0. Where nothing
varies on a leaderboard, the quality of a model is still said to vary in .04 of boards of 60 prompts
and .09 of 200, and c between prompts in .04 (100 boards each). Where the sd of quality is .8, it is
measured in .94 of boards of 60 prompts."""

ENDS = ["estimate", "low", "high"]

HELD = (
    "in simulation, such 95 % intervals contained the judge's own c in {} studies ({} by setting)"
)
GUESSES = (
    ", but in only {} studies in which 15 % of the verdicts were guesses, because guesses draw c "
    "towards 0"
)
"""Sentences about coverage."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OneComparison:
    """The judge's coefficients on one comparison, and what varies between clusters of verdicts."""

    CLUSTERS: ClassVar[str]
    """What the clusters are, in a word."""
    COVERAGE: ClassVar[str]
    """How often the interval of c contained the judge's own in simulation."""

    status: Status
    """CONVERGED, NOT_CONVERGED, or FLAT where the verdicts of a cluster do not show what varies."""
    c: pd.DataFrame
    """A row for each covariate: covariate, estimate, low, high, logits per unit; of several judges
    with judge."""
    spread: pd.DataFrame
    """A row for each effect: effect (in words), sd in logits (for c, per unit), log_error (standard
    error of its log)."""
    n_clusters: int
    """Clusters that the fit took (count)."""
    n_all: int
    """Clusters with verdicts (count)."""
    fit: mixed.MixedFit | None = None
    """The fit that they are of, if it converged."""

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file: what the report prints."""
        return {
            "status": self.status.name.lower(),
            "c": files.plain(self.c),
            "spread": files.plain(self.spread.assign(measured=self.measured())),
            f"n_{self.CLUSTERS}": self.n_clusters,
        }

    def sentences(self, units: Sequence[str]) -> Iterator[str]:
        """c, how often its interval holds the judge's own, and what varies.

        Args:
          units: of c, one for each row.
        """
        if self.status == Status.FLAT:
            yield (
                f"not identified: the verdicts do not show how much varies between {self.CLUSTERS}"
            )
            return
        if self.status != Status.CONVERGED:
            yield "not estimated: the fit of what varies did not converge"
            return
        for c, unit in zip(each(self.c), units, strict=True):
            whose = f"{c.judge}: " if "judge" in self.c else ""
            left = f" of {self.n_all}" * (self.n_clusters < self.n_all)
            source = f"from {self.n_clusters}{left} {self.CLUSTERS}"
            yield f"{whose}c[{c.covariate}] = {_logits(c)} per {unit}, {source}"
        yield self.COVERAGE
        what, shown = self.spread["effect"].map(self.what_varies), self.measured()
        sds = [
            f"{name} {sd.min():.2f}" + f" to {sd.max():.2f}, by model" * (len(sd) > 1)
            for name, sd in self.spread["sd"][shown].groupby(what, sort=False)
        ]
        yield (
            "standard deviations of what varies, which a prior keeps from 0: "
            f"{', '.join(sds) or 'none is measured'}"
        )
        unknown = what[~shown].unique()
        if sds and len(unknown):
            yield f"too small, or seen in too few verdicts, to be measured: {', '.join(unknown)}"

    def measured(self) -> pd.Series:
        """Whether each sd of `spread`, or another one of what varies there, is measured, and not
        only kept from 0 by its prior."""
        known = self.spread["log_error"] <= SHOWN
        return known.groupby(self.spread["effect"].map(self.what_varies)).transform("any")

    @staticmethod
    def what_varies(effect: str) -> str:
        """What varies in an effect; several effects may be that of different units."""
        return effect


def record(one: OneComparison | str) -> dict[str, Any]:
    """The entry of the JSON file of a fit, or of why there is none."""
    return {"status": "withheld", "why": one} if isinstance(one, str) else one.record()


def _logits(estimate: Any) -> str:
    interval = with_interval(estimate.estimate, estimate.low, estimate.high, "+.2f")
    return f"{interval} logits" + " (no interval)" * bool(np.isnan(estimate.low))


UNDECIDED = (
    "some of these verdicts are ties or graded, which draw c towards 0, or away from it where ties "
    "are left out"
)


def decided(tables: Tables, judge: int | None = None) -> bool:
    """Whether every verdict of a judge, by default of all, is for one side. Otherwise c on one
    comparison is not what the fits estimate. Ties that count as half a win draw it towards 0, as
    graded verdicts do. Ties that are left out can draw it away from 0: with 14 % of ties, intervals
    hold the judge's own c in .62 of studies (measured at revision 1699f035)."""
    every = pd.concat([tables.verdicts, tables.lost])
    shares = every["p_first"] if judge is None else every["p_first"][every["judge"] == judge]
    return bool(shares.dropna().isin((0, 1)).all())


def ends(fit: mixed.MixedFit, along: np.ndarray, fewest: float = FEWEST_DEGREES) -> pd.DataFrame:
    """Intervals of combinations [C, K], withheld with fewer degrees of freedom, and where the prior
    holds much of the variance."""
    found = fit.intervals(along)
    withheld = ~(found["degrees"] >= fewest) | ~(found["prior_share"] <= LARGEST_SHARE)
    found.loc[withheld, ["low", "high"]] = np.nan
    return found[ENDS]


def spread_of(fit: mixed.MixedFit) -> pd.DataFrame:
    """`OneComparison.spread`."""
    table = pd.DataFrame({"sd": fit.sd, "log_error": fit.log_sd_error})
    return table.rename_axis("effect").reset_index()
