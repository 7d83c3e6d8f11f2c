"""Baselines beside the corrected leaderboard, where its assumption holds and where it fails.

Six models answer all prompts; a judge sees every pair in both orders. The judge is fair, or pays
for length, or does so with little discrimination, or pays stronger models more for it, or favours
one model for no reason that is in a table; or trusted labels pay for length as well. Some pairs
have a trusted label: random ones, or rather the clear ones. What is asked is the win rate of each
model against the others by trusted labels with its interval, and the ranking by that.

Naive and bias-aware fits use the judge alone. `judge_aware` adds two other judges and
estimates a discrimination for each (the first judge's is 1, or the labels' where there are any,
which then count as a judge without bias). `ppi` are win rates by prediction-powered inference,
`labels` by the labels alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import stats
from jbt.estimators.prediction_powered import prediction_powered
from jbt.experiments.declare import Group, Sweep
from jbt.experiments.plots import Line, Panel
from jbt.own.leaderboards.intervals import LEVEL
from jbt.own.leaderboards.prediction_powered import FEWEST_LABELLED
from jbt.types import check_count

from ._shared.prompt_studies import FITS, draw, mean_chance, pair_sums
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import xarray as xr


OTHERS = {
    "discrimination": (1.0, 0.3),
    "bias": (0.0, 0.5),
    "interaction": (0.0, 0.0),
    "favour": (0.0, 0.0),
    "ties": (0.0, 0.0),
}
"""The two other judges of a study: a fair one, and one that says little of quality."""
PLAIN = {**dict.fromkeys((*OTHERS, "label_bias", "clear"), 0.0), "discrimination": 1.0}
"""A fair judge, and labels without bias of random pairs."""
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
OF_MODELS = ("estimate", "win_rate", "win_variance", "degrees", "rare")
"""Metrics of each estimator and model."""
N_MODELS = 6
"""Models of a study (count)."""
SD, SD_ANSWERS = 1.0, 1.0
"""Standard deviations of quality between models, and of an answer's quality about its model's
(logits)."""
SHOWN = {
    ("naive", False): ("naive", "orange", "o"),
    ("bias_aware", False): ("corrected for length", "blue", "o"),
    ("judge_aware", True): ("three judges and labels", "purple", "s"),
    ("labels", True): ("labels alone", "black", "s"),
    ("ppi", True): ("prediction-powered", "vermilion", "s"),
}
"""(estimator, whether it has labels) -> label, colour and marker in the figure."""


@dataclass(frozen=True, kw_only=True)
class Baselines(MapPrior, Sweep):
    """The corrected leaderboard beside other corrections, where its assumption holds or fails."""

    name = "baselines"
    shown = ("tau", "coverage")
    columns = ("judge", "estimator", "n_anchors")
    index = "judge"
    presets = {
        "smoke": {"pools": 8, "n_prompts": 20, "n_anchors": 30},
        "paper": {"pools": 30},
    }
    units = {
        "method": "index of the estimator",
        "content": "index of the model",
        "n_anchors": "labelled pairs",
        "estimate": "logits; share for labels and ppi",
        "win_rate": "1 (share)",
        "win_variance": "1",
        "degrees": "1",
        "rare": "bool",
        "truth": "1 (share)",
    }
    panel_size = {"height": 4.6, "below": {"ncols": 5, "fontsize": 9}}

    pools: int = 128
    """Studies simulated at every condition (count)."""
    n_prompts: Annotated[int, partial(check_count, least=10)] = 50
    """Prompts of a study (count)."""
    n_anchors: Annotated[int, check_count] = 200
    """Labelled pairs (count); all, if there are no more."""
    dtype: Literal["float64"] = "float64"
    """Precision of the fits."""

    @property
    def methods(self) -> list[tuple[str, int]]:
        """The estimators with their number of labels."""
        with_labels = [(name, self.n_anchors) for name in ("judge_aware", "labels", "ppi")]
        return [*((name, 0) for name in FITS), *with_labels]

    def groups(self):
        judges = [PLAIN | changes for changes in JUDGES.values()]
        conditions = {name: np.array([judge[name] for judge in judges]) for name in PLAIN}
        content = {"content": range(N_MODELS)}
        of_models = {"method": range(len(self.methods)), **content}
        axes = {**dict.fromkeys(OF_MODELS, of_models), "truth": content}
        sizes = {"n_items": N_MODELS, "pools": self.pools, "axes": axes, "fits": 100}
        return [Group("studies", self.experiment, conditions, {"judge": list(JUDGES)}, **sizes)]

    def experiment(self, key, condition):
        """One study, all estimators."""
        panel = {n: jnp.append(condition[n], jnp.asarray(v)) for n, v in OTHERS.items()}
        judges, m = {**condition, **panel}, N_MODELS
        study = draw(key, m, self.n_prompts, SD, SD_ANSWERS, judges)
        rows, statuses = [], {}
        for name, n in self.methods:
            if name not in FITS:
                sums = pair_sums(study, n)
                fit = prediction_powered(sums, 0.0 if name == "labels" else None)
                either = [(sums.labels > 0).sum(0), (sums.labels < sums.labelled).sum(0)]
                rare = jnp.minimum(*either) < stats.FEWEST
                rate, variance = fit.win_rate, jnp.diagonal(fit.covariance)
                rows.append((rate, rate, variance, fit.degrees, rare))
                continue
            fit = FITS[name](study, self.prior, n)
            statuses[f"status_{name}{n or ''}"] = fit.status
            theta, covariance = fit.estimate[:m], fit.covariance[:m, :m]
            rate, slope = _win_rates(theta), jnp.asarray(jax.jacobian(_win_rates)(theta))
            variance = jnp.einsum("ij,jk,ik->i", slope, covariance, slope)
            degrees = jnp.full(m, self.n_prompts - 1.0)
            rows.append((theta, rate, variance, degrees, jnp.zeros(m, bool)))
        columns = zip(OF_MODELS, zip(*rows, strict=True), strict=True)
        out = {name: jnp.stack(values) for name, values in columns}
        return {**out, "truth": study.win_rate, **statuses}

    def table(self, ds, t):
        import xarray as xr

        raw = ds.load().transpose("judge", "pool", "content", ...)
        for at, (name, n) in enumerate(self.methods):
            for quantity, values in _metrics(raw.isel(method=at), name not in FITS).items():
                rows = xr.DataArray(values, {"judge": raw["judge"]}, ("judge", "pool"))
                t.means(quantity, rows, estimator=name, n_anchors=n)

    def panels(self, table):
        lines = []
        for (name, labelled), (label, colour, marker) in SHOWN.items():
            at = {"estimator": name, "n_anchors": self.n_anchors if labelled else 0}
            lines.append(Line(at, label, colour, {"fmt": marker}))

        def panel(quantity: str, axis: str, title: str, level: float | None = None) -> Panel:
            return Panel(
                "judge",
                {"quantity": quantity},
                lines,
                (f"{axis} (bars: 95 %)", "", title),
                names=list(JUDGES),
                level=level,
            )

        return [
            panel(
                "tau",
                "Kendall's tau with the true ranking",
                "Correction for length ranks well\nwhere length is the only bias",
            ),
            panel(
                "coverage",
                "95 % intervals that hold the win rate",
                "Prediction-powered intervals hold unless\nclear pairs were chosen for labels",
                LEVEL,
            ),
        ]


SWEEP = Baselines


def _win_rates(theta: Float[Array, " M"]) -> Float[Array, " M"]:
    return mean_chance(jax.nn.sigmoid(theta[:, None] - theta))


def _metrics(one: xr.Dataset, of_labels: bool) -> dict[str, np.ndarray]:
    """[judges, studies] of one estimator; NaN where nothing is printed."""
    from scipy.special import stdtrit

    truth = one["truth"].values
    estimate, rate, variance, degrees, rare = (one[name].values for name in OF_MODELS)
    half = stdtrit(degrees, (1 + LEVEL) / 2) * np.sqrt(variance)
    low, high = rate - half, rate + half
    if of_labels:
        ends = stats.effective_share(rate, variance, degrees + 1, rare)
        low, high = np.where(degrees + 1 >= FEWEST_LABELLED, ends, np.nan)
    m = estimate.shape[-1]
    above = truth[..., :, None] > truth[..., None, :]
    right = np.sign(estimate[..., :, None] - estimate[..., None, :])
    covered = np.where(np.isfinite(low), (low <= truth) & (truth <= high), np.nan)
    coverage, width = (
        np.ma.masked_invalid(v).mean(-1).filled(np.nan) for v in (covered, high - low)
    )
    tau = np.where(above, right, 0).sum((-2, -1)) / (m * (m - 1) / 2)
    return {"tau": tau, "coverage": coverage, "width": width}


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
