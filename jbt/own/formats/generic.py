"""Read a table of the user's own: a verdict a row, in columns named by options or called as usual.

Usual names are compared without regard to case.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from jbt.own.formats import texts
from jbt.own.formats.records import (
    GenericColumns,
    Item,
    Record,
    Refused,
    Row,
    SwappedCodes,
    Verdict,
    as_name,
    as_number,
    brief,
    digest,
    one_hot,
)
from jbt.own.tables.outcomes import CODES, PAIRS, SIDES, read_winner
from jbt.own.tables.verdicts import ALL, ORDERS

ONE_LINE = 40
"""Most characters of a prompt that names its pool; a longer one is named by a digest."""

ENDS = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"), ("x", "y"))
"""What tells the two columns of a pair apart: `STEM_a` and `STEM_b`, `STEM1`, `left_STEM`, ..."""

FORMS = ("{stem}_{end}", "{stem} {end}", "{stem}{end}", "{end}_{stem}")

PLAIN = (("first", "second"), ("left", "right"))
"""Pairs of columns with the items' names that are called by the side alone."""

COUNTS = ("words", "tokens", "length", "chars")

CHOSEN = ("chosen", "rejected")
"""Texts of which the first won."""

STEMS = {
    "items": ("model", "generator", "item", "system", "candidate", "assistant"),
    "texts": (
        *("response", "answer", "output", "completion", "text", "reply", "generation"),
        "summary",
    ),
    "scores": ("score", "rating", "grade"),
}
"""Usual names of pairs of columns, without what tells the two apart."""

NAMES = {
    "pool": ("pool", "question_id", "prompt_id", "instruction_id", "task_id", "qid"),
    "prompt": ("prompt", "question", "instruction", "query", "input"),
    "judge": ("judge", "judge_model", "annotator", "evaluator", "rater"),
    "winner": (
        *("winner", "preference", "preferred", "verdict", "choice", "decision", "better"),
        *("outcome", "judgment", "judgement", "vote", "label"),
    ),
}
"""Usual names of columns."""

SWAPPED = ("{}_swapped", "swapped_{}", "{}_reversed", "reversed_{}", "{}_swap")

OPTIONS = {
    "items": "--first --second",
    "prompt": "--pool",
    "judge": "--judge-column",
    "winner in the other order": "--swapped",
}
"""The option that names the column or columns of a role; else it is called as the role."""


