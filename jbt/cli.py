"""The `jbt` command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from jbt import __version__
from jbt.exits import exit_code

USAGE = """usage: jbt fit --verdicts FILE [options]      fit your own verdicts; jbt fit --help
       jbt doctor --verdicts FILE [options]  what your tables support; jbt doctor --help
       jbt example DIR                       small tables to start from
       jbt identify --verdicts FILE [options]  what they say about c, and what the prior does
       jbt plan pairing [options]            how many contents to render twice; --help
       jbt sweep NAME [options]              run an experiment; jbt sweep lists them
       jbt --version
"""

COMMANDS = ("doctor", "example", "fit", "identify", "plan", "sweep")
"""Modules of `jbt.commands`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch; returns the exit code, see `exits.exit_code`."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return exit_code(lambda: _dispatch(argv))


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return importlib.import_module(f"jbt.commands.{argv[0]}").main(argv[1:])
    if argv == ["--version"]:
        print(f"jbt {__version__}")
        return 0
    if argv in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    print(USAGE, end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
