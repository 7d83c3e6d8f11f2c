"""A leaderboard: models in order, coefficients, and why intervals are missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.own.baselines.contract import Beside
from jbt.own.fits.judges import JOINT
from jbt.own.leaderboards.assumption_checks import AnchorCheck
from jbt.own.leaderboards.intervals import FEWEST_DEGREES, PRIOR_SHARE
from jbt.own.leaderboards.robust import Outside
from jbt.own.shared_coefficients.intervals import Coefficient
from jbt.own.tables.agreement import Agreement
from jbt.types import Status

REASONS = {
    "covariate_constant": "no comparison differs in it",
    "flat": "not identified: other parameters can undo any change of it",
    "separated": "the likelihood rises all the way to infinity",
    "prior_selected": f"the prior holds more than {PRIOR_SHARE:.0%} of its posterior variance",
    "few_clusters": (
        f"seen on too few prompts for an interval (fewer than {FEWEST_DEGREES:g} effective degrees "
        "of freedom)"
    ),
    "ambiguous": "another slope fits nearly as well",
    "no_verdicts": "no verdicts",
    "no_ties": "no ties: nu is 0, and the model Bradley-Terry's",
}
"""Why there is no interval, by status."""

RANKS = ("rank", "rank_low", "rank_high")

LOG_NU, DISCRIMINATION = "log nu", "discrimination"
"""Names of the coefficient of Davidson's ties, and of a judge's factor on quality."""

IN_SHORT = {
    "few_clusters": "too few prompts",
    "few_pools": "too few pools",
    "prior_selected": "the prior decides",
    "separated": "no maximum",
}
"""The same within a line, for some statuses."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BoardCoefficient(Coefficient):
    """A coefficient over all prompts."""

    profile_range: float
    """Evidence in nats: range of the profile log-likelihood within 1 of the estimate."""
    degrees: float
    """Effective degrees of freedom, of the interval or too few for one; see
    `stats.row_jackknife`."""

    def record(self, joint: bool = False) -> dict[str, Any]:
        """The entry of the JSON file; `joint` adds the judge and whose verdicts identify it."""
        owner = {"judge": self.judge, "told_by": list(self.identified_by)} if joint else {}
        return {
            **owner,
            "covariate": self.covariate or "kappa",
            "unit": self.unit or "",
            **self.numbers(),
            "profile_range": files.defined(self.profile_range),
            "status": self.status,
            "degrees": files.defined(self.degrees),
        }

    def measured(self) -> str:
        """The estimate with its interval, or with the status that explains why there is none."""
        if self.status == "flat":
            return "not identified"
        interval = f"[{self.low:+.2f}, {self.high:+.2f}]"
        missing = f"(no interval: {IN_SHORT.get(self.status, self.status)})"
        return f"{self.estimate:+.2f} {interval if np.isfinite(self.low) else missing}"


