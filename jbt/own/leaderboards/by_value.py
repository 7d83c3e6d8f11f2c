"""What differs between the values of a column, such as the language of a prompt: a fit to the
verdicts of each value, and one to those of all others, on the models that both have.

The fits have different prompts, so that the variance of a difference is the sum of theirs, with
Welch and Satterthwaite's degrees of freedom. Where a prompt has several values, as two turns of a
conversation do, the standard errors are added instead: no dependence makes it larger.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.border.report import Section, cut, each, with_interval
from jbt.own.leaderboards.davidson import problem_of
from jbt.own.leaderboards.intervals import LEVEL, intervals, quantile
from jbt.own.leaderboards.problem import Fitted, Setup, merge_pools
from jbt.own.tables.tables import Tables

MOST = 12
"""Values that are compared."""

SHOWN = 5
"""Models that differ, of those named."""

SIDES = ["first", "second"]

UNLISTED = ["at", "about", "error", "degrees"]
"""Columns that a reader has no use for."""


@dataclass(frozen=True, eq=False)
class ByValue:
    """Rankings by the values of a column, and what differs between them."""

    column: str
    models: pd.DataFrame
    """judge, value, and the columns of `Leaderboard.to_frame`, of the verdicts of that value."""
    differences: pd.DataFrame
    """judge, and the columns of `differences`."""

    def section(self, judge: str | None, models: pd.Series) -> Section:
        """The ranks of a judge by value, and what differs.

        Args:
          models: in the order of the leaderboard.
        """
        of_judge = (t[t["judge"] == (judge or "")] for t in (self.models, self.differences))
        ranks, table = of_judge
        columns = {"model": cut(models)}
        for value, part in ranks.groupby("value", sort=False):
            rows = part.set_index("model").loc[models, ["rank", "rank_low", "rank_high"]]
            numbers = rows.to_numpy(float, na_value=np.nan)
            n = part["n_verdicts"].sum() // 2
            columns[f"{value} ({n})"] = [
                with_interval(rank, low, high, ".0f") for rank, low, high in numbers.tolist()
            ]
        title = f"{judge or 'Ranking'}: ranks by {self.column} (number of verdicts)"
        return Section(title, list(_sentences(table)), pd.DataFrame(columns))


def _sentences(table: pd.DataFrame) -> Iterator[str]:
    """Each c, and the theta that differ, of rows of `differences`."""
    for c in each(table[table["kind"] == "c"]):
        interval = with_interval(c.difference, c.low, c.high, "+.2f", " logits")
        yield f"c[{c.of}] of {c.value} minus that of {c.other}: {interval}"
    differ, n = table[table["differs"]], table["low_all"].notna().sum()
    yield (
        f"theta differs significantly in {len(differ)} of {n} cases (a model and a value) with an "
        f"interval, at {LEVEL:.0%} for all together; theta is measured from the mean of the models"
        if n
        else "no difference of theta has an interval; the status of each value is in --json"
    )
    for row in each(differ.head(SHOWN)):
        interval = with_interval(row.difference, row.low_all, row.high_all, "+.2f", " logits")
        yield f"theta of {row.of} in {row.value} minus that in {row.other}: {interval}"
    if len(differ) > SHOWN:
        yield f"{len(differ) - SHOWN} more differ, see --json"


def check_values(column: str, values: Sequence[str]) -> None:
    """Raise `ValueError` where a column cannot be compared by its values."""
    if not 2 <= len(values) <= MOST:
        what = f"--by: {column!r} has {len(values)} values, needs 2 to {MOST}"
        raise ValueError(what + ": give it wider ones, such as months" * (len(values) > MOST))


def of_values(setup: Setup, groups: Sequence[int]) -> Setup:
    """The verdicts of some values; covariates on the same scale."""
    return _with(setup, setup.tables.of_groups(groups))


def differences(setup: Setup, judge: int) -> pd.DataFrame:
    """Compare each value with all others; of two, the first with the second.

    Returns:
      A row for each value and each theta and c: kind, difference, shared (whether prompts have
      several values), value, other, low and high (of one), low_all and high_all (of a theta: for
      all models and values together), differs (whether the latter exclude 0), of (the model or the
      covariate).
    """
    values = setup.tables.groups
    every, parts = range(len(values)), []
    for g in every if len(values) > 2 else [0]:
        sides = _on_common_models(setup, judge, [g], [h for h in every if h != g])
        table = difference(*(problem_of(side, judge).fit() for side in sides))
        other = values[1] if len(values) == 2 else "the others"
        parts.append(table.assign(value=values[g], other=other))
    table = compared(pd.concat(parts, ignore_index=True))
    names = {"theta": setup.tables.contents, "c": setup.covariates}
    table["of"] = [names[row.kind][row.at] for row in each(table)]
    return table.drop(columns=UNLISTED)


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `difference`, of one or more values, with the last columns of `differences`."""
    is_theta = table["kind"] == "theta"
    n = max(1, int(table.loc[is_theta, "error"].notna().sum()))
    both = _ends(table[is_theta], 1 - (1 - LEVEL) / n).add_suffix("_all")
    table = table.join(_ends(table, LEVEL)).join(both)
    return table.assign(differs=(table["low_all"] > 0) | (table["high_all"] < 0))


