"""Baselines beside the corrected leaderboard, where its assumption holds and where it fails.

Six models answer all prompts; a judge sees every pair in both orders. The judge is fair, or pays
for length, or does so with little discrimination, or pays stronger models more for it, or favours
one model for no reason that is in a table; or trusted labels pay for length as well. Some pairs
have a trusted label: random ones, or rather the clear ones. What is asked is the win rate of each
model against the others by trusted labels, its rank by that, and an interval or a set of plausible
ranks for either.

Naive, bias-aware, Davidson and length-controlled fits use the judge alone. `joint` adds two other
judges, and `judge_aware` estimates a discrimination for each judge (the first judge's is 1, or the
labels' where there are any, which then count as a judge without bias). `ppi` are win rates by
prediction-powered inference, `labels` by the labels alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import stats
from jbt.estimators.prediction_powered import prediction_powered
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.own.leaderboards.intervals import LEVEL
from jbt.own.leaderboards.prediction_powered import FEWEST_LABELLED, significantly_better
from jbt.simulation.simulate import Condition, Experiment
from jbt.types import check_count, check_positive

from ._shared.baseline_fits import FITS
from ._shared.prompt_studies import draw, pair_sums
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, declare.Sweep):
    pools: int = 128
    """Studies simulated at every condition (count)."""
    n_prompts: int = 50
    """Prompts of a study (count)."""
    n_models: int = 6
    """Models of a study (count)."""
    sd: float = 1.0
    """Standard deviation of quality between models (logits)."""
    sd_answers: float = 1.0
    """Standard deviation of an answer's quality about its model's (logits)."""
    n_anchors: tuple[int, ...] = (50, 200)
    """Labelled pairs (count), increasing."""
    dtype: declare.Literal["float32", "float64"] = "float64"
    """Precision of the fits."""


PRESETS = {
    "smoke": Settings(pools=8, n_prompts=20, n_anchors=(30,)),
    "paper": Settings(pools=30),
    "full": Settings(),
}

OTHERS = {
    "discrimination": (1.0, 0.3),
    "bias": (0.0, 0.5),
    "interaction": (0.0, 0.0),
    "favour": (0.0, 0.0),
    "ties": (0.0, 0.0),
}
"""The two other judges of a study: a fair one, and one that says little of quality."""

PLAIN = {"discrimination": 1.0, "bias": 0.0, "interaction": 0.0, "favour": 0.0, "ties": 0.0}
OF_LABELS = ("label_bias", "clear")
JUDGES: dict[str, dict[str, float]] = {
    "fair": {},
    "pays for length": {"bias": 1.0},
    "deaf and pays": {"bias": 1.0, "discrimination": 0.3},
    "pays the strong more": {"bias": 0.5, "interaction": 0.5},
    "favours one model": {"favour": 1.0},
    "labels pay too": {"bias": 1.0, "label_bias": 1.0},
    "ties": {"bias": 1.0, "ties": 1.0},
    "clear pairs labelled": {"bias": 1.0, "clear": 1.0},
}
"""Judge -> what differs from a fair one."""

ONE_JUDGE = ("naive", "bias_aware", "davidson", "length_controlled")
PANEL = ("joint", "judge_aware")
NO_LABELS = 0


def methods(s: Settings) -> list[tuple[str, int]]:
    """The estimators with their number of labels."""
    most = s.n_anchors[-1]
    with_labels = [(name, n) for n in s.n_anchors for name in ("labels", "ppi")]
    plain = [(name, NO_LABELS) for name in (*ONE_JUDGE, *PANEL)]
    return [*plain, ("judge_aware", most), *with_labels]


def groups(s: Settings) -> list[declare.Group]:
    check_count("n_prompts", s.n_prompts, least=10)
    check_count("n_models", s.n_models, least=3)
    check_positive("sd", s.sd)
    if s.sd_answers < 0:
        raise ValueError(f"sd_answers must be at least 0, got {s.sd_answers:g}")
    s.check_prior()
    declare.check_increasing(
        "n_anchors", s.n_anchors, least=1, most=s.n_prompts * s.n_models * (s.n_models - 1) // 2
    )
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for derivatives, got {s.dtype}")
    columns = {
        name: np.array([(PLAIN | changes)[name] for changes in JUDGES.values()]) for name in PLAIN
    }
    for name in OF_LABELS:
        columns[name] = np.array([c.get(name, 0.0) for c in JUDGES.values()])
    every, models = methods(s), list(range(s.n_models))
    axes: dict[str, dict[str, Any]] = {"estimate": {"method": range(len(every)), "content": models}}
    axes |= dict.fromkeys(("win_rate", "win_variance", "degrees", "rare"), axes["estimate"])
    axes["covariance"] = axes["estimate"] | {"other": models}
    axes |= {"truth": {"content": models}, "weight": {"n_anchors": s.n_anchors}}
    return [
        declare.Group(
            "studies",
            experiment_of(s),
            columns,
            {"judge": list(JUDGES)},
            n_items=s.n_models,
            pools=s.pools,
            axes=axes,
            fits=100,
        )
    ]


def experiment_of(s: Settings) -> Experiment:
    """Experiment: one study, all estimators."""

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        judges = {
            name: jnp.append(condition[name], jnp.asarray(OTHERS[name])) for name in PLAIN
        } | {name: condition[name] for name in OF_LABELS}
        study = draw(key, s.n_models, s.n_prompts, s.sd, s.sd_answers, judges)
        rows, statuses, weights = [], {}, []
        for name, n in methods(s):
            if name in ("labels", "ppi"):
                sums = pair_sums(study, n)
                fit = prediction_powered(sums, 0.0 if name == "labels" else None)
                either = [(sums.labels > 0).sum(0), (sums.labels < sums.labelled).sum(0)]
                rare = jnp.minimum(*either) < stats.FEWEST
                variance = jnp.diagonal(fit.covariance)
                rows.append(
                    (fit.win_rate, fit.covariance, fit.win_rate, variance, fit.degrees, rare)
                )
                weights += [fit.weight] * (name == "ppi")
                continue
            fit = FITS[name](study, s.prior, n)
            statuses[f"status_{name}{n or ''}"] = fit.status
            m = s.n_models
            theta, covariance = fit.estimate[:m], fit.covariance[:m, :m]
            win_rate, slope = _win_rates(theta), jnp.asarray(jax.jacobian(_win_rates)(theta))
            if name == "length_controlled":  # win rates against one model alone
                win_rate = jnp.full(m, jnp.nan)
            variance = jnp.einsum("ij,jk,ik->i", slope, covariance, slope)
            degrees = jnp.full(m, s.n_prompts - 1.0)
            rows.append((theta, covariance, win_rate, variance, degrees, jnp.zeros(m, bool)))
        names = ("estimate", "covariance", "win_rate", "win_variance", "degrees", "rare")
        out = {name: jnp.stack(v) for name, v in zip(names, zip(*rows, strict=True), strict=True)}
        return {**out, "truth": study.win_rate, "weight": jnp.stack(weights), **statuses}

    return experiment


def _win_rates(theta: Float[Array, " M"]) -> Float[Array, " M"]:
    chance = jax.nn.sigmoid(theta[:, None] - theta)
    return (chance.sum(1) - 0.5) / (len(theta) - 1)


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    import xarray as xr

    raw = ds.load()
    for at, (name, n) in enumerate(methods(s)):
        one = raw.isel(method=at).transpose("judge", "pool", "content", "other", ...)
        dims, coords = ("judge", "pool"), {"judge": raw["judge"].values}
        for quantity, values in _metrics(one, name in ("labels", "ppi")).items():
            array = xr.DataArray(values, coords, dims).assign_coords(estimator=name, n_anchors=n)
            t.means(quantity, array)
    for n in s.n_anchors:
        t.means("weight", raw["weight"].sel(n_anchors=n).assign_coords(estimator="ppi"))


def _metrics(one: xr.Dataset, of_labels: bool) -> dict[str, np.ndarray]:
    """[judges, studies] of one estimator; NaN where nothing is printed."""
    names = ("estimate", "truth", "win_rate", "win_variance", "degrees")
    estimate, truth, rate, variance, degrees = (one[name].values for name in names)
    enough = np.ones_like(degrees, bool)
    if of_labels:
        enough = degrees + 1 >= FEWEST_LABELLED
        low, high = stats.effective_share(rate, variance, degrees + 1, one["rare"].values)
    else:
        half = _quantile(degrees) * np.sqrt(variance)
        low, high = rate - half, rate + half
    low, high = (np.where(enough, end, np.nan) for end in (low, high))
    better = significantly_better(estimate, one["covariance"].values, degrees + 1, enough)
    m = estimate.shape[-1]
    rank = 1 + (truth[..., None, :] > truth[..., :, None]).sum(-1)
    rank_low, rank_high = 1 + better.sum(-1), m - better.sum(-2)
    above = truth[..., :, None] > truth[..., None, :]
    right = np.sign(estimate[..., :, None] - estimate[..., None, :])
    covered = np.where(np.isfinite(low), (low <= truth) & (truth <= high), np.nan)
    ranked = np.where(enough, (rank_low <= rank) & (rank <= rank_high), np.nan)
    tau = np.where(above, right, 0).sum((-2, -1)) / (m * (m - 1) / 2)
    return {
        "tau": tau,
        "win_rate_error": _mean(np.abs(rate - truth)),
        "coverage": _mean(covered),
        "width": _mean(high - low),
        "rank_coverage": _mean(ranked),
        "rank_width": _mean(np.where(enough, rank_high - rank_low, np.nan)),
    }


def _quantile(degrees: np.ndarray) -> np.ndarray:
    from scipy.special import stdtrit

    return stdtrit(degrees, (1 + LEVEL) / 2)


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over models of those that are defined."""
    known = np.isfinite(values)
    total = np.where(known, values, 0).sum(-1)
    return np.where(known.any(-1), total / np.maximum(known.sum(-1), 1), np.nan)


