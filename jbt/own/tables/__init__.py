"""Read a user's tables, and count what can be counted before any fit."""

from jbt.own.tables.tables import ANCHORS, Tables, Ties, Transform, covariate_values, read

__all__ = ["ANCHORS", "Tables", "Ties", "Transform", "covariate_values", "read"]
