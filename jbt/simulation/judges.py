"""Verdicts of simulated judges: probabilities, frozen oracles, fresh draws; and known judges."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.types import Comparisons, Judge, Pool, ScalarLike

DATA = Path(__file__).resolve().parent.parent / "data" / "judges.csv"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """The paper's numbers for one judge: one line of `data/judges.csv`."""

    name: str
    model: str
    """The paper's name for the model."""
    group: Literal["biased", "neutral", "weak"]
    """biased but competent; frontier or nearly neutral; too weak to be useful."""
    c_hat: float
    """Bias-aware estimate of the bias, logits for x = 1 over x = 0."""
    kappa_hat: float
    """Estimate of the position bias, logits in favour of the first shown."""
    naive_recall: float
    """Share of the top 5 of 30, from all ordered pairs."""
    bias_aware_recall: float
    gain: float
    """The difference as printed, from recalls before rounding."""
    pools: int
    """Number of pools behind the estimates."""
    oracle: Literal["argmax", "draws"]
    """How its verdicts were cached (appendix, "Open-weight and closed (API) judge details"): the
    likelier answer, read from logits or at temperature 0, or one draw, where the temperature cannot
    be set. For reasoning models the paper names no temperature; a draw is assumed."""
    source: str
    """Place in the paper."""

    def judge(self, discrimination: float = 1.0) -> Judge:
        """A judge with the estimates as its true values. The paper gives no discrimination."""
        return Judge.of(self.c_hat, self.kappa_hat, discrimination)


def published() -> dict[str, Published]:
    """The paper's fifteen judges by name, in the order of its table: by falling c_hat within each
    group."""
    kinds = dict.fromkeys(("name", "model", "group", "oracle", "source"), str) | {"pools": int}
    judges: dict[str, Published] = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            fields: dict[str, Any] = {k: kinds.get(k, float)(v) for k, v in row.items()}
            judges[fields["name"]] = Published(**fields)
    return judges


PUBLISHED: Mapping[str, Published] = published()
"""Every judge of the paper's table of judges."""

SECOND_DOMAIN = Published(
    name="llama_python",
    model="Llama-3.1-8B, Python questions",
    group="biased",
    c_hat=1.74,
    kappa_hat=PUBLISHED["llama"].kappa_hat,
    naive_recall=0.46,
    bias_aware_recall=0.72,
    gain=0.26,
    pools=10,
    oracle="argmax",
    source="A second task domain (its position is not printed; that of Table 1 is assumed)",
)
"""The paper's first judge on questions about Python, which are not in its table."""

OPEN: Mapping[str, Judge] = {
    **{name: PUBLISHED[name].judge() for name in ("llama", "qwen", "phi")},
    "coder": PUBLISHED["coder"].judge(0.1),
}
"""The paper's four open judges: Llama-3.1-8B, Qwen-2.5-Coder-7B, Phi-4 and DeepSeek-Coder-6.7B.
Bias, in logits for x = 1 over x = 0, and position are the estimates in its table of judges, taken
as true. It gives no discrimination: 1 is assumed for the first three, and 0.1 for the last, whose
verdicts it calls nearly a function of elaboration alone."""

GATED: Mapping[str, Judge] = {
    name: judge.judge() for name, judge in PUBLISHED.items() if judge.group == "biased"
}
"""The five biased judges of the paper's table, from Llama-3.1-8B to GPT-4o-mini, at discrimination
1: the paper says that it gated five judges, without naming them."""

UNBIASED = Judge.of(0.0)
"""The paper's unbiased judge, which it simulates too."""

UNBIASED_FIRST = Judge.of(0.0, position=1.0)
"""Ours: no preference among answers, and one logit in favour of the first shown."""

JUDGES: Mapping[str, Judge] = {**OPEN, "unbiased": UNBIASED, "unbiased_first": UNBIASED_FIRST}
"""Every judge that a sweep can simulate by name."""


