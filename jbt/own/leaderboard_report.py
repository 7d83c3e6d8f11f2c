"""A leaderboard in words, as a table and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from jbt import files
from jbt.own.leaderboard import Coefficient, Leaderboard
from jbt.own.spread import FEWEST_CLUSTERS, LEVEL
from jbt.types import Prior, Status

PULLED = 0.5
"""Standard errors by which the prior may move a theta unmentioned."""

COLUMNS = {
    "model": "model",
    "theta": "theta",
    "rank": "rank",
    "naive": "naive theta",
    "rank_naive": "naive rank",
    "n_verdicts": "verdicts",
}


def markdown(board: Leaderboard, prior: Prior, bootstrap: int = 0) -> str:
    """A leaderboard as Markdown: its table, then what it says in sentences."""
    title = f"## {board.judge}\n\n" if board.judge is not None else ""
    said = "\n".join(f"- {line}" for line in sentences(board, prior, bootstrap))
    return f"{title}{_table(board)}\n\n{said}\n"


def _table(board: Leaderboard) -> str:
    rows = [list(COLUMNS.values())]
    for i, name in enumerate(board.models):
        theta, naive = (
            _interval(of[i], low[i], high[i])
            for of, low, high in (
                (board.theta, board.low, board.high),
                (board.theta_naive, board.low_naive, board.high_naive),
            )
        )
        ends = (board.rank_low[i], board.rank_high[i])
        rank = _whole(board.rank[i]) + (f" [{_whole(ends[0])}, {_whole(ends[1])}]" * _known(*ends))
        rows.append(
            [name, theta, rank, naive, _whole(board.rank_naive[i]), str(board.n_verdicts[i])]
        )
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * w for w in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    )


def _known(*values: float) -> bool:
    return bool(np.isfinite(values).all())


def _whole(value: float) -> str:
    return f"{value:.0f}" if _known(value) else "-"


def _interval(estimate: float, low: float, high: float) -> str:
    if not _known(estimate):
        return "-"
    ends = f" [{low:+.2f}, {high:+.2f}]" if _known(low, high) else ""
    return f"{estimate:+.2f}{ends}"


def sentences(board: Leaderboard, prior: Prior, bootstrap: int = 0) -> Iterator[str]:
    """What was fitted, c and kappa, why intervals are missing, what the correction assumes."""
    if board.status != Status.CONVERGED:
        yield f"No ranking: {board.status.name.lower()}."
        return
    yield (
        f"MAP with lam = {prior.lam:g}, lam_b = {prior.lam_b:g}; theta in logits, with mean 0 over "
        "the models. Naive: without covariates and position."
    )
    if board.n_clusters >= FEWEST_CLUSTERS:
        g = board.n_clusters
        how = (
            f"percentiles of {bootstrap} bootstraps over {g} pools"
            if bootstrap
            else f"cluster-robust over {g} pools, factor {g}/{g - 1}, t with {g - 1} degrees of freedom"
        )
        yield f"Intervals ({LEVEL:.0%}): {how}."
        yield (
            "Ranks: from 1 + the models that are better for certain to the number of models less "
            "those that are worse for certain, by the intervals of the differences, "
            "Bonferroni-corrected for all of a model's."
        )
    for c in board.c:
        evidence = f"; profile range over c +- 1: {c.profile_range:.3g} nats"
        yield f"c[{c.covariate}] {_coefficient(c)}{evidence if _known(c.profile_range) else ''}."
    if board.kappa is not None:
        yield f"kappa {_coefficient(board.kappa)}, in favour of the first shown."
    else:
        yield "kappa is fixed at 0."
    for reason in board.reasons():
        yield f"No interval for {reason}."
    yield from _pull(board, prior)
    if board.c:
        yield from _assumption(board)


def _coefficient(c: Coefficient) -> str:
    return f"{_interval(c.estimate, c.low, c.high)} {c.unit}"


def _pull(board: Leaderboard, prior: Prior) -> Iterator[str]:
    pull = np.abs(np.nan_to_num(board.pull))
    i = int(pull.argmax())
    if pull[i] > PULLED:
        yield (
            f"The prior moves theta by up to {pull[i]:.1f} standard errors ({board.models[i]}), "
            f"which the intervals leave out: try a --lam smaller than {prior.lam:g}."
        )


def _assumption(board: Leaderboard) -> Iterator[str]:
    names = [c.covariate for c in board.c]
    yield (
        f"The correction assumes that {', '.join(names)}, as far as it varies between the answers of "
        "one model, is worth nothing: whatever the judge pays for it is called bias."
    )
    anchors, versions = board.anchors, board.versions
    if anchors is not None:
        if anchors.n_pairs:
            disputed = (
                f"of the {anchors.n_disputed} that they order differently the correction is right in "
                f"{anchors.corrected_right}"
                if anchors.n_disputed
                else "they differ in none"
            )
            yield (
                f"Of {anchors.n_pairs} trusted pairs of two models the naive ranking agrees with "
                f"{anchors.naive:.0%}, the corrected with {anchors.corrected:.0%}; {disputed}."
            )
        for name, better, won in zip(
            names, anchors.larger_better, anchors.larger_won, strict=True
        ):
            if _known(better, won):
                yield (
                    f"The better of a trusted pair has more {name} in {better:.0%}; the judge's "
                    f"verdicts go to the answer with more {name} in {won:.0%}."
                )
    if versions is not None:
        yield (
            f"In {versions.n_sets} cases one model has several answers to a prompt, which differ in "
            f"{' or '.join(names)} and share a quality here."
        )
        for model, n, naive, corrected in versions.spreads():
            yield (
                f"Fitted as models of their own, the {n} versions of {model} are up to {naive:.2f} "
                f"logits apart naive and {corrected:.2f} corrected, where the assumption, and "
                "prompting that changed nothing else, would have 0."
            )
    if anchors is None and versions is None:
        yield (
            "Nothing here tests that: there are no trusted pairs (--anchors), and no model answers "
            "a prompt in several versions."
        )


def frame(boards: Sequence[Leaderboard]) -> pd.DataFrame:
    """Every model of every judge, with the columns of the JSON, and `status` of theta."""
    parts = []
    for board in boards:
        part = pd.DataFrame(board.record()["models"]).assign(status=board.status_of)
        if len(boards) > 1:
            part.insert(0, "judge", board.judge)
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    ranks = ["rank", "rank_low", "rank_high", "rank_naive"]
    return table.astype(dict.fromkeys(ranks, "Int64"))


def write(
    out: Path, boards: Sequence[Leaderboard], read: Sequence[str], prior: Prior, bootstrap: int = 0
) -> None:
    """Write report.md, table.csv and figure.png into a folder.

    Args:
      read: what was read, in sentences.

    Raises:
      ValueError: a file cannot be written.
    """
    from jbt import plots

    about = "\n".join(f"- {line}" for line in read)
    parts = [markdown(board, prior, bootstrap) for board in boards]
    text = "\n".join(["# Leaderboard\n", f"{about}\n", *parts, "![Leaderboard](figure.png)\n"])
    files.write_text(out / "report.md", text)
    files.write_text(out / "table.csv", frame(boards).to_csv(index=False))
    height = max(0.8 + 0.26 * len(boards[0].models), 2.4)
    drawn, axes = plots.new_figure(len(boards), width=6.4, height=height)
    for ax, board in zip(np.atleast_1d(axes), boards, strict=True):
        series = [
            ("naive", "orange", board.theta_naive, board.low_naive, board.high_naive),
            ("corrected", "blue", board.theta, board.low, board.high),
        ]
        plots.forest(ax, board.models, series)
        ax.set_xlabel(f"theta, logits (mean 0 over the models), {LEVEL:.0%} intervals")
        ax.set_title(board.judge or "")
        ax.legend(fontsize=8, loc="lower right")
    files.write_whole(out / "figure.png", lambda p: drawn.savefig(p, dpi=120, format="png"))
