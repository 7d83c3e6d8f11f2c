"""What the comparisons made cannot tell."""

from __future__ import annotations

import numpy as np

from jbt.types import Design


def prior_selected(design: Design, shown: np.ndarray) -> tuple[str, ...]:
    """Which of theta, c, kappa and phi the comparisons made are silent about [Prop. 2].

    Those that some null direction of the design matrix of the pairs shown moves: the likelihood
    is flat along it, so the prior chooses. theta and phi are meant up to a constant.

    Args:
      design: one pool, float64.
      shown: [N, N] how often each ordered pair was shown.

    Returns:
      Their names, in this order.
    """
    items = np.asarray(design.item_mask)
    contents = np.asarray(design.content_mask())
    owner, x = np.asarray(design.ownership()), np.asarray(design.covariates)
    n_contents, n_covariates = design.n_contents, design.n_covariates
    spread = x[items].std(axis=0)
    x = x / np.where(spread > 0, spread, 1)  # so that units do not decide what counts as zero
    i, j = np.nonzero(shown)
    z = np.concatenate([owner[i] - owner[j], x[i] - x[j], np.ones((len(i), 1))], axis=1)
    values, vectors = np.linalg.eigh(z.T @ z)
    null = vectors[:, values <= 1e-12 * max(values.max(), 1.0)]

    def moves(directions: np.ndarray) -> bool:
        return bool((np.abs(directions) > 1e-6).any())

    def but_a_constant(v: np.ndarray) -> np.ndarray:
        return v - v.mean(axis=0)

    theta, c, kappa = null[:n_contents], null[n_contents:-1], null[-1:]
    silent = {
        "theta": moves(but_a_constant(theta[contents])),
        "c": n_covariates > 0 and moves(c),
        "kappa": moves(kappa),
        "phi": moves(but_a_constant((owner @ theta + x @ c)[items])),
    }
    return tuple(name for name, is_silent in silent.items() if is_silent)
