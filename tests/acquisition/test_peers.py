"""Rules that others use, against independent implementations and on small problems."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm
from support.active import binary_task, score_by, view_of

from jbt.acquisition import Loop, Rule, peers, rules, run
from jbt.acquisition.picks import bought
from jbt.kernel.fit import fit_map

KEY = jax.random.key(0)
pytestmark = pytest.mark.usefixtures("x64", "same_key_again")


def view_with(shown, wins, k=2, seed=0):
    """A view of an unpaired pool with these counts of ordered pairs."""
    view = view_of(seed, k=k)
    n = len(shown)
    assert n == view.design.n_items
    counts = {"shown": jnp.asarray(shown, float), "wins": jnp.asarray(wins, float)}
    return dataclasses.replace(view, **counts, available=~jnp.eye(n, dtype=bool))


def after_games(won, **terms):
    """A view after so many games that i won against j."""
    won = np.asarray(won, float)
    return view_with(np.triu(won + won.T, 1), np.triu(won, 1), **terms)


def asked(score):
    """The pair of highest score; no item meets itself."""
    best = np.where(np.eye(len(score), dtype=bool), -np.inf, score).argmax()
    return tuple(int(item) for item in np.unravel_index(best, score.shape))


def game(mean, variance, winner, loser):
    """Of a game between normal skills: its chance, the standard deviation of the winner's lead, and
    the corrections v of its mean and w of its variance."""
    spread = np.sqrt(1 + variance[winner] + variance[loser])
    z = (mean[winner] - mean[loser]) / spread
    p = ndtr(z)
    v = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / p  # SciPy's norm takes ten times as long
    return p, spread, v, v * (v + z)


def naive_skills(games, n, rounds):
    """Expectation propagation, game by game in loops: (winner, loser) -> means, variances."""
    prior = 1 / peers.SKILL_VARIANCE
    precision, mean = np.full(n, prior), np.zeros(n)
    messages = np.zeros((len(games), 2, 2))  # game, winner or loser, (precision, mean)
    for _ in range(rounds):
        for g, pair in enumerate(games):
            pair = list(pair)
            p = precision[pair] - messages[g, :, 0]
            m = (precision[pair] * mean[pair] - messages[g].prod(1)) / p
            _, spread, v, w = game(m, 1 / p, 0, 1)
            lead, shrunk = m[0] - m[1], spread**2 * (1 - w)
            precise = 1 / shrunk - 1 / spread**2
            at = ((lead + spread * v) / shrunk - lead / spread**2) / precise
            messages[g, 0] = 1 / (1 + 1 / precise + 1 / p[1]), at + m[1]
            messages[g, 1] = 1 / (1 + 1 / precise + 1 / p[0]), m[0] - at
        for item in range(n):
            own = [messages[g, pair.index(item)] for g, pair in enumerate(games) if item in pair]
            precision[item] = prior + sum(m[0] for m in own)
            mean[item] = sum(m.prod() for m in own) / precision[item]
    return mean, 1 / precision


def divergence(new, old):
    """Of normals with independent coordinates, new from old."""
    (m, v), (m_0, v_0) = new, old
    return 0.5 * (v / v_0 - 1 - np.log(v / v_0) + (m - m_0) ** 2 / v_0).sum()


def test_asap_is_the_expected_divergence_after_a_verdict():
    rng = default_rng(1)
    won = rng.integers(0, 2, (7, 7)) * np.triu(np.ones((7, 7), int), 1)
    games = list(zip(*np.nonzero(won), strict=True))
    by_rounds = {n: naive_skills(games, 7, n * peers.MESSAGES) for n in (1, 2)}
    full, fast = (score_by(name, after_games(won), KEY) for name in ("asap", "asap_fast"))
    for i, j in ((0, 1), (2, 5), (6, 3)):
        by_message, by_item = 0.0, 0.0
        for winner, loser in ((i, j), (j, i)):
            p, *_ = game(*by_rounds[2], winner, loser)
            after = naive_skills([*games, (winner, loser)], 7, 2 * peers.MESSAGES)
            by_message += p * divergence(after, by_rounds[2])
            m, s = map(np.copy, by_rounds[1])
            p, spread, v, w = game(m, s, winner, loser)
            m[winner] += s[winner] / spread * v
            m[loser] -= s[loser] / spread * v
            s[[winner, loser]] *= 1 - s[[winner, loser]] / spread**2 * w
            by_item += p * divergence((m, s), by_rounds[1])
        assert full[i, j] == pytest.approx(by_message, rel=1e-6)
        assert fast[i, j] == pytest.approx(by_item, rel=1e-6)


def test_expected_best_of_two_is_an_integral():
    view = view_of(3)
    score = score_by("eubo", view, KEY)
    theta, sigma = np.asarray(view.posterior.mean.theta), np.asarray(view.quality_covariance())
    for i, j in ((0, 1), (4, 2)):
        draws = default_rng(0).multivariate_normal(
            theta[[i, j]], sigma[np.ix_([i, j], [i, j])], 400_000
        )
        best = draws.max(1)
        assert score[i, j] == pytest.approx(best.mean(), abs=4 * best.std() / 400_000**0.5)


def test_knowledge_gradient_is_an_enumeration_of_outcomes():
    view = view_of(2)
    score = score_by("knowledge_gradient", view, KEY)
    root, mean = np.asarray(view.posterior.root), np.asarray(view.posterior.mean.flat())
    draws = np.asarray(jax.random.normal(KEY, (peers.DRAWS, len(root)))) @ root
    sigma, m = np.asarray(view.covariance), view.design.n_contents
    for i, j in ((0, 1), (5, 3)):
        z = np.asarray(view.design_vector(jnp.asarray(i), jnp.asarray(j)))
        centre, sd = mean @ z, np.sqrt(z @ sigma @ z)
        value = 0.0
        for sign in (1, -1):

            def density(t, power, sign=sign, centre=centre, sd=sd):
                return t**power * norm.pdf(t) / (1 + np.exp(-sign * (centre + sd * t)))

            p, first, second = (quad(density, -9, 9, power)[0] for power in range(3))
            shift = first / p
            width = np.sqrt(second / p - shift**2)
            logit = draws @ z / sd
            moved = mean + draws + np.outer(shift + (width - 1) * logit, sigma @ z / sd)
            ranks = np.argsort(-moved[:, :m], axis=1)[:, : view.k]
            top = np.bincount(ranks.ravel(), minlength=m) / peers.DRAWS
            value += p * np.sort(top)[-view.k :].sum()
        assert score[i, j] == pytest.approx(value, abs=1e-3)


@pytest.mark.heavy
def test_insertion_finds_the_top_k_of_a_judge_who_never_errs():
    """And in no more comparisons than the algorithm needs."""
    due = jax.jit(peers._next_comparison)
    for seed in range(4):
        quality = default_rng(seed).permutation(7)
        won = np.zeros((7, 7))
        while True:
            view = after_games(won, k=3, seed=seed)
            if not due(view, jnp.asarray(np.sign(won - won.T).astype(int))).any():
                break
            i, j = asked(score_by("insertion", view, KEY))
            assert won[i, j] + won[j, i] == 0, "asked twice"
            won[(i, j) if quality[i] > quality[j] else (j, i)] += 1
        assert won.sum() <= 7 * 2
        beaten = (won > 0).astype(int)
        for _ in range(3):
            beaten = np.minimum(beaten + beaten @ beaten, 1)
        best = np.argsort(-quality)[:3]
        # Each of the best is known to beat all outside.
        assert all(beaten[b].sum() >= 4 for b in best)


def test_swiss_rounds_pair_everybody_once():
    rng, won = default_rng(0), np.zeros((7, 7))
    for games in range(1, 10):
        i, j = asked(score_by("swiss", after_games(won), KEY))
        played = (won + won.T).sum(1)
        late = played == played.min()
        assert late[[i, j]].sum() == min(2, late.sum())
        won[(i, j) if rng.random() < 0.5 else (j, i)] += 1
        assert np.ptp((won + won.T).sum(1)) <= 2, games


# --- a tournament that prunes


def naive_better(won, real):
    """Pairs (i, j) of real items whose test is decided for i."""
    nodes = [0.5 + 0.5 * (step + 0.5) / 16 for step in range(16)]
    needed = len(real) * (len(real) - 1) / peers.ERROR
    better = set()
    for i, j in itertools.permutations(real, 2):
        ratios = [(2 * p) ** won[i, j] * (2 * (1 - p)) ** won[j, i] for p in nodes]
        if sum(ratios) / len(nodes) >= needed:
            better.add((i, j))
    return better


def naive_settled(better, real, k):
    """The items that these decisions place outside the top k and inside, one after the other."""
    outside, inside = set(), set()
    while True:
        for item in set(real) - outside - inside:
            others = set(real) - {item}
            if len([o for o in others if (o, item) in better or o in inside]) >= k:
                outside.add(item)
                break
            if len([o for o in others if (item, o) in better or o in outside]) >= len(real) - k:
                inside.add(item)
                break
        else:
            return outside, inside


def naive_pruned_tournament(won, real, k):
    """Its score, pair by pair."""
    better = naive_better(won, real)
    playing = set(real).difference(*naive_settled(better, real, k))
    games, points = (won + won.T).sum(1), won.sum(1)
    fewest = min((games[item] for item in playing), default=0)
    score = np.full(won.shape, -(won + won.T).sum() - 1)
    for i, j in itertools.permutations(playing, 2):
        if (i, j) not in better and (j, i) not in better:
            gap = abs(points[i] - points[j])
            score[i, j] = 2 * fewest - games[i] - games[j] - 0.5 * gap / (1 + gap)
    return score


def test_a_pruned_tournament_is_its_definition_pair_by_pair():
    rng, n_settled = default_rng(0), []
    for seed in range(40):
        real = range(5 if seed % 2 else 7)
        there = (np.arange(7) < len(real)) & ~np.eye(7, dtype=bool) & (np.c_[:7] < len(real))
        shown = there * rng.integers(0, 40, (7, 7))
        quality = 2 * rng.standard_normal(7)
        wins = rng.binomial(shown, expit(quality[:, None] - quality))
        ties = there * rng.integers(0, 4, (7, 7))
        view = view_with(shown + ties, wins + ties / 2)
        design = dataclasses.replace(view.design, item_mask=jnp.arange(7) < len(real))
        score = score_by("pruned_tournament", dataclasses.replace(view, design=design), KEY)
        won = wins + (shown - wins).T + (ties + ties.T) / 2
        expected = naive_pruned_tournament(won, real, 2)
        off_diagonal = ~np.eye(7, dtype=bool)
        assert_allclose(score[off_diagonal], expected[off_diagonal], rtol=1e-12)
        n_settled.append(len(set.union(*naive_settled(naive_better(won, real), real, 2))))
    assert min(n_settled) == 0
    assert max(n_settled) == 7


# --- rules around rules


def test_a_warm_rule_begins_as_round_robin():
    base, view = rules.RULES["top_k_aware"], view_of(0)
    plain, warm = base.score(view, KEY), rules.warm(base, 1000).score(view, KEY)
    np.testing.assert_array_equal(warm, rules.round_robin(view, KEY))
    np.testing.assert_array_equal(rules.warm(base, 0).score(view, KEY), plain)


@pytest.mark.parametrize("bad", [-jnp.inf, jnp.nan])
def test_both_orders_asks_the_other_order_first(bad):
    """Scores of unavailable pairs do not matter."""

    def marked(view, key):
        return jnp.where(view.available, view.probability, bad)

    wrapped = rules.both_orders(Rule(marked))
    assert jnp.isfinite(wrapped.score(view_of(0), KEY)).all()
    assert rules.name_of(wrapped.score) == "marked"
    shown = np.zeros((7, 7))
    shown[2, 5] = 1
    assert asked(wrapped.score(view_with(shown, 0 * shown), KEY)) == (5, 2)


@pytest.mark.parametrize(("zone", "least"), [(0.0, "many, even"), (2.0, "few, one-sided")])
def test_a_pivot_asks_the_pair_that_is_least_settled_at_its_zone(zone, least):
    """One verdict for one side, against forty that are split 22 to 18: log-likelihood ratios of
    0.69 and 0.20 without a zone, 1.31 and 7.00 with one of two logits."""
    view = view_of(0)
    order = np.argsort(-np.asarray(view.posterior.mean.theta))
    lowest, (few, many, *rest) = order[view.k - 1], np.delete(order, view.k - 1)
    shown, wins = np.zeros((7, 7)), np.zeros((7, 7))
    shown[lowest, rest], wins[lowest, rest] = 100, 100
    shown[lowest, few], wins[lowest, few] = 1, 1
    shown[lowest, many], wins[lowest, many] = 40, 22
    expected = {"few, one-sided": few, "many, even": many}[least]
    assert {*asked(rules.pivot(view_with(shown, wins), KEY, zone=zone))} == {lowest, expected}
    assert rules.pivot_of(zone) is rules.pivot_of(zone)


@pytest.mark.heavy
def test_verdicts_of_a_parallel_block_are_seen_at_its_end():
    """A rule that follows the verdicts chooses otherwise; the counts are those of the verdicts."""

    def follows(view, key):
        won, met = peers.tallies(view)
        return jnp.where(met == 0, 0.1, won > 0.6)

    task = binary_task(jax.random.key(1), frozen=True)
    traces = [
        jax.jit(lambda p=p: run(KEY, task, Loop(Rule(follows), 3, 8, parallel=p), 40))()
        for p in (False, True)
    ]
    chosen = [np.stack([t.queries.first, t.queries.second]) for t in traces]
    assert (chosen[0] != chosen[1]).any()
    for trace in traces:
        pairs = list(zip(trace.queries.first.tolist(), trace.queries.second.tolist(), strict=True))
        assert len(set(pairs)) == 40  # frozen: none twice
        assert_allclose(trace.queries.won, [task.answers[pair] for pair in pairs])
        counted = bought(trace.queries, jnp.ones(40, bool), task)
        fit = fit_map(counted, task.design, task.prior, task.variant)
        assert_allclose(trace.parameters.theta, fit.parameters.theta, atol=1e-4)


def test_insertion_among_errors_goes_on():
    """No pair is asked for ever, and a comparison is always due."""
    rng, shown, wins = default_rng(0), np.zeros((7, 7)), np.zeros((7, 7))
    quality = rng.permutation(7)
    for _ in range(300):
        view = view_with(shown, wins, k=2)
        score = np.where(view.available, score_by("insertion", view, KEY), -np.inf)
        assert score.max() > 0
        i, j = asked(score)
        shown[i, j] += 1
        wins[i, j] += rng.random() < (0.7 if quality[i] > quality[j] else 0.3)
    assert (shown + shown.T).max() <= 60
