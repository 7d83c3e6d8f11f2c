"""The judges of a user's table as one panel: who is in it, and whose biases are known to be zero.

Of a panel without such a judge only differences of biases are told, unless items share contents: in
all judges at once, quality may be traded against a covariate.
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
from jbt.own.tables.reading import TableError
from jbt.own.tables.tables import ANCHORS, Tables
from jbt.types import Design, Panel, Variant

JOINT = "joint"
"""What the judges of a panel are called together."""

NAMELESS = "all verdicts"
"""The judge of a table that names none."""

OWN, TOGETHER = "its own verdicts", "all judges together"
"""Who tells a coefficient, where it is no other judge."""


@dataclass(frozen=True, eq=False)
class Judges:
    """Who is in a panel."""

    names: tuple[str, ...]
    """As in `Tables.judges`."""
    known: np.ndarray
    """[J] whose c and kappa are known to be 0."""
    discrimination: np.ndarray
    """[J] factor on quality in each judge's logits; where `graded`, the one to begin with."""
    graded: np.ndarray
    """[J] whose discrimination is estimated. It is known for those named, and for the first judge
    whose biases are known, whose logits are the unit of quality. Without such a judge all are taken
    to discriminate alike: then only differences of c are identified, and those by this alone."""

    @classmethod
    def of(
        cls,
        tables: Tables,
        *,
        reference: str | None = None,
        discrimination: Mapping[str, float] | None = None,
    ) -> Judges:
        """The judges of tables, those called `anchors` and the reference known to be unbiased.

        Args:
          tables: with the anchors as verdicts, if they are to be (`Tables.with_anchors`).
          reference: a judge whose c and kappa are 0.
          discrimination: of some judges, by name; estimated for the others.

        Raises:
          TableError: fewer than two judges, names that differ in case alone, an unknown reference
            or one without verdicts, an unknown judge or a discrimination not above 0.
        """
        names = tuple(name or NAMELESS for name in tables.judges)
        if len(names) < 2:
            (judge,) = tables.judges
            what = "no column of judges" if judge is None else f"one judge, {judge!r}"
            raise TableError(f"a joint fit needs two judges or anchors, but there is {what}")
        folded = [name.casefold() for name in names]
        for i, name in enumerate(names):
            if folded.index(folded[i]) < i:
                other = names[folded.index(folded[i])]
                raise TableError(f"judges {other!r} and {name!r} have one name but for case")
            if folded[i] == JOINT:
                raise TableError(f"a judge is called {name!r}, as all judges are called together")
        known = np.array([name == ANCHORS and not tables.anchors.empty for name in names])
        if reference is not None:
            at = _index(names, reference, "reference")
            counts = tables.counts
            if not counts.loc[counts["judge"] == at, "n_verdicts"].sum():
                raise TableError(f"the reference {reference!r} has no verdicts but errors")
            known[at] = True
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
        """The names of those whose biases are known."""
        return tuple(name for name, known in zip(self.names, self.known, strict=True) if known)

    def identified_by(
        self, told: Callable[[np.ndarray], np.ndarray]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        """For each judge, for each of its coefficients, who tells it: its own verdicts; else those
        with whose verdicts its own do; else all judges together; nobody where the prior chooses.

        Args:
          told: which of the coefficients (c, kappa) [D + 1, J] are told by the verdicts of some
            judges [J]; more verdicts never tell less.
        """
        n = len(self.names)

        @cache
        def by(*some: int) -> np.ndarray:
            return told(np.isin(np.arange(n), some))

        for g in range(n):
            own, every = by(g)[:, g], by(*range(n))[:, g]
            found: list[list[str]] = [[OWN] if it else [] for it in own]
            # Also a judge that tells nothing of its own may tell the qualities that g lacks.
            others = [h for h in range(n) if h != g] if (every & ~own).any() else []
            for h in others:
                for names, it in zip(found, by(*sorted((g, h)))[:, g] & ~own, strict=True):
                    names += [self.names[h]] * bool(it)
            for names, it in zip(found, every, strict=True):
                names += [TOGETHER] * bool(it and not names)
            yield tuple(map(tuple, found))


def _index(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise TableError(f"no judge {name!r} ({what}): there are {', '.join(names)}")
    return names.index(name)


def known_in_words(trusted: Sequence[str]) -> str:
    """Whose biases are known, and what that means for the others'."""
    if not trusted:
        return (
            "no judge's biases are known (--reference, --anchors): unless items share contents, "
            "only differences between judges are told"
        )
    return f"c and kappa of {' and '.join(trusted)} are taken to be 0"


@dataclass(frozen=True, eq=False)
class PanelGroup:
    """A `Group` whose pools are there once, with all judges; every leaf has a leading axis over
    them."""

    index: np.ndarray
    """Which of `Tables.pools`."""
    items: Design
    design: Design
    panel: Panel
    variant: Variant
    """c and kappa of the judges whose biases are known are not free."""


def panels_of(group: Group, judges: Judges) -> PanelGroup:
    """The pools of a group with all judges."""
    n_judges = len(judges.names)
    n_pools = len(group.index) // n_judges

    def once(leaf: Array) -> Array:
        return leaf[::n_judges]

    def by_judge(leaf: Array) -> Array:
        return jnp.moveaxis(leaf.reshape(n_pools, n_judges, *leaf.shape[1:]), 1, -1)

    s = jnp.asarray(np.tile(judges.discrimination, (n_pools, 1)))
    own = jnp.asarray(np.tile(np.eye(n_judges), (n_pools, 1, 1)))
    items: Design = jax.tree.map(once, group.items)
    design: Design = jax.tree.map(once, group.design)
    free: Variant = jax.tree.map(lambda leaf: by_judge(leaf) & ~judges.known, group.variant)
    # vmap, as a container's own shapes are those of one pool.
    panel = jax.vmap(Panel)(jax.tree.map(by_judge, group.comparisons), s, own)
    return PanelGroup(group.index[::n_judges] // n_judges, items, design, panel, free)


def only(panels: Panel, some: np.ndarray) -> Panel:
    """The verdicts of some judges [J] in many panels."""

    def one(panel: Panel) -> Panel:
        made = panel.verdicts
        fewer = dataclasses.replace(made, shown=made.shown * some, wins=made.wins * some)
        return Panel(fewer, panel.discrimination, panel.sharing)

    return jax.vmap(one)(panels)
