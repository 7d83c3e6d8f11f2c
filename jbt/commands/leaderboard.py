"""The command `jbt leaderboard`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from jbt import own, runtime
from jbt.commands.options import JointOptions
from jbt.own.leaderboards.listing import Difference
from jbt.own.leaderboards.problem import merge_pools


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(JointOptions):
    """Rank models over all pools, naive and corrected, with intervals that allow for dependence
    between verdicts on one pool (MAP, float64). Models are the contents: the column `content` of
    the items, or the names of the items without it."""

    merge_pools: bool = True
    """A leaderboard always merges all pools."""
    difference: Difference = "plain"
    """Difference of covariates a and b of two items: a - b, or relative, (a - b) / (a + b), with c
    per root mean square of that unless --no-standardise."""
    robust: bool = False
    """Print ranks under log1p, no transform and relative differences of the covariates, and with
    ties dropped, beside those asked for."""
    interaction: bool = False
    """Rank with a bias that changes with quality, c + gamma theta; no ranking where the verdicts do
    not identify gamma."""
    against: str | None = None
    """Give win rates against this model; default the mean over all others."""
    judge_aware: bool = False
    """With --joint, estimate each judge's discrimination, the factor on quality in its logits; 1
    for the reference, or else for the anchors or the first judge."""
    beside: tuple[str, ...] = ()
    """Other people's corrections to show beside (space-separated): ppi, win rates by trusted labels
    (--anchors), whatever the judge's bias."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt leaderboard` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = LeaderboardOptions.parse(argv, "leaderboard")
    if not options.merge_pools:
        raise ValueError("a leaderboard always merges all pools; jbt fit ranks each pool")
    prior = options.prior()
    tables = dataclasses.replace(options, merge_pools=False).read()
    panel = options.together(tables)
    options.announce(tables)
    runtime.start()
    boards = own.leaderboard(
        tables,
        options.covariates,
        transform=options.transform,
        standardise=options.standardise,
        difference=options.difference,
        position=options.position,
        prior=prior,
        together=panel,
        robust=options.robust,
        interaction=options.interaction,
        against=options.against,
        beside=options.beside,
        judge_aware=options.judge_aware,
    )
    checks = own.doctor(merge_pools(tables), options.typed())
    lead = [*tables.summary, *checks.headline()]
    options.give(boards, f"Leaderboard of {options.verdicts.name}", lead)
    return 0
