"""The report of `jbt fit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section, nats, signed, with_interval
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import JOINT, known_in_words
from jbt.own.fits.pools import PoolFit, Ranked
from jbt.own.fits.together import PanelFit, PanelPool
from jbt.own.shared_coefficients.intervals import LARGEST_SHARE, Basis
from jbt.own.tables.pairs import nobody_agrees
from jbt.types import Status

if TYPE_CHECKING:
    from jbt.own.fits.analysis import Analysis, CoefficientOverPools, JudgeSummary

BASIS: dict[str, str] = {
    Basis.MEASURED: "",
    Basis.FEW_POOLS: " (no interval: one or two pools decide)",
    Basis.MERGED: " (no interval over merged pools: see leaderboard)",
    Basis.WEAK: " (partly from the prior)",
    Basis.PRIOR: " (prior-selected)",
    Basis.NOT_CONVERGED: " (the fit did not converge)",
    Basis.UNDEFINED: " (no verdicts)",
    Basis.FIXED: "",
}
"""Note printed after an estimate, by its basis."""

IN_A_WORD: dict[str, str] = {
    Basis.MEASURED: "measured",
    Basis.FEW_POOLS: "seen in too few pools",
    Basis.MERGED: "measured over merged pools",
    Basis.WEAK: "partly from the prior",
    Basis.NOT_CONVERGED: "the fit did not converge",
    Basis.UNDEFINED: "no verdicts",
    Basis.FIXED: "fixed",
}
"""What an estimate of c rests on, but for defaults of the prior."""

NAMED = 4
"""Most judges or items that the answer names."""

ALIKE = 0.05
"""Level of the test that a coefficient is the same in all pools."""

RANKED = 50
"""Largest number of contents of one pool that a report lists."""


def report(analysis: Analysis, title: str, lead: Sequence[str], *, per_pool: bool) -> Report:
    """The report: coefficients (of one pool, its ranking) first.

    Args:
      lead: notes on what was read.
      per_pool: with several pools, give the ranking of each; of one pool it is always given.
    """
    batch, judges, k = analysis.batch, analysis.judges, analysis.k
    fits = [f for judge in judges for f in judge.fits]
    one_pool = len(batch.tables.pools) == 1
    sections = []
    if one_pool:
        sections = [Section(_name(f), *_ranking(batch, f, k)) for f in fits]
    elif any(judge.coefficients for judge in judges):
        spread = ", ".join(f"{_of(judge)}{judge.shared.sd.estimate:.3g}" for judge in judges)
        lines = [f"standard deviation of quality, 1 / sqrt(lam), logits: {spread}"]
        sections.append(Section("Each judge, all pools together", lines, _coefficients(judges)))
    evidence = [
        line
        for d in range(len(batch.covariates))
        for line in _evidence([(j, j.c[d]) for j in judges])
    ]
    evidence += [line for judge in judges for line in _ties(judge, k)]
    sections.append(Section("What these numbers rest on", evidence, _verdicts(judges)))
    if not one_pool:
        lines = [_pools(judge, k) for judge in judges]
        sections.append(Section("Pool by pool", lines, detail=True))
    if per_pool and not one_pool:
        sections.append(Section("Rankings", [_ranking_in_line(batch, f) for f in fits]))
    legend = list(_legend(batch, fits, k))
    sections.append(Section("How to read this", legend, detail=True))
    if analysis.joint is not None:
        sections += _joint_sections(*analysis.joint, judges, k=k, per_pool=per_pool)
    return Report(title, lead, sections, answer=_answer(batch, judges, k))


def _answer(batch: Batch, judges: list[JudgeSummary], k: int) -> list[str]:
    """What the correction changes, and what it rests on, in a line or two."""
    shown = judges[:NAMED]
    rest = ["..."] * (len(judges) > NAMED)
    if len(batch.tables.pools) == 1:
        tops = [_of(j) + _top(f, k) for j in shown for f in j.fits if f.usable]
        lines = ["; ".join([*tops, *rest])] if tops else ["No fit converged"]
    else:
        corrected = ", ".join(batch.covariates) or "position"
        changed = [
            f"in {j.top_k.differs_from_naive} of {j.top_k.n_pools} pools"
            + (f" ({j.judge})" if j.judge else "")
            for j in shown
        ]
        changes = ", ".join([*changed, *rest])
        lines = [f"Correcting for {corrected} changes the top {k} {changes}"]
    for d, name in enumerate(batch.covariates):
        lines.append(_rests_on(name, [(j, j.c[d]) for j in shown]))
    return lines


def _top(fit: PoolFit, k: int) -> str:
    best = [content.content for content in fit.ranking[:k]]
    named = ", ".join(best[:NAMED]) + ", ..." * (len(best) > NAMED)
    differs = "another without the correction" if fit.top_k_differs else "the same without"
    return f"top {k}: {named} ({differs})"


def _rests_on(name: str, coefficients: list[tuple[JudgeSummary, CoefficientOverPools]]) -> str:
    """Each judge's c of one covariate, in short."""
    defaults = [c.status == Basis.PRIOR for _, c in coefficients]
    if coefficients and all(defaults):
        return (
            f"Within one prompt, {name} cannot be separated from quality: its c is a default of "
            "the prior, not a measurement"
        )
    parts = []
    for (judge, c), is_default in zip(coefficients, defaults, strict=True):
        estimate = c.mean if is_default and len(judge.fits) == 1 else c.estimate
        rests = "a default, not a measurement" if is_default else IN_A_WORD[c.status]
        parts.append(f"{_of(judge)}{with_interval(estimate, c.low, c.high)} ({rests})")
    return f"c[{name}]: " + ", ".join(parts)


