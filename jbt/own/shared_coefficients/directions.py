"""Which shared coefficients the verdicts of all pools identify, qualities unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt.kernel import model
from jbt.kernel.fit import FLAT
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.laplace import PoolStack, chunk
from jbt.types import Design, Verdicts

MOVED = 1e-6
"""Share of a null direction's length beyond which it moves a coefficient."""


@dataclass(frozen=True, eq=False)
class NullDirections:
    """The null directions of the verdicts of all pools, qualities unknown."""

    directions: np.ndarray
    """[owners, shared, shared] columns: null directions of the information left about the
    coefficients, or zeros. In units of `scale`."""
    scale: np.ndarray
    """[owners, shared] root of what is told of each coefficient when all else is known."""
    follows: list[np.ndarray]
    """[F, M, shared] of each part, how the qualities of a pool go with the coefficients along a
    null direction."""

    @property
    def null(self) -> np.ndarray:
        """[shared, shared] columns: null directions of the first owner, or zeros."""
        return self.directions[0] / self.scale[0][:, None]

    def moves(self, along: np.ndarray) -> bool:
        """Whether some null direction moves a combination [shared] of the first owner's."""
        moved = np.abs(along @ self.null)
        return bool((moved >= MOVED * np.abs(self.null).max(0).clip(1e-300)).any())

    def moves_quality(self, follows: np.ndarray, design: Design) -> np.ndarray:
        """[F] whether some null direction moves a difference of qualities of each pool.

        Args:
          follows: [F, M, shared], those of a part.
        """
        real = np.asarray(jax.vmap(Design.content_mask)(design))[:, :, None]
        theta = follows @ self.null
        mean = np.where(real, theta, 0).sum(1, keepdims=True) / real.sum(1, keepdims=True)
        moved = np.abs(np.where(real, theta - mean, 0))
        return np.asarray((moved > MOVED * np.abs(self.null).max(0).clip(1e-300)).any((1, 2)))

    @property
    def identified(self) -> np.ndarray:
        """[owners, shared] which coefficients no null direction moves."""
        return np.asarray(np.abs(self.directions).max(-1) < MOVED)


def null_directions(parts: Sequence[PoolStack], n_owners: int) -> NullDirections:
    """What the verdicts identify: at even odds, so by who was compared with whom alone."""
    n = parts[0].loadings.shape[2]
    left, alone, follows = np.zeros((n_owners, n, n)), np.zeros((n_owners, n)), []
    for part in parts:
        *sums, follow = in_chunks(lambda some: _at_even_odds(*some), part[:3], chunk(part))
        for total, each in zip((left, alone), sums, strict=True):
            np.add.at(total, part.owner, each)
        follows.append(follow)
    scale = np.sqrt(np.where(alone > 0, alone, 1))
    values, vectors = np.linalg.eigh(left / scale[:, :, None] / scale[:, None])
    return NullDirections(vectors * (values <= FLAT)[:, None], scale, follows)


@jax.jit
def _at_even_odds(
    comparisons: Verdicts, design: Design, loadings: Array
) -> tuple[Array, Array, Array]:
    """Of every pool, the information about the coefficients at even odds: left when the qualities
    are unknown, and each coefficient's when all else is known; how the qualities follow."""

    def one(
        comparisons: Verdicts, design: Design, loadings: Float[Array, "own shared"]
    ) -> tuple[Float[Array, "shared shared"], Float[Array, " shared"], Float[Array, "M shared"]]:
        m = design.n_contents
        information = model.information_at_even_odds(comparisons, design.centred())
        values, vectors = jnp.linalg.eigh(information[:m, :m])
        inverse = jnp.where(values > 1e-12 * values[-1], 1 / values, 0)
        follows = -(vectors * inverse) @ vectors.T @ (information[:m, m:] @ loadings)
        # A quadratic form, in which errors of what the qualities do are squared.
        change = jnp.concatenate([follows, loadings])
        alone = jnp.diagonal(loadings.T @ information[m:, m:] @ loadings)
        return change.T @ information @ change, alone, follows

    return jax.vmap(one)(comparisons, design, loadings)
