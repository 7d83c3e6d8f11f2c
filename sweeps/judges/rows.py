"""Table of `judges`: each judge, quantities over judges, and results of small studies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from jbt import stats, twins
from jbt.experiments.labelled_arrays import rows_of
from jbt.experiments.table import Carried, Table
from jbt.simulation.judges import SECOND_DOMAIN, Published
from jbt.twins import TARGETS, CalibrationError, Twin

from .._shared import calibration
from .._shared.calibration import SHARE, SIGNED
from . import significance
from .significance import constant

if TYPE_CHECKING:
    import pandas as pd

BIASED, COMPETENT = "biased", "competent"
"""Entries of the column `judge`: the mean over the paper's five biased judges, and the fourteen
judges of its correlations."""
SECOND = SECOND_DOMAIN.name
N_BIASED, N_COMPETENT = 5, 14
"""Judges of the paper's means and correlations; over fewer, ours would not be comparable."""
INPUTS = ("naive", "order_swap")
"""Models whose recall at k = 5 twins are calibrated to; with ties as halves, the order swap leaves
the naive estimate."""
CORRELATIONS = ("corr_naive_x", "corr_residualised")
SHARES = ("flip_rate", "position_flips", "uncertain")
PROBES = tuple(
    f"{what}{content}"
    for what in ("probe_preference", "probe_first")
    for content in ("", "_other_content")
)
FLIPPED, PRINTED_FLIPS = "gpt_4o_mini", 0.08
"""The judge that the paper asked twice, and the share of its verdicts that changed."""
ANY = (-np.inf, np.inf)

Number = Callable[[xr.Dataset], xr.DataArray]
"""Results -> [condition, ..., pool] numbers whose mean over pools is a row."""

Reduce = Callable[[np.ndarray], np.ndarray]
"""[..., V, J] means of V quantities of J judges -> [...] one number."""


@dataclasses.dataclass(frozen=True)
class Twins:
    """Results of twins: as calibrated, and displaced in either direction."""

    results: xr.Dataset
    displaced: Sequence[xr.Dataset]
    errors: Sequence[CalibrationError]
    """[condition] errors of calibration."""

    def carried(self, number: Number, within: tuple[float, float] = ANY) -> Carried:
        """Numbers [condition, ..., pool] that studies are drawn from."""
        ways = [number(ds) for ds in self.displaced]
        return calibration.carried(self.errors, number(self.results), ways, within)

    def of(self, judges: Sequence[int]) -> Twins:
        """The twins of these judges (indices)."""
        parts = [ds.isel(condition=list(judges)) for ds in (self.results, *self.displaced)]
        return Twins(parts[0], parts[1:], [self.errors[i] for i in judges])


def fill(ds: xr.Dataset, judges: Sequence[Published], simulated: Sequence[Twin], t: Table) -> None:
    """Add every row of the table, from the results, the judges of the group of 30 items and their
    twins."""
    small = ds.isel(condition=np.flatnonzero(ds["n_items"].values == 30))
    # Results may hold more pools than asked for, those of other groups.
    calibrated = calibration.at(small).isel(pool=slice(t.settings.pools))
    ways = [way.isel(pool=slice(t.settings.displaced_pools)) for way in calibration.ways(small)]
    group = Twins(calibrated, ways, calibration.errors(calibrated, ways, judges))
    judge_rows(group, t)
    probes(group, t.settings.n_probes, t)
    units(group, judges, t)
    large(ds.isel(condition=np.flatnonzero(ds["n_items"].values != 30)), group, judges, t)
    biased = [i for i, p in enumerate(judges) if p.group == "biased" and p.name != SECOND]
    if len(biased) == N_BIASED:
        biased_means(group.of(biased), [judges[i].pools for i in biased], t)
        biased_twins = group.of(biased)
        values = gain()(biased_twins.results).transpose("condition", "pool").values.astype(float)
        carried = biased_twins.carried(gain())
        oracles = biased_twins.results["oracle"].values.tolist()
        significance.fill(
            values, carried.pools.values, carried.blur, [judges[i] for i in biased], oracles, t
        )
    correlations(group, judges, t)
    honesty(calibrated, judges, simulated, t)


def verbosity(ds: xr.Dataset) -> xr.DataArray:
    return ds["corr_naive_x"]


