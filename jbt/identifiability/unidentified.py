"""Which parameters the comparisons made do not identify, by name, for many pools at once."""

from __future__ import annotations

import numpy as np

from jbt.identifiability.design_matrix import NULL, owner
from jbt.kernel.listed import Listed
from jbt.types import Design, Rows


def unidentified_parts(design: Design, shown: np.ndarray | Rows) -> dict[str, np.ndarray]:
    """Which of theta, c, kappa and phi the comparisons of one judge do not identify [Prop. 2].

    Some null direction of the design matrix of the pairs shown moves them: the likelihood is flat
    along it, so the prior chooses. theta and phi count up to a constant.

    Args:
      design: of the items compared, with leading axes over pools; or of one pool.
      shown: [..., N, N] how often each ordered pair was shown; or rows of one pool.

    Returns:
      "theta", "c", "kappa" and "phi", each bool [...], True where not identified.
    """
    items, m = np.asarray(design.item_mask), design.n_contents
    basis, spread = _quality_basis(design)
    if isinstance(shown, Rows):
        unit = np.concatenate([np.ones(m), spread, [1]])
        gram = Listed.of(shown, m).gram / unit / unit[:, None]
    else:
        gram = _gram(basis, (shown > 0) & items[..., :, None] & items[..., None, :])
    values, vectors = np.linalg.eigh(gram)
    # Columns that are no null direction are zeroed, and move nothing.
    largest = np.maximum(values.max(-1, keepdims=True), 1)
    null = vectors * (values <= NULL**2 * largest)[..., None, :]
    real = np.asarray((basis[..., :m] > 0).any(-2))
    changes = {
        "theta": _about_mean(null[..., :m, :], real),
        "c": null[..., m:-1, :],
        "kappa": null[..., -1:, :],
        "phi": _about_mean(basis @ null[..., :-1, :], items),
    }
    return {n: np.asarray((abs(v) > 1e-6).any((-2, -1))) for n, v in changes.items()}


def _about_mean(values: np.ndarray, real: np.ndarray) -> np.ndarray:
    """[..., rows, columns] about the mean of each column over the real rows; 0 in the others."""
    real = real[..., None]
    mean = np.where(real, values, 0).sum(-2, keepdims=True) / real.sum(-2, keepdims=True)
    return np.where(real, values - mean, 0)


def _quality_basis(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """[..., N, M + D], phi = basis @ (theta, c) up to a constant; and the unit of each covariate
    [..., D]. The covariates are centred, as squares of large ones would drown their differences,
    and in standard deviations, so that units do not decide what counts as zero."""
    items = np.asarray(design.item_mask)
    x = _about_mean(np.asarray(design.covariates, float), items)
    spread = np.sqrt((x**2).sum(-2) / items.sum(-1)[..., None])
    spread = np.where(spread > 0, spread, 1)
    return np.concatenate([owner(design), x / spread[..., None, :]], axis=-1), spread


def _gram(basis: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """[..., P, P], Z'Z of the design matrix Z of the pairs compared, without its rows: the
    Laplacian of the graph of comparisons, bordered by kappa."""
    pairs = pairs.astype(float)
    first, second = pairs.sum(-1), pairs.sum(-2)
    laplacian = (first + second)[..., None] * np.eye(pairs.shape[-1]) - pairs - pairs.mT
    border = basis.mT @ (first - second)[..., None]
    top = np.concatenate([basis.mT @ laplacian @ basis, border], axis=-1)
    total = first.sum(-1)[..., None, None]
    return np.concatenate([top, np.concatenate([border.mT, total], axis=-1)], axis=-2)
