"""The command line of the report; see `--help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jbt.border.exits import exit_code

from . import documents, kept


def main(argv: Sequence[str] | None = None) -> int:
    """Parse options and run; returns the exit code."""
    parser = argparse.ArgumentParser("python -m sweeps.report", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these sweeps")
    parser.add_argument(
        "--collect",
        type=Path,
        metavar="RESULTS",
        help="keep the tables of finished runs in docs/results, then do as --documents",
    )
    parser.add_argument(
        "--variant", default="", metavar="NAME", help="with --collect: runs of other settings"
    )
    parser.add_argument(
        "--documents", action="store_true", help="make what is marked in README and docs anew"
    )
    options = parser.parse_args(argv)
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    if options.collect:
        made = kept.collect(options.collect, options.only, options.variant)
        print("kept " + ", ".join(made))
    changed = documents.renew(kept.table)
    print(
        "written " + (", ".join(str(p.relative_to(documents.ROOT)) for p in changed) or "nothing")
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
