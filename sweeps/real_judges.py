"""Three LLM judges on 80 open questions answered by five models, with the human majority.

Each judge compared every ordered pair of a question's five answers once. The same verdicts are
analysed twice: item by item, with a quality for every answer, and tied, with one quality for all
answers of a model. Tied fits leave the question out: its answers are corrected, and its models
ranked, by the verdicts on the *other* questions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import estimators, identifiability, stats
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.plots import CYCLE, Line, Panel
from jbt.kernel import metrics
from jbt.types import Comparisons, Design, Fit, Prior, Rows, Verdicts

from ._shared.recorded import Answers, read
from ._shared.scenario import MapPrior

ITEM_MODELS = ("naive", "bias_known")
"""bias_known: item by item, with c from the tied fit to the other questions."""
TIED_MODELS = ("naive", "bias_aware")

AGREEMENTS = {
    "item naive": "answer\nby answer",
    "item bias_known": "answer by\nanswer,\ncorrected",
    "tied naive": "model\nby model",
    "tied bias_aware": "model by\nmodel,\ncorrected",
}
"""Design and model -> label in the figure."""


@dataclass(frozen=True, kw_only=True)
class RealJudges(MapPrior, RecordedSweep):
    """Biases of three real judges, item by item and tied, compared with human labels."""

    name = "real_judges"
    data_name = "prd"
    columns = ("judge", "design", "model")
    index = "judge"
    presets = {"smoke": {"pools": 8}, "paper": {}}
    units = {
        "c": "logits per e-fold of 1 + words",
        "profile_range_tied": "log-likelihood (without the question)",
    }

    def groups(self):
        recorded = read(self, ("words",))
        n_judges, n_pools = len(recorded.judges), len(recorded.pools)
        return [
            Group(
                "questions",
                partial(self.experiment, recorded),
                {"judge": np.arange(n_judges)},
                {"judge": recorded.judges},
                n_items=recorded.answers.mask.shape[1],
                pools=n_pools,
                axes={
                    "agreement": {"model": ITEM_MODELS},
                    "agreement_tied": {"model_tied": TIED_MODELS},
                },
                fits=60,
                data=recorded.answers,
                pool_labels={"question": recorded.pools},
            )
        ]

    def experiment(self, recorded, key, condition, question):
        """One question and judge."""
        judge, better = condition["judge"], question.better
        verdicts = Comparisons(question.shown[judge], question.wins[judge])
        n_items = len(question.mask)
        design = Design(jnp.log1p(question.covariates), None, question.mask, n_items)
        (naive, _), evidence = analysis(verdicts, design, self.prior)

        rows, of = rows_of_all(recorded.answers)
        elsewhere = jnp.asarray(of) != question.number
        counts = {name: getattr(rows, name)[:, judge] * elsewhere for name in ("shown", "wins")}
        others = dataclasses.replace(rows, **counts)
        models = Design.of_contents(len(recorded.contents), 1)
        tied, evidence_tied = analysis(others, models, self.prior)
        known = estimators.with_bias(verdicts, design, self.prior, tied[1].parameters.c)

        def agreement(quality: Float[Array, " N"]) -> Float[Array, ""]:
            return agreement_with(better, quality[:, None] - quality)

        def agreements(*qualities: Float[Array, " N"]) -> Float[Array, " F"]:
            return jax.vmap(agreement)(jnp.stack(qualities))

        won = verdicts.wins + (verdicts.shown - verdicts.wins).T
        words = question.covariates[:, 0]
        longer = (1 + jnp.sign(words[:, None] - words)) / 2
        labelled = better | better.T
        return {
            **evidence,
            **{f"{name}_tied": value for name, value in evidence_tied.items()},
            "agreement": agreements(naive.parameters.theta, known.parameters.theta),
            "agreement_tied": agreements(*(fit.parameters.theta[question.content] for fit in tied)),
            "humans_prefer_longer": agreement(words),
            "judge_prefers_longer": (labelled * longer * won).sum() / (labelled * won).sum(),
            "status_known": known.status,
        }

    def table(self, ds, t):
        for quantity in ("humans_prefer_longer", "judge_prefers_longer"):
            t.means(quantity, ds[quantity])
        t.means("c", ds["c"], model="bias_aware", design="item")
        for judge in ds["judge"].values:
            one, n, row = ds.sel(judge=judge), ds.sizes["pool"], {"judge": judge}
            most = float(one["profile_range"].max())
            t.add("profile_range_max", most, design="item", **row)
            row |= {"model": "bias_aware", "design": "tied"}
            mean, *interval = stats.jackknife_interval(one["c_tied"].values)
            t.add("c", mean, interval, n, **row)
            t.add("profile_range", float(one["profile_range_tied"].mean()), n_pools=n - 1, **row)
        designs = {"item": ds["agreement"], "tied": ds["agreement_tied"].rename(model_tied="model")}
        for design, agreement in designs.items():
            t.means("agreement", agreement, design=design)
            gain = agreement[{"model": [1]}] - agreement.sel(model="naive", drop=True)
            t.means("gain", gain.transpose("model", ...), design=design)

    def panels(self, table):
        lines = [
            Line({"judge": judge}, judge, CYCLE[j % len(CYCLE)])
            for j, judge in enumerate(table.judge.dropna().unique())
        ]
        return [
            Panel(
                "fit",
                {"quantity": "agreement"},
                lines,
                (
                    "agreement with humans (bars: 95 %)",
                    "",
                    "Corrected, they agree less with humans",
                ),
                names=list(AGREEMENTS.values()),
                table=table.assign(fit=(table.design + " " + table.model).map(AGREEMENTS)),
            )
        ]


def analysis(
    verdicts: Verdicts, design: Design, prior: Prior
) -> tuple[list[Fit], dict[str, Float[Array, ""]]]:
    """The fits of `TIED_MODELS`, and the evidence of the verdicts about c."""
    fits = [estimators.ESTIMATORS[name](verdicts, design, prior) for name in TIED_MODELS]
    c = fits[1].parameters.c[0]
    profile = identifiability.profile(verdicts, design, identifiability.grid_around(c))
    return fits, {
        "c": c,
        "profile_range": profile.range(),
        "status": jnp.maximum(*(fit.status for fit in fits)),
        "status_profile": profile.status.max(),
    }


def agreement_with(better: Float[Array, "N N"], margin: Float[Array, "N N"]) -> Float[Array, ""]:
    """Share of the pairs [i, j] labelled `better` whose margin of i over j is positive; a margin of
    0, up to rounding, counts half. NaN without labels."""
    credit = jnp.where(margin > metrics.TIED, 1.0, jnp.where(margin >= -metrics.TIED, 0.5, 0.0))
    return jnp.where(better, credit, 0).sum() / better.sum()


def rows_of_all(answers: Answers) -> tuple[Rows, np.ndarray]:
    """Ordered pairs of all questions as rows that compare contents, shown and wins [R, judges]; and
    the number of each row's question [R]."""
    question, i, j = np.nonzero(answers.shown.any(1))
    x, content = np.log1p(answers.covariates), answers.content
    arrays = (
        content[question, i],
        content[question, j],
        x[question, i] - x[question, j],
        np.ones(len(question)),
        *(counts[question, :, i, j] for counts in (answers.shown, answers.wins)),
    )
    return Rows(*map(jnp.asarray, arrays)), answers.number[question]


SWEEP = RealJudges

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
