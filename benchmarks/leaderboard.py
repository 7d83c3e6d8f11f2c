"""A leaderboard of a million verdicts: jbt's rows beside arena-rank 0.1.1.

    python -m benchmarks.leaderboard [--rows 1000000] [--environment DIR]

500 models, five covariates, a verdict a row; both get the same rows, each in a process of its own.
Times cover compiling and fitting, from arrays to coefficients. arena-rank pins jax 0.8.1, so it is
installed into an environment of its own (`--environment`, kept for the next time; default a
temporary folder). Where that fails, jbt is measured alone.

arena-rank adds 0.5 reg sum(c^2), reg = 1 by default, to a mean negative log-likelihood, and no
prior on the ratings. On R rows, that is jbt's prior with lam_b = R reg and lam = 0; reg = 0 is the
maximum likelihood. It stops when the mean changes by less than `ftol` of itself, by default 1e-9.
Its centring and scaling of covariates and its weights of pairs are switched off here. Neither has a
position term here.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent.parent
ARENA = "arena-rank==0.1.1"
MODELS, COVARIATES = 500, 5
ROWS_A_POOL = 10
LEAST_LAM = 1e-9
"""Stands in for lam or lam_b = 0."""


def draw(path: Path, n_rows: int) -> None:
    """Simulate verdicts: theta and differences of covariates ~ N(0, 1), c from -0.5 to 1."""
    rng = np.random.default_rng(0)
    theta, c = rng.normal(size=MODELS), np.linspace(-0.5, 1, COVARIATES)
    first = rng.integers(0, MODELS, n_rows)
    second = (first + rng.integers(1, MODELS, n_rows)) % MODELS
    difference = rng.normal(size=(n_rows, COVARIATES))
    logit = theta[first] - theta[second] + difference @ c
    won = (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(float)
    pool = rng.integers(0, n_rows // ROWS_A_POOL, n_rows)
    np.savez(path, first=first, second=second, difference=difference, won=won, pool=pool)


def jbt(data: Any, lam: float, lam_b: float) -> dict[str, Any]:
    """jbt's MAP, and with the default prior its jackknife with the pools as clusters."""
    import jax
    import jax.numpy as jnp

    from jbt import runtime
    from jbt.estimators import clusters
    from jbt.kernel.fit import fit_map
    from jbt.stats.row_jackknife import jackknife
    from jbt.types import Design, Prior, Rows, Variant

    with runtime.precision("float64"):
        columns = (data[k] for k in ("first", "second", "difference", "won"))
        rows, design = Rows.build(*columns), Design.of_contents(MODELS, COVARIATES)
        variant, prior = Variant(jnp.ones(COVARIATES, bool), jnp.array(False)), Prior(lam, lam_b)
        begin = time.perf_counter(), time.process_time()
        fit = jax.block_until_ready(jax.jit(fit_map)(rows, design, prior, variant))
        costs = measured(begin)
        mode = fit.parameters
        costs["result"] = [*np.asarray(mode.theta).tolist(), *np.asarray(mode.c).tolist()]
        costs["note"] = f"status {int(fit.status)}, {int(fit.steps)} Newton steps"
        if lam == 1:
            begin = time.perf_counter(), time.process_time()
            inverse = clusters.inverse_hessian(mode, rows, design, prior, variant)
            covariance = jackknife(inverse, mode, rows, data["pool"]).covariance
            costs["jackknife"] = {**measured(begin), "trace": float(np.trace(covariance))}
    return costs


