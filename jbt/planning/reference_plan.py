"""Plans the number of verdicts of a trusted reference that a bias coefficient takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import estimators, identifiability
from jbt.estimators import reference
from jbt.kernel import metrics, model
from jbt.planning.pairing_plan import Z
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import (
    Judge,
    Panel,
    Parameters,
    Pool,
    Prior,
    check_count,
    check_positive,
)

FAR, HALVINGS = 50.0, 30
"""Distance from the truth within which an end of an interval is searched, in expected half-widths,
and number of halvings."""


@dataclass(frozen=True)
class ReferencePlan:
    """Precision of a cheap judge's c, and recall, for each number of reference verdicts."""

    n_reference: np.ndarray
    """[T] verdicts of the reference, increasing."""
    half_width: Mapping[str, np.ndarray]
    """Placement -> [T] expected half-width of the 95 % interval for c, median over pools, logits
    per unit of the covariate; infinite where c is not identified in at least half of the pools."""
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    """Likewise, the ends of the central 90 % of pools."""
    asked: Mapping[str, np.ndarray]
    """Likewise, mean number of verdicts, below n_reference where there are too few pairs."""
    recall: Mapping[str, np.ndarray]
    """Likewise, mean top-k recall of the joint fit (`reference.correlated`)."""
    recall_error: Mapping[str, np.ndarray]
    """Likewise, standard error of that mean."""
    recall_naive: float
    """Mean top-k recall of the cheap judge's verdicts alone, by the naive model."""
    recall_bias_aware: float
    """The same by the bias-aware model."""

    def recall_interval(self, placement: str) -> tuple[np.ndarray, np.ndarray]:
        """Ends [T] of the 95 % interval of mean recall, with the pool as the unit."""
        half = Z * self.recall_error[placement]
        return self.recall[placement] - half, self.recall[placement] + half

    def smallest(
        self, placement: str, *, half_width: float | None = None, recall: float | None = None
    ) -> int | None:
        """The smallest n_reference from which on c is known to `half_width` in the median pool, and
        mean recall is at least `recall` by the lower end of its 95 % interval, so that simulating
        few pools plans too many verdicts rather than too few. None if there is none."""
        sufficient = np.ones(len(self.n_reference), bool)
        if half_width is not None:
            sufficient &= self.half_width[placement] <= half_width
        if recall is not None:
            sufficient &= self.recall_interval(placement)[0] >= recall
        insufficient = np.flatnonzero(~sufficient)
        first = 0 if not len(insufficient) else insufficient[-1] + 1
        return int(self.n_reference[first]) if first < len(sufficient) else None


