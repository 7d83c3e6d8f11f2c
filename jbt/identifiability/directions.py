"""The null space of the design matrix of the comparisons made, with names for its directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jbt.identifiability.design_matrix import NULL, matrix_and_gram, shown_contents
from jbt.kernel.fit import check_judges
from jbt.types import Design, Panel, Rows, Variant


@dataclass(frozen=True)
class NullSpace:
    """The null directions of the comparisons made."""

    rank: int
    """Rank of the design matrix."""
    n_columns: int
    """Number of contents in the pool plus number of unknown coefficients of c and kappa."""
    directions: np.ndarray
    """[nullity, P] a basis, in the order (theta, c, kappa)."""
    names: tuple[str, ...]
    """What each direction does."""

    @property
    def nullity(self) -> int:
        return len(self.names)


def null_space(
    design: Design,
    shown: np.ndarray | Rows | Panel,
    covariates: Sequence[str] | None = None,
    *,
    contents: Sequence[str] | None = None,
    judges: Sequence[str] | None = None,
    position: bool = True,
    variant: Variant | None = None,
) -> NullSpace:
    """A basis of the null space of the comparisons made, with a name for each direction.

    First comes one constant for each connected component of contents. Then one direction for each
    of c_1 ... c_D, kappa (for a panel each for all judges before the next) whose column is a
    combination of the columns before it: it holds the amounts that undo a change of it.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown, or rows of verdicts, or a panel.
      covariates: their names, default x1 ... xD.
      contents: their names, default 0 ... M-1.
      judges: names of a panel's judges, default judge 1 ... judge J.
      position: whether kappa is a parameter; where it is known, it has no column.
      variant: which coefficients are parameters, default all; those known have no column, nor have
        sets of coefficients that no judge uses.

    Raises:
      ValueError: not one name for each covariate, content or judge; a variant for other judges.
    """
    n_contents, n_covariates = design.n_contents, design.n_covariates
    biases = _Biases.of(shown, n_covariates, covariates, judges)
    owners = [str(m) for m in range(n_contents)] if contents is None else list(contents)
    if len(owners) != n_contents:
        raise ValueError(f"{n_contents} contents, got {len(owners)} names")
    unknown = biases.unknown(variant, position)
    real = np.flatnonzero(shown_contents(design))
    z, gram = matrix_and_gram(design, shown)
    directions, names = [], []
    for direction, moved in null_directions(z, gram, real, unknown.ravel()):
        directions.append(direction)
        if moved[n_contents:].any():
            names.append(biases.name(direction, moved, n_contents))
        elif moved.sum() == len(real):
            names.append("adding 1 to every quality")
        else:
            names.append(f"adding 1 to {_qualities([owners[m] for m in np.flatnonzero(moved)])}")
    n_columns = len(real) + int(unknown.sum())
    return NullSpace(n_columns - len(names), n_columns, np.array(directions), tuple(names))


def null_directions(
    z: np.ndarray, gram: np.ndarray, real: np.ndarray, unknown: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The directions of `null_space`, and which of their entries [P] matter.

    Args:
      z, gram: from `matrix_and_gram`.
      real: numbers of the contents.
      unknown: [P - M] which other parameters have a column.
    """
    from scipy.sparse.csgraph import connected_components

    n_components, component = connected_components(gram[np.ix_(real, real)] != 0, directed=False)
    for k in range(n_components):
        constant = np.zeros(z.shape[1])
        constant[real[component == k]] = 1
        yield constant, constant > 0
    independent, lengths = real.tolist(), np.linalg.norm(z, axis=0)
    for q in (len(lengths) - len(unknown) + np.flatnonzero(unknown)).tolist():
        column = z[:, q]
        # Least norm leaves out the constants, which change nothing.
        amounts = np.linalg.lstsq(z[:, independent], column, rcond=1e-12)[0]
        if np.linalg.norm(column - z[:, independent] @ amounts) > NULL * lengths[q]:
            independent.append(q)
            continue
        direction = np.zeros(z.shape[1])
        direction[independent], direction[q] = amounts, -1
        # A column of zeros changes no logit, whatever happens to the others.
        moved = np.abs(direction) * lengths > NULL * lengths[q]
        moved[q] = True
        yield direction, moved


