"""Where a study stands, for its owner: the top k, the ranking, and what both rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from jbt import runtime
from jbt.border import files, plots
from jbt.border.report import Report, Section, counted, signed
from jbt.kernel import metrics
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges
from jbt.own.fits.shared import SharedModel
from jbt.own.tables.sheets import TableError
from jbt.types import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.own.studies.engine import Look
    from jbt.own.studies.study import Study

PLAUSIBLE = 0.98
"""Posterior probability of a range of ranks. The range covers the true rank in at least 95 % of
cases over sd of quality 0.4 to 2.5, which the prior takes to be 1 (docs/calibration.md)."""

DRAWN = 30
"""Most contents in the figure."""


@dataclass(frozen=True)
class StudyRanked:
    """A content's place in its pool."""

    content: str
    rank: int
    """1 for the best; contents with equal theta share a rank."""
    best: float
    """Best and worst plausible rank (`PLAUSIBLE`); NaN where the verdicts do not separate a
    covariate from quality."""
    worst: float
    membership: float
    """Posterior probability of being among the k best."""
    theta: float
    """Quality (MAP), logits."""
    n_shown: int
    """Verdicts on its items (count)."""


@dataclass(frozen=True)
class StudyBias:
    """An estimate of c or kappa (MAP), logits."""

    judge: str | None
    name: str
    """The covariate, with its transformation; `kappa`."""
    estimate: float
    identified: bool
    """Whether the verdicts identify it; else the prior chooses it."""


@dataclass(frozen=True, eq=False)
class StudyPool:
    """Where one pool stands."""

    pool: str
    certainty: float
    """P(the estimated top k is the true one), under the posterior."""
    ranking: tuple[StudyRanked, ...]
    """The contents, the best first."""
    biases: tuple[StudyBias, ...]
    n_verdicts: int
    n_both: int
    """Pairs told in both orders (count)."""
    n_one: int
    """Pairs told in one order only (count)."""
    status: Status
    """Of the fit."""


