"""The `jbt` command."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from jbt import __version__, estimators, metrics, model, runtime, store, study, verdicts
from jbt.types import Fit, Prior, Status, check_positive
from jbt.verdicts import Batch, PoolTable, Transform

USAGE = """usage: jbt fit --verdicts FILE [options]      fit your own verdicts; jbt fit --help
       jbt sweep NAME [options]              run an experiment; jbt sweep lists them
       jbt --version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch; returns the exit code: 0 done, 2 wrong input."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["fit"]:
        return _guarded(fit, argv[1:])
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


def _guarded(command: Any, argv: list[str]) -> int:
    try:
        return command(argv)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def sweep(argv: list[str]) -> int:
    """`jbt sweep NAME ...` is `python -m sweeps.NAME ...`."""
    import sweeps

    names = sorted(m.name for m in pkgutil.iter_modules(sweeps.__path__))
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
    sizes = np.asarray([d.sum() for d in _content_masks(batch)])
    smallest = int(sizes.argmin())
    if not 1 <= k < sizes[smallest]:
        pool = batch.pools[smallest]
        what = f"pool {pool.pool!r} has {sizes[smallest]} contents"
        raise ValueError(f"k must lie in 1..{sizes[smallest] - 1} ({what}), got {k}")


def _content_masks(batch: Batch) -> np.ndarray:
    return np.asarray(jax.vmap(lambda d: d.content_mask())(batch.design))


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
        records.append(
            {
                "pool": pool.pool,
                "judge": pool.judge,
                "items": pool.items,
                "theta": _defined(theta[i, :n]),
                "theta_naive": _defined(theta_naive[i, :n]),
                "phi": _defined(phi[i, :n]),
                "c": _defined(aware.parameters.c[i]),
                "kappa": _defined(aware.parameters.kappa[i]),
                "status": _status(pool, int(naive.status[i]), int(aware.status[i])),
                "grad_norm": _defined(aware.grad_norm[i]),
                "prior_selected": bool(batch.covariates) and not pool.identified,
                "n_verdicts": pool.n_verdicts,
                "n_errors": pool.n_errors,
                "top_k_differs": bool(differ[i]),
            }
        )
    return records


def _defined(x: Any) -> Any:
    """Floats as JSON has them: null for what is undefined, never NaN."""
    x = np.asarray(x)
    if x.ndim:
        return [_defined(v) for v in x]
    return float(x) if np.isfinite(x) else None


def _status(pool: PoolTable, naive: int, aware: int) -> str:
    worst = max(naive, aware)
    if worst:
        return Status(worst).name.lower()
    if pool.n_verdicts == 0:
        return Status.NO_VERDICTS.name.lower()
    if pool.constant_covariate:
        return Status.COVARIATE_CONSTANT.name.lower()
    return Status.CONVERGED.name.lower()


def _write_json(path: Path, options: FitOptions, records: list[dict[str, Any]]) -> None:
    settings = asdict(options)
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
    content = {"settings": {**settings, "dtype": "float64", "jbt": __version__}, "pools": records}
    try:
        store.write_whole(
            path, lambda p: p.write_text(json.dumps(content, indent=1, allow_nan=False))
        )
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from None


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
            "prior-selected: these comparisons cannot tell quality from the covariate's effect; "
            "the prior chose how theta + c x is split. Only phi and kappa are measured."
        )
    if any(p.repeated for p in batch.pools):
        print(
            "warning: some ordered pairs were judged more than once, and the repeats are treated "
            "as independent verdicts; a judge that repeats itself is counted as if it were sure",
            file=sys.stderr,
        )


def _print_judge(batch: Batch, k: int, judge: str | None, rows: list[dict[str, Any]]) -> None:
    usable = [r for r in rows if r["status"] in ("converged", "covariate_constant")]
    clean = [r for r in rows if r["status"] == "converged"]
    parts = []
    for d, name in enumerate(batch.covariates):
        note = " (prior-selected)" if any(r["prior_selected"] for r in rows) else ""
        parts.append(f"c[{name}] {_spread([r['c'][d] for r in clean])}{note}")
    parts.append(f"kappa {_spread([r['kappa'] for r in usable])}")
    disagree = sum(r["top_k_differs"] for r in usable)
    parts.append(f"top-{k} differs from naive in {disagree}/{len(usable)}")
    statuses = {
        s: sum(r["status"] == s for r in rows) for s in dict.fromkeys(r["status"] for r in rows)
    }
    parts.append(", ".join(f"{s} {n}" for s, n in statuses.items()))
    errors = sum(r["n_errors"] for r in rows)
    if errors:
        parts.append(f"{errors} error verdicts dropped")
    print(f"{judge or 'all verdicts'}: " + "; ".join(parts))


def _spread(values: list[float]) -> str:
    if not values:
        return "undefined"
    sd = f" (sd {np.std(values, ddof=1):.2f})" if len(values) > 1 else ""
    return f"{_signed(float(np.mean(values)))}{sd}"


def _signed(x: float) -> str:
    """Two decimals with a sign, but no minus zero."""
    return f"{round(x, 2) + 0.0:+.2f}"


def _print_ranking(batch: Batch, r: dict[str, Any]) -> None:
    name = r["pool"] if r["judge"] is None else f"{r['pool']} / {r['judge']}"
    if None in r["theta"]:
        print(f"{name}: {r['status']}")
        return
    order = sorted(range(len(r["items"])), key=lambda i: -r["theta"][i])
    ranking = " > ".join(f"{r['items'][i]} {_signed(r['theta'][i])}" for i in order)
    note = " (prior-selected)" if r["prior_selected"] else ""
    c = "".join(
        f", c[{n}] {_signed(v)}{note}" for n, v in zip(batch.covariates, r["c"], strict=True)
    )
    print(f"{name}: theta{note} {ranking}{c}, kappa {_signed(r['kappa'])}, {r['status']}")


if __name__ == "__main__":
    raise SystemExit(main())
