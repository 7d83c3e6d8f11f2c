"""A decision rule with its level, on counts or on sequences of discordant labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import runtime
from jbt.gate import RULES, betting, check_alpha, critical_values, decide, p_value
from jbt.own.tables.anchors import TIE
from jbt.types import check_count, check_word


@dataclass(frozen=True)
class Rule:
    """How it is decided."""

    name: str = "sign"
    """Of `jbt.gate.RULES`."""
    alpha: float = 0.05
    """Level of the tests."""
    margin: int = 2
    """For `margin`, by how many labels right has to be ahead (count)."""

    def __post_init__(self) -> None:
        check_word("rule", self.name, tuple(RULES))
        check_alpha(self.alpha)
        check_count("margin", self.margin)

    @property
    def needed(self) -> int:
        """The least number of discordant labels with which the sign test can enable."""
        return math.ceil(-math.log2(self.alpha))

    def of_counts(self, right: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether it enables, and the p-value of the sign test, for numbers of discordant labels of
        any one shape; of a rule of counts."""
        critical = critical_values(self.alpha, int((right + wrong).max(initial=0)))
        counts = jnp.asarray(right, float), jnp.asarray(wrong, float)
        enable = decide(self.name, *counts, critical=critical, margin=self.margin)
        return np.asarray(enable), p_value(right, wrong)

    def of_sequences(
        self, labels: Sequence[np.ndarray], population: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether `sign_sequential` enables by the end, and its p-value: it holds whenever one
        stops, if under the hypothesis each label has a mean of at most 1/2 (of those left) given
        the labels before it.

        Args:
          labels: a sequence of discordant labels each, in the order they came: 1 right, 0 wrong,
            1/2 a tie.
          population: [sequences] from how many pairs each was drawn without replacement.
        """
        n = np.array([len(of) for of in labels], int)
        padded = np.full((len(n), max(n.max(initial=0), 1)), TIE)
        for row, of in zip(padded, labels, strict=True):
            row[: len(of)] = of
        with runtime.precision("float64"):
            wealth = _wealth(jnp.asarray(padded), jnp.asarray(population, float))
        there = np.arange(padded.shape[1]) < n[:, None]
        largest = np.where(there, wealth, 1).max(1, initial=1)
        return largest >= 1 / self.alpha, 1 / largest


@jax.jit
def _wealth(labels: Array, population: Array) -> Float[Array, "sequences n"]:
    return jax.vmap(betting.wealth)(labels, population)
