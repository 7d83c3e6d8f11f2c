"""Read a user's tables, and count what can be counted before any fit."""

from typing import TYPE_CHECKING

from jbt import _lazy

if TYPE_CHECKING:
    from jbt.own.choices import Ties, Transform
    from jbt.own.tables.tables import ANCHORS, Tables, covariate_values, read

__getattr__ = _lazy.getter(__name__, __file__)
__all__ = ["ANCHORS", "Tables", "Ties", "Transform", "covariate_values", "read"]


def __dir__() -> list[str]:
    return __all__