def difference(one: Fitted, other: Fitted) -> pd.DataFrame:
    """The estimates of one fit less those of another that has the same models.

    Returns:
      A row for each theta and c: kind, at (number of the model or the covariate), difference,
      about (without the prior's pull), error, degrees; NaN where either has no interval; shared
      (whether they have prompts in common).
    """
    fits = one, other
    prompts = [set(fit.problem.source[fit.problem.rows.shown > 0]) for fit in fits]
    (a, b), shared = map(_estimates, fits), bool(prompts[0] & prompts[1])
    table = a[["kind", "at"]].assign(difference=a["estimate"] - b["estimate"])
    table["about"] = a["about"] - b["about"]
    if shared:
        error, degrees = a["error"] + b["error"], np.minimum(a["degrees"], b["degrees"])
    else:
        parts = a["error"] ** 2, b["error"] ** 2
        error = np.sqrt(parts[0] + parts[1])
        degrees = error**4 / (parts[0] ** 2 / a["degrees"] + parts[1] ** 2 / b["degrees"])
    return table.assign(error=error, degrees=degrees, shared=shared)


def _estimates(fit: Fitted) -> pd.DataFrame:
    """A row for each theta with a verdict, then for each c: kind, at, estimate, about, error,
    degrees."""
    known, c = np.flatnonzero(fit.problem.known), fit.problem.at["c"].ravel()
    table = intervals(fit).parameters.iloc[[*known, *c]].reset_index(drop=True)
    low, high, degrees = (table[name].to_numpy(float) for name in ("low", "high", "degrees"))
    error = (high - low) / 2 / quantile((1 + LEVEL) / 2, degrees)
    kind, at = ["theta"] * len(known) + ["c"] * len(c), [*known, *range(len(c))]
    return table.assign(kind=kind, at=at, about=(low + high) / 2, error=error)


def _ends(table: pd.DataFrame, level: float) -> pd.DataFrame:
    half = quantile((1 + level) / 2, table["degrees"].to_numpy(float)) * table["error"]
    return pd.DataFrame({"low": table["about"] - half, "high": table["about"] + half})


def _on_common_models(
    setup: Setup, judge: int, one: Sequence[int], other: Sequence[int]
) -> list[Setup]:
    """The verdicts of a judge in two sets of values, on models that have some in both."""
    content = setup.tables.items["content"].to_numpy()
    tables = [setup.tables.of_groups(groups) for groups in (one, other)]
    while True:
        of_judge = [t.verdicts[t.verdicts["judge"] == judge] for t in tables]
        sides = [content[verdicts[SIDES].to_numpy()] for verdicts in of_judge]
        common = np.intersect1d(sides[0], sides[1])
        if all(np.isin(side, common).all() for side in sides):
            return [_with(setup, t) for t in tables]
        among = [np.isin(content[t.verdicts[SIDES].to_numpy()], common).all(1) for t in tables]
        tables = [
            dataclasses.replace(t, verdicts=t.verdicts[kept].reset_index(drop=True))
            for t, kept in zip(tables, among, strict=True)
        ]


def _with(setup: Setup, tables: Tables) -> Setup:
    return dataclasses.replace(setup, tables=tables, merged=merge_pools(tables))
