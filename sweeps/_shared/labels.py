"""Biases of every judge learned from labels of some pools, and the other pools to try them on."""

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
from jbt.own.fits.shared import SharedModel
from jbt.own.shared_coefficients import marginal_fit
from jbt.own.tables.tables import ANCHORS
from jbt.types import Comparisons, Design, Panel, Prior, Status

from .recorded import spaced
from .scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd

DATASETS = {"prd": "80 questions, majority of humans", "llmbar": "LLMBar, gold labels"}
ALL, NOBODY = "all", "nobody"
"""Every judge of a set together; no judge, so that length alone ranks a pool, by its slope in the
labels given."""
MODELS = ("naive", "bias_aware", "mixed", "joint")
"""Without c and kappa; c chosen by the prior; labels taken for verdicts of another LLM judge, with
one c for all; a c for every judge, that of the labels 0."""


class Coefficients(NamedTuple):
    """Shared coefficients of fits: of J judges and then of the labels, and quality's slope."""

    c: np.ndarray
    """[..., J + 1]"""
    kappa: np.ndarray
    """[..., J + 1]"""
    slope: np.ndarray
    """[...] logits of quality per unit of the covariate."""

    @classmethod
    def of_flat(cls, shared: np.ndarray) -> Coefficients:
        """From the vectors [..., 2 J + 3] of `shared_coefficients`, of one covariate."""
        c, kappa = np.split(shared[..., :-1], 2, axis=-1)
        return cls(c, kappa, shared[..., -1])

    def of_pools(self, folds: np.ndarray) -> Coefficients:
        """From fits [seeds, folds, ...], for each pool and seed [P, seeds, ...], those of the fold
        [seeds, P] that the pool is tested in."""
        seeds = np.arange(len(folds))
        return Coefficients(*(values[seeds, folds.T] for values in self))


