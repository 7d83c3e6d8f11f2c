"""What several judges of the same items tell about their biases."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import panels
import problems
import pytest
from panels import J
from scipy.optimize import linprog
from scipy.special import expit

from jbt import identifiability, model, rows
from jbt.types import Comparisons, Design, Panel, Parameters, Status, Variant


def random_panels(seeds):
    return [
        panels.random_panel(s, shared=s % 2 == 0, n_judges=2 + s % 3 // 2, mixed=s % 3 == 0)
        for s in seeds
    ]


def unpadded(q):
    """(panel, design, variant)"""
    n, d = q.items.n, q.items.d
    design = Design.build(q.items.x[:n, :d], q.items.content[:n], n_contents=q.items.m)
    judges = [Comparisons.build(v.shown[:n, :n], v.wins[:n, :n]) for v in q.judges]
    panel = Panel.build(judges, discrimination=q.discrimination, sharing=q.sharing)
    variant = Variant(jnp.asarray(q.free_biases[:-1]), jnp.asarray(q.free_biases[-1]))
    return panel, design, variant


def scaled(q):
    """The explicit matrix of what is unknown, covariates in standard deviations."""
    z, m, d = q.design_matrix(), q.items.m, q.items.d
    spread = q.items.x[: q.items.n, :d].std(0)
    z[:, m : m + d * J] /= np.repeat(spread, J)
    return z[:, q.free()]


def svd_rank(z):
    values = np.linalg.svd(z, compute_uv=False)
    return int((values > 1e-8 * values.max(initial=1)).sum())


def own(q, directions):
    """[directions, d + 1, J] of each judge, from the panel's."""
    return directions[:, q.items.m :].reshape(-1, q.items.d + 1, J) @ q.sharing.T


# --- null space


@jax.jit
@jax.vmap
def ranks(panel, design, variant):
    return identifiability.rank(design, panel, variant=variant)


@pytest.mark.parametrize("count", [12, pytest.param(120, marks=pytest.mark.heavy)])
def test_rank_and_directions_agree_with_an_svd(x64, count):
    qs = random_panels(range(count))
    panel, design, _, variant = panels.as_batch(qs, shared=True, dtype="float64")
    found = ranks(panel, design, variant)
    silent = identifiability.silent_parts(design, panel, variant=variant)
    assert silent["c"].shape == (count, J)
    for i, q in enumerate(qs):
        panel, design, variant = unpadded(q)
        np.testing.assert_array_equal(
            identifiability.comparison_matrix(design, panel), q.design_matrix()
        )
        space = identifiability.null_space(design, panel, variant=variant)
        n_columns, rank = q.free().sum(), svd_rank(scaled(q))
        assert (space.rank, space.n_columns, found[i]) == (rank, n_columns, rank)
        directions = space.directions
        assert np.linalg.matrix_rank(directions) == space.nullity == n_columns - rank
        assert not directions[:, ~q.free()].any()
        largest = np.abs(directions).max(1)
        assert (np.abs(q.design_matrix() @ directions.T) <= 1e-11 * largest).all()
        told = np.abs(own(q, directions / largest[:, None])).max(0) < 1e-6
        np.testing.assert_array_equal(silent["c"][i], ~told[:-1].all(0))
        np.testing.assert_array_equal(silent["kappa"][i], ~told[-1])
        names = identifiability.prior_selected(design, panel, variant=variant)
        assert names == tuple(n for n, of in silent.items() if of[i].any())


def test_rows_have_the_null_space_of_their_counts(x64):
    for q in random_panels([1]):  # in which a judge gave no verdict
        panel, design, variant = unpadded(q)
        each = [
            rows.of_counts(jax.tree.map(lambda v, g=g: v[..., g], panel.verdicts), design)
            for g in range(J)
        ]
        listed = Panel.build(
            [r for r, _ in each], discrimination=panel.discrimination, sharing=panel.sharing
        )
        counted = identifiability.null_space(design, panel, variant=variant)
        again = identifiability.null_space(each[0][1], listed, variant=variant)
        assert again.names == counted.names
        assert (again.rank, again.n_columns) == (counted.rank, counted.n_columns)
        silent = identifiability.prior_selected(each[0][1], listed, design, variant=variant)
        assert silent == identifiability.prior_selected(design, panel, variant=variant)


