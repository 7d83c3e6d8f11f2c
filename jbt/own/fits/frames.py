"""Fits of several pools or judges as one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import pandas as pd

from jbt.own.fits.judges import JOINT

if TYPE_CHECKING:
    from jbt.own.fits.panel import PanelFit

COLUMNS = (
    *("judge", "pool", "quantity", "name"),
    *("estimate", "low", "high"),
    *("naive", "rank", "membership"),
    *("prior_selected", "status"),
)


@runtime_checkable
class HasRows(Protocol):
    def rows(self, covariates: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a row for each estimate."""
        ...


F = TypeVar("F", bound=HasRows)


class Fits(list[F]):
    """Fits in the order of a batch's pools or judges."""

    def __init__(self, fits: Iterable[F], covariates: Sequence[str]) -> None:
        super().__init__(fits)
        self.covariates = tuple(covariates)

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `frame`."""
        return frame(row for fit in self for row in fit.rows(self.covariates))


def frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A row for each estimate: judge, pool (empty: all pools together), quantity (theta, c, kappa,
    or of all judges together c_joint, kappa_joint and slope), name (of the content or covariate),
    estimate, low and high (empty where the prior chose), naive, rank and membership (of theta),
    prior_selected, status."""
    numbers = dict.fromkeys(("estimate", "low", "high", "naive", "membership"), float)
    table = pd.DataFrame(list(rows), columns=pd.Index(COLUMNS))
    return table.astype({**numbers, "rank": "Int64"})


def panel_rows(fit: PanelFit) -> Iterator[dict[str, Any]]:
    """Yield a row for each estimate of a joint fit; slopes and qualities belong to `joint`."""
    status = fit.status.name.lower()
    for judge in fit.judges:
        for name, estimate in judge.named(fit.covariates):
            yield {
                "judge": judge.judge,
                "quantity": "kappa_joint" if name is None else "c_joint",
                "name": name,
                **estimate.numbers(),
                "prior_selected": estimate.prior_selected,
                "status": status,
            }
    of_all = {"judge": JOINT, "prior_selected": False, "status": status}
    for name, estimate in fit.slope.items():
        yield {**of_all, "quantity": "slope", "name": name, **estimate.numbers()}
    for pool in fit.pools:
        for content in pool.ranking:
            yield {
                "judge": JOINT,
                "pool": pool.pool,
                "quantity": "theta",
                "name": content.content,
                "estimate": content.theta,
                "low": content.low,
                "high": content.high,
                "naive": content.theta_naive,
                "rank": content.rank,
                "membership": content.membership,
                "prior_selected": pool.prior_selected,
                "status": pool.status.name.lower(),
            }
