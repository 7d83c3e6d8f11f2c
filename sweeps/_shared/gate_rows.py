"""Rows of `sweeps.gate`: how often a rule enables the correction in a class of pools, what follows,
the labels that it takes, and families of pools that share one decision."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import gate, stats
from jbt.experiments.labelled_arrays import rows_of, where
from jbt.experiments.table import Studies
from jbt.gate import LABELS

from . import prices

if TYPE_CHECKING:
    import xarray as xr

    from jbt.experiments.table import Table

HARMED = ("agreement_harmed", "recall_harmed")
"""Classes of pools that the correction does not help, in the order of pairs and in recall."""
TESTS = ("sign", "sign_sequential")
HALF = 60.0
"""Disputed pairs of the case built at exactly one half."""
FAMILY = (5, 10, 20, 40, 60)
"""Pools of a family that are labelled once each for one decision (count)."""
STUDY = 12
"""Pools of each judge in the paper's study, 60 over five judges."""


def classes(part: xr.Dataset) -> dict[str, xr.DataArray]:
    """Membership of the pools in each class, 0 or 1."""
    rises = part["bias_aware_recall"] > part["naive_recall"] + 1e-6
    harmed = part["right"] <= part["wrong"], ~rises
    members = {**dict(zip(HARMED, harmed, strict=True)), "helped": rises, "all": rises | ~rises}
    return {name: inside.astype(float) for name, inside in members.items()}


def stacked(values: xr.DataArray, t: Table) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Columns of each row, and the rows' numbers [rows, pool]."""
    rows, numbers = zip(*rows_of(values, t.columns), strict=True)
    return list(rows), np.stack(numbers)


def studies_of(values: np.ndarray, seed: int, of_means: Any = lambda means: means[:, 0]) -> Studies:
    """Numbers of studies of so many pools, made of means [R, n] of values [n, pool]."""

    def studies(size: int, _: int | None) -> np.ndarray:
        drawn = stats.bootstrap_means(values, seed=seed, size=size, resamples=stats.REPLICATES)
        return of_means(drawn)

    return studies


def over_last(means: np.ndarray) -> np.ndarray:
    """Ratios [R, n - 1] of means [R, n] to the last; NaN where that is 0."""
    with np.errstate(invalid="ignore"):
        return means[:, :-1] / means[:, -1:]


def add_means(t: Table, quantity: str, values: xr.DataArray, **columns: Any) -> None:
    """Add means over judges and pools [judge, pool, ...], in the precision of the simulation."""
    rows, pools = stacked(values.mean("judge"), t)
    numbers = zip(*stats.mean_interval(pools, seed=t.seed), strict=True)
    for row, of_row, (mean, *interval) in zip(rows, pools, numbers, strict=True):
        studies = studies_of(of_row[None], t.seed)
        t.add(quantity, mean, interval, len(of_row), studies=studies, **row | columns)


def add_rates(t: Table, enable: xr.DataArray, inside: xr.DataArray, **columns: Any) -> None:
    """Add enable rates over the pools of a class, with the pool as the unit over all judges.

    Args:
      enable: [judge, pool, ...], a row for each of the other dimensions.
      inside: [judge, pool] 1 for the class.
    """
    if not inside.any():
        return
    rows, above = stacked((enable * inside).mean("judge"), t)
    both = np.concatenate([above, inside.mean("judge").values[None]])
    resampled = over_last(stats.bootstrap_means(both, seed=t.seed))
    ends = np.nanquantile(resampled, [0.025, 0.975], axis=0).T
    n = int(inside.any("judge").sum())
    for i, row in enumerate(rows):
        studies = studies_of(both[[i, -1]], t.seed, lambda means: over_last(means)[:, 0])
        interval = tuple(ends[i]) if n >= stats.FEWEST else (np.nan, np.nan)
        rate = above[i].mean() / both[-1].mean()
        t.add("enable_rate", rate, interval, n, studies=studies, **row | columns)


