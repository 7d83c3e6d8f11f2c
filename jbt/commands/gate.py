"""The command `jbt gate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import jbt
from jbt import own
from jbt.commands.options import TableOptions


@dataclass(frozen=True, kw_only=True)
class GateOptions(TableOptions):
    """Decide whether to switch the correction on, from trusted labels (--anchors) on
    which the naive and the bias-aware ranking differ (MAP, float64).

    There is one decision for every judge over all pools, and one for every pool.
    Pools of two items are fitted together, as no covariate can change the order in
    one alone."""

    rule: Literal["sign", "sign_sequential", "census"] = "sign"
    """When the correction is switched on. sign: an exact one-sided test on the discordant labels
    rejects. sign_sequential: betting on labels that are certain wins, which is valid within a pool
    whenever labelling stops. census: every disputed member is labelled, and recall rises."""
    alpha: float = 0.05
    """Level of the tests, above 0 and below 1/2."""
    k: int = 1
    """Size of the top k that labels of members are about."""
    labels: Literal["pairs", "disputed", "swaps", "members"] | None = None
    """What the anchors are a random draw from. pairs: all pairs. disputed: pairs that the two
    rankings order oppositely. members: contents that are in only one top k. swaps: pairs of such
    contents. By default pairs, or members if the anchors have the column member."""
    per_pool: bool = False
    """List all pools with a discordant label."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt gate` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem; no covariate, no anchors.
    """
    options = GateOptions.parse(argv, "gate")
    jbt.gate.check_alpha(options.alpha)
    if not options.covariates:
        raise ValueError("jbt gate needs a covariate to correct for (--covariates)")
    if options.anchors is None:
        raise ValueError("jbt gate needs trusted labels (--anchors); jbt plan labels draws some")
    jbt.runtime.start()
    tables, fitted = own_pools(options)
    batch = options.batch(fitted)
    options.announce(fitted)
    decisions = own.gate(
        tables,
        batch,
        rule=options.rule,
        alpha=options.alpha,
        k=options.k,
        labels=options.labels,
        prior=options.prior(),
        seed=options.seed,
    )
    settings = {
        **options.settings(),
        "labels": decisions.labels,
        "merge_pools": fitted is not tables,
    }
    title, lead = f"Gate of {options.verdicts.name}", options.lead(tables)
    options.give(decisions, title, lead, settings, per_pool=options.per_pool)
    return 0


def own_pools(options: TableOptions) -> tuple[own.Tables, own.Tables]:
    """The tables with the pools of the file, and the tables to fit: merged into one pool if asked
    for, or if no pool could be corrected alone.

    Raises:
      ValueError: see `own.read`.
    """
    from jbt.own.gates.decide import pairs_alone

    tables = dataclasses.replace(options, merge_pools=False).read()
    if options.merge_pools or (len(tables.pools) > 1 and pairs_alone(tables)):
        return tables, dataclasses.replace(options, merge_pools=True).read()
    return tables, tables
