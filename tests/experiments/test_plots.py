"""Labels at the ends of lines, and what a figure says of its settings."""

import dataclasses

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from jbt.experiments import plots
from jbt.experiments.declare import Sweep

EMPTY = pd.DataFrame({"estimate": []})


def labels_of(ax):
    return {text.get_text(): text for text in ax.texts}


def test_lines_are_named_where_they_end_in_their_colours():
    _, ax = plots.new_figure()
    plots.band(ax, [0, 1], [0, 1], [0, 0.9], [0, 1.1], colour="blue", label="rising")
    plots.band(ax, [0, 1], [1, 0], [1, 0], [1, 0], colour="orange", label="falling")
    ax.axhline(0.3, color="black")
    plots.label_ends(ax)
    found = labels_of(ax)
    assert set(found) == {"rising", "falling"}
    assert to_hex(found["rising"].get_color()).upper() == plots.COLOURS["blue"]
    low, high = ax.get_ylim()
    for name, y in (("rising", 1), ("falling", 0)):
        assert found[name].xyann == pytest.approx((1.03, (y - low) / (high - low)))


def test_a_figure_of_other_settings_says_that_titles_are_of_the_defaults():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Titled(Sweep):
        """A sweep."""

        name = "titled"
        columns = ()
        bias: float = 1.0

        def panels(self, table):
            return [plots.Panel(labels=("", "", "Bias 1 hurts"), after=lambda ax: None)]

    def note(**changes):
        return Titled(**changes).figure(EMPTY).get_suptitle()

    assert note() == note(pools=7, seed=3) == ""
    assert "these differ" in note(bias=2.0)
