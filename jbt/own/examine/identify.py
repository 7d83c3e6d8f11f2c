"""Which bias coefficients a user's verdicts identify, and what the prior chose elsewhere: `jbt
identify`, of each judge alone and of all together.

The rank and the null directions of the comparisons made say which coefficients c anything can
identify. The profile log-likelihood within 1 of the prior's c measures how much the verdicts say,
and where it has a single maximum, that is the estimate without a prior, with a profile-likelihood
interval (`jbt.identifiability`). Where the pools of a file are merged, verdicts on one prompt
depend on each other, and the interval is that of the leaderboard.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Int

from jbt import quick_compilation, runtime
from jbt.identifiability import estimate_bias, grid_around, null_space, profile
from jbt.kernel.fit import fit_map
from jbt.own.examine.identify_report import Identification
from jbt.own.fits.batch import Batch, Group
from jbt.own.fits.judges import Judges, PanelGroup, known_in_words, only, panels_of
from jbt.own.leaderboards.intervals import REASONS, intervals
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.shared_coefficients.directions import null_directions
from jbt.own.shared_coefficients.marginal_fit import PoolStack
from jbt.own.tables import limits
from jbt.own.tables.pairs import agreement, agreement_in_words
from jbt.types import Comparisons, Design, Prior, Status, Variant, Verdicts

NO_FIT = "the fit did not converge"


def identify(
    batch: Batch, prior: Prior | None = None, *, joint: tuple[Batch, Judges] | None = None
) -> Identification:
    """Find which coefficients c the verdicts identify, estimate them, and show what the prior chose
    elsewhere (float64).

    Args:
      batch: from `own.load`; kappa is free or fixed at 0 as its groups have it.
      prior: of `c_map`, around which the profile is taken; default `Prior()`.
      joint: a batch whose verdicts may include anchors (`Tables.with_anchors`), and its judges, to
        be examined together as well.

    Raises:
      ValueError: the batch has no covariates; jointly, every judge's biases are known.
    """
    if not batch.covariates:
        raise ValueError("no covariate whose coefficient could be identified (--covariates)")
    prior = Prior() if prior is None else prior
    rows, notes = _rows(batch, prior), []
    if joint is not None:
        batch, judges = joint
        if judges.known.all():
            raise ValueError("c and kappa of every judge are known: there is nothing to identify")
        rows += _rows(batch, prior, judges)
        agreements = agreement(batch.tables, judges.known)
        notes = [known_in_words(judges.trusted), *agreement_in_words(agreements)]
    return Identification(pd.DataFrame(rows), notes)


def _rows(batch: Batch, prior: Prior, judges: Judges | None = None) -> list[dict[str, Any]]:
    """The rows of `Identification.table`: of each judge alone, in the order of `batch.pools`; or of
    all judges together, in that of the pools."""
    with runtime.precision("float64"):
        by_prompts = _by_prompts(batch, prior, judges) if batch.tables.merged else {}
        found = {n: rows for g in batch.groups for n, rows in _of_group(batch, g, prior, judges)}
    for row in chain(*found.values()):
        if row["status"] == "converged":
            row |= by_prompts.get((row["judge"], row["covariate"]), {})
    if judges is not None:
        return [row for number in sorted(found) for row in found[number]]
    fits = zip(batch.pools, batch.fitted.tolist(), strict=True)
    return [{**row, "judge": pool.judge} for pool, fit in fits for row in found[fit]]


def _of_group(
    batch: Batch, group: Group, prior: Prior, judges: Judges | None
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield a row for each coefficient, with the place of the fit in `batch.pools`, or of the pool
    in `Tables.pools`."""
    pools, made, names, told_by = group, group.comparisons, None, None
    unknown, d = np.ones(1, bool), len(batch.covariates)
    if judges is not None:
        pools = panels_of(group, judges)
        made, names, unknown = pools.panel, judges.names, ~judges.known
        told_by = _identified_by(pools, judges)
    fit = made, pools.design, pools.variant
    judge, covariate = np.nonzero(np.tile(unknown[:, None], d))
    n_parameters = pools.design.n_contents + (d + 1) * len(unknown)
    limits.check_profiles(len(pools.index), len(judge), n_parameters)
    which = jnp.asarray(covariate), jnp.asarray(judge)
    measured = in_chunks(lambda fit: _measure(fit, *which, prior), fit, limits.AT_ONCE)
    fits = jax.device_get(fit)
    for i, number in enumerate(pools.index.tolist()):
        made, design, variant = jax.tree.map(lambda leaf, i=i: leaf[i], fits)
        shown: Any = jax.tree.map(jnp.asarray, made)
        shown = made.shown if isinstance(made, Comparisons) else shown
        pool = batch.pools[number * len(unknown)]
        contents = pool.contents + ("",) * (design.n_contents - len(pool.contents))
        facts = {"contents": contents, "judges": names, "variant": variant}
        null = null_space(design, shown, batch.covariates, **facts)
        rows = []
        for k, (g, c) in enumerate(zip(judge, covariate, strict=True)):
            evidence, c_map, c_mle, interval, status, curve = (v[i, k].tolist() for v in measured)
            row = {
                "pool": pool.pool,
                "judge": names[g] if names else pool.judge,
                "covariate": batch.covariates[c],
                "unit": f"{batch.units} {batch.covariates[c]}",
                "rank": null.rank,
                "n_columns": null.n_columns,
                "nullity": null.nullity,
                "null_directions": null.names,
                "profile_range": evidence,
                "c_map": c_map,
                "c_mle": c_mle,
                "c_interval": None if np.isnan(interval).any() else interval,
                "withheld": None,
                "status": Status(status).name.lower(),
                "told_by": told_by and told_by[i][g][c],
                "curve": curve,
                "joint": names is not None,
            }
            rows.append(row)
        yield number, rows


