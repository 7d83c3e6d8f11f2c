"""Read a table of the user's own: a verdict, a rating of an answer or a ranking in each row; its
columns are named by options or called as usual (`columns`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from jbt.own.formats import ratings, texts
from jbt.own.formats.columns import (
    CHOSEN,
    COUNTS,
    NAMES,
    PLAIN,
    STEMS,
    WON,
    Keys,
    NoVerdicts,
    NoWinner,
    only,
)
from jbt.own.formats.given import USUAL, GenericColumns, SwappedCodes
from jbt.own.formats.records import (
    Game,
    Layout,
    Record,
    Refused,
    Row,
    as_name,
    as_number,
    brief,
    one_hot,
)
from jbt.own.tables.outcomes import CODES, PAIRS, SIDES, read_winner
from jbt.own.tables.verdicts import ALL, ORDERS

SWAPPED = ("{}_swapped", "swapped_{}", "{}_reversed", "reversed_{}", "{}_swap")

MAY_BE_GOLD = ("label", "preference", "preferred", "better")
"""Usual columns of a winner that beside a judge's scores may hold a label."""

RESULTS = {"1": 1.0, "true": 1.0, "0.5": 0.5, "0": 0.0, "false": 0.0}
"""Whether the chosen answer won."""

MEANINGS = 2**16
"""Codes with names whose meaning is kept."""

Share = Callable[..., float | None]

TIED = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
TIED |= {"none": False, "1.0": True, "0.0": False}
"""Whether two tied."""

