"""What the commands on a study share: its options, and the exit status that says how it stands."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from jbt.border.report import counted
from jbt.own import Study, StudySettings

SURE, SPENT, AWAITED = 3, 4, 5
"""Exit status where the top k is sure, where there is nothing more to ask for another reason, and
of an ask that got nothing because answers are awaited; 0 while the study goes on."""


def named(options: Any) -> dict[str, Any]:
    """The settings among a command's options that are not at their default."""
    return {
        f.name: getattr(options, f.name)
        for f in fields(StudySettings)
        if getattr(options, f.name) != f.default
    }


def status_of(study: Study) -> int:
    """Say on stderr how a study stands, and return the exit status."""
    for note in study.notes:
        print(note, file=sys.stderr)
    line = f"{counted(study.n_told, 'verdict')}"
    line += f", {counted(study.n_errors, 'error')}" if study.n_errors else ""
    line += f", {counted(study.waiting, 'answer')} awaited" if study.waiting else ""
    stopped = study.stopped
    print(f"{line}; {'stopped: ' + stopped if stopped else 'not stopped'}", file=sys.stderr)
    return 0 if stopped is None else SURE if stopped == "sure" else SPENT
