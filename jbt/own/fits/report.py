"""The report of `jbt fit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section, each, range_of, signed, with_interval
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import JOINT, known_in_words
from jbt.own.fits.one_comparison import OfPools
from jbt.own.fits.pools import PoolFit, Ranked
from jbt.own.fits.together import PanelFit, PanelPool
from jbt.own.shared_coefficients.intervals import LARGEST_SHARE, Basis
from jbt.own.tables.missing import in_words, number_of
from jbt.own.tables.pairs import nobody_agrees
from jbt.types import Status

if TYPE_CHECKING:
    from jbt.own.fits.analysis import Analysis

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
    Basis.PRIOR: "a default, not a measurement",
    Basis.NOT_CONVERGED: "the fit did not converge",
    Basis.UNDEFINED: "no verdicts",
    Basis.FIXED: "fixed",
}
"""What an estimate of c rests on."""

NAMED = 4
"""Most judges or items that the answer names."""

ALIKE = 0.05
"""Level of the test that a coefficient is the same in all pools."""

RANKED = 50
"""Largest number of contents of one pool that a report lists."""

LARGE_KAPPA = 2.0
"""Logits beyond which the interval of a pool's kappa covers less than it says: of pools drawn from
the prior .87 to .93 between 2 and 3 logits, and less beyond (.74 and .89 at 4:
`benchmarks.calibration one_pool`)."""

ONE_COMPARISON = (
    "by a fit with random effects; c on one comparison is usually farther from 0 than the average "
    "effect in such pools"
)
AVERAGE = "c and kappa are average effects in such pools"
"""What the coefficients of all pools are."""


def report(analysis: Analysis, title: str, lead: Sequence[str], *, per_pool: bool) -> Report:
    """The report: coefficients (of one pool, its ranking) first.

    Args:
      lead: notes on what was read.
      per_pool: with several pools, give the ranking of each; of one pool it is always given.
    """
    batch, judges, k = analysis.batch, analysis.judges, analysis.k
    fits = [f for g in range(len(judges)) for f in analysis.of_judge(g)]
    one_pool = len(batch.tables.pools) == 1
    sections = []
    if one_pool:
        sections = [Section(_name(f), *_ranking(batch, f, k)) for f in fits]
    elif len(analysis.coefficients):
        sds = zip(judges["judge"], judges["sd"], strict=True)
        spread = ", ".join(f"{_of(judge)}{sd:.3g}" for judge, sd in sds)
        lines = [
            AVERAGE,
            f"standard deviation of quality, 1 / sqrt(lam), logits: {spread}",
        ]
        table = _coefficients(analysis.coefficients)
        sections.append(Section("Each judge, all pools together", lines, table))
    of_c = analysis.coefficients[analysis.coefficients["quantity"] == "c"]
    evidence = [
        line
        for _, coefficients in of_c.groupby("name", sort=False)
        for line in _evidence(coefficients, one_pool)
    ]
    evidence += [line for g in range(len(judges)) for line in _ties(analysis, g)]
    evidence += [line for g in range(len(judges)) for line in _missing(analysis, g)]
    known = [f.kappa for f in fits if np.isfinite(f.kappa_low)]
    if (one_pool or per_pool) and any(abs(kappa) > LARGE_KAPPA for kappa in known):
        evidence.append(
            f"kappa beyond {LARGE_KAPPA:g} logits: its interval covers less than 93 % in "
            "simulations, as few verdicts are in doubt"
        )
    sections.append(Section("What these numbers rest on", evidence, _verdicts(judges)))
    alone = analysis.one_comparison[: len(judges)]
    sections += [
        _on_one_comparison(judge or "All verdicts", one)
        for judge, one in zip(judges["judge"][: len(alone)], alone, strict=True)
    ]
    if not one_pool:
        lines = [_pools(analysis, g) for g in range(len(judges))]
        sections.append(Section("Pool by pool", lines, detail=True))
    if per_pool and not one_pool:
        sections.append(Section("Rankings", [_ranking_in_line(batch, f) for f in fits]))
    legend = list(_legend(batch, fits, k))
    sections.append(Section("How to read this", legend, detail=True))
    if analysis.joint is not None:
        of_alone = analysis.coefficients, len(judges)
        sections += _joint_sections(*analysis.joint, *of_alone, k=k, per_pool=per_pool)
        sections += [
            _on_one_comparison("All judges together", one)
            for one in analysis.one_comparison[len(judges) :]
        ]
    answer = [
        _answer(analysis),
        *(_rests_on(c, one_pool) for _, c in of_c.groupby("name", sort=False)),
    ]
    return Report(title, lead, sections, answer=answer)


def _on_one_comparison(whose: str, one: OfPools | str) -> Section:
    heading = f"{whose}: on one comparison"
    if isinstance(one, str):
        return Section(heading, [f"not estimated: {one}"])
    return Section(heading, [ONE_COMPARISON, *one.sentences(one.c["unit"].tolist())])


def _answer(analysis: Analysis) -> str:
    """What the correction changes."""
    batch, judges, k = analysis.batch, analysis.judges, analysis.k
    rest = ["..."] * (len(judges) > NAMED)
    if len(batch.tables.pools) == 1:
        tops = [_of(f.judge) + _top(f, k) for f in analysis.fits[:NAMED] if f.usable]
        return "; ".join([*tops, *rest]) if tops else "No fit converged"
    corrected = ", ".join(batch.covariates) or "position"
    changed = [
        f"in {j.differs_from_naive} of {j.n_ranked} pools" + (f" ({j.judge})" if j.judge else "")
        for j in each(judges.head(NAMED))
    ]
    return f"Correcting for {corrected} changes the top {k} {', '.join([*changed, *rest])}"


def _top(fit: PoolFit, k: int) -> str:
    best = [content.content for content in fit.ranking[:k]]
    named = ", ".join(best[:NAMED]) + ", ..." * (len(best) > NAMED)
    differs = "another without correction" if fit.top_k_differs else "the same without correction"
    return f"top {k}: {named} ({differs})"


def _printed(c: Any, one_pool: bool) -> float:
    """The estimate, or of one pool a default of the prior as its own fit has it."""
    return c.mean_over_pools if one_pool and c.basis == Basis.PRIOR else c.estimate


def _rests_on(coefficients: pd.DataFrame, one_pool: bool) -> str:
    """Each judge's c of one covariate, in short."""
    name = coefficients["name"].iloc[0]
    shown = list(each(coefficients.head(NAMED)))
    if all(c.basis == Basis.PRIOR for c in shown):
        return (
            f"Within one prompt, {name} cannot be separated from quality: its c is a default of "
            "the prior, not a measurement"
        )
    parts = [
        f"{_of(c.judge)}{with_interval(_printed(c, one_pool), c.low, c.high)} "
        f"({IN_A_WORD[c.basis]})"
        for c in shown
    ]
    return f"c[{name}]: " + ", ".join(parts)


