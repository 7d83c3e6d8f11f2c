"""What two renderings of one content tell about the bias: the paper's paired rendering design.

In `_evidence`, the paper's Table "The paired design adds information; more data does not": all
contents rendered twice, the same verdicts analysed with a quality for each rendering and for each
content. In `_pairing`, beyond the paper: only some contents rendered twice, a budget of verdicts
and a choice of comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from jbt import judges, pairs, study
from jbt.types import check_positive
from sweeps import _evidence, _judges, _pairing

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

LEADING = (
    "judge",
    "design",
    "n_contents",
    "n_twice",
    "lam",
    "lam_b",
    "comparisons",
    "budget",
    "protocol",
    "rho",
    "model",
)


@dataclass(frozen=True, kw_only=True)
class Settings(study.Settings):
    pools: int = 200
    """Pools simulated at every condition (count)."""
    pools_other_sizes: int | None = None
    """Pools at sizes other than 15 contents (count); default as many. The paper has 6 and 3."""
    dtype: str = "float64"
    """Precision; the profile likelihood needs float64."""
    judge: tuple[str, ...] = tuple(judges.OPEN)
    """Judges of the parts on size and on prior sensitivity."""
    n_contents: tuple[int, ...] = (8, 15, 25, 40)
    """Contents of a pool, all rendered twice (count)."""
    oracle: Literal["draw", "argmax"] = "draw"
    """draw: each verdict of these judges drawn once. argmax: the likelier one, as open-weight
    judges answer at temperature 0, of logits with a preference for the pair added."""
    pair_noise: float = 0.5
    """Standard deviation of that preference (logits); of no effect on drawn verdicts."""
    lam: tuple[float, ...] = (0.2, 1.0, 5.0)
    """Prior precisions of quality whose MAPs are compared, 1 among them (1/logit^2)."""
    lam_b: tuple[float, ...] = (0.1, 1.0, 2.0)
    """Prior precisions of c and kappa whose MAPs are compared, 0.1 among them (1/logit^2)."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    k: int = 5
    """Size of the top set in the part on recall (count)."""
    some_contents: int = 30
    """Contents of a pool of which only some are rendered twice (count)."""
    n_twice: tuple[int, ...] = (1, 3, 6, 10, 15, 20, 30)
    """How many of them, for the interval of c (count); nothing leaves the part out."""
    comparisons: tuple[str, ...] = tuple(pairs.WITHIN_SHARE)
    """Choices of comparisons for the interval of c."""
    budget: tuple[int, ...] = (870, 3480)
    """Verdicts spent on such a pool (count), each a fresh draw: pairs may be asked again."""
    recall_n_twice: tuple[int, ...] = (3, 12, 30)
    """How many of them, for recall (count), beside none; nothing leaves the part out."""
    rho: tuple[float, ...] = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Correlations of quality and covariate, for recall; increasing."""
    bias: float = 1.0
    """True bias c* in the parts with some contents rendered twice (logits per unit)."""
    position: float = 0.0
    """True position bias kappa* there (logits)."""
    half_width: float = 0.2
    """Half-width of the interval of c that is wanted (logits per unit)."""


PRESETS = {
    "smoke": Settings(
        pools=8,
        judge=("llama", "coder"),
        n_contents=(8,),
        some_contents=8,
        k=2,
        n_twice=(),
        budget=(240,),
        recall_n_twice=(8,),
        rho=(0.0, 0.8),
    ),
    "paper": Settings(pools=6, pools_other_sizes=3, n_twice=(), recall_n_twice=()),
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for profile likelihoods, got {s.dtype}")
    _judges.check(s.judge, list(judges.OPEN))
    check_positive("sd", s.sd)
    check_positive("half_width", s.half_width)
    if not 0 <= s.pair_noise < float("inf"):
        raise ValueError(f"pair_noise must be finite and at least 0, got {s.pair_noise}")
    for name, needed in (("lam", _evidence.LAM), ("lam_b", _evidence.LAM_B)):
        _judges.check_precisions(name, getattr(s, name), needed)
    if not s.n_contents or list(s.n_contents) != sorted(set(s.n_contents)) or s.n_contents[0] < 2:
        raise ValueError(f"n_contents must increase from at least 2, got {s.n_contents}")
    if s.pools_other_sizes is not None and s.pools_other_sizes < 1:
        raise ValueError(f"pools_other_sizes must be at least 1, got {s.pools_other_sizes}")
    _pairing.check(s)


def groups(s: Settings) -> list[study.Group]:
    check(s)
    return _evidence.groups(s) + _pairing.groups(s)


# --- from the saved results


def table(ds: xr.Dataset, s: Settings) -> pd.DataFrame:
    return study.tidy_table(LEADING, _evidence.rows(ds, s) + _pairing.rows(ds, s))


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """What is printed: the paper's numbers and ours, and the answers of part (c)."""
    everyone = table.quantity.isin(
        [
            "profile_range",
            "profile_range_max",
            "rank",
            "n_columns",
            "c_map_minus_mle_absolute",
            "c_sensitivity_lam_b",
            "c_sensitivity_lam",
            "c_sensitivity_lam_b_ratio",
            "c_sensitivity_lam_ratio",
        ]
    ) & (table.judge == "all")
    beside = table.paper.notna()
    answers = table.quantity.isin(["n_twice_needed", "crossing"])
    return table[everyone | beside | answers]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from jbt import plots

    partial = bool(s.n_twice) + bool(s.recall_n_twice)
    fig, axes = plots.new_figure(2, n_rows=1 + bool(partial), height=4.0)
    axes = np.atleast_2d(axes)
    _evidence.draw_ranges(axes[0, 0], table, s)
    _evidence.draw_shrinkage(axes[0, 1], table, s)
    if partial:
        _pairing.draw(axes[1], table, s)
    return fig


SWEEP = study.Sweep(
    "paired",
    "What two renderings of one content tell about the bias, and how many are needed.",
    PRESETS,
    groups,
    table,
    figure,
    units={
        "profile_range": "nats, over c_map +- 1",
        "profile_range_mle_centred": "nats, over c_mle +- 1",
        "curvature": "nats per squared unit of c",
        "c_map": "logits per unit of the covariate",
        "c_mle": "logits per unit of the covariate",
        "c_interval_width": "logits per unit of the covariate (95 %, profile)",
        "c_interval_width_wald": "logits per unit of the covariate (95 %)",
        "planned_width": "logits per unit of the covariate (95 %, from the truth)",
        "mle": "jbt.types.Status of the MLE of c",
        "rank": "count",
        "n_columns": "count",
        "extreme_item": "1 if an item always wins or always loses",
        "recall": "share of k",
        "budget": "verdicts",
        "n_contents": "count",
        "n_twice": "count",
        "rho": "1 (population correlation)",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(study.main(SWEEP))
