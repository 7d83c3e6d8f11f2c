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
from jaxtyping import Array

from jbt import identifiability, stats
from jbt.estimators import any_likelihood
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.plots import Line, Panel
from jbt.types import Design, Rows, Variant

from ._shared.recorded import RENDERINGS, VARIATION, WORDS, read_board
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
        n, d = len(board.versions), len(COVARIATES)
        free, main, versions = condition["free"] > 0, condition["main"], jnp.arange(n)
        owner = jnp.where(condition["shared"] > 0, jnp.asarray(board.model), versions)
        difference = np.stack([board.differences[name] for name in COVARIATES], axis=-1)
        arrays = board.first, board.second, difference, board.shown, board.wins
        prompts = first, second, *_ = tuple(map(jnp.asarray, arrays))
        precision = jnp.concatenate([jnp.full(n, self.lam), jnp.full(d, self.lam_b)])

        def of_source(beta: Array, prompt: Any) -> Array:
            return log_likelihood(beta[:n][owner], beta[n:] * free, prompt)

        source = any_likelihood.maximise(of_source, prompts, precision)
        c, c_influence = source.beta[n + main], source.influence[:, n + main]
        profile = identifiability.profile(
            rows_between(owner[first], owner[second], *prompts[2:]),
            Design(jnp.zeros((n, d)), None, (owner[:, None] == versions).any(0), n),
            identifiability.grid_around(c),
            covariate=main,
            variant=Variant(free, jnp.asarray(False)),
        )

        def of_quality(theta: Array, prompt: Any, c: Array = c) -> Array:
            return log_likelihood(theta, jnp.zeros(d).at[0].set(c), prompt)

        def slope(c: Array) -> Array:
            of_prompt = jax.grad(lambda theta, prompt: of_quality(theta, prompt, c))
            return jax.vmap(of_prompt, (None, 0))(quality.beta, prompts).sum(0)

        quality = any_likelihood.maximise(of_quality, prompts, precision[:n])
        along = quality.inverse @ jax.jacfwd(slope)(c)
        estimated = free.any()
        return {
            "c": c,
            "c_influence": c_influence,
            "profile_range": jnp.where(estimated, profile.range(), jnp.nan),
            "theta": quality.beta,
            "theta_influence": quality.influence + c_influence[:, None] * along,
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
            # Their mean is the pull of the prior.
            moved = [
                n * stats.bootstrap_means((v - v.mean("prompt")).values, seed=self.seed)
                for v in influences
            ]
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
        return [
            Panel(
                "published",
                {"quantity": "expected_win_rate"},
                [
                    Line({"c_from": NOTHING}, "not corrected", "orange"),
                    Line({"c_from": RENDERINGS}, "corrected", "blue"),
                ],
                (
                    "length-controlled win rate, as published",
                    "win rate at equal length (95 % over prompts)",
                    "Corrected by prompted versions, win\nrates come near the published ones",
                ),
                log="xy",
                points=True,
                table=table.assign(published=table.content.map(published)),
                after=lambda ax: ax.axline((0.1, 0.1), (0.5, 0.5), color="black", linewidth=0.8),
            )
        ]


def log_likelihood(theta: Array, c: Array, prompt: tuple[Array, ...]) -> Array:
    """Log-likelihood of a prompt's verdicts between versions of qualities theta [V]."""
    first, second, difference, shown, wins = prompt
    z = theta[first] - theta[second] + difference @ c
    return (shown * any_likelihood.log_likelihood(z, wins)).sum()


def rows_between(first: Array, second: Array, x: Array, shown: Array, wins: Array) -> Rows:
    """The verdicts [G, K] as rows [G K]."""
    arrays = first, second, x, jnp.zeros_like(shown), shown, wins
    return Rows(*(v.reshape(-1, *v.shape[2:]) for v in arrays))


SWEEP = AlpacaEval

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
