"""Whether two checkouts of jbt give the same answers: `python -m benchmarks.same_numbers`."""
