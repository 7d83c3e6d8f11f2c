"""The report and the figure of `jbt identify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt.border.report import Report, Section, nats, signed
from jbt.identifiability.profile_likelihood import PROFILE_DROP
from jbt.own.examine.identify import Identification, Identified
from jbt.own.fits.judges import Judges, known_in_words
from jbt.own.tables.pairs import agreement, agreement_in_words
from jbt.own.tables.tables import Tables
from jbt.types import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIRECTIONS_SHOWN = 6
"""Number of null directions that a report names."""

HINT = "; jbt leaderboard --interaction ranks with c + gamma theta"

ANY = (Status.FLAT, Status.DISCONNECTED)
"""Statuses at which any value of c fits equally well."""


def report(title: str, lead: Sequence[str], identification: Identification) -> Report:
    """A section for each covariate with a line for each judge, several pools summarised; then the
    same for all judges together, with whose verdicts identify each coefficient."""
    sections = _sections(identification.alone)
    if identification.together is not None and identification.panel is not None:
        lines = _whose(identification.together, *identification.panel)
        sections.append(Section("All judges together, one quality", lines))
        sections += [
            Section(f"{section.title}, all judges together", section.lines)
            for section in _sections(identification.together)
        ]
    return Report(title, lead, sections, answer=_answer(identification.alone))


def _answer(coefficients: list[Identified]) -> list[str]:
    """Whose verdicts identify each covariate's coefficient, a line for each covariate."""
    lines = []
    for covariate in dict.fromkeys(c.covariate for c in coefficients):
        by_judge: dict[str | None, list[Identified]] = {}
        for c in coefficients:
            if c.covariate == covariate:
                by_judge.setdefault(c.judge, []).append(c)
        identified = {j: sum(c.status not in ANY for c in pools) for j, pools in by_judge.items()}
        largest = max(map(len, by_judge.values()))
        if largest == 1:
            lines.append(_in_one_pool(covariate, identified))
            continue
        if not any(identified.values()):
            lines.append(
                f"c[{covariate}] is not identified in any of {largest} pools: the prior chooses it"
            )
            continue
        parts = [
            f"{'' if judge is None else f'{judge} '}in {identified[judge]} of {len(pools)} pools"
            for judge, pools in by_judge.items()
        ]
        rest = "; elsewhere the prior chooses it"
        rest *= any(identified[judge] < len(pools) for judge, pools in by_judge.items())
        lines.append(f"c[{covariate}] is identified by the verdicts: {', '.join(parts)}{rest}")
    return lines


def _in_one_pool(covariate: str, identified: dict[str | None, int]) -> str:
    """Which judges' verdicts identify c."""
    yes = [judge or "all" for judge, n in identified.items() if n]
    no = [judge or "all" for judge, n in identified.items() if not n]
    if not yes:
        return f"c[{covariate}] is not identified: the prior chooses it"
    but = f", not by those of {', '.join(no)}, where the prior chooses it" if no else ""
    of = "" if yes == ["all"] else f" of {', '.join(yes)}"
    return f"c[{covariate}] is identified by the verdicts{of}{but}"


def _sections(coefficients: list[Identified]) -> list[Section]:
    sections = []
    for covariate in dict.fromkeys(c.covariate for c in coefficients):
        of_covariate = [c for c in coefficients if c.covariate == covariate]
        lines = []
        for judge in dict.fromkeys(c.judge for c in of_covariate):
            of_judge = [c for c in of_covariate if c.judge == judge]
            name = judge or "all verdicts"
            lines.append(f"{name}: {_in_short(of_judge)}")
            if of_judge[0].by_quality is not None:
                sentences = of_judge[0].by_quality.sentences(HINT)
                lines += [f"{name}: {line}" for line in sentences]
        sections.append(Section(f"c[{covariate}], logits per {of_covariate[0].unit}", lines))
    directions = Counter(name for c in coefficients for name in dict.fromkeys(c.null_directions))
    total = len(coefficients)
    lines = [
        f"{name} (in {n} of {total})" if total > 1 else name
        for name, n in directions.most_common(DIRECTIONS_SHOWN)
    ]
    if len(directions) > DIRECTIONS_SHOWN:
        lines.append(f"and {len(directions) - DIRECTIONS_SHOWN} others, see --json or --out")
    sections.append(Section("Null directions of the comparisons made", lines))
    return sections


