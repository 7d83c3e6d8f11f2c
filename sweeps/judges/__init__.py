"""The paper's judges on the paper's pools: twins of all fifteen, beside the numbers of its tables.

A twin (`jbt.twins`) is calibrated to the published c_hat, kappa_hat and naive recall, so these are
inputs. The paper's other numbers of the judge are tested: the bias-aware recall and the gain, their
significance, the correlations over judges, the baselines, recall at other k and of larger pools,
how often verdicts flip, and the judge's preference among answers of equal quality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Key

from jbt import estimators, twins
from jbt.experiments import declare
from jbt.experiments.paper import PaperNumber
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.judges import PUBLISHED, SECOND_DOMAIN, Published
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.twins import Twin
from jbt.types import Fit, Prior

from .._shared import calibration
from . import drawing, findings_page, rows

if TYPE_CHECKING:
    import xarray as xr

    from jbt.experiments.table import Table

MODELS = ("naive", "bias_aware", "order_swap", "order_swap_dropped", "residualised")
"""The paper's two models and two baselines; ties of the order swap count as halves or are
dropped."""
K = (1, 3, 5, 10)
"""Sizes of the top sets of the same pools, as in the paper's table."""
TOP, LARGE, LARGE_TOP = 5, 100, 10
"""Fully correct items of a pool; items and fully correct ones of a large pool."""
LARGE_JUDGE = "llama"
UNITS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Factors on all logits, which leave the likelier verdict unchanged."""
LEVELS = (-6, -4, -2, 0, 2, 4, 6)
"""Possible qualities (true less false statements)."""
COLUMNS = ("judge", "model", "pool", "oracle", "n_items", "k")


@dataclass(frozen=True, kw_only=True)
class Settings(declare.Sweep):
    pools: int = 4096
    """Pools simulated of every judge (count)."""
    large_pools: int = 512
    """Pools of 100 items, of the first judge (count)."""
    judge: tuple[str, ...] = tuple(PUBLISHED)
    """Judges of the paper's table whose twins are simulated."""
    oracle: Literal["own", "argmax", "draws"] = "own"
    """How verdicts are cached: as each judge's were (own), or one way for all."""
    others: Literal["uniform", "drawn"] = "uniform"
    """Qualities of the items that are not fully correct, which the paper leaves open: all numbers
    of false statements equally likely, or as drawn statements give them."""
    displaced_pools: int = 1024
    """Pools in which every twin is displaced by a step either way, for its calibration's error
    (count)."""
    n_probes: int = 40
    """Pairs of equal quality in a probe (count), each shown in both orders."""


PRESETS = {
    "smoke": Settings(pools=32, large_pools=4, displaced_pools=32),
    "paper": Settings(pools=10, large_pools=10),
    "full": Settings(),
}


def experiment(s: Settings, n_items: int, k: int) -> Experiment:
    """Experiment: one twin on one pool, every ordered pair judged once, all estimators, probes."""
    draw = twins.paper_pool(s.others, n_items=n_items, k=k)
    models = {
        "naive": estimators.naive,
        "bias_aware": estimators.bias_aware,
        "order_swap": estimators.order_swap,
        "order_swap_dropped": lambda *given: estimators.order_swap(*given, ties="dropped"),
        "residualised": estimators.residualised,
    }

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        condition, steps = twins.displaced(key, condition)
        pool = draw(stream(key, "pool"), condition)
        x = pool.design.covariates[:, 0]
        verdicts = twins.answers(key, pool, condition)
        p = twins.probability(key, pool, condition)
        comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
        fits: dict[str, Fit] = {
            name: fit(comparisons, pool.design, Prior()) for name, fit in models.items()
        }
        theta = {name: fit.parameters.theta for name, fit in fits.items()}
        recall = [
            [metrics.top_k_recall(theta[name], pool.quality, size) for size in K] for name in MODELS
        ]
        other = ~jnp.eye(n_items, dtype=bool)
        differs = {
            "argmax": jnp.minimum(p, 1 - p),  # between a fresh draw and the likelier verdict
            "draws": 2 * p * (1 - p),  # between two draws
        }
        flips = jnp.where(condition["argmax"] > 0, differs["argmax"], differs["draws"])
        louder = jax.nn.sigmoid(jnp.array(UNITS)[:, None, None] * jnp.log(p / (1 - p)))
        above = theta["naive"] - metrics.kth_largest(theta["naive"], k)
        elaborated = x == jnp.array([0, 1])[:, None, None]
        kind = elaborated & (pool.quality == jnp.array(LEVELS)[:, None])
        aware = fits["bias_aware"].parameters
        return {
            "recall": jnp.array(recall),
            "c_hat": aware.c[0],
            "kappa_hat": aware.kappa,
            "targets": jnp.stack([aware.c[0], aware.kappa, recall[0][K.index(TOP)]]),
            "steps": steps,
            "corr_naive_x": _correlation(theta["naive"], x),
            "corr_residualised": _correlation(theta["residualised"], theta["bias_aware"]),
            "flip_rate": jnp.where(other, flips, 0).sum() / other.sum(),
            "position_flips": (other & (verdicts == verdicts.T)).sum() / other.sum(),
            "uncertain": (other & _in_doubt(p)).sum() / other.sum(),
            "unit_flip_rate": jnp.where(other, jnp.minimum(louder, 1 - louder), 0).sum((1, 2))
            / other.sum(),
            "unit_uncertain": (other & _in_doubt(louder)).sum((1, 2)) / other.sum(),
            "boundary": jnp.where(kind, above, 0).sum(-1) / kind.sum(-1),
            **_probes(key, condition, s.n_probes),
            "status": jnp.stack([fit.status for fit in fits.values()]).max(),
        }

    return one