PREFERRED = "this says which was preferred; no judge's result is in the file"


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether two items, or their texts, and a winner or two scores have columns with usual names;
    or one item and its rating; or the values are a ranking.

    Raises:
      Refused: two items, or their texts, have such columns, but not what says who won.
    """
    try:
        plan = layout(USUAL, tuple(values))
    except NoWinner:
        raise  # two answers are here: which column says who won is for the user to say
    except NoVerdicts:
        return False
    return isinstance(plan, Layout) or plan.fits(values)


def records(row: Row) -> Iterator[Record]:
    """Read one row."""
    return layout(row.columns, tuple(row.values)).records(row)


@functools.lru_cache  # the rows of a table have the same keys
def layout(given: GenericColumns, keys: tuple[str, ...]) -> Layout | ratings.Ratings:
    """Find the columns that the user did not name.

    Raises:
      Refused: a column is missing, or there are several for one role.
    """
    columns = Keys(given, keys)
    if given.of_ratings:
        return ratings.layout(given, columns)
    try:
        return _pairs(given, columns)
    except NoVerdicts as reason:
        try:
            plan = ratings.layout(given, columns)
        except NoVerdicts:
            raise reason from None
        if plan.guessed and isinstance(reason, NoWinner):
            raise
        return plan


def _pairs(given: GenericColumns, columns: Keys) -> Layout:
    """The layout of rows with two answers."""
    keys = columns.keys
    items: Any = (given.first, given.second) if given.first is not None else None
    if items in columns.pairs(*STEMS["texts"]) and given.texts is None:
        given, items = replace(given, texts=items), None
    if items is None:
        plain = [pair for pair in PLAIN if set(pair) <= set(keys)]
        items = only("items", plain[:1] or columns.pairs(*STEMS["items"]))
    if items is None:
        _check_halves(columns)
    chosen = tuple(columns.usual(*CHOSEN))
    # Beside other items' names they are the texts of the winner and the loser, not of these.
    are_texts = len(chosen) == 2 and (items is None or _is_chosen(items))
    answers = given.texts or (chosen if are_texts else columns.pair("texts"))
    if items is None and answers is None:
        what = f"name their columns (--first --second); columns are {columns.shown}"
        raise NoVerdicts(f"no items here, {what}")
    named: list[Any] = [pair for pair in (items, answers) if pair is not None]
    better = [pair[0] for pair in named if _is_chosen(pair)]  # columns of the better one
    of_models, is_won = items is not None and _is_chosen(items), items == WON
    given = _winner(given, columns, bool(better), is_won)
    counts = given.counts
    if not counts and answers is None:
        found = [(stem, columns.pairs(stem)) for stem in COUNTS]
        counts = tuple((stem, *pairs[0]) for stem, pairs in found if len(pairs) == 1)

    def own_pool(row: Row) -> str:
        """Answers given with their row form a pool of their own."""
        return row.numbered() if answers or given.counts else ALL

    words, way_out = _words(named, bool(better))
    # Many rows have the same code and the same names.
    share = functools.lru_cache(MEANINGS, typed=True)(
        functools.partial(_share, given, words, way_out)
    )
    gold = None
    if given.gold is not None:
        gold = functools.partial(_coded, given, share, given.gold, role="anchors")
    elif better and given.ways:
        gold = functools.partial(_better, "anchors", better[-1], "the better one")
    judge = given.judge or columns.one("judge")
    if judge is None and gold is not None and given.gold is None:
        judge = next(iter(columns.usual("reward_model", "model")), None)
    won = functools.partial(_better, "winner", (better or named[0])[-1 if better else 0], PREFERRED)
    if tied := columns.usual(*NAMES["ties"], "is_tie", "tied"):
        won = functools.partial(_won_unless, tied[0], won)

    def text_of(row: Row, side: int) -> str | None:
        if answers is None:
            return None
        if isinstance(value := row.find("texts", answers[side]), list):
            return "\n".join(texts.answers(value, answers[side]))
        return row.text("texts", answers[side])

    return Layout(
        pool=columns.pool(given, own_pool)[0],
        keys=items or answers or (),
        by_place=items is None,
        of_models=of_models,
        several=of_models or (items is None and bool(better)),
        text=text_of,
        apart=CHOSEN if of_models else (),
        counts=lambda row, side: {
            name: texts.as_count(row.need(name, pair[side]), pair[side]) for name, *pair in counts
        },
        judge=lambda row: None if judge is None else row.name("judge", judge),
        gold=gold,
        games=functools.partial(_games, given, words, share, columns.first("count"), won),
    )


def _check_halves(columns: Keys) -> None:
    """Raise `Refused` where one of two items has a column."""
    for there, missing in columns.halves("items"):
        raise Refused(f"{there} without {missing}: name the items' columns (--first --second)")


def _winner(given: GenericColumns, columns: Keys, is_chosen: bool, is_won: bool) -> GenericColumns:
    """The columns with those that say who won; none where it is the first by its name."""
    found: dict[str, Any] = {}
    if not given.ways and not is_won:
        if "p_first" in columns.keys:
            return replace(given, probability=("p_first",))
        named = columns.usual(*NAMES["winner"], *NAMES["result"] * is_chosen)
        named = [key for key in named if key != given.gold]
        if winner := named[0] if named[:1] == ["winner"] else only("winner", named):
            found = {"winner": (winner,)}
            graded = [columns.pair(role) for role in ("scores", "probabilities")]
            if winner.casefold() in MAY_BE_GOLD and any(graded):
                other = " and ".join(next(filter(None, graded)))
                what = f"is it the verdict (--winner {winner}) or a label (--gold {winner})"
                raise Refused(f"{winner} beside {other}: {what}?")
        elif scores := columns.pair("scores"):
            found = {"scores": scores}
        elif wins := columns.pair("wins"):
            found = {"wins": (*wins, *columns.usual(*NAMES["ties"])[:1])}
        elif graded := columns.pair("log probabilities"):
            found = {"logprobs": graded}
        elif probability := columns.pair("probabilities") or columns.first_half():
            found = {"probability": probability}
        elif not is_chosen:
            what = f"name the column (--winner); columns are {columns.shown}"
            raise NoWinner(f"nothing says who won, {what}")
        given = replace(given, **found)
    if given.winner and given.swapped is None:
        names = [form.format(given.winner[0].casefold()) for form in SWAPPED]
        return replace(given, swapped=only("winner in the other order", columns.usual(*names)))
    return given


def _is_chosen(pair: Sequence[str]) -> bool:
    return all(end in key.casefold() for end, key in zip(CHOSEN, pair, strict=True))


def _better(role: str, key: str, what: str, row: Row, names: Sequence[str]) -> float:
    """The first is the better, as the names of the columns say."""
    row.note(role, key, f" ({what})")
    return 1.0


def _won_unless(
    tied: str, won: Callable[[Row, Sequence[str]], float], row: Row, names: Sequence[str]
) -> float:
    """The first won, unless a column says that they tied."""
    value = row.need("winner", tied, " (says that they tied)")
    code = str(value).casefold()
    if code not in TIED:
        raise Refused(f"{tied} is {brief(value)}, allowed: {', '.join(TIED)}, empty")
    return 0.5 if TIED[code] else won(row, names)


def _words(pairs: list[tuple[str, str]], is_chosen: bool) -> tuple[dict[str, float | None], str]:
    """What a winner may be: the share that the first won; and, where the names of a pair of columns
    say the opposite of their places (first `model_b`, second `model_a`), what to do about it."""
    pairs = [(first.casefold(), second.casefold()) for first, second in pairs]
    words = {name: 1.0 - side for pair in pairs for side, name in enumerate(pair)} | CODES
    for first, second in pairs:
        opposed = any(first.endswith(b) and second.endswith(a) for a, b in (*PAIRS, ("1", "0")))
        if opposed:
            way_out = f"--map says what a code means where {first} is first, {second} second"
            return {word: v for word, v in words.items() if v not in (0, 1)}, way_out
    if is_chosen:  # 1 and 0 say whether it won
        return {word: v for word, v in words.items() if word != "2"} | RESULTS, ""
    return words, ""


def _games(
    columns: GenericColumns,
    words: Mapping[str, float | None],
    share_of: Share,
    count_key: str | None,
    won: Callable[[Row, Sequence[str]], float],
    row: Row,
    names: Sequence[str],
) -> Iterator[Game]:
    """The verdict, and the one in the other order if the row has it; or several."""
    coded = functools.partial(_coded, columns, share_of)
    shown, count, swapped = columns.swapped is not None, 1.0, columns.swapped
    if not shown and "order" in row.values:
        order = row.need("order", "order")
        if order not in ORDERS:
            raise Refused(f"order is {brief(order)}, allowed: {', '.join(ORDERS)}")
        shown = order == "shown"
    if count_key is not None:
        count = texts.as_count(row.need("count", count_key), count_key)
    if columns.wins:
        for key, p_first in zip(columns.wins, (1.0, 0.0, 0.5), strict=False):
            if wins := texts.as_count(row.need("winner", key, " (counted)"), key):
                yield Game(p_first, False, shown, wins * count)
        return
    for column in columns.judges:
        p_first = coded(column, row, names)
        yield Game(p_first, False, shown, count, _is_step(columns, words, row, column), (), column)
    if columns.judges:
        return
    numbered, scores = False, ()
    if len(columns.winner) > 1:
        p_first = one_hot(row, dict(zip(columns.winner, (1.0, 0.0, 0.5), strict=False)))
    elif columns.winner:
        p_first = coded(columns.winner[0], row, names)
        numbered = _is_step(columns, words, row, columns.winner[0])
    elif columns.scores is not None:
        how = ratings.direction(columns, " (the higher wins)")
        scores = tuple(ratings.as_rating(row, key, columns, how) for key in columns.scores)
        one, other = scores
        p_first = (
            None if one is None or other is None else (float(one > other) + (one >= other)) / 2
        )
    elif columns.probability or columns.logprobs:
        p_first = _probability(row, columns)
    else:
        p_first = won(row, names)
    yield Game(p_first, False, shown, count, numbered, scores)
    if swapped is None:
        return
    shares = set()
    if columns.swapped_codes in (None, "shown"):
        shares.add(coded(swapped, row, names[::-1]))
    if columns.swapped_codes in (None, "columns"):
        share = coded(swapped, row, names)
        shares.add(None if share is None else 1 - share)
    if len(shares) > 1:
        options = " | ".join(get_args(SwappedCodes))
        raise Refused(
            f"{swapped} is {brief(row.values[swapped])}: of the order shown then, or of the "
            f"columns? (--swapped-codes {options})"
        )
    yield Game(shares.pop(), True, shown, count, numbered)


def _is_step(
    columns: GenericColumns, words: Mapping[str, float | None], row: Row, column: str
) -> bool:
    """Whether the code may be one of the first two steps of a longer scale."""
    code = str(row.values[column]).strip()
    return columns.outcomes is None and "2" in words and code in ("1", "2", "1.0", "2.0")


def _probability(row: Row, columns: GenericColumns) -> float | None:
    """The share that the first won, by a probability, those of either, or their logarithms."""
    keys = columns.logprobs or columns.probability
    how = " (softmax of both)" if columns.logprobs else " (share of both)" * (len(keys) - 1)
    values = [row.need("p_first", key, how) for key in keys]
    if None in values:
        return None
    numbers = [as_number(value) for value in values]
    total = sum(numbers) if len(keys) > 1 else 1.0
    given = f"{' and '.join(keys)} is {', '.join(map(brief, values))}"
    if columns.logprobs:
        if not all(map(math.isfinite, numbers)):
            raise Refused(f"{given}, allowed: numbers, empty")
        return (1 + math.tanh((numbers[0] - numbers[1]) / 2)) / 2
    if not all(0 <= p <= 1 for p in numbers) or total == 0:
        raise Refused(f"{given}, allowed: 0 to 1, empty")
    return round(numbers[0] / total, 12)


def _coded(
    columns: GenericColumns,
    share: Share,
    column: str,
    row: Row,
    names: Sequence[str],
    role: str = "winner",
) -> float | None:
    """The share that the first of two items won, by the code in a column."""
    how = " (the last [[X]])" if columns.in_text and role == "winner" else ""
    value = row.need(role, column, how)
    if value is None:
        return None  # no answer was read
    if how:
        value = ratings.last_bracketed(value)
        if value is None:
            return None
    read: Share = share.__wrapped__ if isinstance(value, list | dict) else share
    return read(column, value, *names, bool(how))


def _share(
    columns: GenericColumns,
    words: Mapping[str, float | None],
    way_out: str,
    column: str,
    value: Any,
    first: str,
    second: str,
    how: bool,
) -> float | None:
    """The share that the first won, by a code; `how`: it was found in a text."""
    outcomes = columns.outcomes
    if isinstance(value, bool | float):
        value = f"{value:g}" if isinstance(value, float) else str(value)  # not 1 for True
    if outcomes is not None:
        for code in (str(value), str(value).removeprefix("[[").removesuffix("]]")):
            try:
                return outcomes.share(code)
            except KeyError:
                continue
        raise Refused(f"{column} is {brief(value)}, not covered by {outcomes.option}")
    if not how and ratings.last_bracketed(value) not in (None, str(value).strip()):
        what = "a text: --verdict-in-text reads the last [[X]] in it"
        raise Refused(f"{column} is {brief(value)}, {what}")
    code = as_name(value, column)
    number = as_number(value)
    if number == number and code not in (first, second):
        code = f"{number:g}"  # 1.0 is 1
    try:
        return read_winner(code, first, second, words)
    except ValueError as error:
        raise Refused(f"{column} is {error}") from None
    except KeyError:
        codes = '"0=first,1=tie,2=second"'
        option = f'--map "{code}=first,..." says what each word means: first, second, tie, error'
        if number in (-1, 0, 1, 2):
            option = f"--map says what each code means, such as {codes}"
        elif number == number:
            option = f"--map {codes} or --scale BEST:WORST says what a number means"
        allowed = words if way_out else [*SIDES, "A>>B"]
        allowed = ", ".join([first, second, *allowed])
        what = f"{column} is {brief(code)}, allowed: {allowed}"
        raise Refused(f"{what} ({way_out or option})") from None
