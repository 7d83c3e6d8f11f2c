"""Figures of leaderboards: qualities with intervals, and what each model won against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt.border.report import cut
from jbt.experiments import plots
from jbt.own.leaderboards.elo import scale_of
from jbt.own.leaderboards.intervals import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.own.leaderboards.report import Leaderboard

MOST = 40
"""Models of a matrix: the best are drawn."""

NUMBERED = 12
"""Most models of a matrix with numbers in its cells."""

FEW = 3
"""Verdicts of a cell that is half grey."""

SHARE = "share won by the model of the row\n(greyer: fewer verdicts)"


def qualities(boards: Sequence[Leaderboard], elo: str | None) -> Figure:
    """See `Leaderboards.figure`.

    Args:
      elo: what is fixed of that scale; None for theta.
    """
    banded = [board for board in boards if board.band is not None]
    height = max(1.2 + 0.21 * len(boards[0].models), 2.4)
    n = len(boards) + len(banded)
    drawn, panels = plots.facets(n, width=9.0 if n == 1 else 4.8, height=height)
    for ax, board in zip(panels[len(boards) :], banded, strict=False):
        assert board.band is not None
        table = board.band.beside(board.models)
        ends = table[["rank", "least", "largest"]].to_numpy(float).T
        plots.forest(ax, cut(table["model"]), [("the prior's c", "blue", *ends)])
        ax.set_xlabel(f"rank; line: {board.band.range_of_rho()}")
        ax.set_title(f"{board.judge or 'all verdicts'}: ranks where c is not identified")
    for ax, board in zip(panels, boards, strict=False):
        models, scale = board.models, scale_of(board.models)
        naive, corrected = (models[ends].to_numpy().T for ends in (scale.naive, scale.corrected))
        series = [("not corrected", "orange", *naive), ("corrected", "blue", *corrected)]
        plots.forest(ax, cut(models["model"]), series)
        name = f"Elo, {elo}" if elo else "quality (logits, mean 0)"
        ax.set_xlabel(f"{name}; lines: {LEVEL:.0%} intervals")
        ax.set_title(f"{board.judge or 'all verdicts'}: {board.changes}")
    return plots.legend_below(drawn, fontsize=8)


def matrices(boards: Sequence[Leaderboard]) -> Figure:
    """The share of verdicts that each model won against each other, best models first; greyer the
    fewer they are, and grey where the models did not meet."""
    n = min(MOST, len(boards[0].models))
    side = max(3.6, 1.6 + (0.6 if n <= NUMBERED else 0.24) * n)
    drawn, panels = plots.facets(len(boards), width=side + 1.6, height=side)
    for ax, board in zip(panels, boards, strict=False):
        image = _matrix(ax, board)
        drawn.colorbar(image, ax=ax, label=SHARE, shrink=0.8)
    return drawn


def _matrix(ax: Axes, board: Leaderboard) -> Any:
    names = board.models["model"].head(MOST).tolist()
    met = board.met.set_index(["model", "opponent"])
    share, n = (
        met[name].unstack().reindex(index=names, columns=names).to_numpy(float)
        for name in ("share", "n_verdicts")
    )
    ax.set_facecolor("0.85")
    image = ax.imshow(share, cmap="RdBu", vmin=0, vmax=1, alpha=np.nan_to_num(n / (n + FEW)))
    labels, of = cut(names), len(board.models)
    ax.set_yticks(range(len(names)), labels, fontsize=7)
    ax.set_xticks(range(len(names)), labels, fontsize=7, rotation=90)
    first = f"{len(names)} best of {of} models" * (of > len(names))
    ax.set_title(", ".join(filter(None, [board.judge, first, "blue where the row won more"])))
    for i, j in np.argwhere(np.isfinite(share)) if len(names) <= NUMBERED else ():
        colour = "white" if abs(share[i, j] - 0.5) > 0.35 else "black"
        text = f"{share[i, j]:.0%}\nof {n[i, j]:.0f}"
        ax.text(j, i, text, ha="center", va="center", fontsize=6, color=colour)
    return image
