"""Judges of a family that are consistent with what the paper prints of a real one.

A twin is one judge that meets three printed numbers; but these leave many others. The family here
is the judge of Eq. 1 that answers with the likelier verdict, whose bias may grow with quality
(`Judge.interaction`) and whose errors belong to the pair, to the item, or to the statements that
items share (`twins.errors`). A member of the **region** of a real judge is one whose own means over
the paper's pools do not contradict the printed ones: with the paper's number of pools n,

    T = (m - t)' (V / n + R)^-1 (m - t)  <=  the 95 % point of chi-squared,

where m are the member's means of c_hat, kappa_hat, naive and bias-aware recall, t the printed ones,
V the member's covariance between pools and R the variance of rounding. The paper prints as well
that naive estimates of its biased judges correlate with the elaboration by .22 to .49
(`NAIVE_CORRELATION`), not which by how much: so a fifth number is the one in that range which fits
best.

The region is a 95 % confidence set of the judge's parameters, if the real judge is in the family
and T is near chi-squared (docs/findings/varying-bias.md). What its members predict of another
number is then an interval for it with at least that confidence, but for two limits: its members
were found by a search (`region` of revision cd803212), which may miss corners, and it ends at
`BOUNDS`. They are chosen to be as unlike each other as possible, and agreed on fresh pools.

Where the paper prints a bias-aware recall of 1.00, all pools of the study were perfect, which a
normal mean cannot say. T is then the worse of two, each at half of the 5 %: the distance of the
other numbers, and how improbable it is that all pools are perfect; scaled so that its limit is the
same.

Multiplying all parameters by one factor changes no verdict, so quality has discrimination 1: biases
and errors are in statements.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from scipy.special import chdtri

from jbt.simulation.judges import Published
from jbt.simulation.simulate import Condition, stream
from jbt.twins.calibration import aim_of
from jbt.twins.simulated import PERFECT, answers, numbers, paper_pool
from jbt.types import Prior

DATA = Path(__file__).resolve().parent.parent / "data" / "regions.csv"
NAIVE_CORRELATION = (0.22, 0.49)
"""Range of corr(naive estimate, elaboration) over the paper's biased judges ("Do real judges
exhibit the modeled biases?")."""
OBSERVED = ("c_hat", "kappa_hat", "naive_recall", "bias_aware_recall", "naive_correlation")
ROUNDING = 0.01 / 12**0.5
"""Standard deviation of the rounding of a printed number, uniform over 0.01."""
LEVEL = 0.95
"""Nominal share of studies whose region holds the judge."""
LIMIT = float(chdtri(len(OBSERVED), 1 - LEVEL))
"""Largest T of a member: the 95 % point of chi-squared with five degrees of freedom."""

BOUNDS = {
    "bias": (-4.0, 16.0),
    "position": (-16.0, 16.0),
    "interaction": (-1.0, 3.0),
    "pair_noise": (0.0, 10.0),
    "item_noise": (0.0, 4.0),
    "statement_noise": (0.0, 3.0),
}
"""The family: parameter -> range searched, in statements (interaction: a pure number). A fully
correct item is at least two statements ahead of the others."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Member:
    """A judge of a region: its parameters in statements, T, and its means over pools."""

    name: str
    """The real judge's."""
    member: int
    """0 is the one of least T."""
    bias: float
    position: float
    interaction: float
    pair_noise: float
    item_noise: float
    statement_noise: float
    misfit: float
    """T."""
    c_hat: float
    kappa_hat: float
    naive_recall: float
    bias_aware_recall: float
    naive_correlation: float


def conditions(members: Sequence[Member], unit: float | np.ndarray = 1.0) -> dict[str, np.ndarray]:
    """Judges as conditions of an experiment, for `answers`.

    Args:
      unit: logits per statement [J], which matter only where verdicts are drawn afresh: see
        `twins.unit`.
    """
    one = np.ones(len(members)) * unit
    values = {name: one * [getattr(m, name) for m in members] for name in BOUNDS}
    return {**values, "discrimination": one, "argmax": np.ones(len(one))}


def observed(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
    """Experiment: the numbers `OBSERVED` of one pool like the paper's, [5]."""
    pool = paper_pool()(stream(key, "pool"), condition)
    found = numbers(answers(key, pool, condition), pool, 5, Prior())
    return {"observed": jnp.stack([found[name] for name in OBSERVED])}


def misfits(pools: np.ndarray, target: Published) -> np.ndarray:
    """T of judges [J], see the module.

    Args:
      pools: [J, pools, 5] numbers `OBSERVED`.
      target: the real judge.
    """
    aim = np.array([*aim_of(target), target.bias_aware_recall])
    if target.bias_aware_recall < PERFECT:
        return _distances(pools, aim, target.pools)
    # All pools perfect: T by the other numbers, or by the chance of that, whichever is worse.
    others = _distances(np.delete(pools, 3, axis=2), aim[:3], target.pools)
    perfect = (pools[:, :, 3] > 1 - 1e-6).mean(1)
    chance = target.pools * np.log(np.maximum(perfect, 1e-6))
    half = (1 - LEVEL) / 2
    return LIMIT * np.maximum(others / chdtri(4, half), chance / np.log(half))


def _distances(pools: np.ndarray, aim: np.ndarray, n: int) -> np.ndarray:
    """Squared distances [J] of means from the numbers of a study of n pools, in its scatter; the
    last number, a correlation, is where it fits best within `NAIVE_CORRELATION`.

    Args:
      pools: [J, pools, numbers].
      aim: the numbers but for the last.
    """
    mean, last = pools.mean(1), len(aim)
    centred = pools - mean[:, None]
    between = np.einsum("jpa,jpb->jab", centred, centred) / (pools.shape[1] - 1)
    variance = between * (1 / n + 1 / pools.shape[1]) + ROUNDING**2 * np.eye(last + 1)
    miss = mean[:, :last] - aim
    # The study's own correlation, given the other numbers, as near as the range allows.
    slopes = np.linalg.solve(variance[:, :last, :last], variance[:, :last, last, None])[:, :, 0]
    likeliest = mean[:, last] - (slopes * miss).sum(1)
    off = mean[:, last] - likeliest.clip(*NAIVE_CORRELATION)
    miss = np.concatenate([miss, off[:, None]], axis=1)
    return (miss * np.linalg.solve(variance, miss[:, :, None])[:, :, 0]).sum(1)


def read() -> dict[str, list[Member]]:
    """Members by judge."""
    members: dict[str, list[Member]] = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name, number = row.pop("name"), int(row.pop("member"))
            values = {key: float(value) for key, value in row.items()}
            members.setdefault(name, []).append(Member(name=name, member=number, **values))
    return members
