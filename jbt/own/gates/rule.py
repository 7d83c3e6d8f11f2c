"""Decision rules on counts or sequences of discordant labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import quick_compilation, runtime
from jbt.gate import (
    RULES,
    SHARE,
    betting,
    check_alpha,
    check_share,
    critical_values,
    decide,
    p_value,
)
from jbt.kernel import padding
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.tables.anchors import TIE
from jbt.types import check_count, check_word


@dataclass(frozen=True)
class Rule:
    """A decision rule with its level."""

    name: str = "sign"
    """One of `jbt.gate.RULES`."""
    alpha: float = 0.05
    """Level of the tests."""
    margin: int = 2
    """For the rule `margin`, how many more labels must be right than wrong (count)."""
    margin_share: float = SHARE
    """The same for the rule `margin_share`, as a share of all labels bought; for a judge, of its
    labelled pools."""

    def __post_init__(self) -> None:
        check_word("rule", self.name, tuple(RULES))
        check_alpha(self.alpha)
        check_count("margin", self.margin)
        check_share("margin_share", self.margin_share)

    @property
    def needed(self) -> int:
        """Smallest number of discordant labels with which the sign test can enable."""
        return math.ceil(-math.log2(self.alpha))

    def of_counts(
        self, right: np.ndarray, wrong: np.ndarray, bought: np.ndarray | np.integer
    ) -> tuple[np.ndarray, np.ndarray]:
        """Apply a rule of counts to numbers of discordant labels, arrays of one shape: whether it
        enables, and the p-value of the sign test.

        Args:
          bought: numbers of all labels, in a shape that broadcasts to it.
        """
        most = padding.size(int((right + wrong).max(initial=1)))
        counts = [np.ravel(np.broadcast_to(v, right.shape)) for v in (right, wrong, bought)]
        counts = [v.astype(jnp.result_type(float)) for v in counts]
        enable = in_chunks(lambda stack: _enabled(*stack, rule=self, most=most), counts)
        return enable.reshape(right.shape), p_value(right, wrong)

    def of_sequences(
        self, labels: Sequence[np.ndarray], population: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether `sign_sequential` enables by the end of each sequence, and its p-value. Valid
        whenever labelling stops, if under the null hypothesis each label has a mean of at most 1/2
        given the labels before it.

        Args:
          labels: sequences of discordant labels, in order: 1 right, 0 wrong, 1/2 a tie.
          population: [sequences] number of pairs from which each was drawn without replacement.
        """
        n = np.array([len(sequence) for sequence in labels], int)
        padded = np.full((len(n), padding.size(int(n.max(initial=1)))), TIE)
        for row, sequence in zip(padded, labels, strict=True):
            row[: len(sequence)] = sequence
        with runtime.precision("float64"):
            numbers = padded, np.asarray(population, float)
            wealth = in_chunks(lambda stack: _wealth(*stack), numbers)
        present = np.arange(padded.shape[1]) < n[:, None]
        largest = np.where(present, wealth, 1).max(1, initial=1)
        return largest >= 1 / self.alpha, 1 / largest


@partial(quick_compilation.jit, static_argnames=("rule", "most"))
def _enabled(right: Array, wrong: Array, bought: Array, *, rule: Rule, most: int) -> Array:
    critical, share = critical_values(rule.alpha, most), rule.margin_share
    numbers = {"margin": rule.margin, "bought": bought, "share": share}
    return decide(rule.name, right, wrong, critical=critical, **numbers)


@quick_compilation.jit
def _wealth(labels: Array, population: Array) -> Float[Array, "sequences n"]:
    return jax.vmap(betting.wealth)(labels, population)
