"""Tasks, views and rules that the tests of the active loop share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jbt.acquisition import Rule, Task, init, rules
from jbt.acquisition.loop import look
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Judge, Pool, Prior, Variant

N, K, R = 8, 3, 4
compiled_init = jax.jit(init, static_argnames="loop")
compiled_look = jax.jit(look, static_argnames="loop")


def widest(view, key):
    """A user's own rule."""
    return view.difference_variance()


EVERY_RULE = {**rules.RULES, "widest (a user's)": Rule(widest)}


@jax.jit
def _score_by_number(which, view, key):
    return jax.lax.switch(which, [rule.score for rule in EVERY_RULE.values()], view, key)


def score_by(name, view, key):
    """Scores [N, N] of one of `EVERY_RULE`, which share a compilation."""
    return np.asarray(_score_by_number(jnp.array([*EVERY_RULE].index(name)), view, key))


@functools.partial(jax.jit, static_argnames=("n", "frozen"))
def binary_task(key, n=N, *, frozen=True, free=True):
    pool = pools.gaussian(stream(key, "pool"), n, sd=1.25, rho=jnp.asarray(0.0), covariate="binary")
    judge = Judge(jnp.full(1, 1.5), 0.35)
    if frozen:
        answers = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
    else:
        answers = judges.verdict_probability(pool, judge)
    return Task.build(pool, answers, variant=Variant(jnp.full(1, free), jnp.asarray(free)))


@jax.jit
def fitted(comparisons, design):
    variant = model.variant("bias_aware", design)
    mode = fit_map(comparisons, design, Prior(), variant).parameters
    posterior = laplace(mode, comparisons, design, Prior(), variant)
    return mode, posterior, posterior.covariance(), jax.nn.sigmoid(model.logits(mode, design))


@functools.cache
def view_of(seed, kind="plain", k=2):
    """A view in the middle of a run: 7 items, of one content each, of shared contents, or two of
    them padding."""
    rng = np.random.default_rng(seed)
    n = 7
    mask = np.arange(n) < (5 if kind == "padded" else n)
    content = np.array([0, 0, 1, 1, 2, 3, 4]) if kind == "shared" else None
    design = Design.build(rng.standard_normal((n, 2)), content, mask)
    m = design.n_contents
    shown = rng.integers(0, 2, (n, n)) * (1 - np.eye(n)) * mask[:, None] * mask
    comparisons = Comparisons.build(shown, shown * rng.integers(0, 2, (n, n)))
    mode, posterior, covariance, probability = fitted(comparisons, design)
    real = np.asarray(design.content_mask())
    share = np.where(real, rng.dirichlet(np.ones(m)), 0)
    share = share * k / share.sum()
    return rules.View(
        design=design,
        posterior=posterior,
        covariance=covariance,
        membership=jnp.asarray(np.clip(share, 0, 1)),
        probability=probability,
        shown=comparisons.shown,
        wins=comparisons.wins,
        available=(pairs.every_pair(Pool(mode.theta, design)) > 0) & (comparisons.shown == 0),
        priority=jnp.asarray(rng.permutation(m).astype(float)),
        k=k,
    )
