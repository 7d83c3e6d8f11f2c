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
    both        renderings and variation, one coefficient

All prompts are one fit. Intervals are still over prompts, from each prompt's influence on the
estimates: the inverse of the objective's Hessian times the gradient of the prompt's verdicts. Its
sum of squares is the cluster-robust variance (Liang & Zeger 1986), and its resampled sums are a
bootstrap of the fit to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt import estimators, identifiability, stats
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.plots import Line, Panel, ticks
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.types import Design, Fit, Prior, Rows, Variant

from ._shared.recorded import RENDERINGS, VARIATION, WORDS, Board, read_board
from ._shared.scenario import MapPrior

COVARIATES = (WORDS, RENDERINGS, VARIATION)
NOTHING = "nothing"
SOURCES: dict[str, tuple[bool, tuple[str, ...]]] = {
    NOTHING: (False, ()),
    VARIATION: (False, (WORDS,)),
    RENDERINGS: (True, (RENDERINGS, VARIATION)),
    "both": (True, (WORDS,)),
}
"""Source of c -> whether the versions of a model share a quality, and the free covariates, of which
the first has the coefficient c."""


@dataclass(frozen=True, kw_only=True)
class AlpacaEval(MapPrior, RecordedSweep):
    """A leaderboard with and without length, and what prompted renderings say about the bias."""

    name = "alpaca_eval"
    data_name = "alpaca_eval"
    files = ("verdicts.csv", "items.csv", "leaderboard.csv")
    columns = ("c_from", "content")
    index = "c_from"
    presets = {"smoke": {"pools": 40}, "paper": {}}
    units = {
        "c_from": "name",
        "c": "logits per e-fold of 1 + words",
        "c_influence": "as c",
        "theta_influence": "logits",
        "published": "1 (share)",
        "base_model": "number of its first version",
    }

    lam_b: float = 0.1
    """Prior precision of c (1/logit^2)."""

    def groups(self):
        board = read_board(self)
        conditions = {
            "shared": [shared for shared, _ in SOURCES.values()],
            "free": [[name in free for name in COVARIATES] for _, free in SOURCES.values()],
            "main": [COVARIATES.index((*free, WORDS)[0]) for _, free in SOURCES.values()],
        }
        content, prompt = {"content": board.versions}, {"prompt": board.prompts}
        return [
            Group(
                "board",
                partial(self.experiment, board),
                {name: np.array(values) for name, values in conditions.items()},
                {"c_from": list(SOURCES)},
                n_items=len(board.versions),
                pools=1,
                axes={
                    **dict.fromkeys(("theta", "published", "base_model"), content),
                    "theta_influence": prompt | content,
                    "c_influence": prompt,
                },
                fits=40,
            )
        ]

    def experiment(self, board, key, condition):
        """The whole board, with c from one source."""
        n, d, prior = len(board.versions), len(COVARIATES), self.prior
        free = Variant(condition["free"] > 0, jnp.asarray(False))
        versions = jnp.arange(n)
        owner = jnp.where(condition["shared"] > 0, jnp.asarray(board.model), versions)
        present = (owner[:, None] == versions).any(0)
        design = Design(jnp.zeros((n, d)), None, present, n)
        tied = rows_between(board, owner)
        source = fit_map(flat(tied), design, prior, free)
        c, main = source.parameters.c[condition["main"]], n + condition["main"]
        _, c_influence = influence(tied, source, design, prior, model.free_mask(free, design))
        grid = identifiability.grid_around(c)
        profile = identifiability.profile(
            flat(tied), design, grid, covariate=condition["main"], variant=free
        )

        rows, design = rows_between(board, versions), Design.of_contents(n, d)
        known = jnp.zeros(d).at[0].set(c)
        quality = estimators.with_bias(flat(rows), design, prior, known)
        theta = jnp.arange(n + d + 1) < n
        hessian, theta_influence = influence(rows, quality, design, prior, theta)
        along = -jnp.linalg.solve(hessian[:n, :n], hessian[:n, n])
        theta_influence = theta_influence[:, :n] + c_influence[:, main, None] * along
        estimated = free.c.any()
        return {
            "c": c,
            "c_influence": c_influence[:, main],
            "profile_range": jnp.where(estimated, profile.range(), jnp.nan),
            "theta": quality.parameters.theta,
            "theta_influence": theta_influence,
            "published": jnp.asarray(board.published),
            "base_model": jnp.asarray(board.model),
            "status_c": source.status,
            "status_quality": quality.status,
            "status_profile": jnp.where(estimated, profile.status.max(), 0),
        }

    def table(self, ds, t):
        from scipy.special import expit
        from scipy.stats import spearmanr

        raw = ds.isel(pool=0).load()
        first, n = raw.isel(c_from=0), raw.sizes["prompt"]
        published, base = first["published"].values, first["base_model"].values
        content, models = raw["content"].values, np.flatnonzero(np.isfinite(published))
        (baseline,) = np.flatnonzero(np.isnan(published))
        for v in models:
            t.add("length_controlled", published[v], content=content[v])

        families = [b for b in np.unique(base) if (base == b).sum() > 1]

        def win_rate(q: np.ndarray, v: Any) -> np.ndarray:
            return expit(q[..., v] - q[..., baseline])

        def of_versions(q: np.ndarray) -> dict[tuple[str, Any], np.ndarray]:
            """Quantity and version -> number [...] for qualities [..., V]."""
            spreads = {("spread", b): np.ptp(q[..., base == b], axis=-1) for b in families}
            return spreads | {("expected_win_rate", v): win_rate(q, v) for v in models}

        for source in raw["c_from"].values:
            at, row = raw.sel(c_from=source), {"n_pools": n, "c_from": source}
            influences = (
                at[f"{name}_influence"].transpose(..., "prompt") for name in ("c", "theta")
            )
            moved = [n * stats.bootstrap_means(v.values, seed=self.seed) for v in influences]
            c, theta = float(at["c"]), at["theta"].values
            if source != NOTHING:
                t.add("c", c, stats.percentiles(c + moved[0]), **row)
                t.add("profile_range", float(at["profile_range"]), **row)
            draws = of_versions(theta + moved[1])
            for (quantity, v), number in of_versions(theta).items():
                interval = stats.percentiles(draws[quantity, v])
                t.add(quantity, float(number), interval, content=content[v], **row)
            # No interval: both come from the same verdicts, and only one could be resampled.
            correlation: Any = spearmanr(theta[models], published[models])[0]
            t.add("spearman_length_controlled", float(correlation), **row)
            away = np.abs(win_rate(theta, models) - published[models]).mean()
            t.add("distance_length_controlled", float(away), **row)

    def headline(self, table):
        return table[~table.quantity.isin(["length_controlled", "expected_win_rate"])]

    def panels(self, table):
        published = table[table.quantity == "length_controlled"].set_index("content").estimate
        style = {"ms": 3, "elinewidth": 0.8}

        def diagonal(ax):
            ax.plot([0.01, 0.8], [0.01, 0.8], color="black", linewidth=0.8)
            ax.set(xscale="logit", yscale="logit")
            rates = 0.01, 0.03, 0.1, 0.3, 0.7
            ticks(ax, x=rates, y=rates)

        return [
            Panel(
                lambda rows: published[rows.content],
                {"quantity": "expected_win_rate"},
                [
                    Line({"c_from": NOTHING}, "not corrected", "orange", style, False),
                    Line({"c_from": RENDERINGS}, "corrected", "blue", style, False),
                ],
                (
                    "length-controlled win rate, as published",
                    "win rate at equal length (95 % over prompts)",
                    "Corrected by prompted versions, win\nrates come near the published ones",
                ),
                legend=9,
                after=diagonal,
            )
        ]


def rows_between(board: Board, owner: Array) -> Rows:
    """Rows [G, K] between the owners [V] of the versions' qualities."""
    difference = np.stack([board.differences[name] for name in COVARIATES], axis=-1)
    arrays = (difference, np.zeros(board.shown.shape), board.shown, board.wins)
    return jax.vmap(Rows)(owner[board.first], owner[board.second], *map(jnp.asarray, arrays))


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


SWEEP = AlpacaEval

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