@dataclass(frozen=True)
class _Biases:
    """The coefficients (c, kappa), with their names."""

    names: Sequence[str]
    """Names of the D covariates and position."""
    judges: Sequence[str] | None
    """Names of a panel's judges; None for one judge."""
    sharing: np.ndarray
    """[J, J] for a panel; [[1]] for one judge."""
    discrimination: np.ndarray
    """[J] for a panel; [1] for one judge."""

    @classmethod
    def of(
        cls,
        shown: np.ndarray | Rows | Panel,
        n_covariates: int,
        covariates: Sequence[str] | None,
        judges: Sequence[str] | None,
    ) -> _Biases:
        if covariates is None:
            covariates = [f"x{d + 1}" for d in range(n_covariates)]
        if len(covariates) != n_covariates:
            raise ValueError(f"{n_covariates} covariates, got {len(covariates)} names")
        names = [*covariates, "position"]
        if not isinstance(shown, Panel):
            if judges is not None:
                raise ValueError("names of judges go with a panel, got the verdicts of one judge")
            return cls(names, None, np.ones((1, 1)), np.ones(1))
        sharing, s = np.asarray(shown.sharing), np.asarray(shown.discrimination)
        if judges is None:
            judges = [f"judge {g + 1}" for g in range(len(s))]
        if len(judges) != len(s):
            raise ValueError(f"{len(s)} judges, got {len(judges)} names")
        return cls(names, list(judges), sharing, s)

    def unknown(self, variant: Variant | None, position: bool) -> np.ndarray:
        """[D + 1, J] which are parameters."""
        unknown = np.ones((len(self.names), len(self.sharing)), bool)
        if variant is not None:
            check_judges(variant, None if self.judges is None else len(self.judges))
            free = [np.asarray(variant.c), np.asarray(variant.kappa)[None]]
            unknown &= np.concatenate(free).reshape(unknown.shape)
        unknown[-1] &= position
        return unknown & np.any(self.sharing != 0, axis=0)

    def name(self, direction: np.ndarray, moved: np.ndarray, n_contents: int) -> str:
        """Name of a null direction [P], given which of its entries matter."""
        shape = (len(self.names), len(self.sharing))
        coefficients = np.flatnonzero(moved[n_contents:].reshape(shape).any(1)).tolist()
        change = (direction[n_contents:].reshape(shape) @ self.sharing.T) / self.discrimination
        parts = ["quality"] * bool(moved[:n_contents].any())
        parts += [self.names[d] + self._whose(change[d]) for d in coefficients]
        *traded, last = parts
        if not traded:
            differs = "in which no comparison differs"
            if self.judges is not None:
                differs = "none of whose comparisons differs in it"
            return f"changing the coefficient of {last}, {differs}"
        name = f"trading {' and '.join(traded)} against {last}"
        is_covariate = coefficients[-1] < len(self.names) - 1
        if traded == ["quality"] and is_covariate and _equal(change[coefficients[-1]]):
            c = "c - delta" if np.all(self.discrimination == 1) else "c_g - s_g delta"
            name += f": theta + delta x, {c}"
        return name

    def _whose(self, change: np.ndarray) -> str:
        """Names of the judges whose coefficient moves, given the change [J] of each over s_g."""
        if self.judges is None:
            return ""
        if _equal(change):
            return " in all judges at once"
        moved = np.abs(change) > NULL * np.abs(change).max()
        names = [name for name, moves in zip(self.judges, moved, strict=True) if moves]
        return f" in {' and '.join(names)}"


def _equal(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= NULL * np.abs(values).max())


def _qualities(contents: Sequence[str]) -> str:
    names = ", ".join(contents[:6]) + ", ..." * (len(contents) > 6)
    noun = "the quality of content" if len(contents) == 1 else "the qualities of contents"
    return f"{noun} {names}, which no comparison links to the others"
