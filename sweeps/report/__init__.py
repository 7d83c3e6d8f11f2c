"""The report of all sweeps, and the tables of the documents; see `python -m sweeps.report`."""
