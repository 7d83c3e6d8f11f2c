"""What a study is: its settings, which never change once it has begun."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from jbt.acquisition import PanelRule, Rule
from jbt.acquisition.panel_rules import resolve
from jbt.acquisition.rules import Score, name_of
from jbt.own.tables.tables import ANCHORS, Transform, check_names
from jbt.types import check_count, check_word

Orders = Literal["both", "random", "rule"]
Repeats = Literal["never", "fresh"]


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
    rule: str | Rule | PanelRule | Score = "entropy_reduction_fresh"
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
        for name in ("k", "refit_every", "attempts"):
            check_count(name, getattr(self, name))
        if self.budget is not None:
            check_count("budget", self.budget)
        for name in ("lam", "lam_b"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)!r}")
        if not 0 < self.level <= 1:
            raise ValueError(f"level must be above 0 and at most 1, got {self.level!r}")
        if not 0 <= self.least_gain < 1:
            raise ValueError(f"least_gain must be at least 0 and below 1, got {self.least_gain!r}")
        if self.purse is not None and not 0 < self.purse < math.inf:
            raise ValueError(f"purse must be above 0 and finite, got {self.purse!r}")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**32):
            raise ValueError(f"seed must be a whole number from 0 to 2^32 - 1, got {self.seed!r}")
        if self.repeats == "fresh" and self.budget is None and self.purse is None:
            raise ValueError("repeats = fresh never runs out of verdicts: give a budget or a purse")
        self._check_judges()
        self.resolved_rule()
        return self

    def _check_judges(self) -> None:
        names = [name.casefold() for name in self.judges]
        for name in self.judges:
            if names.count(name.casefold()) > 1:
                raise ValueError(f"judge {name!r} is named twice")
            if not name or name.casefold() == ANCHORS:
                raise ValueError(f"a judge cannot be called {name!r}")
        if self.price and len(self.price) != max(len(self.judges), 1):
            judges = max(len(self.judges), 1)
            raise ValueError(f"price needs a number for each of {judges} judges: {self.price}")
        if any(not 0 < price < math.inf for price in self.price):
            raise ValueError(f"price must be above 0 and finite, got {self.price}")
        if self.reference is not None and self.reference not in self.judges:
            known = ", ".join(self.judges) or "none is named"
            raise ValueError(f"no judge {self.reference!r} (reference): judges are {known}")
        if self.reference is not None and len(self.judges) < 2:
            raise ValueError("a reference needs another judge, whose bias it measures")

    def resolved_rule(self) -> Rule | PanelRule:
        """The rule itself.

        Raises:
          ValueError: unknown name, or a rule for several judges where there is one.
        """
        rule = resolve(self.rule)
        if isinstance(rule, PanelRule) and len(self.judges) < 2:
            raise ValueError(f"the rule {self.rule!r} chooses among several judges")
        return rule

    @property
    def prices(self) -> tuple[float, ...]:
        """Price of a verdict of each judge."""
        return self.price or (1.0,) * max(len(self.judges), 1)

    def record(self) -> dict[str, Any]:
        """As JSON has it; a rule of the user's own by the name of its function."""
        values = dataclasses.asdict(dataclasses.replace(self, rule="random"))
        named = self.rule if isinstance(self.rule, str) else f"{own_name(self.rule)}, your own"
        values["rule"] = named
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> StudySettings:
        """Settings from keyword arguments or JSON: lists become tuples, judges may be a mapping
        name -> price.

        Raises:
          ValueError: an unknown name, or a value out of range.
        """
        fields = [f.name for f in dataclasses.fields(cls)]
        for name in given:
            if name not in fields:
                raise ValueError(f"unknown setting {name!r}: one of {', '.join(fields)}")
        values = dict(given)
        judges = values.get("judges")
        if isinstance(judges, Mapping):
            if values.get("price"):
                raise ValueError("prices stand beside the judges' names, and in price: give one")
            values |= {"judges": tuple(judges), "price": tuple(map(float, judges.values()))}
        for name in ("covariates", "judges", "price"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
            elif isinstance(values.get(name), str):
                raise ValueError(f"{name} must be a list, got {values[name]!r}")
        return cls(**values).checked()


def own_name(rule: Any) -> str:
    """Name of the function of a rule of the user's own."""
    return name_of(rule.score if isinstance(rule, (Rule, PanelRule)) else rule)
