"""Simulation-based calibration: are parameters that are drawn from the prior like draws from their
posterior? (Talts et al. 2018)

    python -m benchmarks.sbc [--pools 20000] [--tables 200] [--out FILE.png]

Two posteriors, both Gaussian about a mode: that of a pool (ten items, one covariate, every ordered
pair judged once, the paper's prior), which every acquisition rule and every P(top k) rests on; and
that of `jbt.estimators.mixed` (four models on 40 prompts, qualities and c that vary, sds from their
prior). Of each quantity the posterior probability below the true value is uniform if the posterior
is right; the figure has how far its distribution is from that, with a 95 % band for all of it
together (Kolmogorov and Smirnov). For P(top k) the table has the share that belongs to the top k,
by what was said.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import sparse, stats

from benchmarks.calibration import verdicts
from jbt import estimators, runtime
from jbt.border import files, plots
from jbt.estimators import mixed
from jbt.kernel import canonical, model
from jbt.kernel.laplace import laplace
from jbt.simulation import judges
from jbt.simulation.simulate import simulate, stream
from jbt.types import Comparisons, Design, Judge, Pool, Prior, Status

N, K, PRIOR = 10, 3, Prior()
MODELS, PROMPTS = 4, 40
BINS = np.linspace(0, 1, 11)


def of_a_pool(key, condition):
    """Below the true values of theta of an item, c and kappa; memberships, said and true."""
    del condition
    theta, bias = jax.random.normal(stream(key, "pool"), (N,)), stream(key, "judge")
    c, kappa = jax.random.normal(bias, (2,)) / jnp.sqrt(PRIOR.lam_b)
    x = jax.random.normal(stream(key, "covariate"), (N, 1))
    design = Design(x, None, jnp.ones(N, bool), N)
    p = judges.verdict_probability(Pool(theta, design), Judge(c[None], kappa))
    shown = 1 - jnp.eye(N)
    wins = shown * (jax.random.uniform(stream(key, "verdicts"), p.shape) < p)
    verdicts, variant = Comparisons(shown, wins), model.variant("bias_aware", design)
    fit = estimators.bias_aware(verdicts, design, PRIOR)
    posterior = laplace(fit.parameters, verdicts, design, PRIOR, variant)
    sd = jnp.sqrt((posterior.root**2).sum(0))
    true = jnp.concatenate([theta, c[None], kappa[None]])
    below = jax.scipy.stats.norm.cdf((true - fit.parameters.flat()) / sd)
    contents = jnp.ones(N, bool)
    member = canonical.membership(posterior, K, contents, canonical.normals(N))
    is_top = theta >= jnp.sort(theta)[-K]
    below = jnp.where(fit.status == Status.CONVERGED, below, jnp.nan)
    return {"theta": below[0], "c": below[N], "kappa": below[N + 1], "said": member, "top": is_top}


def of_random_effects(rng: np.random.Generator) -> dict[str, float]:
    """Below the true theta of a model, c, and the sds of quality and of c between prompts."""
    sds, beta = rng.gamma(2, 1, 2), rng.normal(size=MODELS + 1)
    pairs = np.tile(np.triu_indices(MODELS, 1), 2)
    x, u = rng.normal(size=(PROMPTS, MODELS)), rng.normal(size=(PROMPTS, MODELS))
    phi = beta[:-1] + sds[0] * u + (beta[-1] + sds[1] * rng.normal(size=(PROMPTS, 1))) * x
    won = verdicts(rng, phi, pairs)
    prompt, pair = np.indices(won.shape).reshape(2, -1)
    first, second = sides = pairs[:, pair]
    difference, models = x[prompt, first] - x[prompt, second], np.eye(MODELS)
    problem = mixed.Mixed(
        fixed=sparse.csr_array(np.column_stack([models[first] - models[second], difference])),
        precision=np.ones(len(beta)),
        shown=np.ones(len(prompt)),
        wins=won.ravel(),
        cluster=prompt,
        units={"sd of quality": sides},
        slopes={"sd of c": difference},
    )
    fit = mixed.fit(problem)
    if fit.status != Status.CONVERGED:
        return dict.fromkeys(("theta", "c", *problem.effects), np.nan)
    z = (beta - fit.beta) / np.sqrt(np.diagonal(fit.inverse)[: len(beta)])
    found, errors = {"theta": z[0], "c": z[-1]}, fit.log_sd_error
    for (name, estimate), true in zip(fit.sd.items(), sds, strict=True):
        with np.errstate(divide="ignore"):
            found[name] = (np.log(true) - np.log(estimate)) / errors[name] if estimate else np.nan
    return {name: float(stats.norm.cdf(z)) for name, z in found.items()}


def lines(below: pd.DataFrame) -> pd.DataFrame:
    """For each quantity the share within central intervals, and p of uniformity."""
    rows = []
    for name, values in below.items():
        u = values.dropna().to_numpy()
        inside = {
            f"{level:.0%}": np.mean(np.abs(u - 0.5) < level / 2) for level in (0.5, 0.9, 0.95)
        }
        p = stats.kstest(u, "uniform").pvalue
        rows.append({"quantity": name, "n": len(u), **inside, "mean": u.mean(), "p": p})
    return pd.DataFrame(rows)


def drawn(of: dict[str, pd.DataFrame], path: Path) -> None:
    """The distribution of each quantity less the uniform one."""
    figure, axes = plots.new_figure(len(of))
    for ax, (title, below) in zip(axes, of.items(), strict=True):
        for name, values in below.items():
            u = np.sort(values.dropna())
            ax.plot(u, np.arange(1, len(u) + 1) / len(u) - u, label=name)
        band = stats.kstwo.ppf(0.95, len(below.dropna()))
        ax.axhspan(-band, band, color="0.9", zorder=0)
        ax.set_xlabel("posterior probability below the true value")
        ax.set_ylabel("share of the draws less that expected")
        ax.set_title(title)
        ax.legend()
    files.write_together({path: lambda temporary: plots.save(figure, temporary)})


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.sbc", description=__doc__)
    parser.add_argument("--pools", type=int, default=20_000)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("sbc.png"))
    options = parser.parse_args()
    runtime.start()
    ids = range(options.pools)
    found = simulate(of_a_pool, {"unused": [0.0]}, ids, seed=options.seed, dtype="float64")
    of_pools = pd.DataFrame({name: found[name][:, 0] for name in ("theta", "c", "kappa")})
    print("a pool", lines(of_pools).to_string(index=False, float_format="%.3f"), sep="\n")
    said, top = found["said"].ravel(), found["top"].ravel()
    group = np.digitize(said, BINS[1:-1])
    table = pd.DataFrame({"said": said, "top": top * 1.0}).groupby(group).agg(["mean", "size"])
    print(f"P(top {K}), said and true", table.to_string(float_format="%.3f"), sep="\n")
    rng = np.random.default_rng(options.seed)
    with runtime.precision("float64"):
        of_tables = pd.DataFrame([of_random_effects(rng) for _ in range(options.tables)])
    print("random effects", lines(of_tables).to_string(index=False, float_format="%.3f"), sep="\n")
    drawn({"a pool": of_pools, "random effects": of_tables}, options.out)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
