"""One pool of the paired design, analysed twice: what `sweeps.paired` averages, to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jbt import estimators, identifiability, quick_compilation, runtime
from jbt.experiments import plots
from jbt.identifiability import BiasEstimate, NullSpace
from jbt.simulation import judges, pairs, pools
from jbt.types import Design, Judge, Prior, Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Analysis:
    """What the verdicts of a pool say about c in one design."""

    directions: NullSpace
    grid: np.ndarray
    """[G] values of c (logits per unit)."""
    below: np.ndarray
    """[G] profile log-likelihood less its maximum (nats)."""
    c_map: float
    estimate: BiasEstimate
    """Without a prior."""


def analysed(
    judge: Judge = judges.OPEN["llama"], n_contents: int = 15, *, sd: float = 1.2, seed: int = 3
) -> dict[str, Analysis]:
    """Draw contents, all rendered twice, judge every ordered pair once, and analyse the same
    verdicts with a quality for each rendering (`unpaired`) and for each content (`paired`).

    Args:
      n_contents: M, at least 2.
      sd: standard deviation of quality (logits).
    """
    bias_aware = quick_compilation.jit(estimators.bias_aware)
    with runtime.precision("float64"):
        of_pool, of_verdicts = jax.random.split(jax.random.key(seed))
        pool = pools.paired(of_pool, n_contents, sd=sd)
        oracle = judges.frozen_draw(of_verdicts, pool, judge)
        comparisons = judges.reveal(oracle, pairs.every_pair(pool))
        x, items = pool.design.covariates, pool.design.item_mask
        owners = {"unpaired": jnp.arange(2 * n_contents), "paired": pool.design.content}
        # Both with room for 2 M contents, so that they share their programs.
        designs = {name: Design(x, o, items, 2 * n_contents) for name, o in owners.items()}
        out = {}
        for name, design in designs.items():
            c = bias_aware(comparisons, design, Prior()).parameters.c[0]
            profile = identifiability.profile(
                comparisons, design, identifiability.grid_around(c, points=17)
            )
            curve = np.asarray(profile.log_likelihood)
            out[name] = Analysis(
                identifiability.null_space(design, np.asarray(comparisons.shown), ["elaboration"]),
                np.asarray(profile.grid),
                curve - curve.max(),
                float(c),
                jax.tree.map(np.asarray, identifiability.estimate_bias(comparisons, design)),
            )
    return out


def frame(analyses: Mapping[str, Analysis]) -> pd.DataFrame:
    """A row for each design: null directions, evidence within the grid, and c with and without a
    prior."""
    import pandas as pd

    rows = []
    for name, a in analyses.items():
        known = int(a.estimate.status) == Status.CONVERGED
        ends = (a.estimate.c, a.estimate.low, a.estimate.high)
        c, low, high = (float(v) if known else np.nan for v in ends)
        rows.append(
            {
                "design": name,
                "null directions": "; ".join(a.directions.names),
                "nats about c": float(-a.below.min()),
                "c, by the prior": a.c_map,
                "c, without": c,
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(rows)


def draw_profiles(ax: Axes, analyses: Mapping[str, Analysis], truth: float) -> Axes:
    """Draw the profile log-likelihood of c in each design."""
    for (name, a), colour in zip(analyses.items(), plots.CYCLE, strict=False):
        ax.plot(a.grid, a.below, color=colour, linewidth=2)
        ax.plot(a.c_map, 0, "o", color=colour)
        start = (a.grid[0], a.below[0])
        ax.annotate(name, start, (4, 6), textcoords="offset points", color=colour)
    ax.axvline(truth, color="black", linewidth=0.8, linestyle=":")
    ax.set_xlabel("c, logits for the verbose rendering (dotted: truth; dots: with the prior)")
    ax.set_ylabel("profile log-likelihood less its largest, nats")
    ax.margins(y=0.1)
    ax.set_title("Unpaired, every c fits equally well")
    return ax
