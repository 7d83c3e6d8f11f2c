"""Which bias coefficients a user's verdicts identify, and what the prior chose elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from jbt import quick_compilation, runtime
from jbt.border import files
from jbt.border.report import Report, nats, signed, with_interval
from jbt.identifiability import (
    BiasEstimate,
    Profile,
    estimate_bias,
    grid_around,
    null_space,
    profile,
)
from jbt.kernel.fit import fit_map
from jbt.own.fits.batch import Batch, Group, PoolTable
from jbt.own.fits.judges import Judges, PanelGroup, only, panels_of
from jbt.own.shared_coefficients import directions
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.marginal_fit import PoolStack
from jbt.own.tables import limits
from jbt.own.tables.tables import Tables
from jbt.types import Design, Fit, Panel, Prior, Rows, Status, Variant, Verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jbt.own.leaderboards.growth import BiasByQuality


@dataclass(frozen=True, eq=False, kw_only=True)
class Identified:
    """Information about one coefficient c in one judge's verdicts on one pool, or in all judges'.
    NaN where undefined; c is in logits per unit of the covariate."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    covariate: str
    """With its transformation, as `Batch.covariates`."""
    unit: str
    """The unit of the covariate: c is in logits per this."""
    rank: int
    """Rank of the design matrix of the comparisons made."""
    n_columns: int
    """Columns of that matrix: contents, covariates and, unless kappa is fixed at 0, position."""
    null_directions: tuple[str, ...]
    """Its null directions, in words."""
    grid: np.ndarray
    """[9] values of c within 1 of `c_map`."""
    log_likelihood: np.ndarray
    """[9] profile log-likelihood on the grid, nats."""
    profile_range: float
    """Largest less smallest profile log-likelihood, nats."""
    c_map: float
    """Estimate under the prior."""
    c_mle: float
    """Estimate without a prior."""
    low: float
    """95 % profile-likelihood interval of c_mle; where pools of a file are merged, the interval of
    the leaderboard (`prompt_intervals`)."""
    high: float
    withheld: str = ""
    """Why there is no interval although c_mle exists; else empty."""
    status: Status
    """Status of c_mle, see `identifiability.estimate_bias`; NOT_CONVERGED or NOT_FINITE where c_map
    is undefined too."""
    identified_by: tuple[str, ...] | None = None
    """With all judges together, whose verdicts on the pool identify c, see `Judges.identified_by`;
    empty where nobody's do. None for one judge alone."""
    by_quality: BiasByQuality | None = None
    """How c (MAP) changes with quality, where pools of a file are merged and identify it."""

    @property
    def nullity(self) -> int:
        """Number of null directions."""
        return len(self.null_directions)

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file: the status by its name, null where undefined."""
        interval = files.defined([self.low, self.high])
        record = {
            "pool": self.pool,
            "judge": self.judge,
            "covariate": self.covariate,
            "unit": self.unit,
            "rank": self.rank,
            "n_columns": self.n_columns,
            "nullity": self.nullity,
            "null_directions": list(self.null_directions),
            "profile_range": files.defined(self.profile_range),
            "c_map": files.defined(self.c_map),
            "c_mle": files.defined(self.c_mle),
            "c_interval": None if None in interval else interval,
            "withheld": self.withheld or None,
            "status": self.status.name.lower(),
        }
        if self.identified_by is not None:
            record["told_by"] = list(self.identified_by)
        if self.by_quality is not None:
            record["by_quality"] = self.by_quality.record()
        return record

    def sentence(self) -> str:
        """The information about c in one sentence."""
        c, chosen = f"c[{self.covariate}]", f"the prior chose {signed(self.c_map)}"
        interval = f"between {signed(self.c_map - 1)} and {signed(self.c_map + 1)}"
        evidence = f"the verdicts carry {nats(self.profile_range)} about {c}"
        flat = f"not identified: {evidence}, any value {interval} and beyond fits as well; {chosen}"
        if self.status == Status.FLAT:
            return flat
        if self.status == Status.DISCONNECTED:
            return f"{flat}; comparisons between the unconnected items would identify it"
        if self.status == Status.SEPARATED:
            rises = self.log_likelihood[-1] > self.log_likelihood[0]
            side = "larger" if rises else "smaller"
            return f"{evidence} {interval}: the {side} c, the better the fit, without end; {chosen}"
        if self.status == Status.CONVERGED:
            best = with_interval(self.c_mle, self.low, self.high)
            none = f"; no interval: {self.withheld}" if self.withheld else ""
            prior = f"{signed(self.c_map)} with the prior"
            return f"{best} without a prior, {prior}; {evidence} {interval}{none}"
        if self.status == Status.COVARIATE_CONSTANT:
            return f"{self.covariate} never differs between the items, so that {c} has no effect"
        if self.status == Status.NO_VERDICTS:
            return f"there are no verdicts: {c} is the prior's mean"
        return f"{c} has no estimate: {self.status.name.lower()}"


@dataclass(frozen=True, eq=False)
class Identification:
    """The result of `jbt identify`."""

    alone: list[Identified]
    """Each judge's verdicts alone: one for each of `batch.pools` in their order, and each of
    `batch.covariates`."""
    together: list[Identified] | None = None
    """All judges' verdicts together: one for each pool, each judge whose biases are unknown, and
    each covariate. None unless asked for."""
    panel: tuple[Tables, Judges] | None = None
    """The tables and judges of `together`."""

    def report(self, title: str, lead: list[str]) -> Report:
        """A section for each covariate with a line for each judge; several pools are summarised."""
        from jbt.own.examine import identify_report

        return identify_report.report(title, lead, self)

    def to_frame(self) -> pd.DataFrame:
        """A row for each pool, judge and covariate; with all judges together, the column `joint`
        says which rows are theirs."""
        if self.together is None:
            return _frame(self.alone)
        frames = [
            _frame(self.alone).assign(joint=False),
            _frame(self.together).assign(joint=True),
        ]
        return pd.concat(frames, ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        record = {"pools": [identified.record() for identified in self.alone]}
        if self.together is not None:
            record["joint"] = [identified.record() for identified in self.together]
        return record

    def figure(self) -> Figure:
        """Profile curves of each judge alone, a panel a covariate."""
        from jbt.own.examine import identify_report

        return identify_report.figure(self.alone)


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
    # Imported here because it loads the leaderboards.
    from jbt.own.examine.prompt_intervals import with_prompts

    if not batch.covariates:
        raise ValueError("no covariate whose coefficient could be identified (--covariates)")
    prior = Prior() if prior is None else prior
    alone = with_prompts(_identify(batch, prior, None), batch, prior)
    if joint is None:
        return Identification(alone)
    joint_batch, judges = joint
    if judges.known.all():
        raise ValueError("c and kappa of every judge are known: there is nothing to identify")
    together = with_prompts(_identify(joint_batch, prior, judges), joint_batch, prior, judges)
    return Identification(alone, together, (joint_batch.tables, judges))


def _identify(batch: Batch, prior: Prior, judges: Judges | None) -> list[Identified]:
    results: dict[int, list[Identified]] = {}
    with runtime.precision("float64"):
        for group in batch.groups:
            results.update(_of_group(batch, group, judges, prior))
    if judges is None:
        by_pool = batch.of_all(results, _without_verdicts)
    else:
        by_pool = [results[pool] for pool in sorted(results)]
    return [identified for coefficients in by_pool for identified in coefficients]


def _without_verdicts(coefficients: list[Identified], pool: PoolTable) -> list[Identified]:
    """The same coefficients for another judge."""
    return [dataclasses.replace(identified, judge=pool.judge) for identified in coefficients]


def _of_group(
    batch: Batch, group: Group, judges: Judges | None, prior: Prior
) -> Iterator[tuple[int, list[Identified]]]:
    """Yield the coefficients of each pool, with its place: of each judge alone in `batch.pools`, or
    of all judges together in `Tables.pools`."""
    d = len(batch.covariates)
    if judges is None:
        pools, verdicts, by_judges = group, group.comparisons, None
        coefficients, n_parameters = [(0, i) for i in range(d)], group.n_parameters
    else:
        pools = panels_of(group, judges)
        verdicts, by_judges = pools.panel, _IdentifiedByJudges(pools)
        coefficients = [(g, i) for g in np.flatnonzero(~judges.known).tolist() for i in range(d)]
        n_parameters = pools.design.n_contents + (d + 1) * len(judges.names)
    limits.check_profiles(len(pools.index), len(coefficients), n_parameters)
    judge, covariate = (jnp.asarray(v) for v in zip(*coefficients, strict=True))
    of_judge = None if judges is None else judge
    fit = verdicts, pools.design, pools.variant
    measured = _Measured(
        *in_chunks(lambda stack: _measure(*stack, covariate, of_judge, prior), fit, limits.AT_ONCE)
    )
    leaves = jax.device_get(fit)
    for i, number in enumerate(pools.index.tolist()):
        facts = batch.pools[number if judges is None else number * len(judges.names)]
        made, design, variant = jax.tree.map(lambda leaf, i=i: leaf[i], leaves)
        contents = [*facts.contents, *[""] * (design.n_contents - len(facts.contents))]
        if judges is None or by_judges is None:
            made = made if isinstance(made, Rows) else made.shown
            whose: dict[str, Any] = {"position": bool(variant.kappa)}
            names, identifiers = [facts.judge], None
        else:
            made, design, variant = jax.tree.map(jnp.asarray, (made, design, variant))
            whose = {"judges": judges.names, "variant": variant}
            names = judges.names
            identifiers = list(judges.identified_by(partial(by_judges.in_pool, i)))
        null = null_space(design, made, batch.covariates, contents=contents, **whose)
        yield (
            number,
            [
                Identified(
                    pool=facts.pool,
                    judge=names[g],
                    covariate=batch.covariates[c],
                    unit=f"{batch.units} {batch.covariates[c]}",
                    rank=null.rank,
                    n_columns=null.n_columns,
                    null_directions=null.names,
                    **measured.numbers(i, j, (c,) if judges is None else (c, g)),
                    identified_by=None if identifiers is None else identifiers[g][c],
                )
                for j, (g, c) in enumerate(coefficients)
            ],
        )


@dataclass(frozen=True)
class _Measured:
    """Result of `_measure` on the host: [pools, K] each, and the fit of each pool."""

    curve: Profile
    evidence: np.ndarray
    estimate: BiasEstimate
    mode: Fit

    def numbers(self, i: int, j: int, place: tuple[int, ...]) -> dict[str, Any]:
        """Coefficient j of pool i, at `place` in the parameter c."""
        converged = self.mode.status[i] == Status.CONVERGED
        return {
            "grid": self.curve.grid[i, j],
            "log_likelihood": self.curve.log_likelihood[i, j],
            "profile_range": float(self.evidence[i, j]),
            "c_map": float(self.mode.parameters.c[(i, *place)]) if converged else np.nan,
            "c_mle": float(self.estimate.c[i, j]),
            "low": float(self.estimate.low[i, j]),
            "high": float(self.estimate.high[i, j]),
            "status": Status(int(self.estimate.status[i, j] if converged else self.mode.status[i])),
        }


@quick_compilation.jit
def _measure(
    comparisons: Verdicts,
    design: Design,
    variant: Variant,
    covariate: Int[Array, " K"],
    judge: Int[Array, " K"] | None,
    prior: Prior,
) -> tuple[Profile, Array, BiasEstimate, Fit]:
    """For each pool the MAP and, for each of K coefficients, the profile around it, its range and
    the estimate without a prior. Without `judge` the verdicts are one judge's."""

    def one_pool(comparisons: Verdicts, design: Design, variant: Variant) -> tuple:
        mode = fit_map(comparisons, design, prior, variant)

        def one_coefficient(
            d: Int[Array, ""], g: Int[Array, ""] | None
        ) -> tuple[Profile, Float[Array, ""], BiasEstimate]:
            arguments: dict[str, Any] = {"covariate": d, "variant": variant}
            arguments |= {} if g is None else {"judge": g}
            c = mode.parameters.c[d] if g is None else mode.parameters.c[d, g]
            curve = profile(comparisons, design, grid_around(c), **arguments)
            return curve, curve.range(), estimate_bias(comparisons, design, **arguments)

        return *jax.vmap(one_coefficient)(covariate, judge), mode

    return jax.vmap(one_pool)(comparisons, design, variant)


