"""One contract for every estimator of the registry, a user's own included."""

import jax
import numpy as np
import pytest
from support import problems
from support.problems import M, N

from jbt.estimators import ESTIMATORS
from jbt.types import Comparisons, Design, Prior, Status

SAME = np.arange(N)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_contract_of_an_estimator(name, x64):
    """Pools of every kind, padding among them: as a batch and alone; with the items in another
    order, which means nothing; with verdicts turned round."""
    estimate = jax.jit(ESTIMATORS[name])
    qs = [problems.random_problem(seed, shared=False) for seed in range(6)]
    batch = problems.as_batch(qs, shared=False, dtype="float64")[:2]
    together = jax.jit(jax.vmap(lambda *pool: ESTIMATORS[name](*pool, Prior())))(*batch)
    betas = problems.flat(together.parameters)
    assert (together.status == Status.CONVERGED).all()
    assert np.isfinite(betas).all()
    assert np.ptp(betas[:, :M], axis=1).min() > 0.1
    for i, q in enumerate(qs):
        comparisons, design = jax.tree.map(lambda v, i=i: v[i], batch)

        def flat(shown, wins, order=SAME, design=design):
            pool = Comparisons(*(v[order][:, order] for v in (shown, wins)))
            x, mask = design.covariates[order], design.item_mask[order]
            return estimate(pool, Design(x, None, mask, N), Prior()).parameters.flat()

        def close(found, expected):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)

        shown, wins = comparisons.shown, comparisons.wins
        close(flat(shown, wins), betas[i])
        assert not betas[i, q.n : M].any()
        order = np.random.default_rng(i).permutation(N)
        close(flat(shown, wins, order), np.r_[betas[i, order], betas[i, M:]])
        # Each verdict read with the second item as the first: kappa alone turns its sign.
        swapped = np.r_[betas[i, :-1], -betas[i, -1]]
        close(flat(shown.T, (shown - wins).T), swapped)
        # Each verdict turned: quality, c and kappa turn their signs.
        close(flat(shown, shown - wins), -betas[i])