def made(*shown, discrimination: Any = 1.0, sharing=None):
    """A panel whose judges were shown these pairs; every verdict a tie."""
    each = [Comparisons.build(np.asarray(v, float), np.asarray(v) / 2) for v in shown]
    return Panel.build(each, discrimination=discrimination, sharing=sharing)


def pairs_of(n, *pairs):
    """Both orders of each pair."""
    shown = np.zeros((n, n))
    for i, j in pairs:
        shown[i, j] = shown[j, i] = 1
    return shown


def names(x, panel, **options):
    space = identifiability.null_space(Design.build(np.asarray(x, float)), panel, **options)
    z = identifiability.comparison_matrix(Design.build(np.asarray(x, float)), panel)
    assert np.abs(z @ space.directions.T).max(initial=0) < 1e-12
    return space.names


def known(d, n_judges, *coefficients):
    """All free but these (covariate, judge); positions known."""
    c = np.ones((d, n_judges), bool)
    for at in coefficients:
        c[at] = False
    return Variant(jnp.asarray(c), jnp.zeros(n_judges, bool))


FULL = 1 - np.eye(4)
X = np.array([0.0, 1.0, 3.0, 3.0])
CONSTANT = "adding 1 to every quality"
NO_DIFFERENCE = "none of whose comparisons differs in it"


def test_names_of_directions(x64):
    trade = "trading quality against words in all judges at once: theta + delta x, "
    words = {"covariates": ["words"]}
    assert names(X, made(FULL, FULL, FULL), **words) == (CONSTANT, trade + "c - delta")
    unequal = made(FULL, FULL, discrimination=[1.0, 2.0])
    assert names(X, unequal, **words) == (CONSTANT, trade + "c_g - s_g delta")
    direction = identifiability.null_space(Design.build(X), unequal).directions[1]
    theta, c, kappa = direction[:4], direction[4:6], direction[6:]
    np.testing.assert_allclose(c, -np.array([0.5, 1]), atol=1e-12)
    np.testing.assert_allclose(theta - theta[0], X / 2, atol=1e-12)
    np.testing.assert_allclose(kappa, 0, atol=1e-12)
    # However the coefficients are parametrised.
    apart = identifiability.difference(made(FULL, FULL), 1, 0)
    assert names(X, apart, **words) == (CONSTANT, trade + "c - delta")
    as_one = made(FULL, FULL, sharing=[[1, 0], [1, 0]])
    assert names(X, as_one, **words) == (CONSTANT, trade + "c - delta")
    # A reference that knows nothing of words.
    alike = pairs_of(4, (2, 3))
    judges = ["cheap", "dear", "reference"]
    assert names(X, made(FULL, FULL, alike), judges=judges, variant=known(1, 3, (0, 2))) == (
        CONSTANT,
        "trading quality against x1 in cheap and dear",
    )
    # Two judges who meet in nothing.
    apart = made(pairs_of(4, (0, 1)), pairs_of(4, (1, 2)), pairs_of(4))
    assert names(X[:, None] * [1, 0], apart, position=False)[2:] == (
        "trading quality against x1 in judge 1",
        "trading quality against x1 in judge 2",
        *(
            f"changing the coefficient of {x} in judge {g}, {NO_DIFFERENCE}"
            for x, g in [("x1", 3), ("x2", 1), ("x2", 2), ("x2", 3)]
        ),
    )
    one_order = np.triu(pairs_of(4, (0, 1)))
    held = Variant(jnp.array([[False, True]]), jnp.ones(2, bool))
    assert names(X, made(FULL, one_order), variant=held) == (
        CONSTANT,
        "trading x1 in judge 2 against position in judge 2",
    )


