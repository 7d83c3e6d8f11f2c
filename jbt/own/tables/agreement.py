"""How often each judge agrees with the judges whose biases are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt import stats
from jbt.own.tables.tables import Tables


@dataclass(frozen=True)
class Agreement:
    """How often a judge prefers the item that the trusted verdicts prefer."""

    share: float
    """Share of these pairs; a tie of the judge is half an agreement."""
    n_pairs: int
    """Pairs that both have judged and that the trusted verdicts do not tie (count)."""

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of the share lies above a half."""
        return stats.count_interval(round(self.share * self.n_pairs), self.n_pairs)[1] > 0.5


def by_judge(tables: Tables, trusted: np.ndarray) -> dict[str, Agreement]:
    """`agreement` by name of judge, of those for which it is defined."""
    agreements = zip(tables.judges, agreement(tables, trusted), strict=True)
    return {str(judge): value for judge, value in agreements if value is not None}


def in_words(agreements: Mapping[str, Agreement]) -> list[str]:
    """Describe the agreements beside a joint fit in which every judge's discrimination is 1."""
    if not agreements:
        return []
    shares = [f"{judge} on {a.share:.0%} of {a.n_pairs}" for judge, a in agreements.items()]
    return [
        f"agreement with the trusted, of the pairs that these decide: {', '.join(shares)}",
        "all judges count as equally good at quality (discrimination 1): one that is less good "
        "pulls theta towards 0 and gets a c against what the trusted favour; jbt fit --joint "
        "estimates it",
        *warnings(agreements),
    ]


def warnings(agreements: Mapping[str, Agreement]) -> Iterator[str]:
    """Warn where no judge clearly agrees with the trusted verdicts."""
    if agreements and not any(a.clear for a in agreements.values()):
        yield (
            "warning: nobody agrees with the trusted clearly more often than a coin would; if "
            "these know nothing of quality, every joint number is wrong"
        )


def agreement(tables: Tables, trusted: np.ndarray) -> list[Agreement | None]:
    """Compute the agreement of each judge with the trusted ones; None for a trusted judge, and for
    one that shares no pair with them.

    All verdicts on a pair are summed, in both orders.

    Args:
      trusted: [J] whose verdicts are trusted.
    """
    verdicts = tables.verdicts
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    turned, judge = first > second, verdicts["judge"].to_numpy()
    won = (verdicts["p_first"].to_numpy() - 0.5) * verdicts["count"].to_numpy()
    rows = pd.DataFrame(
        {
            "judge": np.where(trusted[judge], -1, judge),
            "low": np.minimum(first, second),
            "high": np.maximum(first, second),
            "won": np.where(turned, -won, won),
        }
    )
    pairs = rows.groupby(["judge", "low", "high"])["won"].sum().unstack("judge")
    signs = np.sign(pairs.where(pairs.abs() > 1e-12, pairs * 0))
    return [
        None if is_trusted or g not in signs or -1 not in signs else _compare(signs[-1], signs[g])
        for g, is_trusted in enumerate(trusted)
    ]


def _compare(trusted: pd.Series, judge: pd.Series) -> Agreement | None:
    both = (trusted * judge)[(trusted != 0) & trusted.notna() & judge.notna()]
    return Agreement(float((1 + both).mean() / 2), len(both)) if len(both) else None
