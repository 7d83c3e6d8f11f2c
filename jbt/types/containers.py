"""The base of every container, and checks of values for constructors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

T = TypeVar("T")

ArrayLike = Array | np.ndarray
"""An array of JAX or NumPy."""

ScalarLike = Float[Array, ""] | float | int
"""A number per pool: traced inside a kernel, a plain float outside."""


@dataclass_transform(frozen_default=True)
def container(cls: type[T]) -> type[T]:
    """A frozen dataclass registered as a pytree.

    Unlike `jax.tree_util.register_dataclass` it rebuilds without calling `__init__`, so that
    batched leaves (one more axis than declared) and the placeholders of JAX's transformations pass,
    while the constructor keeps its checks. A field with `metadata={"static": True}` belongs to the
    structure: changing it recompiles.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    leaves = [f.name for f in fields if not f.metadata.get("static")]
    static = [f.name for f in fields if f.metadata.get("static")]

    def rebuild(aux: tuple[Any, ...], children: Any) -> T:
        self = object.__new__(cls)
        for name, value in zip(leaves, children, strict=True):
            object.__setattr__(self, name, value)
        for name, value in zip(static, aux, strict=True):
            object.__setattr__(self, name, value)
        return self

    def flatten(self: T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(self, n) for n in leaves], tuple(getattr(self, n) for n in static)

    def flatten_with_keys(self: T) -> tuple[list[Any], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in leaves]
        return children, tuple(getattr(self, n) for n in static)

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, rebuild, flatten)
    return cls


LARGEST_COUNT = 10**6
"""Largest number of anything but pools in a sweep."""


def check_count(
    name: str, value: int, *, least: float | int = 1, most: int = LARGEST_COUNT
) -> None:
    """Raise `ValueError` unless `value` is an integer in least..most."""
    if not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least:g}, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")


def check_word(name: str, value: Any, allowed: Sequence[str | bool]) -> None:
    """Raise `ValueError` unless `value` is one of the allowed words or truth values."""
    if not (isinstance(value, str | bool | np.bool_) and value in allowed):
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value` is finite and above 0; traced values pass."""
    if not isinstance(value, Tracer):
        v = np.asarray(value)
        if v.dtype.kind not in "fiu" and not isinstance(value, jax.Array):  # bfloat16 is of kind V
            raise ValueError(f"{name} must be a number above 0, got {value!r}")
        if not (np.isfinite(v).all() and (v > 0).all()):
            raise ValueError(f"{name} must be finite and above 0, got {value}")
