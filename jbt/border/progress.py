"""Progress bars on stderr while work takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jbt.border.terminal import direct


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
    bars: list[Any] = []

    def step(n: int) -> None:
        if not bars:
            bars.append(bar(total=total, name=name, unit=unit))
        bars[0].update(n)

    try:
        yield step
    finally:
        for shown in bars:
            shown.close()
