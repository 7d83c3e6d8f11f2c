"""The command `jbt sweep`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from jbt.experiments import run


def main(argv: Sequence[str]) -> int:
    """Run `jbt sweep NAME ...`, which is `python -m sweeps.NAME ...`; returns the exit code.

    Raises:
      ValueError: no sweep of this name, in one line.
    """
    import sweeps

    every = (m.name for m in pkgutil.iter_modules(sweeps.__path__))
    names = sorted(name for name in every if not name.startswith("_"))
    if not argv or argv[0] in ("--help", "-h"):
        print("sweeps: " + ", ".join(names))
        return 0
    if argv[0] not in names:
        raise ValueError(f"unknown sweep {argv[0]!r}: one of {', '.join(names)}")
    return run.main(importlib.import_module(f"sweeps.{argv[0]}").SWEEP, argv[1:])