@dataclass(frozen=True)
class _Layout:
    """Where a record with these keys has what."""

    columns: GenericColumns
    """With usual names for what the user did not name; `winner` and `scores` are of what says who
    won, one of them or neither."""
    prompt: str | None
    is_row_a_pool: bool
    """Whether answers are given with their row."""
    words: Mapping[str, float | None]
    """What a winner may be: the share that the first won."""
    crossed: tuple[str, str] | None
    """A pair of columns whose names say the opposite of their places: first `model_b`, second
    `model_a`."""


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether two items, or their texts, and a winner or two scores have columns with usual
    names."""
    keys = tuple(values)
    if set(CHOSEN) <= set(keys):
        return True
    named = _items(keys) or _only("texts", _pairs(keys, STEMS["texts"]))
    return bool(
        named
        and ("p_first" in keys or _winner(keys) or _only("scores", _pairs(keys, STEMS["scores"])))
    )


def records(row: Row) -> Iterator[Record]:
    """Read one row: a verdict, or two where it has the winner in either order."""
    layout = _layout(row.columns, tuple(row.values))
    columns = layout.columns
    first, second = _read_items(row, columns)
    if first.name == second.name:
        raise Refused(f"first and second are the same item, {brief(first.name)}")
    pool = _pool(row, layout)
    judge = None if columns.judge is None else row.name("judge", columns.judge)
    shown, count = columns.swapped is not None, 1
    if not shown and "order" in row.values:
        order = row.need("order", "order")
        if order not in ORDERS:
            raise Refused(f"order is {brief(order)}, allowed: {', '.join(ORDERS)}")
        shown = order == "shown"
    if "count" in row.values:
        count = texts.as_count(row.need("count", "count"), "count")
        if not count.is_integer():
            raise Refused(f"count is {brief(row.values['count'])}, allowed: whole numbers from 0")
    p_first, numbered = _p_first(row, layout, first.name, second.name), False
    if len(columns.winner) == 1 and columns.outcomes is None:
        numbered = str(row.values[columns.winner[0]]).strip() in ("1", "2", "1.0", "2.0")
    outcome = {"count": int(count), "numbered": numbered}
    yield Verdict(pool, first, second, p_first, judge, shown, **outcome)
    if columns.swapped is not None:
        p_first = _p_first_swapped(row, layout, columns.swapped, first.name, second.name)
        yield Verdict(pool, second, first, p_first, judge, shown, **outcome)


@functools.lru_cache  # the rows of a table have the same keys
def _layout(given: GenericColumns, keys: tuple[str, ...]) -> _Layout:
    """Find the columns that the user did not name.

    Raises:
      Refused: a column is missing, or there are several for one role.
    """
    if given.first is not None and given.second is not None:
        items = given.first, given.second
    else:
        items = _items(keys)
    for there, missing in _halves(keys) if items is None else ():
        raise Refused(f"{there} without {missing}: name the items' columns (--first --second)")
    is_chosen = set(CHOSEN) <= set(keys) and not (given.winner or given.scores or given.texts)
    answers = given.texts or (CHOSEN if is_chosen else _only("texts", _pairs(keys, STEMS["texts"])))
    columns = ", ".join(map(repr, keys[:12]))
    if items is None and answers is None:
        raise Refused(
            f"no items here, name their columns (--first --second); columns are {columns}"
        )
    counts = given.counts
    if not counts and answers is None:
        found = [(stem, _pairs(keys, [stem])) for stem in COUNTS]
        counts = tuple((stem, *pairs[0]) for stem, pairs in found if len(pairs) == 1)
    pool, prompt = given.pool or next(iter(_single(keys, NAMES["pool"])), None), None
    if pool is None:
        prompt = _only("prompt", _single(keys, NAMES["prompt"]))
    judge = given.judge or _only("judge", _single(keys, NAMES["judge"]))

    winner, scores, swapped = given.winner, given.scores, given.swapped
    if not winner and "p_first" not in keys and (usual := _winner(keys)) is not None:
        winner = (usual,)
    if winner and swapped is None:
        names = [form.format(winner[0].casefold()) for form in SWAPPED]
        swapped = _only("winner in the other order", _single(keys, names))
    if scores is not None:
        winner = ()
    elif not winner and "p_first" not in keys:
        scores = _only("scores", _pairs(keys, STEMS["scores"]))
        if scores is None and not is_chosen:
            raise Refused(
                f"nothing says who won, name the column (--winner); columns are {columns}"
            )

    named = [(p[0].casefold(), p[1].casefold()) for p in (items, answers) if p is not None]
    words = {name: 1.0 - side for pair in named for side, name in enumerate(pair)} | CODES
    crossed = next(
        (p for p in named if any(p[0].endswith(b) and p[1].endswith(a) for a, b in PAIRS)), None
    )
    if crossed:
        words = {word: share for word, share in words.items() if share not in (0, 1)}
    first, second = items or (None, None)
    found = {"first": first, "second": second, "texts": answers, "counts": counts, "pool": pool}
    found |= {"judge": judge, "winner": winner, "scores": scores, "swapped": swapped}
    is_row_a_pool = bool(answers or given.counts)
    return _Layout(replace(given, **found), prompt, is_row_a_pool, words, crossed)


def _pairs(keys: tuple[str, ...], stems: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of columns such as `STEM_a` and `STEM_b`, as they are written in the table."""
    written = {key.casefold(): key for key in keys}
    names = [
        tuple(form.format(stem=stem, end=end) for end in ends)
        for stem, ends, form in itertools.product(stems, ENDS, FORMS)
    ]
    return [(written[a], written[b]) for a, b in names if a in written and b in written]


