"""Plans how precisely a design of comparisons would identify a bias coefficient, or a bias that
grows with quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import identifiability
from jbt.estimators.interaction_fit import bias_variances
from jbt.kernel import model
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import (
    Comparisons,
    Judge,
    Parameters,
    Pool,
    check_count,
    check_positive,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Z = NormalDist().inv_cdf(0.975)
"""Half-width of a 95 % interval, in standard errors."""


def expected_half_width(
    pool: Pool, judge: Judge, shown: Float[Array, "N N"], *, level: float = 0.95
) -> Float[Array, ""]:
    """Half-width of the interval for c from these comparisons, by the Fisher information at the
    truth: no verdict is drawn and nothing is fitted. float64, D = 1.

    Args:
      shown: [N, N] how often each ordered pair would be shown; may be a fraction.
      level: coverage of the interval.

    Returns:
      Logits per unit of the covariate; infinite where the comparisons do not identify c.
    """
    truth = Parameters(
        judge.discrimination * pool.quality,
        jnp.asarray(judge.bias),
        jnp.asarray(judge.position, shown.dtype),
    )
    comparisons = Comparisons(shown, shown * judges.verdict_probability(pool, judge))
    information = identifiability.efficient_information(truth, comparisons, pool.design)
    design = pool.design.centred()
    even = model.score_and_information(Parameters.zeros(design), design, comparisons)[1]
    index = pool.design.n_contents
    identified = information > identifiability.FLAT * even[index, index]
    z = NormalDist().inv_cdf((1 + level) / 2)
    return jnp.where(identified, z / jnp.sqrt(jnp.where(identified, information, 1)), jnp.inf)


TWICE = ("any", "boundary")
"""Which contents are rendered twice: any of them, or those whose quality is nearest to the boundary
of the top k, as if it were known."""


@dataclass(frozen=True)
class PairingPlan:
    """How precisely a coefficient would be known, for each number of contents rendered twice."""

    n_twice: np.ndarray
    """[T] contents rendered twice, increasing."""
    half_width: Mapping[str, np.ndarray]
    """Choice of comparisons -> [T] mean half-width over pools (the median from
    `pairing_with_interaction`), in units of the coefficient; infinite where it is not identified in
    some pool (in half of them)."""
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    """Likewise, the ends of the central 90 % of pools."""
    verdicts: Mapping[str, np.ndarray]
    """Likewise, verdicts spent: below the budget where the limit of repeats binds."""

    def smallest(self, comparisons: str, half_width: float) -> int | None:
        """The smallest n_twice whose mean half-width is at most `half_width`; None if there is
        none."""
        enough = np.flatnonzero(self.half_width[comparisons] <= half_width)
        return int(self.n_twice[enough[0]]) if len(enough) else None

    def to_frame(self) -> pd.DataFrame:
        """A row for each number of contents rendered twice and choice of comparisons."""
        import pandas as pd

        columns = {name: getattr(self, name) for name in ("half_width", "low", "high", "verdicts")}
        frames = [
            pd.DataFrame(
                {"n_twice": self.n_twice, "comparisons": choice}
                | {name: values[choice] for name, values in columns.items()}
            )
            for choice in self.half_width
        ]
        return pd.concat(frames, ignore_index=True)

    def figure(self) -> Figure:
        """Draw the half-width against the contents rendered twice, a line for each choice of
        comparisons, with the central 90 % of pools as its band."""
        from jbt.border import plots

        figure, ax = plots.new_figure()
        for choice, colour in zip(self.half_width, plots.CYCLE, strict=False):
            ends = (v[choice] for v in (self.half_width, self.low, self.high))
            plots.band(ax, self.n_twice, *ends, colour=colour, label=choice, marker=".", shade=0.15)
        ax.set_xscale("log")
        ax.set_yscale("log")
        plots.ticks(ax, x=self.n_twice.tolist(), y=(0.1, 0.2, 0.5, 1.0, 2.0, 5.0))
        ax.set_xlabel("contents rendered twice")
        ax.set_ylabel("half-width of the 95 % interval of c\n(logits; band: 90 % of pools)")
        ax.legend(title="comparisons", fontsize=8)
        return figure


def pairing(
    n_contents: int,
    budget: int,
    *,
    n_twice: Sequence[int] | None = None,
    max_repeats: float = 1.0,
    bias: float = 1.0,
    position: float = 0.0,
    discrimination: float = 1.0,
    sd: float = 1.2,
    rho: float = 0.0,
    spread: float = 1.0,
    offset: float = 1.0,
    pools_simulated: int = 128,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> PairingPlan:
    """How precisely a budget of verdicts would identify c, by the number of contents rendered twice
    and the choice of comparisons.

    Args:
      n_contents: M.
      budget: verdicts.
      n_twice: numbers of contents rendered twice, 1..M, increasing; default all of them.
      max_repeats: how often an ordered pair may be shown; the second answer of a judge that repeats
        itself carries no information.
      bias, position, discrimination: the judge expected.
      sd, rho, spread, offset: the pools expected, as in `pools.paired`.
      pools_simulated: pools to average over.
      seed: seed of the pools.
      progress: see `simulate`.

    Raises:
      ValueError: an argument out of range.
    """
    judge = Judge.of(bias, position, discrimination)
    design = _Designs(n_contents, budget, n_twice, max_repeats, sd, rho, spread, offset)

    def half_widths(pool: Pool, shown: Float[Array, "N N"]) -> dict[str, Array]:
        return {"c": expected_half_width(pool, judge, shown)}

    return design.plans(judge, half_widths, pools_simulated, seed, progress)["c"]


def pairing_with_interaction(
    n_contents: int,
    budget: int,
    interaction: float,
    *,
    twice: str = "any",
    k: int = 5,
    n_twice: Sequence[int] | None = None,
    max_repeats: float = 1.0,
    bias: float = 1.0,
    position: float = 0.0,
    discrimination: float = 1.0,
    sd: float = 1.2,
    rho: float = 0.0,
    spread: float = 1.0,
    offset: float = 1.0,
    pools_simulated: int = 128,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> dict[str, PairingPlan]:
    """Likewise where the bias may grow with quality. Plans of medians: two contents of nearly one
    quality hardly identify growth, so that widths have long tails.

    Args:
      interaction: gamma of the judge expected, logits per unit of the covariate and of quality;
        at 0 too the growth is taken for unknown.
      twice: one of `TWICE`.
      k: size of the top set, for the boundary.
      n_contents, and the others: as for `pairing`.

    Returns:
      Plans for "c", the bias of a content of average quality, for "gamma" (logits per unit of the
      covariate and of quality), and for "twice", the mean bias of the contents rendered twice.

    Raises:
      ValueError: an argument out of range.
    """
    if twice not in TWICE:
        raise ValueError(f"twice must be {' or '.join(TWICE)}, got {twice!r}")
    if twice == "boundary" and not 1 <= k < n_contents:
        raise ValueError(f"k must lie in 1..{n_contents - 1}, got {k}")
    judge = Judge.of(bias, position, discrimination, interaction)
    design = _Designs(n_contents, budget, n_twice, max_repeats, sd, rho, spread, offset)

    def half_widths(pool: Pool, shown: Float[Array, "N N"]) -> dict[str, Array]:
        seen = discrimination * (pool.quality - pool.quality.mean())
        truth = Parameters(seen, jnp.asarray(judge.bias), jnp.asarray(position, shown.dtype))
        verdicts = Comparisons(shown, shown * judges.verdict_probability(pool, judge))
        growth = jnp.full(1, interaction / discrimination)
        rendered = pool.design.item_mask[n_contents:]
        c, gamma, of_twice = bias_variances(truth, growth, verdicts, pool.design, rendered)
        variances = {"c": c[0], "gamma": gamma[0] * discrimination**2, "twice": of_twice[0]}
        return {name: Z * jnp.sqrt(variance) for name, variance in variances.items()}

    nearest = partial(_nearest_twice, k=k) if twice == "boundary" else None
    return design.plans(judge, half_widths, pools_simulated, seed, progress, nearest, np.median)


def _nearest_twice(pool: Pool, n_twice: Array, k: int) -> Pool:
    """The same pool with second renderings of the contents nearest to the boundary of the top k
    alone."""
    ordered = jnp.sort(pool.quality, descending=True)
    distance = jnp.abs(pool.quality - (ordered[k - 1] + ordered[k]) / 2)
    second = jnp.argsort(jnp.argsort(distance)) < n_twice
    mask = jnp.concatenate([jnp.ones(len(distance), bool), second])
    return replace(pool, design=replace(pool.design, item_mask=mask))


@dataclass(frozen=True)
class _Designs:
    """Pools with some contents rendered twice, and choices of comparisons; arguments of
    `pairing`."""

    n_contents: int
    budget: int
    n_twice: Sequence[int] | None
    max_repeats: float
    sd: float
    rho: float
    spread: float
    offset: float

    def __post_init__(self) -> None:
        check_count("n_contents", self.n_contents, least=2)
        numbers, m = self.numbers, self.n_contents
        if not numbers.size or (np.diff(np.r_[0, numbers, m + 1]) <= 0).any():
            raise ValueError(f"n_twice must increase within 1..{m}, got {numbers.tolist()}")
        for name in ("budget", "sd"):
            check_positive(name, getattr(self, name))
        if not self.max_repeats >= 1:  # also refuses NaN
            raise ValueError(f"max_repeats must be at least 1, got {self.max_repeats}")
        pools.check_rho(self.rho, "continuous")
        pools.check_renderings(self.spread, self.offset)

    @property
    def numbers(self) -> np.ndarray:
        every = np.arange(1, self.n_contents + 1)
        return every if self.n_twice is None else np.asarray(self.n_twice, int)

    def plans(
        self,
        judge: Judge,
        half_widths: Callable[[Pool, Float[Array, "N N"]], dict[str, Array]],
        pools_simulated: int,
        seed: int,
        progress: Callable[[int], Any] | None,
        rendered: Callable[[Pool, Array], Pool] | None = None,
        middle: Callable[..., np.ndarray] = np.mean,
    ) -> dict[str, PairingPlan]:
        """A plan for each half-width.

        Args:
          half_widths: of a pool and the number of times each pair is shown.
          rendered: a pool in which other contents are rendered twice, from one where all are and
            how many to keep; default the first ones.
          middle: of the half-widths over pools.
        """
        check_count("pools", pools_simulated)
        check_positive("discrimination", float(judge.discrimination))
        names, numbers = list(pairs.WITHIN_SHARE), self.numbers
        of_pool = {"sd": self.sd, "rho": self.rho, "spread": self.spread, "offset": self.offset}

        def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
            first = None if rendered else condition["n_twice"]
            pool = pools.paired(stream(key, "pool"), self.n_contents, n_twice=first, **of_pool)
            pool = rendered(pool, condition["n_twice"]) if rendered else pool
            shown = pairs.expected(pool, self.budget, condition["share"], self.max_repeats)
            return half_widths(pool, shown) | {"verdicts": shown.sum()}

        conditions = {
            "n_twice": np.tile(numbers, len(names)),
            "share": np.repeat([*pairs.WITHIN_SHARE.values()], len(numbers)),
        }
        ids = range(pools_simulated)
        out = simulate(experiment, conditions, ids, seed=seed, dtype="float64", progress=progress)
        out = {n: v.reshape(pools_simulated, len(names), -1) for n, v in out.items()}

        def by_name(values: np.ndarray) -> dict[str, np.ndarray]:
            return dict(zip(names, values, strict=True))

        def plan(half_width: np.ndarray) -> PairingPlan:
            low, high = np.quantile(half_width, [0.05, 0.95], axis=0, method="nearest")
            widths = by_name(middle(half_width, axis=0)), by_name(low), by_name(high)
            return PairingPlan(numbers, *widths, by_name(out["verdicts"].mean(0)))

        return {name: plan(v) for name, v in out.items() if name != "verdicts"}
