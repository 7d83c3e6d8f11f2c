"""The design matrix of the comparisons made, and products with it, in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jbt.kernel.listed import Listed
from jbt.types import Design, Panel, Rows

NULL = 1e-6
"""Singular values of the design matrix (covariates in standard deviations) below this share of the
largest count as zero, and so does a covariate's remainder of this share."""


def comparison_matrix(design: Design, shown: np.ndarray | Panel) -> np.ndarray:
    """The design matrix of the comparisons made: z_ij = (e_a(i) - e_a(j), x_i - x_j, 1), one
    row for each ordered pair that was shown. Explicit and large: for checks, not for fits.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown; or a panel of counts.

    Returns:
      [pairs, P], columns (theta, c, kappa); for a panel judge by judge. Pairs with padding are left
      out.

    Raises:
      ValueError: not [N, N].
    """
    check_shape(design, shown)
    if isinstance(shown, Panel):
        maps = of_each_judge(shown, design)
        counts = np.moveaxis(np.asarray(shown.shown), -1, 0)
        matrices = [comparison_matrix(design, judge_counts) for judge_counts in counts]
        return np.concatenate([z @ to_judge for z, to_judge in zip(matrices, maps, strict=True)])
    items, x = np.asarray(design.item_mask), np.asarray(design.covariates)
    ownership = owner(design).astype(float)
    i, j = np.nonzero(np.asarray(shown) * items[:, None] * items)
    theta = ownership[i] - ownership[j]
    return np.concatenate([theta, x[i] - x[j], np.ones((len(i), 1))], axis=1)


def matrix_and_gram(
    design: Design, shown: np.ndarray | Rows | Panel
) -> tuple[np.ndarray, np.ndarray]:
    """[rows, P] Z, and [P, P] Z'Z. For counts Z is the design matrix, for rows a small matrix with
    the same Z'Z."""
    if isinstance(shown, Rows):
        gram = Listed.of(shown, design.n_contents).gram
    elif isinstance(shown, Panel) and isinstance(shown.verdicts, Rows):
        gram = _gram_of_listed(shown, shown.verdicts, design)
    else:
        z = comparison_matrix(design, shown)
        return z, z.T @ z
    return with_gram(gram), gram


def of_each_judge(panel: Panel, design: Design) -> np.ndarray:
    """[..., J, own P, P] linear maps from the panel's parameters to those of each judge's own
    model, see `jbt.kernel.panel`."""
    s, sharing = np.asarray(panel.discrimination), np.asarray(panel.sharing)
    m, n_biases, judges = design.n_contents, design.covariates.shape[-1] + 1, s.shape[-1]
    maps = np.zeros((*s.shape, m + n_biases, m + n_biases * judges))
    maps[..., :m, :m] = s[..., None, None] * np.eye(m)
    for d in range(n_biases):
        maps[..., m + d, m + d * judges : m + (d + 1) * judges] = sharing
    return maps


def _gram_of_listed(panel: Panel, rows: Rows, design: Design) -> np.ndarray:
    """[P, P], Z'Z of a panel of rows."""
    maps = of_each_judge(panel, design)
    gram = np.zeros((maps.shape[-1],) * 2)
    for g, to_judge in enumerate(maps):
        judge_rows = jax.tree.map(lambda v, g=g: v[..., g], rows)
        gram += to_judge.T @ Listed.of(judge_rows, design.n_contents).gram @ to_judge
    return gram


def with_gram(gram: np.ndarray) -> np.ndarray:
    """A [P, P] matrix Z with this Z'Z, and so with the same null space as every such matrix.
    Directions that are null by `NULL` are null to rounding in it."""
    lengths = np.sqrt(np.diagonal(gram))
    scale = np.where(lengths > 0, lengths, 1)
    values, vectors = np.linalg.eigh(gram / scale / scale[:, None])
    values = np.where(values > NULL**2 * values.max(), values, 0)
    return np.sqrt(values)[:, None] * vectors.T * lengths


def owner(design: Design) -> np.ndarray:
    """[..., N, M] which content each item shows: `Design.ownership` in NumPy, for any axes."""
    items = np.asarray(design.item_mask)
    content = np.arange(items.shape[-1]) if design.content is None else np.asarray(design.content)
    return (content[..., None] == np.arange(design.n_contents)) & items[..., None]


def shown_contents(design: Design) -> np.ndarray:
    """[M] `Design.content_mask` in NumPy."""
    return np.asarray(owner(design).any(0))


def check_shape(design: Design, shown: Any) -> None:
    """Raise `ValueError` unless `shown` are counts over the items of the design."""
    n = design.n_items
    judges = ()
    if isinstance(shown, Panel):
        judges, shown = shown.discrimination.shape, shown.shown
    if np.shape(shown) != (n, n, *judges):
        raise ValueError(f"shown must be [{n}, {n}] for this design, got {np.shape(shown)}")