def _pools(analysis: Analysis, g: int) -> str:
    """Means over the pools' own fits."""
    judge, table = analysis.judges.iloc[g], analysis.coefficients
    fits = analysis.of_judge(g)
    spread = {c.coefficient: _spread(c) for c in each(table[table["owner"] == g])}
    kappa = spread.pop("kappa", "undefined")
    usable = [f for f in fits if f.usable]
    n_fixed = sum(bool(np.isnan(f.kappa)) for f in usable)
    fixed = f" (fixed at 0 in {n_fixed}/{len(usable)})" if n_fixed else ""
    statuses = Counter(f.status.name.lower() for f in fits)
    parts = [
        *(f"{name} {values}" for name, values in spread.items()),
        f"kappa {kappa}{fixed}",
        f"top {analysis.k} differs from the uncorrected one in "
        f"{judge['differs_from_naive']} of {judge['n_ranked']} pools",
        ", ".join(f"{status} {n}" for status, n in statuses.items()),
    ]
    if judge["n_errors"]:
        parts.append(f"{judge['n_errors']} error verdicts dropped")
    return f"{judge['judge'] or 'all verdicts'}: " + "; ".join(parts)


def _spread(c: Any) -> str:
    if not c.n_pools:
        return "undefined"
    sd = "" if np.isnan(c.sd_over_pools) else f" (sd {c.sd_over_pools:.2g})"
    chosen = c.n_prior_selected
    note = "" if chosen == c.n_pools else f" in {chosen}/{c.n_pools}"
    return f"{signed(c.mean_over_pools)}{sd}" + (f" (prior-selected{note})" if chosen else "")


def _coefficients(coefficients: pd.DataFrame) -> pd.DataFrame:
    changes = coefficients["without_ties"] - coefficients["estimate"]
    return pd.DataFrame(
        {
            "judge": c.judge or "all verdicts",
            "coefficient": c.coefficient,
            "estimate [95 %]": _measured(c),
            "mean over pools": signed(c.mean_over_pools),
            "log-likelihood range": range_of(c.profile_range) if c.quantity == "c" else "",
            "change without ties": "" if np.isnan(change) else signed(change),
        }
        for c, change in zip(each(coefficients), changes, strict=True)
    )


