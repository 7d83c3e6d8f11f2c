"""What is a panel of judges worth that err together, and what does a joint fit say of it?

Each judge misjudges each answer by a normal error, which correlates between judges, and sees every
ordered pair once. The qualities are fitted to all verdicts together, taken to be independent: a
joint fit of judges without biases. What is asked is the recall of the top k, and how often a 95 %
interval of a quality holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp

from jbt import estimators
from jbt.experiments.declare import Group, NotNegative, Sweep, cases, check_increasing
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel
from jbt.kernel import metrics, model
from jbt.kernel.laplace import laplace
from jbt.simulation import pairs
from jbt.simulation.simulate import stream
from jbt.types import Comparisons

from ._shared.scenario import Scenario

PANELS = (1, 2, 3, 9)
"""Judges of a panel (count)."""
COLOURS = ("blue", "green", "orange", "vermilion", "purple", "black", "sky")
"""Of the correlations in the figure."""
NORMAL = 1.959964
"""Standard errors on either side of a 95 % interval."""


class Cell(NamedTuple):
    """How the errors of two judges correlate."""

    correlation: float


@dataclass(frozen=True, kw_only=True)
class CorrelatedJudges(Scenario, Sweep):
    """Panels of judges that err together."""

    name = "correlated_judges"
    columns = ("n_judges", "correlation")
    presets = {
        "smoke": {"pools": 8, "n_items": 12, "correlation": (0.0, 0.5)},
        "paper": {"pools": 30},
    }
    units = {
        "n_judges": "index of the panel",
        "covered": "share of the 95 % intervals of quality",
    }
    panel_size = {"width": 4.6, "height": 3.8}

    pools: int = 1000
    correlation: Annotated[tuple[float, ...], partial(check_increasing, least=0.0)] = (
        *(0.0, 0.25, 0.5, 0.75),
    )
    """Correlations between the errors of two judges, increasing, at most seven."""
    error: NotNegative = 1.0
    """Standard deviation of the error that a judge makes about an answer (logits)."""

    def check(self):
        super().check()
        self.check_pools()
        if self.correlation[-1] > 1:
            raise ValueError(f"correlation must be at most 1, got {self.correlation[-1]:g}")
        if len(self.correlation) > len(COLOURS):
            raise ValueError(f"correlation takes at most {len(COLOURS)} numbers")

    def groups(self):
        cells = [Cell(r) for r in self.correlation]
        conditions = cases(cells, sd=lambda _: self.sd, rho=lambda _: 0.0)
        return [
            Group(
                "panels",
                self.experiment,
                **conditions,
                n_items=self.n_items,
                pools=self.pools,
                axes={name: {"n_judges": range(len(PANELS))} for name in ("recall", "covered")},
                fits=sum(PANELS),
            )
        ]

    def experiment(self, key, condition):
        """One pool; a smaller panel is the first judges of a larger one."""
        pool, n = self.draw(key, condition, "binary"), self.n_items
        every, most = pairs.every_pair(pool), max(PANELS)
        errors = jax.random.normal(stream(key, "errors"), (most + 1, n), every.dtype)
        r = condition["correlation"]
        together = jnp.sqrt(r) * errors[0] + jnp.sqrt(1 - r) * errors[1:]
        seen = pool.quality + self.error * together
        uniform = jax.random.uniform(stream(key, "verdicts"), (most, n, n), every.dtype)
        wins = every * (uniform < jax.nn.sigmoid(seen[:, :, None] - seen[:, None]))

        def panel(size):
            """Of unbiased judges a joint fit is that of their counts together."""
            first = (jnp.arange(most) < size)[:, None, None]
            verdicts = Comparisons(size * every, (first * wins).sum(0))
            fit = estimators.naive(verdicts, pool.design, self.prior)
            variant = model.variant("naive", pool.design)
            posterior = laplace(fit.parameters, verdicts, pool.design, self.prior, variant)
            root = posterior.root[:, :n]
            sd = jnp.linalg.norm(root - root.mean(1, keepdims=True), axis=0)  # about the mean
            theta = fit.parameters.theta
            off = jnp.abs(theta - (pool.quality - pool.quality.mean()))
            return {
                "recall": metrics.top_k_recall(theta, pool.quality, self.k),
                "covered": (off <= NORMAL * sd).mean(),
                "status": fit.status,
            }

        found = jax.vmap(panel)(jnp.array(PANELS, every.dtype))
        return {**found, "status": found["status"].max()}

    def table(self, ds, t):
        ds = ds.assign_coords(n_judges=[*PANELS]).transpose("n_judges", ...)
        for quantity in ("recall", "covered"):
            t.means(quantity, ds[quantity])

    def answer(self, table):
        of_most = where(table, n_judges=max(PANELS))
        said = [
            f"{row.estimate:.2f} at a correlation of {row.correlation:g}"
            for row in where(of_most, quantity="covered").itertuples()
        ]
        return f"{max(PANELS)} judges: 95 % intervals hold a share of {', '.join(said)}"

    def panels(self, table):
        lines = [
            Line({"correlation": r}, f"correlation {r:g}", colour)
            for r, colour in zip(self.correlation, COLOURS, strict=False)
        ]

        def panel(quantity: str, axis: str, title: str, level: float | None = None) -> Panel:
            return Panel(
                "n_judges",
                {"quantity": quantity},
                lines,
                ("judges, each on all ordered pairs", f"{axis} (bands: 95 %)", title),
                log="x",
                ticks={"x": PANELS},
                legend=8,
                level=level,
                level_style="--",
            )

        recall = f"recall of the top {self.k}"
        covered = "intervals (95 %) that hold quality"
        return [
            panel("recall", recall, "The more errors are shared,\nthe less further judges add"),
            panel(
                "covered",
                covered,
                "With more judges, a joint fit's intervals\nhold quality more rarely (dashed: .95)",
                0.95,
            ),
        ]


SWEEP = CorrelatedJudges


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
