"""A purse for two judges, one cheap and biased, one dear and trusted: which judge to ask about
which pair. Recall of the top k against spending. Beyond the paper, whose cost figure compares
judges one at a time.

    cheap_naive, cheap_only   the cheap judge alone by Eq. acq, naive or bias-aware
    strong_only               the reference alone by Eq. acq
    every other strategy      a rule of `jbt.acquisition` with both judges in one model, the
                              reference's biases known to be zero: rules of one judge by gain per
                              price, rules of several unchanged

A verdict of the cheap judge costs 1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt.acquisition import PANEL_RULES, RULES, Loop, Task, reports, run
from jbt.acquisition.loop import refit
from jbt.acquisition.runs import bought
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.simulation import judges
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Judge, Parameters, Variant, check_positive

from ._shared.scenario import Correlated, VaryingBias

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

ALONE = ("cheap_naive", "cheap_only", "strong_only")
"""Strategies that ask one judge, by Eq. acq."""
STRATEGIES = (
    "escalation",
    "disputed",
    "reference_random",
    "top_k_aware",
    "entropy_reduction",
    "entropy_reduction_fresh",
)
"""Strategies with both judges that are compared by default."""


@dataclass(frozen=True, kw_only=True)
class Settings(Correlated, VaryingBias, declare.Sweep):
    pools: int = 300
    rho: tuple[float, ...] = (0.3, 0.5, 0.7)
    price: tuple[float, ...] = (10.0, 20.0, 100.0)
    """Prices of a verdict of the reference, in verdicts of the cheap judge; increasing."""
    purse: tuple[float, ...] = (60.0, 120.0, 240.0, 480.0, 870.0)
    """Spending, in verdicts of the cheap judge; increasing. All ordered pairs of 30 items, each
    asked once of the cheap judge, cost 870."""
    strategy: tuple[str, ...] = STRATEGIES
    """Rules that spend on both judges, of `jbt.acquisition`."""
    protocol: Literal["frozen", "stochastic"] = "frozen"
    """frozen: each judge answers each ordered pair once. stochastic: a fresh verdict at every
    query."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""
    bias: float = 1.5
    """True bias c* of the cheap judge (logits per unit)."""
    position: float = 0.35
    """Its position bias kappa* (logits)."""
    reference_bias: float = 0.0
    """Bias of the reference, which the models assume to be zero (logits per unit)."""
    reference_discrimination: float = 2.0
    """Factor on quality in its logits, known to the models (pure number)."""


