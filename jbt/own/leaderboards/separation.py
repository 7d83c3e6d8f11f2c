"""How many more prompts until one model of a user's tables is above another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt import planning, runtime
from jbt.border import files
from jbt.border.report import Report, Section
from jbt.own.leaderboards.intervals import LEVEL, Intervals, intervals
from jbt.own.leaderboards.problem import Problem, Settings, Setup
from jbt.own.tables.tables import Tables
from jbt.planning.prompts_plan import MOST_COPIES
from jbt.types import Prior, Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    *("judge", "better", "worse", "difference", "low", "high"),
    *("more", "fewest", "most", "chance", "status", "prompts"),
)


@dataclass(frozen=True, eq=False)
class Separation:
    """Prompts to add until models are significantly apart."""

    table: pd.DataFrame
    """judge, better, worse, difference, low, high (logits, and its 95 % interval), more (prompts to
    add if the true difference is the estimate), fewest, most (if it is the upper or the lower end
    of the interval), chance (that `more` are enough, for a true difference as uncertain as today's
    prompts leave it), status, prompts (today's). Infinite where no number looked at is enough; NaN
    where the difference has no interval."""
    power: float
    corrected: bool
    """Whether for all models (Bonferroni), as in a leaderboard's ranks."""

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A table of pairs; the answer counts those apart, or gives the number of the one pair."""
        shown = self.table.copy()
        names = {
            "judge": "judge",
            "better": "better",
            "worse": "worse",
            "difference": "difference",
            "more": "more prompts",
            "range": "over its interval",
            "chance": "chance",
        }
        shown["range"] = [f"{_count(a)} to {_count(b)}" for a, b in _pairs(shown, "fewest", "most")]
        shown["difference"] = [
            f"{d:+.2f}" + (f" [{low:+.2f}, {high:+.2f}]" if np.isfinite(low) else "")
            for d, low, high in _pairs(shown, "difference", "low", "high")
        ]
        shown["more"] = [_count(n) for n in shown["more"]]
        shown["chance"] = ["-" if np.isnan(p) else f"{100 * p:.0f} %" for p in shown["chance"]]
        unknown = shown["status"] != "planned"
        shown.loc[unknown, ["more", "range", "chance"]] = "-"
        if shown["judge"].isna().all():
            names.pop("judge")
        table = shown[list(names)].rename(columns=names)
        level = f"{LEVEL:.0%} interval" + ", Bonferroni-corrected over all models" * self.corrected
        how = [
            f"more prompts: like these, until the difference is significant ({level}) with a power "
            f"of {self.power:g}, if the true difference is today's estimate",
            "over its interval: the same if it is the upper and the lower end of today's "
            f"{LEVEL:.0%} interval of the difference",
            "chance: that so many are enough, for a true difference as uncertain as today's "
            "prompts leave it",
        ]
        lines = [f"no plan for {int(unknown.sum())} pairs: no interval"] if unknown.any() else []
        sections = [
            Section("Prompts to add", lines, table),
            Section("How to read this", how, detail=True),
        ]
        return Report(title, lead, sections, answer=self._answer())

    def _answer(self) -> list[str]:
        answers = []
        for judge, rows in self.table.groupby("judge", sort=False, dropna=False):
            whose = "" if pd.isna(judge) else f"{judge}: "
            planned = rows[rows["status"] == "planned"]
            if planned.empty:
                answers.append(f"{whose}no plan: {rows['status'].iloc[0]}")
                continue
            if len(rows) == 1:
                answers.append(f"{whose}{_sentence(planned.iloc[0])}")
                continue
            uncorrected = "; corrected for all models, as the intervals below are not"
            uncorrected *= self.corrected
            apart = int((planned["more"] == 0).sum())
            double = int((planned["more"] <= planned["prompts"]).sum()) - apart
            answers.append(
                f"{whose}{apart} of {len(rows)} neighbours in rank are significantly apart; with "
                f"twice the {rows['prompts'].iloc[0]} prompts {double} more would be, if the "
                f"differences are as estimated{_closest(planned)}{uncorrected}"
            )
        return answers

    def to_frame(self) -> pd.DataFrame:
        """`table`."""
        return self.table

    def record(self) -> dict[str, Any]:
        """The content of the JSON file; null where infinite or undefined."""
        rows = [
            {k: v if isinstance(v, str | None) else files.defined(v) for k, v in row.items()}
            for row in self.table.to_dict("records")
        ]
        return {"power": self.power, "bonferroni": self.corrected, "pairs": rows}

    def figure(self) -> Figure:
        """Draw the prompts to add, with their range."""
        from jbt.border import plots

        rows = self.table[np.isfinite(self.table["more"].astype(float))]
        drawn, ax = plots.new_figure(1, width=6.4, height=max(2.4, 0.9 + 0.26 * len(rows)))
        names = [f"{a} above {b}" for a, b in _pairs(rows, "better", "worse")]
        columns = (rows[c].replace(np.inf, np.nan).to_numpy(float) for c in _NUMBERS)
        plots.forest(ax, names, [("prompts", "blue", *columns)])
        ax.set_xlabel("more prompts (count)")
        return drawn


_NUMBERS = ("more", "fewest", "most")


def _pairs(table: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[c] for c in columns), strict=True))


def _count(n: float) -> str:
    return (
        f"over {MOST_COPIES} times today's" if np.isinf(n) else "-" if np.isnan(n) else f"{n:.0f}"
    )


def _closest(planned: pd.DataFrame) -> str:
    """The pair not yet apart that takes the fewest prompts."""
    left = planned[planned["more"] > 0]
    if left.empty or np.isinf(left["more"].min()):
        return ""
    row = left.iloc[int(np.argmin(left["more"].to_numpy(float)))]
    return f"; next {row['better']} above {row['worse']}, with {row['more']:.0f} more"


def _sentence(row: pd.Series) -> str:
    """The answer for one pair."""
    pair = f"{row['better']} above {row['worse']}"
    apart = f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}] logits"
    if row["more"] == 0:
        return f"{pair} already: {apart}"
    if np.isinf(row["more"]):
        return (
            f"no number of prompts up to {MOST_COPIES} times today's {row['prompts']:.0f} puts "
            f"{pair} if the difference is as estimated, {apart}"
        )
    end = _count(float(row["most"]))
    return (
        f"about {row['more']:.0f} more prompts ({row['fewest']:.0f} to {end} over the interval of "
        f"the difference) put {pair}: today {apart} on {row['prompts']:.0f} prompts; as that "
        f"is uncertain, they are enough with a chance of {100 * row['chance']:.0f} %"
    )


def separation(
    tables: Tables,
    covariates: Sequence[str] = (),
    *,
    better: str | None = None,
    worse: str | None = None,
    power: float = 0.8,
    prior: Prior | None = None,
    **settings: Any,
) -> Separation:
    """Plan the prompts until one model is significantly above another, or until all neighbours in
    rank are apart (float64).

    Args:
      tables, covariates, prior: see `leaderboard`.
      better, worse: two models, for the 95 % interval of their difference; default all neighbours,
        Bonferroni-corrected as in a leaderboard's ranks.
      power: chance of significance wanted.
      settings: transform, standardise and position of `problem.Settings`.

    Raises:
      ValueError: only one of better and worse, the same, or no such model; fewer than two models;
        a power not between 0 and 1; see also `covariate_values`.
    """
    missing = next((name for name in (better, worse) if name not in tables.contents), None)
    excluded = {
        f"power must lie between 0 and 1, got {power:g}": not 0 < power < 1,
        "--better and --worse go together": (better is None) != (worse is None),
        f"no model {missing!r} among the {len(tables.contents)} of the items": missing is not None,
        f"--better and --worse are the same model, {better!r}": better is not None
        and better == worse,
        "there is only one model: nothing to plan": tables.items["content"].nunique() < 2,
    }
    for message, applies in excluded.items():
        if applies:
            raise ValueError(message)
    asked = Settings(covariates=tuple(covariates), prior=prior or Prior(), **settings)
    setup = Setup.of(tables, asked)
    rows = []
    with runtime.precision("float64"):
        for number, judge in enumerate(tables.judges):
            pair = None if better is None else (better, str(worse))
            found = _of_judge(setup.problem(number), tables.contents, pair, power)
            rows += [{"judge": judge, **row} for row in found]
    return Separation(pd.DataFrame(rows, columns=pd.Index(COLUMNS)), power, better is None)


def _of_judge(
    problem: Problem, names: list[str], pair: tuple[str, str] | None, power: float
) -> list[dict[str, Any]]:
    """A row for each pair of models; `names` of the models."""
    known = problem.n_verdicts > 0
    nothing = dict.fromkeys(COLUMNS[3:-2], np.nan)
    without = {"better": "", "worse": "", **nothing, "prompts": problem.n_clusters}
    if pair is not None:
        without |= {"better": pair[0], "worse": pair[1]}
        if not all(name in names and known[names.index(name)] for name in pair):
            return [{**without, "status": "a model has no verdicts"}]
    if known.sum() < 2:
        return [{**without, "status": "fewer than two models have verdicts"}]
    fit = problem.fit()
    if fit.status != Status.CONVERGED:
        return [{**without, "status": "the fit did not converge"}]
    ends = intervals(fit)
    theta = np.where(known, fit.theta, -np.inf)
    order = np.argsort(-theta, kind="stable")[: known.sum()].tolist()
    pairs = list(pairwise(order))
    n_tests = known.sum() - 1
    if pair is not None:
        pairs, n_tests = [(names.index(pair[0]), names.index(pair[1]))], 1
    return [
        {
            **without,
            "better": names[a],
            "worse": names[b],
            **_plan(ends, a, b, problem.n_clusters, int(n_tests), power),
        }
        for a, b in pairs
    ]


def _plan(ends: Intervals, a: int, b: int, n: int, n_tests: int, power: float) -> dict[str, Any]:
    """The numbers of model a above model b."""
    from scipy import special

    d, variance, df = (float(v[b, a]) for v in (ends.apart, ends.variance, ends.degrees))
    if not ends.comparable[a, b]:
        return {"difference": d, "status": "no interval of the difference, see jbt leaderboard"}
    half = float(special.stdtrit(df, (1 + LEVEL) / 2)) * np.sqrt(variance)
    quantile = 1 - (1 - LEVEL) / 2 / n_tests

    def needed(truth: float) -> float:
        numbers = truth, d, variance, df, n
        return planning.more_prompts(*numbers, quantile=quantile, wanted=power)

    more = needed(d)
    chance = np.nan
    if np.isfinite(more):
        chance = float(planning.power(int(more), np.nan, d, variance, df, n, quantile))
    return {
        "difference": d,
        "low": d - half,
        "high": d + half,
        "more": more,
        "fewest": min(needed(d + half), more),
        "most": max(needed(d - half), more),
        "chance": chance,
        "status": "planned",
    }