def _measured(c: Any) -> str:
    """An estimate with its interval, or why it has none."""
    return with_interval(c.estimate, c.low, c.high) + BASIS[c.basis]


def _evidence(coefficients: pd.DataFrame, one_pool: bool) -> Iterator[str]:
    """Whether the verdicts identify one covariate's coefficient; one line for all judges whose c
    they do not."""
    chosen = []
    for c in each(coefficients):
        name = f"{_of(c.judge)}{c.coefficient}"
        renderings = f"the log-likelihood varies by {range_of(c.profile_range)} over c +- 1"
        if c.basis == Basis.MEASURED:
            yield f"{name} is measured, from versions of one content: {renderings}"
            yield from _differs(name, c.p_alike)
        elif c.basis == Basis.MERGED:
            yield (
                f"{name} is measured over all pools merged: {renderings}; jbt leaderboard gives "
                "its interval, as verdicts of one pool may depend on each other"
            )
        elif c.basis == Basis.FEW_POOLS:
            yield (
                f"{name} has no interval, because one or two pools hold nearly all that identifies "
                f"it ({renderings})"
            )
        elif c.basis == Basis.WEAK:
            yield (
                f"{name} is partly from the prior, which holds more than {LARGEST_SHARE:.0%} of "
                f"its precision; {renderings}"
            )
        elif c.basis == Basis.PRIOR:
            chosen.append(_of(c.judge) + signed(_printed(c, one_pool)))
    if chosen:
        yield (
            f"{coefficients['coefficient'].iloc[0]} is not identified: between contents it cannot "
            "be separated from quality. These numbers are the prior's defaults, not measurements: "
            f"{', '.join(chosen)}"
        )


def _differs(name: str, p_alike: float) -> Iterator[str]:
    """Report that a coefficient differs between pools, where the test finds it."""
    if p_alike < ALIKE:
        yield (
            f"{name} differs between pools by more than chance (p = {p_alike:.2g}): its average "
            "effect is nearer to 0 than the judge's c on one comparison"
        )


def _of(judge: str | None) -> str:
    return "" if judge is None else f"{judge}: "


def _ties(analysis: Analysis, g: int) -> Iterator[str]:
    """How much a judge's estimates change without the ties."""
    judge, table, k = analysis.judges.iloc[g], analysis.coefficients, analysis.k
    changed = judge["differs_without_ties"]
    if np.isnan(changed):
        return
    coefficients = table[table["owner"] == g]
    moves = [
        f"{c.coefficient} by {signed(c.without_ties - c.estimate)}"
        for c in each(coefficients)
        if np.isfinite(c.without_ties)
    ]
    if judge["n_ranked"] == 1:
        top = f"the top {k} {'changes' if changed else 'stays'}"
    else:
        top = f"the top {k} changes in {changed:.0f} of {judge['n_ranked']} pools"
    n = f"{judge['n_ties']} of {judge['n_verdicts']} verdicts are ties"
    if len(coefficients) and not moves:
        effect = "the fit of all pools does not converge"
    else:
        effect = f"they move {', '.join(moves) or 'nothing'}"
    yield f"{_of(judge['judge'])}{n}; left out, {effect}; {top}"


def _missing(analysis: Analysis, g: int) -> Iterator[str]:
    """How the missing verdicts could change a judge's estimates."""
    judge, k, ends = analysis.judges.iloc[g], analysis.k, analysis.missing
    ends = ends[ends["owner"] == g]
    if ends.empty:
        return
    ends = ends[~ends["basis"].isin([Basis.PRIOR, Basis.UNDEFINED])]
    ends = ends.assign(shown=[_measured(row) for row in each(ends)])
    ranked = f"of {judge['n_ranked']} pools' top {k}"
    for line in in_words(number_of(analysis.batch.tables, g), ends, ranked):
        yield _of(judge["judge"]) + line


