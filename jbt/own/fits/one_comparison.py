"""What a judge does on one comparison, where quality, c and the verdicts on a pair vary.

    logit P(first wins | judge g) = s_g (q_first - q_second) + (c_g + v_gp) . (x_first - x_second)
                                    + kappa_g + e_g(pair),
    q = b . (mean x of the content) + t + u

for the items of pool p: t is the quality of a content about its line in the covariates, u what the
quality of this version of it differs from that by, v what c in this pool differs from c_g by, and e
what a pair of items adds to every verdict on it. All are normal with sds that are estimated
(`estimators.mixed`). One judge alone has s = 1; of several, the discriminations s are those of the
fit of average effects (`shared`), and are taken as known.

The c over all pools of `shared` is another number: the average effect, which what varies draws
towards 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from jbt import runtime
from jbt.estimators import mixed
from jbt.own.fits.batch import Batch
from jbt.own.fits.shared import SharedFit
from jbt.own.shared_coefficients.arrays import places
from jbt.own.shared_coefficients.intervals import Basis
from jbt.own.shared_coefficients.one_comparison import (
    COVERAGE,
    ENDS,
    MOST,
    WIDEST,
    OneComparison,
    ends,
    spread_of,
)
from jbt.own.tables.tables import covariate_values
from jbt.stats.score_tests import part
from jbt.types import Prior, Status

FEWEST = 10
"""Pools below which nothing is fitted: no coverage is simulated there."""

PRIORS_SHARE = 0.15
"""Largest share of the prior in the information about a standard deviation that is estimated. With
the .5 of leaderboards, which have more prompts, those of 12 pools in which nothing varies come out
as .3 to .5, and c 20 % too large."""

CONTENTS, VERSIONS = "quality between contents", "quality between versions of a content"
PAIRS, BETWEEN = "verdicts on a pair", "between pools"
"""Names of effects; the last ends those of c."""


class OfPools(OneComparison):
    """The coefficients of one judge, or of all judges together, on one comparison."""

    CLUSTERS = "pools"
    COVERAGE = COVERAGE.format("0.94 of 3919", "0.91 to 0.97", "0.49 of 200")


def one_comparison(
    fit: SharedFit, owner: int, prior: Prior | None = None, *, seed: int = 0
) -> OfPools | None:
    """Fit what varies, with the coefficients on one comparison of one owner of shared coefficients;
    None where no c over all pools is measured, and with fewer than `FEWEST` pools of at most
    `WIDEST` different verdicts, which alone are taken. A c has an interval only where that over all
    pools has one.

    Args:
      fit: of each judge alone, or of all together.
      owner: number of the judge; 0 for all together.
      prior: of the coefficients; default `Prior()`.
      seed: of the part of the pools that is taken of more than `MOST` different verdicts.
    """
    of_c = fit.of("c")
    measured = (of_c.loc[of_c["owner"] == owner, "basis"] == Basis.MEASURED).to_numpy()
    design = _Design.of(fit, owner, seed)
    n_pools = len(np.unique(design.verdicts["pool"]))
    if not measured.any() or n_pools < FEWEST:
        return None
    prior = prior or Prior()
    result = OfPools(
        status=Status.NOT_CONVERGED,
        c=design.names.assign(**dict.fromkeys(ENDS, np.nan)),
        spread=pd.DataFrame({"effect": [], "sd": [], "log_error": []}),
        n_clusters=n_pools,
    )
    with runtime.precision("float64"):
        try:
            problem = design.mixed(float(np.asarray(prior.lam_b).max()))
            found = mixed.fit(problem, PRIORS_SHARE)
        except np.linalg.LinAlgError:  # the other results do not depend on this fit
            return result
        if found.status != Status.CONVERGED:
            return result
        if not any(found.sd.values()):
            return replace(result, status=Status.FLAT)
        along = np.eye(len(found.beta))[design.at["c"][:, ~design.known].T.ravel()]
        c = ends(found, along)
        c.loc[~measured, ["low", "high"]] = np.nan
        return replace(
            result,
            fit=found,
            status=Status.CONVERGED,
            c=design.names.join(c),
            spread=spread_of(found),
        )


@dataclass(frozen=True, eq=False)
class _Design:
    """The columns of the fit."""

    batch: Batch
    judges: tuple[str | None, ...]
    """[J]"""
    known: np.ndarray
    """[J] whether the biases of each judge are 0."""
    discrimination: np.ndarray
    """[J]"""
    verdicts: pd.DataFrame
    """A row for each pool, judge (into `judges`), first and second (rows of the items), ordered
    (whether kappa enters), with shown and wins (counts)."""

    @classmethod
    def of(cls, fit: SharedFit, owner: int, seed: int) -> _Design:
        batch, panel = fit.model.batch, fit.model.judges
        tables = batch.tables
        verdicts = tables.verdicts
        if panel is None:
            verdicts = verdicts[verdicts["judge"] == owner]
            judges, known, s = (tables.judges[owner],), np.zeros(1, bool), np.ones(1)
        else:
            judges, known = panel.names, panel.known
            s = fit.of("discrimination")["estimate"].to_numpy()
        free = np.array([pool.position for pool in batch.pools])
        number = verdicts["pool"] * len(tables.judges) + verdicts["judge"]
        judge = verdicts["judge"].to_numpy() if panel is not None else np.zeros(len(verdicts), int)
        rows = pd.DataFrame(
            {
                "pool": verdicts["pool"].to_numpy(),
                "judge": judge,
                "first": verdicts["first"].to_numpy(),
                "second": verdicts["second"].to_numpy(),
                "ordered": verdicts["shown"].to_numpy() & free[number] & ~known[judge],
                "shown": verdicts["count"].to_numpy(float),
                "wins": (verdicts["count"] * verdicts["p_first"]).to_numpy(),
            }
        )
        key = ["pool", "judge", "first", "second", "ordered"]
        rows = rows.groupby(key, as_index=False).sum()
        rng = np.random.default_rng(seed)
        pool, shown = rows["pool"].to_numpy(), rows["shown"].to_numpy()
        chosen = part(pool, shown, rng, most=MOST, widest=WIDEST)
        return cls(batch, judges, known, s, rows.iloc[chosen].reset_index(drop=True))

    @property
    def names(self) -> pd.DataFrame:
        """covariate, and of several judges judge, of each c."""
        judges = [name for name, known in zip(self.judges, self.known, strict=True) if not known]
        pairs = [(judge, name) for judge in judges for name in self.batch.covariates]
        table = pd.DataFrame(pairs, columns=pd.Index(["judge", "covariate"]), dtype=object)
        return table if len(self.judges) > 1 else table[["covariate"]]

    @cached_property
    def at(self) -> dict[str, np.ndarray]:
        d, j = len(self.batch.covariates), len(self.judges)
        return places(c=(d, j), kappa=(j,), slope=(d,))

    def mixed(self, lam_b: float) -> mixed.Mixed:
        """The problem; `lam_b` is the precision of the coefficients' prior."""
        from scipy import sparse

        tables, model, rows = self.batch.tables, self.batch.model, self.verdicts
        x, names, _ = covariate_values(tables, model.covariates, model.transform, model.standardise)
        sides = rows[["first", "second"]].to_numpy().T
        items = tables.items
        content = items.groupby(["pool", "content"]).ngroup().to_numpy()
        means = pd.DataFrame(x).groupby(content).transform("mean").to_numpy()
        judge = rows["judge"].to_numpy()
        s, biased = self.discrimination[judge], ~self.known[judge]
        difference, between = (v[sides[0]] - v[sides[1]] for v in (x, means))
        own = np.eye(len(self.judges))[judge] * biased[:, None]
        columns = [difference[:, [i]] * own for i in range(len(names))]
        columns += [own * rows["ordered"].to_numpy()[:, None], s[:, None] * between]
        pair = sides.min(0) * len(items) + sides.max(0)
        pair = np.unique(np.stack([judge, pair]), axis=1, return_inverse=True)[1].ravel()
        forward = sides[0] < sides[1]
        of_content = content[sides]
        slopes = {}
        for g, name in enumerate(self.judges):
            if not self.known[g]:
                whose = f" of {name}" if len(self.judges) > 1 else ""
                for i, covariate in enumerate(names):
                    slopes[f"c[{covariate}]{whose} {BETWEEN}"] = difference[:, i] * own[:, g]
        of_quality = {CONTENTS: np.where(of_content[0] == of_content[1], -1, of_content)}
        if len(np.unique(content)) < len(items):
            of_quality[VERSIONS] = sides
        of_pair = np.stack([np.where(forward, pair, -1), np.where(forward, -1, pair)])
        return mixed.Mixed(
            fixed=sparse.csr_array(np.column_stack(columns)),
            precision=np.full(self.at["slope"][-1] + 1, lam_b),
            shown=rows["shown"].to_numpy(),
            wins=rows["wins"].to_numpy(),
            cluster=rows["pool"].to_numpy(),
            units=of_quality | {PAIRS: of_pair},
            factors=dict.fromkeys(of_quality, s),
            slopes=slopes,
        )
