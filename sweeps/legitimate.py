"""Where length is legitimate: correlations of quality and length that the paper's two real tasks
may have.

For SummEval and Nectar the paper prints c_hat and the recall of both models, and says that length
is correlated with quality, but not how strongly. The three numbers are simulated for judges on a
grid of correlation, bias and discrimination. The region holds the correlations at which a study of
the paper's size could not reject some judge of the grid. The judges draw their verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, NamedTuple

import numpy as np

from jbt import estimators
from jbt.experiments.declare import Group, Sweep, cases, check_increasing
from jbt.experiments.labelled_arrays import scalars, where
from jbt.experiments.plots import Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges, pools
from jbt.simulation.simulate import stream
from jbt.types import Prior

from ._shared.scenario import every_verdict

SHOWN = ("c_hat", "naive_recall", "bias_aware_recall")
"""The paper's numbers of a task."""
LIMIT = 7.814727903251179
"""0.95 quantile of the chi-squared distribution with three degrees of freedom."""


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
TITLES = {
    "summeval": "SummEval's numbers need a correlation\nof quality and length",
    "nectar": "Nectar's numbers allow any\ncorrelation tried up to 0.8",
}
"""Of the panels."""


class Cell(NamedTuple):
    """A task, and a judge of the grid."""

    task: str
    rho: float
    bias: float
    discrimination: float


@dataclass(frozen=True, kw_only=True)
class Legitimate(Sweep):
    """Correlations of quality and length that the paper's SummEval and Nectar numbers allow."""

    name = "legitimate"
    columns = Cell._fields
    presets = {
        "smoke": {
            "pools": 32,
            "rho": (0.0, 0.4),
            "bias": (0.0, 0.5),
            "discrimination": (0.4, 1.0),
        },
        "paper": {"pools": 20},
    }
    panel_size = {"width": 4.6, "height": 3.8}
    units = {
        **dict.fromkeys(("bias", "c_hat"), "logits per standard deviation of length"),
        "discrimination": "logits per standard deviation of quality",
    }

    pools: int = 512
    """Pools simulated at every condition (count, at most 2^32)."""
    rho: Annotated[tuple[float, ...], check_increasing] = tuple(
        round(0.1 * i - 0.3, 1) for i in range(13)
    )
    """Correlations of quality and length, increasing."""
    bias: Annotated[tuple[float, ...], check_increasing] = tuple(
        round(0.125 * i - 0.5, 3) for i in range(21)
    )
    """True biases c* (logits per standard deviation of length), increasing."""
    discrimination: Annotated[tuple[float, ...], partial(check_increasing, least=0.0)] = (
        0.0,
        0.03,
        0.06,
        0.1,
        0.15,
        0.2,
        0.3,
        0.4,
        0.6,
        1.0,
        1.6,
    )
    """Logits per standard deviation of quality, increasing."""
    interaction: float = 0.0
    """Growth gamma* of every judge's bias with quality (logits per standard deviation of each)."""

    def check(self):
        super().check()
        pools.check_rho(self.rho, "continuous")

    def experiment(self, task, key, condition):
        """One prompt: every ordered pair judged once, c_hat and recall of both models."""
        pool = pools.gaussian(stream(key, "pool"), task.n_items, sd=1.0, rho=condition["rho"])
        verdicts = every_verdict(key, pool, judges.of_condition(condition))
        naive = estimators.naive(verdicts, pool.design, Prior()).parameters
        aware = estimators.bias_aware(verdicts, pool.design, Prior())
        return {
            "c_hat": aware.parameters.c[0],
            "naive_recall": metrics.top_k_recall(naive.theta, pool.quality, task.k),
            "bias_aware_recall": metrics.top_k_recall(aware.parameters.theta, pool.quality, task.k),
            "status": aware.status,
        }

    def groups(self):
        return [
            Group(
                name,
                partial(self.experiment, task),
                **cases(
                    [*map(Cell._make, product([name], self.rho, self.bias, self.discrimination))],
                    position=lambda _: 0.0,
                    interaction=lambda _: self.interaction,
                ),
                n_items=task.n_items,
                pools=self.pools,
                fits=2,
            )
            for name, task in TASKS.items()
        ]

    def table(self, ds, t):
        for name, task in TASKS.items():
            of_task = where(ds, task=name)
            simulated = [of_task[m].transpose("condition", "pool").values for m in SHOWN]
            printed = np.array([getattr(task, m) for m in SHOWN])
            apart = distances(np.stack(simulated, axis=1).astype(float), printed, task.pools)
            of_task = of_task.assign(apart=("condition", apart))
            possible = []
            for rho in self.rho:
                of_rho = where(of_task, rho=rho)["apart"]
                nearest = of_rho.isel(condition=of_rho.values.argmin())
                least = nearest.item()
                possible += [rho] * (least <= LIMIT)
                at = scalars(nearest, t.columns)
                t.add("least_distance", least, n_pools=ds.sizes["pool"], **at)
            t.add("rho_least", min(possible, default=np.nan), task=name)
            t.add("rho_largest", max(possible, default=np.nan), task=name)

    def panels(self, table):
        return [
            Panel(
                "rho",
                {"quantity": "least_distance", "task": task},
                [Line({}, "_", "blue", {"marker": "o"})],
                (
                    "correlation of quality and length",
                    "distance from the paper's numbers ($\\chi^2_3$;\nline: its 0.95 quantile)",
                    title,
                ),
                level=LIMIT,
                log="y",
            )
            for task, title in TITLES.items()
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


SWEEP = Legitimate

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
