"""Settings of the pools that sweeps simulate and of the prior they fit with, to inherit, with their
checks and draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt.experiments.declare import check_increasing, check_top
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, stream
from jbt.types import Comparisons, Judge, Pool, Prior, check_count


@dataclass(frozen=True, kw_only=True)
class PoolKind:
    """Which kind of pool is drawn."""

    pool: str = "gaussian"
    """Kind of pool, one of `jbt.simulation.pools.POOLS`."""
    max_correlation: float | None = None
    """Draw the covariates again until their |correlation| with quality within the pool is below
    this number in (0, 1], as the paper does with 0.12. By default they are drawn once."""


@dataclass(frozen=True, kw_only=True)
class VaryingBias:
    """How the bias of the judge, or of the cheap one of two, goes with quality."""

    interaction: float = 0.0
    """Growth gamma* of the bias with quality (logits per unit of covariate and quality): the bias
    of an item is c* + gamma* times the distance of its quality from the pool's mean."""

    def growing(self, judge: Judge) -> Judge:
        """A judge with this interaction."""
        return dataclasses.replace(judge, interaction=np.full_like(judge.bias, self.interaction))


@dataclass(frozen=True, kw_only=True)
class MapPrior:
    """The normal prior of the fits."""

    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""

    @property
    def prior(self) -> Prior:
        return Prior(self.lam, self.lam_b)


@dataclass(frozen=True, kw_only=True)
class Scenario(PoolKind, MapPrior):
    """Pools of one size, and the prior they are fitted with."""

    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    n_items: int = 30
    """Number of items of a pool."""
    k: int = 5
    """Size of the top k."""

    def check_pools(self, least: int = 4) -> None:
        """Raise `ValueError` for pools that cannot be drawn, or of fewer than `least` items."""
        pools.check_kind(self.pool)
        check_count("n_items", self.n_items, least=least)
        check_top(self.k, self.n_items)

    def check_balance(self, rho: Sequence[float], covariate: pools.CovariateKind) -> None:
        """Raise `ValueError` if `max_correlation` cannot be met at these correlations."""
        pool = self.pool, self.n_items, self.max_correlation
        pools.check_balance(*pool, k=self.k, rho=rho, covariate=covariate)

    def draw(
        self, key: Key[Array, ""], condition: Condition, covariate: pools.CovariateKind
    ) -> Pool:
        """A pool of correlation `condition["rho"]`; sd and k are the condition's if it has them. So
        is the number of items, the pool being padded to `n_items`."""
        padding = {}
        if "n_items" in condition:
            padding["item_mask"] = jnp.arange(self.n_items) < condition["n_items"]
        return pools.POOLS[self.pool](
            stream(key, "pool"),
            self.n_items,
            k=condition.get("k", self.k),
            sd=condition.get("sd", self.sd),
            rho=condition["rho"],
            covariate=covariate,
            max_correlation=self.max_correlation,
            **padding,
        )


@dataclass(frozen=True, kw_only=True)
class Correlated(Scenario):
    """Pools over a grid of correlations between quality and covariate."""

    covariate: pools.CovariateKind = "continuous"
    """continuous: Gaussian with variance 1. binary: 1 for the upper half of a latent number within
    the pool, else 0; its population correlation with quality cannot exceed 0.798."""
    rho: tuple[float, ...] = ()
    """Population correlations of quality and covariate, increasing."""

    def check_grid(self) -> None:
        """Raise `ValueError` for pools or correlations that cannot be drawn."""
        pools.check_rho(self.rho, self.covariate)
        check_increasing("rho", self.rho)
        self.check_pools()
        self.check_balance(self.rho, self.covariate)


def every_verdict(key: Key[Array, ""], pool: Pool, judge: Judge) -> Comparisons:
    """Comparisons of a judge that answers every ordered pair once, by a draw."""
    verdicts = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
    return judges.reveal(verdicts, pairs.every_pair(pool))
