"""Where a study stands, for its owner: the top k, the ranking, and what both rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from jbt.border import files
from jbt.border.report import Report, Section, counted, signed
from jbt.kernel import metrics

if TYPE_CHECKING:
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
        self.k, self.level, self.rule, self.stop = s.k, s.level, s.record()["rule"], s.stop
        self.indifferent = s.indifferent
        """Logits: contents that near at the boundary of the top k are equally right."""
        self.sds = s.lam**-0.5, s.lam_b**-0.5
        """Standard deviations of quality and of biases in the prior, logits."""
        self.notes = list(study.notes)
        shown = book.told.sum(3) > 0
        self.pools = pd.DataFrame(
            {
                "pool": names,
                "certainty": [look.certainty for look in looks],
                "near": [look.near for look in looks],
                "n_verdicts": book.n_told,
                "status": [look.status.name.lower() for look in looks],
                "n_one": (shown & ~shown.swapaxes(1, 2)).sum((1, 2)),
            }
        )
        """pool; certainty, P(the estimated top k is the true one, up to `indifferent`) under the
        posterior; near, P(it leads the others by less than `indifferent`); n_verdicts; status of
        the fit; n_one, pairs shown in one order only (count). Of an `anytime` stop also shown, the
        top k that tests of single pairs have shown, empty before."""
        if s.stop == "anytime":
            self.pools["shown"] = [
                [items.layout.names[pool][place] for place in study.engine.shown(book, pool)]
                for pool in range(len(names))
            ]
        self.curve = pd.DataFrame(curve, columns=["pool", "verdicts", "certainty"])
        """pool, verdicts (count), certainty: at some of the refits."""
        tables = [_of_pool(study, pool, look) for pool, look in enumerate(looks)]
        self.ranking = pd.concat([ranking for ranking, _ in tables], ignore_index=True)
        """A row for each content, each pool's best first: pool, content; rank, 1 for the best,
        shared by contents of equal theta; best and worst plausible rank (`PLAUSIBLE`), NaN where
        the verdicts do not separate a covariate from quality; membership, the posterior probability
        of being among the k best; theta (MAP), logits; n_shown, verdicts on its items."""
        self.biases = pd.concat([biases for _, biases in tables], ignore_index=True)
        """A row for each coefficient: pool; judge, None where the study names none; name of the
        covariate, with its transformation, or kappa; estimate (MAP), logits; identified, whether
        the pool's verdicts identify it, else the prior chooses it."""

    def report(self, title: str, lead: Sequence[str] = ()) -> Report:
        """The answer, what it rests on, and the ranking of each pool."""
        sections = [self._section(pool) for pool in self.pools.itertuples()]
        return Report(title, [*lead, *self.notes], sections, answer=list(self._answer()))

    def _answer(self) -> Iterator[str]:
        awaited = f"{counted(self.waiting, 'answer')} awaited"
        if not self.n_verdicts:
            yield f"no verdict yet, {awaited}"
            return
        if self.stop == "anytime":
            yield from self._shown()
        elif len(self.pools) == 1:
            yield f"{self._top(next(self.pools.itertuples()))}, {self._prior()}"
        else:
            sure = int((self.pools.certainty >= self.level).sum())
            of_all = f"{sure} of {counted(len(self.pools), 'pool')}"
            certain = self._certain(self.level)
            yield f"the top {self.k} is {certain} in {of_all}, {self._prior()}"
        state = f"stopped: {self.stopped}" if self.stopped else "not stopped"
        state += f", {awaited}" if self.waiting else ""
        errors = f", {counted(self.n_errors, 'error')}" if self.n_errors else ""
        spent = f"{state}; {counted(self.n_verdicts, 'verdict')}{errors}, cost {self.cost:.4g}"
        if self.n_verdicts <= self.n_pairs:
            saved = _percent(1 - self.n_verdicts / self.n_pairs)
            spent += f", {saved} fewer than all {self.n_pairs}"
        yield spent

    def _shown(self) -> Iterator[str]:
        """What tests of single pairs have shown, whatever the prior."""
        if len(self.pools) == 1:
            yield self._shown_top(self.pools["shown"][0])
        else:
            n = sum(map(bool, self.pools["shown"]))
            yield f"the top {self.k} is shown in {n} of {len(self.pools)} pools"
        zone = f", up to {self.indifferent:g} logits" * (self.indifferent > 0)
        yield (
            f"a top {self.k} is shown once tests of single pairs decide it{zone}; it is the "
            f"judge's own, its bias included, and wrong in at most {_percent(1 - self.level)} of "
            "pools, if the judge stays the same and its preferences are differences of one number "
            "an item"
        )

    def _shown_top(self, items: Sequence[str]) -> str:
        return f"top {self.k}: {', '.join(items) or 'not shown yet'}"

    def _top(self, pool: Any) -> str:
        contents = self.ranking.content[self.ranking.pool == pool.pool][: self.k]
        near = f", P(gap < {self.indifferent:g}) = {_percent(pool.near)}" * (self.indifferent > 0)
        return f"top {self.k}: {', '.join(contents)}, {self._certain(pool.certainty)}{near}"

    def _certain(self, probability: float) -> str:
        zone = f" up to {self.indifferent:g} logits" * (self.indifferent > 0)
        return f"certain to {_percent(probability)}{zone}"

    def _prior(self) -> str:
        """What the certainty is an average over."""
        quality, bias = (f"{sd:.3g}" for sd in self.sds)
        return f"on average over the prior (qualities of sd {quality}, biases of sd {bias} logits)"

    def _section(self, pool: Any) -> Section:
        ranking = self.ranking[self.ranking.pool == pool.pool]
        ranges = [f"[{best:g}, {worst:g}]" for best, worst in ranking[["best", "worst"]].to_numpy()]
        table = {
            "content": ranking.content,
            "rank": ranking["rank"],
            **({} if ranking.best.isna().all() else {"plausible": ranges}),
            f"in top {self.k}": [round(share, 3) for share in ranking.membership],
            "theta": ranking.theta.map(signed),
            "verdicts": ranking.n_shown,
        }
        lines = list(self._rests_on(pool))
        if len(self.pools) > 1:
            top = self._shown_top(pool.shown) if self.stop == "anytime" else self._top(pool)
            lines.insert(0, f"{top}, {counted(pool.n_verdicts, 'verdict')}")
        return Section(f"Ranking of pool {pool.pool}", lines, pd.DataFrame(table))

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
        facts = {k: v for k, v in vars(self).items() if not isinstance(v, pd.DataFrame)}
        pools: Any = self.pools.drop(columns="n_one").to_dict("records")
        for pool in pools:
            for name in ("ranking", "biases"):
                table = getattr(self, name).set_index("pool").loc[[pool["pool"]]]
                pool[name] = table.to_dict("records")
        return files.plain(facts | {"pools": pools, "curve": self.curve.to_dict("records")})

    def figure(self) -> Figure:
        """Draw certainty against verdicts, and the membership of the contents of the first pool."""
        from jbt.experiments import plots

        figure, (curve, members) = plots.new_figure(2, width=4.6, height=3.4)
        several, first = len(self.pools) > 1, self.pools.pool[0]
        place = f" in pool {first}" * several
        for i, (name, rows) in enumerate(self.curve.groupby("pool", sort=False)):
            colour = plots.CYCLE[i % len(plots.CYCLE)]
            label = str(name) if several and i < 8 else None
            curve.plot(rows.verdicts, rows.certainty, marker=".", color=colour, label=label)
        if self.stop == "posterior":
            label = f"sure enough\nto stop: {self.level:g}"
            curve.axhline(self.level, color="black", linewidth=0.8, linestyle="--", label=label)
        curve.set(
            ylim=(-0.02, 1.02),
            xlabel="verdicts of the pool",
            ylabel="certainty of the model (probability)",
            title=f"The top {self.k} is {self._certain(self.pools.certainty[0])}{place}",
        )
        if curve.get_legend_handles_labels()[0]:
            curve.legend(fontsize="small")
        ranking = self.ranking[self.ranking.pool == first][:DRAWN]
        inside = np.where(ranking["rank"] > self.k, "orange", "blue")
        heights = -np.arange(len(ranking))
        members.barh(heights, ranking.membership, color=[plots.COLOURS[name] for name in inside])
        members.set_yticks(heights, ranking.content, fontsize="small")
        title = f"Blue: the estimated top {self.k}{place}"
        members.set(xlim=(0, 1), xlabel="membership (probability of being in it)", title=title)
        return figure


