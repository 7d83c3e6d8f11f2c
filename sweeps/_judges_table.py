"""The table of `judges`: each judge, what holds over judges, and what small studies can show."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from jbt import stats
from jbt.judges import SECOND_DOMAIN, Published
from jbt.tables import Table, rows_of
from jbt.twins import Twin

if TYPE_CHECKING:
    import pandas as pd

BIASED, COMPETENT = "biased", "competent"
"""In the column `judge`: the mean over the paper's five, and the fourteen of its correlations."""
SECOND = SECOND_DOMAIN.name
N_BIASED, N_COMPETENT = 5, 14
"""Means and correlations over fewer judges than the paper's are not comparable with its."""
LEVEL, POWER, MOST_POOLS = 0.05, 0.8, 12
"""Of tests; of studies that find a gain; pools up to which such studies are looked for."""
PLAIN = ("c_hat", "kappa_hat", "corr_naive_x", "corr_residualised")
SHARES = ("flip_rate", "position_flips", "uncertain")
PROBES = tuple(
    f"{what}{content}"
    for what in ("probe_preference", "probe_first")
    for content in ("", "_other_content")
)
FLIPPED, PRINTED_FLIPS = "gpt_4o_mini", 0.08
"""The judge that the paper asked twice, and the share of its verdicts that changed."""
WIDTHS, WIDTH_RESAMPLES = 400, 1000
"""Studies whose bootstrap intervals are made, and resamples of each."""

Reduce = Callable[[np.ndarray], np.ndarray]
"""[..., V, J] means of V quantities of J judges -> [...] one number."""


def fill(ds: xr.Dataset, judges: Sequence[Published], simulated: Sequence[Twin], t: Table) -> None:
    """Every row of the table, from the results, the judges of the group of 30 items and the twins
    in their place."""
    small = ds.isel(condition=np.flatnonzero(ds["n_items"].values == 30))
    small = small.isel(pool=slice(t.settings.pools))  # there may be more large pools than these
    of_each(small, t)
    probes(small, t.settings.n_probes, t)
    units(small, judges, t)
    large(ds.isel(condition=np.flatnonzero(ds["n_items"].values != 30)), t)
    recall = small["recall"].transpose("condition", "model", "k", "pool").astype(float)
    biased = [i for i, p in enumerate(judges) if p.group == "biased" and p.name != SECOND]
    if len(biased) == N_BIASED:
        of_biased(recall, small, judges, biased, t)
        tests(recall, judges, biased, t)
    over_judges(recall, small, judges, t)
    honesty(small, judges, simulated, t)


def of_each(ds: xr.Dataset, t: Table) -> None:
    """What the paper's table has of each judge, and what can be said beside."""
    recall = ds["recall"]
    at = {"pool": "statement_bank"}
    t.means("recall", recall.sel(k=5), **at)
    naive = recall.sel(k=5, model="naive").drop_vars("model")
    for model in ("bias_aware", "residualised", "order_swap_dropped"):
        t.means("benefit", recall.sel(k=5, model=model) - naive, **at, model=model)
    for name in (*PLAIN, *SHARES):
        model = {"c_hat": "bias_aware", "kappa_hat": "bias_aware", "corr_naive_x": "naive"}
        told: dict[str, Any] = {"model": model[name]} if name in model else {}
        t.means(name, ds[name], **at, **told, k=5)


def probes(ds: xr.Dataset, n_probes: int, t: Table) -> None:
    """What each judge says of pairs of equal quality, with Wilson's interval over all pairs: the
    two orders of a pair are one observation."""
    n = ds.sizes["pool"] * n_probes
    for name in PROBES:
        for row, shares in rows_of(ds[name].astype(float), t.columns):
            mean = float(shares.mean())
            ends = stats.count_interval(round(mean * n), n, method="wilson")[1:]
            row |= {"pool": "statement_bank", "k": 5}
            t.add(name, mean, ends, len(shares), studies=study_of_shares(shares, t.seed), **row)


def study_of_shares(shares: np.ndarray, seed: int) -> Callable[[int, int | None], np.ndarray]:
    """What studies of some probes find; [P] a share a probe."""

    def studies(size: int, seeds: int | None) -> np.ndarray:
        return stats.bootstrap_means(shares, seed=seed, size=size, resamples=stats.REPLICATES)

    return studies


def units(ds: xr.Dataset, judges: Sequence[Published], t: Table) -> None:
    """Of how many pairs the judge that was asked twice is uncertain in the unit of its logits in
    which as many of its verdicts change as the paper found: frozen verdicts do not tell the unit.
    """
    for i, p in enumerate(judges):
        if p.name != FLIPPED or ds["oracle"].values[i] != "argmax":
            continue
        mine = ds.isel(condition=i)
        both = [mine[n].transpose("unit", "pool").values for n in UNIT_METRICS]
        values = np.stack(both).astype(float)  # [2, unit, P]

        def uncertain(v: np.ndarray) -> np.ndarray:
            flat = v.reshape(-1, 2, v.shape[-1])
            found = [np.interp(-PRINTED_FLIPS, -flips, share) for flips, share in flat]
            return np.reshape(found, v.shape[:-2])

        at = {"judge": p.name, "oracle": "argmax", "k": 5}
        counts = [p.pools] * values.shape[1]
        reduced(t, "uncertain_at_printed_flips", values, counts, uncertain, **at)


