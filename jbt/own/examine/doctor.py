"""What a user's tables support: `jbt doctor`, before anything is fitted.

A check counts something in the tables and is yielded as its name; whether something is wrong,
overall or in each fit (a pool with a judge); the finding with its consequence, in one sentence; and
the command to type next, if one says more or fixes the problem. To add a check, yield it in the
function of its subject, or in a new one in `SUBJECTS`: the report, the notes of other reports,
JSON, table and figure are made from that.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section, counted
from jbt.own.fits.batch import kappa_free
from jbt.own.leaderboards.lack_of_fit import FEWEST_PROMPTS
from jbt.own.tables import missing
from jbt.own.tables.components import Chains, chains
from jbt.own.tables.folder import settings_of, words_of
from jbt.own.tables.lengths import larger
from jbt.own.tables.names import places
from jbt.own.tables.places import too_large
from jbt.own.tables.sheets import Problems, column_names, read_sheet
from jbt.own.tables.tables import TRANSFORMS, Tables, repeats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATTERS = ("verdicts", "missing", "order", "both_orders", "covariate", "connected", "repeats")
"""Checks whose failure is shown in the notes of every other report."""

SURE = 8
"""Number of pairs from which a common side named first counts as a sign: with a random order one
table in 128 shows it."""

MANY = 0.05
"""Share of errors from which their treatment matters."""

ALPHA = 0.05
"""Level of the test of missing verdicts."""

RECONCILED = 0.1
"""Share of ties, where no pair was shown in both orders, from which they may be flips: judges that
are asked once seldom tie as often."""

LOGGED = (
    "pool, first, second, winner, judge, model version, prompt hash, attempt, tokens, cost, error"
)
"""What to log of a judgment."""

OWN_COLUMNS = ("pool", "item", "content", "quality")
"""Columns of `Tables.items` that are no covariates."""

NO_KAPPA = {
    "auto": "kappa is fixed at 0 there (--position auto)",
    "yes": "kappa rests on additivity and on the prior of quality there",
    "no": "kappa is fixed at 0 everywhere (--position no)",
}
"""What follows where no pair was shown in both orders, by the option `position`."""


def doctor(tables: Tables, options: Mapping[str, Any] | None = None) -> Checks:
    """Check what tables support, before anything is fitted.

    Args:
      tables: as read, with the covariates to check.
      options: options with which the proposed commands begin, by the names of `jbt fit`'s
        options: verdicts, items, covariates, ...; default placeholders and all covariates.
    """
    if options is None:
        covariates = [name for name in tables.items if name not in OWN_COLUMNS]
        options = {"verdicts": "VERDICTS", "items": "ITEMS", "covariates": covariates}
    judged = tables.counts["n_verdicts"].to_numpy() > 0
    facts = _Facts(tables, options, list(options.get("covariates", ())), judged)
    checks = []
    for subject in SUBJECTS if judged.any() else SUBJECTS[:1]:
        for name, wrong, found, command in subject(facts):
            share = None if np.ndim(wrong) == 0 else float((~wrong)[judged | wrong].mean())
            checks.append(Check(name, not np.any(wrong), found, command, share))
    method, merging = facts.ranking, {"merge_pools": True}
    if facts.contents_are_items:
        merging = {"content": "item", **merging}
    if method == "fit" and facts.pairs_alone and len(tables.pools) > 1:
        method = "judge"
    return Checks(checks, method, facts.line(method), merging)


class Check(NamedTuple):
    """One check of the tables."""

    check: str
    """Its name; of a covariate, `covariate[NAME]`."""
    ok: bool
    found: str
    """The finding and its consequence, in one sentence."""
    command: str | None
    """The command to type next, if one says more or fixes the problem."""
    share: float | None
    """Share of the fits (pool and judge) for which it holds; None where it is not about fits."""

    def lines(self) -> list[str]:
        """It and its command."""
        return [f"{self.check}: {self.found}", *([f"  > {self.command}"] if self.command else [])]

    @property
    def subject(self) -> str:
        """Its name, without that of a covariate."""
        return self.check.partition("[")[0]


@dataclass(frozen=True, eq=False)
class Checks:
    """The result of `jbt doctor`."""

    checks: list[Check]
    method: Method = "fit"
    """What the tables are for: ranking models over all pools, ranking each pool, or, where every
    pool holds one comparison of its own, counting alone."""
    command: str | None = None
    """The command line of this method."""
    merging: Mapping[str, Any] = field(default_factory=dict)
    """The options by which other commands merge all pools as a leaderboard does."""

    def headline(self, names: Sequence[str] = MATTERS) -> list[str]:
        """Notes of every other report: what the tables do not support, and what is assumed instead,
        by the checks with these names."""
        missing = (c for c in self.checks if not c.ok and c.subject in names)
        return [f"{c.check}: {c.found}" for c in missing]

    def advised(self) -> list[str]:
        """The commands of the checks that matter most and do not hold."""
        subjects = (*MATTERS, "covariates")
        return [c.command for c in self.checks if not c.ok and c.command and c.subject in subjects]

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """What to look at and what to type next; then a line for each check with its command."""
        missing, fine = ([c for c in self.checks if c.ok == ok] for ok in (False, True))
        answer = f"All {len(fine)} checks are in order"
        if missing:
            watch = ", ".join(c.check for c in missing)
            answer = f"Checks to look at: {watch}; the other {len(fine)} are in order"
        commands = [*self.advised(), self.command]
        following = [f"Type next: {command}" for command in commands[:1] if command]
        sections = [
            Section(heading, [line for c in checks for line in c.lines()])
            for heading, checks in (("To look at", missing), ("In order", fine))
            if checks
        ]
        return Report(title, lead, sections, answer=[answer, *following])

    def to_frame(self) -> pd.DataFrame:
        """A row for each check."""
        return pd.DataFrame(self.checks, dtype=object).drop(columns="share")

    def record(self) -> list[dict[str, Any]]:
        """The content of the JSON file."""
        return [dict(row) for _, row in self.to_frame().iterrows()]

    def figure(self) -> Figure:
        """Draw the share of the fits for which each check holds."""
        from jbt.border import plots

        drawn, ax = plots.new_figure(height=2.4)
        shares = [(c.check, 100 * c.share, c.ok) for c in self.checks if c.share is not None][::-1]
        for height, (_, share, ok) in enumerate(shares):
            bar = ax.barh(height, share, color=plots.COLOURS["blue" if ok else "orange"])
            ax.bar_label(bar, fmt="%.3g %%", padding=3)
        ax.set_yticks(range(len(shares)), [name for name, *_ in shares])
        ax.set_xlim(0, 115)
        ax.set_xlabel("share of the fits, a pool with a judge each, where it holds (%)")
        ax.set_title("Orange: checks that limit what the tables support")
        return drawn


def command_line(command: str, options: Mapping[str, Any]) -> str:
    """The command line `jbt COMMAND ...`, with options by their Python names."""
    words, options = ["jbt", *command.split()], dict(options)
    if place := options.pop("folder", None):
        known = {name: words_of({name: v}) for name, v in settings_of(Path(place)).items()}
        words.append(str(place))
        options = {n: value for n, value in options.items() if words_of({n: value}) != known.get(n)}
    return shlex.join([*words, *words_of(options)])


@dataclass(frozen=True, eq=False)
class _Facts:
    """What the checks of several subjects count from, and how they say it."""

    tables: Tables
    options: Mapping[str, Any]
    covariates: list[str]
    judged: np.ndarray
    """[fits] whether there is a verdict."""

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Those of the tables with low and high, the two items in one order; order, whether low was
        shown first, true too where that is not known; won, the share that low won."""
        verdicts = self.tables.verdicts
        low, high = np.sort(verdicts[["first", "second"]], axis=1).T
        swapped = verdicts["first"] > verdicts["second"]
        won = verdicts["p_first"].sub(swapped).abs().round(12)
        order = ~(swapped & verdicts["shown"])
        return verdicts.assign(low=low, high=high, order=order, won=won)

    @cached_property
    def both_orders(self) -> np.ndarray:
        """[pairs of known order] whether a judge was shown the pair in both orders; of models on a
        board, else of items of a pool."""
        shown = self.verdicts[self.verdicts["shown"]]
        if self.is_board:
            of_model = self.tables.items["content"].to_numpy()
            sides = of_model[shown[["first", "second"]].to_numpy()]
            low, high = np.sort(sides, axis=1).T
            shown = shown.assign(pool=0, low=low, high=high, order=sides[:, 0] == low)
        pair = ["pool", "judge", "low", "high"]
        return shown.drop_duplicates([*pair, "order"]).groupby(pair).size().to_numpy() == 2

    @cached_property
    def merged(self) -> Chains | None:
        """What all pools as one link; None where there is one pool."""
        return self.chains(merged=True) if len(self.tables.pools) > 1 else None

    @cached_property
    def is_board(self) -> bool:
        """Whether every pool holds one comparison of models that others hold too: only a
        leaderboard ranks them, so that the checks are those of all pools merged."""
        if self.merged is None or self.of_places or not self.pairs_alone:
            return False
        return len(self.tables.contents) < len(self.tables.items)

    @cached_property
    def pairs_alone(self) -> bool:
        """Whether no pool has more than two items."""
        return bool((self.tables.items["pool"].value_counts() <= 2).all())

    @cached_property
    def linked(self) -> bool:
        """Whether contents that pools share connect all pools."""
        t = self.tables
        if self.merged is None or self.of_places or self.merged.islands.max() > 1:
            return False
        return bool(t.items.drop_duplicates(["pool", "content"])["content"].duplicated().any())

    @cached_property
    def ranking(self) -> Method:
        """The command that ranks these verdicts."""
        return "leaderboard" if self.linked or self.is_board else "fit"

    @cached_property
    def of_places(self) -> bool:
        """Whether every pool has the same two contents, whose names are places."""
        n = self.tables.items.drop_duplicates(["pool", "content"])["pool"].value_counts()
        if not self.contents_are_items:  # the table says that they are models
            return False
        return places(self.tables.contents) and bool((n == 2).all())

    @cached_property
    def contents_are_items(self) -> bool:
        """Whether each item is its own content under its own name, without the table saying so."""
        t = self.tables
        if t.items_path is not None and "content" in column_names(t.items_path, ["item"]):
            return False
        names = np.asarray(t.contents, object)[t.items["content"].to_numpy()]
        return bool((names == t.items["item"].to_numpy(object)).all())

    def chains(self, **merged: bool) -> Chains:
        return chains(self.tables, self.tables.items[self.covariates].to_numpy(float), **merged)

    def where(self, wrong: np.ndarray) -> str:
        """Such as "in 3 of 12 pools", of the fits with verdicts."""
        n, k = int((self.judged | wrong).sum()), int(wrong.sum())
        noun = "pool" if len(self.tables.judges) == 1 else "fit"
        if n == 1:
            return f"in the one {noun}"
        return f"in all {n} {noun}s" if k == n else f"in {k} of {n} {noun}s"

    def line(self, command: str, **changes: Any) -> str:
        """The command line of a command with the options, some of them changed."""
        options = {**self.options, **changes}
        if options.get("ties") == "davidson":  # a leaderboard's alone
            del options["ties"]
        return command_line(command, options)

    def merging(self, command: str) -> str | None:
        """The command on all pools merged, where there are several."""
        if self.merged is None or self.of_places:
            return None
        by_name = {"content": "item"} if self.contents_are_items else {}
        return self.line(command, **by_name, merge_pools=True)


