"""Plans the number of verdicts of a trusted reference that a bias coefficient takes: `jbt plan
reference`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt.border.report import with_interval
from jbt.estimators import reference
from jbt.experiments.declare import check_increasing
from jbt.kernel import metrics
from jbt.planning.pairing_plan import Z, half_width_at
from jbt.planning.plan import WIDTHS, JudgedPlan, lasting
from jbt.simulation import judges
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import Judge, Panel, Parameters, Pool, Prior, check_positive

FAR, HALVINGS = 50.0, 30
"""Distance from the truth within which an end of an interval is searched, in expected half-widths,
and number of halvings."""


@dataclass(frozen=True, kw_only=True)
class ReferencePlan(JudgedPlan):
    """Say how many verdicts of a trusted judge (the reference), and on which pairs,
    it takes to measure the bias coefficient c of a cheap judge.

    The cheap judge has judged every ordered pair once. From simulated verdicts of
    the reference, the plan gives the half-width of the 95 % interval of c, and the
    recall of a fit of both judges in which quality may correlate with the
    covariate (float64)."""

    NAME: ClassVar[str] = "reference"
    COUNT: ClassVar[str] = "n_reference"

    half_width: float | None = None
    """The half-width that you want (logits per unit of the covariate). By default 0.5, unless
    --recall is given."""
    recall: float | None = None
    """The recall of the top k that you want: the mean over pools must reach it by the lower end of
    its 95 % interval, which is narrower with more --pools."""
    n_reference: tuple[int, ...] = (0, 5, 10, 20, 30, 45, 60, 90, 120)
    """Numbers of verdicts of the reference to try, increasing."""
    reference_bias: float = 0.0
    """True bias of the reference, which the fit takes to be zero (logits per unit)."""
    reference_discrimination: float = 1.0
    """Factor on quality in the reference's logits, which the fit knows."""
    pools: int = 512
    """Number of pools simulated."""

    def __post_init__(self) -> None:
        if self.half_width is None and self.recall is None:
            object.__setattr__(self, "half_width", 0.5)

    def check(self) -> None:
        super().check()
        if self.half_width is not None:
            check_positive("half_width", self.half_width)
        if self.recall is not None and not 0 < self.recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {self.recall:g}")
        check_increasing("n_reference", self.n_reference, least=0)
        check_positive("reference_discrimination", self.reference_discrimination)

    def run(self, progress: Callable[[int], Any] | None = None) -> dict[str, Any]:
        """How precisely a few verdicts of a reference would identify a cheap judge's c, and the
        recall they would give, by the pairs the reference is shown (`reference.PLACEMENTS`).

        Half-widths are those of profile-likelihood intervals without a prior, in which the
        reference's biases are taken to be zero. They come from the Fisher information at the true
        parameters, times a factor for few verdicts from simulation (`realised_over_expected`).
        Recall is that of simulated fits in which quality may correlate with the covariate
        (`reference.correlated`). The reference sees no pair twice.

        Args:
          progress: see `simulate`.

        Returns:
          n_reference [T]; recall_naive and recall_bias_aware, mean top-k recall of the cheap
          judge's verdicts alone; placements: for each the smallest_n_reference that is enough, or
          None, half_width [T], the median over pools in logits per unit of the covariate, infinite
          where c is not identified in at least half of them, half_width_5_percent and
          half_width_95_percent, the ends of the central 90 % of pools, asked, the mean number of
          verdicts, below n_reference where there are too few pairs, and the mean top-k recall of
          the joint fit with recall_standard_error.

        Raises:
          ValueError: an option out of range.
        """
        self.check()
        cheap, most = self.judge, self.numbers[-1]
        trusted = Judge.of(self.reference_bias, 0.0, self.reference_discrimination)
        ratio = self.reference_discrimination / self.discrimination

        def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
            comparisons, rankings = self.judged(key, condition["rho"])
            pool, prior = rankings.pool, Prior(self.lam, self.lam_b)
            answers = judges.frozen_draw(stream(key, "reference verdicts"), pool, trusted)
            thetas = (rankings.naive, rankings.bias_aware)
            alone = jnp.stack([metrics.top_k_recall(v, pool.quality, self.k) for v in thetas])

            def outcome(allowed: Float[Array, "N N"], n: Array) -> dict[str, Array]:
                shown = reference.asked(stream(key, "reference pairs"), allowed, n)
                panel = reference.beside(comparisons, judges.reveal(answers, shown), ratio)
                fit, _ = reference.correlated(panel, pool.design, prior)
                half_width = expected_half_width_beside(pool, cheap, panel)
                half_width *= realised_over_expected(pool, cheap, panel, most)
                recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, self.k)
                return {"half_width": half_width, "recall": recall, "asked": shown.sum()}

            allowed = jnp.stack([place(rankings) for place in reference.PLACEMENTS.values()])
            n_verdicts = jnp.asarray(self.numbers, pool.design.dtype)
            outcomes = jax.vmap(lambda a: jax.vmap(lambda n: outcome(a, n))(n_verdicts))(allowed)
            return {"alone": alone, **outcomes}

        ids, settings = range(self.pools), {"seed": self.seed, "dtype": "float64"}
        settings |= {"optimise": self.pools > 128}  # fewer run in less time than that takes
        out = simulate(experiment, {"rho": [self.rho]}, ids, progress=progress, **settings)
        out = {name: values[:, 0] for name, values in out.items()}
        recall = out["recall"]
        ends = np.quantile(out["half_width"], [0.5, 0.05, 0.95], axis=0, method="higher")
        columns = {
            **dict(zip(WIDTHS, ends, strict=True)),
            "asked": out["asked"].mean(0),
            "recall": recall.mean(0),
            "recall_standard_error": recall.std(0, ddof=1) / np.sqrt(self.pools),
        }
        naive, bias_aware = out["alone"].mean(0)
        plan = {"n_reference": self.numbers, "recall_naive": naive, "recall_bias_aware": bias_aware}
        return plan | {"placements": self.by_kind(reference.PLACEMENTS, columns)}

    def enough(self, columns: Mapping[str, Any]) -> int | None:
        """The place in `n_reference` from which on c is known to `half_width` in the median pool,
        and mean recall is at least `recall` by the lower end of its 95 % interval, so that
        simulating few pools plans too many verdicts rather than too few. None if there is none."""
        sufficient = np.ones(len(self.numbers), bool)
        if self.half_width is not None:
            sufficient &= columns["half_width"] <= self.half_width
        if self.recall is not None:
            low = columns["recall"] - Z * columns["recall_standard_error"]
            sufficient &= low >= self.recall
        return lasting(sufficient)

    def parts(self, plan: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
        goals = []
        if self.half_width is not None:
            goals.append(f"c to +-{self.half_width:g} in the median pool")
        if self.recall is not None:
            goals.append(f"a mean recall of {self.recall:g} by the lower end of its 95 % interval")
        yield (
            f"For {' and '.join(goals)}, of those tried",
            f"A cheap judge on every ordered pair of {self.n_items} items, and verdicts of a "
            "reference by placement: half-width of the 95 % interval of the cheap judge's c, "
            f"median over {self.pools} simulated pools [central 90 % of pools], then top-{self.k} "
            f"recall of the fit of both. The cheap judge alone: naive {plan['recall_naive']:.3f}, "
            f"bias-aware {plan['recall_bias_aware']:.3f}",
            plan["placements"],
        )

    def answer(self, columns: Mapping[str, Any], t: int | None) -> str:
        at = -1 if t is None else t
        n, asked = self.numbers[at], columns["asked"][at]
        recall, half = columns["recall"][at], Z * columns["recall_standard_error"][at]
        text = "more than those tried" if t is None else f"{n} verdicts"
        text += f", recall {with_interval(recall, recall - half, recall + half, '.3f')}"
        text += f" with {n}" * (t is None)
        return text + f" (there are pairs for {asked:.0f} on average)" * bool(asked < 0.99 * n)

    def cell(self, columns: Mapping[str, Any], t: int) -> str:
        return f"{super().cell(columns, t)}  {columns['recall'][t]:.3f}"

    def notes(self, plan: Mapping[str, Any]) -> Sequence[str]:
        return (
            "boundary: contents within three places of the boundary by the naive or the bias-aware "
            "ranking; disputed: pairs that these order differently; random: any pair",
            "inf: the verdicts do not identify c in half of the pools or more",
        )


main = ReferencePlan.main


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
    quality = cheap.discrimination * (pool.design.ownership() @ pool.quality)
    # Logits: `offset` at the true parameters, minus `slope` times the change of c.
    offset, slope = (
        ratio * (v[:, None] - v).ravel()[index] for v in (quality, pool.design.covariates[:, 0])
    )

    def log_likelihood(change: Float[Array, ""]) -> Float[Array, ""]:
        logit = offset - slope * change
        return (wins * logit - shown * jax.nn.softplus(logit)).sum()

    def root(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
        """The root of a falling function, by bisection."""

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            above = function(middle) > 0
            return jnp.where(above, middle, ends[0]), jnp.where(above, ends[1], middle)

        low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
        return (low + high) / 2

    p = jax.nn.sigmoid(offset)
    expected = Z / jnp.sqrt((shown * slope**2 * p * (1 - p)).sum())
    far = FAR * expected
    top = root(jax.grad(log_likelihood), -far, far)
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
    return half_width_at(truth, panel, pool.design, judge=0, variant=variant)
