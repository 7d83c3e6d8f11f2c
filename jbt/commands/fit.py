"""The command `jbt fit`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import jbt
from jbt import own
from jbt.commands.options import JointOptions
from jbt.own.choices import Missing


@dataclass(frozen=True, kw_only=True)
class FitOptions(JointOptions):
    """Rank the items of every pool for every judge, with the naive and the bias-aware
    model (MAP, float64)."""

    lam: float | None = None
    """Prior precision of quality (1/logit^2). By default the standard deviation of quality is
    estimated for each judge from all pools."""
    k: int = 1
    """Size of the top k in which naive and bias-aware are compared."""
    missing: Missing = "drop"
    """Missing verdicts are left out (drop). With bounds, c is also estimated as if the item with
    more of the covariate had won all of them, and as if the other had."""
    one_comparison: bool = False
    """Also estimate c on one comparison, and how much quality and c vary (whatever --lam), by a fit
    with random effects: of each judge, and of all together with --joint. No verdict may be a tie
    or graded."""
    per_pool: bool = False
    """Print the ranking of each pool."""
    discrimination: tuple[str, ...] = ()
    """In a joint fit, known factors on quality in the judges' logits, as NAME=NUMBER
    (space-separated). The others are estimated if there are anchors or a reference, and are 1
    otherwise."""

    def factors(self) -> dict[str, float]:
        """`discrimination` by judge.

        Raises:
          ValueError: a word is not NAME=NUMBER, or names a judge again; --joint is missing.
        """
        from jbt.experiments.declare import check_number
        from jbt.own.tables.outcomes import NUMBER

        if self.discrimination and not self.joint:
            raise ValueError("--discrimination needs a joint fit: add --joint")
        factors = {}
        for word in self.discrimination:
            name, _, number = word.rpartition("=")
            if not name or not NUMBER.fullmatch(number):
                raise ValueError(f"--discrimination is {word!r}, allowed: NAME=NUMBER")
            check_number("discrimination", float(number))
            if name in factors:
                raise ValueError(f"--discrimination names {name!r} twice")
            factors[name] = float(number)
        return factors


def main(argv: Sequence[str]) -> int:
    """Run `jbt fit` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = FitOptions.parse(argv, "fit")
    from jbt.own.fits.pools import check_k

    prior = options.prior()
    jbt.runtime.start()
    tables = options.read()
    panel = options.together(tables, options.factors())
    batch = options.batch(tables)
    check_k(batch, options.k)
    options.announce(tables)
    joint = None if panel is None else (options.batch(panel[0]), panel[1])
    asked = {"k": options.k, "prior": prior, "missing": options.missing}
    asked["one_comparison"] = options.one_comparison
    analysis = own.analyse(batch, **asked, spread=options.lam is None, joint=joint)
    lam = "estimated" if options.lam is None else f"{options.lam:g}"
    fits = (
        f"{len(batch.pools)} fits: {len(tables.pools)} pools x {len(tables.judges)} judges, "
        f"MAP with lam {lam}, lam_b {options.lam_b:g}, float64"
    )
    title, lead = f"Fit of {options.verdicts.name}", [*options.lead(tables), fits]
    options.give(analysis, title, lead, per_pool=options.per_pool)
    if any(p.repeated for p in batch.pools):
        print(
            "warning: some ordered pairs were judged more than once, and the repeats are treated "
            "as independent verdicts; a judge that repeats itself looks certain",
            file=sys.stderr,
        )
    return 0
