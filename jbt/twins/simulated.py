"""A simulated judge that stands for a published one: its numbers, its answers, its pools."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from jbt import estimators
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.judges import PUBLISHED, SECOND_DOMAIN, Published
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import Judge, Pool, Prior

DATA = Path(__file__).resolve().parent.parent / "data" / "twins.csv"
ORACLES = ("argmax", "draws")
"""How verdicts are cached: the likelier one, or one draw."""
MAX_CORRELATION = 0.12
"""Bound on the |correlation| of quality and elaboration in the paper's pools."""
UNCERTAIN = 0.43
"""Share of pairs for which an open judge of the paper has 0.2 < p < 0.8, by its own logits."""
DOUBT = (0.2, 0.8)
TOLERANCE = {"c_hat": 0.05, "kappa_hat": 0.05, "naive_recall": 0.02}
"""Largest distance of a twin from each target; the unit of the search's residuals."""
ORDERED = 30 * 29
"""Ordered pairs of a pool."""
PERFECT = 0.995
"""Target for a recall printed as 1.00."""

Draw = Callable[[Key[Array, ""], Condition], Pool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Twin:
    """A simulated judge that stands for a published one."""

    name: str
    """Name of the published judge."""
    oracle: str
    """One of `ORACLES`."""
    others: str
    """Qualities of the bank's items that are not fully correct, one of `pools.OTHERS`."""
    discrimination: float
    """Logits per statement."""
    bias: float
    """c*, logits."""
    position: float
    """kappa*, logits."""
    pair_noise: float
    """Standard deviation, logits; 0 for a judge that draws."""
    c_hat: float
    """The twin's own value, mean over the pools it was calibrated on; so are the next three."""
    kappa_hat: float
    naive_recall: float
    bias_aware_recall: float
    """Not a target."""

    @property
    def judge(self) -> Judge:
        return Judge.of(self.bias, self.position, self.discrimination)

    @property
    def argmax(self) -> bool:
        return self.oracle == "argmax"

    def misses(self, published: Published) -> list[str]:
        """The targets that it misses by more than `TOLERANCE`."""
        values = dataclasses.asdict(self)
        return [n for n, t in TOLERANCE.items() if not abs(values[n] - getattr(published, n)) <= t]


def conditions(twins: Sequence[Twin]) -> dict[str, np.ndarray]:
    """The twins as conditions of an experiment, in the form that `answers` takes."""
    values = judges.conditions([twin.judge for twin in twins])
    values["pair_noise"] = np.array([twin.pair_noise for twin in twins])
    values["argmax"] = np.array([float(twin.argmax) for twin in twins])
    return values


def answers(key: Key[Array, ""], pool: Pool, condition: Condition) -> Bool[Array, "N N"]:
    """The frozen verdicts of a twin, True where the first shown wins.

    Args:
      key: the pool's; the streams "verdicts" and "pair noise" are taken from it.
      condition: one twin's, see `conditions`.
    """
    judge = judges.of_condition(condition)
    drawn = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
    likelier = judges.verdict_logits(pool, judge, errors(key, pool, condition)) > 0
    return jnp.where(condition["argmax"] > 0, likelier, drawn)


def probability(key: Key[Array, ""], pool: Pool, condition: Condition) -> Array:
    """P(first wins) [N, N] of a twin whose verdicts are drawn afresh; arguments as in `answers`."""
    preference = errors(key, pool, condition)
    return judges.verdict_probability(pool, judges.of_condition(condition), preference)


def errors(key: Key[Array, ""], pool: Pool, condition: Condition) -> Float[Array, "N N"]:
    """What a twin adds to the logits of each ordered pair: errors of the pair, of the items and of
    their statements. The condition gives their standard deviations, in logits; the last two may be
    missing, and that of a statement needs a pool of the paper's bank."""
    total = condition["pair_noise"] * judges.pair_preference(stream(key, "pair noise"), pool)
    if "item_noise" in condition:
        of_items = judges.item_preference(stream(key, "item noise"), pool)
        total = total + condition["item_noise"] * of_items
    if "statement_noise" in condition:
        held = pools.statements(stream(key, "statements"), pool)
        of_statements = judges.statement_preference(stream(key, "statement noise"), pool, held)
        total = total + condition["statement_noise"] * of_statements
    return total


def unit(conditions: Mapping[str, np.ndarray], others: str = "uniform") -> np.ndarray:
    """Logits [J] of the unit of judges that give their likelier verdict, at which they are as
    uncertain as the paper's open judge: a share `UNCERTAIN` of the ordered pairs of 64 pools has
    0.2 < p < 0.8. Frozen verdicts leave it open.

    Args:
      conditions: the judges, at a unit of one logit.
      others: of the pools.
    """

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = paper_pool(others)(stream(key, "pool"), condition)
        judge = judges.of_condition(condition)
        logits = judges.verdict_logits(pool, judge, errors(key, pool, condition))
        return {"size": jnp.abs(logits[jnp.nonzero(pairs.every_pair(pool), size=ORDERED)])}

    sizes = simulate(one, conditions, range(64))["size"].swapaxes(0, 1)
    share = np.quantile(sizes.reshape(len(sizes), -1), UNCERTAIN, axis=1)
    return np.log(DOUBT[1] / DOUBT[0]) / share


def numbers(
    verdicts: Bool[Array, "N N"], pool: Pool, k: int, prior: Prior
) -> dict[str, Float[Array, ""]]:
    """What the paper prints of a judge, on one pool of which it judged every ordered pair once.

    Args:
      verdicts: True where the first shown wins, from `answers`.
      k: size of the top set.

    Returns:
      `c_hat`, `kappa_hat`, `naive_recall`, `bias_aware_recall`; and `naive_correlation`, that of
      the naive estimate with the elaboration.
    """
    shown = judges.reveal(verdicts, pairs.every_pair(pool))
    naive = estimators.naive(shown, pool.design, prior).parameters
    aware = estimators.bias_aware(shown, pool.design, prior).parameters
    return {
        "c_hat": aware.c[0],
        "kappa_hat": aware.kappa,
        "naive_recall": metrics.top_k_recall(naive.theta, pool.quality, k),
        "bias_aware_recall": metrics.top_k_recall(aware.theta, pool.quality, k),
        "naive_correlation": jnp.corrcoef(naive.theta, pool.design.covariates[:, 0])[0, 1],
    }


def paper_pool(others: str = "uniform", *, n_items: int = 30, k: int = 5) -> Draw:
    """Pools of statements like the paper's, their elaboration balanced to `MAX_CORRELATION`."""

    def draw(key: Key[Array, ""], condition: Condition) -> Pool:
        return pools.statement_bank(key, n_items, k, others=others, max_correlation=MAX_CORRELATION)

    return draw


def read() -> dict[tuple[str, str, str], Twin]:
    """The twins of the paper's judges, by (name, oracle, others)."""
    text = ("name", "oracle", "others")
    twins = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            fields: dict[str, Any] = {k: v if k in text else float(v) for k, v in row.items()}
            twins[tuple(row[name] for name in text)] = Twin(**fields)
    return twins


def known() -> dict[str, Published]:
    """The judges that have twins, by name: the fifteen, and the first in its second domain."""
    return {**PUBLISHED, SECOND_DOMAIN.name: SECOND_DOMAIN}


def twin(name: str, *, oracle: str | None = None, others: str = "uniform") -> Twin:
    """The twin of one of the paper's judges.

    Args:
      oracle: one of `ORACLES`, default the judge's own.

    Raises:
      ValueError: unknown name (the message lists them), oracle or others.
    """
    if name not in known():
        raise ValueError(f"unknown judge {name!r}: one of {', '.join(known())}")
    oracle = oracle or known()[name].oracle
    twins = read()
    if (name, oracle, others) not in twins:
        raise ValueError(f"no twin of oracle {oracle!r} and others {others!r}")
    return twins[name, oracle, others]
