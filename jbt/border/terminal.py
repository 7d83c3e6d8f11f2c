"""Text on a terminal: characters that it would obey are shown, not sent; bars while work takes
long."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from typing import Any

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Controls but for tab and line feed; marks that reverse the direction of writing."""


def visible(text: str) -> str:
    """The text with its control characters as escapes: `\\x1b`."""
    return CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


class Visible:
    """A stream that makes what is written to it visible where it is a terminal; a file or a pipe
    gets every character."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._is_terminal = stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        return self.stream.write(visible(text) if self._is_terminal else text)

    def flush(self) -> None:
        self.stream.flush()


def direct(stream: Any) -> Any:
    """The stream itself, for what moves a terminal's cursor on purpose."""
    return stream.stream if isinstance(stream, Visible) else stream


@contextmanager
def direct_output() -> Iterator[None]:
    """Print directly within the `with` block, for a library that colours its text."""
    with redirect_stdout(direct(sys.stdout)), redirect_stderr(direct(sys.stderr)):
        yield


def bar(items: Any = None, *, name: str, unit: str, **options: Any) -> Any:
    """tqdm's bar, over a list or a `total`, with an estimate of the time left."""
    from tqdm import tqdm

    file = direct(sys.stderr)
    pace = 0.1 if file.isatty() else 15.0  # seconds; a log is not flooded
    return tqdm(items, desc=name, unit=unit, file=file, mininterval=pace, **options)


@contextmanager
def steps(total: int, *, name: str, unit: str) -> Iterator[Callable[[int], None]]:
    """A bar that appears with the first step, even one of 0, so that work refused earlier shows no
    bar.

    Yields:
      A function of the number of further steps done.
    """
    with ExitStack() as stack:

        @cache
        def shown() -> Any:
            return stack.enter_context(bar(total=total, name=name, unit=unit))

        yield lambda n: shown().update(n)
