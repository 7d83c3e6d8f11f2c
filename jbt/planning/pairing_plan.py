"""Plans how precisely a design of comparisons would identify a bias coefficient, or a bias that
grows with quality: `jbt plan pairing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import identifiability
from jbt.estimators.interaction_fit import bias_variances
from jbt.experiments.declare import check_fields, check_increasing, check_top
from jbt.kernel import model
from jbt.planning.plan import WIDTHS, SimulatedPlan
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import (
    Comparisons,
    Design,
    Judge,
    Parameters,
    Pool,
    check_count,
    check_positive,
    check_word,
)

Z = NormalDist().inv_cdf(0.975)
"""Half-width of a 95 % interval, in standard errors."""

WHAT = {
    "c": "c",
    "gamma": "gamma (logits per unit of the covariate and of quality)",
    "twice": "the mean bias of the contents shown in two lengths",
}
"""The coefficients of a plan in words; c is the bias of a content of average quality."""


@dataclass(frozen=True, kw_only=True)
class PairingPlan(SimulatedPlan):
    """Say how many contents to show in two lengths, so that the verdicts measure the
    bias coefficient c to a given precision.

    The plan computes the expected half-width of the 95 % interval of c, from the
    information at the truth of simulated pools (float64). With --interaction it
    also plans for a bias that may grow with quality."""

    NAME: ClassVar[str] = "pairing"
    COUNT: ClassVar[str] = "n_twice"

    half_width: float = 0.2
    """The half-width that you want (logits per unit of the covariate)."""
    n_contents: int = 30
    """Number of contents of a pool."""
    budget: int = 3480
    """Number of verdicts to be spent, evenly over the pairs that may be asked."""
    n_twice: tuple[int, ...] = ()
    """Numbers of contents shown in two lengths to try, increasing. By default all up to
    n_contents."""
    max_repeats: float = 1.0
    """How often an ordered pair may be asked. More than once helps only with a judge whose answers
    to the same question are independent draws."""
    interaction: float | None = None
    """Growth gamma* of the judge's bias with quality (logits per unit of the covariate and of
    quality). If given, gamma is unknown too: the plan is for c, gamma and the mean bias of the
    contents shown in two lengths. By default all contents have one bias."""
    twice: Literal["any", "boundary"] = "any"
    """With --interaction, which contents are shown in two lengths: any, or those whose quality is
    nearest to the boundary of the top k, as if it were known."""
    spread: float = 1.0
    """Standard deviation of the covariate over the contents (units of the covariate)."""
    offset: float = 1.0
    """Covariate of a content's second version minus that of its first (units of the covariate)."""
    pools: int = 128
    """Number of pools simulated."""

    @property
    def numbers(self) -> list[int]:
        return list(self.n_twice or range(1, self.n_contents + 1))

    @property
    def middle(self) -> str:
        """Of half-widths over pools. Two contents of nearly one quality hardly identify growth, so
        that widths have long tails with an interaction."""
        return "mean" if self.interaction is None else "median"

    @property
    def judge(self) -> Judge:
        return Judge.of(self.bias, self.position, self.discrimination, self.interaction or 0.0)

    def check(self) -> None:
        """Raise `ValueError` for an option out of range."""
        check_fields(self)
        for name in ("half_width", "budget", "discrimination"):
            check_positive(name, getattr(self, name))
        check_word("twice", self.twice, ("any", "boundary"))
        if self.twice == "boundary":
            if self.interaction is None:
                one = "one bias is the same everywhere"
                raise ValueError(f"--twice boundary needs --interaction: {one}")
            check_top(self.k, self.n_contents)
        check_count("n_contents", self.n_contents, least=2)
        check_increasing("n_twice", self.numbers, least=1, most=self.n_contents)
        if self.max_repeats < 1:
            raise ValueError(f"max_repeats must be at least 1, got {self.max_repeats}")
        pools.check_rho(self.rho, "continuous")
        pools.check_renderings(self.spread, self.offset)

    def run(self, progress: Callable[[int], Any] | None = None) -> dict[str, Any]:
        """How precisely a budget of verdicts would identify c, by the number of contents rendered
        twice and the choice of comparisons.

        Args:
          progress: see `simulate`.

        Returns:
          n_twice [T]; comparisons: for each choice of them the smallest_n_twice whose half-width is
          at most the one wanted, or None, half_width [T], the mean over pools (the median with an
          interaction) in units of the coefficient, infinite where it is not identified in some pool
          (in half of them), half_width_5_percent and half_width_95_percent, the ends of the central
          90 % of pools, and the verdicts spent, below the budget where the limit of repeats binds.
          With an interaction other_coefficients has the same for gamma and twice, see `WHAT`.

        Raises:
          ValueError: an option out of range.
        """
        self.check()
        numbers, shares, judge = self.numbers, pairs.WITHIN_SHARE, self.judge

        def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
            nearest, n_twice = self.twice == "boundary", condition["n_twice"]
            pool = pools.paired(
                stream(key, "pool"),
                self.n_contents,
                n_twice=None if nearest else n_twice,
                sd=self.sd,
                rho=self.rho,
                spread=self.spread,
                offset=self.offset,
            )
            pool = nearest_twice(pool, n_twice, self.k) if nearest else pool
            shown = pairs.expected(pool, self.budget, condition["share"], self.max_repeats)
            if self.interaction is None:
                half_widths = {"c": expected_half_width(pool, judge, shown)}
            else:
                half_widths = _with_growth(pool, judge, shown)
            return half_widths | {"verdicts": shown.sum()}

        conditions = {
            "n_twice": np.tile(numbers, len(shares)),
            "share": np.repeat([*shares.values()], len(numbers)),
        }
        ids, settings = range(self.pools), {"seed": self.seed, "dtype": "float64"}
        out = simulate(experiment, conditions, ids, progress=progress, **settings)
        out = {n: v.reshape(self.pools, len(shares), -1) for n, v in out.items()}
        verdicts, plans = out.pop("verdicts").mean(0), {}
        for name, widths in out.items():
            ends = np.quantile(widths, [0.05, 0.95], axis=0, method="nearest")
            widths = (getattr(np, self.middle)(widths, axis=0), *ends)
            columns = dict(zip(WIDTHS, widths, strict=True)) | {"verdicts": verdicts}
            plans[name] = self.by_kind(shares, columns)
        plan = {"n_twice": numbers, "comparisons": plans.pop("c")}
        return plan | ({"other_coefficients": plans} if plans else {})

    def enough(self, columns: Mapping[str, Any]) -> int | None:
        enough = np.flatnonzero(columns["half_width"] <= self.half_width)
        return int(enough[0]) if len(enough) else None

    def parts(self, plan: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
        plans = {"c": plan["comparisons"], **plan.get("other_coefficients", {})}
        for name, choices in plans.items():
            yield (
                f"To know {WHAT[name]} to +-{self.half_width:g} in the {self.middle}, show in two "
                "lengths",
                f"{WHAT[name]}: expected half-width of the 95 % interval from up to {self.budget} "
                f"verdicts on {self.n_contents} contents, {self.middle} over {self.pools} "
                "simulated pools [central 90 % of pools], by choice of comparisons",
                choices,
            )

    def answer(self, columns: Mapping[str, Any], t: int | None) -> str:
        tried = "none of the numbers tried is enough" if self.n_twice else "even all are not enough"
        spent = round(columns["verdicts"][-1 if t is None else t])
        less = "" if spent >= self.budget else f" ({spent} verdicts, no pair is left to ask)"
        return (tried if t is None else f"{self.numbers[t]} contents") + less

    def notes(self, plan: Mapping[str, Any]) -> Sequence[str]:
        return (
            "all: every ordered pair is asked equally often",
            "across: only pairs of different contents are asked",
            "within: only the two versions of one content are compared, which shows nothing of "
            "quality",
            "mixed: half of the verdicts are within and half across, as far as asking a pair at "
            f"most {self.max_repeats:g} times allows; if all pairs are asked, mixed is all",
            "inf: in some pools (for a median, in half of them) the interval has no end: all "
            "verdicts are certain, or no two contents shown in two lengths are compared",
        )


main = PairingPlan.main


def expected_half_width(pool: Pool, judge: Judge, shown: Float[Array, "N N"]) -> Float[Array, ""]:
    """Half-width of the 95 % interval for c from these comparisons, by the Fisher information at
    the truth: no verdict is drawn and nothing is fitted. float64, D = 1.

    Args:
      shown: [N, N] how often each ordered pair would be shown; may be a fraction.

    Returns:
      Logits per unit of the covariate; infinite where the comparisons do not identify c.
    """
    truth = Parameters(
        judge.discrimination * pool.quality,
        jnp.asarray(judge.bias),
        jnp.asarray(judge.position, shown.dtype),
    )
    comparisons = Comparisons(shown, shown * judges.verdict_probability(pool, judge))
    return half_width_at(truth, comparisons, pool.design)


def half_width_at(
    truth: Parameters, verdicts: Any, design: Design, **of_judge: Any
) -> Float[Array, ""]:
    """Half-width of the 95 % interval for c by the efficient information; infinite where that is
    nought. `of_judge`: see `identifiability.efficient_information`."""
    information = identifiability.efficient_information(truth, verdicts, design, **of_judge)
    even = model.information_at_even_odds(verdicts, design.centred())
    index = design.n_contents
    identified = information > identifiability.FLAT * even[index, index]
    return jnp.where(identified, Z / jnp.sqrt(jnp.where(identified, information, 1)), jnp.inf)


def _with_growth(
    pool: Pool, judge: Judge, shown: Float[Array, "N N"]
) -> dict[str, Float[Array, ""]]:
    """Half-widths for c, gamma, and the mean bias of the contents rendered twice."""
    s = judge.discrimination
    seen = s * (pool.quality - pool.quality.mean())
    truth = Parameters(seen, jnp.asarray(judge.bias), jnp.asarray(judge.position, shown.dtype))
    verdicts = Comparisons(shown, shown * judges.verdict_probability(pool, judge))
    growth = jnp.full(1, judge.interaction / s)
    rendered = pool.design.item_mask[pool.design.n_contents :]
    c, gamma, of_twice = bias_variances(truth, growth, verdicts, pool.design, rendered)
    variances = {"c": c[0], "gamma": gamma[0] * s**2, "twice": of_twice[0]}
    return {name: Z * jnp.sqrt(variance) for name, variance in variances.items()}


def nearest_twice(pool: Pool, n_twice: Array, k: int) -> Pool:
    """The same pool with second renderings of the contents nearest to the boundary of the top k
    alone."""
    ordered = jnp.sort(pool.quality, descending=True)
    distance = jnp.abs(pool.quality - (ordered[k - 1] + ordered[k]) / 2)
    second = jnp.argsort(jnp.argsort(distance)) < n_twice
    mask = jnp.concatenate([jnp.ones(len(distance), bool), second])
    return replace(pool, design=replace(pool.design, item_mask=mask))
