"""What a study is, and never changes once it has begun: its settings and its items."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from jbt import acquisition
from jbt.acquisition import PanelRule
from jbt.acquisition.panel_rules import resolve
from jbt.acquisition.rules import Score, name_of
from jbt.border import files
from jbt.own.fits.pools import check_sizes
from jbt.own.tables import limits
from jbt.own.tables import tables as own_tables
from jbt.own.tables.places import Layout
from jbt.own.tables.sheets import Table, read_cells, source_of
from jbt.own.tables.tables import ANCHORS, Tables, Transform, check_names
from jbt.types import check_count, check_word

ANCHORS_AT = 1
"""Place of the trusted pairs among the judges of the model, whose first is the cheapest and whose
last is the reference."""

FREE = 1e-12
"""Price of a trusted pair, which is never asked: a price of 0 is not allowed, and any other would
count as spending."""

Orders = Literal["both", "random", "rule"]
Repeats = Literal["never", "fresh"]

COUNTS = 8
"""Arrays of counts of all ordered pairs that a study holds at its peak."""


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Settings of a study, kept in its journal."""

    k: int = 1
    """Size of the top set (count of contents)."""
    covariates: tuple[str, ...] = ()
    """Columns of the items table that may bias the judge (space-separated)."""
    transform: Transform = "none"
    """Transformation of every covariate before it is standardised."""
    standardise: bool = True
    """Centre and scale covariates over the whole items table."""
    content: str = "content"
    """Column of the items table that says which items share a quality; `none` unties them."""
    text: str = "text"
    """Column of the items table with the text to show to the judge, if it has one."""
    judges: tuple[str, ...] = ()
    """Names of the judges that can be asked, the cheapest first; none is a single judge without a
    name."""
    price: tuple[float, ...] = ()
    """Price of a verdict of each judge, in any unit (space-separated); default 1 each."""
    reference: str | None = None
    """A judge whose c and kappa are taken to be 0."""
    rule: str | acquisition.Rule | PanelRule | Score = "entropy_reduction_fresh"
    """Acquisition rule."""
    budget: int | None = None
    """Most verdicts (count); default all there are. With `repeats = fresh` there is no end to them,
    so that a budget or a purse is needed."""
    purse: float | None = None
    """Most that may be spent, in the unit of the prices."""
    orders: Orders = "both"
    """`both`: every pair is shown in both orders, which is what kappa is estimated from. `random`:
    in one order, drawn at random. `rule`: the rule chooses among ordered pairs."""
    repeats: Repeats = "never"
    """`never`: a pair is asked once in an order, as a judge with cached answers would repeat
    itself. `fresh`: it may be asked again, and answers anew."""
    refit_every: int = 1
    """R, verdicts of a pool between refits (count)."""
    level: float = 0.95
    """Stop when the top k is certain to this degree; 1 never stops for this reason."""
    least_gain: float = 0.0
    """Stop when the rest of the budget can remove less than this share of the doubt about the top
    k (`jbt.acquisition.stopping.attainable`); 0 never stops for this reason."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""
    attempts: int = 3
    """Errors after which an ordered pair is not asked again (count)."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""

    def checked(self) -> StudySettings:
        """The settings themselves.

        Raises:
          ValueError: one is out of range, or they do not fit together.
        """
        for name, kind in (("orders", Orders), ("repeats", Repeats), ("transform", Transform)):
            check_word(name, getattr(self, name), get_args(kind))
        check_word("standardise", self.standardise, (True, False))
        check_names(self.covariates)
        for name in ("k", "refit_every", "attempts", "budget"):
            if name != "budget" or self.budget is not None:
                check_count(name, getattr(self, name))
        for name in ("lam", "lam_b", "purse", "price"):
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,) * (value is not None)
            if not all(0 < v < math.inf for v in values):
                raise ValueError(f"{name} must be above 0 and finite, got {value!r}")
        if not 0 < self.level <= 1:
            raise ValueError(f"level must be above 0 and at most 1, got {self.level!r}")
        if not 0 <= self.least_gain < 1:
            raise ValueError(f"least_gain must be at least 0 and below 1, got {self.least_gain!r}")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**32):
            raise ValueError(f"seed must be a whole number from 0 to 2^32 - 1, got {self.seed!r}")
        if self.repeats == "fresh" and self.budget is None and self.purse is None:
            raise ValueError("repeats = fresh never runs out of verdicts: give a budget or a purse")
        names = [name.casefold() for name in self.judges]
        for name in self.judges:
            if names.count(name.casefold()) > 1:
                raise ValueError(f"judge {name!r} is named twice")
            if not name or name.casefold() == ANCHORS:
                raise ValueError(f"a judge cannot be called {name!r}")
        if len(self.prices) != max(len(names), 1):
            raise ValueError(
                f"price needs a number for each of {max(len(names), 1)} judges: {self.price}"
            )
        if self.reference is not None and self.reference not in self.judges:
            known = ", ".join(self.judges) or "none is named"
            raise ValueError(f"no judge {self.reference!r} (reference): judges are {known}")
        if self.reference is not None and len(names) < 2:
            raise ValueError("a reference needs another judge, whose bias it measures")
        if isinstance(resolve(self.rule), PanelRule) and len(names) < 2:
            raise ValueError(f"the rule {self.rule!r} chooses among several judges")
        return self

    @property
    def prices(self) -> tuple[float, ...]:
        """Price of a verdict of each judge."""
        return self.price or (1.0,) * max(len(self.judges), 1)

    def record(self) -> dict[str, Any]:
        """As JSON has it; a rule of the user's own by the name of its function."""
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}
        if not isinstance(rule := self.rule, str):
            function = rule.score if isinstance(rule, (acquisition.Rule, PanelRule)) else rule
            values["rule"] = f"{name_of(function)}, your own"
        return values

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> StudySettings:
        """Settings from keyword arguments or JSON: lists become tuples, judges may be a mapping
        name -> price.

        Raises:
          ValueError: an unknown name, or a value out of range.
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
        return cls(**values).checked()


@dataclass(frozen=True, eq=False)
class StudyItems:
    """The tables that a study began with, and what the model makes of them."""

    settings: StudySettings
    given: dict[str, pd.DataFrame | None]
    """The tables `items` and `anchors` as given, every cell as text."""
    rows: pd.DataFrame
    """The items, each pool's in the order of their names: what is drawn for an item does not depend
    on the order of the table."""
    tables: Tables
    """Checked, without a verdict; rows of `tables.items` are those of `rows`."""
    layout: Layout
    """`layout.x` [rows, D] are the covariates as the model uses them."""
    covariates: list[str]
    """Name of each covariate, with its transformation."""
    trusted: np.ndarray
    """[pairs, 2] rows of the better and the worse item of each trusted pair."""
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
        rows = read_cells(source_of(items, "items"), ["item"])
        labels = None if anchors is None else read_cells(source_of(anchors, "anchors"), [])
        given = {"items": rows, "anchors": labels}
        nothing = _failed_verdicts(rows, settings.judges)
        tables = _read(nothing, rows, labels, settings)
        order = tables.items.sort_values(["pool", "item"]).index.to_numpy()
        if not np.array_equal(order, np.arange(len(rows))):  # the messages are of those given
            rows = rows.iloc[order].reset_index(drop=True)
            tables = _read(nothing, rows, labels, settings)
        if not tables.members.empty:
            raise ValueError("anchors of a study must be pairs: pool, better, worse")
        x, names, _ = own_tables.covariate_values(
            tables, settings.covariates, settings.transform, settings.standardise
        )
        layout = Layout.of(tables, x)
        sizes = dict(zip(tables.pools, map(len, layout.contents), strict=True))
        check_sizes(sizes, settings.k)
        if min(sizes.values()) < 2:
            pool = next(pool for pool, size in sizes.items() if size < 2)
            raise ValueError(f"pool {pool!r} has one content: there is nothing to rank")
        trusted = tables.anchors[["better", "worse"]].to_numpy().reshape(-1, 2)
        judges, prices = list(settings.judges or (None,)), list(settings.prices)
        if len(trusted):
            judges.insert(ANCHORS_AT, ANCHORS)
            prices.insert(ANCHORS_AT, FREE)
        n_pools, largest = len(layout.sizes), int(layout.sizes.max())
        what = f"counts of {n_pools} pools of up to {largest} items and of {len(judges)} judges"
        size = 8 * COUNTS * n_pools * largest**2 * len(judges)  # padded, see `Book`
        limits.check(size, what, "begin a study for the large pools and one for the others")
        known = np.array([name in (ANCHORS, settings.reference or ANCHORS) for name in judges])
        model = tuple(judges), known, np.array(prices)
        return cls(settings, given, rows, tables, layout, names, trusted, *model)

    def digest(self) -> dict[str, str | None]:
        """SHA-256 of each table, whatever file or frame it came from."""

        def sha256(frame: pd.DataFrame) -> str:
            text = json.dumps(frame.to_dict("list"), ensure_ascii=False, sort_keys=True)
            return hashlib.sha256(text.encode()).hexdigest()

        return {k: None if frame is None else sha256(frame) for k, frame in self.given.items()}

    def write(self, folder: Path) -> None:
        """Write the tables to a study's folder.

        Raises:
          ValueError: the folder has another file of that name.
        """
        tables = {
            folder / f"{name}.csv": frame.to_csv(index=False)
            for name, frame in self.given.items()
            if frame is not None
        }
        for path, text in tables.items():
            # A study that was killed when it began has left its own.
            if path.exists() and path.read_bytes() != text.encode():
                raise ValueError(
                    f"cannot begin a study in {folder}: {path} exists and would be replaced by the "
                    "study's own copy; choose another folder"
                )
        for path, text in tables.items():
            files.write_whole(path, lambda p, t=text: p.write_bytes(t.encode()))

    def with_verdicts(self, verdicts: pd.DataFrame) -> Tables:
        """The study's tables with these verdicts."""
        if verdicts.empty:
            return self.tables
        return _read(verdicts, self.rows, self.given["anchors"], self.settings)

    def difference(self, other: StudyItems) -> str:
        """How another table of items differs from this one, in words."""
        mine, theirs = (
            {
                (study.tables.pools[pool], item)
                for pool, item in study.tables.items[["pool", "item"]].itertuples(index=False)
            }
            for study in (self, other)
        )
        for what, items in (("vanished", mine - theirs), ("is new", theirs - mine)):
            if items:
                pool, item = min(items)
                return f"item {item!r} of pool {pool!r} {what}"
        return "a cell has changed"


def _read(
    verdicts: pd.DataFrame,
    rows: pd.DataFrame,
    anchors: pd.DataFrame | None,
    settings: StudySettings,
) -> Tables:
    content = None if settings.content.lower() == "none" else settings.content
    return own_tables.read(verdicts, rows, anchors, covariates=settings.covariates, content=content)


def _failed_verdicts(rows: pd.DataFrame, judges: tuple[str, ...]) -> pd.DataFrame:
    """A table with a failed verdict of each judge, from which a study without any can be read."""
    pool = {"pool": rows["pool"].iloc[0]} if "pool" in rows else {}
    item = rows["item"][rows["pool"] == pool["pool"]] if pool else rows["item"]
    verdict = pool | {"first": item.iloc[0], "second": item.iloc[-1], "p_first": ""}
    return pd.DataFrame([verdict | {"judge": judge} for judge in judges] or [verdict])