def conditions(judges: Sequence[Judge]) -> dict[str, np.ndarray]:
    """The judges as conditions of an experiment: bias, position, discrimination, interaction, each
    [C].

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
        "interaction": np.array([float(np.ravel(judge.interaction)[0]) for judge in judges]),
    }


def of_condition(condition: Mapping[str, Array]) -> Judge:
    """The judge of one condition made by `conditions`, inside an experiment; without an interaction
    where the condition has none."""
    bias, position = condition["bias"][None], condition["position"]
    interaction = condition.get("interaction", jnp.zeros(()))[None]
    return Judge(bias, position, condition["discrimination"], interaction)


def pair_preference(key: Key[Array, ""], pool: Pool) -> Float[Array, "N N"]:
    """The judge's preference between two answers beyond quality, covariates and position: a
    standard normal of the unordered pair, +e with i first and -e with j first."""
    n = pool.design.n_items
    e = jnp.triu(jax.random.normal(key, (n, n), pool.design.dtype), 1)
    return e - e.T


def item_preference(key: Key[Array, ""], pool: Pool) -> Float[Array, "N N"]:
    """As `pair_preference`, of an error in each item's quality: the difference of two standard
    normals, one an item."""
    e = jax.random.normal(key, (pool.design.n_items,), pool.design.dtype)
    return e[:, None] - e


def statement_preference(
    key: Key[Array, ""], pool: Pool, statements: Bool[Array, "N S"]
) -> Float[Array, "N N"]:
    """As `pair_preference`, of an error in each statement, a standard normal, which all items that
    contain it share.

    Args:
      statements: which statements each item contains, see `pools.statements`.
    """
    e = statements @ jax.random.normal(key, (statements.shape[1],), pool.design.dtype)
    return e[:, None] - e


def verdict_logits(
    pool: Pool, judge: Judge, preference: Float[Array, "N N"] | None = None
) -> Float[Array, "N N"]:
    """Log-odds that the judge prefers the first shown, for every ordered pair [Eq. 1 with
    the true coefficients, quality times the judge's discrimination, and bias as `Judge.interaction`
    says].

    Args:
      preference: [N, N] logits to add, for example a standard deviation times `pair_preference`.

    Raises:
      ValueError: not one bias, or not one interaction, for each covariate.
    """
    d = pool.design
    shapes = {"bias": judge.bias.shape, "interaction": np.shape(judge.interaction)}
    for name, shape in shapes.items():
        if shape != (d.n_covariates,) and (name, shape) != ("interaction", ()):
            raise ValueError(f"{name} must be [{d.n_covariates}], got shape {shape}")
    contents = d.content_mask()
    mean = jnp.where(contents, pool.quality, 0).sum() / contents.sum()
    bias = judge.bias + judge.interaction * d.of_items(pool.quality - mean)[:, None]  # [N, D]
    phi = judge.discrimination * d.of_items(pool.quality) + (d.covariates * bias).sum(-1)
    z = phi[:, None] - phi[None, :] + judge.position
    return z if preference is None else z + preference


def _probit(logits: Array) -> Array:
    return jax.scipy.special.ndtr(logits * (math.sqrt(3) / math.pi))


LINKS: Mapping[str, Callable[[Array], Array]] = {"logit": jax.nn.sigmoid, "probit": _probit}
"""From log-odds to the probability of a verdict. logit: the model's own [Eq. 1]. probit: a
Thurstone judge (the paper's Proposition 1), Phi(z / s) with s = pi / sqrt(3), which gives its
Gaussian noise the variance of the logistic; another s is a factor on discrimination, bias and
position."""


def check_link(link: str) -> None:
    """Raise `ValueError` unless `link` is one of `LINKS`."""
    if link not in LINKS:
        raise ValueError(f"unknown link {link!r}: one of {', '.join(LINKS)}")


def verdict_probability(
    pool: Pool,
    judge: Judge,
    preference: Float[Array, "N N"] | None = None,
    *,
    link: str = "logit",
) -> Float[Array, "N N"]:
    """Probability that the judge prefers the first shown, for every ordered pair.

    Args:
      preference: as in `verdict_logits`.
      link: one of `LINKS`.

    Raises:
      ValueError: a link that is not one of `LINKS`, or not one bias for each covariate.
    """
    check_link(link)
    return LINKS[link](verdict_logits(pool, judge, preference))


def frozen_draw(
    key: Key[Array, ""], pool: Pool, judge: Judge, *, link: str = "logit"
) -> Bool[Array, "N N"]:
    """A frozen oracle: one Bernoulli verdict for every ordered pair, the same at every query. True
    where the first shown wins. The uniforms depend on the key alone, so that judges, links and
    conditions are paired. Errors as in `verdict_probability`."""
    p = verdict_probability(pool, judge, link=link)
    return jax.random.uniform(key, p.shape, p.dtype) < p


def frozen_argmax(
    key: Key[Array, ""], pool: Pool, judge: Judge, *, pair_noise: ScalarLike = 0.0
) -> Bool[Array, "N N"]:
    """A frozen oracle that answers with its more probable verdict, as open-weight judges do.

    `pair_noise` is the standard deviation, in logits, of `pair_preference`. An exact tie goes to
    the second. Multiplying discrimination, bias, position and pair noise by one factor changes no
    verdict.
    """
    return verdict_logits(pool, judge, pair_noise * pair_preference(key, pool)) > 0


def reveal(oracle: Bool[Array, "N N"], shown: Float[Array, "N N"]) -> Comparisons:
    """The counts after showing each ordered pair `shown` times to a frozen oracle."""
    return Comparisons(shown, shown * oracle)


def fresh_verdict(
    key: Key[Array, ""],
    probability: Float[Array, "N N ..."],
    *at: Int[Array, ""],
) -> Bool[Array, ""]:
    """A new draw at every query: True if the first shown wins. `at` is the first, the second, and
    for a table of several judges the judge."""
    return jax.random.uniform(key, (), probability.dtype) < probability[at]


def fresh_comparisons(
    key: Key[Array, ""], probability: Float[Array, "N N"], shown: Float[Array, "N N"]
) -> Comparisons:
    """The counts after showing each ordered pair `shown` times, a new draw at every query:
    wins are Binomial(shown, probability)."""
    wins = jax.random.binomial(key, shown, probability, dtype=probability.dtype)
    return Comparisons(shown, wins)
