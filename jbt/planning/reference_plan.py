"""How many verdicts of a trusted reference a bias coefficient takes."""

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
"""How far from the truth an end of an interval is looked for, in half-widths expected, and in how
many halvings."""


@dataclass(frozen=True)
class ReferencePlan:
    """What each number of reference verdicts would tell about a cheap judge's c, and be worth."""

    n_reference: np.ndarray
    """[T] verdicts of the reference, increasing."""
    half_width: Mapping[str, np.ndarray]
    """Placement -> [T] expected half-width of the 95 % interval for c, median over pools, logits
    per unit of the covariate; infinite where half of the pools or more are silent about it."""
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    """The same: the central 90 % of pools."""
    asked: Mapping[str, np.ndarray]
    """The same: verdicts that there were pairs for, mean."""
    recall: Mapping[str, np.ndarray]
    """The same: mean top-k recall of the fit of both (`reference.correlated`)."""
    recall_error: Mapping[str, np.ndarray]
    """The same: its standard error."""
    recall_naive: float
    """Mean top-k recall of the cheap judge's verdicts alone, by the naive model."""
    recall_bias_aware: float
    """And by the bias-aware one."""

    def recall_interval(self, placement: str) -> tuple[np.ndarray, np.ndarray]:
        """Ends [T] of the 95 % interval of mean recall, by how much pools differ."""
        half = Z * self.recall_error[placement]
        return self.recall[placement] - half, self.recall[placement] + half

    def smallest(
        self, placement: str, *, half_width: float | None = None, recall: float | None = None
    ) -> int | None:
        """The smallest n_reference from which on c is known to `half_width` in the median pool, and
        mean recall is at least `recall` for certain: by the lower end of its 95 % interval, so that
        few pools plan too many verdicts rather than too few. None if there is none."""
        good = np.ones(len(self.n_reference), bool)
        if half_width is not None:
            good &= self.half_width[placement] <= half_width
        if recall is not None:
            good &= self.recall_interval(placement)[0] >= recall
        lasting = np.flatnonzero(~good)
        first = 0 if not len(lasting) else lasting[-1] + 1
        return int(self.n_reference[first]) if first < len(good) else None


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
    """How well a few verdicts of a reference would tell a cheap judge's c, and what recall they
    would buy, by which pairs it is shown (`reference.PLACEMENTS`).

    Half-widths are those of profile-likelihood intervals, in which the reference's biases are taken
    for zero: nothing of them is the prior's. They are from the Fisher information at the truth
    about all other parameters, times what few simulated verdicts make of it
    (`realised_over_expected`). Recall is of simulated fits in which quality may go with the
    covariate (`reference.correlated`).

    Args:
      n_items, k: items of a pool and of its top set. The cheap judge judges every ordered pair
        once, the reference none twice.
      n_reference: verdicts of the reference to try, increasing.
      bias, position, discrimination: the cheap judge expected.
      reference_bias: what the reference's bias is in truth (logits per unit).
      reference_discrimination: factor on quality in its logits, known to the fit.
      sd, rho, covariate: the pools expected, as in `pools.gaussian`.
      lam, lam_b: prior of the fits, 1/logit^2.
      pools_simulated: pools to average over.
      seed: of the pools.
      progress: see `simulate`.

    Raises:
      ValueError: an argument out of range.
    """
    check_count("n_items", n_items, least=4)
    check_count("pools", pools_simulated, least=2)
    if not 1 <= k < n_items:
        raise ValueError(f"k must lie in 1..{n_items - 1}, got {k}")
    which = np.asarray(n_reference, int)
    if not which.size or which.min() < 0 or (np.diff(which) <= 0).any():
        raise ValueError(f"n_reference must increase from at least 0, got {which.tolist()}")
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
        every, prior = pairs.every_pair(pool), Prior(lam, lam_b)
        comparisons = judges.reveal(judges.frozen_draw(stream(key, "verdicts"), pool, cheap), every)
        answers = judges.frozen_draw(stream(key, "reference verdicts"), pool, trusted)
        thetas = [
            estimate(comparisons, pool.design, prior).parameters.theta
            for estimate in (estimators.naive, estimators.bias_aware)
        ]
        rankings = reference.Rankings(pool, thetas[0], thetas[1], k)
        alone = jnp.stack([metrics.top_k_recall(v, pool.quality, k) for v in thetas])

        def told(allowed: Float[Array, "N N"], n: Array) -> tuple[Array, Array, Array]:
            shown = reference.asked(stream(key, "reference pairs"), allowed, n)
            panel = reference.beside(comparisons, judges.reveal(answers, shown), ratio)
            fit, _ = reference.correlated(panel, pool.design, prior)
            recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, k)
            half_width = expected_half_width_beside(pool, cheap, panel)
            half_width *= realised_over_expected(pool, cheap, panel, int(which[-1]))
            return half_width, recall, shown.sum()

        allowed = jnp.stack([place(rankings) for place in reference.PLACEMENTS.values()])
        numbers = jnp.asarray(which, pool.design.dtype)
        each = jax.vmap(lambda a: jax.vmap(lambda n: told(a, n))(numbers))(allowed)
        return {"alone": alone, **dict(zip(("half_width", "recall", "asked"), each, strict=True))}

    ids = range(pools_simulated)
    out = simulate(experiment, {"rho": [rho]}, ids, seed=seed, dtype="float64", progress=progress)
    out = {name: values[:, 0] for name, values in out.items()}
    low, middle, high = np.quantile(out["half_width"], [0.05, 0.5, 0.95], axis=0, method="higher")
    error = out["recall"].std(0, ddof=1) / np.sqrt(pools_simulated)
    alone = out["alone"].mean(0)

    def by_name(values: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(reference.PLACEMENTS, values, strict=True))

    return ReferencePlan(
        which,
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
    """How many times wider the profile-likelihood interval for a cheap judge's c is, beside these
    verdicts of a reference, than the information at the truth says: 1 in the limit of many
    verdicts, 1.25 in the median of ten. D = 1.

    The cheap judge's apparent quality is taken as known, for it has judged every pair: then the
    reference's verdicts are a logistic regression on one number, c. Its log-likelihood is no
    parabola where they are few.

    Args:
      cheap: judge 0 of the panel.
      panel: of both judges; of the reference's verdicts every pair's are counted.
      most: pairs shown to the reference, at most.

    Returns:
      Infinite where these verdicts set no bound on c on either side; 1 without a verdict.
    """
    shown, wins = (v[..., 1].ravel() for v in (panel.verdicts.shown, panel.verdicts.wins))
    shown, at = jax.lax.top_k(shown, min(max(most, 1), shown.size))
    wins, ratio = wins[at], panel.discrimination[1]
    ahead, longer = (
        (v[:, None] - v).ravel()[at]
        for v in (
            cheap.discrimination * (pool.design.ownership() @ pool.quality),
            pool.design.covariates[:, 0],
        )
    )
    offset, slope = ratio * ahead, ratio * longer  # logits at the truth; less slope * the change

    def score(change: Float[Array, ""]) -> Float[Array, ""]:
        return (slope * (shown * jax.nn.sigmoid(offset - slope * change) - wins)).sum()

    def log_likelihood(change: Float[Array, ""]) -> Float[Array, ""]:
        logit = offset - slope * change
        return (wins * logit - shown * jax.nn.softplus(logit)).sum()

    p = jax.nn.sigmoid(offset)
    expected = Z / jnp.sqrt((shown * slope**2 * p * (1 - p)).sum())
    far = FAR * expected

    def root(of: Callable[[Array], Array], low: Array, high: Array) -> Array:
        """Of a function that falls."""

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            above = of(middle) > 0
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
    """Half-width of the 95 % interval for a cheap judge's c beside a reference's verdicts, from the
    Fisher information at the truth: no prior takes part. float64, D = 1.

    Args:
      cheap: judge 0 of the panel.
      panel: of both judges; only how often each pair was shown to each matters. The reference's
        biases are known to be zero, its discrimination is a factor on the cheap judge's.

    Returns:
      Logits per unit of the covariate; infinite where the comparisons are silent about c.
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
    told = information > identifiability.FLAT * even[index, index]
    return jnp.where(told, Z / jnp.sqrt(jnp.where(told, information, 1)), jnp.inf)
