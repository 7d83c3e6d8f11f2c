"""Which biases of several judges of the same items are identified."""

import jax.numpy as jnp
import numpy as np
from support.panels import known, made, pairs_of

from jbt import identifiability
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


def test_names_of_directions(x64):
    trade = "trading quality against words in all judges at once: theta + delta x, "
    words = {"covariates": ["words"]}
    assert names(X, made(FULL, FULL, FULL), **words) == (CONSTANT, trade + "c - delta")
    unequal = made(FULL, FULL, discrimination=[1.0, 2.0])
    assert names(X, unequal, **words) == (CONSTANT, trade + "c_g - s_g delta")
    # A reference that knows nothing of words.
    alike = pairs_of(4, (2, 3))
    judges = ["cheap", "dear", "reference"]
    assert names(X, made(FULL, FULL, alike), judges=judges, variant=known(1, 3, (0, 2))) == (
        CONSTANT,
        "trading quality against x1 in cheap and dear",
    )
    # Two judges who meet in nothing.
    apart = made(pairs_of(4, (0, 1)), pairs_of(4, (1, 2)), pairs_of(4))
    assert names(X, apart, position=False)[2:] == (
        "trading quality against x1 in judge 1",
        "trading quality against x1 in judge 2",
        "changing the coefficient of x1 in judge 3, none of whose comparisons differs in it",
    )
    one_order = np.triu(pairs_of(4, (0, 1)))
    held = Variant(jnp.array([[False, True]]), jnp.ones(2, bool))
    assert names(X, made(FULL, one_order), variant=held) == (
        CONSTANT,
        "trading x1 in judge 2 against position in judge 2",
    )
