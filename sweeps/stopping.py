"""Stopping when the top k is sure enough: how often is it right, and what is saved?

A run of the active loop looks at its posterior after every refit and stops at the first look at
which P(the estimated top k is the true one) is at least a level. A posterior probability may be
looked at as often as one likes: if model and prior are right, the sets called sure at .95 are right
in at least 95 % of the runs that stop, whatever the rule. What is missing there is due to the
Laplace approximation; elsewhere to the assumption that fails. Another reason to stop is measured
too: the rest of the budget could hardly change the memberships.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jbt import twins
from jbt.acquisition import Loop, Task, init, step
from jbt.acquisition.loop import State, look
from jbt.acquisition.runs import check as check_run
from jbt.acquisition.stopping import attainable, certainty, top_set
from jbt.acquisition.task import PROTOCOLS
from jbt.acquisition.views import View
from jbt.experiments import declare
from jbt.experiments.run import main
from jbt.simulation import pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Pool, Variant, container

from ._shared import truths
from ._shared.active import design_of
from ._shared.judge import BANK, JudgeSettings, check_judge, pools_of
from ._shared.scenario import MapPrior
from ._shared.stops import COLUMNS, EDGES, figure, headline, table

RULES = (
    "entropy_reduction_fresh",
    "top_k_aware",
    "thompson",
    "lucb",
    "round_robin",
    "random",
)
OPEN = ("judge", "pool", "oracle", "bias", "position", "discrimination", "interaction", "sd")
"""Fields whose values choose the scenario `judge`."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, JudgeSettings):
    pools: int = 1000
    scenario: tuple[str, ...] | None = None
    """Pools, judges and models. prior: quality, c* and kappa* drawn from the prior of the fit.
    unbiased: no bias, and a fit that knows. one_order: prior, each pair askable in one order only.
    Then one assumption fails: sd_0.4, sd_1.2, sd_2.5: spread of quality; bias_1: c* = 1, kappa* =
    0; rho_0.4, rho_0.8: correlation of quality and covariate; growing: a bias that grows by 0.5 a
    logit of quality; pair_noise: errors about pairs, as large as the noise of a draw, which the
    likelier verdict is taken of where verdicts are cached; naive: c* = 1, fitted without c and
    kappa. judge: that of --judge, --bias and so on, the default where one of these is given; else
    all others."""
    covariate: pools.CovariateKind | None = None
    """Covariate of Gaussian pools; default continuous, in the scenario `judge` binary."""
    design: Literal["unpaired", "paired"] = "unpaired"
    """unpaired: n_items contents of one item each. paired: n_items contents, each in both forms, x
    = 0 and 1, which makes twice as many items."""
    n_items: int = 10
    """Contents of a pool (count). The paper's pools, and those of --judge, have 30."""
    k: int = 1
    """Size of the top set (count). In the paper, and with --judge, 5."""
    rule: tuple[str, ...] = RULES
    """Acquisition rules."""
    protocol: tuple[str, ...] = PROTOCOLS
    """frozen: cached verdicts, one for each ordered pair. stochastic: a new draw at every query."""
    refit_every: int = 4
    """R, verdicts between refits and thus between looks (count)."""
    budget: int = 400
    """Most verdicts of a run, a multiple of R; with cached verdicts, at most every ordered pair."""
    level: tuple[float, ...] = (0.8, 0.9, 0.95, 0.99)
    """Certainties at which runs stop, increasing."""
    gain: float = 0.05
    """Share of the entropy of the memberships: a run stops where the rest of the budget is expected
    to remove less."""

    def decided(self) -> Self:
        own = any(getattr(self, name) is not None for name in OPEN)
        scenario = self.scenario or ((truths.OWN,) if own else tuple(truths.TRUTHS))
        covariate = self.covariate or ("binary" if truths.OWN in scenario else "continuous")
        return replace(super().decided(), scenario=scenario, covariate=covariate)


PRESETS = {
    "smoke": Settings(
        pools=16,
        scenario=("prior", "naive"),
        n_items=6,
        rule=("entropy_reduction_fresh",),
        protocol=("stochastic",),
        budget=40,
        refit_every=8,
    ),
    "paper": Settings(pools=10, n_items=30, k=5, rule=("top_k_aware",), budget=320),
    "full": Settings(),
}


# --- one pool


