"""The end of a command: its exit code, and one line that names what stopped it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any

from jbt.border import inputs
from jbt.border.terminal import Visible


def exit_code(command: Callable[[], int | None], *, interrupted: str = "interrupted") -> int:
    """Run a command; if something stops it, name the reason in one line on stderr. On a terminal,
    control characters in what the command prints are shown as escapes.

    Args:
      command: returns its exit code; None is 0.
      interrupted: the line printed after Ctrl-C.

    Returns:
      The command's exit code, also if the reader of its output (`head`, say) stops reading; 2 for
      wrong input, a file or standard output that cannot be read or written, too little memory, or
      devices that JAX cannot use; 130 for Ctrl-C.
    """
    _open_streams()
    code, output = 0, sys.stdout
    try:
        visible = redirect_stdout(Visible(_Output(output))), redirect_stderr(Visible(sys.stderr))
        with inputs.noted(), visible[0], visible[1]:
            code = _reported(command, interrupted)
            _flush()
    except _OutputError as failure:
        _discard(output)
        error = failure.__cause__
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            _report(f"error: cannot write to standard output: {error.strerror}")
            code = code or 2
    return code


def _open_streams() -> None:
    """Open streams in place of those that the shell has closed (`>&-`), which Python leaves out:
    messages go nowhere, and printing is an error, as on a full device."""
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


class _OutputError(Exception):
    """Standard output cannot be written, because of an OSError. Not one itself, as that could come
    from any file."""


class _Output(Visible):
    """Standard output that raises errors of its own, unlike those of other files."""

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except OSError as error:
            raise _OutputError from error

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError as error:
            raise _OutputError from error


def _reported(command: Callable[[], int | None], interrupted: str) -> int:
    """The exit code of a command; only a failure of standard output is raised."""
    try:
        return command() or 0
    except SystemExit:  # from the parser of the options, which has printed why
        _flush()
        raise
    except KeyboardInterrupt:
        _report(interrupted)
        return 130
    except (OSError, ValueError) as error:
        _report(f"error: {error}")
    except MemoryError as error:
        _report(f"error: not enough memory: {error}")
    except (AssertionError, RuntimeError) as error:
        if (reason := _why_jax_stopped(error)) is None:
            raise
        _report(f"error: {reason}")
    return 2


def _why_jax_stopped(error: Exception) -> str | None:
    """Why JAX cannot do what was asked of this machine; None for any other error."""
    import jax  # late: --help needs none of it

    if isinstance(error, jax.errors.JaxRuntimeError):
        reason = str(error).splitlines()[0]
        return f"not enough memory: {reason}" if reason.startswith("RESOURCE_EXHAUSTED") else None
    try:  # devices that it cannot use: JAX raises different errors for this
        jax.devices()
    except (AssertionError, RuntimeError):
        platforms = jax.config.values["jax_platforms"]
        return f"JAX finds no device of JAX_PLATFORMS = {platforms}; unset it, or cpu"
    return None


def _flush() -> None:
    """Write the rest of the output; a failure when the interpreter ends would be a traceback."""
    print(end="", flush=True)


def _report(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # there is no other stream to report to
        _discard(sys.stderr)


def _discard(stream: Any) -> None:
    """Discard the rest of a stream's output and all that follows."""
    with suppress(OSError):  # the stream has no file descriptor, as in a notebook
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()