UNIT_METRICS = ("unit_flip_rate", "unit_uncertain")


def large(ds: xr.Dataset, t: Table) -> None:
    if ds.sizes["condition"]:
        recall = ds["recall"].sel(k=10).dropna("pool")  # there are fewer of these pools
        t.means("recall", recall.sel(model=["naive", "bias_aware"]), pool="statement_bank")
        gain = recall.sel(model="bias_aware") - recall.sel(model="naive").drop_vars("model")
        t.means("benefit", gain, pool="statement_bank", model="bias_aware")


def of_studies(values: np.ndarray, counts: Sequence[int], seed: int) -> np.ndarray:
    """Means [R, V, J] that studies like the paper's find: as many pools of each judge as it has,
    the same pools for all judges as far as they go. Twins share their draws on a pool too, which
    judges of the paper need not; the means of several hardly scatter the more for it.

    Args:
      values: [V, J, P].
      counts: [J] pools of each judge.
    """
    rng = np.random.default_rng([seed, values.shape[-1], max(counts)])
    drawn = rng.integers(0, values.shape[-1], (stats.REPLICATES, max(counts)))
    means = [values[:, j][:, drawn[:, :n]].mean(-1) for j, n in enumerate(counts)]  # each [V, R]
    return np.moveaxis(np.stack(means), -1, 0).swapaxes(1, 2)


def reduced(
    t: Table,
    quantity: str,
    values: np.ndarray,
    counts: Sequence[int],
    reduce: Reduce,
    **setting: Any,
) -> None:
    """A row of one number made of the means of several judges; values [V, J, P]."""
    resampled = reduce(stats.bootstrap_means(values, seed=t.seed))
    n = values.shape[-1]
    interval = stats.percentiles(resampled[np.isfinite(resampled)], n_units=n)
    t.add(
        quantity,
        float(reduce(values.mean(-1))),
        interval,
        n,
        studies=lambda size, seeds: reduce(of_studies(values, counts, t.seed)),
        n_items=30,
        pool="statement_bank",
        **setting,
    )


def of_biased(
    recall: xr.DataArray,
    ds: xr.Dataset,
    judges: Sequence[Published],
    biased: Sequence[int],
    t: Table,
) -> None:
    """Means over the biased judges, each counted alike."""
    counts = [judges[i].pools for i in biased]
    mine = recall.isel(condition=list(biased))

    def mean(v: np.ndarray) -> np.ndarray:
        return v[..., 0, :].mean(-1)

    for model in mine["model"].values:
        for k in mine["k"].values:
            values = mine.sel(model=model, k=k).values[None]
            told: dict[str, Any] = {"judge": BIASED, "model": str(model), "k": int(k)}
            reduced(t, "recall", values, counts, mean, **told)
    gain = (mine.sel(model="bias_aware", k=5) - mine.sel(model="naive", k=5)).values[None]
    reduced(t, "benefit", gain, counts, mean, judge=BIASED, model="bias_aware", k=5)
    correlation = ds["corr_naive_x"].isel(condition=list(biased)).values.astype(float)[None]
    for name, of in (("least", np.min), ("largest", np.max)):

        def extreme(v: np.ndarray, of: Callable[..., np.ndarray] = of) -> np.ndarray:
            return of(v[..., 0, :], -1)

        told: dict[str, Any] = {"judge": BIASED, "model": "naive", "k": 5}
        reduced(t, f"corr_naive_x_{name}", correlation, counts, extreme, **told)

    def p_value(v: np.ndarray) -> np.ndarray:
        from scipy.stats import ttest_1samp

        found: Any = ttest_1samp(v[..., 0, :], 0.0, axis=-1)
        return np.asarray(found.pvalue)

    reduced(t, "p_clusters", gain, counts, p_value, judge=BIASED, model="bias_aware", k=5)


def tests(
    recall: xr.DataArray, judges: Sequence[Published], biased: Sequence[int], t: Table
) -> None:
    """Exact paired permutation tests of each biased judge, corrected over them, and what they could
    show at most."""
    if not biased:
        return
    gain = (recall.sel(model="bias_aware", k=5) - recall.sel(model="naive", k=5)).values
    counts = [judges[i].pools for i in biased]
    rng = np.random.default_rng([t.seed, max(counts)])
    drawn = rng.integers(0, gain.shape[-1], (stats.REPLICATES, max(counts)))
    found = np.stack(
        [
            stats.paired_permutation(gain[i][drawn[:, :n]], seed=t.seed)
            for i, n in zip(biased, counts, strict=True)
        ],
        axis=-1,
    )
    corrected = stats.holm(found)
    needed = pools_needed(gain[list(biased)], t.seed)
    for place, i in enumerate(biased):
        told: dict[str, Any] = {
            "judge": judges[i].name,
            "model": "bias_aware",
            "pool": "statement_bank",
        }
        told |= {"oracle": recall["oracle"].values[i], "n_items": 30, "k": 5}
        n = gain.shape[-1]
        # Of all our pools it is 0 but for the number of permutations: what studies find is meant.
        median = float(np.median(corrected[:, place]))
        t.add("p_holm", median, n_pools=n, studies=_constant(corrected[:, place]), **told)
        widths = interval_widths(gain[i], counts[place], t.seed)
        t.add("gain_interval_width", widths.mean(), n_pools=n, studies=_constant(widths), **told)
        share = float((corrected[:, place] < LEVEL).mean())
        t.add("power_at_paper_size", share, n_pools=n, **told)
        least = stats.smallest_p(counts[place])
        t.add("p_min", least, studies=_constant(np.full(1, least)), **told)
        t.add("pools_for_80_power", needed[place], n_pools=n, **told)


