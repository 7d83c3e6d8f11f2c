"""What no comparison made depends on: the null space of their design matrix.

In NumPy, `null_space` on one pool and the explicit matrix, `silent_parts` on many pools at once;
`rank` runs inside a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt.model import information_at_even_odds
from jbt.types import Comparisons, Design, Rows

NULL = 1e-6
"""Singular values of the design matrix (covariates in standard deviations) below this share of the
largest count as zero, and so does a covariate's remainder of this share."""


def comparison_matrix(design: Design, shown: np.ndarray) -> np.ndarray:
    """The design matrix of the comparisons made: z_ij = (e_a(i) - e_a(j), x_i - x_j, 1), one
    row for each ordered pair that was shown. Explicit and large: for checks, not for fits.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown.

    Returns:
      [pairs, P], columns (theta, c, kappa). Pairs with padding are left out.

    Raises:
      ValueError: not [N, N].
    """
    _check_shape(design, shown)
    items, x = np.asarray(design.item_mask), np.asarray(design.covariates)
    owner = _owner(design).astype(float)
    i, j = np.nonzero(np.asarray(shown) * items[:, None] * items)
    return np.concatenate([owner[i] - owner[j], x[i] - x[j], np.ones((len(i), 1))], axis=1)


@dataclass(frozen=True)
class NullSpace:
    """The directions the comparisons made are silent about."""

    rank: int
    """Of the design matrix."""
    n_columns: int
    """Contents of the pool, covariates and, unless it is known, position."""
    directions: np.ndarray
    """[nullity, P] a basis, in the order (theta, c, kappa)."""
    names: tuple[str, ...]
    """What each direction does."""

    @property
    def nullity(self) -> int:
        return len(self.names)


def null_space(
    design: Design,
    shown: np.ndarray | Rows,
    covariates: Sequence[str] | None = None,
    *,
    contents: Sequence[str] | None = None,
    position: bool = True,
) -> NullSpace:
    """A basis of the null space of the comparisons made, whose directions have names.

    First the constants of the contents that comparisons link. Then each of c_1 ... c_D, kappa whose
    column is a combination of the columns before it: the amounts that undo a change of it.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown, or rows of verdicts.
      covariates: their names, default x1 ... xD.
      contents: their names, default 0 ... M-1.
      position: whether kappa is a parameter; where it is known, it is no column.

    Raises:
      ValueError: not one name for each covariate, or for each content.
    """
    from scipy.sparse.csgraph import connected_components

    n_contents, n_covariates = design.n_contents, design.n_covariates
    if covariates is None:
        covariates = [f"x{d + 1}" for d in range(n_covariates)]
    if len(covariates) != n_covariates:
        raise ValueError(f"{n_covariates} covariates, got {len(covariates)} names")
    owners = [str(m) for m in range(n_contents)] if contents is None else list(contents)
    if len(owners) != n_contents:
        raise ValueError(f"{n_contents} contents, got {len(owners)} names")
    real = np.flatnonzero(_shown_contents(design))
    if isinstance(shown, Rows):
        gram = _gram_of_rows(shown, n_contents)
        z = _with_gram(gram)
    else:
        z = comparison_matrix(design, shown)
        gram = z.T @ z
    n_islands, island = connected_components(gram[np.ix_(real, real)] != 0, directed=False)

    directions, names = [], []
    for k in range(n_islands):
        direction = np.zeros(z.shape[1])
        direction[real[island == k]] = 1
        directions.append(direction)
        where = (
            "every quality"
            if n_islands == 1
            else _qualities([owners[m] for m in real[island == k]])
        )
        names.append(f"adding 1 to {where}")

    before = real.tolist()
    coefficients = [*covariates, *["position"] * position]
    for q, name in enumerate(coefficients, start=n_contents):
        column = z[:, q]
        # Of least norm: the constants, which change nothing, are left out.
        amounts = np.linalg.lstsq(z[:, before], column, rcond=1e-12)[0]
        if np.linalg.norm(column - z[:, before] @ amounts) > NULL * np.linalg.norm(column):
            before.append(q)
            continue
        direction = np.zeros(z.shape[1])
        direction[before], direction[q] = amounts, -1
        directions.append(direction)
        moved = np.abs(direction) > NULL * np.abs(amounts).max(initial=1e-300)
        against = ["quality"] * bool(moved[:n_contents].any())
        against += [
            other for i, other in enumerate(coefficients[: q - n_contents], n_contents) if moved[i]
        ]
        if not against or not column.any():
            names.append(f"changing the coefficient of {name}, in which no comparison differs")
        elif against == ["quality"] and q < n_contents + n_covariates:
            names.append(f"trading quality against {name}: theta + delta x, c - delta")
        else:
            names.append(f"trading {' and '.join(against)} against {name}")
    n_columns = len(real) + len(coefficients)
    return NullSpace(n_columns - len(names), n_columns, np.array(directions), tuple(names))


