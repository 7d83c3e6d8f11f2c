"""Speed of jbt against the alternatives. Run a benchmark with `python -m benchmarks.NAME`."""
