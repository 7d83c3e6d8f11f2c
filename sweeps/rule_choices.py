"""What the paper leaves open in its acquisition rules, each choice with its possible answers.

The paper says which pair Thompson and LUCB ask, but not in which order it is shown, nor what is
asked instead of a pair whose cached verdict is known; it gives no width of LUCB's bounds. It scores
Eq. acq in the order shown, and names the alternative. Does the ranking of the rules depend on these
choices? Tested with the judge of `sweeps.acquisition`, and with one that has the strongest position
bias the paper reports, which a score of ordered pairs can exploit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import xarray as xr

from jbt.acquisition.rules import families
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.experiments.table import Table
from jbt.simulation import judges

from ._shared import active, rule_comparison
from ._shared.active import REFERENCE
from ._shared.judge import Case, named_case, number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASELINES, CHOICES = (families()[name] for name in ("baselines", "choices"))
STRONG = "strong_position"


@dataclass(frozen=True, kw_only=True)
class Settings(active.Settings):
    pools: int = 500
    rule: tuple[str, ...] = (REFERENCE, *BASELINES, *CHOICES)
    n_seeds: int = 2
    strong_position: float = judges.PUBLISHED["deepseek_chat"].kappa_hat
    """Position bias of the second judge, otherwise the same (logits in favour of the first shown);
    default the paper's estimate for DeepSeek-chat, the strongest it reports."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""


PRESETS = {
    "smoke": Settings(pools=16, rule=(REFERENCE, "lucb_random_fallback"), budget=(16, 40)),
    "paper": Settings(pools=10, n_seeds=6, n_samples=1500, membership="counted"),
    "full": Settings(),
}


def groups(s: Settings) -> list[declare.Group]:
    return active.groups(s, lambda rule: cases(s), "frozen", [s.refit_every])


def cases(s: Settings) -> list[Case]:
    """The settings' judge, and the same with the strong position bias."""
    one = named_case(s, number(s, "discrimination"))
    stronger = replace(one.judge, position=s.strong_position)
    return [one, replace(one, name=STRONG, judge=stronger)]


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    recall = rule_comparison.by_seed(ds["recall"], s.n_seeds).sel(budget=list(s.budget))
    t.means("recall", recall)
    for judge in dict.fromkeys(recall["judge"].values):
        compare(rule_comparison.select(recall, judge=judge), t)
    share = rule_comparison.by_seed(ds["allocation"].sel(distance=0), s.n_seeds)
    t.means("share_at_boundary", share.rename(table_budget="budget"))


def compare(recall: xr.DataArray, t: Table) -> None:
    """Compare each rule with the reference, for one judge. A choice is tested among the paper's
    baselines, in place of the one it is a reading of."""
    base = rule_comparison.select(recall, rule=REFERENCE).isel(condition=0).reset_coords(drop=True)
    rules = [rule for rule in recall["rule"].values if rule != REFERENCE]
    delta = rule_comparison.select(recall, rule=rules) - base
    t.means("delta", delta)
    for rule in rules:
        family = family_with(rule)
        family_delta = rule_comparison.select(delta, rule=family)
        for budget in delta["budget"].values:
            whole = len(family) == family_delta.sizes["condition"]
            rule_comparison.test(family_delta.sel(budget=budget), [rule], whole, t)


def family_with(rule: str) -> tuple[str, ...]:
    """Rules that a rule is tested with (Holm): the paper's baselines, with a choice in place of the
    one it is a reading of; a reading of the reference is tested alone."""
    if rule in BASELINES:
        return BASELINES
    readings_of = [base for base in BASELINES if rule.startswith(f"{base}_")]
    return (
        tuple(rule if base in readings_of else base for base in BASELINES)
        if readings_of
        else (rule,)
    )


CURVES = {
    "thompson": ("orange", "-"),
    "thompson_random_fallback": ("orange", "--"),
    "lucb": ("green", "-"),
    "lucb_random_fallback": ("green", "--"),
    "lucb_inside_first_random_fallback": ("green", ":"),
    "top_k_aware_either_order": ("blue", "--"),
    "random": ("black", "-"),
}
"""Rule -> colour and line; readings have the colour of their rule."""


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.new_figure(2, width=7.0, height=6.0)
    draw_choices(axes[0], table, s)
    draw_budgets(axes[1], table, s)
    return fig


def draw_choices(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw each rule's difference from the reference at the budget of the tests, for both
    judges."""
    budget = rule_comparison.budget_of_tests(s)
    rows = table[(table.quantity == "delta") & (table.budget == budget)]
    rules = [rule for rule in s.rule if rule != REFERENCE]
    series = []
    for case, colour in zip(cases(s), ("blue", "orange"), strict=True):
        position = float(case.judge.position)
        judge_rows = (
            rows[rows.judge == case.name].drop_duplicates("rule").set_index("rule").loc[rules]
        )
        numbers = judge_rows[["estimate", "ci_low", "ci_high"]].to_numpy().T
        series.append((f"position bias {position:g}", colour, *numbers))
    plots.forest(ax, rules, series)
    if (paper := rows.dropna(subset="paper")).size:
        at = [rules.index(rule) for rule in paper.rule]
        ax.plot(paper.paper, at, "x", color="black", label="paper (its Llama, 10 pools)")
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(f"recall minus that of {REFERENCE}, B = {budget} (95 %)")
    ax.set_title(f"What the paper leaves open, {s.pools:,} pools")
    ax.legend(fontsize=8)
    return ax


def draw_budgets(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw differences from the reference against the budget, for the first judge."""
    rows = table[(table.quantity == "delta") & (table.judge == cases(s)[0].name)]
    rows = rows.drop_duplicates(["rule", "budget"])
    for rule, (colour, line) in CURVES.items():
        if rule in s.rule:
            line_rows = rows[rows.rule == rule]
            plots.line(
                ax,
                line_rows,
                "budget",
                colour=colour,
                label=rule,
                shade=0.12,
                ls=line,
                marker="o",
                ms=3,
            )
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xlabel("budget, verdicts")
    ax.set_ylabel(f"recall minus that of {REFERENCE} (95 % bands)")
    ax.set_title(f"Position bias {s.position:g}")
    plots.label_ends(ax)
    return ax


SWEEP = declare.legacy(
    "rule_choices",
    "What the paper leaves open in its acquisition rules: order, fallback, width.",
    PRESETS,
    groups,
    active.COLUMNS,
    table,
    figure,
    units=active.UNITS,
    headline=rule_comparison.headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
