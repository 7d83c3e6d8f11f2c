"""The command `jbt completion`."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from jbt.border.inputs import parse
from jbt.commands import COMMANDS, function_of

BASH = """\
_jbt() {{
  local words options current="${{COMP_WORDS[COMP_CWORD]}}"
  case "${{COMP_WORDS[*]:1:COMP_CWORD-1}} " in
    " ") words="{commands}" ;;
{options}
  esac
  [[ $current != -* ]] || words="$options --help"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _jbt jbt
"""
"""Options are offered after a dash; where no word fits, a file's name is (`-o default`)."""

OPTION = re.compile(r"^[│ ]*(--[a-z][a-z-]*)(?:, (--[a-z][a-z-]*))?", re.MULTILINE)
"""An option where a command's help explains it, and the one that says its opposite."""


@dataclass(frozen=True)
class CompletionOptions:
    """Print the script that completes the commands and options of jbt in bash, and in
    zsh after `autoload -U bashcompinit; bashcompinit`: source <(jbt completion)"""


def main(argv: Sequence[str]) -> int:
    """Run `jbt completion`; returns the exit code."""
    parse(CompletionOptions, argv, prog="jbt completion")
    words: dict[str, list[str]] = {}
    for command in COMMANDS:
        *before, last = command.split()
        words.setdefault(" ".join(before), []).append(last)
        words[command] = _options(command)
    commands = [*words.pop(""), "plan"]
    # The first case that fits is taken: `plan labels ` comes before `plan `.
    cases = sorted(words, key=lambda command: -len(command.split()))
    kinds = ["words" if case in ("plan", "sweep") else "options" for case in cases]
    options = "\n".join(
        f'    "{case} "*) {kind}="{" ".join(words[case])}" ;;'
        for case, kind in zip(cases, kinds, strict=True)
    )
    print(BASH.format(commands=" ".join(commands), options=options), end="")
    return 0


def _options(command: str) -> list[str]:
    """The options that a command's help explains; of `sweep`, the names of the experiments."""
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        function_of(command)(["--help"])
    if command == "sweep":
        return text.getvalue().partition(":")[2].replace(",", " ").split()
    return [name for pair in OPTION.findall(text.getvalue()) for name in pair if name]
