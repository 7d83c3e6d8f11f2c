"""Trusted labels as one more judge: how many of them does it take to tell what LLM judges pay for
length?

Two sets of recorded verdicts: three judges on 80 questions that five models answer, with the
majority of humans where it decides, and six judges on the 419 pairs of LLMBar, with gold labels.
Every answer owns its quality, so that the judges' verdicts alone leave c to the prior.

Some labels of the pools that are learned from are given as verdicts of a judge without bias
(`own.panels`). A pool is then ranked by the judges' verdicts on it, corrected by the coefficients
learned elsewhere: no label of a pool, nor of any other pool it is tested with, is ever given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import model, runtime, study, sweep
from jbt.fit import fit_map
from jbt.own import shared, tables
from jbt.own.batch import Batch
from jbt.own.panel_parts import Panels
from jbt.own.panels import Judges, panels_of
from jbt.own.tables import ANCHORS
from jbt.types import Comparisons, Design, Panel, Parameters, Prior, Status, check_positive
from sweeps._recorded import spaced
from sweeps.real_judges import agreement_with

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.tables import Table

DATASETS = {"prd": "80 questions, majority of humans", "llmbar": "LLMBar, gold labels"}
ALL, NOBODY = "all", "nobody"
"""Every judge of a set together; no judge, so that a pool is ranked by how far quality goes with
length in the labels given."""
MODELS = ("naive", "bias_aware", "mixed", "joint")
"""Without c and kappa; c chosen by the prior; the labels as if another LLM judge had given them, of
one c for all; c of every judge its own, that of the labels 0."""


@dataclass(frozen=True, kw_only=True)
class Settings(sweep.RecordedSettings):
    name: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = tuple(
        f"{name}/{table}.csv" for name in DATASETS for table in ("verdicts", "items", "anchors")
    )

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


PRESETS = {
    "smoke": Settings(pools=24, n_anchors=(0, 30), discrimination=(1.0,), folds=2, n_seeds=1),
    "paper": Settings(n_seeds=1),
    "full": Settings(),
}


class Condition(NamedTuple):
    judge: str
    model: str
    n_anchors: int
    discrimination: float


def groups(s: Settings) -> list[sweep.Group]:
    sweep.check_increasing("n_anchors", s.n_anchors, least=0, needed=0)
    for name in ("lam", "lam_b", "discrimination"):
        check_positive(name, getattr(s, name))
    if s.folds < 2 or s.n_seeds < 1:
        raise ValueError(f"folds must be 2 or more, n_seeds 1 or more: {s.folds}, {s.n_seeds}")
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for null directions, got {s.dtype}")
    sets = [Recorded.read(s, name) for name in DATASETS]
    conditions = list(dict.fromkeys(c for of in sets for c in of.conditions(s)))
    data = _stacked([of.learned(s, conditions) for of in sets])
    prior = Prior(s.lam, s.lam_b)
    return [
        sweep.Group(
            "pools",
            lambda key, condition, pool: experiment(condition["index"], pool, prior),
            {"index": np.arange(len(conditions))},
            {name: [getattr(c, name) for c in conditions] for name in Condition._fields},
            n_items=data["mask"].shape[1],
            pools=len(data["mask"]),
            fits=s.n_seeds,
            data=data,
            pool_labels={
                "dataset": [of.name for of in sets for _ in of.pools],
                "question": [pool for of in sets for pool in of.pools],
            },
        )
    ]


def experiment(index: Any, pool: dict[str, Any], prior: Prior) -> dict[str, Array]:
    """One pool, ranked by the verdicts on it and the coefficients learned elsewhere. NaN without
    labels, or for judges of another set."""
    counted, here = pool["counted"][index], pool["here"][index]
    panel = Panel(
        Comparisons(pool["shown"] * counted, pool["wins"] * counted),
        jnp.ones_like(counted),
        jnp.eye(len(counted), dtype=counted.dtype),
    )
    x = pool["covariates"]
    design = Design(x, None, pool["mask"], len(x))
    fixed = model.variant("naive", design, len(counted))

    def once(
        c: Float[Array, " J"], kappa: Float[Array, " J"], slope: Float[Array, ""]
    ) -> tuple[Array, Array]:
        # About its line in the covariate, quality is drawn from the prior.
        known = Parameters(jnp.zeros_like(x[:, 0]), (c + slope)[None], kappa)
        fit = fit_map(panel, design, prior, fixed, start=known)
        quality = fit.parameters.theta + slope * x[:, 0]
        return agreement_with(pool["better"], quality[:, None] - quality), fit.status

    learned = [pool[name][index] for name in ("c", "kappa", "slope")]
    agreement, status = jax.vmap(once)(*learned)
    c = (learned[0] * counted).sum(1) / counted.sum()  # NaN of nobody

    def defined(value: Array) -> Array:
        return jnp.where(here, value, jnp.nan)

    return {
        "agreement": defined(agreement.mean()),
        "c_hat": defined(c.mean()),
        "slope": defined(learned[2].mean()),
        "status": jnp.where(here, status.max(), Status.CONVERGED),
    }


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
        if len(batch.groups) > 1:
            raise ValueError(f"{name}: its pools differ too much in size to be studied together")
        (group,) = (panels_of(g, Judges.of(found)) for g in batch.groups)
        names = [str(judge) for judge in found.judges[:-1]]
        return cls(name, found.pools, names, found, batch, group.items, group.panel.verdicts)

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
            hears = np.asarray(part.hears)
            shown, wins = (np.asarray(v) for v in (self.made.shown, self.made.wins))
            if condition.model == "mixed":
                hears = _one_for_all(hears, len(judges.names))
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
            panel = jax.vmap(
                lambda shown, wins, s_g, own: Panel(Comparisons(shown, wins), s_g, own)
            )(*made, repeated(s_g), repeated(own))
            design = jax.tree.map(repeated, part.design)
            owner = np.repeat(np.arange(sets), len(self.pools))
            whole = shared.Part(panel, design, repeated(hears), owner)
            precision = np.full(hears.shape[2], s.lam_b)
            bias, top = shared.maximum([whole], Prior(s.lam), precision, sets)
        if (top.status != Status.CONVERGED).any():
            raise ValueError(f"{self.name}: a fit of {condition} did not converge")
        return bias.reshape(s.n_seeds, s.folds, -1)

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


def _one_for_all(hears: np.ndarray, n_judges: int) -> np.ndarray:
    """All judges hear the first judge's c and kappa; quality has no line."""
    mixed = np.zeros_like(hears)
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


