"""The design matrix of the comparisons made, and products with it, in NumPy."""

from __future__ import annotations

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
    if isinstance(shown, Panel):
        counts = np.moveaxis(np.asarray(shown.shown), -1, 0)
        each = zip(counts, of_each_judge(shown, design), strict=True)
        return np.concatenate([comparison_matrix(design, v) @ to_judge for v, to_judge in each])
    items, x = np.asarray(design.item_mask), np.asarray(design.covariates)
    if shown.shape != (n := len(items), n):
        raise ValueError(f"shown must be [{n}, {n}] for this design, got {shown.shape}")
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
        grams = []
        for g, to_judge in enumerate(of_each_judge(shown, design)):
            rows = jax.tree.map(lambda v, g=g: v[..., g], shown.verdicts)
            grams.append(to_judge.T @ Listed.of(rows, design.n_contents).gram @ to_judge)
        gram = np.sum(grams, axis=0)
    else:
        z = comparison_matrix(design, shown)
        return z, z.T @ z
    return with_gram(gram), gram


def of_each_judge(panel: Panel, design: Design) -> list[np.ndarray]:
    """For each judge a linear map [own P, P] from the panel's parameters to those of the judge's
    own model, see `jbt.kernel.panel`."""
    from scipy.linalg import block_diag

    theta, biases = np.eye(design.n_contents), np.eye(design.n_covariates + 1)
    terms = zip(np.asarray(panel.discrimination), np.asarray(panel.sharing), strict=True)
    return [np.asarray(block_diag(s * theta, np.kron(biases, own))) for s, own in terms]


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