def test_what_a_null_space_refuses():
    design, panel = Design.build(X), made(FULL, FULL)
    with pytest.raises(ValueError, match="2 judges, got 1 names"):
        identifiability.null_space(design, panel, judges=["a"])
    with pytest.raises(ValueError, match="names of judges go with a panel"):
        identifiability.null_space(design, FULL, judges=["a"])
    every = model.variant("bias_aware", design)
    for f in (identifiability.null_space, identifiability.prior_selected):
        with pytest.raises(ValueError, match="a variant for one judge, but comparisons of a panel"):
            f(design, panel, variant=every)
    with pytest.raises(ValueError, match=r"shown must be \[4, 4\]"):
        identifiability.prior_selected(design, made(1 - np.eye(3)))


# --- the theorem


def x_of_closed_chains(x, content, shown):
    """[comparisons, J D], the X(C) of the chain that each comparison closes with a spanning forest:
    zero for those in it. In plain loops."""
    d, n_judges = x.shape[1], len(shown)
    steps = [(i, j, g) for g in range(n_judges) for i, j in np.argwhere(shown[g])]
    moved = [np.kron(np.eye(n_judges)[g], x[j] - x[i]) for i, j, g in steps]
    at = {}
    for root in content:
        if root in at:
            continue
        at[root] = np.zeros(d * n_judges)
        grown = True
        while grown:
            grown = False
            for (i, j, _), step in zip(steps, moved, strict=True):
                a, b = content[i], content[j]
                if a in at and b not in at:
                    at[b], grown = at[a] + step, True
                elif b in at and a not in at:
                    at[a], grown = at[b] - step, True
    closed = [
        at[content[i]] + step - at[content[j]] for (i, j, _), step in zip(steps, moved, strict=True)
    ]
    return np.array(closed).reshape(-1, d * n_judges)


def random_comparisons(seed, *, renderings):
    """(x, content, shown of each judge, s), some judges and items linked to nothing."""
    rng = np.random.default_rng(seed)
    d, n_judges, n = 1 + seed % 2, int(rng.integers(2, 4)), int(rng.integers(4, 8))
    x = rng.integers(-2, 3, (n, d)).astype(float)
    content = rng.integers(0, n - 1, n) if renderings else np.arange(n)
    density = rng.choice([0.08, 0.15, 0.3, 0.8], n_judges)
    shown = [np.triu(rng.random((n, n)) < p, 1) for p in density]
    return x, content, [v + v.T for v in shown], np.exp(rng.normal(0, 0.5, n_judges))


@pytest.mark.parametrize("renderings", [False, True])
def test_what_is_told_are_the_combinations_that_closed_chains_span(x64, renderings):
    seen = set()
    for seed in range(60):
        x, content, shown, s = random_comparisons(seed, renderings=renderings)
        d, n_judges = x.shape[1], len(shown)
        design = Design.build(x, content, n_contents=len(content))
        panel = made(*shown, discrimination=s)
        space = identifiability.null_space(design, panel, position=False)
        chains = x_of_closed_chains(x, content, shown)
        spanned = np.linalg.matrix_rank(chains, tol=1e-8)
        n_islands = sum(name.startswith("adding") for name in space.names)
        assert space.nullity == n_islands + d * n_judges - spanned
        # b_g = c_g / s_g, judge after judge as the X(C) have them.
        c = space.directions[:, len(content) : -n_judges].reshape(-1, d, n_judges) / s
        b = c.swapaxes(1, 2).reshape(len(c), n_judges * d)
        assert np.abs(chains @ b.T).max(initial=0) < 1e-9
        if renderings:
            continue
        # (a), (c): what is told of several judges are differences.
        assert np.abs(chains.reshape(-1, n_judges, d).sum(1)).max(initial=0) < 1e-9
        common = np.kron(np.ones(n_judges), np.eye(d))
        assert np.linalg.matrix_rank(b) == np.linalg.matrix_rank(np.r_[b, common])
        for g, h in itertools.combinations(range(n_judges), 2):
            apart = np.kron(np.eye(n_judges)[g] - np.eye(n_judges)[h], np.eye(d))
            identified = np.abs(apart @ b.T).max(initial=0) < 1e-9
            spans = np.linalg.matrix_rank(np.r_[chains, apart], tol=1e-8) == spanned
            assert identified == spans
            seen.add((bool(identified), space.nullity == n_islands + d))
    assert renderings or {(True, True), (True, False), (False, False)} <= seen


