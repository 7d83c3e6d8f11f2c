"""The `jbt` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from jbt import __version__
from jbt.commands import fit, plan, sweep

USAGE = """usage: jbt fit --verdicts FILE [options]      fit your own verdicts; jbt fit --help
       jbt plan pairing [options]            how many contents to render twice; --help
       jbt sweep NAME [options]              run an experiment; jbt sweep lists them
       jbt --version
"""

COMMANDS = {"fit": fit.main, "plan": plan.main, "sweep": sweep.main}


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch; returns the exit code: 0 done, 2 wrong input."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0] in COMMANDS:
        return _guarded(argv[0], argv[1:])
    if argv == ["--version"]:
        print(f"jbt {__version__}")
        return 0
    if argv in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    print(USAGE, end="", file=sys.stderr)
    return 2


def _guarded(command: str, argv: list[str]) -> int:
    try:
        return COMMANDS[command](argv)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