def _verdicts(judges: pd.DataFrame) -> pd.DataFrame:
    connected = zip(judges["n_connected"], judges["n_pools"], strict=True)
    return pd.DataFrame(
        {
            "judge": judges["judge"].fillna("all verdicts"),
            "verdicts": judges["n_verdicts"],
            "ties": judges["n_ties"],
            "errors": judges["n_errors"],
            "pairs in both orders": judges["n_both_orders"],
            "contradicting": ["" if np.isnan(r) else f"{r:.1%}" for r in judges["flip_rate"]],
            "pools connected": [f"{n}/{of}" for n, of in connected],
        }
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
            "Each judge, all pools together: one c and one kappa, their average effects in such "
            "pools; on one comparison c is larger if it differs between pools, or if versions of a "
            "content differ in quality. Each pool has its own qualities, which are integrated "
            "out. The log-likelihood range is how far the profile log-likelihood falls within 1 of "
            "c; near 0, the verdicts do not identify c."
        )
    else:
        yield f"P(top {k}): the posterior probability of being among the {k} best."
    yield (
        "Contradicting: share of the pairs shown in both orders whose winner changes with the "
        "order; a tie against a win counts half."
    )


def _joint_sections(
    batch: Batch, fit: PanelFit, alone: pd.DataFrame, n_alone: int, *, k: int, per_pool: bool
) -> list[Section]:
    """The sections about all judges together; `alone` are the coefficients of `n_alone` judges by
    themselves."""
    joint_sections = [
        Section(
            "All judges together, one quality", [AVERAGE], _joint_coefficients(fit, alone, n_alone)
        ),
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
    yield known_in_words(fit.judges.trusted)
    yield from nobody_agrees(fit.agreements)
    for b in each(fit.shared.of("slope")):
        yield (
            f"slope of quality in {b.name}: {with_interval(b.estimate, b.low, b.high)} logits per "
            f"{b.unit}, over all pools{BASIS[b.basis]}"
        )
    for c in each(fit.shared.of("c")):
        if c.basis == Basis.MEASURED:
            yield from _differs(f"{c.judge}: {c.coefficient}", c.p_alike)
    for difference in each(fit.differences):
        apart = with_interval(difference.estimate, difference.low, difference.high)
        yield (
            f"c[{difference.covariate}] of {difference.judge} minus that of {difference.less} is "
            f"identified: {apart}, "
            "if both have the same discrimination, which is not tested: a judge less sensitive to "
            "quality gives such a difference too"
        )
    statuses = Counter(pool.status.name.lower() for pool in fit.pools)
    counts = ", ".join(f"{status} in {n}" for status, n in statuses.items())
    yield f"status of the joint fits: {counts} of {len(fit.pools)} pools"
    n_untrusted = statuses[Status.NO_REFERENCE.name.lower()]
    if n_untrusted:
        yield (
            f"{' and '.join(fit.judges.trusted)} judged nothing in {n_untrusted} of "
            f"{len(fit.pools)} pools: these are corrected with the c and kappa that the other "
            "pools identify"
        )
    chosen = sum(pool.prior_selected for pool in fit.pools)
    if chosen:
        yield f"theta is prior-selected in {chosen} of {len(fit.pools)} pools"
    differ = [p.top_k_differs for p in fit.pools if p.top_k_differs is not None]
    yield (
        f"the top {k} differs from the uncorrected one (c = kappa = 0 for all) in {sum(differ)} of "
        f"{len(differ)} pools"
    )


def _joint_coefficients(fit: PanelFit, alone: pd.DataFrame, n_alone: int) -> pd.DataFrame:
    by_itself = {
        (None if n_alone == 1 else c.judge, c.coefficient): _measured(c) for c in each(alone)
    }
    rows, table = [], fit.shared.estimates
    for judge, is_known in zip(fit.judges.names, fit.judges.known, strict=True):
        if is_known:
            rows.append({"judge": judge, "coefficient": "c, kappa", "joint [95 %]": "0"})
        agreed = fit.agreements.get(judge)
        for c in each(table[table["judge"] == judge]):
            row = {"judge": judge, "coefficient": c.coefficient, "joint [95 %]": _measured(c)}
            key = None if n_alone == 1 else judge, c.coefficient
            row |= {"identified by": ", ".join(c.identified_by), "alone [95 %]": by_itself.get(key)}
            if c.quantity == "discrimination" and agreed is not None:
                row["agrees with the trusted"] = f"{agreed.share:.0%} of {agreed.n_pairs} pairs"
            rows.append(row)
    columns = ["judge", "coefficient", "joint [95 %]", "identified by", "alone [95 %]"]
    frame = pd.DataFrame(rows, columns=pd.Index([*columns, "agrees with the trusted"]))
    return (frame if fit.judges.trusted else frame[columns]).fillna("")


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
