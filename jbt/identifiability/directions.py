"""The null space of the design matrix of the comparisons made, with names for its directions.

What the comparisons of several judges of the same items identify, with proofs:

Judge g, of given discrimination s_g, has logits s_g (theta_i - theta_j) + (x_i - x_j) . c_g +
kappa_g. Let b_g = c_g / s_g, its bias in units of quality. Every kappa_g is taken to be identified:
it is known, or judge g saw some pair in both orders, whose logits sum to 2 kappa_g. Otherwise
kappa_g is the coefficient of one more covariate, to which a step of a chain adds 1 if it goes to
the item shown first, and -1 if it goes to the other.

**Chains.** A closed chain C of comparisons goes from content to content and back to where it began,
each step being a comparison by some judge between an item i of the one content and an item j of the
next. Let X_g(C), in R^D, be the sum of x_j - x_i over the steps that judge g made. *Changes d_g of
the coefficients c_g can be undone by qualities, for every comparison made, exactly if the sum over
g of X_g(C) . d_g / s_g is 0 for every closed chain C.* So the sum over g of a_g . b_g is identified
exactly if (a_1 ... a_J) is a linear combination of vectors (X_1(C) ... X_J(C)); where coefficients
are known, their entries do not count. If the X(C) span r dimensions, there are D J - r null
directions, beside the constants, one for each connected component of contents.

Proof. The change t of the qualities undoes them if at every step t_j - t_i = -(x_j - x_i) . d_g /
s_g. Along a spanning tree of each connected component this defines t, up to a constant for each
component. It holds at the other steps as well exactly if the prescribed differences sum to 0 around
every closed chain.

**(a) Nothing known, no content rendered twice.** Every closed chain leads x back to where it was:
the X_g(C) sum to 0 over g. So theta + x . delta, c_g - s_g delta for *all g at once* is a null
direction for every delta in R^D, whatever is compared and however often: D directions beside the
constants, each trading quality against one covariate. There is no other exactly if the X(C) span
the D (J - 1) dimensions that are left, that is, if all differences b_g - b_h are identified.
For b_g - b_h it is enough that the x_i - x_j span R^D over those pairs of items that chains of
g's comparisons link and chains of h's do too: along the one from i to j and back along the other,
X_g = x_j - x_i = -X_h. For two judges and one covariate the difference is identified exactly if
along some closed chain the steps of one judge change the covariate.

**(b) A reference, judge h, whose c_h is known; again no content rendered twice.** With c_h held,
the trade delta of all others stays a null direction exactly if (x_i - x_j) . delta = 0 for every
pair that h compared, as t = x . delta must change none of them. So a reference that only compared
items of equal x identifies nothing. And *if a judge g's own comparisons link all contents, a . c_g
is identified exactly for the a in the span of the x_i - x_j of h's comparisons*: with one
covariate, as soon as h compared one pair of differing x. For g's chain closes each of h's
comparisons, with X_g = x_i - x_j, and d_h is 0, so that d_g is at right angles to all these
differences; and an a beyond their span has a delta at right angles to them, but not to a. If they
span R^D, theta is identified up to its constant, and the coefficients of any other judge exactly if
its own pairs span R^D too. Where g links only some contents, it is enough that h's pairs within
that component span R^D. Where all differences are identified as in (a), one known coefficient of
each covariate, of any judge, identifies the rest: it sets one entry of the remaining delta to 0.

**(c) A second biased judge** buys differences and nothing about the common part. By (a) only sums
of a_g . b_g whose a_g sum to 0 are identified, so the profile of each c_g is flat from end to end
for any number of judges and verdicts. The likelihood depends on theta and c through theta + x . b_1
and the b_g - b_1 alone; given these, the posterior of b_1 is what its prior says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jbt.identifiability.design_matrix import NULL, matrix_and_gram, owner
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
      variant: which coefficients are parameters, default all; those known have no column, nor have
        sets of coefficients that no judge uses.

    Raises:
      ValueError: not [N, N].
    """
    m, d = design.n_contents, design.n_covariates
    owners = [str(content) for content in range(m)] if contents is None else contents
    labels = [f"x{i + 1}" for i in range(d)] if covariates is None else covariates
    for name, given, n in (("contents", owners, m), ("covariates", labels, d)):
        if len(given) != n:
            raise ValueError(f"{n} {name}, got {len(given)} names")
    labels, to_judges = [*labels, "position"], np.ones((1, 1))
    if judges is not None and not isinstance(shown, Panel):
        raise ValueError("names of judges go with a panel, got the verdicts of one judge")
    if isinstance(shown, Panel):
        to_judges = np.asarray(shown.sharing) / np.asarray(shown.discrimination)[:, None]
        judges = judges or [f"judge {g + 1}" for g in range(len(to_judges))]
    unknown = np.tile((to_judges != 0).any(0), (d + 1, 1))
    if variant is not None:
        free = [np.asarray(variant.c), np.asarray(variant.kappa)[None]]
        unknown &= np.concatenate(free).reshape(unknown.shape)
    real = np.flatnonzero(owner(design).any(0))
    z, gram = matrix_and_gram(design, shown)
    directions, names = [], []
    for direction, moved in null_directions(z, gram, real, unknown.ravel()):
        directions.append(direction)
        coefficients = np.flatnonzero(moved[m:].reshape(unknown.shape).any(1)).tolist()
        if len(coefficients):
            change = direction[m:].reshape(unknown.shape) @ to_judges.T
            parts = ["quality"] * bool(moved[:m].any())
            parts += [labels[i] + _whose(change[i], judges) for i in coefficients]
            names.append(_trade(*parts))
        elif moved.sum() == len(real):
            names.append("adding 1 to every quality")
        else:
            linked = [owners[i] for i in np.flatnonzero(moved).tolist()]
            names.append(f"adding 1 to {_qualities(linked)}")
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


def _whose(change: np.ndarray, judges: Sequence[str] | None) -> str:
    """Names of a panel's judges whose coefficient moves, given the change [J] of each over s_g."""
    if judges is None:
        return ""
    most = np.abs(change).max()
    if np.ptp(change) <= NULL * most:
        return " in all judges at once"
    moved = [name for name, of_it in zip(judges, change, strict=True) if abs(of_it) > NULL * most]
    return f" in {' and '.join(moved)}"


def _trade(*parts: str) -> str:
    *traded, last = parts
    if not traded:
        return f"changing the coefficient of {last}, in which no comparison differs"
    return f"trading {' and '.join(traded)} against {last}"


def _qualities(contents: Sequence[str]) -> str:
    names = ", ".join(contents[:6]) + ", ..." * (len(contents) > 6)
    noun = "the quality of content" if len(contents) == 1 else "the qualities of contents"
    return f"{noun} {names}, which no comparison links to the others"
