"""One coefficient c as the parameter of interest: which one it is, the nuisance parameters, and the
information about it that is left.

There is no prior, all is float64, and the parameters are (theta, c, kappa) themselves, so that
flatness is measured, not assumed.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from jbt.kernel import model
from jbt.kernel.fit import fit_supremum
from jbt.kernel.newton import RIDGE, information_scale
from jbt.types import (
    Design,
    Fit,
    Panel,
    Parameters,
    Rows,
    Variant,
    Verdicts,
    container,
    n_judges,
)


@container
class Coefficient:
    """One entry of c, with the comparisons and the design."""

    comparisons: Verdicts
    design: Design
    nuisance: Variant
    """The other free coefficients, which are nuisance parameters as the qualities are."""
    covariate: Int[Array, ""]
    judge: Int[Array, ""]
    """For a panel, the set of coefficients it belongs to; else 0."""

    @classmethod
    def of(
        cls,
        comparisons: Verdicts,
        design: Design,
        covariate: int | Int[Array, ""],
        judge: int | Int[Array, ""],
        variant: Variant | None,
    ) -> Coefficient:
        """Check the arguments. `variant`: the free coefficients, default all.

        Raises:
          ValueError: no such covariate, no such judge, float32.
        """
        if design.dtype != jnp.float64:
            raise ValueError(
                "likelihoods without a prior need float64, "
                f"got {design.dtype}: see jbt.runtime.precision"
            )
        judges = n_judges(comparisons)
        for name, value, n in (
            ("covariate", covariate, design.n_covariates),
            ("judge", judge, judges or 1),
        ):
            if not isinstance(value, Tracer) and not 0 <= int(value) < n:
                raise ValueError(f"{name} must lie in 0..{n - 1}, got {int(value)}")
        if variant is None:
            variant = model.variant("bias_aware", design, judges)
        entry = cls(comparisons, design, variant, jnp.asarray(covariate), jnp.asarray(judge))
        return dataclasses.replace(entry, nuisance=entry._with(variant, free=False))

    @property
    def index(self) -> Int[Array, ""]:
        """Its place among the flat parameters."""
        return self.design.n_contents + self._offset

    @property
    def _offset(self) -> Int[Array, ""]:
        """Its place among all entries of c."""
        return self.covariate * (n_judges(self.comparisons) or 1) + self.judge

    def _with(self, variant: Variant, *, free: bool) -> Variant:
        c = variant.c.reshape(-1).at[self._offset].set(free)
        return Variant(c.reshape(variant.c.shape), variant.kappa)

    def centred(self) -> Coefficient:
        """The same coefficient with a centred design, which changes nothing but the rounding."""
        return dataclasses.replace(self, design=self.design.centred())

    def zeros(self) -> Parameters:
        return Parameters.zeros(self.design, n_judges(self.comparisons))

    def value_in(self, parameters: Parameters) -> Float[Array, ""]:
        return parameters.c.reshape(-1)[self._offset]

    def top(self) -> Fit:
        """Fit at the supremum of the likelihood."""
        variant = self._with(self.nuisance, free=True)
        return fit_supremum(self.comparisons, self.design, variant)

    def top_at(self, value: Float[Array, ""], start: Parameters) -> Fit:
        """Fit at the supremum of the likelihood with c fixed at `value`."""
        c = start.c.reshape(-1).at[self._offset].set(value).reshape(start.c.shape)
        start = dataclasses.replace(start, c=c)
        return fit_supremum(self.comparisons, self.design, self.nuisance, start=start)

    def moved(self, parameters: Parameters, change: Float[Array, " P"]) -> Parameters:
        """The parameters after a change of the flat parameters."""
        judges = n_judges(self.comparisons)
        return Parameters.unflat(parameters.flat() + change, self.design.n_contents, judges)

    def information(self, parameters: Parameters) -> Float[Array, "P P"]:
        """Fisher information about all parameters."""
        return model.score_and_information(parameters, self.design, self.comparisons)[1]

    def left(self, information: Float[Array, "P P"]) -> Float[Array, ""]:
        """Information about c left when the other free parameters are unknown (Schur
        complement)."""
        # The quadratic form leaves out the ridge of the compensation, which would count as
        # information where theta has to move far.
        change = self.compensation(information)
        return change @ information @ change

    def compensation(self, information: Float[Array, "P P"]) -> Float[Array, " P"]:
        """Change of the maximising parameters as c goes up by 1, to first order."""
        index, m = self.index, self.design.n_contents
        others = model.free_mask(self.nuisance, self.design)
        scale = information_scale(self.comparisons, self.design.centred(), others)
        contents = self.design.content_mask()
        gauge = scale[:m].max() / contents.sum() * (contents[:, None] & contents)
        rest = (information + RIDGE * jnp.diag(scale)).at[:m, :m].add(gauge)
        rest = jnp.where(others[:, None] & others, rest, jnp.eye(len(others), dtype=rest.dtype))
        border = jnp.where(others, information[:, index], 0)
        return (-jnp.linalg.solve(rest, border)).at[index].set(1)

    def varies(self) -> Bool[Array, ""]:
        """Whether the covariate takes more than one value; for rows, whether it ever differs."""
        comparisons = self.comparisons
        if isinstance(comparisons, Panel) and isinstance(comparisons.verdicts, Rows):
            differs = comparisons.verdicts.difference[:, self.covariate] != 0
            return (differs & self._concerned(comparisons)).any()
        if isinstance(comparisons, Rows):
            return (comparisons.difference[:, self.covariate] != 0).any()
        return self.design.spread()[self.covariate] > 0

    def is_asked(self) -> Bool[Array, ""]:
        """Whether there is any verdict; for a panel, by a judge with this coefficient."""
        comparisons = self.comparisons
        if isinstance(comparisons, Panel):
            return jnp.where(self._concerned(comparisons), comparisons.shown, 0).sum() > 0
        return comparisons.shown.sum() > 0

    def _concerned(self, panel: Panel) -> Bool[Array, " J"]:
        """Which judges have this coefficient in their own."""
        return panel.sharing[:, self.judge] != 0


def efficient_information(
    parameters: Parameters,
    comparisons: Verdicts,
    design: Design,
    *,
    covariate: int | Int[Array, ""] = 0,
    judge: int | Int[Array, ""] = 0,
    variant: Variant | None = None,
) -> Float[Array, ""]:
    """Fisher information about one coefficient c when the other parameters are unknown, per squared
    unit of c. At the maximum it is minus the second derivative of the profile log-likelihood,
    and 1.96 / sqrt(information) is the half-width of a 95 % Wald interval.

    Only the number of times each pair was shown matters, and it may be a fraction.

    Args:
      parameters: where the information is computed, fitted or true.
      comparisons, design: one pool, float64; of one judge, or of a panel.
      covariate: index of the covariate, 0..D-1; may be traced.
      judge: for a panel, index of the judge, 0..J-1; may be traced.
      variant: free coefficients, default all.

    Raises:
      ValueError: no such covariate, no such judge.
    """
    coefficient = Coefficient.of(comparisons, design, covariate, judge, variant).centred()
    return coefficient.left(coefficient.information(parameters))
