"""The views that rules look at: the posterior of the last refit, and the picks since.

A rule for one judge gets a `View`. With several judges, each has its own view: the model of judge g
has the parameters (s_g theta, c_g, kappa_g), which are linear in the parameters of all judges, so
that a Gaussian over all of them gives one over these (`jbt.kernel.panel`). In this view p is the
judge's own, p (1 - p) Var(theta_i - theta_j) contains s_g^2, and formulas for one judge hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from jbt.kernel import metrics, panel
from jbt.types import Comparisons, Design, Parameters, Posterior, container


@container
class View:
    """What a rule may look at. Index [i, j]: item i shown first, j second."""

    design: Design
    posterior: Posterior
    """The posterior at the last refit."""
    covariance: Float[Array, "P P"]
    """The posterior's covariance; for a rule with `fresh=True`, after the picks since the refit."""
    membership: Float[Array, " M"]
    """P(content is in the top k) at the last refit."""
    probability: Float[Array, "N N"]
    """P(first wins) under the fitted model, in the order shown."""
    shown: Float[Array, "N N"]
    """How often each ordered pair has been asked, the picks since the refit included."""
    wins: Float[Array, "N N"]
    """How often the first shown won, the picks since the refit included."""
    available: Bool[Array, "N N"]
    """Which ordered pairs may be asked."""
    priority: Float[Array, " M"]
    """Breaks ties between contents; seeded and without ties itself."""
    k: int = dataclasses.field(metadata={"static": True})
    """Size of the top set."""

    def quality_covariance(self) -> Float[Array, "M M"]:
        """Sigma, with c and kappa marginalised."""
        m = self.design.n_contents
        return self.covariance[:m, :m]

    def difference_variance(self) -> Float[Array, "N N"]:
        """Var(theta_i - theta_j); 0 for two items of one content."""
        sigma = self.quality_covariance()
        if self.design.content is not None:
            sigma = sigma[self.design.content][:, self.design.content]
        v = jnp.diag(sigma)
        return v[:, None] + v - 2 * sigma

    def informativeness(self) -> Float[Array, "N N"]:
        """p (1 - p), the Fisher information of a verdict about its logit."""
        return self.probability * (1 - self.probability)

    def relevance(self) -> Float[Array, "N N"]:
        """Sum of the entropies of the two memberships (natural logarithm); 0 for two items
        of one content, whose comparison holds no information about quality."""
        p = self.membership
        h = self.design.of_items(-xlogy(p, p) - xlogy(1 - p, 1 - p))
        total = h[:, None] + h
        content = self.design.content
        return total if content is None else jnp.where(content[:, None] == content, 0, total)

    def logit_variance(self) -> Float[Array, "N N"]:
        """Posterior variance of the pair's own logit, theta, c and kappa together."""
        return contrast(self.covariance, self.design)

    def settled(self, first: Int[Array, ""], second: Int[Array, ""]) -> Float[Array, ""]:
        """Share of Var(theta_i - theta_j) that a verdict on this pair is expected to remove, to
        first order: with w its Fisher information and z' beta its logit,

            w Cov(theta_i - theta_j, z' beta)^2 / ((1 + w Var(z' beta)) Var(theta_i - theta_j)).

        It is smaller where the judge's biases are uncertain, and 0 for two items of one content."""
        z = self.design_vector(first, second)
        quality = jnp.where(jnp.arange(len(z)) < self.design.n_contents, z, 0)
        projected = self.covariance @ z
        variance = quality @ self.covariance @ quality
        w = self.informativeness()[first, second]
        fall = w * (quality @ projected) ** 2 / (1 + w * (z @ projected))
        return jnp.where(variance > 0, fall / jnp.where(variance > 0, variance, 1), 0)

    def design_vector(self, first: Int[Array, ""], second: Int[Array, ""]) -> Float[Array, " P"]:
        """The design vector z = (e_i - e_j, x_i - x_j, 1) of one ordered pair."""
        d = self.design
        owner = jnp.arange(d.n_items) if d.content is None else d.content
        contents = jnp.arange(d.n_contents)
        e = (contents == owner[first]) * 1.0 - (contents == owner[second])
        z = jnp.concatenate([e, d.covariates[first] - d.covariates[second], jnp.ones(1)])
        return z.astype(self.covariance.dtype)

    def is_top(self, quality: Float[Array, " M"]) -> Bool[Array, " M"]:
        """Whether each content is one of the k of highest quality; priority breaks ties."""
        tie = metrics.tie_of(quality)
        quality = jnp.where(self.design.content_mask(), quality, -jnp.inf)
        above = quality > quality[:, None] + tie
        tied = ~above & ~above.T & (self.priority > self.priority[:, None])
        return ((above | tied).sum(1) < self.k) & self.design.content_mask()

    def across(self, inside: Bool[Array, " M"], outside: Bool[Array, " M"]) -> Bool[Array, "N N"]:
        """Pairs, in either order, of an inside and an outside content."""
        inner, outer = self.design.of_items(inside), self.design.of_items(outside)
        return (inner[:, None] & outer) | (outer[:, None] & inner)

    def draw(self, key: Key[Array, ""]) -> Float[Array, " M"]:
        """Draw quality from the posterior of the last refit."""
        root, m = self.posterior.root, self.design.n_contents
        z = jax.random.normal(key, root.shape[:1], root.dtype)
        return self.posterior.mean.theta + z @ root[:, :m]