def _constant(found: np.ndarray) -> Callable[[int, int | None], np.ndarray]:
    return lambda size, seeds: found


def interval_widths(gain: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Widths [R] of the 95 % percentile-bootstrap intervals that studies of `size` pools have for
    the mean of gains [P]."""
    rng = np.random.default_rng([seed, len(gain), size])
    studies = gain[rng.integers(0, len(gain), (WIDTHS, size))]
    again = rng.integers(0, size, (WIDTH_RESAMPLES, size))
    means = np.stack([study[again].mean(-1) for study in studies])
    low, high = np.quantile(means, [0.025, 0.975], axis=-1)
    return high - low


def pools_needed(gain: np.ndarray, seed: int) -> np.ndarray:
    """Pools a study of all these judges needs so that its corrected test of each is significant in
    `POWER` of studies; NaN beyond `MOST_POOLS`, or where there are too few pools to tell.

    Args:
      gain: [F, P].
    """
    needed = np.full(len(gain), np.nan)
    for size in range(3, MOST_POOLS + 1):
        power = stats.small_study_power(gain, size=size, seed=seed, level=LEVEL)
        needed = np.where(np.isnan(needed) & (power >= POWER), size, needed)
    return needed


def over_judges(
    recall: xr.DataArray, ds: xr.Dataset, judges: Sequence[Published], t: Table
) -> None:
    """Spearman's correlation of the gain with competence and with c_hat, over competent judges."""
    from scipy.stats import rankdata

    some = [i for i, p in enumerate(judges) if p.group != "weak" and p.name != SECOND]
    if len(some) < N_COMPETENT:
        return
    counts = [judges[i].pools for i in some]
    at = recall.isel(condition=some).sel(k=5)
    naive, gain = at.sel(model="naive").values, (at.sel(model="bias_aware") - at.sel(model="naive"))
    bias = ds["c_hat"].isel(condition=some).transpose("condition", "pool").values.astype(float)

    def correlation(v: np.ndarray) -> np.ndarray:
        ranks = rankdata(np.round(v, 6), axis=-1)  # float32 recalls that are equal are tied
        ranks -= ranks.mean(-1, keepdims=True)
        x, y = ranks[..., 0, :], ranks[..., 1, :]
        with np.errstate(invalid="ignore"):
            return (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))

    for name, against in (("naive_recall", naive), ("c_hat", bias)):
        values = np.stack([against, gain.values])
        told: dict[str, Any] = {"judge": COMPETENT, "model": name, "k": 5}
        reduced(t, "spearman", values, counts, correlation, **told)


def honesty(
    ds: xr.Dataset, judges: Sequence[Published], simulated: Sequence[Twin], t: Table
) -> None:
    """How many targets each twin misses on these pools, and how many `no`s to expect by chance."""
    recall = ds["recall"].sel(model="naive", k=5)
    for i, (published, twin) in enumerate(zip(judges, simulated, strict=True)):
        found = {name: float(ds[name].isel(condition=i).mean()) for name in ("c_hat", "kappa_hat")}
        found["naive_recall"] = float(recall.isel(condition=i).mean())
        missed = dataclasses.replace(twin, **found).misses(published)
        told = {"judge": published.name, "oracle": twin.oracle, "n_items": 30, "k": 5}
        told |= {"n_pools": ds.sizes["pool"], "pool": "statement_bank"}
        t.add("targets_missed", len(missed), **told)
    rows = t.frame()
    rows = rows[is_evidence(rows)]
    t.add("cells_tested", len(rows))
    t.add("cells_inconsistent", int((rows.consistent == "no").sum()))
    t.add("false_alarms_expected", t.false_alarms())


def is_evidence(table: pd.DataFrame) -> pd.Series[bool]:
    """Rows whose agreement says something of the model: not inputs, nor what is arithmetic."""
    return table.consistent.isin(["yes", "no"]) & (table.quantity != "p_min")


def headline(table: pd.DataFrame, s: Any) -> pd.DataFrame:
    """What is printed: rows beside a number of the paper that is no input, and the counts."""
    tested = is_evidence(table)
    counts = ["cells_tested", "cells_inconsistent", "false_alarms_expected", "targets_missed"]
    missed = table.quantity.isin(counts) & (table.estimate > 0)
    return table[tested | missed]
