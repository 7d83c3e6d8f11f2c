"""Which biases of several judges of the same items are identified."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.linalg import null_space
from support.panels import known, made, pairs_of

from jbt import identifiability
from jbt.kernel import model
from jbt.types import Design, Variant


def names(x, panel, **options):
    design = Design.build(np.asarray(x, float))
    space = identifiability.null_space(design, panel, **options)
    z = identifiability.comparison_matrix(design, panel)
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
    """[chains, J D], the X(C) of a basis of the closed chains of comparisons: the combinations of
    them in which every quality cancels."""
    g, i, j = np.nonzero(shown)
    owner = np.eye(len(content))[content]
    moved = np.eye(len(shown))[g][:, :, None] * (x[j] - x[i])[:, None]
    return null_space((owner[i] - owner[j]).T).T @ moved.reshape(len(g), -1)


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
        assert np.linalg.matrix_rank(b) == d * n_judges - spanned


# --- bad input

CALLS = [
    identifiability.null_space,
    identifiability.prior_selected,
    identifiability.rank,
    identifiability.comparison_matrix,
]


def test_what_is_refused(x64):
    design, panel = Design.build(X), made(FULL, FULL)
    with pytest.raises(ValueError, match="2 judges, got 1 names"):
        identifiability.null_space(design, panel, judges=["a"])
    every = model.variant("bias_aware", design)
    for call in CALLS[:3]:
        with pytest.raises(ValueError, match="a variant for one judge, but comparisons of a panel"):
            jax.eval_shape(lambda call=call: call(design, panel, variant=every))
    for call in CALLS[1:]:
        with pytest.raises(ValueError, match=r"shown must be \[4, 4\]"):
            jax.eval_shape(lambda call=call: call(design, made(1 - np.eye(3))))