@container
class PanelView:
    """What a rule that chooses among several judges may look at."""

    views: View
    """Each judge's own view, the judge as leading axis of every array: theta is s_g theta, the
    biases are the judge's, shown and wins count the judge's verdicts, and available are the pairs
    that the judge may be asked at a price that can still be paid. Membership, priority and the
    standard normals of a draw are common to all."""
    posterior: Posterior
    """The posterior of all judges' parameters (`Panel`) at the last refit."""
    covariance: Float[Array, "P P"]
    """Its covariance; for a rule with `fresh=True`, after the picks since the refit."""
    price: Float[Array, " J"]
    """Price of a verdict of each judge."""
    spent: Float[Array, " J"]
    """Spending on each judge so far, the picks since the refit included."""
    purse: Float[Array, ""]
    """The most that may be spent."""

    @property
    def n_judges(self) -> int:
        """J."""
        return self.price.shape[0]

    def of(self, judge: int | Int[Array, ""]) -> View:
        """One judge's own view; -1 is the last."""
        return jax.tree.map(lambda leaf: leaf[judge], self.views)

    def each(self, function: Callable[[View], Shaped[Array, "..."]]) -> Shaped[Array, "... J"]:
        """A function applied to every judge's view; the judge is the last axis of the result."""
        return jax.vmap(function, out_axes=-1)(self.views)


def of_each_judge(
    posterior: Posterior,
    counts: Comparisons,
    *,
    discrimination: Float[Array, " J"],
    sharing: Float[Array, "J J"],
    design: Design,
    covariance: Float[Array, "P P"],
    probability: Float[Array, "N N J"],
    available: Bool[Array, "J N N"],
    membership: Float[Array, " M"],
    priority: Float[Array, " M"],
    k: int,
) -> View:
    """The views of all judges, the judge as leading axis, from the joint posterior of their
    parameters."""
    m, mean = design.n_contents, posterior.mean.flat()

    def judge_view(
        s: Array, shares: Array, probability: Array, counts: Comparisons, available: Array
    ):
        root = panel.of_one_judge(posterior.root, s, shares, m)
        return View(
            design=design,
            posterior=Posterior(
                Parameters.unflat(panel.of_one_judge(mean, s, shares, m), m), root, posterior.factor
            ),
            covariance=own_covariance(covariance, s, shares, m),
            membership=membership,
            probability=probability,
            shown=counts.shown,
            wins=counts.wins,
            available=available,
            priority=priority,
            k=k,
        )

    return jax.vmap(judge_view, in_axes=(0, 0, -1, -1, 0))(
        discrimination, sharing, probability, counts, available
    )


def own_covariance(
    covariance: Float[Array, "P P"],
    discrimination: Float[Array, ""],
    shares: Float[Array, " J"],
    n_contents: int,
) -> Float[Array, "own_P own_P"]:
    """The covariance of one judge's own parameters, from that of all judges' parameters."""
    rows = panel.of_one_judge(covariance, discrimination, shares, n_contents)
    return panel.of_one_judge(rows.T, discrimination, shares, n_contents)


def contrast(q: Float[Array, "P P"], design: Design) -> Float[Array, "N N"]:
    """z' Q z for every ordered pair, with its design vector z = (e_i - e_j, x_i - x_j, 1)."""
    m, x = design.n_contents, design.covariates
    if design.content is None:
        left = jnp.concatenate([q[:m, :] + x @ q[m:-1, :]], 0)
    else:
        left = design.ownership() @ q[:m, :] + x @ q[m:-1, :]
    items = left[:, :m] if design.content is None else left[:, :m] @ design.ownership().T
    between = items + left[:, m:-1] @ x.T
    within = jnp.diag(between)
    kappa = 2 * left[:, -1]
    return within[:, None] + within - between - between.T + kappa[:, None] - kappa + q[-1, -1]
