"""The `jbt` command."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from jbt import __version__
from jbt.border.exits import exit_code
from jbt.commands import COMMANDS, function_of

USAGE = """usage: jbt COMMAND [options]; jbt COMMAND --help explains every option

your own verdicts (DIR is a folder of tables, as jbt example and jbt import write it)
  jbt example DIR                     small tables to start from
  jbt audit FILE...                   one page with the results of all commands below
  jbt import FILE... --out DIR        tables from the files of other tools
  jbt doctor DIR                      what your tables support, and what to type next
  jbt judge DIR                       how often each judge is right, and what it prefers
  jbt identify DIR                    which biases the verdicts identify, which the prior chooses
  jbt fit DIR                         items ranked in every pool, naive and bias-aware
  jbt leaderboard DIR                 models ranked over all pools, with intervals
  jbt replay DIR                      how few of the verdicts would have been enough
  jbt gate DIR                        whether to correct, decided by trusted labels
  jbt plan labels DIR                 which labels to collect for that decision
  jbt plan gate                       how many labels that decision needs, by simulation
  jbt plan prompts DIR                how many more prompts put one model above another
a judge of your own, asked live
  jbt ask STUDY                       which pairs to show next (first call: --items FILE)
  jbt tell STUDY ANSWERS              record what the judge answered
  jbt status STUDY                    top k, how certain it is, ranking, cost
experiments
  jbt plan pairing                    how many contents to show in two lengths
  jbt plan reference                  how many verdicts of a trusted judge to buy
  jbt sweep NAME                      run an experiment; jbt sweep lists them
jbt completion                        complete options in your shell: source <(jbt completion)
jbt --version
"""

START = """jbt: when can you debias an LLM judge? Where to start:
simulate: up to which correlation does a correction for length help?
  jbt sweep crossing --pools 2048
your own verdicts: what do they support?
  jbt example tables; jbt audit tables
a judge of your own: which pair should it see next?
  jbt ask run --items items.csv --k 3 --budget 100 --out queries.csv
plan: how many answers to show in two lengths?
  jbt plan pairing
all commands: jbt --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch to a command; return the exit code, see `exits.exit_code`."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return exit_code(lambda: _dispatch(argv))


def _dispatch(argv: list[str]) -> int:
    n_words = 2 if argv[:1] == ["plan"] else 1
    command, options = " ".join(argv[:n_words]), argv[n_words:]
    if command in COMMANDS:
        run = function_of(command)
        if options in (["--help"], ["-h"]):
            return run(options)  # without JAX
        from jbt import runtime

        with runtime.defaults():
            return run(options)
    if argv == ["--version"]:
        print(f"jbt {__version__}")
        return 0
    if argv[n_words - 1 :] in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if argv:
        known = [name for name in COMMANDS if n_words == 1 or name.startswith("plan ")]
        near = difflib.get_close_matches(command, known, n=1, cutoff=0.7)
        meant = f"did you mean jbt {near[0]}" if near else f"one of {', '.join(known)}"
        what = "plan what?" if argv == ["plan"] else f"unknown command {command!r}:"
        raise ValueError(f"{what} {meant}")
    print(START, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
