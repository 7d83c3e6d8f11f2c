"""Parameters whose tests take long: `heavy(values...)` in .ci/run, `nightly(values...)` before a
release. For a whole test there is `@pytest.mark.heavy`."""

from functools import partial
from typing import Any

import pytest


def _marked(mark: pytest.MarkDecorator, *values: Any, **named: Any) -> Any:
    name = getattr(values[0], "__name__", "")
    assert not name.startswith("test_"), f"{name} would not be collected: use @pytest.mark"
    return pytest.param(*values, marks=mark, **named)


heavy, nightly = (partial(_marked, mark) for mark in (pytest.mark.heavy, pytest.mark.nightly))
