"""See `sweeps._crossing_varied`."""

from ._crossing_varied import Choices as SWEEP

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