def _of_pool(study: Study, pool: int, look: Look) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a pool in `StudySummary.ranking` and `biases`."""
    items, layout, told = study.items, study.items.layout, study.book.told[pool].sum(2)
    name, contents = items.tables.pools[pool], layout.contents[pool]
    identified = study.engine.identified(study.book, pool)[:, ~items.known]
    m = len(contents)
    theta = np.asarray(look.parameters.theta)[:m]
    owner = layout.content[layout.pool == pool]
    shown = np.bincount(owner, (told.sum(0) + told.sum(1))[: len(owner)], minlength=m)
    membership, drawn = (v[..., :m] for v in study.engine.printed(pool, look))
    best, worst = np.full((2, m), np.nan)
    if identified[:-1].all() and study.book.n_told[pool]:
        best, worst = plausible_ranks(drawn)
    ranking = {
        "pool": name,
        "content": contents,
        "rank": 1 + (theta > theta[:, None] + metrics.TIED).sum(1),
        "best": best,
        "worst": worst,
        "membership": membership,
        "theta": theta,
        "n_shown": shown.astype(int),
    }
    names, judges = [*items.covariates, "kappa"], np.array(items.judges, object)[~items.known]
    c, kappa = look.parameters.c, look.parameters.kappa
    estimates = np.concatenate([c, kappa[None]]).reshape(len(names), -1)[:, ~items.known]
    biases = {
        "pool": name,
        "judge": judges.repeat(len(names)),
        "name": names * len(judges),
        "estimate": estimates.T.ravel(),
        "identified": identified.T.ravel(),
    }
    ranked = pd.DataFrame(ranking).sort_values("rank", kind="stable")
    return ranked, pd.DataFrame(biases)


def plausible_ranks(
    draws: Float[np.ndarray, "draws M"],
) -> tuple[np.ndarray, np.ndarray]:
    """The best and the worst rank [M] of each content in the central `PLAUSIBLE` of its posterior,
    from draws of the qualities."""
    rank = 1.0 + draws.argsort(1)[:, ::-1].argsort(1)
    tail = (1 - PLAUSIBLE) / 2
    best, worst = np.quantile(rank, [tail, 1 - tail], axis=0, method="closest_observation")
    return best, worst


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.3g} %"