@pytest.mark.parametrize("d", [1, 2])
def test_judges_of_every_pair_leave_one_trade_a_covariate(x64, d):
    rng = np.random.default_rng(d)
    x, s = rng.normal(size=(6, d)), np.array([1.0, 0.5, 2.0])
    panel = made(*[1 - np.eye(6)] * 3, discrimination=s)
    space = identifiability.null_space(Design.build(x), panel)
    assert space.nullity == 1 + d
    for k, name in enumerate(space.names[1:]):
        assert name.startswith(f"trading quality against x{k + 1} in all judges at once")
        theta, c = space.directions[1 + k, :6], space.directions[1 + k, 6 : 6 + 3 * d].reshape(d, 3)
        delta = -c[:, 0] / s[0]
        np.testing.assert_allclose(c, -delta[:, None] * s, atol=1e-9)
        np.testing.assert_allclose(theta - theta[0], (x - x[0]) @ delta, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2])
def test_a_reference_tells_the_rest_by_the_differences_of_what_it_compared(x64, d):
    """Judge 0 links all items, judge 1 is known, judge 2 compared what it would."""
    seen = set()
    for seed in range(40):
        rng = np.random.default_rng([seed, d])
        n = 6
        x = rng.integers(0, 2, (n, d)).astype(float)
        chain = pairs_of(n, *itertools.pairwise(rng.permutation(n)))
        few = [tuple(rng.choice(n, 2, replace=False)) for _ in range(seed % 4)]
        others = [tuple(rng.choice(n, 2, replace=False)) for _ in range(2)]
        panel = made(chain, pairs_of(n, *few), pairs_of(n, *others), discrimination=[1, 2, 0.7])
        variant = known(d, 3, *[(k, 1) for k in range(d)])
        space = identifiability.null_space(Design.build(x), panel, variant=variant)
        c = space.directions[:, n : n + 3 * d].reshape(-1, d, 3)
        spanned = np.array([x[i] - x[j] for i, j in few]).reshape(-1, d)
        told = np.linalg.matrix_rank(spanned, tol=1e-8)
        # As many combinations of c_0 as independent differences, and just these.
        assert np.linalg.matrix_rank(c[:, :, 0], tol=1e-8) == d - told
        assert np.abs(spanned @ c[:, :, 0].T).max(initial=0) < 1e-9
        if told == d:
            its = np.array([x[i] - x[j] for i, j in others])
            assert np.linalg.matrix_rank(c[:, :, 2], tol=1e-8) == d - svd_rank(its)
        seen.add(int(told))
    assert seen == set(range(d + 1))


def test_one_known_coefficient_of_each_covariate_is_enough(x64):
    """Of whichever judge, where the differences are told."""
    x = np.random.default_rng(0).normal(size=(5, 2))
    panel = made(*[1 - np.eye(5)] * 3)
    for first, second in itertools.product(range(3), repeat=2):
        variant = known(2, 3, (0, first), (1, second))
        assert identifiability.null_space(Design.build(x), panel, variant=variant).nullity == 1
        half = identifiability.null_space(Design.build(x), panel, variant=known(2, 3, (0, first)))
        assert half.names[1].startswith("trading quality against x2 in all judges at once")


# --- the prior-free estimate

BATCH = 16
"""One compiled shape: problems of 8 items, 3 covariates and 3 judges."""


@jax.jit
@jax.vmap
def estimates(panel, design, variant, covariate, judge, start):
    return identifiability.estimate_bias(
        panel, design, covariate=covariate, judge=judge, variant=variant, start=start
    )


def estimates_of(batch, covariate, judge, start=0.0):
    """Of the problems of `panels.as_batch`; `start`: what the known coefficients are."""
    panel, design, _, variant = batch
    which = [jnp.asarray(np.broadcast_to(v, BATCH)) for v in (covariate, judge)]
    biases = jnp.asarray(np.full((BATCH, panels.D + 1, J), start))
    begin = jax.vmap(Parameters)(jnp.zeros((BATCH, panels.M)), biases[:, :-1], biases[:, -1])
    return jax.device_get(estimates(panel, design, variant, *which, begin))


