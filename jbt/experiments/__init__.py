"""Declaring an experiment, running it in pieces that survive a kill, and its table."""
