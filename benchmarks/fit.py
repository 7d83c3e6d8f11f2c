"""Milliseconds a fit: jbt's Newton kernel against other solvers and libraries.

    python -m benchmarks.fit

The default scenario (30 items, one covariate, every ordered pair judged once, rho = 0.3), one
core. Each time is printed with the distance from the optimum: the gradient norm of the method's own
objective, median and largest over its pools, computed in float64. The largest of a plain MLE can
come from pools without one (an item won or lost everything).
"""

from __future__ import annotations

from benchmarks import timing

if __name__ == "__main__":
    timing.use_one_core()

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import expit

from benchmarks.problems import (
    LAM,
    LAM_B,
    PRIOR,
    N,
    draw,
    in_batches,
    newton_step_work,
    scipy_lbfgs,
    scipy_problems,
)
from jbt import estimators, runtime
from jbt.kernel import fit, model
from jbt.types import Comparisons, Design, Parameters

BATCHES = (1, 256, 4096)
ONE_BY_ONE = 100
"""Pools given to the methods that take one at a time."""


def gradient_norm(
    beta: np.ndarray, shown: np.ndarray, wins: np.ndarray, x: np.ndarray, lam: float, lam_b: float
) -> float:
    """Gradient norm of the penalised negative log-likelihood; a naive beta has c = kappa = 0."""
    phi = beta[:N] + x[:, 0] * beta[N]
    r = wins - shown * expit(phi[:, None] - phi + beta[N + 1])
    g = r.sum(1) - r.sum(0)
    full = np.r_[g - lam * beta[:N], x[:, 0] @ g - lam_b * beta[N], r.sum() - lam_b * beta[N + 1]]
    naive = beta[N] == 0 and beta[N + 1] == 0
    return float(np.linalg.norm(full[:N] if naive else full))


def norms(
    betas: Any, data: tuple[Comparisons, Design], lam: float = LAM, lam_b: float = LAM_B
) -> str:
    """Median and largest gradient norm over the pools."""
    comparisons, design = jax.device_get(data)
    by_pool = [
        gradient_norm(np.asarray(b, float), s, w, x, lam, lam_b)
        for b, s, w, x in zip(
            betas, comparisons.shown, comparisons.wins, design.covariates, strict=False
        )
    ]
    return f"{np.median(by_pool):8.1e} {max(by_pool):8.1e}"


def row(name: str, batch: int, seconds: float, scipy: float, norm: str, rest: str = "-") -> str:
    return f"{name:34s} {batch:6d} {seconds * 1e3:10.4f} {scipy / seconds:8.1f}  {norm}  {rest}"


def optax_lbfgs(comparisons: Comparisons, design: Design) -> jax.Array:
    """optax.lbfgs with its default line search, to the gradient norm of SciPy's default."""
    solver = optax.lbfgs()

    def objective(beta: jax.Array) -> jax.Array:
        p = Parameters.unflat(beta, N)
        return -model.log_likelihood(p, design, comparisons) - model.log_prior(p, PRIOR)

    value_and_grad = optax.value_and_grad_from_state(objective)

    def step(carry: Any) -> Any:
        beta, state, _, count = carry
        value, gradient = value_and_grad(beta, state=state)
        updates, state = solver.update(
            gradient, state, beta, value=value, grad=gradient, value_fn=objective
        )
        beta = optax.apply_updates(beta, updates)
        return beta, state, jnp.linalg.norm(gradient), count + 1

    start = Parameters.zeros(design).flat()
    first = (start, solver.init(start), jnp.asarray(jnp.inf, start.dtype), 0)
    return jax.lax.while_loop(lambda c: (c[2] > 1e-2) & (c[3] < 200), step, first)[0]


