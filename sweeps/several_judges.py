"""Trusted labels as one more judge: how many are needed to identify the LLM judges' length biases?

Two sets of recorded verdicts: three judges on 80 questions that five models answer, with the
majority of humans where there is one, and six judges on the 419 pairs of LLMBar, with gold labels.
Every answer has its own quality, so that the judges' verdicts alone leave c to the prior.

Some labels of the training pools are given as verdicts of a judge without bias (`own.panels`). A
pool is then ranked by the judges' verdicts on it, corrected by the coefficients learned elsewhere:
no label of a pool, or of a pool tested together with it, is ever given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import model
from jbt.kernel.fit import fit_map
from jbt.types import (
    Comparisons,
    Design,
    Panel,
    Parameters,
    Prior,
    Status,
    check_count,
    check_positive,
)

from ._shared.labels import ALL, DATASETS, MODELS, NOBODY, Condition, Recorded, Settings, stacked
from .real_judges import agreement_with

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table


PRESETS = {
    "smoke": Settings(pools=24, n_anchors=(0, 30), discrimination=(1.0,), folds=2, n_seeds=1),
    "paper": Settings(n_seeds=1),
    "full": Settings(),
}


def groups(s: Settings) -> list[declare.Group]:
    declare.check_increasing("n_anchors", s.n_anchors, least=0, needed=0.0)
    s.check_prior()
    check_positive("discrimination", s.discrimination)
    check_count("folds", s.folds, least=2)
    check_count("n_seeds", s.n_seeds)
    if s.dtype != "float64":
        raise ValueError(f"dtype must be float64 for null directions, got {s.dtype}")
    sets = [Recorded.read(s, name) for name in DATASETS]
    conditions = list(dict.fromkeys(c for data_set in sets for c in data_set.conditions(s)))
    data = stacked([data_set.learned(s, conditions) for data_set in sets])
    return [
        declare.Group(
            "pools",
            lambda key, condition, pool: experiment(condition["index"], pool, s.prior),
            {"index": np.arange(len(conditions))},
            {name: [getattr(c, name) for c in conditions] for name in Condition._fields},
            n_items=data["mask"].shape[1],
            pools=len(data["mask"]),
            fits=s.n_seeds,
            data=data,
            pool_labels={
                "dataset": [data_set.name for data_set in sets for _ in data_set.pools],
                "question": [pool for data_set in sets for pool in data_set.pools],
            },
        )
    ]


def experiment(index: Any, pool: dict[str, Any], prior: Prior) -> dict[str, Array]:
    """Rank one pool by the verdicts on it and the coefficients learned elsewhere. NaN without
    labels, or for judges of another set."""
    counted, here = pool["counted"][index], pool["here"][index]
    panel = Panel(
        Comparisons(pool["shown"] * counted, pool["wins"] * counted),
        jnp.ones_like(counted),
        jnp.eye(len(counted), dtype=counted.dtype),
    )
    x = pool["covariates"]
    design = Design(x, None, pool["mask"], len(x))
    fixed = model.variant("naive", design, len(counted))

    def once(
        c: Float[Array, " J"], kappa: Float[Array, " J"], slope: Float[Array, ""]
    ) -> tuple[Array, Array]:
        # The prior of quality is about its line in the covariate.
        known = Parameters(jnp.zeros_like(x[:, 0]), (c + slope)[None], kappa)
        fit = fit_map(panel, design, prior, fixed, start=known)
        quality = fit.parameters.theta + slope * x[:, 0]
        return agreement_with(pool["better"], quality[:, None] - quality), fit.status

    learned = [pool[name][index] for name in ("c", "kappa", "slope")]
    agreement, status = jax.vmap(once)(*learned)
    c = (learned[0] * counted).sum(1) / counted.sum()  # NaN without judges

    def defined(value: Array) -> Array:
        return jnp.where(here, value, jnp.nan)

    return {
        "agreement": defined(agreement.mean()),
        "c_hat": defined(c.mean()),
        "slope": defined(learned[2].mean()),
        "status": jnp.where(here, status.max(), Status.CONVERGED),
    }


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    raw = ds.load()
    for name in DATASETS:
        part = raw.isel(pool=np.flatnonzero(raw["dataset"] == name))
        for at in range(part.sizes["condition"]):
            one = part.isel(condition=at)
            if np.isnan(one["agreement"]).all():
                continue
            where, setting = (
                {"dataset": name},
                Condition(*(one[f].item() for f in Condition._fields)),
            )
            t.means("agreement", one["agreement"], **where)
            if setting.model == "joint":
                t.add("slope", float(one["slope"].mean()), **where, **setting._asdict())
            if setting.judge == NOBODY:
                continue
            if setting.model != "naive":
                naive = _condition(part, Condition(setting.judge, "naive", 0, s.discrimination[0]))
                t.means("benefit", one["agreement"] - naive["agreement"].values, **where)
                t.add("c_hat", float(one["c_hat"].mean()), **where, **setting._asdict())
            if setting.model == "joint":
                alone = _condition(part, setting._replace(judge=NOBODY))
                gain = one["agreement"] - alone["agreement"].values
                t.means("gain_over_no_judge", gain, **where)


def _condition(part: xr.Dataset, condition: Condition) -> xr.Dataset:
    chosen = np.all([part[name] == v for name, v in condition._asdict().items()], axis=0)
    return part.isel(condition=int(np.flatnonzero(chosen)[0]))


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    shown = table.quantity.isin(["agreement", "benefit", "gain_over_no_judge", "c_hat"])
    return table[(table.judge == ALL) & shown]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.facets(len(DATASETS), width=6.0)
    rows = table[(table.quantity == "agreement") & table.judge.isin([ALL, NOBODY])]
    places = {n: i for i, n in enumerate(s.n_anchors)}
    first = s.discrimination[0]
    colours: dict[str, str] = dict(zip(MODELS, ("orange", "blue", "black", "green"), strict=True))
    for ax, (name, what) in zip(axes, DATASETS.items(), strict=True):
        data_rows = rows[rows.dataset == name]
        for (judge, variant, graded), line in data_rows.groupby(
            ["judge", "model", "discrimination"], sort=False
        ):
            colour = colours[str(variant)]
            label = str(variant)
            if judge == NOBODY:
                if graded != first:
                    continue
                colour, label = "purple", "length alone, no judge"
            elif variant == "joint" and len(s.discrimination) > 1:
                label += f", labels of discrimination {graded:g}"
            at = np.array([places[int(n)] for n in line.n_anchors], float)
            if variant in ("naive", "bias_aware"):
                level = float(line.estimate.iloc[0])
                ax.axhline(level, color=plots.COLOURS[colour], ls="--", label=label)
                continue
            shift = 0.08 * (MODELS.index(str(variant)) - 2) + 0.08 * (graded != first)
            shift -= 0.08 * (judge == NOBODY)
            marker = "o" if graded == first else "s"
            plots.points(ax, line, at + shift, colour=colour, label=label, fmt=marker)
        ax.set_xticks(list(places.values()), [str(n) for n in places])
        ax.set_xlabel("labels given (count)")
        ax.set_ylabel("agreement with labels not given (95 %)")
        ax.set_title(what)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return fig


SWEEP = declare.legacy(
    "several_judges",
    "How many trusted labels identify several LLM judges' length biases, on two recorded sets.",
    PRESETS,
    groups,
    ("dataset", "judge", "model", "n_anchors", "discrimination"),
    table,
    figure,
    units={
        "n_anchors": "count",
        "discrimination": "1 (of the labels)",
        "c_hat": "logits per standard deviation of log(1 + words), mean over the judges",
        "slope": "logits of quality per standard deviation of log(1 + words)",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
