"""Judge and pools of the experiments on acquisition: the twin of one of the paper's judges, or a
judge of our own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Key

from jbt import twins
from jbt.experiments.declare import Sweep
from jbt.simulation import pools
from jbt.types import Judge, Pool, check_count, check_positive, check_word

BANK = "statement_bank"
SD = 1.25
"""Standard deviation of quality in Gaussian pools (logits)."""
NUMBERS = ("bias", "position", "discrimination", "interaction", "pair_noise")
"""Numbers of a judge, and of its twin."""
DEFAULTS_WITHOUT_JUDGE = {
    "oracle": "draws",
    "bias": 1.5,
    "position": 0.35,
    "discrimination": 1.0,
    "interaction": 0.0,
    "pair_noise": 0.0,
}
"""Values of the fields left at None where no judge is named."""


@dataclass(frozen=True)
class Case:
    """A judge and the model inside the loop."""

    name: str
    """Name of the judge in the table."""
    judge: Judge
    model: str = "bias_aware"
    pair_noise: float = 0.0


@dataclass(frozen=True, kw_only=True)
class JudgeSettings(Sweep):
    """A judge, its pools, and the protocol by which it answers."""

    protocol: ClassVar[str]
    """Whether verdicts are cached: frozen or stochastic."""

    judge: str | None = None
    """One of the paper's judges. Its twin (`jbt.twins`) is simulated on pools like the paper's
    (`statement_bank`, with |correlation| below 0.12 within the pool and quality in statements);
    other options override this. Without it, a judge of our own is simulated on Gaussian pools."""
    oracle: str | None = None
    """How a frozen judge answers. argmax: it gives the likelier verdict. draws: it draws one
    verdict. This also selects the twin. By default as the paper's judge does; a judge of our own
    draws."""
    bias: float | None = None
    """True bias c* (logits for x = 1 over x = 0). By default 1.5, or the twin's."""
    discrimination: Annotated[float | None, check_positive] = None
    """Factor on quality in the judge's logits. By default 1, or the twin's."""
    position: float | None = None
    """True position bias kappa* (logits in favour of the item shown first). By default 0.35, or the
    twin's."""
    interaction: float | None = None
    """Growth gamma* of the bias with quality (logits per unit of covariate and quality; with
    --judge quality is in statements): the bias of an item is c* + gamma* times the distance of its
    quality from the pool's mean. By default 0."""
    pair_noise: float | None = None
    """Standard deviation of the judge's preference for a pair beyond quality and bias (logits). It
    counts where the likelier verdict is given or verdicts are drawn afresh. By default 0, or the
    twin's."""
    n_items: Annotated[int, partial(check_count, least=4)] = 30
    """Number of items of a pool, half of them with x = 1."""
    k: int = 5
    """Size of the top k."""

    @property
    def pool(self) -> str:
        """Kind of pool, one of `jbt.simulation.pools.POOLS`."""
        return BANK if self.judge else "gaussian"

    @property
    def max_correlation(self) -> float | None:
        """Bound on the |correlation| of covariate and quality within a pool."""
        return twins.MAX_CORRELATION if self.judge else None

    def defaults(self) -> dict[str, Any]:
        """Values of the fields that are None: name -> value.

        Raises:
          ValueError: unknown judge, or no twin of this oracle.
        """
        if self.judge is None:
            return DEFAULTS_WITHOUT_JUDGE
        twin = twins.twin(self.judge, oracle=self.oracle)
        values = vars(twin) | {"interaction": 0.0}  # a twin's bias does not grow
        return {name: values[name] for name in ("oracle", *NUMBERS)}

    def decided(self):
        missing = {n: v for n, v in self.defaults().items() if getattr(self, n) is None}
        return replace(self, **missing)

    def case(self) -> Case:
        """The settings' judge. A twin as calibrated has the name of the paper's judge, so that the
        paper's numbers stand beside it alone; a changed twin has another."""
        values: dict[str, float] = {n: getattr(self, n) for n in NUMBERS}
        name = self.judge or "default"
        if self.judge is not None:
            calibrated = self.defaults()
            name += "_changed" * any(calibrated[n] != v for n, v in values.items())
        noise = values.pop("pair_noise")
        return Case(name, Judge.of(**values), pair_noise=noise)

    def check(self):
        super().check()
        check_word("oracle", self.oracle, twins.ORACLES)
        if self.pair_noise is not None and self.pair_noise < 0:
            raise ValueError(f"pair_noise must be at least 0, got {self.pair_noise}")
        if self.pair_noise and self.oracle == "draws" and self.protocol == "frozen":
            raise ValueError("pair_noise needs --oracle argmax: frozen draws have none")

    def draw(self, key: Key[Array, ""]) -> Pool:
        """A pool."""
        return pools.POOLS[self.pool](
            key,
            n_items=self.n_items,
            k=self.k,
            sd=SD,
            rho=jnp.zeros(()),
            covariate="binary",
            max_correlation=self.max_correlation,
        )
