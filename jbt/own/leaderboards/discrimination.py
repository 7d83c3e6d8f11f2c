"""A joint leaderboard on which each judge has its own discrimination (judge-aware Bradley-Terry,
BT-sigma).

    logit = s_g (theta_first - theta_second) + c_g . d + kappa_g

s_g is the factor on quality in judge g's logits, 1 for the first judge whose biases are known, or
else the first judge: the verdicts identify only ratios, as a common factor is the scale of theta.
With s held at 1, a judge of little discrimination counts as much as one of much, and draws theta
towards 0.

It is the leaderboard with a slope on quality of `interaction`, the covariate of which is the judge:
gamma_g = s_g - 1, with the prior of c, so that s_g may be negative. `jbt fit --joint` has a
log-normal prior on s_g instead (`estimators.discrimination`): with few verdicts the two differ.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.interaction import Interaction, fit_interaction
from jbt.own.leaderboards.problem import Together
from jbt.types import Parameters


def fit_discriminations(stack: Together, judges: Judges, start: Parameters) -> Interaction:
    """Fit theta, all judges' c and kappa, and s - 1 of the judges of `estimated`.

    Args:
      start: the fit with s = 1.
    """
    problem = stack.problem
    rows = problem.rows
    indicator = np.zeros((len(problem.source), len(judges.names)))
    indicator[np.arange(len(stack.judge)), stack.judge] = 1
    sides = np.broadcast_to(
        indicator[:, estimated(judges)], (2, len(indicator), stack.n_judges - 1)
    )
    free = np.asarray(problem.variant.c)
    problem = dataclasses.replace(
        problem,
        sides=sides,
        rows=dataclasses.replace(rows, difference=jnp.asarray(np.asarray(rows.difference) * free)),
    )
    return fit_interaction(problem, start)


def estimated(judges: Judges) -> np.ndarray:
    """Indices of the judges whose discrimination is estimated: all but one."""
    return np.delete(np.arange(len(judges.names)), int(np.argmax(judges.known)))