def _correlation(a: Array, b: Array) -> Array:
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / jnp.sqrt((a**2).sum() * (b**2).sum())


def _in_doubt(p: Array) -> Array:
    return (p > twins.DOUBT[0]) & (p < twins.DOUBT[1])


def _probes(key: Key[Array, ""], condition: Condition, n: int) -> dict[str, Array]:
    """Verdicts on n pairs of equal quality, elaborated against terse, in both orders: shares for
    the elaborated answer and for the first shown. The answers have the same statements, as in the
    paper, and the judge has no preference for the pair; or they have others, and it has one."""
    noise_key, verdict_key = jax.random.split(stream(key, "probes"))
    e = condition["pair_noise"] * jax.random.normal(noise_key, (n,), condition["bias"].dtype)
    u = jax.random.uniform(verdict_key, (2, n), e.dtype)
    out = {}
    for name, preference in (("", jnp.zeros_like(e)), ("_other_content", e)):
        pull = condition["bias"] + preference  # towards the elaborated, whichever is shown first
        z = jnp.stack([pull + condition["position"], -pull + condition["position"]])
        first = jnp.where(condition["argmax"] > 0, z > 0, u < sigmoid(z))
        out[f"probe_preference{name}"] = jnp.stack([first[0], ~first[1]]).mean()
        out[f"probe_first{name}"] = first.mean()
    return out


def targets(s: Settings) -> list[Published]:
    """Judges whose twins are simulated: those asked for, and the first in its second domain."""
    return [*(PUBLISHED[name] for name in s.judge), SECOND_DOMAIN]


def twins_of(s: Settings) -> list[Twin]:
    """Twins of the `targets`, in their order."""
    oracle = None if s.oracle == "own" else s.oracle
    return [twins.twin(p.name, oracle=oracle, others=s.others) for p in targets(s)]


def groups(s: Settings) -> list[declare.Group]:
    if unknown := [name for name in s.judge if name not in PUBLISHED]:
        raise ValueError(f"unknown judge {unknown[0]!r}: one of {', '.join(PUBLISHED)}")
    declare.check_listed("judge", s.judge, list(PUBLISHED))
    declare.check_listed("others", (s.others,), pools.OTHERS)
    for name in ("n_probes", "large_pools", "displaced_pools"):
        if getattr(s, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(s, name)}")
    all_twins = twins_of(s)
    large = [twin for twin in all_twins if twin.name == LARGE_JUDGE]
    axes = {
        "recall": {"model": list(MODELS), "k": list(K)},
        "boundary": {"elaborated": [0, 1], "quality": list(LEVELS)},
        "unit_flip_rate": {"unit": list(UNITS)},
        "unit_uncertain": {"unit": list(UNITS)},
    }
    axes |= calibration.AXES
    itself, ways = (0.0,), twins.DISPLACED
    parts = [
        ("table", all_twins, 30, TOP, s.pools, itself),
        ("displaced", all_twins, 30, TOP, s.displaced_pools, ways),
        ("large", large, LARGE, LARGE_TOP, s.large_pools, (*itself, *ways)),
    ]
    if s.pools == s.displaced_pools:  # one program for both
        parts[:2] = [("table", all_twins, 30, TOP, s.pools, (*itself, *ways))]
    out = []
    for name, chosen, n_items, k, n_pools, steps in parts:
        simulated = [(step, twin) for step in steps for twin in chosen]
        if not simulated:
            continue
        conditions = twins.conditions([twin for _, twin in simulated])
        conditions["displaced"] = np.array([step for step, _ in simulated])
        labels = {
            "judge": [twin.name for _, twin in simulated],
            "oracle": [twin.oracle for _, twin in simulated],
            "n_items": [n_items] * len(simulated),
            "displaced": conditions["displaced"].tolist(),
        }
        run = experiment(s, n_items, k)
        group = declare.Group(name, run, conditions, labels, n_items, n_pools, axes, fits=5)
        out.append(group)
    return out


def numbers() -> list[PaperNumber]:
    """The paper's numbers of each judge: those that twins are calibrated to, and the others."""
    out = []
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
            out.append(PaperNumber(quantity, setting, f"{value:.2f}", *size, role, p.source))
    return out


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    rows.fill(ds, targets(s), twins_of(s), t)


SWEEP = declare.legacy(
    "judges",
    "Twins of the paper's fifteen judges, beside every number of its tables.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    drawing.figure,
    units={
        "c_hat": "logits for x = 1 over x = 0",
        "kappa_hat": "logits",
        "corr_naive_x": "1 (correlation within the pool)",
        "corr_residualised": "1 (correlation within the pool)",
        "flip_rate": "share of ordered pairs, expected",
        "position_flips": "share of pairs",
        "boundary": "logits above the k-th largest naive estimate, mean",
        "quality": "statements, true less false",
        "probe_preference": "share of verdicts",
        "probe_first": "share of verdicts",
        "probe_preference_other_content": "share of verdicts",
        "probe_first_other_content": "share of verdicts",
        "unit_flip_rate": "share of ordered pairs, expected",
        "unit_uncertain": "share of ordered pairs with 0.2 < p < 0.8",
        "unit": "factor on logits",
        **calibration.UNITS,
    },
    headline=rows.headline,
    extra_paper_numbers=numbers(),
    page=findings_page.page,
)