def recall(model: str, k: int = 5) -> Number:
    return lambda ds: ds["recall"].sel(model=model, k=k)


def gain(model: str = "bias_aware", k: int = 5) -> Number:
    def number(ds: xr.Dataset) -> xr.DataArray:
        naive = recall("naive", k)(ds).drop_vars("model")
        return ds["recall"].sel(model=model, k=k) - naive

    return number


def judge_rows(group: Twins, t: Table) -> None:
    """Add the quantities of the paper's table and further ones, for each judge."""

    def means(quantity: str, number: Number, within: tuple[float, float], **columns: Any) -> None:
        carried = group.carried(number, within)
        t.means(quantity, number(group.results), carried=carried, pool="statement_bank", **columns)

    # The targets are given: these rows show their scatter over studies, without calibration error.
    inputs: Any = {"model": list(INPUTS)}
    t.means("recall", group.results["recall"].sel(inputs | {"k": 5}), pool="statement_bank")
    means("recall", lambda ds: ds["recall"].sel(k=5).drop_sel(inputs), SHARE)
    for name in ("c_hat", "kappa_hat"):
        t.means(name, group.results[name], pool="statement_bank", model="bias_aware", k=5)
    for model in ("bias_aware", "residualised", "order_swap_dropped"):
        means("benefit", gain(model), SIGNED, model=model)
    for name in (*CORRELATIONS, *SHARES):
        columns: dict[str, Any] = {"model": "naive"} if name == "corr_naive_x" else {}
        within = SHARE if name in SHARES else SIGNED
        means(name, lambda ds, name=name: ds[name], within, **columns, k=5)


def probes(group: Twins, n_probes: int, t: Table) -> None:
    """Add each judge's verdicts on pairs of equal quality, with Wilson's interval over all pairs:
    the two orders of a pair are one observation. The pairs are not of the pools behind the
    targets."""
    n = group.results.sizes["pool"] * n_probes
    for name in PROBES:
        carried = group.carried(lambda ds, name=name: ds[name], SHARE)
        for i, (row, shares) in enumerate(rows_of(group.results[name].astype(float), t.columns)):
            mean = float(shares.mean())
            ends = stats.count_interval(round(mean * n), n, method="wilson")[1:]
            row |= {"pool": "statement_bank", "k": 5}
            t.add(name, mean, ends, len(shares), studies=row_studies(carried, i, t.seed), **row)


def row_studies(carried: Carried, i: int, seed: int) -> Callable[[int, int | None], np.ndarray]:
    """Results of studies of the i-th judge."""

    def studies(size: int, seeds: int | None) -> np.ndarray:
        pools, size_of = carried.pools.values[i], {"resamples": stats.REPLICATES}
        means = stats.bootstrap_means(pools, seed=seed, size=size, **size_of)
        return carried.drawn(means, carried.blur[i], seed)

    return studies


def units(group: Twins, judges: Sequence[Published], t: Table) -> None:
    """Add the share of uncertain pairs of the judge that was asked twice, in the unit of logits
    in which as many verdicts change as in the paper: frozen verdicts do not identify the unit."""
    for i, p in enumerate(judges):
        if p.name != FLIPPED or group.results["oracle"].values[i] != "argmax":
            continue
        judge_results = group.results.isel(condition=i)
        metrics = [judge_results[n].transpose("unit", "pool").values for n in UNIT_METRICS]
        values = np.stack(metrics).astype(float)  # [2, unit, P]

        def uncertain(v: np.ndarray) -> np.ndarray:
            flat = v.reshape(-1, 2, v.shape[-1])
            shares = [np.interp(-PRINTED_FLIPS, -flips, share) for flips, share in flat]
            return np.reshape(shares, v.shape[:-2])

        at = {"judge": p.name, "oracle": "argmax", "k": 5}
        reduced(t, "uncertain_at_printed_flips", values, uncertain, **at)


UNIT_METRICS = ("unit_flip_rate", "unit_uncertain")