def reference_verdicts(
    n_items: int,
    k: int,
    *,
    n_reference: Sequence[int] = (0, 5, 10, 20, 30, 45, 60, 90, 120),
    bias: float = 1.0,
    position: float = 0.0,
    discrimination: float = 1.0,
    reference_bias: float = 0.0,
    reference_discrimination: float = 1.0,
    sd: float = 1.2,
    rho: float = 0.0,
    covariate: pools.CovariateKind = "continuous",
    lam: float = 1.0,
    lam_b: float = 0.1,
    pools_simulated: int = 512,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> ReferencePlan:
    """How precisely a few verdicts of a reference would identify a cheap judge's c, and the recall
    they would give, by the pairs the reference is shown (`reference.PLACEMENTS`).

    Half-widths are those of profile-likelihood intervals without a prior, in which the reference's
    biases are taken to be zero. They come from the Fisher information at the true parameters, times
    a factor for few verdicts from simulation (`realised_over_expected`). Recall is that of
    simulated fits in which quality may correlate with the covariate (`reference.correlated`).

    Args:
      n_items, k: items of a pool and of its top set. The cheap judge judges every ordered pair
        once, the reference none twice.
      n_reference: verdicts of the reference to try, increasing.
      bias, position, discrimination: the cheap judge expected.
      reference_bias: the reference's true bias (logits per unit).
      reference_discrimination: factor on quality in its logits, known to the fit.
      sd, rho, covariate: the pools expected, as in `pools.gaussian`.
      lam, lam_b: prior of the fits, 1/logit^2.
      pools_simulated: pools to average over.
      seed: seed of the pools.
      progress: see `simulate`.

    Raises:
      ValueError: an argument out of range.
    """
    check_count("n_items", n_items, least=4)
    check_count("pools", pools_simulated, least=2)
    if not 1 <= k < n_items:
        raise ValueError(f"k must lie in 1..{n_items - 1}, got {k}")
    numbers = np.asarray(n_reference, int)
    if not numbers.size or numbers.min() < 0 or (np.diff(numbers) <= 0).any():
        raise ValueError(f"n_reference must increase from at least 0, got {numbers.tolist()}")
    for name, value in (
        ("discrimination", discrimination),
        ("reference_discrimination", reference_discrimination),
        ("sd", sd),
        ("lam", lam),
        ("lam_b", lam_b),
    ):
        check_positive(name, value)
    for name, value in (("bias", bias), ("position", position), ("reference_bias", reference_bias)):
        if not np.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value}")
    pools.check_rho(rho, covariate)
    cheap = Judge(jnp.full(1, bias), position, discrimination)
    trusted = Judge(jnp.full(1, reference_bias), 0.0, reference_discrimination)
    ratio = reference_discrimination / discrimination

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pools.gaussian(
            stream(key, "pool"), n_items, sd=sd, rho=condition["rho"], covariate=covariate
        )
        prior, oracle = Prior(lam, lam_b), judges.frozen_draw(stream(key, "verdicts"), pool, cheap)
        comparisons = judges.reveal(oracle, pairs.every_pair(pool))
        answers = judges.frozen_draw(stream(key, "reference verdicts"), pool, trusted)
        thetas = [
            estimate(comparisons, pool.design, prior).parameters.theta
            for estimate in (estimators.naive, estimators.bias_aware)
        ]
        rankings = reference.Rankings(pool, thetas[0], thetas[1], k)
        alone = jnp.stack([metrics.top_k_recall(v, pool.quality, k) for v in thetas])

        def outcome(allowed: Float[Array, "N N"], n: Array) -> tuple[Array, Array, Array]:
            shown = reference.asked(stream(key, "reference pairs"), allowed, n)
            panel = reference.beside(comparisons, judges.reveal(answers, shown), ratio)
            fit, _ = reference.correlated(panel, pool.design, prior)
            recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, k)
            half_width = expected_half_width_beside(pool, cheap, panel)
            half_width *= realised_over_expected(pool, cheap, panel, int(numbers[-1]))
            return half_width, recall, shown.sum()

        allowed = jnp.stack([place(rankings) for place in reference.PLACEMENTS.values()])
        n_verdicts = jnp.asarray(numbers, pool.design.dtype)
        outcomes = jax.vmap(lambda a: jax.vmap(lambda n: outcome(a, n))(n_verdicts))(allowed)
        return {
            "alone": alone,
            **dict(zip(("half_width", "recall", "asked"), outcomes, strict=True)),
        }

    ids = range(pools_simulated)
    out = simulate(experiment, {"rho": [rho]}, ids, seed=seed, dtype="float64", progress=progress)
    out = {name: values[:, 0] for name, values in out.items()}
    low, middle, high = np.quantile(out["half_width"], [0.05, 0.5, 0.95], axis=0, method="higher")
    error = out["recall"].std(0, ddof=1) / np.sqrt(pools_simulated)
    alone = out["alone"].mean(0)

    def by_name(values: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(reference.PLACEMENTS, values, strict=True))

    return ReferencePlan(
        numbers,
        by_name(middle),
        by_name(low),
        by_name(high),
        by_name(out["asked"].mean(0)),
        by_name(out["recall"].mean(0)),
        by_name(error),
        float(alone[0]),
        float(alone[1]),
    )


