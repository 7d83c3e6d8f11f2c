"""Formats of published collections of verdicts: one file a format, listed in `registry`."""
