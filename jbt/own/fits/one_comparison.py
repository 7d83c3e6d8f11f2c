"""What a judge does on one comparison, where quality, c and the verdicts on a pair vary.

    logit P(first wins | judge g) = s_g (q_first - q_second) + (c_g + v_gp) . (x_first - x_second)
                                    + kappa_g + e_g(pair),
    q = b . (mean x of the content) + t + u

for the items of pool p: t is the quality of a content about its line in the covariates, u what the
quality of this version of it differs from that by, v what c in this pool differs from c_g by, and e
what a pair of items adds to each of the judge's verdicts on it. All are independent and normal,
with sds that are estimated (`estimators.mixed`): one for e, and for v one of each judge.

One judge alone has s = 1. Of several, s is that of the fit of average effects (`shared`); to the
variance of c comes how far c moves with s + the standard error of s.

The c over all pools of `shared` is another number: the average effect, which what varies draws
towards 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from jbt.estimators import mixed
from jbt.own.fits.batch import Batch
from jbt.own.fits.shared import SharedFit
from jbt.own.shared_coefficients.intervals import Basis, Z
from jbt.own.shared_coefficients.one_comparison import (
    ENDS,
    GUESSES,
    HELD,
    MOST,
    UNDECIDED,
    WIDEST,
    OneComparison,
    decided,
    ends,
    spread_of,
)
from jbt.own.tables.tables import covariate_values
from jbt.stats.score_tests import part
from jbt.types import Prior, Status

FEWEST = 12
"""Pools below which nothing is fitted: no coverage is simulated there."""

PRIORS_SHARE = 0.15
"""Largest share of the prior in the information about a standard deviation that is estimated. With
the .5 of leaderboards, which have more prompts, sds of 12 pools in which nothing varies came out as
.3 to .5 in 60 simulated studies, and c = 1 as 1.19 in place of 1.11."""

CONTENTS, VERSIONS = "quality between contents", "quality between versions of a content"
PAIRS, BETWEEN = "verdicts on a pair", "between pools"
"""Names of effects; the last ends those of c."""


class OfPools(OneComparison):
    """The coefficients of one judge that are measured over all pools, on one comparison."""

    CLUSTERS = "pools"
    COVERAGE = HELD.format("0.94 of 9628", "0.92 to 0.95") + GUESSES.format("0.50 of 1097")


class OfJudges(OfPools):
    """The same of all judges together."""

    COVERAGE = HELD.format("0.95 of 7827", "0.92 to 0.97")


def one_comparison(
    fit: SharedFit, owner: int, prior: Prior | None = None, *, seed: int = 0
) -> OfPools | str:
    """Fit what varies, with the coefficients on one comparison of one owner of shared coefficients,
    by pools of at most `WIDEST` different verdicts.

    Args:
      fit: of each judge alone, or of all together.
      owner: number of the judge; 0 for all together.
      prior: of the coefficients; default `Prior()`.
      seed: of the part of the pools that is taken of more than `MOST` different verdicts.

    Returns:
      The fit, or why there is none.
    """
    of_c = fit.of("c")
    of_c = of_c[of_c["owner"] == owner]
    measured = (of_c["basis"] == Basis.MEASURED).to_numpy()
    panel = fit.model.judges
    if not measured.any():
        return "no c over all pools is measured"
    if panel is not None and not panel.known.any():
        return "of judges together one must be trusted (--reference, --anchors)"
    if not decided(fit.model.batch.tables, owner if panel is None else None):
        return UNDECIDED
    design = _Design.of(fit, owner, prior or Prior(), seed)
    n_pools = design.verdicts["pool"].nunique()
    if n_pools < FEWEST:
        return (
            f"it takes {FEWEST} pools with at most {WIDEST} different verdicts of all judges of "
            f"the fit, and finds {n_pools}"
        )
    names = of_c.loc[measured, ["judge", "name", "unit"]].reset_index(drop=True)
    names, kind = names.rename(columns={"name": "covariate"}), OfJudges
    if panel is None:
        names, kind = names.drop(columns="judge"), OfPools
    result = kind(
        status=Status.NOT_CONVERGED,
        c=names.assign(**dict.fromkeys(ENDS, np.nan)),
        spread=pd.DataFrame({"effect": [], "sd": [], "log_error": []}),
        n_clusters=n_pools,
        n_all=design.n_all,
    )
    try:
        found = mixed.fit(design.mixed(), PRIORS_SHARE)
        others = [
            mixed.fit(other.mixed(), PRIORS_SHARE, found.sd)
            for other in design.other_discriminations(fit)
        ]
    except np.linalg.LinAlgError:  # the other results do not depend on this fit
        return result
    if any(one.status != Status.CONVERGED for one in (found, *others)):
        return result
    places = np.arange(len(design.batch.covariates) * len(design.judges))
    at = places.reshape(-1, len(design.judges))[:, ~design.known].T.ravel()[measured]
    c = ends(found, np.eye(len(found.beta))[at])
    middle, half = (c["high"] + c["low"]) / 2, (c["high"] - c["low"]) / 2
    moved = [np.zeros(len(at)), *((other.beta - found.beta)[at] for other in others)]
    half = np.hypot(half, Z * np.linalg.norm(moved, axis=0))
    c = c.assign(low=middle - half, high=middle + half)
    c, spread = names.join(c), spread_of(found)
    return replace(result, fit=found, status=Status.CONVERGED, c=c, spread=spread)


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
    lam_b: np.ndarray
    """[D + 1] precision of the prior of c and kappa."""
    verdicts: pd.DataFrame
    """A row for each pool, judge (into `judges`), first and second (rows of the items), ordered
    (whether kappa enters), with shown and wins (counts)."""
    n_all: int
    """Pools with verdicts (count)."""

    @classmethod
    def of(cls, fit: SharedFit, owner: int, prior: Prior, seed: int) -> _Design:
        batch, panel = fit.model.batch, fit.model.judges
        tables = batch.tables
        free = np.array([pool.position for pool in batch.pools])
        rows = tables.verdicts.reset_index(drop=True)
        rows = pd.DataFrame(
            {
                **{name: rows[name] for name in ("pool", "judge", "first", "second")},
                "ordered": rows["shown"] & free[rows["pool"] * len(tables.judges) + rows["judge"]],
                "shown": rows["count"].astype(float),
                "wins": rows["count"] * rows["p_first"],
            }
        )
        if panel is None:
            rows = rows[rows["judge"] == owner].assign(judge=0)
            judges, known, s = (tables.judges[owner],), np.zeros(1, bool), np.ones(1)
        else:
            judges, known = panel.names, panel.known
            s = fit.of("discrimination")["estimate"].to_numpy()
        rows = rows.groupby(["pool", "judge", "first", "second", "ordered"], as_index=False).sum()
        rng = np.random.default_rng(seed)
        pool, shown = rows["pool"].to_numpy(), rows["shown"].to_numpy()
        rows = rows.iloc[part(pool, shown, rng, most=MOST, widest=WIDEST)].reset_index(drop=True)
        lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), len(batch.covariates) + 1)
        return cls(batch, judges, known, s, lam_b, rows, len(np.unique(pool)))

    def other_discriminations(self, fit: SharedFit) -> list[_Design]:
        """The same for each discrimination that is estimated, larger by its standard error."""
        if len(self.judges) == 1:
            return []
        at = fit.model.places["discrimination"]
        errors = np.sqrt(np.diagonal(np.linalg.inv(fit.top.information[0]))[at])
        steps = np.diag(errors * (fit.top.weight[at] > 0))
        return [replace(self, discrimination=self.discrimination + s) for s in steps if s.any()]

    def mixed(self) -> mixed.Mixed:
        """The problem, whose coefficients are c [D, J], kappa [J] and b [D]."""
        from scipy import sparse

        tables, model, rows = self.batch.tables, self.batch.model, self.verdicts
        covariates = self.batch.covariates
        x, _, _ = covariate_values(tables, model.covariates, model.transform, model.standardise)
        sides, judge = rows[["first", "second"]].to_numpy().T, rows["judge"].to_numpy()
        n = len(tables.items)
        content = tables.items.groupby(["pool", "content"]).ngroup().to_numpy()
        means = pd.DataFrame(x).groupby(content).transform("mean").to_numpy()
        s = self.discrimination[judge]
        difference, between = (v[sides[0]] - v[sides[1]] for v in (x, means))
        own = np.eye(len(self.judges))[judge] * ~self.known
        columns = [difference[:, [i]] * own for i in range(len(covariates))]
        columns += [own * rows[["ordered"]].to_numpy(), s[:, None] * between]
        slopes = {}
        for g in np.flatnonzero(~self.known):
            whose = f" of {self.judges[g]}" if len(self.judges) > 1 else ""
            for i, name in enumerate(covariates):
                slopes[f"c[{name}]{whose} {BETWEEN}"] = difference[:, i] * own[:, g]
        of_quality = {CONTENTS: content[sides]}
        if len(np.unique(content)) < n:
            of_quality[VERSIONS] = sides
        # The effect of a pair favours its item with the smaller number.
        pair, favoured = (judge * n + sides.min(0)) * n + sides.max(0), sides == sides.min(0)
        return mixed.Mixed(
            fixed=sparse.csr_array(np.column_stack(columns)),
            precision=np.r_[np.repeat(self.lam_b, len(self.judges)), self.lam_b[:-1]],
            shown=rows["shown"].to_numpy(),
            wins=rows["wins"].to_numpy(),
            cluster=rows["pool"].to_numpy(),
            units=of_quality | {PAIRS: np.where(favoured, pair, -1)},
            factors=dict.fromkeys(of_quality, s),
            slopes=slopes,
        )
