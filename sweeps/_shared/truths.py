"""Where quality and judge come from, beside what the fit assumes: drawn from its own prior, or not.

A condition holds the numbers of one truth, so that all of them run in one compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Key

from jbt.simulation.simulate import Condition, stream
from jbt.types import Prior

LOGISTIC = math.pi / math.sqrt(3)
"""Standard deviation of the noise of a drawn verdict (logits)."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Pools, judge and fitted model. Default: drawn from the prior of the bias-aware fit."""

    sd: float | None = None
    """Standard deviation of quality (logits); None: the prior's."""
    rho: float = 0.0
    """Population correlation of quality and covariate."""
    bias: float | None = None
    """c* (logits per unit); None: drawn from the prior."""
    position: float | None = None
    """kappa* (logits in favour of the first shown); None: drawn from the prior."""
    interaction: float = 0.0
    """Growth of the bias with quality (logits per unit of each)."""
    pair_noise: float = 0.0
    """Standard deviation of the judge's error about a pair, the same at every query (logits)."""
    argmax: bool = False
    """Whether cached verdicts are the likelier ones; else draws."""
    one_order: bool = False
    """Whether each pair can be asked in one order only, drawn at random."""
    model: str = "bias_aware"
    """Fitted model: bias_aware, or naive, which has no c and kappa."""


TRUTHS: Mapping[str, Truth] = {
    "prior": Truth(),
    "unbiased": Truth(bias=0.0, position=0.0, model="naive"),
    "one_order": Truth(one_order=True),
    "sd_0.4": Truth(sd=0.4),
    "sd_2.5": Truth(sd=2.5),
    "rho_0.4": Truth(rho=0.4),
    "rho_0.8": Truth(rho=0.8),
    "growing": Truth(interaction=0.5),
    "pair_noise": Truth(pair_noise=LOGISTIC, argmax=True),
    "naive": Truth(bias=1.0, position=0.0, model="naive"),
}
"""Scenarios by name. In the first three the fit assumes the truth. In the others one assumption
fails: the spread of quality; a covariate independent of quality; one bias for all; errors that are
independent between queries of a pair; no bias at all."""


def conditions(truths: Sequence[Truth], prior: Prior) -> dict[str, np.ndarray]:
    """Truths as conditions of an experiment, name -> [C]; None as the spread of a draw from the
    prior."""
    spread, bias_sd = (float(np.max(v)) ** -0.5 for v in (prior.lam, prior.lam_b))
    frame = pd.DataFrame([vars(t) for t in truths])
    numbers = frame.drop(columns="model").astype(float)
    drawn = numbers[["bias", "position"]].isna().add_suffix("_sd") * bias_sd
    numbers = numbers.fillna({"sd": spread, "bias": 0.0, "position": 0.0})
    aware = frame["model"] == "bias_aware"
    numbers = numbers.join(drawn).assign(aware=aware, discrimination=1.0)
    return {str(name): values.to_numpy(float) for name, values in numbers.items()}


def drawn_judge(key: Key[Array, ""], condition: Condition) -> Condition:
    """The condition with this pool's bias and position, those from the prior drawn."""
    z = jax.random.normal(stream(key, "judge"), (2,))
    names = ("bias", "position")
    drawn = {n: condition[n] + condition[f"{n}_sd"] * v for n, v in zip(names, z, strict=True)}
    return condition | drawn


def may_be_asked(key: Key[Array, ""], condition: Condition, n: int) -> Bool[Array, "N N"]:
    """Ordered pairs that the condition allows: all, or one order of each, at random."""
    forwards = jax.random.bernoulli(stream(key, "order"), shape=(n, n))
    one = jnp.triu(forwards, 1) | jnp.tril(~forwards.T, -1)
    return one | (condition["one_order"] == 0)
