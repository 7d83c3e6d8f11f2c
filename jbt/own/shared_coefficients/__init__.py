"""Coefficients that many pools have in common: their fit, what identifies them, intervals."""
