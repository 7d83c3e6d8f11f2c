"""How a command ends: its exit code, and one line for whatever stopped it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import Any

import jax


def exit_code(command: Callable[[], int | None], *, interrupted: str = "interrupted") -> int:
    """Run a command, and say in one line on stderr what stopped it.

    Args:
      command: returns its exit code; None is 0.
      interrupted: what Ctrl-C is answered with.

    Returns:
      What the command returns; 0 too if the reader of its output, `head` say, has seen enough; 2
      for wrong input, a file or standard output that cannot be read or written, too little memory,
      or devices that JAX cannot use; 130 for Ctrl-C.
    """
    _open_streams()
    code, output = 0, sys.stdout
    try:
        with redirect_stdout(_Output(output)):
            code = _reported(command, interrupted)
            _flush()
    except _OutputError as failure:
        _discard(output)
        if not isinstance(failure.error, BrokenPipeError):
            _say(f"error: cannot write to standard output: {failure.error.strerror}")
            code = code or 2
    return code


def _open_streams() -> None:
    """Something in place of streams that the shell has closed, `>&-`, which Python leaves out: what
    is said goes nowhere, and what is printed is an error, as it is on a full device."""
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


class _OutputError(Exception):
    """Standard output cannot be written; no OSError, which could be any file's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class _Output:
    """Standard output whose failures are told from those of other files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _OutputError(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise _OutputError(error) from None


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
    except (OSError, ValueError) as error:
        _say(f"error: {error}")
    except MemoryError as error:
        _say(f"error: not enough memory: {error}")
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).splitlines()[0]
        if not reason.startswith("RESOURCE_EXHAUSTED"):
            raise
        _say(f"error: not enough memory: {reason}")
    except (AssertionError, RuntimeError):
        if (platforms := _unusable()) is None:
            raise
        _say(f"error: JAX finds no device of JAX_PLATFORMS = {platforms}; unset it, or cpu")
    return 2


def _unusable() -> str | None:
    """The platforms that JAX is told to use, if it cannot: it says so in several ways."""
    try:
        jax.devices()
    except (AssertionError, RuntimeError):
        return jax.config.values["jax_platforms"]
    return None


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
