"""What is shown on stderr while something takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_SECONDS = 3.0
"""After so long it is said what is waited for."""


def bar(of: Any = None, *, name: str, unit: str, **options: Any) -> Any:
    """tqdm's bar, over a list or a `total`, with an estimate of the time left."""
    from tqdm import tqdm

    pace = 0.1 if sys.stderr.isatty() else 15.0  # seconds; a log is not flooded
    return tqdm(of, desc=name, unit=unit, file=sys.stderr, mininterval=pace, **options)


@contextmanager
def steps(total: int, *, name: str, unit: str) -> Iterator[Callable[[int], None]]:
    """A bar that is there from the first step on, be it of 0: what is refused before shows none.

    Yields:
      What takes how many more are done.
    """
    shown: list[Any] = []

    def step(n: int) -> None:
        if not shown:
            shown.append(bar(total=total, name=name, unit=unit))
        shown[0].update(n)

    try:
        yield step
    finally:
        for each in shown:
            each.close()


@contextmanager
def said_after(seconds: float, line: str) -> Iterator[None]:
    """A line on stderr if the `with` block takes longer."""
    timer = threading.Timer(seconds, print, (line,), {"file": sys.stderr})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
