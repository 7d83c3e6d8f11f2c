"""What all judges' verdicts together say about each judge's bias coefficients, pool by pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from jbt import runtime
from jbt.border.report import Section
from jbt.identifiability import (
    BiasEstimate,
    Profile,
    estimate_bias,
    grid_around,
    null_space,
    profile,
)
from jbt.kernel.fit import fit_map
from jbt.own.examine import identify
from jbt.own.examine.identify import Identified, content_names
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges, PanelGroup, known_in_words, only, panels_of
from jbt.own.shared_coefficients import directions
from jbt.own.shared_coefficients.laplace import Part
from jbt.own.tables import agreement
from jbt.own.tables.tables import Tables
from jbt.types import Design, Fit, Prior, Status, Variant, Verdicts


@dataclass(frozen=True, eq=False)
class IdentifiedTogether(Identified):
    """The same of a judge among others, whose qualities are one."""

    told_by: tuple[str, ...]
    """With whose verdicts on the pool c is identified, see `Judges.tellers`; nobody: empty."""

    def record(self) -> dict[str, Any]:
        return {**super().record(), "told_by": list(self.told_by)}


def identify_panel(
    batch: Batch, judges: Judges, prior: Prior | None = None
) -> list[IdentifiedTogether]:
    """What all verdicts on every pool say about each covariate's coefficient of each judge whose
    biases are unknown (float64).

    Args:
      batch: of the tables that `judges` is of.
      prior: as in `identify.identify`.

    Returns:
      One for each pool, each such judge and each of `batch.covariates`.

    Raises:
      ValueError: no covariates; every judge's biases are known.
    """
    if not batch.covariates:
        raise ValueError("no covariate whose coefficient could be identified (--covariates)")
    if judges.known.all():
        raise ValueError("c and kappa of every judge are known: there is nothing to identify")
    prior = Prior() if prior is None else prior
    names = content_names(batch.tables)
    found: dict[int, list[IdentifiedTogether]] = {}
    with runtime.precision("float64"):
        for group in batch.groups:
            found.update(_of_group(batch, panels_of(group, judges), judges, prior, names))
    return [one for i in range(len(batch.tables.pools)) for one in found[i]]


def _of_group(
    batch: Batch, group: PanelGroup, judges: Judges, prior: Prior, names: list[list[str]]
) -> Iterator[tuple[int, list[IdentifiedTogether]]]:
    d = len(batch.covariates)
    which = [(g, i) for g in np.flatnonzero(~judges.known).tolist() for i in range(d)]
    judge, covariate = (jnp.asarray(v) for v in zip(*which, strict=True))
    each = group.panel, group.design, group.variant
    measured = _measure(*each, judge, covariate, prior)
    curve, evidence, estimate, mode = jax.device_get(measured)
    told, leaves = _Told(group), jax.device_get(each)
    for i, at in enumerate(group.index.tolist()):
        comparisons, design, variant = jax.tree.map(lambda v, i=i: jnp.asarray(v[i]), leaves)
        null = null_space(
            design,
            comparisons,
            batch.covariates,
            contents=names[at] + [""] * (design.n_contents - len(names[at])),
            judges=judges.names,
            variant=variant,
        )
        converged = mode.status[i] == Status.CONVERGED
        tellers = list(judges.tellers(partial(told.in_pool, i)))
        some = []
        for j, (g, c) in enumerate(which):
            status = estimate.status[i, j] if converged else mode.status[i]
            some.append(
                IdentifiedTogether(
                    pool=batch.tables.pools[at],
                    judge=judges.names[g],
                    covariate=batch.covariates[c],
                    unit=f"{batch.units} {batch.covariates[c]}",
                    rank=null.rank,
                    n_columns=null.n_columns,
                    null_directions=null.names,
                    grid=curve.grid[i, j],
                    log_likelihood=curve.log_likelihood[i, j],
                    profile_range=float(evidence[i, j]),
                    c_map=float(mode.parameters.c[i, c, g]) if converged else np.nan,
                    c_mle=float(estimate.c[i, j]),
                    low=float(estimate.low[i, j]),
                    high=float(estimate.high[i, j]),
                    withheld="",
                    status=Status(int(status)),
                    told_by=tellers[g][c],
                )
            )
        yield at, some


@jax.jit
def _measure(
    comparisons: Verdicts,
    design: Design,
    variant: Variant,
    judge: Int[Array, " K"],
    covariate: Int[Array, " K"],
    prior: Prior,
) -> tuple[Profile, Array, BiasEstimate, Fit]:
    """`identify._measure`, of K coefficients."""

    def one(comparisons: Verdicts, design: Design, variant: Variant) -> tuple:
        mode = fit_map(comparisons, design, prior, variant)

        def of(
            g: Int[Array, ""], d: Int[Array, ""]
        ) -> tuple[Profile, Float[Array, ""], BiasEstimate]:
            which = {"covariate": d, "judge": g, "variant": variant}
            curve = profile(comparisons, design, grid_around(mode.parameters.c[d, g]), **which)
            return curve, curve.range(), estimate_bias(comparisons, design, **which)

        return *jax.vmap(of)(judge, covariate), mode

    return jax.vmap(one)(comparisons, design, variant)


class _Told:
    """Which coefficients some judges' verdicts on a pool identify."""

    def __init__(self, group: PanelGroup) -> None:
        self._group, self._found = group, {}

    def in_pool(self, i: int, some: np.ndarray) -> np.ndarray:
        """[D + 1, J], in pool i of the group, by the verdicts of some judges [J]."""
        key = some.tobytes()
        if key not in self._found:  # of all pools at once
            group = self._group
            n_pools, d, j = group.variant.c.shape
            c, kappa = np.asarray(group.variant.c), np.asarray(group.variant.kappa)
            free = np.concatenate([c, kappa[:, None]], 1).reshape(n_pools, -1)
            hears = jnp.asarray(free[:, :, None] * np.eye((d + 1) * j))
            owner = np.arange(n_pools)
            part = Part(only(group.panel, some), group.design, hears, owner)
            told = directions.null_directions([part], n_pools).told & free
            self._found[key] = told.reshape(n_pools, d + 1, j)
        return self._found[key][i]


def sections(tables: Tables, found: Sequence[IdentifiedTogether], judges: Judges) -> list[Section]:
    """In words, as `identify.report` has it of each judge alone; and who tells what."""
    agreements = agreement.by_judge(tables, judges.known)
    lines = [known_in_words(judges.trusted), *agreement.in_words(agreements)]
    of: dict[tuple[str | None, str], list[IdentifiedTogether]] = {}
    for one in found:
        of.setdefault((one.judge, one.covariate), []).append(one)
    for (judge, covariate), pools in of.items():
        by = Counter(name for one in pools for name in one.told_by or ("nobody",))
        if len(pools) == 1:
            said = ", ".join(by)
        else:
            said = ", ".join(f"{name} in {n}" for name, n in by.items()) + f" of {len(pools)} pools"
        lines.append(f"c[{covariate}] of {judge} is told by {said}")
    more = identify.report("", [], list(found)).sections
    return [
        Section("All judges together, one quality", lines),
        *(Section(f"{one.title}, all judges together", one.lines) for one in more),
    ]


def table(found: Sequence[IdentifiedTogether]) -> pd.DataFrame:
    """The columns of `identify.table`, and `told_by`."""
    of = identify.table(list(found))
    return of.assign(told_by=["; ".join(names) for names in of["told_by"]])
