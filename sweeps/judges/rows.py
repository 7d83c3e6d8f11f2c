"""The table of `judges`: each judge, what holds over judges, and what small studies can show."""

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
"""In the column `judge`: the mean over the paper's five, and the fourteen of its correlations."""
SECOND = SECOND_DOMAIN.name
N_BIASED, N_COMPETENT = 5, 14
"""Means and correlations over fewer judges than the paper's are not comparable with its."""
INPUTS = ("naive", "order_swap")
"""Models whose recall at k = 5 is what twins are made to show: ties of the order swap that count as
halves leave the naive estimate."""
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
"""Results -> [condition, ..., pool] the number of each pool that a row is a mean of."""

Reduce = Callable[[np.ndarray], np.ndarray]
"""[..., V, J] means of V quantities of J judges -> [...] one number."""


@dataclasses.dataclass(frozen=True)
class Twins:
    """Results of some twins: of themselves, and displaced one way and the other."""

    own: xr.Dataset
    displaced: Sequence[xr.Dataset]
    errors: Sequence[CalibrationError]
    """Of each condition."""

    def carried(self, number: Number, within: tuple[float, float] = ANY) -> Carried:
        """What studies of a number [condition, ..., pool] are drawn from."""
        ways = [number(ds) for ds in self.displaced]
        return calibration.carried(self.errors, number(self.own), ways, within)

    def of(self, judges: Sequence[int]) -> Twins:
        """Some of them."""
        some = [ds.isel(condition=list(judges)) for ds in (self.own, *self.displaced)]
        return Twins(some[0], some[1:], [self.errors[i] for i in judges])


def fill(ds: xr.Dataset, judges: Sequence[Published], simulated: Sequence[Twin], t: Table) -> None:
    """Every row of the table, from the results, the judges of the group of 30 items and the twins
    in their place."""
    small = ds.isel(condition=np.flatnonzero(ds["n_items"].values == 30))
    # There may be more large pools than these.
    own = calibration.at(small).isel(pool=slice(t.settings.pools))
    ways = [way.isel(pool=slice(t.settings.displaced_pools)) for way in calibration.ways(small)]
    every = Twins(own, ways, calibration.errors(own, ways, judges))
    of_each(every, t)
    probes(every, t.settings.n_probes, t)
    units(every, judges, t)
    large(ds.isel(condition=np.flatnonzero(ds["n_items"].values != 30)), every, judges, t)
    biased = [i for i, p in enumerate(judges) if p.group == "biased" and p.name != SECOND]
    if len(biased) == N_BIASED:
        of_biased(every.of(biased), [judges[i].pools for i in biased], t)
        some = every.of(biased)
        values = gain()(some.own).transpose("condition", "pool").values.astype(float)
        carried = some.carried(gain())
        oracles = some.own["oracle"].values.tolist()
        significance.fill(
            values, carried.pools.values, carried.blur, [judges[i] for i in biased], oracles, t
        )
    over_judges(every, judges, t)
    honesty(own, judges, simulated, t)


def verbosity(ds: xr.Dataset) -> xr.DataArray:
    return ds["corr_naive_x"]


def recall(model: str, k: int = 5) -> Number:
    return lambda ds: ds["recall"].sel(model=model, k=k)


def gain(model: str = "bias_aware", k: int = 5) -> Number:
    def number(ds: xr.Dataset) -> xr.DataArray:
        naive = recall("naive", k)(ds).drop_vars("model")
        return ds["recall"].sel(model=model, k=k) - naive

    return number


def of_each(every: Twins, t: Table) -> None:
    """What the paper's table has of each judge, and what can be said beside."""

    def means(quantity: str, number: Number, within: tuple[float, float], **told: Any) -> None:
        of = every.carried(number, within)
        t.means(quantity, number(every.own), carried=of, pool="statement_bank", **told)

    # A study's own targets are given, whatever is carried: how they scatter over studies.
    inputs: Any = {"model": list(INPUTS)}
    t.means("recall", every.own["recall"].sel(inputs | {"k": 5}), pool="statement_bank")
    means("recall", lambda ds: ds["recall"].sel(k=5).drop_sel(inputs), SHARE)
    for name in ("c_hat", "kappa_hat"):
        t.means(name, every.own[name], pool="statement_bank", model="bias_aware", k=5)
    for model in ("bias_aware", "residualised", "order_swap_dropped"):
        means("benefit", gain(model), SIGNED, model=model)
    for name in (*CORRELATIONS, *SHARES):
        told: dict[str, Any] = {"model": "naive"} if name == "corr_naive_x" else {}
        within = SHARE if name in SHARES else SIGNED
        means(name, lambda ds, name=name: ds[name], within, **told, k=5)


def probes(every: Twins, n_probes: int, t: Table) -> None:
    """What each judge says of pairs of equal quality, with Wilson's interval over all pairs: the
    two orders of a pair are one observation. They are no pairs of the pools that gave the
    targets."""
    n = every.own.sizes["pool"] * n_probes
    for name in PROBES:
        of = every.carried(lambda ds, name=name: ds[name], SHARE)
        for i, (row, shares) in enumerate(rows_of(every.own[name].astype(float), t.columns)):
            mean = float(shares.mean())
            ends = stats.count_interval(round(mean * n), n, method="wilson")[1:]
            row |= {"pool": "statement_bank", "k": 5}
            t.add(name, mean, ends, len(shares), studies=of_row(of, i, t.seed), **row)


