"""The paper's judges on the paper's pools: twins of all fifteen, beside the numbers of its tables.

A twin (`jbt.twins`) is calibrated to the published c_hat, kappa_hat and naive recall, so these are
inputs. The paper's other numbers of the judge are tested: the bias-aware recall and the gain, their
significance, the correlations over judges, the baselines, recall at other k and of larger pools,
the share of uncertain pairs, and the judge's preference among answers of equal quality.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Key

from jbt import estimators, twins
from jbt.experiments.declare import Group, Sweep
from jbt.experiments.paper import PaperNumber
from jbt.experiments.plots import Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.judges import PUBLISHED, SECOND_DOMAIN
from jbt.simulation.simulate import Condition, stream
from jbt.twins import Twin
from jbt.types import Fit, Prior

from .._shared import calibration
from . import rows

ESTIMATORS = {
    "naive": estimators.naive,
    "bias_aware": estimators.bias_aware,
    "order_swap": estimators.order_swap,
    "order_swap_dropped": partial(estimators.order_swap, drop_ties=True),
    "residualised": estimators.residualised,
}
"""The paper's two models and two baselines; ties of the order swap count as halves or are
dropped."""
MODELS = tuple(ESTIMATORS)
K = (1, 3, 5, 10)
"""Sizes of the top sets of the same pools, as in the paper's table."""
TOP, LARGE, LARGE_TOP = 5, 100, 10
"""Fully correct items of a pool; items and fully correct ones of a large pool."""
LARGE_JUDGE = "llama"
N_PROBES = 40
"""Pairs of equal quality in a probe (count), each shown in both orders."""
TARGETS = [*PUBLISHED.values(), SECOND_DOMAIN]
"""Judges whose twins are simulated: those of the paper's table, and the first in its second
domain."""
AXES = {"recall": {"model": MODELS, "k": K}, **calibration.AXES}