def several(seed):
    """Problems with a covariate."""
    found = (
        panels.random_panel(s, shared=s % 4 != 0, n_judges=2 + s % 2, mixed=s % 3 == 0)
        for s in itertools.count(1000 * seed)
    )
    return list(itertools.islice((q for q in found if q.items.d > 0), BATCH))


def fate(z, shown, wins, at):
    """Of one parameter, by linear algebra and linear programming: silent, runs away, exists."""
    if svd_rank(np.delete(z, at, 1)) == svd_rank(z):
        return "silent"
    undecided = (wins > 0) & (wins < shown)
    worse = -np.where(wins == shown, 1, -1)[:, None] * z
    limits = {}
    if undecided.any():
        limits |= {"A_eq": z[undecided], "b_eq": np.zeros(undecided.sum())}
    if not undecided.all():
        limits |= {"A_ub": worse[~undecided], "b_ub": np.zeros((~undecided).sum())}
    aim = np.eye(z.shape[1])[at]
    ends = [linprog(sign * aim, bounds=[(-1, 1)] * len(aim), **limits).fun for sign in (1, -1)]
    return "runs away" if min(ends) < -1e-7 else "exists"


STATUS = {
    "silent": [Status.FLAT, Status.DISCONNECTED, Status.NO_VERDICTS],
    "runs away": [Status.SEPARATED],
    "exists": [Status.CONVERGED],
}


# The slowest problem of a batch holds up the others: those of the first are quick.
@pytest.mark.parametrize(
    "seed", [27, *[pytest.param(s, marks=pytest.mark.heavy) for s in range(6)]]
)
def test_the_estimate_agrees_with_scipy_and_exists_where_it_can(x64, seed):
    qs, value = several(seed), 0.4
    covariate = np.arange(BATCH) % np.array([q.items.d for q in qs])
    judge = np.arange(BATCH) % J
    batch = panels.as_batch(qs, shared=True, dtype="float64")
    out = estimates_of(batch, covariate, judge, value)
    fates, unsettled = [], out.status == Status.NOT_CONVERGED
    assert unsettled.sum() <= (seed != 27)  # optima at infinity may be many steps away
    for i, q in enumerate(qs):
        column = q.items.m + covariate[i] * J + judge[i]
        z, (shown, wins), free = q.design_matrix(), q.counts(), q.free()
        free[column] = True  # whatever the variant says of it
        fates.append(fate(z[:, free], shown, wins, int(free[:column].sum())))
        assert out.status[i] in STATUS[fates[i]] or unsettled[i]
        nobody = not shown[np.abs(z[:, column]) > 0].any()
        assert (out.status[i] == Status.NO_VERDICTS) <= nobody
        if fates[i] != "exists" or unsettled[i]:
            assert np.isnan([out.c[i], out.low[i], out.wald_high[i]]).all()
            continue
        at = np.where(np.arange(len(free)) < q.items.m, 0, value)
        nothing = np.zeros(len(free))
        b, hessian, top = problems.minimum(z, shown, wins, nothing, free, np.where(free, 0, at))
        assert out.c[i] == pytest.approx(b[column], abs=1e-5)
        own = int(free[:column].sum())
        rest = np.delete(np.arange(len(hessian)), own)
        left = (
            hessian[own, own]
            - hessian[own, rest]
            @ np.linalg.pinv(hessian[np.ix_(rest, rest)], rcond=1e-8)
            @ hessian[rest, own]
        )
        assert out.curvature[i] == pytest.approx(left, rel=1e-4)
        free[column] = False
        for end in (out.low[i], out.high[i]):
            at[column] = end
            _, _, there = problems.minimum(z, shown, wins, nothing, free, np.where(free, 0, at))
            assert 2 * (there - top) == pytest.approx(3.8414588, abs=1e-5)
        assert out.low[i] < out.c[i] < out.high[i]
    assert seed != 27 or set(fates) == set(STATUS)


