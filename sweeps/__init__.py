"""One short file or folder an experiment: its grid, its one-pool experiment, its table, its figure.
Run one with `python -m sweeps.NAME`."""

import jbt  # noqa: F401  before jaxtyping loads JAX, so that JAX starts as `jbt/__init__.py` says
