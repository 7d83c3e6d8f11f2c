"""The command `jbt sweep`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import jbt
from jbt.experiments.run import main as run

NO_SWEEPS = ("report",)
"""Modules beside the sweeps that are none."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt sweep NAME ...`, which in a checkout is `python -m sweeps.NAME ...`; returns the
    exit code.

    Raises:
      ValueError: no sweep of this name, in one line.
    """
    sweeps = _sweeps()
    modules = (module.name for module in pkgutil.iter_modules(sweeps.__path__))
    names = sorted(n for n in modules if not n.startswith("_") and n not in NO_SWEEPS)
    if not argv or argv[0] in ("--help", "-h"):
        print("sweeps: " + ", ".join(names))
        return 0
    if argv[0] not in names:
        raise ValueError(f"unknown sweep {argv[0]!r}: one of {', '.join(names)}")
    sweep = importlib.import_module(f"{sweeps.__name__}.{argv[0]}").SWEEP
    return run(sweep, argv[1:], prog=f"jbt sweep {argv[0]}")


def _sweeps() -> ModuleType:
    """The experiments: `jbt.sweeps` in a wheel, `sweeps` beside jbt in a checkout, where no other
    package of that name may come first."""
    if importlib.util.find_spec("jbt.sweeps"):
        return importlib.import_module("jbt.sweeps")
    checkout = Path(jbt.__file__).resolve().parents[1]
    if str(checkout) not in map(str, map(Path, sys.path)):
        sys.path.insert(0, str(checkout))
    sweeps = importlib.import_module("sweeps")
    if Path(sweeps.__file__ or "").resolve().parent != checkout / "sweeps":
        raise ValueError(f"another package is called sweeps: {sweeps.__file__}; run jbt elsewhere")
    return sweeps
