"""Read a user's tables, check them and match them with each other.

    verdicts   pool, first, second, and winner = first | second | tie | error or the name of one of
               the two, or else p_first, the share that the first won (0 to 1, empty for an error);
               optional judge, count, order = shown | unknown
    items      pool, item, optional content, optional quality, any numeric covariate columns
    anchors    pool, better, worse: pairs of items whose order is known; or pool, item, member:
               whether an item is one of the best of its pool

A table without the column pool has one pool, `all`. Wrong tables raise `TableError`, whose message
has one line a problem: file and line (or data frame and row), what was found, what is allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pandas as pd

from jbt.border.report import counted
from jbt.own.choices import Columns, Ties, Transform, check_names
from jbt.own.tables.anchors import labelled, read_anchors
from jbt.own.tables.items import find_items, items_shown, read_items, values_of
from jbt.own.tables.limits import check_judges
from jbt.own.tables.names import alike_note, joined, listing
from jbt.own.tables.outcomes import ALL, Outcomes
from jbt.own.tables.sheets import Problems, Sheet, Source, Table, TableError, source_of
from jbt.own.tables.verdicts import USUAL, read_verdicts
from jbt.types import check_word

TREATMENTS = {
    "half": "each half a win for both",
    "drop": "dropped",
    "davidson": "an outcome of their own",
}
"""Of ties, in words."""

TRANSFORMS = {"none": (np.array, -np.inf), "log": (np.log, 0.0), "log1p": (np.log1p, -1.0)}
"""The function, and what a value has to be above."""

VERDICT = ["pool", "judge", "first", "second", "p_first", "count", "shown", "line", "source"]
"""Columns of `Tables.verdicts`."""

GROUP = "group"
"""One more of them, where values were asked for (`by`)."""

ITEM = ["pool", "item", "content", "quality"]
"""Columns of `Tables.items` beside covariates."""

ANCHORS = "anchors"
"""Name of the judge whose verdicts are the anchors (`Tables.with_anchors`)."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A user's tables, checked and matched with each other. Other tables refer to the rows of
    `items` by number, from 0."""

    verdicts: pd.DataFrame
    """A row for each valid verdict: pool and judge (into `pools` and `judges`), first and second
    (rows of `items`), p_first (share the first won, 0.5 for a tie), count, shown (bool: the judge
    saw first before second; else the order is unknown), line (of the file; position in a data
    frame) and source (pool in the file, also where pools are merged)."""
    lost: pd.DataFrame
    """The same for each missing verdict: an error, whose p_first is NaN, or a tie that is
    dropped."""
    items: pd.DataFrame
    """A row for each item: pool, item (its name), content (into `contents`), quality (NaN unless
    given), then each requested covariate, not transformed."""
    anchors: pd.DataFrame
    """Pairs whose order is known: pool, better and worse (rows of `items`), each pair once."""
    tied: pd.DataFrame
    """Pairs that the anchors call a tie: pool, first and second (rows of `items`), each once."""
    members: pd.DataFrame
    """Items labelled as among the best of their pool or not: pool, item (row of `items`), member
    (bool), each item once; empty where anchors are pairs."""
    listed: np.ndarray
    """[anchors, 2 or 1] the pairs or items (rows of `items`) of all anchors, including those that
    neither table has: ties, contradictions, anchors without an answer."""
    n_contradictory: int
    """Pairs or items that the anchors label both ways, left out of both tables (count)."""
    n_unanswered: int
    """Anchors without an answer, left out of both tables (count)."""
    left_out: list[str]
    """Which anchors were left out, in sentences; `summary` ends with them."""
    pools: list[str]
    """In the order of the items table."""
    judges: list[str | None]
    """In the order of the verdicts; [None] where the table names none."""
    contents: list[str]
    """Two items of one pool with one content share a quality."""
    counts: pd.DataFrame
    """A row for each pool and judge, in this order: pool, judge, n_verdicts, n_errors, n_ties,
    repeats counted (`repeats`). Ties are verdicts, unless dropped."""
    summary: list[str]
    """What was kept, dropped and tied, in sentences."""
    items_path: Source
    """The table that `item_lines` refers to: the items, or the verdicts where there are none."""
    item_lines: np.ndarray
    """[rows of items] line of the file; position in a data frame."""
    ties: Ties = "half"
    """How a fit treats the ties among the verdicts: half a win for each side, or, on a leaderboard,
    an outcome of their own (davidson)."""
    by: str | None = None
    """Column whose values were asked for."""
    groups: list[str] = field(default_factory=list)
    """Its values, in the order of the verdicts, which then have a column `group`, into these."""
    members_k: int | None = None
    """Size of the top set that `members` are of, where the anchors say it (count of contents)."""

    def check_members_of(self, k: int) -> None:
        """Raise `TableError` where the anchors say that they are members of another top set."""
        of = self.members_k
        if of not in (None, k):
            raise TableError(
                f"the anchors are members of the top {of}, not of the top {k}: --k {of}"
            )

    @property
    def merged(self) -> bool:
        """Whether several pools of the file are one here."""
        return len(self.pools) == 1 and self.verdicts["source"].nunique() > 1

    def of_groups(self, groups: Sequence[int]) -> Tables:
        """The verdicts of some values of the column asked for, and the missing ones."""
        kept = (frame[frame[GROUP].isin(groups)] for frame in (self.verdicts, self.lost))
        verdicts, lost = (frame.reset_index(drop=True) for frame in kept)
        return dataclasses.replace(self._with_verdicts(verdicts), lost=lost)

    def without_ties(self) -> Tables:
        """Leave ties out instead of counting half a win for each side."""
        tied = self.verdicts["p_first"] == 0.5
        lost = pd.concat([self.lost, self.verdicts[tied]], ignore_index=True)
        without = self._with_verdicts(self.verdicts[~tied].reset_index(drop=True))
        return dataclasses.replace(without, lost=lost, ties="drop")

    def filled(self, share: np.ndarray) -> Tables:
        """Count the missing verdicts as won by the first in these shares [missing]; those with a
        half are left out."""
        won = self.lost.assign(p_first=share)[share != 0.5]
        return self._with_verdicts(pd.concat([self.verdicts, won], ignore_index=True))

    def _with_verdicts(self, verdicts: pd.DataFrame) -> Tables:
        n_verdicts = _counts(verdicts, len(self.pools), len(self.judges))["n_verdicts"]
        counts = self.counts.assign(n_verdicts=n_verdicts)
        return dataclasses.replace(self, verdicts=verdicts, counts=counts)

    def with_anchors(self) -> Tables:
        """Add the anchors as verdicts of one more judge, called `anchors`: each pair once, won by
        the better item, of unknown order. Without anchors, the same tables.

        Raises:
          TableError: a judge of the table has this name; the anchors are labels of members.
        """
        if not self.members.empty:
            what = "label members of the top set, and are not verdicts: a joint fit needs pairs"
            raise TableError(f"the anchors (--anchors) {what}")
        if self.anchors.empty:
            return self
        for judge in self.judges:
            if judge is not None and judge.casefold() == ANCHORS:
                what = "the trusted pairs (--anchors) that enter the joint fit as verdicts"
                raise TableError(f"a judge is called {judge!r}, which is the name of {what}")
        n_judges = len(self.judges)
        verdicts = self.anchors.set_axis(["pool", "first", "second"], axis=1).assign(
            judge=n_judges, p_first=1.0, count=1, shown=False, line=0, source=self.anchors["pool"]
        )
        counts = _counts(verdicts, len(self.pools), n_judges + 1)
        counts = pd.concat([self.counts, counts[counts["judge"] == n_judges]])
        return dataclasses.replace(
            self,
            verdicts=pd.concat([self.verdicts, verdicts], ignore_index=True),
            counts=counts.sort_values(["pool", "judge"], ignore_index=True),
            judges=[*self.judges, ANCHORS],
        )


def read(
    verdicts: Table,
    items: Table | None = None,
    anchors: Table | None = None,
    *,
    covariates: Sequence[str] = (),
    columns: Columns = USUAL,
    judge: str | None = None,
    ties: Ties = "half",
    content: str | None = "content",
    merge_pools: bool = False,
    outcomes: Outcomes | None = None,
    by: str | None = None,
) -> Tables:
    """Read a user's tables.

    Args:
      verdicts, items, anchors: each a file, or a data frame: of pandas, or anything that has
        `to_pandas()`, as polars and Arrow tables have. Cells of a data frame are taken as CSV
        would have them, its index is ignored, and messages name the argument and the row's
        position, from 0. items may be left out when no covariate is requested.
      covariates: columns of the items table.
      columns: names of the verdict table's columns.
      judge: one judge's verdicts only.
      ties: half a win for each side, or dropped, or, on a leaderboard, an outcome of their own
        (davidson), which needs verdicts that are not graded.
      content: column of the items table that says which items share a quality; None, or a missing
        default column: none do.
      merge_pools: make all pools one, called `all`; contents of one name are then one content.

      outcomes: what the codes of the winner column mean (`Outcomes.of_map("A=first,B=second")`,
        `Outcomes.of_scale("1:7")`); default first, second, tie, error and names of items.
      by: column of the verdicts, or of the items, whose values `Tables.groups` has; both items of
        a verdict have one value.

    Raises:
      TableError: a wrong table, see the module; an unknown judge or item.
      ValueError: an argument out of range.
    """
    check_word("ties", ties, get_args(Ties))
    check_word("merge_pools", merge_pools, (True, False))
    check_names(covariates)
    if covariates and items is None:
        raise TableError(f"covariates {', '.join(covariates)} need an items table (--items)")
    if twice := [c for i, c in enumerate(covariates) if c in covariates[:i]]:
        raise TableError(f"covariate {twice[0]!r} is asked for twice")
    problems = Problems()
    sheet = read_verdicts(source_of(verdicts, "verdicts"), columns, problems, outcomes)
    n_problems = problems.count
    if items is None:
        problems.check()
        listed = items_shown(sheet, content)
    else:
        source = source_of(items, "items")
        listed = read_items(source, sheet, columns, covariates, content, merge_pools)
    if problems.count > n_problems:  # the rows of some items are not known
        problems.check()
    names = listed.rows
    first, second = find_items(listed, sheet, ("first", "second"))
    source, pools = _numbered(names["pool"])
    pool = source * (not merge_pools)
    labels = labelled(np.zeros((0, 2), np.int64), np.zeros(0), pool)
    if anchors is not None:
        labels = read_anchors(source_of(anchors, "anchors"), sheet, columns, listed, pool)
    problems.check()
    if ties == "davidson":
        graded = ~sheet.rows["p_first"].isin((0, 0.5, 1, np.nan))
        what = "is graded: Davidson's ties need 0, 0.5 or 1"
        sheet.refuse(graded, lambda row: f"p_first {row['p_first']:g} {what}")
        problems.check()

    groups: list[str] = []
    if by is not None:
        values = values_of(by, sheet, listed, first, second)
        problems.check()
        sheet.rows[GROUP], groups = _numbered(values)
    parts = {"pools": names["pool"], "items": names["item"]}
    if "content" in names and content != "item":
        parts["contents"] = names["content"]
    judge_of: Any = 0
    judges: list[str | None] = [None]
    if "judge" in sheet.rows:
        parts["judges"] = sheet.rows["judge"]
        judge_of, judges = _numbered(parts["judges"])
    look_alike = alike_note({kind: column.unique() for kind, column in parts.items()})
    rows = sheet.rows.assign(
        pool=pool[first],
        judge=judge_of,
        first=first,
        second=second,
        line=sheet.rows.index,
        source=source[first],
    )
    rows = rows[[*VERDICT, *[GROUP] * (by is not None)]]
    if judge is not None:
        if judge not in judges:
            known = "the table has no judge column"
            known = known if judges == [None] else listing(list(map(str, judges)))
            raise TableError(f"{sheet.source}: no judge {judge!r}: {known}")
        rows = rows[rows["judge"] == judges.index(judge)].assign(judge=0)
        judges = [judge]
    item = names["item"].astype(object)
    if merge_pools:
        pools = [ALL]
        item[:] = joined(names["pool"].to_numpy(object), item.to_numpy())
    content_of, contents = _numbered(names.get("content", item))
    item_rows = names.assign(pool=pool, item=item, content=content_of).reset_index(drop=True)
    n_pools, n_judges = len(pools), len(judges)
    sizes = np.bincount(rows["judge"], minlength=n_judges)
    check_judges(sheet.source, columns.judge or "", n_pools, sizes)
    counted_rows = rows[rows["count"] > 0]
    is_error = counted_rows["p_first"].isna()
    tables = Tables(
        verdicts=counted_rows[~is_error].reset_index(drop=True),
        lost=counted_rows[is_error].reset_index(drop=True),
        items=item_rows[list(dict.fromkeys([*ITEM, *covariates]))].infer_objects(),
        pools=pools,
        judges=judges,
        contents=contents,
        counts=_counts(rows, n_pools, n_judges),
        summary=[],
        items_path=listed.source,
        item_lines=names.index.to_numpy(),
        ties=ties,
        by=by,
        groups=groups,
        **labels,
    )
    tables = tables.without_ties() if ties == "drop" else tables
    summary = [*_summary(sheet, rows, tables), *look_alike, *tables.left_out]
    return dataclasses.replace(tables, summary=summary)


def covariate_values(
    tables: Tables, names: Sequence[str], transform: Transform, standardise: bool
) -> tuple[np.ndarray, list[str], str]:
    """Compute covariates as the model uses them.

    Args:
      names: columns of `tables.items`.
      transform: applied to every covariate: none, log or log1p.
      standardise: after the transformation, subtract the mean and divide by the standard deviation
        (divisor n) over all items.

    Returns:
      The values [rows of items, D]; the name of each, with its transformation; the unit of a
      covariate, in words.

    Raises:
      TableError: a covariate that is constant over the table, a log that is undefined.
      ValueError: an argument out of range.
    """
    check_word("standardise", standardise, (True, False))
    check_transform(tables, names, transform)
    problems = Problems()
    x = TRANSFORMS[transform][0](tables.items[list(names)].to_numpy(float))
    spread = x.std(axis=0)
    # A constant's standard deviation is rounding, not exactly zero.
    constant = spread <= 1e-12 * np.maximum(np.abs(x).max(axis=0, initial=0), 1e-300)
    for name in np.asarray(names, object)[constant]:
        problems.add(tables.items_path, f"{name} is the same for all items")
    problems.check()
    labels = [c if transform == "none" else f"{transform}({c})" for c in names]
    if not standardise:
        return x, labels, "unit of"
    return (x - x.mean(axis=0)) / spread, labels, "standard deviation of"


def check_transform(tables: Tables, names: Sequence[str], transform: Transform) -> None:
    """Raise `ValueError`, or `TableError`, unless every value of these covariates can be
    transformed; see `covariate_values`."""
    check_word("transform", transform, get_args(Transform))
    check_names(names)
    problems, floor = Problems(), TRANSFORMS[transform][1]
    items = Sheet(tables.items_path, tables.items.set_axis(tables.item_lines), problems)
    for name in names:
        if name not in tables.items:
            what = f"no covariate {name!r} was read: read the tables with it"
            problems.end(items.source, what)
        allowed = f"is undefined, needs values above {floor:g}"
        items.refuse(
            items.rows[name] <= floor,
            lambda row, n=name, end=allowed: f"{transform} of {n} = {row[n]:g} {end}",
        )
    problems.check()


def _numbered(names: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """[rows] number of each name, and the names in the order of their appearance."""
    numbers, distinct = pd.factorize(names)
    return numbers, distinct.tolist()


def repeats(count: pd.Series) -> pd.Series:
    """How many verdicts each row is: its count; where some counts are fractions, which weigh
    verdicts, 1 (0 at a count of 0)."""
    return count if count.dtype.kind == "i" else (count > 0).astype(int)


def _counts(verdicts: pd.DataFrame, n_pools: int, n_judges: int) -> pd.DataFrame:
    """`Tables.counts` of verdicts and errors."""
    share, count = verdicts["p_first"], repeats(verdicts["count"])
    kinds = {"n_verdicts": share.notna(), "n_errors": share.isna(), "n_ties": share == 0.5}
    keys = ["pool", "judge"]
    fits = pd.MultiIndex.from_product([range(n_pools), range(n_judges)], names=keys)
    totals = verdicts[keys].assign(**{name: rows * count for name, rows in kinds.items()})
    return totals.groupby(keys).sum().reindex(fits, fill_value=0).reset_index()


def _summary(sheet: Sheet, rows: pd.DataFrame, tables: Tables) -> list[str]:
    kept, errors, tied = tables.counts[["n_verdicts", "n_errors", "n_ties"]].sum().tolist()
    never = int((rows["count"] == 0).sum())
    unknown = int(repeats(tables.verdicts["count"])[~tables.verdicts["shown"]].sum())
    n_members = len(tables.members)
    n_anchors = len(tables.anchors) + n_members
    lines = {
        f"{sheet.source}: {counted(len(rows), 'row')}, {counted(kept, 'verdict')} kept": True,
        "no column of pools: all rows are one pool": not sheet.has_pools,
        f"{counted(errors, 'error')} dropped": errors,
        f"{counted(never, 'row')} with count 0 left out": never,
        f"{counted(tied, 'tie')}, {TREATMENTS[tables.ties]}": tied,
        f"{counted(unknown, 'verdict')} of unknown order, not used for kappa": unknown,
        f"{counted(n_anchors, 'anchor')}{' of members' * bool(n_members)}": n_anchors,
    }
    return [line for line, holds in lines.items() if holds]
