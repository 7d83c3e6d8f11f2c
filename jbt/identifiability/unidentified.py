"""Which parameters the comparisons made do not identify: by name in NumPy, for many pools at once,
and as a rank that runs inside a batch."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt.identifiability.design_matrix import (
    NULL,
    check_shape,
    of_each_judge,
    owner,
    shown_contents,
)
from jbt.identifiability.directions import null_space
from jbt.kernel import model
from jbt.kernel.fit import check_judges
from jbt.types import Comparisons, Design, Panel, Rows, Variant, n_judges


def prior_selected(
    design: Design,
    shown: np.ndarray | Rows | Panel,
    items: Design | None = None,
    *,
    variant: Variant | None = None,
) -> tuple[str, ...]:
    """Which of theta, c, kappa and phi the comparisons made do not identify [Prop. 2].

    Some null direction of the design matrix of the pairs shown moves them: the likelihood is flat
    along it, so the prior chooses. theta and phi count up to a constant. For a panel c, kappa and
    phi are named if those of any judge move; `unidentified_parts` and `null_space` say whose.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown, or rows of verdicts, or a panel.
      items: for rows, the contents and covariates of the items compared, which the rows do not
        hold; without it phi is left out.
      variant: coefficients that are unknown, default all.

    Returns:
      Their names, in this order.

    Raises:
      ValueError: not [N, N], a variant for other judges.
    """
    if variant is not None:
        check_judges(variant, n_judges(shown) if isinstance(shown, Panel) else None)
    if isinstance(shown, Rows) or (isinstance(shown, Panel) and isinstance(shown.verdicts, Rows)):
        parts = _unidentified_in_rows(design, shown, items, variant)
    else:
        check_shape(design, shown)
        parts = unidentified_parts(design, shown, variant=variant)
    return tuple(name for name, unidentified in parts.items() if unidentified.any())


def _unidentified_in_rows(
    design: Design, rows: Rows | Panel, items: Design | None, variant: Variant | None
) -> dict[str, np.ndarray]:
    directions = null_space(design, rows, variant=variant).directions
    null = (directions / np.abs(directions).max(1, initial=1e-300, keepdims=True)).T
    basis = mask = None
    if items is not None:
        x, mask = np.asarray(items.covariates), np.asarray(items.item_mask)
        content = np.arange(design.n_contents) if items.content is None else items.content
        basis = np.concatenate([np.eye(design.n_contents)[np.asarray(content)], x], axis=-1)
    maps = of_each_judge(rows, design) if isinstance(rows, Panel) else None
    return _moved(null, maps, shown_contents(design), basis, mask)


def unidentified_parts(
    design: Design, shown: np.ndarray | Panel, *, variant: Variant | None = None
) -> dict[str, np.ndarray]:
    """`prior_selected` for many pools at once, as a boolean for each name.

    Args:
      design: leaves with leading axes over pools, float64; or one pool.
      shown: [..., N, N] how often each ordered pair was shown; or a panel of counts, with the same
        axes in front.
      variant: coefficients that are unknown, default all.

    Returns:
      "theta", "c", "kappa" and "phi", each bool [...], True where not identified; for a panel the
      last three are [..., J], one for each judge.
    """
    items = np.asarray(design.item_mask)
    basis = _quality_basis(design)
    if isinstance(shown, Panel):
        counts = np.moveaxis(np.asarray(shown.shown), -1, -3)
        maps = of_each_judge(shown, design)
        grams = _gram(basis[..., None, :, :], _pairs(items[..., None, :], counts))
        gram = (maps.mT @ grams @ maps).sum(-3)
    else:
        maps = None
        gram = _gram(basis, _pairs(items, shown))
    if variant is not None:
        unknown = _unknown(variant, design, is_panel=maps is not None)
        gram = np.where(unknown[..., :, None] & unknown[..., None, :], gram, 0)
        known = (1 + np.trace(gram, axis1=-2, axis2=-1))[..., None] * ~unknown
        gram = gram + known[..., None] * np.eye(gram.shape[-1])
    values, vectors = np.linalg.eigh(gram)
    # Columns that are no null direction are zeroed, and move nothing.
    largest = np.maximum(values.max(-1, keepdims=True), 1)
    null = vectors * (values <= NULL**2 * largest)[..., None, :]
    real = np.any(basis[..., : design.n_contents] > 0, axis=-2)
    return _moved(null, maps, real, basis, items)


def _moved(
    null: np.ndarray,
    maps: np.ndarray | None,
    real: np.ndarray,
    basis: np.ndarray | None,
    items: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Whether any null direction [..., P, directions] moves each part; for a panel, each judge's
    part. `maps`: to each judge's own parameters; `basis`: phi from theta and c; `items`: its mask.
    """
    m = real.shape[-1]

    def moves(directions: np.ndarray) -> np.ndarray:
        return np.asarray(np.any(np.abs(directions) > 1e-6, axis=(-2, -1)))

    def centred(v: np.ndarray, real: np.ndarray) -> np.ndarray:
        real = real[..., None]
        mean = np.where(real, v, 0).sum(-2, keepdims=True) / real.sum(-2, keepdims=True)
        return np.where(real, v - mean, 0)

    parts = {"theta": moves(centred(null[..., :m, :], real))}
    if maps is not None:
        null = maps @ null[..., None, :, :]
        basis = None if basis is None else basis[..., None, :, :]
        items = None if items is None else items[..., None, :]
    parts |= {"c": moves(null[..., m:-1, :]), "kappa": moves(null[..., -1:, :])}
    if basis is not None and items is not None:
        parts["phi"] = moves(centred(basis @ null[..., :-1, :], items))
    return parts


