"""Where a study stands, for its owner: the top k, the ranking, and what both rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
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


class StudySummary:
    """Where a study stands."""

    def __init__(self, study: Study) -> None:
        s, items, book = study.settings, study.items, study.book
        names, sizes = items.tables.pools, items.layout.sizes
        identified = _identified(study)
        curve = [(names[pool], n, look.certainty) for pool, n, look in study.history()]
        looks = [study.look(pool) for pool in range(len(names))]
        self.stopped = study.stopped
        """Why nothing more is asked; None while there is something to ask, or answers are
        awaited."""
        self.waiting = study.waiting
        """Queries without an answer (count)."""
        self.n_verdicts, self.n_errors = study.n_told, study.n_errors
        self.n_pairs = int((sizes * (sizes - 1)).sum()) * max(len(s.judges), 1)
        """Verdicts that could have been asked for: all ordered pairs, of each judge (count)."""
        self.cost = study.cost
        """In the unit of the prices."""
        self.k, self.level, self.rule = s.k, s.level, s.record()["rule"]
        self.notes = list(study.notes)
        shown = book.told.sum(3) > 0
        self.pools = pd.DataFrame(
            {
                "pool": names,
                "certainty": [look.certainty for look in looks],
                "n_verdicts": book.n_told,
                "status": [look.status.name.lower() for look in looks],
                "n_one": (shown & ~shown.swapaxes(1, 2)).sum((1, 2)),
            }
        )
        """pool; certainty, P(the estimated top k is the true one) under the posterior; n_verdicts;
        status of the fit; n_one, pairs shown in one order only (count)."""
        self.curve = pd.DataFrame(curve, columns=["pool", "verdicts", "certainty"])
        """pool, verdicts (count), certainty: at some of the refits."""
        parts = range(len(names)), looks, identified
        self.ranking = pd.concat(map(partial(_ranking, study), *parts), ignore_index=True)
        """A row for each content, each pool's best first: pool, content; rank, 1 for the best,
        shared by contents of equal theta; best and worst plausible rank (`PLAUSIBLE`), NaN where
        the verdicts do not separate a covariate from quality; membership, the posterior probability
        of being among the k best; theta (MAP), logits; n_shown, verdicts on its items."""
        self.biases = pd.concat(map(partial(_biases, study), *parts), ignore_index=True)
        """A row for each coefficient: pool; judge, None where the study names none; name of the
        covariate, with its transformation, or kappa; estimate (MAP), logits; identified, whether
        the verdicts identify it, else the prior chooses it."""

    def report(self, title: str, lead: Sequence[str] = ()) -> Report:
        """The answer, what it rests on, and the ranking of each pool."""
        sections = [self._section(pool) for pool in self.pools.itertuples()]
        return Report(title, [*lead, *self.notes], sections, answer=list(self._answer()))

    def _answer(self) -> Iterator[str]:
        awaited = f"{counted(self.waiting, 'answer')} awaited"
        if not self.n_verdicts:
            yield f"no verdict yet, {awaited}"
            return
        if len(self.pools) == 1:
            yield self._top(next(self.pools.itertuples()))
        else:
            sure = int((self.pools.certainty >= self.level).sum())
            of_all = f"{sure} of {counted(len(self.pools), 'pool')}"
            yield f"the top {self.k} is certain to {_percent(self.level)} in {of_all}"
        state = f"stopped: {self.stopped}" if self.stopped else "not stopped"
        state += f", {awaited}" if self.waiting else ""
        errors = f", {counted(self.n_errors, 'error')}" if self.n_errors else ""
        saved = _percent(max(1 - self.n_verdicts / self.n_pairs, 0))
        yield (
            f"{state}; {counted(self.n_verdicts, 'verdict')}{errors}, cost {self.cost:.4g}, "
            f"{saved} fewer than all {self.n_pairs}"
        )

    def _top(self, pool: Any) -> str:
        contents = self.ranking.content[self.ranking.pool == pool.pool]
        return (
            f"top {self.k}: {', '.join(contents[: self.k])}, certain to {_percent(pool.certainty)}"
        )

    def _section(self, pool: Any) -> Section:
        ranking = self.ranking[self.ranking.pool == pool.pool]
        table = pd.DataFrame(
            {
                "content": ranking.content,
                "rank": ranking["rank"],
                "plausible": [f"[{r.best:g}, {r.worst:g}]" for r in ranking.itertuples()],
                f"in top {self.k}": [round(share, 3) for share in ranking.membership],
                "theta": ranking.theta.map(signed),
                "verdicts": ranking.n_shown,
            }
        )
        if ranking.best.isna().all():
            table = table.drop(columns="plausible")
        lines = list(self._rests_on(pool))
        if len(self.pools) > 1:
            lines.insert(0, f"{self._top(pool)}, {counted(pool.n_verdicts, 'verdict')}")
        return Section(f"Ranking of pool {pool.pool}", lines, table)

    def _rests_on(self, pool: Any) -> Iterator[str]:
        """Yield what the ranking rests on, a sentence with its consequence each."""
        if pool.status != "converged":
            yield f"the fit ended as {pool.status}: its numbers cannot be used"
        biases = self.biases[self.biases.pool == pool.pool]
        for bias in biases.itertuples():
            name = "kappa" if bias.name == "kappa" else f"c[{bias.name}]"
            estimate = f"{name}{f' of {bias.judge}' if bias.judge else ''} {signed(bias.estimate)}"
            if bias.identified:
                yield f"{estimate} logits"
            elif bias.name != "kappa":
                yield (
                    f"{estimate} logits is a default, not a measurement: these verdicts cannot "
                    f"separate {bias.name} from quality, and the ranking takes quality to have "
                    "nothing to do with it"
                )
        if pool.n_one and not biases.identified[biases.name == "kappa"].all():
            yield (
                f"{counted(pool.n_one, 'pair')} shown in one order only: what the judge prefers by "
                "position is the prior's guess"
            )

    def to_frame(self) -> pd.DataFrame:
        """A row for each content of each pool, then one for each bias."""
        ranking, biases = self.ranking.copy(), self.biases.copy()
        ranking.insert(1, "quantity", "theta")
        biases.insert(1, "quantity", np.where(biases.name == "kappa", "kappa", "c"))
        return pd.concat([ranking, biases], ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        pools: Any = self.pools.drop(columns="n_one").to_dict("records")
        for name in ("ranking", "biases"):
            rows = dict(list(getattr(self, name).groupby("pool")))
            for pool in pools:
                pool[name] = rows[pool["pool"]].drop(columns="pool").to_dict("records")
        facts = {k: v for k, v in vars(self).items() if not isinstance(v, pd.DataFrame)}
        return files.plain(facts | {"pools": pools, "curve": self.curve.to_dict("records")})

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
        pool = self.pools.pool[0]
        ranking = self.ranking[self.ranking.pool == pool][:DRAWN]
        inside = plots.COLOURS["blue"], plots.COLOURS["orange"]
        heights = -np.arange(len(ranking))
        colours = [inside[rank > self.k] for rank in ranking["rank"]]
        ax.barh(heights, ranking.membership, color=colours)
        ax.set_yticks(heights, ranking.content, fontsize="small")
        ax.set_xlim(0, 1)
        ax.set_xlabel(f"P(in the top {self.k})")
        ax.set_title(f"Pool {pool}" if len(self.pools) > 1 else "Membership")


def _ranking(study: Study, pool: int, look: Look, identified: np.ndarray) -> pd.DataFrame:
    layout, told = study.items.layout, study.book.told[pool].sum(2)
    contents = layout.contents[pool]
    m = len(contents)
    theta = np.asarray(look.parameters.theta)[:m]
    owner = layout.content[layout.pool == pool]
    shown = np.bincount(owner, (told.sum(0) + told.sum(1))[: len(owner)], minlength=m)
    membership, drawn = (v[..., :m] for v in study.engine.printed(pool, look))
    best, worst = np.full((2, m), np.nan)
    if identified[:-1].all() and study.book.n_told[pool]:
        best, worst = plausible_ranks(drawn)
    order = np.argsort(-theta, kind="stable")
    rank = 1 + np.searchsorted(-theta[order], -theta - metrics.TIED)
    columns = {"content": contents, "rank": rank, "best": best, "worst": worst}
    columns |= {"membership": membership, "theta": theta, "n_shown": shown.astype(int)}
    return pd.DataFrame({"pool": study.items.tables.pools[pool]} | columns).iloc[order]


def plausible_ranks(
    draws: Float[np.ndarray, "draws M"],
) -> tuple[np.ndarray, np.ndarray]:
    """The best and the worst rank [M] of each content in the central `PLAUSIBLE` of its posterior,
    from draws of the qualities."""
    rank = 1.0 + draws.argsort(1)[:, ::-1].argsort(1)
    tail = (1 - PLAUSIBLE) / 2
    best, worst = np.quantile(rank, [tail, 1 - tail], axis=0, method="closest_observation")
    return best, worst


def _biases(study: Study, pool: int, look: Look, identified: np.ndarray) -> pd.DataFrame:
    items, fit = study.items, look.parameters
    estimates = np.concatenate([fit.c, fit.kappa[None]]).reshape(identified.shape)
    names, judges = [*items.covariates, "kappa"], np.array(items.judges, object)[~items.known]
    return pd.DataFrame(
        {
            "pool": items.tables.pools[pool],
            "judge": judges.repeat(len(names)),
            "name": names * len(judges),
            "estimate": estimates[:, ~items.known].T.ravel(),
            "identified": identified[:, ~items.known].T.ravel(),
        }
    )


def _identified(study: Study) -> np.ndarray:
    """[pools, D + 1, J] whether a pool's verdicts identify c of each covariate, and kappa."""
    s, items = study.settings, study.items
    names = [*["c"] * len(items.covariates), "kappa"]
    out = np.zeros((len(items.tables.pools), len(names), len(items.judges)), bool)
    tables = study.tables().with_anchors()
    if not study.n_told:
        return out
    with runtime.precision("float64"):
        batch = Batch.of(
            tables,
            s.covariates,
            transform=s.transform,
            standardise=s.standardise,
            position="yes",
        )
        if len(items.judges) == 1:
            prior_selected = [[[n in p.prior_selected] for n in names] for p in batch.pools]
            return ~np.array(prior_selected)
        try:
            model = SharedModel.of(batch, Judges.of(tables, reference=s.reference))
        except TableError:  # the reference has no verdicts yet
            return out
        found = model.identified(model.null_directions())[0]
    for g, judge in enumerate(items.judges):
        out[:, :, g] = found[:, tables.judges.index(judge)] | items.known[g]
    return out


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.3g} %"
