"""What to do with the next twenty labels: recall against the number of trusted labels, for a gate
and for uses of labels without a switch.

    gate_sign         switch the correction on or not (`jbt.gate`)
    fuse_correlated   labels of pairs are verdicts of a reference, fitted beside the judge's
                      (`jbt.estimators.reference.correlated`)
    adjudicate        labels of contents correct the naive top k directly (`_shared/adjudicate.py`)
    naive, bias_aware, best   without labels; `best` is the better of the two in each pool, as of a
                      gate that never errs

All methods of a pool see the same labels:

    disputed, boundary  which of two contents is better: pairs that the two rankings order
                      differently; those near the boundary of the top k by either
    members           is it one of the truly best k: contents that one top k alone has (the gate:
                      draws with replacement in random order, `n_labels` counts these)
    contents          then all other contents, nearest to the boundary first
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Key

from jbt import gate
from jbt.estimators import reference
from jbt.estimators.reference import PLACEMENTS, Rankings
from jbt.experiments.declare import Group, Sweep, cases, check_increasing
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel
from jbt.simulation import judges, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, ScalarLike

from ._shared.adjudicate import adjudicate, labelled
from ._shared.rankings import both_rankings
from ._shared.scenario import Correlated, VaryingBias, every_verdict

PLACED = ("disputed", "boundary")
"""Labels of pairs, by their placement in `PLACEMENTS`."""
TURNS = ("members", "contents")
"""Labels of contents, by their order in `labelled`."""
ALONE = ("naive", "bias_aware", "best")
LINES = {
    ("gate_sign", "disputed"): ("blue", ":", "gate: a switch, by disputed pairs"),
    ("gate_sign", "members"): ("orange", ":", "gate: a switch, by answers"),
    ("fuse_correlated", "disputed"): ("blue", "-", "fuse: disputed pairs in the fit"),
    ("fuse_correlated", "boundary"): ("green", "-", "fuse: pairs at the boundary in the fit"),
    ("adjudicate", "members"): ("sky", "-", "adjudicate: answers of one top k alone"),
    ("adjudicate", "contents"): ("vermilion", "-", "adjudicate: then other answers"),
}
"""Method and the labels it is tried on -> colour, line style and name in the figure."""
NOISE = (0.0, 0.1)
"""Chances that a label is wrong, for all methods alike."""
ALPHA = 0.05
"""Level of the sign test."""
DISCRIMINATION = 4.0
"""Discrimination that the fit assumes of a label of a pair, as a factor on the judge's (pure
number). True labels never err and so have none; the larger it is, the more a label moves the fit,
and the more a wrong one harms."""
JUDGE = judges.GATED["llama"]


class Cell(NamedTuple):
    """A condition."""

    rho: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class LabelBudget(Correlated, VaryingBias, Sweep):
    """What to do with the next twenty labels: recall against labels, by the use made of them."""

    name = "label_budget"
    columns = ("rho", "method", "labels", "n_labels", "noise")
    presets = {
        "smoke": {
            "pools": 16,
            "n_items": 10,
            "k": 2,
            "rho": (0.0, 0.6),
            "n_labels": (0, 4, 20),
        },
        "paper": {"pools": 30},  # as its crossings; it has no such experiment
    }
    units = {
        "noise": "share of labels",
        "n_labels": "labels (of a gate on members: draws)",
    }
    panel_size = {
        "width": 4.6,
        "height": 3.6,
        "below": {"ncols": 2, "fontsize": 9},
    }

    covariate: pools.CovariateKind = "binary"
    rho: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.75)
    n_labels: Annotated[tuple[int, ...], partial(check_increasing, least=0, needed=0.0)] = (
        0,
        2,
        4,
        6,
        10,
        20,
        40,
        60,
    )
    """Labels (count), increasing from 0."""

    def check(self):
        super().check()
        self.check_grid()

    def groups(self):
        several = [f"{m}_{labels}_{what}" for m, labels in LINES for what in ("recall", "used")]
        several += [f"status_fuse_correlated_{labels}" for labels in PLACED]
        by_number = {"n_labels": self.n_labels}
        return [
            Group(
                "label_budget",
                self.experiment,
                **cases([Cell(*cell) for cell in product(self.rho, NOISE)]),
                n_items=self.n_items,
                pools=self.pools,
                axes=dict.fromkeys(several, by_number),
                fits=2 + 6 * len(self.n_labels),
            )
        ]

    def experiment(self, key, condition):
        """Every ordered pair judged once, two rankings, and every use of labels."""
        pool = self.draw(key, condition, self.covariate)
        design, cheap = pool.design, every_verdict(key, pool, self.growing(JUDGE))
        critical = gate.critical_values(ALPHA, self.n_labels[-1])
        r, out = both_rankings(pool, cheap, self.prior, self.k)
        order = jax.random.permutation(stream(key, "ties"), design.n_contents)
        t = gate.tops(r, order)

        def recall(top: Array) -> Array:
            return gate.recall(top, t.good, self.k)

        naive, aware = recall(t.naive), recall(t.bias_aware)
        out |= {"naive_recall": naive, "bias_aware_recall": aware}
        noise = condition["noise"]
        numbers = jnp.asarray(np.array(self.n_labels), design.dtype)

        def gates(labels: str, right: Array, wrong: Array, used: Array) -> None:
            enabled = gate.decide("sign", right, wrong, critical=critical)
            out[f"gate_sign_{labels}_recall"] = jnp.where(enabled, aware, naive)
            out[f"gate_sign_{labels}_used"] = used

        def asked(placement: str) -> Comparisons:
            pairs_key = stream(key, "pairs")
            return jax.vmap(lambda n: pair_labels(pairs_key, r, placement, n, noise))(numbers)

        counts = jax.tree.map(lambda *v: jnp.stack(v), *map(asked, PLACED))

        def fused(counts: Comparisons) -> tuple[Array, Array]:
            panel = reference.beside(cheap, counts, DISCRIMINATION)
            fit, _ = reference.correlated(panel, design, self.prior)
            top = gate.exact_top(fit.parameters.theta, self.k, order, design.content_mask())
            return recall(top), fit.status

        recalls, status = jax.vmap(jax.vmap(fused))(counts)
        used = counts.shown.sum((2, 3))
        for i, labels in enumerate(PLACED):
            name = f"fuse_correlated_{labels}"
            out[f"{name}_recall"], out[f"{name}_used"] = recalls[i], used[i]
            out[f"status_{name}"] = status[i]
        disputed = jax.tree.map(lambda v: v[PLACED.index("disputed")], counts)
        gates(
            "disputed", *jax.vmap(lambda c: discordant(c, r))(disputed), disputed.shown.sum((1, 2))
        )

        # One label a content for all methods, right or wrong.
        wrong = jax.random.uniform(stream(key, "noise"), t.good.shape, design.dtype) < noise
        says = t.good ^ wrong
        alone = gate.members(r, dataclasses.replace(t, good=says))
        drawn, _ = gate.of_members(stream(key, "draws"), *alone, self.n_labels[1:], sets=1)
        gates("members", *(jnp.pad(v[0], (1, 0)) for v in (drawn.right, drawn.wrong, drawn.used)))
        for turns in TURNS:

            def mended(n: Array, turns: str = turns) -> tuple[Array, Array]:
                bought = labelled(stream(key, "contents"), r, t, turns, n)
                return recall(adjudicate(r, t, order, bought, says)), bought.sum()

            recalls, used = jax.vmap(mended)(numbers)
            out[f"adjudicate_{turns}_recall"], out[f"adjudicate_{turns}_used"] = recalls, used
        return out

    def table(self, ds, t):
        true = where(ds, noise=NOISE[0]).drop_vars("noise")
        naive, aware = true["naive_recall"], true["bias_aware_recall"]
        for method, recall in zip(ALONE, (naive, aware, np.maximum(naive, aware)), strict=True):
            t.means("recall", recall, method=method)
        for method, labels in LINES:
            name = f"{method}_{labels}"
            t.means("recall", ds[f"{name}_recall"], method=method, labels=labels)
            t.means("labels_used", ds[f"{name}_used"], method=method, labels=labels)

    def headline(self, table):
        """Recall with the most true labels, and without any."""
        shown = where(table, quantity="recall")
        with_labels = where(shown, n_labels=self.n_labels[-1], noise=NOISE[0])
        return pd.concat([where(shown, method=ALONE), with_labels])

    def panels(self, table):
        """Recall against true labels, for the least and the largest correlation."""
        lines = [
            Line({"method": method, "labels": labels}, label, colour, {"ls": ls})
            for (method, labels), (colour, ls, label) in LINES.items()
        ]

        def panel(rho: float, title: str) -> Panel:
            recalls = where(table, quantity="recall", rho=rho)
            return Panel(
                "n_labels",
                {"noise": NOISE[0]},
                lines,
                (
                    "true labels (line: the best that a switch can do)",
                    f"recall of the top {self.k} (bands: 95 %)",
                    f"Labels that correct answers beat any switch\n({title}: correlation {rho:g})",
                ),
                level=where(recalls, method="best").estimate.iloc[0],
                table=recalls,
            )

        ends = {self.rho[0]: "where correction helps", self.rho[-1]: "where correction hurts"}
        return [panel(*end) for end in ends.items()]


def pair_labels(
    key: Key[Array, ""], r: Rankings, placement: str, n_labels: ScalarLike, noise: ScalarLike = 0.0
) -> Comparisons:
    """Labels of unordered pairs, which of the two is better, none labelled twice; all pairs if
    `n_labels` is larger. With the same key, a smaller number gives a subset of a larger, and a pair
    has the same label in every placement.

    Args:
      key: PRNG key, consumed.
      r: the rankings of a pool whose quality is known.
      placement: which pairs, a name in `PLACEMENTS`.
      n_labels: pairs; may be traced.
      noise: chance that a label is reversed.

    Returns:
      Counts of a judge who sees each of these pairs once, in the order of the items; a pair tied in
      quality is half a win.
    """
    key_pairs, key_noise = jax.random.split(key)
    quality = r.pool.design.of_items(r.pool.quality)
    lead = jnp.sign(quality[:, None] - quality)
    turned = jax.random.uniform(key_noise, lead.shape, lead.dtype) < noise
    wins = (1 + jnp.where(turned, -lead, lead)) / 2
    shown = reference.asked(key_pairs, jnp.triu(PLACEMENTS[placement](r), 1), n_labels)
    return Comparisons(shown, shown * wins)


def discordant(labels: Comparisons, r: Rankings) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Number of labels, on pairs that the two rankings order differently, that say bias-aware is
    right, and number that say naive is: the input of a rule in `rules`."""
    aware = r.pool.design.of_items(r.bias_aware)
    direction = 2 * labels.wins - labels.shown
    agreement = reference.disputed(r) * direction * jnp.sign(aware[:, None] - aware)
    return jnp.maximum(agreement, 0).sum(), jnp.maximum(-agreement, 0).sum()


SWEEP = LabelBudget

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
