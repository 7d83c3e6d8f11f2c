import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.special import log_expit

from jbt import identifiability
from jbt.simulation import pools
from jbt.types import Comparisons, Design, Parameters, Status

# One compiled shape for the tests on single pools: 16 items, room for 16 contents.
one_estimate = jax.jit(identifiability.estimate_bias)
one_profile = jax.jit(identifiability.profile)


def sixteen(x, content) -> Design:
    return Design.build(np.asarray(x, float), np.asarray(content), n_contents=16)


# --- null space


def names(x, content, shown, **options):
    design = Design.build(np.asarray(x, float), content)
    space = identifiability.null_space(design, np.asarray(shown), **options)
    z = identifiability.comparison_matrix(design, np.asarray(shown))
    assert np.abs(z @ space.directions.T).max(initial=0) < 1e-12
    return space


def test_the_paper_s_ranks_and_the_names_of_directions(x64):
    m = 15
    x = np.repeat([0.0, 1.0], m)
    content = np.tile(np.arange(m), 2)
    full = 1 - np.eye(2 * m)
    unpaired = names(x, None, full, covariates=["elaboration"])
    assert (unpaired.rank, unpaired.n_columns) == (30, 32)
    constant, trade = unpaired.names
    assert constant == "adding 1 to every quality"
    assert trade == "trading quality against elaboration: theta + delta x, c - delta"
    assert_allclose(unpaired.directions[0], np.r_[np.ones(30), 0, 0])
    theta = unpaired.directions[1, :30]
    assert_allclose(theta - theta[0], x, atol=1e-12)
    np.testing.assert_array_equal(unpaired.directions[1, 30:], [-1, 0])
    paired = names(x, content, full)
    assert (paired.rank, paired.n_columns) == (16, 17)
    assert paired.names == ("adding 1 to every quality",)
    # The renderings of one content alone: quality is lost, c is not; in one order, c is.
    within = full * (content[:, None] == content)
    both = names(x, content, within)
    assert both.nullity == m
    assert both.names[3] == "adding 1 to the quality of content 3, which no comparison " + (
        "links to the others"
    )
    one = names(x, content, np.triu(within))
    assert one.names[m:] == ("trading x1 against position",)
    assert_allclose(one.directions[m, m:], [-1, -1])
    # Terse with terse and verbose with verbose: nothing links the two renderings of a content.
    alike = names(x, content, full * (x[:, None] == x))
    assert alike.names[1:] == ("changing the coefficient of x1, in which no comparison differs",)
    # A tournament in one order can trade quality against position.
    chain = np.diag(np.ones(3), 1)
    assert names(np.zeros((4, 0)), None, chain).names == (
        "adding 1 to every quality",
        "trading quality against position",
    )


def test_directions_with_two_covariates_names_of_contents_and_padding(x64):
    m = 6
    rng = default_rng(0)
    content = np.tile(np.arange(m), 2)
    topic = np.tile(rng.normal(size=m), 2)  # belongs to the content
    length = np.repeat([0.0, 1.0], m)
    full = 1 - np.eye(2 * m)
    space = names(np.stack([length, topic], 1), content, full, covariates=["length", "topic"])
    assert space.names[1:] == ("trading quality against topic: theta + delta x, c - delta",)
    collinear = names(np.stack([length, 2 * length + 1], 1), content, full)
    assert collinear.names[1:] == ("trading x1 against x2",)
    one = np.zeros((3, 3))
    one[0, 1] = 1
    known, free = (
        names([[1.0], [2.0], [4.0]], None, one, contents="abc", position=position)
        for position in (False, True)
    )
    nothing = ", which no comparison links to the others"
    assert known.names[:2] == (
        f"adding 1 to the qualities of contents a, b{nothing}",
        f"adding 1 to the quality of content c{nothing}",
    )
    assert (known.rank, known.n_columns, free.rank, free.n_columns) == (1, 4, 1, 5)
    assert free.names[:-1] == known.names
    # What is said to have been shown of padding does not count.
    part = pools.paired(jax.random.key(0), 4, n_twice=1).design
    assert identifiability.null_space(part, np.ones((8, 8)) - np.eye(8)).rank == 5
    assert jax.jit(identifiability.rank)(part, jnp.ones((8, 8)) - jnp.eye(8)) == 5


# --- profile likelihood


@pytest.mark.heavy
def test_a_slightly_wrong_design_is_not_flat(x64):
    """One content of 15 has two renderings, a hair apart: information grows with the square."""
    rng, full = default_rng(1), 1 - np.eye(16)
    x, content = rng.normal(size=16), np.r_[:15, 0]
    comparisons = Comparisons.build(full, full * (rng.random((16, 16)) < 0.5))
    ranges, statuses = [], []
    for moved in (0.0, 1e-3, 1e-2):
        x[-1] = x[0] + moved
        design = sixteen(x, content)
        estimate = one_estimate(comparisons, design)
        # Around one value: the estimate itself runs away as the renderings become one.
        found = one_profile(comparisons, design, identifiability.grid_around(0.0))
        ranges.append(float(found.range()))
        statuses.append(int(estimate.status))
        nullity = identifiability.null_space(design, full).nullity
        assert nullity == 1 + (moved == 0)
    assert ranges[0] < 1e-10 < 1e-6 < ranges[1]
    assert statuses == [Status.FLAT, Status.CONVERGED, Status.CONVERGED]


