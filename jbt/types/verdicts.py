"""The three forms of the data: counts over pairs, rows, and a panel of judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
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
    def build(cls, shown: Any, wins: Any, dtype: Any = None) -> Comparisons:
        """Comparisons from arrays or lists, checked.

        Raises:
          ValueError: not square, diagonal not zero, negative or not finite, wins above shown.
        """
        s, w = np.asarray(shown), np.asarray(wins)
        if s.ndim != 2 or s.shape[0] != s.shape[1] or s.shape != w.shape:
            raise ValueError(f"shown and wins must be [N, N], got {s.shape} and {w.shape}")
        if not (np.isfinite(s).all() and np.isfinite(w).all()):
            raise ValueError("shown and wins must be finite")
        if np.diagonal(s).any():
            raise ValueError("an item cannot be compared with itself: shown[i, i] must be 0")
        if (w < 0).any() or (w > s).any():
            raise ValueError("wins must lie between 0 and shown")
        dtype = dtype or jnp.result_type(float)
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
        """Rows from arrays or lists, checked.

        Args:
          first, second: [R] contents, integers from 0.
          difference: [R, D] covariates of the first minus those of the second.
          share: [R] share of the verdicts won by the first, 0..1.
          weight: [R] or one number, how many verdicts a row stands for.
          ordered: [R] or one boolean, whether `first` was shown first.

        Raises:
          ValueError: shapes that do not fit, contents below 0, share outside 0..1, negative
            weights, numbers that are not finite.
        """
        f, s, d, p = (np.asarray(v) for v in (first, second, difference, share))
        rows = f.shape
        if len(rows) != 1 or s.shape != rows or p.shape != rows or d.shape[:-1] != rows:
            shapes = f"{f.shape}, {s.shape}, {d.shape} and {p.shape}"
            raise ValueError(
                f"first, second, difference, share must be [R], [R], [R, D], [R]: {shapes}"
            )
        for name, v in (("first", f), ("second", s)):
            if not np.issubdtype(v.dtype, np.integer) or v.min(initial=0) < 0:
                raise ValueError(f"{name} must be integers from 0")
        w, o = (np.broadcast_to(np.asarray(v, float), rows) for v in (weight, ordered))
        if not all(np.isfinite(v).all() for v in (d, p, w)):
            raise ValueError("difference, share and weight must be finite")
        if (p < 0).any() or (p > 1).any():
            raise ValueError("share must lie between 0 and 1")
        if (w < 0).any() or not np.isin(o, (0, 1)).all():
            raise ValueError("weight must not be negative, ordered must be true or false")
        dtype = jnp.result_type(float)
        # Cast in NumPy: JAX would compile a program for each number of rows.
        contents = [jnp.asarray(v.astype(np.int32)) for v in (f, s)]
        values = [jnp.asarray(v.astype(dtype)) for v in (d, o, w, w * p)]
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
        """A panel from the verdicts of each judge, checked.

        Args:
          verdicts: one of each of J judges, all counts over the same items or all rows; shorter
            rows are padded.
          discrimination: s_g, one number or [J].
          sharing: [J, J], default the identity.

        Raises:
          ValueError: no judge, counts beside rows, shapes that do not fit, s not above 0.
        """
        judges = list(verdicts)
        if not judges:
            raise ValueError("a panel needs at least one judge")
        if len({type(v) for v in judges}) > 1:
            raise ValueError("the judges of a panel must have all counts or all rows")
        if isinstance(judges[0], Rows):
            longest = max(v.shown.shape[0] for v in judges)
            judges = [_padded(v, longest) for v in judges if isinstance(v, Rows)]
            widths = sorted({v.difference.shape[1] for v in judges})
            if len(widths) > 1:
                raise ValueError(f"the judges' rows differ in their number of covariates: {widths}")
        shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(v)) for v in judges}
        if len(shapes) > 1:
            counts = " and ".join(sorted(str(v.shown.shape) for v in judges))
            raise ValueError(f"the judges of a panel must see the same items, got counts {counts}")
        n, dtype = len(judges), judges[0].shown.dtype
        check_positive("discrimination", discrimination)
        s = jnp.asarray(discrimination, dtype)
        if s.shape not in ((), (n,)):
            raise ValueError(f"discrimination must be a number or [{n}], got shape {s.shape}")
        sharing = np.eye(n) if sharing is None else sharing
        finite = isinstance(sharing, Tracer) or bool(np.isfinite(np.asarray(sharing)).all())
        matrix = jnp.asarray(sharing, dtype)
        if matrix.shape != (n, n) or not finite:
            raise ValueError(f"sharing must be [{n}, {n}] finite numbers, got shape {matrix.shape}")
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves, -1), *judges)
        return cls(stacked, jnp.broadcast_to(s, n), matrix)

    @property
    def shown(self) -> Float[Array, "... J"]:
        """How many verdicts each judge has on each pair or row."""
        return self.verdicts.shown


def _padded(rows: Rows, n: int) -> Rows:
    """The rows followed by empty ones, n in all."""
    padding = n - rows.shown.shape[0]
    return jax.tree.map(lambda v: jnp.pad(v, [(0, padding)] + [(0, 0)] * (v.ndim - 1)), rows)


Verdicts = Comparisons | Rows | Panel
"""The forms of the data."""


def n_judges(verdicts: Verdicts) -> int | None:
    """J for a panel, None for a single judge."""
    return verdicts.discrimination.shape[0] if isinstance(verdicts, Panel) else None