def _pools(judge: JudgeSummary, k: int) -> str:
    """Means over the pools' own fits."""
    parts = []
    for c in judge.c:
        parts.append(f"{c.name} {_spread(c)}")
    usable = [f for f in judge.fits if f.usable]
    n_fixed = sum(bool(np.isnan(f.kappa)) for f in usable)
    fixed = f" (fixed at 0 in {n_fixed}/{len(usable)})" if n_fixed else ""
    parts.append(f"kappa {'undefined' if judge.kappa is None else _spread(judge.kappa)}{fixed}")
    parts.append(
        f"top-{k} differs from naive in {judge.top_k.differs_from_naive}/{judge.top_k.n_pools}"
    )
    statuses = Counter(f.status.name.lower() for f in judge.fits)
    parts.append(", ".join(f"{status} {n}" for status, n in statuses.items()))
    if judge.n_errors:
        parts.append(f"{judge.n_errors} error verdicts dropped")
    return f"{judge.judge or 'all verdicts'}: " + "; ".join(parts)


def _spread(coefficient: CoefficientOverPools) -> str:
    if not coefficient.n_pools:
        return "undefined"
    sd = "" if np.isnan(coefficient.sd) else f" (sd {coefficient.sd:.2g})"
    chosen = coefficient.n_prior_selected
    note = "" if chosen == coefficient.n_pools else f" in {chosen}/{coefficient.n_pools}"
    return f"{signed(coefficient.mean)}{sd}" + (f" (prior-selected{note})" if chosen else "")


def _coefficients(judges: list[JudgeSummary]) -> pd.DataFrame:
    rows = []
    for judge in judges:
        for coefficient in judge.coefficients:
            estimate = coefficient.in_words()
            change = coefficient.without_ties - coefficient.estimate
            rows.append(
                {
                    "judge": judge.judge or "all verdicts",
                    "coefficient": coefficient.name,
                    "estimate [95 %]": estimate + BASIS[coefficient.status],
                    "mean over pools": signed(coefficient.mean),
                    "evidence": nats(coefficient.profile_range) if len(coefficient.grid) else "",
                    "change without ties": "" if np.isnan(change) else signed(change),
                }
            )
    return pd.DataFrame(rows)


