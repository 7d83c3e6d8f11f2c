"""Read a table of the user's own: a verdict a row, in columns named by options or called as usual.

Usual names are compared without regard to case.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from jbt.own.formats import texts
from jbt.own.formats.records import (
    USUAL,
    Game,
    GenericColumns,
    Layout,
    Record,
    Refused,
    Row,
    SwappedCodes,
    as_name,
    as_number,
    brief,
    digest,
    one_hot,
)
from jbt.own.tables.outcomes import CODES, PAIRS, SIDES, Outcomes, read_winner
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


class NoVerdicts(Refused):
    """A record in which nothing names two items, or nothing says who won."""


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether two items, or their texts, and a winner or two scores have columns with usual
    names."""
    try:
        layout(USUAL, tuple(values))
    except NoVerdicts:
        return False
    return True


def records(row: Row) -> Iterator[Record]:
    """Read one row: a verdict, or two where it has the winner in either order."""
    return layout(row.columns, tuple(row.values)).records(row)


@functools.lru_cache  # the rows of a table have the same keys
def layout(given: GenericColumns, keys: tuple[str, ...]) -> Layout:
    """Find the columns that the user did not name.

    Raises:
      Refused: a column is missing, or there are several for one role.
    """
    written, shown = {key.casefold(): key for key in keys}, ", ".join(map(repr, keys[:12]))

    def usual(*names: str) -> list[str]:
        return [written[name] for name in names if name in written]

    def pairs(*stems: str) -> list[tuple[str, str]]:
        names = [
            [form.format(stem=stem, end=end) for end in ends]
            for stem, ends, form in itertools.product(stems, ENDS, FORMS)
        ]
        return [(written[a], written[b]) for a, b in names if a in written and b in written]

    for key in given.named():
        if key not in keys:
            raise Refused(f"no {key!r} here; keys are {shown}")
    items: Any = (given.first, given.second) if given.first is not None else None
    if items is None:
        plain = [pair for pair in PLAIN if set(pair) <= set(keys)]
        items = _only("items", plain[:1] or pairs(*STEMS["items"]))
    for stem, ends in itertools.product(STEMS["items"], ENDS) if items is None else ():
        halves = [f"{stem}_{end}" for end in ends]
        if len(there := usual(*halves)) == 1:
            missing = halves[there[0].casefold() == halves[0]]
            raise Refused(
                f"{there[0]} without {missing}: name the items' columns (--first --second)"
            )
    is_chosen = set(CHOSEN) <= set(keys) and not (given.winner or given.scores or given.texts)
    answers = given.texts or (CHOSEN if is_chosen else _only("texts", pairs(*STEMS["texts"])))
    if items is None and answers is None:
        what = f"name their columns (--first --second); columns are {shown}"
        raise NoVerdicts(f"no items here, {what}")
    counts = given.counts
    if not counts and answers is None:
        found = [(stem, pairs(stem)) for stem in COUNTS]
        counts = tuple((stem, *columns[0]) for stem, columns in found if len(columns) == 1)
    pool = given.pool or next(iter(usual(*NAMES["pool"])), None)
    prompt = _only("prompt", usual(*NAMES["prompt"])) if pool is None else None
    judge = given.judge or _only("judge", usual(*NAMES["judge"]))

    winner, scores, swapped = given.winner, given.scores, given.swapped
    if not winner and "p_first" not in keys:
        named = usual(*NAMES["winner"])
        winner = tuple(
            named[:1] if named[:1] == ["winner"] else filter(None, [_only("winner", named)])
        )
    if winner and swapped is None:
        names = [form.format(winner[0].casefold()) for form in SWAPPED]
        swapped = _only("winner in the other order", usual(*names))
    if scores is not None:
        winner = ()
    elif not winner and "p_first" not in keys:
        scores = _only("scores", pairs(*STEMS["scores"]))
        if scores is None and not is_chosen:
            what = f"name the column (--winner); columns are {shown}"
            raise NoVerdicts(f"nothing says who won, {what}")

    def pool_of(row: Row) -> str:
        """The pool's name; else the prompt; else, as answers given with their row form a pool of
        their own, the row."""
        if pool is not None:
            return row.name("pool", pool)
        if prompt is not None:
            text = row.need("pool", prompt)
            is_short = isinstance(text, str) and len(text) <= ONE_LINE
            return row.name("pool", prompt) if is_short else digest(text)
        return row.numbered() if answers or given.counts else ALL

    def text_of(row: Row, side: int) -> str | None:
        if answers is None:
            return None
        if isinstance(value := row.find("texts", answers[side]), list):
            return "\n".join(texts.answers(value, answers[side]))
        return row.text("texts", answers[side])

    named: list[Any] = [pair for pair in (items, answers) if pair is not None]
    columns = replace(given, winner=winner, scores=scores, swapped=swapped)
    return Layout(
        pool=pool_of,
        keys=items or answers or (),
        by_place=items is None,
        of_models=False,
        text=text_of,
        counts=lambda row, side: {
            name: texts.as_count(row.need(name, pair[side]), pair[side]) for name, *pair in counts
        },
        judge=lambda row: None if judge is None else row.name("judge", judge),
        games=functools.partial(_games, columns, *_words(named)),
    )


