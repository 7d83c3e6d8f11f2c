"""Table of `judges`: each judge, quantities over judges, and results of small studies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats, twins
from jbt.experiments.labelled_arrays import where
from jbt.experiments.table import Table
from jbt.simulation.judges import PUBLISHED, Published
from jbt.twins import TARGETS, CalibrationError

from .._shared import calibration
from .._shared.calibration import ANY, SHARE, SIGNED
from . import significance
from .significance import constant

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from . import Judges

BIASED, COMPETENT = "biased", "competent"
"""Entries of the column `judge`: the mean over the paper's five biased judges, and the fourteen
judges of its correlations."""
INPUTS = ("naive", "order_swap")
"""Models whose recall at k = 5 twins are calibrated to; with ties as halves, the order swap leaves
the naive estimate."""
BANK: dict[str, Any] = {"pool": "statement_bank"}

Reduce = Callable[..., np.ndarray]
"""Means [..., J] of J judges, an array a quantity -> [...] one number."""


@dataclasses.dataclass(frozen=True)
class Twins:
    """Results of some judges' twins, and the table that they go into."""

    t: Table
    judges: Sequence[Published]
    results: xr.Dataset
    """Of twins as calibrated."""
    displaced: Sequence[xr.Dataset]
    """Of twins displaced in either direction."""
    errors: Sequence[CalibrationError]
    """[condition] errors of calibration."""

    @classmethod
    def read(
        cls, ds: xr.Dataset, judges: Sequence[Published], t: Table, n_pools: int, n_displaced: int
    ) -> Twins:
        """Those in results, which may hold more judges and more pools than asked for."""
        names = [p.name for p in judges]
        results, *ways = (
            where(ds, judge=names, displaced=way).isel(pool=slice(n_displaced if way else n_pools))
            for way in (0.0, *twins.DISPLACED)
        )
        return cls(t, judges, results, ways, calibration.errors(results, ways, judges))

    @property
    def counts(self) -> list[int]:
        """Pools of each judge in the paper."""
        return [p.pools for p in self.judges]

    def opened(self, name: str, **at: Any) -> xr.Dataset:
        """A number at those of the labels that it has, beside the same with the calibration's
        error; see `calibration.opened`."""
        number, *ways = (
            ds[name].sel({dim: label for dim, label in at.items() if dim in ds[name].dims})
            for ds in (self.results, *self.displaced)
        )
        of_ways = (way.transpose("condition", ..., "pool").values.astype(float) for way in ways)
        errors = list(zip(self.errors, *of_ways, strict=True))
        return calibration.opened(number.transpose("condition", ..., "pool"), errors)

    def values(self, name: str, **at: Any) -> np.ndarray:
        """[J, P] numbers."""
        return self.opened(name, **at)["value"].values.astype(float)

    def carried(self, name: str, **at: Any) -> tuple[np.ndarray, np.ndarray]:
        """Numbers [J, P] with the calibration's error, which studies are drawn from, and the
        additional standard deviation of a study's mean [J]."""
        opened = self.opened(name, **at)
        return opened["pools"].values, calibration.blur_of(opened)

    def means(self, name: str, *, interval: Any = None, **at: Any) -> None:
        """Add means over pools. Its columns are in `at`, its labels where it has them."""
        columns = {n: v for n, v in at.items() if not isinstance(v, list)} | BANK
        numbers = self.opened(name, **at), _within(name)
        calibration.add_means(self.t, name, *numbers, interval=interval, **columns)

    def reduced(
        self,
        quantity: str,
        values: Sequence[np.ndarray],
        reduce: Reduce,
        studies: Sequence[np.ndarray] | None = None,
        **setting: Any,
    ) -> None:
        """Add a row of one number computed from the means of several judges.

        Args:
          values: [J, P] each.
          studies: [R, J] each, means of studies of the paper's size, if the paper has the number.
        """
        stacked, n = np.stack(values), values[0].shape[-1]

        def of(means: np.ndarray) -> np.ndarray:
            return reduce(*np.moveaxis(means, -2, 0))

        resampled = of(stats.bootstrap_means(stacked, seed=self.t.seed))
        interval = stats.percentiles(resampled[np.isfinite(resampled)], n_units=n)
        estimate = float(of(stacked.mean(-1)))
        of_studies = None if studies is None else constant(reduce(*studies))
        columns = {"n_items": 30, **BANK, **setting}
        self.t.add(quantity, estimate, interval, n, studies=of_studies, **columns)


