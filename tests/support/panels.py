"""Random panels: several judges of the same items, in NumPy, on the explicit design matrix; and
panels of pairs that are written out.

Random ones are padded as in `problems`, and have `J` judges; those beyond a panel's own gave no
verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit
from support import problems
from support.problems import D, M, N, Problem

from jbt.types import Comparisons, Design, Panel, Variant

J = 3


@dataclass
class PanelProblem:
    judges: list[Problem]
    """The same items and prior, each with verdicts of its own."""
    discrimination: np.ndarray
    sharing: np.ndarray
    free_biases: np.ndarray
    """[d + 1, J]"""

    @property
    def items(self) -> Problem:
        return self.judges[0]

    def unpadded(self) -> tuple[Panel, Design, Variant]:
        each = [judge.unpadded()[0] for judge in self.judges]
        made = Panel.build(each, discrimination=self.discrimination, sharing=self.sharing)
        free = jnp.asarray(self.free_biases)
        return made, self.items.unpadded()[1], Variant(free[:-1], free[-1])

    def design_matrix(self) -> np.ndarray:
        """[pairs of all judges, m + (d + 1) J]"""
        rows = []
        for g, judge in enumerate(self.judges):
            z, m = judge.design_matrix(), judge.m
            biases = (z[:, m:, None] * self.sharing[g]).reshape(len(z), (judge.d + 1) * J)
            rows.append(np.concatenate([self.discrimination[g] * z[:, :m], biases], 1))
        return np.concatenate(rows)

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        each = [judge.counts() for judge in self.judges]
        return np.concatenate([a for a, _ in each]), np.concatenate([b for _, b in each])

    def free(self) -> np.ndarray:
        return np.r_[np.ones(self.items.m, bool), self.free_biases.ravel()]

    def precision(self) -> np.ndarray:
        q = self.items
        return np.r_[np.full(q.m, q.lam), np.full((q.d + 1) * J, q.lam_b)]


def random_panel(seed: int, *, shared: bool, n_judges: int = J, mixed: bool = False):
    """Own biases each, some known to be zero; `mixed`: sets of coefficients anyhow combined."""
    rng = np.random.default_rng([seed, 7])
    items = problems.random_problem(seed, shared=shared, lam_range=(-1.5, 1.5))
    judges = [items]
    for g in range(1, J):
        n = items.n
        shown = np.zeros((N, N))
        shown[:n, :n] = rng.integers(0, 3, (n, n)) * (rng.random((n, n)) < 0.5)
        np.fill_diagonal(shown, 0)
        shown *= g < n_judges
        phi = rng.normal(size=n) + items.x[:n] @ rng.normal(size=D)
        p = np.zeros((N, N))
        p[:n, :n] = expit(phi[:, None] - phi + rng.normal())
        judges.append(replace(items, shown=shown, wins=rng.binomial(shown.astype(int), p) * 1.0))
    free = rng.random((items.d + 1, J)) < 0.8
    s = np.exp(rng.normal(0, 0.5, J))
    sharing = np.eye(J) + mixed * rng.normal(0, 0.5, (J, J))
    return PanelProblem(judges, s, sharing, free)


def any_problem(seed: int, shared: bool | None = None):
    """Of two judges or three; contents shared in three of four, unless it is said."""
    shared = seed % 4 > 0 if shared is None else shared
    return random_panel(seed, shared=shared, n_judges=2 + seed % 2, mixed=seed % 3 == 0)


def padded(q: PanelProblem, *, shared: bool = True):
    """(panel, design, prior, variant) of one problem."""
    return jax.tree.map(lambda v: v[0], as_batch([q], shared=shared, dtype="float64"))


def places(q: PanelProblem) -> np.ndarray:
    """Where the problem's own parameters stand among the padded ones, flat."""
    m, d = q.items.m, q.items.d
    return np.r_[np.arange(m), M + np.arange(d * J), M + D * J + np.arange(J)]


def as_batch(panels: list[PanelProblem], *, shared: bool, dtype: str):
    """(panel, design, prior, variant) with a leading axis."""
    _, design, prior, _ = problems.as_batch([q.items for q in panels], shared=shared, dtype=dtype)
    fields = [
        np.array([np.stack([getattr(v, name) for v in q.judges], -1) for q in panels])
        for name in ("shown", "wins")
    ]
    fields += [
        np.array([getattr(q, name) for q in panels]) for name in ("discrimination", "sharing")
    ]
    free = np.zeros((len(panels), D + 1, J), bool)
    for of_panel, q in zip(free, panels, strict=True):
        of_panel[: q.items.d], of_panel[-1] = q.free_biases[:-1], q.free_biases[-1]

    @jax.vmap
    def made(shown, wins, s, sharing, free):
        return Panel(Comparisons(shown, wins), s, sharing), Variant(free[:-1], free[-1])

    panel, variant = made(*(jnp.asarray(v, dtype) for v in fields), jnp.asarray(free))
    return panel, design, prior, variant


def as_rows(panel: Panel, design: Design) -> tuple[Panel, Design]:
    """The same verdicts as rows, and their design."""
    each = [
        problems.rows_of_counts(jax.tree.map(lambda v, g=g: v[..., g], panel.verdicts), design)
        for g in range(panel.shown.shape[-1])
    ]
    terms = {"discrimination": panel.discrimination, "sharing": panel.sharing}
    return Panel.build([rows for rows, _ in each], **terms), each[0][1]


def made(*shown, discrimination: Any = 1.0):
    """A panel whose judges were shown these pairs; every verdict a tie."""
    each = [Comparisons.build(np.asarray(v, float), np.asarray(v) / 2) for v in shown]
    return Panel.build(each, discrimination=discrimination)


def pairs_of(n, *pairs):
    """Both orders of each pair."""
    shown = np.zeros((n, n))
    for i, j in pairs:
        shown[i, j] = shown[j, i] = 1
    return shown


def known(d, n_judges, *coefficients):
    """All free but these (covariate, judge); positions known."""
    c = np.ones((d, n_judges), bool)
    for at in coefficients:
        c[at] = False
    return Variant(jnp.asarray(c), jnp.zeros(n_judges, bool))
