"""Who won a verdict: words for it, names of items, and a user's own codes or numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

ALL = "all"
"""Name of the pool where there is only one."""

ORDERS = {"shown": 1.0, "unknown": 0.0}
"""What `order` may be, in any case of letters: whether it is known that first came first."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number as it is typed."""

WORDS: Mapping[str, float | None] = {"first": 1.0, "second": 0.0, "tie": 0.5, "error": None}
"""Words that every winner column may use, in any case of letters, and the share that the first
won; None: the judgment failed."""

OUTCOMES = {share: word for word, share in WORDS.items()}

PAIRS = (("first", "second"), ("model_a", "model_b"), ("left", "right"), ("1", "2"), ("a", "b"))
"""Words for the first and the second item."""

SIDES: Mapping[str, float | None] = {
    **WORDS,
    **{first: 1.0 for first, _ in PAIRS},
    **{second: 0.0 for _, second in PAIRS},
}

GRADES: Mapping[str, float | None] = {
    **dict.fromkeys(("a>>b", "a>b", "b<a", "b<<a", "[[a]]"), WORDS["first"]),
    **dict.fromkeys(("b>>a", "b>a", "a<b", "a<<b", "[[b]]"), WORDS["second"]),
    **dict.fromkeys(("a=b", "b=a", "a==b", "b==a", "[[c]]"), WORDS["tie"]),
    **dict.fromkeys(("tie (bothbad)", "both_bad", "both bad", "draw"), WORDS["tie"]),
}
"""Grades and ties of the Arena and of MT-Bench's prompts."""

CODES = {**SIDES, **GRADES}
"""Every word that some table of verdicts uses for who won."""

READINGS = {1.0: "the first won", 0.0: "the second won", 0.5: "a tie", None: "a failed judgment"}


def read_winner(
    value: str,
    first: str,
    second: str,
    words: Mapping[str, float | None] = WORDS,
    *,
    by_name: bool = False,
    way_out: str | None = None,
) -> float | None:
    """Read a winner, a word or the name of one of the two items, in any case of letters and also
    within `[[ ]]`, as the share that the first won; None for a failed judgment.

    A name that is also a word is accepted where both say the same. All of `CODES` may be meant as
    words, whether this table uses them or not.

    Args:
      words: those that this table uses, in lower case, and the share that the first won.
      by_name: whether the winners of this table are names: then an exact name is no word, unless it
        is one of `words`.
      way_out: what to do about a winner of two meanings; default --map, or renaming the item.

    Raises:
      ValueError: it may mean one thing and another; the message says which.
      KeyError: it is neither a word nor a name.
    """
    code = value.casefold()
    forms = code, code.removeprefix("[[").removesuffix("]]")
    sides = (first, 1.0), (second, 0.0)
    exact = [share for name, share in sides if name == value]
    named = exact or [share for name, share in sides if name.casefold() == code]
    known = [words] if not named or (exact and by_name) else [words, CODES]
    said = [of[form] for form in forms for of in known if form in of][:1]
    if not named and not said:
        raise KeyError(value)
    if named and said and said != named:
        names = " or ".join(READINGS[share] for share in named)
        meanings = f"as a word, {READINGS[said[0]]}; as the name of an item, {names}"
        way_out = way_out or f"{_map_of(value, said[0])} if it is a word; else rename the item"
        raise ValueError(f"{value!r}: {meanings} ({way_out})")
    if len(named) > 1:
        raise ValueError(f"{value!r}, which may be either of the two items: spell it exactly")
    return (named or said)[0]


def _map_of(word: str, share: float | None) -> str:
    """The option that says that words such as this one are words."""
    pair = next((pair for pair in PAIRS if word.casefold() in pair), PAIRS[0])
    form = str.upper if word.isupper() else str.title if word.istitle() else str.lower
    codes = dict(zip(map(form, pair), PAIRS[0], strict=True)) | {word: OUTCOMES[share]}
    return f'--map "{",".join(f"{code}={meaning}" for code, meaning in codes.items())}"'


def names_that_are_words(names: Iterable[str]) -> list[str]:
    """Names of items that every winner column takes for words."""
    return [name for name in names if name.casefold() in WORDS]


@dataclass(frozen=True)
class Outcomes:
    """What each code of a winner column means."""

    option: str
    """How the user said it, for messages."""
    share: Callable[[str], float | None]
    """The share that the first won, None for a failed judgment; raises `KeyError` for a code that
    has no meaning."""
    is_scale: bool = False
    """Whether codes are numbers between two ends."""

    @classmethod
    def of_options(cls, map: str | None, scale: str | None) -> Outcomes | None:
        """Read the options --map and --scale, of which one may be given; None for neither.

        Raises:
          ValueError: both, or see `of_map` and `of_scale`.
        """
        if map is not None and scale is not None:
            raise ValueError("--map and --scale both say what a winner means: give one")
        if scale is not None:
            return cls.of_scale(scale)
        return None if map is None else cls.of_map(map)

    @classmethod
    def of_map(cls, text: str) -> Outcomes:
        """Read `CODE=WORD,CODE=WORD`, with a word of `WORDS` or a share from 0 to 1. A code may
        hold `=`, but no comma.

        Raises:
          ValueError: not of this form; a code given twice.
        """
        codes: dict[str, float | None] = {}
        for part in text.split(","):
            code, _, word = (v.strip() for v in part.rpartition("="))
            if not code:
                raise ValueError(
                    f"--map has {part.strip()!r}, needs CODE=first, second, tie or error"
                )
            if code in codes:
                raise ValueError(f"--map gives {code!r} twice")
            share = codes[code] = WORDS.get(word.casefold(), _number(word))
            if share is not None and not 0 <= share <= 1:
                allowed = f"{', '.join(WORDS)}, or a share from 0 to 1"
                raise ValueError(f"--map says {word!r}, allowed: {allowed}")
        return cls(f"--map {text}", lambda code: codes[code.strip()])

    @classmethod
    def of_scale(cls, text: str) -> Outcomes:
        """Read `BEST:WORST`: two different numbers, the first of which says that the first won.

        Raises:
          ValueError: not of this form.
        """
        best, _, worst = map(_number, text.partition(":"))
        if not 0 < abs(best - worst) < math.inf:
            what = "needs two numbers, that for the first and that for the second: 1:7"
            raise ValueError(f"--scale is {text!r}, {what}")

        def share(code: str) -> float:
            share = (_number(code.strip()) - worst) / (best - worst) + 0.0  # -0.0 is 0.0
            if not 0 <= share <= 1:
                raise KeyError(code)
            return share

        return cls(f"--scale {text}", share, True)


def _number(text: str) -> float:
    """A number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan
