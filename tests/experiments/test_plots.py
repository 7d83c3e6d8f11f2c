"""What a panel draws, and what a figure says of its settings."""

import dataclasses

import pandas as pd

from jbt.experiments import plots
from jbt.experiments.declare import Sweep

ROWS = pd.DataFrame(
    {
        "judge": ["b", "a", "a"],
        "rho": [0.0, 0.0, 0.5],
        "estimate": [1.0, 2.0, 3.0],
        "ci_low": [0.5, 1.5, 2.5],
        "ci_high": [1.5, 2.5, 3.5],
        "paper": [float("nan"), float("nan"), 2.75],
    }
)
LABELS = ("x", "y", "title")


def drawn(panel):
    """The lines of a panel: label -> points."""
    _, ax = plots.new_figure()
    panel.draw(ax, ROWS)
    return ax, [(line.get_label(), line.get_xydata().tolist()) for line in ax.get_lines()]


def test_a_line_and_the_number_of_the_paper_beside_it():
    lines = [plots.Line({"judge": "a"}, "ours", "blue"), plots.Line({"judge": "c"}, "none", "red")]
    ax, found = drawn(plots.Panel("rho", {}, lines, LABELS))
    assert found[0] == ("ours", [[0, 2], [0.5, 3]])
    assert found[1][1][1] == [0.5, 2.75]
    assert ax.get_legend_handles_labels()[1] == ["ours", "the paper"]


def test_named_places_stand_from_the_top_down():
    lines = [plots.Line({}, "ours", "blue")]
    ax, found = drawn(plots.Panel("judge", {"rho": 0}, lines, LABELS, names=["a", "b"]))
    assert found[0][1] == [[1, 1], [2, 0]]
    assert ax.yaxis_inverted()


def test_rules_have_a_line_of_their_own():
    lines = plots.lines_of((f"rule_{i}" for i in range(20)), budget=60)
    assert len({(line.colour, *line.style.values()) for line in lines}) == 20
    assert lines[3].where == {"rule": "rule_3", "budget": 60}


def test_a_figure_of_other_settings_says_that_titles_are_of_the_defaults():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Titled(Sweep):
        """A sweep."""

        name = "titled"
        columns = ()
        bias: float = 1.0

        def panels(self, table):
            return [plots.Panel("rho", {}, [], ("", "", "Bias 1 hurts"))]

    def note(**changes):
        return Titled(**changes).figure(ROWS).get_suptitle()

    assert note() == note(pools=7, seed=3) == ""
    assert "these differ" in note(bias=2.0)
