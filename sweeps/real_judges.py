"""Three LLM judges on 80 open questions answered by five models, with the human majority.

Each judge compared every ordered pair of a question's five answers once. The same verdicts are
analysed twice: item by item, with a quality for every answer, and tied, with one quality for all
answers of a model. Tied fits leave the question out: its answers are corrected, and its models
ranked, by the verdicts on the *other* questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import estimators, identifiability, stats
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics, model
from jbt.kernel.fit import fit_map
from jbt.simulation.simulate import Experiment
from jbt.types import Comparisons, Design, Parameters, Prior, Rows, Verdicts

from ._shared import recorded
from ._shared.recorded import Recorded
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

ITEM_MODELS = ("naive", "bias_aware", "bias_known")
TIED_MODELS = ("naive", "bias_aware")
"""bias_known: item by item, with c from the tied fit to the other questions."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, declare.RecordedSweep):
    data_name: ClassVar[str] = "prd"


PRESETS = {"smoke": Settings(pools=8), "paper": Settings(), "full": Settings()}


def groups(s: Settings) -> list[declare.Group]:
    s.check_prior()
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for profile likelihoods, got {s.dtype}")
    verdicts = recorded.read(s, ("words",))
    if len(verdicts.pools) < 2:
        raise ValueError(f"needs two questions at least, got {len(verdicts.pools)}")
    judges, contents = {"judge": verdicts.judges}, {"content": verdicts.contents}
    return [
        declare.Group(
            "questions",
            experiment_of(verdicts, s.prior),
            {"judge": np.arange(len(verdicts.judges))},
            judges,
            n_items=verdicts.mask.shape[1],
            pools=len(verdicts.pools),
            axes={
                "agreement": {"model": list(ITEM_MODELS)},
                "agreement_tied": {"model_tied": list(TIED_MODELS)},
                "theta_tied": {"model_tied": list(TIED_MODELS)} | contents,
            },
            fits=60,
            data=verdicts.data() | {"index": np.arange(len(verdicts.pools))},
            pool_labels={"question": verdicts.pools},
        )
    ]


def experiment_of(verdicts: Recorded, prior: Prior) -> Experiment:
    """Experiment: one question and judge."""
    rows, question = merged(verdicts)

    def experiment(
        key: Any, condition: dict[str, Any], question_data: dict[str, Any]
    ) -> dict[str, Array]:
        judge = condition["judge"]
        answers = Comparisons(question_data["shown"][judge], question_data["wins"][judge])
        design = Design(
            jnp.log1p(question_data["covariates"]),
            None,
            question_data["mask"],
            len(question_data["mask"]),
        )
        elsewhere = jnp.asarray(question) != question_data["index"]
        elsewhere_rows = Rows(
            first=jnp.asarray(rows["first"]),
            second=jnp.asarray(rows["second"]),
            difference=jnp.asarray(rows["difference"]),
            ordered=jnp.ones(len(question)),
            shown=jnp.asarray(rows["shown"])[judge] * elsewhere,
            wins=jnp.asarray(rows["wins"])[judge] * elsewhere,
        )
        models = Design.of_contents(len(verdicts.contents), 1)
        by_item, evidence = analysis(answers, design, prior)
        tied, evidence_tied = analysis(elsewhere_rows, models, prior)
        known = estimators.with_bias(answers, design, prior, tied.c[1])
        theta = jnp.concatenate([by_item.theta, known.parameters.theta[None]])

        def agreement(quality: Float[Array, " N"]) -> Float[Array, ""]:
            return agreement_with(question_data["better"], quality[:, None] - quality)

        won = answers.wins + (answers.shown - answers.wins).T
        words = question_data["covariates"][:, 0]
        longer = (1 + jnp.sign(words[:, None] - words)) / 2
        labelled = question_data["better"] | question_data["better"].T
        return {
            **evidence,
            **{f"{name}_tied": value for name, value in evidence_tied.items()},
            "agreement_verdicts": agreement_with(question_data["better"], won - won.T),
            "agreement": jax.vmap(agreement)(theta),
            "agreement_tied": jax.vmap(agreement)(tied.theta[:, question_data["content"]]),
            "theta_tied": tied.theta,
            "humans_prefer_longer": agreement_with(question_data["better"], words[:, None] - words),
            "judge_prefers_longer": (labelled * longer * won).sum() / (labelled * won).sum(),
            "status_known": known.status,
        }

    return experiment


def analysis(
    verdicts: Verdicts, design: Design, prior: Prior
) -> tuple[Parameters, dict[str, Float[Array, ""]]]:
    """Naive and bias-aware MAP, stacked along a first axis, and the evidence of the verdicts about
    c."""
    variants = [model.variant(name, design) for name in ("naive", "bias_aware")]
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *variants)
    fits = jax.vmap(lambda variant: fit_map(verdicts, design, prior, variant))(both)
    c, kappa = fits.parameters.c[1, 0], fits.parameters.kappa[1]
    profile = identifiability.profile(verdicts, design, identifiability.grid_around(c))
    return fits.parameters, {
        "c": c,
        "kappa": kappa,
        "profile_range": profile.range(),
        "status": fits.status.max(),
        "status_profile": profile.status.max(),
    }


def agreement_with(better: Float[Array, "N N"], margin: Float[Array, "N N"]) -> Float[Array, ""]:
    """Share of the pairs [i, j] labelled `better` whose margin of i over j is positive; a margin of
    0, up to rounding, counts half. NaN without labels."""
    credit = jnp.where(margin > metrics.TIED, 1.0, jnp.where(margin >= -metrics.TIED, 0.5, 0.0))
    return jnp.where(better, credit, 0).sum() / better.sum()


