"""What labels of some pools tell of every judge's biases, and the other pools to try it on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jbt import runtime
from jbt.experiments import declare
from jbt.own import tables
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges, panels_of
from jbt.own.fits.panel_parts import Panels
from jbt.own.shared_coefficients import laplace
from jbt.own.tables.tables import ANCHORS
from jbt.types import Comparisons, Design, Panel, Prior, Status
from sweeps._shared.recorded import spaced

if TYPE_CHECKING:
    import pandas as pd

DATASETS = {"prd": "80 questions, majority of humans", "llmbar": "LLMBar, gold labels"}
ALL, NOBODY = "all", "nobody"
"""Every judge of a set together; no judge, so that a pool is ranked by how far quality goes with
length in the labels given."""
MODELS = ("naive", "bias_aware", "mixed", "joint")
"""Without c and kappa; c chosen by the prior; the labels as if another LLM judge had given them, of
one c for all; c of every judge its own, that of the labels 0."""


class Condition(NamedTuple):
    judge: str
    model: str
    n_anchors: int
    discrimination: float


@dataclass(frozen=True, kw_only=True)
class Settings(declare.RecordedSettings):
    name: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = tuple(
        f"{name}/{table}.csv" for name in DATASETS for table in ("verdicts", "items", "anchors")
    )

    data: Path | None = None
    """Folder that has the folders prd and llmbar, in each verdicts.csv, items.csv and anchors.csv;
    default the one that the environment variable JBT_DATA names. Their digests, not the path,
    belong to the configuration."""
    n_anchors: tuple[int, ...] = (0, 10, 30, 100, 300)
    """Labels given, of the pools that are not tested (count); all of these where there are fewer.
    0 among them, for what the verdicts and the prior say without."""
    discrimination: tuple[float, ...] = (1.0, 3.0)
    """How well the labels hear quality, the judges' being 1; single judges have the first only."""
    folds: int = 5
    """Parts of the pools, each tested with what labels of the others tell (count)."""
    n_seeds: int = 4
    """Divisions into folds and draws of labels, over which a pool is averaged (count)."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c, kappa and of how quality goes with length (1/logit^2)."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """One set: its pools with every judge, the last of whom gave the labels."""

    name: str
    pools: list[str]
    judges: list[str]
    """Without the labels."""
    tables: tables.Tables
    batch: Batch
    items: Design
    """Of all pools; the covariate is log(1 + words), standardised over the set."""
    made: Comparisons
    """[P, N, N, J + 1]"""

    @classmethod
    def read(cls, s: Settings, name: str) -> Recorded:
        """At most `s.pools` of the pools, evenly spaced.

        Raises:
          ValueError: no data, or tables that cannot be read; a pool unlike the others.
        """
        paths = (s.file(f"{name}/{table}.csv") for table in ("verdicts", "items", "anchors"))
        found = tables.read(*paths, covariates=["words"], content=None)
        found = _some_pools(found, s.pools).with_anchors()
        if found.anchors.empty:
            raise ValueError(f"{name}: there are no labels (anchors.csv)")
        batch = Batch.of(found, ["words"], transform="log1p")
        first, *others = batch.groups
        if others:
            raise ValueError(f"{name}: its pools differ too much in size to be studied together")
        group = panels_of(first, Judges.of(found))
        made = group.panel.verdicts
        if not isinstance(made, Comparisons):
            raise ValueError(f"{name}: of one judge some orders are known and others not")
        names = [str(judge) for judge in found.judges[:-1]]
        return cls(name, found.pools, names, found, batch, group.items, made)

    def conditions(self, s: Settings) -> Iterator[Condition]:
        """All judges together, each alone, and none."""
        first, *others = s.discrimination
        for n, graded in product(s.n_anchors[1:], s.discrimination):
            yield Condition(NOBODY, "joint", n, graded)
        for judge in (ALL, *self.judges):
            for name in ("naive", "bias_aware"):
                yield Condition(judge, name, 0, first)
            for n in s.n_anchors[1:]:
                yield Condition(judge, "mixed", n, first)
                for graded in (first, *(others if judge == ALL else ())):
                    yield Condition(judge, "joint", n, graded)

    def learned(self, s: Settings, conditions: list[Condition]) -> dict[str, np.ndarray]:
        """The pools, and for each and every condition and seed the coefficients that labels of
        pools not tested with it tell."""
        n_judges, n_pools = len(self.judges), len(self.pools)
        c, kappa = np.zeros((2, n_pools, len(conditions), s.n_seeds, n_judges))
        slope = np.zeros((n_pools, len(conditions), s.n_seeds))
        counted = np.zeros((n_pools, len(conditions), n_judges))
        here = np.zeros((n_pools, len(conditions)), bool)
        mine = set(self.conditions(s))
        folds, order = self._divisions(s)
        for at, condition in enumerate(conditions):
            if condition not in mine:
                continue
            some = np.array([condition.judge in (ALL, name) for name in self.judges])
            counted[:, at], here[:, at] = some, True
            if condition.model == "naive":
                continue
            found = self._fitted(condition, some, folds, order, s)  # [seeds, folds, shared]
            for seed in range(s.n_seeds):
                own = found[seed, folds[seed]]  # [P, shared]
                c[:, at, seed] = own[:, :n_judges]
                kappa[:, at, seed] = own[:, n_judges + 1 : 2 * n_judges + 1]
                slope[:, at, seed] = own[:, -1]
                if condition.model == "mixed":
                    c[:, at, seed], kappa[:, at, seed] = own[:, :1], own[:, n_judges + 1][:, None]
        anchors = np.asarray(self.made.shown)[..., -1]
        return {
            "mask": np.asarray(self.items.item_mask),
            "covariates": np.asarray(self.items.covariates),
            "shown": np.asarray(self.made.shown)[..., :-1],
            "wins": np.asarray(self.made.wins)[..., :-1],
            "better": anchors > 0,
            **{"c": c, "kappa": kappa, "slope": slope, "counted": counted, "here": here},
        }

    def _divisions(self, s: Settings) -> tuple[np.ndarray, np.ndarray]:
        """Which fold each pool is in [seeds, P], and the order in which labels are given
        [seeds, labels]."""
        folds, order = [], []
        for seed in range(s.n_seeds):
            rng = np.random.default_rng([s.seed, seed])
            folds.append(rng.permutation(len(self.pools)) % s.folds)
            order.append(rng.permutation(len(self.tables.anchors)))
        return np.array(folds), np.array(order)

    def _fitted(
        self,
        condition: Condition,
        some: np.ndarray,
        folds: np.ndarray,
        order: np.ndarray,
        s: Settings,
    ) -> np.ndarray:
        """[seeds, folds, shared] the coefficients that every training set tells."""
        given = self._given(condition.n_anchors, folds, order, s)  # [seeds * folds, P, N, N]
        grade = {ANCHORS: condition.discrimination}
        judges = Judges.of(self.tables, discrimination=grade)
        joint = condition.model == "joint"
        with runtime.precision("float64"):
            panels = Panels.of(self.batch, judges)
            (part,) = panels.parts(np.array([joint]))
            loadings = np.asarray(part.loadings)
            shown, wins = (np.asarray(v) for v in (self.made.shown, self.made.wins))
            if condition.model == "mixed":
                loadings = _one_for_all(loadings, len(judges.names))
                # In an order that is not known: half a verdict in each.
                each = given[..., None] / 2
                labels = np.stack([each + each.swapaxes(2, 3), each], -1)[..., 0, :]
            else:
                labels = np.stack([given, given], -1)
            sets, keep = len(given), np.append(some, False)
            shown, wins = (np.tile(v * keep, (sets, 1, 1, 1, 1)) for v in (shown, wins))
            shown[..., -1], wins[..., -1] = labels[..., 0], labels[..., 1]
            made = [jnp.asarray(v.reshape(-1, *v.shape[2:])) for v in (shown, wins)]

            def repeated(leaf: Any) -> Array:
                return jnp.asarray(np.tile(leaf, (sets, *[1] * (np.ndim(leaf) - 1))))

            (group,) = panels.groups
            s_g, own = group.panel.discrimination, group.panel.sharing
            made = jax.vmap(Comparisons)(made[0], made[1])
            panel = jax.vmap(Panel)(made, repeated(s_g), repeated(own))
            design = jax.tree.map(repeated, part.design)
            owner = np.repeat(np.arange(sets), len(self.pools))
            whole = laplace.PoolStack(panel, design, repeated(loadings), owner)
            precision = np.full(loadings.shape[2], s.lam_b)
            top = laplace.maximum([whole], Prior(s.lam), precision, sets)
        if (top.status != Status.CONVERGED).any():
            raise ValueError(f"{self.name}: a fit of {condition} did not converge")
        return top.at[:, : len(precision)].reshape(s.n_seeds, s.folds, -1)

    def _given(self, n: int, folds: np.ndarray, order: np.ndarray, s: Settings) -> np.ndarray:
        """The labels of each training set, the first n of those whose pools are not tested."""
        anchors = self.tables.anchors
        place = self.tables.items.groupby("pool").cumcount().to_numpy()
        pool = anchors["pool"].to_numpy()
        better, worse = (place[anchors[side].to_numpy()] for side in ("better", "worse"))
        n_items = self.items.item_mask.shape[1]
        given = np.zeros((s.n_seeds, s.folds, len(self.pools), n_items, n_items))
        for seed, fold in np.ndindex(s.n_seeds, s.folds):
            usable = order[seed][folds[seed, pool[order[seed]]] != fold][:n]
            given[seed, fold, pool[usable], better[usable], worse[usable]] = 1
        return given.reshape(-1, *given.shape[2:])


def _one_for_all(loadings: np.ndarray, n_judges: int) -> np.ndarray:
    """All judges hear the first judge's c and kappa; quality has no line."""
    mixed = np.zeros_like(loadings)
    mixed[:, :n_judges, 0] = 1
    mixed[:, 2 * n_judges :, n_judges] = 1
    return mixed