def of_row(of: Carried, i: int, seed: int) -> Callable[[int, int | None], np.ndarray]:
    """What studies of the i-th judge find."""

    def studies(size: int, seeds: int | None) -> np.ndarray:
        pools, more = of.pools.values[i], {"resamples": stats.REPLICATES}
        means = stats.bootstrap_means(pools, seed=seed, size=size, **more)
        return of.drawn(means, of.blur[i], seed)

    return studies


def units(every: Twins, judges: Sequence[Published], t: Table) -> None:
    """Of how many pairs the judge that was asked twice is uncertain in the unit of its logits in
    which as many of its verdicts change as the paper found: frozen verdicts do not tell the unit.
    """
    for i, p in enumerate(judges):
        if p.name != FLIPPED or every.own["oracle"].values[i] != "argmax":
            continue
        mine = every.own.isel(condition=i)
        both = [mine[n].transpose("unit", "pool").values for n in UNIT_METRICS]
        values = np.stack(both).astype(float)  # [2, unit, P]

        def uncertain(v: np.ndarray) -> np.ndarray:
            flat = v.reshape(-1, 2, v.shape[-1])
            shares = [np.interp(-PRINTED_FLIPS, -flips, share) for flips, share in flat]
            return np.reshape(shares, v.shape[:-2])

        at = {"judge": p.name, "oracle": "argmax", "k": 5}
        reduced(t, "uncertain_at_printed_flips", values, uncertain, **at)


UNIT_METRICS = ("unit_flip_rate", "unit_uncertain")


def large(ds: xr.Dataset, every: Twins, judges: Sequence[Published], t: Table) -> None:
    """Of larger pools, which are others than those that gave the targets."""
    if not ds.sizes["condition"]:
        return
    names = [p.name for p in judges]
    ds = ds.isel(pool=slice(t.settings.large_pools))
    own, ways = calibration.at(ds), calibration.ways(ds)
    error = every.errors[names.index(str(own["judge"].values[0]))]
    # The targets of other pools than these, of the same judge.
    others = np.arange(own.sizes["pool"]) + 1
    targets = error.targets[:, others % error.targets.shape[-1]]
    steps = ways[0]["steps"].isel(condition=0).transpose("parameter", "pool").values
    mine = Twins(own, ways, [dataclasses.replace(error, targets=targets, steps=steps)])

    def means(quantity: str, number: Number, within: tuple[float, float], **told: Any) -> None:
        of = mine.carried(number, within)
        t.means(quantity, number(own), carried=of, pool="statement_bank", **told)

    models = ["naive", "bias_aware"]
    means("recall", lambda ds: ds["recall"].sel(k=10, model=models), SHARE)
    means("benefit", gain(k=10), SIGNED, model="bias_aware")


def of_studies(
    values: np.ndarray,
    counts: Sequence[int],
    seed: int,
    blur: np.ndarray | None = None,
    within: tuple[float, float] = ANY,
) -> np.ndarray:
    """Means [R, V, J] that studies like the paper's find: as many pools of each judge as it has,
    the same pools for all judges as far as they go, as in the paper. Twins share their draws on a
    pool too, which judges of the paper need not; the means of several hardly scatter the more for
    it.

    Args:
      values: [V, J, P].
      counts: [J] pools of each judge.
      blur, within: of `Carried`, [V, J] where there is any.
    """
    rng = np.random.default_rng([seed, values.shape[-1], max(counts)])
    drawn = rng.integers(0, values.shape[-1], (stats.REPLICATES, max(counts)))
    means = [values[:, j][:, drawn[:, :n]].mean(-1) for j, n in enumerate(counts)]  # each [V, R]
    found = np.moveaxis(np.stack(means), -1, 0).swapaxes(1, 2)
    if blur is not None:
        found = found + blur * rng.normal(size=(len(found), 1, len(counts)))
    return np.clip(found, *within)


def reduced(
    t: Table,
    quantity: str,
    values: np.ndarray,
    reduce: Reduce,
    studies: np.ndarray | None = None,
    **setting: Any,
) -> None:
    """A row of one number made of the means of several judges.

    Args:
      values: [V, J, P].
      studies: [R, V, J] means of studies of the paper's size, if it has the number.
    """
    resampled = reduce(stats.bootstrap_means(values, seed=t.seed))
    n = values.shape[-1]
    interval = stats.percentiles(resampled[np.isfinite(resampled)], n_units=n)
    found = None if studies is None else reduce(studies)
    t.add(
        quantity,
        float(reduce(values.mean(-1))),
        interval,
        n,
        studies=None if found is None else constant(found),
        n_items=30,
        pool="statement_bank",
        **setting,
    )


