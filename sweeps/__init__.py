"""One short file per experiment of the paper: its grid, its one-pool experiment, its table,
its figure. Run one with `python -m sweeps.NAME`."""