def padded(x, shown, wins, *, variant, discrimination=(1.0, 1.0, 1.0)):
    """One problem of the compiled shape: 8 items, of three judges."""
    covariates = np.zeros((panels.N, panels.D))
    covariates[:, : x.shape[1]] = x
    made = Panel(
        Comparisons(*(jnp.asarray(np.stack(v, -1), float) for v in (shown, wins))),
        jnp.asarray(discrimination, float),
        jnp.eye(J),
    )
    c = np.zeros((panels.D, J), bool)
    c[: x.shape[1]] = variant.c
    design = Design.build(covariates, np.arange(panels.N))
    return made, design, Variant(jnp.asarray(c), variant.kappa)


def together(problems):
    """Repeated to a batch."""
    each = [*problems, *[problems[-1]] * (BATCH - len(problems))]
    panel, design, variant = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    return panel, design, None, variant


def test_reasons_why_there_is_no_estimate(x64):
    n = panels.N
    x = np.array([0.0, 1, 2, 3, 4, 5, 6, 6])[:, None]
    full, none, chain = 1 - np.eye(n), np.zeros((n, n)), pairs_of(n, *itertools.pairwise(range(n)))
    alike, apart = pairs_of(n, (6, 7)), pairs_of(n, (0, 3))
    halves = pairs_of(n, (0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (6, 7))
    told, asked = known(1, J, (0, 1)), 0
    longer = (x > x.T) * full

    def problem(*shown, wins=None, x=x, variant=told):
        wins = [v / 2 for v in shown] if wins is None else wins
        return padded(x, shown, wins, variant=variant)

    cases = {
        "CONVERGED": problem(chain, apart, none),
        "FLAT": problem(full, full, full, variant=known(1, J)),
        # More verdicts would do: of the reference, or of the judge.
        "DISCONNECTED": problem(full, alike, none),
        "DISCONNECTED ": problem(full, none, none),
        "DISCONNECTED  ": problem(halves, apart, none),
        "SEPARATED": problem(full, full, none, wins=[longer, full / 2, none]),
        "COVARIATE_CONSTANT": problem(full, full, full, x=np.ones((n, 1))),
        "NO_VERDICTS": problem(none, full, full),
        "NOT_FINITE": problem(full, full, none, wins=[full * np.nan, full / 2, none]),
    }
    out = estimates_of(together(list(cases.values())), 0, asked)
    found = [Status(int(s)).name for s in out.status[: len(cases)]]
    assert found == [name.strip() for name in cases]
    # The reference saw one tie, and quality apart at discrimination 1: c_0 = 0 in both.
    assert out.c[0] == pytest.approx(0, abs=1e-6)
    # Of another judge: it compared nothing, or is known itself.
    silent = estimates_of(together(list(cases.values())), 0, 2)
    assert silent.status[0] == Status.NO_VERDICTS


def test_a_difference_is_told_without_anything_known(x64):
    """It is what the one coefficient is where the other is 0, each in its judge's units."""
    rng = np.random.default_rng(5)
    n, s = panels.N, np.array([1.0, 2.0, 0.7])
    x, theta = rng.normal(size=(n, 2)), rng.normal(size=n)
    full, none = 1 - np.eye(n), np.zeros((n, n))
    wins = []
    for g in range(J):
        phi = s[g] * theta + x @ rng.normal(size=2)
        wins.append(rng.binomial(20, expit(phi[:, None] - phi)) * full)
    every = Variant(jnp.ones((2, J), bool), jnp.ones(J, bool))
    free = padded(x, [20 * full] * J, wins, variant=every, discrimination=s)
    held = (*free[:2], Variant(free[2].c.at[:, 0].set(False), free[2].kappa))
    chains = [pairs_of(n, (0, 1)), pairs_of(n, (1, 2)), none]
    unlinked = padded(x, chains, [v / 2 for v in chains], variant=every)

    def apart(panel, *rest):
        return identifiability.difference(panel, 1, 0), *rest

    batch = together([apart(*free), held, free, apart(*unlinked)])
    out = estimates_of(batch, 1, 1)
    converged = Status.CONVERGED
    assert out.status[:4].tolist() == [converged, converged, Status.FLAT, Status.DISCONNECTED]
    for name in ("c", "low", "high", "wald_low", "curvature"):
        of_difference, with_0_held = getattr(out, name)[:2]
        assert of_difference == pytest.approx(with_0_held, abs=1e-6)
    with_half = estimates_of(batch, 1, 1, start=0.5)
    assert with_half.c[1] == pytest.approx(out.c[0] + 2 * 0.5, abs=1e-6)
    assert out.c[0] < 0.5 < 1  # a difference, not a coefficient


@pytest.mark.heavy
def test_the_profile_without_a_reference_is_flat(x64):
    """However many judges and verdicts there are."""
    rng = np.random.default_rng(1)
    n = panels.N
    full = 1 - np.eye(n)
    wins = [rng.binomial(50, rng.random((n, n))) * full for _ in range(J)]
    x = rng.normal(size=(n, 1))
    grid, shown = identifiability.grid_around(0.3, points=3), [50 * full] * J
    for variant, least, most in ((known(1, J), 0, 1e-9), (known(1, J, (0, 2)), 10, np.inf)):
        panel, design, variant = padded(x, shown, wins, variant=variant)
        curve = identifiability.profile(panel, design, grid, judge=1, variant=variant)
        assert (curve.status == Status.CONVERGED).all()
        assert least <= float(curve.range()) <= most


@pytest.mark.heavy
def test_directions_that_have_no_finite_top(x64):
    """Flat without a known coefficient; with one, only where every verdict says the same."""
    n, full = panels.N, 1 - np.eye(panels.N)
    x = np.arange(n)[:, None] * 1.0
    longer = (x > x.T) * full
    for variant, wins, count in (
        (known(1, J), full / 2, 1),
        (known(1, J, (0, 2)), full / 2, 0),
        (known(1, J, (0, 2)), longer, 1),
    ):
        panel, design, variant = padded(x, [full] * J, [wins, full / 2, full / 2], variant=variant)
        directions = identifiability.undetermined(panel, design, variant)
        assert len(directions) == count


# --- coverage

TRUE_C = 1.5


def simulated(n_pools, *, n_items, n_reference, repeats):
    """(x, shown, wins) of pools in which a cheap judge answered every ordered pair `repeats` times,
    and a reference without bias, of twice its discrimination, `n_reference` drawn at random."""
    rng = np.random.default_rng(0)
    theta, x = 1.2 * rng.normal(size=(n_pools, n_items)), rng.normal(size=(n_pools, n_items))
    every = 1 - np.eye(n_items, dtype=int)
    few = rng.choice(np.flatnonzero(every), (n_pools, n_reference))
    asked = np.stack([np.bincount(f, minlength=n_items**2) for f in few])
    asked = asked.reshape(-1, n_items, n_items)
    shown = np.stack([np.broadcast_to(repeats * every, asked.shape), asked], -1)
    phi = theta[..., None] * [1, 2] + x[..., None] * [TRUE_C, 0]
    wins = rng.binomial(shown, expit(phi[:, :, None] - phi[:, None] + [0.35, 0]))
    return x, shown * 1.0, wins * 1.0


def coverage(found):
    """Of the profile interval and Wald's: how often, less 95 % in standard errors."""
    exists = found.status == Status.CONVERGED
    assert exists.mean() > 0.99
    ends = ((found.low, found.high), (found.wald_low, found.wald_high))
    often = np.array([((low < TRUE_C) & (high > TRUE_C))[exists].mean() for low, high in ends])
    return often, (often - 0.95) / np.sqrt(0.95 * 0.05 / exists.sum())


def test_intervals_cover_the_truth_with_a_reference_and_there_are_none_without(x64):
    count = 12 * BATCH
    x, shown, wins = simulated(count, n_items=panels.N, n_reference=60, repeats=16)

    def one(x, shown, wins, c_is_free):
        panel = Panel(Comparisons(shown, wins), jnp.array([1.0, 2.0, 1.0]), jnp.eye(J))
        design = Design(x, jnp.arange(panels.N), jnp.ones(panels.N, bool), panels.M)
        return panel, design, None, Variant(c_is_free, jnp.array([True, False, False]))

    padding = [(0, 0)] * 3 + [(0, 1)]
    covariates = np.pad(x[..., None], [(0, 0), (0, 0), (0, panels.D - 1)])
    of_three = [np.pad(v, padding) for v in (shown, wins)]
    found = []
    for free in ([True, False, True], [True, True, True]):
        c_is_free = np.zeros((count, panels.D, J), bool)
        c_is_free[:, 0] = free
        batches = jax.tree.map(
            lambda v: v.reshape(-1, BATCH, *v.shape[1:]),
            jax.vmap(one)(covariates, of_three[0], of_three[1], c_is_free),
        )
        parts = [
            estimates_of(jax.tree.map(lambda v, i=i: v[i], batches), 0, 0)
            for i in range(count // BATCH)
        ]
        found.append(jax.tree.map(lambda *v: np.concatenate(v), *parts))
    assert np.abs(coverage(found[0])[1]).max() < 3
    assert (found[1].status == Status.FLAT).all()
    panel = made(*np.moveaxis(shown[0], -1, 0), discrimination=[1, 2])
    assert names(x[0], panel) == (
        CONSTANT,
        "trading quality against x1 in all judges at once: theta + delta x, c_g - s_g delta",
    )
    assert names(x[0], panel, variant=known(1, 2, (0, 1))) == (CONSTANT,)


@jax.jit
@jax.vmap
def cheap_judge(x, shown, wins):
    panel = Panel(Comparisons(shown, wins), jnp.array([1.0, 2.0]), jnp.eye(2))
    design = Design(x[:, None], None, jnp.ones(len(x), bool), len(x))
    variant = Variant(jnp.array([[True, False]]), jnp.array([True, False]))
    return identifiability.estimate_bias(panel, design, variant=variant)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("n_items", "n_reference", "repeats", "least"),
    [(12, 60, 8, 0.95), (12, 30, 8, 0.94), (12, 60, 1, 0.90), (12, 30, 1, 0.89), (24, 60, 4, 0.95)],
)
def test_coverage_by_the_number_of_verdicts(x64, n_items, n_reference, repeats, least):
    """The figures of the page on identifiability: about a parameter for each ten verdicts, as
    little as one verdict a pair gives, the maximum of the likelihood lies too far out."""
    pools = simulated(2000, n_items=n_items, n_reference=n_reference, repeats=repeats)
    often, errors = coverage(jax.device_get(cheap_judge(*map(jnp.asarray, pools))))
    print(n_items, n_reference, repeats, often)
    assert (often > least - 3 * 0.0049).all()
    assert (errors < 3).all()


# --- bad input


def test_what_is_refused(x64):
    panel, design = made(FULL, FULL), Design.build(X)
    grid = identifiability.grid_around(0.0)
    for call in (
        lambda j: identifiability.profile(panel, design, grid, judge=j),
        lambda j: identifiability.estimate_bias(panel, design, judge=j),
        lambda j: identifiability.efficient_information(
            Parameters.zeros(design, 2), panel, design, judge=j
        ),
        lambda j: identifiability.difference(panel, j, 0),
        lambda j: identifiability.difference(panel, 0, j),
    ):
        with pytest.raises(ValueError, match=r"(judge|reference) must lie in 0..1, got 2"):
            call(2)
    every = model.variant("bias_aware", design)
    for call in (
        lambda: identifiability.rank(design, panel, variant=every),
        lambda: identifiability.estimate_bias(panel, design, variant=every),
    ):
        with pytest.raises(ValueError, match="a variant for one judge, but comparisons of a panel"):
            call()
    one = Comparisons.build(FULL, FULL / 2)
    with pytest.raises(ValueError, match=r"judge must lie in 0..0, got 1"):
        identifiability.estimate_bias(one, design, judge=1)
    with pytest.raises(ValueError, match="judge 1 cannot differ from itself"):
        identifiability.difference(panel, 1, 1)
    with pytest.raises(ValueError, match="coefficients of their own"):
        identifiability.difference(identifiability.difference(panel, 1, 0), 0, 1)
    for shape in (identifiability.rank, identifiability.comparison_matrix):
        with pytest.raises(ValueError, match=r"shown must be \[4, 4\]"):
            shape(design, made(1 - np.eye(3)))
