"""How a judge answers: verdict probabilities, a frozen oracle, fresh draws; and known judges."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.types import Comparisons, Judge, Pool, ScalarLike

DATA = Path(__file__).resolve().parent / "data" / "judges.csv"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """What the paper prints of a judge: one line of `data/judges.csv`."""

    name: str
    model: str
    """As the paper calls it."""
    group: Literal["biased", "neutral", "weak"]
    """biased but competent; frontier or nearly neutral; too weak to be useful."""
    c_hat: float
    """Bias-aware estimate of the bias, logits for x = 1 over x = 0."""
    kappa_hat: float
    """Of the position bias, logits in favour of the first shown."""
    naive_recall: float
    """Share of the top 5 of 30, from all ordered pairs."""
    bias_aware_recall: float
    gain: float
    """The difference as printed, from recalls before rounding."""
    pools: int
    """Pools behind it (count)."""
    source: str
    """Where it stands."""

    def judge(self, discrimination: float = 1.0) -> Judge:
        """The estimates read as truths. The paper gives no discrimination."""
        return Judge.of(self.c_hat, self.kappa_hat, discrimination)


def published() -> dict[str, Published]:
    """The paper's fifteen judges by name, in the order of its table: of largest c_hat in each
    group first."""
    kinds = {"name": str, "model": str, "group": str, "source": str, "pools": int}
    found: dict[str, Published] = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            read: dict[str, Any] = {k: kinds.get(k, float)(v) for k, v in row.items()}
            found[read["name"]] = Published(**read)
    return found


PUBLISHED: Mapping[str, Published] = published()
"""Every judge of the paper's table of judges."""

OPEN: Mapping[str, Judge] = {
    **{name: PUBLISHED[name].judge() for name in ("llama", "qwen", "phi")},
    "coder": PUBLISHED["coder"].judge(0.1),
}
"""The paper's four open judges: Llama-3.1-8B, Qwen-2.5-Coder-7B, Phi-4 and DeepSeek-Coder-6.7B.
Bias, in logits for x = 1 over x = 0, and position are the estimates of its table of judges, read as
truths. It gives no discrimination: 1 is assumed of the three, and 0.1 of the last, whose verdicts
it calls nearly a function of elaboration alone."""

GATED: Mapping[str, Judge] = {
    name: judge.judge() for name, judge in PUBLISHED.items() if judge.group == "biased"
}
"""The five biased judges of the paper's table, from Llama-3.1-8B to GPT-4o-mini: of which five it
says that it gated, it does not name. Read as `OPEN`, at discrimination 1."""

UNBIASED = Judge.of(0.0)
"""The paper's unbiased judge, simulated there too."""

UNBIASED_FIRST = Judge.of(0.0, position=1.0)
"""Ours: no preference among answers, and one logit in favour of the first shown."""

JUDGES: Mapping[str, Judge] = {**OPEN, "unbiased": UNBIASED, "unbiased_first": UNBIASED_FIRST}
"""Every judge that a sweep can simulate by name."""


def conditions(judges: Sequence[Judge]) -> dict[str, np.ndarray]:
    """The judges as conditions of an experiment, one a judge: bias, position, discrimination [C].

    Raises:
      ValueError: a judge with several biases.
    """
    for judge in judges:
        if np.shape(judge.bias) != (1,):
            raise ValueError(f"a condition holds one bias, got {np.size(judge.bias)}")
    return {
        "bias": np.array([float(judge.bias[0]) for judge in judges]),
        "position": np.array([float(judge.position) for judge in judges]),
        "discrimination": np.array([float(judge.discrimination) for judge in judges]),
    }


def of_condition(condition: Mapping[str, Array]) -> Judge:
    """The judge of one condition made by `conditions`, inside an experiment."""
    return Judge(condition["bias"][None], condition["position"], condition["discrimination"])


def verdict_logits(pool: Pool, judge: Judge) -> Float[Array, "N N"]:
    """Log-odds that the judge prefers the first shown, for every ordered pair [Eq. 1 with
    the true coefficients, quality times the judge's discrimination].

    Raises:
      ValueError: not one bias for each covariate.
    """
    d = pool.design
    if judge.bias.shape != (d.n_covariates,):
        raise ValueError(f"bias must be [{d.n_covariates}], got shape {judge.bias.shape}")
    phi = judge.discrimination * d.of_items(pool.quality) + (d.covariates * judge.bias).sum(-1)
    return phi[:, None] - phi[None, :] + judge.position


def verdict_probability(pool: Pool, judge: Judge) -> Float[Array, "N N"]:
    """Probability that the judge prefers the first shown, for every ordered pair."""
    return jax.nn.sigmoid(verdict_logits(pool, judge))


def frozen_draw(key: Key[Array, ""], pool: Pool, judge: Judge) -> Bool[Array, "N N"]:
    """A frozen oracle: one Bernoulli verdict of every ordered pair, to be asked for as often
    as one likes. True where the first shown wins. The uniforms depend on the key alone, so
    that judges and conditions are paired."""
    p = verdict_probability(pool, judge)
    return jax.random.uniform(key, p.shape, p.dtype) < p


def frozen_argmax(
    key: Key[Array, ""], pool: Pool, judge: Judge, *, pair_noise: ScalarLike = 0.0
) -> Bool[Array, "N N"]:
    """A frozen oracle that answers with its more probable verdict, as open-weight judges do.

    `pair_noise` is the standard deviation, in logits, of a Gaussian preference that belongs
    to the unordered pair (+e with i first, -e with j first): what the judge thinks of these
    two answers beyond quality, covariates and position. An exact tie goes to the second.
    """
    z = verdict_logits(pool, judge)
    e = jnp.triu(jax.random.normal(key, z.shape, z.dtype), 1)
    return z + pair_noise * (e - e.T) > 0


def reveal(oracle: Bool[Array, "N N"], shown: Float[Array, "N N"]) -> Comparisons:
    """The counts after showing each ordered pair `shown` times to a frozen oracle."""
    return Comparisons(shown, shown * oracle)


def fresh_verdict(
    key: Key[Array, ""],
    probability: Float[Array, "N N ..."],
    *at: Int[Array, ""],
) -> Bool[Array, ""]:
    """A new draw at every query: True if the first shown wins. `at` is the first, the second, and
    the judge where the table is of several."""
    return jax.random.uniform(key, (), probability.dtype) < probability[at]


def fresh_comparisons(
    key: Key[Array, ""], probability: Float[Array, "N N"], shown: Float[Array, "N N"]
) -> Comparisons:
    """The counts after showing each ordered pair `shown` times, a new draw at every query:
    wins are Binomial(shown, probability)."""
    wins = jax.random.binomial(key, shown, probability, dtype=probability.dtype)
    return Comparisons(shown, wins)
