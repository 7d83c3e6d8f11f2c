"""Eight CPU devices, so that sharding is exercised wherever the suite runs."""

import os
from pathlib import Path

import pytest

from jbt import runtime

runtime.start(cpu_devices=8)


@pytest.fixture
def data() -> Path:
    """Folder of real verdicts, named by JBT_DATA."""
    if "JBT_DATA" not in os.environ:
        pytest.skip("JBT_DATA is not set")
    return Path(os.environ["JBT_DATA"]).resolve()


@pytest.fixture
def x64():
    """float64 for the length of a test."""
    with runtime.precision("float64"):
        yield