@dataclass(frozen=True, eq=False)
class StudySummary:
    """Where a study stands."""

    pools: tuple[StudyPool, ...]
    stopped: str | None
    """Why nothing more is asked; None while there is something to ask, or answers are awaited."""
    waiting: int
    """Queries without an answer (count)."""
    n_verdicts: int
    n_errors: int
    n_pairs: int
    """Verdicts that could have been asked for: all ordered pairs, of each judge (count)."""
    cost: float
    """In the unit of the prices."""
    k: int
    level: float
    rule: str
    curve: pd.DataFrame
    """pool, verdicts (count), certainty: at some of the refits."""
    notes: tuple[str, ...]

    def report(self, title: str, lead: Sequence[str] = ()) -> Report:
        """The answer, what it rests on, and the ranking of each pool."""
        sections = [part for pool in self.pools for part in self._sections(pool)]
        return Report(title, [*lead, *self.notes], sections, answer=list(self._answer()))

    def _answer(self) -> Iterator[str]:
        unsure = [p for p in self.pools if not p.certainty >= self.level]
        if not self.n_verdicts:
            yield f"no verdict yet, {counted(self.waiting, 'answer')} awaited"
            return
        if len(self.pools) == 1:
            (pool,) = self.pools
            names = ", ".join(r.content for r in pool.ranking[: self.k])
            yield f"top {self.k}: {names}, certain to {_percent(pool.certainty)}"
        else:
            sure = len(self.pools) - len(unsure)
            yield (
                f"the top {self.k} is certain to {_percent(self.level)} in {sure} of "
                f"{counted(len(self.pools), 'pool')}"
            )
        state = f"stopped: {self.stopped}" if self.stopped else "not stopped"
        if self.waiting:
            state += f", {counted(self.waiting, 'answer')} awaited"
        errors = f", {counted(self.n_errors, 'error')}" if self.n_errors else ""
        saved = 1 - self.n_verdicts / self.n_pairs
        yield (
            f"{state}; {counted(self.n_verdicts, 'verdict')}{errors}, cost {self.cost:.4g}, "
            f"{_percent(max(saved, 0))} fewer than all {self.n_pairs}"
        )

    def _sections(self, pool: StudyPool) -> Iterator[Section]:
        table = pd.DataFrame(
            {
                "content": [r.content for r in pool.ranking],
                "rank": [r.rank for r in pool.ranking],
                "plausible": [_range(r.best, r.worst) for r in pool.ranking],
                f"in top {self.k}": [round(r.membership, 3) for r in pool.ranking],
                "theta": [signed(r.theta) for r in pool.ranking],
                "verdicts": [r.n_shown for r in pool.ranking],
            }
        )
        if all(np.isnan(r.best) for r in pool.ranking):
            table = table.drop(columns="plausible")
        lines = []
        if len(self.pools) > 1:
            top = ", ".join(r.content for r in pool.ranking[: self.k])
            certain = f"certain to {_percent(pool.certainty)}"
            lines.append(f"top {self.k}: {top}, {certain}, {counted(pool.n_verdicts, 'verdict')}")
        lines += _rests_on(pool)
        yield Section(f"Ranking of pool {pool.pool}", lines, table)

    def to_frame(self) -> pd.DataFrame:
        """A row for each content of each pool, then one for each bias."""
        contents = [
            {"pool": pool.pool, "quantity": "theta", **vars(ranked)}
            for pool in self.pools
            for ranked in pool.ranking
        ]
        biases = [
            {"pool": p.pool, "quantity": "kappa" if b.name == "kappa" else "c", **vars(b)}
            for p in self.pools
            for b in p.biases
        ]
        return pd.DataFrame([*contents, *biases])

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        facts = {
            name: getattr(self, name)
            for name in (
                *("stopped", "waiting", "n_verdicts", "n_errors", "n_pairs", "cost"),
                *("k", "level", "rule"),
            )
        }
        pools = [
            {
                "pool": pool.pool,
                "certainty": files.defined(pool.certainty),
                "n_verdicts": pool.n_verdicts,
                "status": pool.status.name.lower(),
                "ranking": [_defined(vars(ranked)) for ranked in pool.ranking],
                "biases": [_defined(vars(bias)) for bias in pool.biases],
            }
            for pool in self.pools
        ]
        curve = self.curve.astype(object).where(self.curve.notna(), None).to_dict("records")
        return {**facts, "notes": list(self.notes), "pools": pools, "curve": curve}

    def figure(self) -> Figure:
        """Draw certainty against verdicts, and the membership of the contents of the first pool."""
        figure, (curve, members) = plots.new_figure(2, height=4.2)
        self._draw_curve(curve)
        self._draw_members(members)
        return figure

    def _draw_curve(self, ax: Axes) -> None:
        for i, (name, rows) in enumerate(self.curve.groupby("pool", sort=False)):
            colour = plots.CYCLE[i % len(plots.CYCLE)]
            label = str(name) if len(self.pools) > 1 and i < 8 else None
            ax.plot(rows.verdicts, rows.certainty, marker=".", color=colour, label=label)
        ax.axhline(self.level, color="black", linewidth=0.8, linestyle="--")
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("verdicts of the pool")
        ax.set_ylabel(f"P(estimated top {self.k} is the true one)")
        ax.set_title("Certainty under the model")
        if len(self.pools) > 1:
            ax.legend(fontsize="small")

    def _draw_members(self, ax: Axes) -> None:
        pool = self.pools[0]
        ranking = pool.ranking[:DRAWN]
        heights = -np.arange(len(ranking))
        inside = plots.COLOURS["blue"], plots.COLOURS["orange"]
        colours = [inside[r.rank > self.k] for r in ranking]
        ax.barh(heights, [r.membership for r in ranking], color=colours)
        ax.set_yticks(heights, [r.content for r in ranking], fontsize="small")
        ax.set_xlim(0, 1)
        ax.set_xlabel(f"P(in the top {self.k})")
        ax.set_title(f"Pool {pool.pool}" if len(self.pools) > 1 else "Membership")


def summarise(study: Study) -> StudySummary:
    """The summary of a study as it stands."""
    s, tables = study.settings, study.items.tables
    identified = _identified(study)
    shape = [len(names) for names in study.items.layout.names]
    curve = pd.DataFrame(
        [
            {"pool": tables.pools[pool], "verdicts": n, "certainty": look.certainty}
            for pool, n, look in study.history()
        ],
        columns=["pool", "verdicts", "certainty"],
    )
    return StudySummary(
        pools=tuple(_pool(study, pool, identified[pool]) for pool in range(len(tables.pools))),
        stopped=study.stopped,
        waiting=study.waiting,
        n_verdicts=study.n_told,
        n_errors=study.n_errors,
        n_pairs=sum(n * (n - 1) for n in shape) * max(len(s.judges), 1),
        cost=study.cost,
        k=s.k,
        level=s.level,
        rule=str(s.record()["rule"]),
        curve=curve,
        notes=study.notes,
    )