def _within(name: str) -> tuple[float, float]:
    """The least and the largest possible number."""
    return SIGNED if name.startswith(("benefit", "corr")) else SHARE


def fill(ds: xr.Dataset, s: Judges, t: Table) -> None:
    """Add every row of the table."""
    naive = ds["recall"].sel(model="naive", drop=True)
    ds = ds.assign(benefit=ds["recall"] - naive)

    def read(judges: Sequence[Published]) -> Twins:
        return Twins.read(where(ds, n_items=30), judges, t, s.pools, s.displaced_pools)

    from . import N_PROBES, TARGETS

    group = read(TARGETS)
    judge_rows(group)
    probes(group, N_PROBES)
    large(ds, group, s.large_pools)
    biased = read([p for p in PUBLISHED.values() if p.group == "biased"])
    biased_means(biased)
    significance.fill(biased)
    correlations(read([p for p in PUBLISHED.values() if p.group != "weak"]))
    honesty(group, s)


def judge_rows(group: Twins) -> None:
    """Add the quantities of the paper's table and further ones, for each judge."""
    # The targets are given: these rows show their scatter over studies, without calibration error.
    recall = group.results["recall"].sel(k=5)
    group.t.means("recall", recall.sel(model=list(INPUTS)), **BANK)
    others = [model for model in recall["model"].values.tolist() if model not in INPUTS]
    group.means("recall", k=5, model=others)
    for name in ("c_hat", "kappa_hat"):
        group.t.means(name, group.results[name], model="bias_aware", k=5, **BANK)
    for model in ("bias_aware", "residualised", "order_swap_dropped"):
        group.means("benefit", model=model, k=5)
    group.means("corr_naive_x", k=5, model="naive")
    group.means("uncertain", k=5)


