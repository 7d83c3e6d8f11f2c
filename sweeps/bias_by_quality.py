"""AlpacaEval: does the judge pay stronger models more for length than weaker ones?

Every model was compared with one baseline on every prompt. With d the difference of log(1 + words)
between the model's answer and the baseline's, and a_v the model's quality over the baseline's,

    logit P(model v wins) = a_v + (c + gamma a_v) d,

fitted by maximum likelihood to graded verdicts: c is the bias at the quality of the baseline. All
models are fitted together, the halves of higher and of lower win rate too, and each model alone.
Intervals are over prompts, as in `sweeps.alpaca_eval`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import stats
from jbt.estimators.any_likelihood import log_likelihood, maximise
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.plots import Line, Panel

from ._shared.recorded import WORDS, Board, read_board

ENOUGH = 20
"""Least wins, and losses, of a model whose own c has an interval: with 6 wins it covers in 84 %."""
NO_PRIOR = 1e-12
"""Precision of priors that matter only for models without verdicts."""
ALL = "all"
ANALYSES = {ALL: 0.0, "stronger half": 1.0, "weaker half": -1.0}
"""Analysis -> the half of the models that it takes, by win rate; 0 for all."""
SHARED = ("c", "interaction")
OF_MODELS = ("quality", "own_c", "own_c_sd", "rarer")


@dataclass(frozen=True, kw_only=True)
class BiasByQuality(RecordedSweep):
    """Whether AlpacaEval's judge pays stronger models more for length."""

    name = "bias_by_quality"
    data_name = "alpaca_eval"
    files = ("verdicts.csv", "items.csv", "leaderboard.csv")
    columns = ("analysis", "content")
    index = "analysis"
    presets = {"smoke": {"pools": 40}, "paper": {}}
    panel_size = {"below": {"ncols": 1, "fontsize": 9}}
    units = {
        **dict.fromkeys(("analysis", "coefficient"), "name"),
        **dict.fromkeys(("c", "own_c", "own_c_sd"), "logits per e-fold of 1 + words"),
        "interaction": "1 per e-fold of 1 + words",
        "influence": "as the coefficient",
        "quality": "logits",
        "rarer": "verdicts",
    }

    def groups(self):
        board = read_board(self)
        content, prompt = {"content": board.versions}, {"prompt": board.prompts}
        return [
            Group(
                "board",
                partial(self.experiment, board),
                {"half": np.array([*ANALYSES.values()])},
                {"analysis": list(ANALYSES)},
                n_items=len(board.versions),
                pools=1,
                axes={
                    "influence": prompt | {"coefficient": SHARED},
                    **dict.fromkeys(OF_MODELS, content),
                },
                fits=40,
            )
        ]

    def experiment(self, board, key, condition):
        """One analysis of the whole board."""
        return analysed(board, jnp.asarray(1 - board.wins), condition["half"])

    def table(self, ds, t):
        raw = ds.isel(pool=0).load()
        n = raw.sizes["prompt"]
        for analysis in raw["analysis"].values:
            at = raw.sel(analysis=analysis)
            for name in SHARED:
                influence = at["influence"].sel(coefficient=name).values
                draws = float(at[name]) + n * stats.bootstrap_means(influence, seed=self.seed)
                t.add(name, float(at[name]), stats.percentiles(draws), n, analysis=analysis)
        models: Any = raw[[*OF_MODELS]].sel(analysis=ALL).to_dataframe().dropna(subset="quality")
        for model in models.itertuples():
            row = {"n_pools": n, "analysis": ALL, "content": model.Index}
            half = 1.96 * model.own_c_sd if model.rarer >= ENOUGH else np.nan
            t.add("quality", model.quality, **row)
            t.add("own_c", model.own_c, (model.own_c - half, model.own_c + half), **row)

    def headline(self, table):
        """Rows to print: all but those of single models."""
        return table[~table.quantity.isin(OF_MODELS)]

    def panels(self, table):
        quality = table[table.quantity == "quality"].set_index("content").estimate

        def of_all(ax):
            c, gamma = (table[table.quantity == name].estimate.iloc[0] for name in SHARED)
            ends = np.array([quality.min(), quality.max()])
            ax.plot(ends, c + gamma * ends, color="black", label="all models together")

        return [
            Panel(
                "of_model",
                {"quantity": "own_c"},
                [Line({}, f"a model (bar: 95 %, from {ENOUGH} wins on)", "blue")],
                (
                    "quality less the baseline's, at equal length (logits)",
                    "c of one model (logits for e times the words)",
                    "Length helps the weakest models least",
                ),
                points=True,
                table=table.assign(of_model=table.content.map(quality)),
                after=of_all,
            )
        ]


def analysed(board: Board, wins: Float[Array, "G K"], half: Float[Array, ""]) -> dict[str, Array]:
    """One analysis of preferences `wins` for the models of a half, or of all; the rest is the
    board's."""
    n, model = len(board.versions), jnp.asarray(board.second)
    d, shown = jnp.asarray(-board.differences[WORDS]), jnp.asarray(board.shown)

    def by_model(values: Array) -> Array:
        return jnp.zeros(n).at[model].add(values)

    rate = by_model(shown * wins) / by_model(shown)
    stronger = rate > jnp.nanmedian(rate)
    kept = jnp.isfinite(rate) & ((half == 0) | ((half > 0) == stronger))
    weight = shown * kept[model]

    def of_all(at: Array, prompt: Any) -> Array:
        model, weight, d, wins = prompt
        a, c, gamma = at[:n][model], at[n], at[n + 1]
        return (weight * log_likelihood(a + (c + gamma * a) * d, wins)).sum()

    def of_one(at: Array, prompt: Any) -> Array:
        weight, d, wins = prompt
        return weight * log_likelihood(at[0] + at[1] * d, wins)

    def own(v: Array) -> tuple[Array, Array]:
        """a and c of one model, and the standard error of c over prompts, each of which has at most
        one verdict on it."""
        mine = (model == v) & (shown > 0)
        rows = tuple(jnp.where(mine, row, 0).sum(1) for row in (weight, d, wins))
        one = maximise(of_one, rows, jnp.full(2, NO_PRIOR))
        return one.beta, jnp.sqrt((one.influence[:, 1] ** 2).sum())

    end = maximise(of_all, (model, weight, d, wins), jnp.full(n + 2, NO_PRIOR))
    each, sd = jax.vmap(own)(jnp.arange(n))
    unknown = jnp.where(kept, 0.0, jnp.nan)
    return {
        "c": end.beta[n],
        "interaction": end.beta[n + 1],
        "influence": end.influence[:, n:],
        "quality": each[:, 0] + unknown,
        "own_c": each[:, 1] + unknown,
        "own_c_sd": sd + unknown,
        "rarer": jnp.minimum(by_model(weight * wins), by_model(weight * (1 - wins))),
        "status": end.status,
    }


SWEEP = BiasByQuality

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
