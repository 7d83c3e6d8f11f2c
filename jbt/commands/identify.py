"""The command `jbt identify`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import tyro

from jbt import runtime
from jbt.border import files
from jbt.border.report import Report
from jbt.commands.options import JointOptions
from jbt.own.examine import doctor, identify, identify_merged, identify_panel


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(JointOptions):
    """What the verdicts say about the coefficient of each covariate, and what the prior said
    instead: silent directions, profile likelihood, and the estimate without a prior (float64)."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt identify` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem; no covariate.
    """
    options = tyro.cli(IdentifyOptions, args=argv, prog="jbt identify")
    options.check_outputs()
    if not options.covariates:
        raise ValueError("jbt identify needs a covariate (--covariates)")
    tables, prior = options.read(), options.prior()
    together = options.together(tables)
    options.announce(tables)
    runtime.start()
    batch = options.batch(tables)
    lead = doctor.headline(doctor.examine(tables, options.typed()))
    how = {
        "transform": options.transform,
        "standardise": options.standardise,
        "position": options.position,
        "prior": prior,
    }
    found = identify.identify(tables, batch, prior)
    found = identify_merged.with_prompts(found, tables, options.covariates, **how)
    jointly = []
    if together is not None:
        both, judges = together
        jointly = identify_panel.identify_panel(options.batch(both), judges, prior)
        jointly = identify_merged.with_prompts(
            jointly, both, options.covariates, **how, judges=judges
        )
    if options.json is not None:
        content = {"settings": options.settings(), "pools": [one.record() for one in found]}
        if together is not None:
            content["joint"] = [one.record() for one in jointly]
        files.write_text(options.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    title = f"What {options.verdicts.name} says about " + ", ".join(batch.covariates)
    lead.append(f"prior: lam = {options.lam:g}, lam_b = {options.lam_b:g}; float64")
    report = identify.report(title, lead, found)
    table = identify.table(found)
    if together is not None:
        more = identify_panel.sections(together[0], jointly, together[1])
        report = Report(report.title, report.lead, [*report.sections, *more])
        both = [table.assign(joint=False), identify_panel.table(jointly).assign(joint=True)]
        table = pd.concat(both, ignore_index=True)
    print(report.text())
    if options.out is not None:
        report.write(options.out, table, identify.figure(found))
    return 0
