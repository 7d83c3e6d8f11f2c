"""Read a table of the user's own: a verdict, a rating of an answer or a ranking in each row; its
columns are named by options or called as usual (`columns`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
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
    plain,
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
    as_truth,
    brief,
    one_hot,
    outside,
)
from jbt.own.tables.outcomes import ALL, CODES, ORDERS, PAIRS, SIDES, read_winner

SWAPPED = ("{}_swapped", "swapped_{}", "{}_reversed", "reversed_{}", "{}_swap")

MAY_BE_GOLD = ("label", "preference", "preferred", "better")
"""Usual columns of a winner that beside a judge's scores may hold a label."""

MODELS = ("model", "model_name", "generator", "system", "assistant")
"""Stems of columns that name who wrote an answer, of `STEMS["items"]`."""

RESULTS = {"1": 1.0, "true": 1.0, "0.5": 0.5, "0": 0.0, "false": 0.0}
"""Whether the chosen answer won."""

MEANINGS = 2**16
"""Codes with names whose meaning is kept."""

SHARES = (1.0, 0.0, 0.5)
"""Where three columns are for the first, the second and a tie: the share that the first won."""

PREFERRED = " (this says which was preferred; no judge's result is in the file)"


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
    items: Any = (given.first, given.second) if given.first is not None else None
    if items in columns.pairs(*STEMS["texts"]) and given.texts is None:
        given, items = replace(given, texts=items), None
    if items is None:
        sides = [pair for pair in PLAIN if set(pair) <= set(columns.keys)]
        items = only("items", sides[:1] or columns.pairs(*STEMS["items"]))
    if items is None:
        for there, missing in columns.halves("items"):
            raise Refused(f"{there} without {missing}: name the items' columns (--first --second)")
    chosen = tuple(columns.usual(*CHOSEN))
    # Beside other items' names they are the texts of the winner and the loser, not of these.
    are_texts = len(chosen) == 2 and (items is None or _is_chosen(items))
    answers = given.texts or (chosen if are_texts else columns.pair("texts"))
    if items is None and answers is None:
        what = f"name their columns (--first --second); columns are {columns.shown}"
        raise NoVerdicts(f"no items here, {what}")
    of_models = items is not None and _is_chosen(items)
    named: list[Any] = [pair for pair in (items, answers) if pair is not None]
    better = [pair[0] for pair in named if _is_chosen(pair)]  # columns of the better one
    if not given.ways and items != WON:
        given = replace(given, **_winner(given, columns, bool(better)))
    if given.winner and given.swapped is None:
        forms = [form.format(plain(given.winner[0])) for form in SWAPPED]
        swapped = only("winner in the other order", columns.usual(*forms))
        given = replace(given, swapped=swapped)
    counts = given.counts
    if not counts and answers is None:
        found = [(stem, columns.pairs(stem)) for stem in COUNTS]
        counts = tuple((stem, *pairs[0]) for stem, pairs in found if len(pairs) == 1)

    of_answers = given.counts or (counts and not given.wins and items in columns.pairs(*MODELS))

    def own_pool(row: Row) -> str:
        """Answers given, or counted, with their row form a pool of their own."""
        return row.numbered() if answers or of_answers else ALL

    verdicts = Verdicts(given, columns, named, better)
    judge = given.judge_column or columns.one("judge")
    if judge is None and better and given.ways and given.gold is None:
        judge = next(iter(columns.usual("reward_model", "model")), None)
    return Layout(
        pool=columns.pool(given) or own_pool,
        keys=items or answers or (),
        by_place=items is None,
        of_models=of_models,
        several=of_models or (items is None and bool(better)),
        texts=answers or (),
        read=_text,
        apart=CHOSEN if of_models else (),
        counts=lambda row, side: {
            name: texts.as_count(row.need(name, pair[side]), pair[side]) for name, *pair in counts
        },
        judge=lambda row: judge and row.name("judge", judge),
        gold=verdicts.gold,
        games=verdicts.games,
    )


def _text(row: Row, key: str) -> str | None:
    """A text, or the assistant's part of a conversation."""
    if isinstance(value := row.find("texts", key), list):
        return "\n".join(texts.answers(value, key))
    return row.text(key)


def _is_chosen(pair: Sequence[str]) -> bool:
    return all(end in key.casefold() for end, key in zip(CHOSEN, pair, strict=True))


