"""AlpacaEval: 36 models against one baseline, ranked with and without length.

The data are one judge's graded preferences, one a model and prompt. Which answer was shown first is
not recorded, so there is no position term. Two models have three versions each: plain, prompted to
be concise and prompted to be verbose. If the prompt changes length alone, that is the paper's
paired design in the wild.

The sweep varies the source of the bias coefficient c; all models' qualities are then fitted with c
known:

    nothing     c = 0: win rates
    variation   lengths of a model's answers over the prompts; every version of a model has its own
                quality
    renderings  mean lengths of the versions of a model, which share a quality; the variation over
                prompts has a coefficient of its own
    a model     likewise, from this model's renderings only
    both        renderings and variation, one coefficient
    tanh        as variation, with AlpacaEval's covariate, the tanh of the standardised difference
                in characters, in place of the difference of log(1 + words)

All prompts are one fit. Intervals are still over prompts, from each prompt's influence on the
estimates: the inverse of the objective's Hessian times the gradient of the prompt's verdicts. Its
sum of squares is the cluster-robust variance (Liang & Zeger 1986), and its resampled sums are a
bootstrap of the fit to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt import estimators, identifiability, stats
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.simulation.simulate import Experiment
from jbt.types import Design, Fit, Prior, Rows, Variant

from ._shared.board import RENDERINGS, TANH, VARIATION, WORDS, Board, read
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

NOTHING, BOTH = "nothing", "both"
"""Sources of c beside the covariates."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, declare.RecordedSweep):
    data_name: ClassVar[str] = "alpaca_eval"
    files: ClassVar[tuple[str, ...]] = ("verdicts.csv", "items.csv", "leaderboard.csv")

    lam_b: float = 0.1
    """Prior precision of c (1/logit^2)."""


PRESETS = {"smoke": Settings(pools=40), "paper": Settings(), "full": Settings()}


def analyses(board: Board) -> dict[str, tuple[bool, list[str], str]]:
    """Source of c -> whether versions share a quality, the free covariates, and the covariate whose
    coefficient is c."""
    one_model = {name: (True, [*board.families, VARIATION], name) for name in board.families}
    return {
        NOTHING: (False, [], WORDS),
        VARIATION: (False, [WORDS], WORDS),
        RENDERINGS: (True, [RENDERINGS, VARIATION], RENDERINGS),
        **one_model,
        BOTH: (True, [WORDS], WORDS),
        TANH: (False, [TANH], TANH),
    }


def groups(s: Settings) -> list[declare.Group]:
    s.check_prior()
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for profile likelihoods, got {s.dtype}")
    board = read(s)
    every, columns = analyses(board), list(board.differences)
    content, prompt = {"content": board.versions}, {"prompt": board.prompts}
    return [
        declare.Group(
            "board",
            experiment_of(board, s.prior),
            {
                "shared": np.array([shared for shared, _, _ in every.values()]),
                "free": np.array([[c in free for c in columns] for _, free, _ in every.values()]),
                "main": np.array([columns.index(main) for *_, main in every.values()]),
                "used": np.array(
                    [
                        columns.index(TANH if TANH in free else WORDS)
                        for _, free, _ in every.values()
                    ]
                ),
            },
            {"c_from": list(every)},
            n_items=len(board.versions),
            pools=1,
            axes={
                "theta": content,
                "theta_influence": prompt | content,
                "c_influence": prompt,
                "published": {"rate": ["win_rate", "length_controlled"]} | content,
                "mean_words": content,
                "base_model": content,
            },
            fits=40,
        )
    ]