def compare() -> None:
    packages = ("jax", "jaxlib", "numpy", "scipy", "jaxopt", "optax", "choix", "evalica")
    print(timing.header("MAP of one pool: 30 items, D = 1, 870 verdicts", packages))
    small = draw(ONE_BY_ONE, "float32")
    one_by_one = scipy_problems(ONE_BY_ONE)
    scipy_seconds, scipy_betas = timing.time_each(scipy_lbfgs, one_by_one)
    print(
        f"\n{'method':34s} {'batch':>6s} {'ms/pool':>10s} {'x SciPy':>8s}  "
        "|gradient| median, largest; compile"
    )
    norm = norms(scipy_betas, small)
    print(row("SciPy L-BFGS-B, float64", 1, scipy_seconds, scipy_seconds, norm))

    def newton(c: Comparisons, d: Design) -> tuple[jax.Array, jax.Array]:
        result = estimators.bias_aware(c, d, PRIOR)
        return result.parameters.flat(), result.status

    def jaxopt_lbfgs(c: Comparisons, d: Design) -> tuple[jax.Array, jax.Array]:
        result = fit.fit_map(c, d, PRIOR, model.variant("bias_aware", d), solver="lbfgs")
        return result.parameters.flat(), result.status

    def optax_fit(c: Comparisons, d: Design) -> tuple[jax.Array, jax.Array]:
        return optax_lbfgs(c, d), jnp.array(0)

    cases = [
        ("jbt Newton", newton, ("float32", "float64"), BATCHES),
        ("jaxopt L-BFGS, vmapped", jaxopt_lbfgs, ("float32", "float64"), (256,)),
        ("optax L-BFGS, vmapped", optax_fit, ("float32", "float64"), (256,)),
    ]
    for name, f, dtypes, batches in cases:
        for dtype in dtypes:
            for batch in batches:
                with runtime.precision(dtype):
                    data = draw(batch, dtype)
                    compiling, seconds, (betas, status) = timing.compile_and_time(
                        in_batches(f), *data, repeats=20 if batch == 1 else 3
                    )
                failed = int((np.asarray(status) != 0).sum())
                rest = f"{compiling:.1f} s" + (
                    f", {failed} of {batch} not converged" * bool(failed)
                )
                norm = norms(betas, data)
                label = f"{name}, {dtype}"
                print(row(label, batch, seconds / batch, scipy_seconds, norm, rest), flush=True)
    compare_peers(one_by_one, small, scipy_seconds)


def compare_peers(
    problems: list[Any], data: tuple[Comparisons, Design], scipy_seconds: float
) -> None:
    """Measure libraries of plain Bradley-Terry, without covariate and position."""
    import choix
    import evalica

    def lists(problem: Any) -> tuple[list[tuple[int, int]], Any]:
        shown, wins, _ = problem
        first, second = np.nonzero(shown)
        won = wins[first, second] > 0
        pairs = [(a, b) if w else (b, a) for a, b, w in zip(first, second, won, strict=True)]
        winners = [evalica.Winner.X if w else evalica.Winner.Y for w in won]
        return [(int(a), int(b)) for a, b in pairs], (first.tolist(), second.tolist(), winners)

    listed = [lists(p) for p in problems]

    def pad(theta: np.ndarray) -> np.ndarray:
        return np.r_[theta - theta.mean(), 0.0, 0.0]

    # choix penalises alpha * sum(theta^2), hence lam / 2.
    seconds, betas = timing.time_each(
        lambda p: pad(choix.opt_pairwise(N, p[0], alpha=LAM / 2)), listed[:10]
    )
    print(row("choix opt_pairwise (naive)", 1, seconds, scipy_seconds, norms(betas, data)))

    def fit_evalica(p: Any) -> np.ndarray:
        scores = evalica.bradley_terry(*p[1]).scores.sort_index().to_numpy()
        return pad(np.log(scores))

    seconds, betas = timing.time_each(fit_evalica, listed)
    norm = norms(betas, data, lam=0.0)
    print(row("evalica bradley_terry (naive MLE)", 1, seconds, scipy_seconds, norm))


def rate(batch: int = 4096) -> None:
    """Print Newton steps a second, each fit's start and status included, beside the machine's
    limits."""
    with runtime.precision("float32"):
        comparisons, design = draw(batch, "float32")

        def fit_and_steps(c: Comparisons, d: Design) -> Any:
            result = estimators.bias_aware(c, d, PRIOR)
            return result.parameters, result.status, result.steps

        _, seconds, (_, _, counts) = timing.compile_and_time(
            in_batches(fit_and_steps), comparisons, design
        )
    step = seconds / float(counts.sum())
    flops, numbers = newton_step_work(N, N + 2)
    traffic = 4 * numbers
    print(f"\nSteps a pool, float32, batch {batch}: mean {counts.mean():.2f}, most {counts.max()}")
    print(
        f"Rate: {1e-6 / step:.3f} M steps/s on one core, {flops / step * 1e-9:.1f} GFLOP/s, "
        f"{traffic / step * 1e-9:.1f} GB/s of unfused traffic; an H200's bandwidth would allow "
        f"{4.8e12 / traffic * 1e-6:.0f} M steps/s"
    )


if __name__ == "__main__":
    compare()
    rate()