def _evidence(coefficients: list[tuple[JudgeSummary, CoefficientOverPools]]) -> Iterator[str]:
    """Whether the verdicts identify one covariate's coefficient; one line for all judges whose c
    they do not."""
    chosen = []
    for judge, c in coefficients:
        renderings = f"renderings of one content carry {nats(c.profile_range)} about it"
        if c.status == Basis.MEASURED:
            yield f"{_of(judge)}{c.name} is measured within contents: {renderings}"
            yield from _differs(f"{_of(judge)}{c.name}", c.p_alike)
        elif c.status == Basis.MERGED:
            yield (
                f"{_of(judge)}{c.name} is measured over all pools merged: {renderings}; jbt "
                "leaderboard gives its interval, as verdicts of one pool may depend on each other"
            )
        elif c.status == Basis.FEW_POOLS:
            yield (
                f"{_of(judge)}{c.name} is seen on too few pools for an interval: one or two hold "
                f"nearly all that identifies it ({renderings})"
            )
        elif c.status == Basis.WEAK:
            yield (
                f"{_of(judge)}{c.name} is partly from the prior, which holds more than "
                f"{LARGEST_SHARE:.0%} of its precision; {renderings}"
            )
        elif c.status == Basis.PRIOR:
            estimate = c.mean if len(judge.fits) == 1 else c.estimate
            chosen.append(_of(judge) + signed(estimate))
    if chosen:
        yield (
            f"{coefficients[0][1].name} is not identified: between contents it cannot be separated "
            f"from quality. These numbers are the prior's defaults, not measurements: "
            f"{', '.join(chosen)}"
        )


def _differs(name: str, p_alike: float) -> Iterator[str]:
    """Report that a coefficient differs between pools, where the test finds it."""
    if p_alike < ALIKE:
        yield (
            f"{name} differs between pools by more than chance (p = {p_alike:.2g}): the common "
            "estimate is drawn towards 0, and its interval covers less than 95 %"
        )


def _of(judge: JudgeSummary) -> str:
    return "" if judge.judge is None else f"{judge.judge}: "


def _ties(judge: JudgeSummary, k: int) -> Iterator[str]:
    """How much the estimates change without the ties."""
    changed = judge.top_k.differs_without_ties
    if changed is None:
        return
    moves = [
        f"{coefficient.name} by {signed(coefficient.without_ties - coefficient.estimate)}"
        for coefficient in judge.coefficients
        if np.isfinite(coefficient.without_ties)
    ]
    if judge.top_k.n_pools == 1:
        top = f"the top {k} {'changes' if changed else 'stays'}"
    else:
        top = f"the top {k} changes in {changed} of {judge.top_k.n_pools} pools"
    n = f"{judge.n_ties} of {judge.n_verdicts} verdicts are ties"
    if judge.coefficients and not moves:
        effect = "the fit of all pools does not converge"
    else:
        effect = f"they move {', '.join(moves) or 'nothing'}"
    yield f"{_of(judge)}{n}; left out, {effect}; {top}"


def _verdicts(judges: list[JudgeSummary]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "judge": judge.judge or "all verdicts",
            "verdicts": judge.n_verdicts,
            "ties": judge.n_ties,
            "errors": judge.n_errors,
            "pairs in both orders": judge.n_both_orders,
            "contradicting": "" if np.isnan(judge.flip_rate) else f"{judge.flip_rate:.1%}",
            "pools connected": f"{judge.n_connected}/{judge.n_pools}",
        }
        for judge in judges
    )


def _name(fit: PoolFit) -> str:
    return fit.pool if fit.judge is None else f"{fit.pool} / {fit.judge}"


def _note(name: str, fit: PoolFit) -> str:
    return " (prior-selected)" if name in fit.prior_selected else ""


