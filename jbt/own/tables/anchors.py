"""Read the table of anchors: trusted labels of pairs or of items.

    pool, better, worse           a pair whose order is known
    pool, first, second, better   the same as an annotator fills it in: better is first, second, tie
                                  or the name of one of the two, empty where nobody has answered
    pool, item, member            whether the item is one of the best k of its pool: 1, 0, true,
                                  false, yes, no, empty where nobody has answered

A name that begins with an apostrophe and =, +, - or @ stands for the name without the apostrophe,
if that is known: `jbt plan labels` adds it to keep spreadsheets from computing the name.

An anchor given several times counts once. Contradictory labels are left out, and counted: which of
several annotators to believe is for the user to say.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

from jbt.border.report import counted
from jbt.own.choices import Columns
from jbt.own.tables.items import find_items, read_with_pools
from jbt.own.tables.names import from_spreadsheet
from jbt.own.tables.outcomes import NUMBER
from jbt.own.tables.sheets import Sheet, Source, each, number
from jbt.own.tables.verdicts import MOST, named_shares

FORMS = (("better", "worse"), ("first", "second", "better"), ("item", "member"))

ITEMS = ("first", "second", "better", "worse", "item")
"""Columns that may contain names of items."""

TIE = 0.5
"""Share that either item of a tied pair won."""

ANSWERS = {"1": 1.0, "true": 1.0, "yes": 1.0, "0": 0.0, "false": 0.0, "no": 0.0, "": np.nan}
"""What `member` may be, in any case of letters."""


def read_anchors(
    source: Source, verdicts: Sheet, columns: Columns, items: Sheet, pool_of: np.ndarray
) -> dict[str, Any]:
    """Read the anchors; what is wrong with them goes to the problems of the verdicts.

    Args:
      pool_of: [items] number of each item's pool.

    Returns:
      The fields of `Tables` that come from the anchors.
    """
    names = list(dict.fromkeys([*itertools.chain(*FORMS), "k"]))
    sheet = read_with_pools(source, verdicts, columns, (), names)
    rows = sheet.rows
    for name in ("pool", *ITEMS):
        if name in rows:  # undo how `jbt plan labels` wrote names for a spreadsheet
            known = set(items.rows["pool" if name == "pool" else "item"])
            rows[name] = each(rows[name], lambda v, k=known: from_spreadsheet(v, k), object)
    forms = [form for form in FORMS if all(name in rows for name in form)]
    if len(forms) != 1:
        kinds = "more than one kind" if forms else "no kind"
        allowed = " or ".join(", ".join(form) for form in FORMS)
        sheet.problems.end(
            source, f"has the columns of {kinds} of anchors, needs one of: {allowed}"
        )
    (form,) = forms
    sides, k = form[: 1 if form == FORMS[2] else 2], None
    sheet.refuse_empty(*sides)
    listed = np.stack(find_items(items, sheet, sides), 1)
    won = np.ones(len(listed))
    if form == FORMS[2]:
        allowed = "allowed: 1, 0, true, false, yes, no, or nothing where there is no answer"
        won = sheet.values("member", _member, allowed)
        if "k" in rows:
            size, of_first = number(1.0, MOST, whole=True), rows["k"].iloc[0]
            same = {of_first: of_first}
            allowed = "allowed: one whole number, the same in all rows"
            sizes = sheet.values("k", lambda field: size(same[field]), allowed)
            k = int(np.nan_to_num(sizes[0]))  # NaN is refused with all other mistakes below
    else:
        sheet.refuse(
            (listed[:, 0] >= 0) & (listed[:, 0] == listed[:, 1]),
            lambda row: f"{' and '.join(sides)} are the same item, {row[sides[0]]!r}",
        )
    if form == FORMS[1]:
        way_out = "rename the item, or give columns better and worse"
        won = named_shares(sheet, "better", *sides, way_out=way_out)
    return labelled(listed, won, pool_of) | {"members_k": k}


def labelled(listed: np.ndarray, won: np.ndarray, pool_of: np.ndarray) -> dict[str, Any]:
    """The fields of `Tables` that come from the anchors.

    Args:
      listed: [anchors, 2] the items of a pair; [anchors, 1] the item that is a member or not.
      won: [anchors] share that the first of a pair won, whether an item is a member; NaN where
        there is no answer.
      pool_of: [items] number of each item's pool.
    """
    low, high = listed.min(1), listed.max(1)
    labels = pd.DataFrame({"pool": pool_of[low], "low": low, "high": high})
    labels["low_won"] = np.where(listed[:, 0] == low, won, 1 - won)
    subject, is_tie, is_open = low * len(pool_of) + high, won == TIE, np.isnan(won)
    decided = ~is_tie & ~is_open
    again, both = repeated(subject[decided], labels["low_won"].to_numpy()[decided])
    kept = labels[decided][~again & ~both]
    items = kept[kept["low"] == kept["high"]]
    pairs = kept.drop(items.index)
    won_low = pairs["low_won"] == 1
    better, worse = (
        pairs["low"].where(won_low, pairs["high"]),
        pairs["high"].where(won_low, pairs["low"]),
    )
    tied = labels[is_tie & ~np.isin(subject, subject[decided])].drop_duplicates()
    tables = {
        "anchors": {"pool": pairs["pool"], "better": better, "worse": worse},
        "tied": {"pool": tied["pool"], "first": tied["low"], "second": tied["high"]},
        "members": {"pool": items["pool"], "item": items["low"], "member": items["low_won"] == 1},
    }
    n_contradictory = len(np.unique(subject[decided][both]))
    counts = [int(rows.sum()) for rows in (again, both, is_tie, is_open)]
    n_again, n_left_out, n_tied, n_open = (counted(n, "anchor") for n in counts)
    conflicts = counted(n_contradictory, "pair" if listed.shape[1] == 2 else "item")
    notes = [
        f"{n_again} given again, each counted once",
        f"{conflicts} labelled both ways: {n_left_out} left out",
        f"{n_tied} of a tie left out",
        f"{n_open} without an answer left out",
    ]
    frames = {name: pd.DataFrame(v).reset_index(drop=True) for name, v in tables.items()}
    return frames | {
        "listed": listed,
        "n_contradictory": n_contradictory,
        "n_unanswered": counts[-1],
        "left_out": [note for note, n in zip(notes, counts, strict=True) if n],
        "members_k": None,
    }


def _member(field: str) -> float:
    """1 or 0; NaN for an empty field."""
    if NUMBER.fullmatch(field):  # a column with gaps may have 1.0 for 1
        field = f"{float(field):g}"
    return ANSWERS[field.casefold()]


def repeated(subject: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[rows] which labels repeat an earlier one, and which belong to a contradiction.

    Args:
      subject: [rows] number of the pair or item labelled.
      label: [rows]
    """
    labels = pd.DataFrame({"subject": subject, "label": label})
    both = (labels.groupby("subject")["label"].transform("nunique") > 1).to_numpy()
    return labels.duplicated().to_numpy() & ~both, both
