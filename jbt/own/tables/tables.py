"""A user's tables: read, checked and matched with each other.

    verdicts   pool, first, second, and winner = first | second | tie | error or the name of one of
               the two, or else p_first, the share that the first won (0 to 1, empty for an error);
               optional judge, count, order = shown | unknown
    items      pool, item, optional content, optional quality, any numeric covariate columns
    anchors    pool, better, worse: pairs of items whose order is known; or pool, item, member:
               whether an item is one of the best of its pool

A table without the column pool has one pool, `all`. Wrong tables raise `TableError`, whose message
has one line a problem, with file and line, what was found and what is allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from jbt.own.tables.anchors import Anchors, read_anchors
from jbt.own.tables.items import Items, read_items
from jbt.own.tables.names import alike_note
from jbt.own.tables.reading import Problems, TableError
from jbt.own.tables.verdicts import USUAL, Columns, VerdictTable, read_verdicts
from jbt.types import check_word

Ties = Literal["half", "drop"]

Transform = Literal["none", "log", "log1p"]

ANCHORS = "anchors"
"""The judge whose verdicts the anchors are, where they are taken for verdicts."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A user's tables: read, checked and matched with each other. Rows of `items` are known by
    their number, from 0."""

    verdicts: pd.DataFrame
    """A row for each valid verdict (errors are only counted): pool and judge (into `pools` and
    `judges`), first and second (rows of `items`), p_first (share the first won, 0.5 for a tie),
    count, shown (bool: the judge saw first before second; else the order is unknown), line (of the
    file) and source (its pool in the file, which differs from pool where pools are merged)."""
    items: pd.DataFrame
    """A row for each item: pool, item (its name), content (into `contents`), quality (NaN unless
    given), then each covariate asked for, as it stands."""
    anchors: pd.DataFrame
    """Pairs whose order is known: pool, better and worse (rows of `items`), each pair once."""
    members: pd.DataFrame
    """Items known to be among the best of their pool or not: pool, item (row of `items`), member
    (bool), each item once; empty where anchors are pairs."""
    listed: np.ndarray
    """[anchors, 2 or 1] the pairs or items (rows of `items`) of all anchors, also of those that are
    in neither table: ties, contradictions, those without an answer."""
    n_contradictory: int
    """Pairs or items that the anchors label both ways, and that are in neither table (count)."""
    n_unanswered: int
    """Anchors without an answer, which are in neither table (count)."""
    left_out: list[str]
    """Of the anchors, in sentences, which `summary` ends with."""
    pools: list[str]
    """In the order of the items table."""
    judges: list[str | None]
    """In the order of the verdicts; [None] where the table names none."""
    contents: list[str]
    """Two items of one pool with one content share a quality."""
    counts: pd.DataFrame
    """A row for each pool and judge, in this order: pool, judge, n_verdicts, n_errors, n_ties,
    repeats counted. Ties are verdicts, unless dropped."""
    summary: list[str]
    """What was kept, dropped and tied, in sentences."""
    items_path: Path
    """Where `item_lines` are: the items table, or the verdicts where there is none."""
    item_lines: np.ndarray
    """[rows of items] line of the file."""

    @property
    def merged(self) -> bool:
        """Whether several pools of the file are one here."""
        return len(self.pools) == 1 and self.verdicts["source"].nunique() > 1

    def without_ties(self) -> Tables:
        """The same tables with ties left out instead of counted as half a win each."""
        kept = self.verdicts[self.verdicts["p_first"] != 0.5].reset_index(drop=True)
        counts = self.counts.assign(n_verdicts=_totals(kept, len(self.pools), len(self.judges)))
        return dataclasses.replace(self, verdicts=kept, counts=counts)

    def with_anchors(self) -> Tables:
        """The same tables with the anchors as verdicts of one more judge, called `anchors`: each
        pair once, the better item won, the order unknown. Without anchors the same tables.

        Raises:
          TableError: one of the table's own judges is called so; anchors are labels of members.
        """
        if not self.members.empty:
            what = "say who is among the best, and are no verdicts: a joint fit takes pairs"
            raise TableError(f"the anchors (--anchors) {what}")
        if self.anchors.empty:
            return self
        for judge in self.judges:
            if judge is not None and judge.casefold() == ANCHORS:
                what = "the trusted pairs (--anchors) that enter the joint fit as verdicts"
                raise TableError(f"a judge is called {judge!r}, which is the name of {what}")
        n_judges = len(self.judges)
        rows = {
            "pool": self.anchors["pool"],
            "judge": n_judges,
            "first": self.anchors["better"],
            "second": self.anchors["worse"],
            "p_first": 1.0,
            "count": 1,
            "shown": False,
            "line": 0,
            "source": self.anchors["pool"],
        }
        verdicts = pd.concat([self.verdicts, pd.DataFrame(rows)], ignore_index=True)
        pool, judge = np.divmod(np.arange(len(self.pools) * (n_judges + 1)), n_judges + 1)
        counts = self.counts.set_index(["pool", "judge"])
        counts = counts.reindex(pd.MultiIndex.from_arrays([pool, judge]), fill_value=0)
        counts = counts.rename_axis(["pool", "judge"]).reset_index()
        counts["n_verdicts"] = _totals(verdicts, len(self.pools), n_judges + 1)
        judges = [*self.judges, ANCHORS]
        return dataclasses.replace(self, verdicts=verdicts, counts=counts, judges=judges)


def read(
    verdicts: Path | str,
    items: Path | str | None = None,
    anchors: Path | str | None = None,
    *,
    covariates: Sequence[str] = (),
    columns: Columns = USUAL,
    judge: str | None = None,
    ties: Ties = "half",
    content: str | None = "content",
    merge_pools: bool = False,
) -> Tables:
    """Read a user's tables.

    Args:
      verdicts, items, anchors: files; items may be left out when no covariate is asked for.
      covariates: columns of the items table.
      columns: names of the verdict table's columns.
      judge: one judge's verdicts only.
      ties: half a win for each side, or dropped.
      content: column of the items table that says which items share a quality; None, or no such
        column if it is the default: none do.
      merge_pools: make all pools one, called `all`; contents of one name are then one content.

    Raises:
      TableError: see the module; also for an unknown judge or item.
      ValueError: an argument that is none of those allowed.
    """
    check_word("ties", ties, get_args(Ties))
    check_word("merge_pools", merge_pools, (True, False))
    check_names(covariates)
    if covariates and items is None:
        raise TableError(f"covariates {', '.join(covariates)} need an items table (--items)")
    twice = [c for i, c in enumerate(covariates) if c in covariates[:i]]
    if twice:
        raise TableError(f"covariate {twice[0]!r} is asked for twice")
    problems = Problems()
    told = read_verdicts(Path(verdicts), columns, problems)
    wrong = problems.count
    if items is None:
        problems.check()
        known = Items.of(told, content)
    else:
        known = read_items(Path(items), told, columns, covariates, content, merge_pools, problems)
    if problems.count > wrong:  # whose rows are not known then
        problems.check()
    first, second = known.find(told.sheet, told.pool, (columns.first, columns.second), problems)
    trusted = Anchors.none()
    if anchors is not None:
        trusted = read_anchors(Path(anchors), told, columns, known, problems)
    problems.check()

    rows = pd.DataFrame(
        {
            "pool": known.pool.codes[first],
            "judge": 0 if told.judge is None else told.judge.codes,
            "first": first,
            "second": second,
            "p_first": told.p_first,
            "count": told.count,
            "shown": told.shown,
            "line": told.sheet.lines,
            "source": known.pool.codes[first],
        }
    )
    judges: list[str | None] = [None] if told.judge is None else [*told.judge.values]
    if judge is not None:
        if told.judge is None or judge not in judges:
            there = "the table has no judge column"
            there = there if told.judge is None else ", ".join(told.judge.values)
            raise TableError(f"{verdicts}: no judge {judge!r}: {there}")
        rows = rows[rows["judge"] == judges.index(judge)].assign(judge=0)
        judges = [judge]
    pools, item_rows, contents = known.frame(merge_pools)
    pairs, members = trusted.pairs, trusted.members
    if merge_pools:
        rows, pairs, members = (of.assign(pool=0) for of in (rows, pairs, members))
    error, never = rows["p_first"].isna(), rows["count"] == 0
    valid = rows[~error & ~never].reset_index(drop=True)
    shape = len(pools), len(judges)
    pool, of = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    counts = {
        "pool": pool,
        "judge": of,
        "n_verdicts": _totals(valid, *shape),
        "n_errors": _totals(rows[error], *shape),
        "n_ties": _totals(valid[valid["p_first"] == 0.5], *shape),
    }
    tables = Tables(
        verdicts=valid,
        items=item_rows,
        anchors=pairs,
        members=members,
        listed=trusted.listed,
        n_contradictory=trusted.n_contradictory,
        n_unanswered=trusted.n_unanswered,
        left_out=trusted.notes,
        pools=pools,
        judges=judges,
        contents=contents,
        counts=pd.DataFrame(counts),
        summary=[],
        items_path=known.path,
        item_lines=known.lines,
    )
    tables = tables.without_ties() if ties == "drop" else tables
    kinds = {"pools": known.pool.values, "items": known.item.values}
    kinds |= {"contents": known.content.values} if known.content not in (None, known.item) else {}
    kinds |= {"judges": told.judge.values} if told.judge else {}
    summary = [*_summary(told, rows, tables, ties), *alike_note(kinds), *trusted.notes]
    return dataclasses.replace(tables, summary=summary)


def covariate_values(
    tables: Tables, names: Sequence[str], transform: Transform, standardise: bool
) -> tuple[np.ndarray, list[str], str]:
    """Covariates as the model is to have them.

    Args:
      names: columns of `tables.items`.
      transform: applied to every covariate: none, log or log1p.
      standardise: subtract the mean and divide by the standard deviation (divisor n) over all
        items, after the transformation; else use them as they are.

    Returns:
      The values [rows of items, D]; what each is called, with its transformation; what one unit
      of a covariate is, in words.

    Raises:
      TableError: a covariate that is constant over the table, the log of a number without one.
      ValueError: an argument that is none of those allowed.
    """
    check_word("transform", transform, get_args(Transform))
    check_word("standardise", standardise, (True, False))
    check_names(names)
    path, problems = tables.items_path, Problems()
    x = tables.items[list(names)].to_numpy(float)
    floor = {"none": -np.inf, "log": 0.0, "log1p": -1.0}[transform]
    for name, of in zip(names, x.T, strict=True):
        problems.add_lines(
            path,
            tables.item_lines,
            of <= floor,
            lambda r, n=name, v=of: (
                f"{transform} of {n} = {v[r]:g} is undefined, needs values above {floor:g}"
            ),
        )
    problems.check()
    x = {"none": lambda v: v, "log": np.log, "log1p": np.log1p}[transform](x)
    spread = x.std(axis=0)
    # A constant's standard deviation is rounding, not exactly zero.
    constant = spread <= 1e-12 * np.maximum(np.abs(x).max(axis=0, initial=0), 1e-300)
    for name, is_constant in zip(names, constant, strict=True):
        if is_constant:
            problems.add(path, f"{name} is the same for all items")
    problems.check()
    labels = [c if transform == "none" else f"{transform}({c})" for c in names]
    units = "standard deviation of" if standardise else "unit of"
    return (x - x.mean(axis=0)) / spread if standardise else x, labels, units


def check_names(covariates: Sequence[str]) -> None:
    """Raise `ValueError` for a name in place of a list, as its letters would be taken for names."""
    if isinstance(covariates, str):
        raise ValueError(f"covariates must be a list of columns, got {covariates!r}")


def _totals(verdicts: pd.DataFrame, n_pools: int, n_judges: int) -> np.ndarray:
    """[pools x judges] how many verdicts each has, repeats counted."""
    fit = verdicts["pool"] * n_judges + verdicts["judge"]
    totals = np.zeros(n_pools * n_judges, np.int64)
    np.add.at(totals, fit.to_numpy(), verdicts["count"].to_numpy())
    return totals


def _summary(told: VerdictTable, rows: pd.DataFrame, tables: Tables, ties: Ties) -> list[str]:
    totals = tables.counts[["n_verdicts", "n_errors", "n_ties"]].sum()
    kept, errors, tied = (int(total) for total in totals)
    never = int((rows["count"] == 0).sum())
    unknown = int(tables.verdicts.loc[~tables.verdicts["shown"], "count"].sum())
    how = "each half a win for both" if ties == "half" else "dropped"
    said = [f"{told.sheet.path}: {_count(len(rows), 'row')}, {_count(kept, 'verdict')} kept"]
    if not told.has_pools:
        said.append("no column of pools: all rows are one pool")
    if errors:
        said.append(f"{_count(errors, 'error')} dropped")
    if never:
        said.append(f"{_count(never, 'row')} with count 0 left out")
    if tied:
        said.append(f"{_count(tied, 'tie')}, {how}")
    if unknown:
        said.append(f"{_count(unknown, 'verdict')} of unknown order, which tell nothing of kappa")
    if n := len(tables.anchors) + len(tables.members):
        said.append(_count(n, "anchor") + " of members" * bool(len(tables.members)))
    return said


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
