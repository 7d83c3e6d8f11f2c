"""What a study is, and never changes once it has begun: its settings and its items."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from jbt import acquisition
from jbt.acquisition import PanelRule
from jbt.acquisition.panel_rules import resolve
from jbt.acquisition.rules import Score, name_of
from jbt.border import files
from jbt.own.choices import Orders, Repeats, Stops, StudyChoices, Transform, check_names
from jbt.own.fits.pools import check_sizes
from jbt.own.tables import limits
from jbt.own.tables import tables as own_tables
from jbt.own.tables.places import Layout
from jbt.own.tables.sheets import Table, read_cells, source_of
from jbt.own.tables.tables import ANCHORS, Tables
from jbt.types import check_count, check_positive, check_word

ANCHORS_AT = 1
"""Place of the trusted pairs among the judges of the model, whose first is the cheapest and whose
last is the reference."""

FREE = 1e-12
"""Price of a trusted pair, which is never asked: a price of 0 is not allowed, and any other would
count as spending."""

RULE_OF = {"posterior": "entropy_reduction_fresh", "anytime": "pivot"}
"""Stop -> its default acquisition rule, with which `sweeps.arena_stops` simulates it."""

COUNTS = 8
"""Arrays of counts of all ordered pairs that a study holds at its peak."""


@dataclass(frozen=True, kw_only=True)
class StudySettings(StudyChoices):
    """Settings of a study, kept in its journal."""

    rule: str | acquisition.Rule | PanelRule | Score | None = None

    @property
    def prices(self) -> tuple[float, ...]:
        """Price of a verdict of each judge."""
        return self.price or (1.0,) * max(len(self.judges), 1)

    def record(self) -> dict[str, Any]:
        """As JSON has it; a rule of the user's own by the name of its function."""
        values, rule = {**vars(self)}, self.rule
        if not isinstance(rule, str):
            score: Any = getattr(rule, "score", rule)
            values["rule"] = f"{name_of(score)}, your own"
        return values

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> StudySettings:
        """Settings from keyword arguments or JSON: lists become tuples, judges may be a mapping
        name -> price.

        Raises:
          ValueError: an unknown name, a value out of range, or values that do not fit together.
        """
        names, values = [f.name for f in fields(cls)], dict(given)
        for name in given:
            if name not in names:
                raise ValueError(f"unknown setting {name!r}: one of {', '.join(names)}")
        if isinstance(judges := values.get("judges"), Mapping):
            if values.get("price"):
                raise ValueError("prices stand beside the judges' names, and in price: give one")
            values |= {"judges": list(judges), "price": list(map(float, judges.values()))}
        for name in ("covariates", "judges", "price"):
            if isinstance(values.get(name), str):
                raise ValueError(f"{name} must be a list, got {values[name]!r}")
            values[name] = tuple(values.get(name, ()))
        stop = values.get("stop", cls.stop)
        check_word("stop", stop, get_args(Stops))
        if values.get("rule") is None:
            values["rule"] = RULE_OF[stop]
        settings = cls(**values)
        if problems := [*settings._problems()]:
            raise ValueError("\n".join(problems))
        return settings

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong; raise `ValueError` where a value is not of its kind."""
        check_names(self.covariates)
        check_word("standardise", self.standardise, (True, False))
        words = {"orders": Orders, "repeats": Repeats, "transform": Transform}
        for name, kind in words.items():
            check_word(name, getattr(self, name), get_args(kind))
        for name in ("k", "refit_every", "attempts", *["budget"] * (self.budget is not None)):
            check_count(name, getattr(self, name))
        for name in ("lam", "lam_b", "price", *["purse"] * (self.purse is not None)):
            check_positive(name, getattr(self, name))
        if not 0 < self.level <= 1:
            yield f"level must be above 0 and at most 1, got {self.level!r}"
        if not 0 <= self.indifferent < math.inf:
            yield f"indifferent must be at least 0 and finite, got {self.indifferent!r}"
        if not 0 <= self.least_gain < 1:
            yield f"least_gain must be at least 0 and below 1, got {self.least_gain!r}"
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**32):
            yield f"seed must be a whole number from 0 to 2^32 - 1, got {self.seed!r}"
        if self.repeats == "fresh" and self.budget is None and self.purse is None:
            yield "repeats = fresh never runs out of verdicts: give a budget or a purse"
        if self.stop == "anytime":
            yield from self._anytime_problems()
        folded, n_judges = [name.casefold() for name in self.judges], max(len(self.judges), 1)
        for i, name in enumerate(self.judges):
            if folded[i] in folded[:i]:
                yield f"judge {name!r} is named twice"
            if folded[i] in ("", ANCHORS):
                yield f"a judge cannot be called {name!r}"
        if len(self.prices) != n_judges:
            yield f"price needs a number for each of {n_judges} judges: {self.price}"
        if self.reference is not None and self.reference not in self.judges:
            known = ", ".join(self.judges) or "none is named"
            yield f"no judge {self.reference!r} (reference): judges are {known}"
        if self.reference is not None and n_judges < 2:
            yield "a reference needs another judge, whose bias it measures"
        if isinstance(resolve(self.rule or RULE_OF[self.stop]), PanelRule) and n_judges < 2:
            yield f"the rule {self.rule!r} chooses among several judges"

    def _anytime_problems(self) -> Iterator[str]:
        """Yield what keeps an `anytime` stop from its promise."""
        for name, needed in (("repeats", "fresh"), ("orders", "both")):
            if getattr(self, name) != needed:
                yield f"stop = anytime needs {name} = {needed}, got {getattr(self, name)}"
        if self.covariates:
            yield "stop = anytime finds the judge's own top k, its bias included: no covariates"
        if len(self.judges) > 1:
            yield "stop = anytime takes one judge"
        if self.level == 1:
            yield "stop = anytime needs a level below 1"
        if self.least_gain:
            yield "stop = anytime has no least_gain, which is a share of the posterior's doubt"


@dataclass(frozen=True, eq=False)
class StudyItems:
    """The tables that a study began with, and what the model makes of them."""

    settings: StudySettings
    given: dict[str, pd.DataFrame]
    """The tables `items` and, if there are any, `anchors`, as given, every cell as text."""
    rows: pd.DataFrame
    """The items, each pool's in the order of their names: what is drawn for an item does not depend
    on the order of the table."""
    tables: Tables
    """Checked, without a verdict; rows of `tables.items` are those of `rows`."""
    layout: Layout
    """`layout.x` [rows, D] are the covariates as the model uses them."""
    covariates: list[str]
    """Name of each covariate, with its transformation."""
    judges: tuple[str | None, ...]
    """[J] the judges of the model: those of the settings, or one without a name; the trusted pairs,
    if there are any, are `anchors` at `ANCHORS_AT`."""
    known: np.ndarray
    """[J] whether c and kappa of each are taken to be 0: of the reference and the trusted pairs."""
    prices: np.ndarray
    """[J] of a verdict of each."""

    @classmethod
    def of(cls, items: Table, anchors: Table | None, settings: StudySettings) -> StudyItems:
        """Read and check the tables.

        Raises:
          TableError: a wrong table, or one whose counts would not fit into memory.
          ValueError: k out of range.
        """
        given = {"items": read_cells(source_of(items, "items"), ["item"])}
        if anchors is not None:
            given["anchors"] = read_cells(source_of(anchors, "anchors"), [])
        tables = _read(settings, **given)  # its messages are of the rows as given
        order = tables.items.sort_values(["pool", "item"]).index
        rows = given["items"].iloc[order].reset_index(drop=True)
        tables = _read(settings, **given | {"items": rows})
        if not tables.members.empty:
            raise ValueError("anchors of a study must be pairs: pool, better, worse")
        x, names, _ = own_tables.covariate_values(
            tables, settings.covariates, settings.transform, settings.standardise
        )
        layout = Layout.of(tables, x)
        sizes = dict(zip(tables.pools, map(len, layout.contents), strict=True))
        check_sizes(sizes, settings.k)
        for pool, size in sizes.items():
            if size < 2:
                raise ValueError(f"pool {pool!r} has one content: there is nothing to rank")
        if settings.stop == "anytime" and (layout.content != layout.place).any():
            raise ValueError(
                "stop = anytime compares items, and some share a content: content = none lets each "
                "compete by itself"
            )
        if settings.stop == "anytime" and len(tables.anchors):
            raise ValueError("stop = anytime takes no anchors: only the judge's verdicts count")
        judges, prices = list(settings.judges or (None,)), list(settings.prices)
        if len(tables.anchors):
            judges.insert(ANCHORS_AT, ANCHORS)
            prices.insert(ANCHORS_AT, FREE)
        n_pools, largest = len(sizes), int(layout.sizes.max())
        what = f"counts of {n_pools} pools of up to {largest} items and of {len(judges)} judges"
        size = 8 * COUNTS * n_pools * largest**2 * len(judges)  # padded, see `Book`
        limits.check(size, what, "begin a study for the large pools and one for the others")
        return cls(
            settings=settings,
            given=given,
            rows=rows,
            tables=tables,
            layout=layout,
            covariates=names,
            judges=tuple(judges),
            known=np.array([name in (ANCHORS, settings.reference or ANCHORS) for name in judges]),
            prices=np.array(prices),
        )

    @classmethod
    def of_folder(cls, folder: Path, header: Mapping[str, Any], **rule: Any) -> StudyItems:
        """The settings and tables of a study that has begun.

        Args:
          header: the first record of its journal.
          rule: in place of that of the settings, one of the user's own.

        Raises:
          KeyError, TypeError, ValueError, OverflowError: the header is none; a table has changed.
        """
        digests = {name: header["tables"][name] for name in ("items", "anchors")}
        paths = {name: folder / f"{name}.csv" for name in digests}
        anchors = paths["anchors"] if digests["anchors"] else None
        items = cls.of(paths["items"], anchors, StudySettings.of(header["settings"] | rule))
        for name, digest in items.digests().items():
            if digest != digests[name]:
                raise ValueError(f"{paths[name]} is not the table that the study began with")
        return items

    def digests(self) -> dict[str, str | None]:
        """SHA-256 of each table, whatever file or frame it came from."""
        digests: dict[str, str | None] = {"items": None, "anchors": None}
        for name, frame in self.given.items():
            text = json.dumps(frame.to_dict("list"), ensure_ascii=False, sort_keys=True)
            digests[name] = hashlib.sha256(text.encode()).hexdigest()
        return digests

    def write(self, folder: Path) -> None:
        """Write the tables to a study's folder.

        Raises:
          ValueError: the folder has another file of that name.
        """
        for name, frame in self.given.items():
            path, data = folder / f"{name}.csv", frame.to_csv(index=False).encode()
            # A study that was killed when it began has left its own.
            if path.exists() and path.read_bytes() != data:
                raise ValueError(
                    f"cannot begin a study in {folder}: {path} exists and would be replaced by the "
                    "study's own copy; choose another folder"
                )
            files.write_whole(path, data)

    def with_verdicts(self, verdicts: pd.DataFrame) -> Tables:
        """The study's tables with these verdicts."""
        if verdicts.empty:
            return self.tables
        return _read(self.settings, **self.given | {"items": self.rows}, verdicts=verdicts)

    def check_same(self, other: StudyItems, folder: Path) -> None:
        """Raise `ValueError` unless other tables are those of this study."""
        theirs = other.digests()
        for name, digest in self.digests().items():
            if theirs[name] != digest:
                tables = (study.given.get(name, pd.DataFrame()) for study in (self, other))
                mine, others = (set(map(tuple, table.to_numpy())) for table in tables)
                row = "".join(f": {row!r:.100} has changed" for row in sorted(mine ^ others)[:1])
                raise ValueError(f"{folder} holds a study of other {name}{row}")


def _read(
    settings: StudySettings,
    items: pd.DataFrame,
    anchors: pd.DataFrame | None = None,
    verdicts: pd.DataFrame | None = None,
) -> Tables:
    """The tables of a study; without verdicts, with a failed one of each judge."""
    if verdicts is None:
        pool = items[items["pool"] == items["pool"].iloc[0]] if "pool" in items else items
        names, judges = pool["item"], settings.judges
        failed = pool[:1].filter(["pool"]).assign(first=names.iloc[0], second=names.iloc[-1])
        verdicts = pd.concat([failed.assign(p_first="")] * max(len(judges), 1))
        verdicts = verdicts.assign(judge=judges) if judges else verdicts
    content = None if settings.content.lower() == "none" else settings.content
    return own_tables.read(
        verdicts, items, anchors, covariates=settings.covariates, content=content
    )
