"""Speed against what a user would pick instead. Run one with `python -m benchmarks.NAME`."""
