"""The judges of a user's table as one panel, and which of their biases are known to be zero.

Without a judge whose biases are known, only differences between the judges' biases are identified,
unless items share contents: quality can be traded against a covariate in all judges at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jbt.own.fits.batch import Group
from jbt.own.tables import limits
from jbt.own.tables.sheets import TableError
from jbt.own.tables.tables import ANCHORS, Tables
from jbt.types import Design, Panel, Variant

JOINT = "joint"
"""Name of all judges of a panel together."""

NAMELESS = "all verdicts"
"""Name of the judge where the table has none."""

OWN, TOGETHER = "its own verdicts", "all judges together"
"""Whose verdicts identify a coefficient, where it is not one other judge."""


@dataclass(frozen=True, eq=False)
class Judges:
    """The judges of a panel and what is known about them."""

    names: tuple[str, ...]
    """As in `Tables.judges`."""
    known: np.ndarray
    """[J] whether c and kappa are known to be 0."""
    discrimination: np.ndarray
    """[J] factor on quality in each judge's logits; where `graded`, the starting value."""
    graded: np.ndarray
    """[J] whether the discrimination is estimated. It is known where given by name, and for the
    first judge whose biases are known: its logits are the unit of quality. Without such a judge all
    discriminations are taken to be equal, and only this identifies the differences of c."""

    @classmethod
    def of(
        cls,
        tables: Tables,
        *,
        reference: str | None = None,
        discrimination: Mapping[str, float] | None = None,
    ) -> Judges:
        """Collect the judges of tables; `anchors` and the reference are known to be unbiased.

        Args:
          tables: with the anchors among the verdicts if wanted (`Tables.with_anchors`).
          reference: a judge whose c and kappa are 0.
          discrimination: known factors by judge; those of the others are estimated.

        Raises:
          TableError: fewer than two judges, names that differ in case alone, an unknown reference
            or one without verdicts, an unknown judge or a discrimination not above 0.
        """
        names = tuple(name or NAMELESS for name in tables.judges)
        if len(names) < 2:
            (judge,) = tables.judges
            columns = "no column of judges" if judge is None else f"one judge, {judge!r}"
            raise TableError(f"a joint fit needs two judges or anchors, but there is {columns}")
        folded = [name.casefold() for name in names]
        for i, name in enumerate(names):
            if folded.index(folded[i]) < i:
                namesake = names[folded.index(folded[i])]
                raise TableError(f"judges {namesake!r} and {name!r} have one name but for case")
            if folded[i] == JOINT:
                raise TableError(f"a judge is called {name!r}, as all judges are called together")
        known = np.array([name == ANCHORS and not tables.anchors.empty for name in names])
        if reference is not None:
            number = _index(names, reference, "reference")
            counts = tables.counts
            if not counts.loc[counts["judge"] == number, "n_verdicts"].sum():
                raise TableError(f"the reference {reference!r} has no verdicts but errors")
            known[number] = True
        s = np.ones(len(names))
        for name, value in (discrimination or {}).items():
            if not (np.isfinite(value) and value > 0):
                raise TableError(f"the discrimination of {name!r} must be above 0, got {value:g}")
            s[_index(names, name, "discrimination")] = value
        graded = ~np.isin(names, list(discrimination or {})) & known.any()
        graded[int(np.argmax(known))] = False
        return cls(names, known, s, graded)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Names of the judges whose biases are known."""
        return tuple(name for name, known in zip(self.names, self.known, strict=True) if known)

    def identified_by(
        self, identified: Callable[[np.ndarray], np.ndarray]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Whose verdicts identify each coefficient: the judge's own; else any one judge's added to
        them, each such judge listed; else all judges'; nobody where the prior chooses.

        Args:
          identified: function of a mask of judges [J]: which coefficients (c, kappa) [D + 1, J]
            their verdicts identify. More verdicts never identify less.

        Yields:
          For each judge, a tuple of names for each of its coefficients.
        """
        n = len(self.names)

        @cache
        def identified_with(*members: int) -> np.ndarray:
            return identified(np.isin(np.arange(n), members))

        for g in range(n):
            by_itself, by_all = identified_with(g)[:, g], identified_with(*range(n))[:, g]
            identifiers: list[list[str]] = [[OWN] if identifies else [] for identifies in by_itself]
            # A judge whose own c is not identified may still identify qualities that g needs.
            partners = [h for h in range(n) if h != g] if (by_all & ~by_itself).any() else []
            for h in partners:
                for names, identifies in zip(
                    identifiers, identified_with(*sorted((g, h)))[:, g] & ~by_itself, strict=True
                ):
                    names += [self.names[h]] * bool(identifies)
            for names, identifies in zip(identifiers, by_all, strict=True):
                names += [TOGETHER] * bool(identifies and not names)
            yield tuple(map(tuple, identifiers))


def _index(names: Sequence[str], name: str, argument: str) -> int:
    if name not in names:
        raise TableError(f"no judge {name!r} ({argument}): there are {', '.join(names)}")
    return names.index(name)


def known_in_words(trusted: Sequence[str]) -> str:
    """State whose biases are known, and what follows for the other judges."""
    if not trusted:
        return (
            "no judge's biases are known (--reference, --anchors): unless items share contents, "
            "only differences between judges are identified"
        )
    return f"c and kappa of {' and '.join(trusted)} are taken to be 0"


@dataclass(frozen=True, eq=False)
class PanelGroup:
    """A `Group` with each pool once, for all judges; every leaf has a leading axis over pools."""

    index: np.ndarray
    """Positions of the pools in `Tables.pools`."""
    items: Design
    design: Design
    panel: Panel
    variant: Variant
    """c and kappa of the judges whose biases are known are fixed."""


def panels_of(group: Group, judges: Judges) -> PanelGroup:
    """Rearrange the pools of a group so that each holds all judges."""
    n_pools, n_judges = group.row.shape
    first = group.row[:, 0]
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(group.comparisons)) // len(group.index)
    what = f"joint tables of the verdicts of {n_judges} judges on {n_pools} pools"
    limits.check(3 * size * group.row.size, what, limits.ALONE)

    def first_judge(leaf: Array) -> Array:
        return leaf[first]

    def by_judge(leaf: Array) -> Array:
        return jnp.moveaxis(leaf[group.row], 1, -1)

    s = jnp.asarray(np.tile(judges.discrimination, (n_pools, 1)))
    sharing = jnp.asarray(np.tile(np.eye(n_judges), (n_pools, 1, 1)))
    items: Design = jax.tree.map(first_judge, group.items)
    design: Design = jax.tree.map(first_judge, group.design)
    free: Variant = jax.tree.map(lambda leaf: by_judge(leaf) & ~judges.known, group.variant)
    # vmap, as a container's own shapes are those of one pool.
    panel = jax.vmap(Panel)(jax.tree.map(by_judge, group.comparisons), s, sharing)
    return PanelGroup(group.index[first] // n_judges, items, design, panel, free)


def only(panels: Panel, judges: np.ndarray) -> Panel:
    """Keep the verdicts of the judges in a mask [J], in many panels."""

    def of_panel(panel: Panel) -> Panel:
        verdicts = panel.verdicts
        kept = dataclasses.replace(
            verdicts, shown=verdicts.shown * judges, wins=verdicts.wins * judges
        )
        return Panel(kept, panel.discrimination, panel.sharing)

    return jax.vmap(of_panel)(panels)