def _only(role: str, candidates: list[Any]) -> Any:
    """The one candidate for a role; None without any.

    Raises:
      Refused: there are several.
    """
    if len(candidates) > 1:
        shown = " or ".join(" and ".join(c) if isinstance(c, tuple) else c for c in candidates)
        raise Refused(f"the {role} may be in {shown}: say which ({OPTIONS.get(role, f'--{role}')})")
    return candidates[0] if candidates else None


def _words(pairs: list[tuple[str, str]]) -> tuple[dict[str, float | None], str]:
    """What a winner may be: the share that the first won; and, where the names of a pair of columns
    say the opposite of their places (first `model_b`, second `model_a`), what to do about it."""
    pairs = [(first.casefold(), second.casefold()) for first, second in pairs]
    words = {name: 1.0 - side for pair in pairs for side, name in enumerate(pair)} | CODES
    for first, second in pairs:
        if any(first.endswith(b) and second.endswith(a) for a, b in PAIRS):
            way_out = f"--map says what a code means where {first} is first, {second} second"
            return {word: v for word, v in words.items() if v not in (0, 1)}, way_out
    return words, ""


def _games(
    columns: GenericColumns,
    words: Mapping[str, float | None],
    way_out: str,
    row: Row,
    names: Sequence[str],
) -> Iterator[Game]:
    """The verdict, and the one in the other order if the row has it."""
    coded = functools.partial(_coded, row, columns.outcomes, words, way_out)
    shown, count, swapped = columns.swapped is not None, 1.0, columns.swapped
    if not shown and "order" in row.values:
        order = row.need("order", "order")
        if order not in ORDERS:
            raise Refused(f"order is {brief(order)}, allowed: {', '.join(ORDERS)}")
        shown = order == "shown"
    if "count" in row.values:
        count = texts.as_count(row.need("count", "count"), "count")
        if not count.is_integer():
            raise Refused(f"count is {brief(row.values['count'])}, allowed: whole numbers from 0")
    numbered = False
    if len(columns.winner) > 1:
        p_first = one_hot(row, dict(zip(columns.winner, (1.0, 0.0, 0.5), strict=False)))
    elif columns.winner:
        p_first = coded(columns.winner[0], *names)
        number = str(row.values[columns.winner[0]]).strip()
        numbered = columns.outcomes is None and number in ("1", "2", "1.0", "2.0")
    elif columns.scores is not None:
        p_first = _scored(row, columns.scores)
    elif "p_first" in row.values:
        value = row.need("p_first", "p_first")
        p_first = None if value is None else as_number(value)
        if value is not None and not 0 <= as_number(value) <= 1:
            raise Refused(f"p_first is {brief(value)}, allowed: 0 to 1, empty")
    else:
        p_first = 1.0  # chosen
    yield Game(p_first, False, shown, int(count), numbered)
    if swapped is None:
        return
    shares = set()
    if columns.swapped_codes in (None, "shown"):
        shares.add(coded(swapped, *names[::-1]))
    if columns.swapped_codes in (None, "columns"):
        share = coded(swapped, *names)
        shares.add(None if share is None else 1 - share)
    if len(shares) > 1:
        options = " | ".join(get_args(SwappedCodes))
        raise Refused(
            f"{swapped} is {brief(row.values[swapped])}: of the order shown then, or of the "
            f"columns? (--swapped-codes {options})"
        )
    yield Game(shares.pop(), True, shown, int(count), numbered)


def _scored(row: Row, columns: Sequence[str]) -> float | None:
    """The share that the item with the first of two scores won."""
    values = [row.need("winner", column) for column in columns]
    if None in values:
        return None
    one, other = map(as_number, values)
    if one != one or other != other:
        given = " and ".join(map(brief, values))
        raise Refused(f"{' and '.join(columns)} are {given}, allowed: numbers")
    return 0.5 if one == other else float(one > other)


def _coded(
    row: Row,
    outcomes: Outcomes | None,
    words: Mapping[str, float | None],
    way_out: str,
    column: str,
    first: str,
    second: str,
) -> float | None:
    """The share that the item `first` won, by the code in a column."""
    value = row.need("winner", column)
    if value is None:
        return None  # no answer was read
    if outcomes is not None:
        try:
            return outcomes.share(f"{value:g}" if isinstance(value, float) else str(value))
        except KeyError:
            known = f"not covered by {outcomes.option}"
            raise Refused(f"{column} is {brief(value)}, {known}") from None
    code = as_name(value, column)
    try:
        return read_winner(code, first, second, words)
    except ValueError as error:
        raise Refused(f"{column} is {error}") from None
    except KeyError:
        if as_number(value) == as_number(value):
            codes = '--map "0=first,1=tie,2=second"'
            option = f"{codes} or --scale BEST:WORST says what a number means"
        else:
            option = "--map your words"
        allowed = words if way_out else [*SIDES, "A>>B"]
        allowed = ", ".join([first, second, *allowed])
        what = f"{column} is {brief(code)}, allowed: {allowed}"
        raise Refused(f"{what} ({way_out or option})") from None