def _halves(keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Columns such as `STEM_a` without `STEM_b`: the column, and the name of the missing one."""
    written = {key.casefold(): key for key in keys}
    for stem, ends in itertools.product(STEMS["items"], ENDS):
        a, b = (f"{stem}_{end}" for end in ends)
        if (a in written) != (b in written):
            yield (written[a], b) if a in written else (written[b], a)


def _single(keys: tuple[str, ...], names: Iterable[str]) -> list[str]:
    """Columns that have one of these names, as they are written in the table."""
    written = {key.casefold(): key for key in keys}
    return [written[name] for name in names if name in written]


def _only(role: str, candidates: list[Any]) -> Any:
    """The one candidate for a role; None without any.

    Raises:
      Refused: there are several.
    """
    if len(candidates) > 1:
        shown = " or ".join(" and ".join(c) if isinstance(c, tuple) else c for c in candidates)
        raise Refused(f"the {role} may be in {shown}: say which ({OPTIONS.get(role, f'--{role}')})")
    return candidates[0] if candidates else None


def _items(keys: tuple[str, ...]) -> tuple[str, str] | None:
    """The columns with the names of the two items."""
    plain = [pair for pair in PLAIN if set(pair) <= set(keys)]
    return _only("items", plain[:1] or _pairs(keys, STEMS["items"]))


def _winner(keys: tuple[str, ...]) -> str | None:
    """The column with the winner: `winner` if there is one."""
    found = _single(keys, NAMES["winner"])
    return _only("winner", found[:1] if found[:1] == ["winner"] else found)


def _read_items(row: Row, columns: GenericColumns) -> list[Item]:
    """The two items; without names they are called as the columns of their texts."""
    by_place = columns.first is None
    if columns.first is None or columns.second is None:
        names = [as_name(column, "the column") for column in columns.texts or ()]
    else:
        names = [row.name("first", columns.first), row.name("second", columns.second)]
    answers: list[str | None] = [None, None]
    for side, column in enumerate(columns.texts or ()):
        value = row.need("texts", column)
        if isinstance(value, list):
            value = "\n".join(texts.answers(value, column))
        if value is not None and not isinstance(value, str):
            raise Refused(f"{column} is {brief(value)}, allowed: a text")
        answers[side] = value
    measures: list[dict[str, float]] = [{}, {}]
    for name, *pair in columns.counts:
        for counts, column in zip(measures, pair, strict=True):
            counts[name] = texts.as_count(row.need(name, column), column)
    return [
        Item(name, text=text, measures=counts, by_place=by_place)
        for name, text, counts in zip(names, answers, measures, strict=True)
    ]


def _pool(row: Row, layout: _Layout) -> str:
    """The pool's name; else the prompt; else, as answers given with their row form a pool of their
    own, the row."""
    if layout.columns.pool is not None:
        return row.name("pool", layout.columns.pool)
    if layout.prompt is not None:
        prompt = row.need("pool", layout.prompt)
        if isinstance(prompt, str) and len(prompt) <= ONE_LINE:
            return row.name("pool", layout.prompt)
        return digest(prompt)
    return row.numbered() if layout.is_row_a_pool else ALL


def _p_first(row: Row, layout: _Layout, first: str, second: str) -> float | None:
    """The share that the first won; None for a failed judgment.

    Raises:
      Refused: a value that is not known.
    """
    columns = layout.columns
    if len(columns.winner) > 1:
        return one_hot(row, dict(zip(columns.winner, (1.0, 0.0, 0.5), strict=False)))
    if columns.winner:
        (column,) = columns.winner
        return _coded(layout, column, row.need("winner", column), first, second)
    if columns.scores is not None:
        values = [row.need("winner", column) for column in columns.scores]
        if None in values:
            return None
        one, other = map(as_number, values)
        if one != one or other != other:
            given = " and ".join(map(brief, values))
            raise Refused(f"{' and '.join(columns.scores)} are {given}, allowed: numbers")
        return 0.5 if one == other else float(one > other)
    if "p_first" not in row.values:
        return 1.0  # chosen
    value = row.need("p_first", "p_first")
    if value is not None and not 0 <= as_number(value) <= 1:
        raise Refused(f"p_first is {brief(value)}, allowed: 0 to 1, empty")
    return None if value is None else as_number(value)


def _p_first_swapped(
    row: Row, layout: _Layout, column: str, first: str, second: str
) -> float | None:
    """The share that the item shown first, here the second, won in the other order.

    Raises:
      Refused: a code of which it is not said whether it is about the order shown.
    """
    value, meaning, shares = row.need("winner", column), layout.columns.swapped_codes, set()
    if meaning in (None, "shown"):
        shares.add(_coded(layout, column, value, second, first))
    if meaning in (None, "columns"):
        share = _coded(layout, column, value, first, second)
        shares.add(None if share is None else 1 - share)
    if len(shares) > 1:
        options = " | ".join(get_args(SwappedCodes))
        raise Refused(
            f"{column} is {brief(value)}: of the order shown then, or of the columns? "
            f"(--swapped-codes {options})"
        )
    return shares.pop()


def _coded(layout: _Layout, column: str, value: Any, first: str, second: str) -> float | None:
    """The share that the item `first` won."""
    if value is None:
        return None  # no answer was read
    outcomes, crossed = layout.columns.outcomes, layout.crossed
    if outcomes is not None:
        try:
            return outcomes.share(f"{value:g}" if isinstance(value, float) else str(value))
        except KeyError:
            known = f"not covered by {outcomes.option}"
            raise Refused(f"{column} is {brief(value)}, {known}") from None
    code = as_name(value, column)
    try:
        return read_winner(code, first, second, layout.words)
    except ValueError as error:
        raise Refused(f"{column} is {error}") from None
    except KeyError:
        allowed, option = f"{first}, {second}, {', '.join(SIDES)}, A>>B", "--map your words"
        if as_number(value) == as_number(value):
            codes = '--map "0=first,1=tie,2=second"'
            option = f"{codes} or --scale BEST:WORST says what a number means"
        if crossed:
            allowed = f"{first}, {second}, {', '.join(layout.words)}"
            option = f"--map says what a code means where {' is first, '.join(crossed)} second"
        raise Refused(f"{column} is {brief(code)}, allowed: {allowed} ({option})") from None
