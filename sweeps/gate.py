"""The trusted-anchor gate: whether to switch the correction on, decided from a few trusted labels.
The paper's table for every rule and kind of label, its guarantees, and the labels needed for power.

    pairs      any two contents, the paper's labels
    disputed   pairs that the naive and the bias-aware ranking order differently
    swaps      disputed pairs of a content in one top k alone and one in the other alone
    members    the contents of swaps, each alone: is it one of the truly best k?

The paper does not say how its legitimate pools are made; `--legitimate` has two readings.
`correlation`: the covariate that sways the judge goes with quality. `covariate`: the verdicts are
those of the spurious pools, swayed by style, and the correction is for another covariate, which
goes with quality.

Here pools are classed by the effect of the correction: `agreement_harmed` if bias-aware is right on
at most half of the untied pairs that the two rankings order differently, `recall_harmed` if recall
is not higher with it, `helped` if it is. Classes overlap: recall may be unchanged and pairs ordered
better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Key

from jbt import gate, twins
from jbt.experiments.declare import Group, Sweep, cases, check_increasing, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import RHO_LABEL, Line, Panel
from jbt.experiments.table import Table
from jbt.gate import LABELS, Noise, Rules
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, stream
from jbt.types import Design, Pool, check_count

from ._shared import gate_rows
from ._shared.gate_rows import HARMED, TESTS
from ._shared.judge import BANK
from ._shared.rankings import both_rankings
from ._shared.scenario import Correlated, VaryingBias

NOISES = ("fresh", "stored")
"""Kinds of wrong labels, see `jbt.gate.Noise`; tried for the first judge."""
WRONG = 0.1
"""Probability that a label is wrong, where some are."""
MANY_SETS = 8
"""Label sets drawn for each pool with many labels (count)."""
ALL = "all"
"""Name of all judges together in the table."""
CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""Correlations of quality and the covariate that sways the judge."""
KINDS = {
    "pairs": ("any pair", "blue"),
    "disputed": ("disputed pairs", "orange"),
    "swaps": ("one item of each top k", "green"),
    "members": ("single items", "vermilion"),
}
"""Kind of label -> its name and colour in the figure, where it stands for the sign test."""


class Cell(NamedTuple):
    """A condition."""

    judge: str
    rho: float
    noise_kind: str
    noise: float