@dataclass(frozen=True, kw_only=True)
class Judges(Sweep):
    """Twins of the paper's fifteen judges, beside every number of its tables."""

    name = "judges"
    columns = ("judge", "model", "pool", "oracle", "n_items", "k")
    presets = {
        "smoke": {"pools": 32, "large_pools": 4, "displaced_pools": 32},
        "paper": {"pools": 10, "large_pools": 10},
    }
    units = {
        "c_hat": "logits for x = 1 over x = 0",
        "kappa_hat": "logits",
        "corr_naive_x": "1 (correlation within the pool)",
        "probe_preference": "share of verdicts",
        **calibration.UNITS,
    }
    panel_size = {"height": 4.8, "below": {"ncols": 3, "fontsize": 9}}

    pools: int = 4096
    """Pools simulated of every judge (count)."""
    large_pools: int = 512
    """Pools of 100 items, of the first judge (count)."""
    others: Literal["uniform", "drawn"] = "uniform"
    """Qualities of the items that are not fully correct, which the paper leaves open: all numbers
    of false statements equally likely, or as drawn statements give them."""
    displaced_pools: int = 1024
    """Pools in which every twin is displaced by a step either way, for its calibration's error
    (count)."""

    @property
    def twins(self) -> list[Twin]:
        """Twins of `TARGETS`, in their order."""
        return [twins.twin(p.name, others=self.others) for p in TARGETS]

    @classmethod
    def paper(cls):
        """Those of paper.csv, and the numbers of each judge: those that twins are calibrated to,
        and the others."""
        out = super().paper()
        for p in twins.known().values():
            values = [
                ("recall", "naive", p.naive_recall, "calibrated"),
                ("c_hat", "bias_aware", p.c_hat, "calibrated"),
                ("recall", "bias_aware", p.bias_aware_recall, "reported"),
                ("benefit", "bias_aware", p.gain, "reported"),
            ]
            if p is not SECOND_DOMAIN:
                values.append(("kappa_hat", "bias_aware", p.kappa_hat, "calibrated"))
            for quantity, model, value, role in values:
                setting = {"judge": p.name, "model": model, "n_items": "30", "k": "5"}
                size = p.pools, None, 0.005
                out.append(PaperNumber(quantity, setting, round(value, 2), *size, role))
        return out

    def groups(self):
        itself, ways = (0.0,), twins.DISPLACED
        large = [twin for twin in self.twins if twin.name == LARGE_JUDGE]
        usual = self.twins, 30, TOP
        parts = [
            ("table", *usual, self.pools, itself),
            ("displaced", *usual, self.displaced_pools, ways),
            ("large", large, LARGE, LARGE_TOP, self.large_pools, (*itself, *ways)),
        ]
        if self.pools == self.displaced_pools:  # one program for both
            parts[:2] = [("table", *usual, self.pools, (*itself, *ways))]
        groups = []
        for name, chosen, n_items, k, n_pools, steps in parts:
            simulated = chosen * len(steps)
            displaced = np.repeat(steps, len(chosen))
            conditions = twins.conditions(simulated) | {"displaced": displaced}
            labels = {
                "judge": [twin.name for twin in simulated],
                "oracle": [twin.oracle for twin in simulated],
                "n_items": [n_items] * len(simulated),
                "displaced": displaced,
            }
            run, size = partial(self.experiment, n_items, k), (n_items, n_pools, AXES)
            groups.append(Group(name, run, conditions, labels, *size, fits=5))
        return groups

    def experiment(self, n_items, k, key, condition):
        """One twin on one pool, every ordered pair judged once, all estimators, probes."""
        draw = twins.paper_pool(self.others, n_items=n_items, k=k)
        condition, steps = twins.displaced(key, condition)
        pool = draw(stream(key, "pool"), condition)
        x = pool.design.covariates[:, 0]
        verdicts = twins.answers(key, pool, condition)
        p = twins.probability(key, pool, condition)
        comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
        fits: dict[str, Fit] = {
            name: fit(comparisons, pool.design, Prior()) for name, fit in ESTIMATORS.items()
        }
        theta = {name: fit.parameters.theta for name, fit in fits.items()}
        recall = [
            [metrics.top_k_recall(theta[name], pool.quality, size) for size in K] for name in MODELS
        ]
        other = ~jnp.eye(n_items, dtype=bool)
        in_doubt = other & (p > twins.DOUBT[0]) & (p < twins.DOUBT[1])
        aware = fits["bias_aware"].parameters
        return {
            "recall": jnp.array(recall),
            "c_hat": aware.c[0],
            "kappa_hat": aware.kappa,
            "targets": jnp.stack([aware.c[0], aware.kappa, recall[0][K.index(TOP)]]),
            "steps": steps,
            "corr_naive_x": _correlation(theta["naive"], x),
            "uncertain": in_doubt.sum() / other.sum(),
            "probe_preference": _probed(key, condition, N_PROBES),
            "status": jnp.stack([fit.status for fit in fits.values()]).max(),
        }

    def table(self, ds, t):
        rows.fill(ds, self, t)

    def headline(self, table):
        """Rows to print: those compared with a number of the paper that is no input, and counts."""
        counts = ["cells_tested", "cells_inconsistent", "targets_missed"]
        missed = table.quantity.isin(counts) & (table.estimate > 0)
        return table[rows.is_evidence(table) | missed]

    def panels(self, table):
        names = {name: p.model for name, p in PUBLISHED.items()}
        cells = {"n_items": 30, "k": 5}

        lines = [
            Line({"model": "naive"}, "without correction (as the paper's)", "orange"),
            Line({"model": "bias_aware"}, "with correction", "blue"),
        ]
        gain = [Line({"model": "bias_aware"}, "_", "blue")]
        of_names = {
            "names": list(names.values()),
            "table": table.assign(judge=table.judge.map(names)),
        }
        found = f"share of the true top {TOP} found (bars: 95 % over pools)"
        more = "Correction finds more with biased judges\nand changes little with the others"
        return [
            Panel("judge", {"quantity": "recall", **cells}, lines, (found, "", more), **of_names),
            Panel(
                "judge",
                {"quantity": "benefit", **cells},
                gain,
                ("gain by the correction (bars: 95 % over pools)", "", "The gain"),
                level=0.0,
                **of_names,
            ),
        ]


SWEEP = Judges


def _correlation(a: Array, b: Array) -> Array:
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / jnp.sqrt((a**2).sum() * (b**2).sum())


def _probed(key: Key[Array, ""], condition: Condition, n: int) -> Array:
    """Share of verdicts for the elaborated answer in n pairs of equal quality, elaborated against
    terse, in both orders. The answers have the same statements, as in the paper, so that the judge
    has no preference for the pair."""
    _, verdict_key = jax.random.split(stream(key, "probes"))
    c, kappa = condition["bias"], condition["position"]
    z = jnp.stack([kappa + c, kappa - c])[:, None]
    u = jax.random.uniform(verdict_key, (2, n), z.dtype)
    first = jnp.where(condition["argmax"] > 0, z > 0, u < sigmoid(z))
    return jnp.stack([first[0], ~first[1]]).mean()
