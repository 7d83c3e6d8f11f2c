"""A user's tables: reading them, and what can be counted in them before any fit."""

from jbt.own.tables.tables import ANCHORS, Tables, Ties, Transform, covariate_values, read

__all__ = ["ANCHORS", "Tables", "Ties", "Transform", "covariate_values", "read"]