def _gram_of_rows(rows: Rows, m: int) -> np.ndarray:
    """[P, P], Z'Z of the design matrix Z of the rows that stand for a verdict, each once."""
    made = np.asarray(rows.shown) > 0
    first, second = np.asarray(rows.first)[made], np.asarray(rows.second)[made]
    x = np.column_stack([np.asarray(rows.difference), np.asarray(rows.ordered)])[made]
    pairs = np.bincount(first.astype(np.int64) * m + second, minlength=m * m).reshape(m, m)
    laplacian = np.diag(pairs.sum(1) + pairs.sum(0)) - pairs - pairs.T
    border = [np.bincount(first, v, minlength=m) - np.bincount(second, v, minlength=m) for v in x.T]
    return np.block([[laplacian, np.stack(border, 1)], [np.stack(border), x.T @ x]])


def _with_gram(gram: np.ndarray) -> np.ndarray:
    """A [P, P] matrix Z with this Z'Z, which has the null space of every such matrix. What is
    null by `NULL` is null to rounding in it."""
    scale = np.sqrt(np.diagonal(gram))
    scale = np.where(scale > 0, scale, 1)
    values, vectors = np.linalg.eigh(gram / scale / scale[:, None])
    values = np.where(values > NULL**2 * values.max(), values, 0)
    return np.sqrt(values)[:, None] * vectors.T * scale


def _qualities(contents: Sequence[str]) -> str:
    some = ", ".join(contents[:6]) + ", ..." * (len(contents) > 6)
    what = "the quality of content" if len(contents) == 1 else "the qualities of contents"
    return f"{what} {some}, which nothing compares with the others"


def prior_selected(
    design: Design, shown: np.ndarray | Rows, items: Design | None = None
) -> tuple[str, ...]:
    """Which of theta, c, kappa and phi the comparisons made are silent about [Prop. 2].

    Those that some null direction of the design matrix of the pairs shown moves: the likelihood
    is flat along it, so the prior chooses. theta and phi are meant up to a constant.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown, or rows of verdicts.
      items: for rows, the contents and covariates of the items compared, which the rows do not
        say; without it phi is left out.

    Returns:
      Their names, in this order.

    Raises:
      ValueError: not [N, N].
    """
    if isinstance(shown, Rows):
        return _silent_in_rows(design, shown, items)
    _check_shape(design, shown)
    return tuple(name for name, is_silent in silent_parts(design, shown).items() if is_silent)


def _silent_in_rows(design: Design, rows: Rows, items: Design | None) -> tuple[str, ...]:
    m, directions = design.n_contents, null_space(design, rows).directions
    theta, c = directions[:, :m], directions[:, m:-1]
    moved = {"theta": theta[:, _shown_contents(design)], "c": c, "kappa": directions[:, -1:]}
    if items is not None:
        content = np.arange(m) if items.content is None else np.asarray(items.content)
        phi = theta[:, content] + c @ np.asarray(items.covariates).T
        moved["phi"] = phi[:, np.asarray(items.item_mask)]
    for name in ("theta", "phi"):  # up to a constant
        if name in moved:
            moved[name] = moved[name] - moved[name].mean(1, keepdims=True)
    largest = np.abs(directions).max(1, initial=1e-300)[:, None]
    return tuple(name for name, v in moved.items() if (np.abs(v) > 1e-6 * largest).any())


