"""Bias coefficients of several judges of the same items, estimated without a prior."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from scipy.special import expit
from support import marks, panels
from support.panels import J, known, made, pairs_of

from jbt import identifiability
from jbt.kernel import model
from jbt.types import Comparisons, Design, Panel, Parameters, Status, Variant

jitted = jax.jit(identifiability.estimate_bias)


def estimate(problem, covariate=0, judge=0, start=0.0):
    """The estimate in a problem of `padded`; `start` holds the known coefficients."""
    panel, design, variant = problem
    biases = jnp.full((panels.D + 1, J), start)
    begin = Parameters(jnp.zeros(panels.M), biases[:-1], biases[-1])
    which = {"covariate": covariate, "judge": judge}
    return jax.device_get(jitted(panel, design, variant=variant, start=begin, **which))


def padded(x, shown, wins, *, variant, discrimination=(1.0, 1.0, 1.0)):
    """One problem of a shape that all share: 8 items, of three judges."""
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


@pytest.mark.heavy
def test_reasons_why_there_is_no_estimate(x64):
    n = panels.N
    x = np.array([0.0, 1, 2, 3, 4, 5, 6, 6])[:, None]
    full, none, chain = 1 - np.eye(n), np.zeros((n, n)), pairs_of(n, *itertools.pairwise(range(n)))
    alike, apart = pairs_of(n, (6, 7)), pairs_of(n, (0, 3))
    halves = pairs_of(n, (0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (6, 7))
    variant = known(1, J, (0, 1))
    longer = (x > x.T) * full

    def problem(*shown, wins=None, x=x, variant=variant):
        wins = [v / 2 for v in shown] if wins is None else wins
        return padded(x, shown, wins, variant=variant)

    good = problem(chain, apart, none)
    for status, case in (
        (Status.CONVERGED, good),
        (Status.FLAT, problem(full, full, full, variant=known(1, J))),
        # More verdicts would do: of the reference, or of the judge.
        (Status.DISCONNECTED, problem(full, alike, none)),
        (Status.DISCONNECTED, problem(full, none, none)),
        (Status.DISCONNECTED, problem(halves, apart, none)),
        (Status.SEPARATED, problem(full, full, none, wins=[longer, full / 2, none])),
        (Status.COVARIATE_CONSTANT, problem(full, full, full, x=np.ones((n, 1)))),
        (Status.NO_VERDICTS, problem(none, full, full)),
        (Status.NOT_FINITE, problem(full, full, none, wins=[full * np.nan, full / 2, none])),
    ):
        assert estimate(case).status == status
    # The reference saw one tie, and quality apart at discrimination 1: c_0 = 0 in both.
    assert estimate(good).c == pytest.approx(0, abs=1e-6)
    # Another judge compared nothing.
    assert estimate(good, judge=2).status == Status.NO_VERDICTS


@pytest.mark.heavy
def test_a_difference_is_identified_without_anything_known(x64):
    """It equals one coefficient where the other is 0, each in its judge's units."""
    rng = default_rng(5)
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

    cases = apart(*free), held, free, apart(*unlinked)
    difference, alone, *others = (estimate(case, 1, 1) for case in cases)
    assert [of.status for of in (difference, alone)] == [Status.CONVERGED] * 2
    assert [of.status for of in others] == [Status.FLAT, Status.DISCONNECTED]
    for name in ("c", "low", "high", "wald_low", "curvature"):
        assert getattr(difference, name) == pytest.approx(getattr(alone, name), abs=1e-6)
    with_half = estimate(held, 1, 1, start=0.5)
    assert with_half.c == pytest.approx(difference.c + 2 * 0.5, abs=1e-6)
    assert difference.c < 0.5 < 1  # a difference, not a coefficient


# --- coverage

TRUE_C = 1.5


def simulated(n_pools, *, n_items, n_reference, repeats):
    """(x, shown, wins) of pools in which a cheap judge answered every ordered pair `repeats` times,
    and a reference without bias, of twice its discrimination, `n_reference` drawn at random."""
    rng = default_rng(0)
    theta, x = 1.2 * rng.normal(size=(n_pools, n_items)), rng.normal(size=(n_pools, n_items))
    every = 1 - np.eye(n_items, dtype=int)
    asked = rng.multinomial(n_reference, every.ravel() / every.sum(), n_pools)
    asked = asked.reshape(-1, n_items, n_items)
    shown = np.stack([np.broadcast_to(repeats * every, asked.shape), asked], -1)
    phi = theta[..., None] * [1, 2] + x[..., None] * [TRUE_C, 0]
    wins = rng.binomial(shown, expit(phi[:, :, None] - phi[:, None] + [0.35, 0]))
    return x, shown * 1.0, wins * 1.0


def coverage(found):
    """Coverage of the profile and Wald intervals, and its distance from 95 % in standard errors."""
    exists = found.status == Status.CONVERGED
    assert exists.mean() > 0.99
    ends = ((found.low, found.high), (found.wald_low, found.wald_high))
    often = np.array([((low < TRUE_C) & (high > TRUE_C))[exists].mean() for low, high in ends])
    return often, (often - 0.95) / np.sqrt(0.95 * 0.05 / exists.sum())


@jax.jit
@jax.vmap
def cheap_judge(x, shown, wins):
    panel = Panel(Comparisons(shown, wins), jnp.array([1.0, 2.0]), jnp.eye(2))
    design = Design(x[:, None], None, jnp.ones(len(x), bool), len(x))
    variant = Variant(jnp.array([[True, False]]), jnp.array([True, False]))
    return identifiability.estimate_bias(panel, design, variant=variant)


@pytest.mark.parametrize(
    ("n_items", "n_reference", "repeats", "least"),
    [
        marks.heavy(12, 30, 1, 0.89),
        marks.nightly(12, 60, 8, 0.95),
        marks.nightly(12, 30, 8, 0.94),
        marks.nightly(12, 60, 1, 0.90),
        marks.nightly(24, 60, 4, 0.95),
    ],
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


@pytest.mark.heavy
def test_what_is_refused(x64):
    full, design = 1 - np.eye(4), Design.build(np.array([0.0, 1.0, 3.0, 3.0]))
    panel, grid = made(full, full), identifiability.grid_around(0.0)
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
    with pytest.raises(ValueError, match="a variant for one judge, but comparisons of a panel"):
        identifiability.estimate_bias(panel, design, variant=every)
    with pytest.raises(ValueError, match="judge 1 cannot differ from itself"):
        identifiability.difference(panel, 1, 1)
