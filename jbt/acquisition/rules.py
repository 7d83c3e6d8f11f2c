"""Rules that choose the next comparison: score functions, registered by name.

A rule is a function of a read-only `View` and a key that scores every ordered pair; the loop
asks the available pair of highest score, ties broken at random by seed. To add one:

    def widest(view, key):                      # ask where the difference is least certain
        return view.difference_variance()       # [N, N], finite where view.available

    run(key, task, Loop(rule=widest), budget=120)

Thompson and LUCB want an unordered pair, and leave open in which order it is shown and what is
asked once both orders have been: the order is drawn at every pick, by the tie-break, and the
contested pair of the next largest score follows.

Scores of unavailable pairs (the diagonal, padding, what the frozen protocol has answered already)
are ignored, whatever they are. A rule may draw from the key, which is new at every pick.

With several judges, a rule scores each judge's own view, and the loop takes the pair and the judge
of the largest score over price (`Rule.gain`). A rule that needs all judges at once belongs in
`jbt.acquisition.panel_rules`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri, xlogy
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

from jbt.acquisition import peers
from jbt.acquisition.views import View, contrast

WIDTH = 2.0
"""Half-width of the bounds of `lucb`, in posterior standard deviations."""

WARM = 28
"""Verdicts of round-robin before the rule `warm_entropy` (count)."""

ZONE = 0.5
"""Logits within which `pivot` counts items as equally good; half of it at the pivot."""

CHALLENGERS = 8
"""Draws in which `top_two` looks for a top set that differs from the leader's."""