def probes(group: Twins, n_probes: int) -> None:
    """Add each judge's verdicts on pairs of equal quality, with Wilson's interval over all pairs:
    the two orders of a pair are one observation. The pairs are not of the pools behind the
    targets."""

    def wilson(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, means = shares.shape[-1] * n_probes, shares.mean(-1)
        counts = [round(mean * n) for mean in means.tolist()]
        ends = [stats.count_interval(count, n, method="wilson")[1:] for count in counts]
        low, high = np.transpose(ends)
        return means, low, high

    group.means("probe_preference", interval=wilson, k=5)


def large(ds: xr.Dataset, group: Twins, n_pools: int) -> None:
    """Add rows of larger pools, which are not the pools behind the targets."""
    ds = ds.isel(condition=np.flatnonzero(ds["n_items"].values != 30))
    at = [p.name for p in group.judges].index(ds["judge"].values[0])
    found = Twins.read(ds, [group.judges[at]], group.t, n_pools, n_pools)
    # Targets of the same judge in other pools than these.
    next_pools = np.arange(found.results.sizes["pool"]) + 1
    targets = group.errors[at].targets
    targets = targets[:, next_pools % targets.shape[-1]]
    error = dataclasses.replace(group.errors[at], targets=targets, steps=found.errors[0].steps)
    found = dataclasses.replace(found, errors=[error])
    found.means("recall", k=10, model=["naive", "bias_aware"])
    found.means("benefit", k=10, model="bias_aware")


def study_means(
    values: np.ndarray,
    counts: Sequence[int],
    seed: int,
    blur: np.ndarray | None = None,
    within: tuple[float, float] = ANY,
) -> np.ndarray:
    """Means [R, J] of studies like the paper's: as many pools of each judge as the paper has, and
    the same pools for all judges as far as they go. Twins also share their draws on a pool, which
    the paper's judges need not; this hardly adds to the scatter of means over judges.

    Args:
      values: [J, P].
      counts: [J] pools of each judge.
      blur: [J] additional standard deviation of a study's mean.
      within: the smallest and the largest possible number.
    """
    rng = np.random.default_rng([seed, values.shape[-1], max(counts)])
    drawn = rng.integers(0, values.shape[-1], (stats.REPLICATES, max(counts)))
    studies = np.stack([v[drawn[:, :n]].mean(-1) for v, n in zip(values, counts, strict=True)], -1)
    if blur is not None:
        studies = studies + blur * rng.normal(size=studies.shape)
    return np.clip(studies, *within)


def biased_means(group: Twins) -> None:
    """Add means over the biased judges: of recall with equal weights for pools, as .61 and .85 in
    the paper; of the gain with equal weights for judges."""
    from scipy.stats import ttest_1samp

    counts, seed = group.counts, group.t.seed

    def row(quantity: str, name: str, reduce: Reduce, **at: Any) -> None:
        values, (carried, blur) = group.values(name, **at), group.carried(name, **at)
        studies = study_means(carried, counts, seed, blur, _within(name))
        if name == "recall" and at["model"] in INPUTS and at["k"] == 5:  # the targets are given
            studies = study_means(values, counts, seed)
        group.reduced(quantity, [values], reduce, [studies], judge=BIASED, **at)

    share = np.array(counts) / sum(counts)
    for model in group.results["model"].values.tolist():
        for k in group.results["k"].values.tolist():
            row("recall", "recall", lambda v: v @ share, model=model, k=k)
    gain, naive = {"model": "bias_aware", "k": 5}, {"model": "naive", "k": 5}
    row("benefit", "benefit", lambda v: v.mean(-1), **gain)
    row("corr_naive_x_least", "corr_naive_x", lambda v: v.min(-1), **naive)
    row("corr_naive_x_largest", "corr_naive_x", lambda v: v.max(-1), **naive)
    row("p_clusters", "benefit", lambda v: np.asarray(ttest_1samp(v, 0.0, axis=-1)[1]), **gain)


def correlations(group: Twins) -> None:
    """Add Spearman's correlations of the gain with competence and c_hat, over competent judges."""
    from scipy.stats import rankdata

    def correlation(*pair: np.ndarray) -> np.ndarray:
        # float32 recalls that are equal are tied
        ranks = [rankdata(np.round(v, 6), axis=-1) for v in pair]
        x, y = (r - r.mean(-1, keepdims=True) for r in ranks)
        with np.errstate(invalid="ignore"):
            return (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))

    gain = {"model": "bias_aware", "k": 5}
    gains, (carried, blur) = group.values("benefit", **gain), group.carried("benefit", **gain)
    studies = study_means(carried, group.counts, group.t.seed, blur)
    for target, values in (
        ("naive_recall", group.values("recall", model="naive", k=5)),
        ("c_hat", group.values("c_hat")),
    ):
        # In the paper the competence and c_hat are the targets themselves.
        aims = np.array([twins.aim_of(p)[TARGETS.index(target)] for p in group.judges])
        both = [np.broadcast_to(aims, studies.shape), studies]
        columns: dict[str, Any] = {"judge": COMPETENT, "model": target, "k": 5}
        group.reduced("spearman", [values, gains], correlation, both, **columns)


def honesty(group: Twins, s: Judges) -> None:
    """Add how many targets each twin misses on these pools, and how many of the paper's numbers are
    tested and `no`."""
    t, ds = group.t, group.results
    recall = ds["recall"].sel(model="naive", k=5)
    numbers = {"c_hat": ds["c_hat"], "kappa_hat": ds["kappa_hat"], "naive_recall": recall}
    for i, (published, twin) in enumerate(zip(group.judges, s.twins, strict=True)):
        means = {name: float(values.isel(condition=i).mean()) for name, values in numbers.items()}
        missed = dataclasses.replace(twin, **means).misses(published)
        row = {"judge": published.name, "oracle": twin.oracle, "n_items": 30, "k": 5, **BANK}
        t.add("targets_missed", len(missed), n_pools=ds.sizes["pool"], **row)
    rows = t.frame()
    rows = rows[is_evidence(rows)]
    t.add("cells_tested", len(rows))
    t.add("cells_inconsistent", int((rows.consistent == "no").sum()))


def is_evidence(table: pd.DataFrame) -> pd.Series[bool]:
    """Mark rows whose agreement is evidence about the model: neither inputs nor arithmetic."""
    return table.consistent.isin(["yes", "no"]) & (table.quantity != "p_min")