Method = Literal["leaderboard", "fit", "judge"]

Findings = Iterator[tuple[str, Any, str, str | None]]
"""Name, wrong (bool, or [fits]), finding, and the command if there is one."""


def _counts(f: _Facts) -> Findings:
    """How many verdicts, errors, ties, judges and items there are."""
    t, empty = f.tables, ~f.judged
    n, errors = (int(t.counts[name].sum()) for name in ("n_verdicts", "n_errors"))
    found = f"{n} verdicts on {len(t.items)} items of {counted(len(t.pools), 'pool')}"
    if len(t.judges) > 1:
        found += f"; {len(empty)} fits, one for each pool and judge"
    if empty.any():
        found += f"; {f.where(empty)} there are none, and the estimate is the prior's mean"
    yield "verdicts", empty, found, None

    share = errors / max(errors + n, 1)
    found = f"{counted(errors, 'error')} ({share:.1%}), dropped and not counted as ties"
    if share >= MANY:
        found += "; the verdicts that remain may differ from those that are lost"
    yield "errors", share >= MANY, found, None
    if not n:
        return

    p, count = t.verdicts["p_first"], repeats(t.verdicts["count"])
    tied, graded = int(count[p == 0.5].sum()), int(count[~p.isin((0, 0.5, 1))].sum())
    share = tied / n
    how = "an outcome of their own" if t.ties == "davidson" else "half a win each"
    found = f"{counted(tied, 'tie')} ({share:.1%}), {how}"
    reconciled = share >= RECONCILED and not f.both_orders.any()
    if reconciled:
        found += (
            "; no pair was shown in both orders: were flips turned into ties? Then nothing shows "
            f"the position effect any more, so log every judgment by itself ({LOGGED})"
        )
    if graded:
        found += f"; {graded} verdicts are graded, and count as shares of a win"
    yield "ties", reconciled, found, f.line(f.ranking, ties="drop") if tied else None

    if len(t.judges) > 1:
        found = f"{len(t.judges)} judges, each fitted on its own"
        # Counted without a loop over pairs of judges, of which there are very many.
        pair, margin = ["shown", "low", "high", "order"], (f.verdicts["won"] - 0.5) * count
        sums = f.verdicts.assign(margin=margin).groupby([*pair, "judge"])["margin"].sum()
        winner = sums.round(12).map(np.sign).reset_index()
        both, agree = (
            (n * (n - 1) // 2).sum()
            for n in (winner.groupby(pair).size(), winner.groupby([*pair, "margin"]).size())
        )
        if both:
            found += f"; two judges agree on {agree / both:.0%} of the ordered pairs that both saw"
        yield "judges", False, found, f.line(f.ranking, judge=t.judges[0])

    sizes = t.items["pool"].value_counts()
    low, high = sizes.min(), sizes.max()
    found = f"{low} items a pool"
    if low != high:
        found = f"{low} to {high} items a pool (median {sizes.median():g})"
    command = None
    if reason := too_large(t):
        found += f": {reason}"
    elif f.is_board:
        found += ": each pool is one comparison, and all together rank the models"
        command = f.line("leaderboard")
    elif high == 2:
        found, command = f"{found}: a pool is one comparison, and has no ranking", f.merging("fit")
    yield "pool_size", bool(reason) or (high <= 2 and not f.is_board), found, command


def _orders(f: _Facts) -> Findings:
    """Whether `first` may be what it says, the item shown first; and who was shown first as well as
    second, which identifies kappa."""
    verdicts, items, contents = f.tables.verdicts, f.tables.items, f.tables.contents
    position, command = f.options.get("position", "auto"), None
    first, second = verdicts[["first", "second"]].drop_duplicates().to_numpy().T
    name, content = items["item"].to_numpy(str), items["content"].to_numpy()
    # Where no pool has a third item, a table lists the items as the verdicts do.
    by_row = (first < second) & (not f.pairs_alone and f.options.get("items") is not None)
    by_name, by_content = name[first] < name[second], content[first] == content[first[0]]
    signs = {
        "first comes before second in the alphabet in every verdict": by_name,
        f"first is {contents[content[first[0]]]!r} in every verdict": by_content,
        "first comes before second in the items table in every verdict": by_row,
        "first won every verdict": verdicts["p_first"] > 0.5,
    }
    signs = [sign for sign, holds in signs.items() if len(first) >= SURE and holds.all()]
    doubt, found = True, "no sign that `first` is not the item shown first"
    if unknown := int(repeats(verdicts["count"])[~verdicts["shown"]].sum()):
        found = f"{unknown} verdicts have an unknown order and carry no information about kappa"
    elif signs:
        found = f"{signs[0]}, so perhaps it was not shown first; kappa is then no position bias"
        command = None if position == "no" else f.line(f.ranking, position="no")
    else:
        doubt = False
    yield "order", doubt, found, command

    missing, command = f.judged & ~kappa_free(f.tables, "auto"), None
    if f.is_board:
        missing = np.asarray(not f.both_orders.any())
    of = "pairs of models" if f.is_board else "pairs"
    found = f"{f.both_orders.sum()} of {len(f.both_orders)} {of} were shown in both orders"
    if missing.any():
        where = "" if f.is_board else f"{f.where(missing)} no pair was, so "
        found += f"; {where}{NO_KAPPA[position]}"
        if position == "yes" and not doubt:  # else `order` says what to do about kappa
            command = f.line(f.ranking, position="auto")
    yield "both_orders", missing, found, command


def _missing(f: _Facts) -> Findings:
    """Whether missing verdicts depend on a covariate or the order shown."""
    transform, _ = TRANSFORMS[f.options.get("transform", "none")]
    x = transform(f.tables.items[f.covariates].to_numpy(float))
    tests = missing.losses(f.tables, x, f.covariates)
    if tests.empty:
        return
    first = tests.iloc[int(np.argmin(tests["p"]))]
    p, name = min(1.0, first["p"] * len(tests)), first["covariate"]
    found = (
        f"no sign that missing verdicts depend on {' or '.join(f.covariates)} (p = {p:.2g}); a "
        "loss that depends on the verdict alone leaves no sign"
    )
    if p < ALPHA:
        where = f"{larger(name)} is shown first", "it is shown second"
        if first["of"] == "difference":
            where = f"two items differ much in {name}", "they differ less"
        found = (
            f"{first['more']:.1%} of verdicts are missing where {where[0]}, {first['less']:.1%} "
            f"where {where[1]} (p = {p:.2g}): if the loss depends on the verdict too, c[{name}] is "
            "biased"
        )
    yield "missing", p < ALPHA, found, f.line(f.ranking, missing="bounds")


def _links(f: _Facts) -> Findings:
    """What the comparisons connect, and whether they separate each covariate from quality."""
    t, within, merged = f.tables, f.chains(), f.merged
    apart, command = f.judged & (within.islands > 1), None
    found = "in every pool the comparisons connect all items"
    if apart.any():
        found = f"{f.where(apart)} the comparisons do not connect all items: "
        found += "the prior ranks the unconnected parts"
        command = f.line("leaderboard") if f.linked else f.merging("fit")
    yield "connected", apart, found, command

    if merged is not None:
        n = int(merged.islands.max())
        shared = t.items.drop_duplicates(["pool", "content"])["content"].duplicated().any()
        link = "items of one name" if f.contents_are_items else "the contents they share"
        if not shared:
            found = "no content is in two pools: merging them would connect nothing"
        elif f.of_places:
            found = f"every pool holds {' and '.join(map(repr, t.contents))}, which seem to be "
            found += "places, not models: merged by name, the pools would rank places"
        elif n > 1:
            found = f"merged by {link}, the pools still form {n} unconnected parts"
        else:
            found = f"merged, the {len(t.pools)} pools are connected by {link}"
            if len(t.pools) >= FEWEST_PROMPTS:
                found += "; jbt leaderboard tests whether one quality for each model and one c fit"
        command = f.line("leaderboard") if f.linked else None
        yield "connected_merged", not f.linked, found, command

    for d, name in enumerate(f.covariates):
        missing, command = f.judged & ~within.varies[:, d], f.line("identify")
        is_same = bool(f.is_board and merged is not None and not merged.varies[:, d].all())
        if f.is_board:
            missing = np.asarray(is_same)
            command = None if is_same else f.line("leaderboard")
        constant = t.items.groupby("pool")[name].nunique() == 1
        note = ""
        if constant.any():
            note = f"; it is constant in {constant.sum()} of {len(constant)} pools"
        found = f"{name} varies within contents that are compared, which identifies c[{name}]"
        if f.is_board:
            found = f"{name} varies between the answers of a model, which identifies c[{name}]"
            if is_same:
                found = f"{name} is the same in all answers of a model that are compared, so that "
                found += f"c[{name}] cannot be separated from quality"
        elif missing.any():
            found = f"{f.where(missing)} {name} cannot be separated from quality, because no "
            found += f"content has compared versions that differ in {name}; c[{name}] is a default "
            found += "there, not a measurement"
            command = "jbt plan pairing"
            if merged is not None and not f.of_places and merged.varies[:, d].any():
                note += f"; over all pools merged, {name} varies within models, which identifies "
                note += "another c (see jbt leaderboard)"
                command = f.merging("identify")
        yield f"covariate[{name}]", missing, found + note, command

    if not f.covariates:
        numeric = _numeric_columns(f)
        found, command = "no covariate: only position can be corrected", None
        if numeric:
            found = f"no covariate was asked for; the items table has {', '.join(numeric)}"
            command = f.line("doctor", covariates=numeric)
        yield "covariates", True, found, command


def _numeric_columns(f: _Facts) -> list[str]:
    """Columns of the items table that could be covariates."""
    if f.options.get("items") is None:
        return []
    path = f.tables.items_path
    rows = read_sheet(path, column_names(path, ["item"]), (), Problems()).rows
    taken = [*OWN_COLUMNS, *map(str, f.options.values()), ""]
    values = rows.drop(columns=taken, errors="ignore").apply(pd.to_numeric, errors="coerce")
    return list(values.columns[values.notna().all() & (values.nunique() > 1)])


def _evidence(f: _Facts) -> Findings:
    """How independent the verdicts are, and what is known beside them."""
    t, verdicts = f.tables, f.verdicts.assign(count=repeats(f.verdicts["count"]))
    repeated = verdicts.groupby(["pool", "judge", "shown", "low", "high", "order"])
    repeated = repeated.agg(n=("count", "sum"), answers=("won", "nunique")).query("n > 1")
    if len(repeated):
        n = repeated.groupby("shown").size()
        kinds = {True: "ordered pairs", False: "pairs of unknown order"}
        found = " and ".join(f"{n[shown]} {noun}" for shown, noun in kinds.items() if shown in n)
        found += " were judged more than once, and the repeats always agree in "
        found += f"{(repeated['answers'] == 1).sum()} of them; all count as independent, so a "
        found += "judge that repeats itself looks more certain than it is"
    else:
        found = "no judge was asked the same ordered pair twice"
        found += "" if t.verdicts["shown"].all() else ", or a pair of unknown order"
    yield "repeats", len(repeated) > 0, found, None

    known, kind = t.anchors, "pairs of known order"
    if len(t.members):
        known, kind = t.members, "items known to be among the best or not,"
    found = f"{len(known)} {kind} in {counted(known['pool'].nunique(), 'pool')}"
    if known.empty:
        found = "no pairs of known order (--anchors), so these tables cannot show whether a "
        found += "correction brings the ranking nearer to the truth"
    command = None
    if f.covariates and not known.empty:
        command = f.merging("gate") if f.linked else f.line("gate")
    yield "anchors", known.empty, found, command

    given = t.items["quality"].notna()
    if given.any():
        found = f"quality is given for {given.sum()} of {len(given)} items"
        yield "quality", False, found, f.line("replay")


SUBJECTS: tuple[Callable[[_Facts], Findings], ...] = (
    _counts,
    _missing,
    _orders,
    _links,
    _evidence,
)
"""In the order in which they are shown; without any verdict only the first."""
