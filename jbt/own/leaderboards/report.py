"""Leaderboards as a report, as tables and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section
from jbt.own.fits.judges import JOINT, known_in_words
from jbt.own.leaderboards import robust
from jbt.own.leaderboards.board import Leaderboard
from jbt.own.leaderboards.intervals import LEVEL
from jbt.own.shared_coefficients.intervals import Coefficient
from jbt.own.tables import agreement, lengths
from jbt.types import Prior, Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PULLED = 0.5
"""Standard errors by which the prior may move a theta without a note."""

SHOWN = 3
"""Largest number of models outside the others that are named."""

A_ROW = 3
"""Judges side by side in the figure."""


class Leaderboards(list[Leaderboard]):
    """The result of `jbt leaderboard`: one for each judge, then that of all judges together."""

    def __init__(
        self,
        boards: Sequence[Leaderboard],
        prior: Prior,
        compared: Sequence[pd.DataFrame],
        against: str | None = None,
    ) -> None:
        """
        Args:
          prior: of the leaderboards.
          against: the model against which win rates are; None for the mean over all others.
          compared: for each judge, ranks under other choices (`robust.compare`), or nothing.
        """
        super().__init__(boards)
        self.prior, self.compared = prior, compared
        self.against = against

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A ranking for each leaderboard with what it rests on; the conventions come last."""
        sections = []
        for i, board in enumerate(self):
            name = board.judge or "Ranking"
            lines = list(_sentences(board, self.prior))
            if board.status == Status.CONVERGED:
                sections += [
                    Section(name, [], _shown(board, self.against)),
                    Section(f"{name}: basis", lines),
                ]
            else:
                sections.append(Section(name, lines, _shown(board, self.against)))
            if i < len(self.compared):
                ranks = self.compared[i].rename(columns={"ties_dropped": "ties dropped"})
                lines = [robust.widest(self.compared[i])]
                heading = f"{name}: ranks under other choices"
                sections.append(Section(heading, lines, ranks.fillna("-")))
        conventions = list(_conventions(self[0], self.prior))
        sections.append(Section("How to read this", conventions, detail=True))
        return Report(title, lead, sections, answer=[_answer(board) for board in self])

    def to_frame(self) -> pd.DataFrame:
        """A row for each judge and model: judge (if there are several), the columns of the JSON,
        and `status` of theta (see `Coefficient.status`)."""
        parts = []
        for board in self:
            part = board.to_frame()
            if len(self) > 1:
                part.insert(0, "judge", board.judge)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file: a single leaderboard as it is, several with their
        judges."""
        records = [board.record() for board in self]
        for record, ranks in zip(records, self.compared, strict=False):
            record["robust"] = robust.record(ranks)
        if len(self) == 1:
            return records[0]
        boards = zip(self, records, strict=True)
        return {"leaderboards": [{"judge": board.judge, **record} for board, record in boards]}

    def figure(self) -> Figure:
        """Every model's theta, naive and corrected, with intervals, best first."""
        from jbt.border import plots

        columns = min(len(self), A_ROW)
        height = max(0.9 + 0.26 * len(self[0].models), 2.4)
        n_rows = -(-len(self) // columns)
        drawn, axes = plots.new_figure(columns, n_rows=n_rows, width=6.4, height=height)
        panels = np.atleast_1d(axes).ravel()
        for ax in panels[len(self) :]:
            ax.set_visible(False)
        for ax, board in zip(panels, self, strict=False):
            series = [
                ("naive", "orange", board.theta_naive, board.low_naive, board.high_naive),
                ("corrected", "blue", board.theta, board.low, board.high),
            ]
            plots.forest(ax, board.models, series)
            ax.set_xlabel(f"theta, logits (mean 0 over the models), {LEVEL:.0%} intervals")
            ax.set_title(board.judge or "")
            ax.legend(fontsize=8, loc="lower right")
        return drawn


def _answer(board: Leaderboard) -> str:
    """Who is best, by how much that is certain, and what the correction changes."""
    whose = "" if board.judge is None else f"{board.judge}: "
    if board.status != Status.CONVERGED:
        return f"{whose}no ranking: {board.status.name.lower()}"
    best = [
        f"{model} {_rank(*map(float, ranks))}"
        for model, *ranks in zip(
            board.models[:SHOWN],
            board.rank[:SHOWN],
            board.rank_low[:SHOWN],
            board.rank_high[:SHOWN],
            strict=True,
        )
    ]
    known = np.isfinite(board.rank) & np.isfinite(board.rank_naive)
    moved = np.where(known, board.rank_naive - board.rank, 0)
    ranked = ", with plausible ranks" * bool(np.isfinite(board.rank_low).any())
    line = f"{whose}best{ranked}: {', '.join(best)}"
    if not moved.any():
        return f"{line}; the correction changes no rank"
    furthest = int(np.argmax(np.abs(moved)))
    change = f"{_rank(float(board.rank_naive[furthest]))} to {_rank(float(board.rank[furthest]))}"
    changed = f"{int((moved != 0).sum())} of {int(known.sum())} ranks"
    if ranked:
        beyond = (board.rank_naive < board.rank_low) | (board.rank_naive > board.rank_high)
        changed += f", {int((beyond & (moved != 0)).sum())} from outside its plausible ranks"
    model = board.models[furthest]
    return f"{line}; the correction changes {changed}, most that of {model}, from {change}"


def _conventions(board: Leaderboard, prior: Prior) -> Iterator[str]:
    yield (
        f"MAP with lam = {prior.lam:g}, lam_b = {prior.lam_b:g}; theta in logits, with mean 0 over "
        "the models; naive: without covariates and position"
    )
    yield (
        "rank [1 + models significantly better, models less those significantly worse]: by the "
        f"{LEVEL:.0%} intervals of a model's differences from all others, Bonferroni-corrected; "
        "where the likelihood or the prior decides a difference, by a sign test of the prompts won"
    )
    if board.log_nu is not None:
        yield (
            "P(tie) is nu / (e^(eta / 2) + e^(-eta / 2) + nu), with eta the log-odds that the "
            "first wins if one side does (Davidson 1970); log nu has the prior of c"
        )
    equal = " at equal covariates" if board.c else ""
    yield f"win rate: chance of winning against the others{equal}, by theta, the mean over them"
    if board.c:
        names = ", ".join(str(c.covariate) for c in board.c)
        yield (
            f"the correction assumes that {names} is unrelated to quality among the answers of one "
            "model: any effect of it on the judge counts as bias"
        )
        yield (
            "c is the covariate's effect on the judge between two answers to one prompt, given the "
            "models' qualities over all prompts (jbt fit estimates it within each prompt)"
        )
    for baseline in board.beside:
        yield from baseline.reading
    if board.interaction:
        yield (
            "--interaction: the bias is c + gamma theta, with c that of an average model; theta is "
            "the quality of a model at each prompt's average of the covariates"
        )


def _shown(board: Leaderboard, against: str | None) -> pd.DataFrame:
    def intervals(*columns: np.ndarray) -> list[str]:
        return [_interval(*map(float, row)) for row in zip(*columns, strict=True)]

    ranks = (board.rank, board.rank_low, board.rank_high)
    return pd.DataFrame(
        {
            "model": board.models,
            "rank [best, worst plausible]": [
                _rank(*map(float, row)) for row in zip(*ranks, strict=True)
            ],
            "uncorrected rank": [_rank(float(r)) for r in board.rank_naive],
            f"win rate{f' against {against}' if against else ''}": [
                _share(p) + _record(board, i)
                for i, p in enumerate(board.win_rates(against).tolist())
            ],
            **{
                f"average {name}": [_plain(float(v)) for v in values]
                for name, values in board.averages.items()
            },
            **dict(_baseline_columns(board)),
            "votes": board.n_verdicts,
            "theta": intervals(board.theta, board.low, board.high),
            "uncorrected theta": intervals(board.theta_naive, board.low_naive, board.high_naive),
        }
    )


def _baseline_columns(board: Leaderboard) -> Iterator[tuple[str, list[str]]]:
    for b in board.beside:
        title = b.name.replace("_", " ")
        ranks = zip(b.rank, b.rank_low, b.rank_high, strict=True)
        yield f"{title} rank", [_rank(*map(float, row)) for row in ranks]
        written = _share if b.share else _interval
        values = zip(b.estimate, b.low, b.high, strict=True)
        yield f"{title} {b.quantity}", [written(*map(float, row)) for row in values]


def _share(p: float, *ends: float) -> str:
    if not _known(p):
        return "-"
    interval = f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if ends and _known(*ends) else ""
    return f"{100 * p:.0f}{interval} %"


def _record(board: Leaderboard, model: int) -> str:
    """The verdicts won, where the likelihood gives the win rate no end."""
    if board.status_of[model] != "separated":
        return ""
    return f" (won {board.n_won[model]:g} of {board.n_verdicts[model]})"


def _plain(x: float) -> str:
    return f"{x:.3g}" if _known(x) and abs(x) < 100 else f"{x:.0f}" if _known(x) else "-"


def _known(*values: float) -> bool:
    return bool(np.isfinite(values).all())


def _rank(rank: float, *ends: float) -> str:
    if not _known(rank):
        return "-"
    return f"{rank:.0f}" + (f" [{ends[0]:.0f}, {ends[1]:.0f}]" if ends and _known(*ends) else "")


def _interval(estimate: float, low: float, high: float) -> str:
    if not _known(estimate):
        return "-"
    return f"{estimate:+.2f}" + (f" [{low:+.2f}, {high:+.2f}]" if _known(low, high) else "")


def _sentences(board: Leaderboard, prior: Prior) -> Iterator[str]:
    """Method of the intervals, c and kappa, why intervals are missing, evidence for the
    correction."""
    if board.status != Status.CONVERGED:
        why = ""
        if board.interaction and board.status == Status.FLAT:
            why = (
                ": the verdicts do not identify gamma, which takes a covariate that varies within "
                "models of unlike quality; leave --interaction out"
            )
        yield f"no ranking: {board.status.name.lower()}{why}"
        return
    parts = [p for e in board.by_quality for p in (e.stronger, e.weaker, e.gamma) if _known(p.low)]
    degrees = [c.degrees for c in (*board.c, *board.judges, *parts) if c.status == "converged"]
    degrees += board.degrees[board.status_of == "converged"].tolist()
    if degrees:
        yield f"{LEVEL:.0%} intervals: {_method(board.n_clusters, degrees)}"
    for c in board.c:
        evidence = f"; profile range over c +- 1: {c.profile_range:.1f} nats"
        yield (f"{c.name} {_estimate(c)} per {c.unit}{evidence if _known(c.profile_range) else ''}")
    hint = "" if board.interaction else "; --interaction ranks with c + gamma theta"
    for entry in board.by_quality:
        yield from entry.sentences(hint)
    if board.judge == JOINT:
        yield known_in_words(board.trusted)
        yield from agreement.in_words(board.agreements)
    for c in board.judges:
        per = f" per {c.unit}" if c.unit else " in favour of the first shown"
        identifiers = ", ".join(c.identified_by)
        source = f"identified by {identifiers}" if identifiers else "not identified"
        yield f"{c.judge}: {c.name} {_estimate(c)}{per}; {source}"
    for s in board.discriminations:
        yield f"{s.judge}: discrimination {_interval(s.estimate, s.low, s.high)}"
    if board.judge != JOINT and board.kappa is None:
        yield "kappa is fixed at 0 (--position)"
    elif board.kappa is not None:
        yield f"kappa {_estimate(board.kappa)} in favour of the first shown"
    if board.log_nu is not None and _known(board.log_nu.estimate):
        nu = np.exp(board.log_nu.estimate)
        yield (
            f"log nu {_interval(board.log_nu.estimate, board.log_nu.low, board.log_nu.high)}: two "
            f"equal answers tie in {nu / (2 + nu):.0%} (Davidson)"
        )
    for reason in board.reasons():
        yield f"no interval: {reason}"
    statuses = [c.status for c in (*board.c, *board.judges)] + board.status_of.tolist()
    if "few_clusters" in statuses:
        yield "jbt plan prompts says how many more prompts put one model above another"
    pull = np.abs(board.pull)  # NaN where there is no interval
    if np.any(pull > PULLED):
        yield (
            f"the prior has moved theta by up to {np.nanmax(pull):.1f} standard errors "
            f"({board.models[int(np.nanargmax(pull))]}); intervals correct for this, estimates do "
            f"not; a --lam below {prior.lam:g} moves it less"
        )
    for baseline in board.beside:
        yield from baseline.notes
    for model in board.outside[:SHOWN]:
        yield model.sentence()
    if len(board.outside) > SHOWN:
        yield f"and {len(board.outside) - SHOWN} more models outside the others, see --json"
    if board.c:
        yield from _evidence(board)


def _method(n_clusters: int, degrees: Sequence[float]) -> str:
    low, high = min(degrees), max(degrees)
    between = f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"{low:.0f} to {high:.0f}"
    return (
        f"jackknife over {n_clusters} pools (each left out in turn), t with {between} effective "
        "degrees of freedom; about the estimates without the prior's pull"
    )


def _estimate(c: Coefficient) -> str:
    return f"{_interval(c.estimate, c.low, c.high)} logits"


def _evidence(board: Leaderboard) -> Iterator[str]:
    """Evidence from anchors for or against the assumption of the correction."""
    names = [str(c.covariate) for c in board.c]
    anchors = board.anchors
    if anchors is not None and anchors.n_pairs:
        disputed = (
            f"of the {anchors.n_disputed} on which they differ, the corrected is right in "
            f"{anchors.corrected_right}"
            if anchors.n_disputed
            else "they order none in opposite ways, but one may tie what the other orders"
            if anchors.naive != anchors.corrected
            else "they differ on none"
        )
        yield (
            f"of {anchors.n_pairs} trusted pairs of two models, the naive ranking agrees with "
            f"{anchors.naive:.0%} and the corrected with {anchors.corrected:.0%}; {disputed}"
        )
    if anchors is not None:
        for name, better, won in zip(names, anchors.larger_better, anchors.larger_won, strict=True):
            if _known(better, won):
                yield (
                    f"{lengths.larger(name)} is the better of a trusted pair in {better:.0%}, "
                    f"and won {won:.0%} of the judge's verdicts"
                )
    if anchors is None:
        yield (
            "nothing here tests the assumption of the correction: there are no trusted pairs "
            "(--anchors)"
        )
