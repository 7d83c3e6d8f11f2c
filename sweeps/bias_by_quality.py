"""AlpacaEval: does the judge pay stronger models more for length than weaker ones?

Every model was compared with one baseline on every prompt. With d the difference of log(1 + words)
between the model's answer and the baseline's, and a_v the model's quality over the baseline's,

    logit P(model v wins) = a_v + (c + gamma a_v) d,

fitted by maximum likelihood to graded verdicts: c is the bias at the quality of the baseline. Some
of what else could make a gamma above 0 is tried one by one: models of one half alone, verdicts as
majorities, prompts with a difficulty of their own (a joint maximum with a prior on these), another
link, lapses of the judge, which flatten the slope of whoever nearly always loses. A curved effect
of length is not. Intervals are over prompts, as in `sweeps.alpaca_eval`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import stats
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.simulation.simulate import Experiment
from jbt.types import Status, container

from ._shared.board import WORDS, Board, read

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

PERMUTATIONS = 10_000
STEPS = 60
FIXED = 1e9
"""Prior precision of a prompt's difficulty where prompts have none (1/logit^2)."""
ENOUGH = 20
"""Least wins, and losses, of a model whose own c has an interval: with 6 wins it covers in 84 %."""
LAPSE = 0.02
"""Share of verdicts that are drawn at random, either way, in the analysis with lapses."""


@dataclass(frozen=True, kw_only=True)
class Settings(declare.RecordedSweep):
    data_name: ClassVar[str] = "alpaca_eval"
    files: ClassVar[tuple[str, ...]] = ("verdicts.csv", "items.csv", "leaderboard.csv")


PRESETS = {"smoke": Settings(pools=40), "paper": Settings(), "full": Settings()}
ALL, STRONGER, WEAKER = "all", "stronger half", "weaker half"
ANALYSES = {
    ALL: {},
    STRONGER: {"half": 1.0},
    WEAKER: {"half": -1.0},
    "majorities": {"majority": 1.0},
    "prompts differ in difficulty": {"prompt_precision": 1.0},
    "probit": {"probit": 1.0},
    "lapses": {"lapse": LAPSE},
}
"""Analysis -> what differs from that of all models. Halves are by win rate."""
PLAIN = {"half": 0.0, "majority": 0.0, "prompt_precision": FIXED, "probit": 0.0, "lapse": 0.0}


def groups(s: Settings) -> list[declare.Group]:
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for likelihoods, got {s.dtype}")
    board = read(s)
    conditions = {
        name: np.array([(PLAIN | changes)[name] for changes in ANALYSES.values()]) for name in PLAIN
    }
    content, prompt = {"content": board.versions}, {"prompt": board.prompts}
    axes = {"influence": prompt | {"coefficient": ["c", "interaction"]}}
    axes |= dict.fromkeys(("quality", "own_c", "own_c_sd", "rarer"), content)
    return [
        declare.Group(
            "board",
            experiment_of(board),
            conditions,
            {"analysis": list(ANALYSES)},
            n_items=len(board.versions),
            pools=1,
            axes=axes,
            fits=40,
        )
    ]


def log_likelihood(
    z: Float[Array, "G K"], y: Float[Array, "G K"], condition: dict[str, Any]
) -> Float[Array, "G K"]:
    """Log-likelihood of shares y of a win at logits z, nats."""
    lapse = condition["lapse"]
    probit = z * (np.sqrt(3) / np.pi)
    normal = condition["probit"] > 0
    cdf = jax.scipy.special.log_ndtr

    def log_share(probit: Array, z: Array) -> Array:
        value = jnp.asarray(jnp.where(normal, cdf(probit), jax.nn.log_sigmoid(z)))
        return jnp.log(lapse / 2 + (1 - lapse) * jnp.exp(value))

    return y * log_share(probit, z) + (1 - y) * log_share(-probit, -z)


@container
class Expansion:
    """An objective to second order, a term a prompt [G]: in the parameters shared by all prompts
    and in each prompt's difficulty, which is eliminated."""

    gradient: Float[Array, "G S"]
    """Of each prompt's term, in the shared parameters, the difficulty at its optimum for them."""
    information: Float[Array, "S S"]
    """Minus the second derivative of the sum, likewise."""
    difficulty: Float[Array, " G"]
    """Change of each difficulty by Newton's step where the shared parameters stay."""
    cross: Float[Array, "G S"]
    """Change of each difficulty with the shared parameters."""


