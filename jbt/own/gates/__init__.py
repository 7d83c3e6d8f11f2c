"""Decide from trusted labels whether to correct: `jbt gate` and `jbt plan labels`."""
