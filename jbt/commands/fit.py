"""The command `jbt fit`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tyro

from jbt import files, own
from jbt.commands.options import TableOptions
from jbt.own import Batch, PoolFit


@dataclass(frozen=True, kw_only=True)
class FitOptions(TableOptions):
    """Fit every pool and judge of a verdict table, naive and bias-aware (MAP, float64)."""

    k: int = 1
    """Size of the top set on which naive and bias-aware are compared (count)."""
    per_pool: bool = False
    """Print the ranking of each pool."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt fit` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = tyro.cli(FitOptions, args=argv, prog="jbt fit")
    options.check_outputs()
    prior = options.prior()
    tables = options.read()
    batch = options.batch(tables)
    fits = own.fit(batch, k=options.k, prior=prior)
    if options.json is not None:
        content = {"settings": options.settings(), "pools": [f.record() for f in fits]}
        files.write_text(options.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    print("; ".join(tables.summary))
    _print_summary(batch, options, fits)
    return 0


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
    if any(f.usable and np.isnan(f.kappa) for f in fits) and options.position == "auto":
        print("kappa is fixed at 0 where no pair was shown in both orders; see --position.")
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
    free = [f for f in usable if not np.isnan(f.kappa)]
    fixed = f" (fixed at 0 in {len(usable) - len(free)}/{len(usable)})" if free != usable else ""
    parts.append(f"kappa {_spread([f.kappa for f in free])}{_note('kappa', free)}{fixed}")
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
    kappa = "fixed at 0" if np.isnan(fit.kappa) else _signed(fit.kappa)
    parts.append(f"kappa {kappa}{_note('kappa', [fit])}")
    if "phi" in fit.prior_selected:
        parts.append("phi (prior-selected)")
    print(f"{name}: " + ", ".join([*parts, status]))
