"""Leaderboards: their tables, and these as a report, as JSON and as a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.border.report import Report, Section, cut, each, percent, with_interval
from jbt.own.fits.judges import JOINT, known_in_words
from jbt.own.leaderboards import checks, lack_of_fit
from jbt.own.leaderboards.by_value import ByValue
from jbt.own.leaderboards.checks import AnchorCheck
from jbt.own.leaderboards.elo import Elo, scale_of
from jbt.own.leaderboards.first_place import FirstPlace
from jbt.own.leaderboards.intervals import LEVEL, REASONS
from jbt.own.leaderboards.met import COUNTS
from jbt.own.leaderboards.one_comparison import OfModels
from jbt.own.leaderboards.prediction_powered import QUANTITY, READING, LabelledWinRates
from jbt.own.leaderboards.problem import Settings
from jbt.own.leaderboards.rank_band import RankBand
from jbt.own.shared_coefficients.one_comparison import record as record_of
from jbt.own.tables import lengths, missing
from jbt.own.tables.pairs import Agreement, agreement_in_words
from jbt.types import Prior, Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PULLED = 0.5
"""Standard errors by which the prior may move a theta without a note."""

SHOWN = 3
"""Most models outside the others, and most judges, that are named in one place."""

AVERAGE = "average effect on win rates over such prompts"
"""What c of a leaderboard is."""

RANKS = ("rank", "rank_low", "rank_high")

ESTIMATE = ("estimate", "low", "high")

COEFFICIENT = ("covariate", "unit", *ESTIMATE, "profile_range", "status", "degrees")
"""Columns of a coefficient in JSON."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaderboard:
    """Models ranked by theta, from one judge's verdicts or all judges' together. NaN where
    undefined."""

    judge: str | None
    """None where the table names no judge; `joint` for all judges together."""
    status: Status
    """The worse of the two fits; NO_VERDICTS; FLAT where gamma is asked for and not identified."""
    models: pd.DataFrame
    """A row for each model, highest theta first, models without a verdict last:

    model; theta, low, high: quality corrected for c and kappa (MAP), logits, mean 0 over the
    models; theta_naive, low_naive, high_naive: with c = kappa = 0; status of theta, as of a
    coefficient, and degrees (of freedom);

    rank: 1 + the number of models with a higher theta; rank_naive; rank_low: 1 + the number of
    models significantly better: the interval of the difference, Bonferroni-corrected for the
    model's M - 1 differences, excludes 0; where the likelihood or the prior decides the difference,
    by counts (`counted`); any other difference without an interval is not significant; rank_high:
    M less the number of models significantly worse;

    n_verdicts: repeats counted; n_won, n_lost, n_tied: of those on other models, see `met`;

    elo, elo_low, elo_high, and the same with _naive, where asked for: see `Elo`;
    average_COLUMN: mean of each covariate over its judged answers, as it is in the table;
    ppi_estimate, ppi_low, ppi_high, ppi_rank, ...: see `LabelledWinRates.models`;

    pull: shift of theta by the prior in standard errors, to first order, which intervals remove;
    runaway: whether the likelihood sends theta to infinity."""
    coefficients: pd.DataFrame
    """A row for each coefficient that is estimated: kind (c, kappa, log nu of Davidson's ties,
    discrimination), covariate (with its transformation; else the kind), unit, profile_range
    (range of the profile log-likelihood within 1 of the estimate), judge and
    told_by (for all judges together: whose coefficient it is, and whose verdicts identify it, see
    `Judges.identified_by`), then the columns of `Intervals.parameters`."""
    n_clusters: int
    """Number of pools of the file with a verdict."""
    met: pd.DataFrame
    """Counted verdicts between each two models, see `met`."""
    first_place: FirstPlace | None = None
    """How few verdicts decide it; None of all judges together, and see `first_place`."""
    vary: Callable[[], OfModels | str] = lambda: "it is estimated of each judge alone"
    """Fits what `one_comparison` says."""
    test: Callable[[], pd.DataFrame] = pd.DataFrame
    """Tests what `left_out` says."""
    untested: str = ""
    """Where nothing is tested, in words."""
    anchors: AnchorCheck | None = None
    """None without anchors."""
    outside: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Models far from all others in a covariate, see `checks.outside`."""
    robust: pd.DataFrame | None = None
    """Ranks under other choices, see `checks.under_other_choices`; None if not asked for."""
    band: RankBand | None = None
    """Ranks where c is not identified; None where it is, see `rank_band`."""
    missing: pd.DataFrame | None = None
    """c and ranks with the missing verdicts filled either way, see `checks.filled_either_way`; None
    if not asked for."""
    n_missing: int = 0
    """Missing verdicts (count)."""
    labelled: LabelledWinRates | None = None
    """Win rates by labels; None if not asked for."""
    trusted: tuple[str, ...] = ()
    """For all judges together, those whose c and kappa are known to be 0."""
    agreements: Mapping[str, Agreement] = field(default_factory=dict)
    """Agreement of each other judge with the trusted ones."""

    @cached_property
    def one_comparison(self) -> OfModels | str:
        """The judge's coefficients on one comparison, fitted when first asked for, or why there are
        none."""
        if self.status != Status.CONVERGED:
            return "the leaderboard's own fit did not converge"
        of_c = self.of_kind("c")
        unknown = of_c.loc[of_c["status"] != "converged", "covariate"]
        if len(unknown):
            return f"it takes an interval of each c, and there is none of {', '.join(unknown)}"
        return self.vary()

    @cached_property
    def left_out(self) -> pd.DataFrame:
        """Tests of what the model leaves out, see `lack_of_fit`; empty where `untested`."""
        return self.test()

    def of_kind(self, kind: str) -> pd.DataFrame:
        """The rows of `coefficients` of this kind."""
        return self.coefficients[self.coefficients["kind"] == kind]

    @property
    def both_ranks(self) -> pd.DataFrame:
        """rank and rank_naive of the models that have both."""
        return self.models[["rank", "rank_naive"]].dropna()

    @property
    def n_moved(self) -> int:
        """Models whose rank the correction changes (count)."""
        return len(self.both_ranks.query("rank != rank_naive"))

    @property
    def changes(self) -> str:
        """How many ranks the correction changes, in words."""
        if not self.coefficients["kind"].isin(["c", "kappa"]).any():
            return "nothing is corrected"
        chosen = (self.of_kind("c")["status"] != "converged").any()
        whose = "by a c that is not measured " if chosen else ""
        return f"correction {whose}changes {self.n_moved} of {len(self.both_ranks)} ranks"

    @property
    def best_uncorrected(self) -> str:
        """The first models with c = kappa = 0, and their ranks, in words."""
        first = self.models.nsmallest(SHOWN, "rank_naive")
        ranks = zip(first["model"], first["rank_naive"], strict=True)
        return ", ".join(f"{model} {_rank(rank)}" for model, rank in ranks)

    def win_rates(self, against: str | None = None) -> np.ndarray:
        """[M] chance of winning against one model, or the mean chance over all others, by the
        corrected theta: at equal covariates, in either order alike, a tie being half a win. NaN
        where theta is unknown, and of the model itself."""
        from scipy.special import expit

        theta = self.models["theta"].to_numpy()
        apart = theta[:, None] - theta
        chance = expit(apart)
        for log_nu in self.of_kind("log nu")["estimate"].dropna():
            tie = 1 / (1 + 2 * np.exp(-log_nu) * np.cosh(apart / 2))
            chance = (1 - tie) * chance + tie / 2
        if against is not None:
            is_it = (self.models["model"] == against).to_numpy()
            return np.where(is_it, np.nan, chance[:, int(np.argmax(is_it))])
        others = np.where(np.eye(len(chance), dtype=bool), np.nan, chance)
        known = np.isfinite(others)
        total = np.where(known, others, 0).sum(1)
        return np.where(known.any(1), total / np.maximum(known.sum(1), 1), np.nan)

    def reasons(self) -> list[str]:
        """Why intervals are missing, a sentence each."""
        sentences = []
        for c in each(self.coefficients):
            if c.status != "converged":
                whose = "" if c.judge is None else f"{c.judge}: "
                sentences.append(f"{whose}{c.covariate}: {c.status}, {_reason(c.status)}")
        models = self.models["model"]
        for status, affected in models.groupby(self.models["status"], sort=False):
            if status == "converged":
                continue
            names = "every model" if len(affected) == len(models) else _list(affected.tolist())
            runaways, runaway = "", models[self.models["runaway"]].tolist()
            if status == "separated" and runaway:
                runaways = f" (with {_list(runaway)}, and the mean over the models with it)"
            sentences.append(f"theta of {names}: {status}, {_reason(str(status))}{runaways}")
        return sentences

    def to_frame(self) -> pd.DataFrame:
        """A row for each model: the columns of the JSON, and `status` of theta."""
        unlisted = ["low_naive", "high_naive", "degrees", "pull", "runaway"]
        unlisted += ["elo_naive", "elo_low_naive", "elo_high_naive"]
        table = self.models.drop(columns=unlisted, errors="ignore")
        table.insert(list(table).index("rank_naive") + 1, "win_rate", self.win_rates())
        ranks = ["rank_naive", *RANKS]
        ranks += [f"ppi_{rank}" for rank in RANKS] if self.labelled is not None else []
        table = table.astype(dict.fromkeys(ranks, "Int64"))
        return table[[*table.columns.drop("status"), "status"]]

    def record(self) -> dict[str, Any]:
        """c, kappa, models and the reasons for missing intervals, for JSON: null where
        undefined."""
        c, log_nu = (files.plain(self.of_kind(kind)[[*COEFFICIENT]]) for kind in ("c", "log nu"))
        kappa = files.plain(self.of_kind("kappa")[[*ESTIMATE]])
        record = {"estimand": AVERAGE, "c": c, "kappa": kappa[0] if kappa else None}
        if log_nu:
            record["log_nu"] = log_nu[0]
        if self.judge == JOINT:
            slopes = self.of_kind("discrimination")
            biases = self.coefficients.drop(slopes.index)
            record = {
                "estimand": AVERAGE,
                "c": [],
                "kappa": None,
                "judges": files.plain(biases[["judge", "told_by", *COEFFICIENT]]),
                "discriminations": files.plain(slopes[["judge", *ESTIMATE]]),
                "trusted": list(self.trusted),
                "agreement": files.plain(self.agreements),
            }
        record["models"] = files.plain(self.to_frame().drop(columns="status"))
        record["reasons"] = self.reasons()
        if self.labelled is not None:
            record["beside"] = {"ppi": self.labelled.record()}
        record["first_place"] = files.plain(self.first_place)
        record["left_out"] = files.plain(self.left_out)
        record["untested"] = self.untested or None
        record["outside"] = files.plain(self.outside)
        if self.robust is not None:
            record["robust"] = files.plain(self.robust)
        if self.band is not None:
            record["band"] = files.plain(self.band)
        if self.missing is not None:
            record["missing"] = files.plain(self.missing)
        return record


def _reason(status: str) -> str:
    return REASONS.get(status, "the fit did not converge")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


class Leaderboards(list[Leaderboard]):
    """The result of `jbt leaderboard`: one for each judge, then that of all judges together."""

    def __init__(
        self, boards: Sequence[Leaderboard], settings: Settings, by_value: ByValue | None = None
    ) -> None:
        super().__init__(boards)
        self.settings = settings
        self.by_value = by_value

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A ranking for each leaderboard with what it rests on; the conventions come last."""
        sections = []
        for board in self:
            name = board.judge or "Ranking"
            table, basis = _shown(board, self.settings.against), _sentences(board, self.settings)
            if board.status == Status.CONVERGED:
                sections += [Section(name, [], table), Section(f"{name}: basis", list(basis))]
            else:
                lines = [f"no ranking: {board.status.name.lower()}"]
                sections.append(Section(name, lines, table))
            if self.settings.one_comparison and board.status == Status.CONVERGED:
                one, units = board.one_comparison, board.of_kind("c")["unit"].tolist()
                lines = (
                    [f"not estimated: {one}"] if isinstance(one, str) else [*one.sentences(units)]
                )
                sections.append(Section(f"{name}: on one comparison", lines))
            if board.band is not None:
                sections.append(_band(name, board.band, board.models))
            if board.robust is not None:
                ranks = board.robust.rename(columns={"ties_dropped": "ties dropped"})
                ranks = ranks.assign(model=cut(ranks["model"]))
                lines = [checks.widest(board.robust)]
                heading = f"{name}: ranks under other choices"
                sections.append(Section(heading, lines, ranks.fillna("-")))
        if self.by_value is not None:
            for board in self:
                if board.judge != JOINT:
                    sections.append(self.by_value.section(board.judge, board.models["model"]))
        conventions = list(_conventions(self[0], self.settings))
        sections.append(Section("How to read this", conventions, detail=True))
        return Report(title, lead, sections, answer=[_answer(board) for board in self])

    def rests_on(self) -> str:
        """What the corrections are and assume, in a sentence; empty without covariates."""
        found, named = [], [board for board in self if len(board.of_kind("c"))][:SHOWN]
        for name, unit in dict.fromkeys(
            (row.covariate, row.unit) for board in named for row in each(board.of_kind("c"))
        ):
            shown = [
                _interval(row.estimate, row.low, row.high)
                + ("" if row.status == "converged" else f", no interval: {_reason(row.status)}")
                + ("" if board.judge is None else f" ({board.judge})")
                for board in named
                for row in each(board.of_kind("c"))
                if row.covariate == name
            ]
            rest = ", ..." * (len(self) > SHOWN)
            found.append(f"c[{name}], logits per {unit}: {'; '.join(shown)}{rest}")
        names = ", ".join(name for name in (named[0].of_kind("c")["covariate"] if named else ()))
        assumed = f", if {names} is unrelated to quality among the answers of one model"
        return "; ".join(found) + assumed * bool(found)

    def to_frame(self) -> pd.DataFrame:
        """A row for each judge and model: judge (if there are several), then the columns of
        `Leaderboard.to_frame`; then, with a value, the rows by value, where asked for."""
        parts = [board.to_frame() for board in self]
        if len(self) > 1:
            for board, part in zip(self, parts, strict=True):
                part.insert(0, "judge", board.judge)
        if self.by_value is not None:
            parts.append(self.by_value.models)
        return pd.concat(parts, ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        records = []
        for board in self:
            records.append({"judge": board.judge, **board.record()})
            if self.settings.one_comparison:
                records[-1]["one_comparison"] = record_of(board.one_comparison)
        record: dict[str, Any] = {"leaderboards": records}
        return record if self.by_value is None else record | {"by": files.plain(self.by_value)}

    def figure(self) -> Figure:
        """Every model's quality, naive and corrected, with intervals, best first; and its ranks
        where c is not identified."""
        from jbt.own.leaderboards import figure

        return figure.qualities(self, self.settings.elo)

    def pairs(self) -> pd.DataFrame:
        """`Leaderboard.met` of each judge, with the judge (if there are several)."""
        parts = [board.met for board in self]
        if len(self) > 1:
            parts = [b.met.assign(judge=b.judge)[["judge", *b.met.columns]] for b in self]
        return pd.concat(parts, ignore_index=True)

    def pairs_figure(self) -> Figure:
        """The share that each model won against each other, for each judge."""
        from jbt.own.leaderboards import figure

        return figure.matrices(self)


def _band(name: str, band: RankBand, models: pd.DataFrame) -> Section:
    low, high = band.c
    line = (
        f"c[{band.covariate}] is not identified: the ranks above are those of the prior's c. The "
        f"ranks below assume {band.range_of_rho()} over the models (--rho), which means c from "
        f"{low:+.2f} to {high:+.2f}, at the estimated apparent qualities theta + c x"
    )
    table = band.beside(models)
    ranks = [f"{row.least} to {row.largest}" for row in each(table)]
    shown = {"model": cut(table["model"]), "rank by the prior": table["rank"], "ranks": ranks}
    return Section(f"{name}: ranks where c is not identified", [line], pd.DataFrame(shown))


def _answer(board: Leaderboard) -> str:
    """Who is best, by how much that is certain, and what the correction changes."""
    whose = "" if board.judge is None else f"{board.judge}: "
    if board.status != Status.CONVERGED:
        return f"{whose}no ranking: {board.status.name.lower()}"
    models = board.models
    best = [f"{row.model} {_rank(*row[1:])}" for row in _rows(models.head(SHOWN), "model", *RANKS)]
    has_ends = models["rank_low"].notna().any()
    line = f"{whose}best models, by rank{' [plausible ranks]' * bool(has_ends)}: {', '.join(best)}"
    if board.band is not None:
        ranks = board.band.ranks
        n_open = (ranks["least"] < ranks["largest"]).sum()
        line += f"; c[{board.band.covariate}] is not identified, so {n_open} ranks are undetermined"
    moved = (models["rank_naive"] - models["rank"]).fillna(0)
    if not board.n_moved:
        corrects = board.coefficients["kind"].isin(["c", "kappa"]).any()
        return line + ". The correction changes no rank" * bool(corrects)
    furthest = models.iloc[int(moved.abs().argmax())]
    line += (
        f". The correction changes the rank of {board.n_moved} of {len(board.both_ranks)} models, "
        f"most that of {furthest['model']} (from {_rank(furthest['rank_naive'])} to "
        f"{_rank(furthest['rank'])})"
    )
    if has_ends:
        beyond = (models["rank_naive"] < models["rank_low"]) | (
            models["rank_naive"] > models["rank_high"]
        )
        n_beyond = (beyond & (moved != 0)).sum()
        which = f"{n_beyond} uncorrected rank{'s are' if n_beyond > 1 else ' is'}"
        line += f"; {which if n_beyond else 'no uncorrected rank is'} outside the plausible ranks"
    if (board.of_kind("c")["status"] == "converged").all():
        return line
    return (
        f"{whose}best without correction: {board.best_uncorrected}; corrected by a coefficient "
        f"that is not measured: {line.removeprefix(whose)}"
    )


def _conventions(board: Leaderboard, settings: Settings) -> Iterator[str]:
    prior: Prior = settings.prior
    yield (
        f"MAP with lam = {prior.lam:g}, lam_b = {prior.lam_b:g}; theta in logits, with mean 0 over "
        "the models; uncorrected: fitted without covariates and position"
    )
    yield (
        "rank [best, worst plausible]: the best plausible rank is 1 + the number of significantly "
        "better models, the worst is the number of models minus the significantly worse ones. A "
        f"difference is significant if its {LEVEL:.0%} interval, Bonferroni-corrected for all "
        "differences of the model, excludes 0. Where the likelihood or the prior decides a "
        "difference, a sign test of the prompts won replaces the interval, for all c and kappa in "
        "their intervals; if c or kappa has no interval, only verdicts on equal answers count"
    )
    if len(board.of_kind("log nu")):
        yield (
            "P(tie) is nu / (e^(eta / 2) + e^(-eta / 2) + nu), with eta the log-odds that the "
            "first wins if one side does (Davidson 1970); log nu has the prior of c"
        )
    names = ", ".join(board.of_kind("c")["covariate"])
    equal = " at equal covariates" if names else ""
    yield f"win rate by theta: the chance of winning{equal}, averaged over the other models"
    if names:
        yield (
            f"the correction assumes that {names} is unrelated to quality among the answers of one "
            "model, so that any effect of it on the judge counts as bias"
        )
        yield (
            "c is the covariate's effect on the judge between two answers to one prompt, given the "
            "models' qualities over all prompts (jbt fit estimates it within each prompt)"
        )
    if board.labelled is not None:
        yield READING


def _shown(board: Leaderboard, against: str | None) -> pd.DataFrame:
    """The table of the report."""
    models = board.models.assign(win_rate=board.win_rates(against))
    heading = "win rate by theta" + (f" against {against}" if against else "")
    columns: dict[str, Any] = {
        "model": cut(models["model"]),
        "rank [best, worst plausible]": [_rank(*row) for row in _rows(models, *RANKS)],
        "uncorrected rank": [_rank(rank) for rank in models["rank_naive"]],
        "won-lost-tied": ["-".join(f"{n:.0f}" for n in row) for row in _rows(models, *COUNTS)],
        heading: [percent(rate) or "-" for rate in models["win_rate"]],
    }
    for name in models.columns[models.columns.str.startswith("average_")]:
        columns[name.replace("_", " ", 1)] = [_plain(value) for value in models[name]]
    if board.labelled is not None:
        of_ppi = models.filter(like="ppi_").rename(columns=lambda name: name.removeprefix("ppi_"))
        columns["ppi rank"] = [_rank(*row) for row in _rows(of_ppi, *RANKS)]
        columns[f"ppi {QUANTITY}"] = [percent(*row) or "-" for row in _rows(of_ppi, *ESTIMATE)]
    columns["verdicts"] = models["n_verdicts"]
    scale = scale_of(models)
    for prefix, ends in (("", scale.corrected), ("uncorrected ", scale.naive)):
        columns[prefix + scale.name] = [
            with_interval(point, low, high, scale.form) for point, low, high in _rows(models, *ends)
        ]
    return pd.DataFrame(columns)


def _rows(table: pd.DataFrame, *columns: str) -> Iterator[Any]:
    return table[list(columns)].itertuples(index=False)


def _plain(x: float) -> str:
    return f"{x:.3g}" if _known(x) and abs(x) < 100 else f"{x:.0f}" if _known(x) else "-"


def _known(*values: float) -> bool:
    return bool(np.isfinite(values).all())


def _rank(rank: float, low: float = np.nan, high: float = np.nan) -> str:
    return with_interval(rank, low, high, ".0f")


def _interval(estimate: float, low: float, high: float) -> str:
    return with_interval(estimate, low, high, "+.2f")


def _sentences(board: Leaderboard, settings: Settings) -> Iterator[str]:
    """Method of the intervals, c and kappa, why intervals are missing, evidence for the
    correction."""
    models, table, joint = board.models, board.coefficients, board.judge == JOINT
    biases = table[table["kind"].isin(["c", "kappa"] if joint else ["c"])]
    parts = pd.concat([part[["status", "degrees"]] for part in (biases, models)])
    degrees = parts["degrees"][parts["status"] == "converged"]
    if len(degrees):
        ends = {f"{degrees.min():.0f}": None, f"{degrees.max():.0f}": None}
        yield (
            f"the {LEVEL:.0%} intervals come from a jackknife, which leaves out each of the "
            f"{board.n_clusters} pools in turn, and from Student's t with {' to '.join(ends)} "
            "effective degrees of freedom; their centre is the estimate without the prior's pull"
        )
    if not joint:
        for c in each(board.of_kind("c")):
            evidence = f"; the log-likelihood varies by {c.profile_range:.1f} over c +- 1"
            evidence = evidence if _known(c.profile_range) else ""
            yield f"c[{c.covariate}] = {_logits(c)} per {c.unit}, the {AVERAGE}{evidence}"
    if joint:
        yield known_in_words(board.trusted)
        yield from agreement_in_words(board.agreements)
        yield from _of_judges(table)
    else:
        kappas = each(board.of_kind("kappa"))
        lines = [
            f"kappa = {_logits(kappa)} in favour of the answer shown first" for kappa in kappas
        ]
        yield from lines or ["kappa is fixed at 0 (see --position)"]
    for tie in each(board.of_kind("log nu").dropna(subset="estimate")):
        nu = np.exp(tie.estimate)
        yield (
            f"log nu = {_interval(tie.estimate, tie.low, tie.high)}: two equally good answers tie "
            f"in {nu / (2 + nu):.0%} of verdicts (Davidson)"
        )
    if settings.elo is not None:
        elo = Elo.of(settings.elo, models["model"].tolist())
        yield elo.in_words()
    for reason in board.reasons():
        yield f"no interval: {reason}"
    if "few_clusters" in [*biases["status"], *models["status"]]:
        yield "jbt plan prompts computes how many more prompts would put one model above another"
    pull = models["pull"].abs()  # NaN where there is no interval
    if (pull > PULLED).any():
        yield (
            f"the prior has moved theta by up to {pull.max():.1f} standard errors "
            f"({models['model'].iloc[int(pull.argmax())]}); intervals correct for this, estimates "
            f"do not; a --lam below {settings.prior.lam:g} reduces it"
        )
    if board.labelled is not None:
        yield from board.labelled.notes
    if board.first_place is not None:
        yield board.first_place.in_words()
    yield from _outside(board.outside)
    yield from lack_of_fit.sentences(board.left_out, board.untested)
    if joint and settings.missing == "bounds" and board.n_missing:
        yield (
            f"no bounds are computed for the missing verdicts ({board.n_missing}) of all judges "
            "together"
        )
    if board.missing is not None and len(board.missing):
        unknown = board.missing["status"].isin(["flat", "covariate_constant"])
        ends = board.missing[~unknown]
        ends = ends.assign(shown=[_interval(*row) for row in _rows(ends, *ESTIMATE)])
        ranked = f"of {len(models)} ranks"
        yield from missing.in_words(board.n_missing, ends, ranked)
    if not joint and len(board.of_kind("c")):
        yield from _evidence(board)


def _of_judges(table: pd.DataFrame) -> Iterator[str]:
    """The coefficients of all judges together."""
    for c in each(table):
        if c.kind == "discrimination":
            yield f"{c.judge}: discrimination = {_interval(c.estimate, c.low, c.high)}"
            continue
        name = "kappa" if c.kind == "kappa" else f"c[{c.covariate}]"
        per = f" per {c.unit}" if c.unit else " in favour of the answer shown first"
        source = f"identified by {', '.join(c.told_by)}" if c.told_by else "not identified"
        yield f"{c.judge}: {name} = {_logits(c)}{per}; {source}"


def _logits(c: Any) -> str:
    return f"{_interval(c.estimate, c.low, c.high)} logits"


def _outside(models: pd.DataFrame) -> Iterator[str]:
    for model in each(models.head(SHOWN)):
        side = "above" if model.distance > 0 else "below"
        yield (
            f"{model.model} differs from all other models in {model.covariate}: its mean is "
            f"{abs(model.distance):.1f} standard deviations {side} theirs, and {model.inside:.0%} "
            f"of its answers lie within the middle {checks.MIDDLE:.0%} of theirs; its rank assumes "
            "that c is the same there (--robust shows its rank on other scales)"
        )
    if len(models) > SHOWN:
        yield f"{len(models) - SHOWN} more models differ from all others, see --json"


def _evidence(board: Leaderboard) -> Iterator[str]:
    """Evidence from anchors for or against the assumption of the correction."""
    anchors = board.anchors
    if anchors is None:
        yield (
            "nothing here tests the assumption of the correction: there are no trusted pairs "
            "(--anchors)"
        )
        return
    if anchors.n_pairs:
        disputed = (
            f"they order {anchors.n_disputed} of the pairs in opposite ways, and the corrected "
            f"one is right on {anchors.corrected_right} of these"
            if anchors.n_disputed
            else "they order no pair in opposite ways, but one may tie what the other orders"
            if anchors.naive != anchors.corrected
            else "they order every pair alike"
        )
        yield (
            f"of {anchors.n_pairs} trusted pairs of two models, the uncorrected ranking agrees "
            f"with {anchors.naive:.0%} and the corrected one with {anchors.corrected:.0%}; "
            f"{disputed}"
        )
    names = board.of_kind("c")["covariate"]
    for name, better, won in zip(names, anchors.larger_better, anchors.larger_won, strict=True):
        if _known(better, won):
            yield (
                f"{lengths.larger(name)} is the better answer in {better:.0%} of the trusted "
                f"pairs, and wins {won:.0%} of the judge's verdicts"
            )