def add_counts(
    t: Table, enable: xr.DataArray, inside: xr.DataArray, sets: int, **columns: Any
) -> None:
    """Add false enables, decisions, pools with a false enable for any judge, and the upper end of
    the 95 % interval of their share (Clopper and Pearson)."""
    n = int(inside.any("judge").sum())
    touched = ((enable > 0) & (inside > 0)).any("judge").sum("pool")
    false = (enable * inside).sum(("judge", "pool")) * sets
    both = (rows_of(values, t.columns) for values in (false, touched))
    for (row, count), (_, n_touched) in zip(*both, strict=True):
        row |= {**columns, "n_pools": n}
        t.add("false_enables", round(float(count)), **row)
        t.add("decisions", int(inside.sum()) * sets, **row)
        t.add("pools_touched", int(n_touched), **row)
        t.add("cp_upper", stats.count_interval(int(n_touched), n)[2] if n else np.nan, **row)


def add_study_counts(t: Table, enable: xr.DataArray, sets: int, **columns: Any) -> None:
    """Add what a study of the paper's size counts where no enable is right: false enables, pools of
    a judge with one, and the mean upper end of the 95 % interval of their share (Clopper and
    Pearson).

    Args:
      enable: [judge, pool, ...] shares of the label sets.
    """
    counts = {
        "study_false_enables": enable.sum("judge") * sets,
        "study_pools_touched": (enable > 0).sum("judge"),
    }
    for quantity, of_pools in counts.items():
        rows, values = stacked(of_pools.astype(float), t)
        numbers = STUDY * np.stack(stats.mean_interval(values, seed=t.seed), -1)
        for row, pools, (mean, *interval) in zip(rows, values, numbers, strict=True):
            studies = partial(study_sums, pools, t.seed)
            row |= {**columns, "n_pools": len(pools)}
            t.add(quantity, mean, interval, studies=studies, **row)
    rows, values = stacked(counts["study_pools_touched"].astype(float), t)
    for row, pools in zip(rows, values, strict=True):
        studies = partial(study_upper_ends, pools, len(enable["judge"]), t.seed)
        row |= {**columns, "n_pools": len(pools)}
        t.add("study_cp_upper", studies(STUDY, None).mean(), studies=studies, **row)


