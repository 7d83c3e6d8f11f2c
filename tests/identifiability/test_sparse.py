"""The prior-free estimate in random sparse designs, of which many are separated, beside linear
programming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from support import problems
from support.marks import heavy, nightly

from jbt import identifiability
from jbt.identifiability import estimate
from jbt.types import Comparisons, Design, Status

N, AT_ONCE = 6, 250


def one(x, content, shown, wins):
    design = Design(x[:, None], content, jnp.ones(N, bool), N)
    return identifiability.estimate_bias(Comparisons(shown, wins), design)


def sparse(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """n designs of 6 items: covariate, content, how often each ordered pair was shown and won.
    Covariates differ by factors of up to 10^4, so that some verdicts say next to nothing of c."""
    content = rng.integers(0, N, (n, N))
    scale = np.where(rng.random((n, 1)) < 0.5, 1.0, 10.0 ** rng.uniform(-3, 1, (n, N)))
    x = scale * np.where(rng.random((n, 1)) < 0.7, rng.normal(size=(n, N)), rng.integers(0, 3, N))
    density = rng.uniform(0.15, 0.9, (n, 1, 1))
    shown = (rng.random((n, N, N)) < density) * rng.integers(1, 4, (n, N, N)) * (1 - np.eye(N))
    theta = rng.normal(size=(n, N)) * rng.choice([0.5, 1.5, 4.0], (n, 1))
    c = rng.normal(size=(n, 1)) * rng.choice([0.5, 2.0, 5.0], (n, 1))
    apparent = np.take_along_axis(theta, content, 1) + c * x
    p = 1 / (1 + np.exp(apparent[:, None] - apparent[:, :, None]))
    return x, content, shown, rng.binomial(shown.astype(int), p).astype(float)


def c_can_run_away(x, content, shown, wins) -> bool:
    """Whether some direction that moves c makes no verdict less likely."""
    i, j = np.nonzero(shown)
    owner, steps = np.eye(N)[content], x[i] - x[j]
    z = np.column_stack([owner[i] - owner[j], steps, np.ones(len(i))])
    # The unit of c is that of the largest difference, or the tolerance would hide a direction.
    unit = max(1.0, np.abs(steps).max(initial=0))
    return problems.fate(z, shown[i, j], wins[i, j], N, unit) != "exists"


@pytest.mark.parametrize(
    "count",
    [
        heavy(250),
        nightly(100_000),
    ],
)
def test_no_estimate_of_a_sparse_design_runs_away(x64, count):
    estimates = jax.jit(jax.vmap(one))
    n_converged = n_separated = 0
    for seed in range(count // AT_ONCE):
        designs = sparse(default_rng(seed), AT_ONCE)
        found = jax.device_get(estimates(*map(jnp.asarray, designs)))
        converged = found.status == Status.CONVERGED
        within = (found.low < found.c) & (found.c < found.high)
        assert within[converged].all()
        for i in np.flatnonzero(converged):
            assert not c_can_run_away(*(v[i] for v in designs)), (seed, i)
        n_converged += converged.sum()
        n_separated += (found.status == Status.SEPARATED).sum()
    assert min(n_converged, n_separated) > 0.15 * count


@pytest.mark.nightly
def test_the_interval_alone_tells_separated_data(x64, monkeypatch):
    """Rounding may keep information along a direction without an end. Then both ends of the
    interval are found on one side of the estimate. Here the threshold on information is taken away,
    so that this happens in an eighth of the designs."""
    monkeypatch.setattr(estimate, "FLAT", 0.0)
    estimate._estimate_bias.clear_cache()
    designs = sparse(default_rng(0), 60)
    found = jax.device_get(jax.jit(jax.vmap(one))(*map(jnp.asarray, designs)))
    estimate._estimate_bias.clear_cache()  # of the threshold that was taken away
    converged = found.status == Status.CONVERGED
    assert converged.sum() > 20
    runs_away = [c_can_run_away(*(v[i] for v in designs)) for i in np.flatnonzero(converged)]
    assert not any(runs_away)
    one_sided = found.status == Status.SEPARATED
    assert one_sided.sum() > 4
    for values in (found.c, found.low, found.high, found.wald_low):
        assert np.isnan(values[one_sided]).all()