def large(ds: xr.Dataset, group: Twins, judges: Sequence[Published], t: Table) -> None:
    """Add rows of larger pools, which are not the pools behind the targets."""
    if not ds.sizes["condition"]:
        return
    names = [p.name for p in judges]
    ds = ds.isel(pool=slice(t.settings.large_pools))
    calibrated, ways = calibration.at(ds), calibration.ways(ds)
    error = group.errors[names.index(str(calibrated["judge"].values[0]))]
    # Targets of the same judge in other pools than these.
    next_pools = np.arange(calibrated.sizes["pool"]) + 1
    targets = error.targets[:, next_pools % error.targets.shape[-1]]
    steps = ways[0]["steps"].isel(condition=0).transpose("parameter", "pool").values
    large_twins = Twins(
        calibrated, ways, [dataclasses.replace(error, targets=targets, steps=steps)]
    )

    def means(quantity: str, number: Number, within: tuple[float, float], **columns: Any) -> None:
        carried = large_twins.carried(number, within)
        t.means(quantity, number(calibrated), carried=carried, pool="statement_bank", **columns)

    models = ["naive", "bias_aware"]
    means("recall", lambda ds: ds["recall"].sel(k=10, model=models), SHARE)
    means("benefit", gain(k=10), SIGNED, model="bias_aware")


def study_means(
    values: np.ndarray,
    counts: Sequence[int],
    seed: int,
    blur: np.ndarray | None = None,
    within: tuple[float, float] = ANY,
) -> np.ndarray:
    """Means [R, V, J] of studies like the paper's: as many pools of each judge as the paper has,
    and the same pools for all judges as far as they go. Twins also share their draws on a pool,
    which the paper's judges need not; this hardly adds to the scatter of means over judges.

    Args:
      values: [V, J, P].
      counts: [J] pools of each judge.
      blur, within: as in `Carried`, [V, J].
    """
    rng = np.random.default_rng([seed, values.shape[-1], max(counts)])
    drawn = rng.integers(0, values.shape[-1], (stats.REPLICATES, max(counts)))
    means = [values[:, j][:, drawn[:, :n]].mean(-1) for j, n in enumerate(counts)]  # each [V, R]
    studies = np.moveaxis(np.stack(means), -1, 0).swapaxes(1, 2)
    if blur is not None:
        studies = studies + blur * rng.normal(size=(len(studies), 1, len(counts)))
    return np.clip(studies, *within)


def reduced(
    t: Table,
    quantity: str,
    values: np.ndarray,
    reduce: Reduce,
    studies: np.ndarray | None = None,
    **setting: Any,
) -> None:
    """Add a row of one number computed from the means of several judges.

    Args:
      values: [V, J, P].
      studies: [R, V, J] means of studies of the paper's size, if the paper has the number.
    """
    resampled = reduce(stats.bootstrap_means(values, seed=t.seed))
    n = values.shape[-1]
    interval = stats.percentiles(resampled[np.isfinite(resampled)], n_units=n)
    reduced_studies = None if studies is None else reduce(studies)
    t.add(
        quantity,
        float(reduce(values.mean(-1))),
        interval,
        n,
        studies=None if reduced_studies is None else constant(reduced_studies),
        n_items=30,
        pool="statement_bank",
        **setting,
    )


def biased_means(group: Twins, counts: Sequence[int], t: Table) -> None:
    """Add means over the biased judges: of recall with equal weights for pools, as .61 and .85 in
    the paper; of the gain with equal weights for judges."""

    def row(
        quantity: str,
        number: Number,
        reduce: Reduce,
        within: tuple[float, float],
        given: bool = False,
        **columns: Any,
    ) -> None:
        values = number(group.results).transpose("condition", "pool").values.astype(float)[None]
        if given:
            studies = study_means(values, counts, t.seed)
        else:
            carried = group.carried(number, within)
            pools, blur = carried.pools.values[None], carried.blur[None]
            studies = study_means(pools, counts, t.seed, blur, within)
        reduced(t, quantity, values, reduce, studies, judge=BIASED, **columns)

    share = np.array(counts) / sum(counts)
    for model in group.results["model"].values:
        for k in group.results["k"].values:
            columns: dict[str, Any] = {"model": str(model), "k": int(k)}
            given = str(model) in INPUTS and k == 5
            number_of = recall(str(model), int(k))
            row("recall", number_of, lambda v: v[..., 0, :] @ share, SHARE, given, **columns)
    columns = {"model": "bias_aware", "k": 5}
    row("benefit", gain(), lambda v: v[..., 0, :].mean(-1), SIGNED, **columns)
    for name, extreme in (("least", np.min), ("largest", np.max)):

        def of_each_study(v: np.ndarray, extreme: Callable[..., Any] = extreme) -> np.ndarray:
            return extreme(v[..., 0, :], -1)

        columns = {"model": "naive", "k": 5}
        row(f"corr_naive_x_{name}", verbosity, of_each_study, SIGNED, **columns)

    def p_value(v: np.ndarray) -> np.ndarray:
        from scipy.stats import ttest_1samp

        test: Any = ttest_1samp(v[..., 0, :], 0.0, axis=-1)
        return np.asarray(test.pvalue)

    row("p_clusters", gain(), p_value, SIGNED, model="bias_aware", k=5)


