"""A million random pools of every kind: does each fit end converged or flagged?

    python -m benchmarks.robustness [POOLS]

Pools of 4 to 8 items with shared content, up to three covariates, repeats, ties, an item that
always wins, disconnected halves, pairs shown in one order only, no verdicts at all, and prior
precisions from 1e-3 to 1e3. Prints how many ended in each status, and how many hold a NaN
that no status tells of, which must be none.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jbt import runtime
from jbt.kernel import fit
from jbt.simulation import simulate
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Prior, Status, Variant

N, D = 8, 3


def experiment(key: Any, condition: dict[str, Any]) -> dict[str, Any]:
    """One random pool and its fit; the condition holds only the range of the priors."""
    dtype = condition["log_lam"].dtype

    def uniform(name: str, shape: tuple[int, ...] = (), low: float = 0, high: float = 1) -> Any:
        return jax.random.uniform(stream(key, name), shape, dtype, low, high)

    def choice(name: str, options: tuple[float, ...]) -> Any:
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
    result = fit.fit_map(Comparisons(shown, wins), design, Prior(lam, lam_b), variant)
    flat = result.parameters.flat()
    return {
        "status": result.status,
        "steps": result.steps,
        "finite": jnp.isfinite(flat).all() & jnp.isfinite(result.grad_norm),
    }


def count(pools: int, dtype: str) -> dict[str, int]:
    """Pools by status, "steps" (most taken) and "unflagged" (NaN under a converged status)."""
    found = {status.name.lower(): 0 for status in Status}
    found |= {"unflagged": 0, "steps": 0}
    condition = {"log_lam": np.array([3.0])}
    for _, out in simulate.Simulation(
        experiment, condition, np.arange(pools), dtype=dtype
    ).chunks():
        for status in Status:
            found[status.name.lower()] += int((out["status"] == status).sum())
        usable = out["status"] == Status.CONVERGED
        found["unflagged"] += int((usable & ~out["finite"]).sum())
        found["steps"] = max(found["steps"], int(out["steps"].max()))
    return found


if __name__ == "__main__":
    runtime.start()
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for dtype in ("float32", "float64"):
        found = count(pools, dtype)
        print(
            f"{dtype}: {pools:,} pools: " + ", ".join(f"{k} {v:,}" for k, v in found.items() if v)
        )
        print(f"  NaN without a flag: {found['unflagged']}")
        if found["unflagged"]:
            raise SystemExit(1)