def experiment_of(board: Board, prior: Prior) -> Experiment:
    """Experiment: the whole board, with c from one source."""
    n, d = len(board.versions), len(board.differences)
    difference = np.stack([*board.differences.values()], axis=-1)

    def rows_between(owner: Array) -> Rows:
        """Rows [G, K] between the owners [V] of the versions' qualities."""
        arrays = (difference, np.zeros(board.shown.shape), board.shown, board.wins)
        values = [jnp.asarray(v) for v in arrays]
        return jax.vmap(Rows)(owner[board.first], owner[board.second], *values)

    def experiment(key: Any, condition: dict[str, Any]) -> dict[str, Array]:
        free = Variant(condition["free"] > 0, jnp.asarray(False))
        versions = jnp.arange(n)
        owner = jnp.where(condition["shared"] > 0, jnp.asarray(board.model), versions)
        present = (owner[:, None] == versions).any(0)
        design = Design(jnp.zeros((n, d)), None, present, n)
        tied = rows_between(owner)
        source = fit_map(flat(tied), design, prior, free)
        c, main = source.parameters.c[condition["main"]], n + condition["main"]
        _, c_influence = influence(tied, source, design, prior, model.free_mask(free, design))
        grid = identifiability.grid_around(c)
        profile = identifiability.profile(
            flat(tied), design, grid, covariate=condition["main"], variant=free
        )

        rows, design = rows_between(versions), Design.of_contents(n, d)
        known = jnp.zeros(d).at[condition["used"]].set(c)
        quality = estimators.with_bias(flat(rows), design, prior, known)
        theta = jnp.arange(n + d + 1) < n
        used = n + condition["used"]
        hessian, theta_influence = influence(rows, quality, design, prior, theta)
        along = -jnp.linalg.solve(hessian[:n, :n], hessian[:n, used])
        theta_influence = theta_influence[:, :n] + c_influence[:, main, None] * along
        estimated = free.c.any()
        return {
            "c": c,
            "c_influence": c_influence[:, main],
            "profile_range": jnp.where(estimated, profile.range(), jnp.nan),
            "theta": quality.parameters.theta,
            "theta_influence": theta_influence,
            "published": jnp.asarray(board.published),
            "mean_words": jnp.asarray(board.mean_words),
            "base_model": jnp.asarray(board.model),
            "status_c": source.status,
            "status_quality": quality.status,
            "status_profile": jnp.where(estimated, profile.status.max(), 0),
        }

    return experiment


def flat(rows: Rows) -> Rows:
    """Flatten rows [G, K] to [G K]."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), rows)


def influence(
    rows: Rows, fit: Fit, design: Design, prior: Prior, free: Bool[Array, " P"]
) -> tuple[Float[Array, "P P"], Float[Array, "G P"]]:
    """Hessian of the objective, and the influence of each prompt on the free parameters of a fit,
    to first order.

    Args:
      rows: [G, K] the verdicts of each prompt.
    """
    parameters = fit.parameters
    score = jax.vmap(lambda verdicts: model.score(parameters, design, verdicts))(rows)
    score = jnp.where(free, score - score.mean(0), 0)  # the mean is the pull of the prior
    _, information = model.score_and_information(parameters, design, flat(rows))
    hessian = information + jnp.diag(model.prior_precision(design, prior))
    fixed = jnp.where(free[:, None] & free, hessian, jnp.eye(len(free)))
    return hessian, jnp.linalg.solve(fixed, score.T).T


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    from scipy.special import expit

    raw = ds.isel(pool=0).load()
    n = raw.sizes["prompt"]
    first = raw.isel(c_from=0)
    published = first["published"].values
    baseline = int(np.flatnonzero(np.isnan(published[0]))[0])
    models = np.flatnonzero(np.isfinite(published[0]))
    number, content = first["base_model"].values, raw["content"].values
    for v in models:
        for quantity, rate in zip(("win_rate", "length_controlled"), published[:, v], strict=True):
            t.add(quantity, rate, content=content[v])
    for source in raw["c_from"].values:
        at_source = raw.sel(c_from=source)
        influences = at_source["theta_influence"].transpose("content", "prompt").values
        draws = n * stats.bootstrap_means(influences, seed=s.seed)
        theta = at_source["theta"].values

        def add(
            quantity: str,
            correlation: Any,
            source: str = source,
            theta: Any = theta,
            draws: Any = draws,
            **where: Any,
        ) -> None:
            """Add a function of qualities [..., V] with its interval over prompts."""
            interval = stats.percentiles(correlation(theta + draws))
            t.add(quantity, float(correlation(theta)), interval, n, c_from=source, **where)

        if source != NOTHING:
            c = float(at_source["c"])
            c_draws = n * stats.bootstrap_means(at_source["c_influence"].values, seed=s.seed)
            t.add("c", c, stats.percentiles(c + c_draws), n, c_from=source)
            t.add("profile_range", float(at_source["profile_range"]), n_pools=n, c_from=source)
        for base in np.unique(number):
            if len(versions := np.flatnonzero(number == base)) > 1:
                add(
                    "spread",
                    lambda q, v=versions: np.ptp(q[..., v], axis=-1),
                    content=content[base],
                )
        for v in models:
            add(
                "expected_win_rate",
                lambda q, v=v: expit(q[..., v] - q[..., baseline]),
                content=content[v],
            )
            add("theta", lambda q, v=v: q[..., v] - q[..., baseline], content=content[v])
        # No interval: both come from the same verdicts, and only one could be resampled.
        for name, rate in zip(("win_rate", "length_controlled"), published[:, models], strict=True):
            for quantity, correlation in (("spearman", spearman), ("kendall", kendall)):
                value = float(correlation(theta[models], rate))
                t.add(f"{quantity}_{name}", value, n_pools=n, c_from=source)
        expected = expit(theta[models] - theta[baseline])
        away = float(np.abs(expected - published[1, models]).mean())
        t.add("distance_length_controlled", away, n_pools=n, c_from=source)


def spearman(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rank correlation of [..., V] with [V]."""
    from scipy.stats import rankdata

    a, b = (rankdata(v, axis=-1) - (v.shape[-1] + 1) / 2 for v in (a, b))
    return (a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum())