@dataclass(frozen=True, eq=False)
class BiasByQuality:
    """How one covariate's c changes with the quality of a model, logits per unit."""

    c: BoardCoefficient
    """Of an average model."""
    stronger: BoardCoefficient
    """c of the models whose theta, fitted with one constant c, lies above the median; or of the
    stronger half of each pool's contents, by c and gamma."""
    weaker: BoardCoefficient
    """c of the other models, or of the weaker half."""
    gamma: BoardCoefficient
    """Change of c with a logit of quality."""
    difference: BoardCoefficient | None = None
    """c of the stronger half less that of the weaker; None on a leaderboard."""
    kind: str = "models"
    """Whose quality it is, in the plural."""

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        parts = {
            name: getattr(self, name).record() for name in ("c", "stronger", "weaker", "gamma")
        }
        if self.difference is not None:
            parts["difference"] = self.difference.record()
        kept = ("estimate", "low", "high", "status", "degrees")
        return {
            "covariate": self.c.covariate,
            **{name: {key: part[key] for key in kept} for name, part in parts.items()},
        }

    def sentences(self, hint: str = "") -> Iterator[str]:
        """The halves and gamma; then, where the interval of gamma leaves out 0, what one constant c
        does, followed by a hint."""
        name, gamma = self.c.name, self.gamma
        if not any(np.isfinite(part.low) for part in (self.stronger, self.weaker, gamma)):
            yield f"no interval: {name} by quality: {_reason(gamma.status)}"
            return
        apart = "" if self.difference is None else f", apart by {self.difference.measured()}"
        yield (
            f"{name} of the stronger half of the {self.kind} {self.stronger.measured()}, of the "
            f"weaker half {self.weaker.measured()}{apart}; slope of c on quality (gamma) "
            f"{gamma.measured()} per logit"
        )
        if gamma.low > 0 or gamma.high < 0:
            yield f"one constant c {self._consequence()}{hint}"

    def _consequence(self) -> str:
        """What one constant c does to whom, by the signs of gamma and of an average model's c."""
        rising = self.gamma.low > 0
        low, high = self.c.low, self.c.high
        if low > 0 or high < 0:
            too_much, too_little = ("weak", "strong") if rising == (low > 0) else ("strong", "weak")
            return f"corrects {too_much} {self.kind} too much and {too_little} ones too little"
        low, high = ("strong", "weak") if rising else ("weak", "strong")
        return f"is too low for {low} {self.kind} and too high for {high} ones"


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Models ranked by theta, from one judge's verdicts or all judges' together. NaN where
    undefined."""

    judge: str | None
    """None where the table names no judge; `joint` for all judges together."""
    status: Status
    """The worse of the two fits; NO_VERDICTS."""
    models: tuple[str, ...]
    """Highest theta first, models without a verdict last."""
    theta: np.ndarray
    """[M] quality corrected for c and kappa (MAP), logits; mean 0 over the models."""
    low: np.ndarray
    high: np.ndarray
    theta_naive: np.ndarray
    """[M] theta with c = kappa = 0."""
    low_naive: np.ndarray
    high_naive: np.ndarray
    rank: np.ndarray
    """[M] 1 + the number of models with a higher theta."""
    rank_low: np.ndarray
    """[M] 1 + the number of models significantly better: the interval of the difference,
    Bonferroni-corrected for the model's M - 1 differences, excludes 0; where the likelihood or the
    prior decides the difference, by counts (`counted`). Any other difference without an interval is
    not significant."""
    rank_high: np.ndarray
    """[M] M less the number of models significantly worse."""
    rank_naive: np.ndarray
    n_verdicts: np.ndarray
    """[M] repeats counted."""
    n_won: np.ndarray
    """[M] how many of them the model won, a tie being half a win."""
    status_of: np.ndarray
    """[M] status of theta, as `Coefficient.status`."""
    c: tuple[BoardCoefficient, ...]
    kappa: BoardCoefficient | None
    """None where kappa is fixed at 0."""
    n_clusters: int
    """Number of pools of the file with a verdict."""
    degrees: np.ndarray
    """[M] degrees of freedom of theta, as `BoardCoefficient.degrees`."""
    runaway: tuple[str, ...]
    """Models whose theta the likelihood sends to infinity."""
    pull: np.ndarray
    """[M] shift of theta by the prior in standard errors, to first order; intervals remove it."""
    anchors: AnchorCheck | None
    """None without anchors."""
    judges: tuple[BoardCoefficient, ...] = ()
    """For all judges together, their coefficients, in place of c and kappa."""
    discriminations: tuple[BoardCoefficient, ...] = ()
    """For all judges together, the factors on quality that are estimated; else all are 1."""
    outside: tuple[Outside, ...] = ()
    """Models far from all others in a covariate."""
    trusted: tuple[str, ...] = ()
    """For all judges together, those whose c and kappa are known to be 0."""
    by_quality: tuple[BiasByQuality, ...] = ()
    """One for each covariate where gamma is identified."""
    interaction: bool = False
    """Whether the models are ranked with a bias c + gamma theta."""
    agreements: Mapping[str, Agreement] = field(default_factory=dict)
    """Agreement of each other judge with the trusted ones."""
    averages: Mapping[str, np.ndarray] = field(default_factory=dict)
    """[M] mean of each covariate over a model's judged answers, as it is in the table."""
    log_nu: BoardCoefficient | None = None
    """Of Davidson's ties; None where a tie is half a win for each side, or dropped."""
    beside: tuple[Beside, ...] = ()
    """Baselines' rankings of the same models, in their order here."""

    def with_baselines(self, baselines: Sequence[Beside]) -> Leaderboard:
        """This leaderboard with baselines beside it."""
        placed = tuple(baseline.in_order(self.models) for baseline in baselines)
        return dataclasses.replace(self, beside=placed)

    def win_rates(self, against: str | None = None) -> np.ndarray:
        """[M] chance of winning against one model, or the mean chance over all others, by the
        corrected theta: at equal covariates, in either order alike, a tie being half a win. NaN
        where theta is unknown, and of the model itself.

        Raises:
          ValueError: there is no such model.
        """
        if against is not None and against not in self.models:
            raise ValueError(f"no model {against!r}: {_list(self.models)}")
        from scipy.special import expit

        apart = self.theta[:, None] - self.theta
        chance = expit(apart)
        if self.log_nu is not None and np.isfinite(self.log_nu.estimate):
            tie = 1 / (1 + 2 * np.exp(-self.log_nu.estimate) * np.cosh(apart / 2))
            chance = (1 - tie) * chance + tie / 2
        if against is not None:
            at = self.models.index(against)
            return np.where(np.arange(len(chance)) == at, np.nan, chance[:, at])
        others = np.where(np.eye(len(chance), dtype=bool), np.nan, chance)
        known = np.isfinite(others)
        total = np.where(known, others, 0).sum(1)
        return np.where(known.any(1), total / np.maximum(known.sum(1), 1), np.nan)

    def reasons(self) -> list[str]:
        """Why intervals are missing, a sentence each."""
        sentences = []
        coefficients = (*self.c, *(v for v in (self.kappa, self.log_nu) if v is not None))
        named = [("", c) for c in coefficients] + [
            (f"{c.judge}: ", c) for c in (*self.judges, *self.discriminations)
        ]
        for prefix, c in named:
            if c.status != "converged":
                name = c.covariate or "kappa"
                sentences.append(f"{prefix}{name}: {c.status}, {_reason(c.status)}")
        for status in dict.fromkeys(self.status_of.tolist()):
            if status == "converged":
                continue
            affected = [
                name for name, s in zip(self.models, self.status_of, strict=True) if s == status
            ]
            models = "every model" if len(affected) == len(self.models) else _list(affected)
            runaways = ""
            if status == "separated" and self.runaway:
                runaways = f" (with {_list(self.runaway)}, and the mean over the models with it)"
            sentences.append(f"theta of {models}: {status}, {_reason(status)}{runaways}")
        return sentences

    def to_frame(self) -> pd.DataFrame:
        """A row for each model: the columns of the JSON, and `status` of theta (see
        `Coefficient.status`)."""
        frame = pd.DataFrame(self.record()["models"]).assign(status=self.status_of)
        ranks = [f"{prefix}{rank}" for prefix in ("", *self._prefixes()) for rank in RANKS]
        return frame.astype(dict.fromkeys(["rank_naive", *ranks], "Int64"))

    def _prefixes(self) -> list[str]:
        """Of the baselines' columns."""
        return [f"{baseline.name}_" for baseline in self.beside]

    def record(self) -> dict[str, Any]:
        """c, kappa, models and the reasons for missing intervals, for JSON: null where
        undefined."""
        kappa = None
        if self.kappa is not None:
            kappa = self.kappa.numbers()
        numbers = ("theta", "low", "high", "theta_naive")
        rates, models = self.win_rates(), []
        for i, name in enumerate(self.models):
            row = {"model": name, **{k: _defined(getattr(self, k)[i]) for k in numbers}}
            row |= {k: _whole(getattr(self, k)[i]) for k in (*RANKS, "rank_naive")}
            row["win_rate"] = _defined(rates[i])
            for prefix, b in zip(self._prefixes(), self.beside, strict=True):
                columns = {"estimate": b.estimate, "low": b.low, "high": b.high}
                row |= {f"{prefix}{k}": _defined(v[i]) for k, v in columns.items()}
                row |= {f"{prefix}{k}": _whole(getattr(b, k)[i]) for k in RANKS}
            row |= {f"average_{name}": _defined(v[i]) for name, v in self.averages.items()}
            counts = {"n_verdicts": int(self.n_verdicts[i]), "n_won": float(self.n_won[i])}
            models.append({**row, **counts})
        joint = {
            "judges": [c.record(joint=True) for c in self.judges],
            "discriminations": [{"judge": s.judge, **s.numbers()} for s in self.discriminations],
            "trusted": list(self.trusted),
            "agreement": {judge: asdict(entry) for judge, entry in self.agreements.items()},
        }
        beside = {baseline.name: baseline.record() for baseline in self.beside}
        return {
            "c": [c.record() for c in self.c],
            "kappa": kappa,
            **({} if self.log_nu is None else {"log_nu": self.log_nu.record()}),
            **(joint if self.judge == JOINT else {}),
            "models": models,
            "reasons": self.reasons(),
            **({"beside": beside} if beside else {}),
            "outside": [entry.record() for entry in self.outside],
            "by_quality": [entry.record() for entry in self.by_quality],
        }


def _reason(status: str) -> str:
    return REASONS.get(status, "the fit did not converge")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _whole(rank: float) -> int | None:
    return None if np.isnan(rank) else int(rank)


def _defined(value: Any) -> Any:
    return value if isinstance(value, str) else files.defined(value)
