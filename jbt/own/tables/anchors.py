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

import dataclasses
from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.border.report import counted
from jbt.own.tables.items import Items, read_with_pools
from jbt.own.tables.names import from_spreadsheet
from jbt.own.tables.sheets import NUMBER, Problems, Sheet, Source, Text
from jbt.own.tables.verdicts import Columns, VerdictTable, named_shares

FORMS = (("better", "worse"), ("first", "second", "better"), ("item", "member"))

ITEMS = ("first", "second", "better", "worse", "item")
"""Columns that may contain names of items."""

PAIR, TIED, MEMBER = (
    ("pool", "better", "worse"),
    ("pool", "first", "second"),
    ("pool", "item", "member"),
)

TIE = 0.5
"""Share that either item of a tied pair won."""

ANSWERS = {"1": 1.0, "true": 1.0, "yes": 1.0, "0": 0.0, "false": 0.0, "no": 0.0, "": np.nan}
"""What `member` may be, in any case of letters."""


@dataclass(frozen=True, eq=False)
class Anchors:
    """Trusted labels, in the order of their table; items are given by row number."""

    pairs: pd.DataFrame
    """pool, better, worse."""
    tied: pd.DataFrame
    """pool, first, second: pairs labelled as a tie and nothing else."""
    members: pd.DataFrame
    """pool, item, member (bool)."""
    listed: np.ndarray
    """[rows, 2 or 1] the pairs or items of all rows, whatever their answer."""
    n_contradictory: int
    """Pairs or items labelled both ways, which are left out (count)."""
    n_unanswered: int
    """Rows without an answer, which are left out (count)."""
    notes: list[str]
    """What was left out, in sentences."""
    members_k: int | None = None
    """Size of the top set that `members` are of, where the table says it (count of contents)."""

    @classmethod
    def none(cls) -> Anchors:
        """No anchors."""
        empty = np.zeros(0, np.int64)
        pairs = pd.DataFrame(dict.fromkeys(PAIR, empty))
        tied = pd.DataFrame(dict.fromkeys(TIED, empty))
        members = pd.DataFrame(dict.fromkeys(MEMBER, empty)).astype({"member": bool})
        return cls(pairs, tied, members, np.zeros((0, 2), np.int64), 0, 0, [])


def read_anchors(
    source: Source, verdicts: VerdictTable, columns: Columns, items: Items, problems: Problems
) -> Anchors:
    """Read the anchors; what is wrong with them goes to `problems`."""
    names = list(dict.fromkeys([*(name for form in FORMS for name in form), "k"]))
    sheet, pool = read_with_pools(source, verdicts, columns, (), names, problems)
    known = set(items.item.values)
    pool = _unescaped(pool, set(items.pool.values))
    unescaped = {n: _unescaped(v, known) for n, v in sheet.columns.items() if n in ITEMS}
    sheet = dataclasses.replace(sheet, columns={**sheet.columns, **unescaped})
    forms = [form for form in FORMS if all(name in sheet for name in form)]
    if len(forms) != 1:
        kinds = "more than one kind" if forms else "no kind"
        allowed = " or ".join(", ".join(form) for form in FORMS)
        problems.end(source, f"has the columns of {kinds} of anchors, needs one of: {allowed}")
    if forms[0] == FORMS[2]:
        return _members(sheet, pool, items, problems)
    return _pairs(sheet, pool, items, problems, forms[0])


def _unescaped(names: Text, known: Set[str]) -> Text:
    """Undo how `jbt plan labels` wrote names for a spreadsheet."""
    return Text.of(names.codes, [from_spreadsheet(name, known) for name in names.values])


def _pairs(
    sheet: Sheet, pool: Text, items: Items, problems: Problems, form: tuple[str, ...]
) -> Anchors:
    sides = form[:2]
    problems.add_empty(sheet, sides)
    first, second = items.find(sheet, pool, sides, problems)
    name = sheet[sides[0]]
    problems.add_rows(
        sheet,
        (first >= 0) & (first == second),
        lambda r: f"{' and '.join(sides)} are the same item, {name.at(r)!r}",
    )
    won = np.ones(len(sheet))
    if form == FORMS[1]:
        names = sheet["first"], sheet["second"]
        way_out = "rename the item, or give columns better and worse"
        won = named_shares(sheet, "better", *names, problems, unanswered=True, way_out=way_out)
    better, worse = np.where(won == 1, first, second), np.where(won == 1, second, first)
    low, high = np.minimum(first, second), np.maximum(first, second)
    table = pd.DataFrame({"pool": items.pool.codes[better], "better": better, "worse": worse})
    decided = np.isfinite(won) & (won != TIE)
    pair = low * len(items.lines) + high
    kept, n_contradictory, notes = _once(pair, better, decided, "pair")
    is_tie = (won == TIE) & ~np.isin(pair, pair[decided])
    is_tie[is_tie] = ~pd.Series(pair[is_tie]).duplicated().to_numpy()
    tied = pd.DataFrame({"pool": items.pool.codes[low], "first": low, "second": high})
    if n_ties := int((won == TIE).sum()):
        notes.append(f"{counted(n_ties, 'anchor')} of a tie left out")
    if n_open := int(np.isnan(won).sum()):
        notes.append(f"{counted(n_open, 'anchor')} without an answer left out")
    pairs = table[kept].reset_index(drop=True)
    listed = np.stack([first, second], 1)
    tied = tied[is_tie].reset_index(drop=True)
    return Anchors(pairs, tied, Anchors.none().members, listed, n_contradictory, n_open, notes)


def _members(sheet: Sheet, pool: Text, items: Items, problems: Problems) -> Anchors:
    problems.add_empty(sheet, ("item",))
    (item,) = items.find(sheet, pool, ("item",), problems)
    text = sheet["member"]
    answers = text.map(_answer)
    allowed = "allowed: 1, 0, true, false, yes, no, or nothing where there is no answer"
    problems.add_rows(sheet, answers == -1, lambda r: f"member is {text.at(r)!r}, {allowed}")
    table = pd.DataFrame({"pool": items.pool.codes[item], "item": item, "member": answers == 1})
    k = None
    if "k" in sheet and len(sheet):
        of = sheet["k"].map(lambda word: int(word) if word.isdecimal() else 0)
        wrong = (of < 1) | (of != of[0])
        said = sheet["k"]
        one = "allowed: one whole number, the same in all rows"
        problems.add_rows(sheet, wrong, lambda r: f"k is {said.at(r)!r}, {one}")
        k = int(of[0])
    kept, n_contradictory, notes = _once(item, answers, np.isfinite(answers), "item")
    if n_open := int(np.isnan(answers).sum()):
        notes.append(f"{counted(n_open, 'anchor')} without an answer left out")
    members = table[kept].reset_index(drop=True)
    listed = item[:, None]
    none = Anchors.none()
    return Anchors(none.pairs, none.tied, members, listed, n_contradictory, n_open, notes, k)


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