@quick_compilation.jit
def _measure(
    fit: tuple[Verdicts, Design, Variant],
    covariate: Int[Array, " K"],
    judge: Int[Array, " K"],
    prior: Prior,
) -> tuple[Array, ...]:
    """For each pool and each of K coefficients the range of its profile, the MAP around which that
    is, the estimate without a prior with its interval and status, and the profile. `judge` is 0
    where the verdicts are one judge's."""

    @jax.vmap
    def of_pool(fit: tuple[Verdicts, Design, Variant]) -> tuple[Array, ...]:
        comparisons, design, variant = fit
        mode = fit_map(comparisons, design, prior, variant)
        converged = mode.status == Status.CONVERGED

        @jax.vmap
        def of_coefficient(d: Int[Array, ""], g: Int[Array, ""]) -> tuple[Array, ...]:
            which: dict[str, Any] = {"covariate": d, "judge": g, "variant": variant}
            c = mode.parameters.c.reshape(design.n_covariates, -1)[d, g]
            curve = profile(comparisons, design, grid_around(c), **which)
            estimate = estimate_bias(comparisons, design, **which)
            c, ends = jnp.where(converged, c, jnp.nan), jnp.stack([estimate.low, estimate.high])
            status = jnp.where(converged, estimate.status, mode.status)
            return curve.range(), c, estimate.c, ends, status, curve.log_likelihood

        return of_coefficient(covariate, judge)

    return of_pool(fit)


def _identified_by(
    pools: PanelGroup, judges: Judges
) -> list[tuple[tuple[tuple[str, ...], ...], ...]]:
    """For each pool, judge and coefficient whose verdicts identify it, see `Judges.identified_by`;
    nobody's where the prior chooses."""
    n_pools, d, n_judges = pools.variant.c.shape
    free = np.concatenate([pools.variant.c, pools.variant.kappa[:, None]], 1)
    loadings = jnp.asarray(free.reshape(n_pools, -1, 1) * np.eye((d + 1) * n_judges))

    @cache
    def identified(members: bytes) -> np.ndarray:
        """[pools, D + 1, J], by the verdicts of the judges in a mask."""
        panel = only(pools.panel, np.frombuffer(members, bool))
        part = PoolStack(panel, pools.design, loadings, np.arange(n_pools))
        return null_directions([part], n_pools).identified.reshape(free.shape) & free

    return [
        tuple(judges.identified_by(lambda members, i=i: identified(members.tobytes())[i]))
        for i in range(n_pools)
    ]


def _by_prompts(
    batch: Batch, prior: Prior, judges: Judges | None
) -> dict[tuple[str | None, str], dict[str, Any]]:
    """The leaderboard's intervals, whose clusters are the pools of the file, or why there is none,
    by judge and covariate."""
    tables, found = batch.tables, {}
    setup = Setup.of(tables, Settings(**vars(batch.model), prior=prior))
    problems = {(judge,): setup.problem(g) for g, judge in enumerate(tables.judges)}
    if judges is not None:
        problems = {judges.names: setup.together(judges)}
    for names, problem in problems.items():
        fit = problem.fit()
        parameters = intervals(fit).parameters.iloc[problem.at["c"].ravel()]
        which = ((judge, covariate) for covariate in setup.covariates for judge in names)
        columns = (parameters[name] for name in ("low", "high", "status"))
        for key, low, high, status in zip(which, *columns, strict=True):
            found[key] = {"c_interval": [low, high]}
            if status != "converged":
                why = f"{status}, {REASONS[status]}" if status in REASONS else NO_FIT
                found[key] = {"c_interval": None, "withheld": why}
    return found
