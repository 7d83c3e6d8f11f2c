"""One pool's active loop: pick R pairs by the posterior of the last fit, ask the judge, refit."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jbt.acquisition import panel_rules
from jbt.acquisition.panel_rules import PanelRule
from jbt.acquisition.picks import Queries, ask, available, available_of_panel, open_pairs
from jbt.acquisition.rules import Rule, Score
from jbt.acquisition.task import PROTOCOLS, Task
from jbt.acquisition.views import PanelView, View, of_each_judge
from jbt.kernel import metrics, model
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.kernel.membership import (
    DRAWS,
    antithetic_normals,
    check_k,
    counted,
    membership,
    sobol_normals,
)
from jbt.types import Comparisons, Parameters, Posterior, Status, container

INIT = 2**32 - 1
"""Number that folds a run's key for its tie-breaks; that of the verdict folds it for a pick."""


@dataclasses.dataclass(frozen=True)
class Loop:
    """How to run the loop; a change of any field compiles it again."""

    rule: str | Rule | PanelRule | Score = "top_k_aware"
    """A name in `rules.RULES`, a `Rule`, or a function `(view, key) -> scores [N, N]`; with several
    judges also a name in `panel_rules.PANEL_RULES`, or a `PanelRule`."""
    k: int = 5
    """Size of the top set."""
    refit_every: int = 8
    """R, picks between refits."""
    protocol: str = "frozen"
    """One of `PROTOCOLS`."""
    n_samples: int | None = None
    """S, draws for the membership; None: 64, or 1500 if counted (`membership.DRAWS`)."""
    membership: str = "conditional"
    """`conditional`: the mean over S scrambled Sobol draws of each content's chance given the rest
    of the draw. `counted`: the paper's, the share of S antithetic normal draws that have the
    content in their top k; it takes some 20 times as many draws."""
    parallel: bool = False
    """Whether the verdicts of a block arrive together at its end. Until then rules count half a win
    for each of them; by default they see every verdict, and only the posterior waits."""

    def __post_init__(self) -> None:
        panel_rules.resolve(self.rule)
        for name in ("refit_every", "n_samples", "k"):
            value = getattr(self, name)
            if value is not None and int(value) != value:
                raise ValueError(f"{name} must be a whole number, got {value}")
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.membership not in DRAWS:
            known = " or ".join(DRAWS)
            raise ValueError(f"membership must be {known}, got {self.membership!r}")
        if self.protocol not in PROTOCOLS:
            known = " or ".join(PROTOCOLS)
            raise ValueError(f"protocol must be {known}, got {self.protocol!r}")


@container
class State:
    """State of a run between two blocks."""

    key: Key[Array, ""]
    """The run's key, the same throughout."""
    asked: Int[Array, ""]
    """Verdicts so far."""
    comparisons: Comparisons
    """Counts [N, N]; with several judges [N, N, J]."""
    parameters: Parameters
    """The MAP of these comparisons."""
    status: Int[Array, ""]
    """The `Status` of the fit, or `NOT_FINITE` if a score of the last block was not finite."""
    shuffle: Int[Array, " P"]
    signs: Float[Array, " P"]
    """All runs share one table of standard normals; each permutes it over the parameters and flips
    signs in its own way."""
    priority: Float[Array, " M"]
    """Breaks ties between contents, in rules that rank them."""


def init(key: Key[Array, ""], task: Task, loop: Loop) -> State:
    """The state before the first verdict: nothing asked, parameters at the prior's mean.

    Args:
      key: for the run's own randomness: tie-breaks, the rule's draws, fresh verdicts.

    Raises:
      ValueError: k out of range.
    """
    design, judges = task.design, task.n_judges
    m = design.n_contents
    p = m + (design.n_covariates + 1) * (judges or 1)
    check_k(loop.k, m)
    shuffle, signs, priority = jax.random.split(jax.random.fold_in(key, INIT), 3)
    no_verdicts = jnp.zeros(task.answers.shape, design.dtype)
    return State(
        key=key,
        asked=jnp.array(0),
        comparisons=Comparisons(no_verdicts, no_verdicts),
        parameters=Parameters.zeros(design, judges),
        status=jnp.array(int(Status.CONVERGED)),
        shuffle=_random_order(shuffle, p),
        signs=jax.random.rademacher(signs, (p,), design.dtype),
        priority=_random_order(priority, m).astype(design.dtype),
    )


