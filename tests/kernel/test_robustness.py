"""Random pools of every kind: each fit ends converged, or says that it did not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt.kernel.fit import fit_map
from jbt.simulation.simulate import simulate, stream
from jbt.types import Comparisons, Design, Prior, Status, Variant

N, D, POOLS = 8, 3, 100_000


def experiment(key, condition):
    """One random pool and its fit: its status, and whether its numbers are finite."""
    dtype = condition["log_lam"].dtype

    def uniform(name, shape=(), low=0, high=1):
        return jax.random.uniform(stream(key, name), shape, dtype, low, high)

    def choice(name, options):
        return jax.random.choice(stream(key, name), jnp.asarray(options, dtype))

    n = jax.random.randint(stream(key, "n"), (), 4, N + 1)
    mask = jnp.arange(N) < n
    content = jax.random.randint(stream(key, "content"), (N,), 0, N)
    content = jnp.where(uniform("shared") < 0.5, content, jnp.arange(N))
    x = jax.random.normal(stream(key, "x"), (N, D), dtype) * choice("scale", (0.0, 0.3, 1.0, 10.0))
    design = Design(x, content, mask, N)

    kind = jax.random.randint(stream(key, "kind"), (), 0, 6)
    repeats = jax.random.randint(stream(key, "repeats"), (N, N), 0, 6).astype(dtype)
    half = jnp.arange(N) < 3
    shown = jnp.select(
        [kind == 0, kind == 1, kind == 2, kind == 3],
        [
            repeats,
            jnp.triu(jnp.ones((N, N), dtype)),
            (half[:, None] == half).astype(dtype),
            (uniform("sparse", (N, N)) < 0.15).astype(dtype),
        ],
        jnp.ones((N, N), dtype),
    )
    shown = shown * (mask[:, None] & mask & ~jnp.eye(N, dtype=bool))
    theta = jax.random.normal(stream(key, "theta"), (N,), dtype) * choice("sd", (0.0, 1.0, 6.0))
    phi = theta[content] + x.sum(1)
    p = jax.nn.sigmoid(phi[:, None] - phi + uniform("kappa", (), -3, 3))
    wins = jnp.round(shown * p + uniform("noise", (N, N), -0.5, 0.5)).clip(0, shown)
    wins = jnp.where(uniform("ties", (N, N)) < 0.1, shown / 2, wins)
    always = (kind == 4) & (jnp.arange(N) == 0)
    wins = jnp.where(always[:, None], shown, jnp.where(always, 0, wins))

    exponent = condition["log_lam"] * uniform("prior", (2,), -1)
    lam, lam_b = 10**exponent
    variant = Variant(uniform("free", (D,)) < 0.8, uniform("position") < 0.8)
    fit = fit_map(Comparisons(shown, wins), design, Prior(lam, lam_b), variant)
    finite = jnp.isfinite(fit.parameters.flat()).all() & jnp.isfinite(fit.grad_norm)
    return {"status": fit.status, "finite": finite}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_fit_holds_a_nan_without_a_flag(dtype):
    """Pools of 4 to 8 items with shared content, up to three covariates, repeats, ties, an item
    that always wins, disconnected halves, pairs shown in one order only, no verdicts at all, and
    prior precisions from 1e-3 to 1e3."""
    fits = simulate(experiment, {"log_lam": np.array([3.0])}, range(POOLS), dtype=dtype)
    converged = fits["status"] == Status.CONVERGED
    assert fits["finite"][converged].all()
    assert (~converged).mean() < 1e-4