def _in_short(coefficients: list[Identified]) -> str:
    """One judge's coefficient, summarised over its pools."""
    if len(coefficients) == 1:
        return coefficients[0].sentence()
    statuses = Counter(c.status.name.lower() for c in coefficients)
    counts = ", ".join(f"{status} in {n}" for status, n in statuses.items())
    evidence = [c.profile_range for c in coefficients if not np.isnan(c.profile_range)]
    estimates = [c.c_mle for c in coefficients if c.status == Status.CONVERGED]
    defaults = [c.c_map for c in coefficients if c.status in ANY]
    parts = [f"{counts} of {len(coefficients)} pools"]
    if evidence:
        median, largest = nats(float(np.median(evidence))), nats(max(evidence))
        parts.append(f"{median} about c in a pool (median), at most {largest}")
    if estimates:
        middle = signed(float(np.median(estimates)))
        parts.append(f"without a prior {middle} (median of {len(estimates)})")
    if defaults:
        middle = signed(float(np.median(defaults)))
        parts.append(f"not identified in {len(defaults)}, where the prior chose {middle} (median)")
    return "; ".join(parts)


def _whose(together: list[Identified], tables: Tables, judges: Judges) -> list[str]:
    """State whose biases are known, who agrees with them, and whose verdicts identify each c."""
    agreements = agreement(tables, judges.known)
    lines = [known_in_words(judges.trusted), *agreement_in_words(agreements)]
    by_judge: dict[tuple[str | None, str], list[Identified]] = {}
    for c in together:
        by_judge.setdefault((c.judge, c.covariate), []).append(c)
    for (judge, covariate), pools in by_judge.items():
        identifiers = Counter(name for c in pools for name in c.identified_by or ("nobody",))
        if len(pools) == 1:
            names = ", ".join(identifiers)
        else:
            counts = ", ".join(f"{name} in {n}" for name, n in identifiers.items())
            names = f"{counts} of {len(pools)} pools"
        lines.append(f"c[{covariate}] of {judge} is identified by {names}")
    return lines


def figure(coefficients: list[Identified]) -> Figure:
    """Profile curves, a panel for each covariate: single curves over c for a few pools; for many, a
    judge's median and central 90 % around the MAP."""
    from jbt.border import plots

    covariates = list(dict.fromkeys(c.covariate for c in coefficients))
    drawn, axes = plots.new_figure(len(covariates))
    for ax, covariate in zip(np.atleast_1d(axes), covariates, strict=True):
        plotted = [c for c in coefficients if c.covariate == covariate]
        few = len(plotted) <= len(plots.CYCLE)
        if few:
            for i, c in enumerate(plotted):
                width = 1.5 * (len(plotted) - i)  # keeps flat curves from hiding each other
                _draw_curve(ax, c, color=plots.CYCLE[i], linewidth=width)
        else:
            judges = list(dict.fromkeys(c.judge for c in plotted))
            for i, judge in enumerate(judges):
                colour, width = plots.CYCLE[i % len(plots.CYCLE)], 1.5 * (len(judges) - i)
                pools = [c for c in plotted if c.judge == judge]
                _draw_band(ax, pools, colour=colour, linewidth=width)
        ax.axhline(
            -PROFILE_DROP, color="grey", linewidth=0.8, linestyle=":", label="95 % by the profile"
        )
        ax.set_xlabel(f"{'c' if few else 'c less its MAP'}, logits per {plotted[0].unit}")
        ax.set_ylabel("profile log-likelihood less its largest, nats")
        ax.legend(fontsize="small")
    return drawn


def _draw_curve(ax: Axes, c: Identified, **style: Any) -> None:
    label = c.pool if c.judge is None else f"{c.pool}, {c.judge}"
    label += f": {nats(c.profile_range)}"
    ax.plot(c.grid, _below(c), label=label, **style)
    if c.status == Status.CONVERGED:
        ax.plot([c.low, c.high], [-PROFILE_DROP] * 2, "|-", color=style["color"], ms=8)


def _draw_band(ax: Axes, pools: list[Identified], **style: Any) -> None:
    from jbt.border import plots

    finite = [c for c in pools if np.isfinite(c.profile_range)]
    if not finite:
        return
    low, middle, high = np.quantile([_below(c) for c in finite], [0.05, 0.5, 0.95], axis=0)
    label = f"{pools[0].judge or 'all verdicts'}, {len(finite)} pools"
    plots.band(ax, np.linspace(-1, 1, len(middle)), middle, low, high, label=label, **style)


def _below(c: Identified) -> np.ndarray:
    return c.log_likelihood - c.log_likelihood.max()