def study_sums(values: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Sums of values [pool] in studies of so many pools."""
    return size * studies_of(values[None], seed)(size, seeds)


def study_upper_ends(
    touched: np.ndarray, n_judges: int, seed: int, size: int, seeds: int | None
) -> np.ndarray:
    """Upper ends of the interval of the share of touched pools in such studies, from the number of
    judges [pool] for which a pool is touched."""
    counts = np.rint(study_sums(touched, seed, size, seeds)).astype(int)
    n = n_judges * size
    ends = np.array([stats.count_interval(k, n)[2] for k in range(counts.max() + 1)])
    return ends[counts]


def add_power(t: Table, part: xr.Dataset, power: float, **columns: Any) -> None:
    """Add the labels bought until a test enables in the wanted share of helped pools, by kind of
    label; how many times fewer they are than labels of random pairs; and their cost as a multiple
    of a pool's comparisons."""
    helped = classes(part)["helped"]
    if not helped.any():
        return
    n = int(helped.any("judge").sum())

    def add(quantity: str, values: np.ndarray, **row: Any) -> None:
        t.add(quantity, values[0], prices.of_resamples(values[1:], n), n, **columns, **row)

    def curve(name: str, labels: str, decision: int) -> np.ndarray:
        """[K, pool] sums over helped pools of the judges, small and large K together."""
        prefixes = ("", "many_") if f"many_{name}" in part else ("",)
        of_test = [part[p + name].sel(labels=labels).isel(decision=decision) for p in prefixes]
        weighted = [(v * helped).mean("judge").transpose(..., "pool").values for v in of_test]
        return np.concatenate(weighted)

    for at, (rule, alpha) in enumerate(zip(part.rule.values, part.alpha.values, strict=True)):
        if rule not in TESTS:
            continue
        needed = {}
        for labels in LABELS:
            curves = [curve(name, labels, at) for name in ("labels_used", "enable_rate")]
            rows = np.concatenate([*curves, helped.mean("judge").values[None]])
            resampled = stats.bootstrap_means(rows, seed=t.seed)
            means = over_last(np.concatenate([rows.mean(-1)[None], resampled]))
            bought, enabled = np.split(means, 2, axis=1)
            needed[labels] = prices.first_reached(bought, enabled, power)
        for labels, spent in needed.items():
            row = {"rule": rule, "labels": labels, "alpha": alpha}
            add("labels_needed", spent, **row)
            if labels != "pairs":
                add("times_fewer", needed["pairs"] / spent, **row)
            for sharing in prices.SHARING:
                cost = prices.overhead(spent * prices.LABEL, prices.POOL, sharing)
                add("overhead", cost, n_sharing=sharing, **row)


def add_families(t: Table, ds: xr.Dataset, drifts: tuple[float, ...], **columns: Any) -> None:
    """Add decisions for whole families of pools, on one label in each of some pools, and their
    effect on the family's mean recall; the conditions [rho] are those of one judge."""
    rho = ds["rho"].values
    levels = [a for a, rule in zip(ds.alpha.values, ds.rule.values, strict=True) if rule == "sign"]
    kinds = {"disputed": ("right", "wrong"), "members": ("right_member", "wrong_member")}
    gain = (ds["bias_aware_recall"] - ds["naive_recall"]).values
    for labels, names in kinds.items():
        right, wrong = (ds[name].values for name in names)
        if labels == "disputed":
            right, wrong = (v / np.maximum(right + wrong, 1) for v in (right, wrong))
        for drift in drifts:
            for mean in rho:
                weights = family_weights(rho, mean, drift)
                of_pool = np.stack([weights @ v for v in (right, wrong, gain)])
                resampled = stats.bootstrap_means(of_pool, seed=t.seed)
                means = np.concatenate([of_pool.mean(-1)[None], resampled])
                for alpha in levels:
                    for n in FAMILY:
                        rate = family_rate(means[:, 0], means[:, 1], n, alpha)
                        row = {"rule": "sign", "labels": labels, "alpha": alpha, "n_anchors": n}
                        row |= {**columns, "rho": mean, "drift": drift, "n_pools": len(gain[0])}
                        effects = {"enable_rate": rate, "benefit": rate * means[:, 2]}
                        for effect, values in effects.items():
                            interval = stats.percentiles(values[1:], n_units=row["n_pools"])
                            t.add(f"family_{effect}", values[0], interval, **row)


def exact_size(labels: str, n: int, alpha: float) -> float:
    """Chance that `sign` enables in the case built at one half."""
    from scipy.stats import binom, hypergeom

    critical = gate.critical_values(alpha, n)
    if labels == "disputed":
        drawn = min(n, int(HALF))
        return float(hypergeom(int(HALF), int(HALF) // 2, drawn).sf(critical[drawn] - 1))
    # One of two is good on either side: a draw is discordant half of the time.
    discordant = np.arange(n + 1)
    size = binom.sf(critical - 1, discordant, 0.5)
    return float(binom.pmf(discordant, n, 0.5) @ size)


def family_rate(right: np.ndarray, wrong: np.ndarray, n_labels: int, alpha: float) -> np.ndarray:
    """Chance that `sign` enables for a family of pools of one judge, on one label in each of some.

    Args:
      right, wrong: chances that the label of a pool drawn at random is so, of one shape.
      n_labels: labelled pools (count).
      alpha: level of the test.
    """
    from scipy.stats import binom

    n = np.arange(n_labels + 1)
    discordant = np.minimum(right + wrong, 1.0)[..., None]  # rounded, it may lie above
    share = np.minimum(np.asarray(right)[..., None] / np.maximum(discordant, 1e-12), 1.0)
    critical = gate.critical_values(alpha, n_labels)
    return (binom.pmf(n, n_labels, discordant) * binom.sf(critical - 1, n, share)).sum(-1)


def family_weights(rho: np.ndarray, mean: float, drift: float) -> np.ndarray:
    """Weights [rho] of the simulated correlations, increasing, in a family whose correlations are
    normal about a mean. Each pool takes the nearest simulated correlation, so that the ends are cut
    off."""
    from scipy.stats import norm

    if not drift:
        return (rho == mean).astype(float)
    ends = np.concatenate([[-np.inf], (rho[1:] + rho[:-1]) / 2, [np.inf]])
    return np.diff(norm.cdf(ends, mean, drift))


def at_rho(ds: xr.Dataset, rho: float) -> xr.Dataset:
    """Conditions of all judges with true labels at a correlation, by judge."""
    part = where(ds, noise_kind="none", rho=rho).swap_dims(condition="judge")
    return part.drop_vars(["noise_kind", "noise", "rho"])
