"""The command `jbt identify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jbt
from jbt import own
from jbt.commands.options import JointOptions


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(JointOptions):
    """Say whether the verdicts identify the coefficient of each covariate, by an
    estimate without a prior, the profile likelihood and null directions (float64)."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt identify` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem; no covariate.
    """
    options = IdentifyOptions.parse(argv, "identify")
    if not options.covariates:
        raise ValueError("jbt identify needs a covariate (--covariates)")
    tables, prior = options.read(), options.prior()
    panel = options.together(tables)
    options.announce(tables)
    jbt.runtime.start()
    batch = options.batch(tables)
    joint = None if panel is None else (options.batch(panel[0]), panel[1])
    identified = own.identify(batch, prior, joint=joint)
    lead = options.lead(tables)[len(tables.summary) :]
    lead.append(f"prior: lam = {options.lam:g}, lam_b = {options.lam_b:g}; float64")
    title = f"What {options.verdicts.name} says about " + ", ".join(batch.covariates)
    options.give(identified, title, lead)
    return 0
