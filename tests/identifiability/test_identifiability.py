import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from support.panels import known, made, pairs_of

from jbt import estimators, identifiability
from jbt.simulation import pools
from jbt.types import Comparisons, Design, Prior, Status, Variant

# One compiled shape for the tests on single pools: 16 items, room for 16 contents.
one_estimate = jax.jit(identifiability.estimate_bias)


def sixteen(x, content) -> Design:
    return Design.build(np.asarray(x, float), np.asarray(content), n_contents=16)


# --- null space


def names(x, content, shown, **options):
    design = Design.build(np.asarray(x, float), content)
    space = identifiability.null_space(design, shown, **options)
    z = identifiability.comparison_matrix(design, shown)
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
    assert trade == "trading quality against elaboration"
    np.testing.assert_array_equal(unpaired.directions[1, 30:], [-1, 0])
    paired = names(x, content, full)
    assert (paired.rank, paired.n_columns) == (16, 17)
    assert paired.names == ("adding 1 to every quality",)
    # The renderings of one content alone: quality is lost, c is not; in one order, c is.
    within = full * (content[:, None] == content)
    assert names(x, content, within).nullity == m
    assert names(x, content, np.triu(within)).names[m:] == ("trading x1 against position",)
    # A tournament in one order can trade quality against position.
    chain = np.diag(np.ones(3), 1)
    assert names(np.zeros((4, 0)), None, chain).names[1:] == ("trading quality against position",)


def test_directions_with_two_covariates_names_of_contents_and_padding(x64):
    m = 6
    rng = default_rng(0)
    content = np.tile(np.arange(m), 2)
    topic = np.tile(rng.normal(size=m), 2)  # belongs to the content
    length = np.repeat([0.0, 1.0], m)
    full = 1 - np.eye(2 * m)
    space = names(np.stack([length, topic], 1), content, full, covariates=["length", "topic"])
    assert space.names[1:] == ("trading quality against topic",)
    collinear = names(np.stack([length, 2 * length + 1], 1), content, full)
    assert collinear.names[1:] == ("trading x1 against x2",)
    # What is said to have been shown of padding does not count.
    part = pools.paired(jax.random.key(0), 4, n_twice=1).design
    assert identifiability.null_space(part, np.ones((8, 8)) - np.eye(8)).rank == 5


FULL = 1 - np.eye(4)
X = np.array([0.0, 1.0, 3.0, 3.0])
CONSTANT = "adding 1 to every quality"


def test_names_of_directions_of_several_judges(x64):
    for judges in (made(FULL, FULL, FULL), made(FULL, FULL, discrimination=[1.0, 2.0])):
        assert names(X, None, judges, covariates=["words"]).names == (
            CONSTANT,
            "trading quality against words in all judges at once",
        )
    # A reference that knows nothing of words.
    alike = pairs_of(4, (2, 3))
    of_reference = {"judges": ["cheap", "dear", "reference"], "variant": known(1, 3, (0, 2))}
    assert names(X, None, made(FULL, FULL, alike), **of_reference).names == (
        CONSTANT,
        "trading quality against x1 in cheap and dear",
    )
    # Two judges who meet in nothing.
    apart = made(pairs_of(4, (0, 1)), pairs_of(4, (1, 2)), pairs_of(4))
    assert names(X, None, apart, variant=known(1, 3)).names[2:] == (
        "trading quality against x1 in judge 1",
        "trading quality against x1 in judge 2",
        "changing the coefficient of x1 in judge 3, in which no comparison differs",
    )
    one_order = np.triu(pairs_of(4, (0, 1)))
    held = Variant(jnp.array([[False, True]]), jnp.ones(2, bool))
    assert names(X, None, made(FULL, one_order), variant=held).names == (
        CONSTANT,
        "trading x1 in judge 2 against position in judge 2",
    )


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

    # Verbose first always: c and kappa are one number.
    assert status(np.triu(within), np.triu(within) / 2) == "FLAT"
    verbose_wins = full * (x[:, None] > x) + full * (x[:, None] == x) / 2
    for far in (0, 1e3, 1e6):  # a large mean is no information
        assert status(full, verbose_wins, x=x + far) == "SEPARATED"
        assert status(full, split, x=x + far, content=np.arange(2 * m)) == "FLAT"
    assert status(full, split, x=np.full(2 * m, 0.3)) == "COVARIATE_CONSTANT"
    poisoned = Comparisons(jnp.asarray(full), jnp.asarray(full * np.nan))
    assert one_estimate(poisoned, sixteen(x, content)).status == Status.NOT_FINITE


# --- bad input


def small():
    """Full comparisons of four items, and their design."""
    full = 1 - np.eye(4)
    return Comparisons.build(full, full / 2), Design.build(np.array([0.0, 1.0, 3.0, 3.0]))


ONCE = 1 - np.eye(4)
SEVERAL = jax.tree.map(lambda number: jnp.full(4, number), Prior())
"""Numbers of each content, as the container of a batch holds them."""

REFUSED = [
    (
        lambda c, d: identifiability.profile(c, d, jnp.zeros(1), covariate=1),
        r"covariate must lie in 0..0, got 1",
    ),
    (lambda c, d: identifiability.null_space(d, np.ones((5, 5))), r"shown must be \[4, 4\]"),
    (lambda c, d: identifiability.null_space(d, ONCE, covariates=[]), "1 covariates, got 0"),
    (lambda c, d: identifiability.null_space(d, ONCE, judges=["a"]), "go with a panel"),
    (lambda c, d: estimators.bias_aware(c, d, SEVERAL), "lam must be one number"),
    (lambda c, d: estimators.with_bias(c, d, Prior(), jnp.ones(2)), "each of 1 covariates"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused(call, message, x64):
    with pytest.raises(ValueError, match=message):
        call(*small())


def test_single_precision_is_refused():
    with pytest.raises(ValueError, match="float64, got float32"):
        identifiability.estimate_bias(*small())
