"""Where length is legitimate: correlations of quality and length that the paper's two real tasks
may have.

For SummEval and Nectar the paper prints c_hat and the recall of both models, and says that length
is correlated with quality, but not how strongly. The three numbers are simulated for judges on a
grid of correlation, bias and discrimination. The region holds the correlations at which a study of
the paper's size could not reject some judge of the grid. The judges draw their verdicts.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from jaxtyping import Array, Key
from scipy.stats import chi2

from jbt import estimators
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.simulation import judges, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Prior

from ._shared.scenario import every_verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

SHOWN = ("c_hat", "naive_recall", "bias_aware_recall")


@dataclass(frozen=True)
class Reported:
    """The paper's numbers of a task (appendix, "Limitations"), and sizes that it leaves out."""

    n_items: int
    """Answers of a prompt (count); SummEval's is not in the paper."""
    k: int
    """Size of the top set (count)."""
    c_hat: float
    """Logits per standard deviation of length."""
    naive_recall: float
    bias_aware_recall: float
    pools: int
    """Prompts behind the means (count)."""


TASKS: Mapping[str, Reported] = {
    "summeval": Reported(16, 5, 0.79, 0.52, 0.43, 20),
    "nectar": Reported(7, 2, 0.53, 0.58, 0.52, 20),
}
"""SummEval's size of the top set and Nectar's prompts are not stated: 5 and 20 are assumed."""


@dataclass(frozen=True, kw_only=True)
class Settings(declare.Sweep):
    pools: int = 512
    rho: tuple[float, ...] = tuple(round(0.1 * i - 0.3, 1) for i in range(13))
    """Correlations of quality and length, increasing."""
    bias: tuple[float, ...] = tuple(round(0.125 * i - 0.5, 3) for i in range(21))
    """True biases c* (logits per standard deviation of length), increasing."""
    discrimination: tuple[float, ...] = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 1.6)
    """Logits per standard deviation of quality, increasing."""
    summeval_k: int = TASKS["summeval"].k
    """Size of SummEval's top set, which is not stated (count)."""
    interaction: float = 0.0
    """Growth gamma* of every judge's bias with quality (logits per standard deviation of each)."""
    nectar_pools: int = TASKS["nectar"].pools
    """Prompts of Nectar, which are not stated (count)."""


PRESETS = {
    "smoke": Settings(pools=32, rho=(0.0, 0.4), bias=(0.0, 0.5), discrimination=(0.4, 1.0)),
    "paper": Settings(pools=20),
    "full": Settings(),
}


def experiment(task: Reported, k: int) -> Experiment:
    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pools.gaussian(stream(key, "pool"), task.n_items, sd=1.0, rho=condition["rho"])
        judge = judges.of_condition(condition)
        verdicts = every_verdict(key, pool, judge)
        naive = estimators.naive(verdicts, pool.design, Prior())
        aware = estimators.bias_aware(verdicts, pool.design, Prior())
        return {
            "c_hat": aware.parameters.c[0],
            "naive_recall": metrics.top_k_recall(naive.parameters.theta, pool.quality, k),
            "bias_aware_recall": metrics.top_k_recall(aware.parameters.theta, pool.quality, k),
            "status": aware.status,
        }

    return one


def reported(s: Settings) -> dict[str, Reported]:
    """Tasks with the assumed sizes of the settings."""
    return {
        "summeval": replace(TASKS["summeval"], k=s.summeval_k),
        "nectar": replace(TASKS["nectar"], pools=s.nectar_pools),
    }


def groups(s: Settings) -> list[declare.Group]:
    declare.check_increasing("rho", s.rho)
    pools.check_rho(s.rho, "continuous")
    declare.check_increasing("bias", s.bias)
    declare.check_increasing("discrimination", s.discrimination, least=0.0)
    for name, least in (("nectar_pools", 2), ("pools", len(SHOWN) + 1)):
        if getattr(s, name) < least:
            raise ValueError(f"{name} must be at least {least}, got {getattr(s, name)}")
    tasks = reported(s)
    for task in tasks.values():
        declare.check_top(task.k, task.n_items)
    at = np.array(list(itertools.product(s.rho, s.bias, s.discrimination)))
    labels = {"rho": at[:, 0], "bias": at[:, 1], "discrimination": at[:, 2]}
    conditions = labels | {"position": np.zeros(len(at))}
    conditions["interaction"] = np.full(len(at), s.interaction)
    return [
        declare.Group(
            name,
            experiment(task, task.k),
            conditions,
            {"task": [name] * len(at), **labels},
            task.n_items,
            s.pools,
            fits=2,
        )
        for name, task in tasks.items()
    ]


