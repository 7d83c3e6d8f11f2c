"""Random effects beside an independent fit: the No-U-Turn sampler of NumPyro, which needs no
approximation of the likelihood.

    pip install numpyro
    python -m benchmarks.random_effects [--data FOLDER] [--draws 1000]

The same model and priors as `jbt.estimators.mixed` (c of each model about their mean, what varies
with their sds, of prior density sd exp(-sd)). Tables: one simulated, and judges of PRD where FOLDER
has its files. A line for each number has the estimate and 95 % interval of
`Leaderboard.one_comparison`, whose intervals are a jackknife over prompts, and of the draws mean,
95 % interval and R-hat.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from benchmarks.calibration.boards import on_one_comparison
from jbt import own, runtime
from jbt.border.report import each
from jbt.estimators.mixed import Mixed
from jbt.own.leaderboards.report import Leaderboard


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
        sds = {name: numpyro.sample(name, dist.Gamma(2.0, 1.0)) for name in problem.effects}
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
            logit = logit + first - second
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


def beside(board: Leaderboard, draws: int) -> pd.DataFrame:
    """Numbers of a leaderboard's fit on one comparison, and of the draws."""
    one = board.one_comparison
    assert one is not None
    assert one.fit is not None
    problem = one.fit.problem
    posterior = sampled(problem, draws).get_samples(group_by_chain=True)
    n_models = len(one.theta)
    c = posterior["beta"][..., n_models]
    for places in problem.crossed.values():
        c = c + posterior["beta"][..., places].mean(-1)
    theta = posterior["beta"][..., :n_models]
    theta = theta - theta.mean(-1, keepdims=True)
    numbers = {"c": (one.c.iloc[0], c)}
    numbers |= {f"theta {row.model}": (row, theta[..., i]) for i, row in enumerate(each(one.theta))}
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


def boards(data: Path | None) -> Iterator[tuple[str, Leaderboard]]:
    """Each table's name and leaderboard."""
    rng = np.random.default_rng(0)
    name = "simulated: 40 prompts, sd of quality 1, of c between prompts .5; c = .6"
    yield name, on_one_comparison(rng, 40, sd=1.0, sd_prompt=0.5)
    if data is not None:
        files = [pd.read_csv(data / "prd" / f"{name}.csv") for name in ("verdicts", "items")]
        tables = own.read(*files, covariates=["words"])
        for board in own.leaderboard(tables, ["words"], transform="log"):
            yield f"PRD, {board.judge}", board


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.random_effects", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("JBT_DATA"))
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    with runtime.precision("float64"):
        for name, board in boards(options.data):
            table = beside(board, options.draws)
            print(name, table.to_string(index=False, float_format="%.2f"), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
