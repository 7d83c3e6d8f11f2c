"""Parameters whose tests take long: `heavy(values...)` in .ci/run, `nightly(values...)` before a
release."""

from functools import partial

import pytest

heavy, nightly = (
    partial(pytest.param, marks=mark) for mark in (pytest.mark.heavy, pytest.mark.nightly)
)
