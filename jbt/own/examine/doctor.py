"""Check what a user's tables support, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from jbt.border.report import counted
from jbt.own.examine.checks import Check, Checks, command_line
from jbt.own.tables.components import Chains, chains
from jbt.own.tables.names import places
from jbt.own.tables.places import too_large
from jbt.own.tables.sheets import Problems, column_names, read_sheet
from jbt.own.tables.tables import Tables

SURE = 8
"""Number of pairs from which a common side named first counts as a sign: with a random order one
table in 128 shows it."""

MANY = 0.05
"""Share of ties, or of errors, from which their treatment matters."""


RECONCILED = 0.1
"""Share of ties, where no pair was shown in both orders, from which they may be flips: judges that
are asked once seldom tie as often."""

LOGGED = (
    "pool, first, second, winner, judge, model version, prompt hash, attempt, tokens, cost, error"
)
"""What to log of a judgment."""

OWN_COLUMNS = ("pool", "item", "content", "quality")
"""Columns of `Tables.items` that are no covariates."""


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
    return Checks(_Examination.of(tables, options).checks())


@dataclass(frozen=True, eq=False)
class _Examination:
    tables: Tables
    options: Mapping[str, Any]
    covariates: list[str]
    x: np.ndarray
    """[rows of items, D]"""
    judged: np.ndarray
    """[fits] whether there is a verdict."""
    pairs: pd.DataFrame
    """A row for each ordered pair of items that a judge saw: fit, first, second, shown."""
    within: Chains
    merged: Chains | None
    """None where there is one pool."""

    @classmethod
    def of(cls, tables: Tables, options: Mapping[str, Any]) -> _Examination:
        covariates = list(options.get("covariates", ()))
        x = tables.items[covariates].to_numpy(float)
        judged = tables.counts["n_verdicts"].to_numpy() > 0
        fit = tables.verdicts["pool"] * len(tables.judges) + tables.verdicts["judge"]
        pairs = tables.verdicts[["first", "second", "shown"]].assign(fit=fit)
        pairs = pairs.drop_duplicates(ignore_index=True)
        merged = chains(tables, x, merged=True) if len(tables.pools) > 1 else None
        return cls(tables, options, covariates, x, judged, pairs, chains(tables, x), merged)

    def checks(self) -> list[Check]:
        results = [self._verdicts(), self._errors()]
        if not self.judged.any():
            return results
        results += [self._ties(), self._judges(), self._sizes()]
        results += [self._order(), self._both_orders(), self._connected(), self._connected_merged()]
        results += [self._covariate(d) for d in range(len(self.covariates))]
        results += [self._no_covariate(), self._repeats(), self._anchors(), self._quality()]
        return [check for check in results if check is not None]

    def _line(self, command: str, **changes: Any) -> str:
        options = {**self.options, **changes}
        if options.get("ties") == "davidson":  # a leaderboard's alone
            del options["ties"]
        return command_line(command, options)

    def _fits(self, bad: np.ndarray, considered: np.ndarray) -> str:
        """Such as "in 3 of 12 pools"."""
        n, k = int(considered.sum()), int(bad.sum())
        noun = "pool" if len(self.tables.judges) == 1 else "fit"
        if n == 1:
            return f"in the one {noun}"
        return f"in all {n} {noun}s" if k == n else f"in {k} of {n} {noun}s"

    def _share(self, holds: np.ndarray) -> float:
        """Share of the fits with verdicts."""
        return float(holds[self.judged].mean())

    def _verdicts(self) -> Check:
        t = self.tables
        n = int(t.counts["n_verdicts"].sum())
        text = f"{n} verdicts on {len(t.items)} items of {counted(len(t.pools), 'pool')}"
        if len(t.judges) > 1:
            text += f", {len(self.judged)} fits, as each pool is fitted with each judge"
        empty = ~self.judged
        if empty.any():
            fits = self._fits(empty, np.ones_like(empty))
            text += f"; {fits} there are none, and the estimate is the prior's mean"
        return Check("verdicts", not empty.any(), text, None, float(self.judged.mean()))

    def _errors(self) -> Check:
        errors, kept = (int(self.tables.counts[c].sum()) for c in ("n_errors", "n_verdicts"))
        share = errors / max(errors + kept, 1)
        text = f"{counted(errors, 'error')} ({share:.1%}), dropped, not counted as ties"
        if share >= MANY:
            text += "; the remaining verdicts may differ from the lost ones"
        return Check("errors", share < MANY, text, None)

    def _ties(self) -> Check:
        verdicts = self.tables.verdicts
        tied = int(verdicts.loc[verdicts["p_first"] == 0.5, "count"].sum())
        share = tied / max(int(verdicts["count"].sum()), 1)
        how = "an outcome of their own" if self.tables.ties == "davidson" else "half a win each"
        text = f"{counted(tied, 'tie')} ({share:.1%}), {how}"
        if share >= RECONCILED and not self._twice().any():
            text += (
                "; no pair was shown in both orders: were flips turned into ties? They hold all "
                f"that is known of the position effect: log every judgment by itself ({LOGGED})"
            )
        graded = int(verdicts.loc[~verdicts["p_first"].isin((0, 0.5, 1)), "count"].sum())
        if graded:
            text += f"; {graded} verdicts are graded and count as shares of a win"
        drop = self._line("fit", ties="drop") if tied else None
        return Check("ties", share < MANY, text, drop)

    def _judges(self) -> Check | None:
        judges = self.tables.judges
        if len(judges) == 1:
            return None
        verdicts = self._by_pair()
        verdicts["margin"] = (verdicts["share"] - 0.5) * verdicts["count"]
        pair = ["shown", "first", "second"]
        sums = verdicts.groupby([*pair, "judge"])["margin"].sum().reset_index()
        sums["won"] = np.sign(sums["margin"].round(12))
        # Counted without a loop over pairs of judges, of which there are very many.
        n_shared, n_agreed = (
            int((n * (n - 1) // 2).sum())
            for n in (sums.groupby(pair).size(), sums.groupby([*pair, "won"]).size())
        )
        text = f"{len(judges)} judges, each fitted on its own"
        if n_shared:
            text += f"; two judges agree on {n_agreed / n_shared:.0%} of the ordered pairs both saw"
        return Check("judges", True, text, self._line("fit", judge=judges[0]))

    def _sizes(self) -> Check:
        sizes = np.bincount(self.tables.items["pool"], minlength=len(self.tables.pools))
        low, middle, high = sizes.min(), np.median(sizes), sizes.max()
        text = f"{low} items a pool" if low == high else f"{low} to {high} items a pool"
        text += f" (median {middle:g})" if low != high else ""
        if reason := too_large(self.tables):
            return Check("pool_size", False, f"{text}: {reason}", None)
        if high == 2:
            text += ": a pool holds one comparison and no ranking"
        return Check("pool_size", bool(high > 2), text, self._merging("fit") if high == 2 else None)

    def _order(self) -> Check:
        """Whether `first` may be what it says: the item shown first."""
        verdicts = self.tables.verdicts
        no_position = None
        if self.options.get("position") != "no":
            no_position = self._line("fit", position="no")
        if not verdicts["shown"].all():
            unknown = int(verdicts.loc[~verdicts["shown"], "count"].sum())
            text = f"{unknown} verdicts have an unknown order and carry no information about kappa"
            return Check("order", False, text, None)
        for sign in self._signs():
            text = f"{sign}: perhaps `first` is not the item shown first; kappa is then no bias"
            return Check("order", False, text, no_position)
        return Check("order", True, "no sign that `first` is not the item shown first", None)

    def _signs(self) -> list[str]:
        verdicts, items = self.tables.verdicts, self.tables.items
        pairs = self.pairs[["first", "second"]].drop_duplicates()
        if len(pairs) < SURE:
            return []
        first, second = pairs["first"].to_numpy(), pairs["second"].to_numpy()
        name, content = items["item"].to_numpy(str), items["content"].to_numpy()
        signs = []
        if (name[first] < name[second]).all():
            signs.append("first comes before second in the alphabet in every verdict")
        if (content[first] == content[first[0]]).all():
            signs.append(f"first is {self.tables.contents[content[first[0]]]!r} in every verdict")
        if self.options.get("items") is not None and (first < second).all():
            signs.append("first comes before second in the items table in every verdict")
        if (verdicts["p_first"] > 0.5).all():
            signs.append("first won every verdict")
        return signs

    def _both_orders(self) -> Check:
        pairs = self.pairs[self.pairs["shown"]]
        content = self.tables.items["content"]
        swapped_items = self._twice()
        swapped_contents = _turned(
            pairs["fit"], pairs["first"].map(content), pairs["second"].map(content)
        )
        free = np.zeros(len(self.judged), bool)
        free[pairs["fit"][swapped_items | swapped_contents]] = True
        position = self.options.get("position", "auto")
        missing = self.judged & ~free
        share = self._share(free)
        n = len(pairs.drop_duplicates(["fit", "first", "second"])) - int(swapped_items.sum()) // 2
        text = f"{int(swapped_items.sum()) // 2} of {n} pairs were shown in both orders"
        if not missing.any():
            return Check("both_orders", True, text, None, share)
        fits = self._fits(missing, self.judged)
        consequence = {
            "auto": "kappa is fixed at 0 there (--position auto)",
            "yes": "kappa rests on additivity and on the prior of quality there",
            "no": "kappa is fixed at 0 everywhere (--position no)",
        }[position]
        text += f"; {fits} no pair was: {consequence}"
        command = None
        if position != "no" and self._order().ok:  # else `order` says what to do about kappa
            command = self._line("fit", position="yes" if position == "auto" else "auto")
        return Check("both_orders", False, text, command, share)

    def _twice(self) -> pd.Series:
        """Which of the pairs of known order were also shown in the other order."""
        pairs = self.pairs[self.pairs["shown"]]
        return _turned(pairs["fit"], pairs["first"], pairs["second"])

    def _connected(self) -> Check:
        disconnected = self.judged & (self.within.islands > 1)
        share = self._share(~disconnected)
        if not disconnected.any():
            text = "in every pool the comparisons connect all items"
            return Check("connected", True, text, None, share)
        fits = self._fits(disconnected, self.judged)
        text = f"{fits} the comparisons do not connect all items: the prior ranks the components"
        return Check("connected", False, text, self._merging("fit"), share)

    def _connected_merged(self) -> Check | None:
        if self.merged is None:
            return None
        t = self.tables
        shared = t.items.drop_duplicates(["pool", "content"])["content"].duplicated().any()
        if not shared:
            text = "no content is in two pools: merging them would connect nothing"
            return Check("connected_merged", False, text, None)
        if self.of_places:
            text = f"every pool holds {' and '.join(map(repr, t.contents))}, which seem to be "
            text += "places, not models: merged by name, the pools would rank places"
            return Check("connected_merged", False, text, None)
        link = "items of one name" if self._contents_are_items() else "the contents they share"
        if (self.merged.islands == 1).all():
            text = f"merged, the {len(t.pools)} pools are connected by {link}"
            return Check("connected_merged", True, text, self._line("leaderboard"))
        n_components = int(self.merged.islands.max())
        text = f"merged by {link}, the pools still form {n_components} components"
        return Check("connected_merged", False, text, None)

    def _covariate(self, d: int) -> Check:
        name = self.covariates[d]
        check = f"covariate[{name}]"
        identified = self.within.varies[:, d]
        share = self._share(identified)
        spread = self.tables.items.groupby("pool")[name].agg(["min", "max"])
        constant = int((spread["min"] == spread["max"]).sum())
        note = f"; it is constant in {constant} of {len(spread)} pools" if constant else ""
        if (identified == self.judged).all():
            text = f"{name} varies within contents that are compared, which identifies c[{name}]"
            return Check(check, True, text + note, self._line("identify"), share)
        fits = self._fits(self.judged & ~identified, self.judged)
        text = f"{fits} {name} cannot be separated from quality, as it varies within no content "
        text += f"that is compared: c[{name}] is a default there, not a measurement{note}"
        if self.merged is not None and not self.of_places and self.merged.varies[:, d].any():
            text += "; over all pools merged it varies within models, which identifies another c: "
            text += "see jbt leaderboard"
            return Check(check, False, text, self._merging("identify"), share)
        return Check(check, False, text, "jbt plan pairing", share)

    def _no_covariate(self) -> Check | None:
        if self.covariates:
            return None
        numeric = self._numeric_columns()
        if not numeric:
            return Check("covariates", False, "no covariate: only position can be corrected", None)
        text = f"no covariate was asked for; the items table has {', '.join(numeric)}"
        return Check("covariates", False, text, self._line("doctor", covariates=numeric))

    def _numeric_columns(self) -> list[str]:
        """Columns of the items table that could be covariates."""
        if self.options.get("items") is None:
            return []
        path = self.tables.items_path
        taken = {"pool", "item", "content", "quality", *map(str, self.options.values())}
        names = [name for name in column_names(path, ["item"]) if name and name not in taken]
        rows = read_sheet(path, names, (), Problems()).rows
        number = {name: pd.to_numeric(rows[name], errors="coerce") for name in names}
        return [name for name, v in number.items() if v.notna().all() and v.nunique() > 1]

    def _by_pair(self) -> pd.DataFrame:
        """The verdicts, with (a, b) and (b, a) as one pair where the order is unknown: pool, judge,
        shown, count, first, second, share (that the first of the pair won)."""
        verdicts = self.tables.verdicts
        sides = verdicts[["first", "second"]]
        low, high, known = sides.min(axis=1), sides.max(axis=1), verdicts["shown"]
        swapped = ~known & (verdicts["first"] != low)
        return verdicts[["pool", "judge", "shown", "count"]].assign(
            first=verdicts["first"].where(known, low),
            second=verdicts["second"].where(known, high),
            share=verdicts["p_first"].where(~swapped, 1 - verdicts["p_first"]).round(12),
        )

    def _repeats(self) -> Check:
        groups = self._by_pair().groupby(["shown", "pool", "judge", "first", "second"])
        n, same = groups["count"].sum(), groups["share"].nunique() == 1
        repeated = n > 1
        if not repeated.any():
            text = "no judge was asked the same ordered pair twice"
            text += "" if self.tables.verdicts["shown"].all() else ", or a pair of unknown order"
            return Check("repeats", True, text, None)
        known_order = repeated.index.get_level_values("shown").to_numpy(bool)
        kinds = (known_order, "ordered pairs"), (~known_order, "pairs of unknown order")
        counts = [(int(repeated.to_numpy()[rows].sum()), noun) for rows, noun in kinds]
        text = " and ".join(f"{k} {noun}" for k, noun in counts if k)
        text += " were judged more than once, and the repeats "
        text += (
            f"always agree in {int((repeated & same).sum())} of them: all count as independent, "
        )
        text += "so that a judge that repeats itself looks certain"
        return Check("repeats", False, text, None)

    def _anchors(self) -> Check:
        pairs, members = self.tables.anchors, self.tables.members
        if not len(pairs) + len(members):
            text = "no pairs of known order (--anchors): these tables cannot show whether a "
            text += "correction brings the ranking nearer to the truth"
            return Check("anchors", False, text, None)
        known, kind = pairs, "pairs of known order"
        if len(members):
            known, kind = members, "items known to be among the best or not,"
        text = f"{len(known)} {kind} in {counted(known['pool'].nunique(), 'pool')}"
        return Check("anchors", True, text, self._line("gate") if self.covariates else None)

    def _quality(self) -> Check | None:
        given = self.tables.items["quality"].notna()
        if not given.any():
            return None
        text = f"quality is given for {int(given.sum())} of {len(given)} items"
        return Check("quality", True, text, self._line("replay"))

    @cached_property
    def of_places(self) -> bool:
        """Whether every pool has the same two contents, whose names are places."""
        n = self.tables.items.drop_duplicates(["pool", "content"])["pool"].value_counts()
        return places(self.tables.contents) and bool((n == 2).all())

    def _contents_are_items(self) -> bool:
        """Whether each item is its own content under its own name, without the table saying so."""
        t = self.tables
        if t.items_path is not None and "content" in column_names(t.items_path, ["item"]):
            return False
        names = np.asarray(t.contents, object)[t.items["content"].to_numpy()]
        return bool((names == t.items["item"].to_numpy(object)).all())

    def _merging(self, command: str) -> str | None:
        """The command on all pools merged, where there are several."""
        if self.merged is None or self.of_places:
            return None
        by_name = {"content": "item"} if self._contents_are_items() else {}
        return self._line(command, **by_name, merge_pools=True)


def _turned(fit: pd.Series, first: pd.Series, second: pd.Series) -> pd.Series:
    """Which ordered pairs also occur in the other order."""
    pairs = pd.MultiIndex.from_arrays([fit, first, second])
    there = pairs.isin(pd.MultiIndex.from_arrays([fit, second, first]))
    return pd.Series(there & (first != second).to_numpy(), fit.index)
