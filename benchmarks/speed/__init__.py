"""Speed and memory of jbt against its alternatives: `python -m benchmarks.speed`."""
