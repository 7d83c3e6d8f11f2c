"""Which biases of several judges of the same items are identified."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from support import panels
from support.panels import known, made, pairs_of
from support.problems import svd_rank

from jbt import identifiability
from jbt.kernel import model
from jbt.types import Design, Variant


@pytest.mark.heavy
def test_rows_have_the_null_space_of_their_counts(x64):
    panel, design, variant = panels.any_problem(2).unpadded()  # in which a judge gave no verdict
    listed, owner = panels.as_rows(panel, design)
    counted = identifiability.null_space(design, panel, variant=variant)
    again = identifiability.null_space(owner, listed, variant=variant)
    assert again.names == counted.names
    assert (again.rank, again.n_columns) == (counted.rank, counted.n_columns)
    unidentified = identifiability.prior_selected(owner, listed, design, variant=variant)
    assert unidentified == identifiability.prior_selected(design, panel, variant=variant)


def names(x, panel, **options):
    space = identifiability.null_space(Design.build(np.asarray(x, float)), panel, **options)
    z = identifiability.comparison_matrix(Design.build(np.asarray(x, float)), panel)
    assert np.abs(z @ space.directions.T).max(initial=0) < 1e-12
    return space.names


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
    assert_allclose(c, -np.array([0.5, 1]), atol=1e-12)
    assert_allclose(theta - theta[0], X / 2, atol=1e-12)
    assert_allclose(kappa, 0, atol=1e-12)
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
    rng = default_rng(seed)
    d, n_judges, n = 1 + seed % 2, int(rng.integers(2, 4)), int(rng.integers(4, 8))
    x = rng.integers(-2, 3, (n, d)).astype(float)
    content = rng.integers(0, n - 1, n) if renderings else np.arange(n)
    density = rng.choice([0.08, 0.15, 0.3, 0.8], n_judges)
    shown = [np.triu(rng.random((n, n)) < p, 1) for p in density]
    return x, content, [v + v.T for v in shown], np.exp(rng.normal(0, 0.5, n_judges))


@pytest.mark.heavy
@pytest.mark.parametrize("renderings", [False, True])
def test_the_combinations_that_closed_chains_span_are_identified(x64, renderings):
    seen = set()
    for seed in range(30):
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
        # (a), (c): for several judges only differences are identified.
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
def test_a_reference_identifies_the_rest_by_the_differences_of_what_it_compared(x64, d):
    """Judge 0 links all items, judge 1 is known, judge 2 compared random pairs."""
    seen = set()
    for seed in range(40):
        rng = default_rng([seed, d])
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
        rank = np.linalg.matrix_rank(spanned, tol=1e-8)
        # As many combinations of c_0 as independent differences, and just these.
        assert np.linalg.matrix_rank(c[:, :, 0], tol=1e-8) == d - rank
        assert np.abs(spanned @ c[:, :, 0].T).max(initial=0) < 1e-9
        if rank == d:
            its = np.array([x[i] - x[j] for i, j in others])
            assert np.linalg.matrix_rank(c[:, :, 2], tol=1e-8) == d - svd_rank(its)
        seen.add(int(rank))
    assert seen == set(range(d + 1))


def test_one_known_coefficient_of_each_covariate_is_enough(x64):
    """From any judge, where the differences are identified."""
    x = default_rng(0).normal(size=(5, 2))
    panel = made(*[1 - np.eye(5)] * 3)
    for first, second in itertools.product(range(3), repeat=2):
        variant = known(2, 3, (0, first), (1, second))
        assert identifiability.null_space(Design.build(x), panel, variant=variant).nullity == 1
        half = identifiability.null_space(Design.build(x), panel, variant=known(2, 3, (0, first)))
        assert half.names[1].startswith("trading quality against x2 in all judges at once")


# --- bad input


def test_what_is_refused(x64):
    design, panel = Design.build(X), made(FULL, FULL)
    with pytest.raises(ValueError, match="2 judges, got 1 names"):
        identifiability.null_space(design, panel, judges=["a"])
    with pytest.raises(ValueError, match="names of judges go with a panel"):
        identifiability.null_space(design, FULL, judges=["a"])
    every = model.variant("bias_aware", design)
    for f in (identifiability.null_space, identifiability.prior_selected, identifiability.rank):
        with pytest.raises(ValueError, match="a variant for one judge, but comparisons of a panel"):
            jax.eval_shape(lambda f=f: f(design, panel, variant=every))
    for f in (
        identifiability.prior_selected,
        identifiability.rank,
        identifiability.comparison_matrix,
    ):
        with pytest.raises(ValueError, match=r"shown must be \[4, 4\]"):
            jax.eval_shape(lambda f=f: f(design, made(1 - np.eye(3))))
