"""How a command ends: its exit code, and one line for whatever stopped it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax


def exit_code(command: Callable[[], int | None], *, interrupted: str = "interrupted") -> int:
    """Run a command, and say in one line on stderr what stopped it.

    Args:
      command: returns its exit code; None is 0.
      interrupted: what Ctrl-C is answered with.

    Returns:
      What the command returns; 0 too if the reader of its output, `head` say, has seen enough; 2
      for wrong input, a file or standard output that cannot be read or written, or too little
      memory; 130 for Ctrl-C.
    """
    code = 0
    try:
        code = _reported(command, interrupted)
        _flush()
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        _say(f"error: cannot write to standard output: {error.strerror}")
        code = code or 2
    return code


def _reported(command: Callable[[], int | None], interrupted: str) -> int:
    """The exit code of a command; what is wrong with standard output alone is raised."""
    try:
        return command() or 0
    except SystemExit:  # from the parser of the options, which has said why
        _flush()
        raise
    except KeyboardInterrupt:
        _say(interrupted)
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        _flush()  # which raises too, if it is standard output that cannot be written
        _say(f"error: {error}")
    except ValueError as error:
        _say(f"error: {error}")
    except MemoryError as error:
        _say(f"error: not enough memory: {error}")
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).splitlines()[0]
        if not reason.startswith("RESOURCE_EXHAUSTED"):
            raise
        _say(f"error: not enough memory: {reason}")
    return 2


def _flush() -> None:
    """Write what is left to write; failing as the interpreter ends means a traceback."""
    print(end="", flush=True)


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # nobody can be told
        _discard(sys.stderr)


def _discard(stream: Any) -> None:
    """Let what is left to write, and whatever follows, go nowhere."""
    with suppress(OSError):  # no file of the system, as in a notebook
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