def expand(term: Callable[..., Array], shared: Array, difficulty: Array, *rows: Array) -> Expansion:
    """Expand the sum over prompts of term(shared, difficulty, *row)."""

    def at(both: Array, *row: Array) -> Array:
        return term(both[:-1], both[-1], *row)

    def one(difficulty: Array, *row: Array) -> tuple[Array, Array]:
        both = jnp.append(shared, difficulty)
        return jax.grad(at)(both, *row), -jax.hessian(at)(both, *row)

    slope, curvature = jax.vmap(one)(difficulty, *rows)
    own, cross = curvature[:, -1, -1], curvature[:, :-1, -1]
    eliminated = jnp.einsum("gs,gt->st", cross / own[:, None], cross)
    return Expansion(
        slope[:, :-1] - cross * (slope[:, -1] / own)[:, None],
        curvature[:, :-1, :-1].sum(0) - eliminated,
        slope[:, -1] / own,
        -cross / own[:, None],
    )


def maximise(
    term: Callable[..., Array], shared: Array, *rows: Array
) -> tuple[Float[Array, " S"], Float[Array, "G S"], Float[Array, ""]]:
    """The shared parameters at the maximum by Newton's method, none moving by more than 1/2 a step;
    each prompt's influence on them, and the norm of the gradient."""
    difficulty = jnp.zeros(len(rows[0]))

    def step(_: Any, at: tuple[Array, Array]) -> tuple[Array, Array]:
        shared, difficulty = at
        e = expand(term, shared, difficulty, *rows)
        change = jnp.linalg.solve(e.information, e.gradient.sum(0))
        length = jnp.minimum(1, 0.5 / jnp.abs(change).max())
        moved = difficulty + length * (e.difficulty + e.cross @ change)
        return shared + length * change, moved

    shared, difficulty = jax.lax.fori_loop(0, STEPS, step, (shared, difficulty))
    e = expand(term, shared, difficulty, *rows)
    influence = jnp.linalg.solve(e.information, e.gradient.T).T
    return shared, influence, jnp.linalg.norm(e.gradient.sum(0))


def experiment_of(board: Board) -> Experiment:
    """Experiment: one analysis of the whole board."""

    def experiment(key: Any, condition: dict[str, Any]) -> dict[str, Array]:
        return analysed(board, jnp.asarray(1 - board.wins), condition)

    return experiment


def analysed(
    board: Board, wins: Float[Array, "G K"], condition: dict[str, Any]
) -> dict[str, Array]:
    """One analysis of preferences `wins` for the models; the rest is the board's."""
    n, n_prompts = len(board.versions), len(board.prompts)
    model, d = jnp.asarray(board.second), jnp.asarray(-board.differences[WORDS])
    shown = jnp.asarray(board.shown)
    count = jnp.zeros(n).at[model].add(shown)
    known = count > 0
    # A model that always loses still has a start.
    rate = (jnp.zeros(n).at[model].add(shown * wins) + 0.01) / (count + 0.02)
    stronger = rate > jnp.nanmedian(jnp.where(known, rate, jnp.nan))
    start = jnp.log(rate / (1 - rate))
    half = condition["half"]
    kept = known & ((half == 0) | ((half > 0) == stronger))
    weight = shown * kept[model]
    y = jnp.where(condition["majority"] > 0, (wins > 0.5) * 1.0, wins)

    def of_all(at: Array, difficulty: Array, model: Array, *row: Array) -> Array:
        weight, d, y = row
        a, c, gamma = at[:n], at[n], at[n + 1]
        z = a[model] + (c + gamma * a[model]) * d + difficulty
        prior = condition["prompt_precision"] * difficulty**2
        absent = jnp.where(kept, 0, a**2).sum() / n_prompts
        return (weight * log_likelihood(z, y, condition)).sum() - (prior + absent) / 2

    def of_one(at: Array, difficulty: Array, weight: Array, d: Array, y: Array) -> Array:
        z = at[0] + at[1] * d
        return (weight * log_likelihood(z, y, condition)).sum() - difficulty**2 / 2

    def own(v: Array) -> tuple[Array, Array]:
        """a and c of one model, and the standard error of c over prompts."""
        mine = weight * (model == v) + 1e-12
        first = jnp.stack([start[v], 0.5])
        at, influence, _ = maximise(of_one, first, mine, d, y)
        return at, jnp.sqrt((influence[:, 1] ** 2).sum())

    first = jnp.concatenate([jnp.where(kept, start, 0), jnp.array([0.5, 0.0])])
    end, influence, slope = maximise(of_all, first, model, weight, d, y)
    each, sd = jax.lax.map(own, jnp.arange(n))
    won, lost = (jnp.zeros(n).at[model].add(weight * v) for v in (y, 1 - y))
    absent = jnp.asarray(jnp.where(kept, 0.0, jnp.nan))
    return {
        "c": end[n],
        "interaction": end[n + 1],
        "influence": influence[:, n:],
        "quality": each[:, 0] + absent,
        "own_c": each[:, 1] + absent,
        "own_c_sd": sd + absent,
        "rarer": jnp.minimum(won, lost),
        "status": jnp.asarray(jnp.where(slope < 1e-6, Status.CONVERGED, Status.NOT_CONVERGED)),
    }


