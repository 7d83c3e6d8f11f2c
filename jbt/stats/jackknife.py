"""Variances of estimates that many clusters share, from what each cluster adds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Jackknife(NamedTuple):
    """How well combinations of parameters are known, clusters being the unit."""

    sd: np.ndarray
    """[C] standard error of each combination."""
    dof: np.ndarray
    """[C] degrees of freedom of Student's t for it: effective number of clusters less one."""

    def half_width(self, level: float = 0.95) -> np.ndarray:
        """[C] of the interval at that level."""
        from scipy.stats import t

        return t.ppf((1 + level) / 2, self.dof) * self.sd


def jackknife(
    information: Float[np.ndarray, "K K"],
    scores: Float[np.ndarray, "G K"],
    informations: Float[np.ndarray, "G K K"],
    along: Float[np.ndarray, "C K"],
) -> Jackknife:
    """Standard errors without assuming what happens inside a cluster: neither that its verdicts are
    independent, nor that the parameters are the same in all clusters.

    Leaving cluster g out moves the estimate, to first order, by -(H - H_g)^-1 score_g; the variance
    is the sum of the squares (CR3: Bell and McCaffrey 2002; MacKinnon, Nielsen and Webb 2023), less
    what it is too large by, on average, where the model holds: there a cluster's score has
    covariance H_g before the estimate is taken off it, and the variance is that of H^-1. The
    degrees of freedom are Satterthwaite's under the same: few clusters, or few that matter, leave
    few.

    Args:
      information: H, the prior's included, at the optimum.
      scores: each cluster's term of the gradient there.
      informations: H_g, each cluster's term of the information.
      along: combinations of the K parameters.
    """
    left_out = np.linalg.solve(
        information - informations, np.broadcast_to(along.T, (len(scores), *along.T.shape))
    )  # [G, K, C]
    change = np.einsum("gk,gkc->gc", scores, left_out)
    # Covariances of the changes: on the diagonal w'H_g w, less what the estimate takes, v'H^-1 v.
    v = np.einsum("gkl,glc->gkc", informations, left_out)
    alone = np.einsum("gkc,gkc->gc", left_out, v)
    solved = np.linalg.solve(information, v)  # [G, K, C]
    shared = np.einsum("gkc,gkc->gc", v, solved)
    cross = np.einsum("gkc,glc->ckl", v, solved)
    every = np.einsum("ckl,clk->c", cross, cross)
    mean = (alone - shared).sum(0)
    square = ((alone - shared) ** 2).sum(0) + every - (shared**2).sum(0)
    known = np.einsum("ck,kc->c", along, np.linalg.solve(information, along.T))
    with np.errstate(invalid="ignore"):  # a parameter that no cluster moves
        return Jackknife(np.sqrt((change**2).sum(0) * known / mean), mean**2 / square)