@container
class Looks:
    """What a run sees when it looks, and what is true."""

    asked: Int[Array, " T"]
    """Verdicts so far."""
    certainty: Float[Array, " T"]
    """P(the estimated top k is the true one)."""
    attainable: Float[Array, " T"]
    """Share of the entropy that the rest of the budget can remove."""
    right: Bool[Array, " T"]
    """Whether the estimated top k is the true one."""
    recall: Float[Array, " T"]
    """Share of the true top k in the estimated one."""
    status: Int[Array, " T"]


def looks(key: Key[Array, ""], task: Task, loop: Loop, budget: int | Array, blocks: int) -> Looks:
    """Run `blocks` blocks and look after each.

    Args:
      key: of the run.
      budget: verdicts that the run may take, for `attainable`.
    """

    def seen(state: State) -> Looks:
        view = look(state, task, loop)
        assert isinstance(view, View)  # there is one judge
        top, true = top_set(view), view.is_top(task.quality)
        return Looks(
            state.asked,
            certainty(view),
            attainable(view, jnp.asarray(budget - state.asked, task.design.dtype)),
            (top == true).all(),
            (top & true).sum() / loop.k,
            state.status,
        )

    def block(state: State, _: None):
        return step(state, task, loop)[0], seen(state)

    state, before = jax.lax.scan(block, init(key, task, loop), length=blocks)
    # The first look is before any verdict.
    return jax.tree.map(lambda many, last: jnp.append(many[1:], last), before, seen(state))


def at_first(reached: Bool[Array, " T"], run: Looks) -> dict[str, Array]:
    """The run, ended at the first of these looks, or at the last look if there is none.

    Returns:
      whether it stopped; verdicts; certainty and whether the top k is right there, NaN if it did
      not stop; recall.
    """
    stopped, at = reached.any(), jnp.where(reached.any(), reached.argmax(), -1)
    return {
        "stopped": stopped * 1.0,
        "verdicts": run.asked[at].astype(run.recall.dtype),
        "certainty": jnp.where(stopped, run.certainty[at], jnp.nan),
        "right": jnp.where(stopped, run.right[at], jnp.nan),
        "recall": run.recall[at],
    }


def reliability(run: Looks) -> dict[str, Array]:
    """By bin of certainty: looks, their certainties summed, and looks with the top k right. Looks
    without a new verdict, when all have been asked, are left out."""
    new = jnp.diff(run.asked, prepend=0) > 0
    chosen = jnp.digitize(run.certainty, jnp.asarray(EDGES[1:-1], run.certainty.dtype))
    chosen = (chosen == jnp.arange(len(EDGES) - 1)[:, None]) & new
    return {
        "looks": chosen.sum(1),
        "sum_certainty": jnp.where(chosen, run.certainty, 0).sum(1),
        "sum_right": (chosen & run.right).sum(1),
    }