def test_a_slice_holds_everything_else(x64):
    rng = default_rng(0)
    theta, x = rng.normal(size=(2, 5))
    shown = np.triu(rng.integers(1, 5, (5, 5)), 1) + np.eye(5, k=-2)
    wins = np.floor(shown * rng.uniform(size=(5, 5)))
    at, grid = Parameters(jnp.asarray(theta), jnp.zeros(1), jnp.array(0.4)), np.array([-1, 0.3, 2])
    found = jax.jit(identifiability.likelihood_slice)(
        Comparisons.build(shown, wins), Design.build(x[:, None]), at, jnp.asarray(grid)
    )
    phi = theta + grid[:, None] * x
    logit = phi[:, :, None] - phi[:, None] + 0.4
    expected = wins * log_expit(logit) + (shown - wins) * log_expit(-logit)
    assert_allclose(found, expected.sum((1, 2)), rtol=1e-12)


# --- the prior-free estimate


@pytest.mark.heavy
def test_reasons_why_there_is_no_estimate(x64):
    """The same renderings, compared differently: one compiled estimate."""
    m = 8
    x = np.repeat([0.0, 1.0], m)
    content = np.tile(np.arange(m), 2)
    full = 1 - np.eye(2 * m)
    within = full * (content[:, None] == content)
    split = full * 0.5

    def status(shown, wins, x=x, content=content):
        made = Comparisons.build(shown, wins)
        return Status(int(one_estimate(made, sixteen(x, content)).status)).name

    assert status(full, split) == "CONVERGED"
    assert status(full, split, content=np.arange(2 * m)) == "FLAT"
    assert status(within, within / 2) == "CONVERGED"
    # Verbose first always: c and kappa are one number, though the items are linked within contents.
    assert status(np.triu(within), np.triu(within) / 2) == "DISCONNECTED"
    one_order = np.triu(full) * (x[:, None] != x)
    assert status(one_order, one_order / 2) == "FLAT"
    alike = full * (x[:, None] == x)
    assert status(alike, alike / 2) == "DISCONNECTED"
    verbose_wins = full * (x[:, None] > x) + full * (x[:, None] == x) / 2
    assert status(full, verbose_wins) == "SEPARATED"
    for far in (1e3, 1e6):  # a large mean is no information
        assert status(full, verbose_wins, x=x + far) == "SEPARATED"
        assert status(full, split, x=x + far, content=np.arange(2 * m)) == "FLAT"
    assert status(full, split, x=np.full(2 * m, 0.3)) == "COVARIATE_CONSTANT"
    assert status(0 * full, 0 * full) == "NO_VERDICTS"
    given, design = Comparisons.build(full, split), sixteen(x, content)
    poisoned = dataclasses.replace(given, wins=given.wins * jnp.nan)
    assert one_estimate(poisoned, design).status == Status.NOT_FINITE
    same = sixteen(0 * x, content)
    constant = one_profile(given, same, identifiability.grid_around(0.0))
    assert (constant.status == Status.COVARIATE_CONSTANT).all()
    assert float(constant.range()) == 0


# --- bad input


def small():
    """Full comparisons of four items, and their design."""
    full = 1 - np.eye(4)
    return Comparisons.build(full, full / 2), Design.build(np.array([0.0, 1.0, 3.0, 3.0]))


def single(function):
    """A call in float32."""

    def call(comparisons, design):
        as_single = jax.tree.map(lambda v: v.astype(jnp.float32), comparisons)
        rough = dataclasses.replace(design, covariates=design.covariates.astype(jnp.float32))
        return function(as_single, rough)

    return call


def profiled(grid, **options):
    return lambda c, d: identifiability.profile(c, d, jnp.asarray(grid), **options)


def estimated(**options):
    return lambda c, d: identifiability.estimate_bias(c, d, **options)


def null_space(**options):
    return lambda c, d: identifiability.null_space(d, np.asarray(c.shown), **options)


REFUSED = [
    (profiled(np.zeros(0)), "at least one value"),
    (profiled([0.0, np.nan]), "grid must be finite"),
    (profiled([np.inf]), "grid must be finite"),
    (profiled([0.0], covariate=1), r"covariate must lie in 0..0, got 1"),
    (estimated(level=1.0), "level must lie"),
    (estimated(judge=1), r"judge must lie in 0..0, got 1"),
    (lambda c, d: identifiability.grid_around(0.0, points=1), "a grid needs"),
    (lambda c, d: identifiability.grid_around(0.0, half_width=0.0), "a grid needs"),
    (lambda c, d: identifiability.null_space(d, np.ones((5, 5))), r"shown must be \[4, 4\]"),
    (lambda c, d: identifiability.rank(d, jnp.ones((5, 5))), r"shown must be \[4, 4\]"),
    (null_space(contents=["a", "b"]), "4 contents, got 2 names"),
    (null_space(covariates=["a", "b"]), "1 covariates, got 2 names"),
    (null_space(judges=["a"]), "names of judges go with a panel"),
    (single(profiled(np.zeros(1, np.float32))), "float64, got float32"),
    (single(estimated()), "float64, got float32"),
    (single(lambda c, d: identifiability.rank(d, c.shown)), "float64, got float32"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused(call, message, x64):
    with pytest.raises(ValueError, match=message):
        call(*small())


def test_the_grid_of_the_paper():
    assert_allclose(identifiability.grid_around(0.0), np.linspace(-1, 1, 9))
