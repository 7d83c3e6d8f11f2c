"""The `jbt` command."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from jbt import (
    __version__,
    cli_plan,
    estimators,
    metrics,
    model,
    runtime,
    store,
    study,
    verdicts,
)
from jbt.types import Fit, Prior, Status, check_positive
from jbt.verdicts import Batch, PoolTable, Transform

USAGE = """usage: jbt fit --verdicts FILE [options]      fit your own verdicts; jbt fit --help
       jbt plan pairing [options]            how many contents to render twice; --help
       jbt sweep NAME [options]              run an experiment; jbt sweep lists them
       jbt --version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch; returns the exit code: 0 done, 2 wrong input."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["fit"]:
        return _guarded(fit, argv[1:])
    if argv[:1] == ["plan"]:
        return _guarded(cli_plan.plan, argv[1:])
    if argv[:1] == ["sweep"]:
        return _guarded(sweep, argv[1:])
    if argv == ["--version"]:
        print(f"jbt {__version__}")
        return 0
    if argv in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    print(USAGE, end="", file=sys.stderr)
    return 2


def _guarded(command: Callable[[list[str]], int], argv: list[str]) -> int:
    try:
        return command(argv)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def sweep(argv: list[str]) -> int:
    """`jbt sweep NAME ...` is `python -m sweeps.NAME ...`."""
    import sweeps

    every = (m.name for m in pkgutil.iter_modules(sweeps.__path__))
    names = sorted(name for name in every if not name.startswith("_"))
    if not argv or argv[0] in ("--help", "-h"):
        print("sweeps: " + ", ".join(names))
        return 0
    if argv[0] not in names:
        raise ValueError(f"unknown sweep {argv[0]!r}: one of {', '.join(names)}")
    return study.main(importlib.import_module(f"sweeps.{argv[0]}").SWEEP, argv[1:])


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Fit every pool and judge of a verdict table, naive and bias-aware (MAP, float64)."""

    verdicts: Path
    """Table of verdicts: pool, first, second, winner (first | second | tie | error), optional
    judge, optional count. CSV, or Parquet with the extra jbt[parquet]."""
    items: Path | None = None
    """Table of items: pool, item, optional content, any numeric covariate columns."""
    covariates: tuple[str, ...] = ()
    """Columns of the items table that may bias the judge (space-separated)."""
    transform: Transform = "none"
    """Applied to every covariate before standardising."""
    standardise: bool = True
    """Centre and scale covariates over the whole items table, so that c is in logits per
    standard deviation; else use them as they are, c in logits per unit."""
    judge: str | None = None
    """This judge only; default all, separately."""
    k: int = 1
    """Size of the top set on which naive and bias-aware are compared (count)."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""
    json: Path | None = None
    """Write every fit to this file."""
    per_pool: bool = False
    """Print the ranking of each pool."""


def fit(argv: list[str]) -> int:
    """`jbt fit`."""
    options = tyro.cli(FitOptions, args=argv, prog="jbt fit")
    _check_json(options)
    with runtime.precision("float64"):
        check_positive("lam", options.lam)
        check_positive("lam_b", options.lam_b)
        batch = verdicts.load(
            options.verdicts,
            options.items,
            options.covariates,
            transform=options.transform,
            standardise=options.standardise,
            judge=options.judge,
        )
        _check_k(batch, options.k)
        records = _fit_all(batch, options)
    if options.json is not None:
        _write_json(options.json, options, records)
    _print_summary(batch, options, records)
    return 0


def _check_k(batch: Batch, k: int) -> None:
    sizes = np.asarray(jax.vmap(lambda d: d.content_mask())(batch.design)).sum(1)
    several = np.flatnonzero(sizes > 1)  # a pool of one content has nothing to rank
    if not len(several):
        raise ValueError("every pool has only one content: there is nothing to rank")
    smallest = several[sizes[several].argmin()]
    if not 1 <= k < sizes[smallest]:
        pool = batch.pools[smallest]
        what = f"pool {pool.pool!r} has {sizes[smallest]} contents"
        raise ValueError(f"k must lie in 1..{sizes[smallest] - 1} ({what}), got {k}")


def _fit_all(batch: Batch, options: FitOptions) -> list[dict[str, Any]]:
    """One padded batch, both models; a record a pool and judge, as in the JSON, plus
    "top_k_differs", whether the two models' top k differ."""
    prior = Prior(options.lam, options.lam_b)

    @jax.jit
    @jax.vmap
    def both(comparisons: Any, design: Any) -> tuple[Fit, Fit, Any, Any, Any]:
        naive = estimators.naive(comparisons, design, prior)
        aware = estimators.bias_aware(comparisons, design, prior)
        phi = model.apparent_quality(aware.parameters, design)
        differ = metrics.top_k_differ(
            naive.parameters.theta, aware.parameters.theta, options.k, design.content_mask()
        )
        theta = tuple(design.of_items(f.parameters.theta) for f in (aware, naive))
        return naive, aware, theta, phi, differ

    naive, aware, (theta, theta_naive), phi, differ = jax.device_get(
        both(batch.comparisons, batch.design)
    )
    records = []
    for i, pool in enumerate(batch.pools):
        n = len(pool.items)
        finite = bool(np.isfinite(theta[i]).all() and np.isfinite(theta_naive[i]).all())
        records.append(
            {
                "pool": pool.pool,
                "judge": pool.judge,
                "items": pool.items,
                "theta": store.defined(theta[i, :n]),
                "theta_naive": store.defined(theta_naive[i, :n]),
                "phi": store.defined(phi[i, :n]),
                "c": store.defined(aware.parameters.c[i]),
                "kappa": store.defined(aware.parameters.kappa[i]),
                "status": _status(pool, int(naive.status[i]), int(aware.status[i])),
                "grad_norm": store.defined(aware.grad_norm[i]),
                "prior_selected": list(pool.prior_selected),
                "constant_covariates": list(pool.constant_covariates),
                "n_verdicts": pool.n_verdicts,
                "n_errors": pool.n_errors,
                "top_k_differs": bool(differ[i]) if finite and pool.n_verdicts else None,
            }
        )
    return records