def _unknown(variant: Variant, design: Design, *, is_panel: bool) -> np.ndarray:
    """[..., P] which parameters are unknown, all contents included: `model.free_mask` in NumPy, for
    any axes."""
    c, kappa = np.asarray(variant.c), np.asarray(variant.kappa)
    if is_panel:
        c = c.reshape(*c.shape[:-2], -1)
    else:
        kappa = kappa[..., None]
    contents = np.ones((*np.shape(design.item_mask)[:-1], design.n_contents), bool)
    return np.concatenate([contents, c, kappa], axis=-1)


def _quality_basis(design: Design) -> np.ndarray:
    """[..., N, M + D], phi = basis @ (theta, c) up to a constant. The covariates are centred, as
    squares of large ones would drown their differences, and in standard deviations, so that units
    do not decide what counts as zero."""
    items = np.asarray(design.item_mask)[..., None]
    x = np.where(items, np.asarray(design.covariates, float), 0)
    n_items = items.sum(-2, keepdims=True)
    x = np.where(items, x - x.sum(-2, keepdims=True) / n_items, 0)
    spread = np.sqrt((x**2).sum(-2, keepdims=True) / n_items)
    return np.concatenate([owner(design), x / np.where(spread > 0, spread, 1)], axis=-1)


def _pairs(items: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """[..., N, N] 1.0 where an ordered pair of real items was shown."""
    return ((np.asarray(shown) > 0) & items[..., :, None] & items[..., None, :]).astype(float)


def _gram(basis: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """[..., P, P], Z'Z of the design matrix Z of the comparisons made, without its rows: the
    Laplacian of the graph of comparisons, bordered by kappa."""
    first, second = pairs.sum(-1), pairs.sum(-2)
    laplacian = (first + second)[..., None] * np.eye(pairs.shape[-1]) - pairs - pairs.mT
    border = basis.mT @ (first - second)[..., None]
    top = np.concatenate([basis.mT @ laplacian @ basis, border], axis=-1)
    total = first.sum(-1)[..., None, None]
    return np.concatenate([top, np.concatenate([border.mT, total], axis=-1)], axis=-2)


def rank(
    design: Design, shown: Float[Array, "N N"] | Panel, *, variant: Variant | None = None
) -> Int[Array, ""]:
    """Rank of the design matrix of the comparisons made, for use inside a batch; float64. Full rank
    is the number of contents that real items show plus the number of coefficients.

    Args:
      design: one pool.
      shown: how often each ordered pair was shown, or a panel of counts.
      variant: coefficients that are unknown, default all; those known have no column.

    Raises:
      ValueError: float32, not [N, N], a variant for other judges.
    """
    if design.dtype != jnp.float64:
        raise ValueError(f"rank needs float64, got {design.dtype}: see jbt.runtime.precision")
    check_shape(design, shown)
    items = design.item_mask
    spread = design.spread()
    scaled = design.covariates / jnp.where(spread > 0, spread, 1)
    design = Design(scaled, design.content, design.item_mask, design.n_contents).centred()
    real = items[:, None] & items
    if isinstance(shown, Panel):
        once = ((shown.shown > 0) & real[:, :, None]).astype(design.dtype)
        comparisons = dataclasses.replace(shown, verdicts=Comparisons(once, once))
    else:
        once = ((shown > 0) & real).astype(design.dtype)
        comparisons = Comparisons(once, once)
    gram = 4 * model.information_at_even_odds(comparisons, design)
    if variant is not None:
        check_judges(variant, n_judges(comparisons))
        unknown = model.free_mask(variant, design)
        gram = jnp.where(unknown[:, None] & unknown, gram, 0)
    values = jnp.linalg.eigvalsh(gram)
    return (values > NULL**2 * jnp.maximum(values.max(), 1)).sum()
