"""The three forms of the data: counts over pairs, rows, and a panel of judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt.types.containers import check_positive, container


@container
class Comparisons:
    """Counts of verdicts: the sufficient statistics of the model."""

    shown: Float[Array, "N N ..."]
    """How often i was shown first against j. Zero on the diagonal and at padding."""
    wins: Float[Array, "N N ..."]
    """How often i then won; a tie is half a win. 0 <= wins <= shown."""

    @classmethod
    def build(cls, shown: Any, wins: Any) -> Comparisons:
        """Comparisons from arrays or lists, checked.

        Raises:
          ValueError: not square, diagonal not zero, wins that are not between 0 and shown.
        """
        s, w = np.asarray(shown), np.asarray(wins)
        if s.ndim != 2 or s.shape[0] != s.shape[1] or s.shape != w.shape:
            raise ValueError(f"shown and wins must be [N, N], got {s.shape} and {w.shape}")
        if np.diagonal(s).any():
            raise ValueError("an item cannot be compared with itself: shown[i, i] must be 0")
        if not ((w >= 0) & (w <= s)).all():
            raise ValueError("wins must lie between 0 and shown")
        dtype = jnp.result_type(float)
        return cls(jnp.asarray(s, dtype), jnp.asarray(w, dtype))


@container
class Rows:
    """Verdicts one a row, equal ones merged: the same data as `Comparisons` where N x N counts
    would be mostly zeros (a leaderboard has a few models and thousands of answers), or where the
    order shown is not always known. Whatever takes `Verdicts` takes either form; rows go with a
    `Design.of_contents`, as each row has its own difference of covariates."""

    first: Int[Array, "R ..."]
    """Content of one item, in 0..M-1; the one shown first where that is known."""
    second: Int[Array, "R ..."]
    """Content of the other item."""
    difference: Float[Array, "R D ..."]
    """Covariates of the first minus those of the second."""
    ordered: Float[Array, "R ..."]
    """1 where `first` was shown first, so that kappa acts in its favour; 0 where the order is not
    known, so that kappa is left out."""
    shown: Float[Array, "R ..."]
    """How many verdicts the row stands for; 0 for padding."""
    wins: Float[Array, "R ..."]
    """How many of them the first won; a tie is half a win. 0 <= wins <= shown."""

    @classmethod
    def build(
        cls,
        first: Any,
        second: Any,
        difference: Any,
        share: Any,
        *,
        weight: Any = 1.0,
        ordered: Any = True,
    ) -> Rows:
        """Rows from arrays or lists.

        Args:
          first, second: [R] contents, integers from 0.
          difference: [R, D] covariates of the first minus those of the second.
          share: [R] share of the verdicts won by the first, 0..1.
          weight: [R] or one number, how many verdicts a row stands for.
          ordered: [R] or one boolean, whether `first` was shown first.
        """
        p = np.asarray(share, float)
        w, o = (np.broadcast_to(np.asarray(v, float), p.shape) for v in (weight, ordered))
        dtype = jnp.result_type(float)
        # Cast in NumPy: JAX would compile a program for each number of rows.
        contents = [jnp.asarray(np.asarray(v).astype(np.int32)) for v in (first, second)]
        values = [jnp.asarray(np.asarray(v).astype(dtype)) for v in (difference, o, w, w * p)]
        return cls(contents[0], contents[1], *values)


@container
class Panel:
    """The verdicts of several judges about the same items. The judges share only the qualities:

        P(first wins | judge g) = sigmoid(s_g (theta_i - theta_j) + (x_i - x_j) . c_g + kappa_g)

    Whatever takes `Verdicts` and a `Variant` takes a panel and a variant for its judges.
    `Parameters` and the `Variant` then hold c [D, J] and kappa [J]."""

    verdicts: Comparisons | Rows
    """The verdicts with the judge as last axis: counts [N, N, J], or rows [R, J]."""
    discrimination: Float[Array, "J ..."]
    """s_g above 0, a factor on quality and not on the biases."""
    sharing: Float[Array, "J J ..."]
    """How J sets of coefficients, which are the parameters, make up the judges' biases: (c, kappa)
    of judge g is the sum over h of `sharing[g, h]` times set h. The identity gives every judge its
    own set; a first column of ones, and zeros elsewhere, one set for all. Any matrix is allowed."""

    @classmethod
    def build(
        cls,
        verdicts: Sequence[Comparisons] | Sequence[Rows],
        *,
        discrimination: Any = 1.0,
        sharing: Any = None,
    ) -> Panel:
        """A panel from the verdicts of each judge.

        Args:
          verdicts: one of each of J judges, all counts over the same items or all rows of one
            length.
          discrimination: s_g, one number or [J].
          sharing: [J, J], default the identity.

        Raises:
          ValueError: verdicts of different kinds or shapes, s not above 0.
        """
        check_positive("discrimination", discrimination)
        n, dtype = len(verdicts), verdicts[0].shown.dtype
        return cls(
            jax.tree.map(lambda *leaves: jnp.stack(leaves, -1), *verdicts),
            jnp.broadcast_to(jnp.asarray(discrimination, dtype), n),
            jnp.asarray(np.eye(n) if sharing is None else sharing, dtype),
        )

    @property
    def shown(self) -> Float[Array, "... J"]:
        """How many verdicts each judge has on each pair or row."""
        return self.verdicts.shown


Verdicts = Comparisons | Rows | Panel
"""The forms of the data."""


def n_judges(verdicts: Verdicts) -> int | None:
    """J for a panel, None for a single judge."""
    return verdicts.discrimination.shape[0] if isinstance(verdicts, Panel) else None
