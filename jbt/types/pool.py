"""A pool's items, and a simulated judge."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from jbt.types.containers import ScalarLike, container


@container
class Design:
    """How items map to parameters: which content owns each quality, and each item's covariates."""

    covariates: Float[Array, "N D ..."]
    """Covariates of each item; c is in logits per unit of these."""
    content: Int[Array, "N ..."] | None
    """Content of each item, in 0..M-1. None means that every item is its own content
    (M = N, the unpaired design): the same numbers as `arange(N)` without a gather."""
    item_mask: Bool[Array, "N ..."]
    """False for padding. Padded items may hold anything finite."""
    n_contents: int = dataclasses.field(metadata={"static": True})
    """M."""

    @classmethod
    def build(
        cls,
        covariates: Any,
        content: Any = None,
        item_mask: Any = None,
        n_contents: int | None = None,
    ) -> Design:
        """A design from arrays or lists, checked.

        Args:
          covariates: [N, D] finite numbers ([N] is read as D = 1; [N, 0] for none).
          content: [N] integers in 0..M-1, or None if every item is its own content.
          item_mask: [N] booleans, default all True.
          n_contents: M, default `max(content) + 1`.

        Raises:
          ValueError: shapes that do not fit, fewer than two items, NaN, content out of range.
        """
        x = jnp.asarray(covariates)
        x = x.astype(jnp.result_type(float)) if not jnp.issubdtype(x.dtype, jnp.floating) else x
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2:
            raise ValueError(f"covariates must be [N, D], got shape {x.shape}")
        n = x.shape[0]
        mask = jnp.ones(n, bool) if item_mask is None else jnp.asarray(item_mask, bool)
        if mask.shape != (n,):
            raise ValueError(f"item_mask must be [{n}], got shape {mask.shape}")
        if int(mask.sum()) < 2:
            raise ValueError(f"a pool needs at least 2 items, got {int(mask.sum())}")
        if not bool(jnp.isfinite(x).all()):
            raise ValueError("covariates must be finite")
        if content is None:
            return cls(x, None, mask, n)
        owner = np.asarray(content)
        if owner.shape != (n,) or not np.issubdtype(owner.dtype, np.integer):
            raise ValueError(f"content must be {n} integers, got {owner.dtype} {owner.shape}")
        m = int(owner.max()) + 1 if n_contents is None else n_contents
        if owner.min() < 0 or owner.max() >= m:
            raise ValueError(f"content must lie in 0..{m - 1}, got {owner.min()}..{owner.max()}")
        return cls(x, jnp.asarray(owner), mask, m)

    @classmethod
    def of_contents(cls, n_contents: int, n_covariates: int) -> Design:
        """The design for `Rows`: every content once, with covariates of zero."""
        # In NumPy: compiles nothing.
        x = jnp.asarray(np.zeros((n_contents, n_covariates), jnp.result_type(float)))
        return cls(x, None, jnp.asarray(np.ones(n_contents, bool)), n_contents)

    @property
    def n_items(self) -> int:
        """N."""
        return self.covariates.shape[0]

    @property
    def n_covariates(self) -> int:
        """D."""
        return self.covariates.shape[1]

    @property
    def dtype(self) -> Any:
        """Data type of everything computed with this design."""
        return self.covariates.dtype

    def ownership(self) -> Float[Array, "N M ..."]:
        """One-hot matrix of the content that each item shows; rows of padding are zero."""
        owner = self.content
        if owner is None:
            owner = jax.lax.broadcasted_iota(jnp.int32, self.item_mask.shape, 0)
        shows = jax.nn.one_hot(owner, self.n_contents, dtype=self.dtype, axis=1)
        return shows * self.item_mask[:, None]

    def content_mask(self) -> Bool[Array, "M ..."]:
        """Which contents are shown by at least one real item."""
        return self.item_mask if self.content is None else (self.ownership() > 0).any(0)

    def centred(self) -> Design:
        """The design with each covariate's mean over the real items subtracted, zeros at padding.
        Comparisons depend on differences between items, so only the rounding changes."""
        items = self.item_mask[:, None]
        x = jnp.where(items, self.covariates, 0)
        for _ in range(2):  # the mean of a large offset is rounded; its remainder is not large
            x = jnp.where(items, x - x.sum(0) / items.sum(0), 0)
        return dataclasses.replace(self, covariates=x)

    def spread(self) -> Float[Array, "D ..."]:
        """Standard deviation of each covariate over the real items; 0 where it does not vary."""
        x = self.centred().covariates
        items = self.item_mask[:, None]
        spread = jnp.sqrt((x**2).sum(0) / items.sum(0))
        largest = jnp.where(items, jnp.abs(self.covariates), 0).max(0)
        rounding = 4 * jnp.finfo(x.dtype).eps * largest
        return jnp.where(spread > rounding, spread, 0)

    def of_items(self, per_content: Shaped[Array, "M ..."]) -> Shaped[Array, "N ..."]:
        """The value of each item's content."""
        content = self.content
        if content is None:
            return per_content
        if content.size == len(content):  # shared by all problems
            return per_content[content.reshape(-1)]
        return jnp.take_along_axis(per_content, content, axis=0)


@container
class Pool:
    """One prompt with its candidate answers and their true qualities."""

    quality: Float[Array, " M"]
    """True quality theta*, in logits at discrimination 1."""
    design: Design


@container
class Judge:
    """A simulated judge, Eq. 1 with its true coefficients; its bias may grow with quality."""

    bias: Float[Array, " D"] | Float[np.ndarray, " D"]
    """c*, logits per unit of each covariate."""
    position: ScalarLike
    """kappa*, logits in favour of the first shown."""
    discrimination: ScalarLike = 1.0
    """Factor on quality (not on the biases); below 1 the judge separates qualities less well."""
    interaction: Float[Array, " D"] | Float[np.ndarray, " D"] | ScalarLike = 0.0
    """gamma*, logits per unit of each covariate and of quality, in the pool's own unit: the bias of
    an item is c* + gamma* times its quality about the mean of the pool's contents, so that c* is
    the bias of an average content. 0 for the judge of Eq. 1."""

    @classmethod
    def of(
        cls,
        bias: Any,
        position: float = 0.0,
        discrimination: float = 1.0,
        interaction: Any = 0.0,
    ) -> Judge:
        """A judge from numbers, in NumPy: building one does not start JAX, so lists of judges can
        be constants of a module.

        Args:
          bias: a number for one covariate, or [D] numbers.
          interaction: a number for all covariates, or [D] numbers.

        Raises:
          ValueError: more than one axis, lengths that differ, not finite.
        """
        c, gamma = np.atleast_1d(np.asarray(bias, float)), np.asarray(interaction, float)
        if c.ndim != 1:
            raise ValueError(f"bias must be a number or [D], got shape {c.shape}")
        if gamma.ndim and gamma.shape != c.shape:
            raise ValueError(f"interaction must be a number or {c.shape}, got shape {gamma.shape}")
        judge = cls(c, float(position), float(discrimination), np.broadcast_to(gamma, c.shape))
        for name, value in vars(judge).items():
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite, got {value}")
        return judge
