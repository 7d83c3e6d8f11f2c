"""Rules that others use, as score functions of a `View` (see `jbt.acquisition.rules`).

Most look at counts alone: who beat whom, in either order. They treat items as competitors, whatever
content they share, and know neither covariates nor the order of showing; a bias of the judge is
quality to them. Each docstring says what the rule assumes beyond that. Those that the authors
state for the best item or for a whole ranking are used here as they are.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.acquisition.eprocess import log_evidence
from jbt.acquisition.views import View

SKILL_VARIANCE = 0.5
"""Prior variance of a skill in `asap`, in units of the noise of one comparison (its authors')."""
MESSAGES = 4
"""Rounds of message passing of `asap_fast`, its authors' number. `asap` takes twice as many, before
and after an imagined verdict, so that a lack of convergence is no information."""
ERROR = 0.1
"""Chance of a wrong result that `pruned_tournament` allows."""
NODES = 9
"""Gauss-Hermite nodes behind an imagined verdict of `knowledge_gradient`."""
DRAWS = 64
"""Draws behind the memberships of `knowledge_gradient`."""


def tallies(view: View) -> tuple[Float[Array, "N N"], Float[Array, "N N"]]:
    """How often item i beat item j, a tie one half, and how often they met, in either order."""
    return view.wins + (view.shown - view.wins).T, view.shown + view.shown.T


def swiss(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Swiss system: everybody plays once a round, against whom they have met least, and among
    those against whoever has won about as often. It learns a whole ranking, not a boundary."""
    won, met = tallies(view)
    turn, gap = _rounds(won, met, view.design.item_mask)
    return turn - 0.5 * met / (1 + met) - 1e-3 * gap / (1 + gap)


def _rounds(
    won: Float[Array, "N N"], met: Float[Array, "N N"], playing: Bool[Array, " N"]
) -> tuple[Float[Array, "N N"], Float[Array, "N N"]]:
    """Whose turn it is: 0 for pairs of those who have played least of the playing items, less by 1
    for every game more of either; and the difference of their victories."""
    points, games = won.sum(1), met.sum(1)
    late = games - jnp.where(playing, games, jnp.inf).min()
    return -(late[:, None] + late), jnp.abs(points[:, None] - points)


def insertion(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Sorted insertion: item after item is inserted into the list of the k best so far by binary
    search. One verdict decides a comparison, as if it were never wrong. When all are in it begins
    again: every pair then needs one more verdict before the majority counts as its result. A pair
    that can be asked no more and is level is decided by lot."""
    won, met = tallies(view)
    lot = _item_priority(view)
    majority = jnp.sign(2 * won - met)
    majority = jnp.where(majority == 0, jnp.sign(lot[:, None] - lot), majority).astype(int)
    level, askable = 2 * won == met, view.available | view.available.T
    playing = view.design.item_mask[:, None] & view.design.item_mask

    def due(rounds: Int[Array, ""]) -> Bool[Array, "N N"]:
        """The comparison that is due if each needs so many verdicts."""
        decided = ~askable | ((met >= rounds) & ~level)
        return _next_comparison(view, jnp.where(decided & playing, majority, 0))

    def over(state: tuple[Array, Array]) -> Bool[Array, ""]:
        return ~state[1].any() & (state[0] < met.max() + 2)

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return state[0] + 1, due(state[0] + 1)

    first = jnp.array(1)
    _, comparison = jax.lax.while_loop(over, again, (first, due(first)))
    return comparison * 1.0


def _next_comparison(view: View, result: Int[Array, "N N"]) -> Bool[Array, "N N"]:
    """The open comparison that insertion needs, in both orders; none if all items are in. `result`
    is 1 where i beat j, -1 where j beat i, and 0 if open."""
    n, k = result.shape[0], view.k
    steps = k.bit_length()
    masked = jnp.where(view.design.item_mask, _item_priority(view), jnp.inf)
    queue = jnp.argsort(masked)

    def insert(turn, state):
        ranked, length, pending = state
        item = queue[turn]

        def halve(_, bounds):
            low, high, open_ = bounds
            middle = (low + high) // 2
            outcome = result[item, ranked[middle]]
            searching = (low < high) & (open_ < 0)
            open_ = jnp.where(searching & (outcome == 0), ranked[middle], open_)
            low = jnp.where(searching & (outcome < 0), middle + 1, low)
            high = jnp.where(searching & (outcome > 0), middle, high)
            return low, high, open_

        at, _, open_ = jax.lax.fori_loop(0, steps, halve, (0, length, jnp.array(-1)))
        place = jnp.arange(k)
        inserted: Any = jnp.where(place == at, item, ranked[jnp.maximum(place - (place > at), 0)])
        active = (pending[0] < 0) & view.design.item_mask[item]
        done, waits = active & (open_ < 0), active & (open_ >= 0)
        return (
            jnp.where(done, inserted, ranked),
            jnp.where(done, jnp.minimum(length + 1, k), length),
            jnp.where(waits, jnp.stack([item, open_]), pending),
        )

    start = jnp.zeros(k, int), jnp.array(0), jnp.full(2, -1)
    *_, pair = jax.lax.fori_loop(0, n, insert, start)
    items = jnp.arange(n)
    match = (items == pair[0])[:, None] & (items == pair[1])
    return match | match.T


def pruned_tournament(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """A reading of the abstract of SERPANT, "Sequential E-value Ranking and Pruning via Adaptive
    Null Testing" (Gu, Sun, Gang and Xia: Anytime-Valid Inference for Online Ranking of Large
    Language Models, ICML 2026, PMLR 306). The paper's own brackets are not public to us and are not
    reproduced.

    Pairs are tested (`shown_better`), and items that the tests place inside or outside the top k
    are asked no more (`settled`). The others play in rounds: everybody once, against whoever has
    won about as often, whom they may have met before; a decided pair meets no more. If no match is
    left, all pairs score alike.

    It assumes fresh verdicts of a judge with transitive preferences, and that the order shown is
    drawn, as the tie-break does; with one verdict a pair nothing is ever decided. Decisions are
    made anew from all verdicts at every pick. It does not see how nearly a pair is decided: with 30
    items that takes 17 verdicts, if all are alike."""
    won, met = tallies(view)
    better = shown_better(won, view.design.item_mask)
    outside, inside = settled(better, view.design.item_mask, view.k)
    playing = ~(outside | inside)
    due = playing[:, None] & playing & ~(better | better.T)
    turn, gap = _rounds(won, met, playing)
    return jnp.where(due, turn - 0.5 * gap / (1 + gap), -met.sum() - 1)


def shown_better(won: Float[Array, "N N"], mask: Bool[Array, " N"]) -> Bool[Array, "N N"]:
    """Whether i is shown to be better than j: the e-process for "i wins at most half of their
    verdicts" (`anytime`) exceeds N (N - 1) / `ERROR`. With probability 1 - `ERROR` none of these
    N (N - 1) tests ever errs. A tie is half a win for each, which lowers the evidence and keeps the
    promise."""
    n = mask.sum()
    needed = jnp.log(n * (n - 1) / ERROR)
    evidence = log_evidence(won, won.T, jnp.asarray(0.5, won.dtype))
    return (evidence >= needed) & mask[:, None] & mask


def settled(
    better: Bool[Array, "N N"], mask: Bool[Array, " N"], k: int
) -> tuple[Bool[Array, " N"], Bool[Array, " N"]]:
    """Which items are shown to be outside the top k, and which inside.

    An item is outside if k others are shown to be better or are already inside; it is inside if
    N - k others are shown to be worse or are already outside. So all items are settled once every
    pair of unsettled items is decided, if no decisions form a cycle. Padding is outside."""
    n = len(mask)

    def once(state):
        outside, inside, _ = state
        out = outside | (~inside & ((better.T | inside).sum(1) >= k))
        within = inside | (~out & ((better | out).sum(1) >= n - k))
        return out, within, (out != outside).any() | (within != inside).any()

    start = ~mask, mask & False, jnp.array(True)
    outside, inside, _ = jax.lax.while_loop(lambda state: state[2], once, start)
    return outside, inside


def _item_priority(view: View) -> Float[Array, " N"]:
    """A random order of the items, without ties: the contents', then as they are numbered."""
    n = view.design.n_items
    return view.design.of_items(view.priority) + jnp.arange(n) / n * (
        view.design.content is not None
    )


def asap_fast(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """ASAP's fast form (Mikhailiuk et al. 2020, "approx"): expected information about all skills by
    one more verdict, which is taken to change those of its two items alone. A verdict is the sign
    of a difference of skills with noise of variance 1; the top k plays no part."""
    won, _ = tallies(view)
    mean, variance = true_skill(won, MESSAGES)
    spread = jnp.sqrt(1 + variance[:, None] + variance)
    z = (mean[:, None] - mean) / spread

    def gain(z: Float[Array, "N N"]) -> Float[Array, "N N"]:
        """Divergence of the skills of both items after the first has won."""
        v = jnp.exp(norm.logpdf(z) - norm.logcdf(z))
        w = v * (v + z)

        share = variance[:, None] / spread**2  # the first item's, of the variance of a verdict
        shares = jnp.stack([share, share.T])
        return 0.5 * (shares * (v**2 - w) - jnp.log1p(-shares * w)).sum(0)

    p = norm.cdf(z)
    return p * gain(z) + (1 - p) * gain(-z)


def asap(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """ASAP (Mikhailiuk et al. 2020), one pair at a time: as `asap_fast`, but messages are passed
    among all items after each imagined verdict. It costs N^4: for 20 items at most."""
    won, _ = tallies(view)
    before = true_skill(won, 2 * MESSAGES)

    def gain(i: Int[Array, ""], j: Int[Array, ""]) -> Float[Array, ""]:
        """Divergence of all skills after i has beaten j."""
        mean, variance = true_skill(won.at[i, j].add(1), 2 * MESSAGES)
        ratio = variance / before[1]
        shift = (mean - before[0]) ** 2 / before[1]
        return 0.5 * (ratio - 1 - jnp.log(ratio) + shift).sum()

    items = jnp.arange(won.shape[0])
    gains = jax.lax.map(lambda i: jax.vmap(gain, (None, 0))(i, items), items)
    mean, variance = before
    p = norm.cdf((mean[:, None] - mean) / jnp.sqrt(1 + variance[:, None] + variance))
    return p * gains + (1 - p) * gains.T


def true_skill(
    won: Float[Array, "N N"], rounds: int
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Means and variances of skills by expectation propagation, all messages of a round at once.

    Args:
      won: how often i beat j; a verdict is the sign of the difference of skills plus N(0, 1).
    """
    shape = won.shape
    mean = jnp.zeros(shape[0], won.dtype)
    precision = mean + 1 / SKILL_VARIANCE

    def one(_, state):
        mean, precision, to_winner, to_loser = state
        # The messages of one (winner, loser) pair; `won` of them are alike.
        (p_i, m_i), (p_j, m_j) = to_winner, to_loser
        winner = precision[:, None] - p_i, (precision * mean)[:, None] - p_i * m_i
        loser = precision - p_j, precision * mean - p_j * m_j
        variance = 1 + 1 / winner[0] + 1 / loser[0]
        difference = winner[1] / winner[0] - loser[1] / loser[0]
        z = difference / jnp.sqrt(variance)
        v = jnp.exp(norm.logpdf(z) - norm.logcdf(z))
        w = v * (v + z)
        # Of the difference with noise: precision and mean of the verdict's own message.
        own = w / (variance * (1 - w))
        at = difference + jnp.sqrt(variance) / jnp.maximum(v + z, 1e-6)
        to_winner = 1 / (1 + 1 / own + 1 / loser[0]), at + loser[1] / loser[0]
        to_loser = 1 / (1 + 1 / own + 1 / winner[0]), winner[1] / winner[0] - at
        pull = (won * to_winner[0]).sum(1) + (won * to_loser[0]).sum(0)
        where = (won * to_winner[0] * to_winner[1]).sum(1) + (won * to_loser[0] * to_loser[1]).sum(
            0
        )
        precision = 1 / SKILL_VARIANCE + pull
        return where / precision, precision, to_winner, to_loser

    silent = jnp.zeros_like(won), jnp.zeros_like(won)
    mean, precision, *_ = jax.lax.fori_loop(0, rounds, one, (mean, precision, silent, silent))
    return mean, 1 / precision


def eubo(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Expected utility of the best option (Lin et al. 2022), of preferential Bayesian optimisation:
    E max(theta_i, theta_j) under the posterior. It looks for the best item alone."""
    mean = view.design.of_items(view.posterior.mean.theta)
    sd = jnp.sqrt(jnp.maximum(view.difference_variance(), 1e-12))
    z = (mean[:, None] - mean) / sd
    return mean[:, None] * norm.cdf(z) + mean * norm.cdf(-z) + sd * norm.pdf(z)


def knowledge_gradient(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
    """Expected number of the true top k among the k of highest membership after one more verdict,
    by enumeration of pairs and outcomes: the yardstick for rules that look one verdict ahead. An
    outcome changes the Gaussian posterior to the moments of its logit. It costs N^4: for 20 items
    at most. Memberships are from `DRAWS` draws of the last refit, the same for all pairs: refit
    after every verdict."""
    m, mean = view.design.n_contents, view.posterior.mean.flat()
    root = view.posterior.root
    draws = jax.random.normal(key, (DRAWS, root.shape[0]), mean.dtype) @ root
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    variances = view.logit_variance()

    def value(i: Int[Array, ""], j: Int[Array, ""]) -> Float[Array, ""]:
        z = view.design_vector(i, j)
        sd = jnp.sqrt(jnp.maximum(variances[i, j], 1e-12))
        first = jax.nn.sigmoid(mean @ z + sd * nodes)
        along = view.covariance @ z / sd
        expected = 0.0
        for chance in (first, 1 - first):
            mass = weights @ chance
            centre = weights @ (chance * nodes) / mass
            width = jnp.sqrt(weights @ (chance * (nodes - centre) ** 2) / mass)
            logit = draws @ z / sd
            moved = mean + draws + (centre + (width - 1) * logit)[:, None] * along
            top = jax.vmap(view.is_top)(moved[:, :m]).mean(0)
            expected += mass * jax.lax.top_k(top, view.k)[0].sum()
        return expected

    items = jnp.arange(view.design.n_items)
    return jax.lax.map(lambda i: jax.vmap(value, (None, 0))(i, items), items)
