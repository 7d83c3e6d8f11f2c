"""The plans from a user's own tables; those on simulated pools are files of `jbt.planning`."""
