"""Which comparison to ask for next: score functions, and the names they are known by.

A rule is a function of a read-only `View` and a key that scores every ordered pair; the loop
asks the available pair of highest score, ties broken by a seeded permutation. To add one:

    def widest(view, key):                      # ask where the qualities differ least surely
        return view.difference_variance()       # [N, N], finite where view.available

    run(key, task, Loop(rule=widest), budget=120)

Scores of unavailable pairs (the diagonal, padding, what the frozen protocol has answered already)
are ignored, whatever they are. A rule may draw from the key, which is new at every pick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri, xlogy
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

from jbt.types import Design, Posterior, container

LUCB_WIDTH = 2.0
"""Half-width of LUCB's bounds, in posterior standard deviations."""

CHALLENGERS = 8
"""Draws in which `top_two` looks for a top set that differs from the leader's."""


@container
class View:
    """What a rule may look at. Index [i, j]: item i shown first, j second."""

    design: Design
    posterior: Posterior
    """Of the last refit."""
    covariance: Float[Array, "P P"]
    """Of the posterior; for a rule with `fresh=True`, after the picks since the refit."""
    membership: Float[Array, " M"]
    """P(content is in the top k) at the last refit."""
    probability: Float[Array, "N N"]
    """P(first wins) of the fitted model, in the order shown."""
    shown: Float[Array, "N N"]
    """How often each ordered pair has been asked, the picks since the refit included."""
    wins: Float[Array, "N N"]
    """How often the first shown then won, likewise."""
    available: Bool[Array, "N N"]
    """Which ordered pairs may be asked."""
    priority: Float[Array, " M"]
    """Seeded and without ties: decides between contents that are tied."""
    k: int = dataclasses.field(metadata={"static": True})
    """Size of the top set."""

    def quality_covariance(self) -> Float[Array, "M M"]:
        """Sigma: c and kappa are marginalised."""
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
        """Entropy of the two memberships, nats; 0 for two items of one content, whose
        comparison says nothing about quality."""
        p = self.membership
        h = self.design.of_items(-xlogy(p, p) - xlogy(1 - p, 1 - p))
        total = h[:, None] + h
        content = self.design.content
        return total if content is None else jnp.where(content[:, None] == content, 0, total)

    def logit_variance(self) -> Float[Array, "N N"]:
        """Posterior variance of the pair's own logit, theta, c and kappa together."""
        return contrast(self.covariance, self.design)

    def is_top(self, quality: Float[Array, " M"]) -> Bool[Array, " M"]:
        """Whether each content is one of the k of highest quality, ties by priority."""
        tie = 1e-5 if quality.dtype == jnp.float32 else 1e-9
        quality = jnp.where(self.design.content_mask(), quality, -jnp.inf)
        above = quality > quality[:, None] + tie
        tied = ~above & ~above.T & (self.priority > self.priority[:, None])
        return ((above | tied).sum(1) < self.k) & self.design.content_mask()

    def across(self, inside: Bool[Array, " M"], outside: Bool[Array, " M"]) -> Bool[Array, "N N"]:
        """Pairs, in either order, of which one content is inside and the other outside."""
        i, o = self.design.of_items(inside), self.design.of_items(outside)
        return (i[:, None] & o) | (o[:, None] & i)

    def draw(self, key: Key[Array, ""]) -> Float[Array, " M"]:
        """A draw of quality from the posterior of the last refit."""
        root, m = self.posterior.root, self.design.n_contents
        z = jax.random.normal(key, root.shape[:1], root.dtype)
        return self.posterior.mean.theta + z @ root[:, :m]