def _stacked(sets: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
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


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    raw = ds.load()
    for name in DATASETS:
        own = raw.isel(pool=np.flatnonzero(raw["dataset"] == name))
        for at in range(own.sizes["condition"]):
            one = own.isel(condition=at)
            if np.isnan(one["agreement"]).all():
                continue
            here, of = {"dataset": name}, Condition(*(one[f].item() for f in Condition._fields))
            t.means("agreement", one["agreement"], **here)
            if of.model == "joint":
                t.add("slope", float(one["slope"].mean()), **here, **of._asdict())
            if of.judge == NOBODY:
                continue
            if of.model != "naive":
                naive = _of(own, Condition(of.judge, "naive", 0, s.discrimination[0]))
                t.means("benefit", one["agreement"] - naive["agreement"].values, **here)
                t.add("c_hat", float(one["c_hat"].mean()), **here, **of._asdict())
            if of.model == "joint":
                alone = _of(own, of._replace(judge=NOBODY))
                gain = one["agreement"] - alone["agreement"].values
                t.means("gain_over_no_judge", gain, **here)


def _of(own: xr.Dataset, condition: Condition) -> xr.Dataset:
    wanted = np.all([own[name] == v for name, v in condition._asdict().items()], axis=0)
    return own.isel(condition=int(np.flatnonzero(wanted)[0]))


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    told = table.quantity.isin(["agreement", "benefit", "gain_over_no_judge", "c_hat"])
    return table[(table.judge == ALL) & told]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from jbt import plots

    fig, axes = plots.new_figure(len(DATASETS), width=6.0, height=4.4)
    rows = table[(table.quantity == "agreement") & table.judge.isin([ALL, NOBODY])]
    places = {n: i for i, n in enumerate(s.n_anchors)}
    colours = dict(zip(MODELS, ("orange", "blue", "grey", "green"), strict=True))
    for ax, (name, what) in zip(np.atleast_1d(axes), DATASETS.items(), strict=True):
        own = rows[rows.dataset == name]
        for (judge, variant, graded), line in own.groupby(
            ["judge", "model", "discrimination"], sort=False
        ):
            colour = colours[str(variant)]
            label = str(variant)
            if judge == NOBODY:
                if graded != s.discrimination[0]:
                    continue
                colour, label = "purple", "length alone, no judge"
            elif variant == "joint" and len(s.discrimination) > 1:
                label += f", labels of discrimination {graded:g}"
            at = np.array([places[int(n)] for n in line.n_anchors], float)
            if variant in ("naive", "bias_aware"):
                level = float(line.estimate.iloc[0])
                ax.axhline(level, color=plots.COLOURS[colour], ls="--", label=label)
                continue
            shift = 0.08 * (MODELS.index(str(variant)) - 2) + 0.08 * (graded != s.discrimination[0])
            shift -= 0.08 * (judge == NOBODY)
            marker = "o" if graded == s.discrimination[0] else "s"
            plots.points(ax, line, at + shift, colour=colour, label=label, fmt=marker)
        ax.set_xticks(list(places.values()), [str(n) for n in places])
        ax.set_xlabel("labels given (count)")
        ax.set_ylabel("agreement with labels that were not given (95 %)")
        ax.set_title(what)
    np.atleast_1d(axes)[0].legend(fontsize=8)
    return fig


SWEEP = sweep.Sweep(
    "several_judges",
    "How many trusted labels tell what several LLM judges pay for length, on two recorded sets.",
    PRESETS,
    groups,
    ("dataset", "judge", "model", "n_anchors", "discrimination"),
    table,
    figure,
    units={
        "judge": "name",
        "dataset": "name",
        "question": "name",
        "n_anchors": "count",
        "discrimination": "1 (of the labels)",
        "agreement": "1 (share of labelled pairs; ties are halves)",
        "c_hat": "logits per standard deviation of log(1 + words), mean over the judges",
        "slope": "logits of quality per standard deviation of log(1 + words)",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(study.main(SWEEP))
