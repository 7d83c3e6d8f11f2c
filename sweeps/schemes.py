"""What tools do with a pair: one order or both, a flip as a tie, a majority of three.

A judge answers anew each time. A scheme says how often and in which order it sees a pair, and what
its verdicts count as; all schemes spend the same number of verdicts, on pairs drawn evenly. Then
wins are counted (naive Bradley-Terry), or position, or length too, is in the model. What is asked
is the recall of the top k, and what stays in the estimates: their slopes on quality, on length and
on the place in the list, which are drawn independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jbt import estimators
from jbt.experiments.declare import Group, Sweep, cases, check_increasing
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Judge

from ._shared.scenario import Scenario


class Scheme(NamedTuple):
    """How a pair is compared once."""

    order: str = "random"
    """The pair is shown in the order of the list, in one drawn at random, or in both; "mixed": each
    of the verdicts of a majority in an order of its own, drawn at random."""
    counted: str = "as told"
    """What verdicts count as: as told; a contradiction as a tie, or dropped; the majority."""
    model: str = "naive"
    """What is in the model: qualities alone (naive), position, or length too (bias_aware)."""

    @property
    def verdicts(self) -> int:
        """Verdicts of a comparison (count)."""
        return 3 if self.counted == "majority" else 1 + (self.order == "both")


SCHEMES = {
    "list order": Scheme("list"),
    "random order": Scheme(),
    "flip is a tie": Scheme("both", "tie"),
    "flip is dropped": Scheme("both", "dropped"),
    "majority of three": Scheme(counted="majority"),
    "majority, orders mixed": Scheme("mixed", "majority"),
    "random order, position": Scheme(model="position"),
    "both orders, position": Scheme("both", model="position"),
    "random order, length": Scheme(model="bias_aware"),
    "both orders, length": Scheme("both", model="bias_aware"),
}
"""After the comma: the bias in the model; that of position is beside that of length."""
MODELS: dict[str, Any] = estimators.ESTIMATORS | {"position": partial(estimators.with_bias, c=0.0)}
"""`Scheme.model` -> its estimator."""
JUDGES = {
    "fair": Judge.of(0.0),
    "prefers the first": Judge.of(0.0, position=1.5),
    "prefers length": Judge.of(1.5),
    "prefers both": Judge.of(1.5, position=1.5),
}
COLOURS = ("blue", "green", "orange", "vermilion")
"""Of the judges in the figure."""
QUANTITIES = ("recall", "quality", "length", "place")


class Cell(NamedTuple):
    """A judge, and the verdicts that are spent."""

    judge: str
    budget: int


@dataclass(frozen=True, kw_only=True)
class Schemes(Scenario, Sweep):
    """Verdict schemes that tools ship."""

    name = "schemes"
    columns = ("judge", "scheme", "budget")
    presets = {
        "smoke": {"pools": 8, "n_items": 12, "budget": (120,)},
        "paper": {"pools": 30},
    }
    units = {
        "scheme": "index of the scheme",
        "quality": "logits per logit of quality",
        "length": "logits from x = 0 to x = 1",
        "place": "logits from the first of the list to the last",
    }
    panel_size = {"width": 5.6, "height": 4.6}

    pools: int = 1000
    budget: Annotated[tuple[int, ...], partial(check_increasing, least=1)] = (
        *(240, 480, 960, 1920),
    )
    """Verdicts (count), increasing."""

    def check(self):
        super().check()
        self.check_pools()

    def groups(self):
        cells = [Cell(judge, budget) for judge in JUDGES for budget in self.budget]
        conditions = cases(cells, sd=lambda _: self.sd, rho=lambda _: 0.0)
        conditions["conditions"] |= judges.conditions([JUDGES[cell.judge] for cell in cells])
        return [
            Group(
                "schemes",
                self.experiment,
                **conditions,
                n_items=self.n_items,
                pools=self.pools,
                axes={name: {"scheme": range(len(SCHEMES))} for name in QUANTITIES},
                fits=len(SCHEMES),
            )
        ]

    def experiment(self, key, condition):
        """One pool under all schemes."""
        pool = self.draw(key, condition, "binary")
        chance = jax.nn.sigmoid(judges.verdict_logits(pool, judges.of_condition(condition)))
        listed = jnp.triu(pairs.every_pair(pool), 1)
        x = pool.design.covariates[:, 0]
        place = jnp.linspace(0, 1, self.n_items, dtype=x.dtype)
        known = jnp.stack([pool.quality, x, place])
        known = known - known.mean(1, keepdims=True)
        most = -(-self.budget[-1] // (self.n_items * (self.n_items - 1) // 2))
        found, statuses = [], []
        for name, scheme in SCHEMES.items():
            of_scheme = stream(key, name)
            n = jnp.floor(condition["budget"] / scheme.verdicts)
            compared = pairs.spread_evenly(jax.random.fold_in(of_scheme, 0), listed, n)
            counts = told(jax.random.fold_in(of_scheme, 1), scheme, chance, compared, most)
            fit = MODELS[scheme.model](counts, pool.design, self.prior)
            theta = fit.parameters.theta
            recall = metrics.top_k_recall(theta, pool.quality, self.k)
            slopes = known @ theta / (known**2).sum(1)
            found.append(jnp.append(recall, slopes))
            statuses.append(fit.status)
        of_quantities = dict(zip(QUANTITIES, jnp.stack(found, axis=1), strict=True))
        return {**of_quantities, "status": jnp.stack(statuses).max()}

    def table(self, ds, t):
        ds = ds.assign_coords(scheme=[*SCHEMES]).transpose("scheme", ...)
        for quantity in QUANTITIES:
            t.means(quantity, ds[quantity])

    def answer(self, table):
        largest = self.budget[-1]
        recall = where(table, quantity="recall", budget=largest)
        worst = recall.groupby("scheme").estimate.min()
        return (
            f"Whatever the judge prefers, '{worst.idxmax()}' finds at least {worst.max():.3f} of "
            f"the top {self.k} with {largest} verdicts, '{worst.idxmin()}' {worst.min():.3f}"
        )

    def panels(self, table):
        budget = self.budget[len(self.budget) // 2]
        lines = [
            Line({"judge": judge}, judge, colour, {"fmt": "o"}, joined=False, shift=0.1 * i - 0.15)
            for i, (judge, colour) in enumerate(zip(JUDGES, COLOURS, strict=True))
        ]

        def panel(quantity: str, axis: str, title: str, **more: Any) -> Panel:
            return Panel(
                "scheme",
                {"quantity": quantity, "budget": budget},
                lines,
                ("", f"{axis} (bars: 95 %)", title),
                names=[*SCHEMES],
                name_style={"rotation": 40, "ha": "right", "fontsize": 8},
                legend=8,
                **more,
            )

        recall = f"recall of the top {self.k}, {budget} verdicts"
        length = "logits for length in the estimates"
        return [
            panel(
                "recall", recall, "Only a model of length helps against\na preference for length"
            ),
            panel(
                "length",
                length,
                "Without a model of length, its effect\nstays in the estimates",
                level=0,
            ),
        ]


SWEEP = Schemes


def told(
    key: Key[Array, ""],
    scheme: Scheme,
    chance: Float[Array, "N N"],
    compared: Float[Array, "N N"],
    most: int,
) -> Comparisons:
    """What a scheme makes of the verdicts.

    Args:
      key: PRNG key, consumed.
      chance: [N, N] P(the first shown wins), of the row shown first.
      compared: [N, N] how often each pair is compared, above the diagonal.
      most: largest number in `compared`.
    """
    if scheme.order == "mixed":  # whichever item is shown first, at random
        chance = (chance + 1 - chance.T) / 2
    if scheme.counted == "majority":
        chance = chance**2 * (3 - 2 * chance)
    lot, of_row, of_column = jax.random.uniform(key, (3, most, *chance.shape), chance.dtype)
    each = jnp.arange(most)[:, None, None] < compared
    row_wins = of_row < chance  # shown first
    column_wins = of_column < chance.T  # shown first

    def counts(listed: Array, turned: Array) -> Comparisons:
        shown = [each & listed, each & turned]
        wins = [shown[0] & row_wins, shown[1] & column_wins]
        sums = [(v[0].sum(0) + v[1].sum(0).T).astype(chance.dtype) for v in (shown, wins)]
        return Comparisons(*sums)

    if scheme.order != "both":
        listed = lot < (1.0 if scheme.order == "list" else 0.5)
        return counts(listed, ~listed)
    if scheme.counted == "as told":
        return counts(each, each)
    flips = each & (row_wins == column_wins)
    agreed = counts(~flips, jnp.zeros_like(flips))
    if scheme.counted == "dropped":
        return agreed
    ties = flips.sum(0).astype(chance.dtype)
    return Comparisons(agreed.shown + ties, agreed.wins + ties / 2)


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
