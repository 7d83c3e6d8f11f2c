"""What the prior decides: c_hat, recall and benefit over fixed, learned and heavy-tailed priors.

The paper's appendix "Shrinkage strength" and its unbiased control, for two designs with the same
qualities and as many verdicts: each content shown once, half of them with x = 1 (unpaired), or each
content shown with x = 0 and with x = 1 (paired). No prior can resolve a direction along which the
likelihood is flat: the spread of c_hat over priors is shown beside the range of the profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability
from jbt.estimators.priors import LearnedPrior, evidence, fixed_point, horseshoe
from jbt.experiments.declare import Group, check_increasing, check_listed, check_top
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Pool, Prior, check_count

from .paired import DESIGNS, LAM, LAM_B, Profiled

LEARNED = {
    "fixed_point": "one τ² for both",
    "fixed_point_c": "τ² for c alone",
    "evidence": "by evidence",
    "horseshoe": "horseshoe",
}
"""Prior that is learned -> its name in the figure. fixed_point learns one tau^2 for c and kappa,
fixed_point_c one for c alone."""
NAMES = {
    "llama": "Llama",
    "qwen": "Qwen",
    "phi": "Phi-4",
    "coder": "Coder, prefers the terse",
    "unbiased": "unbiased",
    "unbiased_first": "unbiased, prefers the first shown",
}
"""Judge -> its name in the figure."""
TITLES = {
    ("c_hat", "unpaired"): "Each answer in one length:\nthe prior moves the estimated bias",
    ("c_hat", "paired"): "Each answer in two lengths:\nthe prior moves it less",
    ("benefit", "unpaired"): "One length: it helps with a biased judge\n"
    "and costs a little with the others",
    ("benefit", "paired"): "Two lengths: correction\nis hardly needed",
}
"""Quantity and design -> title of its panel."""
SIDES = {"c_hat": ("for elaborate", "for terse"), "benefit": ("helps", "hurts")}
"""Quantity -> what it means to lie above 0 and below it."""
STUDY = 10
"""Most pools in the paper's studies of one judge (count)."""
HORSESHOE = 1.0
"""Precision of the horseshoe's global scale (1/logit^2)."""


class Fitted(NamedTuple):
    """The prior of a fit."""

    prior: str
    lam: float
    lam_b: float
    """NaN: learned."""

    @property
    def label(self) -> str:
        known = "" if np.isnan(self.lam_b) else f", lam_b {self.lam_b:g}"
        return f"{self.prior}, lam {self.lam:g}{known}"


PAPER = Fitted("normal", LAM, LAM_B)