def merged(verdicts: Recorded) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Ordered pairs of all questions as rows that compare contents: first, second [R], difference
    [R, 1], shown and wins [judges, R]; and the index of each row's question [R]."""
    question, i, j = np.nonzero(verdicts.shown.any(1))
    x = np.log1p(verdicts.covariates)
    rows = {
        "first": verdicts.content[question, i],
        "second": verdicts.content[question, j],
        "difference": x[question, i] - x[question, j],
        "shown": verdicts.shown[question, :, i, j].T,
        "wins": verdicts.wins[question, :, i, j].T,
    }
    return rows, question


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    for quantity in ("humans_prefer_longer", "judge_prefers_longer"):
        t.means(quantity, ds[quantity])
    for quantity in ("kappa", "c", "profile_range"):
        t.means(quantity, ds[quantity], model="bias_aware", design="item")
    for judge in ds["judge"].values:
        of_judge = ds.sel(judge=judge)
        t.add(
            "profile_range_max", float(of_judge["profile_range"].max()), judge=judge, design="item"
        )
        where = {"judge": judge, "model": "bias_aware", "design": "tied"}
        for quantity in ("kappa", "c"):
            without_one = of_judge[f"{quantity}_tied"].values
            estimate, *interval = stats.jackknife_interval(without_one)
            t.add(quantity, estimate, interval, len(without_one), **where)
        nats = float(of_judge["profile_range_tied"].mean())
        t.add("profile_range", nats, n_pools=of_judge.sizes["pool"] - 1, **where)
        for variant in TIED_MODELS:
            for content in ds["content"].values:
                without_one = of_judge["theta_tied"].sel(model_tied=variant, content=content).values
                estimate, *interval = stats.jackknife_interval(without_one)
                where = {"judge": judge, "model": variant, "content": content, "design": "tied"}
                t.add("theta", estimate, interval, len(without_one), **where)
    t.means("agreement", ds["agreement_verdicts"], model="verdicts")
    t.means("agreement", ds["agreement"], design="item")
    of_models = ds["agreement_tied"].rename(model_tied="model")
    t.means("agreement", of_models, design="tied")
    naive = ds["agreement"].sel(model="naive", drop=True)
    for variant in ITEM_MODELS[1:]:
        gain = ds["agreement"].sel(model=variant) - naive
        t.means("gain", gain, design="item")
    gain = of_models.sel(model="bias_aware") - of_models.sel(model="naive", drop=True)
    t.means("gain", gain, design="tied")


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    return table[table.quantity != "theta"]


AGREEMENTS = (
    ("", "verdicts", "verdicts"),
    ("item", "naive", "item by item"),
    ("item", "bias_aware", "item by item,\nprior's c"),
    ("item", "bias_known", "item by item,\nc of the tied"),
    ("tied", "naive", "tied"),
    ("tied", "bias_aware", "tied,\ncorrected"),
)
"""Design, model, label in the figure."""


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (coefficients, agreement) = plots.new_figure(2, width=6.4, height=4.6)
    judges = [str(judge) for judge in ds["judge"].values]
    names = {"c": "c, per e-fold of words", "kappa": "kappa"}
    labels = []
    for i, (quantity, design) in enumerate((q, d) for q in names for d in ("item", "tied")):
        rows = table[(table.quantity == quantity) & (table.design == design)]
        draw_judges(coefficients, rows, i, judges)
        how = {"item": "item by item", "tied": "tied"}[design]
        labels.append(f"{names[quantity]}\n{how}")
    coefficients.axhline(0, color="black", linewidth=0.8)
    coefficients.set_xticks(range(len(labels)), labels)
    coefficients.set_ylabel("logits (95 %)")
    coefficients.set_title("What the verdicts (tied) and the prior (item by item) say")
    rows = table[table.quantity == "agreement"]
    for i, (design, variant, _) in enumerate(AGREEMENTS):
        bars = rows[(rows.design.fillna("") == design) & (rows.model == variant)]
        draw_judges(agreement, bars, i, judges)
    agreement.set_xticks(range(len(AGREEMENTS)), [label for *_, label in AGREEMENTS])
    agreement.set_ylabel("agreement with the human majority (95 %)")
    agreement.set_title(f"Agreement over {ds.sizes['pool']} questions")
    for ax in (coefficients, agreement):
        ax.tick_params(axis="x", labelsize=8)
    agreement.legend(fontsize=8)
    return fig


def draw_judges(ax: Axes, rows: pd.DataFrame, at: float, judges: list[str]) -> Axes:
    """Draw a point for each judge, side by side, with legend entries at the first place."""
    for j, judge in enumerate(judges):
        place = [at + 0.15 * (j - (len(judges) - 1) / 2)]
        colour, label = plots.CYCLE[j % len(plots.CYCLE)], "_" if at else judge
        plots.points(ax, rows[rows.judge == judge], place, colour=colour, label=label)
    return ax


SWEEP = declare.legacy(
    "real_judges",
    "Biases of three real judges, item by item and tied, compared with human labels.",
    PRESETS,
    groups,
    ("judge", "design", "model", "content"),
    table,
    figure,
    units={
        "c": "logits per e-fold of 1 + words",
        "c_tied": "logits per e-fold of 1 + words (without the question)",
        "kappa_tied": "logits in favour of the first shown (without the question)",
        "profile_range_tied": "nats (without the question)",
    },
    headline=headline,
    index="judge",
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