PRESETS = {
    "smoke": Settings(
        pools=8,
        n_items=10,
        k=2,
        rho=(0.0, 0.5),
        price=(10.0,),
        purse=(40.0, 80.0),
        strategy=("escalation",),
    ),
    "paper": Settings(pools=10),  # as its runs of the active loop
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    s.check_grid()
    for name in ("price", "purse"):
        values = getattr(s, name)
        check_positive(name, values)
        declare.check_increasing(name, values)
    declare.check_listed("strategy", s.strategy, [*RULES, *PANEL_RULES])
    check_positive("reference_discrimination", s.reference_discrimination)
    if most_verdicts(s) < s.refit_every:
        raise ValueError(f"the largest purse must pay refit_every = {s.refit_every} verdicts")


def most_verdicts(s: Settings) -> int:
    """Verdicts that the largest purse buys if all of it goes to the cheap judge."""
    most = int(max(s.purse))
    return most if s.protocol == "stochastic" else min(most, s.n_items * (s.n_items - 1))


def experiment(s: Settings, rule: str) -> Experiment:
    """Experiment: spend the largest purse by one rule, and report what each purse had bought."""
    loop = Loop(rule, s.k, s.refit_every, s.protocol)
    most = most_verdicts(s)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = s.draw(key, condition, s.covariate)
        cheap = Judge(jnp.full(1, s.bias), s.position, interaction=s.interaction)
        trusted = Judge(jnp.full(1, s.reference_bias), 0.0, s.reference_discrimination)
        answers = [
            judges.frozen_draw(stream(key, name), pool, judge)
            if s.protocol == "frozen"
            else judges.verdict_probability(pool, judge)
            for name, judge in (("verdicts", cheap), ("reference verdicts", trusted))
        ]
        free = jnp.stack([condition["aware"] > 0, jnp.array(False)])
        task = Task.build(
            pool,
            jnp.stack(answers, -1),
            variant=Variant(free[None], free),
            prior=s.prior,
            discrimination=jnp.array([1.0, s.reference_discrimination]),
            price=jnp.stack([condition["price_cheap"], condition["price_reference"]]),
            purse=max(s.purse),
        )
        trace = run(stream(key, "acquisition"), task, loop, most)
        queries, judge = trace.queries, trace.queries.judge
        assert judge is not None  # with several judges, every query names its judge
        prices = jnp.stack([condition["price_cheap"], condition["price_reference"]])
        spent = jnp.cumsum(jnp.where(judge < 0, 0.0, prices[judge.clip(0)]))

        def at(purse: Array) -> dict[str, Array]:
            """Fit all verdicts that the purse pays, also between two refits of the run."""
            paid = (spent <= purse * (1 + 1e-5)) & (judge >= 0)
            start = Parameters.zeros(pool.design, 2)
            parameters, status = refit(bought(queries, paid, task), start, task)
            recall = metrics.top_k_recall(parameters.theta, pool.quality, s.k)
            asked = (paid & (judge == 1)).sum()
            return {"recall": recall, "reference_asked": asked, "status": status}

        return jax.vmap(at)(jnp.asarray(s.purse, spent.dtype))

    return one


def cases(s: Settings) -> dict[str, list[tuple[str, float, float]]]:
    """Rule -> (strategy, price of the cheap judge, is bias-aware) of its strategies."""
    out: dict[str, list[tuple[str, float, float]]] = {
        "top_k_aware": [
            ("cheap_naive", 1.0, 0.0),
            ("cheap_only", 1.0, 1.0),
            ("strong_only", np.inf, 1.0),
        ]
    }
    for strategy in s.strategy:
        out.setdefault(strategy, []).append((strategy, 1.0, 1.0))
    return out


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    return [group(s, rule, strategies) for rule, strategies in cases(s).items()]


def group(s: Settings, rule: str, strategies: list[tuple[str, float, float]]) -> declare.Group:
    """All strategies, correlations and prices of one rule: one compiled kernel."""
    runs = [
        (name, price_cheap, aware, rho, price)
        for name, price_cheap, aware in strategies
        for rho in s.rho
        for price in (s.price if not name.startswith("cheap") else (np.inf,))
    ]
    strategy, price_cheap, aware, rho, price = (list(v) for v in zip(*runs, strict=True))
    by_purse = {"purse": list(s.purse)}
    return declare.Group(
        rule,
        experiment(s, rule),
        {
            "rho": np.array(rho),
            "price_cheap": np.array(price_cheap),
            "price_reference": np.array(price),
            "aware": np.array(aware),
        },
        {
            "strategy": strategy,
            "rho": rho,
            "price": [p if np.isfinite(p) else np.nan for p in price],
        },
        s.n_items,
        s.pools,
        axes=dict.fromkeys(("recall", "reference_asked", "status"), by_purse),
        fits=2 * len(reports(most_verdicts(s), s.refit_every)),
    )


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    protocol = {"protocol": s.protocol}
    t.means("recall", ds["recall"], **protocol)
    with_reference = ~np.isin(ds["strategy"].values, ("cheap_naive", "cheap_only"))
    t.means("reference_asked", ds["reference_asked"].isel(condition=with_reference), **protocol)
    for at in np.flatnonzero(with_reference):
        recall = ds["recall"].isel(condition=at)
        same = (ds["strategy"] == "cheap_only") & (ds["rho"] == recall["rho"])
        (alone,) = np.flatnonzero(same.values)
        benefit = recall - ds["recall"].isel(condition=alone).drop_vars(
            ["strategy", "rho", "price"]
        )
        t.means("benefit", benefit, **protocol)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: recall at the middle price and the largest purse."""
    price = s.price[len(s.price) // 2]
    at_price = table.price.isna() | (table.price == price)
    return table[at_price & (table.quantity == "recall") & (table.purse == s.purse[-1])]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    panels = list(itertools.product(s.price, s.rho))
    fig, axes = plots.facets(len(panels), len(s.rho), width=4.8, height=3.4)
    for ax, (price, rho) in zip(axes, panels, strict=True):
        ax.sharey(axes[0])  # before it has lines, or the limits leave them out
        draw(ax, table, s, price, rho)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9)
    return fig


def style(name: str) -> dict[str, Any]:
    """Colour and line of a strategy."""
    if name in ALONE:
        colour = {"cheap_naive": "black", "cheap_only": "black", "strong_only": "orange"}[name]
        return {"colour": colour, "linestyle": ":" if name == "cheap_naive" else "--"}
    if name in RULES:
        return plots.rule_style(name)
    colours = dict(zip(PANEL_RULES, ("green", "purple", "sky"), strict=False))
    return {"colour": colours.get(name, "black"), "linestyle": "-."}


def draw(ax: Axes, table: pd.DataFrame, s: Settings, price: float, rho: float) -> Axes:
    """Draw recall against spending, a line a strategy."""
    rows = table[(table.quantity == "recall") & (table.rho == rho)]
    rows = rows[rows.price.isna() | (rows.price == price)]
    for name, line_rows in rows.groupby("strategy", sort=False):
        plots.line(ax, line_rows, "purse", label=str(name), shade=0.12, **style(str(name)))
    ax.set_xscale("log")
    plots.ticks(ax, x=s.purse)
    ax.set_xlabel("spent, in verdicts of the cheap judge")
    ax.set_ylabel(f"top-{s.k} recall")
    ax.set_title(rf"$\rho$ = {rho:g}, a reference verdict costs {price:g}", fontsize=10)
    return ax


SWEEP = declare.legacy(
    "escalation",
    "A purse spent on a cheap judge and a trusted, dearer one: whom to ask about which pair.",
    PRESETS,
    groups,
    ("protocol", "rho", "price", "strategy", "purse"),
    table,
    figure,
    units={
        "price": "verdicts of the cheap judge",
        "purse": "verdicts of the cheap judge",
        "reference_asked": "verdicts",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