@dataclass(frozen=True, kw_only=True)
class PriorSensitivity(Profiled):
    """What the prior decides: c_hat, recall and benefit over fixed, learned and horseshoe
    priors."""

    name = "prior_sensitivity"
    columns = ("judge", "design", "prior", "lam", "lam_b")
    presets = {
        "smoke": {
            "pools": 8,
            "n_contents": 8,
            "k": 2,
            "budget": 56,
            "judge": ("llama", "unbiased"),
            "design": ("paired",),
        },
        "paper": {"pools": 10},
    }
    units = {"c_hat": "logits for x = 1 over x = 0", "tau2": "prior variance of c, logits^2"}
    panel_size = {"below": {"ncols": 6, "fontsize": 9}}

    design: Annotated[
        tuple[Literal["unpaired", "paired"], ...], partial(check_listed, known=DESIGNS)
    ] = DESIGNS
    """Each content shown once, or with x = 0 and with x = 1."""
    judge: Annotated[tuple[str, ...], partial(check_listed, known=[*judges.JUDGES])] = tuple(
        judges.JUDGES
    )
    """Judges: the paper's open ones, its unbiased control, and one that prefers the first shown."""
    lam: Annotated[tuple[float, ...], partial(check_increasing, needed=LAM)] = (
        0.2,
        1.0,
        5.0,
    )
    """Prior precisions of quality, 1 among them (1/logit^2)."""
    lam_b: Annotated[tuple[float, ...], partial(check_increasing, needed=LAM_B)] = (
        0.01,
        0.1,
        1.0,
        2.0,
        10.0,
    )
    """Prior precisions of c and kappa, 0.1 among them (1/logit^2)."""
    sd: float = 1.25
    """Standard deviation of quality (logits)."""
    n_contents: Annotated[int, partial(check_count, least=2)] = 30
    """Contents of a pool (count)."""
    k: int = 5
    """Size of the top set (count)."""
    budget: int = 870
    """Verdicts in either design (count): every ordered pair of 30 items once, or that many of the
    3,540 ordered pairs of 60 renderings."""

    def check(self):
        super().check()
        check_top(self.k, self.n_contents)
        most = self.n_contents * (self.n_contents - 1)
        if not 1 <= self.budget <= most:
            raise ValueError(f"budget must lie in 1..{most}, the unpaired pairs, got {self.budget}")

    @property
    def priors(self) -> list[Fitted]:
        """The prior of each fit."""
        fixed = [Fitted("normal", *both) for both in product(self.lam, self.lam_b)]
        scale = dict.fromkeys(LEARNED, np.nan) | {"horseshoe": HORSESHOE}
        return fixed + [Fitted(n, lam, scale[n]) for n, lam in product(LEARNED, self.lam)]

    def drawn(self, key: Key[Array, ""], design: str) -> Pool:
        """A pool, of the same qualities in either design."""
        if design == "paired":
            return pools.paired(key, self.n_contents, sd=self.sd)
        return pools.gaussian(key, self.n_contents, sd=self.sd, rho=0.0, covariate="binary")

    def experiment(self, key, condition, *, design):
        """One judge's verdicts in one design, fitted under every prior."""
        pool = self.drawn(stream(key, "pool"), design)
        judge = judges.of_condition(condition)
        every = pairs.every_pair(pool)
        shown = pairs.spread_evenly(stream(key, "comparisons"), every, self.budget)
        oracle = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        comparisons = judges.reveal(oracle, shown)
        lam, lam_b, learning = self.every_prior(comparisons, pool.design)

        def under(lam: Array, lam_b: Array) -> tuple[Array, Array, Array]:
            fit = estimators.bias_aware(comparisons, pool.design, Prior(lam, lam_b))
            recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, self.k)
            return fit.parameters.c[0], recall, fit.status

        c, recall, status = jax.vmap(under)(lam, lam_b)
        grid = identifiability.grid_around(c[self.priors.index(PAPER)])
        profile = identifiability.profile(comparisons, pool.design, grid)
        naive = estimators.naive(comparisons, pool.design, Prior(LAM, LAM_B))
        return {
            "c_hat": c,
            "tau2": 1 / lam_b[:, 0],
            "recall": recall,
            "naive_recall": metrics.top_k_recall(naive.parameters.theta, pool.quality, self.k),
            "profile_range": profile.range(),
            "status_map": jnp.maximum(status.max(), naive.status),
            "status_profile": profile.status.max(),
            **learning,
        }

    def every_prior(
        self, comparisons: Comparisons, design: Design
    ) -> tuple[Array, Array, dict[str, Array]]:
        """lam [priors], lam_b [priors, D + 1] in the order of `priors`, and the statuses of
        learning."""

        def learned(a: Array) -> dict[str, LearnedPrior]:
            def hierarchical(position: Array) -> LearnedPrior:
                return fixed_point(comparisons, design, Prior(a, LAM_B), position=position)

            # Vectorised, as a loop for each would take seconds to compile.
            fits = jax.vmap(hierarchical)(jnp.array([True, False]))
            shared, of_c = (jax.tree.map(lambda v, i=i: v[i], fits) for i in (0, 1))
            # Started at the fixed point, near the optimum of the evidence.
            near = Prior(a, jnp.asarray(shared.prior.lam_b)[0])
            return {
                "fixed_point": shared,
                "fixed_point_c": of_c,
                "evidence": evidence(comparisons, design, near, step=0.2, rounds=30),
                "horseshoe": horseshoe(comparisons, design, Prior(a, HORSESHOE)),
            }

        found = jax.vmap(learned)(jnp.asarray(self.lam))
        fixed = jnp.asarray([p.lam_b for p in self.priors if p.prior == "normal"])
        lam_b = [jnp.repeat(fixed[:, None], 2, 1)]
        lam_b += [jnp.asarray(found[name].prior.lam_b) for name in LEARNED]
        status = {f"status_{name}": found[name].status.max() for name in LEARNED}
        return jnp.asarray([p.lam for p in self.priors]), jnp.concatenate(lam_b), status

    def groups(self):
        axis = {"prior": [p.label for p in self.priors]}
        return [
            Group(
                design,
                partial(self.experiment, design=design),
                judges.conditions([self.growing(judges.JUDGES[name]) for name in self.judge]),
                {"judge": self.judge, "design": [design] * len(self.judge)},
                self.n_contents * (1 + (design == "paired")),
                self.pools,
                axes=dict.fromkeys(("c_hat", "tau2", "recall"), axis),
                fits=300,
            )
            for design in self.design
        ]

    def table(self, ds, t):
        along = zip(PAPER._fields, zip(*self.priors, strict=True), strict=True)
        ds = ds.assign_coords({column: ("prior", list(values)) for column, values in along})
        c, benefit = ds["c_hat"], ds["recall"] - ds["naive_recall"]
        t.means("recall", ds["naive_recall"], prior="naive", lam=LAM)
        t.means("c_hat", c)
        t.means("recall", ds["recall"])
        t.means("benefit", benefit)
        paper = self.priors.index(PAPER)
        others = [i for i, p in enumerate(self.priors) if p.lam == LAM and i != paper]
        change = benefit.isel(prior=others) - benefit.isel(prior=paper, drop=True)
        t.means("benefit_change", change, STUDY)
        learned = where(ds["tau2"], prior=[*LEARNED][:-1])
        t.means("log_tau2", np.log(learned))
        t.means("profile_range", ds["profile_range"], **PAPER._asdict())
        for prior in ("normal", *LEARNED):
            t.means("c_spread", where(c, prior=prior).reduce(np.ptp, "prior"), prior=prior)
        t.means("c_spread", c.reduce(np.ptp, "prior"), prior="all")

    def headline(self, table):
        """Rows beside the paper's numbers, ranges, spreads, learned priors at lam = 1."""
        everywhere = table.quantity.isin(["profile_range", "c_spread"])
        learned = table.prior.isin(["naive", *LEARNED]) & (table.lam == LAM)
        return table[table.paper.notna() | everywhere | learned]

    def panels(self, table):
        """c_hat and benefit of each design against lam_b at lam = 1, with learned priors at the
        right."""
        ends = {prior: max(self.lam_b) * 4 ** (i + 1) for i, prior in enumerate(LEARNED)}
        ticks = {v: f"{v:g}" for v in self.lam_b} | {ends[p]: LEARNED[p] for p in LEARNED}
        normal, learned = {"prior": "normal"}, {"prior": list(LEARNED)}
        lines = []
        for judge, colour in zip(self.judge, CYCLE, strict=False):
            of = {"judge": judge}
            lines += [
                Line(of | normal, NAMES[judge], colour, {"shade": 0.12}),
                Line(of | learned, "", colour, {"capsize": 0}, joined=False),
            ]

        def scale(quantity, ax):
            rows = where(table, quantity=quantity, lam=LAM)  # one scale for both designs
            low, high = rows.ci_low.min(), rows.ci_high.max()
            aside = 0.05 * (high - low)
            ax.set(xscale="log", ylim=(low - aside, high + aside))
            ax.set_xlim(left=min(self.lam_b) / 8)  # room for the sides
            ax.set_xticks(list(ticks), list(ticks.values()), rotation=60, ha="right", fontsize=8)
            ax.minorticks_off()

        x = r"prior precision of the biases, $\lambda_b$ (1/logit$^2$); right: learned"
        y = {
            "c_hat": r"estimated bias $\hat c$, logits (95 % over pools)",
            "benefit": f"share of the top {self.k} found: with\ncorrection minus without (95 %)",
        }
        return [
            Panel(
                lambda rows: rows.prior.map(ends).fillna(rows.lam_b),
                {"quantity": quantity, "design": design, "lam": LAM},
                lines,
                (x, label, TITLES[quantity, design]),
                level=0.0,
                sides=SIDES[quantity],
                sides_end="left",
                after=partial(scale, quantity),
            )
            for (quantity, label), design in product(y.items(), self.design)
        ]


SWEEP = PriorSensitivity

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