def _random_order(key: Key[Array, ""], n: int) -> Int[Array, " n"]:
    """0..n-1 in random order: the ranks of random bits, ties in order of their place. Ranks are
    counted; `jax.random.permutation` sorts, which is slow for many short rows."""
    bits, number = jax.random.bits(key, (n,), jnp.uint32), jnp.arange(n)
    tied = (bits == bits[:, None]) & (number < number[:, None])
    return ((bits < bits[:, None]) | tied).sum(1)


def look(state: State, task: Task, loop: Loop) -> View | PanelView:
    """The view for the first pick of a block; with several judges a `PanelView`."""
    design, verdicts = task.design.centred(), task.verdicts(state.comparisons)
    # The Hessian is computed anew. Handing over the last one of Newton's method makes a block 1 to
    # 4 % slower in float32 and no faster in float64 (512 pools of 30 answers, one core): reading it
    # costs what computing it does.
    posterior = laplace(state.parameters, verdicts, design, task.prior, task.variant)
    covariance = posterior.covariance()
    chances = _estimate_membership(posterior, state, task, loop)
    probability = jax.nn.sigmoid(model.logits_of(state.parameters, design, verdicts))
    panelists = task.panelists
    if panelists is None:
        return View(
            design=design,
            posterior=posterior,
            covariance=covariance,
            membership=chances,
            probability=probability,
            shown=state.comparisons.shown,
            wins=state.comparisons.wins,
            available=available(state.comparisons, task, loop.protocol),
            priority=state.priority,
            k=loop.k,
        )
    askable, shown = (jnp.moveaxis(v, -1, 0) for v in (open_pairs(task), state.comparisons.shown))
    views = of_each_judge(
        posterior,
        state.comparisons,
        discrimination=panelists.discrimination,
        sharing=panelists.sharing,
        design=design,
        covariance=covariance,
        probability=probability,
        available=available_of_panel(askable, shown, panelists, loop.protocol),
        membership=chances,
        priority=state.priority,
        k=loop.k,
    )
    spent = panelists.spent(shown.sum((1, 2)))
    return PanelView(views, posterior, covariance, panelists.price, spent, panelists.purse)


def step(
    state: State, task: Task, loop: Loop, *, picks: int | None = None
) -> tuple[State, Queries]:
    """Run one block: R picks (or `picks`) by the posterior of the last fit, then a refit."""
    view, rule = look(state, task, loop), panel_rules.resolve(loop.rule)
    times = state.asked + jnp.arange(loop.refit_every if picks is None else picks)
    comparisons, undefined, queries = ask(
        view, rule, state.key, times, task, loop.protocol, parallel=loop.parallel
    )
    parameters, status = refit(comparisons, state.parameters, task)
    state = dataclasses.replace(
        state,
        asked=state.asked + (queries.first >= 0).sum(),
        comparisons=comparisons,
        parameters=parameters,
        status=jnp.where(undefined, Status.NOT_FINITE, status),
    )
    return state, queries


def recall(state: State, task: Task, loop: Loop) -> Float[Array, ""]:
    """Top-k recall of the current estimate."""
    mask = task.design.content_mask()
    return metrics.top_k_recall(state.parameters.theta, task.quality, loop.k, mask)


def refit(
    comparisons: Comparisons, start: Parameters, task: Task
) -> tuple[Parameters, Int[Array, ""]]:
    """The MAP of these comparisons, started at `start`, and its `Status`."""
    start = Parameters(
        start.theta, jnp.where(task.variant.c, start.c, 0), start.kappa * task.variant.kappa
    )
    fit = fit_map(task.verdicts(comparisons), task.design, task.prior, task.variant, start=start)
    return fit.parameters, fit.status


def _estimate_membership(
    posterior: Posterior, state: State, task: Task, loop: Loop
) -> Float[Array, " M"]:
    """P(content is in the top k), by the estimate and the normals that the loop asks for."""
    sizes = (loop.n_samples or DRAWS[loop.membership], len(state.shuffle), task.design.dtype)

    def arrange(rows: Float[Array, "P M"]) -> Float[Array, "P M"]:
        # z @ (rows, permuted and signed) = (z, permuted back and signed) @ rows, without touching
        # the table. Sobol points stay as evenly spread when coordinates are permuted or mirrored.
        return rows[state.shuffle] * state.signs[:, None]

    mask = task.design.content_mask()
    if loop.membership == "counted":
        normals = antithetic_normals(*sizes)
        return counted(posterior, loop.k, mask, normals, arrange)
    normals = sobol_normals(*sizes)
    return membership(posterior, loop.k, mask, normals, arrange)