@dataclass(frozen=True, kw_only=True)
class Gate(Correlated, VaryingBias, Sweep):
    """The gate: when do trusted labels switch the correction on, with what guarantee?"""

    name = "gate"
    shown = ("labels_needed",)
    columns = (
        "rule",
        "labels",
        "n_anchors",
        "judge",
        "rho",
        "pool_class",
        "noise_kind",
        "noise",
    )
    presets = {
        "smoke": {
            "pools": 16,
            "n_items": 10,
            "k": 2,
            "rho": (0.0, 0.6),
            "judge": ("llama", "qwen"),
            "n_anchors": (5, 10, 20),
            "sets": 20,
            "many": (45,),
        },
        "paper": {"pools": 12},  # 60 pools of five judges
    }
    units = {
        "noise": "share of labels",
        "n_anchors": "labels (members: draws)",
        "many": "labels (members: draws)",
        "rate": "share of label sets",
        "right": "disputed untied pairs",
        "wrong": "disputed untied pairs",
        "member": "1 (chance of a draw)",
    }
    panel_size = {"below": {"ncols": 3, "fontsize": 9}}

    pools: int = 1000
    pool: str = "gaussian"
    """Kind of pool, one of `jbt.simulation.pools.POOLS`. With statement_bank the judges are twins
    of the paper's (`jbt.twins`), and quality is the number of statements, whatever --sd; with
    --legitimate covariate their --max-correlation is by default the paper's 0.12."""
    covariate: pools.CovariateKind = "binary"  # as the paper's elaboration
    legitimate: Literal["correlation", "covariate"] = "correlation"
    """What pools are at rho above 0. correlation: the covariate that sways the judge correlates
    with quality. covariate: the verdicts are those at rho = 0, and the correction is for another,
    continuous covariate with that correlation."""
    rho: tuple[float, ...] = ()
    """Population correlations of quality and the covariate that is corrected for, increasing. By
    default 0 to 0.7; with --legitimate covariate 0 and 0.79."""
    judge: tuple[str, ...] = tuple(judges.GATED)
    """Judges: with --pool statement_bank any that has a twin, else those of
    `jbt.simulation.judges.GATED`."""
    n_anchors: tuple[int, ...] = (5, 10, 20, 40, 60)
    """Numbers of trusted labels, increasing; for members, draws."""
    sets: Annotated[int, check_count] = 100
    """Number of label sets drawn for each pool."""
    many: tuple[int, ...] = (120, 180, 240, 320, 435)
    """Larger numbers of trusted labels, increasing, to find how many a given power takes."""

    def decided(self):
        default = (0.0, 0.79) if self.legitimate == "covariate" else CORRELATIONS
        return replace(self, rho=self.rho or default)

    def check(self):
        super().check()
        if self.legitimate == "covariate":
            self.check_pools()
            pools.check_rho(self.rho, "continuous")
            check_increasing("rho", self.rho, least=0, needed=0.0)
        else:
            self.check_grid()
        known = twins.known() if self.pool == BANK else judges.GATED
        check_listed("judge", self.judge, list(known))
        n_pairs = self.n_items * (self.n_items - 1) // 2
        check_increasing("n_anchors", self.n_anchors, least=1, most=n_pairs)
        check_increasing("many", self.many, least=self.n_anchors[-1] + 1, most=n_pairs)

    @property
    def rules(self) -> Rules:
        """Rules tried at each of `n_anchors`."""
        return Rules(self.n_anchors, sets=self.sets)

    @property
    def cells(self) -> list[Cell]:
        """Every judge with true labels, then the first judge with wrong ones."""
        true = product(self.judge, self.rho, ("none",), (0.0,))
        wrong = product(self.judge[:1], self.rho, NOISES, (WRONG,))
        return [Cell(*cell) for cell in (*true, *wrong)]

    # --- one pool

    def experiment(self, key, condition):
        """Every ordered pair judged once, two rankings, label sets of every kind, all rules."""
        pool = self.drawn(key, condition)
        verdicts = twins.answers(key, pool, condition)
        comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
        if self.legitimate == "covariate":
            pool = with_another_covariate(key, pool, condition)
        rankings, out = both_rankings(pool, comparisons, self.prior, self.k)
        noise = Noise(*(condition[kind] for kind in NOISES))
        out |= vars(gate.trial(stream(key, "labels"), rankings, self.rules, noise))
        many = gate.trial(
            stream(key, "many labels"), rankings, Rules(self.many, sets=MANY_SETS), noise
        )
        return out | {
            "many_enable_rate": many.enable_rate,
            "many_labels_used": many.labels_used,
        }

    def drawn(self, key: Key[Array, ""], condition: Condition) -> Pool:
        """The pool with the covariate that sways the judge."""
        bound = self.max_correlation
        if self.legitimate == "covariate":
            condition = condition | {"rho": jnp.zeros(())}
            bound = bound or twins.MAX_CORRELATION
        if self.pool != BANK:
            return self.draw(key, condition, self.covariate)
        return pools.statement_bank(
            stream(key, "pool"),
            self.n_items,
            self.k,
            rho=condition["rho"],
            covariate=self.covariate,
            max_correlation=bound,
        )

    def groups(self):
        """One group: all conditions share shapes and rules."""
        cells = self.cells
        if self.pool == BANK:
            of_judge = twins.conditions([twins.twin(c.judge) for c in cells])
        else:
            of_judge = judges.conditions([judges.GATED[c.judge] for c in cells])
            of_judge |= dict.fromkeys(("pair_noise", "argmax"), np.zeros(len(cells)))
        of_judge["interaction"] = of_judge["interaction"] + self.interaction
        noises = {kind: lambda c, kind=kind: c.noise * (c.noise_kind == kind) for kind in NOISES}
        conditions = cases(cells, **noises)
        conditions["conditions"] |= of_judge
        of_rules = {"labels": LABELS, "rule": [name for name, _ in self.rules.names]}
        axes = {
            prefix + metric: of_rules | {name: getattr(self, name)}
            for prefix, name in (("", "n_anchors"), ("many_", "many"))
            for metric in ("enable_rate", "labels_used")
        }
        return [
            Group(
                "gate",
                self.experiment,
                **conditions,
                n_items=self.n_items,
                pools=self.pools,
                axes=axes,
                fits=20,
            )
        ]

    # --- from the saved results

    def table(self, ds, t):
        for rho in self.rho:
            part = where(ds, noise_kind="none", rho=rho).swap_dims(condition="judge")
            part = part.drop_vars(["noise_kind", "noise", "rho"])
            naive, aware = part["naive_recall"], part["bias_aware_recall"]
            raised = (aware - naive).mean("pool") > 0
            recalls = {
                "naive_recall": naive,
                "bias_aware_recall": aware,
                # Perfect choices: for every judge, and in each pool.
                "oracle_recall": xr.where(raised, aware, naive),
                "best_recall": np.maximum(naive, aware),
            }
            for name, recall in recalls.items():
                gate_rows.add_means(t, name, recall, judge=ALL, rho=rho, pool_class=ALL)
            self.add_consequences(part, t, judge=ALL, rho=rho)
            for judge in self.judge:
                add_tests(part.sel(judge=[judge]), t, judge=judge, rho=rho)
            gate_rows.add_power(t, part, judge=ALL, rho=rho, pool_class="helped")
        for cell in self.cells:
            if cell.noise_kind != "none":
                part = where(ds, **cell._asdict()).swap_dims(condition="judge")
                add_tests(part.drop_vars(Cell._fields), t, **cell._asdict())

    def add_consequences(self, part: xr.Dataset, t: Table, **columns: Any) -> None:
        """Add each rule's enable rate over all judges at a correlation, and what it leads to."""
        naive = part["naive_recall"]
        gain = part["bias_aware_recall"] - naive
        deciders = (
            (part["enable_rate"], part["labels_used"], {}),
            (part["census_rate"], part["census_used"], {"labels": "members", "rule": "census"}),
        )
        everywhere, row = xr.ones_like(naive, dtype=float), {**columns, "pool_class": ALL}
        for enable, used, decider in deciders:
            gate_rows.add_rates(t, enable, everywhere, **row, **decider)
            gate_rows.add_means(t, "gated_recall", naive + enable * gain, **row, **decider)
            gate_rows.add_means(t, "labels_used", used, **row, **decider)
        if columns["rho"] == self.rho[-1] > 0:
            of_pairs = part["enable_rate"].sel(labels=["pairs"])
            gate_rows.add_study_counts(t, of_pairs, self.sets, **row)

    def panels(self, table):
        """Enable rates and recall along rho."""
        n = self.n_anchors[len(self.n_anchors) // 2]
        everyone = {"judge": ALL, "pool_class": "all"}

        def signs(quantity: str) -> list[Line]:
            of_test = {"quantity": quantity, "rule": "sign", "n_anchors": n}
            return [Line({**of_test, "labels": kind}, *KINDS[kind]) for kind in LABELS]

        papers = {"quantity": "enable_rate", "rule": "at_least", "n_anchors": n, "labels": "pairs"}
        recalls = [
            Line({"quantity": "naive_recall"}, "never corrected", "black", {"linestyle": ":"}),
            Line({"quantity": "bias_aware_recall"}, "always corrected", "black"),
            Line({"quantity": "best_recall"}, "the better of both, in each pool", "purple"),
        ]
        return [
            Panel(
                "rho",
                everyone,
                [
                    *signs("enable_rate"),
                    Line(papers, "any pair, the paper's rule", "blue", {"linestyle": "--"}),
                ],
                (
                    RHO_LABEL,
                    "share of pools that are corrected\n(bands: 95 % over pools)",
                    f"The stronger the correlation, the more\nrarely {n} labels allow correction",
                ),
            ),
            Panel(
                "rho",
                everyone,
                [*recalls, *signs("gated_recall")],
                (
                    RHO_LABEL,
                    f"share of the true top {self.k} found\n(bands: 95 % over pools)",
                    f"{n} labels of single items come\nnearest to the best choice",
                ),
            ),
        ]


def add_tests(part: xr.Dataset, t: Table, **columns: Any) -> None:
    """Add how often the tests enable the correction in pools that it harms."""
    tests = part.sel(rule=[*TESTS])
    members = gate_rows.classes(tests)
    for name in HARMED:
        gate_rows.add_rates(t, tests["enable_rate"], members[name], pool_class=name, **columns)


def with_another_covariate(key: Key[Array, ""], pool: Pool, condition: Condition) -> Pool:
    """The pool with a continuous covariate in the place of the judge's, which goes with quality; at
    rho = 0 the pool as it is."""
    score = (pool.quality - pool.quality.mean()) / pool.quality.std()
    rho, d = condition["rho"], pool.design
    another = pools.with_covariates(stream(key, "legitimate"), pool.quality, score, rho=rho)
    x = jnp.where(rho > 0, another.design.covariates, d.covariates)
    return Pool(pool.quality, Design(x, d.content, d.item_mask, d.n_contents))


SWEEP = Gate

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