def _winner(given: GenericColumns, columns: Keys, is_chosen: bool) -> dict[str, tuple[str, ...]]:
    """The columns that say who won, by the way in which they do; none where it is the first by its
    name."""
    if "p_first" in columns.keys:
        return {"probability": ("p_first",)}
    named = columns.usual(*NAMES["winner"], *NAMES["result"] * is_chosen)
    named = [key for key in named if key != given.gold]
    if winner := named[0] if named[:1] == ["winner"] else only("winner", named):
        graded = plain(winner) in MAY_BE_GOLD and (
            columns.pair("scores") or columns.pair("probability")
        )
        if graded:
            what = f"is it the verdict (--winner {winner}) or a label (--gold {winner})"
            raise Refused(f"{winner} beside {' and '.join(graded)}: {what}?")
        return {"winner": (winner,)}
    for way in ("scores", "wins", "logprobs", "probability"):
        if pair := columns.pair(way):
            ties = columns.usual(*NAMES["ties"])[:1] if way == "wins" else []
            return {way: (*pair, *ties)}
    if half := columns.first_half():
        return {"probability": half}
    if is_chosen:
        return {}
    what = f"name the column (--winner); columns are {columns.shown}"
    raise NoWinner(f"nothing says who won, {what}")


class Verdicts:
    """Reads who won in a row with two answers."""

    def __init__(
        self,
        given: GenericColumns,
        columns: Keys,
        named: list[tuple[str, str]],
        better: list[str],
    ):
        """
        Args:
          named: the pairs of columns with the items or their texts.
          better: those of their columns that by their names hold the better one.
        """
        self.given, self.better = given, better
        self.count = columns.first("count")
        self.tied = next(iter(columns.usual(*NAMES["ties"], "is_tie", "tied")), None)
        self.won = better[-1] if better else named[0][0]
        self.words, self.way_out = _words(named, bool(better))
        # Many rows have the same code and the same names.
        self.share_of: Any = functools.lru_cache(MEANINGS, typed=True)(self._share)

    def gold(self, row: Row, names: Sequence[str]) -> float | None:
        """The share that the first wins by a trusted label; None without one."""
        if self.given.gold is not None:
            return self._coded(self.given.gold, row, names, "anchors")
        if not (self.better and self.given.ways):
            return None
        row.note("anchors", self.better[-1], " (the better one)")
        return 1.0

    def games(self, row: Row, names: Sequence[str]) -> Iterator[Game]:
        """The verdict, and the one in the other order if the row has it; or several."""
        given, swapped = self.given, self.given.swapped
        shown, count = swapped is not None, 1.0
        if not shown and "order" in row.values:
            shown = bool(row.code("order", ORDERS, "order"))
        if self.count is not None:
            count = texts.as_count(row.need("count", self.count), self.count)
        for key, p_first in zip(given.wins, SHARES, strict=False):
            if wins := texts.as_count(row.need("winner", key, " (counted)"), key):
                yield Game(p_first, False, shown, wins * count)
        for key in given.judges:
            p_first = self._coded(key, row, names)
            yield Game(p_first, False, shown, count, self._is_step(row, key), (), key)
        if given.wins or given.judges:
            return
        numbered, scores = False, ()
        if len(given.winner) > 1:
            p_first = one_hot(row, dict(zip(given.winner, SHARES, strict=False)))
        elif given.winner:
            p_first = self._coded(given.winner[0], row, names)
            numbered = self._is_step(row, given.winner[0])
        elif given.scores is not None:
            how = ratings.direction(given, " (the higher wins)")
            scores = tuple(ratings.as_rating(row, key, given, how) for key in given.scores)
            p_first = ratings.higher(*scores)
        elif given.probability or given.logprobs:
            p_first = self._probability(row)
        else:
            p_first = self._by_name(row)
        yield Game(p_first, False, shown, count, numbered, scores)
        if swapped is None:
            return
        shares = set()
        if given.swapped_codes in (None, "shown"):
            shares.add(self._coded(swapped, row, names[::-1]))
        if given.swapped_codes in (None, "columns"):
            share = self._coded(swapped, row, names)
            shares.add(None if share is None else 1 - share)
        if len(shares) > 1:
            options = " | ".join(get_args(SwappedCodes))
            raise Refused(
                f"{swapped} is {brief(row.values[swapped])}: of the order shown then, or of the "
                f"columns? (--swapped-codes {options})"
            )
        yield Game(shares.pop(), True, shown, count, numbered)

    def _by_name(self, row: Row) -> float:
        """The first won, as its column is called, unless another says that they tied."""
        if self.tied is not None:
            tied = row.need("winner", self.tied, " (says that they tied)")
            unsaid = str(tied).casefold() == "none"  # also as the text that some tools write
            if not unsaid and as_truth(tied, self.tied):
                return 0.5
        row.note("winner", self.won, PREFERRED)
        return 1.0

    def _probability(self, row: Row) -> float | None:
        """The share that the first won, by a probability, those of either, or their logarithms."""
        logprobs = self.given.logprobs
        keys = logprobs or self.given.probability
        how = " (softmax of both)" if logprobs else " (share of both)" * (len(keys) - 1)
        values = [row.need("p_first", key, how) for key in keys]
        if None in values:
            return None
        numbers = [as_number(value) for value in values]
        if logprobs and all(map(math.isfinite, numbers)):
            return (1 + math.tanh((numbers[0] - numbers[1]) / 2)) / 2
        total = sum(numbers) if len(keys) > 1 else 1.0
        if logprobs is None and all(0 <= p <= 1 for p in numbers) and total > 0:
            return round(numbers[0] / total, 12)
        given = f"{' and '.join(keys)} is {', '.join(map(brief, values))}"
        raise Refused(f"{given}, allowed: {'numbers' if logprobs else '0 to 1'}, empty")

    def _is_step(self, row: Row, column: str) -> bool:
        """Whether the code may be one of the first two steps of a longer scale."""
        code = str(row.values[column]).strip()
        return (
            code in ("1", "2", "1.0", "2.0") and self.given.outcomes is None and "2" in self.words
        )

    def _coded(
        self, column: str, row: Row, names: Sequence[str], role: str = "winner"
    ) -> float | None:
        """The share that the first of two items won, by the code in a column."""
        in_text = self.given.verdict_in_text and role == "winner"
        value = row.need(role, column, " (the last [[X]])" if in_text else "")
        if in_text and value is not None:
            value = ratings.last_bracketed(value)
        if value is None:
            return None  # no answer was read
        share: Any = self._share if isinstance(value, list | dict) else self.share_of
        return share(column, value, *names, in_text)

    def _share(
        self, column: str, value: Any, first: str, second: str, in_text: bool
    ) -> float | None:
        """The share that the first won, by a code; `in_text`: the code was found in a text."""
        outcomes = self.given.outcomes
        if isinstance(value, bool | float):
            value = f"{value:g}" if isinstance(value, float) else str(value)  # not 1 for True
        if outcomes is not None:
            for code in (str(value), str(value).removeprefix("[[").removesuffix("]]")):
                try:
                    return outcomes.share(code)
                except KeyError:
                    continue
            raise Refused(f"{column} is {brief(value)}, not covered by {outcomes.option}")
        if not in_text and ratings.last_bracketed(value) not in (None, str(value).strip()):
            what = "a text: --verdict-in-text reads the last [[X]] in it"
            raise Refused(f"{column} is {brief(value)}, {what}")
        code, number = as_name(value, column), as_number(value)
        if number == number and code not in (first, second):
            code = f"{number:g}"  # 1.0 is 1
        try:
            return read_winner(code, first, second, self.words)
        except ValueError as error:
            raise Refused(f"{column} is {error}") from None
        except KeyError:
            codes = '"0=first,1=tie,2=second"'
            option = (
                f'--map "{code}=first,..." says what each word means: first, second, tie, error'
            )
            if number in (-1, 0, 1, 2):
                option = f"--map says what each code means, such as {codes}"
            elif number == number:
                option = f"--map {codes} or --scale BEST:WORST says what a number means"
            words = self.words if self.way_out else [*SIDES, "A>>B"]
            allowed = ", ".join([first, second, *words])
            raise outside(column, code, f"{allowed} ({self.way_out or option})") from None


def _words(pairs: list[tuple[str, str]], is_chosen: bool) -> tuple[dict[str, float | None], str]:
    """What a winner may be: the share that the first won; and, where the names of a pair of columns
    say the opposite of their places (first `model_b`, second `model_a`), what to do about it."""
    pairs = [(first.casefold(), second.casefold()) for first, second in pairs]
    words = {name: 1.0 - side for pair in pairs for side, name in enumerate(pair)} | CODES
    for first, second in pairs:
        if any(first.endswith(b) and second.endswith(a) for a, b in (*PAIRS, ("1", "0"))):
            way_out = f"--map says what a code means where {first} is first, {second} second"
            return {word: v for word, v in words.items() if v not in (0, 1)}, way_out
    if is_chosen:  # 1 and 0 say whether it won
        del words["2"]
        words |= RESULTS
    return words, ""
