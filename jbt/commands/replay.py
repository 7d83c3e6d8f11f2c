"""The command `jbt replay`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jbt
from jbt import own
from jbt.border.terminal import bar
from jbt.commands.options import TableOptions
from jbt.own.choices import FEW_RULES, Fitted

MOST_SEEDS = 10_000
"""Largest number of runs of each rule on each pool, so that the command ends."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TableOptions):
    """Say how few of these verdicts would have been enough.

    Acquisition rules choose which of the recorded verdicts to use. Their top k
    after each number of verdicts is compared with the top k by all verdicts and,
    where they are given, by trusted quality or anchors (float64)."""

    k: int = 1
    """Size of the top k."""
    model: Fitted = "bias_aware"
    """Model of the fits inside the loop and of the fit to all verdicts."""
    rules: tuple[str, ...] = FEW_RULES
    """Acquisition rules (space-separated)."""
    seeds: int = 20
    """Runs of each rule on each pool."""
    refit_every: int | None = None
    """Number R of verdicts between refits. By default a twentieth of the judged ordered pairs of
    the largest pool, from 1 to 8."""
    budgets: tuple[int, ...] = ()
    """Numbers of verdicts of a pool after which recall is shown (space-separated). By default every
    R verdicts, up to all."""
    target: float = 0.9
    """Recall of the top k by all verdicts that a rule should reach; the verdicts that it needs for
    that are counted."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt replay` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = ReplayOptions.parse(argv, "replay")
    from jbt.types import check_count

    check_count("seeds", options.seeds, most=MOST_SEEDS)
    jbt.runtime.start()
    tables = options.read()
    options.announce(tables)
    replay = own.replay(
        tables,
        options.batch(tables),
        k=options.k,
        model=options.model,
        rules=options.rules,
        seeds=options.seeds,
        refit_every=options.refit_every,
        budgets=options.budgets,
        target=options.target,
        prior=options.prior(),
        seed=options.seed,
        progress=partial(bar, name="replay", unit="call"),
    )
    title = f"How few verdicts of {options.verdicts.name} would have done"
    options.give(replay, title, options.lead(tables))
    return 0
