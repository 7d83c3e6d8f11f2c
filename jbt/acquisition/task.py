"""The task of the active loop: a pool, its judges and their prices, and the fitted model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from jbt.kernel import model
from jbt.types import (
    Comparisons,
    Design,
    Panel,
    Pool,
    Prior,
    Variant,
    Verdicts,
    check_positive,
    container,
)

PROTOCOLS = ("frozen", "stochastic")
"""frozen: each ordered pair is asked at most once (with several judges, once of each), and its
answer is the verdict. stochastic: any pair may be asked at any time, and its answer is the
probability that a verdict is drawn from."""

ROUNDING = 8
"""Relative excess of a sum of prices over the purse that passes, in units of rounding."""


@container
class Panelists:
    """Several judges that can be asked, and their prices."""

    discrimination: Float[Array, " J"]
    sharing: Float[Array, "J J"]
    """Both as in `jbt.types.Panel`; the fitted model assumes them."""
    price: Float[Array, " J"]
    """Price of a verdict of each judge, in any unit; infinite for a judge that cannot be asked."""
    purse: Float[Array, ""]
    """The most that may be spent, in the unit of the prices. A verdict that costs more than the
    rest of it is not available."""

    @classmethod
    def build(
        cls, n_judges: int, dtype: Any, discrimination: Any, sharing: Any, price: Any, purse: Any
    ) -> Panelists:
        """J judges, each argument None for its default; see `Task.build`."""
        if n_judges < 1:
            raise ValueError("answers must come from at least one judge, got none")
        discrimination, price = (1.0 if v is None else v for v in (discrimination, price))
        purse = jnp.inf if purse is None else purse
        sharing = jnp.eye(n_judges) if sharing is None else sharing
        for name, value in (("price", price), ("purse", purse)):
            if not _is_traced(value) and not (np.asarray(value) > 0).all():
                raise ValueError(f"{name} must be above 0, got {value}")
        if not _is_traced(discrimination):
            check_positive("discrimination", discrimination)
        s, price, purse, sharing = (
            jnp.asarray(v, dtype) for v in (discrimination, price, purse, sharing)
        )
        for name, value in (("discrimination", s), ("price", price)):
            if value.shape not in ((), (n_judges,)):
                raise ValueError(f"{name} must be a number or [{n_judges}], got {value.shape}")
        if purse.shape != ():
            raise ValueError(f"purse must be a number, got shape {purse.shape}")
        if sharing.shape != (n_judges, n_judges):
            raise ValueError(f"sharing must be [{n_judges}, {n_judges}], got {sharing.shape}")
        if not isinstance(sharing, Tracer) and not bool(jnp.isfinite(sharing).all()):
            raise ValueError("sharing must be finite")
        s, price = (jnp.broadcast_to(v, n_judges) for v in (s, price))
        return cls(s, sharing, price, purse)

    def panel(self, counts: Comparisons) -> Panel:
        """The verdicts counted in [N, N, J], in the form that the model takes."""
        return Panel(counts, self.discrimination, self.sharing)

    def spent(self, asked: Float[Array, "... J"]) -> Float[Array, "... J"]:
        """Spending on each judge after `asked` verdicts of each."""
        return jnp.where(asked > 0, asked * self.price, 0)

    def affordable(self, asked: Float[Array, " J"]) -> Bool[Array, " J"]:
        """Whether one more verdict of each judge can be paid, after `asked` verdicts of each."""
        total = self.spent(asked).sum() + self.price
        rounding = 1 + ROUNDING * float(jnp.finfo(total.dtype).eps)
        return jnp.isfinite(self.price) & (total <= self.purse * rounding)


@container
class Task:
    """A pool whose judges can be asked, and the model that is fitted to their answers."""

    quality: Float[Array, " M"]
    """True quality; only the recall uses it."""
    design: Design
    answers: Float[Array, "N N ..."]
    """Frozen protocol: the verdict of each ordered pair, as the share won by the first shown: 1 or
    0, a tie 0.5, a graded verdict anything between. Stochastic: the probability that the first
    shown wins. NaN where there is no answer and the pair cannot be asked. With several judges, the
    judge is the last axis."""
    prior: Prior
    variant: Variant
    """Free coefficients of the fitted model, traced: naive and bias-aware are one kernel."""
    panelists: Panelists | None = None
    """The judges, if there are several; a single judge's verdicts are counted and not paid."""

    @classmethod
    def build(
        cls,
        pool: Pool,
        answers: Bool[Array, "N N ..."] | Float[Array, "N N ..."],
        *,
        variant: Variant | None = None,
        prior: Prior | None = None,
        discrimination: Any = None,
        sharing: Any = None,
        price: Any = None,
        purse: Any = None,
    ) -> Task:
        """Build a task from a pool and the answers of its judge: `judges.frozen_draw`,
        `frozen_argmax` or a real judge's recorded verdicts for the frozen protocol,
        `judges.verdict_probability` for the stochastic one. With several judges, their answers are
        stacked along the last axis; by convention the first is the cheapest and the last the
        reference.

        Args:
          answers: [N, N], with several judges [N, N, J]; see the field.
          variant: free coefficients, which may be traced; default all of them (bias-aware). With
            several judges c is [D, J] and kappa [J].
          prior: default `Prior()`.
          discrimination: s_g, which the model assumes, a number or [J]; default 1.
          sharing: [J, J], see `jbt.types.Panel`; default the identity, each judge its own biases.
          price: of a verdict, a number or [J]; default 1. Infinite: never asked.
          purse: the most that may be spent; default unlimited.
            The last four need several judges, and may be traced.

        Raises:
          ValueError: answers of a wrong shape, or outside 0..1 (NaN passes); a variant of another
            number of covariates or judges; a price, purse or discrimination not above 0; any of
            the last four with one judge.
        """
        design = pool.design
        n = design.n_items
        if answers.shape[:2] != (n, n) or answers.ndim > 3:
            raise ValueError(f"answers must be [{n}, {n}], got shape {answers.shape}")
        if not isinstance(answers, Tracer) and bool(((answers < 0) | (answers > 1)).any()):
            raise ValueError("answers must be shares or probabilities, between 0 and 1")
        n_judges = answers.shape[2] if answers.ndim == 3 else None
        judges = () if n_judges is None else (n_judges,)
        variant = model.variant("bias_aware", design, n_judges) if variant is None else variant
        if variant.c.shape != (design.n_covariates, *judges):
            expected = [design.n_covariates, *judges]
            raise ValueError(f"variant.c must be {expected}, got {variant.c.shape}")
        if variant.kappa.shape != judges:
            raise ValueError(f"variant.kappa must be {list(judges)}, got {variant.kappa.shape}")
        prior = Prior() if prior is None else prior
        terms, panelists = (discrimination, sharing, price, purse), None
        if n_judges is not None:
            panelists = Panelists.build(n_judges, design.dtype, *terms)
        elif any(term is not None for term in terms):
            raise ValueError(
                f"discrimination, sharing, price and purse need several judges, with answers "
                f"[{n}, {n}, J]: got {answers.shape}"
            )
        answers = answers.astype(design.dtype)
        return cls(pool.quality, design, answers, prior, variant, panelists)

    @property
    def n_judges(self) -> int | None:
        """J with several judges, None with one."""
        return None if self.panelists is None else self.panelists.price.shape[0]

    def verdicts(self, counts: Comparisons) -> Verdicts:
        """The verdicts counted in [N, N] or [N, N, J], in the form that the model takes."""
        return counts if self.panelists is None else self.panelists.panel(counts)


def _is_traced(value: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
