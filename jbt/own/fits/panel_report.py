"""What `jbt fit --joint` adds to the report, to the table and to the JSON file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from jbt.border import files
from jbt.border.report import Section, signed, with_interval
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import JOINT, known_in_words
from jbt.own.fits.panel import Difference, PanelFit, PanelPool
from jbt.own.fits.report import BASIS, RANKED, differs
from jbt.own.fits.summary import JudgeSummary
from jbt.own.shared_coefficients.coefficient import Coefficient
from jbt.own.shared_coefficients.intervals import Basis
from jbt.own.tables import agreement
from jbt.types import Status


def sections(
    batch: Batch, fit: PanelFit, alone: Sequence[JudgeSummary], *, k: int, per_pool: bool
) -> list[Section]:
    """Sections of the report.

    Args:
      alone: each judge's own estimates, shown beside the joint ones.
      k: size of the top set.
      per_pool: with several pools, give the ranking of each; of one pool it is always given.
    """
    joint_sections = [
        Section("All judges together, one quality", [], _coefficients(batch, fit, alone)),
        Section("What the joint numbers rest on", list(_sentences(batch, fit, k))),
    ]
    if len(fit.pools) == 1:
        joint_sections.append(Section(f"{fit.pools[0].pool} / {JOINT}", *_ranking(fit.pools[0], k)))
    elif per_pool:
        lines = [f"{pool.pool} / {JOINT}: {_in_line(pool)}" for pool in fit.pools]
        joint_sections.append(Section("Rankings, all judges together", lines))
    return joint_sections


def _sentences(batch: Batch, fit: PanelFit, k: int) -> Iterator[str]:
    yield known_in_words(fit.trusted)
    agreements = {j.judge: j.agreement for j in fit.judges if j.agreement is not None}
    yield from agreement.warnings(agreements)
    for name, b in fit.slope.items():
        yield (
            f"slope of quality in {name}: {b.in_words()} logits per {batch.units} {name}, over all "
            f"pools{BASIS[b.status]}"
        )
    for judge in fit.judges:
        for name, c in zip(batch.covariates, judge.c, strict=False):
            if c.status == Basis.MEASURED:
                yield from differs(f"{judge.judge}: c[{name}]", c.p_alike)
    for difference in fit.differences:
        yield (
            f"{difference_in_words(difference)} is identified: {difference.estimate.in_words()}, "
            "if both have the same discrimination, which is not tested: a judge less sensitive to "
            "quality gives such a difference too"
        )
    statuses = Counter(pool.status.name.lower() for pool in fit.pools)
    yield ", ".join(f"{status} {n}" for status, n in statuses.items())
    n_untrusted = statuses[Status.NO_REFERENCE.name.lower()]
    if n_untrusted:
        yield (
            f"{' and '.join(fit.trusted)} judged nothing in {n_untrusted} of {len(fit.pools)} "
            "pools: these are corrected with the c and kappa that the other pools identify"
        )
    chosen = sum(pool.prior_selected for pool in fit.pools)
    if chosen:
        yield f"theta is prior-selected in {chosen} of {len(fit.pools)} pools"
    differ = [p.top_k_differs for p in fit.pools if p.top_k_differs is not None]
    yield f"top-{k} differs from naive, c = kappa = 0 for all, in {sum(differ)}/{len(differ)}"


def difference_in_words(difference: Difference) -> str:
    return f"c[{difference.covariate}] of {difference.judge} less that of {difference.other}"


def _coefficients(
    batch: Batch, fit: PanelFit, alone: Sequence[JudgeSummary]
) -> pd.DataFrame | None:
    rows, by_name = [], {a.judge: a for a in alone}
    for judge in fit.judges:
        if judge.known:
            rows.append({"judge": judge.judge, "coefficient": "c, kappa", "joint [95 %]": "0"})
        by_itself = by_name.get(judge.judge, alone[0] if len(alone) == 1 else None)
        by_covariate = {} if by_itself is None else {c.covariate: c for c in by_itself.coefficients}
        for name, coefficient in judge.named(batch.covariates):
            single = by_covariate.get(name)
            rows.append(
                {
                    "judge": judge.judge,
                    "coefficient": "kappa" if name is None else f"c[{name}]",
                    "joint [95 %]": coefficient.in_words() + BASIS[coefficient.status],
                    "identified by": ", ".join(coefficient.identified_by),
                    "alone [95 %]": ""
                    if single is None
                    else with_interval(single.estimate, single.low, single.high)
                    + BASIS[single.status],
                }
            )
        s, agreed = judge.discrimination, judge.agreement
        rows.append(
            {
                "judge": judge.judge,
                "coefficient": "discrimination",
                "joint [95 %]": s.in_words() + BASIS[s.status],
                "agrees with the trusted": ""
                if agreed is None
                else f"{agreed.share:.0%} of {agreed.n_pairs} pairs",
            }
        )
    if not rows:
        return None
    columns = ["judge", "coefficient", "joint [95 %]", "identified by", "alone [95 %]"]
    frame = pd.DataFrame(rows, columns=pd.Index([*columns, "agrees with the trusted"]))
    return (frame if fit.trusted else frame[columns]).fillna("")


def _ranking(pool: PanelPool, k: int) -> tuple[list[str], pd.DataFrame | None]:
    if pool.top_k_differs is None:
        return [pool.status.name.lower()], None
    lines = [pool.status.name.lower()]
    differ = "differs from" if pool.top_k_differs else "is that of"
    lines.append(f"the top {k} {differ} the naive model, c = kappa = 0 for every judge")
    note = " (prior-selected)" * pool.prior_selected
    ranks = Counter(content.rank for content in pool.ranking)
    return lines, pd.DataFrame(
        {
            "rank": str(content.rank) + "=" * (ranks[content.rank] > 1),
            "content": content.content,
            f"theta{note}": with_interval(content.theta, content.low, content.high),
            "naive": signed(content.theta_naive),
            f"P(top {k})": f"{content.membership:.2f}",
        }
        for content in pool.ranking[:RANKED]
    )


def _in_line(pool: PanelPool) -> str:
    if pool.top_k_differs is None:
        return pool.status.name.lower()
    ranking = ""
    for previous, content in zip((None, *pool.ranking), pool.ranking, strict=False):
        if previous is not None:
            ranking += " = " if content.rank == previous.rank else " > "
        ranking += f"{content.content} {signed(content.theta)}"
    note = " (prior-selected)" * pool.prior_selected
    return f"theta{note} {ranking}, {pool.status.name.lower()}"


def record(batch: Batch, fit: PanelFit) -> dict[str, Any]:
    """The entry of the JSON file: null where undefined."""

    def coefficient(name: str | None, estimate: Coefficient) -> dict[str, Any]:
        unit = {} if name is None else {"covariate": name, "unit": f"{batch.units} {name}"}
        facts = {
            "prior_selected": estimate.prior_selected,
            "basis": str(estimate.status),
            "p_alike": files.defined(estimate.p_alike),
            "told_by": list(estimate.identified_by),
        }
        return {**unit, **estimate.numbers(), **facts}

    judges = [
        {
            "judge": judge.judge,
            "known": judge.known,
            "discrimination": judge.discrimination.estimate,
            "discrimination_low": files.defined(judge.discrimination.low),
            "discrimination_high": files.defined(judge.discrimination.high),
            "agreement": None if judge.agreement is None else asdict(judge.agreement),
            "n_verdicts": judge.n_verdicts,
            "c": [
                coefficient(*estimate) for estimate in zip(batch.covariates, judge.c, strict=False)
            ],
            "kappa": None if judge.kappa is None else coefficient(None, judge.kappa),
        }
        for judge in fit.judges
    ]
    differences = [
        {"covariate": d.covariate, "judge": d.judge, "less": d.other, **d.estimate.numbers()}
        for d in fit.differences
    ]
    slope = [
        {"covariate": name, "unit": f"{batch.units} {name}", **estimate.numbers()}
        for name, estimate in fit.slope.items()
    ]
    return {
        "status": fit.status.name.lower(),
        "judges": judges,
        "differences": differences,
        "slope": slope,
        "sd": files.defined(fit.sd),
        "n_no_reference": sum(p.status == Status.NO_REFERENCE for p in fit.pools),
        "pools": [_pool_record(pool) for pool in fit.pools],
    }


def _pool_record(pool: PanelPool) -> dict[str, Any]:
    ranking = [
        {k: files.defined(v) if isinstance(v, float) else v for k, v in vars(content).items()}
        for content in pool.ranking
    ]
    return {
        "pool": pool.pool,
        "status": pool.status.name.lower(),
        "ranking": ranking,
        "prior_selected": pool.prior_selected,
        "n_verdicts": pool.n_verdicts,
        "n_known": pool.n_known,
        "islands": pool.islands,
        "top_k_differs": pool.top_k_differs,
    }
