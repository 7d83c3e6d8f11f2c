"""What a user's verdicts say about each bias coefficient, and what the prior said instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from jbt import runtime
from jbt.border import files
from jbt.border.report import Report, Section, nats, signed, with_interval
from jbt.identifiability import (
    BiasEstimate,
    Profile,
    estimate_bias,
    grid_around,
    null_space,
    profile,
)
from jbt.identifiability.likelihood import PROFILE_DROP
from jbt.kernel.fit import fit_map
from jbt.own.fits.batch import Batch, Group
from jbt.own.tables.tables import Tables
from jbt.types import Design, Fit, Prior, Rows, Status, Variant, Verdicts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIRECTIONS_SHOWN = 6
"""Null directions said in a report; of the others, how many there are."""

ANY = (Status.FLAT, Status.DISCONNECTED)
"""Where any value of c fits equally well."""


@dataclass(frozen=True, eq=False)
class Identified:
    """What one judge's verdicts on one pool say about one coefficient c. Numbers are NaN where
    undefined; c is in logits per unit of the covariate."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    covariate: str
    """With its transformation, as `Batch.covariates`."""
    unit: str
    """What c is a number of logits per."""
    rank: int
    """Of the design matrix of the comparisons made."""
    n_columns: int
    """Its columns: contents, covariates and, unless kappa is fixed at 0, position."""
    null_directions: tuple[str, ...]
    """What the comparisons made are silent about, in words."""
    grid: np.ndarray
    """[9] values of c within 1 of `c_map`."""
    log_likelihood: np.ndarray
    """[9] profile log-likelihood there, nats."""
    profile_range: float
    """Its largest value less its smallest, nats."""
    c_map: float
    """Under the prior."""
    c_mle: float
    """Without a prior."""
    low: float
    """95 % profile-likelihood interval of c_mle; where pools of a file are merged, the interval of
    the leaderboard (`identify_merged`)."""
    high: float
    withheld: str
    """Why there is no interval although c_mle exists; else empty."""
    status: Status
    """Of c_mle, see `identifiability.estimate_bias`; NOT_CONVERGED or NOT_FINITE where c_map is
    not defined either."""

    @property
    def nullity(self) -> int:
        """How many directions the comparisons made are silent about."""
        return len(self.null_directions)

    def record(self) -> dict[str, Any]:
        """As JSON has it: the status by its name, null for what is undefined."""
        interval = files.defined([self.low, self.high])
        return {
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

    def sentence(self) -> str:
        """What the verdicts say, in plain words."""
        c, chosen = f"c[{self.covariate}]", f"the prior chose {signed(self.c_map)}"
        around = f"between {signed(self.c_map - 1)} and {signed(self.c_map + 1)}"
        said = f"the verdicts carry {nats(self.profile_range)} about {c}"
        flat = f"{said}: any value {around}, and beyond, fits equally well; {chosen}"
        if self.status == Status.FLAT:
            return flat
        if self.status == Status.DISCONNECTED:
            return f"{flat}; comparing items that nothing links yet would tell"
        if self.status == Status.SEPARATED:
            rises = self.log_likelihood[-1] > self.log_likelihood[0]
            side = "larger" if rises else "smaller"
            return f"{said} {around}: the {side} the better, without an end; {chosen}"
        if self.status == Status.CONVERGED:
            best = with_interval(self.c_mle, self.low, self.high)
            none = f"; no interval: {self.withheld}" if self.withheld else ""
            return f"{said} {around}: {best} without a prior, {signed(self.c_map)} with it{none}"
        if self.status == Status.COVARIATE_CONSTANT:
            return f"{self.covariate} never differs between the items, so that {c} changes nothing"
        if self.status == Status.NO_VERDICTS:
            return f"there is no verdict, and {c} is the prior's mean"
        return f"nothing is known about {c}: {self.status.name.lower()}"


def identify(tables: Tables, batch: Batch, prior: Prior | None = None) -> list[Identified]:
    """What the verdicts of every pool and judge say about each covariate's coefficient.

    Args:
      tables: as read.
      batch: of these tables; kappa is free or fixed at 0 as its groups have it.
      prior: of `c_map`, around which the profile is taken; default `Prior()`.

    Returns:
      One for each of `batch.pools` in their order, and each of `batch.covariates`.

    Raises:
      ValueError: the batch has no covariates.
    """
    if not batch.covariates:
        raise ValueError("no covariate whose coefficient could be identified (--covariates)")
    prior = Prior() if prior is None else prior
    names = content_names(tables)
    found: dict[int, list[Identified]] = {}
    with runtime.precision("float64"):
        for group in batch.groups:
            found.update(_of_group(batch, group, prior, names))
    return [one for i in range(len(batch.pools)) for one in found[i]]


def _of_group(
    batch: Batch, group: Group, prior: Prior, names: list[list[str]]
) -> Iterator[tuple[int, list[Identified]]]:
    measured = _measure(group.comparisons, group.design, group.variant, prior)
    curve, evidence, estimate, mode = jax.device_get(measured)
    leaves = jax.device_get((group.comparisons, group.design, group.variant))
    for i, at in enumerate(group.index.tolist()):
        comparisons, design, variant = jax.tree.map(lambda leaf, i=i: leaf[i], leaves)
        of_pool = names[at // (len(batch.pools) // len(names))]
        null = null_space(
            design,
            comparisons if isinstance(comparisons, Rows) else comparisons.shown,
            batch.covariates,
            contents=of_pool + [""] * (design.n_contents - len(of_pool)),
            position=bool(variant.kappa),
        )
        found = mode.status[i] == Status.CONVERGED
        yield (
            at,
            [
                Identified(
                    pool=batch.pools[at].pool,
                    judge=batch.pools[at].judge,
                    covariate=covariate,
                    unit=f"{batch.units} {covariate}",
                    rank=null.rank,
                    n_columns=null.n_columns,
                    null_directions=null.names,
                    grid=curve.grid[i, d],
                    log_likelihood=curve.log_likelihood[i, d],
                    profile_range=float(evidence[i, d]),
                    c_map=float(mode.parameters.c[i, d]) if found else np.nan,
                    c_mle=float(estimate.c[i, d]),
                    low=float(estimate.low[i, d]),
                    high=float(estimate.high[i, d]),
                    withheld="",
                    status=Status(int(estimate.status[i, d] if found else mode.status[i])),
                )
                for d, covariate in enumerate(batch.covariates)
            ],
        )


@jax.jit
def _measure(
    comparisons: Verdicts, design: Design, variant: Variant, prior: Prior
) -> tuple[Profile, Array, BiasEstimate, Fit]:
    """Of every pool and covariate the profile around the MAP, its range, and the estimate without
    a prior; of every pool the MAP."""

    def one(comparisons: Verdicts, design: Design, variant: Variant) -> tuple:
        mode = fit_map(comparisons, design, prior, variant)

        def of(d: Int[Array, ""]) -> tuple[Profile, Float[Array, ""], BiasEstimate]:
            grid = grid_around(mode.parameters.c[d])
            curve = profile(comparisons, design, grid, covariate=d, variant=variant)
            estimate = estimate_bias(comparisons, design, covariate=d, variant=variant)
            return curve, curve.range(), estimate

        return *jax.vmap(of)(jnp.arange(design.n_covariates)), mode

    return jax.vmap(one)(comparisons, design, variant)


def content_names(tables: Tables) -> list[list[str]]:
    """Of each pool, in the order in which its items show them, as a `Batch` numbers them."""
    once = tables.items.drop_duplicates(["pool", "content"])
    names: list[list[str]] = [[] for _ in tables.pools]
    for pool, content in zip(once["pool"].tolist(), once["content"].tolist(), strict=True):
        names[pool].append(tables.contents[content])
    return names


def table(found: list[Identified]) -> pd.DataFrame:
    """The records as a table: a row for each pool, judge and covariate."""
    records = []
    for one in found:
        record = one.record()
        interval = record.pop("c_interval") or [None, None]
        record["null_directions"] = "; ".join(record["null_directions"])
        records.append({**record, "c_low": interval[0], "c_high": interval[1]})
    return pd.DataFrame(records)


def report(title: str, lead: Sequence[str], found: list[Identified]) -> Report:
    """In words: a section a covariate, a line a judge; where there are several pools, in short."""
    sections = []
    for covariate in dict.fromkeys(one.covariate for one in found):
        of = [one for one in found if one.covariate == covariate]
        judges = dict.fromkeys(one.judge for one in of)
        lines = [
            f"{judge or 'all verdicts'}: {_in_short([o for o in of if o.judge == judge])}"
            for judge in judges
        ]
        sections.append(Section(f"c[{covariate}], logits per {of[0].unit}", lines))
    silent = Counter(name for one in found for name in set(one.null_directions))
    total = len(found)
    lines = [
        f"{name} (in {n} of {total})" if total > 1 else name
        for name, n in silent.most_common(DIRECTIONS_SHOWN)
    ]
    if len(silent) > DIRECTIONS_SHOWN:
        lines.append(f"and {len(silent) - DIRECTIONS_SHOWN} others, see --json or --out")
    sections.append(Section("Directions that the comparisons made are silent about", lines))
    return Report(title, lead, sections)


def _in_short(found: list[Identified]) -> str:
    """One judge's verdicts about one coefficient, over its pools."""
    if len(found) == 1:
        return found[0].sentence()
    statuses = Counter(one.status.name.lower() for one in found)
    said = ", ".join(f"{status} in {n}" for status, n in statuses.items())
    evidence = [one.profile_range for one in found if not np.isnan(one.profile_range)]
    measured = [one for one in found if one.status == Status.CONVERGED]
    chosen = [one.c_map for one in found if one.status in ANY]
    parts = [f"{said} of {len(found)} pools"]
    if evidence:
        largest = nats(max(evidence))
        parts.append(
            f"{nats(float(np.median(evidence)))} about c in a pool (median), at most {largest}"
        )
    if measured:
        middle = np.median([one.c_mle for one in measured])
        parts.append(f"without a prior {signed(float(middle))} (median of {len(measured)})")
    if chosen:
        middle = signed(float(np.median(chosen)))
        where = f"where any value fits as well, the prior chose {middle}"
        parts.append(f"{where} (median of {len(chosen)})")
    return "; ".join(parts)


def figure(found: list[Identified]) -> Figure:
    """Profile curves, a panel a covariate: of a few pools each by itself, over c; of many, a
    judge's median and central 90 %, around the MAP."""
    from jbt.border import plots

    covariates = list(dict.fromkeys(one.covariate for one in found))
    drawn, axes = plots.new_figure(len(covariates))
    for ax, covariate in zip(np.atleast_1d(axes), covariates, strict=True):
        of = [one for one in found if one.covariate == covariate]
        few = len(of) <= len(plots.CYCLE)
        if few:
            for i, one in enumerate(of):
                width = 1.5 * (len(of) - i)  # so that flat ones do not hide each other
                _draw_curve(ax, one, color=plots.CYCLE[i], linewidth=width)
        else:
            judges = list(dict.fromkeys(one.judge for one in of))
            for i, judge in enumerate(judges):
                colour, width = plots.CYCLE[i % len(plots.CYCLE)], 1.5 * (len(judges) - i)
                some = [one for one in of if one.judge == judge]
                _draw_band(ax, some, colour=colour, linewidth=width)
        ax.axhline(
            -PROFILE_DROP, color="grey", linewidth=0.8, linestyle=":", label="95 % by the profile"
        )
        ax.set_xlabel(f"{'c' if few else 'c less its MAP'}, logits per {of[0].unit}")
        ax.set_ylabel("profile log-likelihood less its largest, nats")
        ax.legend(fontsize="small")
    return drawn


def _draw_curve(ax: Axes, one: Identified, **style: Any) -> None:
    label = one.pool if one.judge is None else f"{one.pool}, {one.judge}"
    label += f": {nats(one.profile_range)}"
    ax.plot(one.grid, _below(one), label=label, **style)
    if one.status == Status.CONVERGED:
        ax.plot([one.low, one.high], [-PROFILE_DROP] * 2, "|-", color=style["color"], ms=8)


def _draw_band(ax: Axes, found: list[Identified], **style: Any) -> None:
    from jbt.border import plots

    finite = [one for one in found if np.isfinite(one.profile_range)]
    if not finite:
        return
    low, middle, high = np.quantile([_below(one) for one in finite], [0.05, 0.5, 0.95], axis=0)
    label = f"{found[0].judge or 'all verdicts'}, {len(finite)} pools"
    plots.band(ax, np.linspace(-1, 1, len(middle)), middle, low, high, label=label, **style)


def _below(one: Identified) -> np.ndarray:
    return one.log_likelihood - one.log_likelihood.max()
