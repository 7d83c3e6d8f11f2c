"""What the plans on simulated pools share: a plan's options are its argument, and its result is
what `--json` writes.

A plan is a dataclass. `PairingPlan(budget=500).run()` is what `jbt plan pairing --budget 500`
computes, and `report` what it prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import __version__, estimators, runtime
from jbt.border import files
from jbt.border.parsing import parse
from jbt.border.progress import steps
from jbt.border.report import Report, Section
from jbt.estimators.reference import Rankings
from jbt.experiments.declare import check_fields, check_top
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Judge, Prior, check_count, check_positive


@dataclass(frozen=True, kw_only=True)
class SimulatedPlan:
    """Options of a plan; a plan's own options inherit these, and add `pools`, those simulated."""

    NAME: ClassVar[str]
    """The command is `jbt plan NAME`."""

    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    json: Path | None = None
    """Write the plan to this file, in a folder that exists."""
    overwrite: bool = False
    """Write over this file if jbt did not make it, or it was changed since."""

    def run(self, progress: Callable[[int], Any] | None = None) -> dict[str, Any]:
        """Simulate the plan.

        Args:
          progress: see `simulate`.

        Returns:
          A dict that nests as the JSON does, with arrays.

        Raises:
          ValueError: an option out of range.
        """
        raise NotImplementedError

    def report(self, plan: Mapping[str, Any]) -> Report:
        """What `run` returned, in words."""
        raise NotImplementedError

    @classmethod
    def main(cls, argv: Sequence[str]) -> int:
        """Run `jbt plan NAME`; returns the exit code.

        Raises:
          ValueError: a wrong option, in one line, or a file that cannot be written.
        """
        options = parse(cls, argv, prog=f"jbt plan {cls.NAME}")
        files.check_writable(options.json, overwrite=options.overwrite)
        settings = {k: v for k, v in asdict(options).items() if k not in ("json", "overwrite")}
        runtime.start()
        with steps(settings["pools"], name=f"plan {cls.NAME}", unit="pool") as step:
            plan = options.run(step)
        if options.json is not None:
            content = {"settings": {**settings, "jbt": __version__}, **_plain(plan)}
            files.write_json(options.json, content, overwrite=options.overwrite)
        print(options.report(plan).text())
        return 0


def check_judged(plan: Any) -> None:
    """Check the options of a plan whose judge judges every ordered pair of a pool once."""
    check_fields(plan)
    check_count("n_items", plan.n_items, least=4)
    check_count("pools", plan.pools, least=2)
    check_top(plan.k, plan.n_items)
    check_positive("discrimination", plan.discrimination)
    pools.check_rho(plan.rho, plan.covariate)


def judged(plan: Any, key: Key[Array, ""], rho: Any) -> tuple[Comparisons, Rankings]:
    """The verdicts of such a judge on one pool, and what the naive and the bias-aware model make of
    them."""
    pool = pools.gaussian(
        stream(key, "pool"), plan.n_items, sd=plan.sd, rho=rho, covariate=plan.covariate
    )
    judge = Judge(jnp.full(1, plan.bias), plan.position, plan.discrimination)
    verdicts = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
    comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
    naive, bias_aware = (
        estimate(comparisons, pool.design, Prior(plan.lam, plan.lam_b)).parameters.theta
        for estimate in (estimators.naive, estimators.bias_aware)
    )
    return comparisons, Rankings(pool, naive, bias_aware, plan.k)


def _plain(value: Any) -> Any:
    """A plan as JSON has it: undefined and infinite numbers are null."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return files.defined(value) if isinstance(value, float | np.ndarray) else value


def lasting(sufficient: np.ndarray) -> int | None:
    """The place [T] from which on all are sufficient; None if the last is not."""
    insufficient = np.flatnonzero(~sufficient)
    first = int(insufficient[-1]) + 1 if len(insufficient) else 0
    return first if first < len(sufficient) else None


def report_of(*paragraphs: str) -> Report:
    """A report of paragraphs, which may have lines."""
    lines = [paragraph.split("\n") for paragraph in paragraphs]
    return Report("", [], [Section(first, rest) for first, *rest in lines])


def columns(head: str, names: Sequence[str], rows: Mapping[int, Sequence[str]], width: int) -> str:
    """A table: numbers below `head`, then cells of a width, all to the right."""
    lines = [(head, names), *rows.items()]
    return "\n".join(
        f"{n:>{len(head)}} " + "".join(f"{cell:>{width}}" for cell in cells) for n, cells in lines
    )
