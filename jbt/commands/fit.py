"""The command `jbt fit`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tyro

from jbt import __version__, files, own
from jbt.own import Batch, PoolFit, Transform
from jbt.types import Prior


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


def main(argv: Sequence[str]) -> int:
    """Run `jbt fit` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, in one line.
    """
    options = tyro.cli(FitOptions, args=argv, prog="jbt fit")
    _check_json(options)
    prior = Prior(options.lam, options.lam_b)
    batch = own.load(
        options.verdicts,
        options.items,
        options.covariates,
        transform=options.transform,
        standardise=options.standardise,
        judge=options.judge,
    )
    fits = own.fit(batch, k=options.k, prior=prior)
    if options.json is not None:
        _write_json(options.json, options, fits)
    _print_summary(batch, options, fits)
    return 0


def _check_json(options: FitOptions) -> None:
    out = options.json
    files.check_writable(out)
    for table in (options.verdicts, options.items):
        if out and table and out.exists() and table.exists() and out.samefile(table):
            raise ValueError(f"--json would overwrite {table}")


def _write_json(path: Path, options: FitOptions, fits: list[PoolFit]) -> None:
    settings = asdict(options)
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
    content = {
        "settings": {**settings, "dtype": "float64", "jbt": __version__},
        "pools": [f.record() for f in fits],
    }
    files.write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _print_summary(batch: Batch, options: FitOptions, fits: list[PoolFit]) -> None:
    judges = list(dict.fromkeys(f.judge for f in fits))
    n_pools = len({f.pool for f in fits})
    print(
        f"{len(fits)} fits: {n_pools} pools x {len(judges)} judges, MAP with "
        f"lam = {options.lam:g}, lam_b = {options.lam_b:g}, float64"
    )
    for judge in judges:
        _print_judge(batch, options.k, judge, [f for f in fits if f.judge == judge])
    if options.per_pool:
        for fit in fits:
            _print_ranking(batch, fit)
    print("kappa > 0 favours the first shown (logits).")
    if batch.covariates:
        print(f"c is in logits per {batch.units} the covariate; c > 0 favours the larger value.")
    else:
        print("No covariate was asked for: bias-aware here means position only.")
    if any(f.prior_selected for f in fits):
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


def _print_judge(batch: Batch, k: int, judge: str | None, fits: list[PoolFit]) -> None:
    usable = [f for f in fits if f.usable]
    parts = []
    for d, name in enumerate(batch.covariates):
        varying = [f for f in usable if not f.constant_covariates[d]]
        parts.append(f"c[{name}] {_spread([f.c[d] for f in varying])}{_note('c', varying)}")
    parts.append(f"kappa {_spread([f.kappa for f in usable])}{_note('kappa', usable)}")
    ranked = [f.top_k_differs for f in usable if f.top_k_differs is not None]
    parts.append(f"top-{k} differs from naive in {sum(ranked)}/{len(ranked)}")
    statuses = [f.status.name.lower() for f in fits]
    parts.append(", ".join(f"{s} {statuses.count(s)}" for s in dict.fromkeys(statuses)))
    errors = sum(f.n_errors for f in fits)
    if errors:
        parts.append(f"{errors} error verdicts dropped")
    print(f"{judge or 'all verdicts'}: " + "; ".join(parts))


def _note(name: str, fits: list[PoolFit]) -> str:
    chosen = sum(name in f.prior_selected for f in fits)
    if not chosen:
        return ""
    return (
        " (prior-selected)" if chosen == len(fits) else f" (prior-selected in {chosen}/{len(fits)})"
    )


def _spread(values: list[float]) -> str:
    if not values:
        return "undefined"
    sd = f" (sd {np.std(values, ddof=1):.2g})" if len(values) > 1 else ""
    return f"{_signed(float(np.mean(values)))}{sd}"


def _signed(x: float) -> str:
    """Three digits with a sign; rounding errors around zero are zero."""
    return "+0" if abs(x) < 1e-9 else f"{x:+.3g}"


def _print_ranking(batch: Batch, fit: PoolFit) -> None:
    name = fit.pool if fit.judge is None else f"{fit.pool} / {fit.judge}"
    status = fit.status.name.lower()
    if not fit.usable:
        print(f"{name}: {status}")
        return
    order = np.argsort(-fit.theta, kind="stable")
    ranking = " > ".join(f"{fit.items[i]} {_signed(float(fit.theta[i]))}" for i in order)
    parts = [f"theta{_note('theta', [fit])} {ranking}"]
    for covariate, c in zip(batch.covariates, fit.c, strict=True):
        parts.append(f"c[{covariate}] {_signed(c)}{_note('c', [fit])}")
    parts.append(f"kappa {_signed(fit.kappa)}{_note('kappa', [fit])}")
    if "phi" in fit.prior_selected:
        parts.append("phi (prior-selected)")
    print(f"{name}: " + ", ".join([*parts, status]))
