"""A user's own words or numbers for who won."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

WORDS: Mapping[str, float | None] = {"first": 1.0, "second": 0.0, "tie": 0.5, "error": None}
"""Words that every winner column may use, in any case of letters, and the share that the first
won; None: the judgment failed."""


@dataclass(frozen=True)
class Outcomes:
    """What each code of a winner column means."""

    option: str
    """How the user said it, for messages."""
    codes: Mapping[str, float | None]
    """Share that the first won, by code; None for a failed judgment. Empty for a scale."""
    best: float = math.nan
    worst: float = math.nan
    """Of a scale, the ends at which the first, or the second, won wholly."""

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
            code, equals, word = (v.strip() for v in part.rpartition("="))
            if not equals or not code:
                raise ValueError(
                    f"--map has {part.strip()!r}, needs CODE=first, second, tie or error"
                )
            if code in codes:
                raise ValueError(f"--map gives {code!r} twice")
            codes[code] = _share(word)
        return cls(f"--map {text}", codes)

    @classmethod
    def of_scale(cls, text: str) -> Outcomes:
        """Read `BEST:WORST`: two different numbers, the first of which says that the first won.

        Raises:
          ValueError: not of this form.
        """
        try:
            best, worst = map(float, text.split(":"))
        except ValueError:
            best = worst = math.nan
        if not math.isfinite(best - worst) or best == worst:
            what = "needs two numbers, that for the first and that for the second: 1:7"
            raise ValueError(f"--scale is {text!r}, {what}")
        return cls(f"--scale {text}", {}, best, worst)

    def covers(self, code: str) -> bool:
        """Whether a code has a meaning."""
        try:
            self.share(code)
        except KeyError:
            return False
        return True

    def share(self, code: str) -> float | None:
        """The share that the first won.

        Raises:
          KeyError: a code that is not covered.
        """
        code = code.strip()
        if not math.isfinite(self.best):
            return self.codes[code]
        try:
            number = float(code)
        except ValueError:
            raise KeyError(code) from None
        share = (number - self.worst) / (self.best - self.worst)
        if not 0 <= share <= 1:
            raise KeyError(code)
        return share


def _share(word: str) -> float | None:
    if word.casefold() in WORDS:
        return WORDS[word.casefold()]
    try:
        share = float(word)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise ValueError(
            f"--map says {word!r}, allowed: {', '.join(WORDS)}, or a share from 0 to 1"
        )
    return share