Score = Callable[[View, Key[Array, ""]], Float[Array, "N N"]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A score function and how the loop is to run it."""

    score: Score
    fresh: bool | Bool[Array, ""] = False
    """Update the covariance by the Fisher term of every pick before the next one; its verdict
    is not needed. Traced where one program runs several rules (`panel_rules.one_of`)."""
    family: str = "yours"
    """Rules of one family are compared with the paper's and corrected together (Holm)."""
    gain: bool = True
    """Whether the score is an amount, at least 0, that can be divided by a price. If not, it only
    ranks pairs: with several judges, the rule then chooses one pair for each judge, and the loop
    asks the judge whose verdict is expected to settle most of its pair for the price
    (`View.settled`)."""
    tried: bool = False
    """Whether the score is known to be sound: others are tried on a small problem before a run,
    which takes seconds."""


def top_k_aware(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Eq. acq: p (1 - p) Var(theta_i - theta_j) (H(p_i) + H(p_j))."""
    return view.informativeness() * view.difference_variance() * view.relevance()


def prefer(chosen: Bool[Array, "*pairs"], score: Float[Array, "*pairs"]) -> Float[Array, "*pairs"]:
    """Lower the scores of the other pairs below those of the chosen ones, if any are chosen."""
    chosen |= ~chosen.any()
    return jnp.where(chosen, score, score - (score.max() - score.min()) - 1)


def thompson(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Draw qualities from the posterior, anew at every pick, and contest the sampled boundary: ask
    the closest pair that it separates, at first the k-th against the next."""
    quality = view.draw(key)
    top = view.is_top(quality)
    item_quality = view.design.of_items(quality)
    closeness = -jnp.abs(item_quality[:, None] - item_quality)
    return prefer(view.across(top, ~top), closeness)


def lucb(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Ask the weakest lower bound inside the estimated top k against the strongest upper bound
    outside; bounds are theta -+ `WIDTH` posterior standard deviations. Where pairs may be asked
    again, the pair stays the same until the refit."""
    theta = view.posterior.mean.theta
    top = view.is_top(theta)
    half_width = WIDTH * jnp.sqrt(jnp.diag(view.quality_covariance()))
    ambiguity = view.design.of_items(jnp.where(top, half_width - theta, theta + half_width))
    return prefer(view.across(top, ~top), ambiguity[:, None] + ambiguity)


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
    """Any available pair: all are tied, and the tie-break draws one."""
    return jnp.zeros_like(view.shown)


def round_robin(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Ask the items shown least; among their pairs the one asked least; first the item that has
    been first less often."""
    first, second = view.shown.sum(1), view.shown.sum(0)
    times = first + second
    times = times - jnp.where(view.design.item_mask, times, jnp.inf).min()
    pair = view.shown + view.shown.T
    surplus = first - second
    order = surplus - surplus[:, None]
    # The second term is below 1, the step of the first. The third is below the second's step as
    # long as no pair has been asked twenty times.
    return -(times[:, None] + times) + 0.5 / (1 + pair) + 1e-3 * order / (1 + jnp.abs(order))


def top_two(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Top-two sampling on the top set: draw a set from the posterior, draw until a different set
    comes, and ask a pair on which the two disagree, by the score of Eq. acq. After Russo's top-two
    Thompson sampling (2016). Where eight draws agree, Eq. acq decides alone."""
    draws = jax.random.split(key, 1 + CHALLENGERS)
    tops = jax.vmap(lambda key: view.is_top(view.draw(key)))(draws)
    leading, rivals = tops[0], tops[1:]
    rival = rivals[(rivals != leading).any(1).argmax()]
    # One content in the leader's set alone, the other in the rival's alone.
    disputed = view.across(leading & ~rival, rival & ~leading)
    return prefer(disputed, top_k_aware(view, key))


def entropy_reduction(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """One-step expected reduction of the membership entropy (natural logarithm), to first
    order in a verdict's information and for a boundary linear in the qualities.

    Content m is in the top k when u_m = theta_m - boundary > 0. The boundary is the k-th order
    statistic of the others; the mean quality weighted by p (1 - p) stands in for it. A verdict
    with Fisher information w about the logit z' beta lowers the variance of u_m by

        v_m = w (Cov(u_m, z' beta))^2 / (1 + w Var(z' beta)),

    and as p_m = Phi(E u_m / s_m) is a martingale, the entropy of m falls on average by

        v_m phi(Phi^-1(p_m))^2 / (2 s_m^2 p_m (1 - p_m)) + O(v_m^2).

    The score is the sum over contents. It includes the information that comes through c and kappa,
    and leaves out what their uncertainty hides. Membership depends on ranks alone, so the unit of
    theta does not matter; divided by the price, the score is the expected fall per unit of cost.
    """
    m, p = view.design.n_contents, view.membership
    spread = p * (1 - p)
    # Below, slope is 0 in float32, and spread times a variance may be.
    doubtful = spread > jnp.finfo(p.dtype).tiny ** 0.5
    weight = jnp.where(doubtful, spread, 0) / jnp.where(doubtful.any(), spread.sum(), 1)
    # u = (I - 1 weight') theta, so Cov(u, beta) has rows Sigma_m. - weight' Sigma.
    rows = view.covariance[:m]
    to_boundary = rows - weight @ rows
    variance = jnp.diag(to_boundary[:, :m]) - to_boundary[:, :m] @ weight
    known = doubtful & (variance > 0)
    slope = norm.pdf(ndtri(jnp.where(known, p, 0.5))) ** 2
    gain = jnp.where(known, slope / jnp.where(known, variance * spread, 1), 0)
    squared = contrast((to_boundary * gain[:, None]).T @ to_boundary, view.design)
    w = view.informativeness()
    return 0.5 * w * squared / (1 + w * view.logit_variance())


def warm(rule: Rule, verdicts: int) -> Rule:
    """The rule after a start of round-robin: its first `verdicts` picks are `round_robin`'s."""

    @functools.wraps(rule.score)
    def score(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
        started = view.shown.sum() >= verdicts
        return jnp.where(started, rule.score(view, key), round_robin(view, key))

    return dataclasses.replace(rule, score=score, gain=False)


def both_orders(rule: Rule) -> Rule:
    """The rule in pairs of verdicts: every pair is asked in its other order before the next."""

    @functools.wraps(rule.score)
    def score(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
        owed = (view.shown < view.shown.T) & view.available
        return prefer(owed, _askable(rule, view, key))

    return dataclasses.replace(rule, score=score, gain=False)


def _askable(rule: Rule, view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """The rule's score, where a pair can be asked; elsewhere, whatever the rule says there, the
    smallest of these."""
    score = rule.score(view, key)
    smallest = jnp.where(view.available, score, jnp.inf).min()
    return jnp.where(view.available, score, jnp.where(view.available.any(), smallest, 0))


def pivot(view: View, key: Key[Array, ""], *, zone: float = ZONE) -> Float[Array, "N N"]:
    """The lowest of the estimated top k against each other item in turn, whichever pair is least
    settled by its own verdicts: what `jbt.acquisition.anytime` needs, asked in both orders. A pair
    is settled by the log-likelihood ratio of its share of wins to that of a difference of half
    of the zone (logits) the other way."""
    theta = view.posterior.mean.theta
    top = view.is_top(theta)
    lowest = top & (theta == jnp.where(top, theta, jnp.inf).min())
    lowest &= view.priority == jnp.where(lowest, view.priority, -jnp.inf).max()
    won, met = peers.tallies(view)
    share = jnp.maximum(won, won.T) / jnp.maximum(met, 1)
    other_way = jax.nn.sigmoid(-zone / 2)
    settled = xlogy(share, share / other_way) + xlogy(1 - share, (1 - share) / (1 - other_way))
    return prefer(view.across(lowest, ~lowest), -met * settled)


@functools.cache
def pivot_of(zone: float) -> Rule:
    """`pivot` for tests with this zone (logits), in both orders. A zone has one object, so that its
    programs are compiled once."""
    return both_orders(Rule(functools.partial(pivot, zone=zone), False, "arena"))


RULES: dict[str, Rule] = {
    "top_k_aware": Rule(top_k_aware, False, "paper"),
    # the rules that the paper compares it with
    "thompson": Rule(thompson, False, "baselines", gain=False),
    "lucb": Rule(lucb, False, "baselines", gain=False),
    "global_uncertainty": Rule(global_uncertainty, False, "baselines"),
    "round_robin": Rule(round_robin, False, "baselines", gain=False),
    "random": Rule(random, False, "baselines", gain=False),
    # factors of its score left out
    "no_variance": Rule(no_variance, False, "ablations"),
    "no_informativeness": Rule(no_informativeness, False, "ablations"),
    "entropy_only": Rule(entropy_only, False, "ablations"),
    "top_k_aware_fresh": Rule(top_k_aware, True, "beyond the paper"),
    "entropy_reduction": Rule(entropy_reduction, False, "beyond the paper"),
    "entropy_reduction_fresh": Rule(entropy_reduction, True, "beyond the paper"),
    "top_two": Rule(top_two, False, "beyond the paper", gain=False),
}
"""Every rule by its name: score, fresh, family."""

DEFAULT_RULES: tuple[str, ...] = tuple(RULES)
"""The rules that the paper's experiments run by default; others run if asked for."""

PEERS = (
    *("swiss", "insertion", "pruned_tournament", "eubo"),
    *("asap_fast", "asap", "knowledge_gradient"),
)
"""Rules that others use."""

RULES |= {name: Rule(getattr(peers, name), name == "eubo", "arena", gain=False) for name in PEERS}
RULES["pivot"] = pivot_of(ZONE)
RULES["warm_entropy"] = warm(Rule(entropy_reduction, True, "arena"), WARM)


def families() -> dict[str, tuple[str, ...]]:
    """Family -> names of its rules, in the order of `RULES`."""
    names = dict.fromkeys(rule.family for rule in RULES.values())
    return {f: tuple(n for n, rule in RULES.items() if rule.family == f) for f in names}


def unknown(rule: str, known: Iterable[str], otherwise: str) -> str:
    """What is wrong with a rule's name, and the name that was meant or `otherwise`."""
    near = difflib.get_close_matches(rule, known, n=1)
    return f"unknown rule {rule!r}: {f'did you mean {near[0]}?' if near else otherwise}"


def resolve(rule: str | Rule | Score) -> Rule:
    """Look a name up, or make a rule of a user's function.

    Raises:
      ValueError: unknown name, not callable.
    """
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, str):
        if rule not in RULES:
            raise ValueError(unknown(rule, RULES, f"one of {', '.join(RULES)}, or a function"))
        return RULES[rule]
    if not callable(rule):
        raise ValueError(f"a rule is a name or a function, got {rule!r}")
    return Rule(rule)


def check_shape(
    function: Callable[..., Array], score: Array, shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Return the score; raise `ValueError` unless it has this shape."""
    if jnp.shape(score) != shape:
        problem = f"must return scores {[*shape]}, got shape {jnp.shape(score)}"
        raise ValueError(f"{name_of(function)} {problem}")
    return score


def name_of(function: Callable[..., Array]) -> str:
    """The name of a rule's function, for messages; of a partial, that of the function inside."""
    return getattr(getattr(function, "func", function), "__name__", "rule")