def of_biased(every: Twins, counts: Sequence[int], t: Table) -> None:
    """Means over the biased judges: of recall over all of their pools, as .61 and .85 are in the
    paper; of the gain over judges, each counted alike."""

    def row(
        quantity: str,
        number: Number,
        reduce: Reduce,
        within: tuple[float, float],
        given: bool = False,
        **told: Any,
    ) -> None:
        values = number(every.own).transpose("condition", "pool").values.astype(float)[None]
        if given:
            studies = of_studies(values, counts, t.seed)
        else:
            of = every.carried(number, within)
            studies = of_studies(of.pools.values[None], counts, t.seed, of.blur[None], within)
        reduced(t, quantity, values, reduce, studies, judge=BIASED, **told)

    share = np.array(counts) / sum(counts)
    for model in every.own["model"].values:
        for k in every.own["k"].values:
            told: dict[str, Any] = {"model": str(model), "k": int(k)}
            given = str(model) in INPUTS and k == 5
            of = recall(str(model), int(k))
            row("recall", of, lambda v: v[..., 0, :] @ share, SHARE, given, **told)
    told = {"model": "bias_aware", "k": 5}
    row("benefit", gain(), lambda v: v[..., 0, :].mean(-1), SIGNED, **told)
    for name, extreme in (("least", np.min), ("largest", np.max)):

        def of_each_study(v: np.ndarray, extreme: Callable[..., Any] = extreme) -> np.ndarray:
            return extreme(v[..., 0, :], -1)

        told = {"model": "naive", "k": 5}
        row(f"corr_naive_x_{name}", verbosity, of_each_study, SIGNED, **told)

    def p_value(v: np.ndarray) -> np.ndarray:
        from scipy.stats import ttest_1samp

        test: Any = ttest_1samp(v[..., 0, :], 0.0, axis=-1)
        return np.asarray(test.pvalue)

    row("p_clusters", gain(), p_value, SIGNED, model="bias_aware", k=5)


def over_judges(every: Twins, judges: Sequence[Published], t: Table) -> None:
    """Spearman's correlation of the gain with competence and with c_hat, over competent judges."""
    from scipy.stats import rankdata

    some = [i for i, p in enumerate(judges) if p.group != "weak" and p.name != SECOND]
    if len(some) < N_COMPETENT:
        return
    counts = [judges[i].pools for i in some]
    competent = every.of(some)

    def correlation(v: np.ndarray) -> np.ndarray:
        ranks = rankdata(np.round(v, 6), axis=-1)  # float32 recalls that are equal are tied
        ranks -= ranks.mean(-1, keepdims=True)
        x, y = ranks[..., 0, :], ranks[..., 1, :]
        with np.errstate(invalid="ignore"):
            return (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))

    against: dict[str, Number] = {"naive_recall": recall("naive"), "c_hat": lambda ds: ds["c_hat"]}
    of_gain = competent.carried(gain())
    for name, number in against.items():
        both = [f(competent.own).transpose("condition", "pool").values for f in (number, gain())]
        # In the paper they are the very targets.
        given = np.stack([of_gain.pools.values, of_gain.pools.values])
        studies = of_studies(given, counts, t.seed, of_gain.blur)
        place = TARGETS.index(name)
        studies[:, 0] = [twins.aim_of(judges[i])[place] for i in some]
        told: dict[str, Any] = {"judge": COMPETENT, "model": name, "k": 5}
        reduced(t, "spearman", np.stack(both).astype(float), correlation, studies, **told)


def honesty(
    ds: xr.Dataset, judges: Sequence[Published], simulated: Sequence[Twin], t: Table
) -> None:
    """How many targets each twin misses on these pools, and how many `no`s to expect by chance."""
    recall = ds["recall"].sel(model="naive", k=5)
    for i, (published, twin) in enumerate(zip(judges, simulated, strict=True)):
        found = {name: float(ds[name].isel(condition=i).mean()) for name in ("c_hat", "kappa_hat")}
        found["naive_recall"] = float(recall.isel(condition=i).mean())
        missed = dataclasses.replace(twin, **found).misses(published)
        where = {"judge": published.name, "oracle": twin.oracle, "n_items": 30, "k": 5}
        where |= {"n_pools": ds.sizes["pool"], "pool": "statement_bank"}
        t.add("targets_missed", len(missed), **where)
    rows = t.frame()
    rows = rows[is_evidence(rows)]
    t.add("cells_tested", len(rows))
    t.add("cells_inconsistent", int((rows.consistent == "no").sum()))
    found = t.false_alarms()
    t.add("false_alarms_expected", found.mean(), runs=1, studies=constant(found))


def is_evidence(table: pd.DataFrame) -> pd.Series[bool]:
    """Rows whose agreement says something of the model: not inputs, nor what is arithmetic."""
    return table.consistent.isin(["yes", "no"]) & (table.quantity != "p_min")


def headline(table: pd.DataFrame, s: Any) -> pd.DataFrame:
    """What is printed: rows beside a number of the paper that is no input, and the counts."""
    tested = is_evidence(table)
    counts = ["cells_tested", "cells_inconsistent", "false_alarms_expected", "targets_missed"]
    missed = table.quantity.isin(counts) & (table.estimate > 0)
    return table[tested | missed]