def _status(pool: PoolTable, naive: int, aware: int) -> str:
    worst = max(naive, aware)
    if worst:
        return Status(worst).name.lower()
    if pool.n_verdicts == 0:
        return Status.NO_VERDICTS.name.lower()
    if any(pool.constant_covariates):
        return Status.COVARIATE_CONSTANT.name.lower()
    return Status.CONVERGED.name.lower()


def _check_json(options: FitOptions) -> None:
    out = options.json
    store.check_writable(out)
    for table in (options.verdicts, options.items):
        if out and table and out.exists() and table.exists() and out.samefile(table):
            raise ValueError(f"--json would overwrite {table}")


def _write_json(path: Path, options: FitOptions, records: list[dict[str, Any]]) -> None:
    settings = asdict(options)
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
    content = {"settings": {**settings, "dtype": "float64", "jbt": __version__}, "pools": records}
    store.write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _print_summary(batch: Batch, options: FitOptions, records: list[dict[str, Any]]) -> None:
    judges = list(dict.fromkeys(r["judge"] for r in records))
    n_pools = len({r["pool"] for r in records})
    print(
        f"{len(records)} fits: {n_pools} pools x {len(judges)} judges, MAP with "
        f"lam = {options.lam:g}, lam_b = {options.lam_b:g}, float64"
    )
    for judge in judges:
        _print_judge(batch, options.k, judge, [r for r in records if r["judge"] == judge])
    if options.per_pool:
        for r in records:
            _print_ranking(batch, r)
    print("kappa > 0 favours the first shown (logits).")
    if batch.covariates:
        print(f"c is in logits per {batch.units} the covariate; c > 0 favours the larger value.")
    else:
        print("No covariate was asked for: bias-aware here means position only.")
    if any(r["prior_selected"] for r in records):
        print(
            "prior-selected: the comparisons made are silent about this number, and the prior "
            "chose it. phi = theta + c x and kappa are measured where they are not marked too."
        )
    if any(p.repeated for p in batch.pools):
        print(
            "warning: some ordered pairs were judged more than once, and the repeats are treated "
            "as independent verdicts; a judge that repeats itself is counted as if it were sure",
            file=sys.stderr,
        )


def _print_judge(batch: Batch, k: int, judge: str | None, rows: list[dict[str, Any]]) -> None:
    usable = [r for r in rows if r["status"] in ("converged", "covariate_constant")]
    parts = []
    for d, name in enumerate(batch.covariates):
        varying = [r for r in usable if not r["constant_covariates"][d]]
        parts.append(f"c[{name}] {_spread([r['c'][d] for r in varying])}{_note('c', varying)}")
    parts.append(f"kappa {_spread([r['kappa'] for r in usable])}{_note('kappa', usable)}")
    ranked = [r["top_k_differs"] for r in usable if r["top_k_differs"] is not None]
    parts.append(f"top-{k} differs from naive in {sum(ranked)}/{len(ranked)}")
    statuses = dict.fromkeys(r["status"] for r in rows)
    parts.append(", ".join(f"{s} {sum(r['status'] == s for r in rows)}" for s in statuses))
    errors = sum(r["n_errors"] for r in rows)
    if errors:
        parts.append(f"{errors} error verdicts dropped")
    print(f"{judge or 'all verdicts'}: " + "; ".join(parts))


def _note(name: str, rows: list[dict[str, Any]]) -> str:
    chosen = sum(name in r["prior_selected"] for r in rows)
    if not chosen:
        return ""
    return (
        " (prior-selected)" if chosen == len(rows) else f" (prior-selected in {chosen}/{len(rows)})"
    )


def _spread(values: list[float]) -> str:
    if not values:
        return "undefined"
    sd = f" (sd {np.std(values, ddof=1):.2g})" if len(values) > 1 else ""
    return f"{_signed(float(np.mean(values)))}{sd}"


def _signed(x: float) -> str:
    """Three digits with a sign; rounding errors around zero are zero."""
    return "+0" if abs(x) < 1e-9 else f"{x:+.3g}"


def _print_ranking(batch: Batch, r: dict[str, Any]) -> None:
    name = r["pool"] if r["judge"] is None else f"{r['pool']} / {r['judge']}"
    if r["status"] not in ("converged", "covariate_constant"):
        print(f"{name}: {r['status']}")
        return
    order = sorted(range(len(r["items"])), key=lambda i: -r["theta"][i])
    ranking = " > ".join(f"{r['items'][i]} {_signed(r['theta'][i])}" for i in order)
    parts = [f"theta{_note('theta', [r])} {ranking}"]
    for covariate, c in zip(batch.covariates, r["c"], strict=True):
        parts.append(f"c[{covariate}] {_signed(c)}{_note('c', [r])}")
    parts.append(f"kappa {_signed(r['kappa'])}{_note('kappa', [r])}")
    if "phi" in r["prior_selected"]:
        parts.append("phi (prior-selected)")
    print(f"{name}: " + ", ".join([*parts, r["status"]]))


if __name__ == "__main__":
    raise SystemExit(main())