def correlations(group: Twins, judges: Sequence[Published], t: Table) -> None:
    """Add Spearman's correlations of the gain with competence and c_hat, over competent judges."""
    from scipy.stats import rankdata

    chosen = [i for i, p in enumerate(judges) if p.group != "weak" and p.name != SECOND]
    if len(chosen) < N_COMPETENT:
        return
    counts = [judges[i].pools for i in chosen]
    competent = group.of(chosen)

    def correlation(v: np.ndarray) -> np.ndarray:
        ranks = rankdata(np.round(v, 6), axis=-1)  # float32 recalls that are equal are tied
        ranks -= ranks.mean(-1, keepdims=True)
        x, y = ranks[..., 0, :], ranks[..., 1, :]
        with np.errstate(invalid="ignore"):
            return (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))

    against: dict[str, Number] = {"naive_recall": recall("naive"), "c_hat": lambda ds: ds["c_hat"]}
    carried_gain = competent.carried(gain())
    for name, number in against.items():
        arrays = [f(competent.results) for f in (number, gain())]
        values = [array.transpose("condition", "pool").values for array in arrays]
        # In the paper the competence and c_hat are the targets themselves.
        given = np.stack([carried_gain.pools.values, carried_gain.pools.values])
        studies = study_means(given, counts, t.seed, carried_gain.blur)
        place = TARGETS.index(name)
        studies[:, 0] = [twins.aim_of(judges[i])[place] for i in chosen]
        columns: dict[str, Any] = {"judge": COMPETENT, "model": name, "k": 5}
        reduced(t, "spearman", np.stack(values).astype(float), correlation, studies, **columns)


def honesty(
    ds: xr.Dataset, judges: Sequence[Published], simulated: Sequence[Twin], t: Table
) -> None:
    """Add how many targets each twin misses on these pools, and the `no`s expected by chance."""
    recall = ds["recall"].sel(model="naive", k=5)
    for i, (published, twin) in enumerate(zip(judges, simulated, strict=True)):
        means = {name: float(ds[name].isel(condition=i).mean()) for name in ("c_hat", "kappa_hat")}
        means["naive_recall"] = float(recall.isel(condition=i).mean())
        missed = dataclasses.replace(twin, **means).misses(published)
        where = {"judge": published.name, "oracle": twin.oracle, "n_items": 30, "k": 5}
        where |= {"n_pools": ds.sizes["pool"], "pool": "statement_bank"}
        t.add("targets_missed", len(missed), **where)
    rows = t.frame()
    rows = rows[is_evidence(rows)]
    t.add("cells_tested", len(rows))
    t.add("cells_inconsistent", int((rows.consistent == "no").sum()))
    counts = t.false_alarms()
    t.add("false_alarms_expected", counts.mean(), runs=1, studies=constant(counts))


def is_evidence(table: pd.DataFrame) -> pd.Series[bool]:
    """Mark rows whose agreement is evidence about the model: neither inputs nor arithmetic."""
    return table.consistent.isin(["yes", "no"]) & (table.quantity != "p_min")


def headline(table: pd.DataFrame, s: Any) -> pd.DataFrame:
    """Rows to print: those compared with a number of the paper that is no input, and counts."""
    tested = is_evidence(table)
    counts = ["cells_tested", "cells_inconsistent", "false_alarms_expected", "targets_missed"]
    missed = table.quantity.isin(counts) & (table.estimate > 0)
    return table[tested | missed]