class _IdentifiedByJudges:
    """Which coefficients the verdicts of a set of judges on a pool identify."""

    def __init__(self, group: PanelGroup) -> None:
        self._group, self._known = group, {}

    def in_pool(self, i: int, judges: np.ndarray) -> np.ndarray:
        """[D + 1, J] for pool i of the group, by the verdicts of the judges in a mask [J]."""
        key = judges.tobytes()
        if key not in self._known:  # computed for all pools at once
            self._known[key] = self._identified(only(self._group.panel, judges))
        return self._known[key][i]

    def _identified(self, panel: Panel) -> np.ndarray:
        variant = self._group.variant
        n_pools, d, j = variant.c.shape
        c, kappa = np.asarray(variant.c), np.asarray(variant.kappa)
        free = np.concatenate([c, kappa[:, None]], 1).reshape(n_pools, -1)
        loadings = jnp.asarray(free[:, :, None] * np.eye((d + 1) * j))
        part = PoolStack(panel, self._group.design, loadings, np.arange(n_pools))
        return (directions.null_directions([part], n_pools).identified & free).reshape(
            n_pools, d + 1, j
        )


def _frame(coefficients: list[Identified]) -> pd.DataFrame:
    rows = []
    for identified in coefficients:
        row = identified.record()
        low, high = row.pop("c_interval") or (None, None)
        row.pop("by_quality", None)
        row["null_directions"] = "; ".join(row["null_directions"])
        rows.append({**row, "c_low": low, "c_high": high})
    frame = pd.DataFrame(rows)
    if rows:
        frame = frame.astype(dict.fromkeys(("c_mle", "c_low", "c_high"), float))
    if "told_by" in frame:
        frame["told_by"] = ["; ".join(names) for names in frame["told_by"]]
    return frame
