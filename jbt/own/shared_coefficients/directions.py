"""Which shared coefficients the verdicts of all pools identify when qualities are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import model
from jbt.kernel.fit import FLAT
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.shared_coefficients.marginal_fit import PoolStack, chunk
from jbt.types import Design, Verdicts

MOVED = 1e-6
"""A null direction moves a coefficient by more than this share of the direction's length."""


@dataclass(frozen=True, eq=False)
class NullDirections:
    """The null directions of the verdicts of all pools when qualities are unknown."""

    directions: np.ndarray
    """[owners, shared, shared] columns: null directions of the marginal information about the
    coefficients, or zeros. In units of `scale`."""
    scale: np.ndarray
    """[owners, shared] root of the information about each coefficient when all else is known."""
    follows: list[np.ndarray]
    """[F, M, shared] of each part, response of the qualities of a pool to the coefficients along a
    null direction."""

    @property
    def null(self) -> np.ndarray:
        """[shared, shared] columns: null directions of the first owner, or zeros."""
        return self.directions[0] / self.scale[0][:, None]

    def moves(self, combination: np.ndarray) -> bool:
        """Whether some null direction moves a combination [shared] of the first owner's
        coefficients."""
        movement = np.abs(combination @ self.null)
        return bool((movement >= MOVED * np.abs(self.null).max(0).clip(1e-300)).any())

    def moves_quality(self, response: np.ndarray, design: Design) -> np.ndarray:
        """[F] whether some null direction moves a difference of qualities in each pool.

        Args:
          response: [F, M, shared], an entry of `follows`.
        """
        real = np.asarray(jax.vmap(Design.content_mask)(design))[:, :, None]
        theta = response @ self.null
        mean = np.where(real, theta, 0).sum(1, keepdims=True) / real.sum(1, keepdims=True)
        movement = np.abs(np.where(real, theta - mean, 0))
        return np.asarray((movement > MOVED * np.abs(self.null).max(0).clip(1e-300)).any((1, 2)))

    @property
    def identified(self) -> np.ndarray:
        """[owners, shared] whether no null direction moves each coefficient."""
        return np.asarray(np.abs(self.directions).max(-1) < MOVED)


def null_directions(parts: Sequence[PoolStack], n_owners: int) -> NullDirections:
    """Null directions of the verdicts at even odds: they depend only on who was compared with
    whom."""
    n = parts[0].loadings.shape[2]
    marginal, conditional, responses = np.zeros((n_owners, n, n)), np.zeros((n_owners, n)), []
    for part in parts:
        *sums, response = in_chunks(lambda stack: _at_even_odds(*stack), part[:3], chunk(part))
        for total, term in zip((marginal, conditional), sums, strict=True):
            np.add.at(total, part.owner, term)
        responses.append(response)
    scale = np.sqrt(np.where(conditional > 0, conditional, 1))
    values, vectors = np.linalg.eigh(marginal / scale[:, :, None] / scale[:, None])
    return NullDirections(vectors * (values <= FLAT)[:, None], scale, responses)


@quick_compilation.jit
def _at_even_odds(
    comparisons: Verdicts, design: Design, loadings: Array
) -> tuple[Array, Array, Array]:
    """Information of every pool about the coefficients at even odds, marginal (qualities unknown)
    and conditional (all else known); response of the qualities."""

    def one_pool(
        comparisons: Verdicts, design: Design, loadings: Float[Array, "biases shared"]
    ) -> tuple[Float[Array, "shared shared"], Float[Array, " shared"], Float[Array, "M shared"]]:
        m = design.n_contents
        information = model.information_at_even_odds(comparisons, design.centred())
        values, vectors = jnp.linalg.eigh(information[:m, :m])
        inverse = jnp.where(values > 1e-12 * values[-1], 1 / values, 0)
        response = -(vectors * inverse) @ vectors.T @ (information[:m, m:] @ loadings)
        # As a quadratic form, so that errors of the response enter squared.
        change = jnp.concatenate([response, loadings])
        conditional = jnp.diagonal(loadings.T @ information[m:, m:] @ loadings)
        return change.T @ information @ change, conditional, response

    return jax.vmap(one_pool)(comparisons, design, loadings)
