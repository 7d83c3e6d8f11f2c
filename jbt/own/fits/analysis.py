"""`jbt fit`: each judge's verdicts alone, and all judges together if asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from jbt import identifiability, quick_compilation, runtime
from jbt.border import files
from jbt.own.choices import Missing
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges
from jbt.own.fits.one_comparison import OfPools
from jbt.own.fits.one_comparison import one_comparison as on_one_comparison
from jbt.own.fits.pools import PoolFit, check_k, fit, frame
from jbt.own.fits.shared import SharedFit, coefficient_records, fit_judges
from jbt.own.fits.together import PanelFit, fit_panel
from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.shared_coefficients.one_comparison import record as record_of
from jbt.own.tables import limits
from jbt.own.tables.missing import fills
from jbt.types import Design, Prior, Status, Variant, Verdicts, check_word

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jbt.border.report import Report

KEY = ["owner", "coefficient"]

COUNTS = ("n_pools", "n_verdicts", "n_errors", "n_ties", "n_connected", "n_both_orders")


@dataclass(frozen=True, eq=False)
class Analysis:
    """The result of `jbt fit`."""

    batch: Batch
    fits: list[PoolFit]
    """Each judge's verdicts alone, in the order of `Batch.pools`."""
    shared: SharedFit
    """The coefficients of each judge alone, one for all pools, each with its own qualities."""
    judges: pd.DataFrame
    """A row for each judge: judge (None where the table names none), status (of its `shared`), sd
    (of quality), n_pools (with verdicts), n_verdicts, n_errors, n_ties, n_connected (pools with
    verdicts that connect all contents), n_both_orders (pairs of items shown in both orders),
    flip_rate (share of those whose verdicts contradict each other, see `pairs.flips`), n_ranked
    (pools whose top k were compared), differs_from_naive and differs_without_ties (how many of
    those differ; the latter NaN without ties)."""
    coefficients: pd.DataFrame
    """The rows of `shared` for c and kappa, beside the estimates of the pools' own fits (where it
    is estimated and the covariate varies): mean_over_pools, sd_over_pools, n_pools,
    n_prior_selected (how many the prior chose); profile_range (of `curves`, NaN for kappa);
    without_ties (the estimate with ties dropped; NaN where there are none or that fit did not
    converge)."""
    of_pools: pd.DataFrame
    """Those estimates: owner, coefficient, estimate, prior_selected."""
    curves: tuple[np.ndarray, np.ndarray]
    """From `profiles`."""
    missing: pd.DataFrame
    """c of each judge with every missing verdict won by the item with more of a covariate, and with
    all won by the other: owner, covariate (with its transformation), wins (whether the item with
    more of it won), estimate, low, high, basis, and n_changed, in how many pools the top k is then
    another. Empty if not asked for, or without missing verdicts."""
    joint: tuple[Batch, PanelFit] | None
    """All judges together, and the batch that was fitted; None unless asked for."""
    k: int
    """Size of the top sets."""
    one_comparison: list[OfPools | str]
    """Of each judge alone, then of all together, c on one comparison or why there is none; empty
    unless asked for."""

    def of_judge(self, g: int) -> list[PoolFit]:
        """The fits of one judge, pool by pool."""
        return self.fits[g :: len(self.judges)]

    def report(self, title: str, lead: list[str], *, per_pool: bool = False) -> Report:
        """The report; `per_pool` adds the ranking of each pool, however many there are."""
        from jbt.own.fits import report

        return report.report(self, title, lead, per_pool=per_pool)

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `pools.frame`: of each judge alone, then of all."""
        rows = []
        for g in range(len(self.judges)):
            rows += self.coefficients[self.coefficients["owner"] == g].to_dict("records")
            rows += [row for fit in self.of_judge(g) for row in fit.rows(self.batch.covariates)]
        table = frame(rows)
        if self.joint is None:
            return table
        return pd.concat([table, self.joint[1].to_frame()], ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        record: dict[str, Any] = {
            "judges": [self._judge_record(g) for g in range(len(self.judges))],
            "pools": files.plain(self.fits),
        }
        if self.joint is not None:
            record["joint"] = self.joint[1].record()
        whose = [*record["judges"], *([record["joint"]] if self.joint else [])]
        if self.one_comparison:
            for entry, one in zip(whose, self.one_comparison, strict=True):
                entry["one_comparison"] = record_of(one)
        return record

    def _judge_record(self, g: int) -> dict[str, Any]:
        judge = files.plain(self.judges)[g]
        table = self.coefficients[self.coefficients["owner"] == g]
        over_pools = "mean_over_pools", "sd_over_pools", "n_pools", "profile_range", "without_ties"
        c, kappa = coefficient_records(table, *over_pools)
        if kappa is not None:
            del kappa["profile_range"]
        slopes = self.shared.of("slope")
        slopes = slopes[slopes["owner"] == g].set_index("name")["estimate"]
        without_ties = judge["differs_without_ties"]
        filled = self.missing[self.missing["owner"] == g].drop(columns="owner")
        return {
            **{name: judge[name] for name in ("judge", "status", "sd")},
            "estimand": "average effect in such pools",
            "slope": files.plain(slopes.reindex(self.batch.covariates).tolist()),
            "c": c,
            "kappa": kappa,
            **{name: judge[name] for name in (*COUNTS, "flip_rate")},
            **({"missing": files.plain(filled)} if len(filled) else {}),
            "top_k": {
                "n_pools": judge["n_ranked"],
                "differs_from_naive": judge["differs_from_naive"],
                "differs_without_ties": None if without_ties is None else int(without_ties),
            },
        }

    def figure(self) -> Figure:
        """Qualities or coefficients of each judge alone."""
        from jbt.own.fits import figure

        return figure.figure(self)


def analyse(
    batch: Batch,
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
    missing: Missing = "drop",
    joint: tuple[Batch, Judges] | None = None,
    one_comparison: bool = False,
) -> Analysis:
    """Fit each judge's verdicts alone, and all judges together (MAP, float64).

    Args:
      batch: from `own.load`.
      k: size of the top set on which naive and bias-aware are compared.
      prior: default `Prior()`.
      spread: see `shared.fit_shared`.
      missing: whether missing verdicts are left out only, or (bounds) also filled either way.
      joint: a batch whose verdicts may include anchors (`Tables.with_anchors`), and its judges,
        for a joint fit as well.
      one_comparison: whether c on one comparison is estimated, too (`fits.one_comparison`).

    Raises:
      ValueError: a pool has no more than k contents; an argument is not allowed.
    """
    check_word("missing", missing, get_args(Missing))
    check_k(batch, k)
    shared = fit_judges(batch, prior=prior, spread=spread)
    fits = fit(batch, k=k, prior=prior, spread=spread, shared=shared)
    untied_shared, untied = None, []
    p_first = batch.tables.verdicts["p_first"]
    if (p_first == 0.5).any() and (p_first != 0.5).any():
        without = batch.of_tables(batch.tables.without_ties())
        untied_shared = fit_judges(without, prior=prior, spread=spread)
        settings: Any = {"k": k, "prior": prior, "spread": spread, "shared": untied_shared}
        untied = fit(without, **settings, intervals=False)
    judges = _judges(batch, shared, fits, untied, k)
    filled = _filled(batch, fits, missing, {"k": k, "prior": prior, "spread": spread})
    of_pools = _of_pools(batch, fits)
    curves = profiles(batch, shared)
    coefficients = _coefficients(judges, shared, untied_shared, of_pools, curves)
    panel = None
    if joint is not None:
        panel = joint[0], fit_panel(*joint, k=k, prior=prior, spread=spread)
    ones = []
    if one_comparison:
        ones = [on_one_comparison(shared, g, prior) for g in range(len(judges))]
        ones += [] if panel is None else [on_one_comparison(panel[1].shared, 0, prior)]
    return Analysis(
        batch, fits, shared, judges, coefficients, of_pools, curves, filled, panel, k, ones
    )


def _judges(
    batch: Batch, shared: SharedFit, fits: list[PoolFit], untied: list[PoolFit], k: int
) -> pd.DataFrame:
    """`Analysis.judges`; `untied` are the fits without ties, none where there are none."""
    names = batch.tables.judges
    table = pd.DataFrame(
        {
            "g": np.arange(len(fits)) % len(names),
            "n_pools": [f.n_verdicts > 0 for f in fits],
            "n_verdicts": [f.n_verdicts for f in fits],
            "n_errors": [f.n_errors for f in fits],
            "n_ties": batch.tables.counts["n_ties"].to_numpy(),
            "n_connected": [f.islands == 1 and f.n_verdicts > 0 for f in fits],
            "n_both_orders": [f.n_both_orders for f in fits],
            "flips": [f.flip_rate * f.n_both_orders if f.n_both_orders else 0.0 for f in fits],
            "n_ranked": [f.usable for f in fits],
            "differs_from_naive": [f.usable and f.top_k_differs for f in fits],
            "differs_without_ties": [
                f.usable and _first(f, k) != _first(other, k)
                for f, other in zip(fits, untied or fits, strict=True)
            ],
        }
    )
    counts = table.groupby("g").sum()
    pairs = counts["n_both_orders"]
    without_ties = counts["differs_without_ties"].where(counts["n_ties"] > 0) if untied else np.nan
    return counts.assign(
        judge=pd.Series(names, dtype=object),
        status=[status.name.lower() for status in shared.status],
        sd=shared.of("sd")["estimate"].to_numpy(),
        flip_rate=counts["flips"] / pairs.where(pairs > 0),
        differs_without_ties=without_ties,
    )


def _filled(
    batch: Batch, fits: list[PoolFit], missing: Missing, settings: dict[str, Any]
) -> pd.DataFrame:
    """`Analysis.missing`; `settings` of the pools' own fits."""
    lost, n_judges, tables = batch.tables.lost, len(batch.tables.judges), []
    asked = missing == "bounds" and len(lost) > 0
    for d, wins, filled in fills(batch.tables, batch.model.covariates) if asked else ():
        other = batch.of_tables(filled)
        shared = fit_judges(other, prior=settings["prior"], spread=settings["spread"])
        changed = np.zeros(n_judges, int)
        others = fit(other, **settings, shared=shared, intervals=False)
        for i, (one, two) in enumerate(zip(fits, others, strict=True)):
            k = settings["k"]
            changed[i % n_judges] += one.usable and two.usable and _first(one, k) != _first(two, k)
        c = shared.of("c")
        c = c.loc[c["name"] == batch.covariates[d], ["owner", "estimate", "low", "high", "basis"]]
        c.insert(1, "covariate", batch.covariates[d])
        c.insert(2, "wins", wins)
        c = c.assign(n_changed=changed[c["owner"]])
        tables.append(c[c["owner"].isin(lost["judge"])])
    columns = ["owner", "covariate", "wins", "estimate", "low", "high", "basis", "n_changed"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def _first(fit: PoolFit, k: int) -> set[str]:
    """The contents in the top k, including all tied with the last."""
    return {r.content for r in fit.ranking if r.rank <= k}


def _of_pools(batch: Batch, fits: list[PoolFit]) -> pd.DataFrame:
    """`Analysis.of_pools`."""
    rows = []
    for i, f in enumerate(fits):
        values = [
            (f"c[{name}]", "c", value)
            for name, value, constant in zip(
                batch.covariates, f.c, f.constant_covariates, strict=True
            )
            if not constant
        ]
        if not np.isnan(f.kappa):
            values.append(("kappa", "kappa", f.kappa))
        g = i % len(batch.tables.judges)
        selected = f.prior_selected
        rows += [(g, name, x, kind in selected) for name, kind, x in values if f.usable]
    return pd.DataFrame(rows, columns=pd.Index([*KEY, "estimate", "prior_selected"]))


def _coefficients(
    judges: pd.DataFrame,
    shared: SharedFit,
    untied: SharedFit | None,
    of_pools: pd.DataFrame,
    curves: tuple[np.ndarray, np.ndarray],
) -> pd.DataFrame:
    """`Analysis.coefficients`."""
    table = shared.of("c", "kappa")
    over_pools = of_pools.groupby(KEY).agg(
        mean_over_pools=("estimate", "mean"),
        sd_over_pools=("estimate", "std"),
        n_pools=("estimate", "size"),
        n_prior_selected=("prior_selected", "sum"),
    )
    table = table.join(over_pools, on=KEY)
    table = table.fillna({"n_pools": 0, "n_prior_selected": 0})
    table = table.astype({"n_pools": int, "n_prior_selected": int})
    is_c = table["quantity"] == "c"
    table["profile_range"] = np.nan
    table.loc[is_c, "profile_range"] = np.ptp(curves[1], axis=-1).ravel()
    table["without_ties"] = np.nan
    if untied is not None:
        other = untied.of("c", "kappa").set_index(KEY)
        converged = other["estimate"].where(other["status"] == Status.CONVERGED.name.lower())
        without_ties = table[KEY].join(converged, on=KEY)["estimate"]
        table["without_ties"] = without_ties.where(table["owner"].map(judges["n_ties"]) > 0)
    return table


def profiles(batch: Batch, shared: SharedFit) -> tuple[np.ndarray, np.ndarray]:
    """Profile log-likelihood of each c of each judge, summed over pools, each pool with its own
    qualities, position and other coefficients.

    Pools in which every item has its own quality are left out: quality absorbs any covariate there,
    so that the profile is flat by design.

    Args:
      shared: from `fit_judges`; `grid_around` its c gives the grids.

    Returns:
      Grids [judges, D, G], logits per unit of the covariate, and sums [judges, D, G], the
      largest 0; NaN where a point of some pool did not converge.
    """
    n_judges = len(shared.status)
    with runtime.precision("float64"):
        centres = shared.of("c")["estimate"].to_numpy().reshape(n_judges, -1)
        grids = np.asarray(jax.vmap(jax.vmap(identifiability.grid_around))(jnp.asarray(centres)))
        sums = np.zeros(grids.shape)
        for group in batch.groups:
            members = batch.sharing(group)
            if not len(members) or not grids.size:
                continue
            judge = group.index[members] % n_judges
            leaves = (group.comparisons, group.design, group.variant)
            leaves = jax.tree.map(lambda leaf, members=members: np.asarray(leaf)[members], leaves)
            arguments = (*leaves, grids[judge])
            limits.check_profiles(len(members), grids.shape[1], group.n_parameters)
            (curves,) = in_chunks(lambda s: (_profile_of(*s),), arguments, limits.AT_ONCE)
            np.add.at(sums, judge, curves)
    return grids, sums - sums.max(-1, keepdims=True)


@quick_compilation.jit
def _profile_of(comparisons: Verdicts, design: Design, variant: Variant, grids: Array) -> Array:
    """[pools, D, G]"""

    def one_pool(
        comparisons: Verdicts,
        design: Design,
        variant: Variant,
        grids: Float[Array, "D G"],
    ) -> Float[Array, "D G"]:
        def curve(covariate: Int[Array, ""], grid: Float[Array, " G"]) -> Float[Array, " G"]:
            profile = identifiability.profile(
                comparisons, design, grid, covariate=covariate, variant=variant
            )
            good = (profile.status == Status.CONVERGED) | (
                profile.status == Status.COVARIATE_CONSTANT
            )
            return jnp.where(good, profile.log_likelihood, jnp.nan)

        return jax.vmap(curve)(jnp.arange(design.n_covariates), grids)

    return jax.vmap(one_pool)(comparisons, design, variant, grids)
