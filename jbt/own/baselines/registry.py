"""The baselines of `jbt leaderboard --beside`, by name.

A baseline is a function `(Question) -> [Beside, ...]` in a file of its own here, a ranking for each
judge of `Question.tables`, and a line in `BASELINES`. It reads the verdicts from `Question.tables`
and knows nothing of the leaderboard, which puts the models of each `Beside` in its own order, ranks
them by `estimate`, and adds to each judge's section the columns `NAME rank` (with `rank_low` and
`rank_high` where they are known) and `NAME QUANTITY` (with `low` and `high`), to its basis the
`notes`, to "How to read this" the `reading`, and to JSON and table.csv every number. Tables that
lack what it needs (a covariate, anchors, a common opponent) raise `ValueError` with one line that
says what to give. An interval whose coverage was not simulated in `benchmarks/calibration`, or is
not .93 to .97 there, is NaN, with the reason in `notes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jbt.own.baselines.contract import Baseline, Beside, Question
from jbt.own.baselines.prediction_powered import ppi
from jbt.types import check_word

BASELINES: Mapping[str, Baseline] = {"ppi": ppi}


def check_beside(names: Sequence[str]) -> None:
    """Raise `ValueError` unless these are names of baselines, each once."""
    for i, name in enumerate(names):
        check_word("beside", name, tuple(BASELINES))
        if name in names[:i]:
            raise ValueError(f"beside names {name!r} twice")


def rankings(names: Sequence[str], question: Question) -> list[tuple[Beside, ...]]:
    """For each judge its baselines, in the order of `names`.

    Raises:
      ValueError: see `check_beside` and each baseline.
    """
    check_beside(names)
    columns = [BASELINES[name](question) for name in names]
    return [
        tuple(column[judge] for column in columns) for judge in range(len(question.tables.judges))
    ]