def _coefficients_of(batch: Batch, fit: PoolFit) -> list[str]:
    parts = [
        f"c[{name}] {signed(fit.c[d])}{_without_prior(fit, d)}"
        for d, name in enumerate(batch.covariates)
    ]
    kappa = with_interval(fit.kappa, fit.kappa_low, fit.kappa_high)
    parts.append(f"kappa {'fixed at 0' if np.isnan(fit.kappa) else kappa}{_note('kappa', fit)}")
    if "phi" in fit.prior_selected:
        parts.append("phi (prior-selected)")
    return [*parts, fit.status.name.lower()]


def _without_prior(fit: PoolFit, d: int) -> str:
    """A pool's estimate of one c without a prior, with its interval."""
    if "c" in fit.prior_selected:
        return _note("c", fit)
    if np.isnan(fit.c_mle[d]):
        return " (none without a prior)"
    return f" (without a prior {with_interval(fit.c_mle[d], fit.c_low[d], fit.c_high[d])})"


def _ranking_in_line(batch: Batch, fit: PoolFit) -> str:
    if not fit.usable:
        return f"{_name(fit)}: {fit.status.name.lower()}"
    coefficients = ", ".join(_coefficients_of(batch, fit))
    return f"{_name(fit)}: {_in_line(fit.ranking, _note('theta', fit))}, {coefficients}"


def _in_line(ranking: Sequence[Ranked], note: str) -> str:
    """Contents with their theta, the best first."""
    line = ""
    for previous, content in zip((None, *ranking), ranking, strict=False):
        if previous is not None:
            line += " = " if content.rank == previous.rank else " > "
        line += f"{content.content} {signed(content.theta)}"
    return f"theta{note} {line}"


def _ranking(batch: Batch, fit: PoolFit, k: int) -> tuple[list[str], pd.DataFrame | None]:
    """A pool's coefficients in lines, and its contents as a table."""
    if not fit.usable:
        return [fit.status.name.lower()], None
    lines = [", ".join(_coefficients_of(batch, fit))]
    differ = "differs from" if fit.top_k_differs else "is that of"
    lines.append(f"the top {k} {differ} the naive model, c = kappa = 0")
    if len(fit.ranking) > RANKED:
        lines.append(f"the first {RANKED} of {len(fit.ranking)} contents; --json has all")
    return lines, _contents(fit.ranking, _note("theta", fit), k)


def _contents(ranking: Sequence[Ranked], note: str, k: int) -> pd.DataFrame:
    """The first contents of a pool, a row each."""
    ranks = Counter(content.rank for content in ranking)
    return pd.DataFrame(
        {
            "rank": str(content.rank) + "=" * (ranks[content.rank] > 1),
            "content": content.content,
            f"theta{note}": with_interval(content.theta, content.low, content.high),
            "naive": signed(content.theta_naive),
            f"P(top {k})": f"{content.membership:.2f}",
        }
        for content in ranking[:RANKED]
    )


def _legend(batch: Batch, fits: list[PoolFit], k: int) -> Iterator[str]:
    yield "Quality theta, c and kappa are in logits; in brackets are intervals of 95 %."
    if any(np.isfinite(content.low) for f in fits for content in f.ranking):
        yield "The intervals of theta cover 90 to 97 % in simulations."
    yield "kappa > 0 favours the first shown (logits)."
    if batch.covariates:
        yield f"c is in logits per {batch.units} the covariate; c > 0 favours the larger value."
    else:
        yield "No covariate was asked for: bias-aware here means position only."
    if batch.tables.merged:
        yield (
            "Pools are merged: there are no intervals, and P(top k) treats all verdicts as "
            "independent. jbt leaderboard has intervals with the pools of the file as unit."
        )
    if any(f.usable and np.isnan(f.kappa) for f in fits):
        yield "kappa is fixed at 0 where no pair was shown in both orders; see --position."
    if any(f.prior_selected for f in fits):
        yield (
            "prior-selected: the comparisons do not identify this number, so the prior chose it. "
            "theta + c x and kappa are measured unless they are marked too."
        )
    if len(batch.tables.pools) > 1:
        yield (
            "Each judge, all pools together: one c and one kappa; each pool has its own qualities, "
            "which are integrated out. The evidence is how far the profile log-likelihood falls "
            "within 1 of c."
        )
    else:
        yield f"P(top {k}): the posterior probability of being among the {k} best."
    yield (
        "Contradicting: share of the pairs shown in both orders whose winner changes with the "
        "order; a tie against a win counts half."
    )


