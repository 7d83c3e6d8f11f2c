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
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, identifiability
from jbt.estimators.priors import LearnedPrior, fixed_point, horseshoe
from jbt.experiments.declare import Group, check_listed, check_top
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Pool, Prior, check_count

from .paired import DESIGNS, LAM, LAM_B, Profiled

LAMS = (0.2, LAM, 5.0)
"""Prior precisions of quality (1/logit^2)."""
LAM_BS = (0.01, LAM_B, 1.0, 2.0, 10.0)
"""Prior precisions of c and kappa (1/logit^2)."""
LEARNED = ("fixed_point", "fixed_point_c", "horseshoe")
"""Priors that are learned: fixed_point learns one tau^2 for c and kappa, fixed_point_c one for c
alone."""
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
    "unpaired": "Each answer in one length:\nthe prior moves the estimated bias",
    "paired": "Each answer in two lengths:\nthe prior moves it less",
}
"""Design -> title of its panel."""
HORSESHOE = 1.0
"""Precision of the horseshoe's global scale (1/logit^2)."""


class Fitted(NamedTuple):
    """The prior of a fit."""

    prior: str
    lam: float
    lam_b: float
    """NaN: learned."""


FIXED = [Fitted("normal", *both) for both in product(LAMS, LAM_BS)]
PRIORS = FIXED + [
    Fitted(name, lam, HORSESHOE if name == "horseshoe" else np.nan)
    for name, lam in product(LEARNED, LAMS)
]
"""The prior of each fit."""
PAPER = Fitted("normal", LAM, LAM_B)


@dataclass(frozen=True, kw_only=True)
class PriorSensitivity(Profiled):
    """What the prior decides: c_hat, recall and benefit over fixed, learned and horseshoe
    priors."""

    name = "prior_sensitivity"
    shown = ("profile_range", "c_spread", "log_tau2")
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
    panel_size = {"below": {"ncols": 3, "fontsize": 9}}

    design: Annotated[tuple[str, ...], partial(check_listed, known=DESIGNS)] = DESIGNS
    """Each content shown once, or with x = 0 and with x = 1."""
    judge: Annotated[tuple[str, ...], partial(check_listed, known=[*judges.JUDGES])] = tuple(
        judges.JUDGES
    )
    """Judges: the paper's open ones, its unbiased control, and one that prefers the first shown."""
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
        check_count("budget", self.budget, least=1, most=most)

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
        grid = identifiability.grid_around(c[PRIORS.index(PAPER)])
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
        """lam [priors], lam_b [priors, D + 1] in the order of `PRIORS`, and the statuses of
        learning."""

        def learned(a: Array) -> dict[str, LearnedPrior]:
            prior = Prior(a, LAM_B)
            return {
                "fixed_point": fixed_point(comparisons, design, prior, position=True),
                "fixed_point_c": fixed_point(comparisons, design, prior, position=False),
                "horseshoe": horseshoe(comparisons, design, Prior(a, HORSESHOE)),
            }

        found = jax.vmap(learned)(jnp.asarray(LAMS))
        fixed = jnp.asarray([p.lam_b for p in FIXED])
        lam_b = [jnp.repeat(fixed[:, None], 2, 1)]
        lam_b += [jnp.asarray(found[name].prior.lam_b) for name in LEARNED]
        status = {f"status_{name}": found[name].status.max() for name in LEARNED}
        return jnp.asarray([p.lam for p in PRIORS]), jnp.concatenate(lam_b), status

    def groups(self):
        axis = {"prior": [f"{p.prior}, lam {p.lam:g}, lam_b {p.lam_b:g}" for p in PRIORS]}
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
        along = zip(PAPER._fields, zip(*PRIORS, strict=True), strict=True)
        ds = ds.assign_coords({column: ("prior", list(values)) for column, values in along})
        c, benefit = ds["c_hat"], ds["recall"] - ds["naive_recall"]
        t.means("recall", ds["naive_recall"], prior="naive", lam=LAM)
        t.means("c_hat", c)
        t.means("recall", ds["recall"])
        t.means("benefit", benefit)
        paper = PRIORS.index(PAPER)
        others = [i for i, p in enumerate(PRIORS) if p.lam == LAM and i != paper]
        change = benefit.isel(prior=others) - benefit.isel(prior=paper, drop=True)
        t.means("benefit_change", change)
        learned = where(ds["tau2"], prior=LEARNED[:-1])
        t.means("log_tau2", np.log(learned))
        t.means("profile_range", ds["profile_range"], **PAPER._asdict())
        t.means("c_spread", c.reduce(np.ptp, "prior"), prior="all")

    def panels(self, table):
        """c_hat of each design against lam_b at lam = 1."""
        return [
            Panel(
                "lam_b",
                {"quantity": "c_hat", "design": design, "prior": "normal", "lam": LAM},
                [
                    Line({"judge": judge}, NAMES[judge], colour)
                    for judge, colour in zip(self.judge, CYCLE, strict=False)
                ],
                (
                    r"prior precision of the biases, $\lambda_b$ (1/logit$^2$)",
                    "estimated bias $\\hat c$ for elaborate\nanswers, logits (95 % over pools)",
                    TITLES[design],
                ),
                level=0.0,
                log="x",
            )
            for design in self.design
        ]


SWEEP = PriorSensitivity

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