def arena(data: Any, reg: float, ftol: float) -> dict[str, Any]:
    """arena-rank's fit. Imports nothing from jbt, which needs another jax."""
    import jax
    import jax.numpy as jnp
    from arena_rank.models.contextual_bradley_terry import (  # type: ignore[reportMissingImports]
        ContextualBradleyTerry,
    )
    from arena_rank.utils.data_utils import (  # type: ignore[reportMissingImports]
        ContextualPairDataset,
    )

    pairs = jnp.asarray(np.stack([data["first"], data["second"]], 1), jnp.int32)
    rows = ContextualPairDataset(
        competitors=[str(i) for i in range(MODELS)],
        pairs=pairs,
        outcomes=jnp.asarray(data["won"]),
        features=jnp.asarray(data["difference"]),
        weights=jnp.ones(len(pairs)),
    )
    model = ContextualBradleyTerry(MODELS, COVARIATES, reg=reg, ftol=ftol)
    begin = time.perf_counter(), time.process_time()
    jax.block_until_ready(model.fit(rows).params)
    costs = measured(begin)
    ratings = np.asarray(model.params["ratings"])
    coefficients = np.asarray(model.params["coeffs"])
    costs["result"] = [*(ratings - ratings.mean()).tolist(), *coefficients.tolist()]
    costs["note"] = f"ftol {ftol:g}"
    return costs


def measured(begin: tuple[float, float]) -> dict[str, Any]:
    """Seconds since `begin`, on the clock and of all cores; this process's peak memory."""
    return {
        "seconds": time.perf_counter() - begin[0],
        "cpu": time.process_time() - begin[1],
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def in_process(python: Path | str, path: Path, what: str, *numbers: float) -> dict[str, Any]:
    """Run one of the functions above in a process of its own."""
    run = [str(python), __file__, what, str(path), *map(str, numbers)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def installed(folder: Path) -> Path | None:
    """The Python of an environment with arena-rank; None, with the reason printed, if it cannot be
    installed."""
    python = folder / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", ARENA]
        subprocess.run(pip, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        print(f"{ARENA} cannot be installed, jbt is measured alone: {reason}")
        return None
    return python


def line(name: str, costs: dict[str, Any], other: dict[str, Any] | None = None) -> str:
    """A line of the table; `other` is the fit that the result is compared with."""
    differs = ""
    if other is not None:
        distance = np.abs(np.subtract(costs["result"], other["result"]))
        differs = f"{distance[:MODELS].max():9.1e} {distance[MODELS:].max():9.1e}"
    numbers = f"{costs['seconds']:8.1f} {costs['cpu']:8.1f} {costs['gigabytes']:6.2f}"
    return f"{name:44s} {numbers}  {differs:20s} {costs['note']}"


def compare(n_rows: int, environment: Path | None) -> None:
    from benchmarks import timing

    print(timing.header(f"{n_rows} verdicts, {MODELS} models, D = {COVARIATES}", ("jax", "numpy")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        draw(path, n_rows)
        python = installed(environment or Path(folder) / "environment")
        print(f"{'':44s} {'seconds':>8s} {'cpu s':>8s} {'GB':>6s}  largest difference of")
        print(f"{'with compiling':44s} {'':24s}  {'theta':>9s} {'c':>9s}")
        fitted = in_process(sys.executable, path, "jbt", 1.0, 0.1)
        print(line("jbt, MAP, lam = 1, lam_b = 0.1", fitted))
        fitted["jackknife"]["note"] = f"{len(np.unique(np.load(path)['pool']))} clusters"
        print(line("  its cluster-robust covariance", fitted["jackknife"]))
        for reg in (1.0, 0.0):
            lam_b = max(n_rows * reg, LEAST_LAM)
            fitted = in_process(sys.executable, path, "jbt", LEAST_LAM, lam_b)
            print(line(f"jbt, lam = {LEAST_LAM:g}, lam_b = {lam_b:g}", fitted))
            if python is None:
                continue
            for ftol in (1e-9, 1e-14):
                arena_rank = in_process(python, path, "arena", reg, ftol)
                print(line(f"  arena-rank, reg = {reg:g}", arena_rank, fitted))


if __name__ == "__main__":
    if sys.argv[1:2] in (["jbt"], ["arena"]):
        with np.load(sys.argv[2]) as stored:
            rows_given = dict(stored)
        print(json.dumps(globals()[sys.argv[1]](rows_given, *map(float, sys.argv[3:]))))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--rows", type=int, default=10**6)
        parser.add_argument("--environment", type=Path)
        given = parser.parse_args()
        compare(given.rows, given.environment)