def distances(simulated: np.ndarray, printed: np.ndarray, n: int) -> np.ndarray:
    """Squared distance of the printed numbers from the mean of studies of n pools, in units of
    their scatter (Hotelling): chi-squared with three degrees of freedom if the condition is the
    truth.

    Args:
      simulated: [C, 3, P] numbers of each pool.
      printed: [3].

    Returns:
      [C].
    """
    mean = simulated.mean(-1)
    off = simulated - mean[..., None]
    scatter = off @ off.swapaxes(-1, -2) / (simulated.shape[-1] - 1)
    scatter += 1e-9 * np.eye(len(printed))  # for conditions under which all pools are alike
    apart = mean - printed
    return n * (apart * np.linalg.solve(scatter, apart[..., None])[..., 0]).sum(-1)


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    limit = float(chi2.ppf(0.95, len(SHOWN)))
    t.add("limit", limit)
    for name, task in reported(s).items():
        of_task = ds.isel(condition=np.flatnonzero(ds["task"].values == name))
        simulated = np.stack(
            [of_task[m].transpose("condition", "pool").values for m in SHOWN], axis=1
        )
        simulated = simulated.astype(float)
        apart = distances(simulated, np.array([getattr(task, m) for m in SHOWN]), task.pools)
        possible = []
        for rho in s.rho:
            inside = np.flatnonzero(np.isclose(of_task["rho"].values, rho))
            best = inside[apart[inside].argmin()]
            at: dict[str, Any] = {n: of_task[n].values[best] for n in ("bias", "discrimination")}
            at |= {"task": name, "rho": rho}
            if apart[best] <= limit:
                possible.append(rho)
            t.add("least_distance", apart[best], n_pools=simulated.shape[-1], **at)
            for m in SHOWN:
                t.means(m, of_task[m].isel(condition=int(best)).reset_coords(drop=True), **at)
        t.add("judges_possible", float((apart <= limit).sum()), task=name)
        ends = (min(possible), max(possible)) if possible else (np.nan, np.nan)
        t.add("rho_least", ends[0], task=name)
        t.add("rho_largest", ends[1], task=name)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: the distances and the region."""
    return table[~table.quantity.isin(SHOWN)]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.facets(len(TASKS), width=5.6)
    for ax, name in zip(axes, TASKS, strict=True):
        draw_region(ax, table[table.task == name], table, name, s)
    return fig


def draw_region(ax: Axes, rows: pd.DataFrame, table: pd.DataFrame, name: str, s: Settings) -> Axes:
    task = reported(s)[name]
    distances_here = rows[rows.quantity == "least_distance"]
    limit = table[table.quantity == "limit"].estimate.iloc[0]
    label = "nearest judge of the grid"
    ax.plot(
        distances_here.rho, distances_here.estimate, "o-", color=plots.COLOURS["blue"], label=label
    )
    ax.axhline(limit, color="black", linestyle=":", label="95 % of studies of its size")
    inside = distances_here.estimate <= limit
    ax.fill_between(
        distances_here.rho.astype(float),
        0,
        limit,
        where=inside,
        alpha=0.2,
        color=plots.COLOURS["green"],
        label="possible",
    )
    ax.set_yscale("symlog", linthresh=1)
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_ylabel(r"squared distance from what is printed ($\chi^2_3$)")
    ax.set_title(f"{name}: N = {task.n_items}, k = {task.k}, {task.pools} prompts")
    ax.legend(fontsize=8)
    return ax


SWEEP = declare.legacy(
    "legitimate",
    "Correlations of quality and length that the paper's SummEval and Nectar numbers allow.",
    PRESETS,
    groups,
    ("task", "rho", "bias", "discrimination"),
    table,
    figure,
    units={
        "bias": "logits per standard deviation of length",
        "discrimination": "logits per standard deviation of quality",
        "c_hat": "logits per standard deviation of length",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