def experiment(s: Settings, loop: Loop) -> Experiment:
    """Experiment: a run on one pool, as it stops at each level."""
    frozen = loop.protocol == "frozen"

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        condition = truths.drawn_judge(key, condition)
        pool = drawn(s, key, condition)
        answers = twins.answers if frozen else twins.probability
        allowed = truths.may_be_asked(key, condition, pool.design.n_items)
        answers = jnp.where(allowed, answers(key, pool, condition), jnp.nan)
        free = condition["aware"] > 0
        task = Task.build(pool, answers, variant=Variant(free[None], free), prior=s.prior)
        most = budget_of(s, loop.protocol)
        budget = most
        if frozen:
            n_pairs = (jnp.isfinite(answers) & ~jnp.eye(len(answers), dtype=bool)).sum()
            budget = jnp.minimum(most, n_pairs)
        blocks = -(-most // loop.refit_every)
        run = looks(stream(key, "acquisition"), task, loop, budget, blocks)
        stops = jax.vmap(lambda level: at_first(run.certainty >= level, run))(jnp.array(s.level))
        idle = at_first((run.attainable < s.gain) & (run.asked < run.asked[-1]), run)
        end = at_first(jnp.arange(blocks) == blocks - 1, run)
        out = {f"at_level_{name}": value for name, value in stops.items()}
        out |= {f"at_gain_{name}": value for name, value in idle.items()}
        del end["stopped"]
        out |= {f"at_end_{name}": value for name, value in end.items()}
        return out | reliability(run) | {"status": run.status.max()}

    return one


def drawn(s: Settings, key: Key[Array, ""], condition: Condition) -> Pool:
    """A pool of the settings' kind."""
    if s.pool == BANK:
        pool = pools_of(s)(stream(key, "pool"))
    else:
        pool = pools.gaussian(
            stream(key, "pool"),
            s.n_items,
            sd=condition["sd"],
            rho=condition["rho"],
            covariate=s.covariate or "continuous",
            max_correlation=s.max_correlation,
        )
    return pools.in_both_forms(pool) if s.design == "paired" else pool


def n_shown(s: Settings) -> int:
    """Items of a pool (count)."""
    return s.n_items * (2 if s.design == "paired" else 1)


def budget_of(s: Settings, protocol: str) -> int:
    """Most verdicts of a run."""
    n = n_shown(s)
    return min(s.budget, n * (n - 1)) if protocol == "frozen" else s.budget


# --- all pools


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    scenario = s.scenario or ()
    declare.check_listed("scenario", scenario, [*truths.TRUTHS, truths.OWN])
    declare.check_listed("protocol", s.protocol, list(PROTOCOLS))
    if not s.rule or len(set(s.rule)) < len(s.rule):
        raise ValueError(f"rule must list at least one name, none twice, got {' '.join(s.rule)}")
    for protocol in s.protocol:
        check_judge(s, protocol)
    if s.pool == BANK and scenario != (truths.OWN,):
        raise ValueError(f"--pool {BANK} has the scenario {truths.OWN} alone")
    s.check_prior()
    declare.check_top(s.k, s.n_items)
    declare.check_increasing("level", s.level, least=0.0, most=1.0)
    if not 0 < s.gain < 1:
        raise ValueError(f"gain must lie between 0 and 1, got {s.gain:g}")
    if s.budget % s.refit_every:
        raise ValueError(
            f"budget must be a multiple of refit_every = {s.refit_every}, got {s.budget}"
        )
    for protocol in s.protocol:
        for rule in s.rule:
            loop = Loop(rule, s.k, s.refit_every, protocol)
            check_run(design_of(n_shown(s)), loop, np.array([budget_of(s, protocol)]))
    rho = [truths.TRUTHS[name].rho for name in scenario if name != truths.OWN]
    pools.check_rho(rho, str(s.covariate))
    where: dict[str, Any] = {"k": s.k, "rho": [0.0, *rho], "covariate": s.covariate}
    pools.check_balance(str(s.pool), s.n_items, s.max_correlation, **where)


def simulated(s: Settings) -> dict[str, truths.Truth]:
    """Scenario -> truth; the scenario of a judge of the paper has its name."""
    known = {**truths.TRUTHS, truths.OWN: truths.of_settings(s)}
    names = s.scenario or ()
    return {(s.judge or n) if n == truths.OWN else n: known[n] for n in names}


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    return [group(s, rule, protocol) for protocol in s.protocol for rule in s.rule]


def group(s: Settings, rule: str, protocol: str) -> declare.Group:
    """All scenarios of one rule: one compiled kernel."""
    by_name = simulated(s)
    labels: dict[str, Sequence[Any]] = {
        "protocol": [protocol] * len(by_name),
        "rule": [rule] * len(by_name),
        "scenario": list(by_name),
        "model": [truth.model for truth in by_name.values()],
    }
    levels = {"level": list(s.level)}
    bins = {"bin": EDGES[:-1].round(2).tolist()}
    names = ("stopped", "verdicts", "certainty", "right", "recall")
    return declare.Group(
        f"{protocol}-{rule}",
        experiment(s, Loop(rule, s.k, s.refit_every, protocol)),
        truths.conditions(list(by_name.values()), s.prior),
        labels,
        n_shown(s),
        s.pools,
        axes={f"at_level_{name}": levels for name in names}
        | dict.fromkeys(("looks", "sum_certainty", "sum_right"), bins),
        fits=2 * budget_of(s, protocol) // s.refit_every,
    )


SWEEP = declare.legacy(
    "stopping",
    "Stopping when the top k is sure enough: how often it is right, and what is saved.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        **{f"at_{at}_stopped": "share of runs" for at in ("level", "gain")},
        **{f"at_{at}_verdicts": "verdicts" for at in ("level", "gain", "end")},
        **{f"at_{at}_certainty": "1 (probability)" for at in ("level", "gain", "end")},
        **{f"at_{at}_right": "share of runs" for at in ("level", "gain", "end")},
        **{f"at_{at}_recall": "1 (share of the top k)" for at in ("level", "gain", "end")},
        "scenario": "name",
        "level": "1 (probability)",
        "bin": "1 (lower end of a bin of certainty)",
        "looks": "count",
        "sum_certainty": "1 (sum of certainties)",
        "sum_right": "count",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
