"""What the active loop works on."""

from __future__ import annotations

from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from jbt import model
from jbt.types import Design, Pool, Prior, Variant, container

PROTOCOLS = ("frozen", "stochastic")
"""frozen: each ordered pair is asked at most once, and its answer is the verdict. stochastic: any
pair at any time, and its answer is a probability from which a verdict is drawn."""


@container
class Task:
    """What the loop works on: a pool whose judge can be asked, and the model inside."""

    quality: Float[Array, " M"]
    """True quality, for the recall alone."""
    design: Design
    answers: Float[Array, "N N"]
    """Frozen protocol: the verdict of each ordered pair, as the share won by the first shown: 1 or
    0, a tie 0.5, a graded verdict anything between. Stochastic: the probability that the first
    shown wins. NaN where there is no answer and the pair cannot be asked."""
    prior: Prior
    variant: Variant
    """Free coefficients of the model inside, traced: naive and bias-aware are one kernel."""

    @classmethod
    def build(
        cls,
        pool: Pool,
        answers: Bool[Array, "N N"] | Float[Array, "N N"],
        *,
        variant: Variant | None = None,
        prior: Prior | None = None,
    ) -> Task:
        """A task from a pool and its judge: `judges.frozen_draw`, `frozen_argmax` or the recorded
        verdicts of a real judge for the frozen protocol, `judges.verdict_probability` for the
        stochastic one.

        Args:
          answers: [N, N], see the field.
          variant: free coefficients, which may be traced; default all of them (bias-aware).
          prior: default `Prior()`.

        Raises:
          ValueError: answers of another shape, or outside 0..1 (NaN passes); a variant of another
            number of covariates.
        """
        design = pool.design
        n = design.n_items
        if answers.shape != (n, n):
            raise ValueError(f"answers must be [{n}, {n}], got shape {answers.shape}")
        if not isinstance(answers, Tracer) and bool(((answers < 0) | (answers > 1)).any()):
            raise ValueError("answers must be shares or probabilities, between 0 and 1")
        variant = model.variant("bias_aware", design) if variant is None else variant
        if variant.c.shape != (design.n_covariates,):
            raise ValueError(f"variant.c must be [{design.n_covariates}], got {variant.c.shape}")
        prior = Prior() if prior is None else prior
        return cls(pool.quality, design, answers.astype(design.dtype), prior, variant)
