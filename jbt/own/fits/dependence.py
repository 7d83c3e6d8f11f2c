"""Whether verdicts of a pair, in both orders or repeated, agree with each other more than the
qualities, c and kappa of their pool say: intervals of a single pool take them as independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jbt.own import tables as own_tables
from jbt.own.fits.batch import Batch
from jbt.own.fits.pools import PoolFit
from jbt.stats.score_tests import Residuals, contrast, grouped, part


def p_pairs(batch: Batch, judge: int, fits: Sequence[PoolFit], seed: int = 0) -> float:
    """p of the hypothesis that a judge's verdicts are independent, against effects that verdicts of
    a pair of items share (`stats.score_tests`); NaN where no pair has two.

    Args:
      judge: into the tables' judges.
      fits: of the judge's pools, in the order of the tables.
      seed: of the draws, and of the part of the pools that is tested.
    """
    from scipy import sparse, special

    tables, rng = batch.tables, np.random.default_rng(seed)
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    usable = np.array([fit.usable for fit in fits])
    verdicts = verdicts[usable[verdicts["pool"]]].reset_index(drop=True)
    pairs = np.sort(verdicts[["first", "second"]].to_numpy(), axis=1)
    shown = verdicts.groupby([pairs[:, 0], pairs[:, 1]])["count"].transform("sum")
    if not (shown > 1).any():
        return np.nan
    kept = part(verdicts["pool"].to_numpy(), verdicts["count"].to_numpy(float), rng)
    verdicts, pairs = verdicts.iloc[kept], pairs[kept]
    sides = verdicts[["first", "second"]].to_numpy().T
    pool, count = verdicts["pool"].to_numpy(), verdicts["count"].to_numpy(float)
    content = tables.items["content"].to_numpy() + len(tables.items) * tables.items["pool"]
    model = batch.model
    x, *_ = own_tables.covariate_values(
        tables, model.covariates, model.transform, model.standardise
    )
    kappa = np.array([fit.kappa for fit in fits])[pool]
    ordered = verdicts["shown"].to_numpy() * np.isfinite(kappa)
    biases = np.column_stack([x[sides[0]] - x[sides[1]], ordered])
    columns = [contrast(content.to_numpy()[sides]), *(grouped(pool, b) for b in biases.T)]
    phi = np.concatenate([fit.phi for fit in fits])
    p = special.expit(phi[sides[0]] - phi[sides[1]] + np.where(ordered, kappa, 0))
    wins = count * verdicts["p_first"].to_numpy()
    residuals = Residuals(sparse.hstack(columns).tocsr(), count, wins, p)
    pair = pairs[:, 0] + len(tables.items) * pairs[:, 1]
    return residuals.p_value(grouped(pair, np.sign(sides[1] - sides[0])), rng)