def _joint_sections(
    batch: Batch, fit: PanelFit, alone: Sequence[JudgeSummary], *, k: int, per_pool: bool
) -> list[Section]:
    """The sections about all judges together; `alone` are each judge's own estimates."""
    joint_sections = [
        Section("All judges together, one quality", [], _joint_coefficients(fit, alone)),
        Section("What the joint numbers rest on", list(_joint_sentences(batch, fit, k))),
    ]
    if len(fit.pools) == 1:
        joint_sections.append(
            Section(f"{fit.pools[0].pool} / {JOINT}", *_joint_ranking(fit.pools[0], k))
        )
    elif per_pool:
        lines = [f"{pool.pool} / {JOINT}: {_joint_in_line(pool)}" for pool in fit.pools]
        joint_sections.append(Section("Rankings, all judges together", lines))
    return joint_sections


def _joint_sentences(batch: Batch, fit: PanelFit, k: int) -> Iterator[str]:
    yield known_in_words(fit.trusted)
    agreements = {j.judge: j.agreement for j in fit.judges if j.agreement is not None}
    yield from nobody_agrees(agreements)
    for name, b in fit.slope.items():
        yield (
            f"slope of quality in {name}: {b.in_words()} logits per {batch.units} {name}, over all "
            f"pools{BASIS[b.status]}"
        )
    for judge in fit.judges:
        for c in judge.c:
            if c.status == Basis.MEASURED:
                yield from _differs(f"{judge.judge}: {c.name}", c.p_alike)
    for difference in fit.differences:
        yield (
            f"{difference.name} of {difference.judge} less that of {difference.other} is "
            f"identified: {difference.in_words()}, "
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


def _joint_coefficients(fit: PanelFit, alone: Sequence[JudgeSummary]) -> pd.DataFrame | None:
    rows, by_name = [], {a.judge: a for a in alone}
    for judge in fit.judges:
        if judge.known:
            rows.append({"judge": judge.judge, "coefficient": "c, kappa", "joint [95 %]": "0"})
        by_itself = by_name.get(judge.judge, alone[0] if len(alone) == 1 else None)
        by_covariate = {} if by_itself is None else {c.covariate: c for c in by_itself.coefficients}
        for coefficient in judge.coefficients:
            single = by_covariate.get(coefficient.covariate)
            rows.append(
                {
                    "judge": judge.judge,
                    "coefficient": coefficient.name,
                    "joint [95 %]": coefficient.in_words() + BASIS[coefficient.status],
                    "identified by": ", ".join(coefficient.identified_by),
                    "alone [95 %]": ""
                    if single is None
                    else single.in_words() + BASIS[single.status],
                }
            )
        s, agreed = judge.discrimination, judge.agreement
        assert s is not None  # as in every panel
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


def _joint_ranking(pool: PanelPool, k: int) -> tuple[list[str], pd.DataFrame | None]:
    if pool.top_k_differs is None:
        return [pool.status.name.lower()], None
    differ = "differs from" if pool.top_k_differs else "is that of"
    top = f"the top {k} {differ} the naive model, c = kappa = 0 for every judge"
    note = " (prior-selected)" * pool.prior_selected
    return [pool.status.name.lower(), top], _contents(pool.ranking, note, k)


def _joint_in_line(pool: PanelPool) -> str:
    status = pool.status.name.lower()
    if pool.top_k_differs is None:
        return status
    return f"{_in_line(pool.ranking, ' (prior-selected)' * pool.prior_selected)}, {status}"