def _some_pools(found: tables.Tables, most: int) -> tables.Tables:
    """At most so many of the pools, evenly spaced."""
    some = spaced(len(found.pools), most)
    number = np.full(len(found.pools), -1)
    number[some] = np.arange(len(some))
    keep = number[found.items["pool"]] >= 0
    row = np.cumsum(keep) - 1

    def of(frame: pd.DataFrame, *rows: str) -> pd.DataFrame:
        frame = frame[number[frame["pool"]] >= 0]
        moved = {name: row[frame[name]] for name in rows}
        return frame.assign(pool=number[frame["pool"]], **moved).reset_index(drop=True)

    return dataclasses.replace(
        found,
        verdicts=of(found.verdicts, "first", "second"),
        items=of(found.items),
        anchors=of(found.anchors, "better", "worse"),
        pools=[found.pools[i] for i in some],
        counts=of(found.counts),
        item_lines=found.item_lines[keep],
    )


def stacked(sets: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The pools of all sets one after the other, padded to one shape by zeros."""
    data = {}
    for name in sets[0]:
        each = [of[name] for of in sets]
        shape = np.max([v.shape[1:] for v in each], axis=0) if each[0].ndim > 1 else ()
        padded = []
        for v in each:
            more = [(0, m - n) for m, n in zip(shape, v.shape[1:], strict=True)]
            padded.append(np.pad(v, [(0, 0), *more]))
        data[name] = np.concatenate(padded)
    return data
