"""What the plans on simulated pools share: a plan's options are its argument, and its result is
what `--json` writes.

A plan is a dataclass. `PairingPlan(budget=500).run()` is what `jbt plan pairing --budget 500`
computes, and `report` what it prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Array, Key

from jbt import __version__, estimators, runtime
from jbt.border import files
from jbt.border.inputs import parse
from jbt.border.report import Report, Section, with_interval
from jbt.border.terminal import steps
from jbt.estimators.reference import Rankings
from jbt.experiments.declare import check_fields, check_top
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Judge, Prior, check_count, check_positive

WIDTHS = ("half_width", "half_width_5_percent", "half_width_95_percent")

MOST_SHOWN = 30
"""Most rows of a table (count)."""


@dataclass(frozen=True, kw_only=True)
class SimulatedPlan:
    """Options of a plan; a plan's own options inherit these, and add `pools`, those simulated.

    A plan has the methods:
      run(progress): simulate the plan. Returns a dict that nests as the JSON does, with arrays.
        Raises `ValueError` for an option out of range. `progress`: see `simulate`.
      enough(columns): the place in `numbers` [T] of what is enough by these columns of the dict;
        None if nothing is.
      parts(plan): what was asked, what the table of it shows, and its columns [T] by kind.
      answer(columns, t), cell(columns, t): the text for what is enough, and of a cell of the table.
      notes(plan): what the words of the report mean.
    """

    NAME: ClassVar[str]
    """The command is `jbt plan NAME`."""
    COUNT: ClassVar[str]
    """What it plans the number of, such as n_labels."""

    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    json: Path | None = None
    """Write the plan to this file, in a folder that exists."""
    overwrite: bool = False
    """Replace this file even if jbt did not make it, or if it was changed since."""
    bias: float = 1.0
    """Bias c* that you expect of the judge (logits per unit of the covariate)."""
    position: float = 0.0
    """Position bias kappa* of the judge (logits in favour of the item shown first)."""
    discrimination: float = 1.0
    """Factor on quality in the judge's logits."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    rho: float = 0.0
    """Correlation of quality and covariate over the contents as they come."""
    k: int = 5
    """Size of the top k."""

    @property
    def judge(self) -> Judge:
        """The judge expected."""
        return Judge.of(self.bias, self.position, self.discrimination)

    @property
    def numbers(self) -> list[int]:
        """[T] tried, increasing."""
        return list(getattr(self, self.COUNT))

    def with_smallest(self: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns, after the smallest number that is enough."""
        t = self.enough(columns)
        return {f"smallest_{self.COUNT}": None if t is None else self.numbers[t], **columns}

    def by_kind(self, kinds: Iterable[str], columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns [kinds, T] by kind, each after its smallest number."""
        return {
            kind: self.with_smallest({name: values[i] for name, values in columns.items()})
            for i, kind in enumerate(kinds)
        }

    def cell(self, columns: Mapping[str, Any], t: int) -> str:
        """The half-width at a place [T], with the central 90 % of pools."""
        middle, low, high = (columns[name][t] for name in WIDTHS)
        return with_interval(middle, low, high, ".3g")

    def report(self: Any, plan: Mapping[str, Any]) -> Report:
        """What `run` returned, in words: the answers, then a row for each number tried, of many for
        some of them."""
        answers, tables, places = [], [], range(len(self.numbers))
        for goal, head, kinds in self.parts(plan):
            lines = [
                f"  {k + ':':10} {self.answer(of, self.enough(of))}" for k, of in kinds.items()
            ]
            answers.append(Section(f"{goal}:", lines))
            cells = {kind: [self.cell(of, t) for t in places] for kind, of in kinds.items()}
            table = pd.DataFrame({self.COUNT: self.numbers, **cells})
            shown = np.linspace(0, len(table) - 1, min(len(table), MOST_SHOWN)).round().astype(int)
            enough = [place for of in kinds.values() if (place := self.enough(of)) is not None]
            tables.append(Section(head, table=table.iloc[np.union1d(shown, enough).astype(int)]))
        return Report("", [], [*answers, *tables, Section("Notes", self.notes(plan))])

    @classmethod
    def main(cls, argv: Sequence[str]) -> int:
        """Run `jbt plan NAME`; returns the exit code.

        Raises:
          ValueError: a wrong option, in one line, or a file that cannot be written.
        """
        options: Any = parse(cls, argv, prog=f"jbt plan {cls.NAME}")
        files.check_writable(options.json, overwrite=options.overwrite)
        settings = {k: v for k, v in asdict(options).items() if k not in ("json", "overwrite")}
        runtime.start()
        with steps(settings["pools"], name=f"plan {cls.NAME}", unit="pool") as step:
            plan = options.run(step)
        if options.json is not None:
            content = {"settings": {**settings, "jbt": __version__}, **plan}
            files.write_json(options.json, content, overwrite=options.overwrite)
        options.report(plan).show()
        return 0


@dataclass(frozen=True, kw_only=True)
class JudgedPlan(SimulatedPlan):
    """Options of a plan whose judge judges every ordered pair of a pool once."""

    n_items: int = 30
    """Number of items of a pool."""
    covariate: pools.CovariateKind = "continuous"
    """continuous: Gaussian, variance 1. binary: 1 for the upper half of a latent, else 0."""
    lam: float = 1.0
    """Prior precision of quality in the fits (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa in the fits (1/logit^2)."""

    def check(self) -> None:
        """Raise `ValueError` for an option out of range."""
        check_fields(self)
        check_count("n_items", self.n_items, least=4)
        check_count("pools", self.pools, least=2)  # type: ignore[attr-defined]
        check_top(self.k, self.n_items)
        check_positive("discrimination", self.discrimination)
        pools.check_rho(self.rho, self.covariate)

    def judged(self, key: Key[Array, ""], rho: Any) -> tuple[Comparisons, Rankings]:
        """The verdicts of the judge on one pool, and what the naive and the bias-aware model make
        of them."""
        options = {"sd": self.sd, "rho": rho, "covariate": self.covariate}
        pool = pools.gaussian(stream(key, "pool"), self.n_items, **options)
        verdicts = judges.frozen_draw(stream(key, "verdicts"), pool, self.judge)
        comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
        naive, bias_aware = (
            estimate(comparisons, pool.design, Prior(self.lam, self.lam_b)).parameters.theta
            for estimate in (estimators.naive, estimators.bias_aware)
        )
        return comparisons, Rankings(pool, naive, bias_aware, self.k)


def lasting(sufficient: np.ndarray) -> int | None:
    """The place [T] from which on all are sufficient; None if the last is not."""
    first = int(np.flatnonzero(np.r_[True, ~sufficient])[-1])
    return first if first < len(sufficient) else None