def silent_parts(design: Design, shown: np.ndarray) -> dict[str, np.ndarray]:
    """`prior_selected` for many pools at once: whether each name belongs to its answer.

    Args:
      design: leaves with leading axes over pools, float64; or one pool.
      shown: [..., N, N] how often each ordered pair was shown.

    Returns:
      "theta", "c", "kappa" and "phi", each bool [...].
    """
    items = np.asarray(design.item_mask)
    basis = _quality_basis(design)
    owner = basis[..., : design.n_contents]
    values, vectors = np.linalg.eigh(_gram(basis, _made(items, shown)))
    # Columns that are no null direction are zeroed, and move nothing.
    largest = np.maximum(values.max(-1, keepdims=True), 1)
    null = vectors * (values <= NULL**2 * largest)[..., None, :]

    def moves(directions: np.ndarray) -> np.ndarray:
        return np.asarray(np.any(np.abs(directions) > 1e-6, axis=(-2, -1)))

    def but_a_constant(v: np.ndarray, real: np.ndarray) -> np.ndarray:
        real = real[..., None]
        mean = np.where(real, v, 0).sum(-2, keepdims=True) / real.sum(-2, keepdims=True)
        return np.where(real, v - mean, 0)

    return {
        "theta": moves(
            but_a_constant(null[..., : design.n_contents, :], np.any(owner > 0, axis=-2))
        ),
        "c": moves(null[..., design.n_contents : -1, :]),
        "kappa": moves(null[..., -1:, :]),
        "phi": moves(but_a_constant(basis @ null[..., :-1, :], items)),
    }


def _quality_basis(design: Design) -> np.ndarray:
    """[..., N, M + D], phi = basis @ (theta, c), up to a constant: the covariates are centred, as
    squares of large ones would drown their differences, and in standard deviations, so that units
    do not decide what counts as zero."""
    items = np.asarray(design.item_mask)[..., None]
    x = np.where(items, np.asarray(design.covariates, float), 0)
    n_items = items.sum(-2, keepdims=True)
    x = np.where(items, x - x.sum(-2, keepdims=True) / n_items, 0)
    spread = np.sqrt((x**2).sum(-2, keepdims=True) / n_items)
    return np.concatenate([_owner(design), x / np.where(spread > 0, spread, 1)], axis=-1)


def _owner(design: Design) -> np.ndarray:
    """[..., N, M] which content each item shows: `Design.ownership` in NumPy, for any axes."""
    items = np.asarray(design.item_mask)
    content = np.arange(items.shape[-1]) if design.content is None else np.asarray(design.content)
    return (content[..., None] == np.arange(design.n_contents)) & items[..., None]


def _shown_contents(design: Design) -> np.ndarray:
    """[M] `Design.content_mask` in NumPy."""
    return np.asarray(_owner(design).any(0))


def _made(items: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """[..., N, N] 1.0 where an ordered pair of real items was shown."""
    return ((np.asarray(shown) > 0) & items[..., :, None] & items[..., None, :]).astype(float)


def _gram(basis: np.ndarray, made: np.ndarray) -> np.ndarray:
    """[..., P, P], Z'Z of the design matrix Z of the comparisons made, without its rows: the
    Laplacian of the graph of comparisons, bordered by kappa."""
    first, second = made.sum(-1), made.sum(-2)
    laplacian = (first + second)[..., None] * np.eye(made.shape[-1]) - made - made.mT
    border = basis.mT @ (first - second)[..., None]
    top = np.concatenate([basis.mT @ laplacian @ basis, border], axis=-1)
    total = first.sum(-1)[..., None, None]
    return np.concatenate([top, np.concatenate([border.mT, total], axis=-1)], axis=-2)


def rank(design: Design, shown: Float[Array, "N N"]) -> Int[Array, ""]:
    """Rank of the design matrix of the comparisons made, for use inside a batch; float64. The full
    count of columns is that of the contents shown by real items, D and 1."""
    if design.dtype != jnp.float64:
        raise ValueError(f"rank needs float64, got {design.dtype}: see jbt.runtime.precision")
    _check_shape(design, shown)
    items = design.item_mask
    spread = design.spread()
    scaled = design.covariates / jnp.where(spread > 0, spread, 1)
    design = Design(scaled, design.content, design.item_mask, design.n_contents).centred()
    once = ((shown > 0) & items[:, None] & items).astype(design.dtype)
    values = jnp.linalg.eigvalsh(4 * information_at_even_odds(Comparisons(once, once), design))
    return (values > NULL**2 * jnp.maximum(values.max(), 1)).sum()


def _check_shape(design: Design, shown: Any) -> None:
    n = design.n_items
    if np.shape(shown) != (n, n):
        raise ValueError(f"shown must be [{n}, {n}] for this design, got {np.shape(shown)}")
