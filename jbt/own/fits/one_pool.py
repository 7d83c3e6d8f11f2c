"""Fits of one pool, vmapped over the pools of a group: naive and bias-aware, posterior, bias."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jbt import quick_compilation
from jbt.identifiability import BiasEstimate, estimate_bias
from jbt.kernel import canonical, metrics, model
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.own.fits.batch import Batch, Group
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.tables import limits
from jbt.types import Design, Fit, Parameters, Prior, Variant, Verdicts


@partial(quick_compilation.jit, static_argnames="k")
def fit_both(
    comparisons: Verdicts,
    design: Design,
    items: Design,
    variant: Variant,
    lam: Array,
    lam_b: Array,
    k: int,
) -> tuple[Fit, Fit, Array, Array]:
    """Fit every pool of a group: the naive fit, the bias-aware fit, phi of the items, and whether
    the top k differ."""

    def one_pool(
        comparisons: Verdicts, design: Design, items: Design, variant: Variant, lam: Array
    ) -> tuple[Fit, Fit, Float[Array, " N"], Bool[Array, ""]]:
        prior = Prior(lam, lam_b)
        variants = jax.tree.map(lambda *v: jnp.stack(v), model.variant("naive", design), variant)
        fits = jax.vmap(lambda v: fit_map(comparisons, design, prior, v))(variants)
        naive, aware = (jax.tree.map(lambda leaf, i=i: leaf[i], fits) for i in range(2))
        theta, theta_naive = aware.parameters.theta, naive.parameters.theta
        phi = model.apparent_quality(aware.parameters, items)
        differ = metrics.top_k_differ(theta_naive, theta, k, design.content_mask())
        return naive, aware, phi, differ

    return jax.vmap(one_pool)(comparisons, design, items, variant, lam)


def posterior(
    group: Group, mode: Parameters, lam: Array, lam_b: Array, k: int
) -> tuple[np.ndarray, ...]:
    """Standard deviations of theta about its pool's mean [fits, M] and of kappa [fits], and
    membership of the top k [fits, M]; lam [fits]."""
    m = mode.theta.shape[1]
    normals = canonical.normals(m)
    leaves = (mode, group.comparisons, group.design, group.variant, lam)
    return in_chunks(
        lambda stack: _posterior_of(*stack, lam_b, normals, k), leaves, canonical.AT_ONCE // m
    )


@partial(quick_compilation.jit, static_argnames="k")
def _posterior_of(
    mode: Parameters,
    comparisons: Verdicts,
    design: Design,
    variant: Variant,
    lam: Array,
    lam_b: Array,
    normals: Array,
    k: int,
) -> tuple[Array, Array, Array]:
    def one_pool(
        mode: Parameters, comparisons: Verdicts, design: Design, variant: Variant, lam: Array
    ) -> tuple[Float[Array, " M"], Float[Array, ""], Float[Array, " M"]]:
        posterior = laplace(mode, comparisons, design, Prior(lam, lam_b), variant)
        m, contents = design.n_contents, design.content_mask()
        top_k = jnp.ones(m)
        if m > k:
            top_k = canonical.membership(posterior, k, contents, normals)
        variance = (posterior.root**2).sum(0)
        # No verdict depends on the mean of theta, so that in the posterior it is independent of
        # all else, with the prior's variance.
        about_mean = variance[:m] - 1 / (lam * contents.sum())
        sd = jnp.sqrt(jnp.where(contents, about_mean, 0))
        return sd, jnp.sqrt(variance[-1]), top_k

    return jax.vmap(one_pool)(mode, comparisons, design, variant, lam)


def prior_free_bias(batch: Batch, group: Group) -> np.ndarray:
    """[3, fits, D] estimate of c without a prior, and the ends of its interval; NaN where there is
    none."""
    n_fits, d = group.variant.c.shape
    estimates = np.full((3, n_fits, d), np.nan)
    members = batch.sharing(group)
    if d and len(members):
        leaves = (group.comparisons, group.design, group.variant)
        leaves = jax.tree.map(lambda leaf: np.asarray(leaf)[members], leaves)
        limits.check_profiles(len(members), d, group.n_parameters)
        estimates[:, members] = in_chunks(lambda stack: _bias_of(*stack), leaves, limits.AT_ONCE)
    return estimates


@quick_compilation.jit
def _bias_of(comparisons: Verdicts, design: Design, variant: Variant) -> tuple[Array, Array, Array]:
    def one_pool(
        comparisons: Verdicts, design: Design, variant: Variant
    ) -> tuple[Float[Array, " D"], Float[Array, " D"], Float[Array, " D"]]:
        def of_covariate(covariate: Int[Array, ""]) -> BiasEstimate:
            return estimate_bias(comparisons, design, covariate=covariate, variant=variant)

        estimate = jax.vmap(of_covariate)(jnp.arange(design.n_covariates))
        return estimate.c, estimate.low, estimate.high

    return jax.vmap(one_pool)(comparisons, design, variant)