def realised_over_expected(pool: Pool, cheap: Judge, panel: Panel, most: int) -> Float[Array, ""]:
    """Width of the profile-likelihood interval for a cheap judge's c with these verdicts of a
    reference, relative to the width from the information at the true parameters: 1 in the limit of
    many verdicts, 1.25 in the median for ten. D = 1.

    The cheap judge's apparent quality is taken as known, as it has judged every pair. Then the
    reference's verdicts are a logistic regression on one number, c. With few verdicts its
    log-likelihood is not a parabola.

    Args:
      cheap: judge 0 of the panel.
      panel: both judges, as counts of every pair.
      most: largest number of pairs shown to the reference.

    Returns:
      Infinite where these verdicts do not bound c on both sides; 1 without a verdict.
    """
    shown, wins = (v[..., 1].ravel() for v in (panel.verdicts.shown, panel.verdicts.wins))
    shown, index = jax.lax.top_k(shown, min(max(most, 1), shown.size))
    wins, ratio = wins[index], panel.discrimination[1]
    quality, covariate = (
        (v[:, None] - v).ravel()[index]
        for v in (
            cheap.discrimination * (pool.design.ownership() @ pool.quality),
            pool.design.covariates[:, 0],
        )
    )
    # Logits: `offset` at the true parameters, minus `slope` times the change of c.
    offset, slope = ratio * quality, ratio * covariate

    def score(change: Float[Array, ""]) -> Float[Array, ""]:
        return (slope * (shown * jax.nn.sigmoid(offset - slope * change) - wins)).sum()

    def log_likelihood(change: Float[Array, ""]) -> Float[Array, ""]:
        logit = offset - slope * change
        return (wins * logit - shown * jax.nn.softplus(logit)).sum()

    p = jax.nn.sigmoid(offset)
    expected = Z / jnp.sqrt((shown * slope**2 * p * (1 - p)).sum())
    far = FAR * expected

    def root(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
        """The root of a falling function, by bisection."""

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            above = function(middle) > 0
            return jnp.where(above, middle, ends[0]), jnp.where(above, ends[1], middle)

        low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
        return (low + high) / 2

    top = root(score, -far, far)
    least = log_likelihood(top) - Z**2 / 2
    up = root(lambda c: log_likelihood(c) - least, top, far)
    down = root(lambda c: log_likelihood(-c) - least, -top, far)
    bounded = (log_likelihood(far) < least) & (log_likelihood(-far) < least)
    realised = jnp.where(bounded, (up + down) / 2, jnp.inf)
    return jnp.where(shown.sum() > 0, realised / expected, 1)


def expected_half_width_beside(pool: Pool, cheap: Judge, panel: Panel) -> Float[Array, ""]:
    """Half-width of the 95 % interval for a cheap judge's c with a reference's verdicts, by the
    Fisher information at the truth, without a prior. float64, D = 1.

    Args:
      cheap: judge 0 of the panel.
      panel: both judges; only how often each pair was shown to each matters. The reference's biases
        are known to be zero, its discrimination is a factor on the cheap judge's.

    Returns:
      Logits per unit of the covariate; infinite where the comparisons do not identify c.
    """
    c = jnp.stack([jnp.asarray(cheap.bias), jnp.zeros(1)], -1)
    kappa = jnp.stack([jnp.asarray(cheap.position, c.dtype), jnp.zeros((), c.dtype)])
    truth = Parameters(cheap.discrimination * pool.quality, c, kappa)
    variant = reference.joint_variant(panel, pool.design)
    information = identifiability.efficient_information(
        truth, panel, pool.design, judge=0, variant=variant
    )
    even = model.information_at_even_odds(panel, pool.design.centred())
    index = pool.design.n_contents
    identified = information > identifiability.FLAT * even[index, index]
    return jnp.where(identified, Z / jnp.sqrt(jnp.where(identified, information, 1)), jnp.inf)