Score = Callable[[View, Key[Array, ""]], Float[Array, "N N"]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A score function and how the loop is to run it."""

    score: Score
    fresh: bool = False
    """Update the covariance by the Fisher term of every pick before the next one; its verdict
    is not needed."""
    family: str = "yours"
    """Rules of one family are compared with the paper's and corrected for one another (Holm)."""
    colour: str = "black"
    """In figures, a name of `jbt.plots.COLOURS`."""
    line: str = ":"
    """In figures, Matplotlib's line style."""


def contrast(q: Float[Array, "P P"], design: Design) -> Float[Array, "N N"]:
    """z' Q z of every ordered pair, with its design vector z = (e_i - e_j, x_i - x_j, 1)."""
    m, x = design.n_contents, design.covariates
    if design.content is None:
        left = jnp.concatenate([q[:m, :] + x @ q[m:-1, :]], 0)
    else:
        left = design.ownership() @ q[:m, :] + x @ q[m:-1, :]
    items = left[:, :m] if design.content is None else left[:, :m] @ design.ownership().T
    between = items + left[:, m:-1] @ x.T
    own = jnp.diag(between)
    with_kappa = 2 * left[:, -1]
    return own[:, None] + own - between - between.T + with_kappa[:, None] - with_kappa + q[-1, -1]


def prefer(chosen: Bool[Array, "N N"], score: Float[Array, "N N"]) -> Float[Array, "N N"]:
    """Put every pair that is not chosen below every pair that is, if there is one."""
    chosen |= ~chosen.any()
    return jnp.where(chosen, score, score - (score.max() - score.min()) - 1)


def top_k_aware(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Eq. acq: p (1 - p) Var(theta_i - theta_j) (H(p_i) + H(p_j))."""
    return view.informativeness() * view.difference_variance() * view.relevance()


def global_uncertainty(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """D-optimal: Eq. acq without the membership entropy."""
    return view.informativeness() * view.difference_variance()


def no_variance(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Eq. acq without the variance."""
    return view.informativeness() * view.relevance()


def no_informativeness(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Eq. acq without p (1 - p)."""
    return view.difference_variance() * view.relevance()


def entropy_only(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Eq. acq's membership entropy alone."""
    return view.relevance()


def random(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Any available pair."""
    return jax.random.uniform(key, view.shown.shape, view.shown.dtype)


def round_robin(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """The items shown least; among those the pair asked least; shown first whoever has been
    first less often."""
    first, second = view.shown.sum(1), view.shown.sum(0)
    times = first + second
    times = times - jnp.where(view.design.item_mask, times, jnp.inf).min()
    pair = view.shown + view.shown.T
    surplus = first - second
    order = surplus - surplus[:, None]
    # The second term is below 1, the step of the first; the third is below the second's as long
    # as no pair has been asked twenty times.
    return -(times[:, None] + times) + 0.5 / (1 + pair) + 1e-3 * order / (1 + jnp.abs(order))


def thompson(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Draw qualities from the posterior and contest the sampled boundary: of the pairs that it
    separates the closest, at first the k-th against the next. A new draw at every pick; either
    order, drawn by the tie-break; an exhausted pair gives way to the next closest, and where pairs
    do not exhaust they may be asked again."""
    quality = view.draw(key)
    top = view.is_top(quality)
    each = view.design.of_items(quality)
    return prefer(view.across(top, ~top), -jnp.abs(each[:, None] - each))


def lucb(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """The weakest lower bound inside the estimated top k against the strongest upper bound
    outside, theta -+ 2 posterior standard deviations. Either order, drawn by the tie-break at
    every pick; an exhausted pair gives way to that of the next largest overlap of bounds, and where
    pairs do not exhaust the same is asked until the refit."""
    theta = view.posterior.mean.theta
    top = view.is_top(theta)
    half = LUCB_WIDTH * jnp.sqrt(jnp.diag(view.quality_covariance()))
    ambiguity = view.design.of_items(jnp.where(top, half - theta, theta + half))
    return prefer(view.across(top, ~top), ambiguity[:, None] + ambiguity)


def top_two(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Top-two sampling on the top set: draw a set from the posterior, draw until another set
    comes, and ask a pair on which the two disagree, by the score of Eq. acq. After Russo's top-two
    Thompson sampling (2016). Where eight draws agree, Eq. acq decides alone."""
    leader, *others = jax.random.split(key, 1 + CHALLENGERS)
    leading = view.is_top(view.draw(leader))
    rivals = jax.vmap(lambda other: view.is_top(view.draw(other)))(jnp.stack(others))
    rival = rivals[(rivals != leading).any(1).argmax()]
    # Of the leader alone, and of the rival alone.
    disputed = view.across(leading & ~rival, rival & ~leading)
    return prefer(disputed, top_k_aware(view, key))


def entropy_reduction(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """One-step expected reduction of the membership entropy, nats, to first order in what the
    verdict tells and for a boundary linear in the qualities.

    Content m is in the top k when u_m = theta_m - boundary > 0. The boundary, which is the k-th
    order statistic of the others, is taken to be the mean quality weighted by p (1 - p). A verdict
    with Fisher information w about the logit z' beta tells of u_m as much as would lower its
    variance by

        v_m = w (Cov(u_m, z' beta))^2 / (1 + w Var(z' beta)),

    and as p_m = Phi(E u_m / s_m) is a martingale, the entropy of m falls on average by

        v_m phi(Phi^-1(p_m))^2 / (2 s_m^2 p_m (1 - p_m)) + O(v_m^2).

    Summed over contents. It counts what a verdict tells through c and kappa as well.
    """
    m, p = view.design.n_contents, view.membership
    spread = p * (1 - p)
    doubtful = spread > 0
    weight = jnp.where(doubtful, spread, 0) / jnp.where(doubtful.any(), spread.sum(), 1)
    # u = (I - 1 weight') theta, so Cov(u, beta) has rows Sigma_m. - weight' Sigma.
    rows = view.covariance[:m]
    to_boundary = rows - weight @ rows
    variance = jnp.diag(to_boundary[:, :m]) - to_boundary[:, :m] @ weight
    known = doubtful & (variance > 0)
    slope = norm.pdf(ndtri(jnp.where(known, p, 0.5))) ** 2
    gain = jnp.where(known, slope / jnp.where(known, variance * spread, 1), 0)
    told = contrast((to_boundary * gain[:, None]).T @ to_boundary, view.design)
    w = view.informativeness()
    return 0.5 * w * told / (1 + w * view.logit_variance())


RULES: Mapping[str, Rule] = {
    "top_k_aware": Rule(top_k_aware, False, "paper", "blue", "-"),
    # those the paper compares it with
    "thompson": Rule(thompson, False, "baselines", "orange", "-"),
    "lucb": Rule(lucb, False, "baselines", "green", "-"),
    "global_uncertainty": Rule(global_uncertainty, False, "baselines", "purple", "-"),
    "round_robin": Rule(round_robin, False, "baselines", "sky", "-"),
    "random": Rule(random, False, "baselines", "yellow", "-"),
    # factors of its score left out
    "no_variance": Rule(no_variance, False, "ablations", "sky", ":"),
    "no_informativeness": Rule(no_informativeness, False, "ablations", "purple", ":"),
    "entropy_only": Rule(entropy_only, False, "ablations", "green", ":"),
    "top_k_aware_fresh": Rule(top_k_aware, True, "beyond the paper", "blue", "--"),
    "entropy_reduction": Rule(entropy_reduction, False, "beyond the paper", "vermilion", "-"),
    "entropy_reduction_fresh": Rule(entropy_reduction, True, "beyond the paper", "vermilion", "--"),
    "top_two": Rule(top_two, False, "beyond the paper", "black", "--"),
}
"""Every rule by its name: score, fresh, family, colour, line."""


def families() -> dict[str, tuple[str, ...]]:
    """Family -> names of its rules, in the order of `RULES`."""
    names = dict.fromkeys(rule.family for rule in RULES.values())
    return {f: tuple(n for n, rule in RULES.items() if rule.family == f) for f in names}


def resolve(rule: str | Rule | Score) -> Rule:
    """The rule of a name, or a user's own function as a rule.

    Raises:
      ValueError: unknown name, not callable.
    """
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, str):
        if rule not in RULES:
            raise ValueError(f"unknown rule {rule!r}: one of {', '.join(RULES)}, or a function")
        return RULES[rule]
    if not callable(rule):
        raise ValueError(f"a rule is a name or a function, got {rule!r}")
    return Rule(rule)


def check_shape(rule: Rule, score: Array, n: int) -> None:
    """Raise `ValueError` unless a rule's score is [n, n]."""
    if jnp.shape(score) != (n, n):
        name = getattr(rule.score, "__name__", "rule")
        raise ValueError(f"{name} must return scores [{n}, {n}], got shape {jnp.shape(score)}")