SHOWN = {
    ("naive", False): ("naive", "orange", "o"),
    ("bias_aware", False): ("bias-aware", "blue", "o"),
    ("length_controlled", False): ("length-controlled", "sky", "o"),
    ("judge_aware", False): ("judge-aware, three judges", "purple", "o"),
    ("judge_aware", True): ("judge-aware with labels", "purple", "s"),
    ("labels", True): ("labels alone", "black", "s"),
    ("ppi", True): ("prediction-powered", "vermilion", "s"),
}
"""(estimator, whether it has labels) -> label, colour and marker in the figure."""
PANELS = {
    "tau": "Kendall's tau with the true ranking",
    "coverage": "coverage of the win rate (95 % intervals)",
    "rank_coverage": "coverage of the true rank",
    "rank_width": "width of the plausible ranks (places)",
}


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: all but errors and weights."""
    return table[table.quantity.isin(PANELS)]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.facets(len(PANELS), 2, width=6.4, height=4.0)
    place = {name: i for i, name in enumerate(JUDGES)}
    most = s.n_anchors[-1]
    for ax, (quantity, title) in zip(axes, PANELS.items(), strict=True):
        rows = table[(table.quantity == quantity) & table.estimate.notna()]
        for i, ((name, labelled), (label, colour, marker)) in enumerate(SHOWN.items()):
            mine = rows[(rows.estimator == name) & (rows.n_anchors == (most if labelled else 0))]
            at = mine.judge.map(place).to_numpy(float) + 0.1 * (i - (len(SHOWN) - 1) / 2)
            plots.points(ax, mine, at, colour=colour, label=label, fmt=marker)
        if "coverage" in quantity:
            ax.axhline(LEVEL, color="black", lw=0.8, ls="--")
        ax.set_xticks(list(place.values()), list(place), rotation=20, ha="right", fontsize=8)
        ax.set_ylabel(title)
        ax.grid(axis="y", alpha=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return fig


SWEEP = declare.legacy(
    "baselines",
    "The corrected leaderboard beside other corrections, where its assumption holds or fails.",
    PRESETS,
    groups,
    ("judge", "estimator", "n_anchors"),
    table,
    figure,
    units={
        "method": "index of the estimator",
        "content": "index of the model",
        "other": "index of the model",
        "n_anchors": "labelled pairs",
        "estimate": "logits; share for labels and ppi",
        "covariance": "of the estimates",
        "win_rate": "1 (share)",
        "win_variance": "1",
        "degrees": "1",
        "rare": "bool",
        "truth": "1 (share)",
        "weight": "1",
    },
    headline=headline,
    index="judge",
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