def weighted_slope(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Least-squares slope of y [..., V] on x [V]."""
    x = x - (weight * x).sum() / weight.sum()
    return (weight * x * y).sum(-1) / (weight * x**2).sum()


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    raw = ds.isel(pool=0).load()
    n = raw.sizes["prompt"]
    for analysis in raw["analysis"].values:
        at = raw.sel(analysis=analysis)
        for name in ("c", "interaction"):
            influence = at["influence"].sel(coefficient=name).values
            draws = float(at[name]) + n * stats.bootstrap_means(influence, seed=s.seed)
            t.add(name, float(at[name]), stats.percentiles(draws), n, analysis=analysis)
    at = raw.sel(analysis=ALL)
    known = np.isfinite(at["quality"].values)
    names = ("quality", "own_c", "own_c_sd", "rarer")
    quality, own, sd, rarer = (at[m].values[known] for m in names)
    slope = weighted_slope(quality, own, sd**-2)
    rng = np.random.default_rng(s.seed)
    shuffled = rng.permuted(np.tile(own, (PERMUTATIONS, 1)), axis=1)
    p = (np.abs(weighted_slope(quality, shuffled, sd**-2)) >= abs(slope)).sum()
    t.add("slope_over_models", slope, n_pools=n, analysis=ALL)
    t.add("slope_p", (1 + p) / (1 + PERMUTATIONS), n_pools=n, analysis=ALL)
    half = np.where(rarer >= ENOUGH, 1.96 * sd, np.nan)
    for content, *numbers in zip(at["content"].values[known], quality, own, half, strict=True):
        a, c, h = map(float, numbers)
        t.add("quality", a, n_pools=n, analysis=ALL, content=content)
        t.add("own_c", c, (c - h, c + h), n, analysis=ALL, content=content)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: all but those of single models."""
    return table[~table.quantity.isin(["quality", "own_c"])]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (by_model, by_analysis) = plots.new_figure(2, width=6.0, height=4.6)
    rows = table[table.quantity == "own_c"]
    at = table[table.quantity == "quality"].set_index("content").estimate
    plots.points(by_model, rows, at[rows.content].to_numpy(), colour="blue", label="a model (95 %)")
    shared = table[(table.analysis == ALL) & table.quantity.isin(["c", "interaction"])]
    of_all = shared.set_index("quantity").estimate
    line = np.array([at.min(), at.max()])
    by_model.plot(line, of_all["c"] + of_all["interaction"] * line, color="black", label="all")
    by_model.set_xlabel("quality less the baseline's, at equal length (logits)")
    by_model.set_ylabel("c of one model, logits per e-fold of 1 + words")
    by_model.legend(fontsize=8)
    rows = table[table.quantity == "interaction"]
    plots.points(by_analysis, rows, range(len(rows)), colour="blue", label="_")
    by_analysis.axhline(0, color="black", linewidth=0.8)
    by_analysis.set_xticks(range(len(rows)), rows.analysis, rotation=25, ha="right", fontsize=8)
    by_analysis.set_ylabel("gamma, c gained by a logit of quality (95 %)")
    return fig


SWEEP = declare.legacy(
    "bias_by_quality",
    "Whether AlpacaEval's judge pays stronger models more for length.",
    PRESETS,
    groups,
    ("analysis", "content"),
    table,
    figure,
    units={
        "analysis": "name",
        "c": "logits per e-fold of 1 + words",
        "interaction": "1 per e-fold of 1 + words",
        "influence": "as the coefficient",
        "quality": "logits",
        "own_c": "logits per e-fold of 1 + words",
        "own_c_sd": "logits per e-fold of 1 + words",
        "rarer": "verdicts",
        "coefficient": "name",
    },
    headline=headline,
    index="analysis",
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
