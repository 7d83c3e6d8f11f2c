"""Random effects beside an independent fit: the No-U-Turn sampler of NumPyro, which needs no
approximation of the likelihood.

    pip install numpyro
    python -m benchmarks.random_effects [--draws 1000]

The same model and priors as `jbt.estimators.mixed` (c of each model about their mean, what varies
with their sds). One table is simulated for `jbt leaderboard`, one for `jbt fit`. A line for each
number has the estimate and 95 % interval on one comparison, a jackknife over prompts or pools, and
of the draws mean, 95 % interval and R-hat.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from benchmarks.calibration.boards import on_one_comparison
from benchmarks.calibration.pools import Population, shared_fit
from jbt import runtime
from jbt.border.report import each
from jbt.estimators.mixed import DEVIATION, Mixed
from jbt.own.fits.one_comparison import one_comparison
from jbt.own.leaderboards.one_comparison import OfModels
from jbt.own.shared_coefficients.one_comparison import OneComparison


def sampled(problem: Mixed, draws: int, seed: int = 0) -> Any:
    """The sampler after its run: beta [K], and log_sd of each effect."""
    numpyro, dist = _numpyro(), _numpyro("distributions")
    fixed = jnp.asarray(problem.fixed.toarray())
    cluster = np.unique(problem.cluster, return_inverse=True)[1]
    unit = {
        name: np.unique(
            np.where(sides < 0, -1, sides + (1 + sides.max()) * cluster), return_inverse=True
        )
        for name, sides in problem.units.items()
    }

    def model() -> None:
        alone = [name for name in problem.effects if name not in problem.alike]
        sds = {name: numpyro.sample(name, dist.Gamma(2.0, 1.0)) for name in alone}
        if problem.alike:
            mean = numpyro.sample("mean", dist.Gamma(2.0, 1.0))
            about = dist.ZeroSumNormal(DEVIATION, (len(problem.alike),))
            logs = jnp.log(mean) + numpyro.sample("about", about)
            sds |= {
                name: numpyro.deterministic(name, jnp.exp(log_sd))
                for name, log_sd in zip(problem.alike, logs, strict=True)
            }
        scale = jnp.asarray(problem.precision**-0.5)
        for name, places in problem.crossed.items():
            scale = scale.at[places].set(sds[name])
        z = numpyro.sample("z", dist.Normal(jnp.zeros(fixed.shape[1]), 1))
        logit = fixed @ numpyro.deterministic("beta", scale * z)
        for i, name in enumerate(problem.units):
            found, at = unit[name]
            of_units = numpyro.sample(f"u{i}", dist.Normal(jnp.zeros(len(found)), 1))
            of_units = jnp.where(jnp.asarray(found) < 0, 0, of_units) * sds[name]
            first, second = of_units[at.reshape(problem.units[name].shape)]
            logit = logit + problem.factors.get(name, 1.0) * (first - second)
        for i, (name, column) in enumerate(problem.slopes.items()):
            of_clusters = numpyro.sample(f"v{i}", dist.Normal(jnp.zeros(cluster.max() + 1), 1))
            logit = logit + sds[name] * of_clusters[cluster] * column
        wins, lost = problem.wins, problem.shown - problem.wins
        likelihood = wins * jax.nn.log_sigmoid(logit) + lost * jax.nn.log_sigmoid(-logit)
        numpyro.factor("verdicts", likelihood.sum())

    infer = _numpyro("infer")
    sizes = {"num_warmup": draws, "num_samples": draws, "num_chains": 2}
    found = infer.MCMC(infer.NUTS(model), **sizes, chain_method="sequential", progress_bar=False)
    found.run(jax.random.key(seed))
    return found


def _numpyro(*part: str) -> Any:
    """NumPyro, which is no dependency, or a part of it."""
    return importlib.import_module(".".join(["numpyro", *part]))


def beside(one: OneComparison, draws: int) -> pd.DataFrame:
    """Numbers of a fit on one comparison, and of the draws."""
    assert one.fit is not None
    problem = one.fit.problem
    posterior = sampled(problem, draws).get_samples(group_by_chain=True)
    theta = one.theta if isinstance(one, OfModels) else pd.DataFrame()
    c, of_models = posterior["beta"][..., len(theta)], posterior["beta"][..., : len(theta)]
    for places in problem.crossed.values():
        c = c + posterior["beta"][..., places].mean(-1)
    numbers = {"c": (one.c.iloc[0], c)}
    for i, row in enumerate(each(theta)):
        numbers[f"theta {row.model}"] = row, of_models[..., i] - of_models.mean(-1)
    lines = [
        {"number": name, "estimate": row.estimate, "low": row.low, "high": row.high} | _summary(v)
        for name, (row, v) in numbers.items()
    ]
    for name in problem.effects:
        lines.append({"number": name, "estimate": one.fit.sd[name]} | _summary(posterior[name]))
    return pd.DataFrame(lines)


def _summary(values: Any) -> dict[str, float]:
    """Mean, ends and R-hat of draws [chains, draws]."""
    low, high = np.quantile(values, [0.025, 0.975])
    r_hat = float(_numpyro("diagnostics").split_gelman_rubin(np.asarray(values)))
    return {"mean": float(np.mean(values)), "NUTS low": low, "NUTS high": high, "R-hat": r_hat}


def tables() -> Iterator[tuple[str, OneComparison | str]]:
    """Each table's name and results."""
    rng = np.random.default_rng(0)
    name = "simulated: 40 prompts, sd of quality 1, of c between prompts .5; c = .6"
    yield name, on_one_comparison(rng, 40, sd=1.0, sd_prompt=0.5).one_comparison
    name = "simulated for jbt fit: 40 pools, a judge and a trusted one, sd of c .5; c = 1"
    yield name, one_comparison(shared_fit(rng, Population(40, corr=0.5, c_sd=0.5), joint=True), 0)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.random_effects", description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    with runtime.precision("float64"):
        for name, one in tables():
            assert not isinstance(one, str), one
            table = beside(one, options.draws)
            print(name, table.to_string(index=False, float_format="%.2f"), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