class Condition(NamedTuple):
    judge: str
    model: str
    n_anchors: int
    discrimination: float


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, declare.RecordedSweep):
    data_name: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = tuple(
        f"{name}/{table}.csv" for name in DATASETS for table in ("verdicts", "items", "anchors")
    )

    data: Path | None = None
    """Folder that has the folders prd and llmbar, in each verdicts.csv, items.csv and anchors.csv;
    default the one that the environment variable JBT_DATA names. Their digests, not the path,
    belong to the configuration."""
    n_anchors: tuple[int, ...] = (0, 10, 30, 100, 300)
    """Labels given, of the pools that are not tested (count), or as many as there are. 0 among
    them: the verdicts and the prior alone."""
    discrimination: tuple[float, ...] = (1.0, 3.0)
    """Factors on quality in the labels' logits, the judges' being 1; single judges have the first
    only."""
    folds: int = 5
    """Parts of the pools, each tested with what was learned from labels of the others (count)."""
    n_seeds: int = 4
    """Divisions into folds and draws of labels, over which a pool is averaged (count)."""
    lam_b: float = 0.1
    """Prior precision of c, kappa and of quality's slope in length (1/logit^2)."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """One set: its pools with every judge, the last of whom gave the labels."""

    name: str
    pools: list[str]
    judges: list[str]
    """Judges without the labels."""
    tables: tables.Tables
    batch: Batch
    items: Design
    """Items of all pools; the covariate is log(1 + words), standardised over the set."""
    made: Comparisons
    """[P, N, N, J + 1] comparisons made."""

    @classmethod
    def read(cls, s: Settings, name: str) -> Recorded:
        """Read at most `s.pools` of the pools, evenly spaced.

        Raises:
          ValueError: no data, or tables that cannot be read; a pool unlike the others.
        """
        paths = (s.file(f"{name}/{table}.csv") for table in ("verdicts", "items", "anchors"))
        whole = tables.read(*paths, covariates=["words"], content=None)
        part = _some_pools(whole, s.pools).with_anchors()
        if part.anchors.empty:
            raise ValueError(f"{name}: there are no labels (anchors.csv)")
        batch = Batch.of(part, ["words"], transform="log1p")
        first, *rest = batch.groups
        if rest:
            raise ValueError(f"{name}: its pools differ too much in size to be studied together")
        group = panels_of(first, Judges.of(part))
        made = group.panel.verdicts
        if not isinstance(made, Comparisons):
            raise ValueError(f"{name}: of one judge some orders are known and others not")
        names = [str(judge) for judge in part.judges[:-1]]
        return cls(name, part.pools, names, part, batch, group.items, made)

    def conditions(self, s: Settings) -> Iterator[Condition]:
        """Conditions with all judges together, each alone, and none."""
        first, *rest = s.discrimination
        for n, graded in product(s.n_anchors[1:], s.discrimination):
            yield Condition(NOBODY, "joint", n, graded)
        for judge in (ALL, *self.judges):
            for name in ("naive", "bias_aware"):
                yield Condition(judge, name, 0, first)
            for n in s.n_anchors[1:]:
                yield Condition(judge, "mixed", n, first)
                for graded in (first, *(rest if judge == ALL else ())):
                    yield Condition(judge, "joint", n, graded)

    def learned(self, s: Settings, conditions: list[Condition]) -> dict[str, np.ndarray]:
        """The pools, and for every condition and seed the coefficients learned from labels of
        the pools that are not tested with them."""
        n_judges, n_pools = len(self.judges), len(self.pools)
        c, kappa = np.zeros((2, n_pools, len(conditions), s.n_seeds, n_judges))
        slope = np.zeros((n_pools, len(conditions), s.n_seeds))
        counted = np.zeros((n_pools, len(conditions), n_judges))
        here = np.zeros((n_pools, len(conditions)), bool)
        conditions_here = set(self.conditions(s))
        folds, order = self._divisions(s)
        for at, condition in enumerate(conditions):
            if condition not in conditions_here:
                continue
            judges = np.array([condition.judge in (ALL, name) for name in self.judges])
            counted[:, at], here[:, at] = judges, True
            if condition.model == "naive":
                continue
            learned = self._fitted(condition, judges, folds, order, s).of_pools(folds)
            # Of one c for all, the first stands for every judge.
            columns = slice(1 if condition.model == "mixed" else n_judges)
            c[:, at], kappa[:, at] = learned.c[..., columns], learned.kappa[..., columns]
            slope[:, at] = learned.slope
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
        """Fold of each pool [seeds, P], and the order in which labels are given [seeds, labels]."""
        folds, order = [], []
        for seed in range(s.n_seeds):
            rng = np.random.default_rng([s.seed, seed])
            folds.append(rng.permutation(len(self.pools)) % s.folds)
            order.append(rng.permutation(len(self.tables.anchors)))
        return np.array(folds), np.array(order)

    def _fitted(
        self,
        condition: Condition,
        judges: np.ndarray,
        folds: np.ndarray,
        order: np.ndarray,
        s: Settings,
    ) -> Coefficients:
        """[seeds, folds, ...] the coefficients from every training set, and from the verdicts of
        the judges [J] marked."""
        given = self._given(condition.n_anchors, folds, order, s)  # [seeds * folds, P, N, N]
        grade = {ANCHORS: condition.discrimination}
        panel_judges = Judges.of(self.tables, discrimination=grade)
        joint = condition.model == "joint"
        with runtime.precision("float64"):
            model = SharedModel.of(self.batch, panel_judges)
            (part,) = model.parts(np.array([[joint]]))
            loadings = np.asarray(part.loadings)
            shown, wins = (np.asarray(v) for v in (self.made.shown, self.made.wins))
            if condition.model == "mixed":
                loadings = _one_for_all(loadings, len(panel_judges.names))
                # A label has no order: half a verdict in each.
                label_shown, label_wins = (given + given.swapaxes(2, 3)) / 2, given / 2
            else:
                label_shown, label_wins = given, given
            sets, keep = len(given), np.append(judges, False)
            shown, wins = (np.tile(v * keep, (sets, 1, 1, 1, 1)) for v in (shown, wins))
            shown[..., -1], wins[..., -1] = label_shown, label_wins
            made = [jnp.asarray(v.reshape(-1, *v.shape[2:])) for v in (shown, wins)]

            def repeated(leaf: Any) -> Array:
                return jnp.asarray(np.tile(leaf, (sets, *[1] * (np.ndim(leaf) - 1))))

            comparisons = jax.vmap(Comparisons)(*made)
            assert isinstance(part.comparisons, Panel)
            weights = part.comparisons.discrimination, part.comparisons.sharing
            panel = jax.vmap(Panel)(comparisons, *map(repeated, weights))
            design = jax.tree.map(repeated, part.design)
            owner = np.repeat(np.arange(sets), len(self.pools))
            whole = marginal_fit.PoolStack(panel, design, repeated(loadings), owner)
            precision = np.full(loadings.shape[2], s.lam_b)
            top = marginal_fit.maximum([whole], Prior(s.lam), precision, sets)
        if (top.status != Status.CONVERGED).any():
            raise ValueError(f"{self.name}: a fit of {condition} did not converge")
        return Coefficients.of_flat(
            top.at[:, : len(precision)].reshape(s.n_seeds, s.folds, len(precision))
        )

    def _given(self, n: int, folds: np.ndarray, order: np.ndarray, s: Settings) -> np.ndarray:
        """The labels of each training set, the first n of those whose pools are not tested."""
        anchors = self.tables.anchors
        place = self.tables.items.groupby("pool").cumcount().to_numpy()
        pool = anchors["pool"].to_numpy()
        better, worse = (place[anchors[side].to_numpy()] for side in ("better", "worse"))
        n_items = self.items.item_mask.shape[1]
        given = np.zeros((s.n_seeds, s.folds, len(self.pools), n_items, n_items))
        for seed, fold in np.ndindex(s.n_seeds, s.folds):
            learned_from = folds[seed, pool[order[seed]]] != fold
            labels = order[seed][learned_from][:n]
            given[seed, fold][pool[labels], better[labels], worse[labels]] = 1
        return given.reshape(-1, *given.shape[2:])


def _one_for_all(loadings: np.ndarray, n_judges: int) -> np.ndarray:
    """Loadings [F, own, shared] of all judges on the first judge's c and kappa, quality without a
    slope."""
    mixed = np.zeros(loadings.shape)
    rows = mixed.reshape(len(mixed), 3, n_judges, -1)  # of c, of quality's slope, of kappa
    rows[:, 0, :, 0] = 1
    rows[:, 2, :, n_judges] = 1
    return mixed


def _some_pools(whole: tables.Tables, most: int) -> tables.Tables:
    """The tables of at most so many of the pools, evenly spaced."""
    kept = spaced(len(whole.pools), most)
    number = np.full(len(whole.pools), -1)
    number[kept] = np.arange(len(kept))
    keep = number[whole.items["pool"]] >= 0
    row = np.cumsum(keep) - 1

    def part(frame: pd.DataFrame, *rows: str) -> pd.DataFrame:
        frame = frame[number[frame["pool"]] >= 0]
        moved = {name: row[frame[name]] for name in rows}
        return frame.assign(pool=number[frame["pool"]], **moved).reset_index(drop=True)

    return dataclasses.replace(
        whole,
        verdicts=part(whole.verdicts, "first", "second"),
        items=part(whole.items),
        anchors=part(whole.anchors, "better", "worse"),
        tied=part(whole.tied, "first", "second"),
        pools=[whole.pools[i] for i in kept],
        counts=part(whole.counts),
        item_lines=whole.item_lines[keep],
    )


def stacked(sets: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The pools of all sets one after the other, padded to one shape by zeros."""
    data = {}
    for name in sets[0]:
        arrays = [data_set[name] for data_set in sets]
        shape = np.max([v.shape[1:] for v in arrays], axis=0) if arrays[0].ndim > 1 else ()
        padded = []
        for v in arrays:
            padding = [(0, m - n) for m, n in zip(shape, v.shape[1:], strict=True)]
            padded.append(np.pad(v, [(0, 0), *padding]))
        data[name] = np.concatenate(padded)
    return data