def kendall(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kendall's tau of [..., V] with [V], neither with ties."""
    i, j = np.triu_indices(len(b), 1)
    return np.sign((a[..., i] - a[..., j]) * (b[i] - b[j])).mean(-1)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    of_models = ["win_rate", "length_controlled", "expected_win_rate", "theta"]
    return table[~table.quantity.isin(of_models)]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (rates, coefficient, spread) = plots.new_figure(3, width=5.4, height=4.6)
    published = table[table.quantity == "length_controlled"].set_index("content").estimate
    for source, colour, label in (
        (NOTHING, "orange", "c = 0"),
        (VARIATION, "blue", "c from variation over prompts"),
        (RENDERINGS, "vermilion", "c from prompted renderings"),
    ):
        rows = table[(table.quantity == "expected_win_rate") & (table.c_from == source)]
        at = published[rows.content].to_numpy()
        plots.points(rates, rows, at, colour=colour, label=label, ms=3, elinewidth=0.8)
    rates.plot([0.01, 0.8], [0.01, 0.8], color="black", linewidth=0.8)
    rates.set_xscale("logit")
    rates.set_yscale("logit")
    rates.set_xlabel("published length-controlled win rate")
    rates.set_ylabel("expected win rate at equal length (95 %)")
    rates.legend(fontsize=8)

    rows = table[(table.quantity == "c") & (table.c_from != TANH)]
    plots.points(coefficient, rows, range(len(rows)), colour="blue", label="_")
    coefficient.set_xticks(range(len(rows)), rows.c_from, rotation=25, ha="right")
    coefficient.axhline(0, color="black", linewidth=0.8)
    coefficient.set_ylabel("c, logits per e-fold of 1 + words (95 %)")
    coefficient.set_xlabel("what c is taken from")

    sources = [str(source) for source in ds["c_from"].values if source != TANH]
    for i, (family, rows) in enumerate(table[table.quantity == "spread"].groupby("content")):
        rows = rows.set_index("c_from").loc[sources]
        at = np.arange(len(sources)) + 0.15 * i
        plots.points(spread, rows, at, colour=plots.CYCLE[i], label=str(family))
    spread.set_xticks(range(len(sources)), sources, rotation=25, ha="right")
    spread.set_ylabel("largest less smallest quality, logits (95 %)")
    spread.set_title("The versions of one model")
    spread.set_ylim(bottom=0)
    spread.legend(fontsize=8)
    return fig


SWEEP = declare.legacy(
    "alpaca_eval",
    "A leaderboard with and without length, and what prompted renderings say about the bias.",
    PRESETS,
    groups,
    ("c_from", "content"),
    table,
    figure,
    units={
        "c_from": "name",
        "c": "logits per e-fold of 1 + words (tanh: per unit)",
        "c_influence": "as c",
        "theta_influence": "logits",
        "published": "1 (share)",
        "mean_words": "words + 1 (geometric mean)",
        "base_model": "number of its first version",
    },
    headline=headline,
    index="c_from",
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
