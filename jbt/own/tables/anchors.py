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

from typing import Any

import numpy as np
import pandas as pd

from jbt.border.report import counted
from jbt.own.tables.items import find_items, read_with_pools
from jbt.own.tables.names import from_spreadsheet
from jbt.own.tables.sheets import NUMBER, Problems, Sheet, Source, each
from jbt.own.tables.verdicts import Columns, named_shares

FORMS = (("better", "worse"), ("first", "second", "better"), ("item", "member"))

ITEMS = ("first", "second", "better", "worse", "item")
"""Columns that may contain names of items."""

TIE = 0.5
"""Share that either item of a tied pair won."""

ANSWERS = {"1": 1.0, "true": 1.0, "yes": 1.0, "0": 0.0, "false": 0.0, "no": 0.0, "": np.nan}
"""What `member` may be, in any case of letters."""


def no_anchors() -> dict[str, Any]:
    """The fields of `Tables` that come from the anchors, where there are none."""
    empty = np.zeros(0, np.int64)
    return {
        "anchors": pd.DataFrame(dict.fromkeys(("pool", "better", "worse"), empty)),
        "tied": pd.DataFrame(dict.fromkeys(("pool", "first", "second"), empty)),
        "members": pd.DataFrame({"pool": empty, "item": empty, "member": empty.astype(bool)}),
        "listed": np.zeros((0, 2), np.int64),
        "n_contradictory": 0,
        "n_unanswered": 0,
        "left_out": [],
        "members_k": None,
    }


def read_anchors(
    source: Source,
    verdicts: Sheet,
    columns: Columns,
    items: Sheet,
    pool_of: np.ndarray,
    problems: Problems,
) -> dict[str, Any]:
    """Read the anchors; what is wrong with them goes to `problems`.

    Args:
      pool_of: [items] number of each item's pool.

    Returns:
      The fields of `Tables` that come from the anchors.
    """
    names = list(dict.fromkeys([*(name for form in FORMS for name in form), "k"]))
    sheet = read_with_pools(source, verdicts, columns, (), names, problems)
    rows = sheet.rows
    for name in ("pool", *ITEMS):
        if name in rows:  # undo how `jbt plan labels` wrote names for a spreadsheet
            known = set(items.rows["pool" if name == "pool" else "item"])
            rows[name] = each(rows[name], lambda v, k=known: from_spreadsheet(v, k), object)
    forms = [form for form in FORMS if all(name in rows for name in form)]
    if len(forms) != 1:
        kinds = "more than one kind" if forms else "no kind"
        allowed = " or ".join(", ".join(form) for form in FORMS)
        problems.end(source, f"has the columns of {kinds} of anchors, needs one of: {allowed}")
    read = _members if forms[0] == FORMS[2] else _pairs
    return no_anchors() | read(sheet, items, pool_of, forms[0])


def _pairs(
    sheet: Sheet, items: Sheet, pool_of: np.ndarray, form: tuple[str, ...]
) -> dict[str, Any]:
    sides = form[:2]
    sheet.refuse_empty(sides)
    first, second = find_items(items, sheet, sides)
    sheet.refuse(
        (first >= 0) & (first == second),
        lambda row: f"{' and '.join(sides)} are the same item, {row[sides[0]]!r}",
    )
    won = np.ones(len(first))
    if form == FORMS[1]:
        way_out = "rename the item, or give columns better and worse"
        won = named_shares(sheet, "better", *sides, way_out=way_out)
    better, worse = np.where(won == 1, first, second), np.where(won == 1, second, first)
    low, high = np.minimum(first, second), np.maximum(first, second)
    pair, decided = low * len(items.rows) + high, np.isfinite(won) & (won != TIE)
    kept, n_contradictory, notes = _once(pair, better, decided, "pair")
    tied = (won == TIE) & ~np.isin(pair, pair[decided])
    tied[tied] = ~pd.Series(pair[tied]).duplicated().to_numpy()
    if n_ties := int((won == TIE).sum()):
        notes.append(f"{counted(n_ties, 'anchor')} of a tie left out")
    pairs = pd.DataFrame({"pool": pool_of[better], "better": better, "worse": worse})
    ties = pd.DataFrame({"pool": pool_of[low], "first": low, "second": high})
    return {
        "anchors": pairs[kept].reset_index(drop=True),
        "tied": ties[tied].reset_index(drop=True),
        "listed": np.stack([first, second], 1),
        "n_contradictory": n_contradictory,
        **_unanswered(won, notes),
    }


def _members(
    sheet: Sheet, items: Sheet, pool_of: np.ndarray, form: tuple[str, ...]
) -> dict[str, Any]:
    sheet.refuse_empty(["item"])
    (item,) = find_items(items, sheet, ["item"])
    answers = each(sheet.rows["member"], _answer)
    allowed = "allowed: 1, 0, true, false, yes, no, or nothing where there is no answer"
    sheet.refuse_values("member", answers == -1, allowed)
    k = None
    if "k" in sheet.rows:
        sizes = each(sheet.rows["k"], lambda word: int(word) if word.isdecimal() else 0)
        wrong = (sizes < 1) | (sizes != sizes[0])
        sheet.refuse_values("k", wrong, "allowed: one whole number, the same in all rows")
        k = int(sizes[0])
    kept, n_contradictory, notes = _once(item, answers, np.isfinite(answers), "item")
    members = pd.DataFrame({"pool": pool_of[item], "item": item, "member": answers == 1})
    return {
        "members": members[kept].reset_index(drop=True),
        "listed": item[:, None],
        "n_contradictory": n_contradictory,
        "members_k": k,
        **_unanswered(answers, notes),
    }


def _unanswered(answers: np.ndarray, notes: list[str]) -> dict[str, Any]:
    n_open = int(np.isnan(answers).sum())
    if n_open:
        notes.append(f"{counted(n_open, 'anchor')} without an answer left out")
    return {"n_unanswered": n_open, "left_out": notes}


def _answer(word: str) -> float:
    """1 or 0; NaN for an empty field, -1 for a wrong answer."""
    word = word.casefold()
    if NUMBER.fullmatch(word):  # a column with gaps may have 1.0 for 1
        word = f"{float(word):g}"
    return ANSWERS.get(word, -1.0)


def _once(
    subject: np.ndarray, label: np.ndarray, answered: np.ndarray, noun: str
) -> tuple[np.ndarray, int, list[str]]:
    """[rows] which anchors count; the number of pairs or items labelled both ways; notes."""
    kept, notes = np.zeros(len(subject), bool), []
    again, both = repeated(subject[answered], label[answered])
    kept[np.flatnonzero(answered)[~again & ~both]] = True
    n_contradictory = len(np.unique(subject[answered][both]))
    if n_again := int(again.sum()):
        notes.append(f"{counted(n_again, 'anchor')} given again, each counted once")
    if n_contradictory:
        left_out = f"{counted(int(both.sum()), 'anchor')} left out"
        notes.append(f"{counted(n_contradictory, noun)} labelled both ways: {left_out}")
    return kept, n_contradictory, notes


def repeated(subject: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[rows] which labels repeat an earlier one, and which belong to a contradiction.

    Args:
      subject: [rows] number of the pair or item labelled.
      label: [rows]
    """
    labels = pd.DataFrame({"subject": subject, "label": label})
    both = (labels.groupby("subject")["label"].transform("nunique") > 1).to_numpy()
    return labels.duplicated().to_numpy() & ~both, both