def _pool(study: Study, pool: int, identified: np.ndarray) -> StudyPool:
    look, state, layout = study.look(pool), study.counts(pool), study.items.layout
    contents = layout.contents[pool]
    m = len(contents)
    theta = np.asarray(look.parameters.theta)[:m]
    told = state.told.sum(2)
    owner = layout.content[layout.pool == pool]
    shown = np.bincount(owner, (told.sum(0) + told.sum(1))[: len(owner)], minlength=m)
    membership, drawn = (v[..., :m] for v in study.engine.printed(pool, look))
    best, worst = (np.full(m, np.nan) for _ in range(2))
    if identified[:-1].all() and state.n_told:
        best, worst = plausible_ranks(drawn)
    order = np.argsort(-theta, kind="stable")
    rank = 1 + np.searchsorted(-theta[order], -theta[order] - metrics.TIED)
    columns = (best, worst, membership, theta, shown.astype(int))
    ranking = tuple(
        StudyRanked(contents[i], int(place), *(column[i].item() for column in columns))
        for i, place in zip(order.tolist(), rank, strict=True)
    )
    once, back = told > 0, (told > 0).T
    return StudyPool(
        pool=study.items.tables.pools[pool],
        certainty=look.certainty,
        ranking=ranking,
        biases=tuple(_biases(study, look, identified)),
        n_verdicts=state.n_told,
        n_both=int((once & back).sum()) // 2,
        n_one=int((once & ~back).sum()),
        status=look.status,
    )


def plausible_ranks(
    draws: Float[np.ndarray, "draws M"],
) -> tuple[np.ndarray, np.ndarray]:
    """The best and the worst rank [M] of each content in the central `PLAUSIBLE` of its posterior,
    from draws of the qualities."""
    rank = 1.0 + draws.argsort(1)[:, ::-1].argsort(1)
    tail = (1 - PLAUSIBLE) / 2
    best, worst = np.quantile(rank, [tail, 1 - tail], axis=0, method="closest_observation")
    return best, worst


def _biases(study: Study, look: Look, identified: np.ndarray) -> Iterator[StudyBias]:
    """Yield the free c and kappa of every judge, from `identified` [D + 1, J]."""
    s = study.settings
    c, kappa = np.asarray(look.parameters.c), np.asarray(look.parameters.kappa)
    names = s.judges or (None,)
    c, kappa = (v if v.ndim > 1 - (v is kappa) else v[..., None] for v in (c, kappa))
    at = study.engine.judges_at
    for g, judge in enumerate(names):
        if judge is not None and judge == s.reference:
            continue
        values = [*c[:, at[g]], kappa[at[g]]]
        for i, (name, value) in enumerate(
            zip([*study.items.covariates, "kappa"], values, strict=True)
        ):
            yield StudyBias(judge, name, float(value), bool(identified[i, g]))


def _identified(study: Study) -> np.ndarray:
    """[pools, D + 1, J] whether a pool's verdicts identify c of each covariate, and kappa."""
    s, d = study.settings, len(study.items.covariates)
    j, pools = max(len(s.judges), 1), len(study.items.tables.pools)
    tables = study.tables()
    panel = j > 1 or len(study.items.pairs) > 0
    out = np.zeros((pools, d + 1, j), bool)
    if not tables.counts["n_verdicts"].sum():
        return out
    with runtime.precision("float64"):
        if panel:
            tables = tables.with_anchors()
        batch = Batch.of(
            tables,
            s.covariates,
            transform=s.transform,
            standardise=s.standardise,
            position="yes",
        )
        if not panel:
            for i, pool in enumerate(batch.pools):
                out[i, :d], out[i, d] = "c" not in pool.prior_selected, True
                out[i, d] = "kappa" not in pool.prior_selected
            return out
        try:
            model = SharedModel.of(batch, Judges.of(tables, reference=s.reference))
        except TableError:  # the reference has no verdicts yet
            return out
        found = model.identified(model.null_directions())[0]
    for g, judge in enumerate(s.judges or ("",)):
        name = judge or tables.judges[0]
        out[:, :, g] = found[:, tables.judges.index(name)]
        if judge and judge == s.reference:
            out[:, :, g] = True
    return out


def _rests_on(pool: StudyPool) -> Iterator[str]:
    """Yield what the ranking rests on, a sentence with its consequence each."""
    if pool.status != Status.CONVERGED:
        yield f"the fit ended as {pool.status.name.lower()}: its numbers cannot be used"
    for bias in pool.biases:
        judge = f" of {bias.judge}" if bias.judge else ""
        name = "kappa" if bias.name == "kappa" else f"c[{bias.name}]"
        if bias.identified:
            yield f"{name}{judge} {signed(bias.estimate)} logits"
        elif bias.name != "kappa":
            yield (
                f"{name}{judge} {signed(bias.estimate)} logits is a default, not a measurement: "
                f"these verdicts cannot separate {bias.name} from quality, and the ranking takes "
                "quality to have nothing to do with it"
            )
    if pool.n_one and any(b.name == "kappa" and not b.identified for b in pool.biases):
        yield (
            f"{counted(pool.n_one, 'pair')} shown in one order only: what the judge prefers by "
            "position is the prior's guess"
        )


def _range(best: float, worst: float) -> str:
    return "" if np.isnan(best) else f"[{best:g}, {worst:g}]"


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.3g} %"


def _defined(values: dict[str, Any]) -> dict[str, Any]:
    return {k: files.defined(v) if isinstance(v, float) else v for k, v in values.items()}
