"""See `sweeps.crossing_varied`."""

from .crossing_varied import Factors as SWEEP

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
